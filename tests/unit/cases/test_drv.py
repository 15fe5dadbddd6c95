# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about the driver on a node: the parsed values, what must not be done, and other recordings of the same kinds."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_modules, parse_nvidia_smi
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge

from . import case
from .recorded import failed, found, judged

PROPRIETARY = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  %s  Thu Oct  6 21:38:55 UTC 2022\nGCC version:  gcc version 12.2.0 (Debian 12.2.0-14) \n"
OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (dvs-builder@U16-A24-9-2)  Thu Oct 10 12:15:00 UTC 2024\n"
MISMATCH = "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: %s\n"
UNREACHED = ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and "
             "running.\n\n")
HEADING = "| NVIDIA-SMI %s             Driver Version: %s   CUDA Version: %s     |\n"
MODINFO = "filename:       /lib/modules/%s/updates/dkms/nvidia.ko\nversion:        %s\nlicense:        %s\n"
KERNEL = "5.15.0-91-generic"
NODE = {"os": "ubuntu-22.04", "running_kernel": KERNEL}


def dpkg(**packages):
    return "".join("%s\t%s\tii \n" % (name.replace("_", "-"), version) for name, version in packages.items())


def set_of(version, **more):
    return dpkg(**dict({"nvidia_dkms_535": version + "-0ubuntu0.22.04.1", "libnvidia_compute_535": version + "-0ubuntu0.22.04.1",
                        "nvidia_utils_535": version + "-0ubuntu0.22.04.1"}, **more))


def given(driver, **more):
    return dict(NODE, lock=dict({"driver": driver}, **more))


def dkms(version):
    return "nvidia/%s, %s, x86_64: installed\n" % (version, KERNEL)


def actions(record):
    return [step["action"] for step in record["plan"]]


def targets(record, action):
    return [step.get("target") for step in record["plan"] if step["action"] == action]


# The reports

def test_dkms_04_the_loaded_module_is_nobodys():
    want, state, record = case.expected("dkms-04")["parsed"], case.state("dkms-04"), case.record("dkms-04")
    assert {key: state["modules"]["loaded"][key] for key in want["loaded"]} == want["loaded"]
    assert state["smi"]["nvml"] == want["nvml_prefix"]
    assert {row["version"].split("-")[0] for row in state["packages"].values()} == {want["packages_version"]}
    assert state["dkms"][0]["flags"] == want["dkms"][0]["flags"]
    assert len(found(record, "installed_module_differs_from_dkms")) == 1
    assert not found(record, "driver_branch_differs")


def test_drv_01_a_reboot_alone_loads_the_same_module():
    want, state, record = case.expected("drv-01")["parsed"], case.state("drv-01"), case.record("drv-01")
    assert {key: state["modules"]["loaded"][key] for key in want["loaded"]} == want["loaded"]
    assert state["packages"]["libnvidia-ml1"]["version"].startswith(want["userland"] + "-")
    assert state["packages"]["nvidia-kernel-dkms"]["version"].startswith(want["kernel_package"] + "-")
    assert actions(record) != ["reboot_once"] and actions(record)[-1] == "reboot_once"


def test_drv_03_the_open_module():
    want = case.expected("drv-03")["parsed"]
    assert {key: case.state("drv-03")["modules"]["loaded"][key] for key in want} == want
    assert case.record("drv-03")["findings"] == []


@pytest.mark.parametrize("bundle", case.bundles("drv-06"))
def test_drv_06_versions_of_two_and_three_parts(bundle):
    want = case.expected("drv-06")["parsed"][bundle]
    loaded = case.state("drv-06", bundle)["modules"]["loaded"]
    assert {key: loaded[key] for key in want} == want
    assert case.record("drv-06", bundle)["findings"] == []


def test_drv_06_versions_are_no_texts():
    want = case.expected("drv-06")
    assert sorted((row["version"] for row in want["parsed"].values()), key=knowledge.numbers) == want["order"]


