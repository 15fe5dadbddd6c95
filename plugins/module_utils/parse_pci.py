# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""PCI devices to GPUs and NVSwitches."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, parse_paths

_ADDRESS = r"(?P<address>(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])"
_ID = r"(?P<id>[0-9a-f]{4}:[0-9a-f]{4})"
_FORMS = (
    # lspci -n, lspci -Dn, and the live probe
    re.compile(_ADDRESS + r" (?P<class>[0-9a-f]{4}): " + _ID + r"(?: \(.*)?"),
    # lspci -nn: the last bracket is the id, the first the class
    re.compile(_ADDRESS + r" [^\[]*\[(?P<class>[0-9a-f]{4})\]: .*\[" + _ID + r"\](?: \(.*)?"),
)
# lspci without numbers: a class by its name, then vendor and product, which is a number where pci.ids is too old for it.
_NAMED = re.compile(_ADDRESS + r" (?P<kind>[^:\[]{1,60}): (?P<name>\S.*?)(?: \(rev [0-9a-f]{2}\))?(?: \(prog-if .*\))?")
_CLASS_NAMES = {"vga compatible controller": "0300", "3d controller": "0302", "bridge": "0680"}
# Any line that begins a device; what tells a display controller of NVIDIA, by number or by name.
_HEAD = re.compile(_ADDRESS + r" ")
_DISPLAY = re.compile(r"(?:030[02]: 10de:|(?:vga compatible|3d|display) controller.*(?:nvidia|\[10de:))")
NVIDIA = "10de"
GPU_CLASSES = ("0300", "0302")
# The PCI class of an NVSwitch: bridge, other.
NVSWITCH_CLASS = "0680"


def parse_pci(text):
    """`lspci -Dn` or `lspci -nn` to [{address, id, class}]; an address without a domain gets 0000.

    Of plain `lspci` only NVIDIA's GPUs and NVSwitches have rows, with the id None and the product in brackets, if any, as product.
    fallen: True is a further key of a device whose configuration space reads as ff: it no longer answers on the bus.
    """
    rows, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line[0] in " \t":
            continue
        found = next((match for match in (form.fullmatch(line.strip().lower()) for form in _FORMS) if match), None)
        named = _NAMED.fullmatch(line.strip().lower()) if not found else None
        if named:
            rows += _named(named)
            continue
        if not found:
            problems.append(not_understood(number, line))
            continue
        address = found.group("address")
        rows.append({"address": address if address.count(":") == 2 else "0000:" + address,
                     "id": found.group("id"), "class": found.group("class")})
        if "(rev ff)" in line.lower():
            rows[-1]["fallen"] = True
    return Parsed(rows, problems)


def _named(found):
    """The row of a device that has a name instead of numbers: none for other vendors' and other kinds."""
    kind, name, address = _CLASS_NAMES.get(found.group("kind")), found.group("name"), found.group("address")
    if not kind or not name.startswith("nvidia corporation"):
        return []
    number, product = re.search(r" device ([0-9a-f]{4})$", name), re.search(r"\[([^\]]+)\]$", name)
    row = {"address": address if address.count(":") == 2 else "0000:" + address, "id": "10de:" + number.group(1) if number else None, "class": kind}
    if product:
        row["product"] = product.group(1)
    if "(rev ff)" in found.group():
        row["fallen"] = True
    return [row]


def parse_pci_drivers(text):
    """`lspci -k`, with or without numbers, to {address: driver} of NVIDIA's display controllers; None without a driver.

    A device without a line for its driver is left out where no device has one: then the list was made without -k.
    """
    value, current, told = {}, None, False
    for line in text.splitlines():
        head = _HEAD.match(line[:1000].lower())
        if head:
            current = head.group("address") if _DISPLAY.search(line[:1000].lower()) else None
            current = "0000:" + current if current and current.count(":") == 1 else current
            if current:
                value[current] = None
        found = re.match(r"\s+Kernel driver in use: (\S{1,100})", line[:1000])
        if found:
            told = True
            value.update({current: found.group(1)} if current else {})
        told = told or line.lstrip().startswith("Kernel modules:")
    return Parsed(value if told else {}, [])


# ls -l, and what ls prints of /dev/nvidia-caps beside the nodes themselves.
_LONG = re.compile(r"[bcdl-][rwxsStT-]{9}[.+@]?[ \t].*/")
_OF_A_FOLDER = re.compile(r"/\S{1,300}:|total \d{1,9}|(?:[bc][rwx-]{9}[.+@]?[ \t].{1,200}[ \t])?nvidia-cap(?:-imex-channel|)s?\d{1,5}|channel\d{1,5}")


def parse_device_nodes(text):
    """Device nodes of the NVIDIA driver, as ls or ls -l prints them, to whether there are any. A container has only what was passed in."""
    lines = [line.rsplit(None, 1)[-1] if _LONG.match(line) else line for line in text.splitlines() if not _OF_A_FOLDER.fullmatch(line.strip())]
    found, problems = parse_paths("\n".join(lines))
    return Parsed(None if problems else bool(found), problems)


def gpus(devices):
    """The NVIDIA display controllers among parse_pci() rows (their audio and USB functions are none)."""
    return [row for row in devices if _nvidias(row) and row["class"] in GPU_CLASSES]


def nvswitches(devices):
    """The NVSwitches among parse_pci() rows: [{address, id}]."""
    return [{"address": row["address"], "id": row["id"]} for row in devices
            if _nvidias(row) and row["class"] == NVSWITCH_CLASS]


def _nvidias(row):
    # A row without a number was made for a name of NVIDIA's.
    return row["id"] is None or row["id"].startswith(NVIDIA + ":")
