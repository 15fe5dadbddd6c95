# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The boot loader, its entries and defaults, initramfs content, compilers."""

from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_boot
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, parse_paths

# name: (level, how to take it live); docs/probes.md describes each.
PROBES = {}


def section(reader):
    """The part of the state that these probes fill: {key: value}."""
    del reader
    return {}


def boot(reader, container):
    """Boot loader and default: {loader, grub_default, grub_settings, environment, saved_entry, next_entry, default_kernel, env_writable}.

    loader is "none" where there is none (a container), then the rest is None. grub_settings: {GRUB_NAME: value};
    environment: the names of grubenv, {} when GRUB has none.
    """
    nothing = dict.fromkeys(("loader", "grub_default", "grub_settings", "environment", "saved_entry", "next_entry", "default_kernel",
                             "env_writable"))
    files = reader.parsed("boot_files", parse_paths)
    if files is None:
        # A bundle may have GRUB's files without the list of what is there; a live node always has that list.
        return dict(nothing, **_grub(reader, None)) if "boot_files" in reader.not_recorded else nothing
    if any(path.endswith("/grub.cfg") for path in files):
        return dict(nothing, loader="grub", **_grub(reader, files))
    if any(path.endswith("/loader.conf") for path in files):
        return dict(nothing, loader="systemd-boot")
    if container:
        return dict(nothing, loader="none")
    reader.note("boot_files", "neither GRUB's nor systemd-boot's files are there")
    return nothing


def _grub(reader, files):
    """GRUB's part of boot(); files: the paths that are there, None when nobody recorded them."""
    settings = reader.parsed("grub_default", parse_boot.parse_default_grub, absent={})
    environment = reader.parsed("grubenv", parse_boot.parse_grubenv, absent={})
    menu = reader.parsed("grub_cfg", _menu)
    # grub-mkconfig's own default is the first entry.
    default = None if settings is None else settings.get("GRUB_DEFAULT", "0")
    if default is None and settings is not None:
        reader.note("grub_default", "GRUB_DEFAULT is no plain value")
    kernel, reason = parse_boot.default_kernel(*menu, environment) if menu else (None, None)
    if reason:
        reader.note("grub_cfg", reason)
    names = environment or {}
    return {"grub_default": default, "grub_settings": settings, "environment": environment,
            "saved_entry": names.get("saved_entry") or None, "next_entry": names.get("next_entry") or None,
            "default_kernel": kernel, "env_writable": None if files is None else _writable(reader, files)}


def _writable(reader, files):
    """Whether GRUB can write its environment block."""
    mounts = reader.parsed("proc_mounts", lambda text: Parsed(text, []))
    block = next((path for path in sorted(files) if path.endswith("/grubenv")), None)
    if block is None:
        reader.note("boot_files", "there is no environment block yet that GRUB could write to")
        return None
    writable = parse_boot.environment_writable(parse_boot.mount_of(mounts or "", block))
    if writable is None:
        reader.note("proc_mounts", "no block device is known for %s" % block)
    return writable


def _menu(text):
    """Parser of grub_cfg: (entries, what it boots by default)."""
    entries, problems = parse_boot.parse_grub_menu(text)
    return Parsed((entries, parse_boot.cfg_default(text)) if entries else None, problems)
