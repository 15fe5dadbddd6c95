# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RPM versions, compared with rpm's own library."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import versions_rpm
from hypothesis import given, settings
from hypothesis import strategies as st

PART = st.one_of(st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,4}){0,2}([~^][a-z0-9]{0,3}){0,2}", fullmatch=True),
                 st.text("0123456789abzAZ._+~^", min_size=1, max_size=8))


def rpm_says(pairs):
    """rpm.vercmp() of many pairs in one call."""
    # Macros are expanded first: none of the characters of a version begins one.
    code = "".join('print(rpm.vercmp("%s", "%s"))' % pair + ' print(";")' for pair in pairs)
    said = subprocess.run(["rpm", "--eval", "%{lua: " + code + "}"], check=True, capture_output=True, text=True).stdout
    return [int(word) for word in said.replace("\n", "").rstrip(";").split(";")]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(PART, PART), min_size=1, max_size=60))
def test_the_order_is_rpms(pairs):
    assert [versions_rpm.vercmp(*pair) for pair in pairs] == rpm_says(pairs)


@settings(max_examples=20, deadline=None)
@given(st.lists(PART, min_size=2, max_size=12), st.data())
def test_near_versions(parts, data):
    """Random versions rarely share a beginning; these do."""
    pairs = [(part, part[:data.draw(st.integers(0, len(part)))] + data.draw(st.sampled_from(["", "1", "a", "~", "^", ".", "~1", "^1", ".0"])))
             for part in parts]
    pairs = [(left, right) for left, right in pairs if right]
    if pairs:
        assert [versions_rpm.vercmp(*pair) for pair in pairs] == rpm_says(pairs)


@pytest.mark.parametrize("older,newer", [
    ("550.54.15-1.el9", "550.54.15-2.el9"), ("550.54.15-1.el9", "560.35.03-1.el9"), ("999.1-1", "3:535.1-1"), ("1.0~rc1-1", "1.0-1"),
    ("1.0-1", "1.0^git1-1"), ("5.14.0-362.8.1.el9_3", "5.14.0-570.12.1.el9_6"), ("4.18.0-372.9.1.el8", "4.18.0-372.32.1.el8_6"),
    ("6.1.131-143.221.amzn2023", "6.12.20-23.97.amzn2023"), ("1.17.6-1", "1.17.7-1")])
def test_order(older, newer):
    assert versions_rpm.compare(older, newer) == -1 and versions_rpm.compare(newer, older) == 1
    assert versions_rpm.compare(older, older) == 0
    assert sorted([newer, older], key=versions_rpm.sort_key) == [older, newer]


def test_parts():
    assert versions_rpm.parse("3:535.183.06-3.el8_10") == (3, "535.183.06", "3.el8_10")
    assert versions_rpm.parse("(none):1.17.6-1") == (0, "1.17.6", "1") and versions_rpm.parse("1.17.6") == (0, "1.17.6", "")
    assert versions_rpm.upstream("3:535.183.06-3.el8_10") == "535.183.06"
    assert versions_rpm.joined("(none)", "1", "2") == "1-2" and versions_rpm.joined("3", "1", "2") == "3:1-2" and versions_rpm.joined(0, "1") == "1"


@pytest.mark.parametrize("text", ["", "a b", "1-2-3", "x:1-2", ":1", "1:", None, 3, "1/2"])
def test_no_version(text):
    with pytest.raises(ValueError):
        versions_rpm.parse(text)


@given(st.integers(0, 9), PART, PART)
def test_round_trip(epoch, version, release):
    assert versions_rpm.parse(versions_rpm.joined(epoch, version, release)) == (epoch, version, release)
