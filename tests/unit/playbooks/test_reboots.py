# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""lockstep.gpu.site on machines that boot: the true playbook and roles, machines of files (machines.py)."""
from __future__ import annotations

import json

import pytest
from machines import NEW, OLD, Machines

HOOK = "- name: Tell\n  ansible.builtin.shell: echo %s >> $LOCKSTEP_FAKE_NODE/log\n"
ARMED = "boot_kernel once %s within=" % NEW


@pytest.fixture
def machines(tmp_path):
    return lambda *names: Machines(tmp_path, names or ("node1",))


def codes(node):
    return [row["code"] for row in node["findings"]]


def acts(log):
    """What was done to a machine, without what was only read."""
    return [line for line in log if line.split()[0] not in ("node_facts", "proof", "gate")]


def hooks(folder, *names):
    for name in names:
        (folder / (name + ".yml")).write_text(HOOK % name)
    return [name + ".yml" for name in names]


def test_never_arms_a_trial_and_the_boot_by_hand_is_kept_by_the_next_run(machines):
    node = machines()
    status, output, report = node.play()
    assert status != 0 and report["node1"]["verdict"] == "drift" and "reboot_required" in codes(report["node1"]), output
    assert acts(node.log()) == [ARMED + "0"] and node.now()["default"] == OLD
    # Nothing is done twice while nobody boots the node.
    node.forget()
    assert node.play()[0] != 0 and node.now()["trial"]["armed"] and "reboot" not in node.log()
    # By hand.
    trial = node.now()["trial"]
    node.write("node1", running=NEW, boot_id=2, trial=dict(trial, armed=False, judged="running"))
    node.forget()
    status, output, report = node.play()
    assert status == 0 and report["node1"]["verdict"] == "in_sync", output
    assert acts(node.log()) == ["boot_kernel settled renew", "boot_kernel default " + NEW] and node.now()["trial"] is None
    # A node that is as it should be costs two calls.
    node.forget()
    status, output, report = node.play()
    assert status == 0 and node.log() == ["node_facts", "proof of " + NEW], output


def test_auto_boots_once_proves_and_keeps(machines):
    node = machines()
    status, output, report = node.play(lockstep_reboot="auto", lockstep_before_reboot=hooks(node.folder, "before1", "before2"),
                                       lockstep_after_reboot=hooks(node.folder, "after"))
    assert status == 0 and report["node1"]["verdict"] == "in_sync", output
    assert acts(node.log()) == ["before1", "before2", ARMED + "600", "reboot", "boot_kernel settled renew", "boot_kernel default " + NEW, "after"]
    # Twice through the gate: before the node is taken out of service, and behind that.
    assert node.log().count("gate of " + NEW) == 2 and node.log().index("before1") > node.log().index("gate of " + NEW)
    assert node.log().index("after") > node.log().index("boot_kernel default " + NEW)
    assert [row["action"] for row in report["node1"]["changed"]] == ["reboot_once", "set_default_kernel"]
    assert not (node.folder / "nodes/node1/drained").exists()


@pytest.mark.parametrize("changes, words", [
    ({"stale": [NEW]}, "older than the blacklist"), ({"wrong_at_gate": ["module:nvidia-current"]}, "module:nvidia-current is nonsense")])
def test_a_closed_gate_boots_nothing_and_takes_a_trial_back(machines, changes, words):
    node = machines()
    trial = {"kernel": NEW, "from": OLD, "attempts": 0, "confirm_within": 0, "outcome": "pending", "reason": None, "armed": True}
    node.write("node1", trial=trial, **changes)
    status, output, report = node.play(lockstep_reboot="auto", lockstep_before_reboot=hooks(node.folder, "before"))
    assert status != 0 and report["node1"]["verdict"] == "broken" and "boot_gate_closed" in codes(report["node1"]), output
    assert words in str(report["node1"]["findings"]) and node.now()["trial"] is None and node.now()["running"] == OLD
    assert not {"reboot", "before"} & set(node.log())


