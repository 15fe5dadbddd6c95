# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB 2 as Debian and Ubuntu set it up: read the boot state, choose the entry of a kernel, set it.

Entries are named by the ids that grub-mkconfig gives them ("gnulinux-advanced-UUID>gnulinux-RELEASE-advanced-UUID"):
positions move with every kernel that is installed, and titles with the distribution's name.
"""

from __future__ import annotations

import glob
import os
from collections import namedtuple

from ansible_collections.lockstep.gpu.plugins.module_utils import grub_entry, parse_boot, trial
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import read_text
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import join_files

DROP_IN = "etc/default/grub.d/zz-lockstep-gpu.cfg"
DROP_IN_TEXT = ("# Written by lockstep.gpu: the default kernel is the saved entry, not the newest kernel.\n"
                "GRUB_DEFAULT=saved\n")
CUSTOM = "boot/grub/custom.cfg"
ENV_SIZE = 1024     # bytes; GRUB writes the block in place and never changes its size

# What GRUB can read but not write (its save_env then fails); after the lists of Ubuntu's 00_header and
# https://www.gnu.org/software/grub/manual/grub/html_node/Environment-block.html
READ_ONLY_FILESYSTEMS = {"btrfs", "cpiofs", "newc", "odc", "romfs", "squash4", "tarfs", "zfs", "iso9660"}
READ_ONLY_ABSTRACTIONS = ("lvm", "diskfilter", "mdraid", "raid", "ldm", "dm_nv")

# entries: rows of parse_boot.parse_grub_menu. cfg_default: see parse_boot.cfg_default(). setting: GRUB_DEFAULT of the settings.
# env: variables of grubenv, None when it is missing or no environment block. env_writable: by GRUB at boot.
State = namedtuple("State", ["entries", "cfg_default", "setting", "env", "env_writable"])


class GrubError(Exception):
    """The kernel cannot be made what was asked for; code is a word of the collection's vocabulary, or None."""

    def __init__(self, message, code=None):
        self.code = code
        super().__init__(message if code is None else "%s: %s" % (code, message))


def entry_for(entries, kernel):
    """The menu entry that boots exactly this kernel release, or None.

    Never the recovery entry, never the "simple" first entry, whose kernel changes with the next installation, and never that of a trial.
    """
    for entry in entries:
        ident = entry["id"] or ""
        if entry["kernel"] == kernel and not entry["submenu"] and not ident.startswith("gnulinux-simple") and not trial.is_entry(ident) \
                and "-recovery-" not in ident and "(recovery mode)" not in entry["title"]:
            return entry
    return None


def spec_of(entry):
    """What grub-set-default takes for an entry: ids from the outermost submenu inwards, titles where there is no id."""
    return ">".join(level["id"] or level["title"].replace(">", ">>") for level in [*entry["parents"], entry])


def kernel_named(state, spec):
    """The kernel release that a spec (saved_entry, next_entry) names, or None."""
    entry = parse_boot.find_entry(state.entries, spec) if spec else None
    return entry["kernel"] if entry else None


def default_kernel(state):
    """The kernel release that boots by default, a one-time entry aside, or None."""
    return parse_boot.default_kernel(state.entries, state.cfg_default, dict(state.env or {}, next_entry=None))[0]


def is_saved(state):
    """Whether the saved entry is what GRUB boots, by the settings and by the grub.cfg made from them."""
    return state.setting == "saved" and "saved_entry" in (state.cfg_default or "")


def can_write(filesystem, abstraction):
    """Whether GRUB itself can write a file there, from grub-probe's words for /boot/grub. None when they are unknown."""
    if not filesystem:
        return None
    if filesystem in READ_ONLY_FILESYSTEMS:
        return False
    return not any(word.startswith(READ_ONLY_ABSTRACTIONS) for word in abstraction.split())


def check_files(kernel, paths):
    """Raises GrubError when one of the files that a kernel boots from is missing."""
    for path in paths:
        if not os.path.isfile(path):
            raise GrubError("kernel %s cannot be booted: %s does not exist" % (kernel, path))


