# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the live back end takes what DKMS has beyond its list (see capture.py)."""

from __future__ import annotations

import os

from ansible_collections.lockstep.gpu.plugins.module_utils import capture


def dkms_settings(root):
    return capture.files(root, "/etc/dkms/framework.conf", "/etc/dkms/framework.conf.d/*.conf")


def dkms_folders(root):
    """`find /var/lib/dkms -maxdepth 3`, with the targets of links; only folders of versions, not what was built in them."""
    paths = capture.find(root, "/var/lib/dkms/*", "/var/lib/dkms/*/*", "/var/lib/dkms/*/*/*")
    links = {path: os.readlink(capture.inside(root, path)) for path in paths if os.path.islink(capture.inside(root, path))}
    return capture.lines(sorted("%s -> %s" % (path, links[path]) if path in links else path for path in paths))


def dkms_logs(root):
    """The logs of builds that failed: a build that succeeds takes its log out of this folder."""
    return capture.files(root, "/var/lib/dkms/*/*/build/make.log")
