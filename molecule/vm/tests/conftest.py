# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A machine at the snapshot `converged`: it runs the older kernel (A) of two, the driver's modules are built for both."""

from __future__ import annotations

import fnmatch
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import pytest

ROOT = pathlib.Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
sys.path.insert(0, str(ROOT / "tools"))
import vm  # noqa: E402  # pylint: disable=wrong-import-position

LIMIT = 900     # seconds until a machine must answer after a start; emulated ones beside other work are slow


def pytest_configure(config):
    config.addinivalue_line("markers", "many: too long for CI; run by make test-all")


def machines():
    """{platform: [names of its machines]}; lockstep-vm-debian12-2 is the second one of debian12."""
    found = {}
    for name in vm.machines():
        found.setdefault(name[len(vm.PREFIX):].split("-")[0], []).append(name)
    return found


def own_machine(platform):
    """This worker's machine of a platform: every worker has one."""
    number = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:])
    return machines()[platform][number]


def pytest_generate_tests(metafunc):
    """Once for every platform that has machines; LOCKSTEP_VMS is a glob over the inventory's groups of them (vm_debian12)."""
    if "platform" in metafunc.fixturenames:
        chosen = os.environ.get("LOCKSTEP_VMS") or "vm*"
        metafunc.parametrize("platform", [name for name in sorted(machines()) if name.startswith("debian") and fnmatch.fnmatch("vm_" + name, chosen)])


def pytest_collection_modifyitems(items):
    for item in items:
        if not os.environ.get("LOCKSTEP_ALL") and item.get_closest_marker("many"):
            item.add_marker(pytest.mark.skip(reason="make test-all"))


