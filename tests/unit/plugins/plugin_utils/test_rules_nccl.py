# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""NCCL's rules: each where it speaks and where it is silent, and the truth about settings that people believe in."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_nccl
from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine, knowledge, nccl_settings, plan, stack
from hypothesis import given
from hypothesis import strategies as st

FACTS = knowledge.load()
PACKAGE = {"status": "installed", "arch": "amd64", "source": "nvidia-nccl"}


def judged(state=None, wanted=None, purpose="audit"):
    long_form = stack.expand(wanted or {}, exact=False)
    return {(row["code"], row["subject"]): row for row in engine.findings(long_form, state or {},
                                                                          purpose=purpose) if "nccl" in row["code"] or "library" in row["code"]}


def codes(**world):
    return sorted({(row["code"], row["severity"]) for row in judged(**world).values()})


def files(*contents, **more):
    text = contents[0] if len(contents) == 1 else "\n".join("==> %s <==\n%s" % pair for pair in contents)
    return {"nccl": dict({"conf": parse_nccl.parse_nccl_conf(text).value}, **more)}


def gpus(count):
    return [{"index": number, "name": "NVIDIA A100 80GB PCIe", "uuid": None, "bus_id": None, "driver_version": None, "address": None, "state": "healthy",
             "faults": {}}
            for number in range(count)]


def packages(**rows):
    return {"packages": {name.replace("_", "-"): dict(PACKAGE, version=version) for name, version in rows.items()}}


# The claims of which many guides are full, and what is true instead.
FALSE = [
    ("NCCL_TIMEOUT", "120", "nccl_variable_unknown", "init_process_group"), ("NCCL_NTHREADS", "4", "nccl_value_reset", "64, 128, 256, 512"),
    ("NCCL_MAX_RINGS", "4", "nccl_variable_unknown", "NCCL_MAX_NCHANNELS"), ("NCCL_BUFFERSIZE", "8388608", "nccl_variable_unknown", "NCCL_BUFFSIZE"),
    ("NCCL_ASYNC_ERROR_HANDLING", "1", "nccl_variable_unknown", "TORCH_NCCL_ASYNC_ERROR_HANDLING"),
    ("NCCL_TREE_THRESHOLD", "0", "nccl_variable_unknown", "NCCL_ALGO"), ("NCCL_IB_CUDA_SUPPORT", "1", "nccl_variable_unknown", "NCCL_NET_GDR_LEVEL"),
    ("NCCL_SOKET_IFNAME", "eth0", "nccl_variable_unknown", "did you mean NCCL_SOCKET_IFNAME"), ("nccl_debug", "INFO", "nccl_variable_unknown", "NCCL_DEBUG"),
    ("NCLL_DEBUG", "INFO", "nccl_variable_unknown", "did you mean NCCL_DEBUG"), ("NCCL_IB_DISABLE", "true", "nccl_value_reset", "reads 0"),
    ("NCCL_BUFFSIZE", "4M", "nccl_value_reset", "reads 4"), ("NCCL_DEBUG", "DEBUG", "nccl_value_reset", "VERSION, WARN, INFO"),
    ("NCCL_P2P_LEVEL", "nvl", "nccl_value_reset", "NVL"), ("NCCL_SOCKET_FAMILY", "ipv4", "nccl_value_reset", "AF_INET"),
    ("NCCL_ALGO", "Ring,Treee", "nccl_value_reset", "Treee"), ("NCCL_IB_TIMEOUT", "32", "nccl_value_reset", "infinite"),
    ("NCCL_CONF_FILE", "/etc/other.conf", "nccl_settings_contradict", "environment"),
]


@pytest.mark.parametrize(("name", "value", "code", "truth"), FALSE)
def test_a_false_claim_is_caught_in_a_file_and_in_a_stack(name, value, code, truth):
    for world, verdict in (({"state": files("%s=%s\n" % (name, value))}, "drift"), ({"wanted": {"nccl": {"conf": {name: value}}}}, "blocked")):
        row = next(row for (found, _subject), row in judged(**world).items() if found == code)
        assert truth in row["message"] and row["severity"] == "error" and row["verdict"] == verdict and row["source"].startswith("https://")
    step, = next(row for (found, _subject), row in judged(state=files("%s=%s\n" % (name, value))).items() if found == code)["do"]
    assert step == {"action": "rewrite_file", "target": "/etc/nccl.conf", "remove": [name]}


