# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the CUDA toolkits that a node has: which one programs get, and which there are beside the stack's."""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from . import driver_found as found
from .context import Context, Hit, Row

ACTIVE_LINK = "/usr/local/cuda"


def _same(one: t.Optional[str], other: t.Optional[str]) -> bool:
    """Whether two releases agree as far as both tell: 12.4 and 12.4.1."""
    left, right = knowledge.numbers(one or ""), knowledge.numbers(other or "")
    shared = min(len(left), len(right))
    return shared > 0 and left[:shared] == right[:shared]


def toolkits(ctx: Context) -> t.List[Row]:
    """The toolkits whose release is known."""
    return [row for row in (ctx.state.get("cuda") or {}).get("toolkits") or [] if row.get("release")]


def active_release(ctx: Context) -> t.Optional[str]:
    """The release of the toolkit that programs get."""
    return (ctx.state.get("cuda") or {}).get("active_release")


def active_cuda_differs(ctx: Context) -> t.Iterator[Hit]:
    """The toolkit that /usr/local/cuda leads to is the stack's; what nvidia-smi says of CUDA is the driver's limit, and no toolkit."""
    wanted, active = (ctx.stack.get("cuda") or {}).get("active"), active_release(ctx)
    # A stack of libraries alone has no compiler whose release could differ.
    if not wanted or not active or _same(wanted, active) or (ctx.stack.get("cuda") or {}).get("profile") in ("runtime", "libraries"):
        return
    folder = (ctx.state.get("cuda") or {}).get("active")
    where = folder if folder and not folder.startswith(ACTIVE_LINK) else ACTIVE_LINK
    there = next((row["path"] for row in toolkits(ctx) if _same(wanted, row["release"])), None)
    steps = [step("set_alternative", "cuda", path=there or "%s-%s" % (ACTIVE_LINK, wanted))]
    if there is None and (ctx.state.get("cuda") or {}).get("toolkits") is not None:
        steps.insert(0, step("install_exact", "cuda-toolkit-%s" % "-".join(wanted.split(".")[:2])))
    yield Hit("lock %s, %s is %s" % (wanted, where, active), "Programs get CUDA %s from %s; the stack's is %s%s." % (
        active, folder or where, wanted, ", which lies in %s" % there if there else ""), context="found", do=tuple(steps))


def extra_cuda_toolkit(ctx: Context) -> t.Iterator[Hit]:
    """No toolkit is there that the stack does not name."""
    wanted = (ctx.stack.get("cuda") or {}).get("versions") or []
    for row in toolkits(ctx) if wanted else ():
        if not any(_same(version, row["release"]) for version in wanted):
            yield Hit(str(row["release"]), "CUDA %s in %s is not of the stack, which names %s." % (row["release"], row["path"], ", ".join(wanted)))


def boards(ctx: Context) -> t.List[t.Tuple[str, Row]]:
    """(name, row) of the node's GPUs: by their PCI ids, else by the names that nvidia-smi prints whole."""
    names = {str(row["name"]) for row in (ctx.state.get("gpu_query") or []) + (found.smi(ctx).get("gpus") or []) if row.get("name")}
    rows = [(name, knowledge.gpu(ctx.facts, name)) for name in sorted(names) if "..." not in name]
    return ctx.gpus or [(name, row) for name, row in rows if row]


def _pairs(ctx: Context) -> t.List[t.Tuple[str, str]]:
    """(CUDA release, driver) that the node puts together, where the stack does not name both."""
    claimed = (ctx.stack.get("cuda") or {}).get("versions") or []
    if claimed and found.claimed(ctx) or found.foreign_platform(ctx):
        return []
    active = active_release(ctx)
    driver = found.claimed(ctx) or found.running(ctx)
    return [(str(release), driver) for release in claimed or ([active] if active else []) if driver]


def _below_floor(ctx: Context) -> t.List[t.Tuple[str, str, Row]]:
    """The pairs whose driver is older than the oldest one for the CUDA major release, and than the one it was released with."""
    below = []
    for release, driver in _pairs(ctx):
        floor = knowledge.cuda_floor(ctx.facts, release)
        with_it = knowledge.released_with(ctx.facts, release)
        if floor and all(knowledge.at_least(driver, oldest) is False for oldest in [floor["driver"], *with_it]):
            below.append((release, driver, floor))
    return below


