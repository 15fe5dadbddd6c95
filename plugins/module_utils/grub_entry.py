# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of menu entries with more words on the kernel command line, and our block in /boot/grub/custom.cfg.

41_custom of grub-mkconfig makes grub.cfg read that file at each boot, so that an entry comes and goes without a new grub.cfg. The rest of the file
is its owner's. https://www.gnu.org/software/grub/manual/grub/html_node/Multi_002dboot-manual-config.html
"""

from __future__ import annotations

import re
import shlex

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_boot

_BEGIN = "### BEGIN lockstep.gpu: a kernel on trial ###"
# Where the owner's last line has no end: taking the block out gives it back as it was.
_BEGIN_JOINED = "### BEGIN lockstep.gpu: a kernel on trial (the line above had no end) ###"
_END = "### END lockstep.gpu: a kernel on trial ###"
_NOTE = "# Written by lockstep.gpu for one boot; it goes when the trial is over. Do not make it the default.\n"
_SOURCE = re.compile(r"^[ \t]*source[ \t]+\$\{?(?:config_directory|prefix)\}?/custom\.cfg[ \t]*$", re.MULTILINE)
_LINUX = ("linux", "linuxefi", "linux16")
# What GRUB's language takes as it is, whatever is inside: quotes, escaped characters, variables.
_QUOTED = re.compile(r"'[^']*'|\"(?:[^\"\\]|\\.)*\"|\\.|\$\{\w+\}")
_PLAIN = re.compile(r"[\w.,:/+=@%-]+")


class EntryError(ValueError):
    """A menu entry or a block that cannot be worked on; the text says why."""


def sources_custom(text):
    """Whether a grub.cfg reads custom.cfg."""
    return bool(_SOURCE.search(text))


def with_custom(text, custom):
    """grub.cfg's text with that of custom.cfg (None without one) where it is read first; alone where the two cannot be read together."""
    found = _SOURCE.search(text) if custom else None
    if found is None:
        return text
    both = "%s\n%s\n%s" % (text[:found.start()], custom.rstrip("\n"), text[found.end():])
    return text if parse_boot.parse_grub_menu(both).value is None else both


def lines_of(text, place):
    """(opening line, lines of the body) of the menu entry or submenu that is number `place` in the file's order, as parse_grub_menu counts.

    Raises EntryError when there is none, or it has no end.
    """
    lines = text.splitlines()
    starts = [number for number, line in enumerate(lines) if line.split()[:1] in (["menuentry"], ["submenu"]) and line.split()[-1] == "{"]
    if place >= len(starts):
        raise EntryError("grub.cfg has %d menu entries, not %d" % (len(starts), place + 1))
    depth = 1
    for number in range(starts[place] + 1, len(lines)):
        words = lines[number].split()
        if words and words[-1] == "{":
            depth += 1
        elif words and words[0].rstrip(";") == "}":
            depth -= 1
        if not depth:
            return lines[starts[place]], lines[starts[place] + 1:number]
    raise EntryError("the menu entry has no end: %s" % lines[starts[place]].strip())


def extended(line, words):
    """A line with more words for the kernel at its end, or before the "--" after which they would be for init. Raises EntryError."""
    bare = line.rstrip()
    masked = _QUOTED.sub(lambda part: "x" * len(part.group()), bare)
    if re.search(r"[;&|#{}<>'\"\\]", masked):
        raise EntryError("the kernel command line is no plain one: %s" % bare.strip())
    found = re.search(r"\s+--(?=\s|$)", masked)
    at = found.start() if found else len(bare)
    return "%s %s%s" % (bare[:at], " ".join(words), bare[at:])


def _options(opening):
    """What stands between a menu entry's title and its brace, without its id: classes, and who may use it. Raises EntryError."""
    try:
        words = shlex.split(opening.rstrip()[:-1])[2:]
    except ValueError:
        raise EntryError("the menu entry's first line cannot be read: %s" % opening.strip()) from None
    kept, skip = [], False
    for word in words:
        if not skip and word not in ("--id", "$menuentry_id_option", "${menuentry_id_option}") and not word.startswith("--hotkey"):
            kept.append(word if _PLAIN.fullmatch(word) else _quoted(word))
        skip = not skip and word in ("--id", "$menuentry_id_option", "${menuentry_id_option}", "--hotkey")
    return kept


def _quoted(word):
    return "'%s'" % word.replace("'", "'\\''")


def copy_of(text, place, kernel, ident, words):
    """The text of a menu entry of its own that boots what the one at `place` boots, with more words on the kernel command line.

    kernel: its release, of which each command must be. On Ubuntu's cloud images (GRUB_FORCE_PARTUUID) an entry first starts without an initramfs
    and has itself started again when that fails, which would make two boots of one; the copy starts with the initramfs at once. Raises EntryError.
    """
    opening, body = lines_of(text, place)
    commands = [number for number, line in enumerate(body) if line.split()[:1] and line.split()[0] in _LINUX]
    if not commands or not all("".join(body[number].split()[1:2]).endswith("-" + kernel) for number in commands):
        raise EntryError("the menu entry of kernel %s does not start it with a plain command" % kernel)
    for number in commands:
        body[number] = extended(body[number], words)
    without_initramfs = any(line.strip() == "initrdfail" for line in body)
    # What would make the trial the default, start it again, or have GRUB wait at its menu after it (Ubuntu's recordfail).
    body = (["\tset initrdfail=1"] if without_initramfs else []) + [line for line in body if line.strip() not in ("savedefault", "initrdfail", "recordfail")]
    title = _quoted("Linux %s, once on trial (lockstep.gpu)" % kernel)
    head = " ".join(["menuentry", title, *_options(opening), "--id", _quoted(ident), "{"])
    return "\n".join([head, *body, "}"]) + "\n"


def _block(text):
    """(start, end) of our block in custom.cfg, None without one. Raises EntryError when a part of it is missing."""
    begin = re.search("^(?:%s|%s)$" % (re.escape(_BEGIN), re.escape(_BEGIN_JOINED)), text, re.MULTILINE)
    end = re.search("^%s(?:\n|$)" % re.escape(_END), text, re.MULTILINE)
    if begin is None and end is None:
        return None
    if begin is None or end is None or end.start() < begin.end():
        raise EntryError("custom.cfg has a part of a block by lockstep.gpu; remove the lines between and including '%s' and '%s'" % (_BEGIN, _END))
    start = begin.start() - (1 if begin.group() == _BEGIN_JOINED and begin.start() else 0)
    return start, end.end()


def without_block(text):
    """custom.cfg's text as its owner wrote it. Raises EntryError."""
    found = _block(text)
    return text if found is None else text[:found[0]] + text[found[1]:]


def with_block(text, entry):
    """custom.cfg's text with a menu entry in our block at the end. Raises EntryError."""
    owner = without_block(text)
    joined = bool(owner) and not owner.endswith("\n")
    return "%s%s%s\n%s%s%s\n" % (owner, "\n" if joined else "", _BEGIN_JOINED if joined else _BEGIN, _NOTE, entry, _END)


def block_entry(text):
    """The menu entry in our block, None without a block. Raises EntryError."""
    found = _block(text)
    if found is None:
        return None
    inside = text[found[0]:found[1]].lstrip("\n")
    return inside.partition("\n")[2].replace(_NOTE, "", 1).rpartition(_END)[0]
