# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What apt would do, did, and may do by itself: simulations, its history, holds, and unattended-upgrades."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_dpkg, versions
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, split_files

KINDS = ("install", "upgrade", "downgrade", "remove")
_NAME = r"[a-z0-9][a-z0-9.+-]*(?::[a-z0-9-]+)?"
_STEP = re.compile(r"(Inst|Remv|Purg|Conf) (%s)(?: \[([^\]\s]+)\])?(?: \(([^\s()\[\]]+)(?: ([^\[\]()]*))?(?:\[([a-z0-9-]+)\])?\))?.*" % _NAME)
_HOLD = re.compile(r"(?P<name>%s)(?:\s+(?P<word>hold|install|deinstall|purge))?" % _NAME)
_HISTORY = {"Install": "install", "Upgrade": "upgrade", "Downgrade": "downgrade", "Remove": "remove", "Purge": "remove",
            "Reinstall": "install"}
_MOVED = re.compile(r"(?<![a-z0-9.+:-])(%s) \(([^()]*)\)" % _NAME)


def empty(tool="apt"):
    """A transaction in which nothing happens; facts_apt.section() says what it holds."""
    return dict({kind: [] for kind in KINDS}, tool=tool, error=None)


def entry(name, version=None, old=None, origin=None, arch=None):
    """One package of a transaction; name:arch is taken apart."""
    plain, _colon, own = name.partition(":")
    return {"name": plain, "arch": own or arch or None, "version": version or None, "old": old or None, "origin": origin or None}


def kind_of(version, old):
    """Which part of a transaction a package belongs to that will be there."""
    if not old:
        return "install"
    try:
        return "downgrade" if versions.compare(version, old) < 0 else "upgrade"
    except ValueError:
        return "upgrade"


def parse_simulation(text):
    """`apt-get -s` to a transaction; None where the text has no step of one. Other lines are apt's remarks.

    Inst NAME [OLD] (NEW ORIGIN [ARCH]), Remv NAME [OLD], Conf. Format: apt-get(8), --simulate; apt-pkg/algorithms.cc.
    """
    value, found = empty(), False
    for line in text.splitlines():
        step = _STEP.fullmatch(line.strip())
        # apt tells of a simulation that moves nothing, too.
        found = found or bool(step) or bool(re.match(r"\s*0 upgraded, 0 newly installed", line))
        if step and step.group(1) in ("Remv", "Purg"):
            value["remove"].append(entry(step.group(2), old=step.group(3)))
        elif step and step.group(1) == "Inst":
            row = entry(step.group(2), step.group(4), step.group(3), (step.group(5) or "").strip(), step.group(6))
            value[kind_of(row["version"], row["old"])].append(row)
    return Parsed(value if found else None, [])


def parse_holds(text):
    """`apt-mark showhold`, `dpkg --get-selections`, `aptitude search ~ahold` or rows of `dpkg -l` to the held names, sorted."""
    held, problems = set(), []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _HOLD.fullmatch(line.strip())
        aptitude = re.match(r"[a-z]h[A-Z]? +(%s) +- " % _NAME, line)
        rows, wrong = parse_dpkg.parse_rows(line)
        if found and found.group("word") in (None, "hold"):
            held.add(found.group("name"))
        elif aptitude:
            held.add(aptitude.group(1))
        elif not found:
            held.update(row["name"] for row in rows if row["want"] == "hold")
            problems += [not_understood(number, line)] if wrong else []
    return Parsed(sorted(held), problems)


def parse_history(text):
    """/var/log/apt/history.log to its runs, oldest first: {start, command, by, error, install, upgrade, downgrade, remove}.

    by: the program that ran apt. A log that begins in the middle of a run keeps that run. Format: apt-pkg/deb/dpkgpm.cc.
    """
    runs, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        field, colon, value = line.partition(": ")
        if not line.strip() or field in ("Requested-By", "End-Date") or line.startswith("==> "):
            continue
        if not colon or field not in _HISTORY and field not in ("Start-Date", "Commandline", "Error"):
            problems.append(not_understood(number, line))
            continue
        if field == "Start-Date" or not runs:
            runs.append(dict({kind: [] for kind in KINDS}, start=None, command=None, by=None, error=None))
        if field == "Start-Date":
            runs[-1]["start"] = " ".join(value.split())
        elif field == "Commandline":
            runs[-1].update(command=value.strip(), by=(value.split() or [""])[0].rsplit("/", 1)[-1] or None)
        elif field == "Error":
            runs[-1]["error"] = value.strip()
        else:
            runs[-1][_HISTORY[field]] += [_moved(field, name, words) for name, words in _MOVED.findall(value)]
    return Parsed(runs, problems)


def _moved(field, name, words):
    """Upgrade: (OLD, NEW); others (VERSION), perhaps with ", automatic" at the end."""
    parts = [part.strip() for part in words.split(",") if part.strip() != "automatic"]
    if field in ("Upgrade", "Downgrade"):
        return entry(name, parts[1] if len(parts) > 1 else None, parts[0] if parts else None)
    if field in ("Remove", "Purge"):
        return entry(name, old=parts[0] if parts else None)
    return entry(name, parts[0] if parts else None)


# apt's own files have three.
_MOST_LEVELS = 32
_TOKEN = re.compile(r'\s+|//[^\n]*|/\*.*?(?:\*/|\Z)|#[^\n]*|"(?P<text>[^"\n]*)"?|(?P<mark>[{};])|(?P<word>[^\s{};"]+)', re.DOTALL)


def settings(text):
    """apt.conf(5) to [(lower-case path, value)] in the order of the text: Unattended-Upgrade::Package-Blacklist:: "x";"""
    rows, folders, words = [], [], []
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "text":
            words.append((token.group("text"), True))
        elif token.lastgroup == "word":
            words.append((token.group("word"), False))
        elif token.lastgroup == "mark":
            name = next((word for word, quoted in words if not quoted), None)
            value = words[-1][0] if words and (words[-1][1] or len(words) > 1) else None
            if token.group("mark") == ";" and value is not None:
                path = [part for folder in folders for part in folder] + (name.lower().rstrip(":").split("::") if name else [])
                rows.append(("::".join(path), value))
            elif token.group("mark") == "{":
                if len(folders) >= _MOST_LEVELS:
                    break
                folders.append(name.lower().rstrip(":").split("::") if name else [])
            elif token.group("mark") == "}" and folders:
                folders.pop()
            words = []
    return rows


def parse_unattended(text):
    """Files of /etc/apt/apt.conf.d, one or as `tail -v -n +1` prints them, to {enabled, blacklist, whitelist, origins}.

    blacklist, whitelist: regular expressions that unattended-upgrades matches at the beginning of a name; enabled: None where
    nothing says so. Formats: apt.conf(5), the README of unattended-upgrades.
    """
    files, _before = split_files(text)
    rows = [row for content in ([content for _path, content in files] or [text]) for row in settings(content)]
    # A value that is empty takes the list's earlier entries away nowhere: only #clear does, which nobody ships.
    wanted = {"unattended-upgrade::package-blacklist": "blacklist", "unattended-upgrade::package-whitelist": "whitelist",
              "unattended-upgrade::allowed-origins": "origins", "unattended-upgrade::origins-pattern": "origins"}
    value = {"enabled": None, "blacklist": [], "whitelist": [], "origins": []}
    for path, setting in rows:
        if path in wanted and setting:
            value[wanted[path]].append(setting)
        elif path == "apt::periodic::unattended-upgrade":
            value["enabled"] = setting not in ("0", "")
    return Parsed(value, [])
