# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Twelve nodes go from one kernel to another: one first, then four, then the rest; what stops a rollout, and what resumes it.

Who did what, and when, is told by the machines' own logs, not by the collection.
"""

from __future__ import annotations

import os
import signal
import time

import pytest
from machines import A, B, BATCHES, HOOKS, NODES, ROLLOUT, events, fault, fresh, kernel, on, power_cycle, restart, words

ONCE = ["boot " + A, "drain", "reboot", "boot " + B, "undrain"]
FAILED = ["boot " + A, "drain", "reboot", "boot " + B, "panic " + B, "boot " + A]
UNTOUCHED = ["boot " + A]


def done(nodes):
    """These nodes did everything once and run B for good, with nothing of the trial left."""
    for node in nodes:
        assert words(node) == ONCE, node
        assert kernel(node) == (B, B, ""), node
        trial = events(node)[3]
        assert trial["entry"] == "lockstep-gpu-trial" and "panic=30" in trial["options"].split(), trial
    left = "ls /boot/grub/custom.cfg /var/lib/lockstep-gpu/trial.json /etc/systemd/system/lockstep-gpu-* 2>/dev/null || true"
    assert [on(node, left) for node in nodes] == [""] * len(nodes)


def untouched(nodes):
    """Nothing has happened to these nodes since they were switched on."""
    for node in nodes:
        assert words(node) == UNTOUCHED, node
        assert kernel(node) == (A, A, ""), node


def in_order(*batches):
    """Every batch was over before the next one began: no drain before the last undrain."""
    for before, after in zip(batches, batches[1:]):
        last = max(events(node)[-1]["time"] for node in before)
        first = min(next(row["time"] for row in events(node) if row["event"] == "drain") for node in after)
        assert last < first, (before, after)


def test_one_then_four_then_the_rest(on_a, waiting, job):
    """From kernel A to B, which is not even installed on some; the next run finds nothing to do."""
    new = 12 if os.environ.get("LOCKSTEP_ALL") else 2
    fresh(on_a, NODES[:new])
    fresh(waiting[0], NODES[new:])
    first = job(**ROLLOUT)()
    first.say("rollout of 12 nodes, of which %d install the packages and build" % new)
    assert first.status == 0 and first.verdicts() == {"in_sync": NODES}, first.output
    done(NODES)
    in_order(*BATCHES)
    again = job(**ROLLOUT)()
    again.say("converged run of 12 nodes")
    assert again.status == 0 and again.verdicts() == {"in_sync": NODES}, again.output
    assert set(again.changed().values()) == {0}
    done(NODES)
    # It stays: also after the power was away.
    power_cycle(NODES[-1])
    assert kernel(NODES[-1]) == (B, B, "")


def test_a_canary_that_fails_stops_everything(on_a, job):
    fresh(on_a)
    fault(NODES[0], **{B: "panic"})
    stopped = job(**ROLLOUT)()
    assert stopped.status != 0
    assert words(NODES[0]) == FAILED
    assert kernel(NODES[0]) == (A, A, "")
    assert stopped.nodes[NODES[0]]["verdict"] == "broken" and "trial_boot_failed" in stopped.codes(NODES[0]), stopped.output
    assert "did not reach user space" in stopped.output
    untouched(NODES[1:])
    for node in NODES[1:]:
        assert on(node, "dpkg-query -W -f '${db:Status-Status}' linux-image-%s 2>/dev/null || true" % B) == ""
    assert stopped.verdicts().get("in_sync") is None


def waits(nodes):
    """These nodes run A and wait for a reboot that nobody has made."""
    for node in nodes:
        assert words(node) == UNTOUCHED, node
        assert kernel(node)[:2] == (A, A), node


def test_a_failing_node_stops_the_rollout_and_later_runs_do_the_rest(waiting, job):
    """No failure is allowed; then a few are, and the same node fails again; then it is mended."""
    fresh(waiting[0])
    bad, good = NODES[2], [node for node in NODES[:5] if node != NODES[2]]
    fault(bad, **{B: "panic"})
    stopped = job(**ROLLOUT)()
    stopped.say("rollout that stops at the second batch")
    assert stopped.status != 0 and stopped.verdicts()["in_sync"] == good, stopped.output
    done(good)
    in_order(BATCHES[0], [node for node in BATCHES[1] if node != bad])
    assert kernel(bad) == (A, A, "") and "trial_boot_failed" in stopped.codes(bad), stopped.output
    assert words(bad) == FAILED
    waits(BATCHES[2])

    over = job(**dict(ROLLOUT, lockstep_max_fail_percentage=30))()
    over.say("resume over a failing node: 8 of 12 nodes are left")
    assert over.status != 0 and over.verdicts() == {"in_sync": [node for node in NODES if node != bad], "broken": [bad]}, over.output
    done(good + BATCHES[2])
    assert {over.changed()[node] for node in good} == {0}
    assert words(bad)[len(FAILED):] == FAILED[1:] and kernel(bad) == (A, A, "")

    fault(bad)
    refused = job([bad], **ROLLOUT)()
    assert refused.status != 0 and words(bad).count("reboot") == 2, refused.output     # two trials were enough
    mended = job(**dict(ROLLOUT, node_kernel_trials=3))()
    mended.say("resume: 1 of 12 nodes is left")
    assert mended.status == 0 and mended.verdicts() == {"in_sync": NODES}, mended.output
    assert words(bad)[-1] == "undrain" and kernel(bad) == (B, B, "")
    done([node for node in NODES if node != bad])
    assert {mended.changed()[node] for node in NODES if node != bad} == {0}


@pytest.mark.many
def test_a_node_that_hangs_is_given_up_and_returns_when_its_power_is_cycled(waiting, job):
    fresh(waiting[0], NODES[:1])
    fault(NODES[0], **{B: "hang"})
    stopped = job(NODES[:1], **dict(ROLLOUT, node_kernel_reboot_timeout=15))()
    assert stopped.status != 0 and "power-cycle" in stopped.output.lower().replace("power cycle", "power-cycle"), stopped.output
    assert words(NODES[0])[-2:] == ["boot " + B, "stands still"]
    fault(NODES[0])
    power_cycle(NODES[0])
    assert kernel(NODES[0]) == (A, A, "")
    told = job(NODES[:1], **ROLLOUT)()
    assert told.status != 0 and "trial_boot_failed" in told.codes(NODES[0]) and kernel(NODES[0]) == (A, A, ""), told.output
    again = job(NODES[:1], **ROLLOUT)()
    assert again.status == 0 and kernel(NODES[0]) == (B, B, ""), again.output


def test_a_killed_run_is_resumed_without_a_second_reboot(waiting, job):
    """The controller dies while the second batch is rebooting."""
    fresh(waiting[0])
    killed = job(**ROLLOUT).start()
    deadline = time.monotonic() + 300
    while not any("reboot" in words(node) for node in BATCHES[1]) and killed.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert killed.poll() is None, "it ended before it could be killed"
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    done(BATCHES[0])
    untouched_now = [node for node in BATCHES[2] if words(node) == UNTOUCHED]
    assert untouched_now == BATCHES[2]
    for node in BATCHES[1]:
        on(node, "true")    # those that are on their way are up again
    rebooted = [node for node in BATCHES[1] if "reboot" in words(node)]
    resumed = job(**ROLLOUT)()
    resumed.say("resume after SIGKILL")
    assert resumed.status == 0 and resumed.verdicts() == {"in_sync": NODES}, resumed.output
    assert rebooted and resumed.changed()[NODES[0]] == 0
    for node in NODES:
        assert [word for word in words(node) if not word.endswith("drain")] == ["boot " + A, "reboot", "boot " + B], node
        assert kernel(node) == (B, B, ""), node
        assert words(node)[-1] == "undrain", node


@pytest.mark.many
def test_without_leave_nothing_reboots(waiting, job):
    image, asked = waiting
    assert asked.verdicts() == {"drift": NODES[:1]} and "reboot_required" in asked.codes(NODES[0]), asked.output
    fresh(image, NODES[:2])
    never = job(NODES[:2], **HOOKS)()
    assert "reboot_required" in never.codes(NODES[0]) & never.codes(NODES[1]), never.output
    waits(NODES[:2])
    # Its owner restarts one of them: the next run confirms the kernel and restarts nothing.
    restart(NODES[0])
    assert kernel(NODES[0]) == (B, A, "")
    confirmed = job(NODES[:1], **ROLLOUT)()
    assert confirmed.status == 0 and kernel(NODES[0]) == (B, B, ""), confirmed.output
    assert words(NODES[0]) == ["boot " + A, "reboot", "boot " + B]


@pytest.mark.many
def test_outside_of_its_window_nothing_reboots(waiting, job):
    fresh(waiting[0], NODES[:2])
    alike = dict(HOOKS, lockstep_reboot="window", lockstep_rollout="100%")
    hour = int(on(NODES[0], "date +%H"))
    closed = {"from": "%02d:00" % ((hour + 3) % 24), "to": "%02d:00" % ((hour + 5) % 24)}
    outside = job(NODES[:2], **dict(alike, lockstep_reboot_window=closed))()
    assert "reboot_required" in outside.codes(NODES[0]) & outside.codes(NODES[1]), outside.output
    waits(NODES[:2])
    opened = {"from": "%02d:00" % ((hour - 2) % 24), "to": "%02d:00" % ((hour + 2) % 24)}
    inside = job(NODES[:2], **dict(alike, lockstep_reboot_window=opened))()
    assert inside.status == 0 and inside.verdicts() == {"in_sync": NODES[:2]}, inside.output
    done(NODES[:2])


def test_a_kernel_that_cannot_boot_is_never_tried(waiting, job):
    """The gate: somebody's damaged initramfs, which no role would make again. The node is not even drained."""
    fresh(waiting[0], NODES[:1])
    on(NODES[0], "head -c 1000 /boot/initrd.img-%s >/tmp/part; cat /tmp/part >/boot/initrd.img-%s" % (B, B))
    closed = job(NODES[:1], **ROLLOUT)()
    assert closed.status != 0 and "boot_gate_closed" in closed.codes(NODES[0]), closed.output
    untouched(NODES[:1])
