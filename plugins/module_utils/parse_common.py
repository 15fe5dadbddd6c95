# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all parsers share: their result type and the text form of several files in one recording."""

from __future__ import annotations

import re
from collections import namedtuple

# value: what was understood, None when nothing was. problems: one sentence for everything that was not.
Parsed = namedtuple("Parsed", ["value", "problems"])

# `tail -v -n +1 FILE...` prints this before each file, so such a recording can also be made by hand.
_FILE_HEADER = re.compile(r"^==> (/[^\n]*?) <==[ \t]*$", re.MULTILINE)


def shown(text, limit=80):
    """A short, printable form of foreign text for a message."""
    printable = "".join(char if char.isprintable() else "?" for char in text.strip())
    return printable if len(printable) <= limit else printable[:limit - 3] + "..."


def not_understood(number, line):
    """The sentence for a line that no rule of a parser covers (number: counted from 1)."""
    return "line %d is not understood: %s" % (number, shown(line))


def split_files(text):
    """Split the text form of several files into [(path, content)]; text before the first header is a problem."""
    headers = list(_FILE_HEADER.finditer(text))
    before = text[:headers[0].start()] if headers else text
    problems = [not_understood(1, before)] if before.strip() else []
    files = []
    for this, following in zip(headers, headers[1:] + [None]):
        content = text[this.end() + 1:following.start() if following else len(text)]
        # tail separates files by one empty line, which belongs to no file.
        files.append((this.group(1), content[:-1] if following and content.endswith("\n") else content))
    return Parsed(files, problems)


def join_files(files):
    """The inverse of split_files(): [(path, content)] to one text."""
    return "\n".join("==> %s <==\n%s" % (path, content) for path, content in files)


def parse_arrows(text):
    """Lines "path -> target" to a dict, the text form of a list of symbolic links; a lone path gets None."""
    value, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        path, arrow, target = line.partition(" -> ")
        if path.startswith("/") and (target or not arrow):
            value[path] = target if arrow else None
        else:
            problems.append(not_understood(number, line))
    return Parsed(value, problems)


def parse_paths(text):
    """`ls PATH...`, one path a line, to the list of paths."""
    value, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        if re.fullmatch(r"/[^\0]{1,4095}", line.strip()):
            value.append(line.strip())
        elif line.strip():
            problems.append(not_understood(number, line))
    return Parsed(value, problems)
