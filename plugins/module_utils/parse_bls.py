# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot Loader Specification entries, as files and as tools print them, and which of them GRUB takes.

Sources: https://uapi-group.org/specifications/specs/boot_loader_specification/, bootctl(1), grubby(8), and the command blscfg of
Fedora's and Red Hat's GRUB for the order.
"""

from __future__ import annotations

import fnmatch
import functools
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import versions_rpm
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, split_files

MOST_ENTRIES = 500
LOADER_VARIABLES = ("LoaderInfo", "LoaderEntryDefault", "LoaderEntryOneShot")
LOADER_VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
TRIES = re.compile(r"\+\d+(?:-\d+)?$")
_MACHINE_ID = re.compile(r"[0-9a-f]{31,32}")
# An entry's name: machine id, then the kernel, or what makes a rescue entry.
_NAMED = re.compile(r"(?P<machine>[0-9a-f]{31,32})-(?P<kernel>\S+?)(?:\+\d+(?:-\d+)?)?(?:\.conf)?")
_IMAGE = re.compile(r"(?:^|/)(?:vmlinu[xz]|Image|kernel)-(?P<release>\d\S*)|/(?P<folder>\d[^/\s]*)/(?:linux|vmlinuz)$")
# `ls` and `ls -l`, with or without the folder.
_LISTED = re.compile(r"(?:.*\s)?(?P<path>\S+\.conf)")
_LS_NOISE = re.compile(r"total \d+|/\S+:|.*\.conf\.?(?:rpmsave|rpmnew|bak|old|save)|d[rwx-]{9}.*")


def _entry(ident, title=None, kernel=None, machine=None):
    """{id, title, kernel, machine_id, rescue}; id is the file's name without .conf."""
    ident = ident.rsplit("/", 1)[-1]
    ident = ident[:-len(".conf")] if ident.endswith(".conf") else ident
    named = _NAMED.fullmatch(ident)
    of_name = named.group("kernel") if named else None
    rescue = bool(of_name and of_name.startswith("0-rescue") or kernel and kernel.startswith("0-rescue"))
    if kernel is None and of_name and re.match(r"\d+\.\d", of_name):
        kernel = of_name
    return {"id": ident, "title": title, "kernel": None if rescue else kernel, "rescue": rescue,
            "machine_id": machine or (named.group("machine") if named else None)}


def _release(path):
    """The kernel release in the name of an image, None when it has none."""
    found = _IMAGE.search(path.strip().strip('"'))
    return (found.group("release") or found.group("folder")) if found else None


def parse_bls_entries(text):
    """/boot/loader/entries/*.conf as `tail -v -n +1` prints them, a listing of that folder, or `bootctl list`, to entries.

    [{id, title, kernel, machine_id, rescue}] in the order of the text; None when it holds no entry.
    """
    files, problems = split_files(text)
    if files:
        return Parsed([_of_file(path, content) for path, content in files[:MOST_ENTRIES] if path.endswith(".conf")], problems)
    if re.search(r"^[ \t]*id: \S", text, re.MULTILINE):
        return parse_bootctl_list(text)
    entries, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        found = _LISTED.fullmatch(line.strip())
        if found and len(entries) < MOST_ENTRIES:
            entries.append(_entry(found.group("path")))
        elif line.strip() and not found and not _LS_NOISE.fullmatch(line.strip()):
            problems.append(not_understood(number, line))
    return Parsed(entries or None, problems if entries else problems or ["no boot entry"])


def _of_file(path, content):
    """One entry of a file's keys; `linux` decides over `version`, which people may write as they like."""
    keys = {}
    for line in content.splitlines():
        words = line.split(None, 1)
        if len(words) == 2 and not words[0].startswith("#"):
            keys.setdefault(words[0], words[1].strip())
    kernel = _release(keys.get("linux", "")) or (keys.get("version") if re.match(r"\d+\.\d", keys.get("version", "")) else None)
    machine = keys.get("machine-id", "")
    return _entry(path, keys.get("title"), kernel, machine if _MACHINE_ID.fullmatch(machine) else None)


def parse_bootctl_list(text):
    """`bootctl list` to entries; the one that boots next has default: True."""
    entries, title, default = [], None, False
    for line in text.splitlines():
        key, colon, value = line.strip().partition(": ")
        if not colon:
            continue
        if key == "title":
            # bootctl adds its marks in brackets.
            title, default = value.split(" (default)")[0].split(" (selected)")[0], "(default)" in value
        elif key == "id" and len(entries) < MOST_ENTRIES:
            entries.append(dict(_entry(value.strip(), title), **({"default": True} if default else {})))
        elif key in ("version", "linux") and entries and not entries[-1]["rescue"]:
            kernel = _release(value) if key == "linux" else value if re.match(r"\d+\.\d", value) else None
            entries[-1]["kernel"] = kernel or entries[-1]["kernel"]
    return Parsed(entries or None, [] if entries else ["no boot entry"])


