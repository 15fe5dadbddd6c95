# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: one document for machines, and the same as a text for people."""
from __future__ import annotations

import itertools
import textwrap
import typing as t

from .engine import SEVERITIES, VERDICTS

WIDTH = 110
RULE = "\u2500"
# How many findings of one code are told one by one; more are told together.
TOLD_SINGLY = 3
TARGETS_SHOWN = 8
LABELS = {"error": "ERROR", "warn": "WARN", "info": "info"}
MEANINGS = {
    "in_sync": "nothing to do",
    "not_applicable": "nothing of the stack applies here",
    "degraded": "works below expectation",
    "drift": "differs from the stack; a safe plan exists",
    "unknown": "the evidence does not suffice",
    "broken": "does not work now, or will not after the next boot",
    "blocked": "refused before any change",
}

Row = t.Mapping[str, t.Any]


def document(nodes: t.Mapping[str, Row], lock_digest: t.Optional[str] = None) -> t.Dict[str, t.Any]:
    """The report document: {schema, lock_digest, nodes: {name: {verdict, findings, plan, not_proven, ...}}}."""
    defaults: t.Dict[str, t.Any] = {"verdict": "unknown", "findings": [], "plan": [], "state": None, "not_proven": []}
    return {"schema": 1, "lock_digest": lock_digest, "nodes": {name: dict(defaults, **node) for name, node in nodes.items()}}


def table(nodes: t.Mapping[str, Row]) -> str:
    """The report as text, at most WIDTH columns wide, worst node first."""
    order = sorted(nodes, key=lambda name: (VERDICTS.index(nodes[name].get("verdict", "unknown")), name))
    lines = [_headline(nodes)]
    for name in order:
        lines += ["", *_node(name, nodes[name])]
    return "\n".join(_printable(line.rstrip()) for line in lines) + "\n"


def _printable(line: str) -> str:
    """A line that cannot command a terminal, whatever a node's files or commands said."""
    return "".join(char if char.isprintable() else "?" for char in line)


def _headline(nodes: t.Mapping[str, Row]) -> str:
    verdicts = [node.get("verdict", "unknown") for node in nodes.values()]
    counts = ", ".join("%d %s" % (verdicts.count(word), word) for word in VERDICTS if word in verdicts)
    return "lockstep report: %d %s, %s" % (len(nodes), "node" if len(nodes) == 1 else "nodes", counts or "none matched")


def _node(name: str, node: Row) -> t.List[str]:
    verdict = node.get("verdict", "unknown")
    steps = len(node.get("changed") or [])
    meaning = "after %d steps" % steps if verdict == "in_sync" and steps else MEANINGS[verdict]
    if verdict == "in_sync" and node.get("state") == {}:
        meaning = "nothing that is known speaks against it"
    title = "%s %s %s: %s " % (RULE * 2, name, verdict.upper(), meaning)
    lines = [title[:WIDTH] + RULE * max(0, WIDTH - len(title))]
    components = [(row.get("name"), row.get("wanted"), row.get("have"), row.get("state")) for row in node.get("components") or []]
    lines += _grid(("component", "wanted", "installed", "state"), components)
    proof = [(row.get("subject"), row.get("value"), row.get("expected"), _proven(row)) for row in _joined(node.get("proof") or [])]
    lines += _grid(("proof", "found", "expected", "result"), proof)
    lines += _findings(node.get("findings") or [])
    lines += _list("remarks", [str(remark) for remark in node.get("remarks") or []])
    lines += _list("not proven", [_pair(row, "subject", "reason", ": ") for row in node.get("not_proven") or []])
    lines += _list("plan", _by_action(node.get("plan") or []))
    lines += _list("changed", _by_action(node.get("changed") or []))
    return lines


def _proven(row: Row) -> str:
    """In a word; why not, where it is not. How it was proven stands in the document."""
    if row.get("proven"):
        return "proven, %s" % row["words"] if row.get("words") else "proven"
    word = "FAILED" if row.get("proven") is False else "not proven"
    return "%s, %s" % (word, row["detail"]) if row.get("detail") else word