class Grub:
    """GRUB below `root` ("/" outside tests). run: a run.Runner."""

    name = "grub"
    editenv = "grub-editenv"
    # What stands in the way of a one-time entry; the blank is for "cannot write" or "may not be able to write".
    refused = "GRUB %s its environment block /boot/grub/grubenv"

    def __init__(self, run, root="/"):
        self._run = run
        self._root = root

    def path(self, *parts):
        """A path below the root."""
        return os.path.join(self._root, *parts)

    @property
    def configured(self):
        """Whether a GRUB menu is there."""
        return os.path.isfile(self.path("boot/grub/grub.cfg"))

    def other_loader(self):
        """The name of another boot loader whose entries are there, or None."""
        for name, place in (("systemd-boot", "boot/efi/loader/loader.conf"), ("systemd-boot", "boot/loader/loader.conf"),
                            ("boot loader specification entries", "boot/loader/entries"), ("grub2", "boot/grub2/grub.cfg")):
            if os.path.exists(self.path(place)):
                return name
        return None

    def read(self):
        """The State. Raises GrubError for a menu that cannot be read."""
        cfg = self._menu()
        entries = parse_boot.parse_grub_menu(cfg).value
        if entries is None:
            raise GrubError("%s has no menu entry that can be read" % self.path("boot/grub/grub.cfg"))
        files = [self.path("etc/default/grub"), *sorted(glob.glob(self.path("etc/default/grub.d/*.cfg")))]
        settings = parse_boot.parse_default_grub(join_files([(name, _text(name)) for name in files if os.path.isfile(name)])).value or {}
        env_file = self.path("boot/grub/grubenv")
        env = parse_boot.parse_grubenv(_text(env_file)).value if os.path.isfile(env_file) else None
        usable = env is not None and not os.path.islink(env_file) and os.path.getsize(env_file) == ENV_SIZE
        # Without a block nothing is known: GRUB's tools make one with the first entry that is saved.
        writable = self._probe_writable() if usable else False if os.path.lexists(env_file) else None
        return State(entries, parse_boot.cfg_default(cfg), settings.get("GRUB_DEFAULT"), env, writable)

    def _menu(self):
        """grub.cfg with what it reads of custom.cfg, where the entry of a trial lies."""
        return grub_entry.with_custom(_text(self.path("boot/grub/grub.cfg")), read_text(self.path(CUSTOM)))

    def _probe_writable(self):
        words = [self._run(["grub-probe", "--target=" + target, self.path("boot/grub")], ok=None) for target in ("fs", "abstraction")]
        return None if any(word.rc for word in words) else can_write(words[0].out.strip(), words[1].out)

    def entry(self, state, kernel):
        """The entry of a kernel that can be booted. Raises GrubError when it has none, or no image or initramfs."""
        entry = entry_for(state.entries, kernel)
        if entry is None:
            known = sorted({item["kernel"] for item in state.entries if item["kernel"]})
            raise GrubError("GRUB's menu has no entry for kernel %s; it has %s" % (kernel, ", ".join(known) or "no kernel at all"))
        check_files(kernel, self.boot_files(kernel))
        return entry

    def boot_files(self, kernel):
        """The paths of a kernel's image and initramfs."""
        return [self.path("boot/vmlinuz-" + kernel), self.path("boot/initrd.img-" + kernel)]

    def make_saved(self):
        """Let GRUB boot the saved entry: a drop-in of our own, and a new grub.cfg. Raises GrubError, CommandError."""
        os.makedirs(os.path.dirname(self.path(DROP_IN)), exist_ok=True)
        with open(self.path(DROP_IN), "w", encoding="utf-8") as handle:
            handle.write(DROP_IN_TEXT)
        self._run(["update-grub"])
        state = self.read()
        if not is_saved(state):
            raise GrubError("GRUB_DEFAULT is %s although %s says saved; look for a later assignment"
                            % (state.setting, self.path(DROP_IN)), "grub_default_not_saved")

    def set_default(self, spec):
        """Save an entry as the default and read it back."""
        self._run(["grub-set-default", "--boot-directory=" + self.path("boot"), spec])
        self._check("saved_entry", spec)

    def set_once(self, spec):
        """Boot an entry once, at the next start, and read it back."""
        self._run(["grub-reboot", "--boot-directory=" + self.path("boot"), spec])
        self._check("next_entry", spec)

    def clear_once(self):
        """Take back what set_once() did."""
        self._run([self.editenv, self.environment(), "unset", "next_entry"])
        self._check("next_entry", None)

    def environment(self):
        """The path of the environment block."""
        return self.path("boot/grub/grubenv")

    def settle_disk(self):
        """Have what was written below /boot where GRUB reads it: it knows no journal of a file system."""
        self._run(["sync", "-f", os.path.dirname(self.environment())])

    def trial_spec(self):
        """What set_once() takes for the entry of a trial."""
        return trial.ENTRY

    def trial_entry(self, state, kernel, words):
        """The text of a trial's entry: that of the kernel, with more words for it. Raises GrubError, also where GRUB would not read it."""
        if not grub_entry.sources_custom(_text(self.path("boot/grub/grub.cfg"))):
            raise GrubError("grub.cfg does not read custom.cfg, where the entry of a trial would be: /etc/grub.d/41_custom is missing or not "
                            "executable; restore it and run update-grub")
        entry = _or_grub_error(grub_entry.copy_of, self._menu(), state.entries.index(self.entry(state, kernel)), kernel, trial.ENTRY, words)
        checked = self._run(["grub-script-check"], ok=None, stdin=_or_grub_error(grub_entry.with_block, self._custom(), entry))
        if checked.rc:
            raise GrubError("GRUB would not read %s with the entry of a trial: %s" % (self.path(CUSTOM), (checked.err or checked.out).strip()))
        return entry

    def _custom(self):
        return read_text(self.path(CUSTOM)) or ""

    def trial_now(self):
        """The text of the entry of a trial that is there, or None. Raises GrubError."""
        return _or_grub_error(grub_entry.block_entry, self._custom())

    def put_trial(self, text):
        """Write the entry of a trial, None to take it out; what else is in the file stays. Raises GrubError."""
        now = self._custom()
        wanted = _or_grub_error(grub_entry.with_block, now, text) if text else _or_grub_error(grub_entry.without_block, now)
        if not wanted:
            trial.remove(os.path.realpath(self.path(CUSTOM)))
        elif wanted != now:
            trial.write(self.path(CUSTOM), wanted)

    def _check(self, name, spec):
        found = (self.read().env or {}).get(name)
        if found != spec:
            raise GrubError("%s is %s after it was set to %s" % (name, found, spec))


def _or_grub_error(function, *arguments):
    """The function's result; its EntryError as a GrubError."""
    try:
        return function(*arguments)
    except grub_entry.EntryError as error:
        raise GrubError(str(error)) from None


def _text(path):
    with open(path, encoding="utf-8", errors="replace") as handle:
        return handle.read()