def parse_grubby_info(text):
    """`grubby --info=ALL` (blocks of key="value" lines) to entries, in the order of its indices, which is that of the menu."""
    blocks, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        key, equals, value = line.strip().partition("=")
        if not line.strip() or key in ("non linux entry", "boot"):
            continue
        if not equals or not re.fullmatch(r"[\w-]+", key):
            problems.append(not_understood(number, line))
        elif key == "index" and len(blocks) < MOST_ENTRIES:
            blocks.append({"index": value})
        elif blocks:
            blocks[-1].setdefault(key, value.strip('"'))
    entries = [_entry(block.get("id") or "", block.get("title"), _grubby_kernel(block)) for block in blocks]
    return Parsed(entries or None, problems if entries else problems or ["no boot entry"])


def _grubby_kernel(block):
    path = block.get("kernel", "")
    return "0-rescue" if "-0-rescue" in path else _release(path)


def parse_default_path(text):
    """`grubby --default-kernel` to the release of the image that it names; None where it names none."""
    for line in text.splitlines():
        release = _release(line)
        if line.strip().startswith("/") and release:
            return Parsed(None if release.startswith("0-rescue") else release, [])
    return Parsed(None, ["no kernel image is named"] if text.strip() else [])


def parse_machine_id(text):
    """/etc/machine-id."""
    word = text.strip()
    return Parsed(word, []) if _MACHINE_ID.fullmatch(word) else Parsed(None, ["no machine id"])


def in_menu_order(entries):
    """Entries as blscfg lists them: by name, version and release of their ids, each compared as rpm does, highest first.

    A machine id counts as the name, so that entries of another machine can come before newer kernels of this one.
    """
    return sorted(entries, key=functools.cmp_to_key(_compare), reverse=True)


def _compare(left, right):
    for one, two in zip(_split(left["id"]), _split(right["id"])):
        order = versions_rpm.vercmp(one, two)
        if order:
            return order
    return 0


def _split(ident):
    """(name, version, release) of an id, as blscfg splits a package's name."""
    rest, _dash, release = ident.rpartition("-")
    name, _dash, version = rest.rpartition("-")
    return name, version, release


def chosen(entries, environment):
    """(entry or None, whether what is saved was found): what GRUB boots of entries in the order of its menu.

    environment: grubenv, {} for none. An entry is named by id, title or place; GRUB takes the first where the name fits none.
    """
    wanted = environment.get("next_entry") or environment.get("saved_entry") or "0"
    for place, entry in enumerate(entries):
        if wanted in (entry["id"], entry["title"], str(place)):
            return entry, True
    return (entries[0] if entries else None), False


def parse_loader_default(text):
    """The pattern that loader.conf of systemd-boot names as `default`; None where it names none, or the last one chosen (@saved)."""
    words = [line.split(None, 1) for line in text.splitlines()]
    patterns = [pair[1].strip() for pair in words if len(pair) == 2 and pair[0] == "default"]
    return Parsed(patterns[-1] if patterns and not patterns[-1].startswith("@") else None, [])


def parse_loader_variables(text):
    """systemd-boot's EFI variables as "NAME: TEXT" lines to {name: text}, ids without .conf. https://systemd.io/BOOT_LOADER_INTERFACE/"""
    value, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        name, colon, word = line.strip().partition(": ")
        if colon and name in LOADER_VARIABLES:
            value[name] = word[:-len(".conf")] if word.endswith(".conf") else word
        elif line.strip():
            problems.append(not_understood(number, line))
    return Parsed(value or None, problems)


def is_named(entry, ident):
    """Whether an id of a variable is this entry's: there it has no counter of tries."""
    return TRIES.sub("", entry["id"]) == ident


def matching(entries, pattern):
    """The entries whose id fits a pattern of loader.conf (a shell pattern, with or without .conf)."""
    # A pattern of many stars would cost more than it can tell.
    if pattern is None or pattern.count("*") > 3:
        return []
    return [entry for entry in entries if fnmatch.fnmatchcase(entry["id"] + ".conf", pattern) or fnmatch.fnmatchcase(entry["id"], pattern)]
