# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How RPM systems are read live; see capture.py for what such functions may do."""

from __future__ import annotations

import errno
import os

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_rpm
from ansible_collections.lockstep.gpu.plugins.module_utils.capture import Absent, files, find, inside
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import execute

DATABASES = ("/usr/lib/sysimage/rpm", "/var/lib/rpm")
LOCKS = ("/etc/dnf/plugins/versionlock.list", "/etc/yum/pluginconf.d/versionlock.list", "/etc/dnf/versionlock.toml")
CONFIGS = ("/etc/yum.conf", "/etc/dnf/dnf.conf", "/usr/share/dnf5/libdnf.conf.d/*.conf", "/etc/dnf/libdnf5.conf.d/*.conf")


def is_rpm_system(root):
    """Whether rpm's database is the node's own: Debian has the tool too, and then a database beside dpkg's."""
    dpkg = inside(root, "/var/lib/dpkg/status")
    return bool(find(root, *DATABASES)) and not (os.path.isfile(dpkg) and os.path.getsize(dpkg))


def _only_there(root):
    if not is_rpm_system(root):
        raise Absent(errno.ENOENT, os.strerror(errno.ENOENT), DATABASES[-1])


def rpm_list(root, tools):
    """All packages. Raises Absent on a system of another kind."""
    _only_there(root)
    return execute(["rpm", "-qa", "--qf", parse_rpm.RPM_FORMAT], tools)


def asking(*words):
    """A capture function that asks dnf, which reads what it has already fetched and nothing else."""
    def capture(root, tools):
        _only_there(root)
        return execute(["dnf", "-q", "--cacheonly", *words], tools)
    return capture


def reading(*patterns):
    """A capture function for files of an RPM system, one link of several counted once."""
    def capture(root):
        _only_there(root)
        real = {}
        for path in find(root, *patterns):
            real.setdefault(os.path.realpath(inside(root, path)), path)
        return files(root, *(sorted(real.values(), key=lambda path: find(root, *patterns).index(path)) or patterns))
    return capture
