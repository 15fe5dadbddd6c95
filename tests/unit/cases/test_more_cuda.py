# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More recordings of CUDA toolkits and of what programs say, in the tools' own words."""
from __future__ import annotations

import pytest

from .recorded import failed, found, judged

NVCC = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release %s, V%s\n"
V100 = "06:00.0 3D controller [0302]: NVIDIA Corporation GV100GL [Tesla V100 SXM2 16GB] [10de:1db1] (rev a1)\n"
BOTH = "/usr/local/cuda-11.8", "/usr/local/cuda-12.4"


@pytest.mark.parametrize("text", [
    "/usr/local/cuda  /usr/local/cuda-11  /usr/local/cuda-11.8  /usr/local/cuda-12  /usr/local/cuda-12.4\n", "cuda  cuda-11  cuda-11.8  cuda-12  cuda-12.4\n",
    "bin  cuda  cuda-11.8  cuda-12.4  etc  games  include  lib  man  sbin  share  src\n",
    "total 12\nlrwxrwxrwx  1 root root   22 May  1 10:00 cuda -> /etc/alternatives/cuda\nlrwxrwxrwx  1 root root   25 May  1 10:00 cuda-12 -> "
    "/etc/alternatives/cuda-12\ndrwxr-xr-x 15 root root 4096 May  1 10:00 cuda-12.4\ndrwxr-xr-x 15 root root 4096 May  1 10:00 cuda-11.8\n"])
def test_folders_as_ls_shows_them(text):
    record = judged({"lock": {"cuda": "12.4"}}, cuda_dirs=text)
    assert sorted(row["path"] for row in record["state"]["cuda"]["toolkits"] if row["release"]) == list(BOTH)
    assert found(record, "extra_cuda_toolkit") == [("11.8", "warn", "in_sync")] and record["state"]["unreadable"] == []


def test_no_folder_is_an_answer():
    record = judged({}, cuda_dirs=failed("ls: cannot access '/usr/local/cuda-*': No such file or directory\n", 2))
    assert record["state"]["cuda"]["toolkits"] == [] and record["state"]["unreadable"] == []


@pytest.mark.parametrize("text", [
    "cuda - auto mode\n  link best version is /usr/local/cuda-12.4\n  link currently points to /usr/local/cuda-12.4\n  link cuda is /usr/local/cuda\n"
    "/usr/local/cuda-11.8 - priority 118\n/usr/local/cuda-12.4 - priority 124\n",
    "There are 2 choices for the alternative cuda (providing /usr/local/cuda).\n\n  Selection    Path                  Priority   Status\n"
    "------------------------------------------------------------\n* 0            /usr/local/cuda-12.4   124       auto mode\n"
    "  1            /usr/local/cuda-11.8   118       manual mode\n  2            /usr/local/cuda-12.4   124       manual mode\n\n"
    "Press <enter> to keep the current choice[*], or type selection number: \n"])
def test_what_update_alternatives_shows(text):
    record = judged({"lock": {"cuda": "11.8"}}, cuda_paths=text)
    assert found(record, "active_cuda_differs") == [("lock 11.8, /usr/local/cuda is 12.4", "error", "drift")]
    assert record["plan"] == [{"action": "set_alternative", "target": "cuda", "path": "/usr/local/cuda-11.8"}] and record["state"]["unknown"] == []
    assert judged({"lock": {"cuda": "12.4"}}, cuda_paths=text)["verdict"] == "in_sync"


@pytest.mark.parametrize("text", [
    '{\n   "cuda" : {\n      "name" : "CUDA SDK",\n      "version" : "12.4.20240301"\n   },\n   "cuda_nvcc" : {\n      "name" : "CUDA NVCC",\n'
    '      "version" : "12.4.131"\n   }\n}\n', '{\n   "cuda" : {\n      "name" : "CUDA SDK",\n      "version" : "12.4.1"\n   },\n   "cuda_cccl" : {\n',
    '   "cuda" : {\n      "name" : "CUDA SDK",\n      "version" : "12.4.1"\n--\n', "CUDA Version 12.4.1\n"])
def test_one_version_file_or_its_beginning(text):
    for lock, codes in (("12.4.1", []), ("12.4", []), ("12.6", ["active_cuda_differs"])):
        assert [row["code"] for row in judged({"lock": {"cuda": lock}}, cuda_versions=text)["findings"]] == codes


def test_what_pytorch_says_of_an_old_driver():
    record = judged({}, cuda_run=failed("RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update it\n"))
    assert found(record, "cuda_not_supported_by_driver")[0][1:] == ("error", "broken") and "up to CUDA 11.4" in record["findings"][0]["message"]


@pytest.mark.parametrize(("release", "arch", "code", "subject"), [
    ("13.0", "70", "cuda_dropped_gpu", "compute 7.0@13.0"), ("11.4", "90", "cuda_too_old_for_gpu", "compute 9.0@11.4"), ("12.4", "70", None, None)])
def test_an_architecture_that_nvcc_refuses(release, arch, code, subject):
    record = judged({}, cuda_run=failed("nvcc fatal   : Unsupported gpu architecture 'compute_%s'\n" % arch), nvcc_version=NVCC % (release, release + ".1"))
    assert [(row["code"], row["subject"]) for row in record["findings"]] == ([(code, subject)] if code else [])


def test_the_gpu_of_a_refused_architecture_is_told_once():
    record = judged({}, cuda_run=failed("nvcc fatal   : Unsupported gpu architecture 'compute_70'\n"), nvcc_version=NVCC % ("13.0", "13.0.88"),
                    pci_devices=V100)
    assert [row[0] for row in found(record, "cuda_dropped_gpu")] == ["10de:1db1@13.0"]


@pytest.mark.parametrize(("name", "weight"), [("NVIDIA GeForce RTX 4090", ("error", "broken")), ("NVIDIA A100-PCIE-40GB", ("info", "in_sync"))])
def test_a_compat_library_where_only_nvidia_smi_names_the_gpu(name, weight):
    loader = "\tlibcuda.so.1 (libc6,x86-64) => /usr/local/cuda-12.4/compat/libcuda.so.1 -> /usr/local/cuda-12.4/compat/libcuda.so.550.54.15\n"
    record = judged({}, loader_libraries=loader, nvidia_smi_query="0, %s, 535.161.08, 00000000:01:00.0\n" % name)
    assert [row[1:] for row in found(record, "libcuda_shadowed_by_compat")] == [weight]
