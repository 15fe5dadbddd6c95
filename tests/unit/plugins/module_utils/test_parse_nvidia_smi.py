# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi in its forms, CUDA's tools, and the marks of those who deliver a driver."""

from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_cuda, parse_gpu_marks, parse_nvidia_query, parse_nvidia_smi
from hypothesis import given
from hypothesis import strategies as st

OLD_TABLE = """Mon Apr  3 12:00:00 2017
+-----------------------------------------------------------------------------+
| NVIDIA-SMI 375.66                 Driver Version: 375.66                    |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  GeForce GTX 108...  Off  | 0000:01:00.0      On |                  N/A |
| 23%   38C    P8    17W / 250W |    335MiB / 11171MiB |      0%      Default |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID  Type  Process name                               Usage      |
|=============================================================================|
|    0      1234    G   /usr/lib/xorg/Xorg                             100MiB |
+-----------------------------------------------------------------------------+
"""
NEW_TABLE = """+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
|=========================================+========================+======================|
|   0  NVIDIA A100-SXM4-80GB          On  |   00000000:07:00.0 Off |                    0 |
| N/A   30C    P0              60W / 400W |      4MiB /  81920MiB  |      0%      Default |
|   1  NVIDIA A100-SXM4-80GB          On  |   00000000:0F:00.0 Off |                 ERR! |
|ERR!  ERR! ERR!             ERR! / ERR!  |      0MiB /  81920MiB  |     ERR!     Default |
|   2  NVIDIA A100-SXM4-80GB          On  |   00000000:47:00.0 Off |                    0 |
| N/A   30C    P0              60W / 400W |         GPU is lost    |      0%      Default |
+-----------------------------------------+------------------------+----------------------+
| MIG devices:                                                                            |
|  0    7   0   0  |              12MiB /  9856MiB    | 14      0 |  1   0    0    0    0 |
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
|    0   N/A  N/A            1234      C   python train.py                       1000MiB  |
|    0    7    0             1235    M+C   nvidia-cuda-mps-server                  30MiB  |
|  No running processes found                                                             |
+-----------------------------------------------------------------------------------------+
WARNING: infoROM is corrupted at gpu 0000:07:00.0
"""


def test_the_table_of_old_drivers():
    value, problems = parse_nvidia_smi.parse_nvidia_smi(OLD_TABLE)
    assert problems == [] and (value["smi"], value["driver"], value["cuda_max"]) == ("375.66", "375.66", None)
    assert value["gpus"] == [{"index": 0, "name": "GeForce GTX 108...", "uuid": None, "bus_id": "0000:01:00.0", "fault": None}]
    assert value["processes"] == [{"gpu": 0, "pid": 1234, "name": "/usr/lib/xorg/Xorg"}]


def test_the_table_of_new_drivers():
    value, problems = parse_nvidia_smi.parse_nvidia_smi(NEW_TABLE)
    assert problems == [] and (value["smi"], value["driver"], value["cuda_max"]) == ("610.57.04", "610.57.04", "13.3")
    assert [(row["bus_id"], row["fault"]) for row in value["gpus"]] == [
        ("00000000:07:00.0", None), ("00000000:0F:00.0", "ERR!"), ("00000000:47:00.0", "GPU is lost")]
    assert [row["pid"] for row in value["processes"]] == [1234, 1235]
    assert value["inforom"] == ["0000:07:00.0"]


@pytest.mark.parametrize(("text", "expected"), [
    ("NVIDIA-SMI version  : 595.71.05\nNVML version        : 595.71\nDRIVER version      : 595.71.05\nCUDA Version        : 13.2\n",
     ("595.71.05", "595.71", "595.71.05", "13.2")),
    ("NVIDIA-SMI version  : 610.57.04\nNVML version        : 610.57\nDRIVER version      : Deprecated, see \"KMD version\" instead\n"
     "CUDA version        : Deprecated, see \"CUDA UMD version\" instead\nKMD version         : 610.57.04\nCUDA UMD version    : 13.3\n",
     ("610.57.04", "610.57", "610.57.04", "13.3")),
    ("NVIDIA-SMI version  : 580.142\nNVML version        : 580.142\nDRIVER version      : 580.142\nCUDA Version        : Not Found\n",
     ("580.142", "580.142", "580.142", None)),
])
def test_version(text, expected):
    value, problems = parse_nvidia_smi.parse_nvidia_smi(text)
    assert problems == [] and (value["smi"], value["nvml"], value["driver"], value["cuda_max"]) == expected


