# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node shows of flavour and GPU: the loaded module's flavour, its file's licence, and what the driver itself says of a GPU."""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from . import driver_found as found
from .context import Context, Hit, Row, listed

# modinfo's license of the two flavours (the modules' MODULE_LICENSE).
LICENSES = {"NVIDIA": "proprietary", "Dual MIT/GPL": "open"}
DRIVER_SOURCE = "https://github.com/NVIDIA/open-gpu-kernel-modules"


def flavour(ctx: Context) -> t.Tuple[t.Optional[str], t.Optional[str]]:
    """(flavour, version) of the module that is loaded; where none is, of the file that would be."""
    loaded = ctx.loaded_module
    file = None if ctx.container else found.on_disk(ctx, found.running_kernel(ctx)) or _any_file(ctx)
    version = found.running(ctx) or (str(file["version"]) if file else None)
    if loaded.get("flavour"):
        return str(loaded["flavour"]), version
    if file and (not found.running(ctx) or file["version"] == version):
        return LICENSES.get(str(file.get("license"))), version
    return None, version


def _any_file(ctx: Context) -> t.Optional[Row]:
    """A file of the module where nobody recorded which kernel runs, and all kernels have the same."""
    files = found.main_files(ctx)
    same = len({(row["version"], row.get("license")) for row in files}) == 1
    return files[0] if same and found.running_kernel(ctx) is None else None


def _switch(ctx: Context, to: str, version: t.Optional[str]) -> t.Tuple[Row, ...]:
    want = found.claimed(ctx) if (found.claimed(ctx) or "").count(".") else None
    more = {"version": want or version} if want or version else {}
    return (step("switch_flavour", to, **more), step("reboot_once"))


def mismatches(ctx: Context) -> t.Iterator[Hit]:
    """The module of the node is not the flavour that a GPU needs, or that is asked for."""
    have, version = flavour(ctx)
    said = {str(event["id"]): str(event["gpu"]) for event in found.events(ctx, "requires_open")}
    if said and have is None:
        # Only the proprietary module says this.
        have = "proprietary"
    needing = {name: (row["name"], row["flavour_source"]) for name, row in ctx.gpus if row["flavour"] == "open"}
    for name, address in said.items():
        known = knowledge.gpu(ctx.facts, name)
        needing.setdefault(name, (known["name"] if known else "GPU %s" % address, DRIVER_SOURCE))
    if have == "proprietary":
        for name, (title, source) in needing.items():
            where = " at %s, as the kernel's log says" % said[name] if name in said else ""
            yield Hit("%s needs open, %s is proprietary" % (name, version or "the driver"),
                      "%s (%s)%s is driven by the open kernel module only; the node's module%s is proprietary." % (
                          title, name, where, " " + version if version else ""), source, "loaded", _switch(ctx, "open", version))
    asked = (ctx.stack.get("driver") or {}).get("flavour")
    if asked in ("open", "proprietary") and have and have != asked and not (have == "proprietary" and needing):
        yield Hit("lock %s, %s is %s" % (asked, version or "the driver", have), "The stack asks for the %s module, the node's%s is the %s one." % (
            asked, " " + version if version else "", have), context="differs", do=_switch(ctx, asked, version))


def needs_proprietary(ctx: Context) -> t.Iterator[Hit]:
    """GPUs without a GSP under the open module, by what is known of them or by what the driver says."""
    have, version = flavour(ctx)
    said = {str(event["id"]): str(event["gpu"]) for event in found.events(ctx, "requires_proprietary")}
    names = {name: row["name"] for name, row in ctx.gpus if row["flavour"] == "proprietary" and have == "open"}
    for name, address in said.items():
        row = knowledge.gpu(ctx.facts, name)
        # The open module says so of a GPU that it cannot read, too; one that has a GSP is at fault itself.
        if row is None or row["flavour"] == "proprietary":
            names.setdefault(name, row["name"] if row else "GPU %s" % address)
    for name, title in names.items():
        where = " at %s" % said[name] if name in said else ""
        yield Hit("%s needs proprietary, %s is open" % (name, version or "the driver"), "%s (%s)%s has no GSP: the open module%s does not drive it." % (
            title, name, where, " " + version if version else ""), DRIVER_SOURCE, "loaded", _switch(ctx, "proprietary", version))


def dropped(ctx: Context) -> t.Iterator[Hit]:
    """GPUs that the running driver's branch no longer drives, by what is known of them or by what the driver says."""
    for event in found.events(ctx, "legacy_gpu"):
        version = event.get("version") or found.running(ctx) or "the driver"
        ids = [name for name, row in ctx.gpus if row["last_branch"] == str(event["branch"])]
        yield Hit("%s@%s" % (event["name"], version), "%s ignores %s%s, which the %s branch is the last to drive." % (
            version if version == "the driver" else "Driver %s" % version, event["name"], " (%s)" % listed(ids) if ids else "", event["branch"]),
            DRIVER_SOURCE, "loaded",
            _take(ctx, str(event["branch"])))
    running = found.running(ctx)
    if running and not found.claimed(ctx) and not found.events(ctx, "legacy_gpu"):
        for name, row in ctx.gpus:
            if row["last_branch"] and int(knowledge.branch_of(running)) > int(row["last_branch"]):
                yield Hit("%s@%s" % (name, running), "Driver %s no longer drives %s (%s, %s); %s is the last branch that does." % (
                    running, row["name"], name, row["architecture"], row["last_branch"]), row["last_branch_source"], "loaded",
                    _take(ctx, row["last_branch"]))


def _take(ctx: Context, branch: str) -> t.Tuple[Row, ...]:
    claimed = found.claimed(ctx)
    if claimed and int(knowledge.branch_of(claimed)) <= int(branch):
        return (step("downgrade_exact", "the driver's packages, each =%s" % claimed), step("reboot_once"))
    return (step("fail_preflight", "the %s branch is the last for this GPU; change the lock to a driver of it" % branch),)
