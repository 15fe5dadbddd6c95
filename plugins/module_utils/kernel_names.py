# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the release of a kernel (uname -r) says about its packages."""

from __future__ import annotations

import re

# Which packages a distribution has; its own name first, for a release that does not tell.
_RPM_SYSTEMS = ("rhel", "redhat", "centos", "rocky", "almalinux", "alma", "ol", "oracle", "fedora", "amzn", "amazon", "scientific",
                "azurelinux", "mariner", "photon", "openeuler", "anolis", "alinux", "virtuozzo")
_SUSE_SYSTEMS = ("sles", "sled", "suse", "opensuse", "opensuse-leap", "opensuse-tumbleweed", "sle_hpc")
_RPM_RELEASE = re.compile(r"\.(?:el\d|fc\d|amzn\d|azl\d|cm\d|oe\d|al\d|an\d)")
_SUSE_RELEASE = re.compile(r"\d[\w.]*-[\d.]+-(default|64kb|azure|rt|preempt)")
_DEB_RELEASE = re.compile(r"\d[\w.+~]*-(?:[\w.+~]+-)*[a-z][a-z0-9-]*")


def headers_package(release, system=None):
    """The package that module builds need for exactly this kernel, with its version where the name holds none; None when unknown.

    linux-headers-RELEASE on Debian and Ubuntu, kernel-devel-RELEASE on RPM systems, where a variant that uname appends
    (5.14.0-570.12.1.el9_6.aarch64+64k) is part of the package's name instead (kernel-64k-devel-...aarch64).
    system: the distribution's id, for a release that does not tell its family.
    """
    system = (system or "").lower()
    if release.endswith("-pve"):
        # Proxmox renamed its packages with 6.5.
        return "%s-headers-%s" % ("proxmox" if _numbers(release) >= (6, 5) else "pve", release)
    if _RPM_RELEASE.search(release) or system in _RPM_SYSTEMS:
        return _rpm_package(release)
    suse = _SUSE_RELEASE.fullmatch(release)
    if suse and (system in _SUSE_SYSTEMS or not system):
        return "kernel-%s-devel-%s" % (suse.group(1), release[:-len(suse.group(1)) - 1])
    if _DEB_RELEASE.fullmatch(release) and system not in _SUSE_SYSTEMS:
        return "linux-headers-" + release
    return None


def image_package(release, system=None):
    """The package that holds exactly this kernel, named as its headers' package is; None when unknown."""
    headers = headers_package(release, system) or ""
    for word, instead in (("linux-headers-", "linux-image-"), ("-headers-", "-kernel-"), ("-devel-", "-")):
        if word in headers:
            return headers.replace(word, instead, 1)
    return None


def _rpm_package(release):
    version, plus, variant = release.partition("+")
    if plus:
        # kernel-rt-debug-devel belongs to RELEASE+rt-debug; a plain variant stands alone.
        return "kernel-%s-devel-%s" % (variant.replace("+", "-"), version)
    if re.search(r"el\d+uek", version):
        return "kernel-uek-devel-" + version
    if re.search(r"\.rt\d+\.", version):
        return "kernel-rt-devel-" + version
    line = _numbers(version)[:2]
    # Amazon Linux 2023 names every line after its first one, and those packages are not the plain ones.
    if ".amzn2023" in version and line > (6, 1):
        return "kernel%d.%d-devel-%s" % (line + (version,))
    return "kernel-devel-" + version


def _numbers(release):
    """The numbers of the upstream version: 6.12.74+deb13+1-amd64 -> (6, 12, 74)."""
    return tuple(int(number) for number in re.match(r"[\d.]*", release, re.ASCII).group().split(".")[:3] if number and len(number) < 10)
