# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about dnf: each where it speaks and where it is silent, from recordings of the kinds that people report."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import Observation
from cases.recorded import judged

RELEASE = "5.14.0-570.12.1.el9_6.x86_64"
SET = "".join("%s-3:550.54.15-1.el9.x86_64\n" % name for name in ("nvidia-driver", "nvidia-driver-libs", "nvidia-driver-cuda", "kmod-nvidia-latest-dkms"))
KERNEL = "".join("%s-5.14.0-570.12.1.el9_6.x86_64\n" % name for name in ("kernel", "kernel-core", "kernel-modules", "kernel-devel", "kernel-headers"))
HEADER = "Name          Stream          Profiles                Summary\n"
OLD = HEADER + "nvidia-driver 565-dkms [e] default [d] [i], fm Nvidia driver\nnvidia-driver 570-open  default [d], fm Nvidia driver\n"
LATEST = HEADER + "nvidia-driver latest-dkms [d][e] default [d] [i], fm Nvidia driver\nnvidia-driver 550-dkms  default [d], fm Nvidia driver\n"
NONE = HEADER + "nvidia-driver latest-dkms [d] default [d], fm Nvidia driver\nnvidia-driver 550-dkms  default [d], fm Nvidia driver\n"
KMODS = "kmod-nvidia-535.183.06-4.18.0-553.22.1-3:535.183.06-3.el8_10.x86_64\nkmod-nvidia-535.216.01-4.18.0-553.16.1-3:535.216.01-3.el8_10.x86_64\n"
RUN = "Error: \n Problem: %s\n(try to add '--skip-broken' to skip uninstallable packages)\n"


def record(lock, running=None, **recorded):
    given = {"os": "rocky-9", "lock": lock, "running_kernel": running}
    return judged(given, **{name: text for name, text in recorded.items() if text is not None})


def found(code, lock, running=None, **recorded):
    return [row for row in record(lock, running, **recorded)["findings"] if row["code"] == code]


def locks(*specs):
    return "".join(spec + "\n" for spec in specs)


@pytest.mark.parametrize("lock,modules,subject", [
    ({"module_stream": "570-open"}, OLD, "565-dkms enabled, 570-open locked"),
    ({"driver": "570.86.15", "flavour": "open"}, OLD, "565-dkms enabled, 570-open locked"),
    ({"driver": "565.57.01", "kmod": "precompiled", "flavour": "proprietary"}, OLD, "565-dkms enabled, 565 locked"),
    ({"driver": "565.57.01"}, OLD, None), ({"module_stream": "565-dkms"}, OLD, None), ({"module_stream": "550-dkms"}, LATEST, None),
    ({"module_stream": "open-dkms"}, LATEST, "latest-dkms enabled, open-dkms locked"), ({"module_stream": "550-dkms"}, NONE, None), ({}, OLD, None)])
def test_the_enabled_stream(lock, modules, subject):
    assert [row["subject"] for row in found("module_stream_differs", lock, dnf_modules=modules)] == ([subject] if subject else [])


def test_a_stream_without_content_has_nothing_to_remove():
    plan = record({"module_stream": "570-open"}, dnf_modules=OLD.replace(" [i]", ""))["plan"]
    assert [step["action"] for step in plan] == ["module_reset", "module_enable", "install_exact"]
    files = "[nvidia-driver]\nname=nvidia-driver\nstream=565-dkms\nprofiles=\nstate=enabled\n"
    plan = record({"module_stream": "570-open", "driver": "570.86.15"}, dnf_module_states=files, rpm_list=SET)["plan"]
    assert plan[0] == {"action": "remove", "target": "content of nvidia-driver:565-dkms"}
    assert {"action": "install_exact", "target": "driver set of nvidia-driver:570-open at 570.86.15"} in plan


