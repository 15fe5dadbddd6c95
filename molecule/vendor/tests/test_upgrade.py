# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An upgrade of the whole system moves nothing that the stack names, and everything else."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.everywhere


def test_only_the_bystander_moves(node, want):
    node.foreign(lockstep_bystander="1.0-1")
    node.install("lockstep-bystander")
    before = node.packages()
    node.foreign(lockstep_bystander="2.0-1")
    node.upgrade()
    after = node.packages()
    moved = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    # A real archive may have news of its own.
    others = moved - {"lockstep-bystander"} if node.platform != "debian12_nvidia" else moved & set(want["packages"])
    assert others == set(), {name: (before.get(name), after.get(name)) for name in others}
    assert after["lockstep-bystander"] == "2.0-1"
    status, output = node.site()
    assert status == 0 and node.report()["plan"] == [], output
    assert set(re.findall(r"changed=(\d+)", output)) == {"0"}, output
    node.no_foreign()
