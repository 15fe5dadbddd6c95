# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A recording under a neighbour's name is read, or told; none is passed over in silence."""
from __future__ import annotations

import pytest

from .recorded import failed, found, judged, state

INSTALLED = ("Last metadata expiration check: 0:10:11 ago on Mon 02 Jun 2025.\nInstalled Packages\n"
             "kmod-nvidia-open-dkms.noarch     3:570.124.06-1.el9   @cuda-rhel9-x86_64\n"
             "nvidia-driver-cuda.x86_64        3:570.133.20-1.el9   @cuda-rhel9-x86_64\n")
AVAILABLE = "Available Packages\nnvidia-driver-cuda.x86_64    3:575.51.03-1.el9   cuda-rhel9-x86_64\n"
KERNEL = "5.15.0-91-generic"
NVIDIA = ("filename:       /lib/modules/%s/updates/dkms/nvidia.ko\nversion:        535.183.01\nlicense:        NVIDIA\n"
          "vermagic:       %s SMP mod_unload modversions\nname:           nvidia\n" % (KERNEL, KERNEL))
MLX = ("filename:       /lib/modules/%s/kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko\nlicense:        Dual BSD/GPL\nintree:         Y\n"
       "name:           mlx5_core\nvermagic:       %s SMP mod_unload modversions\n" % (KERNEL, KERNEL))
TABLE = ("+---------------------------------------------------------------------------------------+\n"
         "| NVIDIA-SMI 550.90.07              Driver Version: 550.90.07      CUDA Version: 12.4     |\n")
VERSION = "NVIDIA-SMI version  : 550.90.07\nNVML version        : 550.90\nDRIVER version      : 550.90.07\n"
QUERY = "0, NVIDIA H100 80GB HBM3, 550.90.07, 00000000:1B:00.0\n1, NVIDIA H100 80GB HBM3, 550.90.07, 00000000:43:00.0\n"
FABRIC = "index, name, fabric.state, fabric.status\n0, NVIDIA H100 80GB HBM3, In Progress, N/A\n1, NVIDIA H100 80GB HBM3, Completed, Success\n"
SMI = ("nvidia_smi", "nvidia_smi_version", "nvidia_smi_list", "nvidia_smi_query", "nvidia_smi_fabric")
MAKE_LOG = ("DKMS make.log for nvidia-535.54.03 for kernel 6.8.0-45-generic (x86_64)\nMon Sep 30 10:00:00 UTC 2024\n"
            "make[1]: Entering directory '/usr/src/linux-headers'\n"
            "/var/lib/dkms/nvidia/535.54.03/build/nvidia-drm/nvidia-drm-drv.c:748:40: error: 'DRM_UNLOCKED' undeclared here (not in a function)\n")
DKMS = ("Building module:\nCleaning build area...(bad exit status: 2)\nError! Bad return status for module build on kernel: 6.8.0-45-generic (x86_64)\n"
        "Consult /var/lib/dkms/nvidia/535.54.03/build/make.log for more information.\n")
SIMULATED = ("Reading package lists...\nBuilding dependency tree...\nThe following packages will be upgraded:\n  libnvidia-compute-535\n"
             "1 upgraded, 0 newly installed, 0 to remove and 0 not upgraded.\n"
             "Inst libnvidia-compute-535 [535.183.01-0ubuntu1] (535.216.03-0ubuntu1 Ubuntu:22.04 [amd64])\n"
             "Conf libnvidia-compute-535 (535.216.03-0ubuntu1 Ubuntu:22.04 [amd64])\n")
REFUSED = "Reading package lists...\nE: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (unattended-upgr)\n"
PLAN = ("Dependencies resolved.\n================================================================================\n"
        " Package                 Arch     Version               Repository          Size\n"
        "================================================================================\nUpgrading:\n"
        " nvidia-driver-cuda      x86_64   3:575.51.03-1.el9     cuda-rhel9-x86_64   600 k\n\nTransaction Summary\n"
        "================================================================================\nUpgrade  1 Package\n\nOperation aborted.\n")
