# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rows of known combinations, as the filter judges them."""
from __future__ import annotations

import pathlib

import yaml
from ansible_collections.lockstep.gpu.plugins.filter import lockstep

ROWS = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "known"
ASIDE = ("id", "verdict", "public", "expect")
# Keys of a row that describe the machine.
MACHINE = {"gpu": "gpus", "nic": "nics"}


def rows(name, key):
    """The rows of a file below tests/fixtures/known."""
    return yaml.safe_load((ROWS / name).read_text(encoding="utf-8"))[key]


def split(row):
    """(claim, target) of a row: the machine goes into the target, the rest is claimed."""
    claim = {key: value for key, value in row.items() if key not in ASIDE and key not in MACHINE}
    target = {MACHINE[key]: [value] for key, value in row.items() if key in MACHINE}
    if "os" in row:
        target["os"] = row["os"]
    if "secure_boot" in row:
        target["secure_boot"] = claim.pop("secure_boot") == "on"
    return claim, target


def judged(row):
    """Findings of a row, once with the machine as the target and once with all of it claimed; both must agree."""
    claim, target = split(row)
    found = lockstep.findings(claim, target)
    if not {"nic", "secure_boot"} & set(row):
        whole = lockstep.findings({key: value for key, value in row.items() if key not in ASIDE}, {})
        assert severities(whole) == severities(found), (whole, found)
    return found


def severities(found):
    """(code, severity) of every finding, in order."""
    return sorted((row["code"], row["severity"]) for row in found)
