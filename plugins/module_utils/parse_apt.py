# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt's configuration: sources in both formats, preferences, and its locks."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, shown, split_files

OWN_SOURCES = "/etc/apt/sources.list.d/lockstep-gpu.sources"
OWN_PREFERENCES = "/etc/apt/preferences.d/lockstep-gpu.pref"
# Above 1000, so that it holds in both directions.
OWN_PRIORITY = 1001
_ONE_LINE = re.compile(r"(?P<type>deb|deb-src)\s+(?:\[(?P<options>[^\]]*)\]\s*)?(?P<uri>cdrom:\[[^\]]*\]\S*|\S+)\s+(?P<suite>\S+)(?P<components>(?:\s+\S+)*)")
_NO = ("no", "false", "without", "off", "disable", "0")
_GLOB = re.compile(r"[*?\[]")
# What `grep -r` puts in front of a line.
_GREPPED = re.compile(r"(?P<path>/[^\s:]+\.(?:list|sources)):(?:\d+:)?(?P<line>(?:(?:deb|deb-src)\b|#).*)")
# The name of a file whose name nobody recorded.
UNNAMED = "unnamed file"


def deb822(text):
    """Paragraphs of a deb822 file: [{lower-case field: value}], continuation lines joined by newlines.

    Returns Parsed. Comment lines (# in the first column) may stand anywhere, also inside a value.
    """
    paragraphs, fields, last, problems = [], {}, None, []
    for number, line in enumerate(text.splitlines() + [""], 1):
        if line.startswith("#"):
            continue
        if not line.strip():
            if fields:
                paragraphs.append({name: "\n".join(parts) for name, parts in fields.items()})
            fields, last = {}, None
        elif line[0] in " \t":
            if last is None:
                problems.append(not_understood(number, line))
            else:
                fields[last].append(line.strip())
        else:
            name, colon, value = line.partition(":")
            last = name.strip().lower() if colon else None
            if colon:
                fields[last] = [value.strip()]
            else:
                problems.append(not_understood(number, line))
    return Parsed(paragraphs, problems)


def _files(text):
    """([(path, content)], problems) of files as `tail -v -n +1` or `grep -r` prints them, or of one file without its name."""
    if "==> " in text or not text.strip():
        return split_files(text)
    grepped = [_GREPPED.fullmatch(line) for line in text.splitlines() if line.strip()]
    if all(grepped):
        paths = dict.fromkeys(found.group("path") for found in grepped)
        return Parsed([(path, "".join(found.group("line") + "\n" for found in grepped if found.group("path") == path)) for path in paths], [])
    return Parsed([(UNNAMED, text)], [])


def parse_sources(text):
    """The files of sources.list(5), as `tail -v -n +1` prints them, to one list of sources.

    A source: {file, types, uris, suites, components: lists, signed_by: str or None, options: {lower-case: str},
    enabled: bool}. signed_by of an embedded key is the key itself. Commented lines are no sources.
    """
    files, problems = _files(text)
    sources = []
    for path, content in files:
        deb822_form = path.endswith(".sources") or path == UNNAMED and re.search(r"^Types:", content, re.MULTILINE)
        parser = _from_deb822 if deb822_form else _from_lines
        found, wrong = parser(path, content)
        sources += found
        problems += ["%s: %s" % (path, problem) for problem in wrong]
    return Parsed(sources, problems)


def _from_deb822(path, content):
    paragraphs, problems = deb822(content)
    sources = []
    for fields in paragraphs:
        lists = {name: fields.pop(name, "").split() for name in ("types", "uris", "suites", "components")}
        if not (lists["types"] and lists["uris"] and lists["suites"]):
            problems.append("a paragraph without Types, URIs or Suites: %s" % shown(" ".join(fields)))
            continue
        sources.append(dict(lists, file=path, signed_by=fields.pop("signed-by", None) or None,
                            enabled=fields.pop("enabled", "yes").lower() not in _NO, options=fields))
    return Parsed(sources, problems)


def _from_lines(path, content):
    sources, problems = [], []
    for number, raw in enumerate(content.splitlines(), 1):
        line = raw.split("#", 1)[0].strip()
        if not line:
            continue
        found = _ONE_LINE.fullmatch(line)
        if not found:
            problems.append(not_understood(number, raw))
            continue
        words = [word.partition("=") for word in (found.group("options") or "").split()]
        options = {name.lower(): setting for name, _equals, setting in words}
        sources.append({"file": path, "types": [found.group("type")], "uris": [found.group("uri")],
                        "suites": [found.group("suite")], "components": found.group("components").split(),
                        "signed_by": options.pop("signed-by", None), "options": options, "enabled": True})
    return Parsed(sources, problems)


def parse_preferences(text):
    """The files of apt_preferences(5), as `tail -v -n +1` prints them, to [{file, package, pin, priority}].

    package is a field as written (several names, globs or a /regular expression/).
    """
    files, problems = _files(text)
    pins = []
    for path, content in files:
        paragraphs, wrong = deb822(content)
        problems += ["%s: %s" % (path, problem) for problem in wrong]
        for fields in paragraphs:
            try:
                pins.append({"file": path, "package": " ".join(fields["package"].split()), "pin": fields["pin"],
                             "priority": int(fields["pin-priority"])})
            except (KeyError, ValueError):
                # apt takes "Explanation" paragraphs alone for comments.
                if set(fields) - {"explanation"}:
                    problems.append("%s: a pin without Package, Pin or a whole Pin-Priority" % path)
    return Parsed(pins, problems)


def own_pins(pins):
    """{package: version} of this collection's own preferences file, from parse_preferences() rows.

    A pin of another priority does not keep its package there, so it is none.
    """
    table = {}
    for pin in pins:
        found = re.fullmatch(r"version\s+(\S+)", pin["pin"])
        # Patterns are for what may be installed later.
        if pin["file"] == OWN_PREFERENCES and found and pin["priority"] == OWN_PRIORITY and not _GLOB.search(pin["package"] + found.group(1)):
            table.update((name, found.group(1)) for name in pin["package"].split())
    return table


def parse_own_pins(content):
    """{package: version} of the content of this collection's own preferences file."""
    return own_pins(parse_preferences("==> %s <==\n%s" % (OWN_PREFERENCES, content)).value)


def parse_locks(text):
    """Lines "path: free", "path: absent" or "path: held by PID" to whether one is held."""
    held, problems = False, []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.fullmatch(r"(/[^:]+): (free|absent|held by \d+)", line.strip())
        if found:
            held = held or found.group(2).startswith("held")
        elif line.strip():
            problems.append(not_understood(number, line))
    return Parsed(None if problems and not held else held, problems)


def parse_lock_holders(text):
    """The same lines to [{path, pid, process}] of those that are held; the lines tell no process. parse_locks() has the problems."""
    held = [re.fullmatch(r"(/[^:]+): held by (\d+)", line.strip()) for line in text.splitlines()]
    return Parsed([{"path": found.group(1), "pid": int(found.group(2)[:18]) or None, "process": None} for found in held if found], [])