NO_MATCH = "Error: Unable to find a match: nvidia-driver-cuda-3:570.124.06-1.el9\n"
UNREACHABLE = '{"changed": false, "failed": true, "msg": "Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 4711 (unattended-upgr)"}\n'
NODES = "crw-rw-rw- 1 root root 195,   0 Jun  2 10:00 /dev/nvidia0\ncrw-rw-rw- 1 root root 195, 255 Jun  2 10:00 /dev/nvidiactl\n"
SWITCHES = "crw-rw-rw- 1 root root 508,   0 Jun  2 10:00 /dev/nvidia-nvswitch0\ncrw-rw-rw- 1 root root 508, 255 Jun  2 10:00 /dev/nvidia-nvswitchctl\n"
PROSE = "lorem ipsum dolor sit amet\nconsectetur adipiscing elit\n"


def test_what_is_installed_beside_what_is_there_to_be_had():
    seen = state(dnf_repoquery=INSTALLED)
    assert seen["packages"]["kmod-nvidia-open-dkms"]["version"] == "3:570.124.06-1.el9" and seen["package_manager"]["available"] is None
    assert found(judged({"os": "rocky-9", "lock": {"driver": "570.124.06"}}, dnf_repoquery=INSTALLED), "package_set_split")
    both = state(dnf_repoquery=INSTALLED + AVAILABLE)
    assert both["packages"]["nvidia-driver-cuda"]["version"] == "3:570.133.20-1.el9"
    assert both["package_manager"]["available"] == {"nvidia-driver-cuda": ["3:575.51.03-1.el9"]}
    assert state(rpm_list=INSTALLED + AVAILABLE)["package_manager"]["available"] == {"nvidia-driver-cuda": ["3:575.51.03-1.el9"]}
    assert state(dnf_repoquery=AVAILABLE)["packages"] is None


@pytest.mark.parametrize("name", ["modinfo", "modinfo_rdma"])
def test_modules_are_read_by_what_they_are(name):
    mlx, driver, both = (state(**{name: text}) for text in (MLX, NVIDIA, MLX + NVIDIA))
    assert [(row["module"], row["kind"]) for row in mlx["rdma"]["modules"]] == [("mlx5_core", "inbox")] and mlx["modules"]["files"] is None
    assert [(row["name"], row["version"]) for row in driver["modules"]["files"]] == [("nvidia", "535.183.01")] and driver["rdma"]["modules"] is None
    assert "mlx5_core" in [row["module"] for row in both["rdma"]["modules"]] and "nvidia" in [row["name"] for row in both["modules"]["files"]]


def test_the_stack_s_rules_see_modules_under_either_name():
    for name in ("modinfo", "modinfo_rdma"):
        record = judged({"lock": {"driver": "535.183.01", "ofed": "24.10-0.7.0"}, "running_kernel": KERNEL}, **{name: MLX})
        assert found(record, "ofed_inbox_modules_loaded") or record["verdict"] != "in_sync", name


@pytest.mark.parametrize("name", SMI)
def test_nvidia_smi_in_any_of_its_forms(name):
    lock = {"lock": {"driver": "550.90.07"}}
    for text in (TABLE, VERSION):
        assert state(**{name: text})["smi"]["driver"] == "550.90.07"
        assert judged(lock, **{name: text})["verdict"] == "in_sync"
    assert [row["driver_version"] for row in state(**{name: QUERY})["gpu_query"]] == ["550.90.07"] * 2
    assert judged(lock, **{name: QUERY})["verdict"] == "in_sync"
    assert found(judged({}, **{name: FABRIC}), "fabric_not_completed") == [("1 of 2", "error", "broken")]
    assert judged({}, **{name: FABRIC.replace("In Progress, N/A", "Completed, Success")})["findings"] == []


