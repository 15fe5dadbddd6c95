# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which services belong to a stack's packages, and whether a node can run them.

A fabric manager serves the driver of exactly its own version, and ends at once beside another one or beside none:
https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html
"""
from __future__ import annotations

import re
import typing as t

Row = t.Dict[str, t.Any]

# (component, unit, names of the packages that bring it, whether it needs the driver of the stack's own version).
UNITS = (
    ("fabric", "nvidia-fabricmanager", r"nvidia-fabric-?manager(-\d+)?", True),
    ("fabric", "nvidia-imex", r"nvidia-imex(-\d+)?", True),
    ("dcgm", "nvidia-dcgm", r"datacenter-gpu-manager.*", False),
)


def of(stack: Row, slices: t.Sequence[Row], components: t.Mapping[str, Row], state: Row) -> t.Dict[str, t.List[Row]]:
    """{component: [{name, enable, state, stop, due, there, why}]} of the units that the stack's packages bring.

    slices, components: the plan's. enable: False where somebody has masked it. state: started, restarted, or None where the node cannot
    run it (why then says the reason). stop: whether it may run while its packages change. due: whether it is known not to be enabled. there: whether
    the node has the unit now; in check mode nothing can be asked about one that it has not.
    """
    found: t.Dict[str, t.List[Row]] = {component: [] for component, _unit, _packages, _own in UNITS}
    known = (state.get("host") or {}).get("unit_files") or {}
    for component, unit, packages, own_version in UNITS:
        asked = [request["name"] for part in slices if part["name"] == component for request in part["requests"]]
        if not any(re.fullmatch(packages, name) for name in asked):
            continue
        masked = known.get(unit) == "masked"
        why = "somebody has masked it" if masked else _cannot_run(stack, state, own_version)
        changes = bool(components[component]["changes"])
        found[component].append({
            "name": unit, "enable": not masked, "state": None if why else "restarted" if changes else "started", "why": why,
            "stop": changes and not state.get("container") and known.get(unit) in ("enabled", "disabled"),
            "due": known.get(unit) in ("disabled", "absent"), "there": known.get(unit) not in (None, "absent")})
    return found


def _cannot_run(stack: Row, state: Row, own_version: bool) -> t.Optional[str]:
    """Why a service has nothing to talk to on this node as it is; None when it has."""
    if state.get("container"):
        return "this is a container, which has no driver of its own"
    loaded = (state.get("modules") or {}).get("loaded")
    if not loaded:
        return "the kernel has no NVIDIA driver loaded"
    wanted = (stack.get("driver") or {}).get("version") or (stack.get("fabric") or {}).get("manager")
    if own_version and loaded["version"] != wanted:
        return "the kernel has driver %s loaded, not %s" % (loaded["version"], wanted)
    return None


def remarks(services: t.Mapping[str, t.Sequence[Row]]) -> t.List[str]:
    """A sentence for each service that is not started."""
    return ["%s is %snot started: %s." % (row["name"], "enabled and " if row["enable"] else "", row["why"])
            for rows in services.values() for row in rows if row["why"]]


def steps(services: t.Mapping[str, t.Sequence[Row]]) -> t.List[Row]:
    """The steps of the plan for the services that are known not to be enabled."""
    return [{"action": "start_service", "target": row["name"]} for rows in services.values() for row in rows if row["due"]]
