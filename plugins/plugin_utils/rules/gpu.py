# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the GPUs as they run: lost ones, counts, queries that failed, platforms that the driver does not serve."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_nvidia_query import address
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from . import driver_found as found
from .context import Context, Hit

# Xid 79: the GPU has fallen off the bus (NVIDIA's catalogue of Xid errors).
FALLEN_XID = "79"
# With it the driver says what a GPU needs to recover: "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)".
RECOVERY_XID = "154"
# Events of the kernel's log in which the driver refuses a GPU.
REFUSALS = ("requires_open", "requires_proprietary", "legacy_gpu", "gpu_not_supported")
REASONS = {"gpu_lost": "GPU is lost", "requires_reset": "GPU requires reset", "unknown_error": "Unknown Error"}
OF_THE_BUS = "the PCI bus has"
XID_SOURCE = "https://docs.nvidia.com/deploy/xid-errors/"


def _name(bus_id: t.Optional[str], index: t.Optional[int], uuid: t.Optional[str] = None) -> str:
    """A GPU as its report names it: the bus id as printed, else the index."""
    return bus_id or ("GPU %d" % index if index is not None else uuid or "GPU")


def _lost(ctx: Context) -> t.Dict[str, t.Tuple[str, str]]:
    """{address or name: (name, what is said)} of the GPUs that no longer answer, each once."""
    told: t.List[t.Tuple[t.Optional[str], t.Optional[int], t.Optional[str], str]] = []
    for row in found.smi(ctx).get("unreachable") or []:
        told.append((row["bus_id"], row["index"], None, REASONS.get(row["reason"], str(row["reason"]))))
    for row in ctx.state.get("gpu_query") or []:
        if row.get("state") == "lost":
            told.append((row["bus_id"], row["index"], row["uuid"], next(iter(row["faults"].values()))))
    for row in found.smi(ctx).get("gpus") or []:
        if row.get("fault") == "GPU is lost":
            told.append((row["bus_id"], row["index"], row["uuid"], row["fault"]))
    for event in found.events(ctx, "fallen_off_bus", "xid"):
        if event["kind"] == "fallen_off_bus" or event.get("xid") == FALLEN_XID:
            told.append((event["gpu"], None, None, str(event["text"])))
    told += [(event["gpu"], None, None, str(event["text"])) for event, action in _recovery(ctx) if not action.startswith("Drain")]
    for row in ctx.state.get("gpus") or []:
        if row.get("fallen"):
            told.append((row["address"], None, None, "its configuration space reads as ff"))
    lost: t.Dict[str, t.Tuple[str, str]] = {}
    for bus_id, index, uuid, why in told:
        name = _name(bus_id, index, uuid)
        lost.setdefault(_key(bus_id) or name, (name, why))
    return lost


def _recovery(ctx: Context) -> t.List[t.Tuple[t.Dict[str, t.Any], str]]:
    """(event, action) of the GPUs that need something to recover, by what the driver said last of each."""
    last = {_key(event["gpu"]): event for event in found.events(ctx, "xid") if event.get("xid") == RECOVERY_XID}
    actions = [(event, re.search(r" to 0x[0-9a-f]{1,8} \(([^()]{1,60})\)", str(event.get("what") or ""))) for event in last.values()]
    return [(event, action.group(1)) for event, action in actions if action and action.group(1) != "None"]


def _key(bus_id: t.Optional[str]) -> t.Optional[str]:
    """A bus id to compare by: the kernel's log leaves the function out."""
    return re.sub(r"\.[0-9a-f]$", "", address(bus_id)) if bus_id else None


def gpu_lost(ctx: Context) -> t.Iterator[Hit]:
    """Every GPU answers."""
    for name, why in _lost(ctx).values():
        yield Hit(name, "GPU %s does not answer: %s." % (name, why.rstrip(".")), XID_SOURCE,
                  do=(step("manual", "hardware: GPU %s: reseat it, check its power, reset or replace it; look for Xid 79 in the kernel's log" % name),))


def gpu_query_error(ctx: Context) -> t.Iterator[Hit]:
    """Every GPU answers every question."""
    lost = _lost(ctx)
    for row in ctx.state.get("gpu_query") or []:
        name = _name(row["bus_id"], row["index"], row["uuid"])
        if row.get("state") == "suspect" and (_key(row["bus_id"]) or name) not in lost:
            what = ", ".join("%s: %s" % (column, word) for column, word in row["faults"].items())
            yield Hit(name, "GPU %s answers with errors (%s); watch it, its kernel log may tell more." % (name, what))
    queried = {_key(row["bus_id"]) for row in ctx.state.get("gpu_query") or [] if row.get("state") != "healthy"}
    for row in found.smi(ctx).get("gpus") or []:
        name = _name(row["bus_id"], row["index"], row["uuid"])
        if row.get("fault") == "ERR!" and (_key(row["bus_id"]) or name) not in lost and _key(row["bus_id"]) not in queried - {None}:
            yield Hit(name, "nvidia-smi shows ERR! for GPU %s instead of values." % name)
    for event, action in _recovery(ctx):
        if action.startswith("Drain") and _key(event["gpu"]) not in lost:
            yield Hit(event["gpu"], "The driver asks that GPU %s be drained: %s." % (event["gpu"], str(event["text"]).rstrip(".")))
    for bus_id in found.smi(ctx).get("inforom") or []:
        yield Hit(bus_id, "The infoROM of GPU %s is corrupted." % bus_id)
    yield from _not_initialised(ctx, lost)


