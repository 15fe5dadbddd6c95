# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repositories that change behind a node's back: a newer branch, a transitional or a renamed package, a version that is gone."""
from __future__ import annotations

import pytest

import expected
from ansible_collections.lockstep.gpu.plugins.module_utils import acting
from collection import H100, need_of
from stubs import variants

NOBLE = ("ubuntu2404-cuda", "ubuntu2404-archive")
JAMMY = ("ubuntu2204-archive",)
EL9, EL10 = ("rhel9-cuda", "el9-baseos"), ("el10-cuda", "el10-baseos")
STACK = {"os": "ubuntu-24.04", "driver": {"version": "580.126.20", "source": "nvidia", "flavour": "open"}, "fabric": {"manager": "auto"}}
ON = {"gpus": [H100], "nvswitches": 4}
# On that day 580.126.20 was the newest driver of all.
THAT_DAY = variants.combine({"*": [variants.until("580.126.20")]})


class TestANewerBranch:
    def test_on_apt(self, apt_node, on, of_that_day, repositories):
        node = apt_node(folders=of_that_day(*NOBLE, keep=THAT_DAY))
        ours, need = on(node), need_of(STACK, **ON)
        made = ours.apply(need)
        node.serve(repositories(*NOBLE))
        assert "610.57.04-1ubuntu1" in node.apt("apt-cache", "madison", "nvidia-open")[1]
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_on_dnf(self, dnf_node, on, of_that_day, repositories):
        node = dnf_node(folders=of_that_day(*EL9, keep=THAT_DAY))
        ours, need = on(node), need_of(dict(STACK, os="rocky-9.6"), **ON)
        made = ours.apply(need)
        node.serve(repositories(*EL9))
        assert "610.57.04-1.el9" in node.dnf("--disableplugin=versionlock", "list", "--showduplicates", "nvidia-imex")[1]
        assert ours.due(need) == [] and ours.moves(made) == []


class TestATransitionalPackage:
    @pytest.fixture
    def before(self, of_that_day):
        """The archive when its 550 was a driver of its own, and no way to 580 yet."""
        return of_that_day(*JAMMY, keep=variants.combine({"*": [variants.until("570.195.03")]}))

    def test_a_node_that_has_the_driver_keeps_it(self, apt_node, on, before, repositories):
        node = apt_node(folders=before)
        stack = {"os": "ubuntu-22.04", "driver": {"version": "550.144.03", "source": "distribution", "flavour": "proprietary"}}
        ours, need = on(node), need_of(stack)
        made = ours.apply(need)
        assert {expected.upstream(version) for version in made.managed().values()} == {"550.144.03"}
        node.serve(repositories(*JAMMY))
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_a_meta_that_turns_into_a_way_elsewhere_does_not_lead_there(self, apt_node, on, before, repositories):
        """nvidia-driver-550 of the node becomes the transitional package to 580: held, it stays what it was."""
        node = apt_node(folders=before)
        node.settle("install", "--no-install-recommends", "nvidia-driver-550")
        ours, need = on(node), need_of({"os": "ubuntu-22.04", "driver": {"version": "550.144.03", "source": "distribution", "flavour": "proprietary"}})
        made = ours.apply(need)
        node.serve(repositories(*JAMMY))
        assert node.root.candidate("nvidia-driver-550") == "550.144.03-0ubuntu0.22.04.1"
        assert ours.due(need) == [] and ours.moves(made) == []
        assert {expected.upstream(node.state[name]) for name in node.state if "nvidia" in name} == {"550.144.03"}


class TestARenamedPackage:
    def test_what_obsoletes_ours_does_not_replace_it(self, dnf_node, on, of_that_day, repositories):
        """nvidia-fabric-manager 570 obsoletes nvidia-fabricmanager of any version; without modules dnf sees it."""
        keep = variants.combine({"*": [variants.without("nvidia-fabric-manager.*")]})
        node = dnf_node(folders=of_that_day(*EL10, keep=keep), release=10)
        ours, need = on(node), need_of(dict(STACK, os="rocky-10.1"), **ON)
        made = ours.apply(need)
        node.serve(repositories(*EL10))
        assert ours.due(need) == [] and ours.moves(made) == []
        assert node.installed()["nvidia-fabricmanager"] == ["580.126.20-1"]


class TestAVersionThatIsGone:
    @pytest.fixture
    def dropped(self):
        return variants.combine({"*": [variants.without(r".*(nvidia|nvsdm).*", r"(3:)?580\.126\.20-.*")]})

    def test_a_node_that_has_it_is_converged(self, apt_node, on, of_that_day, repositories, dropped):
        node = apt_node(folders=repositories(*NOBLE))
        ours, need = on(node), need_of(STACK, **ON)
        made = ours.apply(need)
        node.serve(of_that_day(*NOBLE, keep=dropped))
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_a_fresh_node_is_refused_with_what_there_is(self, apt_node, on, of_that_day, dropped):
        ours = on(apt_node(folders=of_that_day(*NOBLE, keep=dropped)))
        with pytest.raises(acting.Refused) as refused:
            ours.resolve(need_of(STACK, **ON))
        assert {problem["code"] for problem in refused.value.problems} == {"locked_version_gone_from_archive"}
        assert "580.178.04-1ubuntu1" in str(refused.value) and "580.126.20" in str(refused.value)

    def test_on_dnf_both(self, dnf_node, on, of_that_day, repositories, dropped):
        folders = of_that_day(*EL9, keep=dropped)
        need = need_of(dict(STACK, os="rocky-9.6"), **ON)
        with pytest.raises(acting.Refused) as refused:
            on(dnf_node(folders=folders)).resolve(need)
        assert {problem["code"] for problem in refused.value.problems} == {"locked_version_gone_from_archive"}
        node = dnf_node(folders=repositories(*EL9))
        ours = on(node)
        made = ours.apply(need)
        node.serve(folders)
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_one_part_alone_is_gone(self, apt_node, on, of_that_day):
        """Everything else of the version is there: no neighbour of another version takes its place."""
        keep = variants.combine({"*": [variants.without("nvidia-kernel-common-580", r"580\.126\.20-.*")]})
        ours = on(apt_node(folders=of_that_day(*NOBLE, keep=keep)))
        with pytest.raises(acting.Refused) as refused:
            ours.resolve(need_of(STACK, **ON))
        assert [problem["name"] for problem in refused.value.problems] == ["nvidia-kernel-common-580"]
