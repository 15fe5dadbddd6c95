# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about container toolkit, CDI and DCGM: the parsed values, and what must not be done."""
from __future__ import annotations

from . import case


def test_ctk_05_two_spellings_of_one_version():
    want = case.expected("ctk-05")["parsed"]
    assert case.state("ctk-05")["dcgm"]["version"] == want["a"] and case.state("ctk-05", "b")["dcgm"]["version"] == want["b"]
    assert case.state("ctk-05")["dcgm"]["exporter"] == want["tag"]


def test_ctk_05_the_driver_is_not_to_blame():
    (row,) = case.record("ctk-05")["findings"]
    assert "driver" not in case.said(row) and "datacenter-gpu-manager" in row["do"][0]["target"]
    assert case.record("ctk-05", "b")["findings"] == []