def test_a_refused_switch_is_enough():
    text = "The operation would result in switching of module 'nvidia-driver' stream '565-dkms' to stream '570-open'\nError: It is not possible\n"
    assert [row["subject"] for row in found("module_stream_differs", {}, dnf_run=Observation(1, text))] == ["565-dkms enabled, 570-open locked"]
    other = text.replace("nvidia-driver", "postgresql").replace("565-dkms", "13").replace("570-open", "15")
    assert found("module_stream_differs", {}, dnf_run=Observation(1, other)) == []


@pytest.mark.parametrize("lock,modules,weight", [
    ({"driver": "550.54.15"}, LATEST, ("error", "drift")), ({"module_stream": "550-dkms"}, LATEST, ("error", "drift")),
    ({"module_stream": "latest-dkms", "driver": "550.54.15"}, LATEST, ("warn", "in_sync")), ({"driver": "550.54.15"}, OLD, None),
    ({"driver": "550.54.15"}, NONE, None), ({}, LATEST, None)])
def test_a_floating_stream(lock, modules, weight):
    rows = found("floating_stream", lock, dnf_modules=modules)
    assert [(row["severity"], row["verdict"]) for row in rows] == ([weight] if weight else [])


def test_a_floating_stream_is_left_by_name():
    plan = record({"driver": "550.54.15", "flavour": "proprietary"}, dnf_modules=LATEST, rpm_list=SET)["plan"]
    assert {"action": "module_enable", "target": "nvidia-driver:550-dkms"} in plan
    lock = next(step for step in plan if step["action"] == "dnf_versionlock")
    assert lock["target"] == "kmod-nvidia-latest-dkms, nvidia-driver, nvidia-driver-cuda, nvidia-driver-libs"


@pytest.mark.parametrize("lock,recorded,subject,verdict", [
    ({}, {"dnf_run": Observation(1, "All matches were filtered out by modular filtering for argument: nvidia-driver\n")}, "nvidia-driver", "blocked"),
    ({}, {"dnf_run": Observation(1, RUN % "package nvidia-kmod-common-3:515.48.07-1.el8.noarch requires nvidia-kmod = 3:515.48.07, but none of the "
                                 "providers can be installed\n  - package kmod-nvidia-latest-dkms-3:515.48.07-1.el8.x86_64 is filtered out by "
                                 "modular filtering")}, "nvidia-driver", "blocked"),
    ({}, {"dnf_run": Observation(1, "All matches were filtered out by modular filtering for argument: containerd.io\n")}, "containerd.io", "blocked"),
    ({"module_stream": "550-dkms"}, {"dnf_modules": NONE}, "nvidia-driver:550-dkms", "drift"),
    ({"module_stream": "550-dkms"}, {"dnf_module_states": Observation(1, "", "x: No such file or directory"), "rpm_list": SET}, "nvidia-driver:550-dkms",
     "drift"),
    ({"module_stream": "565-dkms"}, {"dnf_modules": OLD}, None, None), ({"driver": "550.54.15"}, {"dnf_modules": NONE}, None, None),
    ({}, {"dnf_run": Observation(1, "Error: Unable to find a match: nvidia-driver\n")}, None, None)])
def test_a_stream_is_enabled(lock, recorded, subject, verdict):
    rows = found("module_stream_not_enabled", lock, **recorded)
    assert [(row["subject"], row["verdict"]) for row in rows] == ([(subject, verdict)] if subject else [])


@pytest.mark.parametrize("lock,specs,loose", [
    ({"driver": "550.54.15"}, ["nvidia-driver-3:550.54.15-1.el9.*", "kmod-nvidia-latest-dkms-3:550.54.15-1.el9.*"],
     "nvidia-driver-cuda, nvidia-driver-libs"),
    ({"driver": "550.54.15"}, ["*nvidia*-3:550.54.15-1.el9.*"], None),
    ({"driver": "550.54.15"}, ["*nvidia*-3:535.216.01-1.el9.*"], "kmod-nvidia-latest-dkms, nvidia-driver, nvidia-driver-cuda, nvidia-driver-libs"),
    ({"kernel": RELEASE}, ["kernel-0:5.14.0-570.12.1.el9_6.*"], "kernel-core, kernel-devel, kernel-modules"),
    ({"kernel": RELEASE}, ["kernel*-5.14.0-570.12.1.el9_6.*"], None), ({"kernel": "5.14.0-611.5.1.el9_7.x86_64"}, [], None),
    ({"driver": "550.54.15", "hold": False}, [], None), ({}, [], None), ({"nccl": "2.26.2"}, [], None)])
