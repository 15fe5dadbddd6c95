# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An upgrade on a node whose driver and fabric manager are exact: what moves, and what keeps it from moving."""
from __future__ import annotations

import pytest

import expected
from collection import H100, need_of

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


class TestOurs:
    def test_a_node_that_is_exact_already_is_only_held(self, apt_node, on):
        node = apt_node("ubuntu2404-cuda", "ubuntu2404-archive", installed=HOST)
        stack = {"os": "ubuntu-24.04", "driver": {"version": "580.126.20", "source": "nvidia", "flavour": "open"}, "fabric": {"manager": "580.126.20"}}
        ours, need = on(node), need_of(stack, gpus=[H100], nvswitches=4)
        made = ours.apply(need)
        assert made.changes() == {"libnvidia-nscq": "580.126.20-1"} and made.removed == []
        assert made.managed() == dict(HOST, **{"libnvidia-nscq": "580.126.20-1"})
        assert ours.due(need) == [] and ours.moves(made) == []

    @pytest.mark.parametrize("lost", ["holds", "pins"])
    def test_holds_and_pins_each_suffice_alone(self, apt_node, on, lost):
        node = apt_node("ubuntu2404-cuda", "ubuntu2404-archive", installed=HOST)
        ours = on(node)
        need = need_of({"os": "ubuntu-24.04", "driver": {"version": "580.126.20", "source": "nvidia", "flavour": "open"}, "fabric": {"manager": "auto"}},
                       gpus=[H100], nvswitches=4)
        made = ours.apply(need)
        if lost == "holds":
            node.apt("apt-mark", "unhold", *made.managed())
        else:
            node.root.write("etc/apt/preferences.d/lockstep-gpu.pref", "")
        assert ours.moves(made) == []
        # What was lost is due again, and nothing else.
        assert {action["action"] for action in ours.due(need)} == {"hold" if lost == "holds" else "add_apt_pin"}
