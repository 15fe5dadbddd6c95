# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about apt and dpkg: the parsed values, what must not be done; and made-up recordings of the same kinds."""
from __future__ import annotations

import re

import pytest

from . import case
from .recorded import failed, found, judged

CUDA_22 = "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64"


def parsed(name):
    return case.expected(name)["parsed"]


def manager(name):
    return case.state(name)["package_manager"]


def steps(record):
    return [(row["action"], row.get("target")) for row in record["plan"]]


def text(record):
    return " ".join(str(row) for row in record["plan"])


# The reports ----------------------------------------------------------------------------------------------------------------------------------

def test_pkg_02_the_installed_name_is_no_proof():
    want, packages = parsed("pkg-02"), case.state("pkg-02")["packages"]
    assert packages["nvidia-driver-570-server"]["status"] == "installed" and str(want["asked_branch"]) == "570"
    (subject, severity, _verdict), = found(case.record("pkg-02"), "transitional_package_installed")
    assert (subject, severity) == ("nvidia-driver-570-server", "error")
    assert packages["nvidia-dkms-580-server"]["version"].startswith(want["effective_version"])
    assert [action for action, _target in steps(case.record("pkg-02"))] == ["fail_preflight"]


def test_pkg_03_the_simulated_versions():
    plan = manager("pkg-03")["transaction"]
    assert {row["name"]: row["version"] for row in plan["install"]} == parsed("pkg-03")["inst"] and plan["tool"] == "apt"
    install = next(target for action, target in steps(case.record("pkg-03")) if action == "install_exact")
    assert "535.216.03" not in install and all("=535.183.01-" in word for word in install.split()) and len(install.split()) == 5


def test_pkg_04_a_held_package_is_installed_and_a_removed_one_is_not():
    packages, absent = case.state("pkg-04")["packages"], manager("pkg-04")["absent"]
    for row in parsed("pkg-04"):
        if row["installed"]:
            assert (packages[row["name"]]["version"], packages[row["name"]]["hold"]) == (row["version"], row["hold"])
        else:
            assert row["name"] not in packages and row["name"] in absent
    assert not found(case.record("pkg-04"), "package_still_present") and "580" not in text(case.record("pkg-04"))
    assert steps(case.record("pkg-04")) == [("downgrade_exact", "nvidia-modprobe=595.71.05-1ubuntu1"), ("hold", "nvidia-modprobe")]


def test_pkg_06_nothing_is_held_whatever_apt_says():
    want = parsed("pkg-06")
    assert [{key: row[key] for key in ("package", "kind", "on")} for row in manager("pkg-06")["run"]["unmet"]] == want["unmet"]
    assert manager("pkg-06")["holds"] == want["held"]
    # Nothing recorded names the old branch: what the plan says is the kind of set that can be there.
    assert {action for action, _target in steps(case.record("pkg-06"))} == {"remove", "install_exact"}
    assert "no package is held" in case.record("pkg-06")["findings"][0]["message"]


def test_pkg_13_dpkg_s_status_is_no_archive():
    want, policy = parsed("pkg-13"), manager("pkg-13")["policy"]["nvidia-driver-575"]
    assert (policy["installed"], policy["candidate"]) == (want["installed"], want["candidate"])
    table = [{"version": row["version"], "priority": row["priority"], "origins": [re.sub(r"https?://([^/]+).*", r"\1", one["uri"]) for one in row["origins"]],
              **({"installed": True} if row["installed"] else {})} for row in policy["table"]]
    assert table == want["table"]
    (pin,) = case.record("pkg-13")["plan"]
    assert (pin["action"], pin["version"], pin["priority"]) == ("add_apt_pin", want["installed"], "> 600")


