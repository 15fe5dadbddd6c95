# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Doors to plugins/plugin_utils for playbooks and templates: stacks, findings, verdicts and reports."""
from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine, report, stack
from ansible_collections.lockstep.gpu.plugins.plugin_utils import plan as planning

Row = t.Dict[str, t.Any]


def expand(value: t.Any, stacks_dir: t.Any = None, exact: bool = True) -> Row:
    """The long form of a stack. Raises AnsibleFilterError with the one sentence of the StackError."""
    try:
        result = stack.expand(value, stacks_dir, exact)
    except stack.StackError as error:
        raise AnsibleFilterError(str(error)) from None
    if exact and planning.unserved(result):
        raise AnsibleFilterError("stack key '%s' is not served yet, remove it; served are os, %s" % (
            "', '".join(planning.unserved(result)), ", ".join(planning.COMPONENTS)))
    return result


def findings(value: t.Any, target: t.Optional[Row] = None, state: t.Optional[Row] = None, plan: t.Optional[Row] = None,
             accept: t.Any = (), stacks_dir: t.Any = None) -> t.List[Row]:
    """What is wrong with a stack or a claim, on a described target or a node's state."""
    accepted = [accept] if isinstance(accept, str) else list(accept or [])
    for name, given in (("target", target), ("state", state), ("plan", plan)):
        if given is not None and not isinstance(given, t.Mapping):
            raise AnsibleFilterError("lockstep.gpu.findings: %s must be a mapping" % name)
    try:
        return engine.findings(stack.expand(value, stacks_dir, exact=False), state, target, plan, accepted)
    except (stack.StackError, engine.AcceptError, engine.TargetError) as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    """The filters of the collection."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Filter names and their functions."""
        return {
            "stack": expand,
            "findings": findings,
            "verdict": engine.verdict,
            "not_proven": engine.not_proven,
            "report": report.document,
            "report_table": report.table,
        }
