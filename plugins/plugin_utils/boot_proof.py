# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What cuda_probe has to show of a kernel before that is booted."""
from __future__ import annotations

import typing as t

Row = t.Dict[str, t.Any]

# Modules that every OFED of a vendor has.
OFED_MODULES = ("ib_core", "mlx5_core", "mlx5_ib")


def subjects(stack: Row, need: Row) -> Row:
    """What cuda_probe has to show of a kernel before it is booted: {subjects, modules, expected}; need: of plan.wanted()."""
    modules = need["modules"]
    # Without a driver nothing keeps others off the GPUs, and nothing has to.
    found: Row = {"subjects": ["initramfs", "initramfs_content"] if stack.get("driver") else ["initramfs"], "modules": [], "expected": {}}
    if modules and need["kernel"]:
        found["subjects"] += ["modprobe", "modules"]
        found["modules"] = list(modules["files"])
        found["expected"] = dict({"module:" + name: modules["version"] for name in modules["files"]}, modprobe=modules["files"][0])
    if vendors_ofed(stack):
        found["subjects"] = list(dict.fromkeys([*found["subjects"], "modules"]))
        found["modules"] += OFED_MODULES
    return found


def vendors_ofed(stack: Row) -> bool:
    """Whether RDMA's modules come from NVIDIA, not with the kernel."""
    return (stack.get("ofed") or {}).get("provider") in ("mlnx", "doca")
