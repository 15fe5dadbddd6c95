# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the live back end takes secure boot's keys, modprobe's configuration and the initramfs (see capture.py)."""

from __future__ import annotations

import os
import platform
import re
import shutil

from ansible_collections.lockstep.gpu.plugins.module_utils import capture, modprobe_policy, x509
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_dkms_tree import parse_dkms_conf
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import execute

# Where DKMS keeps the certificate that it signs with: its own default, and that of Debian's and Ubuntu's packages.
CERTIFICATES = ("/var/lib/shim-signed/mok/MOK.der", "/var/lib/dkms/mok.pub", "/etc/pki/akmods/certs/public_key.der")
# The site's own, where node_facts was told of one: DKMS may not know of it yet.
PREFERRED = []
# A file of an earlier folder hides one of the same name in a later one (modprobe.d(5)).
_FOLDERS = ("/etc/modprobe.d", "/run/modprobe.d", "/usr/local/lib/modprobe.d", "/usr/lib/modprobe.d")


def modprobe_config(root):
    """Every file of modprobe's folders, also those of /etc that modprobe ignores for their name."""
    chosen = {}
    for folder in _FOLDERS:
        for path in capture.find(root, folder + ("/*" if folder == _FOLDERS[0] else "/*.conf")):
            chosen.setdefault(os.path.basename(path), path)
    paths = sorted(path for path in chosen.values() if os.path.isfile(capture.inside(root, path)))
    return capture.join_files([(path, capture.read(root, path)) for path in paths])


def initramfs_age(root):
    """Whether each kernel's initramfs is older than our own file of modprobe.d, one a line: "RELEASE older" or "RELEASE newer"."""
    return capture.lines("%s %s" % (release, "older" if old else "newer") for release, old in sorted(modprobe_policy.ages(root).items()))


def _secured(root):
    """Whether secure boot is on; elsewhere no key matters, and mokutil need not run."""
    return "enabled" in capture.secure_boot(root)


def mok_list(which):
    """A capture function: mokutil's list of keys, where secure boot is on."""
    return lambda root, tools: execute(("mokutil", which), tools) if _secured(root) else "EFI variables are not supported on this system\n"


def certificate_path(root):
    """The certificate with which modules are signed here: the site's, else what DKMS was told of, else what is there; None without one."""
    try:
        settings = parse_dkms_conf(capture.files(root, "/etc/dkms/framework.conf", "/etc/dkms/framework.conf.d/*.conf")).value
    except OSError:
        settings = {}
    told = (settings.get("mok_certificate") or "").strip("\"'")
    return next(iter(capture.find(root, *(path for path in (*PREFERRED, told) if path.startswith("/")), *CERTIFICATES)), None)


def mok_test(root, tools):
    """Whether the certificate with which modules are signed is enrolled."""
    there = certificate_path(root)
    return execute(("mokutil", "--test-key", there), tools) if there and _secured(root) else ""


def mok_certificate(root):
    """The certificate with which modules are signed, as openssl prints one. Raises Absent where there is none."""
    path = certificate_path(root)
    if path is None:
        raise capture.Absent(2, "", CERTIFICATES[1])
    with open(capture.inside(root, path), "rb") as handle:
        found = x509.read(handle.read(1 << 20))
    return "%s\nsubject=CN = %s\nissuer=CN = %s\nserial=%s\nSHA1 Fingerprint=%s\n" % (
        path, found.subject or "", found.issuer or "", found.serial, found.sha1.upper())


def initramfs_files(root, tools):
    """What the initramfs of an installed kernel holds, by the distribution's own tool: the running one's, else the newest one's.

    Raises Absent where there is none (a container), or no tool for it.
    """
    for release in _installed(root):
        for tool, image in (("lsinitramfs", "/boot/initrd.img-" + release), ("lsinitrd", "/boot/initramfs-%s.img" % release),
                            ("lsinitrd", "/boot/initrd-" + release)):
            if os.path.isfile(capture.inside(root, image)) and shutil.which(tool, path=tools):
                return execute((tool, capture.inside(root, image)), tools)
    raise capture.Absent(2, "", "/boot/initrd.img-*, or a tool that lists it")


def _installed(root):
    """The releases of the kernels in /boot, the running one first, then the newest first. In a container uname is the host's."""
    releases = [path.split("-", 1)[1] for path in capture.find(root, "/boot/vmlinu[xz]-*")]
    newest = sorted(releases, key=lambda release: [int(number) for number in re.findall("[0-9]+", release)], reverse=True)
    return sorted(newest, key=lambda release: release != platform.release())
