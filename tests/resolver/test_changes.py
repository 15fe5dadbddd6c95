# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From one stack to another on a node that has the first one: branches, patch levels and flavours, up and down."""
from __future__ import annotations

import re

import pytest

import expected
from collection import need_of

UBUNTU = ("ubuntu2204-cuda", "ubuntu2204-archive")
EL9 = ("rhel9-cuda", "el9-baseos")
# Each reached from the one before. The last one leads back to the first.
ROAD = ["535.183.01", "550.54.15", "550.163.01", "570.133.20", "580.126.20", "580.105.08", "550.54.15", "535.183.01"]
MODULES = {"open": "nvidia-dkms-%s-open", "proprietary": "nvidia-dkms-%s"}


def ubuntu(version, flavour="proprietary", **more):
    return dict({"os": "ubuntu-22.04", "driver": {"version": version, "source": "nvidia", "flavour": flavour}}, **more)


def rocky(version, flavour="open", **more):
    return dict({"os": "rocky-9.6", "driver": {"version": version, "source": "nvidia", "flavour": flavour}}, **more)


def drivers(packages):
    """Driver versions in a {name: version} of a node."""
    return {expected.upstream(version) for name, version in packages.items()
            if re.match(r"(lib)?nvidia-|kmod-nvidia|xserver-xorg-video-nvidia", name) and not re.match(r"libnvidia-(egl|container)|nvidia-container", name)}


class TestOnApt:
    def test_along_the_branches_and_back(self, apt_node, on):
        node = apt_node(*UBUNTU)
        ours, first = on(node), None
        for version in ROAD:
            need = need_of(ubuntu(version))
            made = ours.apply(need)
            assert {expected.upstream(one) for one in made.managed().values()} == {version}
            assert drivers(node.state) == {version}
            assert MODULES["proprietary"] % version.split(".", maxsplit=1)[0] in node.state and "dkms" in node.root.base
            assert ours.due(need) == [] and ours.moves(made) == []
            first = first or dict(node.state)
        assert node.state == first

    def test_parts_of_a_desktop_follow_to_the_other_branch_or_leave(self, apt_node, on):
        """A driver's parts carry the branch in their names: those of the old one go, and what asked for them as well."""
        node = apt_node(*UBUNTU)
        node.settle("install", "--no-install-recommends", "nvidia-driver-570")
        ours, need = on(node), need_of(ubuntu("580.126.20"))
        made = ours.apply(need)
        assert drivers(node.state) == {"580.126.20"}
        assert not [name for name in node.state if "-570" in name]
        assert ours.due(need) == [] and ours.moves(made) == []

    @pytest.mark.parametrize("one, other", [("open", "proprietary"), ("proprietary", "open")])
    def test_the_other_flavour(self, apt_node, on, one, other):
        node = apt_node(*UBUNTU)
        ours = on(node)
        ours.apply(need_of(ubuntu("580.126.20", one)))
        made = ours.apply(need_of(ubuntu("580.126.20", other)))
        assert MODULES[other] % "580" in node.state and MODULES[one] % "580" not in node.state
        assert set(made.removed) == {MODULES[one] % "580", (MODULES[one] % "580").replace("dkms", "kernel-source")}
        assert ours.due(need_of(ubuntu("580.126.20", other))) == [] and ours.moves(made) == []

    def test_everything_at_once(self, apt_node, on):
        node = apt_node(*UBUNTU, "container-toolkit-deb")
        ours = on(node)
        old = ubuntu("570.133.20", cuda={"versions": ["12.4.1"], "profile": "libraries"},
                     nccl={"version": "2.21.5", "cuda": "12.4"}, container_toolkit="1.17.8")
        new = ubuntu("580.126.20", cuda={"versions": ["12.8.0"], "profile": "libraries"},
                     nccl={"version": "2.25.1", "cuda": "12.8"}, container_toolkit="1.18.2")
        for stack in (old, new, old):
            need = need_of(stack)
            made = ours.apply(need)
            assert drivers(node.state) == {stack["driver"]["version"]}
            assert {node.state[name] for name in expected.TOOLKIT} == {stack["container_toolkit"] + "-1"}
            assert node.state["libnccl2"].startswith("%s-1+cuda%s" % (stack["nccl"]["version"], stack["nccl"]["cuda"]))
            assert ours.due(need) == [] and ours.moves(made) == []


