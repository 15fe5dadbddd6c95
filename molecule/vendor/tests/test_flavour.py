# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The other flavour of the module replaces the first, there and back; on boards that can have only one it is refused."""

from __future__ import annotations

import expected
import pytest

LICENCES = {"open": "Dual MIT/GPL", "proprietary": "NVIDIA"}


@pytest.mark.many
def test_there_and_back(changed, want):
    node = changed
    node.gpus("h100")
    for flavour in ("open", "proprietary", "open"):
        node.converge(expected.stack(want["stack"], "580.126.20", only=expected.BASE, flavour=flavour))
        assert node.module(node.kernel(), "license") == LICENCES[flavour]
        assert len(node.output("dkms status").splitlines()) == 1
        modules = {name for name in node.packages() if name.startswith(("nvidia-dkms", "kmod-nvidia", "nvidia-kernel-dkms", "nvidia-kernel-open-dkms"))}
        assert len(modules) == 1


@pytest.mark.parametrize("kind, flavour", [("v100", "open"), ("b200", "proprietary")])
def test_boards_that_can_have_one_only(changed, want, kind, flavour):
    changed.gpus(kind)
    before = changed.packages()
    status, output = changed.site(expected.stack(want["stack"], "580.126.20", only=expected.BASE, flavour=flavour))
    assert status != 0 and changed.report()["verdict"] == "blocked", output
    assert changed.codes() & {"gpu_needs_proprietary", "flavour_mismatch"}, changed.codes()
    assert changed.packages() == before
