# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write docs/codes.md from the table of codes: python docs/generate_codes.py (a test says when it is due)."""
from __future__ import annotations

import pathlib
import typing as t

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "plugins" / "plugin_utils" / "rules" / "codes"
PAGE = ROOT / "docs" / "codes.md"

HEAD = """# Codes of findings

Generated from plugins/plugin_utils/rules/codes/ by docs/generate_codes.py; change the table, not this page.

A finding has a code, a subject (which package, kernel, path or PCI id), a severity, a verdict class, a message, the source
of the fact, and a remedy. The verdict of a node is the worst class of its findings:
blocked > broken > unknown > drift > degraded > in_sync > not_applicable.

To override a finding, name it in `lockstep_accept`: `code@subject`, or `code@*` for every subject. It stays in the report,
marked as accepted, and no longer counts.
"""


def page(codes: t.Mapping[str, t.Mapping[str, t.Any]]) -> str:
    """The whole page, codes by subject in the order of the table."""
    lines = [HEAD]
    subject = None
    places = {name: place for place, name in enumerate(dict.fromkeys(row["subject"] for row in codes.values()))}
    for code, row in sorted(codes.items(), key=lambda item: places[item[1]["subject"]]):
        if row["subject"] != subject:
            subject = row["subject"]
            lines.append("## %s\n" % subject)
        weights = "; ".join("%s%s, %s" % ("" if name == "default" else name + ": ", severity, verdict)
                            for name, (severity, verdict) in row["contexts"].items())
        lines.append("### `%s`\n" % code)
        lines.append("%s\n" % row["meaning"])
        lines.append("- weighs: %s" % weights)
        lines.append("- remedy: %s" % row["remedy"])
        lines.append("- example of a subject: `%s`\n" % row["example"])
    return "\n".join(lines).rstrip() + "\n"


if __name__ == "__main__":
    TABLES = [yaml.safe_load(path.read_text(encoding="utf-8")) or {} for path in sorted(TABLE.glob("*.yml"))]
    PAGE.write_text(page({code: row for table in TABLES for code, row in table.items()}), encoding="utf-8")
