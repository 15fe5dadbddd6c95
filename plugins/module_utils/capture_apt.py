# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the live back end asks of apt: settings, and what the archives have for the installed packages of the products."""

from __future__ import annotations

import errno
import glob
import os
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import capture
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import execute

# The packages that apt is asked about. Tools and headers of a toolkit count for themselves: they are hundreds.
_ASKED = re.compile(
    r"nvidia-.*|libnvidia-.*|libcuda1|cuda-(?:drivers|keyring|compat)-?.*|libnccl.*|libnvsdm.*|nvlsm|nvlink\d.*|datacenter-gpu-manager.*"
    r"|(?:mlnx|doca|mft|knem).*|rdma-core|linux-(?:image|headers|generic|virtual|lowlatency|aws|azure|gcp|oracle|nvidia)(?:-.*)?|xserver-xorg-video-nvidia.*")
# A branch in the name: such a package may have become one that only leads to another.
_BRANCHED = re.compile(r"(?:lib)?(?:nvidia|cuda)-.*-\d{3}(?:-.*)?")
_MOST = 400
STATUS = "/var/lib/dpkg/status"


def apt_conf(root):
    """apt's settings, where unattended-upgrades has its own, too. apt reads names with .conf or without an extension."""
    parts = [path for path in capture.find(root, "/etc/apt/apt.conf.d/*") if path.endswith(".conf") or "." not in os.path.basename(path)]
    return capture.files(root, "/etc/apt/apt.conf", *map(glob.escape, parts))


def installed(root):
    """Names of installed packages that may belong to a product, from dpkg's status file. Raises Absent on a system without dpkg."""
    names, name = [], None
    if not os.path.exists(capture.inside(root, STATUS)):
        raise capture.Absent(errno.ENOENT, os.strerror(errno.ENOENT), STATUS)
    for line in capture.read(root, STATUS, limit=64 * 1024 * 1024).splitlines():
        if line.startswith("Package: "):
            name = line[9:].strip()
        elif line.startswith("Status: ") and line.endswith(" installed") and name and _ASKED.fullmatch(name):
            names.append(name)
    return sorted(set(names))[:_MOST]


def policy(root, tools):
    """apt-cache policy of the products' packages, in one call."""
    names = installed(root)
    return execute(["apt-cache", "policy", *names], tools) if names else ""


def show(root, tools):
    """apt-cache show of those that have a branch in their name."""
    names = [name for name in installed(root) if _BRANCHED.fullmatch(name)]
    return execute(["apt-cache", "show", *names], tools) if names else ""
