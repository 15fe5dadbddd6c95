# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module that needs dnf's Python library starts over under the system's own interpreter, as ansible.builtin.dnf does."""
from __future__ import annotations

import importlib
import sys

from ansible.module_utils.common.respawn import has_respawned, probe_interpreters_for_module, respawn_module

# EL has platform-python for tools of the system, whatever python3 points to.
INTERPRETERS = ("/usr/libexec/platform-python", "/usr/bin/python3", "/usr/bin/python")


def ensure(module):
    """Return when dnf can be imported here; else start the module over under an interpreter where it can, or fail."""
    try:
        importlib.import_module("dnf")
        importlib.import_module("hawkey")
        return
    except ImportError:
        pass
    interpreter = None if has_respawned() else probe_interpreters_for_module(INTERPRETERS, "dnf")
    if interpreter:
        # Does not come back.
        respawn_module(interpreter)
    module.fail_json(msg="dnf's Python library is needed (package python3-dnf), and neither %s nor any of %s has it; dnf 5 is not supported." % (
        sys.executable, ", ".join(INTERPRETERS)))
