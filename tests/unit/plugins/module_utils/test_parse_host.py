# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The machine around the GPUs: what is captured from a folder that looks like one, and what tools print."""

from __future__ import annotations

import struct

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import capture_host
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_host as host


def write(root, path, text):
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("text,word", [("kvm\n", "kvm"), ("none\n", "none"), ("   Virtualization: vmware\n  Kernel: Linux\n", "vmware"),
                                       ("Hypervisor vendor:     KVM\n", "kvm"), ("", None), ("two words\n", None)])
def test_virtualization_words(text, word):
    assert host.parse_virtualization(text).value == word


@pytest.mark.parametrize("flags,dmi,word", [
    ("fpu", {"sys_vendor": "Supermicro", "product_name": "SYS-821GE"}, "none"),
    ("fpu hypervisor", {"sys_vendor": "QEMU", "product_name": "Standard PC (Q35 + ICH9, 2009)"}, "kvm"),
    ("fpu hypervisor", {"sys_vendor": "Amazon EC2", "product_name": "p5.48xlarge"}, "amazon"),
    ("fpu", {"sys_vendor": "Amazon EC2", "product_name": "g4dn.metal"}, "none"),
    ("fpu hypervisor", {"sys_vendor": "Microsoft Corporation", "product_name": "Virtual Machine"}, "microsoft"),
    ("fpu hypervisor", {"sys_vendor": "Google", "product_name": "Google Compute Engine"}, "google"),
    ("fpu hypervisor", {"sys_vendor": "VMware, Inc.", "product_name": "VMware7,1"}, "vmware"),
    ("fpu hypervisor", {}, "vm-other")])
def test_virtualization_of_a_machine(tmp_path, flags, dmi, word):
    write(tmp_path, "/proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\nflags\t\t: %s\n\nprocessor\t: 1\n" % flags)
    for name, text in dmi.items():
        write(tmp_path, "/sys/class/dmi/id/" + name, text + "\n")
    assert capture_host.virtualization(str(tmp_path)) == word + "\n"


def test_unit_files(tmp_path):
    unit = "[Unit]\n[Install]\nWantedBy=multi-user.target\n"
    write(tmp_path, "/usr/lib/systemd/system/nvidia-fabricmanager.service", unit)
    write(tmp_path, "/etc/systemd/system/multi-user.target.wants/nvidia-fabricmanager.service", unit)
    write(tmp_path, "/usr/lib/systemd/system/openibd.service", unit)
    write(tmp_path, "/usr/lib/systemd/system/nvidia-persistenced.service", "[Unit]\n")
    (tmp_path / "etc/systemd/system/nvidia-imex.service").symlink_to("/dev/null")
    units = host.parse_unit_files(capture_host.unit_files(str(tmp_path))).value
    assert units["nvidia-fabricmanager"] == "enabled" and units["openibd"] == "disabled" and units["nvidia-persistenced"] == "static"
    assert units["nvidia-imex"] == "masked" and units["dcgm"] == "absent"


def test_services():
    text = "Id=nvidia-fabricmanager.service\nLoadState=loaded\nActiveState=active\nSubState=running\nUnitFileState=enabled\nResult=success\n\n" \
           "Id=nvidia-imex.service\nLoadState=not-found\nActiveState=inactive\nUnitFileState=\n"
    value, problems = host.parse_services(text)
    assert problems == [] and value["nvidia-fabricmanager"] == {"load": "loaded", "active": "active", "sub": "running", "enabled": "enabled",
                                                                "result": "success"}
    assert value["nvidia-imex"]["load"] == "not-found" and value["nvidia-imex"]["enabled"] is None
    assert host.parse_services("noise\n").problems


