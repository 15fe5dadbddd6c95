# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a stub package brings: its files and its scripts."""
from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class File:
    """One file: data, or the target of a symbolic link."""

    data: bytes = b""
    mode: int = 0o644
    link: str = ""


@dataclasses.dataclass
class Payload:
    """files: {absolute path: File}. scripts: {"postinst" or "prerm": text of sh}, run as dpkg and rpm run theirs.

    conffiles: paths that dpkg keeps when somebody changed them (rpm: %config(noreplace)).
    """

    files: dict = dataclasses.field(default_factory=dict)
    scripts: dict = dataclasses.field(default_factory=dict)
    conffiles: list = dataclasses.field(default_factory=list)

    def text(self, path, text, mode=0o644):
        """Add a text file."""
        self.files[path] = File(text.encode(), mode)

    def link(self, path, target):
        """Add a symbolic link."""
        self.files[path] = File(link=target)
