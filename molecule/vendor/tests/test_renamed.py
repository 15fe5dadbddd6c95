# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The archive makes a branch of the driver a name that leads to another one: a node that has the branch stays with it."""

from __future__ import annotations

import expected
import pytest

VERSION = "550.144.03"


@pytest.mark.many
@pytest.mark.platforms("ubuntu2204")
def test_a_branch_that_becomes_transitional(changed, want):
    node, archive = changed, ["ubuntu2204-archive"]
    node.offer("before", r"--without=ubuntu2204-archive=.*=(56|57|58|59|61)\d\..*", repositories=archive)
    try:
        stack = expected.stack(want["stack"], VERSION, only=expected.BASE, source="distribution")
        node.converge(stack)
        before = node.packages()
        node.links("today", archive)
        assert "580.173.02" in node.output("apt-cache madison nvidia-driver-550")
        node.upgrade()
        assert node.packages() == before
        status, output = node.site(stack)
        assert status == 0 and node.report()["verdict"] == "in_sync", output
        # Who asks for it now is told what it has become.
        newer = expected.stack(want["stack"], "550.163.01", only=expected.BASE, source="distribution")
        status, output = node.site(newer)
        assert status != 0 and node.report()["verdict"] == "blocked", output
        assert node.packages() == before
    finally:
        node.links("today", archive)
