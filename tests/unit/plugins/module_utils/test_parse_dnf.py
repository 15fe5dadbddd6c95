# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dnf's and yum's settings and outputs, of dnf 4, dnf 5 and yum."""

from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_dnf, parse_dnf_plan, parse_dnf_run


def value(parsed):
    assert parsed.problems == []
    return parsed.value


MODULES = """\
Last metadata expiration check: 0:10:11 ago on Mon 02 Jun 2025 08:00:00 AM UTC.
cuda-rhel9-x86_64
Name           Stream           Profiles                      Summary
nvidia-driver  latest-dkms [d]  default [d], fm, ks           Nvidia driver for latest-dkms branch
nvidia-driver  550-dkms [e]     default [d] [i], fm [i], ks   Nvidia driver for 550-dkms branch
nvidia-driver  570-open         default [d], fm, ks, src      Nvidia driver for 570-open branch
Rocky Linux 9 - AppStream
Name           Stream           Profiles                      Summary
maven          3.8              common [d]                    Java project management
php            8.2 [x]          common [d], devel             PHP scripting language

Hint: [d]efault, [e]nabled, [x]disabled, [i]nstalled
"""


def test_module_list():
    modules = value(parse_dnf.parse_dnf_modules(MODULES))
    assert modules["nvidia-driver"] == {"enabled": "550-dkms", "default": "latest-dkms", "disabled": False,
                                        "streams": ["latest-dkms", "550-dkms", "570-open"], "profiles": ["default", "fm"]}
    assert modules["php"]["disabled"] is True and modules["maven"]["enabled"] is None and set(modules) == {"nvidia-driver", "maven", "php"}


def test_module_list_without_alignment_and_with_a_broken_row():
    text = ("Name          Stream       Profiles                 Summary\nnvidia-driver latest-dkms [d][e] default [d]\n"
            "                           [i], fm, ks              Nvidia driver\nnvidia-driver 570-open [a] default [d], fm Nvidia driver\n")
    assert value(parse_dnf.parse_dnf_modules(text))["nvidia-driver"] == {
        "enabled": "latest-dkms", "default": "latest-dkms", "disabled": False, "streams": ["latest-dkms", "570-open"], "profiles": ["default"]}


@pytest.mark.parametrize("text", ["Error: No matching Modules to list\n", "No matching modules to list\n", ""])
def test_no_modules(text):
    assert value(parse_dnf.parse_dnf_modules(text)) == {}


def test_module_info():
    text = ("Name             : nvidia-driver\nStream           : 570-open [d][e][a]\nVersion          : 20250401\nContext          : b07bea58\n"
            "Profiles         : default [d] [i], fm, ks\nDefault profiles : default\nRepo             : cuda-rhel9-x86_64\n"
            "Summary          : Nvidia driver for 570-open branch\n\nName             : nvidia-driver\nStream           : 565-dkms\n"
            "Profiles         : default [d], fm\n")
    assert value(parse_dnf.parse_dnf_modules(text))["nvidia-driver"] == {
        "enabled": "570-open", "default": "570-open", "disabled": False, "streams": ["570-open", "565-dkms"], "profiles": ["default"]}


def test_module_states():
    text = ("==> /etc/dnf/modules.d/container-tools.module <==\n[container-tools]\nname=container-tools\nstream=rhel8\nprofiles=common\nstate=enabled\n\n"
            "==> /etc/dnf/modules.d/nvidia-driver.module <==\n[nvidia-driver]\nname=nvidia-driver\nstream=570-open\nprofiles=default, fm\nstate=enabled\n\n"
            "==> /etc/dnf/modules.d/php.module <==\n[php]\nname=php\nstream=\nprofiles=\nstate=disabled\n")
    states = value(parse_dnf.parse_dnf_module_states(text))
    assert states["nvidia-driver"] == {"enabled": "570-open", "default": None, "disabled": False, "streams": ["570-open"], "profiles": ["default", "fm"]}
    assert states["php"] == {"enabled": None, "default": None, "disabled": True, "streams": [], "profiles": []}