def test_ib_disable_does_not_select_roce():
    row = judged(state=files("NCCL_IB_DISABLE=1\nNCCL_SOCKET_IFNAME=ib0\n"))["nccl_settings_contradict", "NCCL_IB_DISABLE=1, NCCL_SOCKET_IFNAME=ib0"]
    assert "TCP" in row["message"] and row["severity"] == "error"
    assert ("nccl_settings_contradict", "error") in codes(wanted={"nccl": {"conf": {"NCCL_IB_DISABLE": 1, "NCCL_SOCKET_IFNAME": "ib0"}}})


@pytest.mark.parametrize(("text", "verdict"), [
    ("NCCL_IB_DISABLE=1\nNCCL_IB_HCA=mlx5_0\n", "degraded"), ("NCCL_NET=IB\nNCCL_IB_DISABLE=1\n", "broken"), ("NCCL_MIN_CTAS=16\nNCCL_MAX_CTAS=8\n",
                                                                                                              "degraded"),
    ("NCCL_SOCKET_NTHREADS=16\nNCCL_NSOCKS_PERTHREAD=8\n", "degraded"), ("NCCL_IB_GID_INDEX=3\nNCCL_IB_ADDR_RANGE=10.0.0.0/8\n", "degraded"),
    ("NCCL_NET=AWS Libfabric\nNCCL_NET_PLUGIN=none\n", "broken"), ("NCCL_MNNVL_ENABLE=1\nNCCL_CUMEM_ENABLE=0\n", "broken")])
def test_settings_that_do_not_go_together(text, verdict):
    row, = [row for (code, _subject), row in judged(state=files(text)).items() if code == "nccl_settings_contradict"]
    assert row["verdict"] == verdict


@pytest.mark.parametrize("text", [
    "NCCL_DEBUG=warn\n", "NCCL_NTHREADS=512\n", "NCCL_ALGO=allreduce:^tree;broadcast:ring\n", "NCCL_ALGO=^Tree,NVLS\n", "NCCL_PROTO=Simple\n",
    "NCCL_IB_GID_INDEX=-1\n", "NCCL_NETDEVS_POLICY=max:2\n", "NCCL_CTA_POLICY=EFFICIENCY|ZERO\n", "NCCL_CROSS_NIC=0x1\n", "NCCL_SOCKET_IFNAME==ens6\n",
    "NCCL_DEBUG_SUBSYS=INIT,NET\n", "NCCL_VERSION=2.21.5\n", "NCCL_FASTRAK_IFNAME=eth1\n", "NCCL_SHARP_DISABLE=1\n", "OFI_NCCL_PROTOCOL=RDMA\n",
    "FI_PROVIDER=efa\n", "NCCL_IB_DISABLE=0\nNCCL_SOCKET_IFNAME=ib0\n", "NCCL_MIN_CTAS=8\nNCCL_MAX_CTAS=8\n", "NCCL_IB_HCA=mlx5_0:1,mlx5_1:1\n",
    "NCCL_NET_PLUGIN=\n", "NCCL_TOPO_FILE=/opt/t.xml\n"])
def test_nothing_is_said_about_good_settings(text):
    assert not judged(state=files(text))


def test_a_name_that_nobody_knows_is_no_error():
    assert codes(state=files("NCCL_QUITE_SOMETHING_ELSE=1\n")) == [("nccl_variable_unknown", "warn")]


def test_pytorch_still_reads_its_old_names_in_the_environment():
    state = {"nccl": {"env": [{"path": "environment", "number": 1, "name": "NCCL_ASYNC_ERROR_HANDLING", "value": "1"}]}}
    assert codes(state=state) == [("nccl_variable_unknown", "warn")]


def test_a_variable_belongs_to_releases():
    newer = dict(files("NCCL_IB_OOO_RQ=1\n"), **packages(libnccl2="2.22.3-1+cuda12.4"))
    assert codes(state=newer) == [("nccl_variable_unknown", "warn")]
    assert not judged(state=dict(newer, **packages(libnccl2="2.30.4-1+cuda12.9")))
    old = dict(files("NCCL_TREE_THRESHOLD=0\n"), **packages(libnccl2="2.4.8-1+cuda10.0"))
    assert not judged(state=old)


FAULTS = [("nccl_conf_no_equals", "NCCL_DEBUG INFO"), ("nccl_conf_export_prefix", "export NCCL_DEBUG=INFO"), ("nccl_conf_leading_blank", " NCCL_DEBUG=INFO"),
          ("nccl_conf_blank_in_name", "NCCL_DEBUG =INFO"), ("nccl_conf_inline_comment", "NCCL_DEBUG=INFO # all"), ("nccl_conf_quotes_kept",
                                                                                                                   'NCCL_DEBUG="INFO"'),
          ("nccl_conf_carriage_return", "NCCL_DEBUG=INFO\r")]


