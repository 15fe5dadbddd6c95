# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RPM package versions: parse and compare.

The order is rpm's own (rpm-version(7), rpmio/rpmvercmp.cc): epoch, then version, then release. A tilde sorts before
everything, even before the end; a caret after the end, but before anything else; separators have no order.
"""

from __future__ import annotations

import functools
import re
from collections import namedtuple

EVR = namedtuple("EVR", ["epoch", "version", "release"])

_PART = r"[A-Za-z0-9._+~^]+"
_EVR = re.compile(r"(?:(?P<epoch>\d+|\(none\)):)?(?P<version>%s)(?:-(?P<release>%s))?" % (_PART, _PART), re.ASCII)
# What rpm looks at; all else separates.
_SEGMENT = re.compile(r"[0-9]+|[A-Za-z]+|[~^]")


def parse(text):
    """Split "3:550.54.15-1.el9" into EVR(epoch: int, version: str, release: str, "" without one). Raises ValueError."""
    found = _EVR.fullmatch(text) if isinstance(text, str) else None
    if not found:
        raise ValueError("%r is not an RPM version" % (text,))
    epoch = found.group("epoch")
    return EVR(0 if epoch in (None, "(none)") else int(epoch), found.group("version"), found.group("release") or "")


def vercmp(left, right):
    """rpm's rpmvercmp() of two versions or two releases: -1, 0 or 1."""
    a, b = _SEGMENT.findall(left), _SEGMENT.findall(right)
    for one, two in zip(a, b):
        order = _segments(one, two)
        if order:
            return order
    if len(a) == len(b):
        return 0
    # What has more is newer, unless it goes on with a tilde.
    longer, rest = (1, a[len(b):]) if len(a) > len(b) else (-1, b[len(a):])
    return -longer if rest[0] == "~" else longer


def _segments(one, two):
    """The order of two segments of which each has one: tilde, caret, letters, digits, and equal kinds by value."""
    if one == two:
        return 0
    left, right = _key(one), _key(two)
    return (left > right) - (left < right)


def _key(segment):
    if segment in "~^":
        return ("~^".index(segment), 0, "")
    if segment.isdigit():
        digits = segment.lstrip("0")
        return (3, len(digits), digits)
    return (2, 0, segment)


def compare(left, right):
    """-1, 0 or 1 as the EVR `left` is older than, equal to or newer than `right`. Raises ValueError as parse() does."""
    a, b = parse(left), parse(right)
    if a.epoch != b.epoch:
        return -1 if a.epoch < b.epoch else 1
    return vercmp(a.version, b.version) or vercmp(a.release, b.release)


# For sorted(..., key=sort_key) and max(); raises ValueError on comparison as parse() does.
sort_key = functools.cmp_to_key(compare)


def upstream(text):
    """The version without epoch and release: "3:535.183.06-3.el8_10" gives "535.183.06". Raises ValueError."""
    return parse(text).version


def joined(epoch, version, release=None):
    """The text of a version; an epoch of 0 or "(none)" is not written."""
    text = version if not release else "%s-%s" % (version, release)
    return text if epoch in (None, "", 0, "0", "(none)") else "%s:%s" % (epoch, text)
