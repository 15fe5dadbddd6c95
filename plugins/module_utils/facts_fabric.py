# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVLink fabric's section of the state."""

from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils import capture, parse_fabric
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Command, File, Function

UNIT = "nvidia-fabricmanager"


def _nvswitch_nodes(root):
    return capture.lines(capture.find(root, "/proc/driver/nvidia-nvswitch/devices/*", "/dev/nvidia-nvswitch[0-9]*"))


PROBES = {
    "nvswitch_nodes": ("local", Function(_nvswitch_nodes, "ls /proc/driver/nvidia-nvswitch/devices /dev/nvidia-nvswitch*")),
    "fabric_manager_log": ("gpu", Command(("journalctl", "-b", "-u", UNIT, "-n", "400", "--no-pager", "-o", "short-iso"))),
    "fabric_manager_status": ("gpu", Command(("systemctl", "status", "--no-pager", "--full", "-n", "0", UNIT))),
    "fabric_manager_version": ("gpu", Command(("nv-fabricmanager", "--version"))),
    "fabric_manager_config": ("gpu", File("/usr/share/nvidia/nvswitch/fabricmanager.cfg")),
    "nvidia_smi_fabric": ("gpu", Command(("nvidia-smi", "--query-gpu=index,name,fabric.state,fabric.status", "--format=csv,noheader"))),
}


def section(reader):
    """The part of the state that these probes tell: `fabric`.

    log: {reason, manager, driver} of fabric manager's last start (parse_fabric). service: {load, active, sub, enabled, result} of
    its unit. manager: the version of the program itself. mode: FABRIC_MODE of its configuration. gpus: rows {index, name, state,
    status}. switches: names of the NVSwitch devices that the driver has. mismatch: {kernel, user} when the kernel refused a
    program of another version.
    """
    config = reader.parsed("fabric_manager_config", parse_fabric.parse_fabric_config, absent=None)
    return {"fabric": {
        "log": _log(reader),
        "service": _service(reader),
        "manager": reader.parsed("fabric_manager_version", parse_fabric.parse_fabric_manager_version, absent=None),
        "mode": (config or {}).get("fabric_mode"),
        "gpus": _states(reader),
        "switches": reader.told("nvswitch_nodes", parse_fabric.parse_nvswitch_nodes),
        "mismatch": reader.told("dmesg", parse_fabric.parse_nvswitch_mismatch),
    }}


def _states(reader):
    """What the query says of each GPU, else the Fabric blocks of `nvidia-smi -q`."""
    if reader.seen("nvidia_smi_fabric") is not None:
        return reader.told("nvidia_smi_fabric", parse_fabric.parse_fabric_states)
    whole = reader.seen("nvidia_smi")
    blocks = whole is not None and any(line.strip() in ("Fabric", "<fabric>") for line in whole.out.splitlines())
    return reader.told("nvidia_smi", parse_fabric.parse_fabric_states) if blocks else None


def _log(reader):
    """The log; `systemctl status` ends with its last lines, too."""
    log = reader.told("fabric_manager_log", parse_fabric.parse_fabric_manager_log)
    if log and log["reason"]:
        return log
    return reader.told("fabric_manager_status", parse_fabric.parse_fabric_manager_log) or log


def _service(reader):
    """The unit's state; the two probes take each other's text, because people record one for the other."""
    unit = reader.told("fabric_manager_status", parse_fabric.parse_unit_status)
    if unit is not None:
        return unit
    seen = reader.told("fabric_manager_log", lambda text, rc: parse_fabric.parse_unit_status(text, rc)._replace(problems=[]))
    return seen if seen and (seen["load"] or seen["active"]) else None
