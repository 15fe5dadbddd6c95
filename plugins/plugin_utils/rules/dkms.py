# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about DKMS: every module of the stack, for the locked kernel and for the one that boots next."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils.kernel_names import headers_package
from ansible_collections.lockstep.gpu.plugins.plugin_utils import actions, dkms_modules
from ansible_collections.lockstep.gpu.plugins.plugin_utils.dkms_modules import BUILT, Module

from .context import Context, Hit, Row, listed, upstream

DKMS_SOURCE = "https://github.com/dkms-project/dkms"


def _list(ctx: Context) -> t.List[Row]:
    return ctx.state.get("dkms") or []


def _modules(ctx: Context) -> t.List[Module]:
    """The stack's modules; none where DKMS's list is not known."""
    known = (ctx.package_set.get("dkms") or {}).get("module")
    return dkms_modules.wanted(ctx.stack, ctx.driver, known, _list(ctx))


def _rows(ctx: Context, module: Module) -> t.List[Row]:
    """What DKMS knows about one module of the stack."""
    return [row for row in _list(ctx) if row["module"] == module.name and dkms_modules.fits(row["version"], module.version)]


def _locked(ctx: Context, row: Row) -> bool:
    """Whether a module belongs to the stack, also where DKMS does not list it."""
    version = ctx.driver.get("version")
    if version and dkms_modules.is_driver(row["module"]) and dkms_modules.fits(row.get("version"), version):
        return True
    return dkms_modules.claimed(ctx.stack, _modules(ctx), row)


def _kernels(ctx: Context) -> t.List[str]:
    """The kernels that the modules have to serve: the stack's, and the one that boots next, each if it is installed."""
    known = (ctx.state.get("kernel") or {}).get("installed") is not None
    running = (ctx.state.get("kernel") or {}).get("running")
    there = {row["release"] for row in ctx.kernels if row.get("image")}
    wanted = [ctx.kernel] + ([] if ctx.container else [ctx.next_kernel])
    return list(dict.fromkeys(name for name in wanted if name and (not known or name in there or name == running)))


def _may_build(ctx: Context, kernel: t.Optional[str]) -> bool:
    """Whether a step may build for a kernel: never for one beside the stack's, and not twice where a plan does it."""
    return kernel == ctx.kernel and not ctx.plan or not (ctx.stack.get("kernel") or {}).get("release") and not ctx.plan


def _headers(ctx: Context, kernel: str) -> t.Tuple[Row, ...]:
    """The step that brings the headers, unless they are known to be there."""
    package = headers_package(kernel, ctx.os.get("id"))
    if not package or package in ctx.packages or any(row["release"] == kernel and row.get("headers") for row in ctx.kernels):
        return ()
    return (actions.step("install_exact", package),)


def _build(ctx: Context, module: Module, kernel: str, **more: t.Any) -> t.Tuple[Row, ...]:
    """The steps that build a module for a kernel; none where that was tried and the source does not compile."""
    tried = any(row["reason"] == "build_failed" and (row["module"], row["kernel"]) == (module.name, kernel) for row in _failed_builds(ctx))
    if not _may_build(ctx, kernel) or tried:
        return ()
    return (*_headers(ctx, kernel), actions.step("dkms_build_install", "%s/%s" % module, kernel=kernel, **more))


def _on_disk(ctx: Context, module: Module, kernel: str) -> t.List[Row]:
    return dkms_modules.files_of(ctx.state, module, kernel)


