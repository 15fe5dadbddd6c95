# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernels may leave a node once the stack's kernel is proven."""
from __future__ import annotations

import re
import typing as t

from . import installed_kernels

Row = t.Dict[str, t.Any]

# What of a kernel lies in packages of its own; each is followed by the release.
_DEB = ("linux-image-", "linux-image-unsigned-", "linux-headers-", "linux-modules-", "linux-modules-extra-")
# Those of RPM are several versions of one name side by side.
_RPM = re.compile(r"kernel(-uek)?(-(rt|64k|debug))?(-(core|modules|modules-core|modules-extra|devel))?")


def surplus(state: Row, stack: Row, keep: int, ours: t.Iterable[str] = ()) -> t.List[Row]:
    """[{release, packages: [exact names]}] of the kernels to remove so that `keep` remain, the newest first; [] where keep is 0.

    Never the running kernel, the one that boots by default, the stack's, one on trial, or one that somebody holds back; these count
    among those that remain. [] also where it is not known what is installed, runs or boots, or which packages are held.
    ours: names of packages that this collection held, beside those in its own pins.
    """
    kernel, boot, manager = state.get("kernel") or {}, state.get("boot") or {}, state.get("package_manager") or {}
    rows, running, default = kernel.get("installed"), kernel.get("running"), boot.get("default_kernel")
    packages, holds = state.get("packages"), manager.get("holds")
    if keep <= 0 or state.get("container") or None in (rows, running, default, packages, holds):
        return []
    safe = {running, default, (stack.get("kernel") or {}).get("release"), (state.get("trial") or {}).get("kernel")}
    there = {row["release"]: row for row in t.cast(t.List[Row], rows) if row.get("image") and row.get("package")}
    like_rpm = installed_kernels.rpm(state)
    own = {*(manager.get("own_pins") or {}), *ours}
    named = {release: _parts(row, t.cast(Row, packages), like_rpm) for release, row in there.items()}
    # dnf has no holds but locks on versions; kernels of other versions than the locked one are nobody's there.
    kept = {release for release in there if release in safe or not like_rpm and set(named[release]) & set(t.cast(t.List[str], holds)) - own}
    spare = [release for release in installed_kernels.newest_first(there, like_rpm=like_rpm) if release not in kept]
    return [{"release": release, "packages": named[release]} for release in spare[max(0, keep - len(kept)):]]


def _parts(row: Row, packages: t.Mapping[str, Row], like_rpm: bool) -> t.List[str]:
    """The installed packages of one kernel, by exact names; those of RPM with version and architecture."""
    if not like_rpm:
        names = [prefix + row["release"] for prefix in _DEB]
        gone = (None, "config-files", "not-installed")
        return sorted({row["package"], *(name for name in names if (packages.get(name) or {}).get("status") not in gone)})
    version, arch = str(row.get("package_version") or ""), row["release"].rpartition(".")[2]
    found = [name for name, package in packages.items() if _RPM.fullmatch(name) and version in (package.get("version"), *(package.get("others") or ()))]
    return sorted("%s-%s.%s" % (name, version.rpartition(":")[2], arch) for name in {row["package"], *found})
