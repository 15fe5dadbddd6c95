# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB itself, in an emulator, on what boot_kernel wrote: which command line it would boot, once and then again.

The commands linux and initrd are functions here that print, so no kernel is needed; GRUB's core lies behind lnxboot.img, so no boot sector is.
"""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest
from boot_nodes import NEW, OLD, Node

from ansible_collections.lockstep.gpu.plugins.module_utils import trial

GRUB = pathlib.Path("/usr/lib/grub/i386-pc")
NEEDS = ("qemu-system-x86_64", "grub-mkimage", "mke2fs")
BEFORE = """serial --unit=0 --speed=115200
terminal_output serial
terminal_input serial
function linux {
  echo TOOK: "$@" :END
  halt
}
function initrd {
  true
}
"""
AFTER = "\nset timeout=0\nset timeout_style=hidden\n"

pytestmark = pytest.mark.skipif(not all(map(shutil.which, NEEDS)) or not (GRUB / "lnxboot.img").exists(),
                                reason="needs %s and grub-pc-bin" % ", ".join(NEEDS))


class Machine:
    """A machine whose disk is a copy of a node's files; boot() gives the command line that GRUB takes."""

    def __init__(self, node, folder):
        self.disk, self.core = folder / "disk.img", folder / "grub.lnx"
        node.put("boot/grub/grub.cfg", BEFORE + node.text("boot/grub/grub.cfg") + AFTER)
        subprocess.run(["grub-mkimage", "-O", "i386-pc", "-p", "(hd0)/boot/grub", "-o", str(folder / "core.img"), "biosdisk", "ext2", "normal", "loadenv",
                        "echo", "test", "serial", "halt", "true", "configfile", "terminal"], check=True)
        self.core.write_bytes((GRUB / "lnxboot.img").read_bytes() + (folder / "core.img").read_bytes())
        subprocess.run(["mke2fs", "-q", "-t", "ext2", "-d", str(node.root), str(self.disk), "32M"], check=True)

    def boot(self):
        done = subprocess.run(["qemu-system-x86_64", "-accel", "tcg", "-nographic", "-m", "128", "-no-reboot", "-kernel", str(self.core),
                               "-drive", "format=raw,file=%s" % self.disk], stdin=subprocess.DEVNULL, capture_output=True, timeout=300, check=False)
        # The terminal breaks lines where it likes.
        said = re.sub(r"[\r\n]", "", done.stdout.decode("ascii", "replace"))
        found = re.search(r"TOOK: (.*?) :END", said)
        return found.group(1) if found else "nothing: " + said[-500:]


def test_grub_boots_the_trial_once_and_then_the_default(tmp_path):
    (tmp_path / "node").mkdir()
    node = Node(tmp_path / "node")
    node.put("boot/grub/custom.cfg", "menuentry 'mine' --id mine {\n\tlinux /boot/vmlinuz-%s mine\n}" % OLD)
    node.apply("once", NEW, confirm_within=600)
    token = trial.parse(node.text("var/lib/lockstep-gpu/trial.json"))["token"]
    machine = Machine(node, tmp_path)
    first, second = machine.boot(), machine.boot()
    assert first.startswith("/boot/vmlinuz-%s root=" % NEW) and first.endswith(" quiet panic=30 lockstep.gpu.trial=" + token), first
    assert second.startswith("/boot/vmlinuz-%s root=" % OLD) and second.endswith(" quiet"), second