def dkms_not_built_for_kernel(ctx: Context) -> t.Iterator[Hit]:
    """The stack's modules are built for the locked kernel, and for the one that boots next."""
    for module in _modules(ctx):
        rows = _rows(ctx, module)
        if not rows or any(row["state"] == "broken" for row in rows):
            continue
        version = module.version or rows[0]["version"]
        for kernel in _kernels(ctx):
            if any(row.get("kernel") == kernel and row["state"] in BUILT for row in rows) or _on_disk(ctx, module, kernel):
                continue
            built = [row["kernel"] for row in rows if row["state"] in BUILT]
            yield Hit("%s/%s@%s" % (module.name, version, kernel), "%s %s is not built for kernel %s%s (built for: %s)." % (
                module.name, version, kernel, _role(ctx, kernel), ", ".join(built) or "none"),
                do=_build(ctx, Module(module.name, version), kernel))
    absent = (ctx.state.get("dkms_status") or {}).get("unusable") == "dkms is not installed"
    if ctx.state.get("dkms") is not None and not absent and not ctx.plan and "." in (ctx.driver.get("version") or ""):
        yield from _driver_not_listed(ctx)
    if _list(ctx) and not (ctx.state.get("dkms_status") or {}).get("unusable"):
        yield from _claimed_not_listed(ctx)


def _role(ctx: Context, kernel: str) -> str:
    """What is special about a kernel, as the end of a phrase."""
    waits = kernel == ctx.next_kernel and kernel != (ctx.state.get("kernel") or {}).get("running")
    return ", the kernel that boots next" if waits else ""


def _driver_not_listed(ctx: Context) -> t.Iterator[Hit]:
    """The claimed driver where DKMS has only another version of it, or nothing though its package is there."""
    version = ctx.driver["version"]
    drivers = [row for row in _list(ctx) if dkms_modules.is_driver(row["module"])]
    if any(dkms_modules.fits(row["version"], version) for row in drivers) or ctx.driver.get("module") != "dkms":
        return
    carried = [dkms_modules.carried_by(name) for name, row in ctx.members("driver").items() if upstream(row.get("version")) == version]
    names = [name for name in carried if name]
    for kernel in _kernels(ctx)[:1]:
        others = [row for row in drivers if row["kernel"] == kernel and row["state"] in BUILT]
        if names and not _on_disk(ctx, Module(names[0], version), kernel):
            yield Hit("%s/%s@%s" % (names[0], version, kernel), "The package of %s %s is installed, but DKMS does not list it for kernel %s." % (
                names[0], version, kernel), do=_build(ctx, Module(names[0], version), kernel))
        elif others and not ctx.packages_known:
            yield Hit("%s/%s@%s" % (others[0]["module"], version, kernel), "DKMS has %s %s for kernel %s, not the %s that is claimed." % (
                others[0]["module"], others[0]["version"], kernel, version), context="other_version")


def _claimed_not_listed(ctx: Context) -> t.Iterator[Hit]:
    """Modules that are claimed by name and version (gdrdrv, nvidia_fs, mft), and that a list with other modules does not have."""
    for key, version in (ctx.stack.get("modules") or {}).items():
        name = dkms_modules.NAMES.get(key)
        others = [str(row["version"]) for row in _list(ctx) if row["module"] == name]
        # A package with a built module needs no DKMS.
        prebuilt = any(re.match(r"kmod-(?!.*dkms)", package) and key.split("_")[0] in package for package in ctx.packages)
        if not name or prebuilt or any(dkms_modules.fits(other, str(version)) for other in others):
            continue
        for kernel in _kernels(ctx)[:1]:
            yield Hit("%s/%s@%s" % (name, version, kernel), "%s %s is not registered with DKMS, nor built for kernel %s%s." % (
                name, version, kernel, "; DKMS has %s" % listed(others) if others else ""))


def dkms_not_installed(ctx: Context) -> t.Iterator[Hit]:
    """A module that is built for a kernel that has to work is installed there."""
    for module in _modules(ctx):
        for row in _rows(ctx, module):
            if row["state"] == "built" and row["kernel"] in _kernels(ctx):
                do = (actions.step("dkms_install", "%s/%s" % (row["module"], row["version"]), kernel=row["kernel"]),)
                yield Hit("%s/%s@%s" % (row["module"], row["version"], row["kernel"]), "%s %s is built but not installed for kernel %s." % (
                    row["module"], row["version"], row["kernel"]), do=do if _may_build(ctx, row["kernel"]) else ())