@pytest.mark.parametrize(("code", "line"), FAULTS)
def test_a_fault_of_a_line_is_named_once_and_mended(code, line):
    (found, row), = judged(state=files("NCCL_NET=IB\n%s\n" % line)).items()
    assert found == (code, "/etc/nccl.conf line 2: NCCL_DEBUG")
    assert row["do"] == [{"action": "rewrite_file", "target": "/etc/nccl.conf", "NCCL_DEBUG": "INFO"}] and row["severity"] == "error"


def test_of_two_lines_the_first_wins():
    row = judged(state=files("NCCL_DEBUG=WARN\nNCCL_DEBUG=INFO\n"))["nccl_conf_duplicate", "NCCL_DEBUG in /etc/nccl.conf"]
    assert row["severity"] == "error" and row["do"][0]["remove"] == ["line 2 (NCCL_DEBUG)"]
    assert codes(state=files("NCCL_IB_TC=0x10\nNCCL_IB_TC=16\n")) == [("nccl_conf_duplicate", "info")]


def test_a_users_file_the_environment_and_a_log_win():
    own = files(("/etc/nccl.conf", "NCCL_DEBUG=WARN\nNCCL_NET=IB\n"), ("/root/.nccl.conf", "NCCL_DEBUG=INFO\nNCCL_NET=IB\n"))
    (found, row), = judged(state=own).items()
    assert found == ("nccl_conf_overridden", "NCCL_DEBUG in /etc/nccl.conf") and "/root/.nccl.conf says INFO" in row["message"]
    env = files("NCCL_DEBUG=WARN\n", env=[{"path": "environment", "number": 1, "name": "NCCL_DEBUG", "value": "INFO"}])
    assert codes(state=env) == [("nccl_conf_overridden", "warn")]
    assert codes(state=files("NCCL_IB_TC=0x10\n", log={"settings": {"NCCL_IB_TC": "16"}})) == []
    assert codes(state=files("NCCL_IB_TC=16\n", log={"settings": {"NCCL_IB_TC": "32"}})) == [("nccl_conf_overridden", "warn")]


UP = [{"name": "lo", "running": True, "addresses": ["127.0.0.1/8"]}, {"name": "docker0", "running": False, "addresses": ["172.17.0.1/16"]},
      {"name": "ens6", "running": True, "addresses": ["192.0.2.17/24"]}, {"name": "ens6f1", "running": True, "addresses": []}]


NOTHING, LOOPBACK = "nccl_ifname_matches_nothing", "nccl_ifname_allows_loopback"


@pytest.mark.parametrize(("value", "taken", "code", "step"), [
    ("^docker0", ["lo", "ens6"], LOOPBACK, "^docker0,lo"), ("^=docker0,ens6", ["lo"], LOOPBACK, "^=docker0,ens6,lo"), ("lo", ["lo"], LOOPBACK, None),
    ("^docker0,lo", ["ens6"], None, None), ("^docker,l", ["ens6"], None, None), ("ens", ["ens6"], None, None), ("=ens6", ["ens6"], None, None),
    ("eth0,ens6", ["ens6"], None, None), ("ens6:1", ["ens6"], None, None), ("=ens", [], NOTHING, None), ("eth0", [], NOTHING, None),
    ("ens6f1", [], NOTHING, None), ("docker0", [], NOTHING, None), ("^lo,ens,docker", [], NOTHING, None), ('"ens6"', [], NOTHING, None)])
def test_interfaces_are_chosen_as_nccl_chooses_them(value, taken, code, step):
    assert nccl_settings.candidates(nccl_settings.interfaces(value), UP) == taken
    found = [row for row in judged(state=dict(files("NCCL_SOCKET_IFNAME=%s\n" % value), interfaces=UP)).values() if "ifname" in row["code"]]
    assert [row["code"] for row in found] == ([code] if code else [])
    if step:
        assert found[0]["do"] == [{"action": "rewrite_file", "target": "/etc/nccl.conf", "NCCL_SOCKET_IFNAME": step}]
    elif '"' in value:
        # The rule for quotes mends the line.
        assert not found[0].get("do")
    elif code == "nccl_ifname_matches_nothing":
        assert found[0]["do"][0]["remove"] == ["NCCL_SOCKET_IFNAME"] and found[0]["verdict"] == "broken"


def test_interfaces_that_nobody_listed_are_not_missing():
    assert not judged(state=files("NCCL_SOCKET_IFNAME=eth0\n"))
    assert nccl_settings.interfaces("") is None and nccl_settings.interfaces("^") is None


