# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about kernels: headers, modules, the boot default, and the space that a kernel needs."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils.kernel_names import headers_package, image_package

from .. import installed_kernels, knowledge
from ..actions import step
from .context import INSTALLED, Context, Hit, Row, listed

KERNEL_SOURCE = "https://ubuntu.com/kernel/lifecycle"
# What takes part in a stack and is replaced by a boot only.
ASKS_FOR_A_REBOOT = re.compile(r"linux-|nvidia-|libnvidia-|libcuda1|kernel")
# Modules of the kernel itself that NVIDIA's use, and the beginnings of what those export.
KERNELS_OWN = ("drm", "drm_kms_helper", "i2c_core", "ipmi_msghandler", "ipmi_devintf", "video", "backlight")
SYMBOLS_OF = {"drm": "drm", "ipmi": "ipmi_msghandler", "i2c": "i2c_core"}
# Without the first none of the others is looked for.
DRIVERS_OWN = ("nvidia", "nvidia_modeset", "nvidia_uvm", "nvidia_drm", "nvidia_peermem")
# linux-modules-nvidia-535-server-5.15.0-91-generic, and the metapackage linux-modules-nvidia-535-server-generic.
_PREBUILT = re.compile(r"linux-modules-nvidia-(\d+(?:-server)?(?:-open)?)-")
MIB = 1024 * 1024
# What an installation still takes, in bytes, by file system. Measured on Debian 13: the CUDA toolkit and its
# dependencies unpack to 4.5 GiB, the driver to 0.6 GiB beside its build; a kernel with its initramfs takes 50 to 200 MiB.
KERNEL_ON_BOOT = 256 * MIB
TOOLKIT_ON_USR = 6 * 1024 * MIB
DRIVER_ON_USR = 1024 * MIB


def kernel_module_missing(ctx: Context) -> t.Iterator[Hit]:
    """The locked kernel has the driver's module, once the package that brings its source is installed."""
    told = list(_not_found(ctx))
    for module, kernel in told:
        yield Hit("%s@%s" % (module, kernel), "modprobe finds no module %s for kernel %s below /lib/modules." % (module, kernel),
                  do=_module_for(ctx, kernel) if module == "nvidia" else ())
    yield from _kernels_own_missing(ctx)
    files = (ctx.state.get("modules") or {}).get("files")
    module = (ctx.package_set.get("dkms") or {}).get("module")
    carriers = [request["name"] for request in ctx.package_set.get("requests") or [] if request["name"].endswith("-dkms")]
    installed = any((ctx.packages.get(name) or {}).get("status") in INSTALLED for name in carriers)
    if files is None or not module or not ctx.installed_kernel or not installed or told:
        return
    rows = [row for row in ctx.state.get("dkms") or [] if row.get("module") == module and row.get("version") == ctx.driver["version"]]
    # What DKMS itself calls unfinished is told by the DKMS rules.
    unfinished = rows and not any(row.get("kernel") == ctx.kernel and row["state"] == "installed" for row in rows)
    if not unfinished and not any(row.get("kernel") == ctx.kernel and row.get("name") == module for row in files):
        yield Hit("%s@%s" % (module, ctx.kernel), "The driver is installed, but kernel %s has no module %s below /lib/modules." % (
            ctx.kernel, module))


def _module_for(ctx: Context, kernel: str) -> t.Tuple[Row, ...]:
    """The steps that bring the driver's module for a kernel; where DKMS has it, its rules know what lacks."""
    if ctx.plan or kernel not in (ctx.kernel, None):
        return ()
    branches = {found.group(1) for found in map(_PREBUILT.match, ctx.packages) if found}
    if len(branches) == 1:
        return (step("install_exact", "linux-modules-nvidia-%s-%s" % (branches.pop(), kernel)),)
    return () if ctx.state.get("dkms") is not None else (step("gather_facts", "dkms status"),)


