# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More recordings of NCCL, in the words of public reports: what is wrong is told, and its healthy twin is not."""
from __future__ import annotations

import pytest

from .recorded import failed, found, judged

IP = ("lo               UNKNOWN        127.0.0.1/8 ::1/128\neno1             UP             10.1.2.3/24 fe80::1/64\n"
      "ib0              UP             10.2.0.3/16\n"
      "docker0          DOWN           172.17.0.1/16\n")
NO_DEVICE = "n:1:1 [0] NCCL INFO NET/IB : No device found.\n"
SOCKET = "n:1:1 [0] NCCL INFO NET/Socket : Using [0]eth0:192.0.2.7<0>\nn:1:1 [0] NCCL INFO Using network Socket\n"
FALLBACK = [("Using network Socket", "error", "degraded")]


def steps(record):
    return [(row["action"], row.get("target")) for row in record["plan"]]


# github.com/NVIDIA/nccl/issues 451, 941, 1267; aws/aws-ofi-nccl.
@pytest.mark.parametrize(("log", "more", "expected"), [
    (NO_DEVICE + SOCKET, {}, FALLBACK), (NO_DEVICE + SOCKET, {"nics": ""}, []), (NO_DEVICE + SOCKET, {"rdma_ports": ""}, []),
    (NO_DEVICE + SOCKET, {"nics": "0000:5e:00.0 0207: 15b3:101b\n"}, FALLBACK),
    ("n:1:1 [0] transport/net_ib.cc:148 NCCL WARN NET/IB : Unable to open device mlx5_bond_0\n" + NO_DEVICE + SOCKET, {"nics": ""}, FALLBACK),
    ("n:57:57 [0] find_ofi_provider:543 NCCL WARN NET/OFI Couldn't find any optimal provider\n" + NO_DEVICE + SOCKET, {"nics": ""}, FALLBACK),
    ("n:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\nn:1:1 [0] NCCL INFO Failed to initialize NET plugin IB\n" + SOCKET, {}, []),
    ("n:1:1 [0] NCCL INFO Failed to initialize NET plugin IB\n" + SOCKET, {}, FALLBACK),
    ("n:1:1 [0] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.\nn:1:1 [0] NCCL INFO Using network IB\n", {}, []),
    ("[1,0]<stdout>:[2026-01-05 10:00:00] n1:71:71 [0] NCCL INFO NET/IB : No device found.\n"
     "[1,0]<stdout>:[2026-01-05 10:00:00] n1:71:71 [0] NCCL INFO Using network Socket\n", {}, FALLBACK)])
def test_sockets_instead_of_adapters(log, more, expected):
    record = judged({}, nccl_log=log, **more)
    assert found(record, "nccl_ib_fallback") == expected and len(record["findings"]) == len(expected)


def test_verbs_that_are_off_on_a_node_that_is_to_have_adapters():
    record = judged({"lock": {"hcas": 4}}, nccl_log="n:1:1 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n" + SOCKET)
    assert found(record, "nccl_ib_fallback") == FALLBACK


UNMET = ("The following packages have unmet dependencies:\n libnccl-dev : Depends: libnccl2 (= 2.30.4-1+cuda13.2) but 2.25.1-1+cuda12.8 is to be installed\n"
         "E: Unable to correct problems, you have held broken packages.\n")


# github.com/bghira/SimpleTuner/issues/47, NVIDIA/JAX-Toolbox/issues/290, tmac1973/llama-toolchest/pull/47.
@pytest.mark.parametrize(("lock", "step"), [
    ({"nccl": "2.25.1-1+cuda12.8", "cuda": "12.8"}, "libnccl-dev=2.25.1-1+cuda12.8"), ({}, "libnccl-dev=2.25.1-1+cuda12.8"),
    ({"nccl": "2.30.4-1+cuda13.2"}, "libnccl2=2.30.4-1+cuda13.2")])
def test_headers_that_apt_does_not_put_beside_the_library(lock, step):
    record = judged({"os": "ubuntu-24.04", "lock": lock}, apt_run=failed(UNMET, 100))
    assert found(record, "nccl_dev_runtime_split") == [("libnccl2 2.25.1-1+cuda12.8, libnccl-dev 2.30.4-1+cuda13.2", "error", "drift")]
    assert ("install_exact", step) in steps(record)


NEWEST = "libnccl2\t2.31.2-1+cuda13.4\tii \n"
POLICY = ("libnccl2:\n  Installed: (none)\n  Candidate: 2.31.2-1+cuda13.4\n  Version table:\n     2.31.2-1+cuda13.4 600\n"
          "        600 https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64  Packages\n     2.23.4-1+cuda12.6 600\n"
          "        600 https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64  Packages\n")
