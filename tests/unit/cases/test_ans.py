# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about Ansible's own behaviour: the parsed values, what must not be done, and plays that show it."""
from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest
import yaml

from . import case
from .recorded import failed, judged

ROOT = pathlib.Path(__file__).resolve().parents[3]


def steps(name, bundle="main"):
    return [(step["action"], step.get("target")) for step in case.record(name, bundle)["plan"]]


def test_ans_01_a_node_that_is_too_old():
    want, state = case.expected("ans-01")["parsed"], case.state("ans-01")["controller"]
    assert state["ansible"] == want["controller"] and state["python"]["version"] == want["target_python"]
    assert state["python"]["path"] == "/usr/libexec/platform-python"
    record = case.record("ans-01")
    assert not any("Traceback" in case.said(row) for row in record["findings"])
    assert {step["action"] for step in record["plan"]} == {"fail_preflight"}


# ans-09: facts that were not gathered, or are not injected ------------------------------------------------------------------------------------

# Names of facts that setup would set at the top level; what the connection and the play set is not among them.
GATHERED = re.compile(
    r"\bansible_(?!facts\b|check_mode\b|diff_mode\b|limit\b|play\w*\b|failed_\w+|connection\b|host\b|user\b|port\b|become\w*|pipelining\b"
    r"|python_interpreter\b|version\b|run_tags\b|skip_tags\b|verbosity\b|collection_name\b|role_name\b|search_path\b|loop\w*|index_var\b|core\b)[a-z]\w*")
FACT = re.compile(r"ansible_facts(?:\.|\[['\"])(?!lockstep\b)\w+")


def sources():
    return [path for folder in ("roles", "playbooks") for path in sorted((ROOT / folder).rglob("*.yml"))]


def test_ans_09_no_role_or_playbook_uses_a_gathered_fact():
    used = ["%s: %s" % (path.relative_to(ROOT), found) for path in sources() for pattern in (GATHERED, FACT)
            for found in (match.group() for match in pattern.finditer(path.read_text(encoding="utf-8")))]
    assert used == []


PLAY = """
- hosts: localhost
  connection: local
  gather_facts: {gather}
  {subset}
  tasks:
    - ansible.builtin.set_fact:
        seen: "{{{{ ansible_facts | length }}}}"
    - lockstep.gpu.node_facts:
    - ansible.builtin.assert:
        that:
          - ansible_facts.lockstep.os.id is string
          - claim | lockstep.gpu.findings(state=ansible_facts.lockstep) is sequence
          - claim | lockstep.gpu.findings(state=ansible_facts.lockstep) | lockstep.gpu.verdict is string
          - claim | lockstep.gpu.not_proven(ansible_facts.lockstep) is sequence
      vars: {{claim: {{driver: 550.163.01}}}}
    - block:
        - ansible.builtin.include_role: {{name: lockstep.gpu.preflight}}
          vars: {{preflight_stack: {{os: debian-13, driver: 470.256.02, cuda: {{versions: [12.4.1]}}}}}}
      rescue:
        - ansible.builtin.debug:
            msg: "RESCUED {{{{ ansible_failed_result.msg }}}}"
"""


@pytest.fixture
def play(tmp_path):
    def run(*arguments, **environment):
        """(exit status, output) of ansible-playbook; nothing of the user's own configuration counts."""
        done = subprocess.run(["ansible-playbook", *arguments], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=180, env=dict(
            os.environ, ANSIBLE_HOME=str(tmp_path / "home"), ANSIBLE_FORCE_COLOR="0", ANSIBLE_LOCALHOST_WARNING="0", **environment))
        return done.returncode, done.stdout + done.stderr
    return run


@pytest.mark.parametrize("gather,subset,inject", [("false", "", "False"), ("true", "gather_subset: ['!all']", "False"),
                                                  ("true", "gather_subset: ['!all', '!min']", "True")])
def test_ans_09_roles_need_no_facts(play, tmp_path, gather, subset, inject):
    (tmp_path / "play.yml").write_text(PLAY.format(gather=gather, subset=subset), encoding="utf-8")
    status, output = play("play.yml", "--check", ANSIBLE_INJECT_FACT_VARS=inject)
    assert status == 0, output
    # The role judged, and refused what cannot work on any node; that needs the node's facts from its own module only.
    assert "RESCUED Refused before any change" in output and "is undefined" not in output, output


