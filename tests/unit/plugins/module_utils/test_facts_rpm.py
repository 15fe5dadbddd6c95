# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan needs to know of an RPM node: holds, and what this collection wrote itself."""
from __future__ import annotations

import errno
import os

from cases.recorded import state

from ansible_collections.lockstep.gpu.plugins.module_utils import versionlocks
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import join_files
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import Observation

LIST = "".join("%s\t%s\t%s\t%s\tx86_64\t%s.src.rpm\n" % row for row in (
    ("glibc", "(none)", "2.34", "168.el9", "glibc-2.34-168.el9"), ("rpm", "(none)", "4.16.1.3", "37.el9", "rpm-4.16.1.3-37.el9"),
    ("nvidia-driver-cuda", "3", "580.126.20", "1.el9", "nvidia-driver-580.126.20-1.el9"),
    ("libnccl", "(none)", "2.21.5", "1+cuda12.4", "nccl-2.21.5-1+cuda12.4"),
    ("kernel-core", "(none)", "5.14.0", "570.18.1.el9_6", "kernel-5.14.0-570.18.1.el9_6"),
    ("kernel-core", "(none)", "5.14.0", "687.25.1.el9_8", "kernel-5.14.0-687.25.1.el9_8")))
PINS = {"nvidia-driver-cuda": "3:580.126.20-1.el9", "kernel-core": "5.14.0-570.18.1.el9_6"}
REPOSITORY = "# Written by lockstep.gpu\n[lockstep-cuda]\nbaseurl=https://mirror.example/cuda/\ngpgcheck=1\n"


def nothing(path):
    return Observation(1, "", "cat: %s: %s" % (path, os.strerror(errno.ENOENT)))


def node(locks, repos):
    return state(rpm_list=LIST, dnf_versionlock=locks, dnf_repos=repos)


def test_a_node_that_we_have_set_up():
    text = versionlocks.put_block("libnccl-0:2.20.0-1+cuda12.4.*\n", versionlocks.render([], PINS))
    found = node(join_files([(versionlocks.LOCKS_FILE, text)]), join_files([
        ("/etc/yum.repos.d/baseos.repo", "[baseos]\nbaseurl=https://mirror.example/el9/\n"), (versionlocks.OWN_REPOSITORIES, REPOSITORY)]))
    manager, packages = found["package_manager"], found["packages"]
    assert manager["kind"] == "dnf" and manager["own_pins"] == PINS and manager["own_sources"] == REPOSITORY
    assert manager["own_pin_text"] == versionlocks.render([], PINS) and manager["broken"] == []
    assert {name: packages[name]["hold"] for name in (*PINS, "libnccl")} == {"nvidia-driver-cuda": True, "kernel-core": True, "libnccl": False}
    assert packages["kernel-core"]["others"] == ["5.14.0-570.18.1.el9_6"] and packages["libnccl"]["source"] == "nccl"


def test_a_node_that_nobody_has_set_up():
    manager = node("# no locks\n", join_files([("/etc/yum.repos.d/baseos.repo", "[baseos]\nbaseurl=https://mirror.example/el9/\n")]))["package_manager"]
    assert manager["own_pins"] == {} and manager["own_pin_text"] == "" and manager["own_sources"] is None


def test_nobody_looked_at_the_locks():
    found = state(rpm_list=LIST)
    assert found["packages"]["libnccl"]["hold"] is None


def test_what_is_there_twice_is_broken():
    twice = LIST + "nvidia-driver-cuda\t3\t570.133.20\t1.el9\tx86_64\tnvidia-driver-570.133.20-1.el9.src.rpm\n"
    found = state(rpm_list=twice)
    assert found["package_manager"]["broken"] == ["nvidia-driver-cuda"]
    assert found["packages"]["nvidia-driver-cuda"]["others"] == ["3:570.133.20-1.el9"]


def test_what_a_transaction_of_ours_did_not_finish_is_broken():
    text = join_files([(versionlocks.JOURNAL, "libnccl=2.21.5-1+cuda12.4\nkernel-core=5.14.0-570.18.1.el9_6\nnvidia-modprobe=3:580.126.20-1.el9\n")])
    assert state(rpm_list=LIST, dnf_own_transaction=text)["package_manager"]["broken"] == ["kernel-core", "libnccl"]
    found = state(rpm_list=LIST, dnf_own_transaction=nothing(versionlocks.JOURNAL))
    assert found["package_manager"]["broken"] == [] and "dnf_own_transaction" not in [row["probe"] for row in found["unknown"]]