def dkms_weak_only(ctx: Context) -> t.Iterator[Hit]:
    """A module is built for the kernel itself, not only linked from the build for another."""
    for module in _modules(ctx):
        rows = [row for row in _rows(ctx, module) if row.get("kernel") in _kernels(ctx)]
        for row in rows:
            own = any(other["kernel"] == row["kernel"] and other["state"] == "installed" for other in rows)
            if row["state"] == "installed_weak" and not own:
                do = (actions.step("dkms_build_install", "%s/%s" % (row["module"], row["version"]), kernel=row["kernel"]),)
                yield Hit("%s@%s" % (row["module"], row["kernel"]), "%s %s of kernel %s is a link to the module that was built for %s." % (
                    row["module"], row["version"], row["kernel"], row.get("built_for") or "another"), DKMS_SOURCE,
                    do=do if _may_build(ctx, row["kernel"]) else ())


def dkms_broken_source(ctx: Context) -> t.Iterator[Hit]:
    """Every registered module has its source."""
    told = (ctx.state.get("dkms_status") or {}).get("failures") or []
    broken = [(row["module"], row["version"]) for row in _list(ctx) if row.get("state") == "broken"]
    broken += [(row["module"], row["version"]) for row in [*told, *(ctx.state.get("dkms_failures") or [])]
               if row["reason"] in ("broken", "conf_missing") and row["module"] and row["version"]]
    for key in dict.fromkeys(broken):
        row = {"module": key[0], "version": key[1]}
        yield Hit("%s/%s" % key, "DKMS lists %s %s, but its source is gone." % key, DKMS_SOURCE,
                  "locked" if _locked(ctx, row) else "default", (actions.step("manual", "restore or remove %s/%s" % key),))


def dkms_tree_orphan(ctx: Context) -> t.Iterator[Hit]:
    """DKMS's folder holds nothing that DKMS itself does not know."""
    known = {(row["module"], row["version"]) for row in _list(ctx)}
    orphans = {(row["module"], row["version"]) for row in ctx.state.get("dkms_orphans") or []}
    if ctx.state.get("dkms") is not None:
        orphans |= {(row["module"], row["version"]) for row in ctx.state.get("dkms_failures") or [] if row["reason"] == "tree_has_it"}
    for module, version in sorted(orphans - known):
        context = "locked" if _locked(ctx, {"module": module, "version": version}) else (
            "default" if dkms_modules.is_driver(module) or any(module == own.name for own in _modules(ctx)) else "foreign")
        path = "/var/lib/dkms/%s/%s" % (module, version)
        yield Hit(path, "%s lies in DKMS's tree, but DKMS does not list %s %s and refuses to add it again." % (path, module, version),
                  DKMS_SOURCE, context, (actions.step("manual", "remove " + path),) if context != "foreign" else ())


def dkms_status_unusable(ctx: Context) -> t.Iterator[Hit]:
    """DKMS says what is built; without its list nobody knows."""
    status = ctx.state.get("dkms_status") or {}
    missing = status.get("unusable") == "dkms is not installed"
    why = status.get("unusable") or (_tells_nothing(ctx) if status else None)
    if not why or missing and not _needs_dkms(ctx):
        return
    done = any(row["state"] == "installed" and row["kernel"] == ctx.kernel and _locked(ctx, row) for row in _list(ctx))
    step = actions.step("install_exact", "dkms") if missing else actions.step("gather_facts", "dkms status")
    yield Hit("dkms status", "`dkms status` gives no list that could be relied on: %s." % why.rstrip("."), DKMS_SOURCE,
              "partial" if done else "default", (step,))


def _tells_nothing(ctx: Context) -> t.Optional[str]:
    """Why an empty list does not mean that all is well: a driver is claimed, and nothing else shows one."""
    modules = ctx.state.get("modules") or {}
    shown = ctx.packages_known or ctx.loaded_module or modules.get("files") or ctx.state.get("smi") or ctx.state.get("gpu_query")
    claimed = ctx.driver.get("version") and ctx.driver.get("module") == "dkms"
    return "it lists no module" if claimed and not _list(ctx) and not shown and not ctx.container else None