def _kernels_own_missing(ctx: Context) -> t.Iterator[Hit]:
    """Modules of the kernel that the driver needs, and that modprobe does not find: a minimal or cloud kernel, or one without its extras."""
    refused = (ctx.state.get("modules") or {}).get("refused") or []
    missing = {row["module"]: row.get("kernel") for row in refused if row["why"] == "not_found" and row["module"] in KERNELS_OWN}
    for event in ctx.state.get("kernel_log") or []:
        word = (event.get("symbol") or "").split("_")[0]
        if event["kind"] == "unknown_symbol" and str(event.get("module") or "").replace("-", "_").startswith("nvidia") and word in SYMBOLS_OF:
            missing.setdefault(SYMBOLS_OF[word], None)
    for module, named in missing.items():
        kernel = named or (ctx.state.get("kernel") or {}).get("running") or ctx.kernel or "that runs"
        ubuntu = ctx.os.get("id") == "ubuntu" and kernel == ctx.kernel and not ctx.plan
        yield Hit("%s@%s" % (module, kernel), "Kernel %s has no module %s, which the driver needs%s." % (
            kernel, module, "; linux-modules-extra-%s brings it" % kernel if ubuntu else ""),
            do=(step("install_exact", "linux-modules-extra-%s" % kernel),) if ubuntu else ())


def _not_found(ctx: Context) -> t.Iterator[t.Tuple[str, str]]:
    """(module, kernel) where modprobe or modinfo looked for a module of the driver's and found none."""
    refused = (ctx.state.get("modules") or {}).get("refused") or []
    rows = [(row["module"], row.get("kernel")) for row in refused if row.get("why") == "not_found" and row.get("module") in DRIVERS_OWN]
    rows += [("nvidia", kernel) for kernel in (ctx.state.get("build") or {}).get("module_not_found") or []]
    rows = [row for row in rows if row[0] == "nvidia"] or rows
    running = (ctx.state.get("kernel") or {}).get("running")
    if not ctx.container:
        yield from dict.fromkeys((module, kernel or running or ctx.kernel or "that runs") for module, kernel in rows)


def _locked(ctx: Context) -> t.Optional[str]:
    """The stack's kernel, where the node has a kernel of its own."""
    return ctx.kernel if not ctx.container and (ctx.stack.get("kernel") or {}).get("release") else None


def _absent(ctx: Context) -> bool:
    """Whether the node's kernels are known, and the stack's is none of them."""
    entries = (ctx.state.get("boot") or {}).get("entries") or []
    there = {row["release"] for row in ctx.kernels if row.get("image")}
    return bool(there) and ctx.kernel not in there | {entry["kernel"] for entry in entries} | {(ctx.state.get("kernel") or {}).get("running")}


def _bring(ctx: Context) -> t.Tuple[Row, ...]:
    """The steps that bring the stack's kernel, and its headers where modules are built; a plan has its own."""
    if ctx.plan or not ctx.kernel:
        return ()
    system = ctx.os.get("id")
    builds = ctx.driver.get("module") == "dkms" or bool(ctx.state.get("dkms"))
    names = [image_package(ctx.kernel, system), headers_package(ctx.kernel, system) if builds else None]
    return (*(step("install_exact", name) for name in names if name), step("set_default_kernel", ctx.kernel), step("reboot_once"))


def running_kernel_not_locked(ctx: Context) -> t.Iterator[Hit]:
    """The node runs the stack's kernel."""
    running = (ctx.state.get("kernel") or {}).get("running")
    if _locked(ctx) and running and running != _locked(ctx):
        absent = _absent(ctx)
        unseen = not ctx.kernels and not (ctx.state.get("boot") or {}).get("entries") and ctx.next_kernel != _locked(ctx)
        yield Hit("%s, locked: %s" % (running, _locked(ctx)), "The node runs kernel %s, the stack names %s%s." % (
            running, _locked(ctx), ", which is not installed" if absent else ""), do=_bring(ctx) if absent or unseen else ())


def next_boot_kernel_not_locked(ctx: Context) -> t.Iterator[Hit]:
    """The next boot starts the stack's kernel."""
    default = ctx.next_kernel
    if _locked(ctx) and default and default != _locked(ctx):
        yield Hit("%s, locked: %s" % (default, _locked(ctx)), "The next boot starts kernel %s, the stack names %s." % (
            default, _locked(ctx)), do=_bring(ctx) if _absent(ctx) else (step("set_default_kernel", _locked(ctx)),))


