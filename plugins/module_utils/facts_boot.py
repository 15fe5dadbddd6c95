# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot loader, its entries and defaults."""

from __future__ import annotations

import errno
import os
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import capture, facts_build, grub_entry, parse_bls, parse_boot, parse_trial, trial
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import File, Function, Recorded

_ENTRIES = ("/boot/loader/entries/*.conf", "/boot/efi/loader/entries/*.conf", "/efi/loader/entries/*.conf")
_LOADER_CONF = ("/boot/loader/loader.conf", "/boot/efi/loader/loader.conf", "/efi/loader/loader.conf")
# A menu that GRUB makes itself, of the entries of /boot/loader/entries.
_BLSCFG = re.compile(r"^[ \t]*blscfg\b", re.MULTILINE)


def _variables(root):
    """systemd-boot's EFI variables as "NAME: TEXT" lines: four bytes of attributes each, then UTF-16. Raises Absent where there is none."""
    folder, rows = "/sys/firmware/efi/efivars/", []
    for name in parse_bls.LOADER_VARIABLES:
        path = capture.inside(root, "%s%s-%s" % (folder, name, parse_bls.LOADER_VENDOR))
        if os.path.isfile(path):
            with open(path, "rb") as handle:
                rows.append("%s: %s" % (name, handle.read(4096)[4:].decode("utf-16-le", "replace").rstrip("\0")))
    if not rows:
        raise capture.Absent(errno.ENOENT, os.strerror(errno.ENOENT), folder)
    return capture.lines(rows)


# name: (level, how to take it live); docs/probes.md describes each.
PROBES = {
    "bls_entries": ("local", Function(lambda root: capture.files(root, *_ENTRIES), "tail -v -n +1 /boot/loader/entries/*.conf")),
    "loader_conf": ("local", Function(capture.first_of(*_LOADER_CONF), _LOADER_CONF[0])),
    "grub_custom": ("local", Function(capture.first_of("/boot/grub/custom.cfg", "/boot/grub2/custom.cfg"), "/boot/grub/custom.cfg")),
    "machine_id": ("local", File("/etc/machine-id")),
    "loader_variables": ("local", Function(_variables, "LoaderInfo, LoaderEntryDefault, LoaderEntryOneShot of /sys/firmware/efi/efivars")),
    "sysconfig_kernel": ("local", File("/etc/sysconfig/kernel")),
    "reboot_marks": ("local", Function(capture.first_of("/run/reboot-required.pkgs", "/run/reboot-required"), "/run/reboot-required.pkgs")),
    "drained": ("local", File("/var/lib/lockstep-gpu/drained")),
    "grub_run": ("bundle", Recorded("grub-set-default, grub-reboot, update-grub; what GRUB prints at boot")),
    "grubby_default": ("bundle", Recorded("grubby --default-kernel")),
    "grubby_info": ("bundle", Recorded("grubby --info=ALL")),
    **facts_build.PROBES,
}
_NOTHING = dict.fromkeys(("loader", "grub_default", "grub_settings", "environment", "saved_entry", "next_entry", "default_kernel",
                          "env_writable", "env_refused", "menu_default", "entries", "machine_id"))


def section(reader):
    """reboot_marks: the packages that asked for a reboot, [] for an unnamed one, None where nothing asks (or nobody looked);
    new_kernel_default: whether a newly installed kernel becomes the default (UPDATEDEFAULT), None where nothing tells; build;
    drained: for which kernel's boot the node was taken out of service, None where it was not.
    """
    return dict(facts_build.section(reader), drained=reader.parsed("drained", _first_line, absent=None),
                reboot_marks=reader.told("reboot_marks", lambda text, rc: parse_boot.parse_reboot_marks(text)),
                new_kernel_default=reader.parsed("sysconfig_kernel", parse_boot.parse_sysconfig_kernel, absent=None))


def boot(reader, container):
    """Boot loader and default: {loader, grub_default, grub_settings, environment, saved_entry, next_entry, default_kernel,
    env_writable, env_refused, menu_default, entries, machine_id}.

    loader is "none" where there is none (a container), then the rest is None. grub_settings: {GRUB_NAME: value};
    environment: the names of grubenv, {} when GRUB has none; env_refused: what GRUB said when it could not write;
    menu_default: what grub.cfg boots (parse_boot.cfg_default);
    entries: [{id, title, kernel, machine_id, rescue}] in the order of the menu.
    """
    files = reader.parsed("boot_files", lambda text: Parsed(set(text.split()), []))
    if files is None:
        # A bundle may have the loader's files without the list of what is there; a live node always has that list.
        return dict(_NOTHING, **_loader(reader, None)) if "boot_files" in reader.not_recorded else _NOTHING.copy()
    if any(path.endswith("/grub.cfg") for path in files):
        return dict(_NOTHING, loader="grub", **_loader(reader, files))
    if any(path.endswith("/loader.conf") for path in files):
        return dict(_NOTHING, loader="systemd-boot", **_systemd_boot(reader, _entries(reader)))
    if container:
        return dict(_NOTHING, loader="none")
    reader.note("boot_files", "neither GRUB's nor systemd-boot's files are there")
    return _NOTHING.copy()


