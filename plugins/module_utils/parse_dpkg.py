# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dpkg's package list and apt's automatic marks."""

from __future__ import annotations

import re
from collections import Counter

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

_GONE = ("not-installed", "config-files")

# What may belong to a product of a stack, or explains why one does not work; the rest of a node is nobody's business.
# A rule decides later what is managed: this list only has to be wide enough.
_SOURCES = re.compile(
    r"(lib)?(nvidia|cuda|nccl|cccl|cub|thrust|cudacxx|cudnn|cutensor)([-_\d].*)?|libthrust|libcudacxx|linux(-.*)?"
    r"|rdma-core|(mlnx|doca|ofed|knem|kernel-mft|gdrcopy|gdrdrv|datacenter-gpu-manager).*|dkms|glx-(alternatives|diversions)")
_NAMES = re.compile(
    r".*nvidia.*|.*cuda.*|libnccl.*|libcu(blas|fft|rand|solver|sparse|pti|inj|file|obj).*|libnpp.*"
    r"|libnv(blas|fatbin|jitlink|jpeg|ptxcompiler|rtc|toolsext|vm|ml|infer|sdm|optix).*|nvlsm|nvlink\d.*|nsight-.*|gds-tools-.*|cccl-\d.*"
    r"|linux-(image|headers|modules|kbuild|objects|signatures)-.*"
    r"|rdma-core|ibverbs-.*|libibverbs.*|librdmacm.*|libmlx\d.*|(iser|isert|srp|mlx\w*)-(dkms|modules.*)|mft(-.*)?|gcc-\d+|clang-\d+")
_NAME = r"[a-z0-9][a-z0-9.+-]*(?::[a-z0-9-]+)?"
_VERSION = r"(?:\d+:)?\d[A-Za-z0-9.+~:-]*"
# dpkg -l: desired action, status and error flag, then the columns; a pasted row may have lost the blank before the name.
_TABLE = re.compile(r"(?P<mark>[ihrpu][a-zA-Z][RX# ]?)\s+(?P<name>%s)\s+(?P<version>%s|<\S+>)"
                    r"(?:\s+(?P<arch>all|[a-z0-9-]+|<\S+>)(?=\s|$).*)?" % (_NAME, _VERSION))
# What stands above the rows, in any language: "Desired=...", "| Status=...", "|/ Err?=...", "||/ Name", "+++-===".
_HEADER = re.compile(r"[^\s=|]+=\S+/\S.*|\|[ /|].*|\+\+\+-=.*")
# apt list --installed.
_APT_LIST = re.compile(r"(?P<name>%s)/\S* (?P<version>%s) (?P<arch>[a-z0-9-]+)(?: \[(?P<marks>[^\]]*)\])?" % (_NAME, _VERSION))
_NOTHING = re.compile(r"dpkg-query: (?:no packages found matching|package '(?P<quoted>\S+)' is not installed)\s*(?P<name>\S*).*")
_NOISE = re.compile(r"Listing\.\.\..*|WARNING: apt does not have a stable CLI interface.*|Use dpkg --\S+ .*|N: .*|dpkg-query: warning: .*")


def parse_listing(text, rc=0):
    """The probe dpkg_list as a command left it: rows as parse_rows() has them; None when it failed without a list.

    grep says nothing and ends with 1 where nothing fits; dpkg-query never fails without a word.
    """
    rows, problems = parse_rows(text)
    if rc and not rows and (rc != 1 or text.strip()):
        return Parsed(None, problems or ["exit status %d without a list" % rc])
    return Parsed(rows, problems)


def parse_rows(text):
    """Rows of the probe dpkg_list to dicts with FIELDS; a column that is not there is None.

    DPKG_FORMAT's eight columns; "name version abbreviation" (dpkg-query with ${db:Status-Abbrev}) or "name version status"
    (${Status}, three words); dpkg-query's default "name version"; the table of `dpkg -l` and `dpkg-query -l`, with its header
    or without; `apt list --installed`. Formats: dpkg-query(1), apt(8).
    """
    rows, problems, before = [], [], ""
    for number, line in enumerate(text.splitlines(), 1):
        # In longer languages a line of the heading goes on below.
        broken, before = before.startswith("| ") and before.endswith("/") and line[:1] == " ", line.strip()
        if broken:
            continue
        row = _row([column.strip() for column in line.split("\t")]) if "\t" in line else _loose_row(line.rstrip())
        if row:
            rows.append(row)
        elif line.strip() and not _HEADER.fullmatch(line.strip()) and not _NOISE.fullmatch(line.strip()):
            problems.append(not_understood(number, line))
    return Parsed(rows, problems)


def _named(name, version, arch=None, **more):
    """A row with the name's own ":arch" taken apart; "<none>" stands for nothing."""
    row = dict.fromkeys(FIELDS)
    row["name"], _colon, own = name.partition(":")
    real = [value if value and not value.startswith("<") else None for value in (version, own or arch)]
    row.update(version=real[0], arch=real[1], **more)
    return row


