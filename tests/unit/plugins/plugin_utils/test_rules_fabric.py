# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about fabric manager and the fabric: what each kind of node is told, and when nothing is said."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine

H100, PCIE, B200, GB200 = "10de:2330", "10de:2331", "10de:2901", "10de:2941"


def packages(**names):
    return {name.replace("_", "-"): {"version": version, "status": "installed", "source": None} for name, version in names.items()}


def gpus(name, count=8):
    return [{"address": "0000:%02x:00.0" % number, "id": name, "class": "0302"} for number in range(count)]


def states(*words, name=None):
    return [{"index": index, "name": name, "state": state, "status": status} for index, (state, status) in enumerate(words)]


def found(state, stack=None, codes=None, purpose="audit"):
    rows = engine.findings(stack or {}, state, purpose=purpose)
    mine = {"fabric_manager_version_differs", "fabric_manager_version_would_differ", "fabric_manager_missing", "fabric_manager_not_needed",
            "fabric_manager_on_wrong_side", "fabric_not_completed", "revision_coupling"}
    return [row for row in rows if row["code"] in (codes or mine)]


def said(*args, **options):
    return [(row["code"], row["subject"], row["verdict"]) for row in found(*args, **options)]


def steps(*args, **options):
    return [(step["action"], step["target"]) for step in engine.steps(found(*args, **options))]


def node(**state):
    """An HGX H100 with its driver and fabric manager as they should be, with some parts replaced."""
    usual = {"gpus": gpus(H100), "nvswitches": [{"address": "0000:05:00.0", "id": "10de:22a3"}], "container": False, "virtualization": "none",
             "modules": {"loaded": {"version": "535.183.01", "flavour": "open"}},
             "packages": packages(nvidia_fabricmanager_535="535.183.01-1", libnvidia_compute_535="535.183.01-0ubuntu1", libnvidia_nscq_535="535.183.01-1"),
             "fabric": {"gpus": states(*[("Completed", "Success")] * 8), "service": {"active": "active", "load": "loaded"}, "log": {"reason": "started"}}}
    return dict(usual, **state)


def test_nothing_is_said_of_a_node_in_order():
    assert said(node()) == []
    assert said({}) == [] and said({"fabric": {}, "packages": {}, "gpus": gpus(PCIE), "nvswitches": []}) == []


@pytest.mark.parametrize("driver", ["530.41.03", "535.183.06", "535.183.1"])
def test_a_branch_is_not_enough(driver):
    state = node(modules={"loaded": {"version": driver, "flavour": "open"}})
    assert ("fabric_manager_version_differs", "535.183.01 / %s" % driver, "broken") in said(state)


def test_the_stack_decides_which_of_the_two_moves():
    newer = packages(nvidia_fabricmanager_470="470.129.06-1")
    state = node(packages=newer, modules={"loaded": {"version": "470.82.01", "flavour": "proprietary"}})
    assert steps(state, {"driver": {"version": "470.82.01"}}) == [("downgrade_exact", "nvidia-fabricmanager-470=470.82.01-1"), ("start_service",
                                                                                                                                "nvidia-fabricmanager")]
    assert steps(state)[0] == ("downgrade_exact", "nvidia-fabricmanager-470=470.82.01-1")
    # the driver's own rules move the driver
    assert steps(state, {"driver": {"version": "470.129.06"}}) == [("start_service", "nvidia-fabricmanager")]
    assert steps(state, {"driver": {"version": "470.256.02"}}) == [("install_exact", "nvidia-fabricmanager-470=470.256.02-1"), ("start_service",
                                                                                                                                "nvidia-fabricmanager")]


def test_an_update_without_a_reboot_moves_no_package():
    state = node(packages=packages(nvidia_fabricmanager="595.71.05-1ubuntu1", libnvidia_compute="595.71.05-1ubuntu1"),
                 modules={"loaded": {"version": "590.48.01", "flavour": "open"}})
    assert said(state)[0] == ("fabric_manager_version_differs", "595.71.05 / 590.48.01", "broken")
    assert [action for action, _target in steps(state)] == ["start_service"]


def test_a_transitional_package_does_not_hide_the_program():
    state = node(packages=packages(nvidia_fabricmanager_570="570.211.01-0ubuntu0.24.04.1", nvidia_fabricmanager_580="580.173.02-0ubuntu0.24.04.1"),
                 modules={"loaded": {"version": "570.211.01", "flavour": "open"}})
    assert ("fabric_manager_version_differs", "580.173.02 / 570.211.01", "broken") in said(state)
    state["fabric"] = dict(state["fabric"], manager="570.211.01")
    assert said(state) == []


