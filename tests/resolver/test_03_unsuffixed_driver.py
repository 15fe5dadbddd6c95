# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An exact driver whose names carry no branch (from 590 on): 595.91.07 of NVIDIA's repository for Ubuntu 24.04.

How the parts of these drivers depend on each other is not known well; only what a package list or a transcript showed is asserted.
"""
from __future__ import annotations

import re

import pytest

import expected
from collection import need_of

V = "595.91.07-1ubuntu1"
# What NVIDIA's nvidia-driver-pinning-<version> puts into /etc/apt/preferences.d, in one stanza.
PIN = ("Package: cuda-drivers* nvidia-* libnvidia-* libnvsdm* xserver-xorg-video-nvidia* libxnvctrl0 nvlink5*\n"
       "Pin: version %s-*\nPin-Priority: 1000\n")


class TestWhatAptDoes:
    def test_the_meta_at_its_version_brings_the_newest_driver(self, apt_node):
        got = apt_node("ubuntu2404-cuda").install("nvidia-open=" + V)
        assert got.rc == 0
        assert got["nvidia-open"] == V
        assert got.upstream["nvidia-driver-open"] == got.upstream["nvidia-dkms-open"] == "610.57.04"

    def test_with_recommends_a_pin_of_the_newest_branch_comes_too(self, apt_node):
        got = apt_node("ubuntu2404-cuda").get("install", "nvidia-open=" + V)
        assert got.upstream["nvidia-driver-pinning-610"].startswith("610")

    def test_meta_and_driver_at_their_version_find_no_way(self, apt_node):
        got = apt_node("ubuntu2404-cuda").install("nvidia-open=" + V, "nvidia-driver-open=" + V)
        assert got.rc == 100

    def test_a_pin_in_the_same_call_comes_too_late(self, apt_node):
        got = apt_node("ubuntu2404-cuda").install("nvidia-driver-pinning-595.71.05", "nvidia-open")
        assert got.rc == 0
        assert got.upstream["nvidia-driver-open"] == "610.57.04"

    def test_a_pin_that_is_there_before_does(self, apt_node):
        node = apt_node("ubuntu2404-cuda", preferences=PIN % "595.71.05")
        got = node.install("nvidia-open", "nvidia-fabricmanager", "nvidia-imex")
        assert got.rc == 0
        assert {got.upstream[name] for name in ("nvidia-open", "nvidia-driver-open", "nvidia-dkms-open", "nvidia-modprobe",
                                                "nvidia-fabricmanager", "nvidia-imex")} == {"595.71.05"}


BOTH = ("ubuntu2404-cuda", "ubuntu2404-archive")
# Names that NVIDIA's package lists show, and which a compute node needs.
COMPUTE = ("nvidia-dkms-open", "nvidia-kernel-source-open", "nvidia-kernel-common", "nvidia-firmware", "libnvidia-compute", "libnvidia-cfg1",
           "nvidia-persistenced", "nvidia-modprobe")


def stack(version="595.91.07"):
    return {"os": "ubuntu-24.04", "driver": {"version": version, "source": "nvidia", "flavour": "open"}}


class TestOurs:
    def test_a_bare_node(self, apt_node, on):
        ours, need = on(apt_node(*BOTH)), need_of(stack())
        made = ours.apply(need)
        assert set(COMPUTE) <= set(made.managed()) and set(made.managed().values()) == {V}
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_a_node_that_the_meta_gave_the_newest_driver(self, apt_node, on):
        node = apt_node(*BOTH)
        node.settle("install", "--no-install-recommends", "nvidia-open=" + V)
        assert node.state["nvidia-dkms-open"].startswith("610")
        before = {name for name in node.state if "nvidia" in name and "egl" not in name}
        ours, need = on(node), need_of(stack())
        made = ours.apply(need)
        assert before <= set(made.managed()) and set(made.managed().values()) == {V} and made.removed == []
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_what_is_installed_later_comes_at_the_version(self, apt_node, on):
        node = apt_node(*BOTH)
        made = on(node).apply(need_of(stack()))
        got = node.install("nvidia-settings", "nvidia-fabricmanager", "nvidia-imex", "libnvsdm", "nvidia-driver-open", "nvidia-open")
        assert got.rc == 0 and not set(got.installs) & set(made.managed())
        assert {version for name, version in got.installs.items() if re.match(r"(lib)?(nvidia|nvsdm|xnvctrl)|xserver", name) and "egl" not in name} == {V}

    @pytest.mark.parametrize("version, pinned", [("595.91.07", "610.57.04"), ("595.71.05", "595.71.05")])
    def test_a_pin_of_nvidia_s_own_package(self, apt_node, on, version, pinned):
        """nvidia-driver-pinning-610 comes as a recommendation: its pin asks for another branch, and does not win."""
        node = apt_node(*BOTH, preferences=PIN % pinned)
        ours, need = on(node), need_of(stack(version))
        made = ours.apply(need)
        assert {expected.upstream(one) for one in made.managed().values()} == {version}
        assert ours.due(need) == [] and ours.moves(made) == []
