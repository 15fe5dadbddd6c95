# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Fabric manager's log and unit, and the fabric state of GPUs, in the forms that people record."""

from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_fabric as fabric
from hypothesis import given
from hypothesis import strategies as st

DIFFERS = "nv-fabricmanager[1]: fabric manager NVIDIA GPU driver interface version %s %s driver version %s. Please update with matching NVIDIA driver package."
STARTED = "systemd[1]: Started nvidia-fabricmanager.service - NVIDIA fabric manager service."


@pytest.mark.parametrize("text,reason,manager,driver", [
    (DIFFERS % ("550.127.05", "don't match with", "550.120"), "version_differs", "550.127.05", "550.120"),
    (DIFFERS % ("550.90.07", "don\u2019t match with", "550.107.02"), "version_differs", "550.90.07", "550.107.02"),
    (DIFFERS % ("550.127.05", "doesn't match with the", "550.120"), "version_differs", "550.127.05", "550.120"),
    # systemctl status cuts long lines
    ("nv-fabricmanager[27360]: fabric manager NVIDIA GPU driver interface version 570.211.01 don't match...", "version_differs", "570.211.01", None),
    ("fabric manager version is incompatible with NVSwitch driver. Please update with matching NVIDIA driver package", "version_differs", None, None),
    ("x failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\nnvidia-fabricmanager.service: Failed with result 'exit-code'.", "nothing_to_do",
     None, None),
    ("request to query NVSwitch device information from NVSwitch driver failed with error:Invalid state", "no_devices", None, None),
    (DIFFERS % ("530.30.02", "don't match with", "530.41.03") + "\n" + STARTED, "started", "530.30.02", "530.41.03"),
    (STARTED + "\n" + DIFFERS % ("530.30.02", "don't match with", "530.41.03"), "version_differs", "530.30.02", "530.41.03"),
    ("[Nov 05 2024 13:55:26] [INFO] [tid 1] Fabric Manager version 550.90.07 is running with the following configuration options", None, "550.90.07", None),
    (STARTED + "\nsystemd[1]: nvidia-fabricmanager.service: Main process exited, code=killed, status=9/KILL", "failed", None, None),
    ("Stopped nvidia-fabricmanager.service - NVIDIA fabric manager service.", "stopped", None, None),
    ("-- No entries --", None, None, None), ("", None, None, None)])
def test_the_log(text, reason, manager, driver):
    assert fabric.parse_fabric_manager_log(text) == ({"reason": reason, "manager": manager, "driver": driver}, [])


def test_the_program_says_its_version():
    assert fabric.parse_fabric_manager_version("\n\n\tFabric Manager version is : 535.161.08\n\n").value == "535.161.08"
    assert fabric.parse_fabric_manager_version("no\n").problems


STATUS = """\u25cf nvidia-fabricmanager.service - NVIDIA fabric manager service
     Loaded: loaded (/lib/systemd/system/nvidia-fabricmanager.service; enabled; vendor preset: enabled)
     Active: active (running) since Mon 2024-11-04 10:00:00 UTC; 1 day ago
"""