def _needs_dkms(ctx: Context) -> bool:
    """Whether the stack's modules are built here: it says so, or a package with a module's source is installed."""
    sources = [name for name in ctx.members("driver") if "dkms" in name]
    return (ctx.stack.get("driver") or {}).get("module") == "dkms" and not ctx.plan or bool(sources)


def dkms_built_file_missing(ctx: Context) -> t.Iterator[Hit]:
    """The files that DKMS says it built are there."""
    for row in _flagged(ctx, "missing_built"):
        module = Module(row["module"], row["version"])
        works = any(dkms_modules.fits(found.get("version"), row["version"]) for found in _on_disk(ctx, module, row["kernel"]))
        yield Hit("%s/%s@%s" % (row["module"], row["version"], row["kernel"]),
                  "DKMS lists %s %s as %s for kernel %s, but files that it built are missing." % (
                      row["module"], row["version"], row["state"], row["kernel"]), DKMS_SOURCE, "on_disk" if works else "default",
                  _build(ctx, module, row["kernel"], force=True))


def dkms_original_archived(ctx: Context) -> t.Iterator[Hit]:
    """No older module of the same name waits to come back when DKMS's is removed."""
    for row in _flagged(ctx, "original_exists"):
        yield Hit("%s@%s" % (row["module"], row["kernel"]), "DKMS keeps a module that lay in the place of %s %s for kernel %s before; "
                  "it comes back when DKMS's is removed." % (row["module"], row["version"], row["kernel"]), DKMS_SOURCE)


def _flagged(ctx: Context, flag: str) -> t.List[Row]:
    """Rows of the stack's modules with a remark, for kernels that have to work."""
    return [row for module in _modules(ctx) for row in _rows(ctx, module)
            if flag in (row.get("flags") or []) and row.get("kernel") in _kernels(ctx)]


def installed_module_differs_from_dkms(ctx: Context) -> t.Iterator[Hit]:
    """The file below /lib/modules is the one that DKMS built."""
    for row in _list(ctx):
        if "diff" not in (row.get("flags") or []) or row.get("kernel") not in (ctx.kernel, *_kernels(ctx)):
            continue
        locked = _locked(ctx, row)
        yield Hit("%s@%s" % (row["module"], row["kernel"]), "The %s module of kernel %s is not the one that DKMS built (%s)." % (
            row["module"], row["kernel"], row["version"]), DKMS_SOURCE, "locked" if locked else "default",
            _reinstall(ctx, row) if locked and _may_build(ctx, row["kernel"]) else ())


def _reinstall(ctx: Context, row: Row) -> t.Tuple[Row, ...]:
    """The steps that put DKMS's file back: what another installer left goes first, and a module that is loaded needs a reboot."""
    steps = [actions.step("dkms_install", "%s/%s" % (row["module"], row["version"]), kernel=row["kernel"], force=True)]
    loaded = ctx.loaded_module.get("version") if dkms_modules.is_driver(row["module"]) else None
    if loaded and loaded != row["version"]:
        leftovers = actions.step("manual", "remove .run leftovers (%s) from /lib/modules/%s" % (loaded, row["kernel"]))
        return (leftovers, *steps, actions.step("reboot_once"))
    return tuple(steps)


