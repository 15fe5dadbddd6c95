# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What scontrol and kubectl print about a node."""
from __future__ import annotations

import json

import pytest

from ansible_collections.lockstep.gpu.plugins.plugin_utils import schedulers

# The layout of scontrol 22.05 (Debian 12).
SHOWN = """NodeName=gpu1 Arch=x86_64 CoresPerSocket=1
   CPUAlloc=%d CPUEfctv=2 CPUTot=2 CPULoad=0.08
   AvailableFeatures=(null)
   ActiveFeatures=(null)
   Gres=(null)
   NodeAddr=gpu1 NodeHostName=gpu1 Version=22.05.8
   OS=Linux 6.1.0-47-amd64 #1 SMP PREEMPT_DYNAMIC Debian 6.1.170-3
   RealMemory=1 AllocMem=0 FreeMem=1 Sockets=2 Boards=1
   State=%s ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=all
   BootTime=2026-11-30T12:00:00 SlurmdStartTime=2026-11-30T12:00:10
   CfgTRES=cpu=2,mem=1M,billing=2
%s"""
OURS = "   Reason=lockstep.gpu: boots 6.1.0-50-amd64 [root@2026-11-30T18:00:00]\n"
THEIRS = "   Reason=fan [2 of 8] is broken [alice@2026-11-30T18:00:00]\n"


@pytest.mark.parametrize("state, allocated, reason, expected", [
    ("IDLE", 0, "", (False, False, False)), ("IDLE+DRAIN", 0, OURS, (True, True, False)), ("IDLE+DRAIN", 0, THEIRS, (True, False, False)),
    ("MIXED+DRAIN", 1, OURS, (True, True, True)), ("ALLOCATED+DRAIN", 2, OURS, (True, True, True)), ("IDLE+COMPLETING+DRAIN", 0, OURS, (True, True, True)),
    ("DOWN*+DRAIN", 0, OURS, (True, True, False)), ("IDLE*+DRAIN", 0, THEIRS, (True, False, False)), ("MIXED", 1, "", (False, False, True)),
    ("IDLE+DRAIN+NOT_RESPONDING", 0, OURS, (True, True, False)), ("DOWN", 0, OURS, (False, False, False))])
def test_slurm(state, allocated, reason, expected):
    found = schedulers.slurm(SHOWN % (allocated, state, reason))
    assert (found["drained"], found["ours"], found["busy"]) == expected and found["state"] == state


def test_slurms_reason_without_who_gave_it():
    assert schedulers.slurm(SHOWN % (0, "IDLE+DRAIN", THEIRS))["reason"] == "fan [2 of 8] is broken"


@pytest.mark.parametrize("text", ["", "Node gpu9 not found", "slurm_load_node error: Unable to contact slurm controller (connect failure)",
                                  SHOWN % (0, "IDLE", "") + SHOWN % (0, "IDLE", "")])
def test_slurm_shows_no_node(text):
    with pytest.raises(schedulers.SchedulerError):
        schedulers.slurm(text)


@pytest.mark.parametrize("spec, notes, expected", [
    ({}, {}, (False, False)), ({"unschedulable": True}, {}, (True, False)), ({"unschedulable": True}, {schedulers.ANNOTATION: "x"}, (True, True)),
    ({}, {schedulers.ANNOTATION: "x"}, (False, True))])
def test_kubernetes(spec, notes, expected):
    found = schedulers.kubernetes(json.dumps({"kind": "Node", "spec": spec, "metadata": {"annotations": notes}}))
    assert (found["drained"], found["ours"]) == expected


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"kind": "List", "items": []}', 'Error from server (NotFound): nodes "n" not found'])
def test_kubernetes_shows_no_node(text):
    with pytest.raises(schedulers.SchedulerError):
        schedulers.kubernetes(text)


def test_no_other_scheduler():
    with pytest.raises(schedulers.SchedulerError, match="candidates: kubernetes, slurm"):
        schedulers.node("", "pbs")
