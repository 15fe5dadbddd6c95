# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A kernel on trial from the first run to the last, with every way that it may end, and killed at every step."""

from __future__ import annotations

import json
import os
import pathlib
import sys

import pytest
from boot_nodes import NEW, OLD, UNITS, Killed, Node, spec

from ansible_collections.lockstep.gpu.plugins.module_utils import grub, trial

sys.path.insert(0, str(pathlib.Path(__file__).parents[4] / "molecule/rollout/machine"))
import simulated_grub  # noqa: E402

RECORD = "var/lib/lockstep-gpu/trial.json"
WITHIN = {"confirm_within": 600}


@pytest.fixture(name="node")
def fixture_node(tmp_path):
    return Node(tmp_path)


def record(node):
    text = node.text(RECORD)
    return json.loads(text) if text else None


def test_what_is_prepared(node):
    done = node.apply("once", NEW, **WITHIN)
    assert (done["changed"], done["default_after"], done["next_after"], done["entry"]) == (True, OLD, NEW, spec(NEW))
    assert done["trial"] == {"kernel": NEW, "from": OLD, "attempts": 0, "confirm_within": 600, "outcome": "pending", "reason": None}
    assert node.environment == {"saved_entry": spec(OLD), "next_entry": "lockstep-gpu-trial"}
    assert (record(node)["armed"], record(node)["boot_id"]) == (True, node.boot_id)
    assert os.readlink(node.root / UNITS / "sysinit.target.wants/lockstep-gpu-trial.timer") == "../lockstep-gpu-trial.timer"
    taken = node.grub_takes()
    assert taken.startswith("/boot/vmlinuz-%s root=" % NEW) and taken.endswith(" quiet panic=30 lockstep.gpu.trial=" + record(node)["token"])


def test_another_reader_of_grubs_language_boots_it_once(node):
    node.put("boot/grub/custom.cfg", "menuentry 'mine' --id mine {\n\tlinux /boot/vmlinuz-%s mine\n}\n" % OLD)
    node.apply("once", NEW)
    started = simulated_grub.Menu(node.root).boot()
    assert (started["kernel"], started["entry"], started["initrd"]) == (NEW, "lockstep-gpu-trial", "/boot/initrd.img-" + NEW)
    assert started["options"].endswith(" quiet panic=30 lockstep.gpu.trial=" + record(node)["token"])
    assert simulated_grub.Menu(node.root).boot()["kernel"] == OLD
    # The old kernel starts without any of it.
    assert "panic" not in simulated_grub.Menu(node.root).boot()["options"]


def test_without_a_limit_nothing_returns_by_itself(node):
    node.apply("once", NEW, panic=0)
    assert sorted(name for name in node.traces() if "trial" in name) == [
        "lockstep-gpu-trial-mark.service", "lockstep-gpu-trial-mark.service", "lockstep-gpu-trial.sh"]
    assert "panic" not in node.grub_takes()


def test_twice_is_once(node):
    node.apply("once", NEW, **WITHIN)
    before, effects = node.text(RECORD), node.effects
    assert not node.apply("once", NEW, **WITHIN)["changed"]
    assert not node.apply("settled")["changed"]
    assert (node.text(RECORD), node.effects) == (before, effects)


def test_confirmed(node):
    node.apply("once", NEW, **WITHIN)
    node.boot()
    assert node.running == NEW
    found = node.apply("settled")
    assert (found["changed"], found["trial"]["outcome"], found["trial"]["from"]) == (False, "running", OLD)
    assert not node.apply("once", NEW, **WITHIN)["changed"]
    said = node.apply("default", NEW, check=True)
    done = node.apply("default", NEW)
    assert said == done and (done["changed"], done["default_after"], done["trial"]) == (True, NEW, None)
    assert node.traces() == [] and record(node) is None
    assert not node.apply("default", NEW)["changed"] and not node.apply("settled")["changed"]
    words = [argv[1:] for argv in node.calls if argv[0] == "systemctl"]
    assert words[0][:2] == ["stop", "lockstep-gpu-trial.timer"] and words[-1] == ["daemon-reload"]
    node.boot()
    assert node.running == NEW