LOCKS_4 = """\
Last metadata expiration check: 0:10:11 ago on Mon 02 Jun 2025 08:00:00 AM UTC.
# Added lock on Mon Jun  2 08:00:00 2025
nvidia-driver-3:550.54.15-1.el9.*
kernel-core-0:5.14.0-570.12.1.el9_6.*
!nvidia-settings-3:560.35.03-1.el9.*
"""
LOCKS_7 = "Loaded plugins: fastestmirror, versionlock\n3:nvidia-driver-550.54.15-1.el9.*\n0:kernel-core-5.14.0-570.12.1.el9_6.*\nversionlock list done\n"
TOML = """\
version = "1.0"

[[packages]]
name = "nvidia-driver"
comment = "Added by 'versionlock add' command on 2025-06-02 08:00:00"
[[packages.conditions]]
key = "evr"
comparator = "="
value = "3:550.54.15-1.el9"

[[packages]]
name = "kernel-core"
[[packages.conditions]]
key = "version"
comparator = "="
value = "5.14.0"
[[packages.conditions]]
key = "release"
comparator = "<="
value = "570.12.1.el9_6"
"""
LOCKS_5 = """\
# Added by 'versionlock add' command on 2025-06-02 08:00:00
Package name: nvidia-driver
evr = 3:550.54.15-1.el9
# Added by 'versionlock add' command on 2025-06-02 08:00:00
Package name: kernel-core
evr = 5.14.0-570.12.1.el9_6
"""
LOCKS_OF_FILES = "==> /etc/dnf/plugins/versionlock.list <==\nnvidia-driver-3:550.54.15-*\nkernel-core-5.14.0-570.12.1.el9_6\n"


@pytest.mark.parametrize("text", [LOCKS_4, LOCKS_7, TOML, LOCKS_5, LOCKS_OF_FILES], ids=["dnf 4", "yum", "toml", "dnf 5", "files"])
def test_version_locks(text):
    locks = value(parse_dnf.parse_dnf_versionlock(text))

    def locked(name, version):
        return any(parse_dnf.locked(lock, name, version, "x86_64") for lock in locks)
    assert locked("nvidia-driver", "3:550.54.15-1.el9") and not locked("nvidia-driver", "3:560.35.03-1.el9")
    assert locked("kernel-core", "5.14.0-570.12.1.el9_6") and not locked("kernel-core", "5.14.0-611.5.1.el9_7")
    assert not locked("nvidia-driver-libs", "3:550.54.15-1.el9") and not locked("nvidia-settings", "3:560.35.03-1.el9")
    assert any(parse_dnf.names(lock, "nvidia-driver") for lock in locks) and not any(parse_dnf.names(lock, "nvidia-driver-libs") for lock in locks)


@pytest.mark.parametrize("spec", ["nvidia-driver", "nvidia-driver-550.54.15", "nvidia-driver-550.54.15-1.el9", "nvidia-driver-3:550.54.15",
                                  "nvidia-driver-3:550.54.15-1.el9.x86_64", "nvidia-driver.x86_64", "nvidia-driver*"])
def test_ways_to_write_a_lock(spec):
    lock = value(parse_dnf.parse_dnf_versionlock(spec + "\n"))[0]
    assert parse_dnf.locked(lock, "nvidia-driver", "3:550.54.15-1.el9", "x86_64")


def test_no_lock_at_all():
    assert value(parse_dnf.parse_dnf_versionlock("")) == [] and value(parse_dnf.parse_dnf_versionlock('version = "1.0"\n')) == []
    assert parse_dnf.no_versionlock_plugin("No such command: versionlock. Please use /usr/bin/dnf --help\n")


def test_main_configuration():
    text = ("[main]\ngpgcheck=1\ninstallonly_limit=2\nclean_requirements_on_remove=True\nbest=True\nskip_if_unavailable=False\n# exclude=old\n"
            "exclude=kernel* redhat-release*,\n    nvidia-driver\n")
    assert value(parse_dnf.parse_dnf_config(text)) == {
        "installonly_limit": 2, "exclude": ["kernel*", "redhat-release*", "nvidia-driver"], "gpgcheck": True, "module_stream_switch": None, "plugins": None}


