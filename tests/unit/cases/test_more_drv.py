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


# Who uses the modules, who brought them, and which driver is selected

@pytest.mark.parametrize(("text", "subject"), [
    ("Stopping NVIDIA persistence daemon...\nUnloading NVIDIA driver kernel modules...\nCould not unload NVIDIA driver kernel modules, driver is in use\n",
     "nvidia (processes)"),
    ("ERROR: An NVIDIA kernel module 'nvidia-uvm' appears to already be loaded in your kernel.  This may be because it is in use\n", "nvidia_uvm (processes)"),
    ("modprobe: FATAL: Module nvidia_uvm is in use.\n", "nvidia_uvm (processes)")])
def test_a_module_in_use_is_evidence_enough(text, subject):
    record = judged({}, rmmod_run=failed(text))
    assert [(row["code"], row["subject"]) for row in record["findings"]] == [("module_in_use", subject)] and record["verdict"] == "drift"


@pytest.mark.parametrize(("text", "path"), [
    ('DGX_NAME="DGX Server"\nDGX_PRETTY_NAME="NVIDIA DGX Server"\nDGX_SWBUILD_VERSION="6.1.0"\n', "/etc/dgx-release"),
    ("# Template\nServerAddress=10.0.0.5\nFeatureType=4\n", "/etc/nvidia/gridd.conf")])
def test_a_mark_shown_instead_of_named(text, path):
    record = judged({}, delivery_marks=text)
    assert found(record, "driver_delivered_by_other") == [(path, "info", "in_sync")] and record["state"]["unreadable"] == []


SIDE = ("libnvidia-tesla-535-cuda1\t535.261.03-1\tii \nnvidia-tesla-535-kernel-dkms\t535.261.03-1\tii \nnvidia-tesla-535-smi\t535.261.03-1\tii \n"
        "libcuda1\t550.163.01-2\tii \nlibnvidia-ml1\t550.163.01-2\tii \n")
SELECTED = "\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1 -> /usr/lib/x86_64-linux-gnu/nvidia/x/libcuda.so.%s\n"
MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Fri May 31 09:35:42 UTC 2024\n"


def test_debians_drivers_side_by_side():
    node = {"os": "debian-13", "lock": {"driver": "535.261.03", "hold": False}}
    probes = {"dpkg_list": SIDE, "proc_driver_version": MODULE % "535.261.03"}
    right = judged(node, loader_libraries=SELECTED % "535.261.03", **probes)
    assert found(right, "inactive_userland") == [("550.163.01 (libcuda1, libnvidia-ml1)", "info", "in_sync")]
    assert right["verdict"] == "in_sync" and right["plan"] == [] and len(right["findings"]) == 1
    wrong = judged(node, loader_libraries=SELECTED % "550.163.01", **probes)
    assert codes(wrong) == ["driver_library_mismatch", "inactive_userland"] and wrong["verdict"] == "broken"


def test_one_set_at_another_version_is_no_other_driver_beside():
    record = judged({"os": "debian-13", "lock": {"driver": "535.261.03"}}, dpkg_list=SIDE.partition("libcuda1")[0].replace("535.261.03-1", "535.247.01-1"))
    assert "inactive_userland" not in codes(record) and "package_version_differs" in codes(record)


XML = ('<?xml version="1.0" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">\n<nvidia_smi_log>\n\t<timestamp>Tue Mar  5 08:00:00 2024</timestamp>\n'
       '\t<driver_version>535.161.08</driver_version>\n\t<cuda_version>12.2</cuda_version>\n\t<attached_gpus>1</attached_gpus>\n'
       '\t<gpu id="00000000:07:00.0">\n\t\t<product_name>NVIDIA H100 80GB HBM3</product_name>\n\t\t<fabric>\n\t\t\t<state>In Progress</state>\n'
       '\t\t\t<status>N/A</status>\n\t\t</fabric>\n\t</gpu>\n</nvidia_smi_log>\n')


def test_nvidia_smi_in_xml():
    record = judged({"lock": {"driver": "535.161.08", "gpu_count": 1}}, nvidia_smi=XML)
    assert (record["state"]["smi"]["driver"], record["state"]["smi"]["cuda_max"], record["state"]["smi"]["listed"]) == ("535.161.08", "12.2", 1)
    assert codes(record) == ["fabric_not_completed"] and record["state"]["unknown"] == []
    assert codes(judged({"lock": {"driver": "550.90.07"}}, nvidia_smi=XML.replace("In Progress", "Not Supported"))) == ["driver_branch_differs"]


