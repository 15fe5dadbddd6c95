# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB: its settings, environment and menu, and which kernel it boots next."""

from __future__ import annotations

import re
import shlex

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, split_files

# GRUB's own menus have two levels; a foreign file of thousands would cost more than it can tell.
_MOST_LEVELS = 16
_MOST_ENTRIES = 2000
_SET_DEFAULT = re.compile(r"^[ \t]*set default=\"?([^\"\n]*)\"?[ \t]*$", re.MULTILINE)

# GRUB cannot write a file below these (00_header leaves out recordfail there; grub's own manual, "Environment block").
_UNWRITABLE_TYPES = ("btrfs", "zfs", "squashfs", "overlay", "tmpfs", "iso9660", "f2fs")
_UNWRITABLE_DEVICES = re.compile(r"/dev/(mapper/|md|dm-|[^/]+/[^/]+$)")
# Disks all the same: multipath has a mapping for each partition, and some controllers a folder.
_PLAIN_DEVICES = re.compile(r"/dev/(mapper/mpath|(?:cciss|ida|rd)/)")
_SEPARATOR = ">"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_GRUB_SETTING = re.compile(r"^[ \t]*(?:export[ \t]+)?GRUB_[A-Z0-9_]+=", re.MULTILINE)
# What grep prints before a line when it reads several files.
_GREP_PATH = re.compile(r"^/etc/default/grub[\w./-]*:(?:\d+:)?", re.MULTILINE)


def parse_default_grub(text):
    """/etc/default/grub and grub.d/*.cfg, as `tail -v -n +1`, `cat` or `grep` print them, to {name: value}; later files win.

    Only plain assignments are read: a value with $ or `, or with an open quote, gives None (unknown). The value is None
    for text without any setting that is not of any file.
    """
    files, problems = split_files(text)
    if problems and not files:
        plain = _GREP_PATH.sub("", text)
        if not _GRUB_SETTING.search(plain):
            return Parsed(None, problems)
        files, problems = [("/etc/default/grub", plain)], []
    value = {}
    for path, content in files:
        for number, line in enumerate(content.splitlines(), 1):
            found = re.fullmatch(r"\s*(?:export\s+)?(GRUB_[A-Z0-9_]+)=(.*)", line)
            if not found:
                continue
            try:
                words = shlex.split(found.group(2), comments=True)
            except ValueError:
                problems.append("%s: %s" % (path, not_understood(number, line)))
                value[found.group(1)] = None
                continue
            code = "$" in found.group(2) or "`" in found.group(2) or len(words) > 1
            value[found.group(1)] = None if code else "".join(words)
    return Parsed(value, problems)


def parse_grubenv(text):
    """The environment block (a header line, name=value lines, # padding), or what `grub-editenv list` says of it, to {name: value}.

    The tool prints the lines alone, and nothing for an empty block.
    """
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    if not any(line == "# GRUB Environment Block" for line in lines[:1]) and not all(_VARIABLE.match(line) for line in lines if line.strip()):
        return Parsed(None, ["no environment block header"])
    value, problems = {}, []
    for number, line in enumerate(lines, 1):
        if line.startswith("# "):
            continue
        name, equals, content = line.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            value[name] = re.sub(r"\\(.)", r"\1", content)
        elif line.strip("#").strip():
            problems.append(not_understood(number, line))
    return Parsed(value, problems)