@pytest.mark.parametrize("text,limit", [
    ("installonly_limit = 5\n", 5), ("/etc/dnf/dnf.conf:installonly_limit=2\n", 2), ("[main]\ninstallonly_limit=0\n", 0), ("[main]\ngpgcheck=1\n", None),
    ("==> /etc/yum.conf <==\n[main]\ninstallonly_limit=5\n\n==> /etc/dnf/dnf.conf <==\n[main]\ninstallonly_limit=3\n", 3),
    ("=================================== main ===================================\ninstallonly_limit = 2\n", 2)])
def test_how_many_kernels_stay(text, limit):
    assert value(parse_dnf.parse_dnf_config(text))["installonly_limit"] == limit


def test_repositories():
    text = ("==> /etc/yum.repos.d/cuda-rhel9.repo <==\n[cuda-rhel9-x86_64]\nname=cuda-rhel9-x86_64\n"
            "baseurl=https://developer.download.nvidia.com/compute/cuda/repos/rhel9/x86_64\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=0\n\n"
            "==> /etc/yum.repos.d/mlnx.repo <==\n[mlnx_ofed]\nname=MLNX\nbaseurl=file:///mnt/RPMS\nenabled=1\ngpgcheck=0\n[old]\nenabled=0\n")
    repos = value(parse_dnf.parse_dnf_repos(text))
    assert [(repo["id"], repo["gpgcheck"], repo["enabled"]) for repo in repos] == [
        ("cuda-rhel9-x86_64", True, True), ("mlnx_ofed", False, True), ("old", None, False)]
    assert repos[1]["file"] == "/etc/yum.repos.d/mlnx.repo" and repos[1]["uris"] == ["file:///mnt/RPMS"]
    grepped = value(parse_dnf.parse_dnf_repos("/etc/yum.repos.d/mlnx.repo:gpgcheck=0\n/etc/yum.repos.d/cuda.repo:gpgcheck=1\n"))
    assert [(repo["file"], repo["gpgcheck"]) for repo in grepped] == [("/etc/yum.repos.d/mlnx.repo", False), ("/etc/yum.repos.d/cuda.repo", True)]


