# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about claims: each speaks, with its weight, and is silent beside it."""
from __future__ import annotations

import copy

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine, knowledge, stack
from ansible_collections.lockstep.gpu.plugins.plugin_utils.rules import build, cuda_limits

JAMMY = {"os": "ubuntu-22.04"}


def case(code, subject, weight, claim, silent):
    return pytest.param(code, subject, weight, claim, silent, id="%s:%s" % (code, subject))


CASES = [
    case("build_compiler_differs", "gcc 11.4@6.8.0-1032-aws", "error", dict(JAMMY, kernel="6.8.0-1032-aws", driver="575.57.08", gcc="11.4"),
         dict(JAMMY, kernel="5.15.0-119-generic", driver="575.57.08", gcc="11.4")),
    case("build_compiler_differs", "gcc 13@6.8.0-1032-aws", "warn", dict(JAMMY, kernel="6.8.0-1032-aws", driver="575.57.08", gcc="13"),
         dict(JAMMY, kernel="6.8.0-1032-aws", driver="575.57.08", gcc="12.3.0")),
    case("build_compiler_differs", "gcc 11.4@6.5.0-27-generic", "warn", dict(JAMMY, kernel="6.5.0-27-generic", driver="550.90.07"),
         dict(JAMMY, kernel="6.5.0-27-generic", driver={"version": "550.90.07", "module": "precompiled"})),
    case("build_compiler_differs", "gcc 10@5.15.0-119-generic", "warn", dict(JAMMY, kernel="5.15.0-119-generic", driver="535", gcc="10"),
         dict(JAMMY, kernel="5.15.0-119-generic", gcc="10")),
    case("build_headers_missing", "4.18.0-553.el8_10", "error", {"kernel": {"release": "4.18.0-553.el8_10", "headers": False}, "driver": "535"},
         {"kernel": {"release": "4.18.0-553.el8_10", "headers": True}, "driver": "535"}),
    case("kernel_too_old_for_driver", "570@3.10.0-1160.el7", "error", {"kernel": "3.10.0-1160.el7", "driver": "570 open"},
         {"kernel": "3.10.0-1160.el7", "driver": "550 open"}),
    case("kernel_too_old_for_driver", "570@3.10.0-1160.el7", "warn", {"kernel": "3.10.0-1160.el7", "driver": "570"}, {"kernel": "4.18", "driver": "570"}),
    case("kernel_risky_for_driver", "590.48.01@6.19.3", "warn", {"kernel": "6.19.3", "driver": "590.48.01"}, {"kernel": "6.19.3", "driver": "595.71.05"}),
    case("kaslr_breaks_cuda", "driver 595.58.03", "error", {"kernel": {"kaslr": True}, "driver": "595.58.03"},
         {"kernel": {"kaslr": True, "cmdline": ["nokaslr"]}, "driver": "595.58.03"}),
    case("kaslr_breaks_cuda", "driver 610", "error", {"kernel": {"kaslr": True}, "driver": "610"},
         {"kernel": {"kaslr": True}, "driver": {"version": "610", "options": {"uvm_disable_hmm": 1}}}),
    case("doca_moves_kernel", "linux-headers-amd64", "warn", {"os": "Debian 12", "ofed": "doca-ofed", "hold": False},
         {"os": "Debian 12", "ofed": "doca-ofed", "hold": True}),
    case("claimed_libraries_differ", "module 550.127.05 / libraries 550.120", "error", {"driver": {"version": "550.127.05", "libraries": "550.120"}},
         {"driver": {"version": "550.127.05", "libraries": "550.127.05"}}),
    case("cuda_host_compiler_unsupported", "cuda 12.3.2, gcc 13.2", "error", {"cuda": "12.3.2", "gcc": "13.2"}, {"cuda": "12.4.1", "gcc": "13.2"}),
    case("cuda_host_compiler_unsupported", "cuda 11.8, gcc 5", "error", {"cuda": "11.8", "gcc": "5"}, {"cuda": "11.8", "gcc": "11.4"}),
    case("cuda_host_compiler_unsupported", "cuda 13.4.1, gcc 17", "warn", {"cuda": "13.4.1", "gcc": "17"}, {"cuda": "13.4.1", "gcc": "16"}),
    case("cuda_glibc_conflict", "cuda 13.0, glibc 2.42", "error", {"cuda": "13.0", "glibc": "2.42"}, {"cuda": "13.1", "glibc": "2.42"}),
    case("cuda_glibc_conflict", "cuda 12, glibc 2.43", "error", {"cuda": "12", "glibc": "2.43"}, {"cuda": "13", "glibc": "2.43"}),
    case("ptx_jit_not_covered", "cuda 13.2@590.48.01", "warn", {"cuda": "13.2", "driver": "590.48.01"}, {"cuda": "13.1", "driver": "590.48.01"}),
    case("ptx_jit_not_covered", "cuda 13.1@580", "warn", {"cuda": "13.1", "driver": "580"}, {"cuda": "12.9", "driver": "570"}),
    case("cuda_known_issue", "cuda 13.2.1", "warn", {"cuda": "13.2.1"}, {"cuda": "13.2.2"}),
    case("cuda_dropped_distribution", "cuda 13.0.2@ubuntu 20.04", "warn", {"os": "ubuntu-20.04", "cuda": "13.0.2"}, {"os": "ubuntu-20.04", "cuda": "12.9.1"}),
    case("metapackage_without_version", "cuda, cuda-drivers", "warn", {"packages": ["cuda", "cuda-drivers"]}, {"packages": ["cuda-drivers-570"]}),
]