def test_the_last_start_counts_only_where_nothing_newer_is_known():
    log = {"reason": "version_differs", "manager": "530.30.02", "driver": "530.41.03"}
    assert said({"fabric": {"log": log}}) == [("fabric_manager_version_differs", "530.30.02 / 530.41.03", "broken")]
    assert said(node(fabric={"log": log, "gpus": states(*[("Completed", "Success")] * 8)})) == []


@pytest.mark.parametrize("stack,subjects", [
    ({"driver": {"version": "530.41.03"}, "fabric": {"manager": "530.30.02"}}, ["530.30.02 / 530.41.03"]),
    ({"driver": {"version": "550.120"}, "fabric": {"manager": "550.127.05"}}, ["550.127.05 / 550.120"]),
    ({"driver": {"version": "530.41.03"}, "fabric": {"manager": "525"}}, ["525 / 530.41.03"]),
    ({"driver": {"version": "580.126.20"}, "fabric": {"imex": "580.95.05"}}, ["580.95.05 / 580.126.20"]),
    ({"driver": {"version": "535.183.01"}, "fabric": {"manager": "535"}}, []), ({"driver": {"version": "535.183.01"}, "fabric": {"manager": "auto"}}, []),
    ({"fabric": {"manager": "535.183.01"}}, []), ({"driver": {"version": "535.183.01"}, "fabric": {"manager": "535.183.01"}}, [])])
def test_a_claim_alone(stack, subjects):
    assert said({}, stack) == [("fabric_manager_version_differs", subject, "blocked") for subject in subjects]


def test_an_installed_manager_beside_the_stacks_driver():
    state = {"packages": packages(nvidia_fabricmanager_570="570.133.20-1")}
    assert said(state, {"driver": {"version": "570.211.01"}}) == [("fabric_manager_version_differs", "570.133.20 / 570.211.01", "drift")]


def test_manager_and_driver_are_moved_together():
    state, stack = node(), {"driver": {"version": "535.216.03"}}
    assert ("fabric_manager_version_differs", "535.183.01 / 535.216.03", "drift") in said(state, stack)
    assert ("install_exact", "nvidia-fabricmanager-535=535.216.03-1") in steps(state, stack)
    alone = {"packages": packages(nvidia_fabricmanager_535="535.183.01-1")}
    assert said(alone, {"fabric": {"manager": "535.216.03"}}) == [("fabric_manager_version_differs", "535.183.01 / 535.216.03", "drift")]
    assert said(alone, {"fabric": {"manager": "535"}}) == [] and said(node(), {"driver": {"version": "535.183.01"}, "fabric": {"manager": "535.183.01"}}) == []
    # A stack that contradicts itself is refused, whatever the node has.
    assert said(node(), {"driver": {"version": "535.183.01"}, "fabric": {"manager": "535.216.03"}}) == [
        ("fabric_manager_version_differs", "535.216.03 / 535.183.01", "blocked")]


def transaction(**parts):
    usual = {"arch": "amd64", "old": None, "origin": None}
    rows = {kind: [dict(usual, name=name.replace("_", "-"), version=version) for name, version in names.items()] for kind, names in parts.items()}
    return {"package_manager": {"transaction": dict({"install": [], "upgrade": [], "downgrade": [], "remove": [], "tool": "apt", "error": None}, **rows)}}


def test_transactions():
    newer = dict(nvidia_driver_535="535.216.03-0ubuntu1", libnvidia_compute_535="535.216.03-0ubuntu1", cuda_drivers_535="535.183.01-1")
    assert said(transaction(install=dict(newer, nvidia_fabricmanager_535="535.183.01-1"))) == [
        ("fabric_manager_version_would_differ", "535.183.01 / 535.216.03", "blocked")]
    # what stays installed counts as well
    state = dict(node(), **transaction(upgrade=newer))
    assert ("fabric_manager_version_would_differ", "535.183.01 / 535.216.03", "blocked") in said(state)
    assert said(dict(node(), **transaction(upgrade=dict(newer, nvidia_fabricmanager_535="535.216.03-1")))) == []
    assert said(dict(node(), **transaction(upgrade={"curl": "8"}))) == [] and said(transaction(install=newer)) == []
    assert said(dict(node(), **transaction(upgrade=newer, remove={"nvidia_fabricmanager_535": None}))) == []