@pytest.mark.parametrize("bundle", case.bundles("drv-09"))
def test_drv_09_a_lost_gpu_in_three_spellings(bundle):
    want, record = case.expected("drv-09"), case.record("drv-09", bundle)
    (gpu,) = case.state("drv-09", bundle)["smi"]["unreachable"]
    assert {key: gpu[key] for key in want["parsed"][bundle]} == want["parsed"][bundle]
    assert record["verdict"] == want["verdict"]
    assert found(record, "gpu_lost") == [(want["parsed"][bundle]["bus_id"], "error", "broken")]
    assert len(record["findings"]) == 1
    assert not case.missing_steps(want["plan"]["actions"], record["plan"])
    assert actions(record) == ["manual"]


def test_drv_10_error_words_are_no_versions():
    want, rows = case.expected("drv-10")["parsed"], case.state("drv-10")["gpu_query"]
    assert len(rows) == want["rows"] and sum(row["state"] == "healthy" for row in rows) == want["healthy"]
    assert [row["bus_id"] for row in rows if row["state"] == "lost"] == want["lost"]
    assert [row["bus_id"] for row in rows if row["state"] == "suspect"] == want["suspect"]
    assert {row["driver_version"] for row in rows} - {None} == {want["driver"]}
    assert {row["code"] for row in case.record("drv-10")["findings"]} == {"gpu_lost", "gpu_query_error"}


@pytest.mark.parametrize("bundle", case.bundles("drv-12"))
def test_drv_12_a_field_that_is_not_known(bundle):
    want, state, record = case.expected("drv-12"), case.state("drv-12", bundle), case.record("drv-12", bundle)
    assert state["smi"]["invalid_fields"] == [want["parsed"][bundle]["field"]] and not state.get("gpu_query")
    assert record["verdict"] == want["verdict"] and record["plan"] == []
    assert found(record, "query_field_unsupported") == [(want["parsed"][bundle]["field"], "info", "unknown")]


@pytest.mark.parametrize("bundle", case.bundles("drv-13"))
def test_drv_13_three_numbers(bundle):
    want, smi = case.expected("drv-13")["parsed"][bundle], case.state("drv-13", bundle)["smi"]
    assert (smi["smi"], smi["nvml"], smi["driver"], smi["cuda_max"]) == (want["smi"], want["nvml_prefix"], want["driver"], want["cuda_max"])


def test_drv_13_a_healthy_host_is_told_nothing():
    assert case.record("drv-13", "nvidia_smi_version_ok")["findings"] == []


def test_drv_16_the_flavour_and_not_the_gpu():
    want, state, record = case.expected("drv-16")["parsed"], case.state("drv-16"), case.record("drv-16")
    assert state["modules"]["loaded"] == want["loaded"]
    assert [event["gpu"] for event in state["kernel_log"] if event["kind"] == "requires_open"] == want["requires_open"]
    assert {row["code"] for row in record["findings"]} == {"flavour_mismatch"}
    assert {step.get("version") for step in record["plan"]} == {want["loaded"]["version"], None}


# The same kinds, other recordings

def test_an_upgrade_that_waits_for_its_reboot():
    record = judged(given("535.183.01"), proc_driver_version=PROPRIETARY % "535.161.08", dpkg_list=set_of("535.183.01"), dkms_status=dkms("535.183.01"),
                    nvidia_smi=failed(MISMATCH % "535.183", 18))
    assert record["verdict"] == "broken" and actions(record) == ["reboot_once"]
    assert found(record, "driver_library_mismatch") == [("loaded 535.161.08 / user 535.183.01", "error", "broken")]
    assert found(record, "reboot_or_reload_needed") == [("535.161.08 -> 535.183.01", "error", "drift")]
    assert not found(record, "loaded_module_not_from_packages") and not found(record, "driver_branch_differs")


