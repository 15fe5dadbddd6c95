# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""After a kernel has been proven: back to the one before by the receipt, or old kernels leave."""

from __future__ import annotations

import re

import pytest
from test_killed import MORE


def seen(node):
    """What the machine's own tools say: packages, holds, pins, modules."""
    return {"packages": node("dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'"), "holds": node("apt-mark showhold"),
            "pins": node("cat /etc/apt/preferences.d/lockstep-gpu.pref"), "dkms": node("dkms status")}


def images(node):
    """The releases whose image is installed, by dpkg."""
    return sorted(re.findall(r"^linux-image-(\d\S+) installed$", node("dpkg-query -W -f '${Package} ${db:Status-Status}\\n' 'linux-image-*'"), re.MULTILINE))


@pytest.mark.many
def test_a_rollback_across_kernels(node, platform):
    """By a trial, as any other way to a kernel; undone twice it goes forward again."""
    first = seen(node)
    node.converge(node.new, lockstep_stack=node.stack(node.new, **MORE[platform]))
    second = seen(node)
    assert first["packages"] != second["packages"]
    for kernel, state in ((node.old, first), (node.new, second)):
        node.converge(kernel, playbook="rollback.yml", lockstep_stack=None)
        assert node.started_since() == [kernel["release"]]
        node.is_settled_on(kernel)
        assert seen(node) == state


@pytest.mark.many
def test_old_kernels_leave_once_the_new_one_is_proven(node):
    both = images(node)
    assert both == sorted([node.old["release"], node.new["release"]])
    node.converge(node.new)
    assert images(node) == both
    node.converge(node.new, node_kernel_keep=1)
    assert node.started_since() == [] and images(node) == [node.new["release"]]
    assert node.old["release"] not in node("dkms status") + node("cat /boot/grub/grub.cfg") + node("ls /boot")
    node.cycle()
    node.is_settled_on(node.new)
    # The way back is gone, and nothing is half done.
    before = seen(node)
    status, output = node.site(node.old, playbook="rollback.yml", lockstep_stack=None)
    assert status != 0 and node.old["release"] in node.errors().get("rollback_not_possible", ""), output
    assert seen(node) == before and node.started_since() == []
