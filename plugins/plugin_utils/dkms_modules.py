# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which of DKMS's modules a stack means: packagers give one driver many names."""
from __future__ import annotations

import re
import typing as t

Row = t.Dict[str, t.Any]

# nvidia (NVIDIA, Ubuntu), nvidia-srv (Ubuntu's -server packages), nvidia-current, nvidia-current-open, nvidia-tesla-535,
# nvidia-legacy-390xx (Debian), nvidia-open (NVIDIA's RPMs). Other products begin alike.
DRIVER = re.compile(r"nvidia(?!-(?:fs|peermem|p2p)(?:$|-))(?:-.+)?")
# The module that every other one of an OFED release is built against, and the rest of the release.
OFED_CORE = re.compile(r"mlnx-of[ea]d?[-_]kernel")
OFED = re.compile(r"mlnx-.*|iser|isert|srp|knem|xpmem|rshim|mlnx_.*|fwctl|virtiofs")
# What a claim calls a module of its own, and what DKMS calls it.
NAMES = {"gdrdrv": "gdrdrv", "nvidia_fs": "nvidia-fs", "mft": "kernel-mft-dkms"}
# The packages that bring the driver's source for DKMS, and what each calls its module.
CARRIERS = tuple((re.compile(pattern), name) for pattern, name in (
    (r"nvidia-dkms-\d+-server(-open)?", "nvidia-srv"), (r"nvidia-dkms(-\d+(-open)?)?|kmod-nvidia-(open-|latest-)?dkms|dkms-nvidia", "nvidia"),
    (r"nvidia-kernel-dkms", "nvidia-current"), (r"nvidia-open-kernel-dkms", "nvidia-current-open"),
    (r"(nvidia-(?:tesla|legacy)-\w+)-kernel-dkms", "\\1")))
BUILT = ("built", "installed", "installed_weak")


class Module(t.NamedTuple):
    """A module that has to be there: its name for DKMS, and the version; None where the stack names none."""

    name: str
    version: t.Optional[str]


def is_driver(name: t.Optional[str]) -> bool:
    """Whether DKMS's module of this name is NVIDIA's driver. The name says nothing about the flavour, but for nvidia-open."""
    return bool(name) and DRIVER.fullmatch(name) is not None


def carried_by(package: str) -> t.Optional[str]:
    """The name that DKMS has for the module of a package with the driver's source; None for any other package."""
    for pattern, name in CARRIERS:
        found = pattern.fullmatch(package)
        if found:
            return found.expand(name)
    return None


def flavour_of(name: str) -> t.Optional[str]:
    """The flavour that a name tells: NVIDIA's nvidia-open and Debian's -open modules hold only that one; else None."""
    return "open" if is_driver(name) and name.endswith("-open") else None


def fits(have: t.Optional[str], wanted: t.Optional[str]) -> bool:
    """Whether a version is, or belongs to, what a claim says: 2.4.4-1 is a 2.4.4, and 535.183.01 is of branch 535."""
    if not wanted or not have:
        return not wanted
    return have == wanted or have.startswith(tuple(wanted + mark for mark in ".-+~"))


def wanted(stack: t.Mapping[str, t.Any], driver: t.Mapping[str, t.Any], known: t.Optional[str], rows: t.Sequence[Row]) -> t.List[Module]:
    """The modules of a stack, as far as DKMS's list or a package set (known: the driver's module by it) names them.

    driver: the stack's driver in its long form. A module that is only claimed, and that DKMS does not list, is there too
    for the claims of NAMES; the driver is not, since it may come ready built.
    """
    found = []
    version = driver.get("version")
    if version and driver.get("module") == "dkms":
        found += [Module(name, each) for name, each in _driver(version, known, rows)]
    for key, claimed in (stack.get("modules") or {}).items():
        name = NAMES.get(key, key.replace("_", "-"))
        found += [Module(name, each) for each in _versions(name, claimed, rows) or [claimed]]
    if stack.get("ofed") and stack["ofed"].get("provider") != "inbox":
        for name in dict.fromkeys(row["module"] for row in rows if OFED_CORE.fullmatch(row["module"])):
            found += [Module(name, each) for each in _versions(name, None, rows)[-1:]]
    return found


def _driver(version: str, known: t.Optional[str], rows: t.Sequence[Row]) -> t.List[t.Tuple[str, str]]:
    """(name, version) of the driver's module; of several that fit, the one that is built for most kernels."""
    if known:
        return [(known, version)]
    counts: t.Dict[t.Tuple[str, str], int] = {}
    for row in rows:
        if is_driver(row["module"]) and fits(row["version"], version):
            key = (row["module"], row["version"])
            counts[key] = counts.get(key, 0) + (row["state"] in BUILT)
    return [max(counts, key=lambda key: counts[key])] if counts else []


def _versions(name: str, claimed: t.Optional[str], rows: t.Sequence[Row]) -> t.List[str]:
    """The versions of a module in the list that fit the claim."""
    return list(dict.fromkeys(row["version"] for row in rows if row["module"] == name and fits(row["version"], claimed)))


def claimed(stack: t.Mapping[str, t.Any], modules: t.Sequence[Module], row: t.Mapping[str, t.Any]) -> bool:
    """Whether a row of the list belongs to the stack: one of its modules, or a part of its OFED release."""
    own = any(row["module"] == module.name and fits(row["version"], module.version) for module in modules)
    return own or bool(stack.get("ofed")) and stack["ofed"].get("provider") != "inbox" and OFED.fullmatch(row["module"]) is not None


def files_of(state: t.Mapping[str, t.Any], module: Module, kernel: t.Optional[str]) -> t.List[Row]:
    """The module's files of a kernel, as modinfo describes them: nvidia.ko whatever DKMS's name for the driver is."""
    names = {module.name, module.name.replace("-", "_")} | ({"nvidia"} if is_driver(module.name) else set())
    rows = (state.get("modules") or {}).get("files") or []
    return [row for row in rows if row.get("name") in names and kernel_of(row) == kernel]


def kernel_of(row: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """The kernel that a module file was built for."""
    return row.get("kernel") or (row.get("vermagic") or "").split(" ")[0] or None
