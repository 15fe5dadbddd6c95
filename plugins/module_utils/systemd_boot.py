# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd-boot: its menu is made of boot loader specification entries, its default and its one-time entry are EFI variables.

The variables are set by bootctl and read back from efivarfs: four bytes of attributes, then UTF-16. systemd-boot forgets the one-time entry itself
before it starts it. An entry's id is its file's name without the counter of tries. Unified kernel images (EFI/Linux) have no line to extend.
https://systemd.io/BOOT_LOADER_INTERFACE/, bootctl(1)
"""

from __future__ import annotations

import glob
import os
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import bls_trial, parse_bls, trial
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import read_text
from ansible_collections.lockstep.gpu.plugins.module_utils.grub import Grub, GrubError, State, check_files
from ansible_collections.lockstep.gpu.plugins.module_utils.grub_bls import menu_entry, own_entry
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import join_files

PLACES = ("boot", "efi", "boot/efi")
VARIABLES = "sys/firmware/efi/efivars"


class SystemdBoot(Grub):
    """systemd-boot below `root` ("/" outside tests). run: a run.Runner."""

    name = "systemd-boot"
    refused = "one %s EFI variables here"

    @property
    def configured(self):
        """Whether systemd-boot started this node, and its files are there."""
        return (self._variable("LoaderInfo") or "").startswith("systemd-boot") and self._folder() is not None

    def _folder(self):
        """The folder with loader/loader.conf, None without one."""
        return next((self.path(place) for place in PLACES if os.path.isfile(self.path(place, "loader/loader.conf"))), None)

    def _variable(self, name):
        """The text of an EFI variable of the loader interface; None where it is not set."""
        try:
            with open(self.path(VARIABLES, "%s-%s" % (name, parse_bls.LOADER_VENDOR)), "rb") as handle:
                return handle.read()[4:].decode("utf-16-le", "replace").rstrip("\0")
        except OSError:
            return None

    def _chosen(self, name):
        """The id that a variable names, without .conf; None where it names none."""
        text = self._variable(name)
        return re.sub(r"\.conf$", "", text) if text else None

    def _files(self):
        """{id: path} of the entries: those of the EFI partition and of the extended boot partition."""
        found = {}
        for place in PLACES:
            for path in sorted(glob.glob(self.path(place, "loader/entries/*.conf"))):
                found.setdefault(parse_bls.TRIES.sub("", os.path.basename(path)[:-len(".conf")]), path)
        return found

    def _entries(self):
        files = self._files()
        texts = join_files([("/%s.conf" % ident, _text(path)) for ident, path in files.items()])
        return parse_bls.in_menu_order(parse_bls.parse_bls_entries(texts).value or [])

    def read(self):
        """The State, in GRUB's words. The setting is "saved" only where the variable names the default, which no pattern then moves."""
        entries = self._entries()
        default, once = self._chosen("LoaderEntryDefault"), self._chosen("LoaderEntryOneShot")
        env = {name: value for name, value in (("saved_entry", default), ("next_entry", once)) if value}
        fitting = [] if default else parse_bls.matching(entries, parse_bls.parse_loader_default(_text(self._folder() + "/loader/loader.conf")).value)
        return State([menu_entry(*pair) for pair in enumerate(entries)],
                     "${saved_entry}" if default else fitting[0]["id"] if len(fitting) == 1 else "${unknown}",
                     "saved" if default else "loader.conf", env, os.access(self.path(VARIABLES), os.W_OK))

    def entry(self, state, kernel):
        """The entry of a kernel that can be booted. Raises GrubError when it has none, or no image or initramfs."""
        entry = own_entry(self._entries(), kernel, self.path("etc/machine-id"))
        check_files(kernel, self._images(entry["id"]))
        return next(item for item in state.entries if item["id"] == entry["id"])

    def _images(self, ident):
        """The paths that an entry names, below the partition of its file. Raises GrubError when it names none."""
        path = self._files()[ident]
        top = os.path.dirname(os.path.dirname(os.path.dirname(path)))
        words = [line.split() for line in _text(path).splitlines()]
        found = [os.path.join(top, pair[1].lstrip("/")) for pair in words if len(pair) > 1 and pair[0] in ("linux", "initrd")]
        if not found:
            raise GrubError("the boot entry %s names no kernel image" % ident)
        return found

    def boot_files(self, kernel):
        """The paths of a kernel's image and initramfs. Raises GrubError."""
        return self._images(self.entry(self.read(), kernel)["id"])

    def make_saved(self):
        """A default that the variable names counts before any pattern of loader.conf."""

    def set_default(self, spec):
        """Make an entry the default, by its id, and read it back."""
        self._run(["bootctl", "set-default", spec + ".conf"])
        self._check("saved_entry", spec)

    def set_once(self, spec):
        """Boot an entry once, at the next start, and read it back."""
        self._run(["bootctl", "set-oneshot", spec + ".conf"])
        self._check("next_entry", spec)

    def clear_once(self):
        """Take back what set_once() did."""
        self._run(["bootctl", "set-oneshot", ""])
        self._check("next_entry", None)

    def settle_disk(self):
        """Have what was written on the EFI partition where the firmware reads it."""
        self._run(["sync", "-f", self._folder()])

    def trial_entry(self, state, kernel, words):
        """The text of a trial's entry: that of the kernel, with more words for it. Raises GrubError."""
        path = self._files()[self.entry(state, kernel)["id"]]
        return bls_trial.copy_of(_text(path), kernel, [*words, "rd.shell=0", "rd.emergency=reboot"])

    def _trial_path(self):
        """Where the entry of a trial is, or would be: beside the entries, since it names its files from there."""
        files = self._files()
        beside = files.get(trial.ENTRY) or next(iter(files.values()), None)
        return os.path.join(os.path.dirname(beside) if beside else self._folder() + "/loader/entries", trial.ENTRY + ".conf")

    def trial_now(self):
        """The text of the entry of a trial that is there, or None."""
        return read_text(self._trial_path())

    def put_trial(self, text):
        """Write the entry of a trial, None to take it out."""
        bls_trial.put(self._trial_path(), text)


def _text(path):
    with open(path, encoding="utf-8", errors="replace") as handle:
        return handle.read()
