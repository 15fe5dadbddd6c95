# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about secure boot and other drivers: each where it speaks and where it is silent, from recordings of the kinds that people report."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import Observation
from ansible_collections.lockstep.gpu.plugins.plugin_utils import signing
from cases.recorded import judged

KERNEL = "6.8.0-44-generic"
LOCK = {"driver": "550.107.02"}
ON, OFF = "SecureBoot enabled\n", "SecureBoot disabled\n"
FILE = ("filename:       /lib/modules/%s/updates/dkms/nvidia.ko.zst\nversion:        550.107.02\nlicense:        NVIDIA\n"
        "vermagic:       %s SMP preempt\n") % (KERNEL, KERNEL)
SIGNED = FILE + "sig_id:         PKCS#7\nsigner:         %s\nsig_key:        11:22:33\nsig_hashalgo:   sha512\n"
DKMS_KEY = "node-d Secure Boot Module Signature key"
CANONICAL = ("[key 1]\nSHA1 Fingerprint: 76:a0:92:06:58:00:bf:37:69:01:c3:72:cd:55:a9:0e:1f:de:d2:e0\n"
             "        Subject: CN=Canonical Ltd. Master Certificate Authority\n")
ENROLLED = CANONICAL + "[key 2]\nSHA1 Fingerprint: 77:a0:92:06:58:00:bf:37:69:01:c3:72:cd:55:a9:0e:1f:de:d2:e0\n        Subject: CN=%s\n"
REJECTED = Observation(1, "", "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n")
NO_KEY = Observation(1, "", "modprobe: ERROR: could not insert 'nvidia': Required key not available\n")
LSMOD = "Module                  Size  Used by\nsnd 122880 0\n"
GPU = "0000:17:00.0 0302: 10de:2330\n\tKernel driver in use: %s\n0000:17:00.1 0403: 10de:22ba\n\tKernel driver in use: snd_hda_intel\n"


def record(lock=None, system="ubuntu-24.04", running=KERNEL, **recorded):
    told = {"os": system, "lock": LOCK if lock is None else lock, "running_kernel": running}
    return judged(told, **recorded)


def found(**recorded):
    return [(row["code"], row["subject"], row["severity"], row["verdict"]) for row in record(**recorded)["findings"]]


def plan(**recorded):
    return [(step["action"], step.get("target")) for step in record(**recorded)["plan"]]


@pytest.mark.parametrize("recorded", [
    {"secure_boot": ON, "modinfo": SIGNED % DKMS_KEY, "mok_enrolled": ENROLLED % DKMS_KEY},
    {"secure_boot": ON, "modinfo": SIGNED % DKMS_KEY, "mok_test_key": Observation(1, "/var/lib/dkms/mok.pub is already enrolled\n")},
    {"secure_boot": ON, "modinfo": SIGNED % "Canonical Ltd. Kernel Module Signing", "mok_enrolled": CANONICAL},
    {"secure_boot": OFF, "modinfo": FILE, "mok_enrolled": CANONICAL}, {"secure_boot": ON + "SecureBoot validation is disabled in shim\n", "modinfo": FILE},
    {"secure_boot": Observation(1, "", "EFI variables are not supported on this system\n"), "modinfo": FILE},
    {"modinfo": FILE}, {"secure_boot": ON, "modinfo": SIGNED % DKMS_KEY},
    {"secure_boot": ON, "modinfo": "version:        550.107.02\n"}, {"secure_boot": OFF, "modinfo": SIGNED % DKMS_KEY, "mok_enrolled": CANONICAL},
    {"dmesg": "[ 3.0] nvidia: module verification failed: signature and/or required key missing - tainting kernel\n"},
    {"lsmod": LSMOD + "nvidia 56717312 0\n", "pci_devices": GPU % "nvidia", "modprobe_config": "blacklist nouveau\n"}])
def test_nothing_is_said_where_nothing_is_wrong(recorded):
    assert [row for row in found(**recorded) if row[0] != "dkms_not_built_for_kernel"] == []


