# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The right sets, written by hand: what has to be on a node for a driver, a toolkit, a fabric at one exact version.

An oracle beside compat/: nothing in here is read from the collection or from the tables of the stub repositories.
"""
from __future__ import annotations

TOOLKIT = ("nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1")
FABRIC = ("nvidia-fabricmanager", "libnvidia-nscq", "nvidia-imex", "libnvsdm")
# Signed kernels: the metapackages of one flavour, which only move together.
KERNEL_METAS = ("linux-generic", "linux-image-generic", "linux-headers-generic")
EL_KERNEL = ("kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-devel")


def each(names, version):
    """{name: version} of several names at one version."""
    return dict.fromkeys(names, version)


def upstream(version):
    """580.126.20 of 580.126.20-1ubuntu1 or 3:580.126.20-1.el9."""
    return version.split(":")[-1].split("-")[0]


def suffixed_driver(version, flavour="", firmware=True):
    """The sixteen packages of a driver whose names carry the branch (NVIDIA's Ubuntu repositories up to 580)."""
    branch = version.split(".")[0]
    names = ["%s-%s" % (name, branch) for name in (
        "libnvidia-common", "libnvidia-compute", "libnvidia-extra", "libnvidia-cfg1", "libnvidia-fbc1", "libnvidia-decode",
        "libnvidia-encode", "libnvidia-gl", "nvidia-utils", "nvidia-compute-utils", "xserver-xorg-video-nvidia", "nvidia-kernel-common")]
    names += ["%s-%s%s" % (name, branch, flavour) for name in ("nvidia-kernel-source", "nvidia-dkms", "nvidia-driver")]
    names += ["nvidia-firmware-%s-%s" % (branch, upstream(version))] if firmware else []
    return each(names, version)


def suffixed_compute(version, flavour=""):
    """The nine packages of such a driver without anything for a display."""
    branch = version.split(".")[0]
    names = ["%s-%s" % (name, branch) for name in (
        "nvidia-kernel-common", "nvidia-utils", "nvidia-compute-utils", "libnvidia-compute", "libnvidia-cfg1")]
    names += ["%s-%s%s" % (name, branch, flavour) for name in ("nvidia-headless-no-dkms", "nvidia-dkms", "nvidia-kernel-source")]
    return each([*names, "nvidia-firmware-%s-%s" % (branch, upstream(version))], version)


def words(packages):
    """{name: version} as apt-get's arguments."""
    return ["%s=%s" % item for item in sorted(packages.items())]
