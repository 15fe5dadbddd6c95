# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of probes: what each is called, and how the live back end takes it. docs/probes.md lists them."""

from __future__ import annotations

import os
import shutil
import subprocess

from ansible_collections.lockstep.gpu.plugins.module_utils import capture, facts_apt, facts_boot, facts_containers, facts_controller, facts_dkms
from ansible_collections.lockstep.gpu.plugins.module_utils import facts_fabric, facts_gpu, facts_host, facts_nccl, facts_ofed, facts_rpm, facts_security
from ansible_collections.lockstep.gpu.plugins.module_utils import facts_trial
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_dpkg import DPKG_FORMAT
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Command, File, Function, Special, execute
from ansible_collections.lockstep.gpu.plugins.module_utils.run import ENVIRONMENT

# local: files and package state only. gpu: asks the driver. archive: asks apt or dnf. deep: searches the disk.
LEVELS = ("local", "gpu", "archive", "deep")
# Probes of this level are never taken live (probe_kinds.Recorded).
BUNDLE = "bundle"
SECTIONS = (facts_apt, facts_rpm, facts_boot, facts_dkms, facts_security, facts_gpu, facts_fabric, facts_host, facts_containers,
            facts_nccl, facts_ofed, facts_controller, facts_trial)


def _modinfo(root, tools):
    """modinfo of all driver modules in one call."""
    paths = capture.module_files(root)
    return execute(["modinfo"] + [capture.inside(root, path) for path in paths], tools) if paths else ""


def _dkms_status(root, tools):
    """DKMS's tree read directly, or the command where DKMS is configured to keep it elsewhere."""
    return execute(["dkms", "status"], tools) if capture.dkms_is_relocated(root) else capture.dkms_tree(root)


def _loader_libraries(root, tools):
    tool = shutil.which("ldconfig", path=tools)
    if tool is None:
        return execute(["ldconfig"], tools)
    # In this child's process group, so that the time limit covers it; run_command knows no limit.
    listing = subprocess.run(  # pylint: disable=ansible-bad-function
        [tool, "-p"], stdout=subprocess.PIPE, env=dict(os.environ, **ENVIRONMENT), check=False)
    if listing.returncode:
        raise OSError("ldconfig ended with exit status %d" % listing.returncode)
    return capture.with_targets(listing.stdout.decode("utf-8", "replace"), root)


_OWN = {
    "os_release": File("/etc/os-release"),
    "uname_r": Function(capture.uname_release, "uname -r"),
    "uname_m": Function(capture.uname_machine, "uname -m"),
    "proc_cmdline": File("/proc/cmdline"),
    "container_marks": Function(capture.container_marks,
                                "/run/systemd/container, /.dockerenv, /run/.containerenv, /proc/1/environ, /proc/1/cgroup"),
    "kernel_files": Function(capture.kernel_files, "a list of /boot/vmlinuz-*, initrd.img-*, /lib/modules/*/build/Makefile"),
    "kernel_configs": Function(capture.kernel_configs, "grep -H '^CONFIG_CC_VERSION_TEXT=\\|^CONFIG_DRM=' /boot/config-*"),
    "boot_files": Function(capture.boot_loader_files, "a list of GRUB's and systemd-boot's files"),
    "grub_default": Function(capture.default_grub, "tail -v -n +1 /etc/default/grub /etc/default/grub.d/*.cfg"),
    "grubenv": Function(capture.first_of("/boot/grub/grubenv", "/boot/grub2/grubenv"), "/boot/grub/grubenv"),
    "grub_cfg": Function(capture.first_of("/boot/grub/grub.cfg", "/boot/grub2/grub.cfg"), "/boot/grub/grub.cfg"),
    "proc_mounts": File("/proc/self/mounts"),
    "pci_devices": Function(capture.pci_devices, "lspci -Dn -d 10de: (from /sys/bus/pci/devices)"),
    "gpu_devices": Function(capture.gpu_devices, "ls /dev/nvidiactl /dev/nvidia[0-9]*"),
    "dkms_status": Special(_dkms_status, "dkms status (from /var/lib/dkms)"),
    "modinfo": Special(_modinfo, "modinfo of every nvidia*.ko* below /lib/modules"),
    "proc_driver_version": File("/proc/driver/nvidia/version"),
    "sys_module_version": File("/sys/module/nvidia/version"),
    "dpkg_list": Command(("dpkg-query", "-W", "-f", DPKG_FORMAT, "*")),
    "apt_extended_states": File("/var/lib/apt/extended_states"),
    "apt_sources": Function(capture.apt_sources, "tail -v -n +1 /etc/apt/sources.list /etc/apt/sources.list.d/*"),
    "apt_preferences": Function(capture.apt_preferences, "tail -v -n +1 /etc/apt/preferences /etc/apt/preferences.d/*"),
    "apt_locks": Function(capture.apt_locks, "F_GETLK on dpkg's and apt's lock files"),
    "dkms_guard": File("/etc/dkms/no-autoinstall"),
    "alternatives_admin": Function(capture.alternatives_admin, "tail -v -n +1 /var/lib/dpkg/alternatives/{nvidia,glx,cuda,nvcc}"),
    "alternatives_links": Function(capture.alternatives_links, "readlink /etc/alternatives/{nvidia,glx,cuda,nvcc}"),
    "loader_libraries": Special(_loader_libraries, "ldconfig -p, with the real files"),
    "cuda_paths": Function(capture.cuda_paths, "a list of nvcc programs and of /usr/local/cuda"),
    "cuda_versions": Function(capture.cuda_versions, "tail -v -n +1 /usr/local/cuda-*/version.{json,txt}"),
    "ofed_info": Command(("ofed_info", "-s")),
    "secure_boot": Function(capture.secure_boot, "mokutil --sb-state (from the EFI variable)"),
    "space": Function(capture.space, "df -B1 --output=avail,target"),
    "nvidia_smi_query": Command(("nvidia-smi", "--query-gpu=index,name,uuid,driver_version,pci.bus_id",
                                 "--format=csv,noheader")),
}
_OWN_GPU = ("nvidia_smi_query",)
PROBES = dict(_OWN)
LEVEL_OF = {name: "gpu" if name in _OWN_GPU else "local" for name in _OWN}
for _section in SECTIONS:
    PROBES.update((name, how) for name, (level, how) in _section.PROBES.items())
    LEVEL_OF.update((name, level) for name, (level, how) in _section.PROBES.items())


def of_levels(levels):
    """The names of the probes of some levels, in the order of the table."""
    return tuple(name for name in PROBES if LEVEL_OF[name] in levels)