def dkms_registered_not_built_but_module_on_disk(ctx: Context) -> t.Iterator[Hit]:
    """A module that DKMS only knows, and that is there all the same, was brought by something else."""
    for module in _modules(ctx):
        rows = _rows(ctx, module)
        for kernel in _kernels(ctx):
            if not rows or any(row["state"] == "broken" or row.get("kernel") == kernel and row["state"] in BUILT for row in rows):
                continue
            for found in _on_disk(ctx, module, kernel)[:1]:
                same = dkms_modules.fits(found.get("version"), module.version)
                yield Hit("%s/%s@%s" % (module.name, rows[0]["version"], kernel),
                          "DKMS has not built %s %s for kernel %s, but %s (%s) is there: something else brought it." % (
                              module.name, rows[0]["version"], kernel, found.get("path") or found.get("name"), found.get("version")),
                          context="default" if same else "other_version",
                          do=() if same else _build(ctx, Module(module.name, rows[0]["version"]), kernel))


def stale_dkms_registration(ctx: Context) -> t.Iterator[Hit]:
    """Only one version of each of the stack's modules is registered: DKMS builds every one of them for a new kernel."""
    for module in _modules(ctx):
        current = [row for row in _rows(ctx, module) if row["state"] in ("installed", "installed_weak")]
        if not current:
            continue
        driver = dkms_modules.is_driver(module.name)
        stale = [(row["module"], row["version"]) for row in _list(ctx) if row["state"] != "broken"
                 and (row["module"] == module.name or driver and dkms_modules.is_driver(row["module"]))
                 and (row["module"], row["version"]) not in {(one["module"], one["version"]) for one in current}]
        for key in dict.fromkeys(stale):
            kernels = sorted({row["kernel"] for row in _list(ctx) if (row["module"], row["version"]) == key and row["kernel"]})
            yield Hit("%s/%s" % key, "%s %s is still registered with DKMS beside %s %s (built for: %s); a new kernel would get it too." % (
                *key, current[0]["module"], current[0]["version"], listed(kernels) or "none"), DKMS_SOURCE,
                do=() if ctx.plan else (actions.step("dkms_remove", "%s/%s" % key),))


def dkms_build_failed(ctx: Context) -> t.Iterator[Hit]:
    """No build of a module failed that is not there since."""
    for row in _failed_builds(ctx):
        name = "/".join(word for word in (row["module"] or "a module", row["version"]) if word)
        own = not ctx.stack or dkms_modules.is_driver(row["module"]) or _locked(ctx, dict(row, module=row["module"] or ""))
        text = "The build of %s for kernel %s failed." % (name, row["kernel"] or "of unknown release")
        for label, key in (("First error", "error"), ("Cause", "meaning"), ("Log", "log")):
            text += " %s: %s." % (label, row[key].rstrip(".")) if row.get(key) else ""
        yield Hit("%s@%s" % (name, row["kernel"]) if row["kernel"] else name, text, DKMS_SOURCE, "default" if own else "foreign")


def _failed_builds(ctx: Context) -> t.List[Row]:
    """What runs and logs say that failed, joined, without what DKMS lists as built by now."""
    found = [dict(row, error=None, meaning=None) for row in ctx.state.get("dkms_failures") or [] if row["reason"] in ("build_failed", "depends")]
    for log in ctx.state.get("dkms_logs") or []:
        same = [row for row in found if log["module"] in (row["module"], None) and log["kernel"] in (row["kernel"], None)]
        if not same:
            same = [dict(log, log=None, kernel=log["kernel"] or ctx.kernel)]
            found += same
        same[0].update(error=log["error"], meaning=log["meaning"], version=same[0]["version"] or log["version"])
    own = next((module for module in _modules(ctx) if dkms_modules.is_driver(module.name)), None)
    named = [row if row["module"] or not own else dict(row, module=own.name, version=own.version) for row in found]
    built = {(row["module"], row["kernel"]) for row in _list(ctx) if row["state"] in BUILT}
    return [row for row in named if (row["module"], row["kernel"]) not in built]


RULES = (dkms_not_built_for_kernel, dkms_not_installed, dkms_weak_only, dkms_broken_source, dkms_tree_orphan, dkms_status_unusable,
         dkms_built_file_missing, dkms_original_archived, installed_module_differs_from_dkms,
         dkms_registered_not_built_but_module_on_disk, stale_dkms_registration, dkms_build_failed)
