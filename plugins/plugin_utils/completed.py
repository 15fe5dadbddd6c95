# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a stack leaves to the node: the flavour of the module, the parts of the fabric, the CUDA that DCGM was built for.

Nothing is guessed: an NVIDIA device that no row knows is refused, with the line that would have to be added.
"""
from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge, package_sets
from ansible_collections.lockstep.gpu.plugins.plugin_utils.slices import FABRIC, PlanError, fabric_version

# GPUs of this generation of NVLink and later are reached through a subnet manager and drivers of the fabric of their own.
NVLINK_WITH_SUBNET_MANAGER = 5


def flavour(stack, facts, gpus):
    """The flavour of the driver's module on a node with these GPUs (PCI ids). Raises PlanError where `auto` meets an unknown one."""
    driver = stack.get("driver")
    if not driver:
        return None
    unknown = [name for name in gpus if not knowledge.gpu(facts, name)] if driver.get("flavour") == "auto" else []
    if unknown:
        raise PlanError("stack key 'driver.flavour': auto cannot choose for %s, which compat/gpus.yml does not know; add it there"
                        " (id: \"%s\", name, architecture), or name the flavour; candidates: open, proprietary" % (", ".join(unknown), unknown[0]))
    return knowledge.flavour(facts, driver, gpus)


def whole(stack, facts, gpus, nvswitches):
    """The stack with what the node decides: fabric.parts (no fabric where it has none), dcgm.cuda. Raises PlanError."""
    found = dict(stack)
    if stack.get("fabric"):
        parts = fabric_parts(stack, facts, gpus, nvswitches)
        found["fabric"] = dict(stack["fabric"], parts=parts) if parts and fabric_version(stack) else None
    if stack.get("dcgm") and package_sets.major_of(stack["dcgm"]["version"]) != "3":
        found["dcgm"] = dict(stack["dcgm"], cuda=stack["dcgm"].get("cuda") or dcgm_cuda(stack, facts))
    if stack.get("nccl") and package_sets.source_of("nccl", stack) == "nvidia" and not stack["nccl"].get("cuda"):
        builds = [one for row in facts["nccl"]["cuda_builds"] if row["version"] == stack["nccl"]["version"] for one in row["cuda"]]
        raise PlanError("stack key 'nccl.cuda': is missing; NVIDIA builds a version of NCCL for several releases of CUDA%s" % (
            "; candidates: " + ", ".join(builds) if builds else ""))
    return found


def fabric_parts(stack, facts, gpus, nvswitches):
    """Which parts of the fabric this node gets: of manager, nscq, imex, nvsdm and nvlsm."""
    said = {name: stack["fabric"].get(name, "auto") for name in FABRIC}
    board = next((row for row in facts["fabric"]["boards"] if set(row["ids"]) & set(gpus)), None)
    wants = of_board(board, nvswitches)
    parts = [name for name in FABRIC if said[name] not in ("auto", "none") or said[name] == "auto" and name in wants]
    return [*parts, "nvsdm"] if "nvsdm" in wants and parts else parts


def of_board(board, nvswitches):
    """What a node's NVLink fabric needs, by fabric.yml's row of its boards and its NVSwitches."""
    if board is None:
        # Switches of boards that no row has: what every generation with NVSwitches needs.
        return {"manager", "nscq"} if nvswitches else set()
    if board["runs_on"] != "node":
        return {"imex"}
    # One board out of a baseboard, as a virtual machine may have it, shows no switch.
    if nvswitches is not None and not nvswitches and board["nvlink"] < NVLINK_WITH_SUBNET_MANAGER:
        return set()
    return {"manager", "nscq", "imex", "nvsdm", "nvlsm"} if board["nvlink"] >= NVLINK_WITH_SUBNET_MANAGER else {"manager", "nscq"}


def dcgm_cuda(stack, facts):
    """The CUDA major release of the driver, for which DCGM has packages of its own. Raises PlanError where nothing tells it."""
    driver = (stack.get("driver") or {}).get("version")
    known = knowledge.cuda_of_driver(facts, driver) if driver else None
    toolkit = ((stack.get("cuda") or {}).get("active") or "").split(".", maxsplit=1)[0]
    major = str(known[0]) if known else toolkit
    if not major:
        raise PlanError("stack key 'dcgm.cuda': is missing, and no driver or CUDA of the stack tells it; candidates: 12, 13")
    return major