def test_a_trial_that_fails_is_told_and_ends_after_two(machines):
    node = machines()
    node.write("node1", fate="did not reach user space: it panicked, hung, or the power was cut")
    status, output, report = node.play(lockstep_reboot="auto", lockstep_before_reboot=hooks(node.folder, "before"),
                                       lockstep_after_reboot=hooks(node.folder, "after"))
    assert status != 0 and report["node1"]["verdict"] == "broken", output
    assert "trial_boot_failed" in codes(report["node1"]) and "did not reach user space" in output and node.log().count("reboot") == 1
    assert node.now()["running"] == node.now()["default"] == OLD
    # It stays out of service, and the report says so.
    assert "after" not in node.log() and (node.folder / "nodes/node1/drained").exists() and "taken out of service" in " ".join(output.split())
    node.forget()
    assert node.play(lockstep_reboot="auto")[0] != 0 and node.log().count("reboot") == 1
    node.forget()
    status, output, report = node.play(lockstep_reboot="auto")
    assert status != 0 and "reboot" not in node.log() and "trial_boot_failed" in codes(report["node1"]), output
    # Mended, and told so: the node boots, and returns to service by what was said of it then.
    node.write("node1", fate="up", trial=None)
    node.forget()
    status, output, report = node.play(lockstep_reboot="auto", lockstep_after_reboot=["after.yml"])
    assert status == 0 and node.log()[-1] == "after" and not (node.folder / "nodes/node1/drained").exists(), output


def test_a_kernel_that_is_not_proven_is_not_kept_and_the_next_run_only_proves(machines):
    node = machines()
    node.write("node1", wrong=["load"])
    status, output, report = node.play(lockstep_reboot="auto")
    assert status != 0 and {"trial_not_committed", "proof_failed"} <= set(codes(report["node1"])), output
    assert "within 600 s" in str(report["node1"]["findings"]) and node.now()["default"] == OLD and node.now()["running"] == NEW
    # Another run before it is mended says it, too.
    node.forget()
    status, output, report = node.play(lockstep_reboot="auto")
    assert status != 0 and acts(node.log()) == ["boot_kernel settled renew"], output
    assert "returns to %s by itself, 600 s after the last run" % OLD in str(report["node1"]["remarks"])
    # In time, with what was wrong mended: no other boot.
    node.write("node1", wrong=[])
    node.forget()
    status, output, report = node.play(lockstep_reboot="auto")
    assert status == 0 and acts(node.log()) == ["boot_kernel settled renew", "boot_kernel default " + NEW] and node.now()["default"] == NEW, output


TRIM = """
- hosts: gpu_nodes
  gather_facts: false
  vars:
    __preflight_stack: {kernel: {release: "%s"}}
  tasks:
    - lockstep.gpu.node_facts:
    - ansible.builtin.set_fact:
        __gpu_validate_record: {findings: [], verdict: in_sync}
    - ansible.builtin.include_role: {name: lockstep.gpu.node_kernel, tasks_from: trim.yml}
    - ansible.builtin.debug: {var: __gpu_validate_record}
""" % NEW
INSTALL = """
- hosts: gpu_nodes
  gather_facts: false
  vars:
    # What comes behind it ends for want of the rest.
    __preflight_plan: {converged: false, modprobe: null, components: {kernel: {converged: false, changes: []}}}
  tasks:
    - lockstep.gpu.node_facts:
    - ansible.builtin.include_role: {name: lockstep.gpu.node_kernel, tasks_from: install.yml}
"""


@pytest.mark.parametrize("outcome, done", [("pending", ["boot_kernel settled stop"]), ("failed", ["boot_kernel default " + NEW])])
def test_packages_change_without_the_timer_of_a_trial_that_runs(machines, outcome, done):
    node = machines()
    trial = {"kernel": NEW, "from": OLD, "attempts": 0, "confirm_within": 600, "outcome": outcome, "reason": None, "armed": False, "judged": "running",
             "running": True}
    node.write("node1", running=NEW, boot_id=2, trial=trial)
    (node.folder / "install.yml").write_text(INSTALL)
    output = node.play(playbook="install.yml")[1]
    # An unproven kernel is no default either, whatever becomes of the packages.
    assert acts(node.log()) == done, output


def test_a_node_that_does_not_come_back_is_told_how_to_get_it_back(machines):
    node = machines()
    node.write("node1", fate="lost")
    status, output, report = node.play(lockstep_reboot="auto", node_kernel_reboot_timeout=2)
    assert status != 0 and "reboot_failed" in codes(report["node1"]), output
    assert "Power-cycle the node; it then starts " + OLD in str(report["node1"]["findings"])


def test_a_module_of_another_version_in_memory_is_a_boot_without_a_trial(machines):
    node = machines()
    node.write("node1", running=NEW, default=NEW, loaded="535.274.02")
    status, output, report = node.play(lockstep_reboot="auto")
    assert status == 0 and report["node1"]["verdict"] == "in_sync", output
    assert node.log().count("reboot") == 1 and not [line for line in node.log() if "once" in line] and node.log().count("gate of " + NEW) == 1