@pytest.mark.parametrize("ends, reason", [
    ("hang", "did not reach user space: it panicked, hung, or the power was cut"),
    ("reset", "reached user space and was reset before it was confirmed"),
    ("expire", "came up, but nobody confirmed it within 600 s; its network then: lo UNKNOWN 127.0.0.1/8; eth0 DOWN")])
def test_failed(node, ends, reason):
    node.apply("once", NEW, **WITHIN)
    node.boot(ends)
    assert node.running == OLD
    asked = node.apply("query")
    assert (asked["trial"]["outcome"], asked["trial"]["reason"], asked["trial"]["attempts"]) == ("failed", reason, 0)
    said = node.apply("settled", check=True)
    done = node.apply("settled")
    assert said == done and done["changed"]
    assert done["trial"] == {"kernel": NEW, "from": OLD, "attempts": 1, "confirm_within": 600, "outcome": "failed", "reason": reason}
    assert node.traces() == [] and record(node)["outcome"] == "failed"
    again = node.apply("settled")
    assert (again["changed"], again["trial"]) == (False, done["trial"])
    # The default for the old kernel does not forget it.
    assert not node.apply("default", OLD)["changed"] and record(node)["attempts"] == 1


def test_so_many_trials_and_no_more(node):
    for attempt in (1, 2):
        node.apply("once", NEW, **WITHIN)
        node.boot("hang")
        if attempt == 2:
            assert node.apply("settled")["trial"]["attempts"] == 2
    before = node.text(RECORD)
    with pytest.raises(grub.GrubError, match="booted on trial 2 times .* did not reach user space.*trials=3") as caught:
        node.apply("once", NEW, **WITHIN)
    assert caught.value.code == "trial_boot_failed" and node.traces() == [] and node.text(RECORD) == before
    with pytest.raises(grub.GrubError):
        node.apply("once", NEW, check=True)
    # Another initramfs is another trial; and so is one more that somebody allows.
    assert node.apply("once", NEW, trials=3)["trial"]["attempts"] == 2
    node.put("boot/initrd.img-" + NEW, "rebuilt")
    assert node.apply("once", NEW)["trial"]["attempts"] == 0


def test_calls_are_no_attempts(node):
    for _call in range(5):
        node.apply("once", NEW, trials=1)
        node.apply("once", OLD, trials=1)
    assert record(node)["attempts"] == 0


def test_another_kernel_replaces_the_one_that_waits(node):
    node.apply("once", NEW, **WITHIN)
    done = node.apply("once", OLD)
    assert (done["trial"]["kernel"], done["next_after"]) == (OLD, OLD)
    assert "lockstep-gpu-trial.timer" not in node.traces()


def test_a_new_initramfs_is_told_before_the_boot(node):
    node.apply("once", NEW)
    token = record(node)["token"]
    node.put("boot/initrd.img-" + NEW, "rebuilt")
    assert node.apply("once", NEW)["changed"]
    assert record(node)["token"] != token and record(node)["token"] in node.text("boot/grub/custom.cfg")


def test_a_failed_kernel_that_somebody_boots_by_hand_counts_when_it_is_made_the_default(node):
    node.apply("once", NEW)
    node.boot("hang")
    node.apply("settled")
    node.edit_environment("set", "next_entry=" + spec(NEW))
    node.boot()
    assert node.apply("settled")["trial"]["outcome"] == "running"
    node.apply("default", NEW)
    assert record(node) is None


def test_a_default_that_is_set_ends_a_trial_that_waits(node):
    node.apply("once", NEW)
    done = node.apply("default", NEW)
    assert (done["default_after"], done["next_after"], done["trial"]) == (NEW, None, None)
    assert node.traces() == []


