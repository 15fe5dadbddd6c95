# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters about one node's record; what they mean: the .yml files beside this one."""
from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ansible_collections.lockstep.gpu.plugins.filter.plan import make_plan
from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine, record


def node_record(stack, state=None, plan=None, accept=(), probe=None, failure=None, done=(), repositories=None):
    """Judge a node as it is now and put everything about it into one record."""
    accept = [accept] if isinstance(accept, str) else list(accept or [])
    try:
        if failure:
            # The state is the one from before; only what was refused still holds.
            rows = [row for row in engine.findings(stack, state, accept=accept) if row["verdict"] == "blocked"] if stack and state else []
            blocked = engine.verdict(rows) == "blocked"
            return record.node_record(stack, state, plan, rows, failure=None if blocked else failure, accept=accept)
        plan = plan or make_plan(stack, state, repositories=repositories)
        return record.node_record(stack, state, plan, engine.findings(stack, state, plan=plan, accept=accept), probe, done=done, accept=accept)
    except engine.AcceptError as error:
        raise AnsibleFilterError(str(error)) from error


class FilterModule:
    """Filters about what a run did."""

    def filters(self):
        """Names to functions."""
        return {"node_record": node_record, "refusal": record.refusal}
