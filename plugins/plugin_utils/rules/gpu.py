# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the GPUs as they run: lost ones, counts, queries that failed."""
from __future__ import annotations

import typing as t

from .context import Context, Hit

RULES: t.Tuple[t.Callable[[Context], t.Iterator[Hit]], ...] = ()
