# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVLink fabric: what fabric manager says, what its unit does, and what each GPU reports.

Messages: NVIDIA's Fabric Manager User Guide, and the journals in github.com/NVIDIA/gpu-operator issues 544 and 610.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_nvidia_smi import answered, in_words, is_remark

_VERSION = r"\d{3}\.\d{2,3}(?:\.\d{2})?"
# Releases and people who copy them write: don't match, doesn't match, do not match; terminals cut the end off.
_DIFFERS = re.compile(r"driver interface version (?P<manager>%s)\b(?:[^\n]{0,40}?match with[^\n]{0,20}?driver version (?P<driver>%s))?"
                      % (_VERSION, _VERSION), re.IGNORECASE)
_RUNNING = re.compile(r"fabric manager version (?:is\s*:?\s*)?(?P<manager>%s)\b" % _VERSION, re.IGNORECASE)
# Later lines win: the last of these is how it stands. (pattern, reason)
_EVENTS = (
    (re.compile(r"driver interface version |fabric manager version is incompatible", re.IGNORECASE), "version_differs"),
    (re.compile(r"NV_WARN_NOTHING_TO_DO"), "nothing_to_do"),
    (re.compile(r"Successfully configured all the available|Started [^\n]{0,60}fabric ?manager", re.IGNORECASE), "started"),
    (re.compile(r"Stopped [^\n]{0,60}fabric ?manager|nvidia-fabricmanager\.service: Deactivated", re.IGNORECASE), "stopped"),
    (re.compile(r"request to query NVSwitch device information[^\n]{0,80}failed|NVSwitch driver (?:is )?not loaded", re.IGNORECASE), "no_devices"),
)
# These only say that it ended; the reason comes before them.
_FAILED = re.compile(r"nvidia-fabricmanager\.service: (?:Control|Main) process exited|nvidia-fabricmanager\.service: Failed with"
                     r"|Failed to start [^\n]{0,60}fabric ?manager", re.IGNORECASE)
_LONGEST = 2000


def parse_fabric_manager_log(text, rc=0):
    """The journal of nvidia-fabricmanager, `systemctl status` of it or /var/log/fabricmanager.log to {reason, manager, driver}.

    reason: how the last start ended: version_differs, nothing_to_do (no NVSwitch), no_devices, started, stopped, failed
    (without a reason), or None. manager and driver: the versions that were named, None else. A log has lines of any kind,
    so none is a problem.
    """
    found = {"reason": None, "manager": None, "driver": None}
    for line in text.splitlines():
        if len(line) > _LONGEST:
            continue
        named = _DIFFERS.search(line) or _RUNNING.search(line)
        if named:
            found.update(manager=named.group("manager"), driver=named.groupdict().get("driver"))
        reason = next((reason for pattern, reason in _EVENTS if pattern.search(line)), None)
        if reason is None and _FAILED.search(line) and found["reason"] in (None, "started", "stopped"):
            reason = "failed"
        found["reason"] = reason or found["reason"]
    return Parsed(found, [])


def parse_fabric_manager_version(text):
    """`nv-fabricmanager --version` to the version."""
    found = _RUNNING.search(text[:_LONGEST])
    return Parsed(found.group("manager"), []) if found else Parsed(None, ["no fabric manager version in it"])


_SHOWN = re.compile(r"(LoadState|ActiveState|SubState|UnitFileState|Result)=([\w-]*)")
_SHOW_KEYS = {"LoadState": "load", "ActiveState": "active", "SubState": "sub", "UnitFileState": "enabled", "Result": "result"}
_LOADED = re.compile(r"\s*Loaded: ([\w-]+)(?: \([^;)]*(?:; ([\w-]+))?)?")
_ACTIVE = re.compile(r"\s*Active: ([\w-]+)(?: \((?:Result: )?([\w-]+)\))?")
_WORDS = {"active": "active", "inactive": "active", "failed": "active", "activating": "active", "deactivating": "active",
          "enabled": "enabled", "disabled": "enabled", "static": "enabled", "masked": "enabled"}


def parse_unit_status(text, rc=0):
    """`systemctl status`, `show`, `is-active` or `is-enabled` of one unit to {load, active, sub, enabled, result}, None where not said."""
    unit = dict.fromkeys(("load", "active", "sub", "enabled", "result"))
    for line in text.splitlines():
        if len(line) > _LONGEST:
            continue
        shown, loaded, active = _SHOWN.fullmatch(line.strip()), _LOADED.match(line), _ACTIVE.match(line)
        if shown:
            unit[_SHOW_KEYS[shown.group(1)]] = shown.group(2) or None
        elif loaded:
            unit["load"], unit["enabled"] = loaded.group(1), loaded.group(2)
        elif active:
            unit["active"] = active.group(1)
            unit["result" if unit["active"] == "failed" else "sub"] = active.group(2)
        elif re.search(r"could not be found|not-found|No such file or directory|No files found for", line):
            unit["load"] = "not-found"
        elif line.strip() in _WORDS:
            unit[_WORDS[line.strip()]] = line.strip()
    without = "not been booted with systemd" in text or "Failed to connect to bus" in text
    return Parsed(unit, [] if without or any(unit.values()) else ["no state of a unit in it"])


