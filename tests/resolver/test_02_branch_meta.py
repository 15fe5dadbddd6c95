# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A metapackage of a branch at its exact version: nvidia-open-580 580.126.20 of NVIDIA's repository for Ubuntu 24.04."""
from __future__ import annotations

import pytest

import expected
from collection import need_of

V = "580.126.20-1ubuntu1"


class TestWhatAptDoes:
    @pytest.mark.parametrize("meta, flavour", [("nvidia-open-580", "-open"), ("cuda-drivers-580", "")])
    def test_only_the_meta_is_what_was_asked_for(self, apt_node, meta, flavour):
        got = apt_node("ubuntu2404-cuda").install("%s=%s" % (meta, V))
        assert got.rc == 0 and got.removes == []
        assert got[meta] == V
        parts = ("nvidia-driver-580" + flavour, "nvidia-dkms-580" + flavour, "libnvidia-compute-580", "nvidia-utils-580")
        assert {got.upstream[name] for name in parts} == {"580.178.04"}
        assert got.upstream["nvidia-modprobe"] == "610.57.04"

    def test_every_part_by_name_does(self, apt_node):
        want = dict(expected.suffixed_driver(V, "-open"), **{"nvidia-open-580": V, "nvidia-modprobe": V})
        assert len(want) == 18
        got = apt_node("ubuntu2404-cuda").install(*expected.words(want))
        assert got.rc == 0 and got.removes == []
        assert {name: version for name, version in got.installs.items() if name != "dkms"} == want


STACK = {"os": "ubuntu-24.04", "driver": {"version": "580.126.20", "source": "nvidia", "flavour": "open"}}
BOTH = ("ubuntu2404-cuda", "ubuntu2404-archive")
FULL = dict(expected.suffixed_driver(V, "-open"), **{"nvidia-open-580": V, "nvidia-modprobe": V})


class TestOurs:
    def test_what_computing_needs(self, apt_node, on):
        ours, need = on(apt_node(*BOTH)), need_of(STACK)
        made = ours.apply(need)
        want = {name: version for name, version in expected.suffixed_compute(V, "-open").items() if not name.startswith("nvidia-headless")}
        assert made.managed() == dict(want, **{"nvidia-modprobe": V})
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_a_node_that_has_the_meta_only_at_its_version(self, apt_node, on):
        """The naive command's node: one name says 580.126.20, sixteen say 580.178.04 and nvidia-modprobe 610.57.04."""
        node = apt_node(*BOTH)
        node.settle("install", "--no-install-recommends", "nvidia-open-580=" + V)
        ours, need = on(node), need_of(STACK)
        made = ours.apply(need)
        assert made.managed() == FULL and made.removed == ["nvidia-firmware-580-580.178.04"]
        assert ours.due(need) == [] and ours.moves(made) == []
        assert node.state["nvidia-dkms-580-open"] == V
