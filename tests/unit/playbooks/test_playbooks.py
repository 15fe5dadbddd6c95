# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""audit, preflight and capture as users start them: exit codes, the report, and what is said on bad input."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import pytest

CASES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "cases"
LOCAL = "[gpu_nodes]\nnode1 ansible_connection=local ansible_python_interpreter=%s\n" % sys.executable


@pytest.fixture
def play(tmp_path):
    def run(name, *arguments, inventory=None, **variables):
        """(exit status, output, report or None) of a playbook of the collection."""
        command = ["ansible-playbook", "lockstep.gpu." + name, *arguments,
                   "-e", json.dumps(dict(variables, lockstep_report=str(tmp_path / "report.json")))]
        if inventory is not None:
            (tmp_path / "hosts.ini").write_text(inventory)
            command += ["-i", str(tmp_path / "hosts.ini")]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
                              env=dict(os.environ, ANSIBLE_HOME=str(tmp_path / "home"), ANSIBLE_FORCE_COLOR="0", ANSIBLE_LOCALHOST_WARNING="0"))
        report = tmp_path / "report.json"
        return done.returncode, done.stdout + done.stderr, json.loads(report.read_text())["nodes"] if report.exists() else None
    return run


def test_an_audit_of_a_node_in_sync_ends_well(play):
    status, output, nodes = play("audit", lockstep_bundle=str(CASES / "dkms-01" / "main"))
    assert (status, nodes["main"]["verdict"]) == (0, "in_sync"), output


def test_an_audit_of_several_bundles_reports_all_and_fails_for_one(play):
    status, output, nodes = play("audit", lockstep_bundle=[str(CASES / "dkms-01"), str(CASES / "dkms-12" / "main")])
    assert status != 0 and {name: row["verdict"] for name, row in nodes.items()} == {"dkms-01-main": "in_sync", "dkms-12-main": "drift"}, output
    assert [row["code"] for row in nodes["dkms-12-main"]["findings"]] == ["dkms_weak_only"]
    assert "dkms_build_install" in output


def test_an_accepted_finding_no_longer_fails(play):
    status, output, nodes = play("audit", lockstep_bundle=str(CASES / "dkms-12" / "main"), lockstep_accept=["dkms_weak_only@*"])
    assert (status, nodes["main"]["verdict"]) == (0, "in_sync") and "(accepted)" in output


def test_a_claim_and_a_lock_file_decide_instead_of_the_bundle(play, tmp_path):
    (tmp_path / "lock.yml").write_text("kernel: 5.4.0-81-generic\ndriver: 470.57.02\n")
    for wanted in ({"lockstep_stack": {"kernel": "5.4.0-81-generic", "driver": "470.57.02"}}, {"lockstep_lock": "lock.yml"}):
        status, output, nodes = play("audit", lockstep_bundle=str(CASES / "dkms-01" / "main"), **wanted)
        assert status != 0 and nodes["main"]["verdict"] in ("drift", "broken"), output


@pytest.mark.parametrize("text, words", [("inputs: [", "not valid YAML"), ("inputs: [{probe: uname_r, file: ../../x, rc: 0}]", "leaves the bundle's folder")])
def test_a_bundle_that_cannot_be_used_is_unknown(play, tmp_path, text, words):
    (tmp_path / "sick").mkdir()
    (tmp_path / "sick" / "bundle.yml").write_text(text)
    status, output, nodes = play("audit", lockstep_bundle=str(tmp_path / "sick"))
    assert status != 0 and nodes["sick"]["verdict"] == "unknown" and words in nodes["sick"]["findings"][0]["message"], output
    assert "Traceback" not in output


