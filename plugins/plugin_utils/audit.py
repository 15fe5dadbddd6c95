# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a node, live or from a bundle, against a stack, a claim, or what the bundle itself says; nothing is changed."""
from __future__ import annotations

import json
import re
import typing as t

from . import actions, claim, engine, evidence, knowledge, plan, stack

Row = t.Dict[str, t.Any]
NOTES = (*stack.NOTES, "os")


def judge(state: Row, wanted: t.Any = None, given: t.Any = None, target: t.Optional[Row] = None, accept: t.Sequence[str] = (),
          stacks_dir: stack.Folders = None, purpose: str = "audit", facts: t.Optional[knowledge.Facts] = None) -> Row:
    """The record of a node: {stack, verdict, findings, plan, not_proven, remarks, state}.

    wanted: a stack's name or mapping, also a claim; without it, given: what a bundle says about its node, where `lock` is
    the claim. target: what is known of a machine that is not there. Raises StackError, AcceptError, TargetError.
    """
    facts = facts or knowledge.load()
    unread: t.List[str] = []
    if not wanted:
        long_form, unread = _from_given(given, facts)
    else:
        long_form = _expanded(wanted, stacks_dir, False, facts)
    planned = _planned(long_form, state, facts)
    found = engine.findings(long_form, state, target, planned, accept, facts, purpose)
    found += [] if found else _unexplained(state)
    unseen = evidence.unseen(long_form, state, facts) if state else []
    if state and purpose == "audit" and engine.verdict(found) == "in_sync":
        found += _without_evidence(long_form, state, unseen, facts)
    asked = [key for key in long_form if key not in NOTES]
    applicable = bool(asked) or _works(state) or any(row["verdict"] != "not_applicable" for row in found)
    not_proven = engine.not_proven(long_form, state) if state else []
    not_proven += [{"subject": name, "reason": "nothing that was read says anything about it"}
                   for name in unseen]
    not_proven += [{"subject": "given", "reason": "not understood: %s" % words} for words in unread]
    return {
        "stack": long_form.get("name"), "verdict": engine.verdict(found, applicable), "findings": found,
        "remarks": list(long_form.get("remarks") or []), "components": [], "proof": [], "not_proven": not_proven,
        "plan": actions.ordered([*(planned or {}).get("actions", []), *engine.steps(found)]), "changed": [], "state": state,
    }


def _unexplained(state: Row) -> t.List[Row]:
    """That a recorded run failed, where no rule knows why: what it left behind is not known then."""
    manager = state.get("package_manager") or {}
    result, run = manager.get("module_result") or {}, manager.get("run") or {}
    words = [str(result.get("msg") or "a module failed")] if result.get("failed") or result.get("unreachable") else []
    words += [str(error) for error in run.get("errors") or []]
    words += ["%s %s" % (row["reason"].replace("_", " "), row.get("what") or row.get("repo") or row.get("package") or "")
              for row in manager.get("problems") or []]
    # Whoever was not allowed to do anything has changed nothing.
    words = [one for one in words if not re.search(r"are you root|Permission denied|superuser privileges|has to be run (?:with|under)", one)]
    return [engine.finding("probe_failed", "a failed run", "A run failed, and no rule knows why: %s." % words[0].strip().rstrip(".")[:300])] if words else []


def _without_evidence(long_form: Row, state: Row, unseen: t.Sequence[str], facts: knowledge.Facts) -> t.List[Row]:
    """Silence of the rules is no news where nothing was seen of the node, or of anything that is wanted of it."""
    if not evidence.any_of(state):
        return [engine.finding("no_evidence", "node", "Nothing of this node could be read that says anything about it.")]
    if evidence.seen(long_form, state, facts):
        return []
    names = ", ".join(unseen)
    return [engine.finding("no_evidence", names, "Nothing that was read says anything about %s." % names)]


