# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Audit and capture on a converged node: what is right is called right, what moved is found, and a bundle says the same."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
STACKS = {"lockstep-debian12": "debian12-535", "lockstep-debian13": "debian13-550"}


@pytest.fixture
def play(host, tmp_path):
    node = host.backend.host

    def run(name, *arguments, **variables):
        """(exit status, output, the report's nodes) of a playbook on this node."""
        variables = dict({"lockstep_hosts": node, "lockstep_stack": STACKS[node], "lockstep_report": str(tmp_path / "report.json")}, **variables)
        done = subprocess.run(["ansible-playbook", "-i", str(ROOT / "molecule/inventory.yml"), *arguments, "lockstep.gpu." + name,
                               "-e", json.dumps(variables)], cwd=tmp_path, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        report = tmp_path / "report.json"
        return done.returncode, done.stdout, json.loads(report.read_text(encoding="utf-8"))["nodes"] if report.exists() else {}
    return run


def fingerprint(host):
    """Everything that an audit must leave alone."""
    return host.run("find /etc /boot /lib/modules /usr/src /var/lib/dpkg /var/lib/dkms /var/lib/apt -type f -printf '%p %s %T@\\n' | sort | sha256sum").stdout


def test_a_converged_node_is_in_sync_and_untouched(host, play):
    before = fingerprint(host)
    status, output, nodes = play("audit")
    (record,) = nodes.values()
    assert (status, record["verdict"], record["plan"]) == (0, "in_sync", []), output
    assert record["state"]["unreadable"] == [], record["state"]["unknown"]
    assert fingerprint(host) == before


def test_preflight_has_nothing_against_it(play):
    status, output, nodes = play("preflight")
    assert (status, [record["verdict"] for record in nodes.values()]) == (0, ["in_sync"]), output


def test_a_lost_hold_is_found_live_and_in_the_bundle(host, play, tmp_path):
    name = "rdma-core"
    assert host.run("apt-mark unhold %s" % name).rc == 0
    try:
        status, output, nodes = play("audit")
        (live,) = nodes.values()
        assert status != 0 and live["verdict"] == "drift" and name in json.dumps(live["findings"]), output
        assert {"action": "hold", "target": name} in live["plan"]
        status, output, dummy = play("capture", lockstep_bundle=str(tmp_path / "bundles"), lockstep_redact=True)
        assert status == 0, output
        status, output, nodes = play("audit", lockstep_bundle=str(tmp_path / "bundles"))
        (replayed,) = nodes.values()
        assert [(row["code"], row["subject"]) for row in replayed["findings"]] == [(row["code"], row["subject"]) for row in live["findings"]]
        assert replayed["plan"] == live["plan"]
    finally:
        host.run("apt-mark hold %s" % name)


def test_another_stack_is_not_this_one(host, play):
    other = {"lockstep-debian12": {"driver": "535.309.01"}, "lockstep-debian13": "debian13-535"}[host.backend.host]
    status, output, nodes = play("audit", lockstep_stack=other)
    (record,) = nodes.values()
    assert status != 0 and record["verdict"] in ("drift", "broken"), output