def test_an_upgrade_past_the_lock_goes_back():
    record = judged(given("535.161.08"), proc_driver_version=PROPRIETARY % "535.161.08", dpkg_list=set_of("535.183.01"), dkms_status=dkms("535.183.01"),
                    nvidia_smi=failed(MISMATCH % "535.183", 18))
    assert {target.partition("=")[0] for target in targets(record, "downgrade_exact")} == {"nvidia-dkms-535", "libnvidia-compute-535", "nvidia-utils-535"}
    assert targets(record, "dkms_build_install") == ["nvidia/535.161.08"]
    assert "reboot_once" not in actions(record)


def test_the_whole_version_of_a_package_counts_where_nvml_tells_two_parts():
    rows = "kmod-nvidia-5.14.0-570.el9_6-575.64-1.el9.x86_64\nlibnvidia-ml-575.64.03-1.el9.x86_64\nnvidia-driver-cuda-libs-575.64.03-1.el9.x86_64\n"
    record = judged({}, proc_driver_version=OPEN % "575.64", rpm_list=rows)
    assert found(record, "driver_library_mismatch") == [("loaded 575.64 / user 575.64.03", "error", "broken")]
    assert found(judged({}, proc_driver_version=OPEN % "575.64.03", nvidia_smi_version="NVML version        : 575.64\n"), "driver_library_mismatch") == []


def test_drivers_side_by_side_are_told_apart_by_the_loader():
    packages = dpkg(libnvidia_ml1="550.163.01-2", libcuda1="550.163.01-2", nvidia_smi="550.163.01-2", libnvidia_tesla_535_cuda1="535.274.02-1",
                    **{"libnvidia_tesla_535_nvidia_ml1": "535.274.02-1", "nvidia_tesla_535_kernel_dkms": "535.274.02-1"})
    loader = "\tlibnvidia-ml.so.1 (libc6,x86-64) => /lib/x/libnvidia-ml.so.1 -> /usr/lib/x/nvidia/tesla-535/libnvidia-ml.so.%s\n"
    probes = {"proc_driver_version": PROPRIETARY % "535.274.02", "dpkg_list": packages}
    assert found(judged({}, loader_libraries=loader % "535.274.02", **probes), "driver_library_mismatch") == []
    assert found(judged({}, **probes), "driver_library_mismatch") == []
    selected = judged({}, loader_libraries=loader % "550.163.01", **probes)
    assert found(selected, "driver_library_mismatch") == [("module 535.274.02 / libnvidia-ml.so.1 550.163.01", "error", "broken")]


def test_a_gpu_whose_configuration_space_is_gone():
    record = judged({}, pci_devices="90:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev ff)\n")
    assert found(record, "gpu_lost") == [("0000:90:00.0", "error", "broken")]


def test_the_kernel_log_tells_both_versions():
    log = ("[1] NVRM: API mismatch: the client has the version 525.85.12, but\nNVRM: this kernel module has the version 520.56.06.  Please\n"
           "NVRM: make sure that this kernel module and all NVIDIA driver\nNVRM: components have the same version.\n")
    record = judged({}, dmesg=log, nvidia_smi=failed("Failed to initialize NVML: Driver/library version mismatch\n", 18))
    assert found(record, "driver_library_mismatch") == [("loaded 520.56.06 / user 525.85.12", "error", "broken")]


def test_a_healthy_node_is_told_nothing():
    record = judged(given("535.183.01", gpu_count=1), proc_driver_version=PROPRIETARY % "535.183.01", dpkg_list=set_of("535.183.01"),
                    dkms_status=dkms("535.183.01"), modinfo=MODINFO % (KERNEL, "535.183.01", "NVIDIA"), dmesg="[1] NVRM: loading NVIDIA UNIX x86_64 Kernel "
                    "Module  535.183.01  Sun May 12 19:39:15 UTC 2024\n", nvidia_smi=HEADING % ("535.183.01", "535.183.01", "12.2"),
                    nvidia_smi_version="NVIDIA-SMI version  : 535.183.01\nNVML version        : 535.183\nDRIVER version      : 535.183.01\n",
                    nvidia_smi_query="0, NVIDIA A100-SXM4-80GB, 535.183.01, 00000000:07:00.0, [N/A]\n", runfile_marks=failed("", 1))
    assert record["findings"] == [] and record["plan"] == [] and record["verdict"] == "in_sync"