DNF_4 = """\
Last metadata expiration check: 0:10:11 ago on Mon 02 Jun 2025 08:00:00 AM UTC.
Dependencies resolved.
================================================================================
 Package                  Arch    Version                  Repository      Size
================================================================================
Installing:
 kernel-core              x86_64  5.14.0-611.5.1.el9_7     baseos           18 M
Upgrading:
 nvidia-driver            x86_64  3:560.35.03-1.el9        cuda-rhel9       35 M
     replacing  nvidia-driver-NVML.x86_64 3:550.54.15-1.el9
 kmod-nvidia-535.183.06-4.18.0-553.22.1
                          x86_64  3:535.183.06-4.el8_10    cuda-rhel8       20 M
Installing dependencies:
 kernel-modules-core      x86_64  5.14.0-611.5.1.el9_7     baseos           30 M
Installing weak dependencies:
 nvidia-persistenced      x86_64  3:560.35.03-1.el9        cuda-rhel9       60 k
Removing:
 kernel-core              x86_64  5.14.0-503.14.1.el9_5    @baseos          68 M
Removing dependent packages:
 kernel-modules-core      x86_64  5.14.0-503.14.1.el9_5    @baseos          50 M
Downgrading:
 nvidia-container-toolkit x86_64  1.17.6-1                 cuda             1.2 M
Enabling module streams:
 nvidia-driver                    560-dkms
Installing module profiles:
 nvidia-driver/default
Skipping packages with broken dependencies:
 nvidia-settings          x86_64  3:560.35.03-1.el9        cuda-rhel9       60 k

Transaction Summary
================================================================================
Install  3 Packages
Upgrade  2 Packages

Total download size: 100 M
Operation aborted.
"""
DNF_5 = """\
Updating and loading repositories:
Repositories loaded.
Package                       Arch   Version                   Repository      Size
Upgrading:
 nvidia-driver                x86_64 3:560.35.03-1.fc41        cuda        35.0 MiB
   replacing nvidia-driver    x86_64 3:550.54.15-1.fc41        cuda        34.0 MiB
Installing:
 kernel-core                  x86_64 6.11.4-301.fc41           updates     70.0 MiB
Removing:
 kernel-core                  x86_64 6.10.3-300.fc41           updates     69.0 MiB

Transaction Summary:
 Installing:         1 package
 Upgrading:          1 package
 Replacing:          1 package
 Removing:           1 package

Total size of inbound packages is 10 MiB. Need to download 10 MiB.
After this operation, 35 MiB extra will be used (install 35 MiB, remove 0 B).
Operation aborted by the user.
"""
YUM = """\
Loaded plugins: fastestmirror
Resolving Dependencies
--> Running transaction check
Dependencies Resolved

================================================================================
 Package         Arch         Version                    Repository        Size
================================================================================
Installing:
 kernel          x86_64       3.10.0-1160.119.1.el7      updates           52 M
Updating:
 kernel-tools    x86_64       3.10.0-1160.119.1.el7      updates          8.2 M
Installing for dependencies:
 kernel-devel    x86_64       3.10.0-1160.119.1.el7      updates           18 M

Transaction Summary
================================================================================
Install  1 Package (+1 Dependent package)
Upgrade  1 Package

Exiting on user command
"""
ZYPPER = """\
Loading repository data...
Reading installed packages...
Resolving package dependencies...

The following 2 NEW packages are going to be installed:
  kernel-default-6.4.0-150600.23.25.1 nvidia-open-driver-G06-signed-kmp-default

The following package is going to be upgraded:
  nvidia-compute-G06

2 packages to upgrade, 2 new.
"""


def shown(plan):
    return {section: [(row["name"], row["version"], row["old"], row["dependency"]) for row in plan[section]]
            for section in parse_dnf_plan.SECTIONS if plan[section]}


def test_plan_of_dnf_4():
    plan = value(parse_dnf_plan.parse_dnf_plan(DNF_4))
    assert shown(plan) == {
        "install": [("kernel-core", "5.14.0-611.5.1.el9_7", None, False), ("kernel-modules-core", "5.14.0-611.5.1.el9_7", None, True),
                    ("nvidia-persistenced", "3:560.35.03-1.el9", None, True)],
        "upgrade": [("nvidia-driver", "3:560.35.03-1.el9", None, False),
                    ("kmod-nvidia-535.183.06-4.18.0-553.22.1", "3:535.183.06-4.el8_10", None, False)],
        "downgrade": [("nvidia-container-toolkit", "1.17.6-1", None, False)],
        "remove": [("kernel-core", None, "5.14.0-503.14.1.el9_5", False), ("kernel-modules-core", None, "5.14.0-503.14.1.el9_5", True)]}
    assert plan["streams"] == {"nvidia-driver": "560-dkms"} and plan["tool"] == "dnf" and plan["install"][0]["origin"] == "baseos"
    assert plan["upgrade"][0]["replaces"] == ["nvidia-driver-NVML-3:550.54.15-1.el9"]


def test_plan_of_dnf_5():
    assert shown(value(parse_dnf_plan.parse_dnf_plan(DNF_5))) == {
        "upgrade": [("nvidia-driver", "3:560.35.03-1.fc41", "3:550.54.15-1.fc41", False)],
        "install": [("kernel-core", "6.11.4-301.fc41", None, False)], "remove": [("kernel-core", None, "6.10.3-300.fc41", False)]}


def test_plan_of_yum():
    assert shown(value(parse_dnf_plan.parse_dnf_plan(YUM))) == {
        "install": [("kernel", "3.10.0-1160.119.1.el7", None, False), ("kernel-devel", "3.10.0-1160.119.1.el7", None, True)],
        "upgrade": [("kernel-tools", "3.10.0-1160.119.1.el7", None, False)]}


