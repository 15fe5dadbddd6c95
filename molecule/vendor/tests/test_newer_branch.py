# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The repository suddenly offers a newer branch: nothing follows it, neither at once nor when something is installed later."""

from __future__ import annotations


def test_a_node_of_yesterday_stays(changed, want):
    """Everything was the newest when it was installed."""
    node = changed
    node.offer("yesterday", *["--until=%s=%s" % (name, want["driver"]) for name in want["vendor"]], repositories=want["vendor"])
    status, output = node.site()
    assert status == 0, output
    before = node.packages()
    node.links("today", want["vendor"])
    node.upgrade()
    assert node.packages() == before
    status, output = node.site()
    assert status == 0 and node.report()["verdict"] == "in_sync", output
