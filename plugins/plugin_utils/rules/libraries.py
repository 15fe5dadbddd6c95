# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the driver's user space: which libraries lie on the node, and which ones are selected."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from . import driver_found as found
from . import claimed, toolkits
from .context import Context, Hit, Row, listed, upstream

# The libraries that must be the kernel module's version; others (NCCL) have versions of their own.
DRIVER_LIBRARIES = ("libcuda.so", "libnvidia-ml.so")


def _selected(ctx: Context) -> t.List[t.Tuple[str, str]]:
    """(soname, version) of the driver's libraries as the loader resolves them, where the version is known."""
    return [(row["soname"], row["version"]) for row in ctx.state.get("libraries") or []
            if row.get("version") and str(row.get("soname")).startswith(DRIVER_LIBRARIES)]


def _compat(ctx: Context) -> t.List[Row]:
    """The libcuda that the loader takes from a cuda-compat package instead of the driver's own."""
    return [row for row in ctx.state.get("libraries") or []
            if str(row.get("soname")).startswith("libcuda.so") and ("/compat/" in str(row.get("path")) or "/compat/" in str(row.get("target")))]


def loader_mismatches(ctx: Context) -> t.List[Hit]:
    """The libraries that the loader selects and that are not the kernel module's version; driver_library_mismatch tells them."""
    module = ctx.module_version
    compat = {(row["soname"], row["version"]) for row in _compat(ctx)}
    return [Hit("module %s / %s %s" % (module, soname, version), "The kernel module is %s, but the loader selects %s of %s." % (module, soname, version))
            for soname, version in sorted(set(_selected(ctx)) - compat) if module and version != module]


def libcuda_shadowed_by_compat(ctx: Context) -> t.Iterator[Hit]:
    """The driver's own libcuda is the one that programs get; a newer one of cuda-compat is right on data-centre GPUs only."""
    module = ctx.module_version or found.running(ctx)
    for row in _compat(ctx):
        version = row.get("version") or "an unknown version"
        if row.get("version") and row["version"] == module:
            continue
        older = bool(module and row.get("version")) and not knowledge.at_least(row["version"], module)
        boards = toolkits.boards(ctx)
        known = bool(boards) and len(ctx.gpus) == len(ctx.gpu_names)
        served = known and all(board.get("data_centre") for name, board in boards)
        context = "older" if older else "default" if served else "unsupported" if known else "unknown_gpu"
        why = {"older": "; it is the older of the two, so it only takes away", "unsupported": "; forward compatibility is there for data-centre GPUs only"}
        yield Hit("%s %s" % (row["soname"], version), "The loader takes %s of %s from %s, before the driver's own%s%s." % (
            row["soname"], version, row.get("path") or row["target"], " " + module if module else "", why.get(context, "")),
            ctx.facts["cuda"]["forward_compatibility"]["source"], context, () if context in ("default", "unknown_gpu") else (step("run_ldconfig"),))
    yield from _compat_refused(ctx)


def _compat_refused(ctx: Context) -> t.Iterator[Hit]:
    """What the compat library says on a GPU that it does not serve."""
    run = ctx.state.get("cuda_run") or {}
    if run.get("error") == 804 and not _compat(ctx):
        yield Hit("a program: error 804",
                  "A program says \"%s\": it gets the libcuda of a cuda-compat package, which serves data-centre GPUs only." % run["text"],
                  ctx.facts["cuda"]["forward_compatibility"]["source"], "unsupported")


def libcuda_not_usable(ctx: Context) -> t.Iterator[Hit]:
    """Programs find a libcuda that works."""
    smi = found.smi(ctx)
    if smi.get("cuda_word") and not ctx.container and not found.foreign_platform(ctx):
        yield Hit("libcuda.so.1, driver %s" % (smi.get("driver") or "unknown"),
                  "nvidia-smi says \"CUDA Version: %s\" under driver %s: it finds no libcuda.so.1 that works." % (
                      smi["cuda_word"], smi.get("driver") or "of an unknown version"))
    rows = ctx.state.get("libraries") or []
    for row in rows:
        if str(row.get("soname")).startswith("libcuda.so") and "/stubs/" in str(row.get("path")):
            yield Hit("%s" % row["path"], "The loader takes %s from %s, which is a stub to link against and drives nothing." % (row["soname"], row["path"]))
    run = ctx.state.get("cuda_run") or {}
    if run.get("error") == 803:
        yield Hit("libcuda.so.1, error 803", "A program says \"%s\": its libcuda does not fit the loaded driver%s." % (
            run["text"], " " + str(found.running(ctx)) if found.running(ctx) else ""))
    names = {str(row.get("soname")) for row in rows}
    if "libnvidia-ml.so.1" in names and "libcuda.so.1" not in names and found.running(ctx):
        yield Hit("libcuda.so.1", "The loader knows the driver's NVML, but no libcuda.so.1, so no CUDA program starts.")


def stale_userland_binary(ctx: Context) -> t.Iterator[Hit]:
    """The driver's programs are the version of its libraries."""
    smi = found.smi(ctx)
    program, driver = smi.get("smi"), smi.get("driver") or ctx.loaded_module.get("version")
    if found.foreign_platform(ctx) or ctx.container:
        return
    if found.failure(ctx) == "smi_mismatch":
        yield Hit("nvidia-smi %s" % (program or "of an unknown version"), "nvidia-smi is not the one of the installed NVML: it refuses to work with it.",
                  do=_own_program(ctx, driver))
    # NVML's version has two components; nvidia-smi's is a whole one.
    elif program and driver and program != driver and found.failure(ctx) is None:
        yield Hit("nvidia-smi %s" % program, "The program nvidia-smi is %s, the driver is %s." % (program, driver), do=_own_program(ctx, driver))


def _own_program(ctx: Context, driver: t.Optional[str]) -> t.Tuple[Row, ...]:
    names = [name for name in ctx.packages if re.fullmatch(r"nvidia-smi|nvidia-utils(-\d.*)?|nvidia-driver-cuda|xorg-x11-drv-nvidia-cuda", name)]
    name = names[0] if len(names) == 1 else "package that owns nvidia-smi"
    return (step("install_exact", "%s=%s" % (name, driver)),) if driver else ()


def inactive_userland(ctx: Context) -> t.Iterator[Hit]:
    """Another driver's libraries may lie beside the driver's own, as long as they are not selected."""
    wanted = ctx.driver.get("version")
    if not wanted or "." not in wanted:
        return
    yield from _claimed_beside(ctx, wanted)
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


def _claimed_beside(ctx: Context, wanted: str) -> t.Iterator[Hit]:
    """The same for a claim, which names no packages."""
    versions: t.Dict[str, t.List[str]] = {}
    for name, row in claimed.beside(ctx).items() if not ctx.package_set else ():
        versions.setdefault(upstream(row.get("version")) or "", []).append(name)
    for version, names in sorted(versions.items()):
        active = version in {chosen for soname, chosen in _selected(ctx)}
        yield Hit("%s (%s)" % (version, listed(names)), "Packages of driver %s lie beside %s and are %s." % (
            version, wanted, "selected by the loader" if active else "not selected"), context="selected" if active else "default")


RULES = (libcuda_shadowed_by_compat, libcuda_not_usable, stale_userland_binary, inactive_userland)
