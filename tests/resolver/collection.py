# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection on a node of apt_node.py: from a stack to slices, to a closure, to a changed node.

Everything is the real code but the last step: what `apt-get install` would do is written into dpkg's database.
"""
from __future__ import annotations

import json
import os
import pathlib
import subprocess

import ansible
import ansible_collections
from ansible_collections.lockstep.gpu.plugins.module_utils import acting, apt, pinned_node, pinning
from ansible_collections.lockstep.gpu.plugins.module_utils.run import ENVIRONMENT, CommandError, Result
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge, plan, stack as stacks

# Where the module works on a real node. Of several Collections in one test, the last one counts.
PATHS = {(module, name): getattr(module, name) for module, name in (
    (apt, "LISTS"), (apt, "PREFERENCES"), (apt, "SOURCE_PARTS"), (apt, "PREFERENCE_PARTS"), (apt, "OWN_SOURCES"), (apt, "OWN_PREFERENCES"),
    (pinning, "SOURCES_FILE"), (pinning, "PINS_FILE"))}
# dnf's library is a part of the system's own Python.
PYTHON = "/usr/bin/python3"
H100, A100, V100, B200 = "10de:2330", "10de:20b2", "10de:1db5", "10de:2901"


def need_of(stack, **node):
    """What a stack needs on a node, as the playbooks ask for it. node: gpus, kernel, nvswitches, overrides of plan.wanted()."""
    return plan.wanted(stacks.expand(stack), knowledge.load(), **node)


class Closure:
    """A resolved closure. rows: as the module returns them; removed: names."""

    def __init__(self, rows, removed):
        self.rows, self.removed = rows, removed

    def managed(self, *components):
        """{name: version} of managed packages, of some components or of all."""
        return {row["name"]: row["version"] for row in self.rows if row["managed"] and (not components or row["component"] in components)}

    def others(self):
        """{name: version} of what changes and is no part of the stack."""
        return {row["name"]: row["version"] for row in self.rows if not row["managed"]}

    def changes(self):
        """{name: version} of what would change."""
        return {row["name"]: row["version"] for row in self.rows if row["change"] != "keep"}


class Collection:
    """The steps of pinned_packages on a node. patch: pytest's monkeypatch, as the module's paths are those of a real node."""

    def __init__(self, node, patch):
        self.node = node
        for (module, name), path in PATHS.items():
            patch.setattr(module, name, self._at(path))
        patch.setattr(acting.DkmsGuard.__init__, "__defaults__", (self._at(acting.DKMS_GUARD),))
        patch.setattr(pinning, "wait_for_lock", lambda: None)

        def act(ask, arguments):
            return self._act(ask, arguments)

        patch.setattr(apt.Apt, "act", act)

    def _at(self, path):
        return str(self.node.root.folder) + path

    def _act(self, ask, arguments):
        installs, removed = ask.simulate(arguments)
        self.node.change({name: row["version"] for name, row in installs.items()}, removed)

    def run(self, argv, ok=(0,), env=None, stdin=None):
        """What Runner does, in the environment of the node's root."""
        if argv[0] in ("apt-get", "dpkg") and not {"-s", "update", "--set-selections", "--configure"} & set(argv):
            raise AssertionError("this would act on this machine: %s" % argv)
        done = subprocess.run(list(argv), env=dict(self.node.root.env, **ENVIRONMENT, **(env or {})), input=stdin, capture_output=True, text=True, check=False)
        if ok is not None and done.returncode not in ok:
            raise CommandError(argv, done.returncode, done.stdout, done.stderr)
        return Result(done.returncode, done.stdout, done.stderr)

    def step(self, need, sources=None, keys=()):
        """pinned_packages' one call. sources: text of our own sources file, keys: those that it names."""
        return pinned_node.Node(self.run, {
            "slices": need["slices"], "only": None, "repositories": sources, "keys": list(keys), "alternatives": {}, "closure": None, "removed": []}, pinning)

    def resolve(self, need, **more):
        """The Closure of what a stack needs. Raises acting.Refused."""
        call = self.step(need, **more)
        call.resolve()
        return Closure(call.rows, call.removed)

    def apply(self, need, **more):
        """Resolve and apply; the Closure. Raises acting.Refused or acting.PackageError."""
        call = self.step(need, **more)
        call.resolve()
        if call.actions():
            call.apply()
        return Closure(call.rows, call.removed)

    def due(self, need, **more):
        """What a second run would do: its actions, [] on a converged node."""
        call = self.step(need, **more)
        call.resolve()
        return call.actions()

    def moves(self, closure):
        """What whole-system upgrades of the node would do to managed packages: [(verb, name, version)], [] when they stay."""
        found = []
        for verb in ("upgrade", "dist-upgrade"):
            got = self.node.get(verb)
            found += [(verb, name, version) for name, version in got.installs.items() if name in closure.managed()]
            found += [(verb, name, None) for name in got.removes] + ([(verb, got.text, None)] if got.rc else [])
        return found

    def pins(self):
        """Text of our pin file."""
        path = self._at("/etc/apt/preferences.d/lockstep-gpu.pref")
        return open(path, encoding="utf-8").read() if os.path.exists(path) else ""


class CollectionOnDnf:
    """The same on a DnfNode: in a process of its own, with the Python that has dnf's library."""

    def __init__(self, node):
        self.node = node

    def call(self, do, need, sources="", keys=()):
        """What dnf_call.py answers. Raises acting.Refused, or AssertionError for what must not happen."""
        where = [str(pathlib.Path(module.__path__[0]).parent) for module in (ansible, ansible_collections)]
        asked = {"root": str(self.node.root.root), "packages": where, "do": do, "slices": need["slices"], "sources": sources, "keys": list(keys)}
        done = subprocess.run([PYTHON, "-B", str(pathlib.Path(__file__).parent / "dnf_call.py")], input=json.dumps(asked),
                              capture_output=True, text=True, check=False)
        if done.returncode:
            raise AssertionError(done.stderr)
        answer = json.loads(done.stdout)
        if "failed" in answer:
            raise AssertionError(answer["failed"] + done.stderr)
        if "problems" in answer:
            raise acting.Refused(answer["problems"])
        return answer

    def resolve(self, need, **more):
        """The Closure of what a stack needs. Raises acting.Refused."""
        answer = self.call("resolve", need, **more)
        return Closure(answer["closure"], answer["removed"])

    def apply(self, need, **more):
        """Resolve and apply, with the real dnf."""
        answer = self.call("apply", need, **more)
        return Closure(answer["closure"], answer["removed"])

    def due(self, need, **more):
        """What a second run would do: its actions, [] on a converged node."""
        return self.call("resolve", need, **more)["actions"]

    def moves(self, closure):
        """What `dnf update` would do to managed packages, [] when they stay."""
        got = self.node.would("update")
        found = [("update", name, version) for name, version in got.installs.items() if name in closure.managed()]
        return found + [("update", name, None) for name in got.removes] + ([] if got.ok else [("update", got.text, None)])