@pytest.mark.parametrize("name", ["dkms_run", "dkms_make_log"])
def test_a_run_of_dkms_and_its_log(name):
    (row,) = state(**{name: failed(MAKE_LOG)})["dkms_logs"] or state(**{name: MAKE_LOG})["dkms_logs"]
    assert "DRM_UNLOCKED" in row["error"]
    (row,) = state(**{name: failed(DKMS, 10) if name == "dkms_run" else DKMS})["dkms_failures"]
    assert (row["module"], row["version"], row["kernel"]) == ("nvidia", "535.54.03", "6.8.0-45-generic")
    both = state(**{name: DKMS + MAKE_LOG})
    assert both["dkms_logs"] and both["dkms_failures"]


@pytest.mark.parametrize("name", ["apt_run", "apt_simulation"])
def test_what_apt_would_do_and_what_it_did(name):
    (row,) = state(**{name: SIMULATED})["package_manager"]["transaction"]["upgrade"]
    assert (row["name"], row["version"]) == ("libnvidia-compute-535", "535.216.03-0ubuntu1")
    assert found(judged({"os": "ubuntu-22.04"}, **{name: failed(REFUSED, 100)}), "apt_locked")


@pytest.mark.parametrize("name", ["dnf_run", "dnf_transaction"])
def test_what_dnf_would_do_and_what_it_did(name):
    (row,) = state(**{name: failed(PLAN)})["package_manager"]["transaction"]["upgrade"]
    assert (row["name"], row["version"]) == ("nvidia-driver-cuda", "3:575.51.03-1.el9")
    assert [row["reason"] for row in state(**{name: failed(NO_MATCH)})["package_manager"]["problems"]] == ["no_match"]


@pytest.mark.parametrize("name", ["ansible_result", "ansible_error"])
@pytest.mark.parametrize("text", [UNREACHABLE, "fatal: [gpu01]: FAILED! => " + UNREACHABLE])
def test_results_of_ansible_as_json_and_as_text(name, text):
    assert found(judged({"os": "ubuntu-22.04"}, **{name: text}), "apt_locked")


@pytest.mark.parametrize("name", ["gpu_devices", "nvswitch_nodes"])
def test_device_nodes_of_gpus_and_switches(name):
    seen = state(**{name: NODES + SWITCHES + "\n/dev/nvidia-caps:\ntotal 0\ncr-------- 1 root root 237, 1 Jun  2 10:00 nvidia-cap1\n"})
    assert seen["gpu_devices"] is True and seen["fabric"]["switches"] == ["nvidia-nvswitch0"] and seen["unknown"] == []
    seen = state(**{name: "/dev/nvidia0\n/dev/nvidiactl\n/dev/nvidia-uvm\n"})
    assert seen["gpu_devices"] is True and not seen["fabric"]["switches"] and seen["unknown"] == []


@pytest.mark.parametrize("name", [
    "apt_run", "apt_simulation", "dnf_run", "dnf_transaction", "dnf_repoquery", "dkms_run", "dkms_make_log", "modprobe_run", "rmmod_run", "openibd_run",
    "ansible_result", "ansible_error", "mok_enrolled", "mok_new", "initramfs_files", "nvswitch_nodes", "gpu_devices", "cdi_list", "pip_list", "grub_run",
    "modinfo", "modinfo_rdma", "nvidia_smi", "nvidia_smi_query", "nvidia_smi_fabric"])
def test_a_text_in_which_nothing_is_known_is_told(name):
    record = judged({"lock": {"driver": "550.90.07"}}, **{name: PROSE})
    assert record["verdict"] == "unknown" and name in [row["probe"] for row in record["state"]["unknown"]]


@pytest.mark.parametrize("name", ["dmesg", "apt_history", "fabric_manager_log"])
def test_logs_may_say_nothing(name):
    assert state(**{name: "Jun 02 10:00:00 host systemd[1]: Started a thing.\n" if name != "apt_history" else "\n"})["unknown"] == []
