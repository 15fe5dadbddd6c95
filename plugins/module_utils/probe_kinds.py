# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How a probe is taken on a live node: a command, a file, or a function of capture*.py."""

from __future__ import annotations

import os
import shutil
import signal
from collections import namedtuple

from ansible_collections.lockstep.gpu.plugins.module_utils import capture
from ansible_collections.lockstep.gpu.plugins.module_utils.run import ENVIRONMENT

NOT_FOUND_RC = 127


class Command(namedtuple("Command", ["argv"])):
    """A probe that is a command, without a shell."""

    def describe(self):
        return " ".join(self.argv)

    def __call__(self, root, tools):
        execute(self.argv, tools)


class File(namedtuple("File", ["path"])):
    """A probe that is a file."""

    def describe(self):
        return self.path

    def __call__(self, root, tools):
        return capture.optional(root, self.path)


class Function(namedtuple("Function", ["function", "shown"])):
    """A probe that a function of capture.py renders; shown: what it reads, for people."""

    def describe(self):
        return self.shown

    def __call__(self, root, tools):
        return self.function(root)


class Special(Function):
    """A Function that also runs tools: called with (root, tools)."""

    def __call__(self, root, tools):
        return self.function(root, tools)


def execute(argv, tools):
    """Become the command. Ends with 127 when it is not there, as a shell does."""
    tool = shutil.which(argv[0], path=tools)
    if tool is None:
        os.write(2, ("%s: command not found\n" % argv[0]).encode())
        os._exit(NOT_FOUND_RC)
    # Python ignores SIGPIPE, and a command would inherit that.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.execve(tool, argv, dict(os.environ, **ENVIRONMENT))


class Recorded(namedtuple("Recorded", ["shown"])):
    """A probe that only a bundle has: what a command said that a person ran, and that nobody would run to look at a node."""

    def describe(self):
        return self.shown

    def __call__(self, root, tools):
        raise OSError("only bundles have this")