def _not_initialised(ctx: Context, lost: t.Mapping[str, t.Any]) -> t.Iterator[Hit]:
    """GPUs that the driver tried and could not start, where the log has no better reason."""
    explained = {_key(event.get("gpu")) for event in found.events(ctx, "requires_open", "gpu_not_supported")}
    seen: t.Set[str] = set()
    # The open module calls a GPU that it cannot read one without a GSP.
    unread = [event for event in found.events(ctx, "requires_proprietary")
              if (knowledge.gpu(ctx.facts, str(event["id"])) or {}).get("flavour") in ("open", "either")]
    for event in [*found.events(ctx, "rm_init_failed"), *unread]:
        key = _key(event.get("gpu"))
        if key and key not in explained | seen | set(lost):
            seen.add(key)
            yield Hit(str(event["gpu"]), "The driver could not initialise GPU %s: %s." % (event["gpu"], str(event["text"]).rstrip(".")),
                      context="not_initialised")


def _expected(ctx: Context) -> t.Tuple[t.Optional[int], str]:
    """How many GPUs there should be, and who says so."""
    wanted = (ctx.stack.get("expect") or {}).get("gpus")
    if wanted is not None:
        return int(wanted), "the stack expects"
    devices = knowledge.usable_gpus(ctx.state)
    return (len(devices), OF_THE_BUS) if devices and not ctx.container else (None, "")


def _refused(ctx: Context) -> t.Set[t.Optional[str]]:
    """The GPUs of the bus that the driver refuses, as other rules tell: none of them is missing."""
    branches = {str(event["branch"]) for event in found.events(ctx, "legacy_gpu")}
    legacy = {name for name, row in ctx.gpus if row["last_branch"] in branches}
    devices = {_key(row["address"]) for row in ctx.state.get("gpus") or [] if row["id"] in legacy}
    return devices | {_key(event.get("gpu")) for event in found.events(ctx, *REFUSALS) if event.get("gpu")}


def gpu_count_below_expected(ctx: Context) -> t.Iterator[Hit]:
    """As many GPUs work as there should be; lost ones are told one by one."""
    expected, whose = _expected(ctx)
    counts = [len(rows) for rows in (ctx.state.get("gpu_query"), ctx.state.get("gpus") if expected and not ctx.container else None) if rows]
    if found.smi(ctx).get("listed"):
        counts.append(int(found.smi(ctx)["listed"]))
    if ctx.state.get("gpus") == [] and expected and not ctx.container:
        counts.append(0)
    if found.failure(ctx) == "no_devices":
        counts.append(0)
        absent = ctx.state.get("gpus") == [] or ctx.container and ctx.state.get("gpu_devices") is False
        if expected is None and not absent and not _lost(ctx) and not found.events(ctx, *REFUSALS, "no_gpu"):
            yield Hit("0 GPUs", "nvidia-smi finds no GPU, and nothing recorded tells why.", context="none")
    told = len(set(_lost(ctx)) | _refused(ctx)) if whose == OF_THE_BUS else len(_lost(ctx))
    if expected is not None and counts and min(counts) < expected and expected - min(counts) > told:
        yield Hit("%d of %d" % (min(counts), expected), "%d GPUs are there, %s %d." % (min(counts), whose, expected),
                  context="none" if not min(counts) else "bus" if whose == OF_THE_BUS else "default",
                  do=(step("manual", "find the missing GPUs: seating, power, firmware, the kernel's log"),))


def query_field_unsupported(ctx: Context) -> t.Iterator[Hit]:
    """nvidia-smi knows the fields that it was asked for."""
    for field in found.smi(ctx).get("invalid_fields") or []:
        yield Hit(field, "This nvidia-smi does not know the field %s; its other fields can still be asked for." % field)


def platform_not_supported(ctx: Context) -> t.Iterator[Hit]:
    """The Linux driver serves this platform and this GPU."""
    platform = found.foreign_platform(ctx)
    if platform:
        text = {"WSL": "Under WSL the driver is Windows' own: none may be installed in Linux, and versions of nvidia-smi, NVML and driver differ by design.",
                "Jetson": "On Jetson the driver comes with the board's own system image (L4T), not from packages of the data-centre driver."}
        yield Hit(platform, text[platform], context="asked" if ctx.driver else "elsewhere")
    # The driver says it again at each attempt.
    for event in {event["gpu"]: event for event in found.events(ctx, "gpu_not_supported")}.values():
        row, version = knowledge.gpu(ctx.facts, str(event["id"])), event.get("version") or found.running(ctx)
        known = " (%s)" % row["name"] if row else ""
        yield Hit("%s %s" % (event["gpu"], event["id"]), "The loaded driver%s does not serve GPU %s, %s%s: it is too new or too old for it, or a vGPU "
                  "that needs its guest driver." % (" %s" % version if version else "", event["gpu"], event["id"], known))


RULES: t.Tuple[t.Callable[[Context], t.Iterator[Hit]], ...] = (
    gpu_lost, gpu_query_error, gpu_count_below_expected, query_field_unsupported, platform_not_supported)
