# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Texts under the names of neighbours: whom they go to, and that looking at them takes no time."""
from __future__ import annotations

import time

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils.facts_reader import NOT_RECORDED
from ansible_collections.lockstep.gpu.plugins.module_utils.neighbours import _OWN, _WORDS, UNKNOWN, NeighbourProbe
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import Observation
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import PROBES
from hypothesis import given, settings
from hypothesis import strategies as st

PEER = "filename:       /lib/modules/6.8.0-45-generic/updates/dkms/nv_peer_mem.ko\nname:           nv_peer_mem\n"


class Back:
    """A back end with texts."""

    unread, given = ("x",), {"os": "debian-13"}

    def __init__(self, **texts):
        self.texts = texts

    def start(self, names):
        pass

    def read(self, name):
        seen = self.texts.get(name, Observation(None, reason=NOT_RECORDED))
        return Observation(0, seen) if isinstance(seen, str) else seen


def test_every_name_is_a_probe():
    assert {*_OWN, *_WORDS, *(other for _mark, others in _OWN.values() for other in others)} <= set(PROBES)


def test_a_text_goes_to_the_probe_that_it_is_of_and_leaves_the_other():
    probe = NeighbourProbe(Back(modinfo=PEER))
    assert probe.read("modinfo_rdma").out == PEER and probe.read("modinfo").reason == NOT_RECORDED
    assert (probe.unread, probe.given) == (("x",), {"os": "debian-13"})


def test_where_both_are_recorded_each_keeps_its_own():
    probe = NeighbourProbe(Back(modinfo=PEER, modinfo_rdma="filename:       (builtin)\n"))
    assert probe.read("modinfo").out == PEER and probe.read("modinfo_rdma").out.startswith("filename:       (builtin)")


def test_what_has_nothing_in_it_is_no_news_of_anything():
    assert NeighbourProbe(Back(apt_run="lorem ipsum\n")).read("apt_run") == Observation(None, reason=UNKNOWN)
    for seen in (Observation(0, ""), Observation(1, "", "\n"), Observation(127, "", "sh: 1: x: not found"), Observation(None, reason="cannot read")):
        assert NeighbourProbe(Back(apt_run=seen)).read("apt_run") == seen


@given(st.text(max_size=300), st.sampled_from(sorted(_OWN)))
@settings(max_examples=200, deadline=None)
def test_every_text_is_read_by_somebody_or_told(text, name):
    probe = NeighbourProbe(Back(**{name: text}))
    assert any(probe.read(other).out == text or probe.read(other).reason == UNKNOWN for other in _OWN)


@pytest.mark.parametrize("unit", ["lib-", "a, ", " ", "\t@", "make[", "0, ", "GPU-", "/", "x.x86_64 ", "00000000:", "Completed", "\n", ", 550.90"])
def test_long_texts_take_no_time(unit):
    begin = time.monotonic()
    for name in _OWN:
        NeighbourProbe(Back(**{name: unit * 30000})).read(name)
    NeighbourProbe(Back(apt_run=unit * 30000)).read("apt_run")
    assert time.monotonic() - begin < 8
