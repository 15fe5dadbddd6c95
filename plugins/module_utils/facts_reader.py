# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a probe to a value, and why there is none."""

from __future__ import annotations

_MISSING = object()
# A recording of something else altogether would fill the report.
_MOST_PROBLEMS = 5
# dpkg's longest line, a list of dependencies, has some thousands.
_LONGEST_LINE = 100000
NOT_RECORDED = "not in the bundle"


def _no_text(text):
    """Why this cannot be what a tool printed for people, or None."""
    odd = sum(text.count(char) for char in "\0\x01\x02\x03\x04\x05\x06\x0e\x0f\ufffd")
    if odd * 20 > len(text):
        return "it is no text"
    if len(text) > _LONGEST_LINE and max(map(len, text.split("\n"))) > _LONGEST_LINE:
        return "it has a line of more than %d characters" % _LONGEST_LINE
    return None


class Reader:
    """Reads probes, and notes why a value is unknown. What was not asked for, or nobody recorded, is None without a note."""

    def __init__(self, probe, asked):
        """probe: LiveProbe or BundleProbe; asked: the names that may be read."""
        self._probe = probe
        self._asked = frozenset(asked)
        self.unknown = []
        self.unreadable = []
        self.not_recorded = []
        self.heard = 0

    def lose(self, name, reason=None):
        """Note that a probe gave nothing at all that could be used."""
        if reason:
            self.note(name, reason)
        if name not in self.unreadable:
            self.unreadable.append(name)

    def note(self, name, reason):
        """One more reason why something is unknown."""
        self.unknown.append({"probe": name, "reason": reason})

    def seen(self, name):
        """The Observation of a probe; None where it was not asked for or not recorded."""
        if name not in self._asked:
            return None
        seen = self._probe.read(name)
        strange = _no_text(seen.out) or _no_text(seen.err)
        if strange:
            self.lose(name, strange)
            return None
        if seen.rc is None and seen.reason == NOT_RECORDED:
            if name not in self.not_recorded:
                self.not_recorded.append(name)
            return None
        self.heard += seen.rc is not None
        return seen

    def parsed(self, name, parser, absent=_MISSING, partial=False):
        """The parser's value; `absent` when there is nothing to read, None when it is unknown.

        parser: a function of the text that returns Parsed. partial: use the output of a command that failed, too; the
        failure is noted.
        """
        seen = self.seen(name)
        if seen is None:
            return None
        if seen.rc == 0 or (partial and seen.rc is not None and seen.out):
            if seen.rc:
                self.note(name, seen.why())
            return self._value(name, parser(seen.out))
        if absent is not _MISSING and seen.absent(name):
            return absent
        self.lose(name, seen.why())
        return None

    def told(self, name, parser):
        """The parser's value for what a command printed, whatever its exit status: a failure is what it was recorded for.

        parser: a function of (text, rc), text being both outputs together. None when nothing was asked, recorded or said.
        """
        seen = self.seen(name)
        if seen is None or seen.absent(name):
            return None
        if seen.rc is None:
            self.lose(name, seen.why())
            return None
        # A bundle may have the two outputs in one file or in two.
        text = "\n".join(part.rstrip("\n") for part in (seen.out, seen.err) if part.strip())
        return self._value(name, parser(text + "\n" if text else "", seen.rc))

    def _value(self, name, parsed):
        value, problems = parsed
        if problems and not value:
            self.lose(name)
        for problem in problems[:_MOST_PROBLEMS]:
            self.note(name, problem)
        if len(problems) > _MOST_PROBLEMS:
            self.note(name, "and %d more of the kind" % (len(problems) - _MOST_PROBLEMS))
        return value
