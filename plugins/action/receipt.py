# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tells the node who runs what from where; the rest is the module's."""
from __future__ import annotations

import getpass
import os
import socket

from ansible import __version__
from ansible.plugins.action import ActionBase


def who():
    """{user, host, ansible}; behind sudo the user who called it."""
    try:
        user = os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    return {"user": user, "host": socket.gethostname(), "ansible": __version__}


class ActionModule(ActionBase):
    """lockstep.gpu.receipt"""

    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        """The module's result."""
        super().run(tmp, task_vars)
        return self._execute_module(module_name="lockstep.gpu.receipt", module_args=dict(self._task.args, who=who()), task_vars=task_vars)
