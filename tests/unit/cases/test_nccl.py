# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about NCCL: the parsed values, and what must not be done."""
from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.plugin_utils import nccl_settings

from . import case


def parsed(name):
    return case.expected(name)["parsed"]


def codes(name):
    return {row["code"] for row in case.record(name)["findings"]}


def test_nccl_01_three_copies():
    want, state = parsed("nccl-01"), case.state("nccl-01")
    package = state["packages"]["libnccl2"]["version"]
    assert package == "%s-1+cuda%s" % (want["system"], want["system_cuda"])
    assert state["nccl"]["pip"] == {"nvidia-nccl-cu13": want["pip"]} and state["nccl"]["torch"] == want["torch"]
    assert {row["version"] for row in state["library_files"]} == {None, want["system"]}
    assert case.record("nccl-01")["plan"] == []


def test_nccl_02_a_cache_without_the_library():
    want, state = parsed("nccl-02"), case.state("nccl-02")
    assert state["packages"]["libnccl2"]["version"] == want["package"] and want["in_cache"] is False
    assert (state["libraries"], state["loader_cache"]) == ([], "nothing")
    assert {row["version"] for row in state["library_files"]} == {want["on_disk"]}
    assert [step["action"] for step in case.record("nccl-02")["plan"]] == ["run_ldconfig"] and codes("nccl-02") == {"library_not_in_cache"}


def test_nccl_04_a_graph_of_another_size():
    want, state, record = parsed("nccl-04"), case.state("nccl-04"), case.record("nccl-04")
    assert state["nccl"]["graph_file"]["gpus"] == want["graph_gpus"] and len(state["gpu_query"]) == want["node_gpus"]
    assert record["plan"] == [{"action": "rewrite_file", "target": "/etc/nccl.conf", "remove": ["NCCL_GRAPH_FILE"]}]
    assert not any("NCCL_TOPO_FILE" in case.said(row) for row in record["findings"])


def test_nccl_05_the_loopback():
    want, state = parsed("nccl-05"), case.state("nccl-05")
    chosen = nccl_settings.interfaces(state["nccl"]["conf"][0]["lines"][0]["value"])
    assert (chosen.exclude, chosen.exact, chosen.names) == (want["mode"] == "exclude", False, want["prefixes"])
    assert nccl_settings.candidates(chosen, state["interfaces"]) == want["candidates"]
    assert case.record("nccl-05")["plan"] == [{"action": "rewrite_file", "target": "/etc/nccl.conf", "NCCL_SOCKET_IFNAME": "^docker0,lo"}]
    assert codes("nccl-05") == {"nccl_ifname_allows_loopback"}
