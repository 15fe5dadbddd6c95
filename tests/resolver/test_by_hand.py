# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Nodes that somebody changed by hand: what is in the way is named with its file, and nothing of the user's is undone."""
from __future__ import annotations

import pytest

import expected
from ansible_collections.lockstep.gpu.plugins.module_utils import acting
from collection import need_of

NOBLE, EL9 = ("ubuntu2404-cuda", "ubuntu2404-archive"), ("rhel9-cuda", "el9-baseos")
V = "580.126.20-1ubuntu1"
STACK = {"os": "ubuntu-24.04", "driver": {"version": "580.126.20", "source": "nvidia", "flavour": "open"}}
ROCKY = dict(STACK, os="rocky-9.6")


def problems(call):
    """[(code, name)] of a refusal, and its text."""
    with pytest.raises(acting.Refused) as refused:
        call()
    return [(problem["code"], problem["name"]) for problem in refused.value.problems], str(refused.value)


class TestOnApt:
    def test_another_origin_pinned_higher_is_repaired(self, apt_node, on):
        node = apt_node(*NOBLE, preferences="Package: *\nPin: release o=Ubuntu\nPin-Priority: 990\n")
        ours, need = on(node), need_of(STACK)
        made = ours.apply(need)
        assert set(made.managed().values()) == {V}
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_a_pin_that_keeps_the_stack_s_origin_away_is_named(self, apt_node, on):
        node = apt_node(*NOBLE, preferences="Package: *nvidia*\nPin: release l=NVIDIA CUDA\nPin-Priority: -1\n")
        found, text = problems(lambda: on(node).resolve(need_of(STACK)))
        assert found[0][0] == "pinned_away" and "/etc/apt/preferences.d/mine" in text

    def test_a_pin_above_ours_that_asks_for_another_version_is_named_or_loses(self, apt_node, on):
        node = apt_node(*NOBLE, preferences="Package: nvidia-utils-580\nPin: version 580.178.04-*\nPin-Priority: 1999\n")
        ours, need = on(node), need_of(STACK)
        made = ours.apply(need)
        assert made.managed()["nvidia-utils-580"] == V
        assert ours.due(need) == [] and ours.moves(made) == []

    @pytest.mark.parametrize("name, version, refused", [
        ("libnvidia-compute-580", "580.178.04-1ubuntu1", True),
        ("libnvidia-compute-580", V, False),
    ])
    def test_a_package_that_the_user_holds(self, apt_node, on, name, version, refused):
        """In the way it stops the run with the command that would release it; at the stack's version it is left as it is."""
        node = apt_node(*NOBLE, installed={name: version}, holds=[name])
        ours, need = on(node), need_of(STACK)
        if refused:
            found, text = problems(lambda: ours.resolve(need))
            assert ("package_held_by_user", name) in found and "apt-mark unhold " + name in text
        else:
            made = ours.apply(need)
            assert set(made.managed().values()) == {V} and ours.due(need) == [] and ours.moves(made) == []

    def test_a_name_that_is_held_before_it_comes(self, apt_node, on):
        node = apt_node(*NOBLE, installed={"nvidia-settings": "580.178.04-1ubuntu1", "libxnvctrl0": "580.178.04-1ubuntu1"}, holds=["nvidia-settings"])
        found, text = problems(lambda: on(node).resolve(need_of(STACK)))
        assert ("package_held_by_user", "nvidia-settings") in found

    def test_one_library_that_somebody_updated_goes_back(self, apt_node, on):
        node = apt_node(*NOBLE)
        ours, need = on(node), need_of(STACK)
        ours.apply(need)
        node.change({"libnvidia-compute-580": "580.178.04-1ubuntu1"}, [])
        made = ours.apply(need)
        assert made.changes() == {"libnvidia-compute-580": V}
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_a_package_that_somebody_removed_comes_back(self, apt_node, on):
        node = apt_node(*NOBLE)
        ours, need = on(node), need_of(STACK)
        ours.apply(need)
        node.change({}, ["nvidia-utils-580"])
        assert ours.apply(need).changes() == {"nvidia-utils-580": V}
        assert ours.due(need) == []

    def test_a_library_that_somebody_purged_by_force_comes_back(self, apt_node, on):
        """dpkg has unmet dependencies then, with which apt does nothing that leaves them: the whole stack comes with its first component."""
        node = apt_node("ubuntu2204-cuda", "ubuntu2204-archive")
        ours, need = on(node), need_of({"os": "ubuntu-22.04", "driver": {"version": "550.163.01", "source": "nvidia", "flavour": "open"},
                                        "nccl": {"version": "2.21.5", "cuda": "12.4"}})
        before = ours.apply(need)
        node.change({}, ["libnccl2"])
        assert "unmet dependencies" in node.apt("apt-get", "check")[1]
        made = ours.apply(need)
        assert made.managed() == before.managed() and [row["step"] for row in made.rows if row["name"] == "libnccl2"] == ["driver"]
        assert node.apt("apt-get", "check")[0] == 0 and ours.due(need) == []

    def test_other_packages_holds_and_pins_survive(self, apt_node, on):
        node = apt_node(*NOBLE, installed={"make": "4.3-4.1build2"}, holds=["make"], preferences="Package: gcc\nPin: version 1*\nPin-Priority: 1001\n")
        ours = on(node)
        ours.apply(need_of(STACK))
        assert "make" in node.apt("apt-mark", "showhold")[1].split()
        assert (node.root.folder / "etc/apt/preferences.d/mine").read_text(encoding="utf-8").startswith("Package: gcc\n")