def test_the_list_and_the_long_form():
    text = "GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-23e412aa)\n  MIG 1g.10gb     Device  0: (UUID: MIG-aa)\nGPU 1: Tesla K80 (S/N: 032)\n"
    value, problems = parse_nvidia_smi.parse_nvidia_smi(text)
    assert problems == [] and [(row["index"], row["name"], row["uuid"]) for row in value["gpus"]] == [
        (0, "NVIDIA A100-SXM4-80GB", "GPU-23e412aa"), (1, "Tesla K80", None)]
    text = ("==============NVSMI LOG==============\n\nTimestamp                           : Thu Jan 16 14:17:10 2020\n"
            "Driver Version                      : 440.44\nCUDA Version                        : 10.2\n\nAttached GPUs                       : 1\n"
            "GPU 00000000:0B:00.0\n    Product Name                    : TITAN Xp\n    ECC Errors\n        Volatile\n")
    value, problems = parse_nvidia_smi.parse_nvidia_smi(text)
    assert problems == [] and (value["driver"], value["cuda_max"], value["gpus"][0]["bus_id"]) == ("440.44", "10.2", "00000000:0B:00.0")


@pytest.mark.parametrize(("text", "expected"), [
    ("Unable to determine the device handle for GPU 0000:0B:00.0: Unknown Error", {"index": None, "bus_id": "0000:0B:00.0", "reason": "unknown_error"}),
    ("Unable to determine the device handle for GPU0000:17:00.0: Unknown Error", {"index": None, "bus_id": "0000:17:00.0", "reason": "unknown_error"}),
    ("Unable to determine the device handle for GPU3: 0000:5F:00.0: Unknown Error", {"index": 3, "bus_id": "0000:5F:00.0", "reason": "unknown_error"}),
    ("Unable to determine the device handle for GPU2: Unknown Error", {"index": 2, "bus_id": None, "reason": "unknown_error"}),
    ("Unable to determine the device handle for gpu 0000:02:00.0: GPU is lost.  Reboot the system to recover this GPU",
     {"index": None, "bus_id": "0000:02:00.0", "reason": "gpu_lost"}),
    ("Unable to determine the device handle for GPU 0000:01:00.0: Not Found", {"index": None, "bus_id": "0000:01:00.0", "reason": "not_found"}),
])
def test_gpus_that_do_not_answer(text, expected):
    for parser in (parse_nvidia_smi.parse_nvidia_smi, parse_nvidia_query.parse_nvidia_query):
        value, problems = parser(text + "\n", 15)
        assert value["unreachable"] == [expected] and problems == []


@pytest.mark.parametrize(("text", "kind"), [
    ("Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 535.154\n", "version_mismatch"),
    ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that ...\n", "no_driver"),
    ("Failed to initialize NVML: Insufficient Permissions\n", "no_permission"), ("No devices were found\n", "no_devices"),
    ("Failed to initialize NVML: GPU access blocked by the operating system\nFailed to properly shut down NVML: GPU access blocked\n", "blocked_by_os"),
    ("Failed to initialize NVML: Unknown Error\n", "nvml_error"),
])
def test_failures(text, kind):
    value, problems = parse_nvidia_smi.parse_nvidia_smi(text, 255)
    assert value["failure"]["kind"] == kind and problems == []
    assert parse_nvidia_query.parse_nvidia_query(text, 255).value["failure"]["kind"] == kind


def test_silence_and_noise_are_unknown():
    for parser in (parse_nvidia_smi.parse_nvidia_smi, parse_nvidia_query.parse_nvidia_query):
        assert parser("", 3) == (None, ["it printed nothing and ended with exit status 3"])
        value, problems = parser("!! what is this\n", 0)
        assert value is None and len(problems) == 1


