# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dpkg's package list and apt's automatic marks."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils import versions
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood

FIELDS = ("name", "arch", "version", "source", "source_version", "want", "error", "status")
# The format of the probe dpkg_list; the pattern * also lists holds on packages that are not installed.
DPKG_FORMAT = ("${Package}\\t${Architecture}\\t${Version}\\t${source:Package}\\t${source:Version}\\t"
               "${db:Status-Want}\\t${db:Status-Eflag}\\t${db:Status-Status}\\n")
_WANT = {"i": "install", "h": "hold", "r": "deinstall", "p": "purge", "u": "unknown"}
_STATUS = {"i": "installed", "n": "not-installed", "c": "config-files", "u": "unpacked", "f": "half-configured",
           "h": "half-installed", "w": "triggers-awaited", "t": "triggers-pending"}
# None needs work before the next package run; dpkg runs waiting triggers in its next call.
_SETTLED = ("installed", "config-files", "not-installed", "triggers-awaited", "triggers-pending")

# What may belong to a product of a stack, or explains why one does not work; the rest of a node is nobody's business.
# A rule decides later what is managed: this list only has to be wide enough.
_SOURCES = re.compile(
    r"(lib)?(nvidia|cuda|nccl|cccl|cub|thrust|cudacxx|cudnn|cutensor)([-_\d].*)?|libthrust|libcudacxx|linux(-.*)?"
    r"|rdma-core|(mlnx|doca|ofed|knem|kernel-mft|gdrcopy|gdrdrv|datacenter-gpu-manager).*|dkms|glx-(alternatives|diversions)")
_NAMES = re.compile(
    r".*nvidia.*|.*cuda.*|libnccl.*|libcu(blas|fft|rand|solver|sparse|pti|inj|file|obj).*|libnpp.*"
    r"|libnv(blas|fatbin|jitlink|jpeg|rtc|toolsext|vm|ml|infer).*|nsight-.*|linux-(image|headers|modules|kbuild|objects|signatures)-.*"
    r"|rdma-core|ibverbs-.*|libibverbs.*|gcc-\d+|clang-\d+")


def parse_rows(text):
    """Rows of the probe dpkg_list to dicts with FIELDS.

    Besides DPKG_FORMAT's eight columns also "name version abbreviation" (dpkg-query with ${db:Status-Abbrev}) and dpkg-query's
    default "name version"; a column that is not there is None.
    """
    rows, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        row = _row([column.strip() for column in line.split("\t")])
        if row:
            rows.append(row)
        elif line.strip():
            problems.append(not_understood(number, line))
    return Parsed(rows, problems)


def _row(columns):
    """One row, or None when the columns do not fit a known form."""
    row = dict.fromkeys(FIELDS)
    if not re.fullmatch(r"[a-z0-9][a-z0-9.+-]*(:[a-z0-9-]+)?", columns[0]):
        return None
    if len(columns) == len(FIELDS):
        row.update((field, column or None) for field, column in zip(FIELDS, columns))
        return row if row["status"] in _STATUS.values() and row["want"] in _WANT.values() else None
    if len(columns) not in (2, 3) or not columns[1]:
        return None
    row["name"], _colon, arch = columns[0].partition(":")
    row["arch"], row["version"] = arch or None, columns[1]
    if len(columns) == 3:
        if not re.fullmatch(r"[ihrpu][ncufhwti][R ]?", columns[2]):
            return None
        row["want"], row["status"] = _WANT[columns[2][0]], _STATUS[columns[2][1]]
        row["error"] = "reinstreq" if columns[2][2:] == "R" else "ok"
    return row


def native_arch(rows):
    """dpkg's own architecture, which is that of the package dpkg; None when the list does not have it."""
    return next((row["arch"] for row in rows if row["name"] == "dpkg"), None)


def key(row, native):
    """How a package is named in the state: the name, with ":arch" when it is of a foreign architecture."""
    own = (None, "all", native)
    return row["name"] if native is None or row["arch"] in own else "%s:%s" % (row["name"], row["arch"])


def interesting(row):
    """Whether a package may matter to a stack (by source package or by name)."""
    return bool(_SOURCES.fullmatch(row["source"] or "") or _NAMES.fullmatch(row["name"]))


def parse_dpkg_list(text):
    """Every package of the probe dpkg_list of which anything is on the disk, in the form of packages()."""
    rows = parse_rows(text).value
    return packages(rows, None, native_arch(rows), chosen=lambda row: True)


def packages(rows, auto, native, chosen=interesting):
    """The state's package table: {key: package} for the chosen rows of which anything is on the disk.

    A package: {version, arch, source, source_version, status, hold, auto}. auto (the argument): what
    parse_extended_states() gave, None when unknown (then auto is None for each).
    """
    table = {}
    for row in rows:
        if chosen(row) and row["status"] not in ("not-installed", "config-files"):
            table[key(row, native)] = {
                "version": row["version"], "arch": row["arch"], "source": row["source"] or row["name"],
                "source_version": row["source_version"] or row["version"],
                "status": "reinstall-required" if row["error"] == "reinstreq" else row["status"],
                "hold": None if row["want"] is None else row["want"] == "hold",
                "auto": None if auto is None else _is_auto(row, auto, native)}
    return table


def _is_auto(row, auto, native):
    """apt records an Architecture: all package under the native architecture."""
    return (row["name"], native if row["arch"] == "all" else row["arch"]) in auto


def broken(rows, native):
    """Names of packages that are not fully installed, or marked for reinstallation, sorted."""
    return sorted(key(row, native) for row in rows
                  if (row["status"] is not None and row["status"] not in _SETTLED) or row["error"] == "reinstreq")


def holds(rows, native):
    """Names of all held packages, sorted; None when the list does not have the column."""
    if any(row["want"] is None for row in rows):
        return None
    return sorted(key(row, native) for row in rows if row["want"] == "hold")


def compilers(rows):
    """Installed versioned compilers: [{name: gcc-14, version: 14.2.0}]."""
    found = []
    for row in rows:
        if re.fullmatch(r"(gcc|clang)-\d+", row["name"]) and row["status"] == "installed":
            try:
                found.append({"name": row["name"], "version": versions.upstream(row["version"] or "")})
            except ValueError:
                found.append({"name": row["name"], "version": None})
    return sorted(found, key=lambda item: item["name"])


def parse_extended_states(text):
    """/var/lib/apt/extended_states to the set of (name, arch) that apt may remove by itself."""
    auto, problems = set(), []
    fields, first = {}, None
    for number, line in enumerate(text.splitlines() + [""], 1):
        if line.strip():
            name, _colon, setting = line.partition(":")
            fields[name] = setting.strip()
            first = first or (number, line)
            continue
        if "Package" in fields:
            if fields.get("Auto-Installed") == "1":
                auto.add((fields["Package"], fields.get("Architecture")))
        elif first:
            problems.append("a paragraph without Package: " + not_understood(*first))
        fields, first = {}, None
    return Parsed(auto, problems)