def _marks(mark):
    """{want, status, error} of dpkg's letters ("ii ", "hi", "iF"); None for others. A capital letter only says: look here."""
    found = re.fullmatch(r"([ihrpu])([ncufhwti])([rx# ]?)", mark.lower())
    if not found:
        return None
    error = "reinstreq" if found.group(3) in ("r", "x") else "ok"
    return {"want": _WANT[found.group(1)], "status": _STATUS[found.group(2)], "error": error}


def _row(columns):
    """One row of columns, or None when they do not fit a known form."""
    if not re.fullmatch(_NAME, columns[0]):
        return None
    if len(columns) == len(FIELDS):
        row = dict.fromkeys(FIELDS)
        row.update((field, column or None) for field, column in zip(FIELDS, columns))
        return row if row["status"] in _STATUS.values() and row["want"] in _WANT.values() else None
    if len(columns) not in (2, 3):
        return None
    if len(columns) == 2:
        return _named(columns[0], columns[1]) if columns[1] else _named(columns[0], None, status="not-installed")
    marks = _marks(columns[2]) or _status_words(columns[2])
    gone = marks and marks["status"] in ("not-installed", "config-files")
    return _named(columns[0], columns[1], **marks) if marks and (columns[1] or gone) else None


def _status_words(text):
    """{want, status, error} of ${Status}: "install ok installed"."""
    words = text.split()
    if len(words) == 3 and words[0] in _WANT.values() and words[2] in _STATUS.values():
        return {"want": words[0], "error": words[1], "status": words[2]}
    return None


def _loose_row(line):
    """One row of a form whose columns blanks divide."""
    found = _TABLE.fullmatch(line.strip())
    marks = _marks(found.group("mark")) if found else None
    if marks:
        return _named(found.group("name"), found.group("version"), found.group("arch"), **marks)
    found = _NOTHING.fullmatch(line)
    name = found and (found.group("quoted") or found.group("name"))
    if name:
        # A pattern that fits nothing names no package.
        return _named(name, None, status="not-installed") if re.fullmatch(_NAME, name) else None
    found = _APT_LIST.fullmatch(line)
    if found:
        marks = found.group("marks") or ""
        status = "config-files" if "residual-config" in marks else "installed" if re.search(r"installed|upgradable from", marks) else None
        # Of what could be upgraded the list has the version that would come.
        here = re.search(r"upgradable from: (%s)" % _VERSION, marks)
        return _named(found.group("name"), here.group(1) if here else found.group("version"), found.group("arch"), status=status) if status else None
    words = line.split()
    if len(words) not in (2, 3, 5) or not re.fullmatch(_NAME, words[0]) or not re.fullmatch(_VERSION, words[1]):
        return None
    return _row([words[0], words[1], " ".join(words[2:])][:2 if len(words) == 2 else 3])


def native_arch(rows):
    """dpkg's own architecture: that of the package dpkg or, in a list without it, that of most packages; None without any."""
    own = next((row["arch"] for row in rows if row["name"] == "dpkg"), None)
    counted = Counter(row["arch"] for row in rows if row["arch"] not in (None, "all"))
    # In a short list a foreign architecture may have as many packages as the own one; it is i386 then.
    return own or max(counted, key=lambda arch: (counted[arch], arch != "i386"), default=None)


def key(row, native):
    """How a package is named in the state: the name, with ":arch" when it is of a foreign architecture."""
    own = (None, "all", native)
    return row["name"] if native is None or row["arch"] in own else "%s:%s" % (row["name"], row["arch"])


def interesting(row):
    """Whether a package may matter to a stack (by source package or by name)."""
    return bool(_SOURCES.fullmatch(row["source"] or row["name"]) or _NAMES.fullmatch(row["name"]))


def parse_dpkg_list(text):
    """Every package of the probe dpkg_list of which anything is on the disk, in the form of packages()."""
    rows = parse_rows(text).value
    return packages(rows, None, native_arch(rows), chosen=lambda row: True)


def packages(rows, auto, native, chosen=interesting):
    """The state's package table: {key: package} for the chosen rows of which anything is on the disk.

    A package: {version, arch, source, source_version, status, hold, auto}. auto (the argument): what
    parse_extended_states() gave, None when unknown (then auto is None for each). dpkg-query's default form does not tell
    the status: who records it means what is installed.
    """
    table = {}
    for row in rows:
        if chosen(row) and row["status"] not in _GONE:
            table[key(row, native)] = {
                "version": row["version"], "arch": row["arch"], "source": row["source"] or row["name"],
                "source_version": row["source_version"] or row["version"],
                "status": "reinstall-required" if row["error"] == "reinstreq" else row["status"] or "installed",
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
    """Names of all held packages, sorted; None when nobody can tell.

    A whole list tells all of them. Part of one tells only that somebody holds packages here: where none of it is held,
    holds may not be used at all, or on others.
    """
    held = sorted(key(row, native) for row in rows if row["want"] == "hold")
    return held if held or is_whole(rows) and all(row["want"] is not None for row in rows) else None


def is_whole(rows):
    """Whether a list shows all packages of a node: it has dpkg itself."""
    return any(row["name"] == "dpkg" for row in rows)


def absent(rows):
    """Names of packages that matter and are said not to be installed, sorted; in a whole list everything else is not."""
    return [] if is_whole(rows) else sorted(row["name"] for row in rows if row["status"] in _GONE and interesting(row))


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