@pytest.mark.parametrize(("text", "columns"), [
    ("0, NVIDIA GB10, 12.1, 0000000F:01:00.0, 580.142\n", ["index", "name", None, "bus_id", "driver_version"]),
    ("0, 00000000:01:00.0, NVIDIA GeForce RTX 3080\n4, 00000000:05:00.0, NVIDIA GeForce RTX 3080\n", ["index", "bus_id", "name"]),
    ("NVIDIA A100-SXM4-80GB, 535.104.05\n", ["name", "driver_version"]), ("535.104.05\n535.104.05\n", ["driver_version"]),
    ("Tesla T4\n", ["name"]), ("GPU-1, 250.23 W, P0\nGPU-2, 250.23 W, P0\n", ["uuid", None, None]),
    ("535.161.08, 10\n", ["driver_version", "index"]),
    ("index, temperature.gpu, memory.used [MiB]\n0, 30, 0 MiB\n", ["index", "temperature.gpu", "memory.used"]),
    ("name, driver_version, pci.bus_id\nTesla T4, 535.104.05, 00000000:01:00.0\n", ["name", "driver_version", "bus_id"]),
])
def test_columns_are_known_by_heading_or_shape(text, columns):
    value, problems = parse_nvidia_query.parse_nvidia_query(text)
    heading = text.startswith(("index", "name"))
    assert value["columns"] == columns and problems == [] and len(value["rows"]) == text.count("\n") - heading


def test_what_is_normal_in_one_column_and_what_is_not():
    value = parse_nvidia_query.parse_nvidia_query("0, Tesla K80, [Not Supported], 00000000:07:00.0\n1, Tesla K80, [Unknown Error], 00000000:08:00.0\n"
                                                  "2, Tesla K80, ERR!, 00000000:09:00.0\n3, [GPU is lost], [N/A], 00000000:0A:00.0\n").value
    assert [row["state"] for row in value["rows"]] == ["healthy", "suspect", "suspect", "lost"]
    assert value["rows"][3]["name"] is None and value["rows"][3]["faults"] == {"name": "GPU is lost"}


def test_addresses_are_compared_in_one_form():
    assert [parse_nvidia_query.address(word) for word in ("00000000:90:00.0", "0000:90:00.0", "90:00.0", "0000000F:01:00.0", "00010000:01:00.0", None)] == [
        "0000:90:00.0", "0000:90:00.0", "0000:90:00.0", "000f:01:00.0", "00010000:01:00.0", None]


CELLS = {
    "index": st.just(None), "name": st.sampled_from(["NVIDIA H100 80GB HBM3", "Tesla T4", "NVIDIA GeForce RTX 4090"]),
    "driver_version": st.just("535.161.08"), "bus_id": st.just(None), "uuid": st.just(None),
    "memory.total [MiB]": st.integers(0, 99999).map("{} MiB".format), "power.draw [W]": st.floats(0, 700).map("{:.2f} W".format),
    "mig.mode.current": st.sampled_from(["Enabled", "Disabled", "[N/A]"]), "fan.speed [%]": st.just("[N/A]"),
}


@given(st.data())
def test_any_choice_of_columns_gives_the_same_values(data):
    names = data.draw(st.permutations(sorted(CELLS)))[:data.draw(st.integers(3, len(CELLS)))]
    count = data.draw(st.integers(1, 8))
    model = data.draw(CELLS["name"])
    rows = [{name: str(number) if name == "index" else "00000000:%02X:00.0" % (number + 7) if name == "bus_id" else "GPU-%032x" % number if name == "uuid"
             else model if name == "name" else data.draw(CELLS[name]) for name in names} for number in range(count)]
    body = "".join(", ".join(row[name] for name in names) + "\n" for row in rows)
    heading = ", ".join({"bus_id": "pci.bus_id"}.get(name, name) for name in names) + "\n"
    known = [name for name in names if name in parse_nvidia_query.HEADINGS.values()]
    for text in [heading + body] + ([body] if known else []):
        value, problems = parse_nvidia_query.parse_nvidia_query(text)
        assert known == [] or problems == [] and [{name: row[name] for name in known} for row in value["rows"]] == [
            {name: int(row[name]) if name == "index" else row[name] for name in known} for row in rows]


