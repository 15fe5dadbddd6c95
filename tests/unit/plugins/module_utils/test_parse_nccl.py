# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's files, logs, copies and interfaces, in the forms that people record them."""

from __future__ import annotations

import json

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_copies, parse_interfaces, parse_nccl, parse_nccl_log
from hypothesis import given
from hypothesis import strategies as st


def conf(text):
    value, problems = parse_nccl.parse_nccl_conf(text)
    assert not problems
    return value


@pytest.mark.parametrize(("line", "name", "value", "faults", "meant"), [
    ("NCCL_DEBUG=WARN", "NCCL_DEBUG", "WARN", [], ["NCCL_DEBUG", "WARN"]),
    ("NCCL_SOCKET_IFNAME==ens1f0", "NCCL_SOCKET_IFNAME", "=ens1f0", [], ["NCCL_SOCKET_IFNAME", "=ens1f0"]),
    ("NCCL_DEBUG_FILE=/tmp/a#b", "NCCL_DEBUG_FILE", "/tmp/a#b", [], ["NCCL_DEBUG_FILE", "/tmp/a#b"]),
    ("NCCL_NET_PLUGIN=", "NCCL_NET_PLUGIN", "", [], ["NCCL_NET_PLUGIN", ""]),
    ("export NCCL_DEBUG=INFO", "export NCCL_DEBUG", "INFO", ["export_prefix"], ["NCCL_DEBUG", "INFO"]),
    (" NCCL_DEBUG=INFO", " NCCL_DEBUG", "INFO", ["leading_blank"], ["NCCL_DEBUG", "INFO"]),
    ("NCCL_DEBUG =INFO", "NCCL_DEBUG ", "INFO", ["blank_in_name"], ["NCCL_DEBUG", "INFO"]),
    ("NCCL_DEBUG = INFO", "NCCL_DEBUG ", " INFO", ["blank_in_name"], ["NCCL_DEBUG", "INFO"]),
    ("NCCL_IB_HCA=mlx5_0 # the fast one", "NCCL_IB_HCA", "mlx5_0 # the fast one", ["inline_comment"], ["NCCL_IB_HCA", "mlx5_0"]),
    ('NCCL_SOCKET_IFNAME="ens6"', "NCCL_SOCKET_IFNAME", '"ens6"', ["quotes_kept"], ["NCCL_SOCKET_IFNAME", "ens6"]),
    ("NCCL_ALGO='Ring'", "NCCL_ALGO", "'Ring'", ["quotes_kept"], ["NCCL_ALGO", "Ring"]),
    ("NCCL_DEBUG INFO", None, None, ["no_equals"], ["NCCL_DEBUG", "INFO"]),
    ("NCCL_DEBUG: INFO", None, None, ["no_equals"], ["NCCL_DEBUG", "INFO"]),
    ("[nccl]", None, None, [], None), ("NCCL_DEBUG", None, None, ["no_equals"], ["NCCL_DEBUG", None]), ("This file belongs to Ansible", None, None, [], None),
    ("NCCL_DEBUG=INFO\r", "NCCL_DEBUG", "INFO", ["carriage_return"], ["NCCL_DEBUG", "INFO"]),
    ('export NCCL_IB_HCA="mlx5_0" # x', "export NCCL_IB_HCA", '"mlx5_0" # x', ["export_prefix", "inline_comment", "quotes_kept"], ["NCCL_IB_HCA", "mlx5_0"]),
    ("=5", "", "5", [], None),
])
def test_a_line_is_taken_as_nccl_takes_it(line, name, value, faults, meant):
    assert conf(line + "\n") == [{"path": "/etc/nccl.conf", "lines": [{"number": 1, "name": name, "value": value, "faults": faults, "meant": meant}]}]


def test_comments_and_empty_lines_say_nothing():
    assert conf("# NCCL_DEBUG=INFO\n\n  # indented\n")[0]["lines"] == []


def test_several_files_keep_their_lines():
    files = conf("==> /etc/nccl.conf <==\nNCCL_DEBUG=WARN\n\n==> /root/.nccl.conf <==\n\nNCCL_DEBUG=INFO\n")
    assert [(file["path"], [(line["number"], line["value"]) for line in file["lines"]]) for file in files] == [
        ("/etc/nccl.conf", [(1, "WARN")]), ("/root/.nccl.conf", [(2, "INFO")])]


@given(st.from_regex(r"[A-Z_]{1,8}", fullmatch=True), st.from_regex(r"[A-Za-z0-9^=,:.]{0,12}", fullmatch=True))
def test_a_plain_line_means_what_it_says(name, value):
    line, = conf("%s=%s\n" % (name, value))[0]["lines"]
    assert (line["name"], line["value"], line["faults"], line["meant"]) == (name, value, [], [name, value])


