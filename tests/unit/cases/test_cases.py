# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every public report: its verdict, its findings, its plan. Parsed values and what must not be done: the other files here."""
from __future__ import annotations

import pytest

from . import case

# Cases without a bundle that could be judged as a whole: several hosts, or Ansible's own behaviour. Their files say which.
BY_HAND = {"ans-09", "ans-11", "dkms-10", "drv-06", "drv-09", "drv-12", "fm-05", "ofed-01", "pkg-07"}
WHOLE = [name for name in case.NAMES if name not in BY_HAND]


@pytest.mark.parametrize("name", WHOLE)
def test_the_verdict(name):
    want = case.expected(name)["verdict"]
    if want != "parse_only":
        record = case.record(name)
        assert record["verdict"] == want, [(row["code"], row["severity"], row["verdict"], row["subject"]) for row in record["findings"]]


@pytest.mark.parametrize("name", WHOLE)
def test_the_findings(name):
    wrong = case.missing_findings(case.expected(name).get("findings") or [], case.record(name)["findings"])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", WHOLE)
def test_the_plan(name):
    wrong = case.missing_steps((case.expected(name).get("plan") or {}).get("actions") or [], case.record(name)["plan"])
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", [name for name in WHOLE if case.expected(name)["verdict"] == "in_sync"])
def test_nothing_is_said_where_nothing_is_wrong(name):
    expected = {row["code"] for row in case.expected(name).get("findings") or []}
    assert {row["code"] for row in case.record(name)["findings"]} <= expected