def unlocked_kernel_installed(ctx: Context) -> t.Iterator[Hit]:
    """No kernel is installed that would be chosen before the stack's.

    A newer one counts unless the boot loader is known to start the stack's; older ones are what a node falls back to.
    """
    locked = _locked(ctx)
    if not locked or ctx.next_kernel == locked:
        return
    entries = (ctx.state.get("boot") or {}).get("entries") or []
    kernels = [row["release"] for row in ctx.kernels if row.get("image") is not False] or [row["kernel"] for row in entries if row["kernel"]]
    # DKMS builds for a kernel that has come; where the build failed, the next boot into it lacks the module.
    failed = {row["kernel"] for row in ctx.state.get("dkms_failures") or [] if row.get("kernel") and row.get("reason") == "build_failed"} - {locked}
    like_rpm = installed_kernels.rpm(ctx.state)
    newest = installed_kernels.newest_first([*dict.fromkeys([*kernels, *sorted(failed)]), locked], like_rpm=like_rpm)
    for release in newest[:newest.index(locked)]:
        do = (step("remove", "%s %s" % ("kernel" if like_rpm else "linux-image/headers", release)),) if release in failed else ()
        yield Hit(release, "Kernel %s is installed, which is newer than the stack's %s%s." % (
            release, locked, "; DKMS could not build for it" if release in failed else ""), do=do)


def meta_package_not_held(ctx: Context) -> t.Iterator[Hit]:
    """No metapackage may bring another kernel: those that are installed are held.

    With a plan the closure has them, and hold_incomplete tells.
    """
    locked = _locked(ctx)
    if not locked or (ctx.stack.get("expect") or {}).get("hold") is False or "kernel" in (ctx.plan.get("components") or {}):
        return
    held = (ctx.state.get("package_manager") or {}).get("holds") or []
    # A list without marks says nothing of holds; apt-mark's list does.
    listed_all = "apt_holds" not in (ctx.state.get("not_recorded") or ["apt_holds"])
    metas = {name: row for name, row in ctx.packages.items() if knowledge.kernel_metapackage(ctx.facts, name)}
    loose = [name for name, row in metas.items() if name not in held and (row.get("hold") is False or row.get("hold") is None and listed_all)]
    if not loose:
        return
    # One of another series brings a kernel that nobody locked the moment it is let go: it may as well be removed.
    foreign = [name for name in loose if _series(metas[name].get("version")) not in (None, _series(locked))]
    own = [name for name in loose if name not in foreign]
    do = ([step("hold", " ".join(own))] if own else []) + ([step("remove_or_hold", ", ".join(foreign))] if foreign else [])
    yield Hit(listed(loose), "%s: not held, so the next upgrade brings a newer kernel than %s, and makes it the default." % (
        listed(loose), locked), KERNEL_SOURCE, do=tuple(do))


def _series(version: t.Optional[str]) -> t.Optional[str]:
    """The upstream series of a kernel's or a metapackage's version: 6.8.0-40.40~22.04.3 -> 6.8."""
    found = re.match(r"(?:\d+:)?(\d+\.\d+)", version or "")
    return found.group(1) if found else None


def reboot_required(ctx: Context) -> t.Iterator[Hit]:
    """A locked kernel that is ready to boot is running, and nothing of the stack waits for a reboot."""
    if (ctx.state.get("controller") or {}).get("local_reboot_refused"):
        yield Hit("connection is local", "The node is the machine that Ansible runs on, so Ansible refused to reboot it; what waits for the reboot is not in "
                  "use yet.", do=(step("manual", "reboot by hand, then run again"),))
        return
    running = (ctx.state.get("kernel") or {}).get("running")
    entries = (ctx.state.get("boot") or {}).get("entries") or []
    ready = ctx.installed_kernel and ctx.installed_kernel.get("initramfs") is not False or (
        not ctx.kernels and any(entry["kernel"] == ctx.kernel for entry in entries))
    if _locked(ctx) and running and running != _locked(ctx) and ready:
        yield Hit("%s -> %s" % (running, _locked(ctx)), "Kernel %s is installed and waits for a reboot from %s." % (
            _locked(ctx), running), do=() if ctx.plan else (step("reboot_once"),))
        return
    marks = ctx.state.get("reboot_marks")
    names = [name for name in marks or [] if ASKS_FOR_A_REBOOT.match(name)]
    if marks is not None and not ctx.container and (names or not marks):
        yield Hit("/run/reboot-required", "The package manager asks for a reboot%s." % (", because of " + listed(names) if names else ""),
                  do=() if ctx.plan else (step("reboot_once"),))