def test_ans_09_site_needs_no_facts(play, tmp_path):
    (tmp_path / "hosts.ini").write_text("[gpu_nodes]\nnode1 ansible_connection=local ansible_python_interpreter=%s\n" % sys.executable, encoding="utf-8")
    report = tmp_path / "report.json"
    status, output = play("lockstep.gpu.site", "--check", "-i", "hosts.ini", "-e", json.dumps({
        "lockstep_stack": {"os": "debian-13", "driver": "470.256.02", "cuda": {"versions": ["12.4.1"]}}, "lockstep_report": str(report)}),
        ANSIBLE_INJECT_FACT_VARS="False", ANSIBLE_GATHERING="explicit")
    node = json.loads(report.read_text(encoding="utf-8"))["nodes"]["node1"]
    assert status != 0 and node["verdict"] == "blocked" and "run_failed" not in {row["code"] for row in node["findings"]}, output
    assert "is undefined" not in output and "no such fact" not in output


@pytest.mark.parametrize("bundle,names", [("a", set()), ("b", {"distribution", "distribution_version", "kernel", "pkg_mgr"})])
def test_ans_09_nothing_is_missing_in_a_bundle(bundle, names):
    assert set(case.state("ans-09", bundle)["controller"]["facts"]) == names
    # No facts at all say nothing about a node; that is told, and nothing else.
    assert [row["code"] for row in case.record("ans-09", bundle)["findings"]] == ([] if names else ["no_evidence"])


# ans-11: the controller is the node --------------------------------------------------------------------------------------------------------------

def test_ans_11_the_reboot_is_left_to_a_person():
    record = case.record("ans-11")
    assert case.state("ans-11")["controller"]["local"] is True
    assert [(row["code"], row["subject"], row["severity"]) for row in record["findings"]] == [("reboot_required", "connection is local", "warn")]
    assert record["verdict"] == "drift" and steps("ans-11") == [("manual", "reboot by hand, then run again")]


def test_ans_11_only_one_place_reboots():
    """It refuses a local connection before anything is done for the boot (tests/unit/playbooks/test_reboots.py)."""
    reboots = [path.relative_to(ROOT).as_posix() for path in sources()
               if any({"reboot", "ansible.builtin.reboot"} & set(task) for task in tasks(yaml.safe_load(path.read_text(encoding="utf-8"))))]
    assert reboots == ["roles/node_kernel/tasks/boot_now.yml"]


def tasks(node):
    """Every mapping of a file, at any depth."""
    if isinstance(node, dict):
        yield node
    for part in (node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()):
        yield from tasks(part)


def test_ans_06_the_change_of_a_held_package_is_meant():
    want, manager = case.expected("ans-06")["parsed"], case.state("ans-06")["package_manager"]
    assert sorted(manager["holds"]) == sorted(want["held"]) and manager["run"]["held_changed"]
    plan = case.record("ans-06")["plan"]
    moves = [row for row in plan if row["action"] == "install_exact"]
    assert all(row["allow_change_held_packages"] is True for row in moves) and "force" not in str(plan)
    assert {row["target"] for row in plan if row["action"] == "hold"} == {row["target"].partition("=")[0] for row in moves} == set(want["held"])


def test_ans_07_an_empty_list_of_holds_is_known():
    assert case.state("ans-07")["package_manager"]["holds"] == case.expected("ans-07")["parsed"]["held"]
    assert not [row for row in case.record("ans-07")["findings"] if row["code"] != "package_not_held" and row["severity"] == "error"
                and row["code"] != "meta_package_not_held"]


def test_ans_08_who_holds_the_lock():
    want, (first, _other) = case.expected("ans-08")["parsed"], case.state("ans-08")["package_manager"]["locks"]
    locks = {row["pid"]: row for row in case.state("ans-08")["package_manager"]["locks"]}
    assert (locks[want["pid"]]["path"], locks[want["pid"]]["process"]) == (want["lock"], want["process"]) and first["pid"] in locks
    assert {action for action, _target in steps("ans-08")} == {"wait_for_lock", "retry"}


@pytest.mark.parametrize("msg", ["E: Unable to locate package cuda-drivers\n", "E: Sub-process /usr/bin/dpkg returned an error code (1)\n"])
def test_ans_08_another_error_is_not_tried_again(msg):
    record = judged({"os": "ubuntu-24.04"}, ansible_result=failed(json.dumps({"failed": True, "msg": msg}), 2))
    assert not {row["action"] for row in record["plan"]} & {"wait_for_lock", "retry"}