def test_settings_of_a_machine(tmp_path):
    write(tmp_path, "/proc/self/limits", "Limit Soft Hard Units\nMax locked memory         unlimited            unlimited            bytes\n")
    write(tmp_path, "/proc/meminfo", "HugePages_Total:       8\nHugepagesize:       2048 kB\n")
    write(tmp_path, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
    write(tmp_path, "/proc/sys/kernel/numa_balancing", "1\n")
    write(tmp_path, "/sys/class/iommu/dmar0/x", "")
    assert host.parse_host_settings(capture_host.host_settings(str(tmp_path))) == ({
        "memlock_soft": "unlimited", "memlock_hard": "unlimited", "hugepages": 8, "hugepage_kib": 2048, "transparent_hugepages": "madvise",
        "numa_balancing": 1, "iommus": 1, "iommu_groups": 0}, [])
    assert host.parse_host_settings(capture_host.host_settings(str(tmp_path / "nothing"))).value["numa_balancing"] is None


def test_rdma_ports_and_nics(tmp_path):
    for name, text in (("state", "4: ACTIVE"), ("rate", "400 Gb/sec (4X NDR)"), ("link_layer", "InfiniBand")):
        write(tmp_path, "/sys/class/infiniband/mlx5_0/ports/1/" + name, text + "\n")
    assert host.parse_rdma_ports(capture_host.rdma_ports(str(tmp_path))).value == [
        {"device": "mlx5_0", "port": 1, "state": "ACTIVE", "rate": "400 Gb/sec (4X NDR)", "link_layer": "InfiniBand"}]
    device = "/sys/bus/pci/devices/0000:18:00.0"
    for name, text in (("vendor", "0x15b3"), ("class", "0x020700"), ("device", "0x1021"), ("net/ibs1/x", ""), ("infiniband/mlx5_0/x", "")):
        write(tmp_path, device + "/" + name, text)
    assert host.parse_nics(capture_host.nics(str(tmp_path))).value == [
        {"address": "0000:18:00.0", "id": "15b3:1021", "class": "0207", "net": ["ibs1"], "ib": ["mlx5_0"]}]
    assert host.parse_nics("18:00.0 0207: 15b3:1021 (rev 01)\n").value[0]["address"] == "0000:18:00.0"


def test_acs(tmp_path):
    space = bytearray(4096)
    struct.pack_into("<I", space, 0x100, 0x0001 | 0x148 << 20)
    struct.pack_into("<I", space, 0x148, 0x000d)
    struct.pack_into("<H", space, 0x148 + 6, 0x1d)
    device = tmp_path / "sys/bus/pci/devices/0000:00:01.0"
    device.mkdir(parents=True)
    (device / "class").write_text("0x060400\n", encoding="utf-8")
    (device / "config").write_bytes(bytes(space))
    assert host.parse_acs(capture_host.acs(str(tmp_path))).value == {"0000:00:01.0": True}
    assert capture_host.acs_control(b"\0" * 64) is None and capture_host.acs_control(bytes(4096)) is None
    struct.pack_into("<I", space, 0x148, 0x0001 | 0x100 << 20)
    assert capture_host.acs_control(bytes(space)) is None


def test_gpu_modes_and_list():
    value, problems = host.parse_gpu_modes("0, Enabled, 0, 12, Disabled, Enabled, 96.00.74.00.01\n1, [N/A], [N/A], [N/A], [N/A], Disabled, 90.02\n")
    assert problems == [] and value[0] == {"index": 0, "ecc": True, "ecc_uncorrected": 0, "ecc_corrected": 12, "mig": False, "persistence": True,
                                           "vbios": "96.00.74.00.01"}
    assert value[1]["ecc"] is None and value[1]["mig"] is None and host.parse_gpu_modes("x\n").problems
    text = ("GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-1)\n  MIG 1g.5gb      Device  0: (UUID: MIG-1)\n  MIG 1g.5gb      Device  1: (UUID: MIG-2)\n"
            "GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-2)\n")
    assert host.parse_gpu_list(text) == ({"gpus": 2, "mig": [{"gpu": 0, "profile": "1g.5gb", "device": 0}, {"gpu": 0, "profile": "1g.5gb", "device": 1}]}, [])