def parse_grub_menu(text):
    """grub.cfg to its entries in order: [{title, id, number, path, kernel}]; also the lines that grep finds menuentry and submenu in.

    number is the position path ("1>0"), path that of ids and titles joined by ">"; kernel is the release in the file
    name of the entry's linux command, None when it has none (a submenu, another system).
    """
    if not re.search(r"^[ \t]*}", text, re.MULTILINE):
        return _menu_of_lines(text)
    entries, problems, stack, counters = [], [], [], [0]
    # Every open brace, with the entry that it opened or None (a function): indents tell nothing, since grub-mkconfig
    # writes entries inside of an `if`, and people write their own.
    blocks = []
    for line_number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if words and words[0] in ("menuentry", "submenu") and words[-1] == "{":
            if len(stack) >= _MOST_LEVELS or len(entries) >= _MOST_ENTRIES:
                return Parsed(None, ["more than %d levels or %d entries" % (_MOST_LEVELS, _MOST_ENTRIES)])
            try:
                entry = _entry(line, stack, counters)
            except (ValueError, IndexError):
                return Parsed(None, [not_understood(line_number, line)])
            entries.append(entry)
            stack.append(entry)
            blocks.append(entry)
            counters.append(0)
        elif words and words[-1] == "{":
            blocks.append(None)
        elif words and words[0].rstrip(";") == "}" and blocks:
            if blocks.pop() is not None:
                stack.pop()
                counters.pop()
        elif stack and words and words[0] in ("linux", "linuxefi", "linux16") and len(words) > 1:
            found = re.search(r"/vmlinu[zx]-(\S+)$", words[1])
            stack[-1]["kernel"] = found.group(1) if found else None
    if not entries:
        problems.append("no menu entry")
    return Parsed(entries or None, problems)


def _menu_of_lines(text):
    """The opening lines alone (grep 'menuentry\\|submenu', perhaps with line numbers): an indented entry is below the last submenu.

    The kernel is that of the title; the first entry of 10_linux names none, and boots what the first one below its submenu does.
    """
    entries, problems, counters, submenu = [], [], [0], None
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.sub(r"^\d+[:-]", "", raw)
        words = line.split()
        if not words or words[0] not in ("menuentry", "submenu"):
            continue
        if len(entries) >= _MOST_ENTRIES:
            return Parsed(None, ["more than %d entries" % _MOST_ENTRIES])
        inside = submenu is not None and line[:1].isspace()
        counters = counters[:2] if inside else counters[:1]
        try:
            entry = _entry(line if line.rstrip().endswith("{") else line + " {", [submenu] if inside else [], counters)
        except (ValueError, IndexError):
            problems.append(not_understood(number, raw))
            continue
        title = re.search(r"with Linux (\d\S*)", entry["title"])
        entry["kernel"] = title.group(1) if title else None
        if entry["submenu"]:
            submenu = entry
            counters.append(0)
        entries.append(entry)
    below = next((entry["kernel"] for entry in entries if entry["parents"] and entry["kernel"]), None)
    if below and (entries[0]["id"] or "").startswith("gnulinux-simple"):
        entries[0]["kernel"] = below
    return Parsed(entries or None, problems if entries else problems or ["no menu entry"])


def _entry(line, stack, counters):
    """One menu entry from its opening line. Raises ValueError or IndexError when the quoting is broken."""
    words = shlex.split(line.rstrip()[:-1].replace("$menuentry_id_option", "--id"))
    index = counters[-1]
    counters[-1] += 1
    prefix = stack[-1]["number"] + _SEPARATOR if stack else ""
    return {"title": words[1], "id": words[words.index("--id") + 1] if "--id" in words else None,
            "number": "%s%d" % (prefix, index), "kernel": None, "submenu": words[0] == "submenu",
            "parents": [{key: parent[key] for key in ("title", "id", "number")} for parent in stack]}


def find_entry(entries, wanted):
    """The entry that GRUB takes for `wanted` (number, title, id, or a path of them joined by ">"), or None.

    A submenu alone means its first entry; an unknown name is None, where GRUB falls back to the first entry.
    """
    steps = wanted.split(_SEPARATOR)
    for entry in entries:
        chain = entry["parents"] + [entry]
        if len(chain) == len(steps) and all(_is_named(item, step) for item, step in zip(chain, steps)):
            return _first_below(entries, entry) if entry["submenu"] else entry
    return None


def _is_named(item, step):
    return step in (item["title"], item["id"], item["number"].rsplit(_SEPARATOR, 1)[-1])


def _first_below(entries, submenu):
    return next((entry for entry in entries if not entry["submenu"]
                 and entry["number"].startswith(submenu["number"] + _SEPARATOR)), None)