@given(st.text(max_size=30), st.lists(st.from_regex(r"[a-z]{1,4}[0-9]?", fullmatch=True), max_size=5))
def test_a_list_and_its_exclusion_share_the_interfaces(value, names):
    plain, excluded = nccl_settings.interfaces("=" + value + ",x"), nccl_settings.interfaces("^=" + value + ",x")
    assert all(plain.takes(name) != excluded.takes(name) for name in names)


@given(st.integers(-10 ** 12, 10 ** 12))
def test_numbers_are_read_in_any_base(number):
    assert nccl_settings.number(str(number)) == number and nccl_settings.number(hex(number)) == number
    assert nccl_settings.number("%dx" % number) is None and nccl_settings.read_as(str(number) + "M") == number


def log(**more):
    return {"nccl": {"log": dict({"settings": {}, "networks": ["Socket"], "no_ib_device": True, "failures": [], "plugins_missing": [], "missing_devices": []},
                                 **more)}}


@pytest.mark.parametrize(("state", "speaks"), [
    (log(), True), (log(no_ib_device=False), False), (log(networks=["IB", "Socket"]), False), (log(settings={"NCCL_NET": "Socket"}), False),
    (log(no_ib_device=False, failures=["NET/OFI No eligible providers were found"]), True), (log(no_ib_device=False, plugins_missing=["libnccl-net.so"]),
                                                                                             False),
    (log(no_ib_device=False, plugins_missing=["libnccl-net-ofi.so"], settings={"NCCL_NET_PLUGIN": "ofi"}), True)])
def test_a_fall_back_to_sockets(state, speaks):
    assert codes(state=state) == ([("nccl_ib_fallback", "error")] if speaks else [])
    assert not judged(state=state, wanted={"expect": {"hcas": 0}})


def test_a_graph_file_belongs_to_a_machine_size():
    four = files("NCCL_GRAPH_FILE=/opt/g.xml\n", graph_file={"gpus": 4, "graphs": 1})
    assert codes(state=dict(four, gpu_query=gpus(4))) == [("nccl_graph_file_pinned", "warn")]
    found = judged(state=dict(four, gpu_query=gpus(8)))
    assert ("nccl_graph_file_other_size", "4 GPUs in the file, 8 on the node") in found
    # A variable of one run is nothing permanent.
    run = log(networks=[], settings={"NCCL_GRAPH_FILE": "/opt/g.xml"}, missing_devices=[1])
    assert codes(state=run) == [("nccl_graph_file_other_size", "error")]


def test_copies_beside_the_systems():
    state = dict(packages(libnccl2="2.28.3-1+cuda13.0"), nccl={"pip": {"nvidia-nccl-cu13": "2.28.3"}, "torch": "2.28.3"},
                 library_files=[{"path": "/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.3", "target": None, "version": "2.28.3"}])
    assert not judged(state=state)
    state["library_files"] += [{"path": "/usr/local/lib/libnccl.so.2.18.3", "target": None, "version": "2.18.3"}]
    assert list(judged(state=state)) == [("nccl_other_copy", "/usr/local/lib/libnccl.so.2.18.3 2.18.3")]
    state["libraries"] = [{"soname": "libnccl.so.2", "path": "/usr/local/lib/libnccl.so.2", "target": "/usr/local/lib/libnccl.so.2.18.3", "version": "2.18.3"}]
    row = judged(state=state)["nccl_other_copy", "libnccl 2.18.3 /usr/local/lib/libnccl.so.2"]
    assert (row["severity"], row["verdict"]) == ("error", "broken")
    # Where there is no system copy, the one of Python is no other.
    assert not judged(state={"nccl": {"pip": {"nvidia-nccl-cu12": "2.21.5"}}})


@pytest.mark.parametrize(("cache", "files_there", "wanted", "speaks"), [
    ("nothing", True, None, True), ("nothing", False, None, False), ("nothing", False, {"nccl": "2.29.2"}, True), ("all", False, None, True),
    ("part", True, None, False), (None, True, None, False)])
def test_the_loaders_cache(cache, files_there, wanted, speaks):
    state = dict(packages(libnccl2="2.29.2-1+cuda12.9"), loader_cache=cache, libraries=[])
    if files_there:
        state["library_files"] = [{"path": "/lib/x86_64-linux-gnu/libnccl.so.2", "target": "libnccl.so.2.29.2", "version": "2.29.2"}]
    found = judged(state=state, wanted=wanted)
    assert list(found) == ([("library_not_in_cache", "libnccl.so.2")] if speaks else [])
    if speaks:
        row, = found.values()
        assert row["do"] == [{"action": "run_ldconfig"}] and "2.29.3" in row["message"] and row["verdict"] == "drift"


