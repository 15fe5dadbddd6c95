# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Capture functions of the machine around the GPUs; see capture.py. All of them only read files of /proc and /sys."""

from __future__ import annotations

import os
import re
import struct

from ansible_collections.lockstep.gpu.plugins.module_utils import capture

UNITS = ("nvidia-fabricmanager", "nvidia-persistenced", "nvidia-imex", "nvidia-dcgm", "dcgm", "dcgm-exporter", "nvidia-cdi-refresh", "openibd")
_UNIT_DIRS = ("/etc/systemd/system", "/run/systemd/system", "/usr/lib/systemd/system", "/lib/systemd/system")
# systemd's src/basic/virt.c, in its order; the vendor's strings are beginnings.
_VENDORS = (("KVM", "kvm"), ("OpenStack", "kvm"), ("KubeVirt", "kvm"), ("Amazon EC2", "amazon"), ("QEMU", "qemu"), ("VMware", "vmware"),
            ("VMW", "vmware"), ("innotek GmbH", "oracle"), ("VirtualBox", "oracle"), ("Xen", "xen"), ("Bochs", "bochs"), ("Parallels", "parallels"),
            ("BHYVE", "bhyve"), ("Hyper-V", "microsoft"), ("Apple Virtualization", "apple"), ("Google Compute Engine", "google"))
_DMI = ("product_name", "sys_vendor", "board_vendor", "bios_vendor", "product_version")


def _text(root, path):
    """A short file, stripped; "" where it is not there or cannot be read."""
    try:
        return capture.read(root, path, 1 << 16).strip()
    except OSError:
        return ""


def virtualization(root):
    """systemd-detect-virt's word for the machine, from DMI and the processor's flags: the tool itself may not be there."""
    dmi = [_text(root, "/sys/class/dmi/id/" + name) for name in _DMI]
    flagged = bool(re.search(r"^flags\s*:.*\bhypervisor\b", _text_of_cpu(root), re.MULTILINE))
    # A whole machine of the cloud has the vendor's name and no hypervisor.
    if dmi[0].endswith(".metal") or not flagged and os.path.exists(capture.inside(root, "/proc/cpuinfo")) and _is_x86(root):
        return "none\n"
    if dmi[1] == "Microsoft Corporation" and dmi[0] == "Virtual Machine":
        return "microsoft\n"
    word = next((word for text in dmi for vendor, word in _VENDORS if text.startswith(vendor)), None)
    # KVM shows itself in the processor's leaf, which no file has; QEMU's machines run on it wherever there is a hypervisor's flag.
    word = "kvm" if word == "qemu" and flagged else word
    return "%s\n" % (word or ("vm-other" if flagged else "none"))


def _text_of_cpu(root):
    """The first processor of /proc/cpuinfo."""
    try:
        with open(capture.inside(root, "/proc/cpuinfo"), "rb") as handle:
            return handle.read(1 << 14).decode("utf-8", "replace").split("\n\n")[0]
    except OSError:
        return ""


def _is_x86(root):
    return "vendor_id" in _text_of_cpu(root)


def unit_files(root):
    """Whether each unit would start at boot, by systemd's files: systemctl would have to ask the running manager."""
    rows = []
    for unit in UNITS:
        name = unit + ".service"
        files = [folder + "/" + name for folder in _UNIT_DIRS if os.path.lexists(capture.inside(root, folder + "/" + name))]
        if not files:
            word = "absent"
        elif any(os.path.realpath(capture.inside(root, path)) == "/dev/null" for path in files):
            word = "masked"
        elif capture.find(root, *("%s/*.%s/%s" % (folder, kind, name) for folder in _UNIT_DIRS[:2] for kind in ("wants", "requires"))):
            word = "enabled"
        else:
            word = "disabled" if "[Install]" in _text(root, files[0]) else "static"
        rows.append("%s: %s" % (unit, word))
    return capture.lines(rows)


def host_settings(root):
    """Limits and settings of the kernel, one a line; the value is empty where this kernel has no such setting."""
    limits = re.search(r"^Max locked memory\s+(\S+)\s+(\S+)", _text(root, "/proc/self/limits"), re.MULTILINE)
    memory = dict(re.findall(r"^(HugePages_Total|Hugepagesize):\s+(\d+)", _text(root, "/proc/meminfo"), re.MULTILINE))
    huge = re.search(r"\[(\w+)\]", _text(root, "/sys/kernel/mm/transparent_hugepage/enabled"))
    numa = _text(root, "/proc/sys/kernel/numa_balancing")
    return capture.lines("%s: %s" % row for row in (
        ("memlock_soft", limits.group(1) if limits else ""), ("memlock_hard", limits.group(2) if limits else ""),
        ("hugepages", memory.get("HugePages_Total", "")), ("hugepage_kib", memory.get("Hugepagesize", "")),
        ("transparent_hugepages", huge.group(1) if huge else ""), ("numa_balancing", numa),
        ("iommus", len(capture.find(root, "/sys/class/iommu/*"))), ("iommu_groups", len(capture.find(root, "/sys/kernel/iommu_groups/*")))))


def rdma_ports(root):
    return capture.lines("%s:%s" % (path, _text(root, path)) for name in ("state", "rate", "link_layer")
                         for path in capture.find(root, "/sys/class/infiniband/*/ports/*/" + name))


def nics(root):
    """NVIDIA's network devices (vendor 15b3) as `lspci -Dn` prints them, with the names of their interfaces."""
    rows = []
    for folder in capture.find(root, "/sys/bus/pci/devices/*"):
        if _text(root, folder + "/vendor") == "0x15b3":
            names = ["%s %s" % (kind, " ".join(path.rsplit("/", 1)[-1] for path in capture.find(root, folder + pattern)))
                     for kind, pattern in (("net", "/net/*"), ("ib", "/infiniband/*"))]
            rows.append("%s %s: 15b3:%s (%s)" % (folder.rsplit("/", 1)[-1], _text(root, folder + "/class")[2:6],
                                                 _text(root, folder + "/device")[2:], ", ".join(names)))
    return capture.lines(rows)


def acs(root):
    """The ACS control register of every PCI bridge that has one; only root may read that far into the configuration space."""
    rows = []
    for folder in capture.find(root, "/sys/bus/pci/devices/*"):
        if _text(root, folder + "/class").startswith("0x0604"):
            with open(capture.inside(root, folder + "/config"), "rb") as handle:
                control = acs_control(handle.read(4096))
            if control is not None:
                rows.append("%s: %04x" % (folder.rsplit("/", 1)[-1], control))
    return capture.lines(rows)


def acs_control(space):
    """ACS control of a configuration space: extended capabilities are a list from 0x100 on; 0x000d is ACS, its control at +6."""
    offset, steps = 0x100, 0
    while 0x100 <= offset <= len(space) - 8 and steps < 64:
        header = struct.unpack_from("<I", space, offset)[0]
        if header & 0xffff == 0x000d:
            return struct.unpack_from("<H", space, offset + 6)[0]
        offset, steps = header >> 20, steps + 1
    return None