@pytest.mark.parametrize("recorded,subject", [
    ({"secure_boot": ON, "modinfo": SIGNED % DKMS_KEY, "mok_enrolled": CANONICAL}, DKMS_KEY),
    ({"secure_boot": ON, "modinfo": SIGNED % "DKMS module signing key", "mok_enrolled": "2be991e3e6 Debian Secure Boot CA\n"}, "DKMS module signing key"),
    ({"modprobe_run": REJECTED, "modinfo": SIGNED % DKMS_KEY}, DKMS_KEY), ({"secure_boot": ON, "modprobe_run": REJECTED}, "/var/lib/dkms/mok.pub"),
    ({"secure_boot": ON, "modprobe_run": REJECTED, "dkms_conf": "mok_certificate=/root/site.der\n"}, "/root/site.der"),
    ({"secure_boot": ON, "modprobe_run": NO_KEY, "modinfo": SIGNED % DKMS_KEY, "mok_enrolled": "MokListRT is empty\n"}, DKMS_KEY),
    ({"secure_boot": ON, "modinfo": SIGNED % DKMS_KEY, "mok_test_key": "/var/lib/shim-signed/mok/MOK.der is not enrolled\n"},
     "/var/lib/shim-signed/mok/MOK.der"),
    ({"dmesg": "[ 1.0] Kernel is locked down from EFI Secure Boot mode; see man kernel_lockdown.7\n[ 9.1] PKCS#7 signature not signed with a trusted key\n",
      "modinfo": SIGNED % DKMS_KEY}, DKMS_KEY)])
def test_a_key_that_nobody_enrolled(recorded, subject):
    assert found(**recorded) == [("mok_not_enrolled", subject, "error", "blocked")]
    ((action, target),) = plan(**recorded)
    assert action == "manual" and target.startswith("mokutil --import ")


def test_a_key_that_waits_at_the_console():
    recorded = {"secure_boot": ON, "modinfo": SIGNED % DKMS_KEY, "mok_test_key": Observation(1, "/var/lib/dkms/mok.pub is already in the enrollment request\n")}
    assert found(**recorded) == [("mok_not_enrolled", "/var/lib/dkms/mok.pub", "error", "blocked")]
    assert plan(**recorded) == [("manual", "confirm the pending key at the console on the next boot")]


@pytest.mark.parametrize("recorded,verdict", [
    ({"secure_boot": ON, "modinfo": FILE}, "broken"), ({"secure_boot": ON, "modinfo": FILE, "mok_enrolled": CANONICAL}, "blocked"),
    ({"secure_boot": ON, "modinfo": FILE, "mok_enrolled": ENROLLED % DKMS_KEY}, "broken"), ({"modprobe_run": NO_KEY, "modinfo": FILE}, "broken"),
    ({"modprobe_run": REJECTED, "modinfo": FILE}, "broken"), ({"dmesg": "[ 9.1] nvidia: Loading of unsigned module is rejected\n"}, "broken"),
    ({"secure_boot": ON, "dmesg": "[ 9.1] Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7\n"}, "broken")])
def test_a_module_without_a_signature(recorded, verdict):
    assert found(**recorded) == [("module_unsigned", "nvidia@" + KERNEL, "error", verdict)]


def test_dkms_signs_when_it_builds():
    recorded = {"secure_boot": ON, "modinfo": FILE, "mok_enrolled": ENROLLED % DKMS_KEY, "dkms_status": "nvidia/550.107.02, %s, x86_64: installed\n" % KERNEL,
                "dkms_run": "Binary update-secureboot-policy not found, modules won't be signed\n"}
    assert plan(**recorded) == [("dkms_build_install", "nvidia/550.107.02")]
    assert "modules won't be signed" in record(**recorded)["findings"][0]["message"]


