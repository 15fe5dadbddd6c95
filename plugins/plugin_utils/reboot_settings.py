# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When nodes may reboot and how many at once: what the user says, checked before anything changes.

lockstep_reboot: never | auto | window. lockstep_reboot_window: {days: [sat, sun], from: "22:00", to: "04:00"} by each node's own clock.
"""
from __future__ import annotations

import os
import re
import typing as t

Row = t.Dict[str, t.Any]

MODES = ("never", "auto", "window")
DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY = 24 * 60
READY_MADE = ("slurm", "kubernetes")
# One node first: what it meets, the others need not meet.
CANARY_FIRST = [1, "25%"]
NAMES = ("lockstep_reboot", "lockstep_reboot_window", "lockstep_rollout", "lockstep_max_fail_percentage", "lockstep_before_reboot", "lockstep_after_reboot",
         "inventory_dir")
# Whole numbers of the role node_kernel, and the least that each may be; -e name=value gives them as text.
NUMBERS = {"node_kernel_keep": 0, "node_kernel_confirm_within": 0, "node_kernel_panic": 0, "node_kernel_trials": 1, "node_kernel_reboot_timeout": 1,
           "node_kernel_drain_timeout": 0, "node_kernel_drain_poll": 1}
_TIME = re.compile(r"(?P<hour>[01]?\d|2[0-4]):(?P<minute>[0-5]\d)")
_SHARE = re.compile(r"[1-9]\d{0,5}|(?:[1-9]\d?|100)%")
_CLOCK = re.compile(r"\s*(?P<day>[1-7])\s+(?P<time>\d{2}:\d{2})\s*")


class SettingError(ValueError):
    """A variable that cannot be meant; one sentence with its name."""


def minutes(value: t.Any, name: str) -> int:
    """A time of day in minutes. Raises SettingError.

    YAML 1.1 reads an unquoted 22:00 as the number 1320 (base 60), which is meant all the same; a plain 22 says no minutes.
    """
    if isinstance(value, int) and not isinstance(value, bool) and 60 <= value <= DAY:
        return value
    found = _TIME.fullmatch(value.strip()) if isinstance(value, str) else None
    total = int(found.group("hour")) * 60 + int(found.group("minute")) if found else DAY + 1
    if total > DAY:
        raise SettingError("lockstep_reboot_window.%s: %r is no time of day; write it as \"22:00\"" % (name, value))
    return total


def window(value: t.Any) -> Row:
    """A window in its plain form: {days: [0..6, 0 is Monday], from, to: minutes}. Raises SettingError.

    A window from 22:00 to 04:00 ends on the day after the one that it is named for. Where both are equal it lasts a whole day.
    """
    if not isinstance(value, t.Mapping):
        raise SettingError("lockstep_reboot_window: is %s; lockstep_reboot=window needs {days: [sat, sun], from: \"22:00\", to: \"04:00\"}" % (
            "missing" if value is None else "no mapping"))
    strange = sorted(str(key) for key in set(value) - {"days", "from", "to"})
    lacking = [key for key in ("from", "to") if key not in value]
    if strange or lacking:
        raise SettingError("lockstep_reboot_window: %s; its keys are days, from, to" % (
            "has no key '%s'" % strange[0][:80] if strange else "lacks '%s'" % lacking[0]))
    named = value.get("days", list(DAYS))
    named = [named] if isinstance(named, str) else named
    if not isinstance(named, (list, tuple)) or not named:
        raise SettingError("lockstep_reboot_window.days: names no day; days are %s" % ", ".join(DAYS))
    days = set()
    for name in named:
        day = name.strip().lower()[:3] if isinstance(name, str) and re.fullmatch(r"[A-Za-z]{3}(?:[a-z]*day)?", name.strip()) else None
        if day not in DAYS:
            raise SettingError("lockstep_reboot_window.days: %r is no day; days are %s" % (name, ", ".join(DAYS)))
        days.add(DAYS.index(day))
    return {"days": sorted(days), "from": minutes(value["from"], "from") % DAY, "to": minutes(value["to"], "to") % DAY}


def inside(value: t.Any, clock: str) -> bool:
    """Whether a node's clock is inside a window. clock: `date "+%u %H:%M"`, 1 is Monday. Raises SettingError."""
    wanted = window(value)
    found = _CLOCK.fullmatch(clock) if isinstance(clock, str) else None
    if not found:
        raise SettingError("the node's clock says %r; expected the day of the week as a number, and the time" % (clock,))
    day, now = int(found.group("day")) - 1, minutes(found.group("time"), "now")
    start, end = wanted["from"], wanted["to"]
    if start < end:
        return day in wanted["days"] and start <= now < end
    return (day in wanted["days"] and now >= start) or ((day - 1) % 7 in wanted["days"] and now < end)


def mode(value: t.Any) -> str:
    """lockstep_reboot. Raises SettingError. YAML 1.1 reads `no` and `off` as false, which can only mean never."""
    found = "never" if value is None or value is False or value == "" else value
    if found not in MODES:
        raise SettingError("lockstep_reboot: is %r; candidates: %s" % (value, ", ".join(MODES)))
    return str(found)


