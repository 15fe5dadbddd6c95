# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about kernels: headers, modules, the boot default, and the space that a kernel needs."""
from __future__ import annotations

import typing as t

from ..actions import step
from .context import INSTALLED, Context, Hit, listed

MIB = 1024 * 1024
# What an installation still takes, in bytes, by file system. Measured on Debian 13: the CUDA toolkit and its
# dependencies unpack to 4.5 GiB, the driver to 0.6 GiB beside its build; a kernel with its initramfs takes 50 to 200 MiB.
KERNEL_ON_BOOT = 256 * MIB
TOOLKIT_ON_USR = 6 * 1024 * MIB
DRIVER_ON_USR = 1024 * MIB


def kernel_module_missing(ctx: Context) -> t.Iterator[Hit]:
    """The locked kernel has the driver's module, once the package that brings its source is installed."""
    files = (ctx.state.get("modules") or {}).get("files")
    module = (ctx.package_set.get("dkms") or {}).get("module")
    carriers = [request["name"] for request in ctx.package_set.get("requests") or [] if request["name"].endswith("-dkms")]
    installed = any((ctx.packages.get(name) or {}).get("status") in INSTALLED for name in carriers)
    if files is None or not module or not ctx.installed_kernel or not installed:
        return
    rows = [row for row in ctx.state.get("dkms") or [] if row.get("module") == module and row.get("version") == ctx.driver["version"]]
    # What DKMS itself calls unfinished is told by the DKMS rules.
    unfinished = rows and not any(row.get("kernel") == ctx.kernel and row["state"] == "installed" for row in rows)
    if not unfinished and not any(row.get("kernel") == ctx.kernel and row.get("name") == module for row in files):
        yield Hit("%s@%s" % (module, ctx.kernel), "The driver is installed, but kernel %s has no module %s below /lib/modules." % (
            ctx.kernel, module))


def _locked(ctx: Context) -> t.Optional[str]:
    """The stack's kernel, where the node has a kernel of its own."""
    return None if ctx.container else (ctx.stack.get("kernel") or {}).get("release")


def running_kernel_not_locked(ctx: Context) -> t.Iterator[Hit]:
    """The node runs the stack's kernel."""
    running = (ctx.state.get("kernel") or {}).get("running")
    if _locked(ctx) and running and running != _locked(ctx):
        yield Hit("%s, locked: %s" % (running, _locked(ctx)), "The node runs kernel %s, the stack names %s." % (running, _locked(ctx)))


def next_boot_kernel_not_locked(ctx: Context) -> t.Iterator[Hit]:
    """The next boot starts the stack's kernel."""
    default = ctx.next_kernel
    if _locked(ctx) and default and default != _locked(ctx):
        yield Hit("%s, locked: %s" % (default, _locked(ctx)), "The next boot starts kernel %s, the stack names %s." % (
            default, _locked(ctx)), do=(step("set_default_kernel", _locked(ctx)),))


def reboot_required(ctx: Context) -> t.Iterator[Hit]:
    """A locked kernel that is ready to boot is running."""
    running = (ctx.state.get("kernel") or {}).get("running")
    ready = ctx.installed_kernel and ctx.installed_kernel.get("initramfs")
    if _locked(ctx) and running and running != _locked(ctx) and ready:
        yield Hit("%s -> %s" % (running, _locked(ctx)), "Kernel %s is installed and waits for a reboot from %s." % (
            _locked(ctx), running))


def grubenv_not_writable(ctx: Context) -> t.Iterator[Hit]:
    """A trial boot can be undone by a power cycle."""
    boot = ctx.state.get("boot") or {}
    running = (ctx.state.get("kernel") or {}).get("running")
    if _locked(ctx) and running != _locked(ctx) and boot.get("loader") == "grub" and boot.get("env_writable") is False:
        yield Hit("/boot/grub/grubenv", "GRUB cannot write its environment, so after a trial of kernel %s a power cycle would "
                  "not return to %s." % (_locked(ctx), running))


def boot_space_low(ctx: Context) -> t.Iterator[Hit]:
    """Every file system has room for what is still to be installed, by rough numbers; site counts the exact ones."""
    space = ctx.state.get("space") or {}
    if not ctx.packages_known:
        return
    missing = {name for name, entry in ctx.planned("drift") if entry.get("why") == "package_missing"}
    # The free space of every folder is known, also of one that is no file system of its own; that has the same number.
    usr = "/usr" if space.get("/usr") not in (None, space.get("/")) else "/"
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


RULES = (kernel_module_missing, running_kernel_not_locked, next_boot_kernel_not_locked, reboot_required,
         grubenv_not_writable, boot_space_low)
