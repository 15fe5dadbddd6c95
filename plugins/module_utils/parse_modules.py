# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules of the NVIDIA driver: on disk (modinfo) and loaded (/proc, /sys)."""

from __future__ import annotations

import re
import textwrap

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood

MODULE_SUFFIX = re.compile(r"\.ko(?:\.(?:xz|zst|gz|bz2))?$")
KERNEL_FOLDER = re.compile(r"(?:/usr)?/lib/modules/([^/]+)/")
_FIELDS = ("version", "vermagic", "license", "signer")
_VERSION = r"\d{2,4}\.\d{1,4}(?:\.\d{1,4})?"


def parse_modinfo(text):
    """`modinfo FILE...` to rows {kernel, name, path, version, vermagic, license, signer}.

    name is the file's stem (Debian calls the module nvidia-current); kernel is the folder's name below /lib/modules,
    None when the path is elsewhere. A field that modinfo does not print is None. What comes before any filename is one
    row, too, whose name and path are None. An indent of all lines (a quotation) counts for nothing.
    """
    rows, problems = [], []
    # `modinfo -F version nvidia` prints the value alone.
    if re.fullmatch(r"\s*" + _VERSION + r"\s*", text, re.ASCII):
        text = "version: " + text.strip()
    for number, line in enumerate(textwrap.dedent(text).splitlines(), 1):
        field, colon, content = line.partition(":")
        content = content.strip()
        if field == "filename" and colon:
            rows.append(_new_row(content))
        # A continued signature is indented, and no field that is read here has an indent.
        elif line[:1] in ("", " ", "\t"):
            continue
        elif not colon or not re.fullmatch(r"[A-Za-z0-9_]+", field):
            problems.append(not_understood(number, line))
        elif field in _FIELDS:
            if not rows:
                rows.append(dict.fromkeys(("kernel", "name", "path", *_FIELDS)))
            if rows[-1][field] is None:
                rows[-1][field] = content or None
    return Parsed(rows, problems)


def _new_row(path):
    kernel = KERNEL_FOLDER.match(path)
    row = {"kernel": kernel.group(1) if kernel else None, "name": MODULE_SUFFIX.sub("", path.rsplit("/", 1)[-1]), "path": path}
    row.update(dict.fromkeys(_FIELDS))
    return row


def finds_no_module(seen):
    """Whether an Observation of modinfo is the answer that there is no such module, and nothing else."""
    said = [line for line in (seen.out + "\n" + seen.err).splitlines() if line.strip()] if seen is not None and seen.rc else []
    return bool(said) and all(re.match(r"modinfo: (?:ERROR: )?(?:Module|could not find module) \S{1,200}(?: not found|$)", line) for line in said)


def parse_proc_driver_version(text):
    """/proc/driver/nvidia/version to {version, flavour, arch, gcc}; None for what it does not tell.

    Proprietary: "NVIDIA UNIX x86_64 Kernel Module  550.78  Sun ..."; open: "NVIDIA UNIX Open Kernel Module for x86_64
    565.57.01  Release Build (builder) ...". gcc: the compiler that built the module, from the second line.
    """
    line = next((line for line in text.splitlines() if "NVRM version:" in line[:40]), None)
    if line is None or len(line) > 1000:
        return Parsed(None, ["no NVRM version line"])
    found = re.search(r"NVIDIA UNIX (?P<open>Open )?(?:(?P<arch>\w+) )?Kernel Module(?: for (?P<of>\w+))?.*?\s(?P<version>" + _VERSION + r")(?=\s|$)",
                      line, re.ASCII)
    if not found:
        return Parsed(None, [not_understood(1, line)])
    compiler = re.search(r"^(?:GCC|CC) version:.{0,200}?version (\d{1,3}(?:\.\d{1,3})+)", text, re.ASCII | re.MULTILINE)
    return Parsed({"version": found.group("version"), "flavour": "open" if found.group("open") else "proprietary",
                   "arch": found.group("of") or found.group("arch"), "gcc": compiler.group(1) if compiler else None}, [])


def parse_module_version(text):
    """/sys/module/nvidia/version to the version."""
    word = text.strip()
    if not re.fullmatch(_VERSION, word, re.ASCII):
        return Parsed(None, [not_understood(1, text)])
    return Parsed(word, [])


def parse_in_use(text, rc=0):
    """What `rmmod`, `modprobe -r` or `nvidia-smi -r` say of modules that cannot be unloaded: {module: [users]}.

    kmod's words: "rmmod: ERROR: Module nvidia is in use by: nvidia_modeset nvidia_uvm", without "by:" where processes use it;
    modprobe: "FATAL: Module nvidia is in use." Other lines of the two commands are about other things.
    """
    del rc
    value = {}
    for found in re.finditer(r"\bModule (?P<module>[\w-]{1,64}) is in use(?: by:?(?P<users>(?: +[\w-]{1,64}){1,32}))?", text, re.ASCII):
        users = value.setdefault(found.group("module").replace("-", "_"), [])
        users.extend(user for user in (found.group("users") or "").split() if user not in users)
    # NVIDIA's driver container, and its installer.
    if re.search(r"Could not unload NVIDIA driver kernel modules, driver is in use", text):
        value.setdefault("nvidia", [])
    for module in re.findall(r"An NVIDIA kernel module '([\w-]{1,64})' appears to (?:be )?already (?:be )?loaded", text, re.ASCII):
        value.setdefault(module.replace("-", "_"), [])
    return Parsed(value, [])