@pytest.mark.parametrize(("runtime", "headers", "wanted", "step"), [
    ("2.28.3-1+cuda13.0", "2.29.2-1+cuda13.1", None, ("downgrade_exact", "libnccl-dev=2.28.3-1+cuda13.0")),
    ("2.28.3-1+cuda13.0", "2.27.5-1+cuda12.9", "2.27.5", ("downgrade_exact", "libnccl2=2.27.5-1+cuda12.9")),
    ("2.28.3-1+cuda13.0", "2.27.5-1+cuda12.9", "2.28.3", ("install_exact", "libnccl-dev=2.28.3-1+cuda13.0")),
    ("2.28.3-1+cuda13.0", "2.28.3-1+cuda12.9", None, ("install_exact", "libnccl-dev=2.28.3-1+cuda13.0")),
    ("2.28.3-1+cuda13.0", "2.28.3-1+cuda13.0", None, None)])
def test_headers_and_library_are_of_one_build(runtime, headers, wanted, step):
    found = [row for (code, _subject), row in judged(state=packages(libnccl2=runtime, libnccl_dev=headers), wanted={"nccl": wanted} if wanted else None).items()
             if code == "nccl_dev_runtime_split"]
    assert [(row["do"][0]["action"], row["do"][0]["target"]) for row in found] == ([step] if step else [])


@pytest.mark.parametrize(("claim", "expected"), [
    ({"nccl": {"version": "2.31.2", "cuda": "13.4"}, "cuda": "12.6"}, ("nccl_cuda_major_differs", "error", "blocked")),
    ({"nccl": {"version": "2.31.2", "cuda": "13.4"}, "cuda": "12.6", "driver": "580.65.06"}, ("nccl_cuda_major_differs", "warn", "degraded")),
    ({"nccl": {"version": "2.31.2", "cuda": "13.4"}, "cuda": "12.6", "driver": "560.35.03"}, ("nccl_cuda_major_differs", "error", "blocked")),
    ({"nccl": {"version": "2.21.5", "cuda": "12.4"}, "cuda": "13.0"}, ("nccl_cuda_major_differs", "warn", "degraded")),
    ({"nccl": {"version": "2.29.7", "cuda": "13.2"}, "cuda": "13.0"}, ("nccl_cuda_newer_minor", "warn", "in_sync")),
    ({"nccl": {"version": "2.30.7", "cuda": "12.9"}, "cuda": "12.4"}, None), ({"nccl": {"version": "2.28.9", "cuda": "13.0"}, "cuda": "13.2"}, None)])
def test_the_cuda_that_nccl_is_built_with(claim, expected):
    found = [(row["code"], row["severity"], row["verdict"]) for row in judged(wanted=claim).values()]
    assert found == ([expected] if expected else [])


def test_an_install_that_named_no_version():
    state = packages(libnccl2="2.31.2-1+cuda13.4")
    row, = judged(state=state, wanted={"cuda": "12.6"}).values()
    assert (row["code"], row["verdict"]) == ("nccl_cuda_major_differs", "drift") and "2.31.2-1+cuda13.4" in row["subject"]
    assert not judged(state=packages(libnccl2="2.31.2-1+cuda12.9"), wanted={"cuda": "12.6"})


def test_a_stack_with_settings_is_not_served_yet():
    wanted = stack.expand({"os": "debian-13", "nccl": {"version": "2.22.3", "conf": {"NCCL_DEBUG": "WARN"}}})
    assert wanted["nccl"]["conf"] == {"NCCL_DEBUG": "WARN"} and "nccl.conf" in plan.unserved(wanted)
    with pytest.raises(stack.StackError, match="nccl.conf"):
        stack.expand({"os": "debian-13", "nccl": {"version": "2.22.3", "conf": {"NCCL_DEBUG": ["WARN"]}}})
    with pytest.raises(stack.StackError, match="one line"):
        stack.expand({"nccl": {"conf": {"NCCL DEBUG": "WARN"}}}, exact=False)


@pytest.mark.parametrize("row", FACTS["nccl_variables"]["variables"], ids=lambda row: row["name"])
def test_every_row_takes_its_own_values(row):
    for value in row.get("values") or []:
        if value.isalnum():
            assert nccl_settings.illegal(row, value) is None
    for edge in (row.get("min"), row.get("max")):
        if edge is not None:
            assert nccl_settings.illegal(row, str(edge)) is None
    if row.get("instead"):
        assert nccl_settings.variable(FACTS, row["instead"])
