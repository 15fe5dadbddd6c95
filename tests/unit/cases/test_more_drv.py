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
    {"pci_devices": ""}, {"pci_devices": "", "container_marks": DOCKER, "gpu_devices": ""},
    {"pci_devices": A100, "container_marks": DOCKER, "gpu_devices": ""}])
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


# Wording of the driver's own log, and of nvidia-smi in other ages

@pytest.mark.parametrize("text", [
    "[    9.424670] NVRM: API mismatch: the client 'kwin_wayland' (pid 1005)\n               NVRM: has the version 595.84, but this kernel module has\n"
    "               NVRM: the version 595.80.  Please make sure that this\n               NVRM: kernel module and all NVIDIA driver components\n"
    "               NVRM: have the same version.\n",
    "Aug 26 14:08:07 node kernel: NVRM: API mismatch: the client has the version 595.84, but\n"
    "          NVRM: this kernel module has the version 595.80.  Please\n"
    "          NVRM: make sure that this kernel module and all NVIDIA driver\n          NVRM: components have the same version.\n"])
def test_the_kernel_says_that_the_versions_differ(text):
    record = judged({}, dmesg=text)
    assert found(record, "driver_library_mismatch") == [("loaded 595.80 / user 595.84", "error", "broken")]


def test_a_gpu_that_fell_off_the_bus_before_the_driver_came():
    record = judged({}, dmesg="[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n               NVRM: (PCI ID: 10de:26b5) installed in this system has\n"
                    "               NVRM: fallen off the bus and is not responding to commands.\n"
                    "[ 1843.439662] NVRM: The NVIDIA probe routine failed for 1 device(s).\n")
    assert found(record, "gpu_lost") == [("0000:b3:00.0", "error", "broken")] and [step["action"] for step in record["plan"]] == ["manual"]


def test_an_nvidia_smi_that_does_not_know_its_version_option():
    record = judged({}, nvidia_smi_version=failed("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n\n"),
                    nvidia_smi="| NVIDIA-SMI 470.57.02    Driver Version: 470.57.02    CUDA Version: 11.4     |\n")
    assert record["findings"] == [] and record["state"]["unknown"] == []


def test_the_bare_version_of_a_module():
    node = {"os": "ubuntu-22.04", "running_kernel": "5.15.0-91-generic"}
    loaded = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Fri May 31 09:35:42 UTC 2024\n"
    record = judged(node, modinfo="535.154.05\n", proc_driver_version=loaded % "535.129.03")
    assert found(record, "loaded_differs_from_disk") == [("loaded 535.129.03 / on disk 535.154.05", "error", "drift")]
    assert judged(node, modinfo="535.154.05\n", proc_driver_version=loaded % "535.154.05")["findings"] == []
