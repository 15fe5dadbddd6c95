# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian package versions: parse, compare, match.

The order is dpkg's own (deb-version(7)): epoch, then upstream part, then revision; a tilde sorts before everything,
even before the end of a part.
"""

from __future__ import annotations

import functools
import re
from collections import namedtuple

Version = namedtuple("Version", ["epoch", "upstream", "revision"])

_UPSTREAM = re.compile(r"[A-Za-z0-9.+~:-]+")
_REVISION = re.compile(r"[A-Za-z0-9.+~]+")
_DIGITS = "0123456789"


def parse(version):
    """Split a version into Version(epoch: int, upstream: str, revision: str).

    A version without a revision has the revision "", which sorts like "0". Raises ValueError for anything that dpkg
    refuses too (empty, blanks, an epoch that is no number, characters outside deb-version(7)).
    """
    if not isinstance(version, str):
        raise ValueError("a version is a string, not %s" % type(version).__name__)
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    # isdecimal() alone would let other scripts' digits pass.
    if not (epoch.isascii() and epoch.isdecimal()):
        raise ValueError("epoch of version %r is not a number" % version)
    upstream_part, dash, revision = rest.rpartition("-")
    if not dash:
        upstream_part, revision = rest, ""
    if not _UPSTREAM.fullmatch(upstream_part) or (dash and not _REVISION.fullmatch(revision)):
        raise ValueError("%r is not a Debian version" % version)
    return Version(int(epoch), upstream_part, revision)


def _weight(char):
    """Rank of one character in a non-digit run: tilde, end (or digit), letters, the others."""
    if char == "~":
        return -1
    if not char or char in _DIGITS:
        return 0
    return ord(char) if char.isalpha() else ord(char) + 256


def _compare_part(left, right):
    """dpkg's verrevcmp(): compare by turns a run of non-digits and a run of digits."""
    i = j = 0
    while i < len(left) or j < len(right):
        while (i < len(left) and left[i] not in _DIGITS) or (j < len(right) and right[j] not in _DIGITS):
            difference = _weight(left[i:i + 1]) - _weight(right[j:j + 1])
            if difference:
                return difference
            i, j = i + 1, j + 1
        number_left, i = _digits(left, i)
        number_right, j = _digits(right, j)
        if number_left != number_right:
            return number_left - number_right
    return 0


def _digits(text, start):
    """The number that begins at `start` (0 when none does) and the index after it."""
    end = start
    while end < len(text) and text[end] in _DIGITS:
        end += 1
    return int(text[start:end] or "0"), end


def compare(left, right):
    """-1, 0 or 1 as `left` is older than, equal to or newer than `right`. Raises ValueError as parse() does."""
    a, b = parse(left), parse(right)
    difference = (a.epoch - b.epoch or _compare_part(a.upstream, b.upstream)
                  or _compare_part(a.revision, b.revision))
    return (difference > 0) - (difference < 0)


def compare_text(left, right):
    """Negative, 0 or positive, by the same order, for any text: what `sort -V` does with names that have no extension."""
    return _compare_part(left, right)


# For sorted(..., key=sort_key) and max(); raises ValueError on comparison as parse() does.
sort_key = functools.cmp_to_key(compare)


def upstream(version):
    """The version without epoch and revision: "1:550.163.01-2" gives "550.163.01". Raises ValueError."""
    return parse(version).upstream


def matches(pattern, version):
    """Whether the regular expression `pattern` matches the whole package version.

    Raises ValueError, which names the pattern, when it is not a regular expression.
    """
    try:
        return re.fullmatch(pattern, version) is not None
    except re.error as error:
        raise ValueError("%r is not a regular expression: %s" % (pattern, error)) from error


def branch(version):
    """The branch of an NVIDIA driver version: "1:550.163.01-2" gives "550"; None when it does not look like one."""
    found = re.match(r"(?:\d+:)?(\d{2,4})\.\d", version or "", re.ASCII)
    return found.group(1) if found else None
