# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes site leaves alone: those whose plan is idle."""
from __future__ import annotations

import pytest
from machines import STACK, state_in_sync

from ansible_collections.lockstep.gpu.plugins.filter.plan import make_plan
from ansible_collections.lockstep.gpu.plugins.plugin_utils import stack as stacks


def _without(state, key):
    return {name: value for name, value in state.items() if name != key}


@pytest.mark.parametrize("change, idle", [
    (dict, True),
    (lambda state: dict(state, modprobe=dict(state["modprobe"], own="options nvidia one=1\n")), False),
    (lambda state: dict(state, package_manager=dict(state["package_manager"], own_pins={})), False),
    (lambda state: dict(state, packages=_without(state["packages"], "nvidia-kernel-dkms")), False),
])
def test_a_node_is_idle_where_no_role_has_anything_to_do(change, idle):
    assert make_plan(stacks.expand(STACK), change(state_in_sync()))["idle"] is idle


def test_a_service_that_may_have_to_be_started_keeps_a_node_from_being_idle(monkeypatch):
    row = {"name": "nvidia-dcgm", "enable": True, "state": "started", "stop": False, "due": False, "there": True, "why": None}
    monkeypatch.setattr("ansible_collections.lockstep.gpu.plugins.filter.plan.services.of", lambda *_given: {"dcgm": [row]})
    plan = make_plan(stacks.expand(STACK), state_in_sync())
    assert plan["converged"] and not plan["actions"] and not plan["idle"]
