# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about what the next boot starts: loader entries, defaults, initramfs, modules of the kernel that comes next."""
from __future__ import annotations

import re
import typing as t

from .. import installed_kernels, next_boot
from ..actions import step
from .context import Context, Hit, Row, listed
from .dnf import kernels_without_module

GRUB_MANUAL = "https://www.gnu.org/software/grub/manual/grub/html_node/Simple-configuration.html"
BLS_ORDER = "https://github.com/stackhpc/stackhpc-kayobe-config/pull/878"
DNF_CONF = "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/9/html/managing_monitoring_and_updating_the_kernel/"
# dnf's own default, and what leaves room for one more kernel beside the running and the locked one.
DNF_LIMIT = 3
DRIVER_MODULE = re.compile(r"nvidia(-current.*|-tesla.*|-open|-legacy.*)?")
# Prebuilt modules of Ubuntu: linux-modules-nvidia-535-server-open-5.15.0-91-generic.
_UBUNTU_MODULES = re.compile(r"linux-modules-nvidia-\d+(?:-server)?(?:-open)?-(?P<kernel>\d[\w.+~-]*)")
# Prebuilt modules of RPM Fusion: kmod-nvidia-6.5.6-300.fc39.x86_64.
_FUSION_MODULES = re.compile(r"kmod-nvidia-(?:\d+xx-)?(?P<kernel>\d[\w.+~]*-[\w.+~]+\.(?:x86_64|aarch64))")


def _boot(ctx: Context) -> Row:
    return {} if ctx.container else ctx.state.get("boot") or {}


def _locked(ctx: Context) -> t.Optional[str]:
    return ctx.kernel if not ctx.container and (ctx.stack.get("kernel") or {}).get("release") else None


def grub_default_not_saved(ctx: Context) -> t.Iterator[Hit]:
    """An entry that somebody saved is the one that GRUB boots."""
    boot = _boot(ctx)
    saved, setting, menu = boot.get("saved_entry"), boot.get("grub_default"), boot.get("menu_default")
    effective = menu if menu is not None else setting
    if not saved or effective is None or "saved" in effective:
        return
    meant = next_boot.named(ctx.state, saved)
    if meant is not None and meant == ctx.next_kernel:
        return
    kernel = _locked(ctx) or meant
    why = "GRUB_DEFAULT is %s" % setting if setting != "saved" else "grub.cfg was made before GRUB_DEFAULT=saved (it boots %s)" % menu
    yield Hit("GRUB_DEFAULT=%s, saved_entry=%s" % (setting, saved), "The entry %s is saved, but %s, so GRUB does not look at it." % (saved, why),
              GRUB_MANUAL, do=(step("set_default_kernel", kernel),) if kernel else ())


def _own_machine(ctx: Context) -> t.Optional[str]:
    return _boot(ctx).get("machine_id")


def foreign_boot_entries(ctx: Context) -> t.Iterator[Hit]:
    """Every boot entry belongs to this machine: what updates kernels sees no others, but the boot loader does."""
    own = _own_machine(ctx)
    entries = [entry for entry in _boot(ctx).get("entries") or [] if entry.get("machine_id")]
    foreign = [entry for entry in entries if entry["machine_id"] != own] if own else []
    if not foreign:
        return
    kernels = [entry["kernel"] for entry in foreign if not entry["rescue"] and entry["kernel"]]
    names = [entry["id"] for entry in foreign]
    steps = tuple(step("rewrite_file", "/boot/loader/entries/%s.conf" % name, machine_id=own) for name in names if kernels)
    yield Hit(listed(names), "Boot entries of another machine id than %s: %s. Updates leave them alone, and the boot loader may list them first." % (
        own, listed(names)), BLS_ORDER, "default" if kernels else "rescue", steps)