SIMULATION = ("Inst libnccl2 [2.23.4-1+cuda12.6] (2.31.2-1+cuda13.4 NVIDIA:developer.download.nvidia.com [amd64])\n"
              "Conf libnccl2 (2.31.2-1+cuda13.4 NVIDIA:developer.download.nvidia.com [amd64])\n")
OTHER_MAJOR = "libnccl2 2.31.2-1+cuda13.4, wanted cuda 12.6"


@pytest.mark.parametrize(("lock", "recordings", "verdict", "step"), [
    ({"cuda": "12.6", "nccl": "2.23.4-1+cuda12.6"}, {"dpkg_list": NEWEST}, "drift", None),
    ({"cuda": "12.6", "driver": "560.35.05"}, {"dpkg_list": NEWEST}, "broken", None),
    ({"nccl": "2.31.2-1+cuda12.6"}, {"dpkg_list": NEWEST}, "drift", ("downgrade_exact", "libnccl2=2.31.2-1+cuda12.6")),
    ({"cuda": "12.6", "nccl": "2.23.4-1+cuda12.6"}, {"apt_policy": POLICY}, "drift", ("install_exact", "libnccl2=2.23.4-1+cuda12.6")),
    ({"cuda": "12.6"}, {"apt_policy": POLICY}, "drift", ("install_exact", "libnccl2=2.23.4-1+cuda12.6")),
    ({"cuda": "12.6", "nccl": "2.23.4-1+cuda12.6"}, {"apt_simulation": SIMULATION}, "drift", ("hold", "libnccl2")),
    ({"cuda": "12.6"}, {"apt_simulation": SIMULATION}, "drift", ("refuse_transaction", "it brings libnccl2 2.31.2-1+cuda13.4"))])
def test_a_build_for_another_cuda_that_is_there_or_about_to_come(lock, recordings, verdict, step):
    record = judged({"os": "ubuntu-22.04", "lock": lock}, **recordings)
    assert found(record, "nccl_cuda_major_differs") == [(OTHER_MAJOR, "error", verdict)] and record["verdict"] == verdict
    assert step is None or step in steps(record)


@pytest.mark.parametrize(("log", "driver", "fails"), [
    ("n:7:7 [0] NCCL INFO cudaDriverVersion 12040\nNCCL version 2.28.9+cuda13.0\n", None, True), ("NCCL version 2.28.9+cuda13.0\n", "550.54.15", True),
    ("n:7:7 [0] NCCL INFO cudaDriverVersion 13000\nNCCL version 2.28.9+cuda13.0\n", "550.54.15", False), ("NCCL version 2.21.5+cuda12.4\n", "580.95.05", False),
    ("NCCL version 2.28.9+cuda13.0\n", None, False)])
def test_the_build_of_a_program(log, driver, fails):
    record = judged({"lock": {"driver": driver} if driver else {"nccl": "2.28.9"}}, nccl_log=log)
    assert [row[1:] for row in found(record, "nccl_cuda_major_differs")] == ([("error", "broken")] if fails else [])


INSTALLED = "libnccl2\t2.21.5-1+cuda12.4\tii \n"
LOCK = {"os": "ubuntu-22.04", "lock": {"nccl": "2.21.5-1+cuda12.4"}}


@pytest.mark.parametrize(("cache", "files"), [
    ("/usr/local/cuda/lib64/libnccl.so.2", "/usr/local/cuda-12.4/lib64/libnccl.so.2 -> libnccl.so.2.18.3\n/usr/local/cuda-12.4/lib64/libnccl.so.2.18.3\n"),
    ("/lib/x86_64-linux-gnu/libnccl.so.2", "/usr/lib/x86_64-linux-gnu/libnccl.so.2 -> libnccl.so.2.18.3\n/usr/lib/x86_64-linux-gnu/libnccl.so.2.18.3\n")])
def test_the_loader_takes_another_copy_behind_a_link(cache, files):
    record = judged(LOCK, dpkg_list=INSTALLED, loader_libraries="\tlibnccl.so.2 (libc6,x86-64) => %s\n" % cache, library_files=files)
    assert found(record, "nccl_other_copy") == [("libnccl 2.18.3 %s" % cache, "error", "broken")]


@pytest.mark.parametrize(("recordings", "subject"), [
    ({"library_files": "/opt/nvidia/hpc_sdk/Linux_x86_64/24.5/comm_libs/12.4/nccl/lib/libnccl.so.2.18.5\n/usr/lib/x86_64-linux-gnu/libnccl.so.2.21.5\n"},
     "/opt/nvidia/hpc_sdk/Linux_x86_64/24.5/comm_libs/12.4/nccl/lib/libnccl.so.2.18.5 2.18.5"),
    ({"pip_list": "# packages in environment at /opt/conda:\n# Name  Version  Build  Channel\nnccl   2.22.3.1   hbc370b7_1    conda-forge\n"},
     "conda nccl 2.22.3.1"),
    ({"pip_list": "Name: nvidia-nccl-cu12\nVersion: 2.20.5\nSummary: NCCL Runtime\n"}, "pip nvidia-nccl-cu12 2.20.5"),
    ({"nccl_log": "n:1:1 [0] NCCL INFO cudaDriverVersion 13000\nNCCL version 2.27.5+cuda12.9\nn:1:1 [0] NCCL INFO Using network IB\n"}, "program 2.27.5")])