def test_nvcc_and_folders():
    text = "nvcc: NVIDIA (R) Cuda compiler driver\nCuda compilation tools, release 12.0, V12.0.76\nBuild cuda_12.0.r12.0/compiler.31968024_0\n"
    assert parse_cuda.parse_nvcc_version(text).value == {"release": "12.0", "version": "12.0.76"}
    assert parse_cuda.parse_nvcc_version("nvcc: not found").value is None
    text = ("drwxr-xr-x 17 root root 4096 Jan  1 00:00 /usr/local/cuda-11.8\n"
            "lrwxrwxrwx 1 root root 20 Jan  1 00:00 /usr/local/cuda-12 -> /usr/local/cuda-12.4\n/usr/local/cuda-12.4/bin/nvcc\n/usr/local/cuda\n")
    assert parse_cuda.parse_cuda_dirs(text) == ({"/usr/local/cuda-11.8": "11.8", "/usr/local/cuda-12.4": "12.4"}, [])
    assert len(parse_cuda.parse_cuda_dirs("what").problems) == 1


def test_links_that_run_in_a_circle_lead_nowhere():
    assert parse_cuda.resolve({"/usr/local/cuda": "/a", "/a": "/usr/local/cuda"}, "/usr/local/cuda") is None
    assert parse_cuda.resolve({}, "/usr/local/cuda") is None
    assert parse_cuda.resolve({"/usr/local/cuda": "cuda-12.4/"}, "/usr/local/cuda") == "/usr/local/cuda-12.4"


@pytest.mark.parametrize(("text", "expected"), [
    ("/usr/bin/nvidia-uninstall\n", ["/usr/bin/nvidia-uninstall"]), ("", []), ("which: no nvidia-uninstall in (/usr/bin:/bin)\n", []),
    ("-rwxr-xr-x 1 root root 1 Jan  1 00:00 /usr/bin/nvidia-installer\nls: cannot access '/usr/bin/nvidia-uninstall': No such file or directory\n",
     ["/usr/bin/nvidia-installer"]),
    ("nvidia-uninstall is /usr/bin/nvidia-uninstall\n", ["/usr/bin/nvidia-uninstall"]), ("bash: type: nvidia-uninstall: not found\n", []),
    ("nvidia-installer log file '/var/log/nvidia-installer.log'\ncreation time: Thu\n", ["/var/log/nvidia-installer.log"]),
])
def test_marks_of_the_installer(text, expected):
    assert parse_gpu_marks.parse_runfile(text, 0) == (expected, [])


@pytest.mark.parametrize(("text", "expected"), [
    ("GPU-1, 4711, python\n", [{"pid": 4711, "name": "python"}]),
    ("pid, process_name, used_gpu_memory [MiB]\n4711, /usr/bin/python3, 100 MiB\n", [{"pid": 4711, "name": "/usr/bin/python3"}]),
    ("                     USER        PID ACCESS COMMAND\n/dev/nvidia0:        root       2143 F...m nvidia-persiste\n"
     "                     kdm        3001 F.... Xorg\n",
     [{"pid": 2143, "name": "nvidia-persiste"}, {"pid": 3001, "name": "Xorg"}]),
    ("COMMAND  PID USER   FD   TYPE  DEVICE SIZE/OFF NODE NAME\npython  4711 bob   mem    CHR 195,255      469 /dev/nvidiactl\n",
     [{"pid": 4711, "name": "python"}]),
    ("No running processes found\n", []),
])
def test_processes_on_a_gpu(text, expected):
    assert parse_gpu_marks.parse_processes(text, 0) == (expected, [])


def test_what_device_query_says():
    text = "deviceQuery, CUDA Driver = CUDART, CUDA Driver Version = 12.2, CUDA Runtime Version = 12.4, NumDevs = 1\n"
    assert parse_cuda.parse_cuda_run(text).value["error"] is None
    text = "  CUDA Driver Version / Runtime Version          12.2 / 12.4\n"
    assert parse_cuda.parse_cuda_run(text).value["driver_cuda"] == "12.2"
    assert parse_cuda.parse_cuda_run("Segmentation fault\n", 139).value is None