def cfg_default(text):
    """What grub.cfg boots when no one-time entry is set: "0", an id, or "${saved_entry}"; None when it sets nothing.

    The settings of /etc/default/grub count only once a grub.cfg was made from them.
    """
    found = [value for value in _SET_DEFAULT.findall(text) if "next_entry" not in value]
    return found[-1] if found else None


def default_kernel(entries, default, environment):
    """(release or None, reason or None): the kernel that the next boot takes without anybody's help.

    default: cfg_default(); environment: parse_grubenv()'s value, None when it is unknown. next_entry wins over
    everything: it is a single trial boot (grub-reboot). GRUB takes its first entry where nothing is set or saved, or
    what is named does not exist.
    """
    if not entries:
        return None, "no menu entries"
    wanted = (environment or {}).get("next_entry")
    if not wanted:
        wanted = default
        if "saved_entry" in (default or ""):
            if environment is None:
                return None, "the saved entry is in an environment block that could not be read"
            wanted = environment.get("saved_entry")
        elif "$" in (default or ""):
            return None, "the default is a variable of grub.cfg's own"
    entry = find_entry(entries, wanted or "0") or find_entry(entries, "0")
    if entry is None or entry["kernel"] is None:
        return None, "the default entry starts no Linux kernel that is known by name"
    return entry["kernel"], None


def mount_of(mounts, path):
    """(device, file system type) of the mount that holds `path`, from the text of /proc/self/mounts; None unknown."""
    best = None
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 4:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda code: chr(int(code.group(1), 8)), fields[1])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        # A later mount on the same point hides the earlier one.
        if inside and (best is None or len(point) >= len(best[0])):
            best = (point, fields[0], fields[2])
    return best[1:] if best else None


def environment_writable(mount):
    """Whether GRUB can write its environment on this (device, type); None when the mount is unknown.

    GRUB writes through its own block list: never on LVM, md, device mapper, and not on copy-on-write file systems.
    (boot_kernel asks grub-probe instead, which knows; that is a command, and a bundle has the mount table only.)
    """
    if mount is None:
        return None
    device, kind = mount
    if kind in _UNWRITABLE_TYPES or (_UNWRITABLE_DEVICES.match(device) and not _PLAIN_DEVICES.match(device)):
        return False
    return True if device.startswith("/dev/") else None


def parse_reboot_marks(text):
    """/run/reboot-required.pkgs (a package a line), /run/reboot-required (a sentence), or `needs-restarting -r`, to the packages' names.

    None where the tool says that no reboot is needed.
    """
    if re.search(r"[Rr]eboot (?:is|should) not be? ?(?:required|necessary)|No core libraries or services have been updated", text):
        return Parsed(None, [])
    words = [re.sub(r"^\* ", "", line.strip()) for line in text.splitlines() if line.strip()]
    return Parsed(sorted({word for word in words if re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", word)}), [])


def parse_sysconfig_kernel(text):
    """/etc/sysconfig/kernel of RPM systems: whether a newly installed kernel becomes the default (UPDATEDEFAULT); None unsaid."""
    found = re.findall(r"^[ \t]*UPDATEDEFAULT=[\"']?(\w+)", text, re.MULTILINE)
    return Parsed(found[-1].lower() == "yes" if found else None, [])


# grub-core's disk/diskfilter.c, disk/loadenv.c, fs/btrfs.c, and grub-editenv.
_ENVIRONMENT_REFUSED = re.compile(
    r"diskfilter writes are not supported|sparse file not allowed|environment block too small|invalid environment block"
    r"|cannot open [`'\"]?\S*grubenv\S*: [^\n]{1,80}|cannot rename the file \S*grubenv\S*[^\n]{0,80}|malformed (?:block|file)[^\n]{0,40}grubenv[^\n]{0,40}")


def parse_grub_run(text):
    """What grub-set-default and others, or GRUB at boot, say when the environment cannot be written; None where they do not."""
    found = _ENVIRONMENT_REFUSED.search(text)
    return Parsed(found.group() if found else None, [])