@pytest.mark.parametrize("call", [("default", OLD), ("withdrawn",)])
def test_a_trial_is_taken_back(node, call):
    node.apply("once", NEW, **WITHIN)
    said = node.apply(*call, check=True)
    done = node.apply(*call)
    assert said == done and (done["changed"], done["default_after"], done["next_after"], done["trial"]) == (True, OLD, None, None)
    assert node.traces() == [] and record(node) is None and not node.apply(*call)["changed"]


def test_a_trial_that_runs_is_not_withdrawn(node):
    node.apply("once", NEW, **WITHIN)
    node.boot()
    assert not node.apply("withdrawn")["changed"] and node.apply("query")["trial"]["outcome"] == "running"


def test_who_reaches_the_node_renews_its_watch(node):
    (node.root / "run/systemd/system").mkdir(parents=True, exist_ok=True)
    timer = "lockstep-gpu-trial.timer"
    node.apply("once", NEW, **WITHIN)
    node.calls.clear()
    # Not before the boot, and not in a check.
    assert not node.apply("settled", watch="renew")["changed"] and not [call for call in node.calls if call[0] == "systemctl"]
    node.boot()
    node.apply("settled", watch="renew", check=True)
    assert not [call for call in node.calls if call[0] == "systemctl"]
    for how, word in (("stop", "stop"), ("renew", "restart")):
        node.calls.clear()
        assert not node.apply("settled", watch=how)["changed"]
        assert [call for call in node.calls if call[0] == "systemctl"] == [["systemctl", word, timer]]
    node.apply("default", NEW)
    node.calls.clear()
    assert not node.apply("settled", watch="renew")["changed"] and not [call for call in node.calls if call[0] == "systemctl"]


def test_a_trial_without_a_limit_has_nothing_to_renew(node):
    (node.root / "run/systemd/system").mkdir(parents=True, exist_ok=True)
    node.apply("once", NEW)
    node.boot()
    node.calls.clear()
    assert not node.apply("settled", watch="renew")["changed"] and not [call for call in node.calls if call[0] == "systemctl"]


def test_the_default_of_the_old_kernel_records_a_failure_and_leaves_a_trial_that_runs(node):
    node.apply("once", NEW, **WITHIN)
    node.boot()
    assert not node.apply("default", OLD)["changed"] and "lockstep-gpu-trial.timer" in node.traces()
    node.boot("reset")
    assert node.apply("default", OLD)["trial"]["outcome"] == "failed" and record(node)["attempts"] == 1


def test_a_loader_that_did_not_look(node):
    node.apply("once", NEW)
    # kexec: another boot, and GRUB had no part in it.
    node._start("ro")
    found = node.apply("settled")
    assert not found["changed"] and found["trial"]["outcome"] == "pending" and "did not take" in found["trial"]["reason"]
    assert node.apply("once", NEW)["trial"]["reason"] is None


def test_the_owner_keeps_custom_cfg(node):
    for text in ("menuentry 'mine' {\n\ttrue\n}\n", "set color=blue", "\n\n", ""):
        node.put("boot/grub/custom.cfg", text)
        node.apply("once", NEW)
        assert node.text("boot/grub/custom.cfg").startswith(text)
        node.boot("hang")
        node.apply("settled")
        assert (node.text("boot/grub/custom.cfg") or "") == text
        (node.root / RECORD).unlink()


def test_what_is_left_without_a_record_goes(node):
    node.apply("once", NEW, **WITHIN)
    (node.root / RECORD).unlink()
    assert node.apply("settled")["changed"] and node.traces() == []
    node.apply("once", NEW, **WITHIN)
    node.put(RECORD, "damaged")
    assert node.apply("default", OLD)["changed"] and node.traces() == [] and record(node) is None


