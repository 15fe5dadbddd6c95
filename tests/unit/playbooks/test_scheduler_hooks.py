# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ready-made hooks, with scontrol and kubectl of fakes/scheduler.py."""
from __future__ import annotations

import json
import sys

import pytest
from machines import FAKES, NEW, Machines


HOOK = """- hosts: gpu_nodes
  gather_facts: false
  tasks:
    - ansible.builtin.include_role: {name: lockstep.gpu.node_kernel, tasks_from: "hooks/%s.yml"}
      vars: {__node_kernel_reason: "lockstep.gpu: boots it"}
"""
DRAIN = "scontrol update NodeName=node1 State=DRAIN Reason=lockstep.gpu: boots "
RESUME = "scontrol update NodeName=node1 State=RESUME"


class Site:
    """A machine, and a scheduler that knows it so."""

    def __init__(self, folder):
        self.folder, self.machine = folder, Machines(folder)
        (folder / "bin").mkdir()
        for name in ("scontrol", "kubectl"):
            program = folder / "bin" / name
            program.write_text('#!/bin/sh\nexec %s %s %s "$@"\n' % (sys.executable, FAKES / "scheduler.py", name))
            program.chmod(0o755)
        self.says()

    def says(self, **known):
        now = dict({"name": "node1", "jobs": 0, "drained": False, "reason": "", "notes": {}}, **known)
        (self.folder / "scheduler.json").write_text(json.dumps(now))

    @property
    def node(self):
        return json.loads((self.folder / "scheduler.json").read_text())

    def play(self, playbook="lockstep.gpu.site", **variables):
        """(exit status, output, what was asked of the scheduler and done to the machine)."""
        self.machine.forget()
        status, output, dummy = self.machine.play(path="%s:" % (self.folder / "bin"), playbook=playbook, lockstep_reboot="auto", node_kernel_drain_poll=1,
                                                  node_kernel_drain_timeout=5, **variables)
        return status, output, [line for line in self.machine.log() if line.split()[0] in ("scontrol", "kubectl", "reboot")]

    def hook(self, name):
        """The same of one hook alone."""
        (self.folder / "hook.yml").write_text(HOOK % name)
        return self.play("hook.yml")


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path)


def test_slurm_waits_for_jobs_and_gives_the_node_back(site):
    site.says(jobs=2)
    status, output, asked = site.play(lockstep_before_reboot=["slurm"])
    assert status == 0 and not site.node["drained"], output
    assert asked == ["scontrol show node node1", DRAIN + NEW, *["scontrol show node node1"] * 2, "reboot", "scontrol show node node1", RESUME]


def test_a_drain_of_somebody_else_stays_in_slurm(site):
    site.says(drained=True, reason="broken fan")
    for name in ("slurm_before", "slurm_after"):
        status, output, asked = site.hook(name)
        assert status == 0 and site.node["drained"] and not [line for line in asked if "update" in line], output


def test_jobs_that_do_not_end_leave_the_node_drained_and_the_next_run_goes_on(site):
    site.says(jobs=50)
    status, output, asked = site.play(lockstep_before_reboot=["slurm"])
    assert status != 0 and "reboot" not in asked and site.node["drained"] and "taken out of service" in " ".join(output.split()), output
    site.says(drained=True, reason=site.node["reason"])
    status, output, asked = site.play(lockstep_before_reboot=["slurm"])
    assert status == 0 and not site.node["drained"] and asked.count("reboot") == 1, output


def test_a_node_that_slurm_does_not_know_is_not_booted(site):
    site.says(name="other")
    status, output, dummy = site.hook("slurm_before")
    assert status != 0 and "Node node1 not found" in output


def test_kubernetes_evicts_and_gives_the_node_back(site):
    status, output, asked = site.play(lockstep_before_reboot=["kubernetes"])
    assert status == 0 and not site.node["drained"] and site.node["notes"] == {}, output
    assert [line.split()[1] for line in asked if line != "reboot"] == ["get", "annotate", "drain", "get", "uncordon", "annotate"]
    assert "kubectl drain node1 --timeout=5s --ignore-daemonsets --delete-emptydir-data" in asked


def test_a_cordon_of_somebody_else_stays_in_kubernetes(site):
    site.says(drained=True)
    for name in ("kubernetes_before", "kubernetes_after"):
        status, output, asked = site.hook(name)
        assert status == 0 and site.node["drained"] and not [line for line in asked if "uncordon" in line or "annotate" in line], output


def test_pods_that_nothing_manages_keep_the_node_up(site):
    site.says(stubborn=True)
    status, output, dummy = site.hook("kubernetes_before")
    assert status != 0 and "declare no controller" in output and site.node["drained"] and site.node["notes"]
