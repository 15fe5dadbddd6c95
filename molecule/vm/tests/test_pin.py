# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Another kernel, up and down, with the driver's real modules: one restart each, and nothing else moves it."""

from __future__ import annotations

import re

import pytest


def kernels(node):
    """The kernel packages that are installed, with their versions."""
    return node("dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n' 'linux-image-*' 'linux-headers-*' | grep ' installed$'")


def loads(node):
    """What the kernel says when the driver's module is loaded where no GPU is."""
    done = node.machine.ssh("dmesg -C; modprobe nvidia; echo status $?; dmesg", check=False)
    return done.stdout


def unchanged(node, kernel):
    """A second run changes nothing and restarts nothing."""
    output = node.converge(kernel)
    assert set(re.findall(r"changed=(\d+)", output)) == {"0"}, output
    assert node.started_since() == []


def test_up_an_upgrade_of_the_whole_system_and_down(node):
    """By one trial each that becomes the default; and the report says what a module answers without a GPU."""
    assert node.running() == node.old["release"]
    assert node.new["release"] not in node.saved().get("saved_entry", "")
    node.converge(node.new)
    assert node.started_since() == [node.new["release"]]
    node.is_settled_on(node.new)
    said = loads(node)
    assert "No such device" in said and re.search(r"NVRM: No NVIDIA (GPU|graphics adapter) found", said), said
    proof = [row for row in node.report()["proof"] if "as on a machine without a GPU" in row["detail"]]
    assert proof and all(row["proven"] for row in proof), node.report()["proof"]

    before = kernels(node)
    node("apt-get -q update", limit=900)
    # What the archive has for a machine that nobody pins.
    loose = node("apt-get -s -o Dir::Etc::preferencesparts=/nonexistent --ignore-hold dist-upgrade")
    assert re.search(r"^Inst linux-image-", loose, re.MULTILINE), loose
    node("DEBIAN_FRONTEND=noninteractive apt-get -y -q dist-upgrade", limit=1800)
    assert kernels(node) == before
    node.cycle()
    node.is_settled_on(node.new)
    unchanged(node, node.new)

    node.converge(node.old)
    assert node.started_since() == [node.old["release"]]
    node.is_settled_on(node.old)


def test_the_generic_kernel_leaves_nouveau_alone(node):
    """It has that driver; no device is bound to it, now or in the initramfs."""
    release = node.new["release"]
    if node.machine.ssh("modinfo -k %s nouveau" % release, check=False).returncode:
        pytest.skip("%s has no nouveau" % release)
    assert "blacklist nouveau" in node("modprobe -S %s -c" % release)
    files = node("lsinitramfs /boot/initrd.img-%s" % release)
    assert "nouveau.ko" not in files and "etc/modprobe.d/" in files
    content = node("cd /tmp && rm -rf rd && unmkinitramfs /boot/initrd.img-%s rd && cat $(find rd -path '*etc/modprobe.d/*')" % release, limit=600)
    assert re.search(r"^blacklist nouveau$", content, re.MULTILINE)


@pytest.mark.many
def test_a_newer_kernel_by_hand_does_not_start(node):
    """Somebody installs the newest kernel: it stands first in the menu, and is not the default."""
    newest = node("apt-get -q update >/dev/null; apt-cache pkgnames linux-image- | grep -E '^linux-image-[0-9].*-cloud-amd64$' | sort -V | tail -n 1",
                  limit=900).strip()
    node("DEBIAN_FRONTEND=noninteractive apt-get install -y -q %s" % newest, limit=1800)
    menu = re.findall(r"^\s*linux\s+/boot/vmlinuz-(\S+)", node("cat /boot/grub/grub.cfg"), re.MULTILINE)
    assert newest.endswith(menu[0]), menu
    node.reboot()
    assert node.running() == node.old["release"]
