# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a state says anything about: silence of the rules is good news only where something was seen."""
from __future__ import annotations

import typing as t

from . import knowledge

Row = t.Dict[str, t.Any]

# What the state says about itself, and what every machine has.
NO_EVIDENCE = ("schema", "gathered", "unknown", "unreadable", "not_recorded", "heard", "believed", "os", "container", "space", "kernel.cmdline",
               "package_manager.dkms_guard", "package_manager.kind")
# An empty list of these is an answer, too.
LISTS = ("dkms", "packages", "gpus", "gpu_query", "libraries", "modules.list", "modules.in_use", "package_manager.locks")
# What package managers and Ansible said may be about anything.
TOLD = ("package_manager.transaction", "package_manager.run", "package_manager.module_result", "package_manager.problems", "package_manager.policy",
        "package_manager.madison", "package_manager.show", "package_manager.history", "package_manager.available", "package_manager.modules",
        "package_manager.kmods", "package_manager.versionlocks", "package_manager.locks", "package_manager.absent", "package_manager.pins",
        "package_manager.sources", "package_manager.config", "package_manager.unattended", "controller", "lock_file")
MODULES = ("dkms", "dkms_failures", "dkms_logs", "dkms_orphans", "modules", "kernel_log", "signing", "initramfs", "modprobe", "build")
# Where a state tells about a component, beside the packages of its family.
PLACES: t.Dict[str, t.Tuple[str, ...]] = {
    "kernel": ("kernel.running", "kernel.installed", "boot.default_kernel", "boot.entries", "initramfs", "build", "dkms", "new_kernel_default", "reboot_marks"),
    "driver": (*MODULES, "gpu_query", "smi", "gpu_processes", "libraries", "library_files", "runfile", "delivery", "cuda_run", "alternatives", "gpu_drivers",
               "nccl.log"),
    "cuda": ("cuda", "cuda_run", "smi", "alternatives", "nccl.log"),
    "ofed": (*MODULES, "ofed", "rdma"),
    "nccl": ("nccl", "libraries", "library_files", "loader_cache", "interfaces"),
    "fabric": ("fabric", "services", "nvswitches"),
    "container_toolkit": ("containers",),
    "dcgm": ("dcgm",),
    "modules": (*MODULES, "rdma"),
    "expect": ("gpus", "gpu_query", "gpu_list", "smi", "nvswitches", "nics", "secure_boot", "signing", "package_manager.holds"),
}


def any_of(state: Row) -> bool:
    """Whether the state says anything about its node."""
    return any(_says(state, value, key) for key, value in state.items())


def unseen(stack: Row, state: Row, facts: knowledge.Facts) -> t.List[str]:
    """The components of a stack or claim that nothing in the state says anything about, of those that can be seen at all."""
    if any(_at(state, path) for path in TOLD):
        return []
    families = {(knowledge.family(facts, name) or {}).get("product") for name in state.get("packages") or {}}
    # A whole list of packages tells of what is not there, too.
    whole = bool(state.get("packages")) and "dpkg" in state["packages"] or bool((state.get("package_manager") or {}).get("packages_complete"))
    return [name for name, paths in PLACES.items()
            if stack.get(name) and not whole and name not in families and not any(_at(state, path) for path in paths)]


def seen(stack: Row, state: Row, facts: knowledge.Facts) -> bool:
    """Whether the state says anything about at least one component, or none can be seen at all."""
    asked = [name for name in PLACES if stack.get(name)]
    return not asked or len(unseen(stack, state, facts)) < len(asked)


def _at(state: Row, path: str) -> bool:
    """Whether there is something at a path of the state."""
    value: t.Any = state
    for part in path.split("."):
        value = value.get(part) if isinstance(value, t.Mapping) else None
    return _says(state, value, path)


def _says(state: Row, value: t.Any, path: str) -> bool:
    if path in NO_EVIDENCE or path in (state.get("believed") or []) and path != "boot.default_kernel":
        return False
    if isinstance(value, t.Mapping):
        return path in LISTS or any(_says(state, inner, "%s.%s" % (path, key)) for key, inner in value.items())
    if isinstance(value, (list, tuple)):
        return bool(value) or path in LISTS
    return value not in (None, "", False) or path == "secure_boot" and value is False