def test_copies_that_are_only_worth_knowing(recordings, subject):
    record = judged(LOCK, dpkg_list=INSTALLED, **recordings)
    assert found(record, "nccl_other_copy") == [(subject, "info", "in_sync")] and record["verdict"] == "in_sync" and not record["plan"]


@pytest.mark.parametrize("listing", [
    failed(""), "3 Bibliotheken im Cache »/etc/ld.so.cache« gefunden\n\tlibz.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libz.so.1\n",
    "1 libs found in cache `/etc/ld.so.cache'\n\tlibz.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libz.so.1\nCache generated by: ldconfig (GNU libc) 2.39\n"])
def test_a_cache_without_the_library(listing):
    record = judged({"os": "debian-12", "lock": {"nccl": "2.29.2-1+cuda12.9"}}, dpkg_list="libnccl2\t2.29.2-1+cuda12.9\tii \n", loader_libraries=listing)
    assert found(record, "library_not_in_cache") == [("libnccl.so.2", "error", "drift")] and steps(record) == [("run_ldconfig", None)]


@pytest.mark.parametrize(("text", "expected"), [
    ("NCCL_IB_TIMEOUT=22 # raised\n", [("nccl_conf_inline_comment", "info")]), ("NCCL_SOCKET_IFNAME=eno1 # up\n", [("nccl_conf_inline_comment", "error")]),
    ("NCCL_IB_TIMEOUT=22\r\n", [("nccl_conf_carriage_return", "info")]), ("NCCL_DEBUG=INFO\r\n", [("nccl_conf_carriage_return", "error")]),
    ("NCCL_DEBUG=INFO^M$\n", [("nccl_conf_carriage_return", "error")]), ("NCCL_IB_TIMEOUT=\"22\"\n", [("nccl_conf_quotes_kept", "error")]),
    ("     1\tNCCL_DEBUG=INFO\n     2\texport NCCL_IB_TC=106\n", [("nccl_conf_export_prefix", "error")]),
    ("/etc/nccl.conf:NCCL_IB_TC=106\n/etc/nccl.conf: NCCL_DEBUG=INFO\n", [("nccl_conf_leading_blank", "error")]),
    ("NCCL_DEBUG: INFO\n", [("nccl_conf_no_equals", "error")]), ("This file belongs to Ansible\n[nccl]\n// old\nNCCL_DEBUG=WARN\n", []),
    ("NCCL_IB_HCA=mlx5_0 \n", [("nccl_value_reset", "error")]), ("NCCL_TOPO_FILE=/opt/a#b.xml\nNCCL_SOCKET_IFNAME==eno1\n#NCCL_DEBUG=INFO\n", []),
    ("NCCL_SOCKET_IFNAME=eno1$\nNCCL_DEBUG=INFO$\n$\n", []), ("$ cat /etc/nccl.conf\nNCCL_DEBUG=WARN\n", [])])
def test_lines_of_the_file_as_people_show_them(text, expected):
    assert [(row["code"], row["severity"]) for row in judged({}, nccl_conf=text)["findings"]] == expected


def test_a_line_is_mended_once():
    record = judged({}, nccl_conf='NCCL_SOCKET_IFNAME="eno1"\n', ip_addresses=IP)
    assert {row["code"] for row in record["findings"]} == {"nccl_conf_quotes_kept", "nccl_ifname_matches_nothing"} and record["verdict"] == "broken"
    assert record["plan"] == [{"action": "rewrite_file", "target": "/etc/nccl.conf", "NCCL_SOCKET_IFNAME": "eno1"}]
    record = judged({}, nccl_conf="NCCL_SOCKET_IFNAME=eno1 \n", ip_addresses=IP)
    assert record["plan"] == [{"action": "rewrite_file", "target": "/etc/nccl.conf", "NCCL_SOCKET_IFNAME": "eno1"}]


@pytest.mark.parametrize("conf", [failed("cat: /etc/nccl.conf: No such file or directory\n"), ""])
@pytest.mark.parametrize("env", ["NCCL_SOCKET_IFNAME=^docker0\n", "declare -x NCCL_SOCKET_IFNAME=\"^docker0\"\n",
                                 "/etc/profile.d/nccl.sh:export NCCL_SOCKET_IFNAME=^docker0\n"])
