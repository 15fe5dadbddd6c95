# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More recordings of fabric manager and NVSwitch systems, in the tools' own words."""
from __future__ import annotations

import pytest

from .recorded import failed, found, judged

MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Wed Oct 27 21:21:55 UTC 2021\n"
WHOLE = ("==============NVSMI LOG==============\n\nTimestamp                                 : Sun Dec 21 12:51:09 2025\n"
         "Driver Version                            : 580.95.05\nAttached GPUs                             : 2\n"
         "GPU 00000000:1B:00.0\n    Product Name                          : NVIDIA H200\n    Fabric\n        State                             : In Progress\n"
         "        Status                            : N/A\nGPU 00000000:43:00.0\n    Product Name                          : NVIDIA H200\n    Fabric\n"
         "        State                             : Completed\n        Status                            : Success\n")


@pytest.mark.parametrize("probe", ["nvidia_smi_fabric", "nvidia_smi"])
def test_the_fabric_in_the_long_output(probe):
    assert found(judged({}, **{probe: WHOLE}), "fabric_not_completed") == [("1 of 2", "error", "broken")]
    healthy = WHOLE.replace("In Progress", "Completed").replace(": N/A", ": Success")
    assert judged({}, **{probe: healthy})["findings"] == []


def upgrade(old, new):
    return ("The following packages will be upgraded:\n  nvidia-fabricmanager-470\n1 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n"
            "Inst nvidia-fabricmanager-470 [%s] (%s NVIDIA CUDA:Release [amd64])\n"
            "Conf nvidia-fabricmanager-470 (%s NVIDIA CUDA:Release [amd64])\n" % (old, new, new))


@pytest.mark.parametrize(("new", "told"), [("470.129.06-1", [("470.129.06 / 470.82.01", "error", "blocked")]), ("470.82.01-2", [])])
def test_an_upgrade_of_fabric_manager_beside_a_driver_that_no_package_brought(new, told):
    record = judged({"os": "ubuntu-18.04", "lock": {"driver": "470.82.01"}}, proc_driver_version=MODULE % "470.82.01",
                    runfile_marks="/usr/bin/nvidia-uninstall\n", dpkg_list="nvidia-fabricmanager-470\t470.82.01-1\tii \n", apt_holds="\n",
                    apt_simulation=upgrade("470.82.01-1", new))
    assert found(record, "fabric_manager_version_would_differ") == told
    assert ("refuse_transaction" in [step["action"] for step in record["plan"]]) == bool(told)


def test_a_program_newer_than_the_driver_goes_back():
    record = judged({"os": "ubuntu-22.04", "lock": {"driver": "580.126.09"}}, proc_driver_version=MODULE % "580.126.09",
                    fabric_manager_log="fabric manager NVIDIA GPU driver interface version 590.48.01 don't match with driver version 580.126.09.\n")
    assert [step["action"] for step in record["plan"]] == ["downgrade_exact", "start_service"]


def test_the_fabric_in_a_query_of_other_columns():
    rows = "".join("%d, NVIDIA H100 80GB HBM3, %%s, %%s\n" % number for number in range(8))
    assert found(judged({}, nvidia_smi_query=rows % (("In Progress", "[N/A]") * 8)), "fabric_not_completed") == [("8 of 8", "error", "broken")]
    assert judged({}, nvidia_smi_query=rows % (("Completed", "Success") * 8))["findings"] == []
    assert found(judged({}, nvidia_smi_query=rows % (("[Not Supported]", "[N/A]") * 8)), "fabric_not_completed") == []


def test_a_baseboard_that_only_a_query_shows_needs_its_service():
    rows = "".join("%d, NVIDIA H100 80GB HBM3, 550.90.07, 00000000:%02X:00.0\n" % (number, number * 16) for number in range(8))
    record = judged({}, nvidia_smi_query=rows, fabric_manager_status=failed("inactive\n", 3))
    assert found(record, "fabric_not_completed") == [("nvidia-fabricmanager is inactive", "error", "broken")]
    assert judged({}, nvidia_smi_query=rows, fabric_manager_status="active\n")["findings"] == []


def test_what_follows_the_driver_is_told_once():
    packages = ("libnvidia-nscq-550\t550.127.05-0ubuntu0.22.04.1\tii \nnvidia-fabricmanager-550\t550.127.08-0ubuntu0.22.04.1\tii \n"
                "nvidia-dkms-550-server\t550.127.08-0ubuntu0.22.04.1\tii \n")
    record = judged({"os": "ubuntu-22.04", "lock": {"driver": "550.127.08"}}, dpkg_list=packages, proc_driver_version=MODULE % "550.127.08")
    assert [row["code"] for row in record["findings"]] == ["revision_coupling"]
    assert [step["action"] for step in record["plan"]] == ["install_exact"]
