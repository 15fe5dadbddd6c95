# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a verdict costs: python tests/bench/verdicts.py [NODES]. Goal: 1,000 nodes of 5 kinds in 2 s, work per node and memory flat.

Prints times and counts; asserts nothing. That the work per node is flat is a count, and a unit test (test_work_per_node.py) asserts it.
"""
from __future__ import annotations

import copy
import pathlib
import sys
import time
import tracemalloc

import yaml
from ansible_collections.lockstep.gpu.plugins.module_utils.bundle import BundleProbe
from ansible_collections.lockstep.gpu.plugins.module_utils.facts import replay
from ansible_collections.lockstep.gpu.plugins.plugin_utils import audit

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures"
# (bundle, stack, PCI id of the eight GPUs)
KINDS = [
    ("bundles/debian13-550", "debian13-550", "10de:2330"), ("bundles/debian13-550", "debian13-535", "10de:20b2"),
    ("bundles/debian12-535", "debian12-535", "10de:1db5"), ("bundles/debian12-535", "debian12-535", "10de:2684"),
    ("cases/krn-09/main", {"kernel": "5.15.0-91-generic", "driver": "535.129.03", "cuda": "12.2", "os": "ubuntu-22.04"}, "10de:20b0"),
]


def nodes(count):
    """(state, stack) of as many nodes, the kinds by turns; no two states are equal."""
    read = {}
    for folder, dummy, dummy in KINDS:
        read[folder] = replay(BundleProbe(str(FIXTURES / folder), yaml.safe_load))["ansible_facts"]["lockstep"]
    for number in range(count):
        folder, stack, gpu = KINDS[number % len(KINDS)]
        state = copy.deepcopy(read[folder])
        state.update(container=False, gpu_devices=True, space={"/": 10 ** 10 + number},
                     gpus=[{"address": "0000:%02x:00.0" % slot, "id": gpu, "class": "0302"} for slot in range(8)])
        yield state, stack


def calls(part):
    """How many functions judging these nodes calls."""
    counted = 0

    def count_one(_frame, event, _argument):
        nonlocal counted
        counted += event == "call"
    sys.setprofile(count_one)
    try:
        for state, stack in part:
            audit.judge(state, stack)
    finally:
        sys.setprofile(None)
    return counted


def main(count):
    audit.judge({}, "debian13-550")  # compat and stacks are read once, whatever the number of nodes
    fleet = list(nodes(count))
    verdicts = {}
    began = time.perf_counter()
    for state, stack in fleet:
        record = audit.judge(state, stack)
        verdicts[record["verdict"]] = verdicts.get(record["verdict"], 0) + 1
    seconds = time.perf_counter() - began
    print("%d verdicts in %.2f s, %.2f ms a node (goal: 1,000 in 2 s): %s" % (count, seconds, 1000 * seconds / count, verdicts))
    places = (0, count // 2, count - len(KINDS))
    told = ["%d at node %d" % (calls(fleet[place:place + len(KINDS)]) // len(KINDS), place) for place in places]
    print("calls a node: %s" % ", ".join(told))
    tracemalloc.start()
    peaks = []
    for part in (fleet[:len(KINDS)], fleet):
        tracemalloc.reset_peak()
        base = tracemalloc.get_traced_memory()[0]
        for state, stack in part:
            audit.judge(state, stack)
        peaks.append((tracemalloc.get_traced_memory()[1] - base) / 1024)
    print("memory above the states: %.0f KiB for %d nodes, %.0f KiB for %d" % (peaks[0], len(KINDS), peaks[1], count))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000)
