# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a stack and what is known of a node to findings and a verdict.

Everything here is pure: the same input gives the same findings, and nothing is read but compat/.
"""
from __future__ import annotations

import functools
import pathlib
import typing as t

from . import actions, claim, knowledge
from .rules import apt, boot, containers, controller, cuda, delivery, dkms, dnf, driver, fabric, gpu, kernel, libraries, nccl, ofed, packages
from .rules import build, cuda_limits, headers, loaded, other_drivers, platform, secure_boot, toolkits
from .rules import attainable, transaction
from .rules.context import Context, Hit, Row, TargetError

__all__ = ["AcceptError", "TargetError", "codes", "finding", "findings", "not_proven", "verdict"]

SUBJECTS = (platform, driver, loaded, delivery, gpu, cuda, cuda_limits, toolkits, build, kernel, headers, boot, secure_boot, other_drivers, dkms, libraries,
            fabric, ofed, nccl, containers, packages, apt, transaction, dnf, controller)
RULES = tuple(rule for subject in SUBJECTS for rule in subject.RULES)

# Worst first.
VERDICTS = ("blocked", "broken", "unknown", "drift", "degraded", "in_sync", "not_applicable")
SEVERITIES = ("error", "warn", "info")


class AcceptError(ValueError):
    """An entry of lockstep_accept that is not code@subject."""


@functools.lru_cache(maxsize=1)
def codes() -> t.Dict[str, Row]:
    """The table of codes: {code: {subject, meaning, contexts, remedy, example, raised_by?}}."""
    table: t.Dict[str, Row] = {}
    for path in sorted((pathlib.Path(__file__).parent / "rules" / "codes").glob("*.yml")):
        table.update(knowledge.read_yaml(path) or {})
    return table


def findings(stack: Row, state: t.Optional[Row] = None, target: t.Optional[Row] = None, plan: t.Optional[Row] = None,
             accept: t.Sequence[str] = (), facts: t.Optional[knowledge.Facts] = None, purpose: str = "install") -> t.List[Row]:
    """Return what is wrong, worst first.

    stack: the long form (a claim may lack anything). state: what node_facts returned. target: {os, gpus, kernel}, used
    where the state says nothing. plan: {"components": {name: {"drift": [...], "unheld": [...]}}}.
    purpose: "install", or "audit" to judge what is there without the fear of a change.
    accept: "code@subject" or "code@*"; such findings stay, marked accepted, and no longer count.
    A finding is {code, subject, severity, verdict, message, source, remedy}, perhaps do: the steps that mend it, and
    perhaps accepted: true.
    Raises AcceptError for an entry of accept that cannot be read, TargetError for a target.
    """
    accepted = [_accept_entry(entry) for entry in accept]
    found: t.List[Row] = []
    # A claim may name alternatives: what is wrong with any of them is told, and told once.
    for variant in claim.variants(stack):
        ctx = Context(variant, state, target, plan, facts, purpose)
        rows = [_finding(rule.__name__, attainable.attainable(ctx, hit), accepted) for rule in RULES for hit in rule(ctx)]
        found += [row for row in rows if row not in found]
    return sorted(found, key=_rank)


def finding(code: str, subject: str, message: str, source: t.Optional[str] = None, context: str = "default",
            remedy: t.Optional[str] = None) -> Row:
    """One finding, weighed by the table; for callers that find something themselves. Raises KeyError for unknown codes."""
    row = codes()[code]
    severity, verdict_class = row["contexts"][context]
    return {"code": code, "subject": _printable(subject), "severity": severity, "verdict": verdict_class,
            "message": _printable(message), "source": source, "remedy": remedy or row["remedy"]}


def _printable(text: str) -> str:
    """Text that cannot command a terminal: parts of it come from a node's files and commands."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text.replace("\t", " "))


def verdict(found: t.Iterable[Row], applicable: bool = True) -> str:
    """The worst verdict class of the findings that count; in_sync without any, not_applicable where nothing applied."""
    classes = [row.get("verdict", "in_sync") for row in found if not row.get("accepted")]
    if not applicable:
        classes.append("not_applicable")
    else:
        classes.append("in_sync")
    return min(classes, key=VERDICTS.index)


def steps(found: t.Iterable[Row]) -> t.List[Row]:
    """The steps that mend the findings, each once, in the order in which they can be taken."""
    return actions.ordered(step for row in found if not row.get("accepted") for step in row.get("do") or [])


def not_proven(stack: Row, state: Row) -> t.List[Row]:
    """What this node cannot show, as {subject, reason}; it makes no run fail."""
    rows = []
    if state.get("container"):
        for subject in ("running kernel", "boot default", "loaded module"):
            rows.append({"subject": subject, "reason": "a container has none of its own"})
    if stack.get("driver") and state.get("gpus") is None:
        rows.append({"subject": "GPU context", "reason": "the PCI devices could not be read"})
    elif stack.get("driver") and not state["gpus"]:
        rows.append({"subject": "GPU context", "reason": "no NVIDIA GPU on this node"})
    elif stack.get("driver") and not knowledge.usable_gpus(state):
        rows.append({"subject": "GPU", "reason": "not passed into this container"})
    if stack.get("ofed") and state.get("container"):
        rows.append({"subject": "RDMA devices", "reason": "a container sees only those that are passed in"})
    return rows


def _finding(code: str, hit: Hit, accepted: t.Sequence[t.Tuple[str, str]]) -> Row:
    row = finding(code, hit.subject, hit.message, hit.source, hit.context)
    if hit.do:
        row["do"] = [dict(step) for step in hit.do]
    if (code, row["subject"]) in accepted or (code, "*") in accepted:
        row["accepted"] = True
    return row


def _accept_entry(entry: t.Any) -> t.Tuple[str, str]:
    code, at, subject = entry.partition("@") if isinstance(entry, str) else ("", "", "")
    if not at or not subject or code not in codes():
        shown = repr(entry[:80]) if isinstance(entry, str) else "what is no text"
        raise AcceptError("lockstep_accept: %s is not a known code@subject (or code@*)" % shown)
    return code, subject


def _rank(row: Row) -> t.Tuple[t.Any, ...]:
    return (bool(row.get("accepted")), SEVERITIES.index(row["severity"]), VERDICTS.index(row["verdict"]), row["code"], row["subject"])