def boot_entry_without_package(ctx: Context) -> t.Iterator[Hit]:
    """Every boot entry starts a kernel that is installed."""
    entries = [entry for entry in _boot(ctx).get("entries") or [] if entry.get("kernel") and not entry["rescue"]]
    rows = {row["release"]: row for row in ctx.kernels}
    if not entries or not any(row.get("package") for row in rows.values()):
        return
    first = entries[0]["kernel"]
    for kernel in dict.fromkeys(entry["kernel"] for entry in entries):
        row = rows.get(kernel)
        if row and row.get("package"):
            continue
        names = listed(entry["id"] or entry["title"] or kernel for entry in entries if entry["kernel"] == kernel)
        bootable = bool(row and row.get("image"))
        taken = kernel == ctx.next_kernel or kernel == first
        yield Hit("%s (%s)" % (kernel, names), "The boot entry %s starts kernel %s, which no installed package has%s." % (
            names, kernel, "" if bootable else "; GRUB takes it next, or whenever the saved entry is not found" if taken else ""),
            context="next" if taken and not bootable else "default",
            do=(step("set_default_kernel", _locked(ctx)),) if taken and _locked(ctx) not in (None, kernel) else ())


def initramfs_missing(ctx: Context) -> t.Iterator[Hit]:
    """The locked kernel, and the one that boots next, have their initramfs."""
    for row in ctx.kernels if not ctx.container else ():
        if row.get("image") and row.get("initramfs") is False and row["release"] in (_locked(ctx), ctx.next_kernel):
            yield Hit(row["release"], "Kernel %s is installed, but has no initramfs, so it cannot be booted." % row["release"],
                      do=() if ctx.plan else (step("rebuild_initramfs", row["release"]),))


def _relative(path: t.Optional[str]) -> str:
    """A module's path below its kernel's folder, without the compression."""
    return re.sub(r"\.ko(\.\w+)?$", "", re.sub(r"^/?(usr/)?lib/modules/[^/]+/", "", path or ""))


def initramfs_stale(ctx: Context) -> t.Iterator[Hit]:
    """What the initramfs holds is what the configuration and the disk have: it loads its own copies, before the disk is there."""
    held = ctx.state.get("initramfs") or {}
    if ctx.container or not held.get("modules") and not held.get("firmware"):
        return
    kernels = {row["kernel"] for row in held["modules"] if row["kernel"]}
    image = held.get("image") or "the initramfs%s" % "".join(" of %s" % kernel for kernel in kernels if len(kernels) == 1)
    names = {row["name"] for row in held["modules"]}
    configs = {path.rsplit("/", 1)[-1] for path in held.get("configs") or []}
    blacklist = (ctx.state.get("modprobe") or {}).get("blacklist") or {}
    # Where nothing tells which file a line is from, any file in the initramfs may be it.
    told = [(name, "%s holds %s, which is blacklisted, and not the file that says so (%s)" % (
        image, name, listed(path or "modprobe.d" for path in blacklist[name])))
        for name in sorted(names & set(blacklist)) if not any(path.rsplit("/", 1)[-1] in configs if path else configs for path in blacklist[name])]
    for row in held["modules"]:
        lying = _on_disk(ctx, row)
        if lying and _relative(row["path"]) not in lying:
            told.append((row["name"], "%s holds %s, but the module of that kernel on the disk is %s" % (image, row["path"], listed(lying))))
    disk = {row["version"] for row in (ctx.state.get("modules") or {}).get("files") or []
            if row.get("kernel") == ctx.kernel and row["name"].startswith("nvidia") and row["version"]} if ctx.kernel else set()
    firmware = [version for version in held.get("firmware") or [] if disk and version not in disk]
    if firmware and len(firmware) == len(held["firmware"]):
        told.append(("firmware %s" % listed(firmware), "%s holds the firmware of driver %s, but the module on the disk is %s" % (
            image, listed(firmware), listed(disk))))
    if told:
        yield Hit("%s: %s" % (image, listed({name for name, _text in told})), "%s." % "; ".join(text for _name, text in told),
                  do=() if ctx.plan else (step("rebuild_initramfs", ctx.kernel), step("reboot_once")))


