# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the distribution, the GPUs, and the evidence."""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge

from .context import Context, Hit

# The verdict rests on these probes; another one that fails is only missing from the report.
ESSENTIAL_PROBES = ("os_release", "dpkg_list", "dkms_status", "kernel_files", "modinfo", "pci_devices", "uname_r")


def _name(system: t.Mapping[str, t.Any]) -> str:
    return " ".join(str(system[key]) for key in ("id", "release", "arch") if system.get(key))


def os_unknown(ctx: Context) -> t.Iterator[Hit]:
    """The distribution release has a row."""
    system = ctx.node_os or ctx.os
    if system and not knowledge.distribution(ctx.facts, system):
        served = ", ".join("%(id)s %(release)s" % row for row in ctx.facts["distributions"]["distributions"])
        name = "%s %s" % (system.get("id"), system.get("release"))
        yield Hit(name, "No facts are known about %s; known: %s." % (name, served))


def os_differs(ctx: Context) -> t.Iterator[Hit]:
    """The node runs what the stack was written for."""
    wanted = ctx.stack.get("os") or {}
    differing = [key for key in ("id", "release", "arch")
                 if wanted.get(key) and ctx.node_os.get(key) and str(wanted[key]) != str(ctx.node_os[key])]
    if differing:
        yield Hit("%s, stack: %s" % (_name(ctx.node_os), _name(wanted)),
                  "The node runs %s, but the stack is for %s." % (_name(ctx.node_os), _name(wanted)))


def gpu_unknown(ctx: Context) -> t.Iterator[Hit]:
    """Every NVIDIA GPU has a row."""
    known = {name for name, row in ctx.gpus}
    for name in ctx.gpu_names:
        if name not in known:
            yield Hit(name, "Nothing is known about the NVIDIA GPU %s; which driver it needs cannot be guessed." % name)


def probe_failed(ctx: Context) -> t.Iterator[Hit]:
    """Everything that the verdict rests on could be read."""
    for row in ctx.state.get("unknown") or []:
        if row.get("probe") in ESSENTIAL_PROBES:
            yield Hit(row["probe"], "%s could not be read: %s." % (row["probe"], str(row.get("reason", "")).rstrip(".")))


RULES = (os_unknown, os_differs, gpu_unknown, probe_failed)
