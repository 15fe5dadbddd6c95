# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count what a play really asks of its nodes: calls of the connection plugin, per host and kind."""

from __future__ import annotations

DOCUMENTATION = """
name: remote_calls
type: aggregate
short_description: Counts exec_command, put_file and fetch_file per host
description:
  - Wraps every connection that a worker opens and counts the calls below all actions and modules.
  - Writes the counts as JSON and prints them after the play.
options:
  path:
    description: File that takes the counts as JSON.
    type: path
    required: true
    env:
      - name: LOCKSTEP_REMOTE_CALLS
"""

import collections
import functools
import json
import os

from ansible.plugins.callback import CallbackBase
from ansible.plugins.loader import connection_loader

COUNTED = ("exec_command", "put_file", "fetch_file")


def record(path: str, host: str, kind: str) -> None:
    """Append one call to *path*. Workers are processes: a short write in append mode is not torn apart."""
    handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(handle, ("%s\t%s\n" % (kind, host)).encode())
    finally:
        os.close(handle)


def counted(connection, path: str):
    """Return *connection* with its methods of `COUNTED` recorded in *path* under the address of the host."""
    def wrap(kind):
        method = getattr(connection, kind)

        @functools.wraps(method)
        def call(*args, **kwargs):
            record(path, str(connection._play_context.remote_addr), kind)
            return method(*args, **kwargs)
        return call

    for kind in COUNTED:
        setattr(connection, kind, wrap(kind))
    return connection


def totals(lines) -> dict[str, dict[str, int]]:
    """Return host -> kind -> number of calls for *lines* that `record` wrote."""
    found: dict[str, collections.Counter] = {}
    for line in lines:
        kind, host = line.rstrip("\n").split("\t", 1)
        found.setdefault(host, collections.Counter())[kind] += 1
    return {host: dict(found[host]) for host in sorted(found)}


class CallbackModule(CallbackBase):
    """Wraps the loader in the controlling process; the workers, which are forked from it, inherit that."""

    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "aggregate"
    CALLBACK_NAME = "remote_calls"
    CALLBACK_NEEDS_ENABLED = True

    def v2_playbook_on_start(self, playbook):
        """Start with no calls and wrap every connection from now on."""
        self.path = self.get_option("path")
        self.log = self.path + ".log"
        if os.path.exists(self.log):
            os.unlink(self.log)
        load = connection_loader.get_with_context

        def get_with_context(*args, **kwargs):
            result = load(*args, **kwargs)
            if result.object is not None:
                counted(result.object, self.log)
            return result
        connection_loader.get_with_context = get_with_context

    def v2_playbook_on_stats(self, stats):
        """Write and print the totals."""
        lines = []
        if os.path.exists(self.log):
            with open(self.log, encoding="utf-8") as handle:
                lines = handle.readlines()
        result = totals(lines)
        with open(self.path, "w", encoding="utf-8") as handle:
            json.dump(result, handle, indent=1, sort_keys=True)
        for host, kinds in result.items():
            self._display.display("remote calls of %s: %d (%s)" % (
                host, sum(kinds.values()), ", ".join("%s %d" % item for item in sorted(kinds.items()))))
