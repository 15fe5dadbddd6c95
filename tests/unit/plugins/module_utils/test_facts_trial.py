# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What node_facts says of a kernel on trial: the record, and which kernel the next start takes."""

from __future__ import annotations

import pytest
from boot_nodes import NEW, OLD, Node

from ansible_collections.lockstep.gpu.plugins.module_utils import facts_boot, facts_trial, parse_trial, trial
from ansible_collections.lockstep.gpu.plugins.module_utils.facts_reader import NOT_RECORDED, Reader
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import LiveProbe, Observation
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import PROBES
from ansible_collections.lockstep.gpu.plugins.plugin_utils import next_boot

NAMES = ("trial_record", "proc_cmdline", "boot_files", "grub_default", "grubenv", "grub_cfg", "grub_custom", "proc_mounts", "bls_entries", "machine_id")


@pytest.fixture(name="node")
def fixture_node(tmp_path):
    return Node(tmp_path)


def seen(node):
    """The sections of a live node below a folder."""
    reader = Reader(LiveProbe(root=str(node.root), probes={name: PROBES[name] for name in NAMES}), NAMES)
    return dict(facts_trial.section(reader), boot=facts_boot.boot(reader, False), unknown=[row for row in reader.unknown if row["probe"] != "proc_mounts"])


def test_before_during_and_after(node):
    assert (seen(node)["trial"], seen(node)["unknown"]) == (None, [])
    node.apply("once", NEW, confirm_within=600)
    found = seen(node)
    assert (found["boot"]["default_kernel"], found["boot"]["next_entry"]) == (NEW, "lockstep-gpu-trial")
    assert found["boot"]["entries"][-1] == {"id": "lockstep-gpu-trial", "title": "Linux %s, once on trial (lockstep.gpu)" % NEW, "kernel": NEW,
                                            "machine_id": None, "rescue": False}
    assert {key: found["trial"][key] for key in ("kernel", "from", "attempts", "confirm_within", "outcome", "reason", "reached", "expired", "running")} == {
        "kernel": NEW, "from": OLD, "attempts": 0, "confirm_within": 600, "outcome": "pending", "reason": None, "reached": False, "expired": None,
        "running": False}
    node.boot()
    found = seen(node)
    assert (found["boot"]["default_kernel"], found["trial"]["running"], found["trial"]["reached"]) == (OLD, True, True)
    node.boot("expire")
    node.apply("settled")
    assert (seen(node)["trial"]["outcome"], seen(node)["trial"]["running"], seen(node)["trial"]["attempts"]) == ("failed", False, 1)
    node.put("var/lib/lockstep-gpu/trial.json", "{")
    assert seen(node)["trial"] is None and seen(node)["unknown"][0]["probe"] == "trial_record"


def test_the_network_of_a_trial_that_expired(node):
    node.apply("once", NEW, confirm_within=600)
    node.boot("expire")
    assert seen(node)["trial"]["expired"] == "lo UNKNOWN 127.0.0.1/8; eth0 DOWN"
    node.put("var/lib/lockstep-gpu/trial.expired", "0000000000000000\nof another trial\n")
    assert seen(node)["trial"]["expired"] is None


def test_a_record_alone_and_marks_alone(node):
    node.apply("once", NEW)
    assert parse_trial.parse_trial(node.text("var/lib/lockstep-gpu/trial.json")).value["kernel"] == NEW
    assert parse_trial.parse_trial("==> /var/lib/lockstep-gpu/trial.reached <==\n0\n") == (None, [])


@pytest.mark.parametrize("record, kernel", [(True, NEW), (False, None)])
def test_a_bundle_without_the_menu_entry(node, record, kernel):
    node.apply("once", NEW)
    names = [name for name in NAMES if name != "grub_custom" and (record or name != "trial_record")]

    class Recorded:
        """A bundle that has these probes only."""

        given = {}
        start = staticmethod(lambda names: None)

        @staticmethod
        def read(name):
            if name in names:
                return LiveProbe(root=str(node.root), probes={name: PROBES[name]}).read(name)
            return Observation(None, reason=NOT_RECORDED)

    reader = Reader(Recorded, NAMES)
    assert facts_boot.boot(reader, False)["default_kernel"] == kernel


def test_without_any_menu_the_record_names_the_next_kernel():
    state = {"boot": {"next_entry": trial.ENTRY, "default_kernel": None}, "trial": {"kernel": NEW}}
    assert next_boot.next_kernel(state) == NEW
    assert next_boot.next_kernel(dict(state, trial=None)) is None
