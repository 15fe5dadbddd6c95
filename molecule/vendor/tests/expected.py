# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each platform must be after the run: written by hand, nothing of it is read from the collection's tables.

PLATFORMS[platform]: kind of boards; vendor, the repositories that tests change; kernel, driver, licence of the module;
packages: {name: version} of everything but CUDA's parts; parts: some of those, which a metapackage would not give;
guarded: {name: version} of what comes later; added: the repositories that the run declares; the answers of libraries;
dkms: the module's name there, where it is not nvidia; library: one of the driver's; floats: what an owner may have moved;
another patch level; versions of other branches.
"""

from __future__ import annotations

import copy
import os
import pathlib

import yaml

STACKS = pathlib.Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / "stacks"


def each(names, version):
    """{name: version} of several names at one version."""
    return dict.fromkeys(names.split(), version)


def stack(name, version=None, only=None, **driver):
    """A shipped stack, with another driver version, some components only, or other words about the driver."""
    found = copy.deepcopy(yaml.safe_load((STACKS / (name + ".yml")).read_text(encoding="utf-8")))
    found["driver"].update(driver, **({"version": version} if version else {}))
    return {key: value for key, value in found.items() if only is None or key in ("os", *only)}


def ubuntu_kernel(release, version):
    """A kernel of Ubuntu's archive."""
    names = "linux-image-{0}-generic linux-headers-{0}-generic linux-headers-{0} linux-modules-{0}-generic linux-modules-extra-{0}-generic"
    return each(names.format(release), version)


# The suffixed driver without anything for a display, and nvidia-modprobe, which no dependency keeps at the version.
SUFFIXED = ("nvidia-dkms-{0}{1} nvidia-kernel-source-{0}{1} nvidia-kernel-common-{0} nvidia-utils-{0} nvidia-compute-utils-{0}"
            " libnvidia-compute-{0} libnvidia-cfg1-{0} nvidia-firmware-{0}-{2} nvidia-modprobe")
TOOLKIT = "nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1"
DCGM4 = ("datacenter-gpu-manager-4-core datacenter-gpu-manager-4-cuda13 datacenter-gpu-manager-4-proprietary"
         " datacenter-gpu-manager-4-proprietary-cuda13")
EL_KERNEL = "kernel kernel-core kernel-modules kernel-modules-core kernel-devel"
EL_DRIVER = ("nvidia-driver-cuda nvidia-driver-cuda-libs nvidia-kmod-common nvidia-modprobe nvidia-persistenced libnvidia-cfg libnvidia-gpucomp"
             " libnvidia-ml")
DEBIAN_DRIVER = ("nvidia-driver-cuda nvidia-kernel-open-dkms nvidia-kernel-support nvidia-alternative nvidia-modprobe nvidia-persistenced"
                 " nvidia-opencl-icd firmware-nvidia-gsp libcuda1 libcudadebugger1 libnvidia-cfg1 libnvidia-ml1 libnvidia-nvvm4"
                 " libnvidia-ptxjitcompiler1")
CUDA_12_8 = {"cuda-toolkit-12-8": "12.8.0-1", "cuda-libraries-12-8": "12.8.0-1", "cuda-nvcc-12-8": "12.8.61-1", "cuda-cudart-12-8": "12.8.57-1",
             "libcublas-12-8": "12.8.3.14-1", "libcusolver-12-8": "11.7.2.55-1", "libcufft-12-8": "11.3.3.41-1", "libnvjitlink-12-8": "12.8.61-1",
             "libnpp-12-8": "12.3.3.65-1", "cuda-cupti-12-8": "12.8.57-1", "cuda-nvrtc-12-8": "12.8.61-1", "gds-tools-12-8": "1.13.0.11-1"}
BASE = ("kernel", "driver", "fabric")

