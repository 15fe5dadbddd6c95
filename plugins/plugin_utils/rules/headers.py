# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about what a module is built with: the headers of exactly the kernel, and its compiler."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils.kernel_names import headers_package

from .. import dkms_modules, installed_kernels
from ..actions import step
from .context import Context, Hit, Row, listed

# kernel-headers is for programs, and kernel-debug-devel for another kernel: neither is in it.
_DEVEL = re.compile(r"kernel[\w.]*(?:-(?!debug-|rt-debug-|64k-debug-)[\w.]+)*-devel")
_DEB_HEADERS = re.compile(r"linux-headers-(?P<release>\d[\w.+~-]*-[a-z][\w-]*)")
# Debian's headers name the kernel's compiler themselves (.kernelvariables), and depend on it.
_NAMES_ITS_COMPILER = ("debian",)
_OWN_LOG = ("compiler_mismatch", None)


def _wanted(ctx: Context) -> t.Optional[str]:
    """The headers package of the kernel that has to work."""
    return headers_package(ctx.kernel, ctx.os.get("id")) if ctx.kernel and not ctx.container else None


def _there(ctx: Context) -> t.Optional[bool]:
    """Whether the kernel's headers are there; None when nothing tells."""
    wanted = _wanted(ctx)
    known = True if wanted and wanted in ctx.packages else (ctx.installed_kernel or {}).get("headers")
    return False if known is None and _left_out(ctx) else known


def _left_out(ctx: Context) -> bool:
    """Whether a list has the kernel's image, and beside it the headers of other installed kernels, but not this one's."""
    listed_images = {release for release, _name, _row in installed_kernels.images(ctx.packages)}
    held = _wanted(ctx) in ((ctx.state.get("package_manager") or {}).get("holds") or [])
    return ctx.kernel in listed_images and not held and any(name.startswith("linux-headers-") for name in _others(ctx))


def _others(ctx: Context) -> t.List[str]:
    """Installed headers packages that fit another kernel only, with their versions; none where this kernel's are there."""
    wanted = _wanted(ctx) or ""
    found = []
    for name, row in ctx.packages.items():
        plain = name.partition(":")[0]
        if _DEVEL.fullmatch(plain):
            for version in [row.get("version"), *(row.get("others") or [])]:
                whole = "%s-%s" % (plain, str(version).partition(":")[2] or version)
                if wanted in (whole, "%s.%s" % (whole, row.get("arch"))) or not row.get("arch") and wanted.startswith(whole + "."):
                    return []
                found.append(whole)
        elif _DEB_HEADERS.fullmatch(plain) and not plain.endswith("-common"):
            if plain == wanted:
                return []
            found.append(plain)
    return found


def _orphans(ctx: Context, others: t.Iterable[str]) -> t.List[str]:
    """Those that belong to no installed kernel; on RPM systems every one, since there the name has no release in it."""
    kernels = {row["release"] for row in ctx.kernels}
    return [name for name in others if not name.startswith("linux-headers-") or name[len("linux-headers-"):] not in kernels]


def _not_found(ctx: Context) -> bool:
    """Whether a build already failed for want of this kernel's headers."""
    failed = {row["kernel"] for row in ctx.state.get("dkms_failures") or [] if row.get("reason") == "headers_missing"}
    failed |= set((ctx.state.get("build") or {}).get("headers_not_found") or [])
    return ctx.kernel in failed or bool(_common(ctx))


def _common(ctx: Context) -> t.List[str]:
    """The half of Debian's headers that all flavours of a kernel share, where a build missed just that."""
    told = (ctx.state.get("build") or {}).get("headers_not_found") or []
    return ["linux-headers-" + name for name in told if name.endswith("-common") and (ctx.kernel or "").startswith(name[:-len("common")])]


def headers_mismatch(ctx: Context) -> t.Iterator[Hit]:
    """The headers that are installed are those of the kernel that has to work."""
    others = _orphans(ctx, _others(ctx))
    if _wanted(ctx) and others and not _there(ctx):
        yield Hit("%s for kernel %s" % (listed(others), ctx.kernel), "Installed are %s, which fit another kernel than %s; %s is missing." % (
            listed(others), ctx.kernel, _wanted(ctx)), do=_install(ctx))