def _loader(reader, files):
    """GRUB's part of boot(); files: the paths that are there, None when nobody recorded them."""
    settings = reader.parsed("grub_default", parse_boot.parse_default_grub, absent={})
    environment = reader.parsed("grubenv", parse_boot.parse_grubenv, absent={})
    custom = reader.parsed("grub_custom", lambda text: Parsed(text, []), absent=None)
    menu = reader.parsed("grub_cfg", lambda text: _menu(grub_entry.with_custom(text, custom)))
    # grub-mkconfig's own default is the first entry.
    default = None if settings is None else settings.get("GRUB_DEFAULT", "0")
    if default is None and settings is not None:
        reader.note("grub_default", "GRUB_DEFAULT is no plain value")
    names = environment or {}
    part = {"grub_default": default, "grub_settings": settings, "environment": environment,
            "saved_entry": names.get("saved_entry") or None, "next_entry": names.get("next_entry") or None,
            "menu_default": menu[1] if menu else None, "env_writable": _writable(reader, files),
            "env_refused": reader.told("grub_run", lambda text, rc: parse_boot.parse_grub_run(text))}
    if menu and menu[0]:
        kernel, reason = _of_trial(reader, *menu, environment) or parse_boot.default_kernel(*menu, environment)
        if reason:
            reader.note("grub_cfg", reason)
        return dict(part, default_kernel=kernel, entries=[_plain(entry) for entry in menu[0] if not entry["submenu"]])
    found = _entries(reader)
    if files is None and not found["entries"] and reader.seen("loader_conf"):
        return dict(part, **_systemd_boot(reader, found))
    known = environment if environment is not None or "grubenv" not in reader.not_recorded else {}
    return dict(part, default_kernel=_bls_default(reader, found, part, known), **found)


def _first_line(text):
    """Parser of our mark: what its first line says."""
    return Parsed(text.partition("\n")[0].strip()[:200], [])


def _of_trial(reader, entries, _default, environment):
    """What parse_boot.default_kernel() gives, for a trial whose menu entry nobody recorded: its record names the kernel; None for anything else."""
    wanted = (environment or {}).get("next_entry")
    if not trial.is_entry(wanted) or parse_boot.find_entry(entries, wanted) or "grub_custom" not in reader.not_recorded:
        return None
    record = reader.parsed("trial_record", parse_trial.parse_trial, absent=None)
    return (record["kernel"], None) if record else (None, "the next start is a trial of a kernel that nobody recorded")


def _plain(entry):
    """A menu entry of grub.cfg in the form of parse_bls."""
    return {"id": entry["id"], "title": entry["title"], "kernel": entry["kernel"], "machine_id": None, "rescue": False}


def _entries(reader):
    """{entries, machine_id}: what the menu has, in its order; grubby's list has that order already, bootctl's too."""
    listed = reader.parsed("grubby_info", parse_bls.parse_grubby_info, absent=None)
    entries = reader.parsed("bls_entries", parse_bls.parse_bls_entries, absent=None)
    if entries and not any("default" in entry for entry in entries):
        entries = parse_bls.in_menu_order(entries)
    return {"entries": listed or entries or None, "machine_id": reader.parsed("machine_id", parse_bls.parse_machine_id, absent=None)}


def _bls_default(reader, found, part, environment):
    """The kernel of the next boot where GRUB lists entries itself; environment: None when it could not be read.

    Nobody recorded the environment: then {}, as GRUB has it until something is saved. What grubby says is next best.
    """
    marked = [entry for entry in found["entries"] or [] if entry.get("default")]
    if marked:
        return marked[0]["kernel"]
    told = reader.parsed("grubby_default", parse_bls.parse_default_path, absent=None)
    recorded = "grubenv" not in reader.not_recorded
    if not found["entries"] or (told and not recorded) or environment is None:
        return told
    setting = part["menu_default"] or part["grub_default"] or "saved"
    if "saved" not in setting and not environment.get("next_entry"):
        environment = {"saved_entry": setting}
    entry, _named = parse_bls.chosen(found["entries"], environment)
    return entry["kernel"]


def _systemd_boot(reader, found):
    """systemd-boot's part of boot(): the default is bootctl's mark, else what its variables name, else the only entry that the pattern of
    loader.conf fits.
    """
    entries = found["entries"] or []
    names = reader.parsed("loader_variables", parse_bls.parse_loader_variables, absent=None) or {}
    found = dict(found, saved_entry=names.get("LoaderEntryDefault"), next_entry=names.get("LoaderEntryOneShot"))
    named = [entry for wanted in (found["next_entry"], found["saved_entry"]) if wanted for entry in entries if parse_bls.is_named(entry, wanted)]
    if named:
        return dict(found, default_kernel=named[0]["kernel"])
    marked = [entry for entry in entries if entry.get("default")]
    pattern = reader.parsed("loader_conf", parse_bls.parse_loader_default, absent=None)
    fitting = marked or parse_bls.matching(entries, pattern)
    return dict(found, default_kernel=fitting[0]["kernel"] if len(fitting) == 1 else None)


def _writable(reader, files):
    """Whether GRUB can write its environment block; files: the paths that are there, None when nobody recorded them."""
    mounts = reader.parsed("proc_mounts", lambda text: Parsed(text, []))
    if files is None and (mounts is None or "grubenv" in reader.not_recorded):
        return None
    block = "/boot/grub/grubenv" if files is None else next((path for path in sorted(files) if path.endswith("/grubenv")), None)
    if block is None:
        reader.note("boot_files", "there is no environment block yet that GRUB could write to")
        return None
    writable = parse_boot.environment_writable(parse_boot.mount_of(mounts or "", block))
    if writable is None:
        reader.note("proc_mounts", "no block device is known for %s" % block)
    return writable


def _menu(text):
    """Parser of grub_cfg: (entries, what it boots by default); no entries where GRUB makes the menu of files."""
    if _BLSCFG.search(text):
        return Parsed(([], parse_boot.cfg_default(text)), [])
    entries, problems = parse_boot.parse_grub_menu(text)
    return Parsed((entries, parse_boot.cfg_default(text)) if entries else None, problems)