def _works(state: Row) -> bool:
    """Whether the node itself says that something of it works, so that there is a verdict also where nothing was asked for."""
    controller, manager, dcgm = state.get("controller") or {}, state.get("package_manager") or {}, state.get("dcgm") or {}
    result, nccl = manager.get("module_result") or {}, state.get("nccl") or {}
    log = nccl.get("log") or {}
    return any((
        any(row.get("status") == "Success" for row in (state.get("fabric") or {}).get("gpus") or []),
        controller.get("ansible") and (controller.get("python") or {}).get("version"),
        result and not result.get("failed") and result.get("rc") in (None, 0),
        (manager.get("run") or {}).get("done"),
        log.get("networks") and not log.get("warnings"),
        nccl.get("env") or any(line["name"] for file in nccl.get("conf") or [] for line in file["lines"]),
        dcgm.get("exporter") and (dcgm.get("version") or dcgm.get("host_engine")),
    ))


# A fleet has few stacks; a run reads each of them once.
_EXPANDED: t.Dict[t.Any, t.Any] = {}


def _expanded(wanted: t.Any, stacks_dir: stack.Folders, exact: bool, facts: knowledge.Facts) -> Row:
    """stack.expand(), once for each distinct stack. Raises StackError."""
    key = (id(facts), exact, json.dumps([wanted, stacks_dir], sort_keys=True, default=repr))
    if key not in _EXPANDED:
        if len(_EXPANDED) >= 256:
            _EXPANDED.clear()
        try:
            found: t.Any = stack.expand(wanted, stacks_dir, exact=exact, facts=facts)
        except stack.StackError as error:
            found = error
        # The facts are kept with it, so that no others get their identity.
        _EXPANDED[key] = (facts, found)
    if isinstance(_EXPANDED[key][1], stack.StackError):
        raise _EXPANDED[key][1]
    return _EXPANDED[key][1]


def unreadable(failure: Row) -> Row:
    """The record of a node that could not be read; failure: {task, result}."""
    message = str((failure.get("result") or {}).get("msg") or "no reason given")[:2000]
    found = [engine.finding("run_failed", str(failure.get("task")), message)]
    return {"stack": None, "verdict": engine.verdict(found), "findings": found, "remarks": [], "components": [], "proof": [],
            "not_proven": [], "plan": [], "changed": [], "state": None}


def refused(code: str, message: str) -> Row:
    """The record of a node for which something unusable was asked."""
    return dict(unreadable({}), findings=[engine.finding(code, "lockstep_stack", message)], verdict=engine.verdict([engine.finding(code, "", "")]))


def _from_given(given: t.Any, facts: knowledge.Facts) -> t.Tuple[Row, t.List[str]]:
    """(long form, what could not be read of it): a stranger's words must not keep the rest from being judged."""
    wanted, unread = claim.from_given(given)
    long_form: Row = {}
    for key, value in wanted.items():
        try:
            long_form.update(stack.expand({key: value}, exact=False, facts=facts))
        except stack.StackError as error:
            unread.append(str(error))
    return long_form, unread


def _planned(long_form: Row, state: Row, facts: knowledge.Facts) -> t.Optional[Row]:
    """The plan of an exact stack where all packages are known; None for a claim, which nobody can install, and for a part of a list."""
    if not any(long_form.get(component) for component in plan.COMPONENTS) or not (state.get("package_manager") or {}).get("packages_complete"):
        return None
    try:
        exact = _expanded({key: value for key, value in long_form.items() if key != "name"}, None, True, facts)
        if plan.unserved(exact) or state.get("packages") is None:
            return None
        gpus = [row["id"] for row in knowledge.usable_gpus(state) if row["id"]]
        running = None if state.get("container") else (state.get("kernel") or {}).get("running")
        return plan.plan(plan.wanted(exact, facts, gpus, running, state.get("nvswitches")), state, sources_known=False)
    except (stack.StackError, plan.PlanError):
        return None
