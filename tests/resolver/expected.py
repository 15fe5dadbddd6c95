# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The right sets, written by hand: what has to be on a node for a driver, a toolkit, a fabric at one exact version.

An oracle beside compat/: nothing in here is read from the collection or from the tables of the stub repositories.
"""
from __future__ import annotations

import re

TOOLKIT = ("nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1")
FABRIC = ("nvidia-fabricmanager", "libnvidia-nscq", "nvidia-imex", "libnvsdm")
# NVIDIA's list of what CUDA 12.8.0 is made of: every part has a version of its own.
TOOLKIT_12_8_0 = {
    "12.8.55-1": "cuda-cccl cuda-cuobjdump cuda-cuxxfilt cuda-documentation cuda-gdb cuda-nsight cuda-nvdisasm "
                 "cuda-nvml-dev cuda-nvprune cuda-nvtx cuda-opencl cuda-profiler-api cuda-sanitizer libnvfatbin libnvfatbin-dev",
    "12.8.57-1": "cuda-cudart cuda-cudart-dev cuda-cupti cuda-cupti-dev cuda-driver-dev cuda-nvprof cuda-nvvp",
    "12.8.61-1": "cuda-crt cuda-nvcc cuda-nvrtc cuda-nvrtc-dev cuda-nvvm libnvjitlink libnvjitlink-dev",
    "12.8.0-1": "cuda-command-line-tools cuda-compiler cuda-libraries cuda-libraries-dev "
                "cuda-nsight-compute cuda-nsight-systems cuda-toolkit cuda-tools cuda-visual-tools",
    "12.8.3.14-1": "libcublas libcublas-dev",
    "11.3.3.41-1": "libcufft libcufft-dev",
    "1.13.0.11-1": "libcufile libcufile-dev gds-tools",
    "10.3.9.55-1": "libcurand libcurand-dev",
    "11.7.2.55-1": "libcusolver libcusolver-dev",
    "12.5.7.53-1": "libcusparse libcusparse-dev",
    "12.3.3.65-1": "libnpp libnpp-dev",
    "12.3.5.57-1": "libnvjpeg libnvjpeg-dev",
}
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


def toolkit_12_8_0(compiling="-dev"):
    """The packages of CUDA 12.8.0's toolkit. compiling: what ends the names of those for compiling, -dev (apt) or -devel (dnf).

    cuda-toolkit-config-common and cuda-toolkit-12-config-common are shared with other releases, and not part of it.
    """
    names = {re.sub("-dev$", compiling, name) + "-12-8": version for version, words in TOOLKIT_12_8_0.items() for name in words.split()}
    # The one part whose version has a word in it, which the two managers spell differently.
    systems = "2024.6.2.225-246235244400v0" if compiling == "-dev" else "2024.6.2.225_246235244400v0-0"
    return dict(names, **{"cuda-toolkit-12-8-config-common": "12.8.57-1", "nsight-compute-2025.1.0": "2025.1.0.14-1", "nsight-systems-2024.6.2": systems})
