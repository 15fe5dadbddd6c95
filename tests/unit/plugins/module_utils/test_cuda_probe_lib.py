# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decoders of the run-time proof, and real libraries and programs in limited children."""

from __future__ import annotations

import ctypes.util

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.lockstep.gpu.plugins.module_utils import cuda_probe_lib as lib
from ansible_collections.lockstep.gpu.plugins.module_utils.run import Result

NVCC = """nvcc: NVIDIA (R) Cuda compiler driver
Copyright (c) 2005-2024 NVIDIA Corporation
Built on Thu_Mar_28_02:18:24_PDT_2024
Cuda compilation tools, release 12.4, V12.4.131
Build cuda_12.4.r12.4/compiler.34097967_0
"""
LDCONFIG = """84 libs found in cache `/etc/ld.so.cache'
\tlibcudart.so.12 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcudart.so.12
\tlibcudart.so.11.0 (libc6,x86-64) => /usr/local/cuda-11.8/lib64/libcudart.so.11.0
\tlibcudart.so (libc6,x86-64) => /lib/x86_64-linux-gnu/libcudart.so
"""
KERNEL = "6.12.117+deb13-amd64"


@pytest.mark.parametrize("number, text", [(12040, "12.4"), (11080, "11.8"), (13000, "13.0"), (10020, "10.2")])
def test_cuda_numbers(number, text):
    assert lib.decode_cuda(number) == text


@pytest.mark.parametrize("number, text", [(22203, "2.22.3"), (2703, "2.7.3"), (2804, "2.8.4"), (20903, "2.9.3"), (22005, "2.20.5")])
def test_nccl_numbers(number, text):
    assert lib.decode_nccl(number) == text


@given(st.integers(1, 9), st.integers(9, 99), st.integers(0, 99))
def test_nccl_number_as_its_header_makes_it(major, minor, patch):
    assert lib.decode_nccl(major * 10000 + minor * 100 + patch) == "%d.%d.%d" % (major, minor, patch)


def test_row_is_proven_only_by_a_measured_and_agreeing_value():
    assert lib.row("nvcc", "12.4.131", "x", True, "12.4")["proven"]
    assert lib.row("nvcc", "12.4.131", "x")["proven"]
    assert not lib.row("nvcc", None, "x")["proven"]
    assert not lib.row("nvml", "550.1", "x", False, "550.1")["proven"]
    wrong = lib.row("libcuda", "550.163.01", "x", True, "535.274.02")
    assert not wrong["proven"]
    assert wrong["detail"].startswith("is 550.163.01, expected 535.274.02")


def test_an_expectation_never_ends_inside_a_number():
    assert not lib.agrees("12.40.1", "12.4")
    assert lib.agrees("12.4", "12.4")
    assert lib.agrees(8, 8)


def test_nvcc_version():
    assert lib.parse_nvcc(NVCC) == {"release": "12.4", "version": "12.4.131"}
    assert lib.parse_nvcc("nvcc: not found") is None


def test_cudart_sonames_newest_first():
    assert lib.cudart_sonames(LDCONFIG) == ["libcudart.so.12", "libcudart.so.11.0"]
    assert lib.cudart_sonames("") == []


@pytest.mark.parametrize("expected, soname", [
    (None, "libcudart.so.12"), ("12.4", "libcudart.so.12"), ("11.8", "libcudart.so.11.0"), ("13.0", "libcudart.so.12")])
def test_cudart_of_the_expected_major_release(expected, soname):
    assert lib.cudart_soname(LDCONFIG, expected) == soname
    assert lib.cudart_soname("", expected) is None


def test_version_in_nvidia_smi():
    assert lib.embedded_version(b"\0GPU\x00550.163.01\0%s\x0012.4\0") == "550.163.01"
    assert lib.embedded_version(b"\x00550.163.01\0\x00535.261.03\0") is None
    assert lib.embedded_version(b"x550.163.01\0") is None