def _data_centre(ctx: Context) -> bool:
    rows = boards(ctx)
    return bool(rows) and all(row.get("data_centre") for name, row in rows)


def not_supported(ctx: Context) -> t.Iterator[Hit]:
    """cuda_not_supported_by_driver, as found on a node."""
    rows = [] if _data_centre(ctx) else _below_floor(ctx)
    for release, driver, floor in rows:
        yield Hit("cuda %s@%s" % (release, driver), "CUDA %s needs driver %s or newer, the node has %s." % (release, floor["driver"], driver),
                  floor["source"], "found")
    run = ctx.state.get("cuda_run") or {}
    if run.get("error") == 35 and not rows and not _data_centre(ctx):
        limit, release = run.get("driver_cuda") or found.smi(ctx).get("cuda_max"), run.get("runtime_cuda") or active_release(ctx)
        yield Hit("cuda %s@%s" % (release or "of the program", found.running(ctx) or "the driver"), "A program says \"%s\"%s%s." % (
            run["text"], ": the driver serves up to CUDA %s" % limit if limit else "", ", the program needs %s" % release if release else ""), context="found")


def needs_compat(ctx: Context) -> t.Iterator[Hit]:
    """cuda_needs_compat, as found on a node."""
    for release, driver, floor in _below_floor(ctx) if _data_centre(ctx) else ():
        package = ctx.facts["cuda"]["forward_compatibility"]["package"].format(**dict(zip(("major", "minor"), (release.split(".") + ["0"])[:2])))
        there = package in ctx.packages
        yield Hit("cuda %s@%s" % (release, driver), "CUDA %s needs driver %s or newer; with %s it runs only through %s, which is %s." % (
            release, floor["driver"], driver, package, "there" if there else "not installed"),
            ctx.facts["cuda"]["forward_compatibility"]["source"], "present" if there else "found",
            () if there else (step("install_exact", package),))


def refused(ctx: Context, newer: bool) -> t.Iterator[Hit]:
    """What nvcc itself refused: an architecture that its release no longer knows, with newer one that it does not know yet."""
    run, release = ctx.state.get("cuda_run") or {}, active_release(ctx)
    rows = [(name, row) for name, row in ctx.facts["gpus"]["architectures"].items() if row["compute"] == run.get("refused")]
    named = {name for name, row in boards(ctx) if row.get("compute") == run.get("refused")}
    for name, row in rows[:1] if release and not named else ():
        last = row["cuda"]["last"]
        gone = bool(last) and knowledge.numbers(release)[:2] > knowledge.numbers(last)
        early = knowledge.numbers(release)[:2] < knowledge.numbers(row["cuda"]["first"])
        if early if newer else gone:
            yield Hit("compute %s@%s" % (run["refused"], release), "nvcc of CUDA %s says \"%s\": it knows %s GPUs (compute capability %s) from CUDA %s%s." % (
                release, run["text"], name, run["refused"], row["cuda"]["first"], " to " + last if last else " on"), row["cuda_source"], "found")


def dropped(ctx: Context) -> t.Iterator[Hit]:
    """cuda_dropped_gpu, as found on a node: the active toolkit, and the GPUs by whatever names them."""
    claimed = (ctx.stack.get("cuda") or {}).get("versions") or []
    releases = [str(release) for release in claimed] if not ctx.gpus else []
    active = active_release(ctx)
    releases += [active] if active and not claimed else []
    for release in releases:
        for name, row in boards(ctx):
            last = row["cuda"]["last"]
            if last and knowledge.numbers(release)[:2] > knowledge.numbers(last):
                yield Hit("%s@%s" % (name, release), "CUDA %s no longer supports %s (%s, %s); %s is the last that does." % (
                    release, row["name"], name, row["architecture"], last), row["cuda_source"], "found")


RULES = (active_cuda_differs, extra_cuda_toolkit)
