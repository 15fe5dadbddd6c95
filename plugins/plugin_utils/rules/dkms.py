# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about DKMS: every module of the stack, for the locked kernel."""
from __future__ import annotations

import re
import typing as t

from .context import Context, Hit, Row

DRIVER_MODULE = re.compile(r"nvidia(-(?!fs|peermem).+)?")
BUILT = ("built", "installed", "installed_weak")


def _module(ctx: Context) -> t.Optional[t.Tuple[str, str]]:
    """(module, version) of the stack's driver as DKMS knows it; None where DKMS has no part in it."""
    version = ctx.driver.get("version")
    if not version or ctx.driver.get("module") != "dkms":
        return None
    module = (ctx.package_set.get("dkms") or {}).get("module")
    if not module:
        # Where no package set tells (a claim, another distribution), every packager's name begins alike.
        names = [row["module"] for row in ctx.state.get("dkms") or [] if row.get("version") == version]
        module = next((name for name in names if DRIVER_MODULE.fullmatch(name)), None)
    return (module, version) if module else None


def _extra_modules(ctx: Context) -> t.Set[str]:
    """The other modules that the stack names; DKMS writes nvidia-fs where a key is nvidia_fs."""
    return {name.replace("_", "-") for name in ctx.stack.get("modules") or {}}


def _rows(ctx: Context) -> t.List[Row]:
    """What DKMS knows about the stack's driver."""
    return [row for row in ctx.state.get("dkms") or [] if (row.get("module"), row.get("version")) == _module(ctx)]


def dkms_not_built_for_kernel(ctx: Context) -> t.Iterator[Hit]:
    """A registered module is built for the locked kernel."""
    rows = _rows(ctx)
    if not rows or not ctx.installed_kernel or any(row["state"] == "broken" for row in rows):
        return
    if not any(row.get("kernel") == ctx.kernel and row["state"] in BUILT for row in rows):
        built = [row["kernel"] for row in rows if row["state"] in BUILT]
        yield Hit("%s/%s@%s" % (*_module(ctx), ctx.kernel), "%s %s is not built for kernel %s (built for: %s)." % (
            *_module(ctx), ctx.kernel, ", ".join(built) or "none"))


def dkms_not_installed(ctx: Context) -> t.Iterator[Hit]:
    """A module that is built for the locked kernel is installed there."""
    for row in _rows(ctx):
        if row.get("kernel") == ctx.kernel and row["state"] == "built":
            yield Hit("%s/%s@%s" % (*_module(ctx), ctx.kernel), "%s %s is built but not installed for kernel %s." % (
                *_module(ctx), ctx.kernel))


def dkms_broken_source(ctx: Context) -> t.Iterator[Hit]:
    """Every registered module has its source."""
    seen = set()
    for row in ctx.state.get("dkms") or []:
        key = (row.get("module"), row.get("version"))
        if row.get("state") == "broken" and key not in seen:
            seen.add(key)
            yield Hit("%s/%s" % key, "DKMS lists %s %s, but its source is gone." % key,
                      context="locked" if key == _module(ctx) else "default")


def installed_module_differs_from_dkms(ctx: Context) -> t.Iterator[Hit]:
    """The file below /lib/modules is the one that DKMS built."""
    for row in ctx.state.get("dkms") or []:
        if "diff" in (row.get("flags") or []) and row.get("kernel") == ctx.kernel:
            locked = (row.get("module"), row.get("version")) == _module(ctx) or row.get("module") in _extra_modules(ctx)
            yield Hit("%s@%s" % (row["module"], row["kernel"]), "The %s module of kernel %s is not the one that DKMS built (%s)." % (
                row["module"], row["kernel"], row["version"]), context="locked" if locked else "default")


RULES = (dkms_not_built_for_kernel, dkms_not_installed, dkms_broken_source, installed_module_differs_from_dkms)