def test_the_loopback_by_the_environment(conf, env):
    assert found(judged({}, nccl_conf=conf, nccl_env=env), "nccl_ifname_allows_loopback") == [("^docker0", "error", "drift")]


SET = "t:19:19 [3] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth2\n"


# github.com/NVIDIA/nccl/issues/1837, marin-community/marin/issues/6940.
@pytest.mark.parametrize(("recordings", "speaks"), [
    ({"nccl_log": SET + "t:19:19 [3] bootstrap.cc:85 NCCL WARN Bootstrap : no socket interface found\n"}, True),
    ({"nccl_log": SET + "ncclSocketInit: connecting to address  with family 59936 is neither AF_INET(2) nor AF_INET6(10)\n"}, True),
    ({"nccl_log": SET + "t:19:19 [3] NCCL INFO Bootstrap : Using eth2:192.0.2.1<0>\nt:19:19 [3] NCCL WARN ncclSocketInit: connecting to address  with "
      "family 0 is neither AF_INET(2) nor AF_INET6(10)\n"}, False),
    ({"nccl_conf": "NCCL_SOCKET_IFNAME=eth2\n", "ip_addresses": "bond0  bonding_masters  ens1f0  lo\n"}, True),
    ({"nccl_conf": "NCCL_SOCKET_IFNAME=eth2\n", "ip_addresses": "bond0  eth2  lo\n"}, False)])
def test_an_interface_that_is_not_there(recordings, speaks):
    assert found(judged({}, **recordings), "nccl_ifname_matches_nothing") == ([("eth2", "error", "broken")] if speaks else [])


def test_builds_that_dnf_would_bring_or_does_not_put_together():
    given = {"os": "rocky-9.5", "lock": {"nccl": "2.23.4-1+cuda12.6"}}
    table = ("Dependencies resolved.\n Package        Arch     Version                Repository             Size\nUpgrading:\n"
             " libnccl        x86_64   2.31.2-1+cuda13.4      cuda-rhel9-x86_64      250 M\n\nTransaction Summary\nUpgrade  1 Package\n\nOperation aborted.\n")
    record = judged(given, dnf_transaction=failed(table), rpm_list="libnccl 2.23.4 1+cuda12.6 x86_64\n")
    assert found(record, "nccl_cuda_major_differs") == [("libnccl 2.31.2-1+cuda13.4, wanted cuda 12.6", "error", "drift")]
    missing = "  - nothing provides libnccl = 2.28.9-1+cuda13.0 needed by libnccl-devel-2.28.9-1+cuda13.0.x86_64 from cuda-rhel9-x86_64\n"
    record = judged(given, dnf_run=failed("Error: \n Problem: cannot install the best candidate for the job\n" + missing),
                    rpm_list="libnccl 2.23.4 1+cuda12.6 x86_64\n")
    assert [row[1:] for row in found(record, "nccl_dev_runtime_split")] == [("error", "drift")]
    assert ("install_exact", "libnccl-devel-2.23.4-1+cuda12.6") in steps(record)


# Composed in NCCL's words, after no report in particular.
@pytest.mark.parametrize(("recordings", "verdict"), [
    ({"nccl_log": "n:1:1 [0] NCCL INFO NET/OFI Selected Provider is efa (found 4 nics)\nn:1:1 [0] NCCL INFO Using network AWS Libfabric\n"}, "in_sync"),
    ({"nccl_conf": "# of the site\nNCCL_SOCKET_IFNAME=eno\nNCCL_IB_HCA=mlx5\n", "ip_addresses": IP}, "in_sync"),
    ({"nccl_conf": "# NCCL_DEBUG=INFO\n", "ip_addresses": IP}, "not_applicable"),
    ({"nccl_env": "NCCL_SOCKET_IFNAME=^lo,docker0\nPATH=/usr/bin\n", "ip_addresses": IP}, "in_sync"),
    ({"nccl_log": "n:1:1 [0] NCCL INFO Using network IB\nn:1:2 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_reg_mr failed\n"}, "not_applicable")])
def test_what_nccl_was_told_and_took_is_in_order(recordings, verdict):
    record = judged({}, **recordings)
    assert (record["verdict"], record["findings"], record["plan"]) == (verdict, [], [])


@pytest.mark.parametrize("line", ["NCCL_P2P_DISABLE", "NCCL_P2P_DISABLE  "])
def test_a_name_without_a_value_is_named_and_goes(line):
    record = judged({}, nccl_conf="NCCL_DEBUG=WARN\n%s\n" % line)
    assert found(record, "nccl_conf_no_equals") == [("/etc/nccl.conf line 2: NCCL_P2P_DISABLE", "error", "drift")]
    assert record["plan"] == [{"action": "rewrite_file", "target": "/etc/nccl.conf", "remove": ["line 2"]}]
