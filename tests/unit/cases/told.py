# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a record says what it has to, and nothing else: for tables of recordings."""
from __future__ import annotations

from . import case


def wrong(record, verdict, findings, steps=()):
    """What a record lacks, or says beside it.

    findings: (code, severity, versions and packages that it has to name); with None for the severity it may be told. steps: (action, what its
    target has to name), in order.
    """
    needed = [{"code": code, "severity": severity, "subject": subject} for code, severity, subject in findings if severity]
    said = ["verdict %s" % record["verdict"]] if record["verdict"] != verdict else []
    said += case.missing_findings(needed, record["findings"])
    said += case.missing_steps([{"action": action, "target": target} for action, target in steps], record["plan"])
    return said + sorted({row["code"] for row in record["findings"]} - {code for code, _severity, _subject in findings})
