# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node below a folder that boots: GRUB's files, the real grub-editenv and grub-script-check, and what GRUB, the kernel and systemd do at a start."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import uuid

from ansible_collections.lockstep.gpu.plugins.module_utils import grub
from ansible_collections.lockstep.gpu.plugins.module_utils.run import CommandError, Result
from ansible_collections.lockstep.gpu.plugins.modules import boot_kernel

FIXTURES = pathlib.Path(__file__).parents[1] / "fixtures/grub"
UUID = "3e1f0f6a-7a52-4b0c-9a0e-5d0d3a0f1c11"
NEW, OLD = "6.12.117+deb13-amd64", "6.12.107+deb13-amd64"
UNITS = "etc/systemd/system"


class Killed(BaseException):
    """The run, or the node, is gone."""


def spec(kernel):
    """The spec of a kernel's entry in the menus of the fixtures."""
    return "gnulinux-advanced-%s>gnulinux-%s-advanced-%s" % (UUID, kernel, UUID)


class Node:
    """Debian with GRUB. It runs `running`; boot() restarts it. kill_at: the effect at which the run dies, counted from the next call on."""

    def __init__(self, root, saved=OLD):
        self.root, self.calls, self.effects, self.kill_at = root, [], 0, None
        self.filesystem, self.abstraction = Result(0, "ext2\n", ""), Result(0, "\n", "")
        self.put("boot/grub/grub.cfg", (FIXTURES / ("debian13-saved.cfg" if saved else "debian13.cfg")).read_text())
        self.put("etc/default/grub", "GRUB_DEFAULT=%s\n" % ("saved" if saved else "0"))
        for kernel in (NEW, OLD):
            self.put("boot/vmlinuz-" + kernel, "image of " + kernel)
            self.put("boot/initrd.img-" + kernel, "initramfs of " + kernel)
        if saved:
            self.edit_environment("set", "saved_entry=" + spec(saved))
        self.put("run/systemd/system/x", "")
        self.running = OLD
        self._start("ro quiet")
        self.loader = grub.Grub(self, str(root))

    def put(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def text(self, path):
        """A file's text, None without one."""
        return (self.root / path).read_text() if (self.root / path).exists() else None

    def edit_environment(self, *words):
        path = str(self.root / "boot/grub/grubenv")
        if not os.path.exists(path):
            subprocess.run(["grub-editenv", path, "create"], check=True)
        return subprocess.run(["grub-editenv", path, *words], check=True, stdout=subprocess.PIPE, text=True).stdout

    @property
    def environment(self):
        """grub-editenv's own view of the environment block."""
        return dict(line.split("=", 1) for line in self.edit_environment("list").splitlines())

    def effect(self):
        """Something that lasts is about to happen; or the run is killed before it."""
        self.effects += 1
        if self.kill_at is not None and self.effects >= self.kill_at:
            raise Killed

    def __call__(self, argv, ok=(0,), env=None, stdin=None):
        self.calls.append(argv)
        tool = argv[0]
        if tool == "uname":
            return Result(0, self.running + "\n", "")
        if tool == "grub-probe":
            return self.filesystem if argv[1] == "--target=fs" else self.abstraction
        if tool == "grub-script-check":
            done = subprocess.run([tool], input=stdin, capture_output=True, text=True, check=False)
            return Result(done.returncode, done.stdout, done.stderr)
        if tool == "sync":
            return Result(0, "", "")
        self.effect()
        if tool == "grub-set-default":
            self.edit_environment("set", "saved_entry=" + argv[2])
            self.edit_environment("unset", "next_entry")
        elif tool == "grub-reboot":
            self.edit_environment("set", "next_entry=" + argv[2])
        elif tool == "grub-editenv":
            subprocess.run(argv, check=True)
        elif tool == "update-grub":
            self.put("boot/grub/grub.cfg", (FIXTURES / "debian13-saved.cfg").read_text())
        elif tool != "systemctl":
            raise CommandError(argv, 127)
        return Result(0, "", "")

    def apply(self, state, kernel=None, check=False, **options):
        """What the module would return."""
        params = dict({"confirm_within": 0, "watch": "keep", "panic": 30, "trials": 2}, state=state, kernel=kernel, **options)
        return boot_kernel.apply(self.loader, self, params, check)

    def _start(self, cmdline):
        self.boot_id = str(uuid.uuid4())
        self.put("proc/sys/kernel/random/boot_id", self.boot_id + "\n")
        self.put("proc/cmdline", cmdline + "\n")

    def grub_takes(self):
        """The command line that GRUB boots now, after its own rules: the one-time entry is forgotten first, what is not found is the first entry."""
        environment = self.environment
        if environment.get("next_entry"):
            self.edit_environment("set", "next_entry=")
        wanted = (environment.get("next_entry") or environment.get("saved_entry", "")).split(">")[-1]
        menu = (self.text("boot/grub/grub.cfg") or "") + (self.text("boot/grub/custom.cfg") or "")
        lines = menu.splitlines()
        starts = [number for number, line in enumerate(lines) if line.lstrip().startswith("menuentry ")]
        found = [number for number in starts if "'%s'" % wanted in lines[number]] or starts[:1]
        return next(line.split(None, 1)[1] for line in lines[found[0]:] if line.split()[:1] == ["linux"])

    def boot(self, ends="up"):
        """Restart. ends: what a kernel on trial does: "up", "hang" (then a power cycle), "reset" (user space, then a power cycle), "expire"."""
        taken = self.grub_takes()
        self.running = re.search(r"/vmlinuz-(\S+)", taken).group(1)
        self._start(taken)
        mark = self.text(UNITS + "/sysinit.target.wants/lockstep-gpu-trial-mark.service")
        token = re.search(r"ConditionKernelCommandLine=(\S+)", mark).group(1) if mark else "no token"
        if token not in taken.split():
            return
        if ends != "hang":
            self.put("var/lib/lockstep-gpu/trial.reached", token.partition("=")[2] + "\n")
        if ends == "expire":
            self.put("var/lib/lockstep-gpu/trial.expired", token.partition("=")[2] + "\nlo UNKNOWN 127.0.0.1/8\neth0 DOWN\n")
        if ends != "up":
            self.boot()

    def traces(self):
        """What a trial has made on the node, the record aside."""
        there = [path for path in ("boot/grub/custom.cfg", "var/lib/lockstep-gpu/trial.reached", "var/lib/lockstep-gpu/trial.expired")
                 if (self.root / path).exists()]
        return there + [path.name for path in (self.root / UNITS).rglob("*") if not path.is_dir()] + (
            ["next_entry"] if self.environment.get("next_entry") else [])