def test_pkg_17_the_whole_set_is_held():
    want, (run,) = parsed("pkg-17"), manager("pkg-17")["history"]
    assert [{"name": row["name"], "arch": row["arch"], "old": row["old"], "new": row["version"]} for row in run["upgrade"]] == want["upgrades"]
    assert run["by"] == want["by"] and manager("pkg-17")["unattended"]["blacklist"] == ["nvidia-"]
    held = {target for action, target in steps(case.record("pkg-17")) if action == "hold"}
    assert {"libnvidia-common-460", "libnvidia-compute-460"} <= held


def test_ctk_02_the_line_without_a_name_and_the_package_that_no_line_names():
    unmet = [{key: row[key] for key in ("package", "on", "need", "have")} for row in manager("ctk-02")["run"]["unmet"]]
    assert unmet == parsed("ctk-02")["unmet"]
    words = next(target for action, target in steps(case.record("ctk-02")) if action == "install_exact").split()
    assert sorted(words) == ["libnvidia-container-tools=1.17.8-1", "libnvidia-container1=1.17.8-1", "nvidia-container-toolkit-base=1.17.8-1",
                             "nvidia-container-toolkit=1.17.8-1"]
    assert "1.18.0" not in text(case.record("ctk-02"))


def test_ofed_09_what_is_half_there_is_not_installed():
    packages = case.state("ofed-09")["packages"]
    words = {"half_configured": "half-configured", "unpacked": "unpacked"}
    assert {name: packages[name]["status"] for name in parsed("ofed-09")["dpkg"]} == {name: words[word] for name, word in parsed("ofed-09")["dpkg"].items()}
    assert manager("ofed-09")["run"]["dpkg"]["mlnx-ofed-kernel-dkms"]["phase"] == "configure"
    assert not {row["code"] for row in case.record("ofed-09")["findings"]} & {"ofed_not_built_for_kernel"}


# The same kinds, made up ----------------------------------------------------------------------------------------------------------------------

def given(system="ubuntu-22.04", **lock):
    return {"os": system, "lock": lock}


def policy(name, installed, candidate, *table):
    rows = "".join(" %s %s %d\n%s" % ("***" if version == installed else "   ", version, priority, "".join("        %s\n" % origin for origin in origins))
                   for version, priority, origins in table)
    return "%s:\n  Installed: %s\n  Candidate: %s\n  Version table:\n%s" % (name, installed or "(none)", candidate or "(none)", rows)


NEWER = ("535.216.03-0ubuntu1", 600, ["600 %s  Packages" % CUDA_22])
# In two parts, since no address of a package archive stands in this repository.
PPA = "//ppa.%s.net" % "launchpadcontent"
UBUNTU = ("535.183.01-0ubuntu0.22.04.1", 500, ["500 http://archive.example.org/ubuntu jammy-updates/restricted amd64 Packages"])
POLICY = policy("nvidia-driver-535", None, NEWER[0], NEWER, UBUNTU)
UNLOCATED = "Reading package lists... Done\nE: Unable to locate package %s\n"
LIST_535 = "ii  nvidia-driver-535 535.183.01-0ubuntu1 amd64 x\nii  libnvidia-compute-535:amd64 535.183.01-0ubuntu1 amd64 x\n"
UPGRADE = ("Inst libnvidia-compute-535 [535.183.01-0ubuntu1] (535.216.03-0ubuntu1 NVIDIA:cuda [amd64]) []\n"
           "Inst nvidia-driver-535 [535.183.01-0ubuntu1] (535.216.03-0ubuntu1 NVIDIA:cuda [amd64])\n")
KERNEL = ("Inst linux-image-6.8.0-45-generic (6.8.0-45.45 Ubuntu:24.04/noble-updates [amd64])\n"
          "Inst linux-generic [6.8.0-41.41] (6.8.0-45.45 Ubuntu:24.04/noble-updates [amd64])\n")
NO_KEY = ("W: GPG error: %s  InRelease: The following signatures couldn't be verified because the public key is not available: NO_PUBKEY A4B469963BF863CC\n"
          "E: The repository '%s  InRelease' is not signed.\n" % (CUDA_22, CUDA_22))