def grubenv_not_writable(ctx: Context) -> t.Iterator[Hit]:
    """A trial boot can be undone by a power cycle."""
    boot = ctx.state.get("boot") or {}
    running = (ctx.state.get("kernel") or {}).get("running")
    refused = boot.get("env_refused")
    if refused and not ctx.container:
        yield Hit("/boot/grub/grubenv", "GRUB cannot write its environment (%s), so a saved or one-time entry cannot be relied on." % refused)
    elif _locked(ctx) and running != _locked(ctx) and boot.get("loader") in ("grub", None) and boot.get("env_writable") is False:
        yield Hit("/boot/grub/grubenv", "GRUB cannot write its environment, so after a trial of kernel %s a power cycle would "
                  "not return to %s." % (_locked(ctx), running))


def trial_boot_failed(ctx: Context) -> t.Iterator[Hit]:
    """The stack's kernel came up when it was booted on trial. Where it runs after all, the failure is history."""
    trial = ctx.state.get("trial") or {}
    running = (ctx.state.get("kernel") or {}).get("running")
    if trial.get("outcome") != "failed" or trial.get("kernel") != _locked(ctx) or running == _locked(ctx):
        return
    yield Hit("%s, failed %d times" % (_locked(ctx), trial["attempts"]), "Kernel %s was booted on trial and %s. The node returned to %s." % (
        _locked(ctx), trial.get("reason") or "failed", running or trial.get("from") or "its default"),
        do=(step("manual", "find out why kernel %s does not come up; a trial of the same files is repeated only when it is asked for" % _locked(ctx)),))


def boot_space_low(ctx: Context) -> t.Iterator[Hit]:
    """Every file system has room for what is still to be installed, by rough numbers; site counts the exact ones."""
    space = ctx.state.get("space") or {}
    told = (ctx.state.get("build") or {}).get("no_space") or []
    for row in told:
        yield Hit(row["path"], "%s has no room%s: %s." % (
            row["path"], ", %s is needed" % row["needs"] if row["needs"] else "",
            "the package manager refused to begin" if row["why"] == "refused" else "what was being written is cut off"),
            context=row["why"], do=(step("manual", "free space on %s" % row["path"]),))
    if told or not ctx.packages_known and not _absent(ctx):
        return
    missing = {name for name, entry in ctx.planned("drift") if entry.get("why") == "package_missing"}
    # The free space of every folder is known, also of one that is no file system of its own; that has the same number.
    usr = "/usr" if space.get("/usr") not in (None, space.get("/")) else "/"
    if not ctx.plan and _locked(ctx) and _absent(ctx):
        missing.add("kernel")
    needs = {"/boot": KERNEL_ON_BOOT if "kernel" in missing else 0, usr: 0}
    if "cuda" in missing and (ctx.stack.get("cuda") or {}).get("profile") == "toolkit":
        needs[usr] += TOOLKIT_ON_USR
    if "driver" in missing:
        needs[usr] += DRIVER_ON_USR
    for path, need in needs.items():
        free = space.get(path)
        if free is not None and free < need:
            yield Hit(path, "%s has %d MiB free; %s still needs about %d MiB there." % (
                path, free // MIB, listed(missing & {"kernel", "cuda", "driver"}), need // MIB))


RULES = (kernel_module_missing, running_kernel_not_locked, next_boot_kernel_not_locked, unlocked_kernel_installed, meta_package_not_held,
         reboot_required, grubenv_not_writable, trial_boot_failed, boot_space_low)