@pytest.mark.parametrize("lock", ["550.90.07", "550"])
def test_the_file_is_newer_than_the_module(lock):
    record = judged(given(lock), proc_driver_version=PROPRIETARY % "550.54.15", modinfo=MODINFO % (KERNEL, "550.90.07", "NVIDIA"))
    assert found(record, "loaded_differs_from_disk") == [("loaded 550.54.15 / on disk 550.90.07", "error", "drift")]
    assert found(record, "reboot_or_reload_needed") == [("550.54.15 -> 550.90.07", "error", "drift")]
    assert record["verdict"] == "drift" and actions(record) == ["reboot_once"]


def test_what_works_now_and_not_after_the_next_boot():
    record = judged(given("535.161.08"), proc_driver_version=PROPRIETARY % "535.161.08", nvidia_smi=HEADING % ("535.161.08", "535.161.08", "12.2"),
                    modinfo=MODINFO % (KERNEL, "550.90.07", "NVIDIA"),
                    dpkg_list=dpkg(libnvidia_compute_535="535.161.08-0ubuntu1", nvidia_dkms_550="550.90.07-0ubuntu1"))
    assert found(record, "will_break_on_reboot") == [("535.161.08 -> 550.90.07@" + KERNEL, "error", "broken")]
    assert targets(record, "remove") == ["nvidia-dkms-550"] and targets(record, "install_exact") == ["nvidia-dkms-535=535.161.08-0ubuntu1"]


def test_the_next_kernel_has_no_module():
    record = judged(dict(given("535.161.08"), next_boot_kernel="6.8.0-40-generic"), proc_driver_version=PROPRIETARY % "535.161.08",
                    modinfo=MODINFO % (KERNEL, "535.161.08", "NVIDIA"))
    assert found(record, "will_break_on_reboot") == [("535.161.08@6.8.0-40-generic", "error", "broken")]
    assert targets(record, "dkms_build_install") == ["nvidia/535.161.08"]


@pytest.mark.parametrize(("mark", "packages", "expected"), [
    ("/usr/bin/nvidia-uninstall\n", "nvidia-container-toolkit\t1.10.0-1\tii \n", ["no nvidia driver package installed, nvidia-uninstall present"]),
    ("/usr/bin/nvidia-installer\n", set_of("535.161.08"), ["nvidia-installer present beside libnvidia-compute-535 535.161.08, nvidia-dkms-535 535.161.08"]),
    # The log stays when the installer's driver goes.
    ("/var/log/nvidia-installer.log\n", set_of("535.161.08"), []),
    ("nvidia-installer log file '/var/log/nvidia-installer.log'\ncreation time: x\n", "bash\t5.1-6\tii \n",
     ["no nvidia driver package installed, nvidia-installer.log present"]),
])
def test_a_driver_from_nvidias_own_installer(mark, packages, expected):
    record = judged(given("535.161.08"), proc_driver_version=PROPRIETARY % "535.161.08", dpkg_list=packages, runfile_marks=mark)
    assert [row[0] for row in found(record, "driver_from_runfile")] == expected
    assert "install_exact" not in actions(record)