VIRTUAL = ("Package nvidia-fabricmanager-580 is a virtual package provided by:\n  nvidia-fabricmanager 580.65.06-1\n\n"
           "E: Version '580.65.06-1' for 'nvidia-fabricmanager-580' was not found\n")
OVERWRITE = ("dpkg: error processing archive /var/cache/apt/archives/libnvidia-cfg1_610.57.04-1ubuntu1_amd64.deb (--unpack):\n"
             " trying to overwrite '/usr/lib/x86_64-linux-gnu/libnvidia-cfg.so.1', which is also in package libnvidia-cfg1-610:amd64 "
             "610.57.04-0ubuntu0.24.04.1\n")
SWITCH = ("The following packages have unmet dependencies:\n libnvidia-compute-550-server : Conflicts: libnvidia-compute\n"
          " libnvidia-compute-535-server : Conflicts: libnvidia-compute\n"
          " nvidia-driver-550-server : Depends: libnvidia-compute-550-server (= 550.90.07-0ubuntu0.22.04.1) but it is not going to be installed\n"
          "E: Error, pkgProblemResolver::Resolve generated breaks, this may be caused by held packages.\n")
SERVER = "".join("ii  %s-535-server 535.183.01-0ubuntu0.22.04.1 amd64 x\n" % name for name in ("nvidia-driver", "nvidia-dkms", "libnvidia-compute"))
UNMET_550 = ("The following packages have unmet dependencies:\n"
             " nvidia-driver-550 : Depends: libnvidia-gl-550 (= 550.54.15-0ubuntu1) but 550.163.01-0ubuntu1 is to be installed\n"
             "                     Depends: nvidia-dkms-550 (<= 550.54.15-1)\nE: Unable to correct problems, you have held broken packages.\n")
LATER = ('fatal: [n1]: FAILED! => {"changed": false, "msg": "A later version is already installed", "invocation": {"module_args": {"deb": '
         '"https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/cuda-keyring_1.0-1_all.deb"}}}')
TOOLKIT = "nvidia-container-toolkit\t1.17.8-1\tii \nnvidia-container-toolkit-base\t1.17.8-1\tii \nlibnvidia-container-tools\t%s\tii \n"
GONE = policy("nvidia-driver-535", "535.129.03-0ubuntu1", NEWER[0], NEWER, ("535.129.03-0ubuntu1", 100, ["100 /var/lib/dpkg/status"]))