@pytest.mark.parametrize("text,expected", [
    (STATUS, {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled"}),
    (STATUS.replace("active (running)", "failed (Result: exit-code)"), {"load": "loaded", "active": "failed", "enabled": "enabled", "result": "exit-code"}),
    (STATUS.replace("active (running) since", "inactive (dead)\n#").replace("enabled; vendor", "disabled; vendor"),
     {"load": "loaded", "active": "inactive", "sub": "dead", "enabled": "disabled"}),
    ("Unit nvidia-fabricmanager.service could not be found.\n", {"load": "not-found"}),
    ("inactive\n", {"active": "inactive"}), ("enabled\n", {"enabled": "enabled"}), ("active\n", {"active": "active"}),
    ("LoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nResult=success\n",
     {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled", "result": "success"}),
    ("System has not been booted with systemd as init system (PID 1). Can't operate.\n", {})])
def test_the_unit(text, expected):
    assert fabric.parse_unit_status(text) == (dict(dict.fromkeys(("load", "active", "sub", "enabled", "result")), **expected), [])


def test_no_unit_at_all():
    assert fabric.parse_unit_status("hello\n").problems


def row(index, state, status, name=None):
    return {"index": index, "name": name, "state": state, "status": status}


@pytest.mark.parametrize("text,rows", [
    ("0, NVIDIA H200, Completed, Success\n", [row(0, "Completed", "Success", "NVIDIA H200")]),
    ("index, name, fabric.state, fabric.status\n3, NVIDIA B200, In Progress, [N/A]\n", [row(3, "In Progress", "N/A", "NVIDIA B200")]),
    ("Completed\nCompleted\n", [row(0, "Completed", None), row(1, "Completed", None)]),
    ("0, GPU-1182579c-5a69-8e8e-cb7a-e6e0b65d47c7, 00000000:17:00.0, Not Started, N/A\n", [row(0, "Not Started", "N/A")]),
    ("0, [Not Supported], [Not Supported]\n", [row(0, "Not Supported", "Not Supported")]),
    ("No devices were found\n", []), ("", []),
    ("    Fabric\n        State                             : Completed\n        Status                            : Insufficient Resources\n--\n"
     "    Fabric\n        State                             : In Progress\n        Status                            : N/A\n",
     [row(0, "Completed", "Insufficient Resources"), row(1, "In Progress", "N/A")]),
    ("GPU 00000000:17:00.0\n    Product Name                          : NVIDIA H100 80GB HBM3\n    Fabric\n        State                            "
     " : Completed\n"
     "        Status                            : Success\n        CliqueId                          : 0\n        Health\n            Status : bad\n",
     [row(0, "Completed", "Success", "NVIDIA H100 80GB HBM3")])])
def test_fabric_states(text, rows):
    assert fabric.parse_fabric_states(text) == (rows, [])


def test_what_is_no_state():
    assert fabric.parse_fabric_states('Field "fabric.state" is not a valid field to query.\n', 2) == (None, [])
    assert fabric.parse_fabric_states("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9) == (None, [])
    assert fabric.parse_fabric_states("Fabric\n").problems == ["1 GPUs without a fabric state"]


@given(st.lists(st.tuples(st.sampled_from(sorted(set(fabric._STATES.values()))), st.sampled_from(["Success", "[N/A]", "Insufficient Resources",
                                                                                                  "Unknown Error"])),
                max_size=8))
def test_every_gpu_gets_its_row(pairs):
    text = "".join("%d, NVIDIA H100 80GB HBM3, %s, %s\n" % (index, *pair) for index, pair in enumerate(pairs))
    parsed = fabric.parse_fabric_states(text)
    assert parsed.problems == [] and [(one["index"], one["state"], one["status"]) for one in parsed.value] == [
        (index, state, status.strip("[]")) for index, (state, status) in enumerate(pairs)]


def test_switches_configuration_and_the_kernels_refusal():
    assert fabric.parse_nvswitch_nodes("/dev/nvidia-nvswitch0\n/dev/nvidia-nvswitch1\n/dev/nvidia-nvswitchctl\n").value == ["nvidia-nvswitch0",
                                                                                                                            "nvidia-nvswitch1"]
    assert fabric.parse_nvswitch_nodes("0000:05:00.0\n").value == ["0000:05:00.0"]
    assert fabric.parse_nvswitch_nodes("ls: cannot access '/dev/nvidia-nvswitch*': No such file or directory\n", 2).value == []
    assert fabric.parse_fabric_config("# FABRIC_MODE=2\nFABRIC_MODE=1\n").value == {"fabric_mode": 1}
    assert fabric.parse_fabric_config("").value == {"fabric_mode": None}
    assert fabric.parse_nvswitch_mismatch("[ 1.0] nvidia-nvswitch: Version mismatch, kernel version 450.80.02 user version 450.51.06\n").value == {
        "kernel": "450.80.02", "user": "450.51.06"}
    assert fabric.parse_nvswitch_mismatch("nothing\n") == (None, [])
