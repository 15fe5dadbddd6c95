# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""This machine as a node of its own, which may boot: the modules find their machine of files in the environment."""
from __future__ import annotations

DOCUMENTATION = r"""
name: fakenode
short_description: a machine of files
description: For tests.
extends_documentation_fragment: [connection_pipelining]
options:
  become_success_timeout:
    description: as for local
    type: int
    default: 10
  become_strip_preamble:
    description: as for local
    type: bool
    default: true
"""

import os
import shlex

from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.connection.local import Connection as Local


class Connection(Local):
    """The local connection under another name."""

    transport = "fakenode"

    def exec_command(self, cmd, in_data=None, sudoable=True):
        folder = os.path.join(os.environ["LOCKSTEP_FAKE_NODES"], self._play_context.remote_addr)
        if os.path.exists(os.path.join(folder, "down")):
            raise AnsibleConnectionFailure("no route to host")
        settings = "export LOCKSTEP_FAKE_NODE=%s LOCKSTEP_FAKES=%s; " % (shlex.quote(folder), shlex.quote(os.environ["LOCKSTEP_FAKES"]))
        return super().exec_command(settings + cmd, in_data=in_data, sudoable=sudoable)

    def reset(self):
        """Nothing is kept open."""
