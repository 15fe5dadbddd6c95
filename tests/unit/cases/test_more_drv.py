# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More recordings of the driver and its GPUs, in the tools' own words: what is wrong is told, and its healthy twin is not."""
from __future__ import annotations

import pytest

from .recorded import failed, found, judged

UNREACHED = ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and "
             "running.\n\n")
NO_LIBRARY = ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is properly installed and "
              "present in your system.\nPlease also try adding directory that contains libnvidia-ml.so to your system PATH.\n")
NOT_LOADED = "Failed to initialize NVML: Driver Not Loaded\n"
SMI = ("nvidia_smi", "nvidia_smi_version", "nvidia_smi_list", "nvidia_smi_query", "nvidia_smi_fabric", "nvidia_smi_modes", "gpu_processes")
DOCKER = "file /.dockerenv\n"
A100 = "07:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)\n"
DEVICES = "/dev/nvidia0\n/dev/nvidiactl\n"


def every_smi(text, rc=9):
    return {name: failed(text, rc) for name in SMI}


def codes(record):
    return sorted({row["code"] for row in record["findings"]})


@pytest.mark.parametrize("text", [UNREACHED, NOT_LOADED])
@pytest.mark.parametrize("node", [
    {"pci_devices": ""}, {"pci_devices": "", "container_marks": DOCKER, "gpu_devices": ""}, {"pci_devices": A100, "container_marks": DOCKER, "gpu_devices": ""}])
def test_where_there_is_no_gpu_no_driver_can_answer(node, text):
    record = judged({}, **every_smi(text), **node)
    assert record["findings"] == [] and record["verdict"] == "not_applicable" and record["state"]["unreadable"] == []


def test_no_library_in_a_container_that_got_no_gpu():
    assert judged({}, **every_smi(NO_LIBRARY, 12), pci_devices="", container_marks=DOCKER, gpu_devices="")["findings"] == []
    assert codes(judged({}, **every_smi(NO_LIBRARY, 12), pci_devices="")) == ["driver_does_not_answer"]


@pytest.mark.parametrize("text", [UNREACHED, NO_LIBRARY, NOT_LOADED])
@pytest.mark.parametrize("node", [{"pci_devices": A100}, {}, {"pci_devices": A100, "container_marks": DOCKER, "gpu_devices": DEVICES}])
def test_where_there_is_a_gpu_the_driver_has_to_answer(node, text):
    record = judged({}, **every_smi(text), **node)
    assert codes(record) == ["driver_does_not_answer"] and record["verdict"] == "broken" and record["state"]["unreadable"] == []


def test_a_gpu_that_should_be_there_is_missed():
    record = judged({"lock": {"gpu_count": 1}}, **every_smi(UNREACHED), pci_devices="")
    assert codes(record) == ["driver_does_not_answer", "gpu_count_below_expected"]


@pytest.mark.parametrize("name", SMI)
@pytest.mark.parametrize("text", [UNREACHED, NO_LIBRARY, NOT_LOADED])
def test_each_question_to_nvidia_smi_tells_the_failure(name, text):
    record = judged({}, **{name: failed(text, 9)})
    assert codes(record) == ["driver_does_not_answer"] and record["state"]["unreadable"] == record["state"]["unknown"] == []


def test_the_kernels_log_of_a_containers_host():
    refused = failed("dmesg: read kernel buffer failed: Operation not permitted\n")
    assert judged({}, dmesg=refused, container_marks=DOCKER)["state"]["unreadable"] == []
    assert found(judged({}, dmesg=refused, container_marks=""), "probe_failed") == [("dmesg", "warn", "unknown")]
