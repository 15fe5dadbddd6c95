# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stands in for get-pip.py: install pip from Python's own copy, then the packages named on the command line."""

from __future__ import annotations

import subprocess
import sys

WANTED = [argument for argument in sys.argv[1:] if not argument.startswith("-")]
subprocess.check_call([sys.executable, "-m", "ensurepip", "--upgrade", "--default-pip"], stdout=subprocess.DEVNULL)
subprocess.check_call([sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--upgrade", *WANTED])