@pytest.mark.parametrize("text", [
    "bash: nvidia-smi: command not found\n", "-bash: line 1: nvidia-smi: command not found\n", "sh: 1: nvidia-smi: not found\n",
    "Command 'nvidia-smi' not found, but can be installed with:\nsudo apt install nvidia-utils-390         # version 390.157-0ubuntu0.22.04.2, or\n"])
@pytest.mark.parametrize("rc", [1, 127])
def test_no_nvidia_smi_is_an_answer(text, rc):
    record = judged({"lock": {"driver": "535.154.05"}}, nvidia_smi=failed(text, rc), proc_driver_version=MODULE % "535.154.05")
    assert record["verdict"] == "in_sync" and record["state"]["unknown"] == []


# One output of nvidia-smi under the name of another

@pytest.mark.parametrize("name", ["nvidia_smi", "nvidia_smi_query"])
def test_a_query_is_known_by_its_form(name):
    lost = "0, NVIDIA A100-SXM4-80GB, 535.161.08, 00000000:07:00.0\n1, [GPU is lost], [GPU is lost], 00000000:0F:00.0\n"
    assert found(judged({}, **{name: lost}), "gpu_lost") == [("00000000:0F:00.0", "error", "broken")]
    record = judged({"lock": {"driver": "550.90.07"}}, **{name: "name, driver_version\nNVIDIA L40S, 550.90.07\n"})
    assert record["verdict"] == "in_sync" and record["state"]["unknown"] == []


@pytest.mark.parametrize("name", ["nvidia_smi", "nvidia_smi_query", "nvidia_smi_version"])
@pytest.mark.parametrize("text", ["| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |\n",
                                  "NVIDIA-SMI version  : 550.90.07\nNVML version        : 550.90\nDRIVER version      : 550.90.07\n"])
def test_other_outputs_are_known_by_their_form(name, text):
    assert judged({"lock": {"driver": "550.90.07"}}, **{name: text})["verdict"] == "in_sync"
    assert codes(judged({"lock": {"driver": "535.183.01"}}, **{name: text})) == ["driver_branch_differs"]


def test_a_gpu_that_a_legacy_branch_drives_is_not_missing():
    log = ("[    7.1] NVRM: The NVIDIA Tesla K80 GPU installed in this system is\n               NVRM:  supported through the NVIDIA 470.xx Legacy drivers. "
           "Please\n    NVRM:  visit http://www.nvidia.com/object/unix.html for more\n               NVRM:  information.  The 515.48.07 NVIDIA driver "
           "will ignore\n               NVRM:  this GPU.  Continuing probe...\n")
    bus = "".join("%s:00.0 3D controller [0302]: NVIDIA Corporation GK210GL [Tesla K80] [10de:102d] (rev a1)\n" % number for number in ("86", "87"))
    record = judged({}, dmesg=log, pci_devices=bus, nvidia_smi=failed("No devices were found\n", 6))
    assert codes(record) == ["branch_dropped_gpu"]
    assert "10de:102d" in record["findings"][0]["message"] and [step["action"] for step in record["plan"]] == ["fail_preflight"]


def test_a_gpu_that_the_release_does_not_serve_is_told_once():
    log = ("[   38.0] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: 10de:2330)\n[   38.0] NVRM: installed in this system is not supported by the\n"
           "[   38.0] NVRM: NVIDIA 550.90.07 driver release.\n[   38.0] NVRM: Please see 'Appendix A - Supported NVIDIA GPU Products'\n")
    record = judged({}, dmesg=log + log.replace("38.0", "38.1"))
    assert codes(record) == ["platform_not_supported"] and "550.90.07" in record["findings"][0]["message"]


RECOVERY = "[123.5] NVRM: Xid (PCI:0000:18:00): 154, GPU recovery action changed from %s to %s\n"


@pytest.mark.parametrize(("log", "told"), [
    (RECOVERY % ("0x0 (None)", "0x1 (GPU Reset Required)"), ("gpu_lost", "0000:18:00", "error", "broken")),
    (RECOVERY % ("0x0 (None)", "0x2 (Node Reboot Required)"), ("gpu_lost", "0000:18:00", "error", "broken")),
    (RECOVERY % ("0x0 (None)", "0x4 (Drain and Reset)"), ("gpu_query_error", "0000:18:00", "warn", "degraded")),
    (RECOVERY % ("0x0 (None)", "0x1 (GPU Reset Required)") + RECOVERY % ("0x1 (GPU Reset Required)", "0x0 (None)"), None)])
def test_what_the_driver_says_a_gpu_needs_to_recover(log, told):
    rows = judged({}, dmesg=log)["findings"]
    assert [(row["code"], row["subject"], row["severity"], row["verdict"]) for row in rows] == ([told] if told else [])
