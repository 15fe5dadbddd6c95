# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Machines of files (fakes/node.py) for the playbooks' tests: a collection with three modules replaced, and the state of a node in sync."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys

import yaml

from ansible_collections.lockstep.gpu.plugins.filter.plan import make_plan
from ansible_collections.lockstep.gpu.plugins.module_utils import apt_pins, closure, parse_apt
from ansible_collections.lockstep.gpu.plugins.module_utils.bundle import BundleProbe
from ansible_collections.lockstep.gpu.plugins.module_utils.facts import replay
from ansible_collections.lockstep.gpu.plugins.plugin_utils import stack as stacks

ROOT = pathlib.Path(__file__).resolve().parents[3]
FAKES = pathlib.Path(__file__).parent / "fakes"
OLD, NEW = "6.12.107+deb13-amd64", "6.12.117+deb13-amd64"
STACK = {"os": "debian-13", "kernel": {"release": NEW, "package_version": "6.12.117-1"}, "driver": {"version": "550.163.01", "flavour": "proprietary"}}


def state_in_sync():
    """A machine that is what STACK says: the recorded container, with a boot loader, another kernel, and everything held and pinned."""
    state = replay(BundleProbe(str(ROOT / "tests/fixtures/bundles/debian13-550"), yaml.safe_load), ["local"])["ansible_facts"]["lockstep"]
    manager = state["package_manager"]
    for package in state["packages"].values():
        package["hold"] = True
    manager["holds"] = sorted(state["packages"])
    row = state["kernel"]["installed"][0]
    old = dict(row, release=OLD, package="linux-image-" + OLD, package_version="6.12.107-1")
    state["kernel"]["installed"] = [old, row]
    state["packages"]["linux-image-" + OLD] = dict(state["packages"]["linux-image-" + NEW], version="6.12.107-1", source_version="6.12.107-1")
    state.update(container=False, secure_boot=False, modprobe={"own": None, "stale": [], "blacklist": {}}, not_recorded=[], unknown=[], unreadable=[])
    entries = [{"id": "with-" + release, "title": release, "kernel": release, "machine_id": None, "rescue": False} for release in (NEW, OLD)]
    state["boot"].update(loader="grub", grub_default="saved", grub_settings={"GRUB_DEFAULT": "saved"}, menu_default="${saved_entry}", entries=entries,
                         environment={}, env_writable=True)
    found = make_plan(stacks.expand(STACK), state)
    for name, path in found["alternatives"].items():
        state["alternatives"][name] = dict(state["alternatives"].get(name) or {}, mode="manual", value=path)
    state["modprobe"]["own"] = found["modprobe"]["text"]
    pins = {name: package["version"] for name, package in state["packages"].items()
            if closure.owner(found["slices"], name, package.get("source"))}
    manager["pins"] = parse_apt.parse_preferences("==> %s <==\n%s" % (parse_apt.OWN_PREFERENCES, apt_pins.render(found["slices"], pins))).value
    manager["own_pins"] = parse_apt.own_pins(manager["pins"])
    manager["own_sources"] = found["repositories"] or None
    return state


class Machines:
    """Some machines of files below a folder, and plays against them."""

    def __init__(self, folder, names=("node1",)):
        self.folder, self.names = folder, names
        self.state = state_in_sync()
        for name in names:
            (folder / "nodes" / name).mkdir(parents=True)
            (folder / "nodes" / name / "state.json").write_text(json.dumps(self.state))
            (folder / "nodes" / name / "boot_id").write_text("1\n")
            self.write(name, running=OLD, default=OLD, trial=None, boot_id=1)
        self._collection()

    def _collection(self):
        """The collection by links, but for the modules that are replaced."""
        home = self.folder / "collections" / "ansible_collections" / "lockstep" / "gpu"
        (home / "plugins" / "modules").mkdir(parents=True)
        for name in ("galaxy.yml", "meta", "roles", "playbooks"):
            (home / name).symlink_to(ROOT / name)
        for path in (ROOT / "plugins").iterdir():
            if path.name != "modules" and path.name != "__pycache__":
                (home / "plugins" / path.name).symlink_to(path)
        for path in (ROOT / "plugins" / "modules").glob("*.py"):
            fake = FAKES / "modules" / path.name
            (home / "plugins" / "modules" / path.name).symlink_to(fake if fake.exists() else path)

    def write(self, name, **changes):
        path = self.folder / "nodes" / name / "node.json"
        now = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(dict(now, **changes)))

    def now(self, name="node1"):
        return json.loads((self.folder / "nodes" / name / "node.json").read_text())

    def log(self, name="node1"):
        path = self.folder / "nodes" / name / "log"
        return path.read_text().splitlines() if path.exists() else []

    def forget(self):
        for name in self.names:
            (self.folder / "nodes" / name / "log").unlink(missing_ok=True)

    def play(self, *arguments, path="", playbook="lockstep.gpu.site", **variables):
        """(exit status, output, nodes of the report or None) of lockstep.gpu.site, or of another playbook."""
        lines = ["%s ansible_connection=fakenode ansible_python_interpreter=%s" % (name, sys.executable) for name in self.names]
        (self.folder / "hosts.ini").write_text("[gpu_nodes]\n" + "\n".join(lines) + "\n")
        settings = dict({
            "lockstep_stack": STACK, "lockstep_report": str(self.folder / "report.json"),
            "node_kernel_reboot_command": "%s %s" % (sys.executable, FAKES / "node.py"), "node_kernel_boot_time_command": "cat $LOCKSTEP_FAKE_NODE/boot_id",
            "__node_kernel_folder": str(self.folder / "nodes") + "/{{ inventory_hostname }}"}, **variables)
        done = subprocess.run(
            ["ansible-playbook", playbook, "-i", "hosts.ini", "-e", json.dumps(settings), *arguments], cwd=self.folder, capture_output=True,
            text=True, check=False, timeout=240,
            env=dict(os.environ, ANSIBLE_HOME=str(self.folder / "home"), ANSIBLE_FORCE_COLOR="0", ANSIBLE_COLLECTIONS_PATH=str(self.folder / "collections"),
                     ANSIBLE_CONNECTION_PLUGINS=str(FAKES / "connection"), LOCKSTEP_FAKE_NODES=str(self.folder / "nodes"), LOCKSTEP_FAKES=str(FAKES),
                     ANSIBLE_LOCALHOST_WARNING="0", PATH=path + os.environ["PATH"]))
        report = self.folder / "report.json"
        return done.returncode, done.stdout + done.stderr, json.loads(report.read_text())["nodes"] if report.exists() else None
