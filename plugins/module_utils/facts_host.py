# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section of the machine around the GPUs: for reading; rules use what a case needs."""

from __future__ import annotations

import os

from ansible_collections.lockstep.gpu.plugins.module_utils import capture, capture_host, parse_host
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Command, Function, Special, execute

_SHOW = ("systemctl", "show", "--property=Id,LoadState,ActiveState,SubState,UnitFileState,Result",
         *(unit + ".service" for unit in capture_host.UNITS))


def _services(root, tools):
    """Where systemd does not run (a container), nothing is asked."""
    if not os.path.isdir(capture.inside(root, "/run/systemd/system")):
        raise capture.Absent(2, "", "/run/systemd/system")
    return execute(_SHOW, tools)


PROBES = {
    "virtualization": ("local", Function(capture_host.virtualization, "systemd-detect-virt (from DMI and /proc/cpuinfo)")),
    "unit_files": ("local", Function(capture_host.unit_files, "the unit files of NVIDIA's services, and what enables them")),
    "host_settings": ("local", Function(capture_host.host_settings, "memlock, huge pages, NUMA balancing, IOMMU from /proc and /sys")),
    "rdma_ports": ("local", Function(capture_host.rdma_ports, "grep -H . /sys/class/infiniband/*/ports/*/{state,rate,link_layer}")),
    "nics": ("local", Function(capture_host.nics, "lspci -Dn -d 15b3: (from /sys/bus/pci/devices), with the interfaces' names")),
    "services": ("gpu", Special(_services, " ".join(_SHOW))),
    "pci_acs": ("gpu", Function(capture_host.acs, "ACSCtl of every PCI bridge (from /sys/bus/pci/devices/*/config)")),
    "nvidia_smi_modes": ("gpu", Command(("nvidia-smi", "--query-gpu=" + ",".join(parse_host.GPU_MODES), "--format=csv,noheader"))),
}


def section(reader):
    """The part of the state that these probes tell.

    virtualization: systemd's word, "none" on bare metal. services: {unit: {load, active, sub, enabled, result}}, {} without systemd.
    host: {memlock_soft, memlock_hard, hugepages, hugepage_kib, transparent_hugepages, numa_balancing, iommus, iommu_groups; unit_files: {unit:
    enabled, disabled, static, masked or absent}; acs: {bridge: whether it redirects peer traffic}}. rdma_ports: rows {device, port, state, rate,
    link_layer}. nics: rows {address, id, class, net, ib}. gpu_modes: rows {index, ecc, ecc_uncorrected, ecc_corrected, mig, persistence, vbios}.
    gpu_list: {gpus, mig: rows {gpu, profile, device}}.
    """
    settings = reader.parsed("host_settings", parse_host.parse_host_settings) or {}
    return {
        "virtualization": reader.told("virtualization", parse_host.parse_virtualization),
        "services": reader.parsed("services", parse_host.parse_services, absent={}),
        "host": dict(settings, unit_files=reader.parsed("unit_files", parse_host.parse_unit_files),
                     acs=reader.parsed("pci_acs", parse_host.parse_acs)),
        "rdma_ports": reader.parsed("rdma_ports", parse_host.parse_rdma_ports, absent=[]),
        "nics": reader.parsed("nics", parse_host.parse_nics),
        "gpu_modes": reader.told("nvidia_smi_modes", parse_host.parse_gpu_modes),
        "gpu_list": reader.told("nvidia_smi_list", lambda text, rc: parse_host.parse_gpu_list(text)),
    }
