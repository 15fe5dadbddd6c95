# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a kernel on trial and what the node noted beside it, see trial.py."""

from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils import trial
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, split_files

_KEYS = ("kernel", "from", "token", "attempts", "confirm_within", "armed_at", "outcome", "reason")


def parse_trial(text):
    """trial.json, trial.reached and trial.expired as `tail -v -n +1` prints them, or the record alone.

    {kernel, from, token, attempts, confirm_within, armed_at, outcome (pending or failed, as recorded), reason; reached: whether it reached user
    space; expired: what the network said when nobody had confirmed it in time, None where that did not happen}
    """
    files = {path.rsplit("/", 1)[-1]: content for path, content in split_files(text).value} or {trial.RECORD: text}
    if trial.RECORD not in files:
        # Marks of a trial whose record somebody removed.
        return Parsed(None, [])
    record = trial.parse(files[trial.RECORD])
    if record is None:
        return Parsed(None, ["%s is no record of a trial" % trial.RECORD])
    ours = {name: files.get(name, "").partition("\n")[0].strip() == record["token"] for name in (trial.REACHED, trial.EXPIRED)}
    return Parsed(dict({key: record.get(key) for key in _KEYS}, reached=ours[trial.REACHED],
                       expired=trial.network(files[trial.EXPIRED]) if ours[trial.EXPIRED] else None), [])
