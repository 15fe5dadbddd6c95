# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine around the GPUs: virtualization, services, limits, RDMA ports, and the modes of each GPU."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_nvidia_smi import answered, is_remark

_LONGEST = 2000


def parse_virtualization(text, rc=0):
    """`systemd-detect-virt` (it ends with 1 for "none"), or the "Virtualization:" line of hostnamectl or lscpu, to systemd's word."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    for row in text.splitlines():
        named = re.match(r"\s*(?:Virtualization|Hypervisor vendor):\s*([\w-]+)\s*$", row[:_LONGEST])
        line = named.group(1) if named else line
    word = line.lower()
    return Parsed(word, []) if re.fullmatch(r"[a-z][\w-]{1,30}", word) else Parsed(None, ["expected one word, not %d characters" % len(text)])


_SHOW = {"LoadState": "load", "ActiveState": "active", "SubState": "sub", "UnitFileState": "enabled", "Result": "result"}


def parse_services(text, rc=0):
    """`systemctl show UNIT... -p Id,LoadState,ActiveState,SubState,UnitFileState,Result` to {unit: {load, active, sub, enabled, result}}."""
    units, problems, one = {}, [], {}
    for number, line in enumerate(text.splitlines(), 1):
        key, equals, value = line.strip().partition("=")
        if key == "Id" and equals:
            one = dict.fromkeys(_SHOW.values())
            units[re.sub(r"\.service$", "", value)] = one
        elif key in _SHOW and equals:
            one[_SHOW[key]] = value or None
        elif line.strip() and not equals:
            problems.append(not_understood(number, line))
    return Parsed(units, problems)


def parse_unit_files(text):
    """Lines "unit: enabled|disabled|static|masked|absent" to {unit: word}."""
    units, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.fullmatch(r"\s*([\w@.-]+): (enabled|disabled|static|masked|absent)\s*", line[:_LONGEST])
        if found:
            units[found.group(1)] = found.group(2)
        elif line.strip():
            problems.append(not_understood(number, line))
    return Parsed(units, problems)


def parse_host_settings(text):
    """Lines "name: value" to {name: number, text, or None where the kernel has no such setting}."""
    value, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.fullmatch(r"\s*([a-z_]+):\s*(.*?)\s*", line[:_LONGEST])
        if found:
            name, word = found.groups()
            value[name] = int(word) if re.fullmatch(r"\d{1,19}", word) else word or None
        elif line.strip():
            problems.append(not_understood(number, line))
    return Parsed(value, problems)


def parse_rdma_ports(text):
    """Lines of `grep -H . /sys/class/infiniband/*/ports/*/{state,rate,link_layer}` to rows {device, port, state, rate, link_layer}."""
    rows, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.fullmatch(r"/sys/class/infiniband/([\w.-]+)/ports/(\d{1,3})/(state|rate|link_layer):\s*(.*?)\s*", line[:_LONGEST])
        if found:
            device, port, key, word = found.groups()
            row = rows.setdefault((device, int(port)), {"device": device, "port": int(port), "state": None, "rate": None, "link_layer": None})
            # The kernel writes a number before the word: "4: ACTIVE".
            row[key] = re.sub(r"^\d+: ", "", word) or None
        elif line.strip():
            problems.append(not_understood(number, line))
    return Parsed([rows[key] for key in sorted(rows)], problems)


def parse_nics(text):
    """`lspci -Dn -d 15b3:`, perhaps followed by " (net NAMES, ib NAMES)", to rows {address, id, class, net, ib}."""
    rows, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.fullmatch(r"([0-9a-f:.]{7,16}) ([0-9a-f]{4}): (15b3:[0-9a-f]{4})(?: \((.*)\))?\s*", line[:_LONGEST])
        if not found:
            if line.strip():
                problems.append(not_understood(number, line))
            continue
        address, kind, ident, more = found.groups()
        names = dict(re.findall(r"(net|ib) ([^,)]+)", more or ""))
        rows.append({"address": address if address.count(":") == 2 else "0000:" + address, "id": ident, "class": kind,
                     "net": names.get("net", "").split(), "ib": names.get("ib", "").split()})
    return Parsed(rows, problems)


def parse_acs(text):
    """Lines "address: control bits in hex" of the PCI bridges with Access Control Services to {address: whether it redirects requests}."""
    value, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.fullmatch(r"([0-9a-f:.]{7,16}): (?:0x)?([0-9a-f]{1,4})\s*", line[:_LONGEST])
        if found:
            # PCI Express base specification, ACS control: bit 2 is P2P request redirect, which leads peer traffic to the root.
            value[found.group(1)] = bool(int(found.group(2), 16) & 4)
        elif line.strip():
            problems.append(not_understood(number, line))
    return Parsed(value, problems)


GPU_MODES = ("index", "ecc.mode.current", "ecc.errors.uncorrected.volatile.total", "ecc.errors.corrected.volatile.total", "mig.mode.current",
             "persistence_mode", "vbios_version")
_KEYS = ("index", "ecc", "ecc_uncorrected", "ecc_corrected", "mig", "persistence", "vbios")


def parse_gpu_modes(text, rc=0):
    """`nvidia-smi --query-gpu=` of GPU_MODES as csv,noheader to rows {index, ecc, ecc_uncorrected, ecc_corrected, mig, persistence, vbios}.

    ecc, mig and persistence are True or False, counts are numbers; None where the GPU has no such thing.
    """
    rows, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        cells = [cell.strip() for cell in line[:_LONGEST].split(",")]
        if len(cells) == len(_KEYS) and re.fullmatch(r"\d{1,4}", cells[0]):
            rows.append({key: _mode(cell) for key, cell in zip(_KEYS, cells)})
        elif line.strip() and not is_remark(line):
            problems.append(not_understood(number, line))
    return Parsed(rows if rows or answered(text) else None, problems)


def _mode(cell):
    if re.fullmatch(r"\d{1,18}", cell):
        return int(cell)
    return {"enabled": True, "disabled": False}.get(cell.lower(), None if cell.strip("[]").lower() in ("n/a", "not supported", "unknown error", "") else cell)


def parse_gpu_list(text):
    """`nvidia-smi -L` to {gpus: how many, mig: rows {gpu, profile, device}} of its MIG instances."""
    gpus, rows, problems = [], [], []
    for number, line in enumerate(text.splitlines(), 1):
        line = line[:_LONGEST]
        gpu, instance = re.match(r"GPU (\d{1,4}): ", line), re.match(r"\s+MIG (\S+)\s+Device\s+(\d{1,4}): ", line)
        if gpu:
            gpus.append(int(gpu.group(1)))
        elif instance:
            rows.append({"gpu": gpus[-1] if gpus else None, "profile": instance.group(1), "device": int(instance.group(2))})
        elif line.strip() and not is_remark(line):
            problems.append(not_understood(number, line))
    return Parsed({"gpus": len(gpus), "mig": rows}, problems)