@pytest.mark.parametrize("lock,recorded,weight", [
    ({"doca": "3.2.0"}, {"mok_enrolled": CANONICAL}, ("error", "blocked")), ({"doca": "3.3.1"}, {}, ("warn", "unknown")),
    ({"doca": "3.1.0"}, {"mok_enrolled": CANONICAL}, None), ({"doca": "3.2.0"}, {"mok_enrolled": ENROLLED % DKMS_KEY}, None),
    ({"doca": "3.2.0"}, {"mok_enrolled": ENROLLED % "ACME Clusters 2026"}, ("warn", "unknown")),
    ({"doca": "3.2.0"}, {"mok_enrolled": ENROLLED % "ACME Clusters 2026", "dkms_conf": "mok_signing_key=\n"}, ("error", "blocked")),
    ({"driver": {"version": "550.107.02", "module": "dkms"}}, {"mok_enrolled": CANONICAL}, ("error", "blocked")),
    ({"driver": {"version": "550.107.02", "module": "prebuilt"}}, {"mok_enrolled": CANONICAL}, None),
    ({"driver": "550.107.02"}, {"mok_enrolled": CANONICAL}, None),
    ({"driver": {"version": "550.107.02", "module": "dkms"}}, {"mok_enrolled": CANONICAL, "secure_boot": OFF}, None)])
def test_what_would_be_built_with_no_key_to_sign_it(lock, recorded, weight):
    rows = [row[2:] for row in found(**dict({"lock": lock, "secure_boot": ON, "running": None}, **recorded)) if row[0] == "unsigned_modules_on_secure_boot"]
    assert rows == ([weight] if weight else [])


@pytest.mark.parametrize("name,vendors", [
    ("CN=Canonical Ltd. Master Certificate Authority", True), ("Debian Secure Boot CA", True), ("Red Hat Secure Boot CA 5", True), ("fedoraca", True),
    ("CN=Example OS Signing CA", True), ("SUSE Linux Enterprise Secure Boot Signkey", True), ("Canonical Ltd. Kernel Module Signing", True),
    ("CentOS Linux kernel signing key", True), ("Build time autogenerated kernel key", True), (DKMS_KEY, False), ("DKMS module signing key", False),
    ("Custom MOK", False), ("ACME Clusters 2026", False), ("secureblue secureboot key", False), (None, False),
    ("Local build for nvidia-gfxG05 470.141.03 on 2022-09-08", False)])
def test_whose_key_it_is(name, vendors):
    assert signing.is_vendors(name) is vendors


AWAY = [("blacklist", "nouveau"), ("rebuild_initramfs", KERNEL), ("reboot_once", None)]


@pytest.mark.parametrize("recorded,steps", [
    ({"lsmod": LSMOD + "nouveau 2306048 1 - Live 0x0\n"}, AWAY), ({"lsmod": "nouveau              2306048  10\n"}, AWAY),
    ({"pci_devices": GPU % "nouveau"}, AWAY),
    ({"pci_devices": "01:00.0 VGA compatible controller: NVIDIA Corporation GP104\n\tKernel driver in use: nouveau\n\tKernel modules: nouveau\n"}, AWAY),
    ({"dmesg": "[ 1.2] nouveau 0000:17:00.0: NVIDIA GV100 (140000a1)\n"}, AWAY),
    ({"lsmod": "nouveau 2306048 1\n", "modprobe_config": "/etc/modprobe.d/nvidia.conf:blacklist nouveau\n"}, AWAY[1:]),
    ({"lsmod": "nouveau 2306048 1\n", "proc_cmdline": "BOOT_IMAGE=/vmlinuz modprobe.blacklist=nouveau,nova_core\n",
      "initramfs_files": "etc/fstab\n"}, AWAY[2:])])
def test_nouveau_has_the_gpus(recorded, steps):
    assert [row for row in found(**recorded) if row[0] == "nouveau_in_use"] == [("nouveau_in_use", "nouveau", "error", "broken")]
    assert plan(**recorded) == steps


@pytest.mark.parametrize("recorded", [
    {"lsmod": LSMOD, "dmesg": "[ 1.2] nouveau 0000:17:00.0: NVIDIA GV100 (140000a1)\n"}, {"lsmod": "nouveau 1 0\n", "lock": {"ofed": "24.10"}},
    {"dmesg": "[ 1.2] nouveau 0000:17:00.0: NVIDIA GV100 (140000a1)\n", "container_marks": "file /.dockerenv\n"},
    {"lsmod": "nouveau 1 0\n", "pci_devices": ""}])
def test_nouveau_does_not_matter(recorded):
    assert "nouveau_in_use" not in [row[0] for row in found(**recorded)]


