# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which versions of the driver a node has: the loaded module, the files of the next boot, the user space, the packages."""
from __future__ import annotations

import functools
import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.dkms_modules import is_driver

from .context import Context, Row, once_a_node, upstream

Versions = t.Dict[str, str]

# Packages whose upstream version is the driver's; names of Debian, Ubuntu, NVIDIA's and Fusion's RPMs, SUSE.
KERNEL_SIDE = re.compile(
    r"nvidia-(dkms|kernel-dkms|open-kernel-dkms|kernel-source|kernel-open-dkms|dkms-open)(-.*)?|nvidia-(tesla|legacy|open)-.*kernel-dkms"
    r"|kmod-nvidia(-.*)?|akmod-nvidia(-.*)?|dkms-nvidia(-.*)?|nvidia-open-\d+(-.*)?|nvidia-(open-)?driver-G\d+.*-kmp.*|kmod-.*nvidia.*")
# The first pattern that fits a package decides: what brings NVML and libcuda comes before what uses them.
USER_SIDE = tuple(re.compile(pattern) for pattern in (
    r"libnvidia-ml\d?|libnvidia-(tesla|legacy)-.*ml1|libnvidia-compute(-.*)?|nvidia-driver-(NVML|cuda-libs)|nvidia-compute-G\d+"
    r"|xorg-x11-drv-nvidia-cuda-libs(-.*)?",
    r"libcuda1|libnvidia-.*cuda1|nvidia-driver-(cuda|libs)|xorg-x11-drv-nvidia-cuda(-\d.*)?",
    r"nvidia-smi|nvidia-(tesla|legacy)-.*smi|nvidia-utils(-.*)?|nvidia-compute-utils(-.*)?"))
# The libraries that have to be the kernel module's version, as the loader selects them.
_LIBRARIES = ("libcuda.so", "libnvidia-ml.so")
# Modules beside the main one.
_PART = re.compile(r"[-_](uvm|modeset|drm|peermem|vgpu[-_]vfio)$")
# The order in which depmod looks for a module by its default configuration.
_PLACES = ("/updates/dkms/", "/updates/", "/extra/", "/weak-updates/", "/kernel/")


@functools.lru_cache(maxsize=1 << 14)
def driver_version(text: t.Optional[str]) -> t.Optional[str]:
    """The driver's version in a package's version; None for other versions (a kernel's ABI, a distribution's counter)."""
    found = re.fullmatch(r"\d{3}\.\d{1,4}(\.\d{1,4})?", upstream(text) or "")
    return found.group() if found else None


@once_a_node
def _packages(ctx: Context, pattern: t.Pattern[str]) -> Versions:
    found = {}
    for name, row in ctx.packages.items():
        version = driver_version(row.get("version"))
        if version and pattern.fullmatch(name.partition(":")[0]):
            found[name] = version
    return found


def kernel_packages(ctx: Context) -> Versions:
    """{name: version} of the installed packages that bring the kernel module or its source."""
    return _packages(ctx, KERNEL_SIDE)


@once_a_node
def user_packages(ctx: Context) -> Versions:
    """{name: version} of the installed packages that bring the driver's libraries; empty where they have several versions.

    Debian has drivers side by side, and an alternative selects one: then only the loader knows.
    """
    group = next((group for group in (_packages(ctx, pattern) for pattern in USER_SIDE) if group), {})
    return group if len(set(group.values())) == 1 else {}


def all_user_packages(ctx: Context) -> Versions:
    """{name: version} of every installed package of the user space that has to be the module's version."""
    return {name: version for pattern in USER_SIDE for name, version in _packages(ctx, pattern).items()}


@once_a_node
def package_versions(ctx: Context) -> t.Set[str]:
    """Every version of the driver that an installed package has."""
    versions = {driver_version(row.get("version")) for row in ctx.members("driver").values()}
    return {version for version in versions if version}


def smi(ctx: Context) -> Row:
    """What nvidia-smi said; empty where it was not asked."""
    return ctx.state.get("smi") or {}


def failure(ctx: Context) -> t.Optional[str]:
    """The kind of nvidia-smi's failure."""
    return (smi(ctx).get("failure") or {}).get("kind")


def events(ctx: Context, *kinds: str) -> t.List[Row]:
    """The events of these kinds in the kernel's log."""
    return [event for event in ctx.state.get("kernel_log") or [] if event.get("kind") in kinds]