PLATFORMS = {
    "ubuntu2204": {
        "stack": "ubuntu2204-550", "kind": "a100", "vendor": ["ubuntu2204-cuda"], "added": ["ubuntu2204-cuda", "container-toolkit-deb"],
        "kernel": "5.15.0-190-generic", "driver": "550.163.01", "licence": "NVIDIA",
        "packages": {
            **ubuntu_kernel("5.15.0-190", "5.15.0-190.200"), **each(SUFFIXED.format("550", "", "550.163.01"), "550.163.01-0ubuntu1"),
            **each("nvidia-fabricmanager-550 libnvidia-nscq-550", "550.163.01-1"), **each("libnccl2 libnccl-dev", "2.21.5-1+cuda12.4"),
            **each(TOOLKIT, "1.17.8-1"), "datacenter-gpu-manager": "1:3.3.9"},
        "parts": {"cuda-toolkit-12-4": "12.4.1-1", "cuda-libraries-12-4": "12.4.1-1", "cuda-nvcc-12-4": "12.4.131-1", "cuda-cudart-12-4": "12.4.127-1",
                  "libcublas-12-4": "12.4.5.8-1", "libcusolver-12-4": "11.6.1.9-1", "libnpp-12-4": "12.2.5.30-1"},
        "guarded": {**each("nvidia-driver-550 libnvidia-gl-550 libnvidia-decode-550 xserver-xorg-video-nvidia-550", "550.163.01-0ubuntu1"),
                    "nvidia-imex-550": "550.163.01-1"},
        "cuda_driver_api": 12040, "nccl": 22105, "nvcc": "release 12.4, V12.4.131",
        "library": "libnvidia-cfg1-550", "floats": ("nvidia-modprobe", "610.57.04-1ubuntu1"), "patch_level": "550.90.07",
        "branches": ["535.183.01", "550.163.01", "570.172.08", "580.126.20"],
    },
    "ubuntu2404": {
        "stack": "ubuntu2404-580", "kind": "h100", "vendor": ["ubuntu2404-cuda"], "added": ["ubuntu2404-cuda", "container-toolkit-deb"],
        "kernel": "6.8.0-79-generic", "driver": "580.126.20", "licence": "Dual MIT/GPL",
        "packages": {
            **ubuntu_kernel("6.8.0-79", "6.8.0-79.79"), **each(SUFFIXED.format("580", "-open", "580.126.20"), "580.126.20-1ubuntu1"),
            **each("nvidia-fabricmanager libnvidia-nscq", "580.126.20-1"), **each("libnccl2 libnccl-dev", "2.26.2-1+cuda12.8"),
            **each(TOOLKIT, "1.18.2-1"), **each(DCGM4, "1:4.5.2-1"),
            **each("rdma-core ibverbs-providers ibverbs-utils libibverbs1", "50.0-2build2")},
        "parts": CUDA_12_8,
        "guarded": {**each("nvidia-open-580 nvidia-driver-580-open libnvidia-gl-580 nvidia-settings", "580.126.20-1ubuntu1"),
                    **each("nvidia-imex libnvsdm", "580.126.20-1")},
        "cuda_driver_api": 13000, "nccl": 22602, "nvcc": "release 12.8, V12.8.61",
        "library": "libnvidia-cfg1-580", "floats": ("nvidia-modprobe", "610.57.04-1ubuntu1"), "patch_level": "580.159.04",
        "branches": ["550.90.07", "570.172.08", "580.126.20"],
    },
    "debian12_nvidia": {
        "stack": "debian12-nvidia-580", "kind": "none", "vendor": ["debian12-cuda"], "added": ["debian12-cuda", "container-toolkit-deb"],
        "kernel": "6.1.0-50-amd64", "driver": "580.126.20", "licence": "Dual MIT/GPL",
        "packages": {
            **each("linux-image-6.1.0-50-amd64 linux-headers-6.1.0-50-amd64 linux-headers-6.1.0-50-common", "6.1.176-1"),
            **each(DEBIAN_DRIVER, "580.126.20-1"), "nvidia-kernel-common": "20220217+3~deb12u1",
            **each("libnccl2 libnccl-dev", "2.25.1-1+cuda12.8"), **each(TOOLKIT, "1.18.2-1"), **each(DCGM4, "1:4.5.2-1")},
        "parts": CUDA_12_8,
        "guarded": each("nvidia-driver nvidia-settings nvidia-imex libnvsdm nvidia-fabricmanager", "580.126.20-1"),
        # Up to 580 the module has Debian's name.
        "dkms": "nvidia-current-open",
        "cuda_driver_api": 13000, "nccl": 22501, "nvcc": "release 12.8, V12.8.61",
        "library": "libnvidia-cfg1", "floats": ("nvidia-modprobe", "610.43.02-1"), "patch_level": "580.178.04",
        "branches": ["535.161.08", "550.54.15", "570.133.20", "580.126.20"],
    },
    "el9": {
        "stack": "rocky9-580", "kind": "v100", "vendor": ["rhel9-cuda"], "added": ["rhel9-cuda", "container-toolkit-rpm"],
        "kernel": "5.14.0-570.18.1.el9_6.x86_64", "driver": "580.126.20", "licence": "NVIDIA",
        "packages": {
            **each(EL_KERNEL, "5.14.0-570.18.1.el9_6"), **each(EL_DRIVER + " kmod-nvidia-latest-dkms", "3:580.126.20-1.el9"),
            **each("libnccl libnccl-devel", "2.25.1-1+cuda12.8"), **each(TOOLKIT, "1.18.2-1"), **each(DCGM4, "1:4.5.2-1")},
        "parts": dict(CUDA_12_8, **{"libcublas-devel-12-8": "12.8.3.14-1"}),
        "guarded": {**each("nvidia-settings nvidia-libXNVCtrl", "3:580.126.20-1.el9"),
                    **each("nvidia-fabricmanager nvidia-imex libnvsdm", "580.126.20-1")},
        "cuda_driver_api": 13000, "nccl": 22501, "nvcc": "release 12.8, V12.8.61",
        "library": "libnvidia-cfg", "patch_level": "580.105.08", "branches": ["535.183.01", "550.163.01", "570.211.01", "580.126.20"],
    },
    "el10": {
        "stack": "rocky10-580", "kind": "b200", "vendor": ["el10-cuda"], "added": ["el10-cuda", "container-toolkit-rpm"],
        "kernel": "6.12.0-124.8.1.el10_1.x86_64", "driver": "580.126.20", "licence": "Dual MIT/GPL",
        "packages": {
            **each(EL_KERNEL, "6.12.0-124.8.1.el10_1"), **each(EL_DRIVER + " kmod-nvidia-open-dkms", "3:580.126.20-1.el10"),
            **each("nvidia-fabricmanager libnvidia-nscq nvidia-imex libnvsdm", "580.126.20-1"), "nvlsm": "2025.10.14-1",
            **each("libnccl libnccl-devel", "2.28.9-1+cuda13.0"), **each(TOOLKIT, "1.18.2-1"), **each(DCGM4, "1:4.5.2-1")},
        "parts": {"cuda-toolkit-13-0": "13.0.0-1", "cuda-libraries-13-0": "13.0.0-1", "cuda-nvcc-13-0": "13.0.48-1", "libcublas-13-0": "13.0.0.19-1"},
        "guarded": each("nvidia-settings nvidia-libXNVCtrl", "3:580.126.20-1.el10"),
        "cuda_driver_api": 13000, "nccl": 22809, "nvcc": "release 13.0, V13.0.48",
        "library": "libnvidia-cfg", "patch_level": "580.105.08", "branches": ["580.126.20", "590.48.01"],
    },
}
