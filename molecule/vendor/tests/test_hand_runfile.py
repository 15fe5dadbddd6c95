# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A driver that NVIDIA's own installer put beside the packages is named for what it is, and nothing is changed."""

from __future__ import annotations

import pytest

MARKS = ("/usr/bin/nvidia-uninstall", "/usr/bin/nvidia-installer", "/var/log/nvidia-installer.log")


@pytest.fixture
def by_hand(changed):
    """The node with what the installer leaves."""
    for path in MARKS:
        changed.output("touch " + path)
    yield changed
    changed.output("rm -f " + " ".join(MARKS))


def test_it_is_refused_by_name(by_hand):
    before = by_hand.packages()
    status, output = by_hand.site()
    assert status != 0, output
    assert "driver_from_runfile" in by_hand.codes()
    assert by_hand.packages() == before
