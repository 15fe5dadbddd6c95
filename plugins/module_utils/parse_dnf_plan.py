# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What dnf, yum or zypper would do or did: the tables of transactions.

Sources of the formats: dnf's output.py (list_transaction), dnf 5's transaction_table.cpp, yum's output.py, zypper's Summary.cc.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_rpm, versions_rpm
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood

# The heading of a section: (what happens, whether it came as a dependency).
_HEADINGS = (
    (re.compile(r"Installing|Installing group/module packages|Installing from group .*"), ("install", False)),
    (re.compile(r"Installing (weak |group )?dependencies|Installing for dependencies|Installing weak dependencies"), ("install", True)),
    (re.compile(r"(Upgrading|Updating)( group packages)?"), ("upgrade", False)),
    (re.compile(r"(Upgrading|Updating) (for )?dependencies"), ("upgrade", True)),
    (re.compile(r"Downgrading"), ("downgrade", False)),
    (re.compile(r"Reinstalling"), ("install", False)),
    (re.compile(r"Removing|Erasing"), ("remove", False)),
    (re.compile(r"Removing (dependent packages|unused dependencies|for dependencies|group packages)|Erasing for dependencies"), ("remove", True)),
)
# zypper writes sentences and then the names, several to a line.
_ZYPPER = re.compile(r"The following (?:\d+ )?(?:(?P<new>NEW )?(?P<kind>packages?|patch(?:es)?)|.*?) (?:is|are) going to be (?P<done>installed|upgraded"
                     r"|REMOVED|downgraded|reinstalled)[^:]*:", re.IGNORECASE)
_ZYPPER_WORDS = {"installed": "install", "upgraded": "upgrade", "removed": "remove", "downgraded": "downgrade", "reinstalled": "install"}
_ROW = re.compile(r" *(?P<name>[A-Za-z0-9][\w.+-]*)\s+(?P<arch>%s)\s+(?P<evr>[\w.+~^:-]+)(?:\s+(?P<origin>\S+))?.*" % "|".join(
    re.escape(arch) for arch in parse_rpm.ARCHES), re.ASCII)
# dnf 4 names what a package takes the place of with a full name, dnf 5 in columns.
_REPLACING = re.compile(r"\s+replacing\s+(?P<name>[A-Za-z0-9][\w.+-]*?)(?:\.(?P<dotted>[a-z]\w*))?\s+(?:(?P<arch>[a-z]\w*)\s+)?(?P<evr>\d[\w.+~^:-]*)(?:\s.*)?")
_SUMMARY = re.compile(r"Transaction Summary:?|Total (download )?size.*|Total size of inbound.*|Is this ok.*|Operation aborted.*|After this operation.*"
                      r"|Downloading Packages:|Running transaction.*|\d+ (packages?|patch(es)?) to .*")
SECTIONS = ("install", "upgrade", "downgrade", "remove")
_STREAMS = re.compile(r"\s+(?P<module>[A-Za-z][\w.+-]*)\s+(?:(?P<old>[\w.+-]+)\s*->\s*)?(?P<new>[\w.+-]+)\s*")
_MODULE_HEADING = re.compile(r"(Enabling|Switching) module streams:?")


def parse_dnf_plan(text):
    """The tables of a transaction to {tool: "dnf", install, upgrade, downgrade, remove, streams, error}; None without any.

    A row: {name, arch, version, old, origin, dependency}: the version that will be there ("3:560.35.03-1.el9"), the one that is
    there now, where the table names it, the repository, and whether nobody asked for the package. streams: {module: stream} that
    become enabled. Long names may fill a line of their own.
    """
    plan = dict({section: [] for section in SECTIONS}, tool="dnf", streams={}, error=None)
    problems, section, found, pending = [], None, False, ""
    for number, line in enumerate(text.splitlines(), 1):
        heading = _heading(line)
        if heading is not False:
            section, pending, found = heading, "", found or heading not in (None, "end")
            section = None if heading == "end" else heading
            continue
        if section is None or not line.strip() or set(line.strip()) <= set("=- "):
            continue
        if section == "streams":
            _note_stream(plan, line)
            continue
        words = "%s %s" % (pending, line.strip()) if pending else line
        pending, problem = _read_row(plan, section, words, number)
        problems += problem
    return Parsed(plan if found else None, problems if found else [])


def _heading(line):
    """The section that a line begins ((action, dependency), "streams", "end"), None for one that nothing happens in, False for a row."""
    word = line.strip()
    if _SUMMARY.fullmatch(word):
        return "end"
    if _MODULE_HEADING.fullmatch(word):
        return "streams"
    zypper = _ZYPPER.fullmatch(word)
    if zypper:
        return _ZYPPER_WORDS[zypper.group("done").lower()], False
    if line[:1].isspace() or not word.endswith(":"):
        return False
    # Any other heading: skipped packages, module profiles, groups, an error.
    return next((what for pattern, what in _HEADINGS if pattern.fullmatch(word[:-1])), None)


def _note_stream(plan, line):
    found = _STREAMS.fullmatch(line)
    if found:
        plan["streams"][found.group("module")] = found.group("new")


def _read_row(plan, section, line, number):
    """(a name that goes on in the next line, problems) after one line of a section."""
    action, dependency = section
    replaced = _REPLACING.fullmatch(line)
    if replaced:
        _note_replaced(plan[action], replaced)
        return "", []
    found = _ROW.fullmatch(line)
    if found and re.search(r"\d", found.group("evr")):
        version = _plain(found.group("evr"))
        kept, gone = (None, version) if action == "remove" else (version, None)
        plan[action].append({"name": found.group("name"), "arch": found.group("arch"), "version": kept, "old": gone,
                             "origin": found.group("origin"), "dependency": dependency})
        return "", []
    words = line.split()
    if line[:1].isspace() and words and all(re.fullmatch(r"[A-Za-z0-9][\w.+-]*", word) for word in words):
        if len(words) == 1 and not line.startswith("  "):
            return line, []
        # zypper's lists have names only.
        plan[action] += [dict(_name_only(word), dependency=dependency) for word in words]
        return "", []
    return "", [not_understood(number, line)]


def _name_only(word):
    """A word of zypper's lists; only what may be there in several versions has its version."""
    found = re.fullmatch(r"(?P<name>kernel-[a-z0-9-]*?)-(?P<version>\d[^-]*-\d[^-]*)", word)
    return {"name": found.group("name") if found else word, "arch": None, "version": found.group("version") if found else None, "old": None,
            "origin": None}


def _note_replaced(rows, replaced):
    """The version that the last row takes the place of; another name is one that it obsoletes."""
    if not rows:
        return
    if replaced.group("name") == rows[-1]["name"]:
        rows[-1]["old"] = _plain(replaced.group("evr"))
    else:
        rows[-1].setdefault("replaces", []).append("%s-%s" % (replaced.group("name"), _plain(replaced.group("evr"))))


def _plain(evr):
    """A version without an epoch of 0."""
    try:
        return versions_rpm.joined(*versions_rpm.parse(evr))
    except ValueError:
        return evr
