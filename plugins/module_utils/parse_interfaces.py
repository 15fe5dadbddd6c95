# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Network interfaces: iproute2's forms (brief, one-line, long), ifconfig's two, and a plain list of names."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood

_STATES = ("UP", "DOWN", "UNKNOWN", "LOWERLAYERDOWN", "DORMANT", "NOTPRESENT", "TESTING")
# `ip -br addr` and `ip -br link`: name, state, addresses or a hardware address and flags. veth0@if5 is called veth0.
_BRIEF = re.compile(r"([^\s:@]\S{0,60}?)(?:@\S+)?\s+(%s)(?:\s+(.*))?" % "|".join(_STATES))
_LONG = re.compile(r"\d+: ([^\s:@]+)(?:@\S+?)?: <([A-Z0-9_,-]*)>(.*)")
_ONE_LINE = re.compile(r"\d+: ([^\s:@]+)(?:@\S+)?\s+inet6?\s+(\S+).*")
_INET = re.compile(r"\s+inet6? (?:addr: ?)?(\S+).*")
_IFCONFIG = re.compile(r"([^\s:]+): flags=\d+<([A-Z0-9_,]*)>.*")
_OLD_IFCONFIG = re.compile(r"(\S+)\s+Link encap:.*")
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,14}")


def parse_interfaces(text):
    """A list of interfaces to [{name, running, addresses}], in its order.

    running: whether NCCL would use it (UP with a carrier; the loopback's UNKNOWN counts), None where the list does not tell.
    addresses: of IPv4 and IPv6, None in a list that shows none of any interface.
    """
    rows, problems, current = {}, [], None
    names = _names(text)
    if names:
        return Parsed([{"name": name, "running": None, "addresses": None} for name in names], [])
    # A list that has no address anywhere (ip link) does not tell which interface lacks one.
    addressed = False
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found, name, running, addresses = _read(line)
        if not found:
            problems.append(not_understood(number, line))
            continue
        current = name or current
        if current is None:
            continue
        row = rows.setdefault(current, {"name": current, "running": None, "addresses": []})
        row["running"] = running if row["running"] is None else row["running"]
        row["addresses"] += addresses
        addressed = addressed or bool(addresses)
    if not addressed:
        for row in rows.values():
            row["addresses"] = None
    return Parsed(list(rows.values()) if rows or not problems else None, problems)


def _read(line):
    """(understood, name of a new interface, running, addresses) of a line."""
    found = _BRIEF.fullmatch(line.rstrip()) if not line[0].isspace() else None
    if found:
        words = (found.group(3) or "").split()
        flags = next((word[1:-1].split(",") for word in words if word.startswith("<")), None)
        running = found.group(2) in ("UP", "UNKNOWN") if flags is None or found.group(2) != "UNKNOWN" else "LOWER_UP" in flags
        return True, found.group(1), running, [word for word in words if re.match(r"[0-9a-fA-F.:]+/\d+$", word)]
    found = _LONG.fullmatch(line)
    if found:
        flags = found.group(2).split(",")
        return True, found.group(1), "UP" in flags and "LOWER_UP" in flags and "NO-CARRIER" not in flags, []
    found = _ONE_LINE.fullmatch(line)
    if found:
        return True, found.group(1), None, [found.group(2)]
    found = _IFCONFIG.fullmatch(line)
    if found:
        return True, found.group(1), "RUNNING" in found.group(2).split(","), []
    found = _OLD_IFCONFIG.fullmatch(line)
    if found:
        return True, found.group(1), None, []
    if line[0].isspace():
        found = _INET.fullmatch(line)
        running = True if re.search(r"\bUP\b.*\bRUNNING\b", line) else None
        return True, None, running, [found.group(1)] if found else []
    if _NAME.fullmatch(line.strip()):
        return True, line.strip(), None, []
    return False, None, None, []


def _names(text):
    """The names in `ls /sys/class/net`, also in several columns; None for another output. bonding_masters is no interface."""
    words = text.split()
    if not words or not any(len(line.split()) > 1 for line in text.splitlines()) and "bonding_masters" not in words:
        return None
    if "lo" not in words or not all(_NAME.fullmatch(word) and word not in _STATES for word in words):
        return None
    return [word for word in words if word != "bonding_masters"]
