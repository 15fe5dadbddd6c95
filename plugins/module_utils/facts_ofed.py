# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA: OFED's modules, symbols of the peer memory interface, ports."""

from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils import capture_ofed, facts_nccl, parse_ofed
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Function, Recorded, Special

# name: (level, how to take it live); docs/probes.md describes each.
PROBES = {
    "modinfo_rdma": ("local", Special(capture_ofed.modinfo_rdma, "modinfo mlx5_core mlx5_ib ib_core")),
    "ofed_module_files": ("local", Function(capture_ofed.module_files, "find /lib/modules/*/{updates,extra,weak-updates} -name 'mlx5_*.ko*' and others")),
    "kallsyms": ("deep", Function(capture_ofed.kallsyms, "grep ib_register_peer_memory_client /proc/kallsyms")),
    "openibd_run": ("bundle", Recorded("/etc/init.d/openibd restart")),
}


def section(reader):
    """The part of the state that these probes fill.

    rdma: {modules: rows of parse_modinfo_rdma, files: rows of parse_module_files, symbols: {symbol: module} of the peer memory
    interface, {} where the kernel has none, passed_over: modules that openibd calls the kernel's own, absent: modules that it does
    not find, peer_modules: rows about peer memory modules, also from modinfo of the driver's, depmod: rows of parse_depmod, from
    every transcript}; each None where nobody asked.
    """
    openibd = reader.told("openibd_run", lambda text, rc: parse_ofed.parse_openibd(text)) or {}
    return {"rdma": {
        "modules": reader.told("modinfo_rdma", lambda text, rc: parse_ofed.parse_modinfo_rdma(text)),
        "files": _searched(reader, "ofed_module_files", parse_ofed.parse_module_files, []),
        "symbols": _searched(reader, "kallsyms", parse_ofed.parse_kallsyms, {}),
        "peer_modules": _peer_modules(reader),
        "passed_over": openibd.get("passed_over"),
        "absent": openibd.get("absent"),
        "depmod": _depmod(reader),
    }}


def _searched(reader, name, parser, nothing):
    """The value of a search, which ends with 1 where it finds nothing."""
    return nothing if facts_nccl.found_nothing(reader.seen(name)) else reader.parsed(name, parser, partial=True)


def _peer_modules(reader):
    rows = None
    for name in ("modinfo_rdma", "modinfo"):
        seen = reader.seen(name)
        if seen is not None and seen.out:
            rows = (rows or []) + [row for row in parse_ofed.parse_modinfo_rdma(seen.out).value if parse_ofed.is_peer_module(row["module"])]
    return rows


def _depmod(reader):
    told = [reader.told(name, lambda text, rc: parse_ofed.parse_depmod(text)) for name in ("modprobe_run", "dkms_run", "apt_run", "dnf_run")]
    return None if all(events is None for events in told) else [event for events in told for event in events or []]