def foreign_platform(ctx: Context) -> t.Optional[str]:
    """A platform whose driver is not the Linux one: WSL, whose libraries belong to Windows' driver, or Tegra's own."""
    kernel = str((ctx.state.get("kernel") or {}).get("running") or ctx.target.get("kernel") or "")
    delivery = ctx.state.get("delivery") or []
    if "microsoft" in kernel.lower() or any("/wsl/" in path for path in delivery) or failure(ctx) == "blocked_by_os":
        return "WSL"
    if re.search(r"-tegra\b", kernel) or "/etc/nv_tegra_release" in delivery:
        return "Jetson"
    return None


def running(ctx: Context) -> t.Optional[str]:
    """The version of the loaded kernel module: as /proc has it, else as nvidia-smi got it from the driver."""
    if ctx.container:
        return None
    queried = {row["driver_version"] for row in ctx.state.get("gpu_query") or [] if row.get("driver_version")}
    version = ctx.loaded_module.get("version") or smi(ctx).get("driver") or (queried.pop() if len(queried) == 1 else None)
    return version if version else None


def selected(ctx: Context) -> t.Optional[str]:
    """The version of the driver's libraries that the loader selects, without those of a cuda-compat package; None when unknown."""
    versions = {str(row["version"]) for row in ctx.state.get("libraries") or [] if row.get("version")
                and str(row.get("soname")).startswith(_LIBRARIES) and "/compat/" not in "%s %s" % (row.get("path"), row.get("target"))}
    return versions.pop() if len(versions) == 1 else None


def user_space(ctx: Context) -> t.Optional[str]:
    """The version of the driver's libraries; NVML tells only two components of it, which a package's version completes."""
    if selected(ctx):
        return selected(ctx)
    packages = set(user_packages(ctx).values())
    package = packages.pop() if packages else None
    nvml = smi(ctx).get("nvml")
    if nvml and not (package and fits(package, nvml)):
        return str(nvml)
    return package


def fits(version: t.Optional[str], wanted: t.Optional[str]) -> bool:
    """Whether a version is, or belongs to, a wanted one that may be shorter: 535.154.05 belongs to 535.154 and to 535."""
    need = knowledge.numbers(wanted or "")
    return bool(version and need) and knowledge.numbers(version or "")[:len(need)] == need


def agree(module: t.Optional[str], user: t.Optional[str], exact: bool) -> bool:
    """Whether module and libraries are one version. exact: the libraries' version is a whole one (575.64 is not 575.64.03)."""
    return module == user or not exact and fits(module, user)


def user_is_exact(ctx: Context) -> bool:
    """Whether user_space() comes from the loader or from packages, and so is a whole version."""
    return bool(selected(ctx)) or user_space(ctx) in set(user_packages(ctx).values())


def claimed(ctx: Context) -> t.Optional[str]:
    """The version, or branch, that is asked for."""
    return ctx.driver.get("version")


def running_kernel(ctx: Context) -> t.Optional[str]:
    return None if ctx.container else (ctx.state.get("kernel") or {}).get("running")


def next_kernel(ctx: Context) -> t.Optional[str]:
    """The kernel of the next boot; the running one where the boot loader's choice is not known."""
    return ctx.next_kernel or running_kernel(ctx)


def main_files(ctx: Context) -> t.List[Row]:
    """The files of the driver's main module, of all kernels; modinfo that names no file is about the running one."""
    rows = (ctx.state.get("modules") or {}).get("files") or []
    return [row for row in rows if row.get("version") and (row.get("name") is None or is_driver(row["name"]) and not _PART.search(row["name"]))]


def on_disk(ctx: Context, kernel: t.Optional[str]) -> t.Optional[Row]:
    """The file of the driver's main module that a kernel would load; that of a file outside /lib/modules is not known."""
    rows = [row for row in main_files(ctx) if (row.get("kernel") or running_kernel(ctx)) == kernel]
    return min(rows, key=_place, default=None)


def _place(row: Row) -> int:
    path = str(row.get("path") or "")
    return next((number for number, place in enumerate(_PLACES) if place in path), len(_PLACES))


def dkms_rows(ctx: Context, kernel: t.Optional[str] = None) -> t.List[Row]:
    """What DKMS has of the driver, perhaps for one kernel only."""
    return [row for row in ctx.state.get("dkms") or [] if is_driver(row.get("module"))
            and (kernel is None or row.get("kernel") == kernel)]


def installed_module(ctx: Context, kernel: t.Optional[str]) -> t.Optional[str]:
    """The version of the module that a kernel would load, as far as the disk, DKMS or the packages tell; None when unknown."""
    file = on_disk(ctx, kernel)
    if file:
        return str(file["version"])
    for versions in ({row["version"] for row in dkms_rows(ctx, kernel) if row.get("state") == "installed"}, set(kernel_packages(ctx).values())):
        if len(versions) == 1:
            return str(versions.pop())
    return None