def test_plan_of_zypper():
    plan = value(parse_dnf_plan.parse_dnf_plan(ZYPPER))
    assert [(row["name"], row["version"]) for row in plan["install"]] == [
        ("kernel-default", "6.4.0-150600.23.25.1"), ("nvidia-open-driver-G06-signed-kmp-default", None)]
    assert [row["name"] for row in plan["upgrade"]] == ["nvidia-compute-G06"]


@pytest.mark.parametrize("text", ["", "Nothing to do.\nComplete!\n", "Error: Unable to find a match: cuda-drivers\n"])
def test_no_plan(text):
    assert value(parse_dnf_plan.parse_dnf_plan(text)) is None


SKIPPED = ("NOTE: Skipping kernel installation since no NVIDIA driver kernel module package kmod-nvidia-450.51.06-4.18.0-193.19.1 for kernel "
           "kernel-4.18.0-193.19.1.el8_2.x86_64 and driver nvidia-driver-3:450.51.06-1.el8.x86_64 could be found")


@pytest.mark.parametrize("line,want", [
    ("All matches were filtered out by modular filtering for argument: cuda-drivers", {"reason": "modular_filtering", "package": "cuda-drivers"}),
    ("  - package nvidia-settings-3:580.65.06-1.el10.x86_64 from cuda-rhel10-x86_64 is filtered out by modular filtering",
     {"reason": "modular_filtering", "package": "nvidia-settings", "version": "3:580.65.06-1.el10", "repo": "cuda-rhel10-x86_64"}),
    ("All matches were filtered out by exclude filtering for argument: kernel-devel", {"reason": "exclude_filtering", "package": "kernel-devel"}),
    ("  - package kernel-core-5.14.0-570.12.1.el9_6.x86_64 is filtered out by exclude filtering",
     {"reason": "exclude_filtering", "package": "kernel-core", "version": "5.14.0-570.12.1.el9_6"}),
    ("The operation would result in switching of module 'nvidia-driver' stream '565-dkms' to stream '570-open'",
     {"reason": "stream_switch", "package": "nvidia-driver", "old": "565-dkms", "new": "570-open"}),
    (" Problem: cannot install both libibverbs-41.0-1.el8.x86_64 from baseos and libibverbs-59mlnx44-1.59056.x86_64 from mlnx",
     {"reason": "cannot_install_both", "package": "libibverbs", "version": "41.0-1.el8", "repo": "baseos",
      "other": {"name": "libibverbs", "version": "59mlnx44-1.59056", "arch": "x86_64"}}),
    ("  - nothing provides dkms needed by kmod-nvidia-latest-dkms-3:515.48.07-1.el8.x86_64 from cuda",
     {"reason": "nothing_provides", "what": "dkms", "package": "kmod-nvidia-latest-dkms", "version": "3:515.48.07-1.el8"}),
    ("  - nothing provides kernel-core-uname-r = 4.18.0-553.22.1.el8_10.x86_64 needed by kmod-nvidia-1-1:1-1.el8.x86_64",
     {"reason": "nothing_provides", "what": "kernel-core-uname-r = 4.18.0-553.22.1.el8_10.x86_64"}),
    (" Problem 1: package nvidia-kmod-common-3:515.48.07-1.el8.noarch requires nvidia-kmod = 3:515.48.07, but none of the providers can be installed",
     {"reason": "requires", "what": "nvidia-kmod = 3:515.48.07", "package": "nvidia-kmod-common"}),
    ("  - package containerd.io-1.3.7-3.1.el8.x86_64 conflicts with runc provided by runc-1.0.0-65.el8.x86_64 from appstream",
     {"reason": "conflicts", "what": "runc", "other": {"name": "runc", "version": "1.0.0-65.el8", "arch": "x86_64"}}),
    ("Package nvidia-driver-NVML is obsoleted by libnvidia-ml, trying to install libnvidia-ml-3:560.35.03-1.el9.x86_64 instead",
     {"reason": "obsoleted", "package": "nvidia-driver-NVML", "other": {"name": "libnvidia-ml", "version": None, "arch": None}}),
    ("No match for argument: kernel-devel-4.18.0-372.9.1.el8.x86_64", {"reason": "no_match", "package": "kernel-devel", "version": "4.18.0-372.9.1.el8"}),
    ("No package kernel-devel-3.10.0-957.el7.x86_64 available.", {"reason": "no_match", "package": "kernel-devel", "version": "3.10.0-957.el7"}),
    (SKIPPED,
     {"reason": "skipped_kernel", "package": "kmod-nvidia-450.51.06-4.18.0-193.19.1", "what": "kernel-4.18.0-193.19.1.el8_2.x86_64"}),
    ("Error: GPG check FAILED", {"reason": "bad_signature"}),
    ('The GPG keys listed for the "cuda-rhel8-x86_64" repository are already installed but they are not correct for this package.',
     {"reason": "bad_signature", "repo": "cuda-rhel8-x86_64"}),
    ("Public key for nvidia-driver-550.54.15-1.el9.x86_64.rpm is not installed", {"reason": "bad_signature"}),
    ("Waiting for process with pid 2817 to finish.", {"reason": "locked", "what": "2817"}),
    ("Existing lock /var/run/yum.pid: another copy is running as pid 2817.", {"reason": "locked", "what": "2817", "package": "/var/run/yum.pid"}),
    ("  At least 123MB more space needed on the /boot filesystem.", {"reason": "no_space", "what": "123MB", "package": "/boot"})])
