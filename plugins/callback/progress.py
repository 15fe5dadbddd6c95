# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says during long tasks what is going on."""
from __future__ import annotations

DOCUMENTATION = r"""
name: progress
type: notification
version_added: 0.1.0
author: lockstep.gpu contributors (@lockstep-gpu)
short_description: Says during long tasks what is going on
description:
  - While a task runs for long (a download, a DKMS build), prints a line from time to time with the hosts, the task and the time so far.
  - It asks the hosts nothing; it only knows which tasks have begun and not ended.
requirements:
  - enable it with C(callbacks_enabled = lockstep.gpu.progress)
options:
  interval:
    description: Seconds between two lines, and before the first one of a task.
    type: float
    default: 15
    env:
      - name: LOCKSTEP_PROGRESS_INTERVAL
    ini:
      - section: callback_progress
        key: interval
"""

import threading
import time

from ansible.plugins.callback import CallbackBase

HOSTS_SHOWN = 3


def spoken(seconds):
    """A time as people say it: 90 -> "1m30s"."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return "%dh%02dm" % (hours, minutes)
    return "%dm%02ds" % (minutes, rest) if minutes else "%ds" % rest


class Running:
    """Which tasks run on which hosts since when; safe to use from several threads."""

    def __init__(self):
        self._lock = threading.Lock()
        self._since = {}

    def begin(self, host, task, name, now):
        """A task (its id and name) begins on a host at a time in seconds."""
        with self._lock:
            self._since[host, task] = (name, now)

    def end(self, host, task):
        """A task has ended on a host; one that is not known is no error."""
        with self._lock:
            self._since.pop((host, task), None)

    def clear(self):
        """Forget everything."""
        with self._lock:
            self._since.clear()

    def lines(self, now, patience):
        """One line for each task that has run for at least `patience` seconds, oldest first."""
        with self._lock:
            rows = [(began, task, name, host) for (host, task), (name, began) in self._since.items() if now - began >= patience]
        by_task = {}
        for began, task, name, host in sorted(rows, key=lambda row: row[0]):
            by_task.setdefault(task, (name, began, []))[2].append(host)
        return [self._line(name, now - began, hosts) for name, began, hosts in by_task.values()]

    @staticmethod
    def _line(name, seconds, hosts):
        shown = ", ".join(hosts[:HOSTS_SHOWN])
        if len(hosts) > HOSTS_SHOWN:
            shown += " and %d more" % (len(hosts) - HOSTS_SHOWN)
        return "\u2026 %s: %s \u2014 %s so far" % (shown, name, spoken(seconds))


class CallbackModule(CallbackBase):
    """Follows begin and end of tasks; a thread of the controller process prints.

    Workers are forked while the thread runs. That is safe: they never use this object, and Display holds its own lock
    over a fork.
    """

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "notification"
    CALLBACK_NAME = "lockstep.gpu.progress"
    CALLBACK_NEEDS_ENABLED = True

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._running = Running()
        self._over = threading.Event()
        self._thread = None

    def v2_runner_on_start(self, host, task):
        """A worker begins with a task."""
        self._running.begin(host.get_name(), task._uuid, task.get_name(), time.monotonic())
        if self._thread is None:
            self._over.clear()
            self._thread = threading.Thread(target=self._watch, args=(float(self.get_option("interval")),), daemon=True)
            self._thread.start()

    def v2_runner_on_ok(self, result):
        """A task has ended well."""
        self._end(result)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        """A task has failed."""
        self._end(result)

    def v2_runner_on_skipped(self, result):
        """A task was skipped."""
        self._end(result)

    def v2_runner_on_unreachable(self, result):
        """A host has gone."""
        self._end(result)

    def v2_playbook_on_stats(self, stats):
        """The playbook is over."""
        self._running.clear()
        self._over.set()
        if self._thread is not None:
            self._thread.join(timeout=5)
            self._thread = None

    def _end(self, result):
        # ansible-core 2.19 gave the two their public names.
        host = getattr(result, "host", None) or result._host
        task = getattr(result, "task", None) or result._task
        self._running.end(host.get_name(), task._uuid)

    def _watch(self, interval):
        interval = max(1.0, interval)
        while not self._over.wait(interval):
            for line in self._running.lines(time.monotonic(), interval):
                self._display.display(line)
