# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about a CUDA toolkit beside the driver's floor: compilers, the C library, PTX, known faults, packages without a version."""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge

from .context import Context, Hit, listed, weight

FLOATING = {"cuda", "cuda-drivers", "cuda-toolkit", "cuda-runtime", "cuda-libraries", "cuda-tools"}


def _releases(ctx: Context) -> t.List[str]:
    return (ctx.stack.get("cuda") or {}).get("versions") or []


def _within(version: str, first: str, last: str) -> bool:
    """Whether a CUDA version lies in a window, judged at the window's precision; a bare major release does not tell."""
    have, low, high = (knowledge.numbers(one) for one in (version, first, last))
    return len(have) > 1 and low <= have[:len(low)] and have[:len(high)] <= high


def cuda_host_compiler_unsupported(ctx: Context) -> t.Iterator[Hit]:
    """nvcc takes the GCC that a claim names as its host compiler."""
    gcc = (ctx.stack.get("compiler") or {}).get("gcc")
    have = knowledge.numbers(gcc or "")
    for version in _releases(ctx) if gcc else []:
        for row in ctx.facts["cuda"]["host_gcc"]:
            least, most = knowledge.numbers(row["min"]), knowledge.numbers(row["max"])
            if _within(version, row["first"], row["last"]) and (have[:len(most)] > most or have[:1] < least[:1]):
                yield Hit("cuda %s, gcc %s" % (version, gcc), "nvcc of CUDA %s takes GCC %s to %s as its host compiler, not %s." % (
                    version, row["min"], row["max"], gcc), row.get("source"), weight(row))


def cuda_glibc_conflict(ctx: Context) -> t.Iterator[Hit]:
    """nvcc can read the C library's headers."""
    glibc = (ctx.stack.get("glibc") or {}).get("version")
    for version in _releases(ctx) if glibc else []:
        have = knowledge.numbers(version)
        for row in ctx.facts["cuda"]["glibc"]:
            last = knowledge.numbers(row["last_cuda"])
            old = have[:2] <= last if len(have) > 1 else have[:1] < last[:1]
            if old and knowledge.at_least(glibc, row["from"]):
                yield Hit("cuda %s, glibc %s" % (version, glibc), "nvcc of CUDA %s cannot read the headers of glibc %s; CUDA after %s can." % (
                    version, glibc, row["last_cuda"]), row.get("source"), weight(row))


def ptx_jit_not_covered(ctx: Context) -> t.Iterator[Hit]:
    """The driver can compile the PTX of the toolkit; minor-version compatibility does not promise that."""
    version = ctx.driver.get("version")
    if ctx.purpose != "install" or not version:
        return
    for cuda in _releases(ctx):
        own = knowledge.cuda_of_driver(ctx.facts, version)
        told = [row for row in ctx.facts["cuda"]["ptx_jit"] if row["major"] == cuda.split(".", maxsplit=1)[0]]
        if told and own and own[0] == knowledge.numbers(cuda)[0] and knowledge.numbers(cuda)[:2] > own:
            yield Hit("cuda %s@%s" % (cuda, version), "Driver %s knows CUDA %d.%d; PTX that CUDA %s makes was reported not to compile on it." % (
                version, *own, cuda), told[0].get("source"))


def cuda_known_issue(ctx: Context) -> t.Iterator[Hit]:
    """Nothing is told of this very release."""
    for version in _releases(ctx) if ctx.purpose == "install" else []:
        for row in ctx.facts["cuda"]["known_issues"]:
            if row["version"] == version:
                yield Hit("cuda %s" % version, "CUDA %s: %s." % (version, row["told"]), row.get("source"))


def cuda_dropped_distribution(ctx: Context) -> t.Iterator[Hit]:
    """The CUDA release has packages for the distribution release."""
    if ctx.purpose != "install" or (ctx.stack.get("cuda") or {}).get("compat"):
        return
    for version in _releases(ctx):
        for row in ctx.facts["cuda"]["dropped_distributions"]:
            same = ctx.os.get("id") == row["os"]["id"] and ctx.os.get("release") == row["os"]["release"]
            if same and knowledge.numbers(version)[:1] >= knowledge.numbers(row["from"])[:1]:
                yield Hit("cuda %s@%s %s" % (version, ctx.os["id"], ctx.os["release"]), "CUDA %s is no longer packaged for %s %s." % (
                    version, ctx.os["id"], ctx.os["release"]), row.get("source"))


def metapackage_without_version(ctx: Context) -> t.Iterator[Hit]:
    """No package is asked for that follows the newest release."""
    names = set((ctx.stack.get("packages") or {}).get("names") or []) & FLOATING
    if names:
        yield Hit(listed(names), "%s without a version follows the newest release, and brings its driver along." % listed(names),
                  ctx.facts["cuda"]["metapackages"].get("source"))


RULES = (cuda_host_compiler_unsupported, cuda_glibc_conflict, ptx_jit_not_covered, cuda_known_issue, cuda_dropped_distribution,
         metapackage_without_version)
