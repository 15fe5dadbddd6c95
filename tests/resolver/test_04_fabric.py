# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The fabric's packages at the driver's version: 580.126.20 of NVIDIA's repository for Ubuntu 24.04."""
from __future__ import annotations

import pytest

import expected
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
