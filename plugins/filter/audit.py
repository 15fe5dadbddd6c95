# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The audit filter; what it means: audit.yml beside this file."""
from __future__ import annotations

import typing as t

from ansible.errors import AnsibleFilterError

from ansible_collections.lockstep.gpu.plugins.plugin_utils import audit, engine, stack

Row = t.Dict[str, t.Any]


def judged(state: t.Optional[Row], wanted: t.Any = None, given: t.Any = None, target: t.Optional[Row] = None, accept: t.Any = (),
           stacks_dir: t.Any = None, purpose: str = "audit", failure: t.Optional[Row] = None) -> Row:
    """The record of a node. Raises AnsibleFilterError with the one sentence of a StackError, AcceptError or TargetError."""
    accepted = [accept] if isinstance(accept, str) else list(accept or [])
    if failure:
        return audit.unreadable(failure)
    try:
        return audit.judge(state or {}, wanted, given, target, accepted, stacks_dir, purpose)
    except (stack.StackError, engine.AcceptError, engine.TargetError) as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    """Filters about what a node is."""

    def filters(self) -> t.Dict[str, t.Callable[..., t.Any]]:
        """Names to functions."""
        return {"audit": judged}