def test_the_closure_is_locked(lock, specs, loose):
    rows = found("versionlock_incomplete", lock, rpm_list=SET + KERNEL, dnf_versionlock=locks(*specs))
    assert [row["subject"] for row in rows] == ([loose] if loose else [])
    if loose:
        assert rows[0]["do"] == [{"action": "dnf_versionlock", "target": loose}]


def test_locks_are_judged_only_where_they_are_known():
    assert found("versionlock_incomplete", {"driver": "550.54.15"}, rpm_list=SET) == []
    missing = Observation(1, "", "/etc/dnf/plugins/versionlock.list: No such file or directory")
    no_plugin = Observation(1, "No such command: versionlock. Please use /usr/bin/dnf --help\n")
    for seen in (missing, no_plugin, ""):
        assert len(found("versionlock_incomplete", {"driver": "550.54.15"}, rpm_list=SET, dnf_versionlock=seen)) == 1
    assert found("versionlock_incomplete", {"driver": "550.54.15"}, rpm_list=SET, dnf_versionlock=Observation(1, "", "Error: cache is broken")) == []


def test_an_excluding_lock_keeps_nothing():
    rows = found("versionlock_incomplete", {"driver": "550.54.15"}, rpm_list="nvidia-driver-3:550.54.15-1.el9.x86_64",
                 dnf_versionlock="!nvidia-driver-3:550.54.15-1.el9.*\n")
    assert [row["subject"] for row in rows] == ["nvidia-driver"]


RHEL = "4.18.0-553.22.1.el8_10.x86_64"


@pytest.mark.parametrize("lock,offered,offer", [
    ({"driver": "535.216.01", "kmod": "precompiled", "kernel": RHEL}, KMODS, "driver 535.183.06 on this kernel"),
    ({"driver": "550.54.15", "kmod": "precompiled", "kernel": "4.18.0-553.16.1.el8_10.x86_64"}, KMODS, "driver 535.216.01 on this kernel"),
    ({"driver": "535.216.01", "kmod": "precompiled", "kernel": "4.18.0-553.22.el8_10.x86_64"}, KMODS, "a driver that has one"),
    ({"driver": "535.216.01", "kmod": "precompiled", "kernel": RHEL}, "", "a driver that has one"),
    ({"driver": "535.183.06", "kmod": "precompiled", "kernel": RHEL}, KMODS, None), ({"driver": "535", "kmod": "precompiled", "kernel": RHEL}, KMODS, None),
    ({"driver": "535.216.01", "kmod": "dkms", "kernel": RHEL}, KMODS, None), ({"driver": "535.216.01", "kernel": RHEL}, KMODS, None),
    ({"driver": "535.216.01", "kmod": "precompiled", "kernel": RHEL}, "nvidia-driver-3:535.216.01-1.el8.x86_64\n", None),
    ({"driver": "535.216.01", "kmod": "precompiled", "kernel": RHEL}, None, None)])
def test_a_precompiled_module_is_there(lock, offered, offer):
    rows = found("no_precompiled_kmod", lock, dnf_repoquery=offered)
    assert len(rows) == (1 if offer else 0)
    if offer:
        assert offer in rows[0]["do"][0]["target"] and rows[0]["verdict"] == "blocked" and lock["driver"] in rows[0]["subject"]


