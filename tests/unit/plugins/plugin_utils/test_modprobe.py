# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modprobe has to be told, and when the facts say that it has been."""
from __future__ import annotations

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import modprobe_policy as policy
from ansible_collections.lockstep.gpu.plugins.plugin_utils import actions, modprobe

KERNEL = "6.12.117+deb13-amd64"
STACK = {"driver": {"version": "550.163.01"}}
TEXT = policy.render()
WRITE, REBUILD = {"action": "write_file", "target": policy.FILE}, {"action": "rebuild_initramfs", "target": KERNEL}


@pytest.mark.parametrize("there, image, due, steps", [
    ({"own": TEXT, "stale": []}, True, None, []),
    ({"own": TEXT, "stale": ["6.1.0-50-amd64"]}, True, None, []),
    ({"own": TEXT, "stale": [KERNEL]}, True, "is older than", [REBUILD]),
    ({"own": None, "stale": []}, True, "is missing", [WRITE, REBUILD]),
    ({"own": "# old\n", "stale": None}, False, "differs", [WRITE]),
    # Nobody has looked: nothing is claimed.
    (None, True, None, []), ({"blacklist": {}}, True, None, []),
])
def test_what_is_due(there, image, due, steps):
    state = {"modprobe": there, "kernel": {"installed": [{"release": KERNEL, "initramfs": image}]}}
    found = modprobe.of(STACK, None, KERNEL, state)
    assert (found["text"], found["kernel"]) == (TEXT, KERNEL)
    assert found["due"] is None if due is None else due in found["due"]
    assert modprobe.steps(found, state) == steps == sorted(steps, key=lambda row: 1 - (row["action"] == "write_file"))
    assert all(row in actions.ordered(steps) for row in steps)


def test_a_container_boots_no_initramfs():
    state = {"modprobe": {"own": TEXT, "stale": [KERNEL]}, "container": True}
    assert modprobe.of(STACK, None, KERNEL, state)["due"] is None
    assert modprobe.of(STACK, None, KERNEL, {"modprobe": {"own": "", "stale": []}, "container": True})["due"]


def test_a_stack_without_a_driver_says_nothing():
    assert modprobe.of({"nccl": {}}, None, KERNEL, {"modprobe": {"own": None}}) is None
    assert modprobe.steps(None, {}) == []


def test_options_of_the_stack_stand_under_the_names_of_the_files():
    found = modprobe.of({"driver": {"options": {"NVreg_X": 1}}}, {"files": ["nvidia-current"]}, KERNEL, {})
    assert found["text"].endswith("options nvidia NVreg_X=1\noptions nvidia-current NVreg_X=1\n")
