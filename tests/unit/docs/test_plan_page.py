# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/plan.md explains every word of a plan."""
from __future__ import annotations

import pathlib
import re

from ansible_collections.lockstep.gpu.plugins.plugin_utils import actions

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs" / "plan.md"


def test_every_word_is_explained_in_its_place():
    rows = re.findall(r"^\| (`.+?`) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    explained = [word for row in rows for word in re.findall(r"`(\w+)`", row)]
    assert tuple(explained) == actions.ORDER
