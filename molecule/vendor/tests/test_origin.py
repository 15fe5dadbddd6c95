# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From NVIDIA's repository to Ubuntu's archive and back: one origin for the whole driver, whichever it is."""

from __future__ import annotations

import re

import expected
import pytest

ARCHIVE = {"ubuntu2204": "580.126.09", "ubuntu2404": "580.95.05"}
DRIVER = re.compile(r"(lib)?nvidia-(?!container|settings|modprobe|persistenced).+-580.*|nvidia-firmware-.+")


@pytest.mark.many
@pytest.mark.platforms(*ARCHIVE)
def test_there_and_back(changed, want):
    node = changed
    for source, version in (("distribution", ARCHIVE[node.platform]), ("nvidia", "580.126.20")):
        node.converge(expected.stack(want["stack"], version, only=expected.BASE, source=source, flavour="auto"))
        versions = [there for name, there in node.packages().items() if DRIVER.fullmatch(name)]
        assert len(versions) >= 8
        assert {"-0ubuntu0." in there for there in versions} == {source == "distribution"}, versions
        assert node.loaded_library() == version and node.module(node.kernel()) == version
