# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Made-up recordings of the kinds of the public reports about secure boot and other drivers: broken nodes, and their healthy twins."""
from __future__ import annotations

import pytest

from .recorded import failed, judged

KERNEL = "6.8.0-44-generic"
GIVEN = {"os": "ubuntu-24.04", "running_kernel": KERNEL, "lock": {"kernel": KERNEL, "driver": "550.107.02"}}
ON = "SecureBoot enabled\n"
MODULE = ("filename:       /lib/modules/6.8.0-44-generic/updates/dkms/nvidia.ko.zst\nversion:        550.107.02\nlicense:        NVIDIA\n"
          "vermagic:       6.8.0-44-generic SMP preempt mod_unload modversions \n")
SIGNED = MODULE + "sig_id:         PKCS#7\nsigner:         node17 Secure Boot Module Signature key\nsig_key:        11:22:33\n"
VENDORS = "76a0920658 Canonical Ltd. Master Certificate Authority\n"
AWAY = [("blacklist", "nouveau"), ("rebuild_initramfs", KERNEL), ("reboot_once", None)]
NOUVEAU = "usr/lib/modules/6.8.0-44-generic/kernel/drivers/gpu/drm/nouveau/nouveau.ko.zst\n"


def outcome(record):
    return record["verdict"], [row["code"] for row in record["findings"]], [step["action"] for step in record["plan"]]


@pytest.mark.parametrize("probes,expected", [
    ({"secure_boot": ON, "modinfo": MODULE}, ("broken", ["module_unsigned"], ["manual"])),
    ({"secure_boot": "SecureBoot disabled\nPlatform is in Setup Mode\n", "modinfo": MODULE}, ("in_sync", [], [])),
    ({"secure_boot": failed("EFI variables are not supported on this system\n"), "modinfo": MODULE}, ("in_sync", [], [])),
    ({"secure_boot": "System:\n   Secure Boot: enabled (user)\n", "modinfo": MODULE}, ("broken", ["module_unsigned"], ["manual"])),
    ({"secure_boot": ON, "dmesg": "2024-08-20T10:11:12+0000 node17 kernel: Loading of unsigned module is rejected\n"},
     ("broken", ["module_unsigned"], ["manual"])),
    ({"dmesg": "[    0.0] secureboot: Secure boot enabled\n[   10.1] Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7\n"},
     ("broken", ["module_unsigned"], ["manual"])),
    ({"secure_boot": ON, "dmesg": "Aug 20 10:11:12 node17 kernel: Loading of module with unavailable key is rejected\n"},
     ("blocked", ["mok_not_enrolled"], ["manual"])),
    ({"secure_boot": ON, "modinfo": SIGNED, "mok_enrolled": VENDORS}, ("blocked", ["mok_not_enrolled"], ["manual"])),
    ({"secure_boot": ON, "modinfo": SIGNED, "mok_test_key": "/var/lib/shim-signed/mok/MOK.der is already enrolled\n"}, ("in_sync", [], [])),
    ({"secure_boot": ON, "modinfo": SIGNED, "mok_test_key": "/var/lib/shim-signed/mok/MOK.der is already in the enrollment request\n"},
     ("blocked", ["mok_not_enrolled"], ["manual"])),
    ({"secure_boot": ON, "modprobe_run": failed("modprobe: ERROR: could not insert 'nvidia': Required key not available\n")},
     ("blocked", ["mok_not_enrolled"], ["manual"]))])
def test_keys_and_signatures(probes, expected):
    assert outcome(judged(GIVEN, **probes)) == expected


@pytest.mark.parametrize("state,refused", [("SecureBoot disabled\n", False), (ON, True)])
def test_source_alone_is_refused_where_secure_boot_is_on(state, refused):
    record = judged({"os": "rhel-9.4", "lock": {"doca": "3.2.1", "ofed": "25.10-1.6.1"}}, secure_boot=state, mok_enrolled=VENDORS)
    assert ("unsigned_modules_on_secure_boot" in [row["code"] for row in record["findings"]], record["verdict"] == "blocked") == (refused, refused)


@pytest.mark.parametrize("probes", [
    {"lsmod": "nouveau              2306048  3\nmxm_wmi                16384  1 nouveau\n"}, {"lsmod": "nouveau 2306048 0 - Live 0x0000000000000000\n"},
    {"pci_devices": "17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 PCIe] [10de:2331] (rev a1)\n\tKernel driver in use: nouveau\n"},
    {"pci_devices": "03:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 41)\n\tKernel driver in use: ast\n"
                    "17:00.0 3D controller: NVIDIA Corporation Device 2331 (rev a1)\n\tKernel driver in use: nouveau\n"},
    {"dmesg": "[    3.1] nouveau 0000:17:00.0: NVIDIA GH100 (180000a1)\n[   12.2] NVRM: The NVIDIA probe routine was not called for 1 device(s).\n"}])
