# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian versions; the oracle is dpkg itself."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import versions
from hypothesis import given, settings
from hypothesis import strategies as st

SORTED = ["0~~", "0~", "0", "0+b1", "535.261.03-1~deb12u1", "535.261.03-1", "535.261.03-1+b1", "535.261.03-1.1",
          "535.309.01-1~deb12u1", "550.163.01-1", "550.163.01-2", "1:1.0-1"]
part = st.text(alphabet="0129aZz.+~", min_size=0, max_size=6)
version = st.builds(lambda epoch, upstream, revision: epoch + "1" + upstream + revision,
                    st.sampled_from(["", "0:", "1:", "12:"]), part,
                    st.one_of(st.just(""), part.filter(bool).map(lambda text: "-" + text)))


@settings(max_examples=300, deadline=None)
@given(version, version)
def test_same_order_as_dpkg(left, right):
    result = versions.compare(left, right)
    word = {-1: "lt", 0: "eq", 1: "gt"}[result]
    assert subprocess.run(["dpkg", "--compare-versions", left, word, right], check=False).returncode == 0


@given(version, version, version)
def test_is_a_total_order(one, two, three):
    assert versions.compare(one, two) == -versions.compare(two, one)
    ordered = sorted([one, two, three], key=versions.sort_key)
    assert versions.compare(ordered[0], ordered[2]) <= 0


def test_known_order():
    assert sorted(reversed(SORTED), key=versions.sort_key) == SORTED


@pytest.mark.parametrize("bad", ["", " ", "1 2", "x:1", ":1", "1:", "1-", "1/2", "\u0661", "\u0661:1", "1-2_3", None, 5, b"1"])
def test_refuses(bad):
    with pytest.raises(ValueError):
        versions.parse(bad)


@pytest.mark.parametrize("text,expected", [
    ("1:3.13.0-2", "3.13.0"), ("550.163.01-2", "550.163.01"), ("12.4.131~12.4.1-2", "12.4.131~12.4.1"),
    ("56.1-1", "56.1"), ("20240109+1", "20240109+1"), ("1:4.16.0-2+really2.41.5-0+deb13u1", "4.16.0-2+really2.41.5")])
def test_upstream(text, expected):
    assert versions.upstream(text) == expected


def test_matches_the_whole_version():
    assert versions.matches(r"550\.163\.01-.+", "550.163.01-2")
    assert not versions.matches(r"550\.163\.01", "550.163.01-2")
    with pytest.raises(ValueError, match=r"\(\["):
        versions.matches("([", "1")


@pytest.mark.parametrize("text,expected", [
    ("550.163.01-2", "550"), ("1:550.163.01-2", "550"), ("595.71.05-1ubuntu1", "595"), ("56", None), ("", None),
    (None, None), ("current", None)])
def test_branch(text, expected):
    assert versions.branch(text) == expected