def test_modprobe_of_debian_alias():
    assert lib.alias_target("install modprobe -i nvidia-current $CMDLINE_OPTS \n") == "nvidia-current"
    assert lib.alias_target("install modprobe nvidia ; modprobe -i nvidia-current-uvm $CMDLINE_OPTS \n") == "nvidia-current-uvm"
    assert lib.alias_target("insmod /lib/modules/x/nvidia.ko \n") is None
    assert lib.alias_target("") is None
    assert lib.insmod_path("insmod /lib/modules/x/drm.ko.xz \ninsmod /lib/modules/x/nvidia-current.ko.xz \n").endswith("nvidia-current.ko.xz")
    assert lib.insmod_path("builtin drm\n") is None


def test_modprobe_row_follows_the_install_line(monkeypatch):
    answers = {"nvidia": "install modprobe -i nvidia-current $CMDLINE_OPTS \n",
               "nvidia-current": "insmod /lib/modules/%s/updates/dkms/nvidia-current.ko.xz \n" % KERNEL}
    monkeypatch.setattr(lib, "find_tool", lambda name: "/sbin/" + name)
    monkeypatch.setattr(lib, "run_limited", lambda argv, seconds: Result(0, answers[argv[-1]], ""))
    row = lib.modprobe_row("nvidia", KERNEL, 5, "nvidia-current")
    assert row["proven"]
    assert row["value"] == "nvidia-current"
    assert not lib.modprobe_row("nvidia", KERNEL, 5, "nvidia-current-open")["proven"]


def test_modprobe_row_without_module(monkeypatch):
    monkeypatch.setattr(lib, "find_tool", lambda name: "/sbin/" + name)
    monkeypatch.setattr(lib, "run_limited", lambda argv, seconds: Result(1, "", "modprobe: FATAL: Module nvidia not found\n"))
    row = lib.modprobe_row("nvidia", KERNEL, 5, None)
    assert row["value"] is None
    assert "FATAL: Module nvidia not found" in row["detail"]


def test_a_real_library_is_loaded_in_a_child():
    soname = ctypes.util.find_library("z") or ctypes.util.find_library("c")
    found = lib.load(soname, "", 10)
    assert found["path"].startswith("/")
    assert soname.split(".so")[0] in found["path"]


def test_absent_library_and_function():
    assert "cannot open shared object file" in lib.load("libnothere.so.1", "", 10)["error"]
    assert "no_such_function" in lib.load(ctypes.util.find_library("c"), "no_such_function", 10)["error"]


def test_crash_and_hang_cost_one_row():
    libc = ctypes.util.find_library("c")
    assert "signal 6" in lib.load(libc, "abort", 10)["error"]
    assert "within 0.5 s" in lib.load(libc, "pause", 0.5)["error"]


def test_library_row_prefers_the_file(monkeypatch):
    monkeypatch.setattr(lib, "load", lambda *args: {"path": "/usr/lib/nvidia/libcuda.so.550.163.01", "rc": 0, "value": 12040})
    row = lib.library_row("libcuda", "libcuda.so.1", "cuDriverGetVersion", lib.decode_cuda, 5, "550.163.01")
    assert (row["value"], row["api"], row["proven"]) == ("550.163.01", "12.4", True)


def test_library_row_without_suffix_or_answer(monkeypatch):
    monkeypatch.setattr(lib, "load", lambda *args: {"path": "/opt/libnccl.so.2", "rc": 0, "value": 22203})
    assert lib.library_row("libnccl", "libnccl.so.2", "ncclGetVersion", lib.decode_nccl, 5, None)["value"] == "2.22.3"
    monkeypatch.setattr(lib, "load", lambda *args: {"path": "/opt/libcudart.so.11.8.89", "rc": 100, "value": 0})
    row = lib.library_row("libcudart", "libcudart.so.11.0", "cudaRuntimeGetVersion", lib.decode_cuda, 5, "11.8")
    assert (row["value"], row["api"], row["proven"]) == ("11.8.89", None, True)
    assert "returns 100" in row["detail"]