def test_a_missing_manager():
    bare = {"gpus": None, "log": None}
    state = node(packages=packages(libnvidia_compute_535="535.183.01-0ubuntu1"), fabric=bare)
    assert said(state) == [("fabric_manager_missing", "1 NVSwitches, driver 535.183.01", "broken")]
    assert steps(state) == [("install_exact", "nvidia-fabricmanager-535=535.183.01"), ("start_service", "nvidia-fabricmanager")]
    assert said(dict(state, nvswitches=[])) == [("fabric_manager_missing", "8 GPUs on an NVSwitch baseboard, driver 535.183.01", "broken")]
    assert said(dict(state, nvswitches=[], gpus=gpus(H100, 4))) == [] and said(dict(state, packages=None)) == [] and said(dict(state, container=True)) == []
    assert said(dict(state, nvswitches=[], virtualization="kvm")) == []
    assert [row["severity"] for row in found(dict(state, nvswitches=[], gpus=gpus("10de:2329")))] == ["warn"]
    unit = node(packages=None, fabric={"service": {"load": "not-found"}}, modules={"loaded": {"version": "580.95.05", "flavour": "open"}}, os={"id": "rocky"})
    assert steps(unit)[0] == ("install_exact", "nvidia-fabricmanager=580.95.05")


def test_no_switch_no_manager():
    state = {"gpus": gpus(PCIE, 2), "nvswitches": [], "fabric": {"log": {"reason": "nothing_to_do"}, "gpus": states(("Not Supported", "N/A"),
                                                                                                                    ("Not Supported", "N/A"))}}
    assert said(state) == [("fabric_manager_not_needed", "no NVSwitch", "not_applicable")]
    assert said(dict(state, fabric={})) == [] and said(dict(state, nvswitches=None)) == []
    # equal versions do not matter where it has nothing to do
    odd = dict(state, packages=packages(nvidia_fabricmanager_535="535.183.01-1"), modules={"loaded": {"version": "550.54.15", "flavour": "open"}})
    assert [code for code, _subject, _verdict in said(odd)] == ["fabric_manager_not_needed"]


def test_a_guest():
    state = {"gpus": gpus(H100, 2), "nvswitches": [], "virtualization": "kvm",
             "fabric": {"log": {"reason": "nothing_to_do"}, "gpus": states(("In Progress", "N/A"), ("In Progress", "N/A"))}}
    assert said(state) == [("fabric_manager_on_wrong_side", "no NVSwitch visible in the guest", "broken"), ("fabric_not_completed", "2 of 2", "broken")]
    assert steps(state) == [("manual", "activate the partition with fabric manager on the host")]
    complete = dict(state, fabric=dict(state["fabric"], gpus=states(("Completed", "Success"), ("Completed", "Success"))))
    assert [code for code, _subject, _verdict in said(complete)] == ["fabric_manager_not_needed"]
    # full passthrough: the switches are in the guest, and so is fabric manager
    through = dict(state, nvswitches=[{"address": "0000:05:00.0", "id": "10de:22a3"}])
    assert [code for code, _subject, _verdict in said(through)] == ["fabric_not_completed"]
    assert steps(through) == [("start_service", "nvidia-fabricmanager")]
    assert said(dict(state, fabric={})) == []


def test_a_rack_with_switch_trays():
    state = {"gpus": gpus(GB200, 4), "nvswitches": [], "virtualization": "none", "packages": packages(nvidia_imex="580.95.05-1"),
             "modules": {"loaded": {"version": "580.95.05", "flavour": "open"}}, "fabric": {"gpus": states(*[("Completed", "Success")] * 4)}}
    assert said(state) == []
    waiting = dict(state, fabric={"gpus": states(*[("In Progress", "N/A")] * 4), "service": {"active": "failed"}})
    assert [code for code, _subject, _verdict in said(waiting)] == ["fabric_manager_on_wrong_side", "fabric_not_completed"]
    assert steps(waiting) == [("manual", "look at the fabric manager of the switch trays")]


@pytest.mark.parametrize("words,subject", [
    ([("Completed", "Success")] * 7 + [("Completed", "Insufficient Resources")], "1 of 8"), ([("Completed", "Unknown Error")] * 8, "8 of 8"),
    ([("In Progress", "N/A")] * 8, "8 of 8"), ([("Not Started", None)] * 8, "8 of 8"), ([("Completed", None)] * 8, None),
    ([("Not Supported", "N/A")] * 8, None), ([("Not Supported", "Success")] * 8, None)])
def test_words_of_the_fabric(words, subject):
    state = node(fabric={"gpus": states(*words), "service": {"active": "active"}})
    assert said(state) == ([("fabric_not_completed", subject, "broken")] if subject else [])


def test_a_host_with_partitions_waits_for_them():
    rows = states(*[("In Progress", "N/A")] * 8)
    assert said(node(fabric={"gpus": rows, "mode": 1, "service": {"active": "active"}})) == []
    assert said(node(fabric={"gpus": rows, "mode": 0, "service": {"active": "active"}})) != []


