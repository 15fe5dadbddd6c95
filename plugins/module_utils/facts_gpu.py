# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The driver and the GPUs as they run: nvidia-smi in its forms, the kernel log, marks of a runfile."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils import capture, facts_cuda, parse_cuda, parse_dmesg, parse_gpu_marks
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_modules, parse_nvidia_query, parse_nvidia_smi
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Command, Function, Recorded

RUNFILE_MARKS = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer", "/var/log/nvidia-installer.log")
DELIVERY_MARKS = ("/run/nvidia/driver", "/run/nvidia/validations", "/etc/dgx-release", "/etc/nvidia/gridd.conf", "/usr/lib/wsl/lib/libcuda.so.1",
                  "/etc/nv_tegra_release")


def _existing(paths):
    """A capture function: those of the paths that are there, one a line."""
    return lambda root: capture.lines(capture.find(root, *paths))


# name: (level, how to take it live); docs/probes.md describes each.
PROBES = {
    "nvidia_smi": ("gpu", Command(("nvidia-smi",))),
    "nvidia_smi_version": ("gpu", Command(("nvidia-smi", "--version"))),
    "nvidia_smi_list": ("gpu", Command(("nvidia-smi", "-L"))),
    "gpu_processes": ("gpu", Command(("nvidia-smi", "--query-compute-apps=gpu_uuid,pid,process_name", "--format=csv,noheader"))),
    "runfile_marks": ("local", Function(_existing(RUNFILE_MARKS), "ls " + " ".join(RUNFILE_MARKS))),
    "delivery_marks": ("local", Function(_existing(DELIVERY_MARKS), "ls " + " ".join(DELIVERY_MARKS))),
    "rmmod_run": ("bundle", Recorded("rmmod nvidia")),
}
PROBES.update(facts_cuda.PROBES)
# Those whose first answer tells a version; --version tells most.
_SMI = ("nvidia_smi_version", "nvidia_smi", "nvidia_smi_list")
_SMI_QUERIES = ("nvidia_smi_fabric", "nvidia_smi_modes", "gpu_processes")


def section(reader):
    """The part of the state that these probes fill.

    gpu_query: rows of `nvidia-smi --query-gpu` (parse_nvidia_query). smi: what all outputs of nvidia-smi say together
    (parse_nvidia_smi.EMPTY). gpu_processes: [{pid, name}]. cuda_run: what a CUDA program said (parse_cuda). runfile: paths that
    NVIDIA's own installer leaves. delivery: paths that tell of another deliverer of the driver (GPU operator, DGX OS, vGPU, WSL,
    Jetson). modules.in_use: {module: [users]} of modules that could not be unloaded, None without any; modules.loaded, where
    nobody recorded /proc and /sys, by the kernel log.
    """
    query = reader.told("nvidia_smi_query", parse_nvidia_query.parse_nvidia_query)
    said = [reader.told(name, parse_nvidia_smi.parse_nvidia_smi) for name in _SMI]
    part = {
        "smi": _together(reader, said, query),
        "gpu_processes": reader.told("gpu_processes", parse_gpu_marks.parse_processes),
        "cuda_run": reader.told("cuda_run", parse_cuda.parse_cuda_run),
        "runfile": reader.told("runfile_marks", parse_gpu_marks.parse_runfile),
        "delivery": reader.told("delivery_marks", parse_gpu_marks.parse_delivery),
        "modules": _modules(reader),
    }
    if reader.seen("nvidia_smi_query") is not None:
        part["gpu_query"] = None if query is None and not _gone(reader) else (query or {}).get("rows", [])
    return part


def _gone(reader):
    """Whether nvidia-smi is known not to be there."""
    return reader.seen("nvidia_smi_query").absent("nvidia_smi_query")


def _together(reader, said, query):
    """One answer from several outputs; None without any. The first that tells something decides, failures are all kept."""
    parts = [part for part in [*said, query] if part is not None]
    # A field that nvidia-smi does not know, or a driver that does not answer, is the same news in every query.
    others = [seen for seen in map(reader.seen, _SMI_QUERIES) if seen is not None]
    parts += [parse_nvidia_smi.complaints(seen.out + "\n" + seen.err) for seen in others]
    if not parts:
        return None
    value = {key: next((part[key] for part in parts if part.get(key)), empty) for key, empty in parse_nvidia_smi.EMPTY.items()}
    for key in ("unreachable", "invalid_fields", "inforom"):
        value[key] = []
        for part in parts:
            value[key] += [row for row in part[key] if row not in value[key]]
    # The table's faults and the list's ids are about the same GPUs; the table tells more.
    tables = [part["gpus"] for part in said if part and part["gpus"]]
    value["gpus"] = max(tables, key=lambda rows: sum(row["bus_id"] is not None for row in rows)) if tables else []
    value["listed"] = max([len(rows) for rows in tables], default=None)
    return value


def _modules(reader):
    told = [reader.told(name, parse_modules.parse_in_use) for name in ("rmmod_run", "modprobe_run", "openibd_run")]
    part = {"in_use": {module: users for found in told for module, users in (found or {}).items()} or None}
    recorded = [reader.seen(name) for name in ("proc_driver_version", "sys_module_version")]
    log = reader.seen("dmesg")
    if log is not None and log.out and not any(recorded):
        part["loaded"] = _loaded_by_log(parse_dmesg.parse_dmesg(log.out).value)
    return part


def _loaded_by_log(events):
    """{version, flavour} of the driver that the kernel log says was loaded last and stayed; None without one."""
    loaded = None
    for event in events:
        if event["kind"] == "driver_loading":
            loaded = {"version": event["version"], "flavour": event["flavour"]}
        elif event["kind"] in ("no_gpu", "probe_not_called") or re.search(r"Unregister(?:ed|ing) (?:the )?Nvlink Core|Unloading driver", event["text"]):
            loaded = None
    return loaded
