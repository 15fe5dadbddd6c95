# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secure boot's keys and signatures, the kernel's log, and which modules may hold the GPUs."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils import capture_security, facts_nccl, parse_dmesg, parse_module_config, parse_pci, parse_signing
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_modules import finds_no_module
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Command, File, Function, Recorded, Special

# name: (level, how to take it live); docs/probes.md describes each.
PROBES = {
    "lsmod": ("local", File("/proc/modules")),
    "modprobe_config": ("local", Function(capture_security.modprobe_config, "tail -v -n +1 /etc/modprobe.d/* and the other folders of modprobe.d")),
    "initramfs_age": ("local", Function(capture_security.initramfs_age, "the times of every initramfs and of /etc/modprobe.d/lockstep-gpu.conf")),
    "mok_enrolled": ("local", Special(capture_security.mok_list("--list-enrolled"), "mokutil --list-enrolled, where secure boot is on")),
    "mok_new": ("local", Special(capture_security.mok_list("--list-new"), "mokutil --list-new, where secure boot is on")),
    "mok_test_key": ("local", Special(capture_security.mok_test, "mokutil --test-key on DKMS's certificate, where secure boot is on")),
    "mok_certificate": ("local", Function(capture_security.mok_certificate,
                                          "openssl x509 -noout -subject -issuer -serial -fingerprint on the certificate that modules are signed with")),
    "initramfs_files": ("deep", Special(capture_security.initramfs_files, "lsinitramfs or lsinitrd on an installed kernel's initramfs")),
    "dmesg": ("gpu", Command(("dmesg",))),
    "modprobe_run": ("bundle", Recorded("modprobe nvidia")),
    "lock_file": ("bundle", Recorded("the lock file of somebody's own tool, flat YAML")),
}
_SIGNING_OFF = re.compile(r"modules won't be signed|modules will not be signed|module signing is disabled", re.IGNORECASE)


def section(reader):
    """The part of the state that these probes fill; None where nobody asked.

    signing: {enrolled, pending: keys (parse_signing.parse_mok_list), tests: [{path, state}], certificate: the one with which modules are
    signed here (parse_signing.parse_certificate), modules: signatures of the driver's modules, remarks: why a build did not sign}.
    modules: {list: {module: [users]}, refused: what modprobe could not load}. modprobe: parse_modprobe_config(), with stale: releases
    whose initramfs is older than our own file. initramfs: parse_initramfs(). kernel_log: events of parse_dmesg. gpu_drivers: {address:
    driver of a GPU}. lock_file: {key: text}. secure_boot, where only the kernel's log tells it.
    """
    # `dmesg | grep` ends with 1 where it finds nothing.
    searched = facts_nccl.found_nothing(reader.seen("dmesg"))
    log = None if _forbidden(reader) else [] if searched else reader.parsed("dmesg", parse_dmesg.parse_dmesg)
    part = {
        "signing": {
            "enrolled": reader.told("mok_enrolled", parse_signing.parse_mok_list),
            "pending": reader.told("mok_new", parse_signing.parse_mok_list),
            "tests": reader.told("mok_test_key", parse_signing.parse_key_test),
            "certificate": reader.parsed("mok_certificate", parse_signing.parse_certificate, absent=None),
            "modules": [] if finds_no_module(reader.seen("modinfo")) else reader.parsed("modinfo", parse_signing.parse_signatures),
            "remarks": reader.told("dkms_run", _remarks),
        },
        "modules": {"list": reader.told("lsmod", parse_module_config.parse_lsmod),
                    "refused": reader.told("modprobe_run", parse_signing.parse_module_load)},
        "modprobe": _modprobe(reader),
        "initramfs": reader.parsed("initramfs_files", parse_module_config.parse_initramfs, absent=None, partial=True),
        "kernel_log": log,
        "gpu_drivers": reader.parsed("pci_devices", parse_pci.parse_pci_drivers),
        "lock_file": reader.parsed("lock_file", _flat, absent=None),
    }
    told = _secure_boot(log or [])
    if told is not None and reader.seen("secure_boot") is None:
        part["secure_boot"] = told
    return part


def _modprobe(reader):
    config = reader.parsed("modprobe_config", parse_module_config.parse_modprobe_config, absent=None)
    stale = reader.parsed("initramfs_age", parse_module_config.parse_initramfs_age, absent=None)
    return None if config is None else dict(config, stale=stale)


def _forbidden(reader):
    """Whether this is a container that may not read the kernel's log, which is its host's."""
    log, marks = reader.seen("dmesg"), reader.seen("container_marks")
    return bool(log and log.rc and "Operation not permitted" in log.err + log.out and marks and marks.out.strip())


def _secure_boot(log):
    """What the kernel said about secure boot when it started; None when nothing."""
    settings = [event["setting"] == "enabled" if event["kind"] == "secure_boot" else True
                for event in log if event["kind"] in ("secure_boot", "lockdown")]
    return settings[-1] if settings else None


def _remarks(text, rc):
    """Parser of a run of dkms: the lines that say why it signed nothing."""
    del rc
    return Parsed([line.strip()[:200] for line in text.splitlines() if _SIGNING_OFF.search(line[:1000])], [])


def _flat(text):
    """Parser of a flat mapping: the keys of its first level that have plain values."""
    found = (re.fullmatch(r"([\w-]{1,60}): +(\S.*?)\s*", line[:500]) for line in text.splitlines())
    return Parsed({match.group(1): match.group(2).strip("'\"") for match in found if match}, [])
