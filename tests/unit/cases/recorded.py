# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A bundle in memory, for tests that make up recordings: probe names to texts, or to Observations."""
from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.facts import replay
from ansible_collections.lockstep.gpu.plugins.module_utils.facts_reader import NOT_RECORDED
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import Observation
from ansible_collections.lockstep.gpu.plugins.plugin_utils import audit


# No package archive is named in this repository: recordings say .example, and get the last part of the real name here.
ARCHIVES = {"ubuntu": "com", "debian": "org", "launchpadcontent": "net", "pop-os": "org"}


def real(text):
    """A recording with the archives' real names, by which origins are told."""
    return re.sub(r"\b(%s)\.example\b" % "|".join(ARCHIVES), lambda found: "%s.%s" % (found.group(1), ARCHIVES[found.group(1)]), text)


class Recorded:
    """The interface of a probe back end."""

    unread = ()

    def __init__(self, texts, given=None):
        self.texts, self.given = texts, given or {}

    def start(self, names):
        """Nothing to prepare."""

    def read(self, name):
        """What was recorded; a plain text stands for a command that succeeded."""
        seen = self.texts.get(name, Observation(None, reason=NOT_RECORDED))
        seen = Observation(0, seen) if isinstance(seen, str) else seen
        return seen._replace(out=real(seen.out), err=real(seen.err))


def failed(text, rc=1):
    """What a command said that ended with an exit status."""
    return Observation(rc, text)


def state(**texts):
    """What node_facts says of recordings."""
    return replay(Recorded(texts))["ansible_facts"]["lockstep"]


def judged(given=None, **texts):
    """What audit says of recordings."""
    probe = Recorded(texts, given)
    return audit.judge(replay(probe)["ansible_facts"]["lockstep"], given=probe.given)


def found(record, code):
    """(subject, severity, verdict class) of the findings of a code."""
    return [(row["subject"], row["severity"], row["verdict"]) for row in record["findings"] if row["code"] == code]