def test_nvml_without_a_driver(monkeypatch):
    monkeypatch.setattr(lib, "load", lambda *args: {"path": "/x/libnvidia-ml.so.550.163.01", "rc": 9, "text": "Driver Not Loaded"})
    file_row, driver_row = lib.nvml_rows("libnvidia-ml.so.1", True, 5, {"nvml": "550.163.01"})
    assert (file_row["value"], file_row["proven"]) == ("550.163.01", True)
    assert (driver_row["value"], driver_row["proven"]) == (None, False)
    assert "Driver Not Loaded (9)" in driver_row["detail"]


def test_module_rows(monkeypatch):
    known = {"nvidia": "/lib/modules/k/nvidia.ko", "old": "/lib/modules/k/old.ko"}
    text = "filename: %s\nversion: 550.1\nlicense: NVIDIA\nvermagic: %s SMP\n"
    monkeypatch.setattr(lib.module_files, "find", lambda folder, names: known)
    rows = lib.module_rows(lambda argv, ok: Result(0, text % (known["nvidia"], KERNEL) + text % (known["old"], "6.1"), ""),
                           KERNEL, ["nvidia", "old", "gone"], {"module:nvidia": "550.1"})
    assert [(row["subject"], row["value"], row["proven"]) for row in rows] == [
        ("module:nvidia", "550.1", True), ("module:old", "550.1", False), ("module:gone", None, False)]


def test_initramfs(tmp_path):
    assert not lib.initramfs_row(KERNEL, None, str(tmp_path))["proven"]
    (tmp_path / ("initrd.img-" + KERNEL)).write_text("")
    assert not lib.initramfs_row(KERNEL, None, str(tmp_path))["proven"]
    (tmp_path / ("initrd.img-" + KERNEL)).write_text("x")
    assert lib.initramfs_row(KERNEL, None, str(tmp_path))["proven"]


def test_host_compilers_newest_first(tmp_path):
    for name in ("g++-9", "g++-13", "g++", "g++-13.sh", "gcc-14"):
        (tmp_path / name).write_text("")
    assert lib.host_compilers(str(tmp_path)) == [None, "g++-13", "g++-9"]


@pytest.mark.parametrize("script, values", [
    ("#!/bin/sh\necho 'error 100 no CUDA-capable device is detected'; exit 3\n", ("ok", None, False)),
    ("#!/bin/sh\necho 'right on 8 device(s)'\n", ("ok", "right", True)),
    ("#!/bin/sh\necho 'wrong at 3: -1'; exit 4\n", ("ok", "wrong", False)),
    ("#!/bin/sh\nkill -SEGV $$\n", ("ok", None, False)),
])
def test_compiled_program(tmp_path, monkeypatch, script, values):
    made = tmp_path / "made"
    made.write_text(script)
    made.chmod(0o755)
    nvcc = tmp_path / "nvcc"
    nvcc.write_text('#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\ncp %s "$2"\n' % made)
    nvcc.chmod(0o755)
    monkeypatch.setattr(lib, "find_nvcc", lambda: str(nvcc))
    compiled, program = lib.compile_rows(True, 10, {})
    assert (compiled["value"], program["value"], program["proven"]) == values
    assert not lib.compile_rows(False, 10, {})[1]["proven"]


def test_compiler_failure_is_told(tmp_path, monkeypatch):
    nvcc = tmp_path / "nvcc"
    nvcc.write_text("#!/bin/sh\necho 'gcc: No such file or directory' >&2; exit 1\n")
    nvcc.chmod(0o755)
    monkeypatch.setattr(lib, "find_nvcc", lambda: str(nvcc))
    monkeypatch.setattr(lib, "host_compilers", lambda: [None, "g++-11"])
    compiled, program = lib.compile_rows(True, 10, {})
    assert compiled["detail"] == "nvcc failed: gcc: No such file or directory"
    assert not compiled["proven"]
    assert not program["proven"]
