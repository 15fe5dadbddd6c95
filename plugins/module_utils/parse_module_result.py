# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of an Ansible module, as a task prints or returns it."""

from __future__ import annotations

import json

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed

_TEXTS = ("msg", "stderr", "stdout", "module_stderr", "module_stdout", "exception")


def parse_module_result(text):
    """{msg, stderr, stdout, rc, failed, changed, args, ..., text} of a result; every key of the result is kept.

    Also "fatal: [host]: FAILED! => {...}", and a result that holds one for each item. text: everything that it quotes of
    commands, one line a line. args: the module's arguments. What is no JSON is text alone, without the key failed.
    """
    start = text.find("{")
    try:
        found = json.JSONDecoder().raw_decode(text[start:])[0] if start >= 0 else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        return Parsed({"text": text, "args": {}} if text.strip() else None, [])
    results = found.get("results") if isinstance(found.get("results"), list) else []
    parts = [row for row in results if isinstance(row, dict)]
    words = [row[key] for row in [found, *parts] for key in _TEXTS if isinstance(row.get(key), str) and row[key].strip()]
    # The dnf module lists what it did, and what it could not do.
    failures = found.get("failures") if isinstance(found.get("failures"), list) else []
    words += [row for row in (*results, *failures) if isinstance(row, str) and row.strip()]
    invocation = found.get("invocation")
    args = invocation.get("module_args") if isinstance(invocation, dict) else None
    return Parsed(dict(found, text="\n".join(words) + "\n", args=args if isinstance(args, dict) else {}, failed=found.get("failed")), [])
