# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Running the main job from a test."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])


class Site:
    """The main job on one node; every call is a whole ansible-playbook run."""

    def __init__(self, node, folder):
        self.node, self.path = node, folder / "report.json"

    def command(self, stack=None):
        """The command line. stack: a name or a mapping, else the inventory's."""
        command = ["ansible-playbook", "-i", str(ROOT / "molecule/inventory.yml"), "--limit", self.node + ",localhost",
                   str(ROOT / "site.yml"), "-e", json.dumps({"lockstep_report": str(self.path), "lockstep_hosts": self.node})]
        if stack is not None:
            command += ["-e", json.dumps({"lockstep_stack": stack})]
        return command

    def __call__(self, *arguments, stack=None, **environment):
        """Run it: (exit status, all output)."""
        done = subprocess.run([*self.command(stack), *arguments], cwd=ROOT, env={**os.environ, **environment}, text=True,
                              check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def report(self):
        """What the last run wrote about the node."""
        return json.loads(self.path.read_text(encoding="utf-8"))["nodes"][self.node]


@pytest.fixture
def site(host, tmp_path):
    """The main job on this node."""
    return Site(host.backend.host, tmp_path)