@pytest.mark.parametrize("recorded,subject", [
    ({"lsmod": "nova_core 180224 0\n"}, "nova_core"), ({"pci_devices": GPU % "nova-core"}, "nova_core"), ({"pci_devices": GPU % "NovaCore"}, "nova_core"),
    ({"dmesg": "[ 1.2] NovaCore 0000:17:00.0: NVIDIA (Chipset: GA102, Architecture: Ampere, Revision: a.1)\n"}, "nova_core"),
    ({"pci_devices": GPU % "vfio-pci"}, "vfio-pci 0000:17:00.0"), ({"lsmod": "nvidiafb 57344 0\n"}, "nvidiafb"),
    ({"dmesg": "NVRM: The NVIDIA probe routine was not called for 4 device(s).\n"}, "unknown driver")])
def test_another_driver_has_the_gpus(recorded, subject):
    assert [row for row in found(**recorded) if row[0] == "other_gpu_driver_in_use"] == [("other_gpu_driver_in_use", subject, "error", "broken")]


def test_the_driver_that_was_not_called_is_told_beside_the_one_that_has_the_gpus():
    recorded = {"lsmod": "nouveau 1 0\n", "dmesg": "NVRM: The NVIDIA probe routine was not called for 8 device(s).\n"}
    (row,) = record(**recorded)["findings"]
    assert row["code"] == "nouveau_in_use" and "8 devices" in row["message"]


NOVA = "usr/lib/modules/%s/kernel/drivers/gpu/nova-core/nova_core.ko.xz\n" % KERNEL


@pytest.mark.parametrize("recorded,subject", [
    ({"modprobe_config": "==> /etc/modprobe.d/blacklist-nouveau <==\nblacklist nouveau\n"}, "/etc/modprobe.d/blacklist-nouveau"),
    ({"modprobe_config": "/etc/modprobe.d/nvidia.conf.bak:blacklist nouveau\n"}, "/etc/modprobe.d/nvidia.conf.bak"),
    ({"modprobe_config": "blacklist nouveau\n", "initramfs_files": NOVA, "lsmod": LSMOD}, "nova_core"),
    ({"modprobe_config": "blacklist nouveau\nblacklist nova-core\n", "initramfs_files": NOVA, "lsmod": LSMOD}, None),
    ({"modprobe_config": "blacklist nouveau\ninstall nova_core /bin/false\n", "initramfs_files": NOVA, "lsmod": LSMOD}, None),
    ({"modprobe_config": "/etc/modprobe.d/a.conf.bak:blacklist nouveau\n/etc/modprobe.d/a.conf:blacklist nouveau\n"}, None),
    ({"modprobe_config": "options nouveau modeset=0\nblacklist pcspkr\n"}, None)])
def test_a_blacklist_that_misses_something(recorded, subject):
    rows = [row for row in found(**recorded) if row[0] == "blacklist_incomplete"]
    assert rows == ([("blacklist_incomplete", subject, "error", "drift")] if subject else [])


PACKAGES = "nvidia-driver-550\t550.107.02-0ubuntu1\t%s\nlibnvidia-compute-550\t550.107.02-0ubuntu1\t%s\n"


@pytest.mark.parametrize("patterns,status,missed", [
    ('"nvidia-";', ("ii ", "ii "), True), ('"nvidia-"; "libnvidia-";', ("ii ", "ii "), False), ('".*nvidia.*";', ("ii ", "ii "), False),
    ('"nvidia-";', ("ii ", "hi "), False), ('"linux-";', ("ii ", "ii "), False), ('"(nvidia+)+-";', ("ii ", "ii "), False),
    ('"nvidia-("; "nvidia";', ("ii ", "ii "), True)])
def test_upgrades_that_nobody_watches(patterns, status, missed):
    conf = "Unattended-Upgrade::Package-Blacklist {\n    %s\n};\n" % patterns
    rows = [row for row in found(unattended_upgrades=conf, dpkg_list=PACKAGES % status) if row[0] == "blacklist_incomplete"]
    assert bool(rows) is missed and all("libnvidia-compute-550" in row[1] for row in rows)
