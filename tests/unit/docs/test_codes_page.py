# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""docs/codes.md is what the table says."""
from __future__ import annotations

import importlib.util
import pathlib

from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine

DOCS = pathlib.Path(__file__).resolve().parents[3] / "docs"


def test_the_page_of_codes_is_current():
    spec = importlib.util.spec_from_file_location("generate_codes", DOCS / "generate_codes.py")
    generator = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(generator)
    assert (DOCS / "codes.md").read_text(encoding="utf-8") == generator.page(engine.codes()), "run python docs/generate_codes.py"