@pytest.mark.parametrize(("lock", "probes", "code", "subject"), [
    ("535.161.08", {"nvidia_smi": HEADING % ("550.54.15", "550.54.15", "12.4")}, "driver_branch_differs", "lock 535.161.08, running 550.54.15"),
    ("550", {"nvidia_smi_query": "NVIDIA H100 80GB HBM3, 535.161.08\n"}, "driver_branch_differs", "lock 550, running 535.161.08"),
    ("570.86.15", {"dkms_status": dkms("570.124.06")}, "driver_version_differs", "lock 570.86.15, running 570.124.06"),
])
def test_another_driver_than_the_stacks(lock, probes, code, subject):
    record = judged(given(lock), **probes)
    assert found(record, code) == [(subject, "error", "drift")] and record["verdict"] == "drift"


@pytest.mark.parametrize("lock", ["535", "535.183", "535.183.01", "535.183.01-0ubuntu1"])
def test_the_stacks_driver_at_any_precision(lock):
    assert judged(given(lock), proc_driver_version=PROPRIETARY % "535.183.01")["findings"] == []


def test_a_program_of_another_driver():
    record = judged({}, nvidia_smi=HEADING % ("535.161.08", "550.54.15", "12.4"), dpkg_list=dpkg(nvidia_utils_535="535.161.08-0ubuntu1"))
    assert found(record, "stale_userland_binary") == [("nvidia-smi 535.161.08", "error", "drift")]
    assert targets(record, "install_exact")[-1] == "nvidia-utils-535=550.54.15"
    words = "Mismatch in versions between nvidia-smi and NVML. \nAre you sure you are using nvidia-smi provided with the driver?\n"
    assert found(judged({}, nvidia_smi=failed(words)), "stale_userland_binary")


@pytest.mark.parametrize("word", ["N/A", "ERR!", "Not Found"])
def test_no_libcuda_that_works(word):
    record = judged({}, nvidia_smi=HEADING % ("535.183.06", "535.183.06", word))
    assert found(record, "libcuda_not_usable") == [("libcuda.so.1, driver 535.183.06", "error", "broken")]
    assert found(judged({}, nvidia_smi=HEADING % ("535.183.06", "535.183.06", word), container_marks="file /.dockerenv\n"), "libcuda_not_usable") == []


def test_wsl_has_windows_driver():
    texts = {"uname_r": "5.15.153.1-microsoft-standard-WSL2\n", "nvidia_smi_version": "NVIDIA-SMI version  : 580.82.07\nNVML version        : 580.95\n"
             "DRIVER version      : 581.42\nCUDA Version        : 13.0\n"}
    alone = judged({}, **texts)
    assert alone["verdict"] == "not_applicable" and found(alone, "platform_not_supported") == [("WSL", "info", "not_applicable")]
    assert [row["code"] for row in alone["findings"]] == ["platform_not_supported"]
    asked = judged({"lock": {"driver": "580.95.05"}}, **texts)
    assert asked["verdict"] == "blocked" and asked["plan"] == []


def test_a_gpu_that_the_driver_does_not_serve():
    log = ("[9] NVRM: The NVIDIA GPU 0000:05:00.0 (PCI ID: 10de:26b9)\n    NVRM: installed in this system is not supported by the\n"
           "    NVRM: NVIDIA 570.86.15 driver release.\n    NVRM: Please see 'Appendix A - Supported NVIDIA GPU Products'\n")
    record = judged({}, dmesg=log)
    assert found(record, "platform_not_supported") == [("0000:05:00.0 10de:26b9", "error", "broken")]


LEGACY = ("Apr 13 16:41:14 host kernel: NVRM: The NVIDIA NVIDIA GeForce GTX 1050 GPU installed in this system is\n    NVRM:  supported through the NVIDIA "
          "580.xx Legacy drivers. Please\n    NVRM:  visit http://www.nvidia.com/object/unix.html for more\n    NVRM:  information.  The 595.58.03 NVIDIA "
          "driver will ignore\n    NVRM:  this GPU.  Continuing probe...\nApr 13 16:41:14 host kernel: NVRM: No NVIDIA GPU found.\n")