def hooks(value: t.Any, name: str) -> t.List[str]:
    """A list of tasks files and ready-made names. Raises SettingError."""
    found = [value] if isinstance(value, str) and value else value or []
    if not isinstance(found, (list, tuple)) or not all(isinstance(entry, str) and entry.strip() for entry in found):
        raise SettingError("%s: is a list of tasks files, or of %s" % (name, ", ".join(READY_MADE)))
    for entry in found:
        if entry not in READY_MADE and not entry.endswith((".yml", ".yaml")):
            raise SettingError("%s: '%s' is neither a tasks file (.yml) nor ready-made; candidates: %s" % (name, entry[:200], ", ".join(READY_MADE)))
    return list(found)


def ready_made(before: t.Any, after: t.Any) -> t.List[str]:
    """lockstep_after_reboot; where nothing is said, what undoes the ready-made hooks before the boot, the last one first."""
    if after is not None:
        return hooks(after, "lockstep_after_reboot")
    return [entry for entry in reversed(hooks(before, "lockstep_before_reboot")) if entry in READY_MADE]


def files(names: t.Sequence[str], when: str, role: str, places: t.Sequence[str]) -> t.List[str]:
    """The tasks files that hooks mean: those of the role for ready-made names, else the first that is there. Raises SettingError.

    when: before | after. places: folders in which a relative name is looked for, in order.
    """
    found = []
    for name in names:
        if name in READY_MADE:
            found.append(os.path.join(role, "tasks", "hooks", "%s_%s.yml" % (name, when)))
            continue
        candidates = [os.path.join(place, name) for place in places if place]
        there = [path for path in candidates if os.path.isfile(path)]
        if not there:
            raise SettingError("lockstep_%s_reboot: there is no file %s" % (when, ", nor ".join(candidates) or name))
        found.append(os.path.abspath(there[0]))
    return found


def number(value: t.Any, name: str) -> None:
    """A variable of NUMBERS that is none. Raises SettingError."""
    if isinstance(value, bool) or not re.fullmatch(r"\d{1,8}", str(value).strip()) or int(value) < NUMBERS[name]:
        raise SettingError("%s: %r is no whole number from %d on" % (name, value, NUMBERS[name]))


def batches(value: t.Any) -> t.List[t.Union[int, str]]:
    """lockstep_rollout: how many nodes at once, as Ansible's serial takes it. Raises SettingError."""
    rows = list(value) if isinstance(value, (list, tuple)) else [value]
    if not rows or not all(not isinstance(row, bool) and _SHARE.fullmatch(str(row)) for row in rows):
        raise SettingError("lockstep_rollout: %r is neither a number of nodes, a percentage, nor a list of these" % (value,))
    return [str(row) if str(row).endswith("%") else int(row) for row in rows]


def percentage(value: t.Any) -> float:
    """lockstep_max_fail_percentage. Raises SettingError."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        found = -1.0
    if isinstance(value, bool) or not 0 <= found <= 100:
        raise SettingError("lockstep_max_fail_percentage: %r is no number from 0 to 100" % (value,))
    return found


def settings(nodes: t.Mapping[str, t.Mapping[str, t.Any]], places: t.Sequence[str] = ()) -> Row:
    """{serial, max_fail_percentage} of a run, by {node: its variables}; everything else is checked. Raises SettingError.

    places: folders of hooks beside each node's inventory.

    A rollout is one for all nodes, so what nodes say of it must agree. Where nodes may reboot, one goes first unless told otherwise.
    """
    said: t.Dict[str, t.List[t.Any]] = {"lockstep_rollout": [], "lockstep_max_fail_percentage": []}
    reboots = False
    for node, variables in nodes.items():
        try:
            how = mode(variables.get("lockstep_reboot"))
            given = variables.get("lockstep_reboot_window")
            if how == "window" or given is not None:
                window(given)
            before = hooks(variables.get("lockstep_before_reboot"), "lockstep_before_reboot")
            folders = [*places, variables.get("inventory_dir") or ""]
            files(before, "before", "", folders)
            files(ready_made(before, variables.get("lockstep_after_reboot")), "after", "", folders)
            for name in NUMBERS:
                if variables.get(name) is not None:
                    number(variables[name], name)
        except SettingError as error:
            raise SettingError("%s: %s" % (node, error)) from None
        reboots = reboots or how != "never"
        for name, values in said.items():
            if variables.get(name) is not None and variables[name] not in values:
                values.append(variables[name])
    for name, values in said.items():
        if len(values) > 1:
            raise SettingError("%s: differs between nodes (%s); a rollout has one" % (name, ", ".join(str(value) for value in values)))
    rollout, limit = said["lockstep_rollout"], said["lockstep_max_fail_percentage"]
    return {"serial": batches(rollout[0]) if rollout else list(CANARY_FIRST) if reboots else ["100%"],
            "max_fail_percentage": percentage(limit[0]) if limit else 0.0}