@pytest.mark.parametrize("arguments, variables, inventory, words", [
    ([], {"lockstep_bundle": "nowhere"}, None, "does not exist"), ([], {"lockstep_bundle": []}, None, "none is named"),
    ([], {"lockstep_bundle": ""}, None, "none is named"), ([], {"lockstep_bundle": [5]}, None, "none is named"),
    ([], {}, None, "No host of the inventory"), ([], {"lockstep_hosts": "typo"}, LOCAL, "No host of the inventory"),
    ([], {}, LOCAL, "Say what the nodes are judged against"), ([], {"lockstep_stak": "debian13-550"}, LOCAL, "Say what the nodes are judged against"),
    (["--limit", "node1"], {"lockstep_bundle": str(CASES / "dkms-01")}, LOCAL, "Name the bundles that you want"),
    ([], {"lockstep_lock": "nowhere.yml"}, LOCAL, "nowhere.yml"), ([], {"lockstep_lock": "hosts.ini"}, LOCAL, "The lock can be read"),
])
def test_an_audit_of_nothing_is_an_error(play, arguments, variables, inventory, words):
    status, output, dummy = play("audit", *arguments, inventory=inventory, **variables)
    assert status != 0 and words in " ".join(output.split()), output


def test_a_misspelt_lock_is_an_error(play, tmp_path):
    (tmp_path / "lock.yml").write_text("drivr: 550.163.01\n")
    status, output, dummy = play("audit", inventory=LOCAL, lockstep_lock="lock.yml")
    assert status != 0 and "drivr" in output and "candidates: driver" in " ".join(output.split()), output


def test_a_bundle_of_which_nothing_was_wanted_is_seen_to_be_so(play, tmp_path):
    """uname alone says nothing about a driver."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "bundle.yml").write_text("given: {lock: {driver: 550.163.01}}\ninputs: [{probe: uname_r, file: u, rc: 0}]\n")
    (tmp_path / "one" / "u").write_text("6.12.117+deb13-amd64\n")
    status, output, nodes = play("audit", lockstep_bundle=str(tmp_path / "one"))
    assert status != 0 and [row["code"] for row in nodes["one"]["findings"]] == ["no_evidence"], output


@pytest.mark.parametrize("variables, status, verdict", [
    ({"lockstep_stack": "debian13-550"}, 0, "in_sync"),
    ({"lockstep_stack": "debian13-550", "lockstep_target": {"gpus": ["10de:2330"]}}, 0, "in_sync"),
    ({"lockstep_stack": "debian13-550-open"}, 2, "blocked"),
    ({"lockstep_stack": {"driver": "470.256.02", "cuda": "12.4.1"}, "lockstep_target": {"gpus": ["10de:2684"]}}, 2, "blocked"),
])
def test_preflight_needs_no_node(play, variables, status, verdict):
    ended, output, nodes = play("preflight", **variables)
    assert (ended, [row["verdict"] for row in nodes.values()]) == (status, [verdict]), output


@pytest.mark.parametrize("variables, words", [
    ({}, "Say which stack is meant"), ({"lockstep_stack": "debian13-55"}, "debian13-550"), ({"lockstep_stack": {"drivr": "1"}}, "driver"),
    ({"lockstep_stack": "debian13-550", "lockstep_hosts": "typo"}, "No host of the inventory"),
    ({"lockstep_stack": "debian13-550", "lockstep_target": {"gpu": "H100"}}, "is not a key of a target"),
])
def test_preflight_says_what_it_needs(play, variables, words):
    status, output, dummy = play("preflight", **variables)
    assert status != 0 and words in output, output


def test_a_live_node_is_judged_captured_and_judged_again(play, tmp_path):
    status, output, live = play("preflight", inventory=LOCAL, lockstep_stack="debian13-550")
    assert list(live) == ["node1"] and live["node1"]["state"]["os"]["id"], output
    status, output, dummy = play("capture", inventory=LOCAL, lockstep_bundle=str(tmp_path / "bundles"), lockstep_redact=True, lockstep_gather=["local"])
    assert status == 0, output
    status, output, nodes = play("audit", lockstep_bundle=str(tmp_path / "bundles"))
    assert list(nodes) == ["node001"] and nodes["node001"]["state"]["os"] == live["node1"]["state"]["os"], output
