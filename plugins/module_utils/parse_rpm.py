# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of installed RPM packages, as rpm, dnf, yum and zypper print them, and the kernels among them.

Sources of the formats: rpm(8) --queryformat and --last, dnf(8) list (which breaks a row after a long name), zypper(8) search.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils import versions_rpm
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood

RPM_FORMAT = "%{NAME}\\t%{EPOCH}\\t%{VERSION}\\t%{RELEASE}\\t%{ARCH}\\t%{SOURCERPM}\\n"
ARCHES = ("x86_64", "x86_64_v2", "aarch64", "noarch", "i386", "i486", "i586", "i686", "armv7hl", "ppc64le", "s390x", "riscv64", "src", "nosrc",
          "(none)")
_ARCH = "|".join(map(re.escape, ARCHES))
_NAME = r"[A-Za-z0-9][A-Za-z0-9._+-]*"
_PART = r"[A-Za-z0-9._+~^]+"
# The name comes last to its end: a kmod's name has versions in it.
_NEVRA = re.compile(r"(?:(?P<first>\d+):)?(?P<name>%s)-(?:(?P<epoch>\d+|\(none\)):)?(?P<version>%s)-(?P<release>%s?)\.(?P<arch>%s)" % (
    _NAME, _PART, _PART, _ARCH), re.ASCII)
_SOURCE = re.compile(r"(?P<name>%s)-%s-%s\.(?:no)?src\.rpm" % (_NAME, _PART, _PART), re.ASCII)
_NAME_ARCH = re.compile(r"(?P<name>%s)\.(?P<arch>%s)" % (_NAME, _ARCH), re.ASCII)
_NOT_INSTALLED = re.compile(r"package (\S+) is not installed|(?:no package matches|No matching packages? for) (\S+)")
# Headings of tables whose rows are installed; all other tables show what a repository has.
_INSTALLED_HEADING = re.compile(r"installed packages:?", re.IGNORECASE)
_OTHER_HEADING = re.compile(r"(available|available upgrades|available packages|upgraded|updated|obsoleting|obsoletes|extra|recently added|autoremove) ?"
                            r"(packages|upgrades)?:?", re.IGNORECASE)
# What dnf, yum and zypper tell beside the rows.
_NOISE = re.compile(r"(Last metadata expiration check|Loaded plugins|Loading mirror speeds|Updating |Repositories loaded|Updating and loading"
                    r"|Not root, |This system is|Subscription Management|Unable to read consumer|Loading repository data|Reading installed packages"
                    r"|warning: |\s*\* [\w.-]+: |Error: No matching Packages to list|No matching packages to list|-+(\+-+)+$|S +\| Name"
                    r"|Failed to set locale|Added \S+ repo from|Repository \S+ is listed more than once|[^|\n]* [kMG]?i?B/s \| |Fetched \S+ repo"
                    r"|No match for argument: ).*", re.IGNORECASE)
_FIRST_FIELD = re.compile(r"^Name[ \t]*:[ \t]*\S", re.MULTILINE)
_FIELD = re.compile(r"(?P<key>Name|Epoch|Version|Release|Architecture|Arch) *: *(?P<value>[^\s:]+)")
_32_BIT = ("i386", "i486", "i586", "i686")

# What may belong to a product of a stack, or explains why one does not work, beyond what Debian calls so.
INTERESTING = re.compile(
    r".*(nvidia|cuda|nccl|mlnx|doca|ofed|knem|gdrcopy|cudnn|cutensor|infiniband|ibverbs|rdma|mlx\d|openmpi|perftest).*"
    r"|kernel([-\d].*)?|kmod-.*|akmod.*|dkms.*|datacenter-gpu-manager.*|lib(cu|npp|nv)\w*(-devel)?-\d+-\d+|nsight-.*|gds-tools-.*"
    r"|cccl-\d.*|nvlsm|libnvsdm.*|nvlink5.*|mft.*|mstflint"
    r"|ib(utils|sim|acm|dump).*|ucx.*|hcoll|sharp|libfabric.*|efa.*|gcc(-toolset.*)?|gcc-toolset.*|devtoolset.*|clang|podman|docker.*|containerd.*"
    r"|runc|egl-.*|libvdpau|xorg-x11-nvidia.*|xorg-x11-drv-nvidia.*|G0\d-.*|systemd-networkd|grub2-tools.*|grubby|dracut|mokutil|rpm|glibc")