def test_a_run_that_finds_no_precompiled_module():
    lock = {"driver": "535.216.01", "kmod": "precompiled"}
    for text in ("Error: Unable to find a match: kmod-nvidia-535.216.01-4.18.0-553.22.1\n",
                 RUN % "package nvidia-driver-3:535.216.01-1.el8.x86_64 requires nvidia-kmod = 3:535.216.01, but none of the providers can be installed"):
        assert [row["subject"] for row in found("no_precompiled_kmod", lock, RHEL, dnf_run=Observation(1, text))] == ["535.216.01 for 4.18.0-553.22.1.el8_10"]
    assert found("no_precompiled_kmod", lock, RHEL, dnf_run=Observation(1, "Error: Unable to find a match: htop\n")) == []


@pytest.mark.parametrize("recorded,verdict", [
    ({"dnf_run": Observation(1, RUN % "cannot install both libibverbs-59mlnx44-1.59056.x86_64 from mlnx and libibverbs-41.0-1.el8.x86_64 from baseos")},
     "blocked"),
    ({"dnf_run": Observation(1, RUN % "package rdma-core-51mlnx1-1.51258.x86_64 conflicts with rdma-core provided by rdma-core-41.0-1.el8.x86_64")},
     "blocked"),
    ({"dnf_run": Observation(1, RUN % "cannot install both libibverbs-41.0-1.el8.x86_64 and libibverbs-44.0-2.el8.x86_64")}, None),
    ({"dnf_run": Observation(1, RUN % "cannot install both nvidia-driver-3:1-1.el8.x86_64 and nvidia-driver-3:2-1.el8.x86_64")}, None),
    ({"apt_run": Observation(100, "The following packages have unmet dependencies:\n libibverbs-dev : Depends: libibverbs1 (= 39.0-1) but "
                                  "2307mlnx47-1.2310055 is to be installed\nE: Unable to correct problems, you have held broken packages.\n")}, "blocked"),
    ({"rpm_list": "libibverbs-41.0-1.el8.x86_64\nrdma-core-59mlnx44-1.59056.x86_64\n"}, "broken"),
    ({"rpm_list": "libibverbs-59mlnx44-1.59056.x86_64\nrdma-core-59mlnx44-1.59056.x86_64\nmlnx-tools-5.2.0-0.el8.noarch\n"}, None),
    ({"rpm_list": "libibverbs-41.0-1.el8.x86_64\nrdma-core-41.0-1.el8.x86_64\n"}, None)])
def test_one_rdma_stack(recorded, verdict):
    assert [row["verdict"] for row in found("mixed_rdma_stack", {}, **recorded)] == ([verdict] if verdict else [])


def missing(*names):
    said = "".join("No match for argument: %s\n" % name for name in names)
    return {"dnf_run": Observation(1, said + "Error: Unable to find a match: %s\n" % " ".join(names))}


LIST = "Available Packages\nnvidia-driver.x86_64 3:550.54.15-1.el9 cuda\nnvidia-driver.x86_64 3:560.35.03-1.el9 cuda\n"


