# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More recordings of dpkg and apt's settings, in their own words: what is wrong is told, and a healthy twin is not."""
from __future__ import annotations

import pytest

from .recorded import failed, judged
from .told import wrong

CASES = [
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "dpkg_list": ("hi  nvidia-driver-535 535.183.01-0ubuntu0.22.04.1 amd64 a\n"
                          "hi  libnvidia-compute-535:amd64 535.183.01-0ubuntu0.22.04.1 amd64 a\n"
                          "hi  libnvidia-compute-535:i386 535.171.04-0ubuntu0.22.04.1 i386 a\n"),
        }, "broken",
        [("package_set_split", "error", "libnvidia-compute-535:i386 535.171.04")],
        [("install_exact", "libnvidia-compute-535")], id="split-i386"),
    pytest.param(
        {"os": "rocky-9"}, {
            "rpm_list": ("datacenter-gpu-manager-4-core-4.2.3-1.x86_64\ndatacenter-gpu-manager-4-cuda12-4.1.1-1.x86_64\n"
                         "datacenter-gpu-manager-4-proprietary-4.1.1-1.x86_64\n"),
        }, "drift", [("package_set_split", "error", "datacenter-gpu-manager-4-core 4.2.3 4.1.1")], [], id="split-dcgm4"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "550.90.07"}}, {
            "dpkg_list": ("hi  nvidia-driver-550 550.90.07-0ubuntu1 amd64 NVIDIA driver metapackage\n"
                          "hi  libnvidia-compute-550:amd64 550.90.07-0ubuntu1 amd64 x\n"
                          "ii  libnvidia-compute-535:amd64 535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "rc  nvidia-kernel-common-525 525.147.05-0ubuntu1 amd64 x\n"),
        }, "drift",
        [("package_still_present", "error", "libnvidia-compute-535 535.183.01")],
        [("remove", "libnvidia-compute-535")], id="psp-two-branches"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "550.90.07", "fabric_manager": "550.90.07"}}, {
            "dpkg_list": ("hi  nvidia-driver-550 550.90.07-0ubuntu1 amd64 NVIDIA driver metapackage\n"
                          "hi  nvidia-fabricmanager-550 550.90.07-1 amd64 x\nii  nvidia-fabricmanager-535 535.183.01-1 amd64 x\n"),
        }, "drift", [("package_still_present", "error", "nvidia-fabricmanager-535 535.183.01")], [("remove", "nvidia-fabricmanager-535")], id="psp-fm"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "550.90.07"}}, {
            "dpkg_list": ("hi  nvidia-driver-550 550.90.07-0ubuntu1 amd64 NVIDIA driver metapackage\n"
                          "hi  libnvidia-compute-550:amd64 550.90.07-0ubuntu1 amd64 x\n"
                          "rc  libnvidia-compute-535:amd64 535.183.01-0ubuntu0.22.04.1 amd64 x\n"),
        }, "in_sync", [], [], id="psp-twin-rc"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"container_toolkit": "1.17.8"}}, {
            "dpkg_list": "un  nvidia-container-toolkit  <none>  <none>  (no description available)\n",
        }, "drift", [("package_missing", "error", "nvidia-container-toolkit")], [("install_exact", "nvidia-container-toolkit=1.17.8")], id="pm-dpkg-un"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01", "nccl": "2.20.5"}}, {
            "dpkg_list": failed("dpkg-query: no packages found matching libnccl2\nnvidia-driver-535\t535.183.01-0ubuntu1\thi \n"),
        }, "drift", [("package_missing", "error", "libnccl2")], [("install_exact", "libnccl2=2.20.5")], id="pm-fm-part"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "dpkg_list": ("hF  nvidia-dkms-535 535.183.01-0ubuntu0.22.04.1 amd64 a\n"
                          "hi  libnvidia-compute-535:amd64 535.183.01-0ubuntu0.22.04.1 amd64 a\n"),
        }, "broken", [("package_half_configured", "error", "nvidia-dkms-535")], [("configure_packages", "")], id="half-hF"),
    pytest.param(
        {"os": "debian-12"}, {
            "apt_run": failed(("Loading new nvidia-current-535.161.08 DKMS files...\nBuilding for 6.1.0-21-amd64\n"
                               "Building initial module for 6.1.0-21-amd64\n"
                               "Error! Bad return status for module build on kernel: 6.1.0-21-amd64 (x86_64)\n"
                               "Consult /var/lib/dkms/nvidia-current/535.161.08/build/make.log for more information.\n"
                               "dpkg: error processing package nvidia-kernel-dkms (--configure):\n"
                               " installed nvidia-kernel-dkms package post-installation script subprocess returned error exit status 10\n"
                               "dpkg: dependency problems prevent configuration of nvidia-driver:\n"
                               " nvidia-driver depends on nvidia-kernel-dkms (= 535.161.08-2~deb12u1) | nvidia-kernel-535.161.08 | "
                               "nvidia-open-kernel-535.161.08; however:\n  Package nvidia-kernel-dkms is not configured yet.\n"
                               "  Package nvidia-kernel-535.161.08 is not installed.\n\ndpkg: error processing package nvidia-driver (--configure):\n"
                               " dependency problems - leaving unconfigured\nErrors were encountered while processing:\n nvidia-kernel-dkms\n"
                               " nvidia-driver\nE: Sub-process /usr/bin/dpkg returned an error code (1)\n"), 100),
        }, "broken",
        [("package_half_configured", "error", "nvidia-kernel-dkms nvidia-driver"), ("dkms_build_failed", None, "")],
        [("configure_packages", "")], id="half-run"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "apt_run": failed(("The following packages are only half configured, probably due to problems\n"
                               "configuring them the first time.  The configuration should be retried using\n"
                               "dpkg --configure <package> or the configure menu option in dselect:\n nvidia-dkms-535      NVIDIA DKMS package\n")),
        }, "broken", [("package_half_configured", "error", "nvidia-dkms-535")], [("configure_packages", "")], id="half-audit"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "dpkg_list": "iF  bcmwl-kernel-source 6.30.223.271+bdcom-0ubuntu8 amd64 a\nhi  nvidia-driver-535 535.183.01-0ubuntu0.22.04.1 amd64 a\n",
        }, "in_sync", [("package_half_configured", "warn", "bcmwl-kernel-source")], [("configure_packages", "")], id="half-other"),
    pytest.param(
        {"os": "ubuntu-24.04", "lock": {"driver": "570.86.15"}}, {
            "apt_holds": "nvidia-driver-570\nnvidia-dkms-570\n",
            "dpkg_list": ("libnvidia-compute-570\t570.86.15-0ubuntu1\tii \nlibnvidia-cfg1-570\t570.86.15-0ubuntu1\tii \n"
                          "nvidia-utils-570\t570.86.15-0ubuntu1\tii \nnvidia-driver-570\t570.86.15-0ubuntu1\thi \n"
                          "nvidia-dkms-570\t570.86.15-0ubuntu1\thi \n"),
        }, "drift",
        [("hold_incomplete", "error", "libnvidia-compute-570 libnvidia-cfg1-570 nvidia-utils-570")],
        [("hold", "libnvidia-compute-570")], id="hold-inc"),
    pytest.param(
        {"os": "ubuntu-24.04", "lock": {"driver": "570.86.15"}}, {
            "apt_holds": "libnvidia-compute-570\nlibnvidia-cfg1-570\nnvidia-utils-570\nnvidia-driver-570\nnvidia-dkms-570\n",
            "dpkg_list": ("libnvidia-compute-570:amd64\t570.86.15-0ubuntu1\thi \nlibnvidia-cfg1-570:amd64\t570.86.15-0ubuntu1\thi \n"
                          "nvidia-utils-570\t570.86.15-0ubuntu1\thi \nnvidia-driver-570\t570.86.15-0ubuntu1\thi \n"
                          "nvidia-dkms-570\t570.86.15-0ubuntu1\thi \n"),
        }, "in_sync", [], [], id="hold-twin"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"container_toolkit": "1.17.8"}}, {
            "apt_holds": "nvidia-container-toolkit\t\t\thold\nlibnvidia-container1:amd64\t\t\tinstall\n",
            "dpkg_list": ("libnvidia-container1:amd64 1.17.8-1 ii \nlibnvidia-container-tools 1.17.8-1 ii \n"
                          "nvidia-container-toolkit-base 1.17.8-1 ii \nnvidia-container-toolkit 1.17.8-1 hi \n"),
        }, "drift",
        [("hold_incomplete", "error", "libnvidia-container1 libnvidia-container-tools nvidia-container-toolkit-base")],
        [("hold", "libnvidia-container1")], id="nh-sel"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "545"}}, {
            "dpkg_list": ("nvidia-driver-545\t550.120-0ubuntu0.22.04.1\tii \nnvidia-driver-550\t550.120-0ubuntu0.22.04.1\tii \n"
                          "nvidia-dkms-550\t550.120-0ubuntu0.22.04.1\tii \n"),
        }, "drift",
        [("transitional_package_installed", "error", "nvidia-driver-545"), ("driver_branch_differs", "error", "545 550.120")],
        [("fail_preflight", "")], id="ti-545"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01", "origin": "nvidia"}}, {
            "apt_preferences": ("==> /etc/apt/preferences.d/no-cuda-repo <==\nPackage: nvidia-* libnvidia-* cuda-drivers*\n"
                                'Pin: origin "developer.download.nvidia.com"\nPin-Priority: -1\n'),
        }, "drift", [("pinned_away", "error", "535.183.01")], [("add_apt_pin", "")], id="pa-prefs"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01", "origin": "ubuntu"}}, {
            "apt_preferences": ("==> /etc/apt/preferences.d/no-cuda-repo <==\nPackage: nvidia-* libnvidia-* cuda-drivers*\n"
                                'Pin: origin "developer.download.nvidia.com"\nPin-Priority: -1\n'),
        }, "in_sync", [], [], id="pa-twin"),
    pytest.param(
        {"os": "ubuntu-24.04", "lock": {"driver": "580.65.06"}}, {
            "dpkg_list": "hi  nvidia-driver-pinning-575 575-2ubuntu1 all Pin for driver\nhi  nvidia-driver 580.65.06-0ubuntu1 amd64 x\n",
        }, "drift",
        [("stale_pin", "error", "nvidia-driver-pinning-575")],
        [("remove", "nvidia-driver-pinning-575"), ("install_exact", "nvidia-driver-pinning-580")], id="sp-pkg"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "550.90.07"}}, {
            "apt_preferences": ("Package: nvidia-*\nPin: version 550.90.07-*\nPin-Priority: 1001\n\nPackage: *\nPin: release a=jammy-backports\n"
                                "Pin-Priority: 100\n"),
        }, "in_sync", [], [], id="sp-twin"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"kernel": "5.15.0-94-generic"}}, {
            "apt_holds": "linux-image-5.15.0-94-generic\nlinux-headers-5.15.0-94-generic\n",
            "dpkg_list": ("linux-image-5.15.0-94-generic 5.15.0-94.104 hi \nlinux-headers-5.15.0-94-generic 5.15.0-94.104 hi \n"
                          "linux-generic 5.15.0.94.91 ii \nlinux-image-generic 5.15.0.94.91 ii \nlinux-headers-generic 5.15.0.94.91 ii \n"),
        }, "drift",
        [("meta_package_not_held", "error", "linux-image-generic linux-headers-generic linux-generic")],
        [("hold", "linux-generic")], id="meta-nh"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"kernel": "6.5.0-1014-aws"}}, {
            "apt_holds": "nvidia-driver-535\n",
            "dpkg_list": ("ii  linux-aws 6.5.0.1014.14~22.04.1 amd64 x\nii  linux-image-aws 6.5.0.1014.14~22.04.1 amd64 x\n"
                          "ii  linux-headers-aws 6.5.0.1014.14~22.04.1 amd64 x\nii  linux-image-6.5.0-1014-aws 6.5.0-1014.14~22.04.1 amd64 x\n"),
        }, "drift", [("meta_package_not_held", "error", "linux-aws linux-image-aws linux-headers-aws")], [("hold", "linux-image-aws")], id="meta-aws"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "apt_sources": ("==> /etc/apt/sources.list.d/cuda.list <==\n"
                            "deb [trusted=yes arch=amd64] https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64 /\n"),
        }, "blocked", [("repository_unauthenticated", "error", "/etc/apt/sources.list.d/cuda.list")], [], id="un-trusted"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "dpkg_list": ("ii  libibverbs1:amd64 2307mlnx47-1.2310214 amd64 x\nii  ibverbs-providers:amd64 39.0-1 amd64 x\n"
                          "ii  rdma-core 2307mlnx47-1.2310214 amd64 x\n"),
        }, "broken", [("mixed_rdma_stack", "error", "libibverbs1 ibverbs-providers 39.0-1 2307mlnx47-1.2310214")], [("manual", "")], id="mr-inst-apt"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "550.90.07", "origin": "ubuntu"}}, {
            "dpkg_list": ("hi  nvidia-driver-550 550.90.07-0ubuntu0.22.04.1 amd64 x\nhi  libnvidia-compute-550:amd64 550.90.07-0ubuntu1 amd64 x\n"
                          "hi  nvidia-utils-550 550.90.07-0ubuntu0.22.04.1 amd64 x\n"),
        }, "drift", [("package_origin_differs", "error", "libnvidia-compute-550 550.90.07-0ubuntu1")], [], id="po-dpkg"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "550.90.07", "origin": "ubuntu"}}, {
            "dpkg_list": "hi  nvidia-driver-550 550.90.07-0ubuntu0~gpu22.04.1 amd64 x\n",
        }, "drift", [("package_origin_differs", "error", "nvidia-driver-550 550.90.07-0ubuntu0~gpu22.04.1")], [], id="po-ppa-dpkg"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "dpkg_list": ("Gewünscht=Unbekannt/Installieren/R=Entfernen/P=Vollständig Löschen/Halten\n"
                          "| Status=Nicht/Installiert/Config/U=Entpackt/halb konFiguriert/\n"
                          "         Halb installiert/Trigger erWartet/Trigger anhängig\n"
                          "|/ Fehler?=(kein)/R=Neuinstallation notwendig (Status, Fehler: GROSS=schlecht)\n"
                          "||/ Name              Version                     Architektur  Beschreibung\n"
                          "+++-=================-===========================-============-=================================\n"
                          "hi  nvidia-driver-535 535.230.02-0ubuntu0.22.04.1 amd64        NVIDIA driver metapackage\n"),
        }, "drift", [("package_version_differs", "error", "nvidia-driver-535 535.230.02")], [("downgrade_exact", "")], id="de-dpkg"),
    pytest.param(
        {"os": "debian-12", "lock": {"kernel": "6.1.0-21-amd64"}}, {
            "apt_holds": "linux-image-6.1.0-21-amd64\n",
            "dpkg_list": ("ii  linux-image-amd64 6.1.90-1 amd64 x\nii  linux-headers-amd64 6.1.90-1 amd64 x\n"
                          "hi  linux-image-6.1.0-21-amd64 6.1.90-1 amd64 x\n"),
        }, "drift", [("meta_package_not_held", "error", "linux-image-amd64 linux-headers-amd64")], [("hold", "linux-image-amd64")], id="deb-meta"),
    pytest.param(
        {"os": "debian-12", "lock": {"driver": "535.183.01", "hold": True}}, {
            "apt_holds": "",
            "dpkg_list": "nvidia-driver\t535.183.01-1~deb12u1\tii \nlinux-image-amd64\t6.1.90-1\tii \n",
        }, "drift",
        [("package_not_held", "error", "nvidia-driver"), ("package_not_held", "error", "linux-image-amd64")],
        [("hold", "nvidia-driver linux-image-amd64")], id="deb-ans07"),
    pytest.param(
        {"os": "ubuntu-24.04", "lock": {"container_toolkit": "1.17.8"}}, {
            "apt_preferences": ("Package: nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container*\nPin: version 1.16.2-1\n"
                                "Pin-Priority: 1001\n"),
        }, "drift", [("stale_pin", "error", "nvidia-container-toolkit 1.16.2-1")], [("add_apt_pin", "1.17.8")], id="stale-ctk"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.161.07"}}, {
            "apt_history": ("\nStart-Date: 2024-04-12  06:12:01\nCommandline: /usr/bin/unattended-upgrade\n"
                            "Upgrade: nvidia-driver-535:amd64 (535.161.07-0ubuntu0.22.04.1, 535.171.04-0ubuntu0.22.04.1), "
                            "libnvidia-compute-535:amd64 (535.161.07-0ubuntu0.22.04.1, 535.171.04-0ubuntu0.22.04.1), "
                            "nvidia-dkms-535:amd64 (535.161.07-0ubuntu0.22.04.1, 535.171.04-0ubuntu0.22.04.1)\nEnd-Date: 2024-04-12  06:13:10\n"),
        }, "drift",
        [("package_version_differs", "error", "nvidia-driver-535 535.171.04")],
        [("downgrade_exact", "nvidia-driver-535=535.161.07")], id="hist-uu"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "dpkg_list": ("hi  nvidia-driver-535                        535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  libnvidia-cfg1-535:amd64                 535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  libnvidia-common-535                     535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  libnvidia-compute-535:amd64              535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  libnvidia-compute-535:i386               535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  nvidia-dkms-535                          535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  nvidia-firmware-535-535.183.01           535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  nvidia-kernel-common-535                 535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  nvidia-kernel-source-535                 535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  nvidia-utils-535                         535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  xserver-xorg-video-nvidia-535            535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  nvidia-compute-utils-535                 535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "ii  libnvidia-egl-wayland1:amd64 1:1.1.9-1.1 amd64 x\nii  nvidia-prime 0.8.17.1 all x\n"
                          "ii  nvidia-settings 510.47.03-0ubuntu1 amd64 x\nii  screen-resolution-extra 0.18.2 all x\n"
                          "ii  linux-firmware 20220329.git681281e4-0ubuntu3.31 all x\n"),
        }, "in_sync", [], [], id="twin-u22"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01", "kernel": "5.15.0-113-generic"}}, {
            "dpkg_list": ("hi  nvidia-headless-no-dkms-535-server       535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  libnvidia-compute-535-server:amd64       535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  nvidia-utils-535-server                  535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  linux-modules-nvidia-535-server-5.15.0-113-generic 5.15.0-113.123 amd64 x\n"
                          "hi  linux-objects-nvidia-535-server-5.15.0-113-generic 5.15.0-113.123 amd64 x\n"
                          "hi  linux-signatures-nvidia-5.15.0-113-generic 5.15.0-113.123 amd64 x\n"
                          "hi  linux-image-5.15.0-113-generic           5.15.0-113.123 amd64 x\n"
                          "hi  linux-image-generic                      5.15.0.113.113 amd64 x\n"
                          "hi  nvidia-fabricmanager-535                 535.183.01-0ubuntu0.22.04.1 amd64 x\n"),
        }, "in_sync", [], [], id="twin-u22-modules"),
    pytest.param(
        {"os": "ubuntu-24.04", "lock": {"driver": "580.65.06", "fabric_manager": "580.65.06", "flavour": "open"}}, {
            "dpkg_list": ("hi  nvidia-open                              580.65.06-0ubuntu1 amd64 x\n"
                          "hi  nvidia-driver-open                       580.65.06-0ubuntu1 amd64 x\n"
                          "hi  libnvidia-compute                        580.65.06-0ubuntu1 amd64 x\n"
                          "hi  nvidia-dkms-open                         580.65.06-0ubuntu1 amd64 x\n"
                          "hi  nvidia-modprobe                          580.65.06-0ubuntu1 amd64 x\n"
                          "hi  nvidia-persistenced                      580.65.06-0ubuntu1 amd64 x\n"
                          "hi  nvidia-settings                          580.65.06-0ubuntu1 amd64 x\n"
                          "hi  nvidia-fabricmanager                     580.65.06-1 amd64 x\n"
                          "hi  libnvidia-nscq                           580.65.06-1 amd64 x\n"
                          "hi  nvidia-imex                              580.65.06-1 amd64 x\n"
                          "hi  nvidia-driver-pinning-580                580-1ubuntu1 amd64 x\n"
                          "hi  libxnvctrl0                              580.65.06-0ubuntu1 amd64 x\nii  cuda-keyring 1.1-1 all x\n"),
        }, "in_sync", [], [], id="twin-u24-cuda-repo"),
    pytest.param(
        {"os": "debian-12", "lock": {"driver": "535.183.01"}}, {
            "dpkg_list": ("hi  nvidia-driver                            535.183.01-1~deb12u1 amd64 x\n"
                          "hi  nvidia-kernel-dkms                       535.183.01-1~deb12u1 amd64 x\n"
                          "hi  libcuda1:amd64                           535.183.01-1~deb12u1 amd64 x\n"
                          "hi  nvidia-alternative                       535.183.01-1~deb12u1 amd64 x\n"
                          "hi  nvidia-kernel-support                    535.183.01-1~deb12u1 amd64 x\n"
                          "hi  nvidia-smi                               535.183.01-1~deb12u1 amd64 x\n"
                          "hi  glx-alternative-nvidia                   1.2.2 amd64 x\n"
                          "hi  nvidia-installer-cleanup                 20220217+3~deb12u1 amd64 x\n"
                          "hi  nvidia-modprobe                          535.161.07-1~deb12u1 amd64 x\n"
                          "hi  nvidia-settings                          535.171.04-1~deb12u1 amd64 x\n"
                          "hi  nvidia-persistenced                      535.171.04-1~deb12u1 amd64 x\n"
                          "hi  nvidia-support                           20220217+3~deb12u1 amd64 x\n"
                          "hi  firmware-nvidia-gsp                      535.183.01-1~deb12u1 amd64 x\n"
                          "hi  nvidia-vulkan-common                     535.183.01-1~deb12u1 amd64 x\n"
                          "hi  libnvidia-egl-wayland1                   1:1.1.10-1 amd64 x\n"
                          "hi  nvidia-kernel-common                     20220217+3~deb12u1 amd64 x\n"
                          "hi  nvidia-egl-common                        535.183.01-1~deb12u1 amd64 x\n"
                          "hi  xserver-xorg-video-nvidia                535.183.01-1~deb12u1 amd64 x\n"
                          "hi  nvidia-legacy-check                      535.183.01-1~deb12u1 amd64 x\n"),
        }, "in_sync", [], [], id="twin-deb12"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.171.04"}}, {
            "apt_history": ("Start-Date: 2024-04-12  06:12:01\nCommandline: apt-get install nvidia-driver-535=535.171.04-0ubuntu0.22.04.1\n"
                            "Requested-By: root (0)\nUpgrade: nvidia-driver-535:amd64 (535.161.07-0ubuntu0.22.04.1, 535.171.04-0ubuntu0.22.04.1), "
                            "libnvidia-compute-535:amd64 (535.161.07-0ubuntu0.22.04.1, 535.171.04-0ubuntu0.22.04.1)\nEnd-Date: 2024-04-12  06:13:10\n"),
        }, "in_sync", [], [], id="twin-hist"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "unattended_upgrades": 'Unattended-Upgrade::Package-Blacklist {\n  "nvidia-";\n  "libnvidia-";\n  "linux-";\n};\n',
            "dpkg_list": ("hi  nvidia-driver-535                        535.183.01-0ubuntu0.22.04.1 amd64 x\n"
                          "hi  libnvidia-compute-535:amd64              535.183.01-0ubuntu0.22.04.1 amd64 x\n"),
        }, "in_sync", [], [], id="twin-uu"),
]


@pytest.mark.parametrize("given,texts,verdict,findings,steps", CASES)
def test_what_is_said(given, texts, verdict, findings, steps):
    assert not wrong(judged(given, **texts), verdict, findings, steps)