def parse_rpm_list(text):
    """A list of installed packages to {rows: [{name, epoch, version, release, arch, repo}], absent: [names]}.

    One package a line, in columns ("name epoch version release arch source" with blanks, tabs, commas or bars between; epoch,
    release, arch or source left out) or as rpm prints names (nvidia-driver-3:550.54.15-1.el9.x86_64, also with --last's dates); or the
    tables of `dnf list installed` and `zypper search -s`. absent: what rpm says is not installed. A value that is not there is
    None; an epoch of 0 and "(none)" are None.
    """
    rows, problems = read_table(text, installed=True)
    missing = [found.group(1) or found.group(2) for found in map(_NOT_INSTALLED.search, text.splitlines()) if found]
    return Parsed({"rows": [row for row in rows if row.pop("installed")], "absent": missing}, problems)


def read_table(text, installed):
    """Every package of a list, with `installed` by the heading above it; the argument is for rows without a heading.

    `rpm -qi` and `dnf info` are lists, too, of paragraphs of fields.
    """
    if _FIRST_FIELD.search(text):
        return _paragraphs(text, installed)
    rows, problems = [], []
    for number, line in _joined(text.splitlines()):
        stripped = line.strip()
        if _INSTALLED_HEADING.fullmatch(stripped) or _OTHER_HEADING.fullmatch(stripped):
            installed = bool(_INSTALLED_HEADING.fullmatch(stripped))
            continue
        if not stripped or _NOT_INSTALLED.search(line) or _NOISE.fullmatch(line):
            continue
        row = read_row(stripped)
        if row:
            # dnf writes the repository of what is installed with a leading @, zypper its state in the first column.
            there = row.pop("installed", installed or str(row["repo"]).startswith("@"))
            rows.append(dict(row, installed=there))
        else:
            problems.append(not_understood(number, line))
    return Parsed(rows, problems)


def _paragraphs(text, installed):
    """Fields "Name : nvidia-driver" of one package after the other; anything else in between is prose."""
    rows, fields = [], {}
    for line in [*text.splitlines(), "Name : end"]:
        stripped = line.strip()
        if _INSTALLED_HEADING.fullmatch(stripped) or _OTHER_HEADING.fullmatch(stripped):
            heading = bool(_INSTALLED_HEADING.fullmatch(stripped))
        else:
            heading = None
        found = _FIELD.fullmatch(stripped)
        if heading is not None or found and found.group("key") == "Name":
            if fields.get("Name") and fields.get("Version"):
                rows.append(dict(_full(fields["Name"], fields.get("Epoch"), fields["Version"], fields.get("Release"),
                                       fields.get("Architecture") or fields.get("Arch")), installed=installed))
            fields = {}
        installed = installed if heading is None else heading
        if found:
            fields.setdefault(found.group("key"), found.group("value"))
    return Parsed(rows, [] if rows else ["no package with a version in it"])


def _joined(lines):
    """[(number, line)] where a name that fills its column, and the indented rest of its row, are one line."""
    found, alone = [], False
    for number, line in enumerate(lines, 1):
        if alone and line[:1].isspace() and line.strip():
            found[-1] = (found[-1][0], "%s %s" % (found[-1][1], line.strip()))
            alone = False
        else:
            found.append((number, line))
            alone = bool(_NAME_ARCH.fullmatch(line.strip()))
    return found


def read_row(line):
    """One package of a list, None when the line has no known form."""
    columns = [column.strip() for column in line.split("|")]
    if len(columns) > 4 and columns[2] == "package":
        return _zypper_row(columns)
    words = [word for word in re.split(r"[\s|;,]+", line) if word]
    if not words:
        return None
    whole = nevra(words[0])
    if whole and (len(words) == 1 or len(words) > 3 or words[1].startswith("@")):
        return whole
    named = _NAME_ARCH.fullmatch(words[0])
    if named and len(words) in (2, 3) and _is_version(words[1]):
        return dict(_row(named.group("name"), words[1], named.group("arch")), repo=words[2] if len(words) == 3 else None)
    return _columns(words)


def nevra(word):
    """name-epoch:version-release.arch as a row (epoch may stand first, or be left out), None for anything else."""
    found = _NEVRA.fullmatch(word)
    if not found:
        return None
    epoch = found.group("epoch") or found.group("first")
    return _full(found.group("name"), epoch, found.group("version"), found.group("release"), found.group("arch"))


