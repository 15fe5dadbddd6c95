# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metapackages of CUDA that bring a driver: cuda-12-4 and cuda-runtime-11-8 of NVIDIA's repository for Ubuntu 22.04."""
from __future__ import annotations

import re

import pytest

import expected
from collection import need_of

METAS = ["cuda-12-4", "cuda-runtime-11-8"]


class TestWhatAptDoes:
    @pytest.mark.parametrize("meta", METAS)
    def test_the_newest_driver_comes_too_and_proprietary(self, apt_node, meta):
        got = apt_node("ubuntu2204-cuda").install(meta)
        assert got.rc == 0
        assert got.upstream["cuda-drivers"] == got.upstream["nvidia-dkms"] == "610.57.04"

    @pytest.mark.parametrize("meta", METAS)
    def test_on_a_node_with_a_driver_it_finds_no_way(self, apt_node, meta):
        got = apt_node("ubuntu2204-cuda", installed=expected.suffixed_driver("550.54.15-0ubuntu1")).install(meta)
        assert got.rc == 100 and "Conflicts:" in got.text

    def test_the_driver_s_meta_at_its_version_finds_no_way(self, apt_node):
        got = apt_node("ubuntu2204-cuda").install("cuda-runtime-11-8", "cuda-drivers=550.54.15-1")
        assert got.rc == 100 and "Depends: cuda-drivers-550 (= 550.54.15-1)" in got.text

    @pytest.mark.parametrize("meta", ["cuda-toolkit-12-4", "cuda-libraries-12-4"])
    def test_toolkit_and_libraries_bring_none(self, apt_node, meta):
        got = apt_node("ubuntu2204-cuda").install(meta)
        assert got.rc == 0
        assert not {"cuda-drivers", "nvidia-dkms", "nvidia-driver", "nvidia-open"} & set(got.installs)


STACK = {"os": "ubuntu-22.04", "cuda": {"versions": ["12.4.1"]}}
BOTH = ("ubuntu2204-cuda", "ubuntu2204-archive")
DRIVER = {"version": "550.54.15", "source": "nvidia", "flavour": "proprietary"}


class TestOurs:
    def test_a_toolkit_brings_no_driver(self, apt_node, on):
        made = on(apt_node(*BOTH)).resolve(need_of(STACK))
        assert not [name for name in made.changes() if re.match(r"(lib)?nvidia-|cuda-drivers|cuda-(runtime-)?12-4$", name)]

    def test_on_a_node_with_a_driver_of_its_branch(self, apt_node, on):
        node = apt_node(*BOTH)
        node.settle("install", "--no-install-recommends", "nvidia-driver-550", "cuda-drivers-550")
        ours, need = on(node), need_of(dict(STACK, driver=DRIVER))
        made = ours.apply(need)
        assert {expected.upstream(version) for version in made.managed("driver").values()} == {"550.54.15"} and "cuda-drivers-550" in made.managed()
        assert made.managed()["cuda-toolkit-12-4"] == "12.4.1-1"
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_where_the_whole_meta_is_there_already(self, apt_node, on):
        """cuda-12-4 with both metapackages of the driver named: the node is exact, and from now on stays so."""
        node = apt_node(*BOTH)
        driver = dict(expected.suffixed_driver("550.54.15-0ubuntu1"), **{"nvidia-modprobe": "550.54.15-0ubuntu1"})
        node.settle("install", "--no-install-recommends", "cuda-12-4", "cuda-drivers=550.54.15-1", "cuda-drivers-550=550.54.15-1", *expected.words(driver))
        ours, need = on(node), need_of(dict(STACK, driver=DRIVER))
        made = ours.apply(need)
        assert made.managed("driver") == dict(driver, **expected.each(["cuda-drivers", "cuda-drivers-550"], "550.54.15-1"))
        assert made.changes() == {} and made.managed()["cuda-12-4"] == "12.4.1-1"
        assert ours.due(need) == [] and ours.moves(made) == []
