# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`nvidia-smi --query-gpu=... --format=csv` with any columns: known by their heading, else by what stands in them.

Sources of the format: nvidia-smi(1) and `nvidia-smi --help-query-gpu`. A GPU that fails has words in brackets where its values
would be, and the exit status stays 0. "[N/A]" ("[Not Supported]" before driver 450) only says that a board has no such thing.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_nvidia_smi import complaints, is_remark

# What a cell says of its GPU instead of a value.
LOST, SUSPECT = "lost", "suspect"
_FAULTS = (
    (LOST, re.compile(r"\[?\s*(?:GPU is lost|GPU requires reset|Reset Required)\.?\s*\]?", re.IGNORECASE)),
    (SUSPECT, re.compile(r"\[?\s*(?:Unknown Error|ERR!|Timeout)\s*\]?", re.IGNORECASE)),
)
_NOTHING = re.compile(r"\[?\s*(?:N/A|Not Supported|Not Available|Insufficient Permissions|Not Found|Deprecated)\s*\]?|", re.IGNORECASE)
_BUS_ID = re.compile(r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_UUID = re.compile(r"(?:GPU|MIG)-[\w/-]{1,80}", re.ASCII)
_VERSION = re.compile(r"\d{2,3}\.\d{1,4}\.\d{1,4}", re.ASCII)
_SHORT_VERSION = re.compile(r"[2-9]\d{2}\.\d{2,3}", re.ASCII)
_INDEX = re.compile(r"[0-9]{1,3}")
# Words of settings and states, which are no name of a board.
_WORDS = re.compile(r"(?:Enabled|Disabled|Yes|No|On|Off|Active|Not Active|Default|Exclusive_\w+|Exclusive \w+|Prohibited|P\d{1,2}|Completed|In Progress"
                    r"|Success|Pending|None|NVIDIA|Nvidia|GeForce|Tesla|Quadro|All|WDDM|TCC|MCDM|0x[0-9A-Fa-f]+|[\d.]+ ?[A-Za-z/%]{0,6}|GPU-\S+)", re.ASCII)
# In a column of its own a name must be known for one.
_BOARD = re.compile(r"(?:NVIDIA|Tesla|GeForce|Quadro|TITAN|GRID|[ABHLT]\d{1,3}\b).*")
HEADINGS = {
    "index": "index", "name": "name", "gpu_name": "name", "uuid": "uuid", "gpu_uuid": "uuid", "driver_version": "driver_version",
    "kmd_version": "driver_version", "pci.bus_id": "bus_id", "gpu_bus_id": "bus_id",
}
# `--help-query-gpu` names groups of columns like these; a first line of such words alone is the heading.
_HEADING_WORD = re.compile(r"[a-z][a-z0-9_]*(?:\.[a-z0-9_.]+)*(?: \[[\w%/.]+\])?", re.ASCII)


def parse_nvidia_query(text, rc=0):
    """The CSV to {rows, columns, failure, unreachable, invalid_fields, inforom}; rc only counts where nothing was said.

    rows: [{index, name, uuid, driver_version, bus_id, address, state, faults}], None for a column that is not there or has no
    value. bus_id is as printed, address as sysfs writes it. state: "healthy", "lost" (a cell says so, or that it requires a
    reset) or "suspect" (a cell has an error); faults: {column: word}. columns: as known, None for one that is not.
    """
    if not text.strip():
        return Parsed(None, ["it printed nothing and ended with exit status %d" % rc])
    value, problems = dict(complaints(text), rows=[], columns=[]), []
    table = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw[:4000].strip()
        if not line or is_remark(line):
            continue
        table.append((number, [cell.strip() for cell in line.split(",")]))
    if table and _is_heading(table[0][1]):
        heading = [re.sub(r" \[.*", "", cell) for cell in table[0][1]]
        columns = [HEADINGS.get(cell, cell) for cell in heading]
        table = table[1:]
    else:
        columns = _inferred([cells for number, cells in table])
    value["columns"] = columns if set(columns) & set(HEADINGS.values()) else []
    for number, cells in table:
        if len(cells) != len(columns) or not set(columns) & set(HEADINGS.values()):
            problems.append(not_understood(number, ", ".join(cells)))
        else:
            value["rows"].append(_row(columns, cells))
    return Parsed(value if any(value.values()) or not problems else None, problems)


def address(bus_id):
    """A bus id as sysfs writes it: eight digits of a domain below 10000 to four, lower case, a domain where there is none."""
    if bus_id is None:
        return None
    found = bus_id.lower()
    if found.count(":") == 1:
        found = "0000:" + found
    return re.sub(r"^0000(?=[0-9a-f]{4}:)", "", found)


def _is_heading(cells):
    return all(_HEADING_WORD.fullmatch(cell) for cell in cells) and any(cell in HEADINGS or "." in cell or "_" in cell or "[" in cell for cell in cells)


def _row(columns, cells):
    named = dict(zip(columns, cells))
    faults = {}
    for place, (column, cell) in enumerate(zip(columns, cells)):
        kind = _fault(cell)
        if kind:
            faults[column or "column %d" % (place + 1)] = cell.strip("[] ")
    kinds = {_fault(cell) for cell in cells}
    row = {key: _plain(named.get(key)) for key in ("index", "name", "uuid", "driver_version", "bus_id")}
    row["index"] = int(row["index"]) if row["index"] is not None and _INDEX.fullmatch(row["index"]) else None
    row.update(address=address(row["bus_id"]), state=LOST if LOST in kinds else SUSPECT if SUSPECT in kinds else "healthy", faults=faults)
    return row


def _fault(cell):
    return next((kind for kind, pattern in _FAULTS if pattern.fullmatch(cell)), None)


def _plain(cell):
    """The cell's value; None for one that says there is none, or that there is an error."""
    return None if cell is None or _NOTHING.fullmatch(cell) or _fault(cell) else cell


def _inferred(table):
    """The columns by what stands in them. Only rows of the usual length count."""
    if not table:
        return []
    lengths = [len(cells) for cells in table]
    width = max(set(lengths), key=lambda length: (lengths.count(length), length))
    rows = [cells for cells in table if len(cells) == width]
    columns = [None] * width
    values = [[cell for cell in column if _plain(cell) is not None] for column in zip(*rows)]
    for name, fits in (("bus_id", _all(_BUS_ID)), ("uuid", _all(_UUID)), ("driver_version", _same(_VERSION)), ("index", _counts(len(rows))),
                       ("driver_version", _same(_SHORT_VERSION)), ("name", _names if width > 1 else _all(_BOARD))):
        if name not in columns:
            place = next((place for place in range(width) if columns[place] is None and values[place] and fits(values[place])), None)
            if place is not None:
                columns[place] = name
    return columns


def _all(pattern):
    return lambda cells: all(pattern.fullmatch(cell) for cell in cells)


def _same(pattern):
    """One driver runs all GPUs, so its column has one value; readings of power differ."""
    return lambda cells: len(set(cells)) == 1 and pattern.fullmatch(cells[0])


def _counts(rows):
    """Indices: whole numbers that rise by the row."""
    def fits(cells):
        if not all(_INDEX.fullmatch(cell) for cell in cells):
            return False
        numbers = [int(cell) for cell in cells]
        return numbers == sorted(set(numbers)) and numbers[-1] < max(2 * rows, 16)
    return fits


def _names(cells):
    return all(re.search(r"[A-Za-z]{2}", cell) and not _WORDS.fullmatch(cell) for cell in cells)