@pytest.mark.parametrize(("code", "subject", "weight", "claim", "silent"), CASES)
def test_a_rule_speaks_and_is_silent(code, subject, weight, claim, silent):
    loud = [row for row in engine.findings(stack.expand(claim, exact=False)) if row["code"] == code]
    assert [(row["subject"], row["severity"]) for row in loud] == [(subject, weight)]
    assert loud[0]["message"].endswith(".") and "None" not in loud[0]["message"]
    assert not [row for row in engine.findings(stack.expand(silent, exact=False)) if row["code"] == code]


def test_every_rule_has_a_case():
    assert {param.values[0] for param in CASES} == {rule.__name__ for rule in (*build.RULES, *cuda_limits.RULES)}


@pytest.mark.parametrize(("code", "subject", "weight", "claim", "silent"), CASES)
def test_what_is_only_reported_warns(code, subject, weight, claim, silent):
    """With the sources of these facts gone, and only reports left, nothing of them refuses."""
    facts = copy.deepcopy(knowledge.load())
    for table in (facts["compilers"]["kernels"], facts["compilers"]["defaults"], facts["cuda"]["host_gcc"], facts["cuda"]["glibc"],
                  facts["kernels"]["build_failures"], [facts["compilers"]["rule"], facts["kernels"]["kaslr"]]):
        for row in table:
            row.pop("source", None)
            row["certainty"] = "reported"
    found = engine.findings(stack.expand(claim, exact=False), facts=facts)
    told = {"build_headers_missing", "kernel_too_old_for_driver", "claimed_libraries_differ"}
    assert not [row for row in found if row["severity"] == "error" and row["code"] not in told]


@pytest.mark.parametrize(("driver", "kernel", "fails"), [
    ("550.163.01", "6.14.0-29-generic", False), ("550.163.01", "6.15.4", True), ("550.120", "6.17", True), ("550", "6.19", True),
    ("535.274.02", "6.17.0-19-generic", False), ("535.309.01", "6.19", False), ("470.256.02", "6.8.0-71-generic", False), ("470.256.02", "6.10", True),
    ("525.85.12", "6.1.75", False), ("525.85.12", "6.1.76", True), ("525.147.05", "6.6.15", True), ("525.147.05", "6.6.14", False),
    ("580.126.16", "7.0.0-1008-azure", False), ("560.35.03", "6.19", True), ("560.35.03", "6.11.0-26-generic", False), ("550.163.01", "6", False),
])
def test_a_driver_fails_from_a_kernel_on(driver, kernel, fails):
    codes = {row["code"] for row in engine.findings(stack.expand({"driver": driver, "kernel": kernel}, exact=False)) if row["severity"] == "error"}
    assert codes == ({"driver_fails_to_build_on_kernel"} if fails else set())


@pytest.mark.parametrize(("change", "fails"), [
    ({}, True), ({"source": "distribution"}, False), ({"module": "precompiled"}, False), ({"flavour": "proprietary"}, True)])
def test_a_distribution_s_own_or_prebuilt_module_is_not_judged_by_nvidia_s(change, fails):
    claim = {"os": "ubuntu-24.04", "kernel": "6.14.0-29-generic", "driver": dict({"version": "470.256.02"}, **change)}
    assert bool([row for row in engine.findings(stack.expand(claim, exact=False)) if row["severity"] == "error"]) is fails


def test_only_the_open_module_fails_where_only_that_is_said():
    facts = copy.deepcopy(knowledge.load())
    facts["kernels"]["build_failures"] = [row for row in facts["kernels"]["build_failures"] if row.get("flavour") == "open"]
    for flavour, fails in (("open", True), ("proprietary", False)):
        claim = stack.expand({"kernel": "6.16.3", "driver": {"version": "550.163.01", "flavour": flavour}}, exact=False)
        assert bool([row for row in engine.findings(claim, facts=facts) if row["code"] == "driver_fails_to_build_on_kernel"]) is fails


def test_what_runs_is_not_called_unbuildable():
    claim = stack.expand({"kernel": "6.15.4", "driver": "550.163.01"}, exact=False)
    assert not [row for row in engine.findings(claim, {"schema": 1}, purpose="audit") if row["code"] == "driver_fails_to_build_on_kernel"]


@pytest.mark.parametrize(("claim", "gpu", "expected"), [
    ({"driver": "470.256.02", "cuda": "12.4"}, "T4", ("error", "blocked")),
    ({"driver": "470.256.02", "cuda": {"versions": ["12.4"], "compat": True}}, "T4", ("info", "in_sync")),
    ({"driver": "510.108.03", "cuda": {"versions": ["12.4"], "compat": True}}, "T4", ("error", "blocked")),
    ({"driver": "545.29.06", "cuda": "13.0 via compat"}, "A100", ("warn", "in_sync")),
    ({"driver": "550.90.07", "cuda": "13.1 via compat"}, "H100", ("info", "in_sync")),
    ({"driver": "550.90.07", "cuda": "13.1 via compat"}, None, ("error", "blocked")),
    ({"driver": "550.90.07", "cuda": "13.1 via compat"}, "GeForce RTX 4090", ("error", "blocked")),
])
def test_forward_compatibility_is_for_listed_branches_of_data_centre_boards(claim, gpu, expected):
    rows = engine.findings(stack.expand(claim, exact=False), target={"gpus": [gpu] if gpu else []})
    assert [(row["severity"], row["verdict"]) for row in rows if row["code"].startswith("cuda_n")] == [expected]