class TestOnDnf:
    NAME = "libnvidia-ml"

    def test_a_version_lock_of_the_user_s_is_named_with_its_line(self, dnf_node, on):
        node = dnf_node(*EL9)
        node.lock("# mine", "vim-enhanced-2:8.2*", self.NAME + "-3:570.133.20-1.el9.*")
        found, text = problems(lambda: on(node).resolve(need_of(ROCKY)))
        assert ("package_held_by_user", self.NAME) in found and "versionlock.list" in text and "line 3" in text

    @pytest.mark.parametrize("line", ["exclude=kernel* libnvidia-ml*", "excludepkgs=libnvidia-ml"])
    def test_an_exclude_is_named_with_its_line(self, dnf_node, on, line):
        node = dnf_node(*EL9)
        node.configure(line)
        found, text = problems(lambda: on(node).resolve(need_of(ROCKY)))
        assert ("package_held_by_user", self.NAME) in found and "dnf.conf" in text and line.split("=")[0] in text

    def test_an_exclude_of_another_package_survives_and_is_in_nobody_s_way(self, dnf_node, on):
        node = dnf_node(*EL9)
        node.configure("exclude=vim*")
        node.lock("# mine", "vim-enhanced-2:8.2*")
        ours, need = on(node), need_of(ROCKY)
        made = ours.apply(need)
        assert ours.due(need) == [] and ours.moves(made) == []
        assert "vim-enhanced-2:8.2*" in node.locks() and "exclude=vim*" in node.root.conf.read_text(encoding="utf-8")

    def test_a_disabled_module_is_named(self, dnf_node, on):
        node = dnf_node(*EL9)
        node.settle("module", "disable", "nvidia-driver")
        found, text = problems(lambda: on(node).resolve(need_of(ROCKY)))
        assert found[0][0] == "module_stream_not_enabled" and "dnf module reset nvidia-driver" in text

    def test_another_stream_that_somebody_enabled_is_reset(self, dnf_node, on):
        node = dnf_node(*EL9)
        node.settle("module", "enable", "nvidia-driver:570-open")
        ours, need = on(node), need_of(ROCKY)
        made = ours.apply(need)
        assert {expected.upstream(version) for version in made.managed().values()} == {"580.126.20"}
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_a_package_that_somebody_updated_goes_back(self, dnf_node, on):
        node = dnf_node(*EL9)
        ours, need = on(node), need_of(dict(ROCKY, driver=dict(ROCKY["driver"], version="570.133.20")))
        ours.apply(need)
        node.settle("--disableplugin=versionlock", "update", "nvidia-modprobe")
        assert node.installed()["nvidia-modprobe"] == ["3:570.211.01-1.el9"]
        made = ours.apply(need)
        assert made.changes() == {"nvidia-modprobe": "3:570.133.20-1.el9"}
        assert ours.due(need) == [] and ours.moves(made) == []