@pytest.mark.parametrize("code,lock,recorded,subject", [
    ("locked_version_gone_from_archive", {"driver": "535.183.01"}, missing("nvidia-driver-3:535.183.01-1.el9"), "nvidia-driver=3:535.183.01-1.el9"),
    ("locked_version_gone_from_archive", {"driver": "535.183.01"}, missing("nvidia-driver-535.183.01"), "nvidia-driver=535.183.01"),
    ("locked_version_gone_from_archive", {"driver": "535.183.01"}, {"dnf_repoquery": LIST}, "nvidia-driver=535.183.01"),
    ("locked_version_gone_from_archive", {"driver": "550.54.15"}, {"dnf_repoquery": LIST}, None),
    ("locked_version_gone_from_archive", {"driver": "535.183.01"}, {"dnf_repoquery": Observation(100, LIST)}, None),
    ("locked_version_gone_from_archive", {"kernel": RHEL}, missing("kernel-devel-" + RHEL), None),
    ("headers_unavailable", {"kernel": RHEL}, missing("kernel-devel-" + RHEL), "kernel-devel-" + RHEL),
    ("package_renamed", {"dcgm": "4.2.3"}, missing("datacenter-gpu-manager"), "datacenter-gpu-manager -> datacenter-gpu-manager-4-core"),
    ("package_renamed", {"driver": "580.65.06"}, missing("nvidia-fabric-manager"), "nvidia-fabric-manager -> nvidia-fabricmanager"),
    ("package_renamed", {"driver": "550.54.15"}, missing("nvidia-fabricmanager-550"), "nvidia-fabricmanager-550 -> nvidia-fabric-manager"),
    ("package_renamed", {"driver": "550.54.15"}, missing("nvidia-driver-550.54.15"), None),
    ("pinned_away", {}, {"dnf_run": Observation(1, "All matches were filtered out by exclude filtering for argument: kernel-devel\n")}, "kernel-devel"),
    ("apt_locked", {}, {"dnf_run": Observation(1, "Waiting for process with pid 2817 to finish.\n")}, "process 2817"),
    ("package_half_configured", {"driver": "560.35.03"}, {"rpm_list": "nvidia-driver-3:550.54.15-1.el9.x86_64\nnvidia-driver-3:560.35.03-1.el9.x86_64\n"},
     "nvidia-driver"),
    ("package_half_configured", {}, {"rpm_list": "kernel-core-5.14.0-570.12.1.el9_6.x86_64\nkernel-core-5.14.0-503.14.1.el9_5.x86_64\n"}, None),
    ("package_set_split", {"driver": "550.54.15"}, {"rpm_list": SET.replace("driver-libs-3:550.54.15", "driver-libs-3:560.35.03")},
     "nvidia-driver-libs 560.35.03 beside 550.54.15"),
    ("transaction_removes_locked_kernel", {"kernel": "5.14.0-503.14.1.el9_5.x86_64"},
     {"dnf_transaction": Observation(1, "Removing:\n kernel-core x86_64 5.14.0-503.14.1.el9_5 @baseos 68 M\n")}, "5.14.0-503.14.1.el9_5.x86_64")])
def test_rules_that_apt_shares(code, lock, recorded, subject):
    assert [row["subject"] for row in found(code, lock, **recorded)] == ([subject] if subject else [])


def test_a_node_in_sync_has_no_findings():
    kernel = "kernel*-5.14.0-570.12.1.el9_6.*"
    got = record({"driver": "550.54.15", "module_stream": "550-dkms", "kernel": RELEASE}, RELEASE, rpm_list=SET + KERNEL,
                 dnf_versionlock=locks("*nvidia*-3:550.54.15-1.el9.*", kernel), dnf_modules=NONE.replace("550-dkms ", "550-dkms [e] "),
                 dnf_transaction=Observation(0, "Dependencies resolved.\nNothing to do.\nComplete!\n"), dnf_config="[main]\ngpgcheck=1\n",
                 dnf_repos="[cuda]\nbaseurl=https://developer.download.nvidia.com/x\nenabled=1\ngpgcheck=1\n")
    assert got["verdict"] == "in_sync" and got["findings"] == [] and got["plan"] == []


