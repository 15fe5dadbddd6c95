# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel modules are loaded, which may be, and which the initramfs holds.

modprobe.d(5), lsmod(8) and lsinitrd(1) describe the formats. Module names are given with underscores, as the kernel has them:
both marks mean the same to modprobe, files have dashes, lsmod prints underscores.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.modprobe_policy import FILE as OWN
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, split_files
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_modules import MODULE_SUFFIX

_LOADED = re.compile(r"(?P<name>[\w-]{1,100})\s+(?P<size>\d{1,12})\s+(?P<used>-?\d{1,9})(?:\s+(?P<by>\S.*)?)?")
# `grep -H` (also with line numbers): the file, then the line.
_GREPPED = re.compile(r"(?P<path>/[^:\s]+):(?:\d+:)? *(?P<line>.*)")
_FILE = re.compile(r"(?:.*/)?(?P<file>[\w-]{1,100}\.ko(?:\.\w{2,3})?)")
_KERNEL = re.compile(r"(?:.*/)?lib/modules/(?P<kernel>[^/]{1,200})/")
_CONFIG = re.compile(r"/?(?:etc|usr/lib|lib|run)/modprobe\.d/.+")
# The GSP's firmware, which has to be the driver's own: usr/lib/firmware/nvidia/535.129.03/gsp_ga10x.bin
_FIRMWARE = re.compile(r"lib/firmware/nvidia/(\d{3}\.\d{1,3}(?:\.\d{1,3})?)/gsp")
_IMAGE = re.compile(r"Image: (?P<path>/\S+)")
_OPTION = re.compile(r"(?P<key>[\w.-]{1,100})(?:=(?P<value>\S*))?")


def underscored(name):
    """A module's name as the kernel has it."""
    return name.replace("-", "_")


def parse_lsmod(text, rc=0):
    """`lsmod` or /proc/modules to {module: [modules that use it]}; a filtered list (grep) may be empty and end with 1."""
    value, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or re.fullmatch(r"Module\s+Size\s+Used by.*", line.strip()):
            continue
        found = _LOADED.fullmatch(line.strip()[:4000])
        if not found:
            problems.append(not_understood(number, line))
            continue
        # /proc/modules goes on with "Live 0xffffffff" after the users, and writes "-" for none.
        users = (found.group("by") or "").split()
        names = users[0].split(",") if users else []
        value[underscored(found.group("name"))] = [underscored(name) for name in names if re.fullmatch(r"[A-Za-z0-9_][\w-]*", name)]
    del rc
    return Parsed(value if value or not problems else None, problems)


def parse_modprobe_config(text):
    """modprobe's configuration to {blacklist: {module: [path]}, disabled, options: {module: {key: value}}, ignored: {path: [module]}, own}.

    text: several files with their names (tail -v), `grep` over them, one file, or `modprobe --showconfig`; a path is None where
    nothing tells it. disabled, like blacklist: modules whose loading runs /bin/false or /bin/true instead. ignored: files that
    modprobe does not read, because their name does not end in .conf, and what they would blacklist. own: the text of our own file, None
    where it is not among them.
    """
    value = {"blacklist": {}, "disabled": {}, "options": {}, "ignored": {}, "own": dict(split_files(text).value).get(OWN)}
    for path, line in _lines(text):
        words = line.split()
        if len(words) < 2 or words[0] not in ("blacklist", "options", "install"):
            continue
        name = underscored(words[1])
        if path and not path.endswith(".conf"):
            value["ignored"].setdefault(path, []).extend([name] if words[0] == "blacklist" else [])
            continue
        if words[0] == "blacklist":
            value["blacklist"].setdefault(name, []).append(path)
        elif words[0] == "install" and len(words) > 2 and re.fullmatch(r"(?:/usr)?(?:/s?bin/)?(?:false|true)", words[2]):
            value["disabled"].setdefault(name, []).append(path)
        elif words[0] == "options":
            options = (_OPTION.fullmatch(word) for word in words[2:])
            value["options"].setdefault(name, {}).update((found.group("key"), found.group("value")) for found in options if found)
    return Parsed(value, [])


def _lines(text):
    """(path or None, line) of every line that is no comment."""
    files = split_files(text).value
    pairs = []
    for path, content in files or [(None, text)]:
        for raw in content.splitlines():
            line = raw.strip()[:2000]
            grepped = None if files else _GREPPED.fullmatch(line)
            pairs.append((grepped.group("path"), grepped.group("line")) if grepped else (path, line))
    return [(path, line.split("#", 1)[0].strip()) for path, line in pairs if not line.startswith("#")]


def parse_initramfs_age(text):
    """Lines "RELEASE older|newer" to the releases whose initramfs is older than our file of modprobe.d, sorted."""
    found, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        match = re.fullmatch(r"\s*(\S{1,200}) (older|newer)\s*", line[:300])
        if match and match.group(2) == "older":
            found.append(match.group(1))
        elif line.strip() and not match:
            problems.append(not_understood(number, line))
    return Parsed(sorted(found), problems)


def cmdline_blacklist(cmdline):
    """What a kernel's command line forbids: the modules of modprobe.blacklist, module_blacklist and rd.driver.blacklist, sorted."""
    found = re.findall(r"(?:^|\s)(?:modprobe\.blacklist|module_blacklist|rd\.driver\.blacklist)=(\S{1,1000})", cmdline or "")
    return sorted({underscored(name) for names in found for name in names.split(",") if name})


def parse_initramfs(text):
    """`lsinitrd` or `lsinitramfs` to {image, modules: [{name, kernel, path}], configs: [files of modprobe.d], firmware: [versions of the driver]}.

    Other lines name other files, or are the tool's own head; a filtered list (grep) is as good.
    """
    value = {"image": None, "modules": [], "configs": [], "firmware": []}
    for line in text.splitlines():
        line = line.rstrip()[:2000].split(" -> ")[0]
        # `ls -l` columns come before the path.
        path = line.split()[-1] if line.split() else ""
        image, module, kernel = _IMAGE.match(line), _FILE.fullmatch(path), _KERNEL.match(path)
        if image and not value["image"]:
            value["image"] = image.group("path").rstrip(":")
        elif module:
            row = {"name": underscored(MODULE_SUFFIX.sub("", module.group("file"))), "kernel": kernel.group("kernel") if kernel else None,
                   "path": path}
            value["modules"] += [row] if row not in value["modules"][-50:] else []
        elif _FIRMWARE.search(path):
            version = _FIRMWARE.search(path).group(1)
            value["firmware"] += [version] if version not in value["firmware"] else []
        elif _CONFIG.fullmatch(path):
            value["configs"].append("/" + path.lstrip("/"))
    return Parsed(value, [])