def test_the_environment_in_its_forms():
    text = ("==> /etc/environment <==\nPATH=\"/usr/bin\"\nNCCL_DEBUG=\"INFO\"\n# NCCL_X=1\n\n"
            "==> /etc/profile.d/nccl.sh <==\nexport NCCL_IB_HCA='mlx5_0,mlx5_1' # both\nif [ -z $NCCL_DEBUG ]; then\nsetenv NCCL_NET IB\n")
    rows, problems = parse_nccl.parse_nccl_env(text)
    assert not problems
    assert [(row["path"], row["number"], row["name"], row["value"]) for row in rows] == [
        ("/etc/environment", 2, "NCCL_DEBUG", "INFO"), ("/etc/profile.d/nccl.sh", 1, "NCCL_IB_HCA", "mlx5_0,mlx5_1"),
        ("/etc/profile.d/nccl.sh", 3, "NCCL_NET", "IB")]
    rows, problems = parse_nccl.parse_nccl_env("HOME=/root\nNCCL_NET=AWS Libfabric\ndeclare -x NCCL_DEBUG=\"WARN\"\n")
    assert [(row["path"], row["name"], row["value"]) for row in rows] == [
        ("environment", "NCCL_NET", "AWS Libfabric"), ("environment", "NCCL_DEBUG", "WARN")] and not problems


def test_graph_and_topology_files_are_counted():
    graph = "<graphs><graph id='0'><channel>" + "".join('<gpu dev="%d"/>' % (number % 4) for number in range(8)) + "</channel></graph></graphs>"
    assert parse_nccl.parse_nccl_graph_file(graph).value["gpus"] == 4
    topo = ('<system version="1"><cpu numaid="0"><pci busid="0000:01:00.0" class="0x030200"/><pci busid="0000:02:00.0" class="0x020700"/>'
            '<pci busid="0000:03:00.0" class="0x030200"><gpu dev="1"/></pci></cpu></system>')
    assert parse_nccl.parse_nccl_topo_file(topo).value == {"gpus": 2}
    assert parse_nccl.parse_nccl_graph_file("").problems and parse_nccl.parse_nccl_topo_file("<graphs/>").problems


LOG = """[1,0]<stdout>:node1:100:100 [0] NCCL INFO Bootstrap : Using ens3:192.0.2.7<0>
node1:100:100 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to ens3
node1:100:100 [0] NCCL INFO NCCL_NTHREADS set by environment to 4.
NCCL version 2.21.5+cuda12.4
node1:100:120 [0] NCCL INFO Failed to open libibverbs.so[.1]
node1:100:120 [0] NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file No plugin found (libnccl-net.so), using internal
node1:100:120 [0] NCCL INFO NET/IB : No device found.
node1:100:120 [0] NCCL INFO NET/Socket : Using [0]ens3:192.0.2.7<0>
node1:100:120 [0] NCCL INFO Using network Socket
epoch 1 loss 0.3
[2026-01-01 10:00:00] node1:100:120 [0] graph/search.cc:703 NCCL WARN XML Import Channel : dev 1 not found.
"""


def test_a_log():
    value, problems = parse_nccl_log.parse_nccl_log(LOG)
    assert not problems
    assert (value["version"], value["cuda"], value["networks"], value["no_ib_device"]) == ("2.21.5", "12.4", ["Socket"], True)
    assert value["settings"] == {"NCCL_SOCKET_IFNAME": "ens3", "NCCL_NTHREADS": "4"}
    assert value["missing_devices"] == [1] and value["plugins_missing"] == ["libnccl-net.so"]
    assert value["failures"][0] == "Failed to open libibverbs.so[.1]" and value["warnings"] == ["XML Import Channel : dev 1 not found."]
    assert parse_nccl_log.parse_nccl_log("epoch 1\n").problems and parse_nccl_log.parse_nccl_log("").problems


BRIEF = "lo               UNKNOWN        127.0.0.1/8 ::1/128 \ndocker0 DOWN 172.17.0.1/16\nens6 UP 192.0.2.17/24 fe80::1/64\nveth1@if5 UP \n"
LINK = ("lo               UNKNOWN        00:00:00:00:00:00 <LOOPBACK,UP,LOWER_UP> \ntun0 UNKNOWN 00:00 <POINTOPOINT,UP>\n"
        "ens6             UP             52:54:00:00:00:01 <BROADCAST,MULTICAST,UP,LOWER_UP> \n")
LONG = ("1: lo: <LOOPBACK,UP,LOWER_UP> mtu 65536 qdisc noqueue state UNKNOWN group default qlen 1000\n"
        "    link/loopback 00:00:00:00:00:00 brd 00:00:00:00:00:00\n"
        "    inet 127.0.0.1/8 scope host lo\n       valid_lft forever preferred_lft forever\n"
        "2: ens6@if3: <NO-CARRIER,BROADCAST,MULTICAST,UP> mtu 1500 qdisc mq state DOWN\n    inet 192.0.2.17/24 brd 192.0.2.255 scope global ens6\n"
        "3: ibs1: <BROADCAST,UP,LOWER_UP> mtu 2044 state UP\n    link/infiniband 00:00 brd 00:ff\n")
