# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How RPM systems are read live; see capture.py for what such functions may do."""

from __future__ import annotations

import errno
import os

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_rpm
from ansible_collections.lockstep.gpu.plugins.module_utils.capture import Absent, find, inside
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import execute

DATABASES = ("/usr/lib/sysimage/rpm", "/var/lib/rpm")


def is_rpm_system(root):
    """Whether rpm's database is the node's own: Debian has the tool too, and then a database beside dpkg's."""
    dpkg = inside(root, "/var/lib/dpkg/status")
    return bool(find(root, *DATABASES)) and not (os.path.isfile(dpkg) and os.path.getsize(dpkg))


def rpm_list(root, tools):
    """All packages. Raises Absent on a system of another kind."""
    if not is_rpm_system(root):
        raise Absent(errno.ENOENT, os.strerror(errno.ENOENT), DATABASES[-1])
    return execute(["rpm", "-qa", "--qf", parse_rpm.RPM_FORMAT], tools)
