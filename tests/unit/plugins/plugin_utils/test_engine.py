# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The engine: weights, order, acceptance, verdicts, and what is not proven."""
from __future__ import annotations

import itertools
import pathlib
import re

import pytest
import yaml
from ansible_collections.lockstep.gpu.plugins.module_utils.bundle import BundleProbe
from ansible_collections.lockstep.gpu.plugins.module_utils.facts import result
from ansible_collections.lockstep.gpu.plugins.plugin_utils.rules.context import TargetError
from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine, stack
from hypothesis import given
from hypothesis import strategies as st

OPEN = stack.expand("debian13-550-open")
SUBJECT = "nvidia-open-kernel-dkms=550.163.01-2@6.12.117+deb13-amd64"


def test_every_weight_is_a_known_one():
    for code, row in engine.codes().items():
        assert set(row) <= {"subject", "meaning", "contexts", "remedy", "example", "raised_by"}, code
        assert "default" in row["contexts"]
        for severity, verdict in row["contexts"].values():
            assert severity in engine.SEVERITIES and verdict in engine.VERDICTS
        for text in (row["meaning"], row["remedy"]):
            assert text.endswith(".")


def test_a_finding_cannot_command_a_terminal():
    row = engine.finding("run_failed", "a\x1b[2Jb", "one\ttwo\nthree\x07\u202e.")
    assert (row["subject"], row["message"]) == ("a?[2Jb", "one two\nthree??.")


def test_a_code_stands_in_the_table_once():
    text = "".join(path.read_text() for path in (pathlib.Path(engine.__file__).parent / "rules" / "codes").glob("*.yml"))
    assert len(re.findall(r"^\w+:$", text, re.MULTILINE)) == len(engine.codes())


def test_a_finding_has_all_its_parts():
    (row,) = engine.findings(OPEN)
    assert set(row) == {"code", "subject", "severity", "verdict", "message", "source", "remedy"}
    assert engine.verdict([row]) == "blocked"


@pytest.mark.parametrize("entry", ["driver_fails_to_build_on_kernel@*", "driver_fails_to_build_on_kernel@" + SUBJECT])
def test_an_accepted_finding_stays_and_does_not_count(entry):
    (row,) = engine.findings(OPEN, accept=[entry])
    assert row["accepted"] is True
    assert row["severity"] == "error"
    assert engine.verdict([row]) == "in_sync"


def test_another_subject_is_not_accepted():
    (row,) = engine.findings(OPEN, accept=["driver_fails_to_build_on_kernel@other"])
    assert "accepted" not in row


@pytest.mark.parametrize("entry", ["driver_fails_to_build_on_kernel", "no_such_code@*", "unproven@", "", None, 3, [10 ** 5000], {"a": 1}])
def test_an_unreadable_acceptance_is_refused(entry):
    with pytest.raises(engine.AcceptError, match="lockstep_accept"):
        engine.findings(OPEN, accept=[entry])


@given(st.lists(st.sampled_from(engine.VERDICTS[:-1])))
def test_the_verdict_is_the_worst_class(classes):
    assert engine.verdict([{"verdict": one} for one in classes]) == engine.VERDICTS[
        min([engine.VERDICTS.index(one) for one in classes] + [engine.VERDICTS.index("in_sync")])]


def test_nothing_that_applies_is_not_applicable():
    assert engine.verdict([], applicable=False) == "not_applicable"
    assert engine.verdict([{"verdict": "drift"}], applicable=False) == "drift"


def test_findings_come_worst_first_and_accepted_last():
    value = stack.expand({"driver": "535.999.01", "cuda": "13.0.0"}, exact=False)
    rows = engine.findings(value, target={"gpus": ["10de:1db1", "10de:ffff"]}, accept=["gpu_unknown@*"])
    assert [row["severity"] for row in rows] == ["error", "error", "warn", "error"]
    assert rows[-1]["code"] == "gpu_unknown"


def test_what_a_container_cannot_show_is_listed():
    value = stack.expand("debian13-550")
    subjects = [row["subject"] for row in engine.not_proven(value, {"container": True, "gpus": []})]
    assert subjects == ["running kernel", "boot default", "loaded module", "GPU context", "RDMA devices"]
    assert engine.not_proven(value, {"container": False, "gpus": [{"id": "10de:2330"}]}) == []


@pytest.mark.parametrize(("state", "reason"), [
    ({"gpus": None}, "the PCI devices could not be read"), ({"gpus": []}, "no NVIDIA GPU on this node"),
    ({"container": True, "gpus": [{"id": "10de:2330"}], "gpu_devices": False}, "not passed into this container"),
    ({"container": True, "gpus": [{"id": "10de:2330"}], "gpu_devices": True}, None)])
def test_why_nothing_is_known_of_a_gpu(state, reason):
    rows = engine.not_proven(stack.expand("debian13-550"), state)
    assert [row["reason"] for row in rows if row["subject"].startswith("GPU")] == ([reason] if reason else [])


@given(st.dictionaries(st.sampled_from(["os", "kernel", "boot", "gpus", "dkms", "modules", "packages", "package_manager", "alternatives",
                                        "libraries", "space", "unknown", "container"]), st.none()))
def test_a_state_in_which_all_is_unknown_breaks_no_rule(state):
    for name, key in itertools.product(stack.names(), ("state", "target")):
        known = state if key == "state" else {word: value for word, value in state.items() if word in ("os", "gpus", "kernel")}
        engine.findings(stack.expand(name), **{key: known})


def test_a_misspelt_key_of_a_target_is_no_answer():
    with pytest.raises(TargetError):
        engine.findings({"driver": {"version": "590.48.01"}}, target={"gpu": ["10de:1db1"]})


def test_a_state_is_not_changed():
    state = {"container": False, "kernel": {"running": "x", "installed": None}, "modules": {"loaded": None, "files": None}}
    before = repr(state)
    engine.findings(stack.expand("debian13-550"), state)
    assert repr(state) == before


BUNDLES = pathlib.Path(__file__).resolve().parents[3] / "fixtures" / "bundles"


@pytest.mark.parametrize(("bundle", "name", "codes"), [
    ("debian13-550", "debian13-550", set()),
    ("debian12-535", "debian12-535", set()),
    # The recorded node is healthy with 550; wanting 535 there is drift, whose packages the plan tells, and nothing is broken.
    ("debian13-550", "debian13-535", {"driver_branch_differs"}),
    ("debian12-535", "debian13-550", {"os_differs", "driver_branch_differs", "active_cuda_differs"}),
])
def test_recorded_nodes_give_no_other_findings_without_a_plan(bundle, name, codes):
    state = result(BundleProbe(str(BUNDLES / bundle), yaml.safe_load), ["local"])["ansible_facts"]["lockstep"]
    found = {row["code"] for row in engine.findings(stack.expand(name), state) if row["severity"] == "error"}
    assert found == codes
