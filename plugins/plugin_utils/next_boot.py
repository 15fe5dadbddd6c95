# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernel the next boot takes, where the menu itself is not known.

RPM systems make the newest kernel the default when they install it (UPDATEDEFAULT in /etc/sysconfig/kernel). Elsewhere GRUB's
menu is made by 10_linux: the newest kernel first (its "simple" entry), then a submenu with all of them, newest first, each
followed by its recovery entry. https://www.gnu.org/software/grub/manual/grub/html_node/Simple-configuration.html
"""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils import trial

from . import installed_kernels

Row = t.Dict[str, t.Any]

_POSITION = re.compile(r"(?:(?P<submenu>\d{1,3})>)?(?P<entry>\d{1,3})")
# "Ubuntu, with Linux 5.15.0-91-generic", "gnulinux-5.15.0-91-generic-advanced-UUID"; a submenu comes before a ">".
_TITLE = re.compile(r"(?:.*>)?[^>]*, with Linux (?P<release>\d\S*)(?P<recovery> \(recovery mode\))?")
_BLS_ID = re.compile(r"[0-9a-f]{31,32}-(?P<release>\d+\.\d\S*)")
# "Rocky Linux (5.14.0-362.8.1.el9_3.x86_64) 9.3 (Blue Onyx)"
_RPM_TITLE = re.compile(r"\((?P<release>\d+\.\d+\.\d+-[^()\s]+)\)")
_ID = re.compile(r"(?:.*>)?gnulinux-(?P<release>\d[^>]*?)-(?:advanced|recovery)-[^>]+")


def next_kernel(state: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """The release of the kernel that the next boot takes; None when nothing tells."""
    boot = state.get("boot") or {}
    if not boot.get("default_kernel") and trial.is_entry(boot.get("next_entry")):
        return (state.get("trial") or {}).get("kernel")
    return boot.get("default_kernel") or (None if state.get("container") else _predicted(state, boot))


def _predicted(state: t.Mapping[str, t.Any], boot: Row) -> t.Optional[str]:
    """What the system would make of its kernels as it comes: only in a bundle for which nobody recorded menu or entries."""
    if "grub_cfg" not in (state.get("not_recorded") or ()) or boot.get("entries") or boot.get("loader") not in (None, "grub"):
        return None
    if installed_kernels.rpm(state):
        return _newest_rpm(state, boot)
    settings = boot.get("grub_settings") or {}
    order = settings.get("GRUB_FLAVOUR_ORDER", "")
    kernels = [row["release"] for row in installed_kernels.listed(state) if row.get("image")]
    if not kernels or order is None or not _debian(state):
        return None
    return choose(installed_kernels.newest_first(kernels, order), settings, boot)


def _newest_rpm(state: t.Mapping[str, t.Any], boot: Row) -> t.Optional[str]:
    """The saved kernel; else the newest one of the running kernel's variant (64k, rt), unless new kernels do not become the default."""
    running = (state.get("kernel") or {}).get("running") or ""
    kernels = [row["release"] for row in installed_kernels.listed(state)
               if row.get("image") and row["release"].partition("+")[2] == running.partition("+")[2]]
    if not kernels:
        return None
    newest = installed_kernels.newest_first(kernels, like_rpm=True)[0]
    setting = (boot.get("grub_settings") or {}).get("GRUB_DEFAULT", "saved")
    wanted = boot.get("next_entry") or (boot.get("saved_entry") if setting == "saved" else setting)
    if wanted in (None, "0"):
        # Without a saved entry it is what the installation of the newest kernel left.
        return newest if setting is not None and (state.get("new_kernel_default") is not False or wanted) else None
    found = _BLS_ID.fullmatch(wanted) or _RPM_TITLE.search(wanted)
    return found.group("release") if found else None


def _debian(state: t.Mapping[str, t.Any]) -> bool:
    kind = (state.get("package_manager") or {}).get("kind")
    return kind == "apt" or kind is None and (state.get("os") or {}).get("id") in ("debian", "ubuntu")


def named(state: t.Mapping[str, t.Any], wanted: t.Optional[str]) -> t.Optional[str]:
    """The kernel that a saved entry (a title, an id, a place) means; None when that is not known."""
    boot = state.get("boot") or {}
    if not wanted:
        return None
    for place, entry in enumerate(boot.get("entries") or []):
        if wanted.rpartition(">")[2] in (entry["id"], entry["title"]) or wanted == str(place) and entry.get("machine_id"):
            return entry["kernel"]
    kernels = installed_kernels.newest_first(row["release"] for row in installed_kernels.listed(state) if row.get("image"))
    found = _TITLE.fullmatch(wanted) or _ID.fullmatch(wanted) or _BLS_ID.fullmatch(wanted) or _RPM_TITLE.search(wanted)
    if found:
        return found.group("release")
    return choose(kernels, dict(boot.get("grub_settings") or {}, GRUB_DEFAULT=wanted), {}) if kernels and not boot.get("entries") else None


def choose(kernels: t.Sequence[str], settings: t.Mapping[str, t.Any], boot: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """The kernel of a menu of these kernels, newest first; None when what is named is not known."""
    wanted: t.Any = boot.get("next_entry") or settings.get("GRUB_DEFAULT", "0")
    if wanted == "saved":
        if boot.get("environment") is None:
            return None
        wanted = boot.get("saved_entry") or "0"
    if not isinstance(wanted, str):
        return None
    position = _POSITION.fullmatch(wanted)
    if position:
        return _at(kernels, settings, position.group("submenu"), int(position.group("entry")))
    named = _TITLE.fullmatch(wanted) or _ID.fullmatch(wanted)
    if named:
        # GRUB takes its first entry where what is named does not exist.
        return named.group("release") if named.group("release") in kernels else kernels[0]
    return kernels[0] if re.fullmatch(r"gnulinux-(simple|advanced)-[^>]+", wanted) else None


def _at(kernels: t.Sequence[str], settings: t.Mapping[str, t.Any], submenu: t.Optional[str], entry: int) -> t.Optional[str]:
    """The kernel at a position; None beyond what 10_linux writes, where entries of others may be."""
    flat = settings.get("GRUB_DISABLE_SUBMENU") in ("y", "true")
    entries = 1 if settings.get("GRUB_DISABLE_RECOVERY") == "true" else 2
    if submenu is None and not flat:
        return kernels[0] if entry <= 1 else None
    if submenu is not None and (flat or submenu != "1"):
        return None
    place = entry // entries
    return kernels[place] if place < len(kernels) else None
