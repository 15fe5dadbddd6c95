# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about what a claim says of compilers, headers and kernels: would the module build, would the node survive it?"""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge

from .context import Context, Hit, Row, weight


def _major(compiler: str) -> t.Optional[int]:
    numbers = knowledge.numbers(compiler)
    return numbers[0] if numbers else None


def _of_system(rows: t.Iterable[Row], system: t.Mapping[str, t.Any]) -> t.List[Row]:
    return [row for row in rows if row["os"]["id"] == system.get("id") and system.get("release")
            and knowledge.same_release(row["os"]["release"], system["release"])]


def _kernel_compiler(ctx: Context) -> t.Tuple[t.Optional[int], Row]:
    """(major release of the GCC that built the kernel, the row that says so)."""
    told = ctx.claimed_kernel.get("compiler")
    if told:
        return _major(told), ctx.facts["compilers"]["rule"]
    have = knowledge.kernel_numbers(ctx.kernel or "")
    rows = [row for row in _of_system(ctx.facts["compilers"]["kernels"], ctx.os) if have[:2] >= knowledge.numbers(row["from"])]
    return (_major(rows[-1]["gcc"]), rows[-1]) if rows and len(have) > 1 else (None, {})


def build_compiler_differs(ctx: Context) -> t.Iterator[Hit]:
    """The module is built by the compiler that built the kernel."""
    if ctx.purpose != "install" or not ctx.driver or ctx.driver.get("module") != "dkms":
        return
    kernel, row = _kernel_compiler(ctx)
    named = (ctx.stack.get("compiler") or {}).get("gcc")
    defaults = _of_system(ctx.facts["compilers"]["defaults"], ctx.os)
    compiler = named or (defaults[0]["gcc"] if defaults else None)
    if not kernel or not compiler or _major(compiler) == kernel or not named and _major(compiler) > kernel:
        return
    context = "assumed" if not named else "newer" if _major(compiler) > kernel else weight(row)
    yield Hit("gcc %s@%s" % (compiler, ctx.kernel or "kernel"), "Kernel %s was built with gcc %d, the module would be built with gcc %s%s." % (
        ctx.kernel or "of the claim", kernel, compiler, "" if named else ", the default of %(id)s %(release)s" % ctx.os), row.get("source"), context)


def build_headers_missing(ctx: Context) -> t.Iterator[Hit]:
    """A kernel that modules are built for has its headers."""
    if ctx.claimed_kernel.get("headers") is False and ctx.driver and ctx.driver.get("module") == "dkms":
        yield Hit("%s" % (ctx.kernel or "kernel"), "Kernel %s is to have no headers, so DKMS cannot build the driver for it." % (
            ctx.kernel or "of the claim"), ctx.facts["kernels"]["headers"]["source"])


def kernel_too_old_for_driver(ctx: Context) -> t.Iterator[Hit]:
    """The kernel is not older than what the branch supports."""
    row, have = knowledge.branch(ctx.facts, ctx.driver.get("version") or ""), knowledge.kernel_numbers(ctx.kernel or "")
    if ctx.purpose == "install" and row and row.get("min_kernel") and len(have) > 1 and have[:2] < knowledge.numbers(row["min_kernel"]):
        # The README is the open module's; the proprietary one was not seen to say the same.
        yield Hit("%s@%s" % (row["branch"], ctx.kernel), "Driver branch %s supports kernels from %s on; the kernel is %s." % (
            row["branch"], row["min_kernel"], ctx.kernel), row["min_kernel_source"], "default" if ctx.driver.get("flavour") == "open" else "reported")


def kernel_risky_for_driver(ctx: Context) -> t.Iterator[Hit]:
    """No trouble at run time is told of this kernel with this driver."""
    version, have = ctx.driver.get("version"), knowledge.kernel_numbers(ctx.kernel or "")
    if ctx.purpose != "install" or not version or len(have) < 2:
        return
    for row in ctx.facts["kernels"]["risks"]:
        if knowledge.numbers(version) < knowledge.numbers(row["driver_below"]) and have[:2] >= knowledge.numbers(row["kernel_from"]):
            yield Hit("%s@%s" % (version, ctx.kernel), "Driver %s with kernel %s: %s." % (version, ctx.kernel, row["told"]), row.get("source"))


def kaslr_breaks_cuda(ctx: Context) -> t.Iterator[Hit]:
    """A kernel whose address layout keeps HMM from starting has a workaround."""
    row, version = ctx.facts["kernels"]["kaslr"], ctx.driver.get("version")
    options = (ctx.stack.get("driver") or {}).get("options") or {}
    mended = row["kernel_argument"] in (ctx.claimed_kernel.get("cmdline") or []) or str(options.get(row["module_option"])) == "1"
    if version and ctx.claimed_kernel.get("kaslr") and knowledge.at_least(version, row["driver_from"]) is not False and not mended:
        yield Hit("driver %s" % version, "With driver %s CUDA does not start on kernels whose KASLR leaves no range for HMM (error -34)." % version,
                  row.get("source"), weight(row))


def doca_moves_kernel(ctx: Context) -> t.Iterator[Hit]:
    """DOCA's dependency on the headers' metapackage does not bring another kernel."""
    unheld = False in ((ctx.stack.get("expect") or {}).get("hold"), ctx.claimed_kernel.get("held"))
    if ctx.purpose == "install" and unheld and (ctx.stack.get("ofed") or {}).get("provider") == "doca" and ctx.os.get("id") == "debian":
        yield Hit("linux-headers-amd64", "doca-ofed depends on linux-headers-amd64, which is not held: apt may bring and boot a kernel without the driver.")


def claimed_libraries_differ(ctx: Context) -> t.Iterator[Hit]:
    """The driver's user space that a claim names is the kernel module's version."""
    version, user = ctx.driver.get("version"), ctx.driver.get("libraries")
    if user and user != version:
        yield Hit("module %s / libraries %s" % (version or "of the claim", user), "The driver's libraries (%s) are not its kernel module's version (%s)." % (
            user, version or "not named"), ctx.facts["drivers"]["libraries"]["source"])


RULES = (build_compiler_differs, build_headers_missing, kernel_too_old_for_driver, kernel_risky_for_driver, kaslr_breaks_cuda, doca_moves_kernel,
         claimed_libraries_differ)