class TestOnTheArchive:
    K = {"release": "6.8.0-138-generic", "package_version": "6.8.0-138.138"}

    def test_from_the_desktop_s_set_to_the_server_s_and_back(self, apt_node, on):
        node = apt_node("ubuntu2204-archive")
        ours = on(node)
        desktop, server = ({"os": "ubuntu-22.04", "driver": dict({"version": version, "flavour": "open"}, **more)} for version, more in (
            ("580.173.02", {}), ("580.126.09", {"stream": "server"})))
        for stack, module in ((desktop, "nvidia-dkms-580-open"), (server, "nvidia-dkms-580-server-open"), (desktop, "nvidia-dkms-580-open")):
            need = need_of(stack)
            made = ours.apply(need)
            assert drivers(node.state) == {stack["driver"]["version"]}
            assert [name for name in node.state if "-dkms-" in name] == [module]
            assert ours.due(need) == [] and ours.moves(made) == []

    def test_from_a_module_that_is_built_to_one_that_is_there_and_back(self, apt_node, on):
        node = apt_node("ubuntu2404-archive")
        ours = on(node)
        built, there = ({"os": "ubuntu-24.04", "kernel": self.K, "driver": {"version": "580.173.02", "flavour": "open", "module": module}}
                        for module in ("dkms", "precompiled"))
        for stack, module in ((built, "nvidia-dkms-580-open"), (there, "linux-modules-nvidia-580-open-6.8.0-138-generic"), (built, "nvidia-dkms-580-open")):
            need = need_of(stack)
            made = ours.apply(need)
            assert [name for name in node.state if re.match(r"nvidia-dkms-|linux-modules-nvidia-", name)] == [module]
            assert ours.due(need) == [] and ours.moves(made) == []


class TestToolkitsSideBySide:
    def test_one_that_the_stack_no_longer_names_stays(self, apt_node, on):
        """Several toolkits do not exclude each other, and somebody may build with the other one."""
        node = apt_node(*UBUNTU)
        ours = on(node)
        both = {"os": "ubuntu-22.04", "cuda": {"versions": ["12.4.1", "12.8.0"], "active": "12.8.0", "profile": "libraries"}}
        made = ours.apply(need_of(both))
        assert {"cuda-libraries-12-4": "12.4.1-1", "cuda-libraries-12-8": "12.8.0-1"}.items() <= made.managed().items()
        one = need_of(dict(both, cuda={"versions": ["12.8.0"], "profile": "libraries"}))
        made = ours.apply(one)
        assert made.removed == [] and made.changes() == {} and node.state["cuda-libraries-12-4"] == "12.4.1-1"
        assert ours.due(one) == [] and ours.moves(made) == []


class TestOnDnf:
    def test_along_the_streams_and_back(self, dnf_node, on):
        node = dnf_node(*EL9)
        ours, first = on(node), None
        for version in ("570.133.20", "570.211.01", "580.126.20", "580.105.08", "570.133.20"):
            need = need_of(rocky(version))
            made = ours.apply(need)
            installed = {name: version for name, versions in node.installed().items() for version in versions}
            assert {expected.upstream(one) for one in made.managed().values()} == drivers(installed) == {version}
            assert ours.due(need) == [] and ours.moves(made) == []
            first = first or installed
        assert {name: version for name, version in installed.items() if name in first} == first

    @pytest.mark.parametrize("one, other, gone, comes", [
        ("open", "proprietary", "kmod-nvidia-open-dkms", "kmod-nvidia-latest-dkms"),
        ("proprietary", "open", "kmod-nvidia-latest-dkms", "kmod-nvidia-open-dkms"),
    ])
    def test_the_other_flavour(self, dnf_node, on, one, other, gone, comes):
        node = dnf_node(*EL9)
        ours = on(node)
        ours.apply(need_of(rocky("580.126.20", one)))
        made = ours.apply(need_of(rocky("580.126.20", other)))
        assert gone in made.removed and comes in node.installed() and gone not in node.installed()
        assert ours.due(need_of(rocky("580.126.20", other))) == [] and ours.moves(made) == []
