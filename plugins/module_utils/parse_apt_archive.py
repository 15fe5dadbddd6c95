# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What apt knows of its archives: apt-cache policy, madison and show."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt import deb822
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood

_NAME = re.compile(r"([a-z0-9][a-z0-9.+-]*(?::[a-z0-9-]+)?):")
# "  Installed: 1.0", in any language; the first is what is installed, the second the candidate.
_FIELD = re.compile(r"\s+[^\s:\uff1a][^:\uff1a]*[:\uff1a](.*)")
_ORIGIN = re.compile(r"(-?\d+) +((?:[a-z+]+:)?/\S*|[a-z+]+:\S+)(.*)")
_ROW = re.compile(r"(\*\*\*)?\s*([0-9][A-Za-z0-9.+~:-]*)(?: (-?\d+))?(?: \(.*\))?")
_PINNED = re.compile(r"([a-z0-9][a-z0-9.+:-]*) -> (\S+)(?: .*)? (-?\d+)")
_UNLOCATED = re.compile(r"(?:N|E|W|Notice|Error): Unable to locate package (\S+)")
_NOTE = re.compile(r"(?:N|W|E|Notice|Warning|WARNING): .*")
DPKG_STATUS = "/var/lib/dpkg/status"


def _nothing(value):
    """A value of a policy field; "(none)" stands for nothing, in any language."""
    return None if not value or value[0] in "(\uff08" else value


def parse_policy(text):
    """`apt-cache policy NAME...`, and without names, to {packages, sources, pinned}; None for something else altogether.

    packages: {name: {installed, candidate, pin, table: [{version, priority, installed, origins: [{priority, uri, suite}]}]}}.
    The line of dpkg's status file is no archive. sources: [{priority, uri, suite, release: {o: Ubuntu, ...}}]. pinned:
    [{package, version, priority}]. Format: apt-cache(8), cmdline/apt-cache.cc and apt-private/private-show.cc.
    """
    reader = _Policy()
    problems = [not_understood(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip() and not reader.take(line)]
    value = {"packages": reader.packages, "sources": reader.sources, "pinned": reader.pinned}
    return Parsed(value if any(value.values()) or not problems else None, problems)


class _Policy:
    """Where the lines of one policy output go."""

    def __init__(self):
        self.packages, self.sources, self.pinned = {}, [], []
        self.package, self.fields, self.row = None, 0, None

    def take(self, line):
        """Whether the line means something."""
        unlocated, stripped = _UNLOCATED.fullmatch(line.strip()), line.strip()
        if unlocated:
            self.packages.setdefault(unlocated.group(1), self._new())
            return True
        named = _NAME.fullmatch(line.rstrip())
        if named:
            self.package, self.fields, self.row = self._new(), 0, None
            self.packages[named.group(1)] = self.package
            return True
        if not line[0].isspace():
            # "Package files:", "Pinned packages:" in any language; and apt's remarks.
            self.package = self.row = None
            return stripped[-1] in ":\uff1a" or bool(_NOTE.fullmatch(stripped))
        return self._inside(line, stripped) if self.package is not None else self._source(stripped)

    @staticmethod
    def _new():
        return {"installed": None, "candidate": None, "pin": None, "table": []}

    def _inside(self, line, stripped):
        origin = _ORIGIN.fullmatch(stripped)
        if origin:
            if self.row is not None and origin.group(2) != DPKG_STATUS:
                self.row["origins"].append(_origin(origin))
            return True
        row = _ROW.fullmatch(stripped)
        if row and self.fields >= 2:
            self.row = {"version": row.group(2), "priority": None if row.group(3) is None else int(row.group(3)),
                        "installed": bool(row.group(1)), "origins": []}
            self.package["table"].append(self.row)
            return True
        field = _FIELD.fullmatch(line)
        if field:
            if self.fields < 2:
                self.package[("installed", "candidate")[self.fields]] = _nothing(field.group(1).strip())
            elif field.group(1).strip():
                self.package["pin"] = _nothing(field.group(1).strip())
            self.fields += 1
        return bool(field)

    def _source(self, stripped):
        origin = _ORIGIN.fullmatch(stripped)
        if origin:
            self.sources.append(dict(_origin(origin), release={}))
            return True
        pinned = _PINNED.fullmatch(stripped)
        if pinned:
            self.pinned.append({"package": pinned.group(1), "version": pinned.group(2), "priority": int(pinned.group(3))})
            return True
        word, _blank, rest = stripped.partition(" ")
        if self.sources and word == "release":
            self.sources[-1]["release"] = dict(part.partition("=")[::2] for part in rest.split(",") if "=" in part)
        return bool(self.sources)


def _origin(found):
    words = found.group(3).split()
    # A flat repository has no suite: "URI  Packages".
    return {"priority": int(found.group(1)), "uri": found.group(2), "suite": words[0] if len(words) > 1 else None}


def parse_madison(text):
    """`apt-cache madison NAME...` to {name: [{version, uri, suite}]}; lines of source packages are left out. Format: apt-cache(8)."""
    table, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        columns = [column.strip() for column in line.split("|")]
        unlocated = _UNLOCATED.fullmatch(line.strip())
        if unlocated:
            table.setdefault(unlocated.group(1), [])
        elif len(columns) == 3 and columns[0] and columns[1]:
            words = columns[2].split()
            if words and words[-1] != "Sources":
                table.setdefault(columns[0], []).append({"version": columns[1], "uri": words[0], "suite": words[1] if len(words) > 2 else None})
        elif line.strip() and not _NOTE.fullmatch(line.strip()):
            problems.append(not_understood(number, line))
    return Parsed(table, problems)


def parse_show(text):
    """`apt-cache show`, `apt show` and `dpkg -s` to {name: [{version, section, transitional, depends: [names]}]}, newest first.

    transitional: whether the package says that it only leads to another one. Format: deb-control(5).
    """
    paragraphs, problems = deb822(text)
    table = {}
    for fields in paragraphs:
        name, version = fields.get("package"), fields.get("version")
        if not name or not version:
            continue
        words = " ".join(value for field, value in fields.items() if field.startswith("description"))
        section = fields.get("section") or ""
        named = (re.match(r"\s*([a-z0-9][a-z0-9.+-]*)", part) for part in fields.get("depends", "").split(","))
        table.setdefault(name, []).append({
            "version": version, "section": section or None, "depends": [found.group(1) for found in named if found],
            "transitional": bool(re.search(r"transitional|dummy package", words, re.IGNORECASE)) or section.endswith("oldlibs")})
    return Parsed(table, [problem for problem in problems if not table])
