# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels that must not be started at all."""

from __future__ import annotations

import pytest


def untouched(node):
    """Nothing was started or armed."""
    assert node.started_since() == []
    assert node.running() == node.old["release"]
    assert node.new["release"] not in node.saved().get("next_entry", "") and "trial" not in node.saved().get("next_entry", "")
    node.trial_is_over()


def closed(node, *words):
    """The gate alone stood in the way, and says why."""
    status, output = node.site(node.new, playbook="../molecule/vm/kernel.yml")
    assert status != 0, output
    message = node.errors()["boot_gate_closed"]
    for word in (node.new["release"], *words):
        assert word in message, message
    untouched(node)


def test_without_its_module_it_is_never_started(node):
    node("dkms uninstall -m nvidia-current -v %s -k %s" % (node.driver["version"], node.new["release"]))
    closed(node, "nvidia-current")


@pytest.mark.many
def test_a_build_that_fails_ends_before_the_gate(node):
    node("dkms remove -m nvidia-current -v %s -k %s && dpkg-divert --rename /usr/bin/make && ln -s /bin/false /usr/bin/make"
         % (node.driver["version"], node.new["release"]))
    status, output = node.site(node.new)
    assert status != 0 and "dkms_build_failed" in node.errors(), output
    untouched(node)


@pytest.mark.many
def test_with_nouveau_in_its_initramfs_it_is_never_started(node):
    release = node.new["release"]
    if node.machine.ssh("modinfo -k %s nouveau" % release, check=False).returncode:
        pytest.skip("%s has no nouveau" % release)
    node("echo nouveau >> /etc/initramfs-tools/modules && update-initramfs -u -k %s" % release, limit=1200)
    closed(node, "nouveau")


@pytest.mark.parametrize("kind", ["btrfs", pytest.param("lvm", marks=pytest.mark.many)])
def test_where_grub_cannot_write_there_is_no_trial(node, kind):
    """/boot/grub on a disk whose environment block GRUB can read only: a one-time entry would start for ever."""
    node.add_disk()
    install = "apt-get -q update >/dev/null && apt-get install -y -q --no-install-recommends lvm2 >/dev/null"
    make = {"btrfs": "mkfs.btrfs -q /dev/vdb && disk=/dev/vdb",
            "lvm": install + " && vgcreate -q vg /dev/vdb && lvcreate -q -l 100%FREE -n lv vg && mkfs.ext4 -q /dev/vg/lv && disk=/dev/vg/lv"}[kind]
    node("%s && mount $disk /mnt && cp -a /boot/grub/. /mnt && umount /mnt && mount $disk /boot/grub" % make, limit=1200)
    status, output = node.site(node.new)
    assert status != 0, output
    assert "grubenv_not_writable" in {row["code"] for row in node.report()["findings"]}, output
    assert node.started_since() == [] and node.running() == node.old["release"]
    assert not node.saved().get("next_entry")
