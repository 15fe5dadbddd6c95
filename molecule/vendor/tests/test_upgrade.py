# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An upgrade of the whole system moves nothing that the stack names, and everything else."""

from __future__ import annotations


def test_only_the_bystander_moves(node):
    node.bystander("1.0-1")
    before = node.packages()
    node.bystander("2.0-1")
    node.upgrade()
    after = node.packages()
    moved = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    assert moved == {"lockstep-bystander"}, {name: (before.get(name), after.get(name)) for name in moved}
    assert after["lockstep-bystander"] == "2.0-1"
    status, output = node.site()
    assert status == 0 and node.report()["plan"] == [], output
