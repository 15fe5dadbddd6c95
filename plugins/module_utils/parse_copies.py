# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of a library: files on the disk, Python packages, and the one that PyTorch is linked with."""

from __future__ import annotations

import json
import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood

# `ls -l` and `find -ls`: mode, links, owner, group, size, date; what follows is the path.
_LISTED = re.compile(r"(?:\s*\d+\s+\d+\s+)?[-lrwxsStT]{10}[.+@]?\s+\d+\s+\S+\s+\S+\s+\d+\s+"
                     r"(?:[A-Z][a-z]{2}\s+\d+\s+[\d:]+|\d{4}-\d\d-\d\d \d\d:\d\d(?::\S+ \S+)?)\s+(.+)")
_PATH = re.compile(r"(/\S+|[A-Za-z0-9_.+-]+\.so[\w.+-]*)(?: -> (\S+))?")
_FOLDER = re.compile(r"(/\S+):")
_NOISE = re.compile(r"total \d+|(?:find|ls|locate|sudo|du): .*|.*: (?:Permission denied|No such file or directory)")
_LIBRARY = re.compile(r"lib(?:nccl|cuda|nvidia-ml|cudart|nccl-net[\w-]*)(?:_static)?\.(?:so(?:\.[\d.]+)?|a)")
_WANTED = re.compile(r"nvidia[-_].*|torch.*|nccl.*|cuda.*|cupy.*|jax.*|tensorflow.*|transformer[-_]engine.*|vllm.*|apex")
_REQUIREMENT = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:===?|\s|@)\s*([A-Za-z0-9][\w.+!-]*)?(?:\s.*|/.*|:.*)?")
_PIP_NOISE = re.compile(r"(?:WARNING|DEPRECATION|Package\s+Version|-{3,}|\[notice\]|#|Using Python|Warning:|Defaulting|Looking in)", re.IGNORECASE)


def parse_library_files(text):
    """`find -name 'libnccl.so*'`, `ls -l`, `find -ls` to [{path, target, version}], in their order.

    target: where a link leads to, as written; version: the number after ".so." or that of the link's target, None where the
    names tell the soname's only.
    """
    rows, problems, folder = [], [], ""
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip()
        if not words or _NOISE.fullmatch(words):
            continue
        header = _FOLDER.fullmatch(words)
        if header:
            folder = header.group(1).rstrip("/") + "/"
            continue
        listed = _LISTED.fullmatch(words)
        found = _PATH.fullmatch(listed.group(1) if listed else words)
        if not found:
            problems.append(not_understood(number, line))
            continue
        path = found.group(1) if found.group(1).startswith("/") else folder + found.group(1)
        if _LIBRARY.fullmatch(path.rsplit("/", 1)[-1]):
            rows.append({"path": path, "target": found.group(2), "version": _version(found.group(2)) or _version(path)})
    return Parsed(rows, problems)


def _version(name):
    found = re.search(r"\.so\.(\d+\.\d[\d.]*)$", name or "", re.ASCII)
    return found.group(1) if found else None


def parse_pip_list(text):
    """`pip list` (table, freeze, JSON), `pip show`, `uv pip list` or `conda list` to {name: version}.

    Only packages of NVIDIA and those that bring or use NCCL; names with "-".
    """
    if text.lstrip().startswith("["):
        return _from_json(text)
    value, problems, shown_name = {}, [], None
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip()
        found = re.fullmatch(r"(Name|Version): (\S+)", words)
        if found:
            if found.group(1) == "Name":
                shown_name = found.group(2)
            elif shown_name:
                _keep(value, shown_name, found.group(2))
            continue
        if not words or _PIP_NOISE.match(words) or shown_name:
            continue
        found = _REQUIREMENT.fullmatch(words) if len(words) < 500 else None
        if not found:
            problems.append(not_understood(number, line))
        elif found.group(2):
            _keep(value, found.group(1), found.group(2))
    return Parsed(value, problems)


def _from_json(text):
    try:
        rows = json.loads(text)
        value = {}
        for row in rows:
            _keep(value, row["name"], str(row["version"]))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return Parsed(None, [not_understood(1, text)])
    return Parsed(value, [])


def _keep(value, name, version):
    name = name.replace("_", "-").lower()
    if _WANTED.fullmatch(name):
        value.setdefault(name, version)


def parse_torch_nccl(text):
    """`torch.cuda.nccl.version()` to a version: "(2, 28, 9)", "2.28.9", or the number of older releases (2708 is 2.7.8)."""
    words = text.strip()
    # A warning of the interpreter may stand before the answer.
    last = words.splitlines()[-1].strip() if words else ""
    found = re.fullmatch(r"[(\[]?\s*(\d{1,3})\s*[,.]\s*(\d{1,3})(?:\s*[,.]\s*(\d{1,3}))?\s*[)\]]?", last)
    if found:
        return Parsed(".".join(part for part in found.groups() if part is not None), [])
    if re.fullmatch(r"\d{4,5}", last, re.ASCII):
        number = int(last)
        unit = 1000 if number < 10000 else 10000
        return Parsed("%d.%d.%d" % (number // unit, number % unit // 100, number % 100), [])
    return Parsed(None, [not_understood(1, last)])
