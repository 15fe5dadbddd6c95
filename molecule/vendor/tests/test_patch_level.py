# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Another patch level of the branch: driver, module, libraries and the fabric move together, there and back."""

from __future__ import annotations

import expected
import pytest

pytestmark = pytest.mark.everywhere


def test_there_and_back(changed, want):
    node = changed
    for version in (want["patch_level"], want["driver"]):
        node.converge(expected.stack(want["stack"], version))
        assert node.driver_versions() == {version}
        assert node.module(node.kernel()) == version
        assert node.loaded_library() == version
        assert len(node.output("dkms status").splitlines()) == 1
