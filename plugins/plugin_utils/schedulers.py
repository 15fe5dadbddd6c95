# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a scheduler says about one node: drained or not, by whom, and whether work is left.

Whose drain it is stands at the scheduler itself: in Slurm's reason, in an annotation of Kubernetes. So a drain of somebody
else is never lifted, not even when one of ours came first.
"""
from __future__ import annotations

import json
import re
import typing as t

Row = t.Dict[str, t.Any]

# The beginning of our reason in Slurm, and the annotation in Kubernetes.
MARK = "lockstep.gpu"
ANNOTATION = "lockstep.gpu/drained"
# Base states in which jobs have the node; scontrol(1), section NODE STATE CODES.
BUSY = ("ALLOCATED", "MIXED", "COMPLETING")
_STATE = re.compile(r"^\s*(?:.*\s)?State=(?P<state>[A-Z_]+[*~#!%$@^-]?(?:\+[A-Z_]+)*)", re.MULTILINE)
_ALLOCATED = re.compile(r"\bCPUAlloc=(\d{1,6})\b")
# In a line of its own, followed by who gave it and when.
_REASON = re.compile(r"^\s*Reason=(?P<reason>.*?)(?:\s*\[[^\[\]]*@[^\[\]]*\])?\s*$", re.MULTILINE)


class SchedulerError(ValueError):
    """What a scheduler printed is not about a node; one sentence."""


def slurm(text: str) -> Row:
    """`scontrol show node NAME`: {known, drained, ours, busy, reason, state}. Raises SchedulerError for anything else.

    A node may be named in more than one way, but one record is printed. IDLE+DRAIN is a drained node, MIXED+DRAIN one that jobs still
    have; marks like * (does not answer) follow the base state.
    """
    state = _STATE.search(text)
    if not state or text.count("NodeName=") != 1:
        raise SchedulerError("scontrol showed no node: %s" % " ".join(text.split())[:200])
    words = re.sub(r"[*~#!%$@^-](?=\+|$)", "", state.group("state")).split("+")
    reason, allocated = _REASON.search(text), _ALLOCATED.search(text)
    said = reason.group("reason").strip() if reason else ""
    drained = bool({"DRAIN", "DRAINED", "DRAINING"} & set(words))
    busy = bool(set(BUSY) & set(words)) or "DRAINING" in words or bool(allocated and int(allocated.group(1)))
    return {"known": True, "state": state.group("state"), "reason": said, "drained": drained, "ours": drained and said.startswith(MARK), "busy": busy}


def kubernetes(text: str) -> Row:
    """`kubectl get node NAME -o json`: the same keys; drained means that nothing is scheduled there. Raises SchedulerError."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict) or found.get("kind") != "Node":
        raise SchedulerError("kubectl showed no node: %s" % " ".join(text.split())[:200])
    drained = bool((found.get("spec") or {}).get("unschedulable"))
    notes = (found.get("metadata") or {}).get("annotations") or {}
    return {"known": True, "state": "SchedulingDisabled" if drained else "schedulable", "reason": notes.get(ANNOTATION, ""), "drained": drained,
            "ours": ANNOTATION in notes, "busy": None}


def node(text: str, kind: str) -> Row:
    """What a scheduler of one kind says. Raises SchedulerError."""
    readers = {"slurm": slurm, "kubernetes": kubernetes}
    if kind not in readers:
        raise SchedulerError("no scheduler is called '%s'; candidates: %s" % (kind, ", ".join(sorted(readers))))
    return readers[kind](str(text))
