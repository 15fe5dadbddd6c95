# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A call of dnf_call.py that dies, as by a power cut, at the N-th step of rpm's transaction: N is the argument."""
from __future__ import annotations

import io
import json
import os
import signal
import sys

import dnf_call


def main():
    text, seen, last = sys.stdin.read(), set(), int(sys.argv[1])
    sys.path += json.loads(text)["packages"]
    from ansible_collections.lockstep.gpu.plugins.module_utils import dnf

    def progress(_self, package, action, *_numbers):
        seen.add((str(package), action))
        if len(seen) >= last:
            os.kill(os.getpid(), signal.SIGKILL)

    dnf.Display.progress = progress
    sys.stdin = io.StringIO(text)
    json.dump(dnf_call.main(), sys.stdout)


if __name__ == "__main__":
    main()
