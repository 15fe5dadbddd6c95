# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modprobe has to be told on a node with the driver, and whether the node's file and initramfs say it already."""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils import modprobe_policy as policy

Row = t.Dict[str, t.Any]


def of(stack: Row, dkms: t.Optional[Row], kernel: t.Optional[str], state: Row) -> t.Optional[Row]:
    """{text, kernel, due} for modprobe_policy; None for a stack without a driver.

    dkms, kernel: the plan's. due: why something has to be done, None when nothing has, or nobody has looked. Raises
    modprobe_policy.PolicyError for options that cannot be written down.
    """
    if not stack.get("driver"):
        return None
    text = policy.render(policy.options_of(stack["driver"].get("options")), policy.aliases_of((dkms or {}).get("files")))
    return {"text": text, "kernel": kernel, "due": _due(text, kernel, state)}


def _due(text: str, kernel: t.Optional[str], state: Row) -> t.Optional[str]:
    there = state.get("modprobe")
    if not there or "own" not in there:
        return None
    if there["own"] != text:
        return "%s %s" % (policy.FILE, "is missing" if there["own"] is None else "differs")
    # A container boots no initramfs, and may have no tool that makes one.
    old = kernel in (there.get("stale") or []) and not state.get("container")
    return "the initramfs of %s is older than %s" % (kernel, policy.FILE) if old else None


def steps(wanted: t.Optional[Row], state: Row) -> t.List[Row]:
    """The steps of the plan, in the words of actions.py."""
    if not wanted or not wanted["due"]:
        return []
    images = {row["release"] for row in (state.get("kernel") or {}).get("installed") or [] if row.get("initramfs")}
    written = (state.get("modprobe") or {}).get("own") == wanted["text"]
    found = [] if written else [{"action": "write_file", "target": policy.FILE}]
    return found + ([{"action": "rebuild_initramfs", "target": wanted["kernel"]}] if wanted["kernel"] in images else [])
