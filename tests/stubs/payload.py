# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a stub package brings: its files and its scripts."""
from __future__ import annotations

import dataclasses

# When a script runs: {script: condition of sh for dpkg}. postinst after unpacking, prerm before and postrm after removal or
# upgrade; posttrans (rpm only) after the whole transaction.
SCRIPTS = {"postinst": '[ "$1" = configure ]', "prerm": '[ "$1" = remove ] || [ "$1" = upgrade ]', "postrm": '[ "$1" = remove ]', "posttrans": ""}


@dataclasses.dataclass(frozen=True)
class File:
    """One file: data, or the target of a symbolic link."""

    data: bytes = b""
    mode: int = 0o644
    link: str = ""


@dataclasses.dataclass
class Payload:
    """files: {absolute path: File}. scripts: {name in SCRIPTS: lines of sh}. conffiles: paths that are kept when they were changed."""

    files: dict = dataclasses.field(default_factory=dict)
    scripts: dict = dataclasses.field(default_factory=dict)
    conffiles: list = dataclasses.field(default_factory=list)

    def text(self, path, text, mode=0o644):
        """Add a text file."""
        self.files[path] = File(text.encode(), mode)

    def data(self, path, data, mode=0o644):
        """Add a file of bytes."""
        self.files[path] = File(data, mode)

    def link(self, path, target):
        """Add a symbolic link."""
        self.files[path] = File(link=target)

    def run(self, script, lines):
        """Add lines of sh to one of the scripts."""
        self.scripts[script] = self.scripts.get(script, "") + lines.strip("\n") + "\n"
