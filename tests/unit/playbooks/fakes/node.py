# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine of files: what it runs, boots and keeps, for the playbooks' tests.

A folder has state.json (what node_facts says of a node in sync), node.json (what changes: running, default, trial, wrong, stale, fate)
and log (what was done to it, a line each). Its path is in the environment, put there by the connection plugin.
Run as a program it is the machine's reboot.
"""
from __future__ import annotations

import json
import os
import pathlib


class Node:
    """The machine that the environment names, or another folder."""

    def __init__(self, folder=None):
        self.folder = pathlib.Path(folder or os.environ["LOCKSTEP_FAKE_NODE"])
        self.now = json.loads((self.folder / "node.json").read_text())

    def save(self):
        (self.folder / "node.json").write_text(json.dumps(self.now))

    def log(self, *words):
        with open(self.folder / "log", "a", encoding="utf-8") as out:
            out.write(" ".join(str(word) for word in words) + "\n")

    def lines(self):
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def state(self):
        """What node_facts says now."""
        state, mark = json.loads((self.folder / "state.json").read_text()), self.folder / "drained"
        state["kernel"]["running"] = self.now["running"]
        armed = (self.now["trial"] or {}).get("armed")
        state["boot"].update(saved_entry="with-" + self.now["default"], next_entry="lockstep-gpu-trial" if armed else None,
                             default_kernel=self.now["trial"]["kernel"] if armed else self.now["default"])
        trial = self.now["trial"]
        state["trial"] = trial and dict(trial, running=trial.get("running", trial.get("judged") == "running"))
        state["drained"] = mark.read_text().strip() if mark.exists() else None
        if "stale" in self.now:
            state["modprobe"]["stale"] = self.now["stale"]
        if self.now.get("loaded"):
            state["modules"]["loaded"] = {"version": self.now["loaded"], "flavour": "proprietary"}
        return state

    def reboot(self):
        """Down and up again: a kernel on trial runs if that is its fate, else the default does, and the record says why."""
        self.log("reboot")
        trial = self.now["trial"]
        fate = self.now.get("fate", "up")
        if fate == "lost":
            return
        self.now["running"], self.now["loaded"] = self.now["default"], None
        if trial and trial.get("armed"):
            trial["armed"] = False
            if fate == "up":
                self.now["running"] = trial["kernel"]
                trial["judged"] = "running"
            else:
                trial.update(judged="failed", reason=fate, attempts=trial["attempts"] + 1)
        self.now["boot_id"] += 1
        self.save()
        (self.folder / "boot_id").write_text("%d\n" % self.now["boot_id"])


if __name__ == "__main__":
    Node().reboot()