@pytest.mark.parametrize("recorded,subjects", [
    ({"dnf_repos": "==> /etc/yum.repos.d/mlnx.repo <==\n[mlnx_ofed]\nbaseurl=file:///mnt/RPMS\nenabled=1\ngpgcheck=0\n"},
     ["/etc/yum.repos.d/mlnx.repo [mlnx_ofed]"]),
    ({"dnf_repos": "[mlnx_ofed]\nbaseurl=file:///mnt/RPMS\nenabled=0\ngpgcheck=0\n"}, []),
    ({"dnf_repos": "[cuda]\nbaseurl=https://developer.download.nvidia.com/x\ngpgcheck=1\nrepo_gpgcheck=0\n", "dnf_config": "[main]\ngpgcheck=0\n"}, []),
    ({"dnf_repos": "[cuda]\nbaseurl=https://developer.download.nvidia.com/x\n", "dnf_config": "[main]\ngpgcheck=0\n"}, ["/etc/yum.repos.d [cuda]"]),
    ({"dnf_repos": "[cuda]\nbaseurl=https://developer.download.nvidia.com/x\n"}, []),
    ({"dnf_run": Observation(1, 'The GPG keys listed for the "cuda-rhel8-x86_64" repository are already installed but they are not correct for this '
                                'package.\nError: GPG check FAILED\n')}, ["cuda-rhel8-x86_64"])])
def test_signatures_are_checked(recorded, subjects):
    rows = found("repository_unauthenticated", {}, **recorded)
    assert [row["subject"] for row in rows] == subjects and all(row["verdict"] == "blocked" for row in rows)


INSTALLED = "kmod-nvidia-535.183.06-4.18.0-553.22.1-3:535.183.06-3.el8_10.x86_64\nkernel-core-4.18.0-553.22.1.el8_10.x86_64\n"
COMING = "Installing:\n kernel-core  x86_64  4.18.0-553.27.1.el8_10  baseos  40 M\n"
KMOD_TOO = " kmod-nvidia-535.183.06-4.18.0-553.27.1  x86_64  3:535.183.06-4.el8_10  cuda  20 M\n"
SKIPPED = ("NOTE: Skipping kernel installation since no NVIDIA driver kernel module package kmod-nvidia-535.183.06-4.18.0-553.27.1 for kernel "
           "kernel-4.18.0-553.27.1.el8_10.x86_64 and driver nvidia-driver-3:535.183.06-1.el8.x86_64 could be found\n")


@pytest.mark.parametrize("recorded,subject,weight", [
    ({"rpm_list": INSTALLED, "dnf_transaction": Observation(1, COMING)}, "4.18.0-553.27.1.el8_10.x86_64", ("error", "blocked")),
    ({"rpm_list": INSTALLED, "dnf_transaction": Observation(1, COMING + KMOD_TOO)}, None, None),
    ({"rpm_list": SET, "dnf_transaction": Observation(1, COMING)}, None, None),
    ({"dnf_run": Observation(0, SKIPPED)}, "4.18.0-553.27.1.el8_10.x86_64", ("warn", "in_sync"))])
def test_kernels_that_come_without_a_module(recorded, subject, weight):
    rows = found("no_kmod_for_next_kernel", {}, **recorded)
    assert [(row["subject"], (row["severity"], row["verdict"])) for row in rows] == ([(subject, weight)] if subject else [])


def test_ansible_quotes_dnf():
    said = ('{"changed": false, "msg": "Depsolve Error occurred: \\n Problem: conflicting requests\\n  - package nvidia-settings-3:580.65.06-1.el10.x86_64 '
            'from cuda is filtered out by modular filtering", "rc": 1}')
    assert [row["subject"] for row in found("module_stream_not_enabled", {}, ansible_result=Observation(1, said))] == ["nvidia-driver"]


@pytest.mark.parametrize("flavour, gone", [("proprietary", []), ("open", ["kmod-nvidia-open-dkms=550.54.15"])])
def test_modules_of_the_other_flavour_are_not_missed(flavour, gone):
    offered = ("Available Packages\nnvidia-driver-cuda.x86_64    3:550.54.15-1.el9    cuda\nkmod-nvidia-latest-dkms.x86_64    3:550.54.15-1.el9    cuda\n"
               "kmod-nvidia-open-dkms.x86_64    3:560.35.03-1.el9    cuda\n")
    hits = found("locked_version_gone_from_archive", {"driver": "550.54.15", "flavour": flavour}, dnf_repoquery=offered)
    assert [row["subject"] for row in hits] == gone
