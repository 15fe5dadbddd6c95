# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Operating system, architecture, container, secure boot, free space: text to values."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, shown

# os-release(5): shell-compatible assignments; one value a line.
_ASSIGNMENT = re.compile(r"""([A-Z][A-Z0-9_]*)=(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([^\s"']*))\s*""")
_READ = ("ID", "VERSION_ID", "VERSION_CODENAME", "PRETTY_NAME")


def parse_os_release(text):
    """os-release(5) to {id, release, codename, name}; a key that is not there is None."""
    seen, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        found = _ASSIGNMENT.fullmatch(line.strip())
        if not found:
            # Vendors add assignments of their own, also in lower case; only what is read here must be understood.
            other = re.match(r"([A-Za-z_][A-Za-z0-9_]*)=", line.strip())
            if not other or other.group(1) in _READ:
                problems.append(not_understood(number, line))
            continue
        name, double, single, bare = found.groups()
        seen[name] = re.sub(r"\\(.)", r"\1", double) if double is not None else single or bare or ""
    if not seen.get("ID"):
        return Parsed(None, problems + ["no ID= line"])
    return Parsed({"id": seen["ID"], "release": seen.get("VERSION_ID") or None,
                   "codename": seen.get("VERSION_CODENAME") or None,
                   "name": seen.get("PRETTY_NAME") or None}, problems)


def parse_word(text):
    """One line that is one word (uname -r, uname -m, a sysfs attribute)."""
    words = text.split()
    if len(words) != 1 or not re.fullmatch(r"[\w.+~:@-]{1,100}", words[0]):
        return Parsed(None, ["expected one word, found %d: %s" % (len(words), shown(text))])
    return Parsed(words[0], [])


def parse_cmdline(text):
    """/proc/cmdline to one stripped line."""
    line = text.strip()
    # The kernel's own limit is 2048 or 4096 bytes.
    if not line.isprintable() or not 0 < len(line) <= 4096:
        return Parsed(None, ["expected one line"])
    return Parsed(line, [])


def parse_container(text):
    """Marks of a container, one a line ("file /.dockerenv", "environ container=lxc"), to True; none is False."""
    lines = [line for line in text.splitlines() if line.strip()]
    strange = [number for number, line in enumerate(lines, 1) if not re.match(r"(file /|environ container=|cgroup )\S", line)]
    if strange:
        return Parsed(None, [not_understood(strange[0], lines[strange[0] - 1])])
    return Parsed(bool(lines), [])


def parse_secure_boot(text):
    """`mokutil --sb-state`, also `bootctl status` (the live probe writes the same from the EFI variable) to True or False."""
    # shim's own switch: then the kernel does not ask for signatures either.
    off = re.search(r"SecureBoot validation is disabled in shim", text)
    if re.search(r"^[ \t]{0,20}(?:SecureBoot|Secure Boot:) enabled", text, re.MULTILINE) and not off:
        return Parsed(True, [])
    if off or re.search(r"^[ \t]{0,20}(?:SecureBoot|Secure Boot:) disabled|EFI variables are not supported|doesn't support Secure Boot", text, re.MULTILINE):
        return Parsed(False, [])
    return Parsed(None, ["no SecureBoot state in it"])


# `df`: device, size, used, available, per cent, mount point; a long device stands on a line of its own.
_DF = re.compile(r"(?:\S{1,200}\s+|\s*)[\d.,]{1,20}[KMGTPEB]?i?\s+[\d.,]{1,20}[KMGTPEB]?i?\s+"
                 r"(?P<free>\d{1,20}(?:[.,]\d{1,3})?)(?P<unit>[KMGTPEB]?)i?\s+\d{1,3}%\s+(?P<path>/.*)")
_UNITS = "BKMGTPE"


def parse_space(text):
    """Lines "available-bytes mount-point" (df --output=avail,target -B1), or `df`, `df -h`, to {mount point: bytes}.

    Without a unit behind the number, that of the heading counts, which is 1K where there is none.
    """
    value, problems, factor = {}, [], 1024
    for number, line in enumerate(text.splitlines(), 1):
        plain, table = re.fullmatch(r"\s*([0-9]{1,20})\s+(/.*)", line), _DF.fullmatch(line[:1000])
        heading = re.search(r"(\d{1,6})([KMGB]?)B?-\w{1,20}", line)
        if table:
            unit = table.group("unit")
            each = 1024 ** _UNITS.index(unit) if unit else factor
            value[table.group("path").rstrip()] = int(float(table.group("free").replace(",", ".")) * each)
        elif plain:
            value[plain.group(2).rstrip()] = int(plain.group(1))
        elif number <= 3 and heading and not line.startswith("/"):
            factor = int(heading.group(1)) * 1024 ** _UNITS.index(heading.group(2) or "B")
        elif line.strip() and not (line.split()[0] in ("Avail", "Filesystem", "Dateisystem") or re.fullmatch(r"/\S+", line.strip())):
            problems.append(not_understood(number, line))
    return Parsed(value or None, problems if value or problems else ["empty"])


# How tools say that a file system is full: the C library, mkinitramfs with its compressors, and rpm before it begins.
_FULL = re.compile(r"No space left on device|cannot write compressed block|Write error : cannot write")
_NEEDS = re.compile(r"(?:needs (?P<needs>\d{1,9} ?[KMG]i?B) (?:more space )?on the|At least (?P<least>\d{1,9} ?[KMG]i?B) more space needed on the)"
                    r" (?P<path>/\S*) filesystem|You don't have enough free space in (?P<cache>/\S{1,200}?)\.?$", re.MULTILINE)


def parse_no_space(text):
    """What a package manager said of a lack of space: [{path, needs, why}], each path once.

    why: "failed" where something was cut off, "refused" where nothing was begun; needs: how much, where it says so. A message that
    names no path belongs to /boot where an initramfs was being made, else to /.
    """
    rows = [{"path": found.group("path") or found.group("cache"), "needs": found.group("needs") or found.group("least"), "why": "refused"}
            for found in _NEEDS.finditer(text)]
    making = "update-initramfs: Generating /boot" in text or "mkinitramfs failure" in text or "dracut" in text
    for line in (line for line in text.splitlines() if _FULL.search(line)):
        named = re.search(r"/(?:boot|var|usr|tmp)(?=/)", line)
        rows.append({"path": named.group() if named and named.group() != "/tmp" else "/boot" if making else "/", "needs": None, "why": "failed"})
    seen = {row["path"]: row for row in reversed(rows)}
    return Parsed([seen[path] for path in sorted(seen)], [])
