# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An upgrade on a node whose driver and fabric manager are exact: what moves, and what keeps it from moving."""
from __future__ import annotations

import pytest

import expected

V = "580.126.20-1ubuntu1"
HOST = dict(expected.suffixed_driver(V, "-open"), **{"nvidia-open-580": V, "nvidia-modprobe": V, "nvidia-fabricmanager": "580.126.20-1"})


class TestWhatAptDoes:
    def test_the_driver_stays_and_what_serves_it_leaves(self, apt_node):
        """The driver's parts need a firmware package of a new name, so `upgrade` keeps them back; nothing keeps the others."""
        got = apt_node("ubuntu2404-cuda", installed=HOST).get("upgrade")
        assert got.rc == 0
        assert {name: got.upstream[name] for name in got.installs} == {
            "nvidia-fabricmanager": "610.57.04", "nvidia-modprobe": "610.57.04", "nvidia-open-580": "580.178.04"}

    @pytest.mark.parametrize("verb", ["upgrade", "dist-upgrade"])
    def test_holds_on_the_metapackages_do_not_help(self, apt_node, verb):
        got = apt_node("ubuntu2404-cuda", installed=HOST, holds=["nvidia-open-580", "nvidia-driver-580-open"]).get(verb)
        assert {name: got.upstream[name] for name in got.installs} == {"nvidia-fabricmanager": "610.57.04", "nvidia-modprobe": "610.57.04"}

    @pytest.mark.parametrize("verb", ["upgrade", "dist-upgrade"])
    def test_every_name_held_stays(self, apt_node, verb):
        got = apt_node("ubuntu2404-cuda", installed=HOST, holds=list(HOST)).get(verb)
        assert got.rc == 0 and got.installs == {} and got.removes == []
