# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel on trial."""

from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils import capture, parse_trial, trial
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Function

_FILES = tuple("/%s/%s" % (trial.FOLDER, name) for name in (trial.RECORD, trial.REACHED, trial.EXPIRED))

# name: (level, how to take it live); docs/probes.md describes each.
PROBES = {
    "trial_record": ("local", Function(lambda root: capture.files(root, *_FILES), "tail -v -n +1 /var/lib/lockstep-gpu/trial.{json,reached,expired}")),
}


def section(reader):
    """trial: parse_trial's value, with running: whether the node was started for this trial (its token is on the kernel command line);
    None without one.
    """
    found = reader.parsed("trial_record", parse_trial.parse_trial, absent=None)
    if not found:
        return {"trial": None}
    words = reader.parsed("proc_cmdline", lambda text: Parsed(text.split(), []), absent=None)
    return {"trial": dict(found, running=None if words is None else "%s=%s" % (trial.WORD, found["token"]) in words)}
