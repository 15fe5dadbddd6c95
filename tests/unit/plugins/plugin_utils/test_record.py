# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's record."""
from __future__ import annotations

import pytest

from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine, record

PLAN = {"converged": True, "actions": [], "components": {"nccl": {"wanted": "2.22.3", "have": "2.22.3-1-1", "drift": [], "converged": True}}}


def row(subject, value, expected, proven):
    return {"subject": subject, "value": value, "expected": expected, "proven": proven, "detail": "seen"}


def test_a_good_node():
    probe = {"proof": {"libnccl": row("libnccl", "2.22.3", "2.22.3", True), "nvml": row("nvml", None, None, False)}, "contradicted": []}
    found = record.node_record({"name": "s"}, {"gpus": []}, PLAN, [], probe, done=[{"action": "hold", "target": "libnccl2"}])
    assert found["verdict"] == "in_sync" and found["findings"] == []
    assert [proof["subject"] for proof in found["proof"]] == ["libnccl"]
    assert {"subject": "nvml", "reason": "seen"} in found["not_proven"]
    assert found["components"] == [{"name": "nccl", "wanted": "2.22.3", "have": "2.22.3-1-1", "state": "exact, held"}]
    assert len(found["changed"]) == 1


def test_a_program_that_was_not_compiled_again_is_not_called_proven():
    probe = {"proof": {"nvcc": row("nvcc", "12.4.131", "12.4", True)}, "contradicted": []}
    assert "compile" in {entry["subject"] for entry in record.node_record({"name": "s"}, {"gpus": [1]}, PLAN, [], probe)["not_proven"]}


@pytest.mark.parametrize("subject", ["libcuda", "nvcc", "libnccl", "modprobe", "initramfs", "compile"])
def test_what_is_gone_is_broken_not_unproven(subject):
    probe = {"proof": {subject: row(subject, None, "1", False)}, "contradicted": []}
    found = record.node_record({"name": "s"}, {"gpus": [1]}, PLAN, [], probe)
    assert found["verdict"] == "broken" and subject + " missing" == found["findings"][0]["subject"]


def test_a_compat_library_is_no_mismatch_by_itself():
    probe = {"proof": {"libcuda": dict(row("libcuda", "570.86.10", "550.163.01", False), path="/usr/local/cuda-12.8/compat/libcuda.so.570.86.10")}}
    found = record.node_record({"name": "s"}, {"gpus": [1]}, PLAN, [], probe)
    assert [finding["code"] for finding in found["findings"]] == ["libcuda_shadowed_by_compat"] and found["verdict"] == "in_sync"


def test_no_answer_is_unknown():
    probe = {"proof": {"nvcc": dict(row("nvcc", None, "1", False), detail="no answer within 20 s")}}
    assert record.node_record({"name": "s"}, {"gpus": [1]}, PLAN, [], probe)["verdict"] == "unknown"


def test_a_contradiction_can_be_accepted():
    probe = {"proof": {"libnccl": row("libnccl", "2.19.0", "2.22.3", False)}}
    found = record.node_record({"name": "s"}, {"gpus": [1]}, PLAN, [], probe, accept="nccl_other_copy@*")
    assert found["verdict"] == "in_sync" and found["findings"][0]["accepted"]


@pytest.mark.parametrize("subject, code", sorted(record.CONTRADICTIONS.items()) + [("module:nvidia", "kernel_module_missing")])
def test_a_contradiction_is_broken(subject, code):
    probe = {"proof": {subject: row(subject, "1", "2", False)}, "contradicted": [subject]}
    found = record.node_record({"name": "s"}, {}, PLAN, [], probe)
    assert found["verdict"] == "broken" and [finding["code"] for finding in found["findings"]] == [code]
    assert "1" in found["findings"][0]["subject"]


@pytest.mark.parametrize("result, code, verdict, text", [
    ({"msg": "x", "problems": [{"code": "transaction_leaves_lock", "name": "perl", "message": "perl would go"}]},
     "transaction_leaves_lock", "blocked", "perl would go"),
    ({"msg": "x", "first_error": "nv-pci.c:1: error: no", "diagnosis": {"code": "api", "meaning": "It does not fit."}, "log_path": "/l"},
     "dkms_build_failed", "broken", "nv-pci.c:1: error: no"),
    ({"msg": "Connection lost"}, "run_failed", "unknown", "Connection lost"),
])
def test_a_failed_task_is_a_finding(result, code, verdict, text):
    found = record.node_record(None, None, None, [], failure={"task": "t", "result": result})
    assert found["verdict"] == verdict and found["findings"][0]["code"] == code and text in found["findings"][0]["message"]


def test_a_node_that_can_become_the_stack_is_drift():
    found = record.node_record({"name": "s"}, {}, dict(PLAN, converged=False, actions=[{"action": "hold", "target": "x"}]), [])
    assert found["verdict"] == "drift" and found["findings"][0]["code"] == "stack_not_installed"


def test_a_refusal_tells_the_source_and_the_way_out():
    text = record.refusal([engine.finding("os_unknown", "debian 11", "Nobody knows it.", "https://x.example"),
                           engine.finding("unproven", "a", "Not this one.")])
    assert "os_unknown@debian 11: Nobody knows it." in text and "https://x.example" in text and "remedy" in text
    assert "Not this one" not in text


def test_every_code_that_is_raised_has_a_meaning():
    for code in [*record.CONTRADICTIONS.values(), "dkms_build_failed", "run_failed", "stack_not_installed", "proof_failed"]:
        assert engine.codes()[code]["meaning"]