def _joined(rows: t.Sequence[Row]) -> t.List[Row]:
    """Proof rows; the module files that are as they should be take one line together."""
    good = [row for row in rows if str(row.get("subject")).startswith("module:") and row.get("proven")]
    if len({row.get("value") for row in good}) != 1 or len(good) < 2:
        return list(rows)
    together = dict(good[0], subject="%d module files" % len(good))
    return [together if row is good[0] else row for row in rows if row is good[0] or row not in good]


def _pair(row: t.Any, first: str, second: str, between: str) -> str:
    """A row of two words, or the text that it is."""
    if not isinstance(row, t.Mapping):
        return str(row)
    return between.join(str(row[key]) for key in (first, second) if row.get(key) is not None)


def _by_action(rows: t.Sequence[t.Any]) -> t.List[str]:
    """One line for each action that follows another, with its first targets."""
    lines = []
    for action, group in itertools.groupby(rows, key=lambda row: row.get("action") if isinstance(row, t.Mapping) else None):
        members = list(group)
        if action is None or len(members) <= TOLD_SINGLY:
            lines += [_pair(row, "action", "target", " ") for row in members]
        else:
            shown = [str(row.get("target")) for row in members[:TARGETS_SHOWN]]
            more = ", and %d more" % (len(members) - len(shown)) if len(members) > len(shown) else ""
            lines.append("%s %d: %s%s" % (action, len(members), ", ".join(shown), more))
    return lines


def _cell(value: t.Any) -> str:
    return "-" if value is None or value == "" else " ".join(str(value).split())


def _grid(head: t.Sequence[str], rows: t.Sequence[t.Sequence[t.Any]]) -> t.List[str]:
    """Columns as wide as they need; the last one takes the rest and is wrapped."""
    if not rows:
        return []
    cells = [[_cell(value) for value in row] for row in rows]
    limits = [24, 34, 26]
    widths = [min(limit, max(len(row[place]) for row in [list(head), *cells])) for place, limit in enumerate(limits)]
    last = WIDTH - 2 - sum(widths) - 2 * len(widths)
    lines = [""]
    for number, row in enumerate([list(head), *cells]):
        parts = [textwrap.wrap(text, width) or [""] for text, width in zip(row, [*widths, last])]
        for line in itertools.zip_longest(*parts, fillvalue=""):
            lines.append("  " + "  ".join(text.ljust(width) for text, width in zip(line, [*widths, last])))
        if number == 0:
            lines.append("  " + "  ".join(RULE * width for width in [*widths, max(len(row[3]) for row in [list(head), *cells])])[:WIDTH - 2])
    return lines


def _findings(findings: t.Sequence[Row]) -> t.List[str]:
    """Findings by severity; what is accepted comes last and says so."""
    if not findings:
        return []
    ordered = sorted(findings, key=lambda row: (bool(row.get("accepted")), SEVERITIES.index(row["severity"])))
    lines = ["", "  findings"]
    for (code, severity, accepted), group in itertools.groupby(
            ordered, key=lambda row: (row["code"], row["severity"], bool(row.get("accepted")))):
        rows = list(group)
        label = LABELS[severity] + (" (accepted)" if accepted else "")
        if len(rows) <= TOLD_SINGLY:
            for row in rows:
                # In the form that lockstep_accept takes.
                lines += [*_wrapped("%s@%s" % (code, row["subject"]), "  %s " % label, "      "), *_told(row["message"], row)]
        else:
            subjects = "%d times: %s" % (len(rows), ", ".join(row["subject"] for row in rows))
            lines += ["  %s %s" % (label, code), *_told(subjects, rows[0])]
    return lines


def _told(message: str, row: Row) -> t.List[str]:
    lines = _wrapped(message, "      ", "      ")
    if row.get("remedy"):
        lines += _wrapped(str(row["remedy"]), "      do: ", "          ")
    if row.get("source"):
        lines += _wrapped(str(row["source"]), "      source: ", "              ")
    return lines


def _list(title: str, items: t.Sequence[str]) -> t.List[str]:
    if not items:
        return []
    return ["", "  %s (%d)" % (title, len(items)), *itertools.chain.from_iterable(_wrapped(item, "    - ", "      ") for item in items)]


def _wrapped(text: str, first: str, rest: str) -> t.List[str]:
    return textwrap.wrap(" ".join(text.split()), WIDTH, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False, break_long_words=False)