# given, recordings, code, severity and class, words of the finding, words of the plan
KINDS = {
    "a pin of 600 hides the claimed version": (
        given(driver="535.183.01"), {"apt_policy": POLICY}, "pinned_away", ("error", "drift"), "nvidia-driver-535 535.183.01-0ubuntu0.22.04.1",
        "install_exact nvidia-driver-535=535.183.01-0ubuntu0.22.04.1"),
    "a pin below zero leaves no candidate": (
        given(driver="535.183.01"), {"apt_policy": policy("nvidia-driver-535", None, None, (UBUNTU[0], -1, UBUNTU[2])),
                                     "apt_preferences": "Package: nvidia-driver-*\nPin: release o=Ubuntu\nPin-Priority: -1\n"},
        "pinned_away", ("error", "drift"), "535.183.01-0ubuntu0.22.04.1", "add_apt_pin nvidia-driver-535"),
    "a pin below zero, without a policy": (
        given(driver="535.183.01", origin="nvidia"), {"apt_preferences": "Package: *nvidia*\nPin: release l=NVIDIA CUDA\nPin-Priority: -10\n"},
        "pinned_away", ("error", "drift"), "*nvidia* 535.183.01", "add_apt_pin *nvidia*"),
    "no archive has the version": (
        given(driver="535.129.03"), {"apt_policy": POLICY}, "locked_version_gone_from_archive", ("error", "blocked"), "nvidia-driver-535=535.129.03",
        "fail_preflight 535.216.03-0ubuntu1"),
    "madison does not have the version": (
        given(driver="535.129.03"), {"apt_madison": " nvidia-driver-535 | 535.216.03-0ubuntu1 | %s  Packages\n" % CUDA_22},
        "locked_version_gone_from_archive", ("error", "blocked"), "535.129.03", "fail_preflight"),
    "apt did not find the version": (
        given(driver="535.129.03"), {"apt_run": failed("E: Version '535.129.03-0ubuntu1' for 'nvidia-driver-535' was not found\n", 100)},
        "locked_version_gone_from_archive", ("error", "blocked"), "nvidia-driver-535=535.129.03-0ubuntu1", "fail_preflight"),
    "the version is installed and gone": (
        given(driver="535.129.03"), {"apt_policy": GONE}, "locked_version_gone_from_archive", ("warn", "in_sync"), "535.129.03", ""),
    "a pin of another version": (
        given(driver="535.183.01"), {"apt_preferences": "Package: nvidia-driver-535 libnvidia-*-535\nPin: version 535.129.03-0ubuntu1\nPin-Priority: 1001\n"},
        "stale_pin", ("error", "drift"), "535.129.03-0ubuntu1", "add_apt_pin 535.183.01"),
    "a pin of a version that is gone": (
        given(driver="535.183.01"), {"apt_preferences": "Package: *nvidia*\nPin: version 535.183.01-1\nPin-Priority: 1001\n", "apt_policy": POLICY},
        "stale_pin", ("error", "drift"), "535.183.01-1", "add_apt_pin"),
    "the pinning package of another branch": (
        given(driver="595.71.05"), {"dpkg_list": "nvidia-driver-pinning-610\t610-1\tii \nnvidia-driver\t595.71.05-1ubuntu1\tii \n"},
        "stale_pin", ("error", "drift"), "nvidia-driver-pinning-610", "remove nvidia-driver-pinning-610"),
    "a virtual package": (
        given(driver="580.65.06", fabric_manager="580.65.06"), {"apt_run": failed(VIRTUAL, 100)}, "package_renamed", ("error", "drift"),
        "nvidia-fabricmanager-580 -> nvidia-fabricmanager", "install_exact nvidia-fabricmanager=580.65.06-1"),
    "a name that no archive has": (
        given(container_toolkit="1.17.8"), {"apt_run": failed(UNLOCATED % "nvidia-docker2", 100)}, "package_renamed", ("error", "drift"),
        "nvidia-docker2 -> nvidia-container-toolkit", "install_exact nvidia-container-toolkit=1.17.8"),
    "a name without a candidate": (
        given(driver="590.48.01"), {"apt_policy": policy("nvidia-fabricmanager-590", None, None) + policy(
            "nvidia-fabricmanager", None, "610.57.04-1", ("610.57.04-1", 600, ["600 %s  Packages" % CUDA_22]),
            ("590.48.01-1", 600, ["600 %s  Packages" % CUDA_22]))},
        "package_renamed", ("error", "drift"), "nvidia-fabricmanager", "install_exact nvidia-fabricmanager=590.48.01-1"),
    "another branch in the candidate's version": (
        given(driver="550"), {"apt_policy": policy("nvidia-driver-550", None, "580.173.02-0ubuntu0.22.04.1", (
            "580.173.02-0ubuntu0.22.04.1", 500, UBUNTU[2]))},
        "candidate_is_transitional", ("error", "blocked"), "nvidia-driver-550 580.173.02-0ubuntu0.22.04.1", "fail_preflight 550"),
    "a description that says so": (
        given("ubuntu-24.04", driver_branch=570), {"apt_show": (
            "Package: nvidia-driver-570-server\nVersion: 570.211.01-0ubuntu0.24.04.1\nSection: oldlibs\nDepends: nvidia-driver-580-server\n"
            "Description: Transitional package for nvidia-driver-580-server\n")},
        "candidate_is_transitional", ("error", "blocked"), "nvidia-driver-570-server", "fail_preflight 570"),
    "a simulation that brings the newer branch": (
        given("ubuntu-24.04", driver_branch=570), {"apt_simulation": (
            "Inst nvidia-driver-580-server (580.173.02-0ubuntu0.24.04.1 Ubuntu:24.04/noble-updates [amd64])\n"
            "Inst nvidia-driver-570-server (570.211.01-0ubuntu0.24.04.1 Ubuntu:24.04/noble-updates [amd64])\n")},
        "candidate_is_transitional", ("error", "blocked"), "nvidia-driver-570-server", "refuse_transaction nvidia-driver-580-server"),
    "an upgrade would move what is right": (
        given(driver="535.183.01"), {"dpkg_list": LIST_535, "apt_simulation": UPGRADE}, "transaction_leaves_lock", ("error", "drift"),
        "libnvidia-compute-535 535.216.03", "hold libnvidia-compute-535"),
    "an upgrade brings a kernel": (
        given(kernel="6.8.0-41-generic"), {"apt_simulation": KERNEL}, "transaction_installs_unlocked_kernel", ("error", "blocked"), "6.8.0-45-generic",
        "refuse_transaction 6.8.0-45-generic"),
    "autoremove takes the kernel": (
        given(kernel="6.8.0-41-generic"), {"apt_simulation": "Remv linux-image-6.8.0-41-generic [6.8.0-41.41]\n"},
        "transaction_removes_locked_kernel", ("error", "blocked"), "6.8.0-41-generic", "refuse_transaction"),
    "an installation takes the driver away": (
        given(driver="535.183.01"), {"apt_run": failed("The following packages will be REMOVED:\n  libnvidia-compute-535 nvidia-driver-535*\nAbort.\n")},
        "transaction_leaves_lock", ("error", "blocked"), "nvidia-driver-535", "refuse_transaction nvidia-driver-535"),
    "a keyring that is newer": (
        given(), {"ansible_result": failed(LATER, 2), "dpkg_list": "cuda-keyring\t1.1-1\tii \n"}, "keyring_newer", ("warn", "in_sync"),
        "cuda-keyring 1.1-1 > 1.0-1", ""),
    "a task without signatures": (
        given(), {"ansible_result": '{"changed": true, "invocation": {"module_args": {"name": "cuda-drivers", "allow_unauthenticated": true}}}'},
        "repository_unauthenticated", ("error", "blocked"), "allow_unauthenticated", "fail_preflight"),
    "a key that apt does not have": (
        given(), {"apt_run": failed(NO_KEY, 100)}, "repository_unauthenticated", ("error", "blocked"), "NO_PUBKEY A4B469963BF863CC", "configure_repository"),
    "a source that is trusted blindly": (
        given(), {"apt_sources": "/etc/apt/sources.list.d/cuda.list:deb [trusted=yes] %s /\n" % CUDA_22}, "repository_unauthenticated", ("error", "blocked"),
        "/etc/apt/sources.list.d/cuda.list", ""),
    "a lock of an old apt": (
        given(), {"apt_run": failed("E: Could not get lock /var/lib/dpkg/lock-frontend - open (11: Resource temporarily unavailable)\n", 100)},
        "apt_locked", ("warn", "unknown"), "/var/lib/dpkg/lock-frontend", "wait_for_lock 600"),
    "a lock of dpkg itself": (
        given(), {"apt_run": failed("dpkg: error: dpkg frontend lock was locked by another process with pid 4711\n", 2)}, "apt_locked", ("warn", "unknown"),
        "4711", "retry"),
    "a lock that is held right now": (
        given(), {"apt_locks": "/var/lib/dpkg/lock-frontend: held by 812\n/var/lib/dpkg/lock: free\n"}, "apt_locked", ("warn", "unknown"), "812", "retry"),
    "a package to be reinstalled": (
        given(driver="535.183.01"), {"dpkg_list": "iHR nvidia-dkms-535 535.183.01-0ubuntu1 amd64 x\n"}, "package_half_configured", ("error", "broken"),
        "nvidia-dkms-535", "configure_packages dpkg --configure -a"),
    "dpkg was interrupted": (
        given(driver="535.183.01"),
        {"apt_run": failed("E: dpkg was interrupted, you must manually run 'sudo dpkg --configure -a' to correct the problem. \n", 100)},
        "package_half_configured", ("error", "broken"), "dpkg", "configure_packages"),
    "files of two archives": (
        given("ubuntu-24.04", driver="610.57.04"), {"apt_run": failed(OVERWRITE, 100)}, "package_origin_differs", ("error", "drift"), "libnvidia-cfg1-610", ""),
    "an installed package of the other archive": (
        given("ubuntu-24.04", driver="575.57.08", origin="ubuntu"), {"dpkg_list": "nvidia-driver-575\t575.57.08-1ubuntu1\tii \n"},
        "package_origin_differs", ("error", "drift"), "nvidia-driver-575 575.57.08-1ubuntu1", ""),
    "a branch in the way, by name": (
        given(driver="550.90.07"), {"dpkg_list": SERVER, "apt_run": failed(SWITCH, 100)}, "branch_switch_needs_removal", ("error", "drift"), "535-server",
        "remove libnvidia-compute-535-server nvidia-dkms-535-server nvidia-driver-535-server"),
    "a set that was not named whole": (
        given(driver="550.54.15"), {"apt_run": failed(UNMET_550, 100)}, "exact_set_needed", ("info", "drift"), "nvidia-dkms-550=550.54.15-0ubuntu1",
        "install_exact libnvidia-gl-550=550.54.15-0ubuntu1"),
    "a library of another branch": (
        given(driver="550.90.07"),
        {"dpkg_list": "ii  nvidia-driver-550 550.90.07-0ubuntu1 amd64 x\nii  libnvidia-compute-535:i386 535.183.01-0ubuntu1 i386 x\n"},
        "package_still_present", ("error", "drift"), "libnvidia-compute-535:i386", "remove libnvidia-compute-535:i386"),
    "dpkg-query knows no such package": (
        given(container_toolkit="1.17.8"), {"dpkg_list": failed("dpkg-query: no packages found matching nvidia-container-toolkit\n")},
        "package_missing", ("error", "drift"), "nvidia-container-toolkit", "install_exact nvidia-container-toolkit=1.17.8"),
    "a set at two versions": (
        given(container_toolkit="1.17.8"), {"dpkg_list": TOOLKIT % "1.18.0-1"}, "package_set_split", ("error", "drift"), "libnvidia-container-tools 1.18.0",
        "downgrade_exact libnvidia-container-tools=1.17.8-1"),
    "the other flavour in the way": (
        given(driver="580.126.20"), {"apt_run": failed("Unsatisfied dependencies:\n nvidia-open-580 : Conflicts: cuda-drivers-580\n", 100)},
        "package_still_present", ("error", "drift"), "cuda-drivers-580", "remove cuda-drivers-580"),
    "a downgrade that nobody allowed": (
        given(driver="535.183.01"), {"ansible_result": failed(
            '{"failed": true, "msg": "\'/usr/bin/apt-get -y install \'nvidia-driver-535=535.183.01-0ubuntu1\'\' failed: E: Packages were downgraded and -y was '
            'used without --allow-downgrades.\\n"}', 2)},
        "downgrade_refused", ("warn", "drift"), "nvidia-driver-535", "downgrade_exact nvidia-driver-535=535.183.01-0ubuntu1 allow_downgrade"),
    "another archive's firmware tools": (
        given("ubuntu-24.04", ofed="24.10"), {"apt_policy": policy(
            "mft", "4.34.1-10", "4.35.0.159-1", ("4.35.0.159-1", 600, ["600 https://repo.example.org/compute/cuda/repos/ubuntu2404/x86_64  Packages"]),
            ("4.34.1-10", 500, ["500 https://linux.example.org/public/repo/doca/3.1.0/ubuntu24.04/x86_64 ./ Packages"]))},
        "candidate_leaves_origin", ("warn", "drift"), "DOCA repository -> CUDA repository", "add_apt_pin mft 4.34.1-10 600"),
    "no archive has the branch": (
        given(driver="510.47.03"), {"ansible_result": failed('{"changed": false, "msg": "No package matching \'cuda-drivers-510\' is available"}', 2)},
        "locked_version_gone_from_archive", ("error", "blocked"), "cuda-drivers-510=510.47.03", "fail_preflight"),
    "no archive has the kernel": (
        given(kernel="5.15.0-91-generic"), {"apt_run": failed(UNLOCATED % "linux-image-5.15.0-91-generic", 100)},
        "locked_version_gone_from_archive", ("error", "blocked"), "linux-image-5.15.0-91-generic", "fail_preflight"),
    "what dpkg finds itself": (
        given(driver="535.183.01"), {"apt_run": (
            "The following packages are only half configured, probably due to problems\n"
            "configuring them the first time.  The configuration should be retried using\n"
            "dpkg --configure <package> or the configure menu option in dselect:\n nvidia-dkms-535      NVIDIA DKMS package\n")},
        "package_half_configured", ("error", "broken"), "nvidia-dkms-535", "configure_packages"),
    "Ansible's own simulation": (
        given(driver="535.183.01"), {"dpkg_list": LIST_535, "ansible_result": '{"changed": true, "stdout": "%s"}' % UPGRADE.replace("\n", "\\n")},
        "transaction_leaves_lock", ("error", "drift"), "nvidia-driver-535 535.216.03", "hold nvidia-driver-535"),
    "apt's policy has another version installed": (
        given(driver="535.183.01"), {"apt_policy": policy("nvidia-driver-535", NEWER[0], NEWER[0], NEWER, ("535.183.01-0ubuntu1", 600, NEWER[2]))},
        "package_version_differs", ("error", "drift"), "nvidia-driver-535 535.216.03-0ubuntu1", "downgrade_exact nvidia-driver-535=535.183.01-0ubuntu1"),
    "a PPA is newer": (
        given(driver="550.90.07", origin="ubuntu"), {"apt_policy": policy(
            "nvidia-driver-550", "550.90.07-0ubuntu0.22.04.1", "550.107.02-0ubuntu0~gpu22.04.1",
            ("550.107.02-0ubuntu0~gpu22.04.1", 500, ["500 https:%s/graphics-drivers/ppa/ubuntu jammy/main amd64 Packages" % PPA]),
            ("550.90.07-0ubuntu0.22.04.1", 500, UBUNTU[2]))},
        "candidate_leaves_origin", ("warn", "drift"), "Ubuntu -> PPA graphics-drivers", "add_apt_pin 550.90.07-0ubuntu0.22.04.1"),
    "history without a list": (
        given(driver="535.183.01"), {"apt_holds": "", "apt_history": (
            "Start-Date: 2026-04-24  06:50:54\nCommandline: apt upgrade -y\nUpgrade: nvidia-driver-535:amd64 (535.183.01-0ubuntu1, 535.216.03-0ubuntu1)\n")},
        "package_version_differs", ("error", "drift"), "nvidia-driver-535 535.216.03-0ubuntu1", "downgrade_exact nvidia-driver-535=535.183.01-0ubuntu1"),
    "two of three are held": (
        given(container_toolkit="1.17.8"), {"dpkg_list": TOOLKIT % "1.17.8-1", "apt_holds": "nvidia-container-toolkit\nnvidia-container-toolkit-base\n"},
        "hold_incomplete", ("error", "drift"), "libnvidia-container-tools", "hold libnvidia-container-tools"),
}


