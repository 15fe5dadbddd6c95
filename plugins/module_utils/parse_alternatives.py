# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian's alternatives: the administrative file (update-alternatives(1)) and --query to one form."""

from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, shown


def parse_admin_file(text):
    """/var/lib/dpkg/alternatives/NAME to {mode, link, value: None, choices: [{path, priority, links}]}.

    The file: mode, master link, then name and link of each slave up to an empty line, then for each choice its path,
    priority and one line for each slave (empty where it has none), closed by an empty line. The selected value is not
    in it: it is where /etc/alternatives/NAME points to.
    """
    lines = iter(text.splitlines())
    try:
        mode, link = next(lines), next(lines)
        if mode not in ("auto", "manual"):
            return Parsed(None, ["mode is neither auto nor manual: %s" % shown(mode)])
        slaves = []
        while True:
            name = next(lines)
            if not name:
                break
            slaves.append(name)
            next(lines)
        choices = []
        while True:
            path = next(lines, "")
            if not path:
                break
            priority = int(next(lines))
            targets = [next(lines) for _slave in slaves]
            choices.append({"path": path, "priority": priority,
                            "links": {name: target for name, target in zip(slaves, targets) if target}})
    except StopIteration:
        return Parsed(None, ["ends too early"])
    except ValueError:
        return Parsed(None, ["a priority is not a number"])
    return Parsed({"mode": mode, "link": link, "value": None, "choices": choices}, [])


def parse_query(text):
    """`update-alternatives --query NAME` to the same form, with the value."""
    blocks = [_fields(block) for block in text.split("\n\n") if block.strip()]
    if not blocks or "Name" not in blocks[0] or blocks[0].get("Status") not in ("auto", "manual"):
        return Parsed(None, ["no Name and Status fields"])
    head, choices = blocks[0], []
    for block in blocks[1:]:
        try:
            choices.append({"path": block["Alternative"], "priority": int(block["Priority"]),
                            "links": dict(line.split(" ", 1) for line in block.get("Slaves", []))})
        except (KeyError, ValueError):
            return Parsed(None, ["an alternative without path, priority or slave targets"])
    value = head.get("Value")
    return Parsed({"mode": head["Status"], "link": head.get("Link"), "value": None if value == "none" else value,
                   "choices": choices}, [])


def parse_alternatives(text):
    """What parse_query() understood, None when nothing."""
    return parse_query(text).value


def _fields(block):
    """"Key: value" lines to a dict; the indented lines after "Slaves:" to a list."""
    fields = {}
    for line in block.splitlines():
        if line.startswith(" "):
            fields.setdefault("Slaves", []).append(line.strip())
            continue
        key, _colon, value = line.partition(":")
        if key != "Slaves":
            fields[key] = value.strip()
    return fields
