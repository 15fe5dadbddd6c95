# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the distribution, the GPUs, and the evidence."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge

from .context import Context, Hit

# The verdict rests on these probes; another one that fails is only missing from the report.
ESSENTIAL_PROBES = ("os_release", "dpkg_list", "dkms_status", "kernel_files", "modinfo", "pci_devices", "uname_r")


# Words that people say where a GPU belongs, and that name no board.
SYSTEM_WORDS = {"any", "all", "unspecified", "nvidia", "geforce", "rtx", "nvswitch", "nvlink", "nvlink5", "hgx", "dgx", "data", "center", "centre",
                "datacenter", "datacentre", "gpu", "gpus", "system", "systems", "node", "nodes", "board", "boards", "consumer"}

# Without these nothing can be planned; the state has nothing at all where one gave no value.
ACTING_PROBES = {"os_release": "os", "dpkg_list": "packages", "pci_devices": "gpus"}


def _name(system: t.Mapping[str, t.Any]) -> str:
    return " ".join(str(system[key]) for key in ("id", "release", "arch") if system.get(key))


def os_unknown(ctx: Context) -> t.Iterator[Hit]:
    """The distribution release has a row; site must serve it, where it is a node's."""
    node = bool((ctx.state.get("os") or {}).get("id"))
    system = ctx.node_os if ctx.node_os.get("id") else ctx.os
    if ctx.purpose != "install" or not system.get("id") or not (system.get("release") or node):
        return
    if not (knowledge.served if node else knowledge.distribution)(ctx.facts, system):
        served = ", ".join("%(id)s %(release)s" % row for row in ctx.facts["distributions"]["distributions"] if not node or row.get("served"))
        name = "%s %s" % (system["id"], system.get("release") or "without a release")
        yield Hit(name, "No facts are known about %s; known: %s." % (name, served))


def os_differs(ctx: Context) -> t.Iterator[Hit]:
    """The node runs what the stack was written for."""
    wanted = ctx.stack.get("os") or {}
    differing = [key for key in ("id", "release", "arch")
                 if wanted.get(key) and ctx.node_os.get(key) and not knowledge.same_release(wanted[key], ctx.node_os[key])]
    if differing:
        yield Hit("%s, stack: %s" % (_name(ctx.node_os), _name(wanted)),
                  "The node runs %s, but the stack is for %s." % (_name(ctx.node_os), _name(wanted)))


def _names_no_board(name: str) -> bool:
    words = set(re.findall(r"[a-z0-9:]+", name.lower()))
    return bool(words) and words <= SYSTEM_WORDS


def gpu_unknown(ctx: Context) -> t.Iterator[Hit]:
    """Every NVIDIA GPU has a row."""
    known = {name for name, row in ctx.gpus}
    for name in ctx.gpu_names:
        if name not in known and not _names_no_board(name):
            # A name that somebody wrote down is no board in a node.
            yield Hit(name, "Nothing is known about the NVIDIA GPU %s; which driver it needs cannot be guessed." % name,
                      context="default" if ":" in name else "named")


def probe_failed(ctx: Context) -> t.Iterator[Hit]:
    """Everything that the verdict rests on could be read."""
    reasons: t.Dict[str, t.List[str]] = {}
    for row in ctx.state.get("unknown") or []:
        if row.get("probe") in ESSENTIAL_PROBES:
            reasons.setdefault(row["probe"], []).append(str(row.get("reason", "")).rstrip("."))
    # Looking at a node, everything that nobody could read is a hole in the answer.
    if ctx.purpose == "audit":
        for probe in ctx.state.get("unreadable") or []:
            reasons.setdefault(probe, [str(row.get("reason", "")).rstrip(".") for row in ctx.state["unknown"] if row.get("probe") == probe])
        # dkms_status_unusable says it, and what DKMS complained about.
        if (ctx.state.get("dkms_status") or {}).get("unusable"):
            reasons.pop("dkms_status", None)
    for probe, told in reasons.items():
        yield Hit(probe, "%s could not be read: %s." % (probe, "; ".join(told)),
                  context="acting" if ctx.purpose == "install" and _forbids_acting(ctx, probe) else "default")


def _forbids_acting(ctx: Context, probe: str) -> bool:
    """Whether a probe gave nothing at all that a plan needs (a line that was not understood leaves the rest)."""
    value = ctx.state.get(ACTING_PROBES.get(probe, ""))
    if probe == "os_release":
        return not (value or {}).get("id")
    if probe == "pci_devices" and ctx.container and not ctx.state.get("gpu_devices"):
        return False
    return probe in ACTING_PROBES and value is None


RULES = (os_unknown, os_differs, gpu_unknown, probe_failed)