def headers_missing(ctx: Context) -> t.Iterator[Hit]:
    """The kernel that has to work has its headers, where modules are built on the node."""
    if not ctx.kernel or ctx.container and not ctx.installed_kernel or any(True for hit in headers_mismatch(ctx)):
        return
    failed, there = _not_found(ctx), _there(ctx)
    if failed and (there is not True or _common(ctx)) or there is False and _builds(ctx):
        yield Hit(ctx.kernel, "Kernel %s is installed without its headers, so no module can be built for it." % ctx.kernel,
                  context="failed" if failed else "default", do=() if ctx.plan else _install(ctx))


def _builds(ctx: Context) -> bool:
    """Whether the driver's module is built here: DKMS knows one, or the stack wants one and no prebuilt one is installed."""
    prebuilt = [name for name in ctx.packages if re.match(r"linux-modules-nvidia-|kmod-nvidia-(?!.*dkms)", name)]
    registered = any(dkms_modules.is_driver(row["module"]) for row in ctx.state.get("dkms") or [])
    asked = ctx.driver.get("module") or ("dkms" if registered else None)
    return asked == "dkms" and not prebuilt or not ctx.driver and bool(ctx.state.get("dkms"))


def _install(ctx: Context) -> t.Tuple[Row, ...]:
    gone = _unavailable(ctx)
    return tuple(step("install_exact", package) for package in [*_common(ctx), _wanted(ctx)] if package and package not in gone)


def _unavailable(ctx: Context) -> t.List[str]:
    """Headers packages that the archives do not have, as a run, apt's policy or dnf's list of versions says."""
    manager = ctx.state.get("package_manager") or {}
    names = set((ctx.state.get("build") or {}).get("headers_unavailable") or [])
    for name, row in (manager.get("policy") or {}).items():
        if _DEB_HEADERS.fullmatch(name) and row.get("candidate") is None and row.get("installed") is None:
            names.add(name)
    wanted = _wanted(ctx) or ""
    for name, offered in (manager.get("available") or {}).items():
        if _DEVEL.fullmatch(name) and wanted.startswith(name + "-") and offered:
            fits = ["%s-%s" % (name, str(version).partition(":")[2] or version) for version in offered]
            if not any(wanted == one or wanted.startswith(one + ".") for one in fits):
                names.add(wanted)
    for row in manager.get("problems") or []:
        need = re.fullmatch(r"(kernel(?:-[a-z0-9]+)*-devel)(?:-matched|-uname-r)? ={1,2} (\d\S+)", row.get("what") or "")
        if need and row["reason"] == "nothing_provides":
            names.add("-".join(need.groups()))
    return sorted(names)


def headers_unavailable(ctx: Context) -> t.Iterator[Hit]:
    """An archive has the headers of the kernel that has to work."""
    for name in _unavailable(ctx):
        if name in ctx.packages or _there(ctx) and ctx.kernel and ctx.kernel in name:
            continue
        yield Hit(name, "No archive of the node has %s%s: modules cannot be built for that kernel." % (
            name, " any more" if ctx.kernel and ctx.kernel in name else ""),
            do=(step("fail_preflight", "add an archive that still has %s, or lock a kernel whose headers are there" % name),))


def _major(compiler: t.Optional[Row]) -> t.Optional[str]:
    """The major release of {program, version}."""
    found = re.match(r"\d+", str((compiler or {}).get("version") or "")) or re.search(r"\d+", str((compiler or {}).get("program") or ""))
    return found.group() if found else None


def _family(compiler: Row) -> str:
    return "clang" if "clang" in compiler["program"] else "gcc"


def _log(ctx: Context) -> Row:
    """The log of the last failed build, unless it is about another kernel."""
    log = (ctx.state.get("build") or {}).get("log") or {}
    return log if log.get("kernel") in (None, ctx.kernel, ctx.next_kernel) else {}


def _kernel_compiler(ctx: Context) -> t.Optional[Row]:
    """{program, version} of what built the kernel."""
    told = (ctx.state.get("build") or {}).get("kernel") or {}
    words = ((ctx.installed_kernel or {}).get("compiler") or "").split()
    if _log(ctx).get("kernel_compiler"):
        return _log(ctx)["kernel_compiler"]
    if told.get("release") == ctx.kernel or ctx.kernel is None:
        return told.get("compiler")
    return {"program": words[0], "version": words[1]} if len(words) == 2 else None


