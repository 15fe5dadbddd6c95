# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is known of a node's NVLink fabric: which versions are there, and whether a fabric manager belongs there at all."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge

from .context import Context, Row, upstream

_MANAGER = re.compile(r"nvidia-fabric-?manager(-\d+)?")
# Packages whose version is the driver's, in the order in which they are believed. Metapackages are not among them, nor what may
# be newer than the driver (nvidia-modprobe, nvidia-settings, nvidia-persistenced).
_DRIVER = tuple(re.compile(pattern) for pattern in (
    r"nvidia-(dkms|kernel-dkms|open-kernel-dkms)(-.*)?|nvidia-(tesla|legacy)-.*-?kernel-dkms|kmod-nvidia.*|nvidia-kernel-source.*",
    r"libnvidia-compute(-.*)?|libcuda1|nvidia-driver-(cuda|libs).*|nvidia-driver-cuda-libs|nvidia-compute-G\d+",
    r"nvidia-(kernel-common|utils|compute-utils|headless.*|smi)(-.*)?",
    r"nvidia-driver(-\d.*)?"))
# What follows the driver to the last digit.
COUPLED = re.compile(r"(libnvidia-nscq|libnvsdm|nvidia-imex|nvlink5)(-\d+)?")
_EXACT = re.compile(r"\d{3}\.\d{2,3}(\.\d{2})?")
# Words of systemd-detect-virt for virtual machines.
GUESTS = ("kvm", "qemu", "amazon", "vmware", "microsoft", "oracle", "xen", "google", "bhyve", "parallels", "bochs", "powervm", "zvm", "vm-other")
Versions = t.Dict[str, str]


def fabric(ctx: Context) -> Row:
    """The state's part; empty where nothing was recorded."""
    return ctx.state.get("fabric") or {}


def log(ctx: Context) -> Row:
    """How the last start of fabric manager ended; empty where no log was recorded."""
    return fabric(ctx).get("log") or {}


def unit(ctx: Context) -> Row:
    """The state of fabric manager's unit, from whichever probe has it."""
    return fabric(ctx).get("service") or (ctx.state.get("services") or {}).get("nvidia-fabricmanager") or {}


def exact(version: t.Optional[str]) -> t.Optional[str]:
    """A driver version, when it is a whole one."""
    return version if version and _EXACT.fullmatch(version) else None


def manager_packages(ctx: Context) -> Versions:
    """{name: upstream version} of the installed fabric manager packages, without development files and metapackages."""
    return {name: upstream(row.get("version")) or "" for name, row in ctx.packages.items() if _MANAGER.fullmatch(name.partition(":")[0])}


def newest(versions: t.Iterable[str]) -> t.Optional[str]:
    """The newest of some versions; a transitional package of an older branch leaves the program to the newer one."""
    return max((one for one in versions if one), key=knowledge.numbers, default=None)


def manager_version(ctx: Context) -> t.Optional[str]:
    """The version of the fabric manager on the node: the program's, the package's, else what the log last named."""
    return fabric(ctx).get("manager") or newest(manager_packages(ctx).values()) or log(ctx).get("manager")


def driver_of(versions: Versions) -> t.Optional[str]:
    """The driver's version among packages {name: version}."""
    for pattern in _DRIVER:
        found = newest(upstream(version) or "" for name, version in versions.items() if pattern.fullmatch(name.partition(":")[0]))
        if exact(found):
            return found
    return None


def driver_packages(ctx: Context) -> t.Optional[str]:
    """The version of the installed driver packages."""
    return driver_of({name: row.get("version") or "" for name, row in ctx.packages.items()})


def driver_version(ctx: Context) -> t.Optional[str]:
    """The version of the driver that fabric manager meets: the loaded one, the one it named, else the installed one."""
    return ctx.loaded_module.get("version") or log(ctx).get("driver") or driver_packages(ctx)


def guest(ctx: Context) -> t.Optional[bool]:
    """Whether the node is a virtual machine; None where that is not known."""
    word = ctx.state.get("virtualization")
    return None if word is None else word in GUESTS


def no_switch(ctx: Context) -> bool:
    """Whether it is known that no NVSwitch is visible."""
    return ctx.state.get("nvswitches") == [] and not fabric(ctx).get("switches")


def board(ctx: Context) -> t.Optional[Row]:
    """The row of the NVSwitch baseboard that this node's GPUs sit on; None when they are others, or none is known."""
    told = (fabric(ctx).get("gpus") or []) + list(ctx.state.get("gpu_query") or [])
    named = [str(row["name"]) for row in told if isinstance(row, dict) and row.get("name")]
    named += ctx.gpu_names
    for row in ctx.facts["fabric"]["boards"]:
        if set(ctx.gpu_names) & set(row["ids"]) or any(re.fullmatch(row["names"], name) for name in named):
            return row
    return None


def gpu_count(ctx: Context) -> int:
    """How many GPUs the node shows."""
    return max(len(ctx.state.get("gpus") or []), len(fabric(ctx).get("gpus") or []), len(ctx.state.get("gpu_query") or []))


def needed(ctx: Context) -> t.Optional[bool]:
    """Whether a fabric manager has to run on this node; None where what is known does not decide."""
    if ctx.state.get("nvswitches") or fabric(ctx).get("switches"):
        return True
    row = board(ctx)
    if row is None:
        # PCI devices that are no such board decide; a list of which nothing is known does not.
        return False if no_switch(ctx) and ctx.state.get("gpus") else None
    if row["runs_on"] != "node" or guest(ctx):
        return False if no_switch(ctx) and row["runs_on"] != "node" else None
    return True if gpu_count(ctx) in row["counts"] else None


def package_name(ctx: Context, driver: str) -> str:
    """What the fabric manager's package for a driver is called on this node."""
    manager = "dnf" if (ctx.state.get("package_manager") or {}).get("kind") in ("rpm", "dnf", "yum", "zypper") or ctx.os.get("id") in (
        "rhel", "rocky", "almalinux", "centos", "ol", "fedora", "amazon", "amzn", "sles", "opensuse") else "apt"
    branch = knowledge.branch_of(driver)
    for row in ctx.facts["fabric"]["packages"]:
        if row["manager"] == manager and int(row["first"]) <= int(branch) <= int(row["last"] or 9999):
            return str(row["name"]).replace("{branch}", branch)
    return "nvidia-fabricmanager"
