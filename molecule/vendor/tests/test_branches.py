# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Other branches of the driver, up and down: nothing of the branch before is left."""

from __future__ import annotations

import expected
import pytest


@pytest.mark.many
def test_up_and_down(changed, want):
    node = changed
    for version in [*want["branches"], *reversed(want["branches"][:-1])]:
        node.converge(expected.stack(want["stack"], version, only=expected.BASE))
        assert node.driver_versions() == {version}
        assert node.module(node.kernel()) == version
        assert node.loaded_library() == version
        assert len(node.output("dkms status").splitlines()) == 1
