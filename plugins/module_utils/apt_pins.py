# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt_preferences(5) texts: the exact pins of a node, and what keeps apt on the stack's versions while it resolves."""
from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt import OWN_PRIORITY


def render(slices, pins):
    """apt_preferences(5) text that keeps each package at its version, in both directions (1001 allows down)."""
    head = "# Written by lockstep.gpu: the exact versions of this node's stack. Changes are undone by the next run.\n"
    body = ["Package: %s\nPin: version %s\nPin-Priority: %d\n" % (name, pins[name], OWN_PRIORITY) for name in sorted(pins)]
    return head + "\n" + "\n".join(body) if body else head


def while_resolving(slices, targets):
    """apt_preferences(5) text that keeps whole source packages at the stack's version while apt resolves.

    Without it apt takes the newest version for what is not asked for by name, and then finds no solution where the
    parts of a driver depend on each other by exact version. The chosen revision comes first, any other one that fits
    second.
    """
    stanzas = []
    for part in slices:
        chosen = targets.get(part["requests"][0]["name"])
        if not chosen or not part.get("globs"):
            continue
        exact = [chosen]
        if part["globs"][0].startswith("*~") and "~" in chosen:
            # CUDA's parts count by themselves; what they share follows the first tilde.
            tail = chosen.split("~", 1)[1]
            exact = ["*~" + tail, tail]
        for priority, versions in ((1002, exact), (1001, part["globs"])):
            stanzas += ["Package: src:%s\nPin: version %s\nPin-Priority: %d\n" % (source, version, priority)
                        for source in part.get("one_version") or [] for version in versions]
    return "\n".join(stanzas)
