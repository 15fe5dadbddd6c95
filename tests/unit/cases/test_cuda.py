# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about CUDA on a node: the parsed values, what must not be done, and other recordings of the same kinds."""
from __future__ import annotations

import pytest

from . import case
from .recorded import failed, found, judged

HEADING = "| NVIDIA-SMI %s   Driver Version: %s   CUDA Version: %s     |\n"
NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release %s, V%s\n"


def test_cuda_02_the_active_toolkit():
    want, state, record = case.expected("cuda-02")["parsed"], case.state("cuda-02"), case.record("cuda-02")
    assert state["cuda"]["active_release"] == want["active_toolkit"]
    assert [row["release"] for row in state["cuda"]["toolkits"]] == want["installed_toolkits"]
    assert state["smi"]["cuda_max"] == want["driver_cuda_max"]
    assert record["plan"] == [{"action": "set_alternative", "target": "cuda", "path": "/usr/local/cuda-11.8"}]
    assert {row["code"] for row in record["findings"]} == {"active_cuda_differs", "extra_cuda_toolkit"}


@pytest.mark.parametrize("links", [
    "/usr/local/cuda -> /etc/alternatives/cuda\n/etc/alternatives/cuda -> /usr/local/cuda-12.4\n",
    "lrwxrwxrwx 1 root root 22 Jan  1 00:00 /usr/local/cuda -> /etc/alternatives/cuda\n"
    "lrwxrwxrwx 1 root root 22 Jan  1 00:00 /etc/alternatives/cuda -> /usr/local/cuda-12.4\n",
    "/usr/local/cuda -> cuda-12.4/\n", "/usr/local/cuda: symbolic link to /usr/local/cuda-12.4\n",
    "cuda - manual mode\n  link best version is /usr/local/cuda-12.6\n  link currently points to /usr/local/cuda-12.4\n  link cuda is /usr/local/cuda\n"
    "/usr/local/cuda-12.4 - priority 124\n/usr/local/cuda-12.6 - priority 126\n",
    "/usr/local/cuda-12.4/bin/nvcc\n/usr/local/cuda -> /usr/local/cuda-12.4\n",
])
def test_links_as_people_record_them(links):
    record = judged({"lock": {"cuda": "12.4"}}, cuda_paths=links)
    assert record["state"]["cuda"]["active"] == "/usr/local/cuda-12.4" and record["state"]["unknown"] == []
    assert record["verdict"] == "in_sync" and not found(record, "active_cuda_differs")
    other = judged({"lock": {"cuda": "11.8"}}, cuda_paths=links)
    assert found(other, "active_cuda_differs") == [("lock 11.8, /usr/local/cuda is 12.4", "error", "drift")]


@pytest.mark.parametrize(("lock", "expected"), [("12.4", []), ("12.4.1", []), ("12", []), ("12.6", ["lock 12.6, /usr/local/cuda is 12.4"])])
def test_a_release_is_compared_as_far_as_both_tell(lock, expected):
    record = judged({"lock": {"cuda": lock}}, nvcc_version=NVCC % ("12.4", "12.4.131"), nvidia_smi=HEADING % ("575.57.08", "575.57.08", "12.9"))
    assert [row[0] for row in found(record, "active_cuda_differs")] == expected


def test_a_toolkit_that_is_not_there_is_installed_first():
    record = judged({"lock": {"cuda": "12.6"}}, cuda_paths="/usr/local/cuda -> /usr/local/cuda-12.4\n", cuda_dirs="/usr/local/cuda-12\n/usr/local/cuda-12.4\n")
    assert [(step["action"], step["target"]) for step in record["plan"]] == [("install_exact", "cuda-toolkit-12-6"), ("set_alternative", "cuda")]
    assert [row["release"] for row in record["state"]["cuda"]["toolkits"]] == ["12.4"]


def test_a_toolkit_newer_than_the_driver_within_its_major_release_is_right():
    assert judged({}, nvidia_smi=HEADING % ("525.147.05", "525.147.05", "12.0"), nvcc_version=NVCC % ("12.4", "12.4.131"))["findings"] == []


def test_a_driver_below_the_floor_of_the_toolkit():
    record = judged({}, nvidia_smi=HEADING % ("470.256.02", "470.256.02", "11.4"), nvcc_version=NVCC % ("12.4", "12.4.131"))
    assert found(record, "cuda_not_supported_by_driver") == [("cuda 12.4@470.256.02", "error", "broken")]
    boards = judged({"lock": {"cuda": "12.4.1"}}, nvidia_smi_query="NVIDIA A100-SXM4-80GB, 470.256.02\n")
    assert found(boards, "cuda_needs_compat") == [("cuda 12.4.1@470.256.02", "error", "broken")]
    assert [step["target"] for step in boards["plan"]] == ["cuda-compat-12-4"]


def test_a_gpu_that_the_toolkit_dropped():
    record = judged({}, nvidia_smi_query="Tesla V100-SXM2-16GB, 580.95.05\n", nvcc_version=NVCC % ("13.0", "13.0.48"))
    assert found(record, "cuda_dropped_gpu") == [("Tesla V100-SXM2-16GB@13.0", "error", "broken")]


LOADER = "\tlibcuda.so.1 (libc6,x86-64) => %s/libcuda.so.1 -> %s/libcuda.so.%s\n\tlibnvidia-ml.so.1 (libc6,x86-64) => /lib/x/libnvidia-ml.so.1\n"
MODULE = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb 17 22:55:48 UTC 2024\n"
A100 = "07:00.0 3D controller [0302]: NVIDIA Corporation GA100 [A100 SXM4 80GB] [10de:20b2] (rev a1)\n"
P4 = "07:00.0 VGA compatible controller [0300]: NVIDIA Corporation GB202GL [RTX PRO 6000 Blackwell] [10de:2bb1] (rev a1)\n"


@pytest.mark.parametrize(("version", "bus", "expected"), [
    ("550.54.15", A100, [("libcuda.so.1 550.54.15", "info", "in_sync")]), ("550.54.15", P4, [("libcuda.so.1 550.54.15", "error", "broken")]),
    ("525.60.13", A100, [("libcuda.so.1 525.60.13", "error", "broken")]), ("535.161.08", A100, []),
])
def test_a_compat_library_before_the_drivers_own(version, bus, expected):
    folder = "/usr/local/cuda-12.4/compat"
    record = judged({}, loader_libraries=LOADER % (folder, folder, version), proc_driver_version=MODULE, pci_devices=bus)
    assert found(record, "libcuda_shadowed_by_compat") == expected and not found(record, "driver_library_mismatch")


def test_a_stub_that_the_loader_takes():
    folder = "/usr/local/cuda/lib64/stubs"
    assert [row[0] for row in found(judged({}, loader_libraries=LOADER % (folder, folder, "1")), "libcuda_not_usable")] == [folder + "/libcuda.so.1"]


@pytest.mark.parametrize(("text", "code"), [
    ("-> CUDA driver version is insufficient for CUDA runtime version\nResult = FAIL\n", "cuda_not_supported_by_driver"),
    ("RuntimeError: Error 804: forward compatibility was attempted on non supported HW\n", "libcuda_shadowed_by_compat"),
    ("Error 803: system has unsupported display driver / cuda driver combination\n", "libcuda_not_usable"),
])
def test_what_a_program_says(text, code):
    record = judged({}, cuda_run=failed(text))
    assert [(row[1], row[2]) for row in found(record, code)] == [("error", "broken")]
    assert judged({}, cuda_run="  CUDA Driver Version / Runtime Version          12.2 / 12.4\nResult = PASS\n")["findings"] == []
