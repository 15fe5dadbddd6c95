# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of all unit tests."""
from __future__ import annotations

from hypothesis import settings

# Time is never a reason to fail, and the same commit gives the same answer.
settings.register_profile("lockstep", deadline=None, derandomize=True)
settings.load_profile("lockstep")