def test_nouveau_in_every_form(probes):
    record = judged(GIVEN, **probes)
    assert record["verdict"] == "broken" and [row["code"] for row in record["findings"]] == ["nouveau_in_use"]
    assert [(step["action"], step.get("target")) for step in record["plan"]] == AWAY and record["state"]["unknown"] == []


def test_gpus_by_their_names():
    record = judged(GIVEN, dkms_status="nvidia/550.107.02, %s, x86_64: installed\n" % KERNEL, pci_devices=(
        "17:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)\n18:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n"
        "3b:00.0 Infiniband controller: Mellanox Technologies MT2910 Family [ConnectX-7]\n"))
    assert [(row["address"], row["id"]) for row in record["state"]["gpus"]] == [("0000:17:00.0", None), ("0000:18:00.0", "10de:2330")]
    assert (record["verdict"], record["state"]["unknown"]) == ("in_sync", [])


@pytest.mark.parametrize("files,blacklist,stale", [
    (NOUVEAU + "etc/modprobe.d/blacklist.conf\n", "/etc/modprobe.d/blacklist-nouveau.conf:blacklist nouveau\n", True),
    (NOUVEAU + "etc/modprobe.d/blacklist-nouveau.conf\n", "/etc/modprobe.d/blacklist-nouveau.conf:blacklist nouveau\n", False),
    # Nothing tells which file the line is from.
    (NOUVEAU + "etc/modprobe.d/site.conf\n", "blacklist nouveau\n", False)])
def test_what_the_initramfs_was_not_told(files, blacklist, stale):
    record = judged(GIVEN, initramfs_files=files, modprobe_config=blacklist, lsmod="nvidia 1 0\n")
    assert outcome(record) == (("drift", ["initramfs_stale"], ["rebuild_initramfs", "reboot_once"]) if stale else ("in_sync", [], []))


@pytest.mark.parametrize("version,stale", [("535.183.01", True), ("550.107.02", False)])
def test_another_drivers_firmware_in_the_initramfs(version, stale):
    files = "usr/lib/firmware/nvidia/%s/gsp_ga10x.bin\nusr/lib/modules/6.8.0-44-generic/updates/dkms/nvidia.ko.zst\n" % version
    record = judged(GIVEN, initramfs_files=files, modinfo=MODULE)
    assert [row["code"] for row in record["findings"]] == (["initramfs_stale"] if stale else [])
    assert all(version in row["message"] and "550.107.02" in row["message"] for row in record["findings"])


UNREACHED = failed("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is "
                   "installed and running.\n", 9)


@pytest.mark.parametrize("probes,codes", [
    ({"lsmod": "nouveau 3620864 4\n"}, ["nouveau_in_use"]),
    ({"pci_devices": "01:00.0 3D controller [0302]: NVIDIA Corporation AD102GL [L40S] [10de:26b9] (rev a1)\n\tKernel driver in use: vfio-pci\n"},
     ["other_gpu_driver_in_use"]),
    ({"secure_boot": ON, "modprobe_run": failed("modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n")}, ["mok_not_enrolled"]),
    ({"dkms_status": "nvidia/550.107.02, 6.8.0-41-generic, x86_64: installed\n"}, ["dkms_not_built_for_kernel"]),
    ({"dkms_status": "nvidia/550.107.02, %s, x86_64: installed\n" % KERNEL}, ["driver_does_not_answer"]), ({}, ["driver_does_not_answer"])])
def test_a_driver_that_cannot_answer_is_told_by_its_cause(probes, codes):
    record = judged(GIVEN, nvidia_smi=UNREACHED, **probes)
    assert [row["code"] for row in record["findings"]] == codes and record["verdict"] in ("broken", "blocked")


def test_an_initramfs_without_a_name_is_told_by_its_kernel():
    record = judged(GIVEN, initramfs_files=NOUVEAU, modprobe_config="/etc/modprobe.d/blacklist-nouveau.conf:blacklist nouveau\n", lsmod="nvidia 1 0\n")
    assert [row["subject"] for row in record["findings"]] == ["the initramfs of %s: nouveau" % KERNEL]
