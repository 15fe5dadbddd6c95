# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of all unit tests."""
from __future__ import annotations

import pathlib
import sys

from hypothesis import settings

# The recordings of cases/ serve the rules' own tests, too: from cases.recorded import judged.
sys.path.insert(0, str(pathlib.Path(__file__).parent))

# Time is never a reason to fail, and the same commit gives the same answer.
settings.register_profile("lockstep", deadline=None, derandomize=True)
settings.load_profile("lockstep")