def _on_disk(ctx: Context, held: Row) -> t.Set[str]:
    """Where the disk has a module of the driver that the initramfs holds, for the same kernel."""
    if not DRIVER_MODULE.fullmatch(held["name"].replace("_", "-")):
        return set()
    return {_relative(row["path"]) for row in (ctx.state.get("modules") or {}).get("files") or []
            if row.get("path") and row.get("kernel") == (held["kernel"] or ctx.kernel) and row["name"] == held["name"].replace("_", "-")}


def installonly_limit_too_low(ctx: Context) -> t.Iterator[Hit]:
    """dnf keeps enough kernels that an update does not remove the locked one."""
    config = (ctx.state.get("package_manager") or {}).get("config")
    if not config or not _locked(ctx):
        return
    limit = config.get("installonly_limit")
    effective = DNF_LIMIT if limit is None else limit
    kernels = installed_kernels.newest_first((row["release"] for row in ctx.kernels), like_rpm=True)
    running = (ctx.state.get("kernel") or {}).get("running")
    # The running kernel is never removed; else the oldest goes first.
    leaves = bool(kernels) and effective and len(kernels) >= effective and kernels[-1] == _locked(ctx) and running != _locked(ctx)
    if effective and (effective < DNF_LIMIT or leaves):
        text = "the next kernel that dnf installs removes %s" % _locked(ctx) if leaves else "dnf keeps one kernel beside the newest"
        yield Hit("installonly_limit=%d" % effective, "installonly_limit is %d with %d kernels installed: %s." % (effective, len(kernels), text),
                  DNF_CONF, "next" if leaves else "default", (step("rewrite_file", "/etc/dnf/dnf.conf", installonly_limit=DNF_LIMIT + 2),))


def _prebuilt_for(ctx: Context) -> t.Set[str]:
    """Kernels (or their beginnings) that an installed package has the driver's module for."""
    found = {match.group("kernel") for match in (pattern.fullmatch(name.partition(":")[0]) for name in ctx.packages
                                                 for pattern in (_UBUNTU_MODULES, _FUSION_MODULES)) if match}
    rows = (ctx.state.get("package_manager") or {}).get("kmods") or []
    return found | {row["kernel"] for row in rows if row.get("installed") and row.get("kernel")}


def no_kmod_for_next_kernel(ctx: Context) -> t.Iterator[Hit]:
    """Where the driver's module comes prebuilt, the kernel that boots next has one, and so has every kernel that dnf brings."""
    yield from _next_without_module(ctx)
    locked = _locked(ctx)
    for kernel, held_back in kernels_without_module(ctx) if not ctx.container else ():
        text = "dnf holds kernel %s back" if held_back else "a transaction brings kernel %s"
        yield Hit(kernel, (text + ": there is no precompiled driver module for it.") % kernel, context="held" if held_back else "coming",
                  do=() if held_back else (step("refuse_transaction"), step("dnf_versionlock", "kernel*%s" % (" at %s" % locked if locked else ""))))


def _next_without_module(ctx: Context) -> t.Iterator[Hit]:
    kernel, prebuilt = ctx.next_kernel, _prebuilt_for(ctx)
    if ctx.container or not kernel or not prebuilt:
        return
    built = any(row.get("kernel") == kernel and DRIVER_MODULE.fullmatch(row["module"]) for row in ctx.state.get("dkms") or [])
    on_disk = any(row.get("kernel") == kernel for row in (ctx.state.get("modules") or {}).get("files") or [])
    if built or on_disk or any(kernel == name or kernel.startswith(name + ".") for name in prebuilt):
        return
    locked = _locked(ctx)
    yield Hit("%s, prebuilt for %s" % (kernel, listed(prebuilt)), "The next boot starts kernel %s, but the installed driver modules are for %s." % (
        kernel, listed(prebuilt)), do=(step("set_default_kernel", locked),) if locked and locked != kernel else ())


RULES = (grub_default_not_saved, foreign_boot_entries, boot_entry_without_package, initramfs_missing, initramfs_stale,
         installonly_limit_too_low, no_kmod_for_next_kernel)