def test_a100_does_not_tell():
    rows = states(*[("N/A", "N/A")] * 8, name="NVIDIA A100-SXM4-80GB")
    assert said({"fabric": {"gpus": rows}}) == [("fabric_not_completed", "8 of 8 not told", "unknown")]
    assert said({"fabric": {"gpus": rows, "service": {"active": "active"}}}) == [] and said({"fabric": {"gpus": rows, "log": {"reason": "started"}}}) == []
    assert said({"fabric": {"gpus": rows, "service": {"active": "failed"}}}) == [("fabric_not_completed", "nvidia-fabricmanager is failed", "broken")]
    assert said({"fabric": {"gpus": rows[:4]}}) == []


def test_a_service_that_does_not_run():
    for service, log in (({"active": "inactive"}, {}), ({}, {"reason": "failed"}), ({"active": "failed"}, {"reason": "started"})):
        assert [row[2] for row in said(node(fabric={"service": service, "log": log}))] == ["broken"]
    assert said(node(fabric={"service": {"active": "inactive"}, "gpus": states(*[("Completed", "Success")] * 8)})) == []


def test_what_follows_the_driver():
    state = node(packages=packages(nvidia_fabricmanager_535="535.183.01-1", libnvidia_nscq_535="535.183.06-1", nvlsm="2025.10.12-1",
                                   nvidia_imex_535="535.183.01-1"))
    assert said(state) == [("revision_coupling", "libnvidia-nscq-535 535.183.06 / 535.183.01", "drift")]
    assert steps(state) == [("downgrade_exact", "libnvidia-nscq-535=535.183.01-1")]
    refused = node(fabric={"mismatch": {"kernel": "450.80.02", "user": "450.51.06"}, "service": {"active": "active"}})
    assert said(refused) == [("revision_coupling", "NVSwitch library 450.51.06 / 450.80.02", "drift")]


def test_a_revision_that_was_guessed():
    manager = {"run": {"missing": [{"name": "nvidia-fabricmanager-570", "version": "570.133.20-0ubuntu1"}, {"name": "curl", "version": "1-1"}]},
               "madison": {"nvidia-fabricmanager-570": [{"version": "570.133.20-1"}], "curl": [{"version": "1-2"}]}}
    assert said({"package_manager": manager}) == [
        ("revision_coupling", "nvidia-fabricmanager-570=570.133.20-0ubuntu1, archive: 570.133.20-1", "drift")]
    assert steps({"package_manager": manager}) == [("install_exact", "nvidia-fabricmanager-570=570.133.20-1")]
    row = {"version": "570.211.01-1", "priority": 500, "installed": False, "origins": [{"priority": 500, "uri": "https://repo.example.org", "suite": None}]}
    gone = {"run": manager["run"], "policy": {"nvidia-fabricmanager-570": {"installed": None, "candidate": "570.211.01-1", "pin": None, "table": [row]}}}
    assert said({"package_manager": gone}) == []


def test_a_combination_that_is_known_to_fail():
    stack = {"os": {"id": "sles", "release": "16.0"}, "ofed": {"provider": "doca"}}
    row = found({"gpus": gpus(B200)}, stack)[0]
    assert (row["code"], row["verdict"]) == ("fabric_not_completed", "blocked") and "ib_core" in row["message"] and row["source"]
    assert found({"gpus": gpus(B200)}, dict(stack, ofed={"provider": "inbox"})) == [] and found({"gpus": gpus(H100)}, stack) == []


def test_a_stack_that_names_no_fabric_does_not_strand_the_one_that_is_there():
    """What it does not name is left alone, so that the two would differ after the run."""
    other = {"driver": {"version": "580.126.20", "flavour": "open"}}
    one = [("fabric_manager_version_would_differ", "535.183.01 / 580.126.20", "blocked")]
    codes = {"fabric_manager_version_would_differ"}
    assert said(node(), other, codes, "install") == one and said(node(), other, codes, "audit") == []
    assert said(node(), dict(other, fabric={"manager": "auto"}), codes, "install") == []
    assert said(node(), {"driver": {"version": "535.183.01", "flavour": "open"}}, codes, "install") == []
    assert said(node(packages=packages(libnvidia_compute_535="535.183.01-0ubuntu1")), other, codes, "install") == []
    # Its other parts, too.
    parts = node(packages=packages(nvidia_imex_535="535.183.01-1"))
    assert said(parts, other, codes, "install") == one and said(parts, dict(other, fabric={"imex": "auto"}), codes, "install") == []