def _own_compiler(ctx: Context) -> t.Optional[Row]:
    """{program, version} of what the node would build with."""
    build = ctx.state.get("build") or {}
    link = build.get("link")
    linked = {"program": link, "version": re.sub(r"^[a-z]+-?", "", link)} if link and re.search(r"\d", link) else None
    return _log(ctx).get("compiler") or build.get("compiler") or linked


def compiler_mismatch(ctx: Context) -> t.Iterator[Hit]:
    """A module is built by the compiler that built the kernel, or one of its major release."""
    kernel, own, log = _kernel_compiler(ctx), _own_compiler(ctx), _log(ctx)
    absent = log.get("missing_compiler")
    if absent and re.search(r"\d", absent):
        yield Hit("kernel %s, which is not installed" % absent, "The build for kernel %s calls %s, the kernel's own compiler, which is not installed." % (
            ctx.kernel or "", absent), do=_with_compiler(ctx, absent, log))
        return
    if not kernel or not own or ctx.container or log.get("cause") not in _OWN_LOG or log.get("plain_compiler"):
        return
    same = _family(kernel) == (_family(own) if own["program"] != "cc" else _family(kernel)) and _major(kernel) == _major(own)
    if same or not _major(kernel) or not _major(own) or ctx.os.get("id") in _NAMES_ITS_COMPILER and not log.get("option"):
        return
    name = kernel["program"] if re.search(r"\d", kernel["program"]) else "%s-%s" % (_family(kernel), _major(kernel))
    option = "; it does not know %s" % log["option"] if log.get("option") else ""
    own_name = own["program"] if own["version"] else "cc"
    yield Hit("kernel %s, %s is %s" % (name, own_name, own["version"]), "Kernel %s was built by %s %s, and %s of the node is %s%s." % (
        ctx.kernel or "", name, kernel["version"] or "", own_name, own["version"] or "of another release", option),
        context="built" if not log and _is_built(ctx) else "default", do=_with_compiler(ctx, name, log))


def _is_built(ctx: Context) -> bool:
    """Whether DKMS has an installed module for the kernel."""
    return any(row.get("kernel") == ctx.kernel and row.get("state") == "installed" for row in ctx.state.get("dkms") or [])


def _with_compiler(ctx: Context, name: str, log: Row) -> t.Tuple[Row, ...]:
    """The kernel's compiler, and a build with it."""
    rpm = (ctx.state.get("package_manager") or {}).get("kind") == "dnf" or ctx.os.get("id") in ("rhel", "rocky", "almalinux", "centos", "ol", "fedora")
    package = "gcc-toolset-%s" % name.rpartition("-")[2] if rpm and name.startswith("gcc-") else name
    there = {row["name"] for row in ctx.state.get("compilers") or []}
    steps = [] if name in there else [step("install_exact", package)]
    module, version = log.get("module") or "nvidia", log.get("version") or ctx.driver.get("version")
    if version:
        kernel = {"kernel": ctx.kernel} if ctx.kernel else {}
        steps.append(step("dkms_build_install", "%s/%s" % (module, version), CC=name, **kernel))
    return tuple(steps)


def module_makefile_calls_plain_gcc(ctx: Context) -> t.Iterator[Hit]:
    """A module's makefile starts the compiler that the kernel's build names, not whatever gcc is."""
    log, build = _log(ctx), ctx.state.get("build") or {}
    kernel, own = _kernel_compiler(ctx), _own_compiler(ctx)
    if log.get("plain_compiler"):
        about = "%s/%s" % (log["module"], log["version"]) if log.get("module") else "the module"
        absent = log.get("missing_compiler")
        yield Hit("%s: %s" % (about, log["plain_compiler"]), "The makefile of %s calls plain %s, which is %s%s." % (
            about, log["plain_compiler"], "not installed" if absent else "not the compiler that the build asks for",
            " (the kernel's compiler is %s)" % kernel["program"] if kernel else ""),
            do=(step("install_exact", "gcc") if absent else step("manual", "let the makefile of %s use $(CC)" % about),))
    elif kernel and own and _major(kernel) and _major(own) and _major(kernel) != _major(own):
        for path in build.get("plain_gcc") or []:
            yield Hit(path, "%s calls plain gcc, which is %s here, while the kernel was built by %s: CC of the build does not reach it." % (
                path, own["version"] or own["program"], kernel["program"]), do=(step("manual", "let %s use $(CC)" % path),))


RULES = (headers_missing, headers_mismatch, headers_unavailable, compiler_mismatch, module_makefile_calls_plain_gcc)
