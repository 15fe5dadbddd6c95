# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each platform must be after the run: written by hand, not taken from the stacks."""

from __future__ import annotations

import json
import os
import pathlib

import pytest

REPORTS = pathlib.Path(os.environ["MOLECULE_PROJECT_DIRECTORY"]) / ".lockstep" / "molecule"

EXPECTED = {
    "lockstep-debian12": {
        "kernel": "6.1.0-50-amd64", "driver": "535.261.03", "module": "nvidia-current", "alternative": "/usr/lib/nvidia/current",
        "nvcc": "release 11.8, V11.8.89", "cuda_driver_api": 12020, "nccl": None,
        "packages": {
            "linux-image-6.1.0-50-amd64": "6.1.176-1", "linux-headers-6.1.0-50-amd64": "6.1.176-1",
            "nvidia-kernel-dkms": "535.261.03-1", "libcuda1": "535.261.03-1", "libnvidia-ml1": "535.261.03-1",
            "nvidia-smi": "535.261.03-1", "nvidia-cuda-toolkit": "11.8.89~11.8.0-5~deb12u1", "rdma-core": "44.0-2",
        },
    },
    "lockstep-debian13": {
        "kernel": "6.12.117+deb13-amd64", "driver": "550.163.01", "module": "nvidia-current",
        "alternative": "/usr/lib/nvidia/current", "nvcc": "release 12.4, V12.4.131", "cuda_driver_api": 12040, "nccl": 22203,
        "packages": {
            "linux-image-6.12.117+deb13-amd64": "6.12.117-1", "linux-headers-6.12.117+deb13-amd64": "6.12.117-1",
            "nvidia-kernel-dkms": "550.163.01-2", "libcuda1": "550.163.01-2", "libnvidia-ml1": "550.163.01-2",
            "nvidia-smi": "550.163.01-2", "nvidia-persistenced": "550.163.01-1",
            "nvidia-cuda-toolkit": "12.4.131~12.4.1-2", "rdma-core": "56.1-1", "libnccl2": "2.22.3-1-1", "libnccl-dev": "2.22.3-1-1",
        },
    },
}


@pytest.fixture
def name(host):
    """The node's name."""
    return host.backend.host


@pytest.fixture
def expected(name):
    """What the node must be."""
    return EXPECTED[name]


@pytest.fixture
def report(name):
    """What the last run reported about the node."""
    return json.loads((REPORTS / "site-report.json").read_text(encoding="utf-8"))["nodes"][name]


@pytest.fixture
def plan(name):
    """What the check on the fresh node reported."""
    return json.loads((REPORTS / "site-plan.json").read_text(encoding="utf-8"))["nodes"][name]