def test_a_boot_without_a_trial_starts_the_kernel_that_runs(machines):
    node = machines()
    node.write("node1", running=NEW, default=OLD, loaded="535.274.02")
    status, output, report = node.play(lockstep_reboot="auto")
    assert status == 0 and report["node1"]["verdict"] == "in_sync" and node.now()["running"] == NEW, output
    assert acts(node.log())[:2] == ["boot_kernel default " + NEW, "reboot"]


def test_a_node_that_does_not_go_down_is_not_left_with_a_trial(machines):
    node = machines()
    status, output, report = node.play(lockstep_reboot="auto", node_kernel_reboot_command="false")
    assert status != 0 and "The node did not go down" in str(report["node1"]["findings"]) and node.now()["trial"] is None, output
    assert "reboot_once" not in [row["action"] for row in report["node1"]["changed"]]


def test_a_controller_does_not_boot_itself(machines, monkeypatch):
    node = machines()
    monkeypatch.setenv("LOCKSTEP_FAKE_NODE", str(node.folder / "nodes/node1"))
    status, output, report = node.play("-e", "ansible_connection=local", lockstep_reboot="auto", lockstep_before_reboot=hooks(node.folder, "before"))
    assert status != 0 and "local connection" in str(report["node1"]["findings"]) and node.now()["trial"] is None, output
    assert not {"before", "reboot"} & set(node.log()) and not (node.folder / "nodes/node1/drained").exists()


def test_what_happens_to_a_node_while_it_is_drained_is_seen(machines):
    node = machines()
    change = "import json, os; p = os.environ['LOCKSTEP_FAKE_NODE'] + '/node.json'; n = json.load(open(p)); n['%s'] = '%s'; json.dump(n, open(p, 'w'))"
    (node.folder / "before.yml").write_text("- name: A day later\n  ansible.builtin.command:\n    argv: [python3, -c, \"%s\"]\n" % (change % ("running", NEW)))
    status, output, report = node.play(lockstep_reboot="auto", lockstep_before_reboot=["before.yml"])
    assert status != 0 and "booted by somebody else" in str(report["node1"]["findings"]) and "reboot" not in node.log(), output
    # The default moved: the way back is the running kernel again before the trial is armed.
    node.write("node1", running=OLD)
    node.forget()
    (node.folder / "before.yml").write_text("- name: A day later\n  ansible.builtin.command:\n    argv: [python3, -c, \"%s\"]\n" % (change % ("default", NEW)))
    status, output, report = node.play(lockstep_reboot="auto", lockstep_before_reboot=["before.yml"])
    assert status == 0 and acts(node.log())[:2] == ["boot_kernel default " + OLD, ARMED + "600"], output


def test_a_node_is_not_forgotten_out_of_service(machines):
    node = machines()
    node.write("node1", running=NEW, default=NEW)
    mark = node.folder / "nodes/node1/drained"
    mark.write_text(NEW + "\n")
    status, output, report = node.play()
    assert status != 0 and "names no hooks that return it" in str(report["node1"]["findings"]) and mark.exists(), output
    status, output, report = node.play(lockstep_after_reboot=[])
    assert status == 0 and report["node1"]["verdict"] == "in_sync" and not mark.exists(), output


@pytest.mark.parametrize("keep", [1, 2])
def test_no_metapackage_leaves_with_an_old_kernel(machines, keep):
    node = machines()
    node.write("node1", running=NEW, default=NEW)
    node.state["package_manager"]["holds"] = []
    (node.folder / "bin").mkdir()
    # Fails where it is asked for anything but a simulation.
    (node.folder / "bin/apt-get").write_text("#!/bin/sh\ntest \"$1\" = --simulate || exit 9\n"
                                             "printf 'Remv linux-image-amd64 [6.12]\\nRemv linux-image-%s [6.12]\\n'\n" % OLD)
    (node.folder / "bin/apt-get").chmod(0o755)
    (node.folder / "nodes/node1/state.json").write_text(json.dumps(node.state))
    (node.folder / "trim.yml").write_text(TRIM)
    output = node.play(playbook="trim.yml", path="%s:" % (node.folder / "bin"), node_kernel_keep=keep)[1]
    assert ("Old kernels stay (linux-image-%s): with them would leave linux-image-amd64." % OLD in output) == (keep == 1), output
    assert "failed=0" in output and "changed=0" in output


