# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about fabric manager: the parsed values, and what must not be done."""
from __future__ import annotations

from collections import Counter

import pytest

from . import case


def parsed(name):
    return case.expected(name)["parsed"]


def steps(name, bundle="main"):
    return [(step["action"], step.get("target")) for step in case.record(name, bundle)["plan"]]


def codes(name, bundle="main"):
    return {row["code"] for row in case.record(name, bundle)["findings"]}


def test_fm_01_one_patch_release_away():
    state = case.state("fm-01")
    assert state["fabric"]["log"] == {"reason": "version_differs", "manager": parsed("fm-01")["fm"], "driver": parsed("fm-01")["driver"]}
    assert state["modules"]["loaded"]["version"] == parsed("fm-01")["driver"]
    # Fabric manager already has the stack's version: it is not the one that moves.
    assert not any("fabricmanager" in str(target) for action, target in steps("fm-01") if action != "start_service")


def test_fm_03_nothing_to_do_is_no_fault():
    state = case.state("fm-03")
    assert state["nvswitches"] == [] and state["fabric"]["log"]["reason"] == parsed("fm-03")["fm_reason"]
    assert steps("fm-03") == [("stop_disable_service", "nvidia-fabricmanager")] and case.record("fm-03")["plan"][0]["only_if"] == "asked to"
    assert codes("fm-03") == {"fabric_manager_not_needed"}


@pytest.mark.parametrize("bundle,verdicts,found", [
    # "not applicable": nothing is said, and nobody asked for anything. In order is the same without a claim.
    ("pcie", {"not_applicable"}, []), ("sxm_ok", {"in_sync"}, []),
    ("sxm_fail", {"broken"}, ["fabric_not_completed"]), ("notstarted", {"broken"}, ["fabric_not_completed"]), ("a100", {"unknown"}, ["fabric_not_completed"])])
def test_fm_05_words_of_the_fabric(bundle, verdicts, found):
    record = case.record("fm-05", bundle)
    assert record["verdict"] in verdicts and [row["code"] for row in record["findings"]] == found


def test_fm_05_which_gpu_failed_and_how():
    (row,) = case.record("fm-05", "sxm_fail")["findings"]
    assert row["subject"] == "1 of 8" and "GPU 3: Completed, Insufficient Resources" in row["message"]
    (row,) = case.record("fm-05", "notstarted")["findings"]
    assert row["subject"] == "8 of 8" and "Not Started" in row["message"]


def test_fm_08_only_fabric_manager_moves():
    state = case.state("fm-08")
    assert state["modules"]["loaded"]["version"] == parsed("fm-08")["driver"]
    assert state["packages"]["nvidia-fabricmanager-470"]["version"].startswith(parsed("fm-08")["fm"] + "-")
    assert not any("driver" in str(target) for action, target in steps("fm-08") if action in ("install_exact", "downgrade_exact"))


def test_fm_10_the_host_runs_the_fabric():
    state = case.state("fm-10")
    assert state["virtualization"] == parsed("fm-10")["virt"] and state["nvswitches"] == []
    assert Counter(row["state"] for row in state["fabric"]["gpus"]) == parsed("fm-10")["fabric"]
    assert steps("fm-10") == [("manual", "activate the partition with fabric manager on the host")]
