# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More recordings of apt's archives and runs, in its own words: what is wrong is told, and a healthy twin is not."""
from __future__ import annotations

import pytest

from .recorded import failed, judged
from .told import wrong

CASES = [
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "545.29.06"}}, {
            "apt_show": ("Package: nvidia-driver-545\nVersion: 550.144.03-0ubuntu0.22.04.1\nPriority: optional\nSection: restricted/libs\n"
                         "Source: nvidia-graphics-drivers-550\nOrigin: Ubuntu\nDepends: nvidia-driver-550\n"
                         "Description: Transitional package for nvidia-driver-550\n"
                         " This package provides the transition from nvidia-driver-545 to nvidia-driver-550\n\n"
                         "N: There is 1 additional record. Please use the '-a' switch to see it\n"),
        }, "blocked", [("candidate_is_transitional", "error", "nvidia-driver-545 550.144.03-0ubuntu0.22.04.1")], [("fail_preflight", "")], id="ct-show"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "550.120"}}, {
            "apt_simulation": ("NOTE: This is only a simulation!\n      apt-get needs root privileges for real execution.\n"
                               "      Keep also in mind that locking is deactivated,\n"
                               "      so don't depend on the relevance to the real current situation!\nReading package lists... Done\n"
                               "Building dependency tree... Done\nReading state information... Done\nThe following NEW packages will be installed:\n"
                               "  nvidia-driver-550 nvidia-driver-570 nvidia-dkms-570\n"
                               "0 upgraded, 3 newly installed, 0 to remove and 12 not upgraded.\n"
                               "Inst nvidia-dkms-570 (570.133.07-0ubuntu0.22.04.1 Ubuntu:22.04/jammy-updates [amd64])\n"
                               "Inst nvidia-driver-570 (570.133.07-0ubuntu0.22.04.1 Ubuntu:22.04/jammy-updates [amd64])\n"
                               "Inst nvidia-driver-550 (570.133.07-0ubuntu0.22.04.1 Ubuntu:22.04/jammy-updates [amd64])\n"
                               "Conf nvidia-dkms-570 (570.133.07-0ubuntu0.22.04.1 Ubuntu:22.04/jammy-updates [amd64])\n"),
        }, "blocked",
        [("candidate_is_transitional", "error", "nvidia-driver-550 570.133.07-0ubuntu0.22.04.1"), ("transaction_leaves_lock", "error", "nvidia-driver-570")],
        [("fail_preflight", "")], id="ct-sim"),
    pytest.param(
        {"os": "ubuntu-24.04", "lock": {"driver": "580.65.06", "fabric_manager": "580.65.06"}}, {
            "apt_run": failed(("Reading package lists...\nBuilding dependency tree...\nReading state information...\n"
                               "E: Unable to locate package nvidia-fabricmanager-580\n"), 100),
        }, "drift",
        [("package_renamed", "error", "nvidia-fabricmanager-580 nvidia-fabricmanager")],
        [("install_exact", "nvidia-fabricmanager=580.65.06")], id="ren-fm580"),
    pytest.param(
        {"os": "ubuntu-24.04", "lock": {"dcgm": "4.2.3"}}, {
            "apt_run": failed(("Package datacenter-gpu-manager is not available, but is referred to by another package.\n"
                               "This may mean that the package is missing, has been obsoleted, or\nis only available from another source\n"
                               "However the following packages replace it:\n  datacenter-gpu-manager-4-core datacenter-gpu-manager-4-proprietary\n\n"
                               "E: Package 'datacenter-gpu-manager' has no installation candidate\n"), 100),
        }, "drift",
        [("package_renamed", "error", "datacenter-gpu-manager datacenter-gpu-manager-4-core")],
        [("install_exact", "datacenter-gpu-manager-4-core")], id="ren-replaced"),
    pytest.param(
        {"os": "ubuntu-24.04", "lock": {"driver": "580.82.07", "fabric_manager": "580.82.07"}}, {
            "ansible_result": failed("{\"changed\": false, \"msg\": \"No package matching 'nvidia-fabricmanager-580' is available\"}", 2),
        }, "drift",
        [("package_renamed", "error", "nvidia-fabricmanager-580 nvidia-fabricmanager")],
        [("install_exact", "nvidia-fabricmanager=580.82.07")], id="ren-ansible"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01", "origin": "ubuntu"}}, {
            "apt_policy": ("nvidia-driver-535:\n  Installed: 535.183.01-0ubuntu0.22.04.1\n  Candidate: 535.216.01-0ubuntu0~gpu22.04.1\n"
                           "  Version table:\n     535.216.01-0ubuntu0~gpu22.04.1 500\n"
                           "        500 https://ppa.launchpadcontent.example/graphics-drivers/ppa/ubuntu jammy/main amd64 Packages\n"
                           " *** 535.183.01-0ubuntu0.22.04.1 500\n"
                           "        500 http://archive.ubuntu.example/ubuntu jammy-updates/restricted amd64 Packages\n"
                           "        500 http://security.ubuntu.example/ubuntu jammy-security/restricted amd64 Packages\n"
                           "        100 /var/lib/dpkg/status\n"),
        }, "drift", [("candidate_leaves_origin", "warn", "Ubuntu")], [("add_apt_pin", "nvidia-* libnvidia-* 535.183.01-0ubuntu0.22.04.1")], id="clo-ppa"),
    pytest.param(
        {"os": "pop-22.04"}, {
            "apt_policy": ("nvidia-container-toolkit:\n  Installed: 1.17.8-1\n  Candidate: 1.18.0-1pop1~1733173212~22.04~9a2fa79\n  Version table:\n"
                           "     1.18.0-1pop1~1733173212~22.04~9a2fa79 1001\n       1001 http://apt.pop-os.example/release jammy/main amd64 Packages\n"
                           " *** 1.17.8-1 500\n        500 https://nvidia.github.io/libnvidia-container/stable/deb/amd64  Packages\n"
                           "        100 /var/lib/dpkg/status\n"),
        }, "drift",
        [("candidate_leaves_origin", "warn", "nvidia-container-toolkit")],
        [("add_apt_pin", "nvidia-container-toolkit")], id="clo-nolock-toolkit"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01", "origin": "ubuntu"}}, {
            "apt_policy": ("nvidia-driver-535:\n  Installed: 535.183.01-0ubuntu0.22.04.1\n  Candidate: 535.183.01-0ubuntu0.22.04.1\n"
                           "  Version table:\n     535.216.01-0ubuntu1 -1\n"
                           "         -1 https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64  Packages\n"
                           " *** 535.183.01-0ubuntu0.22.04.1 500\n"
                           "        500 http://archive.ubuntu.example/ubuntu jammy-updates/restricted amd64 Packages\n        100 /var/lib/dpkg/status\n"),
        }, "in_sync", [], [], id="clo-twin"),
    pytest.param(
        {"os": "debian-12", "lock": {"driver": "535.183.01"}}, {
            "apt_policy": ("nvidia-driver:\n  Installed: (none)\n  Candidate: (none)\n  Version table:\n     535.183.01-1~deb12u1 -1\n"
                           "        -1 http://deb.debian.example/debian bookworm/non-free amd64 Packages\n"),
        }, "drift",
        [("pinned_away", "error", "nvidia-driver 535.183.01-1~deb12u1")],
        [("add_apt_pin", "nvidia-driver"), ("install_exact", "nvidia-driver=535.183.01-1~deb12u1")], id="pa-neg"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "apt_preferences": "Package: nvidia-driver-535\nPin: version 535.171.04-0ubuntu0.22.04.1\nPin-Priority: 1001\n",
            "apt_policy": ("nvidia-driver-535:\n  Installed: 535.183.01-0ubuntu0.22.04.1\n  Candidate: 535.183.01-0ubuntu0.22.04.1\n"
                           "  Package pin: 535.171.04-0ubuntu0.22.04.1\n  Version table:\n *** 535.183.01-0ubuntu0.22.04.1 1001\n"
                           "        500 http://archive.ubuntu.example/ubuntu jammy-updates/restricted amd64 Packages\n        100 /var/lib/dpkg/status\n"),
        }, "drift", [("stale_pin", "error", "nvidia-driver-535 535.171.04")], [], id="sp-gone"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"container_toolkit": "1.14.6"}}, {
            "apt_madison": ("nvidia-container-toolkit |   1.18.0-1 | https://nvidia.github.io/libnvidia-container/stable/deb/amd64  Packages\n"
                            "nvidia-container-toolkit |   1.17.8-1 | https://nvidia.github.io/libnvidia-container/stable/deb/amd64  Packages\n"),
        }, "blocked", [("locked_version_gone_from_archive", "error", "nvidia-container-toolkit 1.14.6")], [("fail_preflight", "")], id="gone-madison"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "550.54.14"}}, {
            "apt_run": failed(("Err:1 http://archive.ubuntu.example/ubuntu jammy-updates/restricted amd64 nvidia-driver-550 amd64 "
                               "550.54.14-0ubuntu0.22.04.1\n  404  Not Found [IP: 185.125.190.83 80]\n"
                               "E: Failed to fetch http://archive.ubuntu.example/ubuntu/pool/restricted/n/nvidia-graphics-driv"
                               "ers-550/nvidia-driver-550_550.54.14-0ubuntu0.22.04.1_amd64.deb  404  Not Found [IP: 185.125.190.83 80]\n"
                               "E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?\n"), 100),
        }, "blocked",
        [("locked_version_gone_from_archive", "error", "nvidia-driver-550 550.54.14-0ubuntu0.22.04.1")],
        [("fail_preflight", "")], id="gone-404"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"kernel": "5.15.0-94-generic"}}, {
            "apt_run": failed(("E: Unable to locate package linux-image-5.15.0-94-generic\n"
                               "E: Couldn't find any package by glob 'linux-image-5.15.0-94-generic'\n"
                               "E: Couldn't find any package by regex 'linux-image-5.15.0-94-generic'\n"), 100),
        }, "blocked", [("locked_version_gone_from_archive", "error", "linux-image-5.15.0-94-generic")], [("fail_preflight", "")], id="gone-kernel"),
    pytest.param(
        {"os": "ubuntu-24.04"}, {
            "apt_run": failed("dpkg: warning: downgrading is disabled; will not downgrade cuda-keyring from version 1.1-1 to 1.0-1, skipping\n"),
        }, "in_sync", [("keyring_newer", "warn", "cuda-keyring 1.0-1 1.1-1")], [], id="key-dpkg"),
    pytest.param(
        {"os": "ubuntu-18.04"}, {
            "ansible_result": failed(("{\"changed\": false, \"msg\": \"'/usr/bin/apt-get -y install 'nvidia-headless-535-server'' failed: E: "
                                      "Could not get lock /var/lib/dpkg/lock-frontend - open (11: Resource temporarily unavailable)\\nE: "
                                      "Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), is another process using "
                                      'it?\\n", "rc": 100}'), 2),
        }, "unknown", [("apt_locked", "warn", "/var/lib/dpkg/lock-frontend")], [("wait_for_lock", ""), ("retry", "")], id="lock-1804"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "apt_run": failed(("dpkg: error: dpkg frontend lock was locked by another process with pid 4711\n"
                               "Note: removing the lock file is always wrong, can damage the locked area\n"
                               "and the entire system. See <https://wiki.debian.org/Teams/Dpkg/FAQ#db-lock>.\n"), 2),
        }, "unknown", [("apt_locked", "warn", "4711")], [("wait_for_lock", ""), ("retry", "")], id="lock-dpkg"),
    pytest.param(
        {"os": "ubuntu-20.04"}, {
            "apt_run": failed(("W: GPG error: https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64  InRelease: The "
                               "following signatures couldn't be verified because the public key is not available: NO_PUBKEY A4B469963BF863CC\n"
                               "E: The repository 'https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2004/x86_64  "
                               "InRelease' is no longer signed.\n"
                               "N: Updating from such a repository can't be done securely, and is therefore disabled by default.\n"), 100),
        }, "blocked", [("repository_unauthenticated", "error", "A4B469963BF863CC")], [("configure_repository", "")], id="un-nopub"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "apt_run": failed(("E: Conflicting values set for option Signed-By regarding source "
                               "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/ /: "
                               "/usr/share/keyrings/cuda-archive-keyring.gpg != \nE: The list of sources could not be read.\n"), 100),
        }, "blocked", [("repository_unauthenticated", "error", "")], [], id="un-conflict"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.54.03"}}, {
            "dpkg_list": ("ii  nvidia-driver-530 530.30.02-0ubuntu1 amd64 x\nii  nvidia-dkms-530 530.30.02-0ubuntu1 amd64 x\n"
                          "ii  libnvidia-compute-530:amd64 530.30.02-0ubuntu1 amd64 x\n"),
            "apt_run": failed(("Reading package lists... Done\nBuilding dependency tree... Done\n"
                               "Some packages could not be installed. This may mean that you have\n"
                               "requested an impossible situation or if you are using the unstable\n"
                               "distribution that some required packages have not yet been created\nor been moved out of Incoming.\n"
                               "The following information may help to resolve the situation:\n\nThe following packages have unmet dependencies:\n"
                               " nvidia-driver-535 : Depends: libnvidia-gl-535 (= 535.54.03-0ubuntu1) but it is not going to be installed\n"
                               "                     Depends: nvidia-dkms-535 (<= 535.54.03-1)\n"
                               "                     Conflicts: nvidia-driver-binary\n nvidia-driver-530 : Conflicts: nvidia-driver-binary\n"
                               "E: Unable to correct problems, you have held broken packages.\n"), 100),
        }, "drift",
        [("branch_switch_needs_removal", "error", "530"), ("driver_branch_differs", None, "")],
        [("remove", "530"), ("install_exact", "nvidia-driver-535=535.54.03")], id="bs-apt-530"),
    pytest.param(
        {"os": "ubuntu-18.04", "lock": {"driver": "440.33.01"}}, {
            "apt_run": failed(("Preparing to unpack .../0-libnvidia-compute-440_440.33.01-0ubuntu1_amd64.deb ...\n"
                               "Unpacking libnvidia-compute-440:amd64 (440.33.01-0ubuntu1) ...\n"
                               "dpkg: error processing archive /tmp/apt-dpkg-install-kZ3xUV/0-libnvidia-compute-440_440.33"
                               ".01-0ubuntu1_amd64.deb (--unpack):\n"
                               " trying to overwrite '/usr/lib/x86_64-linux-gnu/libnvidia-ml.so', which is also in package "
                               "libnvidia-compute-418:amd64 418.87.00-0ubuntu1\nErrors were encountered while processing:\n"
                               " /tmp/apt-dpkg-install-kZ3xUV/0-libnvidia-compute-440_440.33.01-0ubuntu1_amd64.deb\n"
                               "E: Sub-process /usr/bin/dpkg returned an error code (1)\n"), 100),
        }, "drift", [("branch_switch_needs_removal", "error", "418")], [("remove", ""), ("install_exact", "")], id="bs-overwrite"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.54.03"}}, {
            "apt_run": ("Reading package lists... Done\nBuilding dependency tree... Done\n"
                        "nvidia-driver-535 is already the newest version (535.54.03-0ubuntu1).\n"
                        "0 upgraded, 0 newly installed, 0 to remove and 3 not upgraded.\n"),
        }, "in_sync", [], [], id="bs-apt-twin"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "apt_simulation": ("Inst nvidia-driver-535 (535.183.01-0ubuntu0.22.04.1 Ubuntu:22.04/jammy-updates [amd64])\n"
                               "Inst libc6 [2.35-0ubuntu3.6] (2.35-0ubuntu3.8 Ubuntu:22.04/jammy-updates [amd64])\n"
                               "Conf nvidia-driver-535 (535.183.01-0ubuntu0.22.04.1 Ubuntu:22.04/jammy-updates [amd64])\n"),
        }, "in_sync", [], [], id="tl-twin"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"kernel": "5.15.0-94-generic"}}, {
            "apt_simulation": ("Inst linux-image-5.15.0-101-generic (5.15.0-101.111 Ubuntu:22.04/jammy-updates [amd64])\n"
                               "Inst linux-image-generic [5.15.0.94.91] (5.15.0.101.98 Ubuntu:22.04/jammy-updates [amd64])\n"
                               "Conf linux-image-5.15.0-101-generic (5.15.0-101.111 Ubuntu:22.04/jammy-updates [amd64])\n"),
        }, "blocked",
        [("transaction_installs_unlocked_kernel", "error", "5.15.0-101-generic")],
        [("refuse_transaction", "5.15.0-101-generic"), ("hold", "linux-image-generic")], id="tik-apt"),
    pytest.param(
        {"os": "ubuntu-24.04", "lock": {"kernel": "6.8.0-41-generic", "driver": "550.107.02"}}, {
            "apt_run": failed(("Reading package lists...\nBuilding dependency tree...\nReading state information...\n"
                               "The following additional packages will be installed:\n"
                               "  linux-image-6.8.0-45-generic linux-modules-6.8.0-45-generic linux-modules-nvidia-550-6.8.0-45-generic\n"
                               "The following NEW packages will be installed:\n  linux-image-6.8.0-45-generic linux-modules-6.8.0-45-generic\n"
                               "  linux-modules-nvidia-550-6.8.0-45-generic linux-modules-nvidia-550-generic\n"
                               "0 upgraded, 4 newly installed, 0 to remove and 3 not upgraded.\nAbort.\n")),
        }, "blocked", [("transaction_installs_unlocked_kernel", "error", "6.8.0-45-generic")], [("refuse_transaction", "")], id="tik-nvmod"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"kernel": "5.15.0-94-generic"}}, {
            "apt_run": ("Reading package lists... Done\nThe following packages will be REMOVED:\n"
                        "  linux-headers-5.15.0-94* linux-headers-5.15.0-94-generic* linux-image-5.15.0-94-generic* linux-modules-5.15.0-94-generic*\n"
                        "0 upgraded, 0 newly installed, 4 to remove and 0 not upgraded.\nDo you want to continue? [Y/n] Abort.\n"),
        }, "blocked",
        [("transaction_removes_locked_kernel", "error", "5.15.0-94-generic")],
        [("refuse_transaction", "5.15.0-94-generic")], id="trk-autoremove"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"kernel": "5.15.0-94-generic"}}, {
            "apt_simulation": "Remv linux-image-5.15.0-92-generic [5.15.0-92.102]\nRemv linux-modules-5.15.0-92-generic [5.15.0-92.102]\n",
        }, "in_sync", [], [], id="trk-twin"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "apt_run": failed(("The following packages have unmet dependencies:\n"
                               " ibverbs-providers : Depends: libibverbs1 (= 39.0-1) but 2307mlnx47-1.2310214 is to be installed\n"
                               " libibverbs-dev : Depends: libibverbs1 (= 2307mlnx47-1.2310214) but 39.0-1 is to be installed\n"
                               "E: Unable to correct problems, you have held broken packages.\n"), 100),
        }, "blocked", [("mixed_rdma_stack", "error", "libibverbs1 39.0-1 2307mlnx47-1.2310214")], [("fail_preflight", "")], id="mr-apt"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01", "origin": "nvidia"}}, {
            "apt_policy": ("nvidia-driver-535:\n  Installed: 535.183.01-0ubuntu0.22.04.1\n  Candidate: 535.183.01-0ubuntu1\n  Version table:\n"
                           "     535.183.01-0ubuntu1 600\n"
                           "        600 https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64  Packages\n"
                           " *** 535.183.01-0ubuntu0.22.04.1 500\n"
                           "        500 http://archive.ubuntu.example/ubuntu jammy-updates/restricted amd64 Packages\n        100 /var/lib/dpkg/status\n"),
        }, "drift",
        [("package_origin_differs", "error", "nvidia-driver-535 535.183.01-0ubuntu0.22.04.1")],
        [("install_exact", "nvidia-driver-535=535.183.01-0ubuntu1")], id="po-policy"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "apt_run": failed(("dpkg: error processing archive /var/cache/apt/archives/nvidia-kernel-common-535_535.183.01"
                               "-0ubuntu1_amd64.deb (--unpack):\n"
                               " trying to overwrite '/lib/firmware/nvidia/535.183.01/gsp_ga10x.bin', which is also in package "
                               "nvidia-firmware-535-535.183.01 535.183.01-0ubuntu0.22.04.1\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n"), 100),
        }, "drift", [("package_origin_differs", "error", "535.183.01")], [], id="po-overwrite"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "apt_run": failed("E: Sub-process /usr/bin/dpkg returned an error code (1)\n", 100),
            "dpkg_list": ("hi  nvidia-driver-535 535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  libnvidia-compute-535:amd64 535.183.01-0ubuntu0.22.04.1 amd64 x\n"),
        }, "unknown", [("probe_failed", None, "")], [], id="unk-sub"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "apt_run": failed(("E: Failed to fetch http://archive.ubuntu.example/ubuntu/pool/main/p/python3.10/python3.10_3.10"
                               ".12-1~22.04.7_amd64.deb  404  Not Found [IP: 1.2.3.4 80]\n"
                               "E: Unable to fetch some archives, maybe run apt-get update or try with --fix-missing?\n"), 100),
            "dpkg_list": ("hi  nvidia-driver-535 535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  libnvidia-compute-535:amd64 535.183.01-0ubuntu0.22.04.1 amd64 x\n"),
        }, "unknown", [("probe_failed", None, "")], [], id="unk-404-other"),
    pytest.param(
        {"os": "ubuntu-20.04", "lock": {"driver": "460.73.01"}}, {
            "apt_run": failed(("The following packages have unmet dependencies:\n"
                               " nvidia-driver-460 : Depends: nvidia-dkms-460 (= 460.73.01-0ubuntu0.20.04.1) but 460.80-0ubuntu0.20.04.2 "
                               "is to be installed\nE: Unable to correct problems, you have held broken packages.\n"), 100),
        }, "drift", [("exact_set_needed", "info", "nvidia-dkms-460")], [("install_exact", "")], id="pop-unmet"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.161.07"}}, {
            "apt_policy": ("nvidia-driver-535:\n  Installiert:           (keine)\n  Installationskandidat: 535.230.02-0ubuntu0.22.04.1\n"
                           "  Versionstabelle:\n     535.230.02-0ubuntu0.22.04.1 500\n"
                           "        500 http://de.archive.ubuntu.example/ubuntu jammy-updates/restricted amd64 Packages\n"),
        }, "blocked", [("locked_version_gone_from_archive", "error", "nvidia-driver-535 535.161.07")], [("fail_preflight", "")], id="de-policy"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "apt_run": failed(("E: Sperre /var/lib/dpkg/lock-frontend konnte nicht erlangt werden. Sie wird von Prozess 2314 "
                               "(unattended-upgr) gehalten.\nN: Beachten Sie, dass die Entfernung der Sperrdatei keine Lösung ist.\n"
                               "E: Die Sperrung der DPKG-Oberfläche (/var/lib/dpkg/lock-frontend) konnte nicht erlangt werden, wird sie "
                               "von einem anderen Prozess verwendet?\n"), 100),
        }, "unknown", [("apt_locked", "warn", "")], [("wait_for_lock", ""), ("retry", "")], id="de-lock"),
    pytest.param(
        {"os": "debian-13", "lock": {"container_toolkit": "1.17.8"}}, {
            "apt_run": failed(("Solving dependencies... Error!\nSome packages could not be installed. This may mean that you have\n"
                               "requested an impossible situation or if you are using the unstable\n"
                               "distribution that some required packages have not yet been created\nor been moved out of Incoming.\n"
                               "The following information may help to resolve the situation:\n\nUnsatisfied dependencies:\n"
                               " nvidia-container-toolkit : Depends: nvidia-container-toolkit-base (= 1.17.8-1)\n"
                               "                            Depends: libnvidia-container-tools (= 1.17.8-1)\n"
                               "Error: Unable to correct problems, you have held broken packages.\n"
                               "Error: The following information from --solver 3.0 may provide additional context:\n"
                               "   Unable to satisfy dependencies. Reached two conflicting decisions:\n"
                               "   1. nvidia-container-toolkit-base:amd64=1.18.0-1 is selected for install\n"
                               "   2. nvidia-container-toolkit:amd64=1.17.8-1 Depends nvidia-container-toolkit-base (= 1.17.8-1)\n"
                               "      but none of the choices are installable:\n"
                               "      - nvidia-container-toolkit-base:amd64=1.17.8-1 is not selected for install\n"), 100),
        }, "drift",
        [("exact_set_needed", None, "")],
        [("install_exact", "nvidia-container-toolkit=1.17.8-1 nvidia-container-toolkit-base=1.17.8-1 "
                           "libnvidia-container-tools=1.17.8-1 libnvidia-container1=1.17.8-1"),
         ("hold", "")], id="apt3-unsat"),
    pytest.param(
        {"os": "ubuntu-25.04", "lock": {"driver": "570.86.15"}}, {
            "apt_run": failed(("Reading package lists... Done\nBuilding dependency tree... Done\nReading state information... Done\n"
                               "Calculating upgrade... Done\nUpgrading:\n  nvidia-driver-570 (570.86.15-0ubuntu1 => 570.169-0ubuntu0.25.04.1)\n"
                               "  libc6 (2.41-6ubuntu1 => 2.41-6ubuntu2)\n\nSummary:\n  Upgrading: 2, Installing: 0, Removing: 0, Not Upgrading: 0\n"
                               "  Download size: 100 MB\nContinue? [Y/n] Abort.\n")),
        }, "drift", [("transaction_leaves_lock", "error", "nvidia-driver-570 570.169")], [("hold", "nvidia-driver-570")], id="apt3-plan"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.161.07"}}, {
            "apt_policy": ("nvidia-driver-535:\n  Installed: 535.161.07-0ubuntu0.22.04.1\n  Candidate: 535.230.02-0ubuntu0.22.04.1\n"
                           "  Version table:\n     535.230.02-0ubuntu0.22.04.1 500\n"
                           "        500 http://archive.ubuntu.example/ubuntu jammy-updates/restricted amd64 Packages\n"
                           " *** 535.161.07-0ubuntu0.22.04.1 100\n        100 /var/lib/dpkg/status\n"),
        }, "in_sync", [("locked_version_gone_from_archive", "warn", "nvidia-driver-535 535.161.07")], [], id="gone-installed"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"container_toolkit": "1.17.8"}}, {
            "apt_run": failed("E: Unable to locate package nvidia-docker2\n", 100),
        }, "drift",
        [("package_renamed", "error", "nvidia-docker2 nvidia-container-toolkit")],
        [("install_exact", "nvidia-container-toolkit=1.17.8")], id="docker2"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"container_toolkit": "1.17.8"}}, {
            "apt_policy": ("libnvidia-container1:\n  Installed: 1.17.8-1\n  Candidate: 1.17.8-1\n  Version table:\n     1.18.0-1 500\n"
                           "        500 https://nvidia.github.io/libnvidia-container/stable/deb/amd64  Packages\n *** 1.17.8-1 1001\n"
                           "        500 https://nvidia.github.io/libnvidia-container/stable/deb/amd64  Packages\n        100 /var/lib/dpkg/status\n"
                           "     1.17.7-1 500\n        500 https://nvidia.github.io/libnvidia-container/stable/deb/amd64  Packages\n"),
        }, "in_sync", [], [], id="twin-policy"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"container_toolkit": "1.17.8"}}, {
            "apt_holds": "nvidia-container-toolkit\nnvidia-container-toolkit-base\nlibnvidia-container1\nlibnvidia-container-tools\n",
            "dpkg_list": ("hi  nvidia-container-toolkit                 1.17.8-1 amd64 x\n"
                          "hi  nvidia-container-toolkit-base            1.17.8-1 amd64 x\n"
                          "hi  libnvidia-container1:amd64               1.17.8-1 amd64 x\n"
                          "hi  libnvidia-container-tools                1.17.8-1 amd64 x\n"),
            "apt_policy": ("nvidia-container-toolkit:\n  Installed: 1.17.8-1\n  Candidate: 1.18.0-1\n  Version table:\n     1.18.0-1 500\n"
                           "        500 https://nvidia.github.io/libnvidia-container/stable/deb/amd64  Packages\n *** 1.17.8-1 500\n"
                           "        500 https://nvidia.github.io/libnvidia-container/stable/deb/amd64  Packages\n        100 /var/lib/dpkg/status\n"),
        }, "in_sync", [], [], id="twin-holds-policy-newer"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "apt_simulation": ("Reading package lists...\nBuilding dependency tree...\nReading state information...\nCalculating upgrade...\n"
                               "The following packages have been kept back:\n  libnvidia-compute-535 nvidia-driver-535\n"
                               "The following packages will be upgraded:\n  libc6\n1 upgraded, 0 newly installed, 0 to remove and 2 not upgraded.\n"
                               "Inst libc6 [2.35-0ubuntu3.6] (2.35-0ubuntu3.8 Ubuntu:22.04/jammy-updates [amd64])\n"
                               "Conf libc6 (2.35-0ubuntu3.8 Ubuntu:22.04/jammy-updates [amd64])\n"),
        }, "in_sync", [], [], id="twin-sim-held"),
]


@pytest.mark.parametrize("given,texts,verdict,findings,steps", CASES)
def test_what_is_said(given, texts, verdict, findings, steps):
    assert not wrong(judged(given, **texts), verdict, findings, steps)
