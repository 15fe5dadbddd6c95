# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric's packages at the driver's version: 580.126.20 of NVIDIA's repository for Ubuntu 24.04."""
from __future__ import annotations

import re

import pytest

import expected
from collection import A100, B200, H100, V100, need_of
from test_03_unsuffixed_driver import PIN

V = "580.126.20-1"


class TestWhatAptDoes:
    def test_the_name_brings_the_newest_branch(self, apt_node):
        got = apt_node("ubuntu2404-cuda").install("nvidia-fabricmanager")
        assert got.rc == 0 and got.upstream["nvidia-fabricmanager"] == "610.57.04"

    @pytest.mark.parametrize("alias", ["nvidia-fabricmanager-580", "nvidia-imex-580"])
    def test_the_branch_s_name_is_only_an_alias_of_what_is_no_candidate(self, apt_node, alias):
        got = apt_node("ubuntu2404-cuda").install(alias)
        assert got.rc == 100 and "has no installation candidate" in got.text and "Not candidate version" in got.text

    def test_under_a_pin_the_alias_serves_but_cannot_be_held(self, apt_node):
        node = apt_node("ubuntu2404-cuda", preferences=PIN % "580.126.20")
        assert node.install("nvidia-imex-580", "nvidia-fabricmanager-580").installs == expected.each(
            ["nvidia-imex", "nvidia-fabricmanager"], V)
        rc, text = node.apt("apt-mark", "hold", "nvidia-imex-580")
        assert rc != 0 and "nvidia-imex-580" in text

    def test_nvlink5_at_its_version_brings_the_fabric_of_another_branch(self, apt_node):
        got = apt_node("ubuntu2404-cuda").install("nvlink5-580=580.159.04-1")
        assert got.rc == 0 and got["nvlink5-580"] == "580.159.04-1"
        assert {got.upstream[name] for name in expected.FABRIC} == {"610.57.04"}
        assert got.upstream["libnvidia-compute-580"] == "580.178.04"

    def test_each_at_its_own_revision_does(self, apt_node):
        want = expected.each(expected.FABRIC, V)
        got = apt_node("ubuntu2404-cuda").install(*expected.words(want))
        assert got.rc == 0 and got.installs == want


BOTH = ("ubuntu2404-cuda", "ubuntu2404-archive")
DRIVER = {"version": "580.126.20", "source": "nvidia", "flavour": "open"}
STACK = {"os": "ubuntu-24.04", "driver": DRIVER, "fabric": {"manager": "auto"}}


class TestOurs:
    @pytest.mark.parametrize("board, switches, names", [
        (H100, 4, ("nvidia-fabricmanager", "libnvidia-nscq")),
        (A100, 6, ("nvidia-fabricmanager", "libnvidia-nscq")),
        (B200, 2, (*expected.FABRIC, "nvlsm")),
        (H100, 0, ()),
        (V100, 0, ()),
    ])
    def test_the_node_decides_the_parts_and_the_driver_the_version(self, apt_node, on, board, switches, names):
        stack = dict(STACK, driver=dict(DRIVER, flavour="auto"))
        made = on(apt_node(*BOTH)).resolve(need_of(stack, gpus=[board], nvswitches=switches))
        fabric = made.managed("fabric")
        assert set(fabric) == set(names)
        assert {version for name, version in fabric.items() if name != "nvlsm"} <= {V}
        assert ("nvidia-dkms-580" in made.managed()) == (board == V100) and ("nvidia-dkms-580-open" in made.managed()) == (board != V100)

    def test_the_subnet_manager_has_a_calendar_s_version(self, apt_node, on):
        made = on(apt_node(*BOTH)).resolve(need_of(STACK, gpus=[B200], nvswitches=2))
        assert re.match(r"202\d\.", made.managed()["nvlsm"])

    def test_what_a_naive_command_brought_moves_back(self, apt_node, on):
        node = apt_node(*BOTH)
        node.settle("install", "--no-install-recommends", "nvidia-fabricmanager", "nvidia-imex", "libnvidia-nscq", "libnvsdm")
        ours, need = on(node), need_of(STACK, gpus=[H100], nvswitches=4)
        made = ours.apply(need)
        assert made.managed("fabric") == expected.each(expected.FABRIC, V)
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_the_names_that_are_installed_later_come_at_the_version(self, apt_node, on):
        node = apt_node(*BOTH)
        made = on(node).apply(need_of(STACK, gpus=[H100], nvswitches=4))
        assert node.install("nvidia-imex", "libnvsdm").installs == expected.each(["nvidia-imex", "libnvsdm"], V)
        assert not set(node.install("nvlink5-580").installs) & set(made.managed())

    def test_suffixed_names_up_to_575(self, apt_node, on):
        stack = dict(STACK, os="ubuntu-22.04", driver=dict(DRIVER, version="550.54.15"))
        made = on(apt_node("ubuntu2204-cuda", "ubuntu2204-archive")).resolve(need_of(stack, gpus=[H100], nvswitches=4))
        assert made.managed("fabric") == expected.each(["nvidia-fabricmanager-550", "libnvidia-nscq-550"], "550.54.15-1")
