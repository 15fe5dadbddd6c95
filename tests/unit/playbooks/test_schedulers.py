# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The ready-made hooks, with scontrol and kubectl of fakes/scheduler.py."""
from __future__ import annotations

import json
import sys

import pytest
from machines import FAKES, NEW, Machines


@pytest.fixture
def site(tmp_path):
    """A machine, and a play of it under a scheduler that knows it so."""
    node = Machines(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("scontrol", "kubectl"):
        program = tmp_path / "bin" / name
        program.write_text('#!/bin/sh\nexec %s %s %s "$@"\n' % (sys.executable, FAKES / "scheduler.py", name))
        program.chmod(0o755)

    def play(scheduler, **known):
        now = dict({"name": "node1", "jobs": 0, "drained": False, "reason": "", "notes": {}}, **known)
        if known or not (tmp_path / "scheduler.json").exists():
            (tmp_path / "scheduler.json").write_text(json.dumps(now))
        node.forget()
        status, output, dummy = node.play(path="%s:" % (tmp_path / "bin"), lockstep_reboot="auto", lockstep_before_reboot=[scheduler],
                                          node_kernel_drain_poll=1, node_kernel_drain_timeout=5)
        asked = [line for line in node.log() if line.split()[0] in ("scontrol", "kubectl", "reboot")]
        return status, output, asked, json.loads((tmp_path / "scheduler.json").read_text())
    play.node = node
    return play


def test_slurm_waits_for_jobs_and_gives_the_node_back(site):
    status, output, asked, node = site("slurm", jobs=2)
    assert status == 0 and not node["drained"], output
    drain, resume = "scontrol update NodeName=node1 State=DRAIN Reason=lockstep.gpu: boots " + NEW, "scontrol update NodeName=node1 State=RESUME"
    assert [asked.index(line) for line in (drain, "reboot", resume)] == sorted(asked.index(line) for line in (drain, "reboot", resume))
    assert asked.count("scontrol show node node1") == 4


def test_a_drain_of_somebody_else_stays(site):
    status, output, asked, node = site("slurm", drained=True, reason="broken fan")
    assert status == 0 and node["drained"] and node["reason"] == "broken fan" and "reboot" in asked, output
    assert not [line for line in asked if "update" in line]


def test_jobs_that_do_not_end_leave_the_node_drained_and_the_next_run_goes_on(site):
    status, output, asked, node = site("slurm", jobs=50)
    assert status != 0 and "reboot" not in asked and node["drained"] and "taken out of service" in " ".join(output.split()), output
    status, output, asked, node = site("slurm", drained=True, reason=node["reason"])
    assert status == 0 and not node["drained"] and asked.count("reboot") == 1, output


def test_a_node_that_slurm_does_not_know_is_not_booted(site):
    status, output, asked, dummy = site("slurm", name="other")
    assert status != 0 and "Node node1 not found" in output and "reboot" not in asked


def test_kubernetes_evicts_and_gives_the_node_back(site):
    status, output, asked, node = site("kubernetes")
    assert status == 0 and not node["drained"] and node["notes"] == {}, output
    assert [line.split()[1] for line in asked if line != "reboot"] == ["get", "annotate", "drain", "get", "uncordon", "annotate"]
    assert "kubectl drain node1 --timeout=5s --ignore-daemonsets --delete-emptydir-data" in asked


def test_a_cordon_of_somebody_else_stays(site):
    status, output, asked, node = site("kubernetes", drained=True)
    assert status == 0 and node["drained"] and "reboot" in asked and not [line for line in asked if "uncordon" in line or "annotate" in line], output


def test_pods_that_nothing_manages_keep_the_node_up(site):
    status, output, asked, node = site("kubernetes", stubborn=True)
    assert status != 0 and "declare no controller" in output and "reboot" not in asked and node["drained"]
