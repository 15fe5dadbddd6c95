# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB 2 as Red Hat's distributions set it up: the menu is made at boot, of the files in /boot/loader/entries.

An entry's id is its file's name without .conf; the saved and the one-time entry are ids in the environment block. The script that runs
when a kernel is installed makes the new one the default where /etc/sysconfig/kernel says UPDATEDEFAULT=yes (grubby(8), kernel-install(8)).
"""

from __future__ import annotations

import glob
import os
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import bls_trial, parse_bls, parse_boot, trial
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import read_text
from ansible_collections.lockstep.gpu.plugins.module_utils.grub import ENV_SIZE, Grub, GrubError, State, can_write, check_files, is_saved
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import join_files

ENTRIES = "boot/loader/entries/*.conf"
CONFIG = "boot/grub2/grub.cfg"
# Where grub.cfg lies on EFI machines of EL 8; since EL 9 that one only leads to the other.
EFI_CONFIG = "boot/efi/EFI/*/grub.cfg"
ENVIRONMENT = "boot/grub2/grubenv"
SYSCONFIG = "etc/sysconfig/kernel"
_UPDATE_DEFAULT = re.compile(r"^[ \t]*UPDATEDEFAULT=.*$", re.MULTILINE)


def entry_of(entries, kernel, machine):
    """The entry that boots exactly this release, that of this machine where a clone has left others; None without one.

    entries: of parse_bls. machine: /etc/machine-id, or None.
    """
    fitting = [entry for entry in entries if entry["kernel"] == kernel and not entry["rescue"] and not trial.is_entry(entry["id"])]
    return next((entry for entry in fitting if entry["machine_id"] == machine), fitting[0] if fitting else None)


def own_entry(entries, kernel, machine_id):
    """The entry that boots this kernel; machine_id is the path of that file. Raises GrubError where there is none."""
    machine = parse_bls.parse_machine_id(_text(machine_id)).value if os.path.isfile(machine_id) else None
    entry = entry_of(entries, kernel, machine)
    if entry is None:
        known = sorted({item["kernel"] for item in entries if item["kernel"]})
        raise GrubError("no boot entry is for kernel %s; there are %s" % (kernel, ", ".join(known) or "none at all"))
    return entry


def menu_entry(number, entry):
    """An entry of parse_bls in the form of parse_boot.parse_grub_menu."""
    return {"title": entry["title"] or entry["id"], "id": entry["id"], "number": str(number), "kernel": entry["kernel"], "submenu": False, "parents": []}


class Bls(Grub):
    """GRUB with boot loader specification entries below `root` ("/" outside tests). run: a run.Runner."""

    editenv = "grub2-editenv"
    refused = "GRUB %s its environment block /boot/grub2/grubenv"

    @property
    def configured(self):
        """Whether such a menu is there: entries, and a GRUB that reads them."""
        return bool(glob.glob(self.path(ENTRIES))) and self._config() is not None

    def _config(self):
        """The grub.cfg that lists the entries, None without one."""
        for path in (self.path(CONFIG), *sorted(glob.glob(self.path(EFI_CONFIG)))):
            if os.path.isfile(path) and re.search(r"^[ \t]*blscfg\b", _text(path), re.MULTILINE):
                return path
        return None

    def _entries(self):
        paths = sorted(glob.glob(self.path(ENTRIES)))
        return parse_bls.in_menu_order(parse_bls.parse_bls_entries(join_files([(path, _text(path)) for path in paths])).value or [])

    def read(self):
        """The State. Its setting is "saved" only where the installation of a kernel does not move the default."""
        settings = self.path("etc/default/grub")
        known = parse_boot.parse_default_grub(join_files([(settings, _text(settings))])).value if os.path.isfile(settings) else None
        setting = (known or {}).get("GRUB_DEFAULT")
        if self._moved_by_updates():
            setting = "%s, UPDATEDEFAULT=yes" % setting
        # On EFI machines of EL 8 it is a link to a file beside grub.cfg, which GRUB can write as well.
        env_file = os.path.realpath(self.path(ENVIRONMENT))
        env = parse_boot.parse_grubenv(_text(env_file)).value if os.path.isfile(env_file) else None
        usable = env is not None and os.path.getsize(env_file) == ENV_SIZE
        writable = self._writable(os.path.dirname(env_file)) if usable else False if os.path.lexists(self.path(ENVIRONMENT)) else None
        return State([menu_entry(*pair) for pair in enumerate(self._entries())], parse_boot.cfg_default(_text(self._config())), setting, env, writable)

    def _moved_by_updates(self):
        path = self.path(SYSCONFIG)
        return os.path.isfile(path) and parse_boot.parse_sysconfig_kernel(_text(path)).value is True

    def _writable(self, folder):
        words = [self._run(["grub2-probe", "--target=" + target, folder], ok=None) for target in ("fs", "abstraction")]
        return None if any(word.rc for word in words) else can_write(words[0].out.strip(), words[1].out)

    def entry(self, state, kernel):
        """The entry of a kernel that can be booted. Raises GrubError when it has none, or no image or initramfs."""
        entry = own_entry(self._entries(), kernel, self.path("etc/machine-id"))
        check_files(kernel, self.boot_files(kernel))
        return next(item for item in state.entries if item["id"] == entry["id"])

    def boot_files(self, kernel):
        """The paths of a kernel's image and initramfs."""
        return [self.path("boot/vmlinuz-" + kernel), self.path("boot/initramfs-%s.img" % kernel)]

    def environment(self):
        """The path of the environment block; on EFI machines of EL 8 it is elsewhere."""
        return os.path.realpath(self.path(ENVIRONMENT))

    def trial_spec(self):
        """What set_once() takes for the entry of a trial."""
        return bls_trial.ENTRY

    def trial_entry(self, state, kernel, words):
        """The text of a trial's entry: that of the kernel, with more words for it. Raises GrubError."""
        path = self.path(os.path.dirname(ENTRIES), self.entry(state, kernel)["id"] + ".conf")
        # dracut's own shell would wait for somebody at the console.
        return bls_trial.copy_of(_text(path), kernel, [*words, "rd.shell=0", "rd.emergency=reboot"])

    def trial_now(self):
        """The text of the entry of a trial that is there, or None."""
        return read_text(self.path(os.path.dirname(ENTRIES), bls_trial.ENTRY + ".conf"))

    def put_trial(self, text):
        """Write the entry of a trial, None to take it out."""
        bls_trial.put(self.path(os.path.dirname(ENTRIES), bls_trial.ENTRY + ".conf"), text)

    def make_saved(self):
        """Keep the installation of a kernel from moving the default. Raises GrubError where GRUB does not boot the saved entry."""
        path = self.path(SYSCONFIG)
        if self._moved_by_updates():
            with open(path + ".lockstep-new", "w", encoding="utf-8") as handle:
                handle.write(_UPDATE_DEFAULT.sub("UPDATEDEFAULT=no", _text(path)))
                handle.flush()
                os.fsync(handle.fileno())
                os.fchmod(handle.fileno(), os.stat(path).st_mode & 0o777)
            os.rename(path + ".lockstep-new", path)
        state = self.read()
        if not is_saved(state):
            raise GrubError("GRUB_DEFAULT is %s and %s boots %s; set GRUB_DEFAULT=saved in /etc/default/grub, and run grub2-mkconfig"
                            % (state.setting, self._config(), state.cfg_default), "grub_default_not_saved")

    def set_default(self, spec):
        """Save an entry as the default, by its id, and read it back."""
        self._run(["grub2-set-default", "--boot-directory=" + self.path("boot"), spec])
        self._check("saved_entry", spec)

    def set_once(self, spec):
        """Boot an entry once, at the next start, and read it back."""
        self._run(["grub2-reboot", "--boot-directory=" + self.path("boot"), spec])
        self._check("next_entry", spec)


def _text(path):
    with open(path, encoding="utf-8", errors="replace") as handle:
        return handle.read()
