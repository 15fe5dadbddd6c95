# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More recordings of dnf, yum and rpm, in their own words: what is wrong is told, and a healthy twin is not."""
from __future__ import annotations

import pytest

from .recorded import failed, judged
from .told import wrong

CASES = [
    pytest.param(
        {"os": "rhel-9.4", "lock": {"driver": "550.54.15"}}, {
            "rpm_list": ("nvidia-driver-cuda-550.90.07-1.el9.x86_64\nnvidia-driver-cuda-libs-550.90.07-1.el9.x86_64\n"
                         "kmod-nvidia-open-dkms-550.90.07-1.el9.x86_64\nglibc-2.34-100.el9.x86_64\n"),
        }, "drift", [("package_version_differs", "error", "nvidia-driver-cuda 550.90.07")], [("downgrade_exact", "nvidia-driver-cuda")], id="pvd-rpm"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.54.15"}}, {
            "rpm_list": failed("package nvidia-driver is not installed\npackage kmod-nvidia-open-dkms is not installed\n"),
        }, "drift", [("package_missing", "error", "nvidia-driver")], [("install_exact", "nvidia-driver")], id="pm-rpm-notinst"),
    pytest.param(
        {"os": "rocky-9"}, {
            "rpm_list": ("nvidia-driver-560.35.03-1.el9.x86_64\nnvidia-driver-libs-560.35.03-1.el9.x86_64\n"
                         "nvidia-driver-cuda-560.35.03-1.el9.x86_64\nkmod-nvidia-open-dkms-560.35.05-1.el9.noarch\n"),
        }, "broken", [("package_set_split", "error", "kmod-nvidia-open-dkms 560.35.05 560.35.03")], [], id="split-rpm-nolock"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "580.65.06", "fabric_manager": "580.65.06"}}, {
            "dnf_run": failed(("Last metadata expiration check: 0:01:33 ago on Tue 09 Sep 2025 08:15:01 AM UTC.\n"
                               "No match for argument: nvidia-fabric-manager-580.65.06-1\n"
                               "Error: Unable to find a match: nvidia-fabric-manager-580.65.06-1\n")),
        }, "drift",
        [("package_renamed", "error", "nvidia-fabric-manager nvidia-fabricmanager")],
        [("install_exact", "nvidia-fabricmanager-580.65.06")], id="ren-cuda-fm-rpm"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.54.15"}}, {
            "dnf_config": "[main]\ngpgcheck=1\ninstallonly_limit=3\nexclude=nvidia-* kmod-nvidia-* kernel*\n",
            "dnf_run": failed(("Last metadata expiration check: 0:01:33 ago.\n"
                               "All matches were filtered out by exclude filtering for argument: nvidia-driver\n"
                               "Error: Unable to find a match: nvidia-driver\n")),
        }, "drift", [("pinned_away", "error", "nvidia-driver")], [("manual", "")], id="pa-dnf"),
    pytest.param(
        {"os": "rhel-9.4", "lock": {"driver": "550.54.14"}}, {
            "dnf_run": failed(("Updating Subscription Management repositories.\nLast metadata expiration check: 0:00:12 ago.\n"
                               "No match for argument: nvidia-driver-3:550.54.14-1.el9\n"
                               "Error: Unable to find a match: nvidia-driver-3:550.54.14-1.el9\n")),
        }, "blocked", [("locked_version_gone_from_archive", "error", "nvidia-driver 550.54.14")], [("fail_preflight", "")], id="gone-dnf"),
    pytest.param(
        {"os": "rhel-9.4", "lock": {"driver": "550.54.14"}}, {
            "dnf_repoquery": ("Available Packages\nnvidia-driver.x86_64    3:550.144.03-1.el9    cuda-rhel9-x86_64\n"
                              "nvidia-driver.x86_64    3:550.163.01-1.el9    cuda-rhel9-x86_64\n"
                              "nvidia-driver.x86_64    3:570.86.15-1.el9    cuda-rhel9-x86_64\n"),
        }, "blocked", [("locked_version_gone_from_archive", "error", "nvidia-driver 550.54.14")], [("fail_preflight", "550.163.01")], id="gone-dnf-list"),
    pytest.param(
        {"os": "rocky-9"}, {
            "dnf_run": failed("Waiting for process with pid 12345 to finish.\n"),
        }, "unknown", [("apt_locked", "warn", "12345")], [("wait_for_lock", ""), ("retry", "")], id="lock-dnf"),
    pytest.param(
        {"os": "amazon-2"}, {
            "dnf_run": failed(("Loaded plugins: extras_suggestions, langpacks, priorities, update-motd\n"
                               "Existing lock /var/run/yum.pid: another copy is running as pid 3208.\n"
                               "Another app is currently holding the yum lock; waiting for it to exit...\n  The other application is: yum\n"
                               "    Memory :  62 M RSS (280 MB VSZ)\n    Started: Tue Apr  2 10:10:10 2024 - 00:04 ago\n"
                               "    State  : Running, pid: 3208\n")),
        }, "unknown", [("apt_locked", "warn", "3208")], [("wait_for_lock", ""), ("retry", "")], id="lock-yum"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.54.15"}}, {
            "dnf_repos": ("==> /etc/yum.repos.d/cuda-rhel9.repo <==\n[cuda-rhel9-x86_64]\nname=cuda-rhel9-x86_64\n"
                          "baseurl=https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64\nenabled=1\ngpgcheck=0\n"),
        }, "blocked", [("repository_unauthenticated", "error", "/etc/yum.repos.d/cuda-rhel9.repo cuda-rhel9-x86_64")], [], id="un-gpgcheck0"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.54.15"}}, {
            "dnf_repos": ("==> /etc/yum.repos.d/cuda-rhel9.repo <==\n[cuda-rhel9-x86_64]\nname=cuda-rhel9-x86_64\n"
                          "baseurl=https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64\nenabled=1\ngpgcheck=1\n"
                          "gpgkey=https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/D42D0685.pub\n\n[local]\nname=l\n"
                          "baseurl=file:///srv\nenabled=0\ngpgcheck=0\n"),
        }, "in_sync", [], [], id="un-gpg-twin"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.54.15"}}, {
            "dnf_run": failed(('Importing GPG key 0xD42D0685:\n Userid     : "cudatools <cudatools@nvidia.com>"\n'
                               "Public key for nvidia-driver-550.54.15-1.el9.x86_64.rpm is not installed. Failing package is: "
                               "nvidia-driver-3:550.54.15-1.el9.x86_64\n"
                               " GPG Keys are configured as: https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64/D42D0685.pub\n"
                               "The downloaded packages were saved in cache until the next successful transaction.\nError: GPG check FAILED\n")),
        }, "blocked", [("repository_unauthenticated", "error", "nvidia-driver")], [], id="un-rpm"),
    pytest.param(
        {"os": "rhel-8.10", "lock": {"driver": "555.42.02"}}, {
            "dnf_run": failed(("Last metadata expiration check: 0:00:54 ago on Wed 19 Jun 2024 09:41:35 AM CEST.\nError: \n"
                               " Problem: package kmod-nvidia-555.42.02-4.18.0-553.5.1-3:555.42.02-3.el8_10.x86_64 from @System "
                               "conflicts with kmod-nvidia-latest-dkms provided by kmod-nvidia-latest-dkms-3:555.42.02-1.el8.x86_64 from "
                               "cuda-rhel8-x86_64\n  - conflicting requests\n"
                               "  - problem with installed package kmod-nvidia-555.42.02-4.18.0-553.5.1-3:555.42.02-3.el8_10.x86_64\n"
                               "(try to add '--allowerasing' to command line to replace conflicting packages or '--skip-broken' to skip "
                               "uninstallable packages or '--nobest' to use not only best candidate packages)\n")),
        }, "drift",
        [("branch_switch_needs_removal", "error", "kmod-nvidia")],
        [("remove", "kmod-nvidia-555.42.02-4.18.0-553.5.1"), ("install_exact", "")], id="bs-dnf-kmod"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "560.35.03"}}, {
            "dnf_modules": ("Last metadata expiration check: 0:00:35 ago on Fri 06 Sep 2024 10:00:00 AM UTC.\ncuda-rhel9-x86_64\n"
                            "Name            Stream             Profiles                         Summary\n"
                            "nvidia-driver   latest             default [d], fm, ks, src         Nvidia driver for latest branch\n"
                            "nvidia-driver   latest-dkms [d]    default [d], fm, ks              Nvidia driver for latest-dkms branch\n"
                            "nvidia-driver   open-dkms [e]          default [d] [i], fm, ks, src         Nvidia driver for open-dkms branch\n"
                            "nvidia-driver   535-dkms           default [d], fm, ks              Nvidia driver for 535-dkms branch\n"
                            "nvidia-driver   550-dkms           default [d], fm, ks              Nvidia driver for 550-dkms branch\n"
                            "nvidia-driver   550-open           default [d], fm, ks, src              Nvidia driver for 550-open branch\n\n"
                            "Hint: [d]efault, [e]nabled, [x]disabled, [i]nstalled\n"),
        }, "drift",
        [("floating_stream", "error", "open-dkms")],
        [("module_reset", "nvidia-driver"), ("module_enable", "nvidia-driver:560-open"), ("dnf_versionlock", "")], id="fs-open"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.90.07", "module_stream": "550-dkms"}}, {
            "dnf_module_states": "[nvidia-driver]\nname=nvidia-driver\nstream=latest-dkms\nprofiles=default\nstate=enabled\n",
        }, "drift",
        [("floating_stream", "error", "latest-dkms")],
        [("module_reset", ""), ("module_enable", "nvidia-driver:550-dkms"), ("dnf_versionlock", "")], id="fs-states"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.90.07", "module_stream": "550-dkms"}}, {
            "dnf_modules": ("Last metadata expiration check: 0:00:35 ago on Fri 06 Sep 2024 10:00:00 AM UTC.\ncuda-rhel9-x86_64\n"
                            "Name            Stream             Profiles                         Summary\n"
                            "nvidia-driver   latest             default [d], fm, ks, src         Nvidia driver for latest branch\n"
                            "nvidia-driver   latest-dkms [d]    default [d], fm, ks              Nvidia driver for latest-dkms branch\n"
                            "nvidia-driver   open-dkms          default [d], fm, ks, src         Nvidia driver for open-dkms branch\n"
                            "nvidia-driver   535-dkms           default [d], fm, ks              Nvidia driver for 535-dkms branch\n"
                            "nvidia-driver   550-dkms [e]           default [d] [i], fm, ks              Nvidia driver for 550-dkms branch\n"
                            "nvidia-driver   550-open           default [d], fm, ks, src              Nvidia driver for 550-open branch\n\n"
                            "Hint: [d]efault, [e]nabled, [x]disabled, [i]nstalled\n"),
        }, "in_sync", [], [], id="fs-twin"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.90.07", "module_stream": "550-open"}}, {
            "dnf_modules": ("Last metadata expiration check: 0:00:35 ago on Fri 06 Sep 2024 10:00:00 AM UTC.\ncuda-rhel9-x86_64\n"
                            "Name            Stream             Profiles                         Summary\n"
                            "nvidia-driver   latest             default [d], fm, ks, src         Nvidia driver for latest branch\n"
                            "nvidia-driver   latest-dkms [d]    default [d], fm, ks              Nvidia driver for latest-dkms branch\n"
                            "nvidia-driver   open-dkms          default [d], fm, ks, src         Nvidia driver for open-dkms branch\n"
                            "nvidia-driver   535-dkms           default [d], fm, ks              Nvidia driver for 535-dkms branch\n"
                            "nvidia-driver   550-dkms [e]           default [d] [i], fm, ks              Nvidia driver for 550-dkms branch\n"
                            "nvidia-driver   550-open           default [d], fm, ks, src              Nvidia driver for 550-open branch\n\n"
                            "Hint: [d]efault, [e]nabled, [x]disabled, [i]nstalled\n"),
        }, "drift",
        [("module_stream_differs", "error", "550-dkms 550-open")],
        [("remove", "nvidia-driver:550-dkms"), ("module_reset", ""), ("module_enable", "nvidia-driver:550-open"), ("install_exact", "")], id="msd-listed"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.90.07"}}, {
            "dnf_modules": ("Last metadata expiration check: 0:00:35 ago on Fri 06 Sep 2024 10:00:00 AM UTC.\ncuda-rhel9-x86_64\n"
                            "Name            Stream             Profiles                         Summary\n"
                            "nvidia-driver   latest             default [d], fm, ks, src         Nvidia driver for latest branch\n"
                            "nvidia-driver   latest-dkms [d]    default [d], fm, ks              Nvidia driver for latest-dkms branch\n"
                            "nvidia-driver   open-dkms          default [d], fm, ks, src         Nvidia driver for open-dkms branch\n"
                            "nvidia-driver   535-dkms [e]           default [d], fm, ks              Nvidia driver for 535-dkms branch\n"
                            "nvidia-driver   550-dkms           default [d], fm, ks              Nvidia driver for 550-dkms branch\n"
                            "nvidia-driver   550-open           default [d], fm, ks, src              Nvidia driver for 550-open branch\n\n"
                            "Hint: [d]efault, [e]nabled, [x]disabled, [i]nstalled\n"),
        }, "drift",
        [("module_stream_differs", "error", "535-dkms 550")],
        [("module_reset", ""), ("module_enable", "nvidia-driver:550"), ("install_exact", "")], id="msd-branch-nolockstream"),
    pytest.param(
        {"os": "rhel-8.10", "lock": {"module_stream": "535-dkms"}}, {
            "dnf_run": failed(("Updating Subscription Management repositories.\n"
                               "The operation would result in switching of module 'nvidia-driver' stream 'latest-dkms' to stream '535-dkms'\n"
                               "Error: It is not possible to switch enabled streams of a module unless explicitly enabled via "
                               "configuration option module_stream_switch.\n")),
        }, "drift",
        [("module_stream_differs", "error", "latest-dkms 535-dkms")],
        [("module_reset", ""), ("module_enable", "nvidia-driver:535-dkms"), ("install_exact", "")], id="msd-dnf4-multi"),
    pytest.param(
        {"os": "rhel-9.4", "lock": {"driver": "570.86.15", "flavour": "open"}}, {
            "dnf_run": failed(("Last metadata expiration check: 0:00:06 ago on Mon 03 Mar 2025 02:00:33 PM UTC.\n"
                               "All matches were filtered out by modular filtering for argument: nvidia-driver-cuda\n"
                               "All matches were filtered out by modular filtering for argument: kmod-nvidia-open-dkms\n"
                               "Error: Unable to find a match: nvidia-driver-cuda kmod-nvidia-open-dkms\n")),
        }, "blocked", [("module_stream_not_enabled", "error", "nvidia-driver")], [("module_enable", "nvidia-driver:570-open")], id="msne-run"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.90.07", "module_stream": "550-dkms"}}, {
            "dnf_module_states": "[nvidia-driver]\nname=nvidia-driver\nstream=\nprofiles=\nstate=disabled\n",
        }, "drift", [("module_stream_not_enabled", "error", "nvidia-driver")], [("module_enable", "nvidia-driver:550-dkms")], id="msne-disabled"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.90.07"}}, {
            "rpm_list": ("nvidia-driver\t3\t550.90.07\t1.el9\tx86_64\nnvidia-driver-libs\t3\t550.90.07\t1.el9\tx86_64\n"
                         "nvidia-driver-cuda\t3\t550.90.07\t1.el9\tx86_64\nkmod-nvidia-open-dkms\t3\t550.90.07\t1.el9\tx86_64\n"
                         "nvidia-persistenced\t3\t550.90.07\t1.el9\tx86_64\n"),
            "dnf_versionlock": ("Last metadata expiration check: 0:22:12 ago on Tue 02 Jul 2024 09:00:01 AM UTC.\nnvidia-driver-3:550.90.07-1.el9.*\n"
                                "kmod-nvidia-open-dkms-3:550.90.07-1.el9.*\n"),
        }, "drift",
        [("versionlock_incomplete", "error", "nvidia-driver-libs nvidia-driver-cuda nvidia-persistenced")],
        [("dnf_versionlock", "nvidia-driver-libs")], id="vl-some"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.90.07"}}, {
            "rpm_list": ("nvidia-driver\t3\t550.90.07\t1.el9\tx86_64\nnvidia-driver-libs\t3\t550.90.07\t1.el9\tx86_64\n"
                         "nvidia-driver-cuda\t3\t550.90.07\t1.el9\tx86_64\nkmod-nvidia-open-dkms\t3\t550.90.07\t1.el9\tx86_64\n"
                         "nvidia-persistenced\t3\t550.90.07\t1.el9\tx86_64\n"),
            "dnf_versionlock": ("nvidia-driver-3:550.54.15-1.el9.*\nnvidia-driver-libs-3:550.90.07-1.el9.*\nnvidia-driver-cuda-3:550.90.07-1.el9.*\n"
                                "kmod-nvidia-open-dkms-3:550.90.07-1.el9.*\nnvidia-persistenced-3:550.90.07-1.el9.*\n"),
        }, "drift", [("versionlock_incomplete", "error", "nvidia-driver 550.54.15")], [("dnf_versionlock", "nvidia-driver")], id="vl-old"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.90.07"}}, {
            "rpm_list": ("nvidia-driver\t3\t550.90.07\t1.el9\tx86_64\nnvidia-driver-libs\t3\t550.90.07\t1.el9\tx86_64\n"
                         "nvidia-driver-cuda\t3\t550.90.07\t1.el9\tx86_64\nkmod-nvidia-open-dkms\t3\t550.90.07\t1.el9\tx86_64\n"
                         "nvidia-persistenced\t3\t550.90.07\t1.el9\tx86_64\n"),
            "dnf_versionlock": ("nvidia-driver*-3:550.90.07-1.el9.*\nkmod-nvidia-open-dkms-3:550.90.07-1.el9.*\n"
                                "nvidia-persistenced-3:550.90.07-1.el9.*\n"),
        }, "in_sync", [], [], id="vl-twin"),
    pytest.param(
        {"os": "fedora-41", "lock": {"driver": "570.86.15"}}, {
            "rpm_list": "nvidia-driver-570.86.15-1.fc41.x86_64\nkmod-nvidia-open-dkms-570.86.15-1.fc41.noarch\n",
            "dnf_versionlock": "# Added by 'versionlock add' command on 2025-02-01 10:00:00\nPackage name: nvidia-driver\nevr = 3:570.86.15-1.fc41\n",
        }, "drift", [("versionlock_incomplete", "error", "kmod-nvidia-open-dkms")], [("dnf_versionlock", "kmod-nvidia-open-dkms")], id="vl-dnf5"),
    pytest.param(
        {"os": "rocky-9", "lock": {"kernel": "5.14.0-427.13.1.el9_4.x86_64"}}, {
            "rpm_list": ("kernel-5.14.0-427.13.1.el9_4.x86_64\nkernel-core-5.14.0-427.13.1.el9_4.x86_64\n"
                         "kernel-modules-5.14.0-427.13.1.el9_4.x86_64\n"),
            "dnf_versionlock": "kernel-0:5.14.0-427.13.1.el9_4.*\n",
        }, "drift", [("versionlock_incomplete", "error", "kernel-core kernel-modules")], [("dnf_versionlock", "kernel-core")], id="vl-kernel"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.54.15"}}, {
            "rpm_list": "nvidia-driver-550.54.15-1.el9.x86_64\nnvidia-driver-libs-550.54.15-1.el9.x86_64\n",
            "dnf_transaction": failed(("Dependencies resolved.\n================================================================================\n"
                                       " Package              Arch     Version               Repository            Size\n"
                                       "================================================================================\nUpgrading:\n"
                                       " nvidia-driver        x86_64   3:550.90.07-1.el9     cuda-rhel9-x86_64    118 M\n"
                                       " nvidia-driver-libs   x86_64   3:550.90.07-1.el9     cuda-rhel9-x86_64    228 M\n"
                                       " openssl              x86_64   1:3.0.7-27.el9        baseos               1.2 M\n\nTransaction Summary\n"
                                       "================================================================================\nUpgrade  3 Packages\n\n"
                                       "Total download size: 347 M\nOperation aborted.\n")),
        }, "drift", [("transaction_leaves_lock", "error", "nvidia-driver 550.90.07")], [("dnf_versionlock", "nvidia-driver")], id="tl-dnf"),
    pytest.param(
        {"os": "rocky-9", "lock": {"kernel": "5.14.0-427.13.1.el9_4.x86_64"}}, {
            "dnf_transaction": failed(("Dependencies resolved.\n Package  Architecture Version Repository Size\nInstalling:\n"
                                       " kernel           x86_64   5.14.0-503.15.1.el9_5    baseos   2.0 M\n"
                                       " kernel-core      x86_64   5.14.0-503.15.1.el9_5    baseos   18 M\n"
                                       " kernel-modules   x86_64   5.14.0-503.15.1.el9_5    baseos   37 M\nUpgrading:\n"
                                       " kernel-headers    x86_64   5.14.0-503.15.1.el9_5    appstream   3 M\n\nTransaction Summary\n"
                                       "Install  3 Packages\nUpgrade  1 Package\n\nOperation aborted.\n")),
        }, "blocked",
        [("transaction_installs_unlocked_kernel", "error", "5.14.0-503.15.1.el9_5")],
        [("refuse_transaction", "5.14.0-503.15.1.el9_5"), ("dnf_versionlock", "kernel")], id="tik-dnf"),
    pytest.param(
        {"os": "rocky-9", "lock": {"kernel": "5.14.0-427.13.1.el9_4.x86_64"}}, {
            "dnf_transaction": failed(("Dependencies resolved.\n Package  Architecture Version Repository Size\nInstalling:\n"
                                       " kernel-core      x86_64   5.14.0-503.15.1.el9_5    baseos   18 M\nRemoving:\n"
                                       " kernel-core      x86_64   5.14.0-427.13.1.el9_4    @baseos   18 M\n\nTransaction Summary\n"
                                       "Install  1 Package\nRemove  1 Package\n\nOperation aborted.\n")),
        }, "blocked",
        [("transaction_removes_locked_kernel", "error", "5.14.0-427.13.1.el9_4"), ("transaction_installs_unlocked_kernel", "error", "5.14.0-503.15.1.el9_5")],
        [("refuse_transaction", "5.14.0-427.13.1.el9_4")], id="trk-dnf"),
    pytest.param(
        {"os": "rocky-9"}, {
            "dnf_run": failed(("Error: \n Problem: package ucx-ib-1.15.0-2.el9.x86_64 from appstream requires "
                               "libibverbs.so.1(IBVERBS_1.14)(64bit), but none of the providers can be installed\n"
                               "  - cannot install both libibverbs-46.0-1.el9.x86_64 from baseos and "
                               "libibverbs-2307mlnx47-1.2310214.x86_64 from @System\n  - conflicting requests\n")),
        }, "blocked", [("mixed_rdma_stack", "error", "libibverbs 2307mlnx47-1.2310214 46.0-1.el9")], [("fail_preflight", "")], id="mr-dnf"),
    pytest.param(
        {"os": "centos-7"}, {
            "dnf_run": failed(("--> Finished Dependency Resolution\nError: Package: ucx-1.10.0-1.el7.x86_64 (/ucx-1.10.0-1.el7.x86_64)\n"
                               "           Requires: libibverbs = 50mlnx1-1.50100.0\n"
                               "           Installed: libibverbs-52mlnx1-1.53100.x86_64 (installed)\n               libibverbs = 52mlnx1-1.53100\n"
                               "           Available: libibverbs-22.4-5.el7.i686 (base)\n               libibverbs = 22.4-5.el7\n"
                               " You could try using --skip-broken to work around the problem\n")),
        }, "blocked", [("mixed_rdma_stack", "error", "libibverbs 52mlnx1-1.53100 22.4-5.el7")], [("fail_preflight", "")], id="mr-yum"),
    pytest.param(
        {"os": "rocky-9"}, {
            "rpm_list": "rdma-core-48.0-1.el9.x86_64\nlibibverbs-2404mlnx51-1.2404066.x86_64\nlibibverbs-utils-2404mlnx51-1.2404066.x86_64\n",
        }, "broken", [("mixed_rdma_stack", "error", "libibverbs rdma-core 48.0-1.el9 2404mlnx51-1.2404066")], [("manual", "")], id="mr-inst-rpm"),
    pytest.param(
        {"os": "centos-7"}, {
            "rpm_list": "infiniband-diags-5.4.0.MLNX20190422.d1468cd-0.1.46101.x86_64\nlibibumad-22.4-5.el7.x86_64\nlibibverbs-22.4-5.el7.x86_64\n",
        }, "broken", [("mixed_rdma_stack", "error", "infiniband-diags libibumad")], [], id="mr-old"),
    pytest.param(
        {"os": "rocky-9", "lock": {"ofed": "24.04-0.6.6.0"}}, {
            "rpm_list": "rdma-core-2404mlnx51-1.2404066.x86_64\nlibibverbs-2404mlnx51-1.2404066.x86_64\n",
        }, "in_sync", [], [], id="mr-twin"),
    pytest.param(
        {"os": "fedora-40", "lock": {"driver": "560.35.03"}}, {
            "dnf_run": failed(("Error: Transaction test error:\n"
                               "  file /usr/bin/nvidia-smi from install of nvidia-driver-cuda-3:560.35.03-1.fc39.x86_64 conflicts with "
                               "file from package xorg-x11-drv-nvidia-cuda-3:560.35.03-1.fc40.x86_64\n"
                               "  file /usr/bin/nvidia-cuda-mps-control from install of nvidia-driver-cuda-3:560.35.03-1.fc39.x86_64 "
                               "conflicts with file from package xorg-x11-drv-nvidia-cuda-3:560.35.03-1.fc40.x86_64\n")),
        }, "drift", [("package_origin_differs", "error", "xorg-x11-drv-nvidia-cuda")], [], id="po-rpmfusion"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.54.15"}}, {
            "dnf_run": failed(("Error: Failed to download metadata for repo 'cuda-rhel9-x86_64': Cannot download repomd.xml: Cannot "
                               "download repodata/repomd.xml: All mirrors were tried\n")),
        }, "unknown", [("probe_failed", None, "")], [], id="unk-dnf"),
    pytest.param(
        {"os": "centos-7", "lock": {"driver": "470.161.03"}}, {
            "dnf_transaction": failed(("Resolving Dependencies\nDependencies Resolved\n\n"
                                       "================================================================================\n"
                                       " Package                       Arch     Version                 Repository  Size\n"
                                       "================================================================================\nInstalling:\n"
                                       " kmod-nvidia-latest            x86_64   3:zzzz.r525.zzzz        REDACTED    10 k\nUpdating:\n"
                                       " nvidia-driver-latest          x86_64   3:525.85.12-1.el7       REDACTED    22 M\n"
                                       " nvidia-driver-latest-NVML     x86_64   3:525.85.12-1.el7       REDACTED    1 M\n\nTransaction Summary\n"
                                       "================================================================================\nInstall  1 Package\n"
                                       "Upgrade  2 Packages\n\nExiting on user command\n")),
        }, "blocked", [("transaction_leaves_lock", "error", "nvidia-driver-latest 525.85.12")], [], id="yum-zzzz"),
    pytest.param(
        {"os": "fedora-42", "lock": {"driver": "570.133.07"}}, {
            "dnf_transaction": failed(("Updating and loading repositories:\nRepositories loaded.\n"
                                       "Package                            Arch   Version              Repository            Size\nUpgrading:\n"
                                       " nvidia-driver-cuda                x86_64 3:575.51.02-1.fc41   cuda-fedora41    1.8 MiB\n"
                                       "   replacing nvidia-driver-cuda    x86_64 3:570.133.07-1.fc41  cuda-fedora41    1.7 MiB\n"
                                       " kmod-nvidia-open-dkms             noarch 3:575.51.02-1.fc41   cuda-fedora41    88.1 MiB\n"
                                       "   replacing kmod-nvidia-open-dkms noarch 3:570.133.07-1.fc41  cuda-fedora41    87.0 MiB\n\n"
                                       "Transaction Summary:\n Upgrading:         2 packages\n Replacing:         2 packages\n\n"
                                       "Total size of inbound packages is 80 MiB. Need to download 80 MiB.\nOperation aborted by the user.\n")),
        }, "drift", [("transaction_leaves_lock", "error", "nvidia-driver-cuda 575.51.02")], [("dnf_versionlock", "nvidia-driver-cuda")], id="dnf5-tx"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.90.07"}}, {
            "rpm_list": "nvidia-driver-550.90.07-1.el9.x86_64\nnvidia-driver-550.54.15-1.el9.x86_64\nnvidia-driver-libs-550.90.07-1.el9.x86_64\n",
        }, "broken", [("package_half_configured", "error", "nvidia-driver")], [("configure_packages", "")], id="rpm-dup"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "570.86.15", "module_stream": "570-open"}}, {
            "rpm_list": ("nvidia-driver-570.86.15-1.el9.x86_64\nnvidia-driver-libs-570.86.15-1.el9.x86_64\n"
                         "nvidia-driver-cuda-570.86.15-1.el9.x86_64\nnvidia-driver-cuda-libs-570.86.15-1.el9.x86_64\n"
                         "nvidia-modprobe-570.86.15-1.el9.x86_64\nnvidia-persistenced-570.86.15-1.el9.x86_64\n"
                         "nvidia-settings-570.86.15-1.el9.x86_64\nnvidia-libXNVCtrl-570.86.15-1.el9.x86_64\nlibnvidia-cfg-570.86.15-1.el9.x86_64\n"
                         "libnvidia-gpucomp-570.86.15-1.el9.x86_64\nlibnvidia-ml-570.86.15-1.el9.x86_64\nlibnvidia-fbc-570.86.15-1.el9.x86_64\n"
                         "xorg-x11-nvidia-570.86.15-1.el9.x86_64\nnvidia-xconfig-570.86.15-1.el9.x86_64\nnvidia-kmod-common-570.86.15-1.el9.x86_64\n"
                         "nvidia-fabric-manager-570.86.15-1.el9.x86_64\nlibnvidia-nscq-570.86.15-1.el9.x86_64\n"
                         "kmod-nvidia-open-dkms-570.86.15-1.el9.noarch\negl-wayland-1.1.13-1.el9.x86_64\negl-gbm-1.1.2-1.el9.x86_64\n"
                         "opencl-filesystem-1.0-15.el9.noarch\ndnf-plugin-nvidia-2.2-1.el9.noarch\nocl-icd-2.2.13-4.el9.x86_64\n"
                         "dkms-3.1.5-1.el9.noarch\nnvidia-container-toolkit-1.17.4-1.x86_64\nnvidia-container-toolkit-base-1.17.4-1.x86_64\n"
                         "libnvidia-container1-1.17.4-1.x86_64\nlibnvidia-container-tools-1.17.4-1.x86_64\n"),
            "dnf_modules": ("Name            Stream        Profiles                    Summary\n"
                            "nvidia-driver   570-open [e]  default [d] [i], fm, ks, src  Nvidia driver for 570-open branch\n"
                            "nvidia-driver   latest-dkms [d]  default [d], fm, ks  Nvidia driver for latest-dkms branch\n"),
        }, "in_sync", [], [], id="twin-el9"),
    pytest.param(
        {"os": "rhel-8.10", "running_kernel": "4.18.0-553.22.1.el8_10.x86_64",
         "lock": {"driver": "535.183.06", "kmod": "precompiled", "kernel": "4.18.0-553.22.1.el8_10.x86_64"}}, {
            "rpm_list": ("nvidia-driver-535.183.06-1.el8.x86_64\nnvidia-driver-libs-535.183.06-1.el8.x86_64\n"
                         "kmod-nvidia-535.183.06-4.18.0-553.22.1-535.183.06-3.el8_10.x86_64\n"
                         "kmod-nvidia-535.183.06-4.18.0-553.16.1-535.183.06-3.el8_10.x86_64\nkernel-core-4.18.0-553.22.1.el8_10.x86_64\n"
                         "kernel-4.18.0-553.22.1.el8_10.x86_64\n"),
            "uname_r": "4.18.0-553.22.1.el8_10.x86_64\n",
        }, "in_sync", [], [], id="twin-el8-precomp"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.90.07"}}, {
            "dnf_transaction": ("Last metadata expiration check: 0:12:01 ago on Tue 02 Jul 2024 09:00:01 AM UTC.\nDependencies resolved.\n"
                                "Nothing to do.\nComplete!\n"),
        }, "in_sync", [], [], id="twin-dnf-nothing"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.90.07"}}, {
            "dnf_run": ("Last metadata expiration check: 0:12:01 ago.\nPackage nvidia-driver-3:550.90.07-1.el9.x86_64 is already installed.\n"
                        "Dependencies resolved.\nNothing to do.\nComplete!\n"),
        }, "in_sync", [], [], id="twin-dnf-already"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.90.07"}}, {
            "dnf_run": "Package nvidia-driver-3:550.54.15-1.el9.x86_64 is already installed.\nDependencies resolved.\nNothing to do.\nComplete!\n",
        }, "drift",
        [("package_version_differs", "error", "nvidia-driver 550.54.15")],
        [("install_exact", "nvidia-driver 550.90.07")], id="twin-dnf-wrong-already"),
    pytest.param(
        {"os": "rhel-9.4", "lock": {"driver": "550.54.15", "hold": True}}, {
            "rpm_list": "nvidia-driver-550.54.15-1.el9.x86_64\nkmod-nvidia-open-dkms-550.54.15-1.el9.x86_64\n",
            "dnf_versionlock": "nvidia-driver-3:550.54.15-1.el9.*\n3:kmod-nvidia-open-dkms-550.54.15-1.el9.*\n",
        }, "in_sync", [], [], id="lock-with-epoch-list-without"),
    pytest.param(
        {"os": "fedora-41", "lock": {"driver": "570.86.16"}}, {
            "rpm_list": "nvidia-driver-570.86.16-1.fc41.x86_64\nnvidia-driver-cuda-570.86.16-1.fc41.x86_64\n",
            "dnf_versionlock": ("Package name: nvidia-driver\nepoch = 3\nversion = 570.86.16\nrelease = 1.fc41\n\n"
                                "Package name: nvidia-driver-cuda\nevr = 3:570.86.16-1.fc41\n"),
        }, "in_sync", [], [], id="dnf5-lock-with-epoch-list-without"),
    pytest.param(
        {"os": "rhel-9.4", "lock": {"driver": "550.54.15", "hold": True}}, {
            "rpm_list": "nvidia-driver-550.54.15-1.el9.x86_64\n", "dnf_versionlock": "nvidia-driver-3:550.54.14-1.el9.*\n",
        }, "drift", [("versionlock_incomplete", "error", "nvidia-driver 3:550.54.14")], [], id="lock-with-epoch-other-version"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "575.57.08"}}, {
            "dnf_run": failed(("Error: \n Problem 1: cannot install the best candidate for the job\n"
                               "  - nothing provides dkms >= 3.1.8 needed by kmod-nvidia-open-dkms-3:575.57.08-1.el9.noarch from cuda-rhel9-x86_64\n")),
        }, "blocked", [("package_missing", "error", "dkms 3.1.8 kmod-nvidia-open-dkms 575.57.08")], [("configure_repository", "dkms EPEL")],
        id="nothing-provides-dkms"),
    pytest.param(
        {"os": "rocky-9", "running_kernel": "5.14.0-427.42.1.el9_4.x86_64"}, {
            "dnf_run": failed(("Error: \n Problem: conflicting requests\n  - nothing provides kernel-devel-matched = 5.14.0-427.42.1.el9_4 needed by "
                               "kmod-nvidia-open-dkms-3:575.57.08-1.el9.noarch from cuda-rhel9-x86_64\n")),
        }, "blocked", [("headers_unavailable", "error", "kernel-devel-5.14.0-427.42.1.el9_4")], [("fail_preflight", "")], id="nothing-provides-devel"),
]


@pytest.mark.parametrize("given,texts,verdict,findings,steps", CASES)
def test_what_is_said(given, texts, verdict, findings, steps):
    assert not wrong(judged(given, **texts), verdict, findings, steps)