def test_numbers_may_come_from_the_command_line(machines):
    node = machines()
    numbers = ("-e", "node_kernel_confirm_within=700", "-e", "node_kernel_keep=1")
    status, output, report = node.play(*numbers, lockstep_reboot="auto", lockstep_before_reboot=hooks(node.folder, "before"))
    assert "node_kernel_reboot_timeout" not in output and node.log().count("reboot") == 1 and node.now()["default"] == NEW, output
    assert ARMED + "700" in node.log()


def test_a_window_that_is_closed_only_arms_and_an_open_one_boots(machines):
    node = machines()
    node.folder.joinpath("bin").mkdir()
    clock = node.folder / "bin" / "date"
    clock.write_text("#!/bin/sh\necho 6 21:59\n")
    clock.chmod(0o755)
    said = {"lockstep_reboot": "window", "lockstep_reboot_window": {"days": ["sat"], "from": "22:00", "to": "04:00"}}
    status, output, dummy = node.play(path="%s:" % clock.parent, **said)
    assert status != 0 and acts(node.log()) == [ARMED + "0"], output
    clock.write_text("#!/bin/sh\necho 7 03:59\n")
    status, output, report = node.play(path="%s:" % clock.parent, **said)
    assert status == 0 and report["node1"]["verdict"] == "in_sync" and node.log().count("reboot") == 1, output


def test_a_check_touches_nothing(machines):
    node = machines()
    before = node.now()
    status, output, report = node.play("--check", "--diff", lockstep_reboot="auto", lockstep_before_reboot=hooks(node.folder, "before"))
    assert status == 0 and report["node1"]["verdict"] in ("drift", "broken"), output
    assert node.now() == before and acts(node.log()) == []


def test_a_rollout_stops_behind_its_canary_and_goes_on_where_it_stopped(machines):
    names = ["node%d" % number for number in range(1, 5)]
    nodes = machines(*names)
    nodes.write("node1", fate="came up, but nobody confirmed it")
    # As most people say it: beside the inventory.
    (nodes.folder / "group_vars").mkdir()
    (nodes.folder / "group_vars" / "gpu_nodes.yml").write_text("lockstep_reboot: auto\n")
    status, output, report = nodes.play()
    assert status != 0 and nodes.log("node1").count("reboot") == 1, output
    assert all(nodes.log(name) == [] for name in names[1:])
    nodes.write("node1", fate="up", trial=None)
    nodes.write("node3", wrong_at_gate=["modprobe"])
    (nodes.folder / "group_vars" / "gpu_nodes.yml").write_text("lockstep_reboot: auto\nlockstep_rollout: [1, 2]\n")
    status, output, report = nodes.play()
    # node2 and node3 are one batch: the one finishes, the other ends the rollout.
    assert status != 0 and [report[name]["verdict"] for name in names] == ["in_sync", "in_sync", "broken", "unknown"], output
    assert nodes.log("node4") == [] and nodes.log("node2").count("reboot") == 1
    nodes.write("node3", wrong_at_gate=[])
    for name in names:
        (nodes.folder / "nodes" / name / "log").unlink(missing_ok=True)
    status, output, report = nodes.play()
    assert status == 0 and [nodes.log(name).count("reboot") for name in names] == [0, 0, 1, 1], output


def test_a_node_that_is_lost_on_the_way_does_not_take_the_others_with_it(machines):
    nodes = machines("node1", "node2")
    away = "test $(basename $LOCKSTEP_FAKE_NODE) = node2 || touch $LOCKSTEP_FAKE_NODE/down"
    (nodes.folder / "before.yml").write_text("- name: Go away\n  ansible.builtin.shell: %s\n" % away)
    status, output, report = nodes.play(lockstep_reboot="auto", lockstep_rollout="100%", lockstep_before_reboot=["before.yml"])
    assert status != 0 and report["node2"]["verdict"] == "in_sync" and report["node1"]["verdict"] in ("broken", "unknown"), output


@pytest.mark.parametrize("variables, words", [
    ({"lockstep_reboot": "window"}, "lockstep_reboot_window"), ({"lockstep_reboot": "auto", "lockstep_before_reboot": ["nowhere.yml"]}, "nowhere.yml"),
    ({"node_kernel_confirm_within": "ten minutes"}, "node_kernel_confirm_within: 'ten minutes' is no whole number from 0 on")])
def test_what_cannot_be_meant_is_said_before_anything_is_read(machines, variables, words):
    node = machines()
    status, output, dummy = node.play(**variables)
    assert status != 0 and words in output and node.log() == [], output
