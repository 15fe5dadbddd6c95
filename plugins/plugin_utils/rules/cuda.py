# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about CUDA beside the driver and the GPUs."""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge

from . import toolkits
from .context import Context, Hit, weight


def _releases(ctx: Context) -> t.List[str]:
    return (ctx.stack.get("cuda") or {}).get("versions") or []


def cuda_unknown(ctx: Context) -> t.Iterator[Hit]:
    """The CUDA major release has a driver floor."""
    for version in _releases(ctx):
        if not knowledge.cuda_floor(ctx.facts, version):
            known = ", ".join([row["release"] for row in reversed(ctx.facts["cuda"]["release_floors"])] + [row["major"] for row in ctx.facts["cuda"]["floors"]])
            yield Hit(version, "CUDA %s belongs to no known major release; known: %s." % (version, known))


def floor_above(ctx: Context, version: str) -> t.Optional[t.Dict[str, t.Any]]:
    """The floor of a CUDA version, where the stack's driver is below it; None where the driver is, or may be, new enough.

    A toolkit also runs with the driver that it was released with, which is older than the floor for CUDA 11.0.
    """
    floor, driver = knowledge.cuda_floor(ctx.facts, version), ctx.driver.get("version")
    if not floor or not driver or knowledge.at_least(driver, floor["driver"]) is not False:
        return None
    with_it = knowledge.released_with(ctx.facts, version)
    return None if any(knowledge.at_least(driver, oldest) is not False for oldest in with_it) else floor


def _below_floor(ctx: Context) -> t.Iterator[t.Tuple[str, t.Dict[str, t.Any]]]:
    for version in _releases(ctx):
        floor = floor_above(ctx, version)
        if floor:
            yield version, floor


def cuda_not_supported_by_driver(ctx: Context) -> t.Iterator[Hit]:
    """The driver meets the floor of minor-version compatibility."""
    if not ctx.data_centre:
        for version, floor in _below_floor(ctx):
            yield Hit("cuda %s@%s" % (version, ctx.driver["version"]), "CUDA %s needs driver %s or newer, the stack asks for %s." % (
                version, floor["driver"], ctx.driver["version"]), floor["source"])
    yield from toolkits.not_supported(ctx)


def cuda_needs_compat(ctx: Context) -> t.Iterator[Hit]:
    """Below the floor, data-centre GPUs have the cuda-compat libraries."""
    if ctx.data_centre:
        for version, floor in _below_floor(ctx):
            major, minor = (version.split(".") + ["0"])[:2]
            compat = ctx.facts["cuda"]["forward_compatibility"]
            package = compat["package"].format(major=major, minor=minor)
            there = package in ctx.packages or bool((ctx.stack.get("cuda") or {}).get("compat"))
            listed = next((row for row in ctx.facts["cuda"]["forward_branches"] if row["cuda"] == "%s.%s" % (major, minor)), None)
            text = "CUDA %s needs driver %s or newer; with %s it runs only through %s, which is %s" % (
                version, floor["driver"], ctx.driver["version"], package, "there" if there else "not installed")
            if there and listed and knowledge.branch_of(ctx.driver["version"]) not in listed["branches"]:
                yield Hit("cuda %s@%s" % (version, ctx.driver["version"]), "%s, but works from the branches %s." % (text, ", ".join(listed["branches"])),
                          listed.get("source"), weight(listed))
            else:
                yield Hit("cuda %s@%s" % (version, ctx.driver["version"]), text + ".", compat["source"], "present" if there else "default")
    yield from toolkits.needs_compat(ctx)


def cuda_dropped_gpu(ctx: Context) -> t.Iterator[Hit]:
    """The CUDA release still supports the GPU."""
    for version in _releases(ctx):
        for name, row in ctx.gpus:
            last = row["cuda"]["last"]
            # Judged by major.minor: 12.9.1 belongs to 12.9.
            if last and knowledge.numbers(version)[:2] > knowledge.numbers(last)[:len(knowledge.numbers(version))]:
                yield Hit("%s@%s" % (name, version), "CUDA %s no longer supports %s (%s, %s); %s is the last that does." % (
                    version, row["name"], name, row["architecture"], last), row["cuda_source"])
    yield from toolkits.dropped(ctx)
    yield from toolkits.refused(ctx, newer=False)


def cuda_too_old_for_gpu(ctx: Context) -> t.Iterator[Hit]:
    """The CUDA release can compile for the GPU."""
    for version in _releases(ctx):
        for name, row in ctx.gpus:
            first = row["cuda"]["first"]
            if knowledge.numbers(version)[:2] < knowledge.numbers(first)[:len(knowledge.numbers(version))]:
                yield Hit("%s@%s" % (name, version), "CUDA %s does not know %s (%s, %s) yet; %s is the first that does." % (
                    version, row["name"], name, row["architecture"], first), row["cuda_source"])
    yield from toolkits.refused(ctx, newer=True)


def driver_runs(ctx: Context, cuda: str) -> t.Optional[bool]:
    """Whether the driver runs what is built with a CUDA release; None where neither the stack nor the node names the driver."""
    floor, driver = knowledge.cuda_floor(ctx.facts, cuda), ctx.driver.get("version") or ctx.module_version
    if not floor or not driver:
        return None
    return knowledge.at_least(driver, floor["driver"])


RULES = (cuda_unknown, cuda_not_supported_by_driver, cuda_needs_compat, cuda_dropped_gpu, cuda_too_old_for_gpu)
