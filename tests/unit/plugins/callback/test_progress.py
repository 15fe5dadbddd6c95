# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The progress callback: what it says, when, and that it ends."""
from __future__ import annotations

import threading
import time
import types

import pytest
from ansible_collections.lockstep.gpu.plugins.callback import progress


@pytest.mark.parametrize(("seconds", "text"), [(0, "0s"), (59.9, "59s"), (60, "1m00s"), (90, "1m30s"), (3661, "1h01m")])
def test_times_are_said_as_people_do(seconds, text):
    assert progress.spoken(seconds) == text


def test_only_long_tasks_are_told_and_hosts_share_a_line():
    running = progress.Running()
    for host in ("a", "b", "c", "d", "e"):
        running.begin(host, "1", "Build the module", 100.0)
    running.begin("a", "2", "Quick", 185.0)
    assert running.lines(190.0, 15) == ["\u2026 a, b, c and 2 more: Build the module \u2014 1m30s so far"]
    for host in ("a", "b", "c", "d"):
        running.end(host, "1")
    assert running.lines(190.0, 15) == ["\u2026 e: Build the module \u2014 1m30s so far"]
    running.end("never", "seen")
    running.clear()
    assert running.lines(1000.0, 15) == []


@pytest.fixture
def callback(monkeypatch):
    made = progress.CallbackModule()
    said = []
    monkeypatch.setattr(made, "_display", types.SimpleNamespace(display=said.append))
    monkeypatch.setattr(made, "get_option", lambda name: 1.0)
    return made, said


HOST = types.SimpleNamespace(get_name=lambda: "node")
TASK = types.SimpleNamespace(_uuid="1", get_name=lambda: "Build the module")


@pytest.mark.parametrize("result", [types.SimpleNamespace(host=HOST, task=TASK), types.SimpleNamespace(_host=HOST, _task=TASK)])
def test_a_running_task_is_told_until_it_ends(callback, result):
    made, said = callback
    before = threading.active_count()
    made.v2_runner_on_start(HOST, TASK)
    assert threading.active_count() == before + 1
    time.sleep(2.5)
    made.v2_runner_on_ok(result)
    told = len(said)
    assert told >= 1 and said[0].startswith("\u2026 node: Build the module")
    time.sleep(1.5)
    assert len(said) == told
    made.v2_playbook_on_stats(None)
    assert threading.active_count() == before


@pytest.mark.parametrize("ending", ["v2_runner_on_failed", "v2_runner_on_skipped", "v2_runner_on_unreachable"])
def test_every_ending_ends_it(callback, ending):
    made, said = callback
    made.v2_runner_on_start(HOST, TASK)
    getattr(made, ending)(types.SimpleNamespace(host=HOST, task=TASK))
    assert made._running.lines(time.monotonic() + 100, 15) == []
    made.v2_playbook_on_stats(None)
    # A second playbook of the same run starts it anew.
    made.v2_runner_on_start(HOST, TASK)
    made.v2_playbook_on_stats(None)
    assert made._thread is None
