# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about other drivers that hold the GPUs, and about what keeps them away."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_module_config import cmdline_blacklist
from ansible_collections.lockstep.gpu.plugins.plugin_utils import actions

from .context import Context, Hit, Row, listed

# NVIDIA's manual on drivers that hold its devices.
SOURCE = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
UNATTENDED = "https://github.com/mvo5/unattended-upgrades"
NOUVEAU = "nouveau"
# The kernel's other drivers for NVIDIA's GPUs: those in Rust that follow nouveau, and the old frame buffers.
KERNELS_OWN = ("nova_core", "nova_drm", "nvidiafb", "rivafb", "rivatv")
SPEAKS_AS = {"NovaCore": "nova_core", "nova-core": "nova_core", "nova_core": "nova_core"}
COMPONENTS = ("driver", "cuda", "nccl", "fabric", "dcgm", "container_toolkit")


def _applies(ctx: Context) -> bool:
    """Whether NVIDIA's driver should have the GPUs: the stack has it, or nothing else is wanted; and there may be GPUs."""
    asked = [key for key in ctx.stack if key in COMPONENTS]
    there = ctx.state.get("gpus") != [] or bool(ctx.state.get("gpu_drivers"))
    return not ctx.container and there and (bool(asked) or not ctx.stack.get("ofed"))


def _loaded(ctx: Context) -> t.Mapping[str, t.Any]:
    return (ctx.state.get("modules") or {}).get("list") or {}


def _bound(ctx: Context) -> t.Dict[str, t.List[str]]:
    """{driver: addresses} of the GPUs that another driver than NVIDIA's has."""
    found: t.Dict[str, t.List[str]] = {}
    for address, driver in (ctx.state.get("gpu_drivers") or {}).items():
        if driver and driver != "nvidia":
            found.setdefault(SPEAKS_AS.get(driver, driver.replace("-", "_") if driver != "vfio-pci" else driver), []).append(address)
    return found


def _speaking(ctx: Context) -> t.Set[str]:
    """The drivers that the kernel's log shows at work on a GPU; what is loaded now says more, where it is known."""
    if (ctx.state.get("modules") or {}).get("list") is not None or ctx.state.get("gpu_drivers"):
        return set()
    return {SPEAKS_AS.get(row["driver"], row["driver"]) for row in ctx.state.get("kernel_log") or [] if row["kind"] == "bound"}


def _forbidden(ctx: Context, module: str) -> t.Optional[bool]:
    """Whether modprobe may not load a module by itself; None when neither its configuration nor the command line is known."""
    config = ctx.state.get("modprobe")
    words = (ctx.state.get("kernel") or {}).get("cmdline")
    if module in cmdline_blacklist(words):
        return True
    return None if config is None else module in config["blacklist"] or module in config["disabled"]


def _in_initramfs(ctx: Context, module: str) -> t.Optional[bool]:
    content = ctx.state.get("initramfs")
    return None if content is None else any(row["name"] == module for row in content["modules"])


def _away(ctx: Context, module: str) -> t.Tuple[Row, ...]:
    """The steps that take a module's GPUs from it at the next boot."""
    blacklist = () if _forbidden(ctx, module) else (actions.step("blacklist", module),)
    rebuild = (actions.step("rebuild_initramfs", ctx.kernel),) if blacklist or _in_initramfs(ctx, module) is not False else ()
    return (*blacklist, *rebuild, actions.step("reboot_once"))


def _evidence(ctx: Context, module: str) -> t.Optional[str]:
    """How a module shows that it is in use: one phrase; None when nothing shows it."""
    addresses = _bound(ctx).get(module)
    if addresses:
        return "drives %s" % listed(addresses)
    if module in _loaded(ctx):
        return "is loaded"
    return "drives a GPU, by the kernel's log" if module in _speaking(ctx) else None


def _uncalled(ctx: Context) -> str:
    """What NVIDIA's driver says of devices that it was not given."""
    counts = [row["count"] for row in ctx.state.get("kernel_log") or [] if row["kind"] == "probe_not_called"]
    return "; NVIDIA's driver was not called for %s devices" % counts[-1] if counts else ""


def nouveau_in_use(ctx: Context) -> t.Iterator[Hit]:
    """The kernel's nouveau does not have the GPUs."""
    how = _evidence(ctx, NOUVEAU) if _applies(ctx) else None
    if how:
        kept = " It is in the initramfs." if _in_initramfs(ctx, NOUVEAU) else ""
        yield Hit(NOUVEAU, "nouveau %s%s.%s" % (how, _uncalled(ctx), kept), SOURCE, do=_away(ctx, NOUVEAU))


