# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's log: messages as the drivers and the kernel write them, under every kind of time stamp."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_dmesg import parse_dmesg
from hypothesis import given
from hypothesis import strategies as st

STAMPS = ["", "[    5.499014] ", "[Mon Nov 30 10:00:00 2026] ", "<4>[    5.499014] ", "Nov 30 10:00:00 node7 kernel: ",
          "Nov 30 10:00:00 node7 kernel: [ 12.345678] ", "kern  :warn  : [    5.499014] ", "2026-11-30T10:00:00,123456+00:00 ",
          "2026-11-30T10:00:00+0000 node7 kernel: "]


def events(text):
    return parse_dmesg(text).value


@pytest.mark.parametrize("text,kind,fields", [
    ("NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.105.08  Wed Oct 29 23:15:11 UTC 2025", "driver_loading",
     {"version": "580.105.08", "flavour": "proprietary"}),
    ("NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build  (dvs-builder@host)", "driver_loading",
     {"version": "565.57.01", "flavour": "open"}),
    ("NVRM: Xid (PCI:0000:17:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", "xid", {"gpu": "0000:17:00", "xid": "79"}),
    ("NVRM: Xid (0000:03:00): 31, Ch 00000010", "xid", {"gpu": "0000:03:00", "xid": "31"}),
    ("nvidia-nvswitch0: SXid (PCI:0000:01:00.0): 12028, Non-fatal, Link 32 egress", "sxid", {"gpu": "0000:01:00.0", "xid": "12028"}),
    ("NVRM: GPU 0000:17:00.0: GPU has fallen off the bus.", "fallen_off_bus", {"gpu": "0000:17:00.0"}),
    ("NVRM: GPU 0000:02:00.0: RmInitAdapter failed! (0x22:0x56:884)", "rm_init_failed", {"gpu": "0000:02:00.0", "status": "0x22:0x56:884"}),
    ("NVRM: The NVIDIA probe routine was not called for 4 device(s).", "probe_not_called", {"count": "4"}),
    ("NVRM: None of the NVIDIA devices were initialized.", "no_gpu", {}), ("NVRM: No NVIDIA GPU found.", "no_gpu", {}),
    ("nouveau 0000:01:00.0: NVIDIA GV100 (140000a1)", "bound", {"driver": "nouveau", "gpu": "0000:01:00.0"}),
    ("NovaCore 0000:01:00.0: NVIDIA (Chipset: GA102, Architecture: Ampere, Revision: a.1)", "bound", {"driver": "NovaCore"}),
    ("nvidia: Unknown symbol drm_foo (err -2)", "unknown_symbol", {"module": "nvidia", "symbol": "drm_foo", "err": "-2"}),
    ("nvidia_peermem: disagrees about version of symbol ib_register_client", "symbol_version", {"module": "nvidia_peermem", "symbol": "ib_register_client"}),
    ("nvidia: version magic '5.4.0-81-generic SMP mod_unload ' should be '5.4.0-80-generic SMP mod_unload '", "vermagic",
     {"have": "5.4.0-81-generic", "want": "5.4.0-80-generic"}),
    ("nvidia: Loading of unsigned module is rejected", "unsigned_rejected", {"module": "nvidia"}),
    ("Loading of unsigned module is rejected", "unsigned_rejected", {}),
    ("Lockdown: modprobe: unsigned module loading is restricted; see man kernel_lockdown.7", "unsigned_rejected", {}),
    ("zfs: Loading of module with unavailable key is rejected", "key_rejected", {"module": "zfs"}),
    ("PKCS#7 signature not signed with a trusted key", "key_rejected", {}),
    ("nvidia: module verification failed: signature and/or required key missing - tainting kernel", "tainting", {"module": "nvidia"}),
    ("secureboot: Secure boot enabled", "secure_boot", {"setting": "enabled"}), ("secureboot: Secure boot disabled", "secure_boot", {"setting": "disabled"}),
    ("Kernel is locked down from EFI Secure Boot mode; see man kernel_lockdown.7", "lockdown", {}),
    ("nvidia-nvlink: Nvlink Core is being initialized, major device number 235", None, {"driver": "nvidia-nvlink"})])
@pytest.mark.parametrize("stamp", STAMPS)
def test_kinds(stamp, text, kind, fields):
    (event,) = events(stamp + text + "\n")
    assert event["kind"] == kind and fields.items() <= event.items() and event["text"] == " ".join(text.split(" "))


GPU = "NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: %s)\n"


@pytest.mark.parametrize("lines,kind,gpu", [
    ("NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n", "requires_open", "0000:02:00.0"),
    ("NVRM: installed in this system is not supported by open\nNVRM: nvidia.ko because it does not include the required GPU\n", "requires_proprietary",
     "0000:02:00.0"),
    ("NVRM: installed in this system is not supported by the\nNVRM: NVIDIA 580.65.06 driver release.\n", "gpu_not_supported", "0000:02:00.0")])
def test_messages_over_several_lines(lines, kind, gpu):
    (event,) = [event for event in events("NVRM: loading\n" + GPU % "10de:2c31" + lines + "usb 1-1: new device\n") if event["kind"]]
    assert (event["kind"], event["gpu"], event["id"]) == (kind, gpu, "10de:2c31")


def test_two_gpus_are_two_messages():
    one = "NVRM: installed in this system requires use of the NVIDIA open kernel modules.\n"
    text = GPU % "10de:2c31" + one + (GPU % "10de:2c31").replace("02:", "03:") + one
    assert [event["gpu"] for event in events(text)] == ["0000:02:00.0", "0000:03:00.0"]


@pytest.mark.parametrize("text", [
    "NVRM: API mismatch: the client has the version 550.54.15, but\nNVRM: this kernel module has the version 535.183.01.  Please\nNVRM: make sure that\n",
    "NVRM: API mismatch: the client 'nvidia-smi' (pid 812) has the version 550.54.15, but this kernel module has the version 535.183.01. Please\n"])
def test_a_mismatch_names_both_versions(text):
    (event,) = events(text)
    assert (event["client"], event["loaded"]) == ("550.54.15", "535.183.01")


def test_other_lines_are_about_other_things():
    assert parse_dmesg("[ 1.0] usb 1-1: new high-speed device\n[ 2.0] EXT4-fs (sda1): mounted\n") == ([], [])


@given(st.lists(st.sampled_from(["NVRM: Xid (PCI:0000:17:00): 79, x", "nouveau 0000:01:00.0: NVIDIA GV100", "usb 1-1: new"]), max_size=6),
       st.sampled_from(STAMPS))
def test_each_message_once_under_any_stamp(lines, stamp):
    text = "".join(stamp + line + "\n" for line in lines)
    assert [event["kind"] for event in events(text)] == [{"N": "xid", "n": "bound"}[line[0]] for line in dict.fromkeys(lines) if line[0] in "Nn"]