NO_GSP = ("[5] NVRM: The NVIDIA GPU 0000:01:00.0 (PCI ID: %s)\n[5] NVRM: installed in this system is not supported by open\n"
          "[5] NVRM: nvidia.ko because it does not include the required GPU\n[5] NVRM: System Processor (GSP).\n")


@pytest.mark.parametrize(("lock", "action"), [("595.58.03", "fail_preflight"), ("580.95.05", "downgrade_exact")])
def test_a_gpu_that_the_branch_no_longer_drives(lock, action):
    record = judged({"lock": {"driver": lock}}, dmesg=LEGACY, nvidia_smi=failed(UNREACHED, 9))
    assert found(record, "branch_dropped_gpu") == [("NVIDIA GeForce GTX 1050@595.58.03", "error", "broken")]
    assert actions(record)[0] == action


def test_a_gpu_without_a_gsp_under_the_open_module():
    record = judged({"lock": {"driver": "580.95.05"}}, dmesg=NO_GSP % "10de:1db1", modinfo=MODINFO % ("6.8.0-41-generic", "580.95.05", "Dual MIT/GPL"))
    assert found(record, "gpu_needs_proprietary") == [("10de:1db1 needs proprietary, 580.95.05 is open", "error", "broken")]
    assert record["plan"] == [{"action": "switch_flavour", "target": "proprietary", "version": "580.95.05"}, {"action": "reboot_once"}]


def test_a_gpu_that_cannot_be_read_is_not_told_to_lack_a_gsp():
    record = judged({}, dmesg=NO_GSP % "10de:2330")
    assert not found(record, "gpu_needs_proprietary") and found(record, "gpu_query_error") == [("0000:01:00.0", "error", "broken")]


def test_the_other_flavour_than_the_stacks():
    record = judged(given("570.86.15", flavour="open"), proc_driver_version=PROPRIETARY % "570.86.15")
    assert found(record, "flavour_mismatch") == [("lock open, 570.86.15 is proprietary", "error", "drift")]
    assert actions(record) == ["switch_flavour", "reboot_once"]
    assert judged(given("570.86.15", flavour="open"), proc_driver_version=OPEN % "570.86.15")["findings"] == []