# nvmlGpuFabricState_t, and what nvidia-smi writes where there is no value.
_STATES = {"completed": "Completed", "in progress": "In Progress", "not started": "Not Started", "not supported": "Not Supported",
           "n/a": "N/A", "unknown error": "Unknown Error", "gpu is lost": "GPU is lost", "requires reset": "Requires reset",
           "gpu requires reset": "Requires reset"}


def _word(cell):
    return cell.strip().strip("[]").strip()


def parse_fabric_states(text, rc=0):
    """Fabric state of each GPU to rows {index, name, state, status}.

    From `nvidia-smi --query-gpu=...,fabric.state[,fabric.status] --format=csv` with or without its heading, and from the Fabric
    blocks of `nvidia-smi -q`. Brackets are taken off; status is None where the query did not ask for it. None, without a
    problem, where nvidia-smi is too old for the question.
    """
    lines = in_words(text).splitlines()
    if "is not a valid field to query" in text[:_LONGEST]:
        return Parsed(None, [])
    if any(line.strip() == "Fabric" for line in lines):
        return _from_blocks(lines)
    rows, problems = [], []
    for number, line in enumerate(lines, 1):
        cells = [cell.strip() for cell in line.split(",")] if len(line) <= _LONGEST else [line]
        if not line.strip() or cells[-1].startswith("fabric.") or is_remark(line):
            continue
        place = next((place for place, cell in enumerate(cells) if _word(cell).lower() in _STATES), None)
        if place is None:
            problems.append(not_understood(number, line))
            continue
        names = [cell for cell in cells[:place] if not re.fullmatch(r"\d+|GPU-[0-9a-f-]+|[0-9A-Fa-f]+:[0-9A-Fa-f:.]+", cell)]
        rows.append({"index": int(cells[0]) if re.fullmatch(r"\d{1,4}", cells[0]) else len(rows), "name": names[0] if names else None,
                     "state": _STATES[_word(cells[place]).lower()],
                     "status": _word(cells[place + 1]) if len(cells) > place + 1 else None})
    return Parsed(rows if rows or answered(text) else None, problems)


def _from_blocks(lines):
    """Rows from `nvidia-smi -q`, or from what grep left of it."""
    rows, name, inside = [], None, False
    for line in lines:
        key, colon, value = line.strip().partition(":")
        key, value = key.strip(), value.strip()
        if key == "Fabric" and not colon:
            rows.append({"index": len(rows), "name": name, "state": None, "status": None})
            inside = True
        elif key == "Product Name" and colon:
            name, inside = value, False
        elif inside and colon and key in ("State", "Status"):
            rows[-1][key.lower()] = _STATES.get(_word(value).lower(), _word(value)) if key == "State" else _word(value)
            inside = key == "State"
    known = [row for row in rows if row["state"]]
    return Parsed(known, [] if len(known) == len(rows) else ["%d GPUs without a fabric state" % (len(rows) - len(known))])


def parse_fabric_config(text):
    """fabricmanager.cfg to {fabric_mode}: 0 bare metal or full passthrough, 1 shared NVSwitch, 2 vGPU; None when it is not set."""
    found = re.findall(r"^[ \t]*FABRIC_MODE[ \t]*=[ \t]*(\d{1,3})[ \t]*$", text, re.MULTILINE)
    return Parsed({"fabric_mode": int(found[-1]) if found else None}, [])


def parse_nvswitch_nodes(text, rc=0):
    """`ls /dev/nvidia-nvswitch*` or of /proc/driver/nvidia-nvswitch/devices to the names of the switches; the control node is none."""
    names = []
    for word in text.split("\n"):
        name = word.strip().rstrip(":").rsplit(None, 1)[-1].rsplit("/", 1)[-1] if word.strip() else ""
        if re.fullmatch(r"nvidia-nvswitch\d+|(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", name):
            names.append(name)
    return Parsed(names, [])


_KERNEL_SAYS = re.compile(r"nvidia-nvswitch[^\n:]{0,20}: Version mismatch, kernel version (%s) user version (%s)" % (_VERSION, _VERSION))


def parse_nvswitch_mismatch(text, rc=0):
    """The kernel's log to {kernel, user}: a program asked the NVSwitch driver with another version; None when none did."""
    found = _KERNEL_SAYS.findall(text)
    return Parsed({"kernel": found[-1][0], "user": found[-1][1]} if found else None, [])
