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


def parse_space(text):
    """Lines "available-bytes mount-point" (df --output=avail,target -B1) to {mount point: bytes}."""
    value, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.fullmatch(r"\s*([0-9]{1,20})\s+(/.*)", line)
        if found:
            value[found.group(2).rstrip()] = int(found.group(1))
        elif line.strip() and line.split()[0] != "Avail":
            problems.append(not_understood(number, line))
    return Parsed(value or None, problems if value or problems else ["empty"])