def test_sentences(line, want):
    rows = value(parse_dnf_run.parse_dnf_run("something else\n%s\n" % line))
    assert len(rows) == 1 and {key: rows[0][key] for key in want} == want
    quoted = value(parse_dnf_run.parse_dnf_run('fatal: [n1]: FAILED! => {"msg": "Depsolve Error occurred: \\n %s\\n(try...)", "rc": 1}' % line))
    assert quoted == rows


def test_several_packages_of_one_sentence():
    rows = value(parse_dnf_run.parse_dnf_run("Error: Unable to find a match: kernel-devel-4.18.0-372.9.1.el8.x86_64 kernel-headers\n"))
    assert [(row["reason"], row["package"], row["version"]) for row in rows] == [
        ("no_match", "kernel-devel", "4.18.0-372.9.1.el8"), ("no_match", "kernel-headers", None)]


def test_what_is_filtered_out_is_not_called_missing():
    text = "All matches were filtered out by modular filtering for argument: cuda-drivers\nError: Unable to find a match: cuda-drivers\n"
    assert [row["reason"] for row in value(parse_dnf_run.parse_dnf_run(text))] == ["modular_filtering"]


def test_what_repositories_have():
    text = ("Added cuda repo from file:///srv/cuda\ncuda                                            265 kB/s | 3.5 kB     00:00    \n"
            "Installed Packages\nnvidia-driver.noarch                             3:550.54.15-1.el9         @cuda\n"
            "Available Packages\nnvidia-driver.noarch                             3:560.35.03-1.el9         cuda \n")
    rows = value(parse_dnf.parse_dnf_repoquery(text))
    assert [(row["version"], row["repo"], row["installed"]) for row in rows] == [("550.54.15", "@cuda", True), ("560.35.03", "cuda", False)]
    assert value(parse_dnf.parse_dnf_repoquery("nvidia-driver-3:550.54.15-1.el9.noarch\n"))[0]["installed"] is False


def test_locks_of_zypper():
    text = ("\n# | Name           | Type    | Repository | Comment\n--+----------------+---------+------------+--------\n"
            "1 | kernel-default | package | (any)      |\n")
    locks = value(parse_dnf.parse_dnf_versionlock(text))
    assert [lock["spec"] for lock in locks] == ["kernel-default"] and parse_dnf.locked(locks[0], "kernel-default", "6.4.0-150600.23.25.1")
