# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Trial boots that fail: the machine is back on its old kernel, the run says why, and the next one does not try for ever."""

from __future__ import annotations

import pytest

# What the shell of the initramfs runs first.
ORDER = "scripts/init-top/ORDER"


def sabotage(node, files):
    """Put files into the initramfs of the new kernel: a second archive behind its own, as a kernel takes it. Making it anew takes minutes there."""
    image = "/boot/initrd.img-" + node.new["release"]
    for path, text in files.items():
        node("mkdir -p /tmp/more/$(dirname %s) && cat > /tmp/more/%s" % (path, path), text=text)
    node("cd /tmp/more && find . -mindepth 1 | cpio -o -H newc --quiet | zstd -q >> %s && sync" % image)


def failed(node, *words):
    """The last run ended with a failed trial and these words; the machine is as before."""
    errors = node.errors()
    assert "trial_boot_failed" in errors, node.report()["findings"]
    for word in words:
        assert word in errors["trial_boot_failed"], errors
    assert node.report()["verdict"] == "broken"
    assert node.running() == node.old["release"]
    assert node.old["release"] in node.saved()["saved_entry"] and not node.saved().get("next_entry")
    node.whole()


def not_again(node):
    """With one trial allowed the next run starts nothing."""
    status, output = node.site(node.new, node_kernel_trials=1)
    assert status != 0, output
    assert node.started_since() == []
    failed(node)


def test_a_kernel_that_panics_returns_by_itself(node):
    sabotage(node, {ORDER: "echo c > /proc/sysrq-trigger\n"})
    status, output = node.site(node.new, node_kernel_panic=5)
    assert status != 0, output
    assert node.started_since() == [node.new["release"], node.old["release"]]
    assert "Kernel panic" in node.machine.console()
    failed(node, node.new["release"], "did not reach user space")
    not_again(node)


def test_a_kernel_without_network_returns_by_itself(node):
    """Nobody can reach it to confirm it; a timer on the machine ends the trial."""
    release = node.new["release"]
    node("rm $(find /lib/modules/%s -name 'virtio_net.ko*')" % release)
    sabotage(node, {"etc/modprobe.d/zz-no-network.conf": "blacklist virtio_net\ninstall virtio_net /bin/false\n"})
    status, output = node.site(node.new, node_kernel_confirm_within=60)
    assert status != 0, output
    assert node.started_since() == [node.new["release"], node.old["release"]]
    failed(node, node.new["release"], "nobody confirmed it within 60 s", "its network then: lo ")


@pytest.mark.many
def test_a_kernel_that_hangs_returns_after_a_power_cycle(node):
    sabotage(node, {ORDER: "while :; do sleep 1; done\n"})
    status, output = node.site(node.new, node_kernel_reboot_timeout=180)
    assert status != 0, output
    assert node.started_since() == [node.new["release"]]
    said = node.errors()["reboot_failed"]
    assert "Power-cycle the node" in said and node.old["release"] in said
    node.cycle()
    assert node.running() == node.old["release"]
    not_again(node)