@pytest.mark.parametrize("text", [
    "[1] NVRM: Xid (PCI:0000:90:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    "[1] NVRM: GPU 0000:90:00.0: GPU has fallen off the bus.\n"])
def test_a_lost_gpu_in_the_kernels_log_is_told_once(text):
    assert [row[0] for row in found(judged({}, dmesg=text), "gpu_lost")] == ["0000:90:00"]
    both = judged({}, dmesg=text, nvidia_smi=failed("Unable to determine the device handle for GPU 0000:90:00.0: GPU is lost.  Reboot the system\n", 15))
    assert [row[0] for row in found(both, "gpu_lost")] == ["0000:90:00.0"]


def test_a_gpu_that_could_not_be_initialised():
    record = judged({}, dmesg="[9] NVRM: GPU 0000:98:00.0: RmInitAdapter failed! (0x62:0x65:1792)\n"
                    "[9] NVRM: GPU 0000:98:00.0: rm_init_adapter failed, device minor number 0\n")
    assert found(record, "gpu_query_error") == [("0000:98:00.0", "error", "broken")]


LISTED = "".join("GPU %d: NVIDIA A100-SXM4-80GB (UUID: GPU-%d)\n" % (number, number) for number in range(7))


@pytest.mark.parametrize(("probes", "expected"), [
    ({"nvidia_smi_list": LISTED}, [("7 of 8", "error", "degraded")]),
    ({"nvidia_smi_list": failed(LISTED + "Unable to determine the device handle for GPU 0000:90:00.0: GPU is lost.  Reboot the system\n", 15)}, []),
    ({"nvidia_smi": failed("No devices were found\n", 6)}, [("0 of 8", "error", "broken")]),
    ({"nvidia_smi_query": "GPU-1\nGPU-2\n"}, [("2 of 8", "error", "degraded")]),
    ({}, []),
])
def test_fewer_gpus_than_expected(probes, expected):
    assert found(judged({"lock": {"gpu_count": 8}}, **probes), "gpu_count_below_expected") == expected


def test_the_bus_has_more_gpus_than_the_driver():
    bus = "".join("%02x:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)\n" % number for number in range(8))
    assert found(judged({}, pci_devices=bus, nvidia_smi_list=LISTED), "gpu_count_below_expected") == [("7 of 8", "warn", "degraded")]


def test_a_reset_that_is_required():
    record = judged({}, nvidia_smi_query="0, NVIDIA H100, [GPU requires reset], 00000000:07:00.0\n1, NVIDIA H100, 12 %, 00000000:0F:00.0\n")
    assert [row[0] for row in found(record, "gpu_lost")] == ["00000000:07:00.0"]


@pytest.mark.parametrize("text", [UNREACHED, "Failed to initialize NVML: Unknown Error\n", "Failed to initialize NVML: Driver Not Loaded\n",
                                  "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system. Please make sure that the NVIDIA Display Driver is "
                                  "properly installed and present in your system.\nPlease also try adding directory that contains libnvidia-ml.so to "
                                  "your system PATH.\n"])
@pytest.mark.parametrize("rc", [0, 9, 255])
def test_nvidia_smi_does_not_reach_the_driver(text, rc):
    record = judged({}, nvidia_smi=failed(text, rc))
    assert record["verdict"] == "broken" and [row["code"] for row in record["findings"]] == ["driver_does_not_answer"]


def test_modules_that_are_in_use():
    record = judged(given("535.183.01"), proc_driver_version=PROPRIETARY % "535.161.08", dpkg_list=set_of("535.183.01"),
                    rmmod_run=failed("rmmod: ERROR: Module nvidia is in use by: nvidia_uvm nvidia_modeset\n"), gpu_processes="GPU-1, 4711, python\n")
    assert found(record, "module_in_use") == [("nvidia (nvidia_uvm, nvidia_modeset)", "error", "drift")]
    assert found(record, "gpu_in_use") == [("python (4711)", "warn", "drift")]
    assert found(judged({}, gpu_processes="GPU-1, 4711, python\n"), "gpu_in_use") == []


def test_who_else_delivers_the_driver():
    record = judged({}, delivery_marks="/run/nvidia/driver\n/etc/dgx-release\n")
    assert [row[0] for row in found(record, "driver_delivered_by_other")] == ["/etc/dgx-release", "/run/nvidia/driver"]
    assert record["plan"] == []


def test_a_prebuilt_module_where_dkms_is_asked_for():
    packages = dpkg(linux_modules_nvidia_535_generic="5.15.0-91.101", libnvidia_compute_535="535.183.01-0ubuntu1")
    assert found(judged(given("535.183.01", kmod="dkms"), dpkg_list=packages), "module_prebuilt") == [("linux-modules-nvidia-535-generic", "warn", "drift")]
    assert found(judged(given("535.183.01"), dpkg_list=packages), "module_prebuilt") == []


def test_the_old_and_the_new_heading():
    for text in ("| NVIDIA-SMI 375.66                 Driver Version: 375.66                    |\n",
                 "| NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |\n"):
        value = parse_nvidia_smi.parse_nvidia_smi(text).value
        assert value["smi"] == value["driver"] and value["failure"] is None
        assert judged({}, nvidia_smi=text)["findings"] == []


@pytest.mark.parametrize("line", ["rmmod: ERROR: Module nvidia is in use by: nvidia_modeset nvidia_uvm", "modprobe: FATAL: Module nvidia is in use."])
def test_both_tools_say_that_a_module_is_in_use(line):
    assert list(parse_modules.parse_in_use(line).value) == ["nvidia"]
