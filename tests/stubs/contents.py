# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the package of a row brings: the files that its table lists, and what tests look at on a node."""
from __future__ import annotations

from .payload import Payload


def payload(kind, row):
    """The Payload of a row. kind: deb or rpm."""
    made = Payload()
    for path in row.files:
        # Distinct content, so that two packages with one path really collide.
        made.text(path, row.content.get(path, "%s %s\n" % (row.name, row.version)))
    if kind == "deb":
        made.text("/usr/share/doc/%s/stub" % row.name, "stub\n")
    return made
