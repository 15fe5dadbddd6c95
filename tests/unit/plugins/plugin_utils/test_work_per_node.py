# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The controller's work per node does not grow with the number of nodes: calls and files are counted, not seconds."""
from __future__ import annotations

import importlib.util
import pathlib

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import audit, knowledge

BENCH = pathlib.Path(__file__).resolve().parents[3] / "bench" / "verdicts.py"


@pytest.fixture(scope="module")
def bench():
    spec = importlib.util.spec_from_file_location("verdicts", BENCH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def fleet(bench):
    nodes = list(bench.nodes(60))
    for state, stack in nodes[:5]:
        audit.judge(state, stack)
    return nodes


def test_the_fiftieth_node_costs_what_the_tenth_does(bench, fleet):
    assert bench.calls(fleet[50:55]) <= 1.02 * bench.calls(fleet[10:15])


def test_facts_and_stacks_are_read_once(fleet, monkeypatch):
    def never(path):
        raise AssertionError("%s is read again" % path)
    monkeypatch.setattr(knowledge, "read_yaml", never)
    for state, stack in fleet[:5]:
        audit.judge(state, stack)