ONE_LINE = "1: lo    inet 127.0.0.1/8 scope host lo\\       valid_lft forever\n2: ens6    inet 192.0.2.17/24 brd 192.0.2.255 scope global ens6\\ x\n"
IFCONFIG = ("ens6: flags=4163<UP,BROADCAST,RUNNING,MULTICAST>  mtu 1500\n        inet 192.0.2.17  netmask 255.255.255.0\n"
            "        ether 52:54:00:00:00:01  txqueuelen 1000\n\n"
            "docker0: flags=4099<UP,BROADCAST,MULTICAST>  mtu 1500\n        inet 172.17.0.1  netmask 255.255.0.0\n")
OLD_IFCONFIG = ("eth0      Link encap:Ethernet  HWaddr 52:54:00:00:00:01\n          inet addr:192.0.2.17  Bcast:192.0.2.255\n"
                "          UP BROADCAST RUNNING MULTICAST  MTU:1500\n")


@pytest.mark.parametrize(("text", "expected"), [
    (BRIEF, [("lo", True, 2), ("docker0", False, 1), ("ens6", True, 2), ("veth1", True, 0)]),
    (LINK, [("lo", True, None), ("tun0", False, None), ("ens6", True, None)]),
    (LONG, [("lo", True, 1), ("ens6", False, 1), ("ibs1", True, 0)]),
    (ONE_LINE, [("lo", None, 1), ("ens6", None, 1)]),
    (IFCONFIG, [("ens6", True, 1), ("docker0", False, 1)]),
    (OLD_IFCONFIG, [("eth0", True, 1)]),
    ("eth0\nlo\n", [("eth0", None, None), ("lo", None, None)]),
])
def test_interfaces(text, expected):
    value, problems = parse_interfaces.parse_interfaces(text)
    assert not problems
    assert [(row["name"], row["running"], None if row["addresses"] is None else len(row["addresses"])) for row in value] == expected


def test_what_is_no_list_of_interfaces():
    assert parse_interfaces.parse_interfaces("Object \"adr\" is unknown, try \"ip help\".\n").value is None


@pytest.mark.parametrize(("text", "expected"), [
    ("/usr/lib/x86_64-linux-gnu/libnccl.so.2 -> libnccl.so.2.29.2\n", [("/usr/lib/x86_64-linux-gnu/libnccl.so.2", "libnccl.so.2.29.2", "2.29.2")]),
    ("lrwxrwxrwx 1 root root     17 Dec 24 10:00 /usr/lib64/libnccl.so.2 -> libnccl.so.2.29.2\n", [("/usr/lib64/libnccl.so.2", "libnccl.so.2.29.2", "2.29.2")]),
    ("-rw-r--r--. 1 root root 229M 2025-12-24 10:00 x\n/usr/local/lib/libnccl.so.2.18.3\n", [("/usr/local/lib/libnccl.so.2.18.3", None, "2.18.3")]),
    ("  1234   0 lrwxrwxrwx   1 root     root           15 Jan  1  2026 /opt/l/libcuda.so.1 -> libcuda.so.570.86.10\n",
     [("/opt/l/libcuda.so.1", "libcuda.so.570.86.10", "570.86.10")]),
    ("find: '/proc/1': Permission denied\n/opt/conda/lib/libnccl.so.2.21.5\n", [("/opt/conda/lib/libnccl.so.2.21.5", None, "2.21.5")]),
    ("/usr/lib64:\ntotal 8\n-rwxr-xr-x 1 root root 99 Dec 24 10:00 libnccl.so.2.27.5\n", [("/usr/lib64/libnccl.so.2.27.5", None, "2.27.5")]),
    ("ls: cannot access '/usr/lib/libnccl*': No such file or directory\n", []),
])
def test_copies_on_the_disk(text, expected):
    value, problems = parse_copies.parse_library_files(text)
    assert [(row["path"], row["target"], row["version"]) for row in value] == expected
    assert len(problems) == ("229M" in text)


@pytest.mark.parametrize("text", [
    "nvidia-nccl-cu12 2.21.5\n", "nvidia-nccl-cu12==2.21.5\ntorch @ file:///tmp/t.whl\n", "nvidia_nccl_cu12==2.21.5\n",
    "Package          Version\n---------------- -------\nnumpy            1.26.4\nnvidia-nccl-cu12 2.21.5\n\n[notice] A new release of pip is available\n",
    "WARNING: The directory is not owned\nnvidia-nccl-cu12                2.21.5      pypi_0    pypi\n",
    "Name: nvidia-nccl-cu12\nVersion: 2.21.5\nSummary: x\nRequires:\n", json.dumps([{"name": "nvidia-nccl-cu12", "version": "2.21.5"}]),
])
def test_python_packages(text):
    value, problems = parse_copies.parse_pip_list(text)
    assert {name: version for name, version in value.items() if "nccl" in name} == {"nvidia-nccl-cu12": "2.21.5"} and not problems


@pytest.mark.parametrize(("text", "version"), [
    ("(2, 28, 9)\n", "2.28.9"), ("2.21.5", "2.21.5"), ("[2, 18, 1]", "2.18.1"), ("2708\n", "2.7.8"), ("21003", "2.10.3"),
    ("UserWarning: x\n(2, 20, 5)\n", "2.20.5"), ("None", None), ("", None)])
def test_the_version_that_pytorch_tells(text, version):
    assert parse_copies.parse_torch_nccl(text).value == version