@pytest.mark.parametrize("name", KINDS)
def test_a_kind_of_report(name):
    situation, texts, code, weight, words, plan = KINDS[name]
    record = judged(situation, **texts)
    rows = [row for row in record["findings"] if row["code"] == code]
    assert {(row["severity"], row["verdict"]) for row in rows} == {weight}, [(row["code"], row["subject"]) for row in record["findings"]]
    assert any(words in case.said(row) for row in rows), rows
    assert all(row["message"].endswith(".") and "None" not in row["message"] + row["subject"] for row in rows)
    assert all(word in text(record) for word in plan.split()), record["plan"]
    assert record["state"]["unknown"] == []


# given, recordings that are right: no findings at all.
RIGHT = {
    "held to the last package": (given(driver="550.90.07"), {"dpkg_list": "".join("hi  %s 550.90.07-0ubuntu1 amd64 x\n" % name for name in (
        "nvidia-driver-550", "libnvidia-compute-550:amd64", "nvidia-firmware-550-550.90.07"))}),
    "an older firmware package is left": (given(driver="550.90.07"), {"dpkg_list": (
        "nvidia-driver-550\t550.90.07-0ubuntu1\tii \nnvidia-firmware-550-550.54.15\t550.54.15-0ubuntu1\tii \n")}),
    "a distribution's own tools": (given("debian-13", driver_branch=550), {"dpkg_list": (
        "nvidia-driver\t550.163.01-2\tii \nlibcuda1\t550.163.01-2\tii \nnvidia-modprobe\t570.133.07-1\tii \nnvidia-kernel-common\t20240109+1\tii \n")}),
    "a pin of the right version": (given(driver="535.183.01"), {"apt_preferences": "Package: *nvidia*\nPin: version 535.183.01*\nPin-Priority: 1001\n"}),
    "a pin of something else": (given(driver="535.183.01"), {"apt_preferences": "Package: nginx\nPin: version 1.0\nPin-Priority: 1001\n"}),
    "the candidate is what is installed": (given(driver="535.216.03"), {"apt_policy": policy("nvidia-driver-535", NEWER[0], NEWER[0], NEWER, UBUNTU)}),
    "an upgrade of other things": (given(driver="535.183.01", kernel="6.8.0-41-generic"), {"apt_simulation": (
        "Inst curl [7.81.0-1] (7.81.0-2 Ubuntu:22.04/jammy-updates [amd64])\nConf curl (7.81.0-2 Ubuntu:22.04/jammy-updates [amd64])\n")}),
    "a lock that needs root": (given(), {"apt_run": failed("E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)\n"
                                                           "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?\n", 100)}),
    "the other branch was removed": (given(driver="550.90.07"), {
        "dpkg_list": "ii  nvidia-driver-550 550.90.07-0ubuntu1 amd64 x\nrc  nvidia-driver-535 535.1 amd64 x\n"}),
    "part of a list, and nobody asked for holds": (given(driver="535.183.01"), {"dpkg_list": LIST_535}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_nothing_is_said_of_what_is_right(name):
    situation, texts = RIGHT[name]
    record = judged(situation, **texts)
    assert [(row["code"], row["subject"]) for row in record["findings"]] == [] and record["plan"] == []


def test_a_claim_may_do_without_holds():
    world = given(driver="535.183.01", hold=False)
    assert not found(judged(world, dpkg_list=LIST_535, apt_holds=""), "package_not_held")
    assert found(judged(given(driver="535.183.01"), dpkg_list=LIST_535, apt_holds=""), "package_not_held") == [
        ("libnvidia-compute-535", "error", "drift"), ("nvidia-driver-535", "error", "drift")]