@pytest.fixture(name="mortals")
def fixture_mortals(tmp_path, monkeypatch):
    """Nodes on which each rename, removal and link is an effect, too: one for each step at which a run may die, until one comes to its end.

    Gives (step, node); a test says with `ended` that the run came to its end before that step.
    """
    nodes = []

    def each():
        while not getattr(each, "ended", False):
            nodes.append(Node(tmp_path / str(len(nodes) + 1)))
            yield len(nodes), nodes[-1]
        # Fewer steps than this would mean that they are not counted.
        assert 8 < len(nodes) < 40

    for name in ("rename", "unlink", "symlink"):
        def counted(*arguments, _real=getattr(os, name), **options):
            if nodes and any(str(nodes[-1].root) in str(path) for path in arguments):
                nodes[-1].effect()
            return _real(*arguments, **options)
        monkeypatch.setattr(os, name, counted)
    return each


def killed_at(node, step, *call, **options):
    """Run until the step; False when the run ended before it."""
    node.effects, node.kill_at = 0, step
    try:
        node.apply(*call, **options)
        return False
    except Killed:
        return True
    finally:
        node.kill_at = None


def consistent(node):
    """The boot loader has been told only where all the rest is there, and the way back is there."""
    if node.environment.get("next_entry"):
        token = record(node)["token"]
        assert token in node.text("boot/grub/custom.cfg") and token in node.text(UNITS + "/lockstep-gpu-trial.sh")
        assert token in node.text(UNITS + "/sysinit.target.wants/lockstep-gpu-trial.timer")


@pytest.mark.parametrize("reboots", [False, True])
def test_killed_while_it_is_prepared(mortals, reboots):
    for step, node in mortals():
        died = killed_at(node, step, "once", NEW, **WITHIN)
        mortals.ended = not died
        consistent(node)
        if reboots and died:
            node.boot("hang")
            assert node.running == OLD
            node.apply("settled")
            assert record(node) is None or record(node)["attempts"] == 1
        done = node.apply("once", NEW, **WITHIN)
        assert done["next_after"] == NEW and not node.apply("once", NEW, **WITHIN)["changed"]
        node.boot()
        assert node.running == NEW


def test_killed_while_it_is_settled(mortals):
    for step, node in mortals():
        node.apply("once", NEW, **WITHIN)
        node.boot("expire")
        mortals.ended = not killed_at(node, step, "settled")
        consistent(node)
        done = node.apply("settled")
        assert (done["trial"]["outcome"], done["trial"]["attempts"]) == ("failed", 1) and "nobody confirmed" in done["trial"]["reason"]
        assert node.traces() == [] and not node.apply("settled")["changed"]


@pytest.mark.parametrize("reboots", [False, True])
def test_killed_while_it_is_confirmed(mortals, reboots):
    for step, node in mortals():
        node.apply("once", NEW, **WITHIN)
        node.boot()
        mortals.ended = not killed_at(node, step, "default", NEW)
        consistent(node)
        saved = node.environment["saved_entry"]
        if reboots:
            node.boot()
            assert node.running == (NEW if saved == spec(NEW) else OLD)
        if reboots and saved == spec(OLD):
            assert node.apply("settled")["trial"]["outcome"] == "failed"
            continue
        node.apply("default", NEW)
        assert node.traces() == [] and record(node) is None and node.environment["saved_entry"] == spec(NEW)


def test_killed_while_it_is_taken_back(mortals):
    for step, node in mortals():
        node.apply("once", NEW, **WITHIN)
        mortals.ended = not killed_at(node, step, "withdrawn")
        consistent(node)
        node.apply("withdrawn")
        assert node.traces() == [] and record(node) is None and not node.apply("withdrawn")["changed"]


def test_killed_while_another_kernel_is_prepared(mortals):
    for step, node in mortals():
        node.apply("once", NEW, **WITHIN)
        mortals.ended = not killed_at(node, step, "once", OLD, **WITHIN)
        consistent(node)
        node.apply("once", OLD, **WITHIN)
        consistent(node)
        assert record(node)["kernel"] == OLD and not node.apply("once", OLD, **WITHIN)["changed"]


@pytest.mark.parametrize("text", ["", "{}", "[]", "null", "{", '{"schema": 1}', '{"schema": 2, "outcome": "pending"}'])
def test_a_damaged_record_is_none(text):
    assert trial.parse(text) is None