class Node:
    """One machine, the main job on it, and what its own tools say."""

    def __init__(self, name, folder):
        self.machine, self.name, self.path = vm.Machine(name), name, folder / "report.json"
        meta = self.machine.meta
        self.old, self.new = meta["kernels"]
        self.driver, self.system = meta["driver"], meta["os"]
        self.root = ROOT
        self.sockets = tempfile.mkdtemp(prefix="ls-vm-")
        self.starts_before = 0

    # -- doing ------------------------------------------------------------------------------------------

    def __call__(self, command, **options):
        """All output of a command that must succeed."""
        return self.machine.ssh(command, **options).stdout

    def stack(self, kernel, **more):
        """The machine's stack with one of its kernels."""
        return {"os": self.system, "kernel": kernel, "driver": self.driver, **more}

    def command(self, kernel, playbook="site.yml", **variables):
        """The words of an ansible-playbook call; it restarts the machine by itself unless told otherwise. A variable that is None is not given."""
        settings = {"lockstep_stack": self.stack(kernel), "lockstep_report": str(self.path), "lockstep_hosts": self.name, "lockstep_reboot": "auto",
                    "node_kernel_confirm_within": 600, "node_kernel_reboot_timeout": LIMIT, **variables}
        settings = {name: value for name, value in settings.items() if value is not None}
        return ["ansible-playbook", "-i", str(ROOT / "molecule/inventory.yml"), "--limit", self.name + ",localhost",
                str(ROOT / "playbooks" / playbook), "-e", json.dumps(settings)]

    def environment(self):
        """Connections of their own for every test: those of another one lead to a machine that is no more."""
        return {**os.environ, "ANSIBLE_SSH_CONTROL_PATH_DIR": self.sockets, "ANSIBLE_TIMEOUT": "60"}

    def site(self, kernel, **variables):
        """Run the main job: (exit status, all output)."""
        self.starts_before = self.starts()
        done = subprocess.run(self.command(kernel, **variables), cwd=ROOT, env=self.environment(), text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        print(done.stdout)
        return done.returncode, done.stdout

    def converge(self, kernel, **variables):
        """The main job, which must end well and in sync."""
        status, output = self.site(kernel, **variables)
        assert status == 0, output
        assert self.report()["verdict"] == "in_sync"
        return output

    def report(self):
        """What the last run wrote about the machine."""
        return json.loads(self.path.read_text(encoding="utf-8"))["nodes"][self.name]

    def errors(self):
        """{code: all messages of that code} of the errors in the last report."""
        found = {}
        for row in self.report()["findings"]:
            if row["severity"] == "error":
                found[row["code"]] = found.get(row["code"], "") + row["message"] + "\n"
        return found

    def add_disk(self, size=512 * 2**20):
        """Plug in an empty disk, /dev/vdb."""
        path = self.machine.folder / "second.raw"
        path.write_bytes(b"")
        os.truncate(path, size)
        self.machine.qmp("blockdev-add", **{"node-name": "second", "driver": "raw", "file": {"driver": "file", "filename": str(path)}})
        self.machine.qmp("device_add", driver="virtio-blk-pci", drive="second", id="second")
        self("for i in $(seq 30); do [ ! -e /dev/vdb ] || exit 0; sleep 1; done; exit 1")

    def cycle(self):
        """A power cycle."""
        self.machine.cut()
        self.machine.start()
        self.machine.wait(LIMIT)

    def reboot(self):
        """A restart by the machine itself."""
        before = self.machine.boot_id()
        self.machine.ssh("systemctl reboot", check=False, limit=60)
        self.machine.wait(LIMIT, after=before)

    def wait_for(self, command, run, limit=LIMIT):
        """Until a command succeeds on the machine while a run goes on."""
        end = time.monotonic() + limit
        while time.monotonic() < end:
            if self.machine.ssh(command, check=False, limit=30).returncode == 0:
                return
            assert run.poll() is None, "the run ended before: %s" % command
        raise AssertionError("not in %d s: %s" % (limit, command))

    # -- what other tools say ------------------------------------------------------------------------------

    def running(self):
        """The running kernel."""
        return self("uname -r").strip()

    def starts(self):
        """How often a kernel started since the machine was made, by the console; and which one last."""
        return len(self.kernels_started())

    def kernels_started(self):
        """The kernels that started, in order, by the console."""
        return re.findall(r"Linux version (\S+) ", self.machine.console())

    def started_since(self):
        """The kernels that started since the last main job began."""
        return self.kernels_started()[self.starts_before:]

    def saved(self):
        """{variable: value} of GRUB's environment block."""
        return dict(line.split("=", 1) for line in self("grub-editenv /boot/grub/grubenv list").splitlines())

    def trial_is_over(self):
        """Nothing of a trial is left: no record, no entry, no one-time entry, no timer."""
        assert "next_entry" not in {name: value for name, value in self.saved().items() if value}
        assert self.machine.ssh("grep -rs lockstep-gpu-trial /boot/grub/custom.cfg", check=False).stdout == ""
        assert self("ls /etc/systemd/system | grep lockstep-gpu-trial; true") == ""
        assert self("systemctl list-units --all --no-legend 'lockstep-gpu-trial*' | grep -v not-found; true") == ""

    def whole(self):
        """No package is half-way."""
        assert self("dpkg --audit") == ""
        assert self.machine.ssh("apt-get check -q", check=False).returncode == 0

    def is_settled_on(self, kernel):
        """It runs that kernel, will start it again, and no trial is left."""
        assert self.running() == kernel["release"]
        assert kernel["release"] in self.saved()["saved_entry"]
        assert "GRUB_DEFAULT=saved" in self("cat /etc/default/grub /etc/default/grub.d/*.cfg")
        self.trial_is_over()
        self.whole()


@pytest.fixture
def node(platform, tmp_path):
    """The machine, at its snapshot."""
    found = Node(own_machine(platform), tmp_path)
    found.machine.cut()
    found.machine.serial.unlink(missing_ok=True)
    found.machine.load("converged")
    yield found
    shutil.rmtree(found.sockets, ignore_errors=True)
    print(found.machine.console()[-3000:])
