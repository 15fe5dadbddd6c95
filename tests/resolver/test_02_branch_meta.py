# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A metapackage of a branch at its exact version: nvidia-open-580 580.126.20 of NVIDIA's repository for Ubuntu 24.04."""
from __future__ import annotations

import pytest

import expected

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