def _columns(words):
    """A row of columns: name [epoch] version [release] [arch [source]]; only a row with a source has one, by its name."""
    source = _SOURCE.fullmatch(words[-1])
    if len(words) > 3 and (source or words[-2] in ARCHES and words[-1] == "(none)"):
        # Keys of signatures, and what was built by other means, have no source.
        row = _columns(words[:-1])
        return row and dict(row, source=source.group("name") if source else None)
    name, rest = words[0], words[1:]
    if not re.fullmatch(_NAME, name, re.ASCII):
        return None
    arch = rest.pop() if rest and rest[-1] in ARCHES else None
    if len(rest) == 3 and re.fullmatch(r"\d+|\(none\)", rest[0]) and all(re.fullmatch(_PART, word, re.ASCII) for word in rest[1:]):
        return _full(name, rest[0], rest[1], rest[2], arch)
    if len(rest) == 2 and _is_version(rest[0]) and re.fullmatch(_PART, rest[1], re.ASCII):
        return _full(name, None, rest[0], rest[1], arch)
    if len(rest) == 2 and rest[0] in ("(none)", "0") and _is_version(rest[1]):
        return _row(name, rest[1], arch)
    return _row(name, rest[0], arch) if len(rest) == 1 and _is_version(rest[0]) else None


def _zypper_row(columns):
    """A row of `zypper search -s`: status (i, i+, il: installed), name, type, version, arch, repository."""
    if not _is_version(columns[3]):
        return None
    return dict(_row(columns[1], columns[3], columns[4]), installed=columns[0].startswith("i"))


def _is_version(word):
    """Whether a word is a version, perhaps with epoch and release: it has a digit, and rpm could read it."""
    try:
        versions_rpm.parse(word)
    except ValueError:
        return False
    return bool(re.search(r"\d", word))


def _row(name, evr, arch):
    parts = versions_rpm.parse(evr)
    return _full(name, str(parts.epoch), parts.version, parts.release or None, arch)


def _full(name, epoch, version, release, arch):
    return {"name": name, "epoch": None if epoch in (None, "0", "(none)") else epoch, "version": version, "release": release,
            "arch": None if arch == "(none)" else arch, "repo": None}


def evr(row):
    """The version of a row as text: "3:550.54.15-1.el9"."""
    return versions_rpm.joined(row["epoch"], row["version"], row["release"])


def complete(rows):
    """Whether a list shows a whole system: every one has glibc and rpm."""
    return {"glibc", "rpm"} <= {row["name"] for row in rows}


def packages(rows, chosen=INTERESTING.fullmatch):
    """The state's package table, in the form of parse_dpkg.packages(): {key: package}.

    A key is the name, with ":i686" for 32-bit packages beside 64-bit ones. Of several versions of one package (kernels) the
    newest counts; the others are listed under `others`, newest first.
    """
    versions, arches, sources = {}, {}, {}
    wide = any(row["arch"] in ("x86_64", "aarch64") for row in rows)
    for row in rows:
        if chosen(row["name"]):
            key = "%s:%s" % (row["name"], row["arch"]) if wide and row["arch"] in _32_BIT else row["name"]
            versions.setdefault(key, set()).add(evr(row))
            arches[key] = row["arch"] or arches.get(key)
            sources[key] = row.get("source") or sources.get(key)
    table = {}
    for key, found in versions.items():
        newest, *others = sorted(found, key=versions_rpm.sort_key, reverse=True)
        table[key] = {"version": newest, "arch": arches[key], "source": sources[key], "source_version": newest, "status": "installed", "hold": None,
                      "auto": None}
        if others:
            table[key]["others"] = others
    return table


def compilers(rows):
    """Installed compilers: [{name: gcc, version: 11.5.0}], also those of gcc-toolset-13."""
    found = [{"name": row["name"], "version": row["version"]} for row in rows
             if re.fullmatch(r"gcc(\d+)?|clang|(gcc-toolset|devtoolset)-\d+-gcc", row["name"])]
    return sorted(found, key=lambda item: item["name"])


def duplicates(packages):
    """Names that are there in several versions though only one can be: what an interrupted run leaves behind."""
    return sorted(name for name, row in packages.items() if row.get("others") and not re.fullmatch(r"kernel.*|kmod-.*|gpg-pubkey", name))
