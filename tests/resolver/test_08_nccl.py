# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An exact NCCL for an exact CUDA: 2.21.5 built with 12.4."""
from __future__ import annotations

import expected
from collection import need_of
from ansible_collections.lockstep.gpu.plugins.plugin_utils.plan import PlanError
import pytest

V = "2.21.5-1+cuda12.4"
BOTH = ("libnccl2", "libnccl-dev")


class TestWhatAptDoes:
    def test_the_names_bring_the_newest_build(self, apt_node):
        got = apt_node("ubuntu2204-cuda").install(*BOTH)
        assert got.installs == expected.each(BOTH, "2.31.2-1+cuda13.4")

    def test_one_at_its_version_and_the_other_without_find_no_way(self, apt_node):
        got = apt_node("ubuntu2204-cuda").install("libnccl2=" + V, "libnccl-dev")
        assert got.rc == 100

    def test_a_version_without_the_build_takes_the_newest_cuda(self, apt_node):
        got = apt_node("ubuntu2204-cuda").install("libnccl2=2.25.1*")
        assert got.installs == {"libnccl2": "2.25.1-1+cuda12.9"}

    def test_both_at_their_build_do(self, apt_node):
        want = expected.each(BOTH, V)
        got = apt_node("ubuntu2204-cuda").install(*expected.words(want))
        assert got.rc == 0 and got.installs == want


class TestWhatDnfDoes:
    def test_the_headers_at_their_build_bring_the_newest_library(self, dnf_node):
        got = dnf_node("rhel9-cuda").would("install", "libnccl-devel-" + V)
        assert got.installs == {"libnccl-devel": V, "libnccl": "2.30.4-1+cuda13.3"}

    def test_both_at_their_build_do(self, dnf_node):
        got = dnf_node("rhel9-cuda").would("install", "libnccl-devel-" + V, "libnccl-" + V)
        assert got.installs == {"libnccl-devel": V, "libnccl": V}


class TestOurs:
    @pytest.mark.parametrize("naive", [[], ["libnccl2", "libnccl-dev"]])
    def test_on_apt(self, apt_node, on, naive):
        node = apt_node("ubuntu2204-cuda", "ubuntu2204-archive")
        if naive:
            node.settle("install", *naive)
        ours, need = on(node), need_of({"os": "ubuntu-22.04", "nccl": {"version": "2.21.5", "cuda": "12.4"}})
        made = ours.apply(need)
        assert made.managed() == expected.each(BOTH, V)
        assert ours.due(need) == [] and ours.moves(made) == []

    @pytest.mark.parametrize("naive", [[], ["libnccl", "libnccl-devel"]])
    def test_on_dnf(self, dnf_node, on, naive):
        node = dnf_node("rhel9-cuda", "el9-baseos")
        if naive:
            node.settle("install", *naive)
        ours, need = on(node), need_of({"os": "rocky-9.6", "nccl": {"version": "2.21.5", "cuda": "12.4"}})
        made = ours.apply(need)
        assert made.managed() == expected.each(["libnccl", "libnccl-devel"], V)
        assert ours.due(need) == [] and ours.moves(made) == []
        assert node.would("install", "libnccl-static").installs in ({}, {"libnccl-static": V})

    def test_without_its_cuda_the_build_is_not_exact(self):
        with pytest.raises(PlanError) as refused:
            need_of({"os": "ubuntu-22.04", "nccl": {"version": "2.21.5"}})
        assert "nccl.cuda" in str(refused.value)
