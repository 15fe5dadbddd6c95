# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated machines, and the main job on them."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(os.environ.get("MOLECULE_PROJECT_DIRECTORY") or pathlib.Path(__file__).parents[3])
INVENTORY = str(ROOT / "molecule/rollout/inventory/hosts.yml")
SHARED = ROOT / ".lockstep/machines"
NODES = ["lockstep-rollout-%02d" % number for number in range(1, 13)]
A, B = "6.8.0-31-generic", "6.8.0-79-generic"
BATCHES = [NODES[:1], NODES[1:5], NODES[5:]]
MOST = 1800     # seconds that a run may take, so that no test waits for ever
HOOKS = {"lockstep_before_reboot": [str(ROOT / "molecule/rollout/hooks/before.yml")],
         "lockstep_after_reboot": [str(ROOT / "molecule/rollout/hooks/after.yml")]}
ROLLOUT = dict(HOOKS, lockstep_reboot="auto", lockstep_rollout=[1, 4, "100%"])


def run(*command, check=True):
    """(exit status, standard output) of a command on this machine."""
    done = subprocess.run(command, cwd=ROOT, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert not check or done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
    return done.returncode, done.stdout


def on(node, script):
    """Standard output of a shell script on a node, which must succeed; a node that goes down under it is waited for."""
    for _try in range(100):
        done = subprocess.run(["docker", "exec", node, "sh", "-ec", script], text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        if done.returncode == 0:
            return done.stdout
        # Killed with the node, or refused by the engine since it is down, for which the engine has several exit statuses.
        # It says so now on one stream, now on the other.
        if done.returncode != 137 and not re.search(r"response from daemon|OCI runtime", done.stdout + done.stderr):
            break
        time.sleep(0.2)
    raise AssertionError((node, script, done.returncode, done.stdout, done.stderr))


def fresh(image="", nodes=tuple(NODES)):
    """Machines that have just been switched on, from the disk of an image."""
    running = [subprocess.Popen(["tools/machine.sh", "fresh", node, *([image] if image else [])], cwd=ROOT) for node in nodes]
    assert [process.wait() for process in running] == [0] * len(running)
    for node in nodes:
        on(node, "true")    # waits until it is up


def restart(node, command="shutdown -r now"):
    """Restart it from inside and wait for the next boot: its boot id."""
    before = on(node, "cat /proc/sys/kernel/random/boot_id")
    on(node, command)
    for _try in range(100):
        status, now = run("docker", "exec", node, "cat", "/proc/sys/kernel/random/boot_id", check=False)
        if status == 0 and now != before:
            return now
        time.sleep(0.1)
    raise AssertionError("it did not come back")


def power_cycle(node):
    """Take the power away, without a word to anybody, and give it back."""
    run("docker", "kill", node, check=False)
    run("docker", "start", node)
    on(node, "true")


def fault(node, **kernels):
    """Let kernels of a node fail from the next boot on: {release: "panic" or "hang"}; none mends it."""
    (SHARED / (node + ".faults")).write_text(json.dumps(kernels), encoding="utf-8")


def events(node):
    """The machine's own log: [{time, event, ...}]."""
    path = SHARED / (node + ".log")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def words(node):
    """What happened to a node: ["boot KERNEL", "drain", "reboot", ...]."""
    return [row["event"] + (" " + row["kernel"] if row["event"] in ("boot", "panic") else "") for row in events(node)]


def kernel(node):
    """What the machine runs, and what GRUB would boot next by its own tool: (release, saved entry's kernel, one-time entry)."""
    told = dict(line.split("=", 1) for line in on(node, "grub-editenv list").splitlines())
    saved = re.search(r">gnulinux-(.+)-advanced-", told.get("saved_entry", ""))
    return on(node, "uname -r").strip(), saved.group(1) if saved else None, told.get("next_entry", "")


def module(node, name, **arguments):
    """Run one module of the collection on a node."""
    run("ansible", "-i", INVENTORY, node, "-m", "lockstep.gpu." + name, "-a", json.dumps(arguments))


class Job:
    """A run of the main job on all nodes, or on some."""

    def __init__(self, folder, nodes=None, to="b", **variables):
        self.path, self.counts = folder / "report.json", folder / "calls.json"
        self.path.unlink(missing_ok=True)
        self.command = ["ansible-playbook", "-i", INVENTORY, str(ROOT / "playbooks/site.yml"), "--forks", "12",
                        "-e", json.dumps(dict({"rollout_to": to, "lockstep_report": str(self.path)}, **variables))]
        if nodes:
            self.command += ["--limit", ",".join(nodes)]
        self.status, self.output, self.seconds = None, "", None

    def start(self):
        """Start it in a session of its own and do not wait."""
        return subprocess.Popen(self.command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)

    def __call__(self):
        counting = {"LOCKSTEP_REMOTE_CALLS": str(self.counts), "ANSIBLE_CALLBACK_PLUGINS": str(ROOT / "tests/bench/plugins/callback"),
                    "ANSIBLE_CALLBACKS_ENABLED": "remote_calls", "ANSIBLE_FORCE_COLOR": "0", "ANSIBLE_NOCOLOR": "1"}
        began = time.monotonic()
        done = subprocess.run(self.command, cwd=ROOT, env={**os.environ, **counting}, text=True, check=False, timeout=MOST,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.status, self.output, self.seconds = done.returncode, done.stdout, time.monotonic() - began
        return self

    @property
    def nodes(self):
        """What it reported: {node: {verdict, findings, ...}}."""
        return json.loads(self.path.read_text(encoding="utf-8"))["nodes"]

    def verdicts(self):
        """{verdict: [nodes]}, sorted."""
        found = {}
        for node, row in sorted(self.nodes.items()):
            found.setdefault(row["verdict"], []).append(node)
        return found

    def codes(self, node):
        """Codes of a node's findings."""
        return {row["code"] for row in self.nodes[node]["findings"]}

    def changed(self):
        """{node: changed tasks} of Ansible's recap."""
        return {node: int(count) for node, count in re.findall(r"^(lockstep-rollout-\d+) .*changed=(\d+)", self.output, re.MULTILINE)}

    def say(self, title):
        """Print what it cost."""
        calls = {node: sum(kinds.values()) for node, kinds in json.loads(self.counts.read_text(encoding="utf-8")).items()}
        recap = re.findall(r"^(lockstep-rollout-\d+) .*ok=(\d+).*skipped=(\d+)", self.output, re.MULTILINE)
        tasks = {node: int(ok) + int(skipped) for node, ok, skipped in recap}
        print("\n%s: %.0f s, remote calls a node %s, tasks a node %s" % (title, self.seconds, sorted(set(calls.values())), sorted(set(tasks.values()))),
              file=sys.__stderr__)
