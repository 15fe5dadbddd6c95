# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the driver's user space: which libraries lie on the node, and which ones are selected."""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge

from .context import Context, Hit, Row, listed, upstream

# The libraries that must be the kernel module's version; others (NCCL) have versions of their own.
DRIVER_LIBRARIES = ("libcuda.so", "libnvidia-ml.so")


def _selected(ctx: Context) -> t.List[t.Tuple[str, str]]:
    """(soname, version) of the driver's libraries as the loader resolves them, where the version is known."""
    return [(row["soname"], row["version"]) for row in ctx.state.get("libraries") or []
            if row.get("version") and str(row.get("soname")).startswith(DRIVER_LIBRARIES)]


def _compat(ctx: Context) -> t.Iterator[Row]:
    """The libcuda that the loader takes from a cuda-compat package: newer than the module by design, on data-centre GPUs."""
    module = ctx.module_version
    for row in ctx.state.get("libraries") or []:
        below = "/compat/" in str(row.get("path")) or "/compat/" in str(row.get("target"))
        if below and str(row.get("soname")).startswith("libcuda.so") and row.get("version") and ctx.data_centre:
            # An older one than the module is no forward compatibility.
            if module and row["version"] != module and knowledge.at_least(row["version"], module):
                yield row


def driver_library_mismatch(ctx: Context) -> t.Iterator[Hit]:
    """The libraries that the loader selects are the kernel module's version."""
    module = ctx.module_version
    compat = {(row["soname"], row["version"]) for row in _compat(ctx)}
    for soname, version in sorted(set(_selected(ctx)) - compat):
        if module and version != module:
            yield Hit("module %s / %s %s" % (module, soname, version),
                      "The kernel module is %s, but the loader selects %s of %s." % (module, soname, version))


def libcuda_shadowed_by_compat(ctx: Context) -> t.Iterator[Hit]:
    """The driver's own libcuda is the one that programs get."""
    for row in _compat(ctx):
        yield Hit("%s %s" % (row["soname"], row["version"]), "The loader takes %s of %s from %s, before the driver's own %s." % (
            row["soname"], row["version"], row.get("path") or row["target"], ctx.module_version),
            ctx.facts["cuda"]["forward_compatibility"]["source"])


def inactive_userland(ctx: Context) -> t.Iterator[Hit]:
    """Another driver's libraries may lie beside the driver's own, as long as they are not selected."""
    wanted = ctx.driver.get("version")
    if not wanted or "." not in wanted:
        return
    own_sources = ctx.package_set.get("one_version") or []
    # Before anything of the stack's own driver is there, another driver's libraries are simply the node's driver.
    if not any(upstream(row.get("version")) == wanted for row in ctx.packages_from(own_sources).values()):
        return
    beside: t.Dict[str, t.List[str]] = {}
    for name, row in ctx.packages_from(["nvidia-graphics-drivers(-.+)?"]).items():
        version = upstream(row.get("version"))
        # Packages of the driver's own set are judged by package_set_split: they may not differ at all.
        if name.startswith("lib") and version and version != wanted and row.get("source") not in own_sources:
            beside.setdefault(version, []).append(name)
    selected = {version for soname, version in _selected(ctx)}
    alternative = ctx.package_set.get("alternatives") or {}
    for version, names in sorted(beside.items()):
        active = version in selected
        yield Hit("%s (%s)" % (version, listed(names)),
                  "Driver libraries of %s lie beside %s and are %s (the nvidia alternative belongs at %s)." % (
                      version, wanted, "selected by the loader" if active else "not selected", alternative.get("nvidia", "the driver's own")),
                  context="selected" if active else "default")


RULES = (driver_library_mismatch, libcuda_shadowed_by_compat, inactive_userland)