def other_gpu_driver_in_use(ctx: Context) -> t.Iterator[Hit]:
    """No other driver has the GPUs."""
    if not _applies(ctx):
        return
    found = False
    for module in KERNELS_OWN:
        how = _evidence(ctx, module)
        if how:
            found = True
            kept = " It is in the initramfs." if _in_initramfs(ctx, module) else ""
            yield Hit(module, "%s %s%s.%s" % (module, how, _uncalled(ctx), kept), SOURCE, do=_away(ctx, module))
    for driver, addresses in _bound(ctx).items():
        if driver not in (*KERNELS_OWN, NOUVEAU):
            found = True
            yield Hit("%s %s" % (driver, listed(addresses)), "%s has %s, so NVIDIA's driver cannot." % (driver, listed(addresses)), SOURCE,
                      do=(actions.step("manual", "release %s from %s, or take this node out of the stack" % (listed(addresses), driver)),))
    if _uncalled(ctx) and not found and not _evidence(ctx, NOUVEAU):
        yield Hit("unknown driver", "Another driver has the GPUs%s." % _uncalled(ctx), SOURCE,
                  do=(actions.step("gather_facts", "lsmod, lspci -k"),))


def blacklist_incomplete(ctx: Context) -> t.Iterator[Hit]:
    """What keeps other drivers, or upgrades, away covers everything that it is meant for."""
    yield from _ignored_files(ctx)
    yield from _waiting(ctx)
    yield from _unattended(ctx)


def _ignored_files(ctx: Context) -> t.Iterator[Hit]:
    """Files that modprobe does not read, for their name."""
    for path, names in ((ctx.state.get("modprobe") or {}).get("ignored") or {}).items():
        open_ones = [name for name in names if name in (NOUVEAU, *KERNELS_OWN) and not _forbidden(ctx, name)]
        if open_ones and _applies(ctx):
            yield Hit(path, "%s blacklists %s, but modprobe reads only files whose name ends in .conf." % (path, listed(open_ones)), SOURCE,
                      do=(actions.step("blacklist", listed(open_ones)), actions.step("rebuild_initramfs", ctx.kernel)))


def _waiting(ctx: Context) -> t.Iterator[Hit]:
    """Modules in the initramfs that would take the GPUs at the next boot, where nouveau is kept away."""
    if not _applies(ctx) or not _forbidden(ctx, NOUVEAU):
        return
    for module in KERNELS_OWN[:2]:
        if _in_initramfs(ctx, module) and not _forbidden(ctx, module) and not _evidence(ctx, module):
            yield Hit(module, "nouveau is blacklisted, but %s is not, and it is in the initramfs." % module, SOURCE,
                      do=(actions.step("blacklist", module), actions.step("rebuild_initramfs", ctx.kernel)))


def _unattended(ctx: Context) -> t.Iterator[Hit]:
    """Patterns of unattended-upgrades that are meant for the driver's packages and leave some of them open."""
    manager = ctx.state.get("package_manager") or {}
    unattended = manager.get("unattended") or {}
    patterns = [pattern for pattern in unattended.get("blacklist") or [] if "nvidia" in pattern.lower()]
    moved = {row["name"] for run in manager.get("history") or [] for key in ("upgrade", "install") for row in run.get(key) or []}
    held = set(manager.get("holds") or []) | {name for name, row in ctx.packages.items() if row.get("hold")}
    names = {name for name in {*ctx.packages, *moved} if ctx.family(name).get("product") == "driver"} - held
    missed = sorted(name for name in names if not any(_matches(pattern, name) for pattern in unattended.get("blacklist") or []))
    readable = all(_simple(pattern) for pattern in unattended.get("blacklist") or [])
    if patterns and missed and readable and unattended.get("enabled") is not False:
        shown = ", ".join("'%s'" % pattern for pattern in patterns)
        yield Hit("pattern %s does not match at the start of %s" % (shown, listed(missed)),
                  "unattended-upgrades may move %s: its blacklist (%s) is matched at the start of a name, and they are not held." % (
                      listed(missed), shown), UNATTENDED)


def _matches(pattern: str, name: str) -> bool:
    """As unattended-upgrades matches; a pattern that is no regular expression matches nothing there either."""
    try:
        return _simple(pattern) and re.match(pattern, name) is not None
    except re.error:
        return False


def _simple(pattern: str) -> bool:
    """Whether a node's pattern can be tried without a care for time."""
    return len(pattern) <= 200 and len(re.findall(r"[*+?{]", pattern)) <= 4 and not re.search(r"\)[*+?{]", pattern)


RULES = (nouveau_in_use, other_gpu_driver_in_use, blacklist_incomplete)
