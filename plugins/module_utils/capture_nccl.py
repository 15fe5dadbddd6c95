# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How NCCL's files and all copies of it are found on a live node."""

from __future__ import annotations

import errno
import os
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import capture

CONF_FILES = ("/etc/nccl.conf", "/root/.nccl.conf")
ENV_FILES = ("/etc/environment", "/etc/profile.d/*.sh", "/etc/security/pam_env.conf")
# Where copies of libraries and Python packages lie; other file systems below them are not entered.
ROOTS = ("/usr/lib", "/usr/lib64", "/usr/local", "/opt", "/srv", "/root", "/home")
_LIBRARY = re.compile(r"lib(?:nccl|cuda|nvidia-ml)\.so(?:\.[\d.]+)?")
_DIST_INFO = re.compile(r"((?:nvidia_nccl_cu\d+|torch))-([\w.+!]+)\.dist-info")
MAX_FOLDERS = 150000


def nccl_conf(root):
    return capture.files(root, *CONF_FILES)


def nccl_env(root):
    """The lines of the environment's files that speak of NCCL, each file with its header."""
    paths = [path for path in capture.find(root, *ENV_FILES) if os.path.isfile(capture.inside(root, path))]
    found = [(path, "\n".join(line for line in capture.read(root, path).splitlines() if "NCCL" in line.upper())) for path in paths]
    return capture.join_files([(path, content + "\n") for path, content in found if content])


def named_in_conf(variable):
    """A capture function for the file that a variable of NCCL's configuration names."""
    def read_it(root):
        for path in CONF_FILES:
            try:
                text = capture.read(root, path)
            except FileNotFoundError:
                continue
            found = re.search(r"^%s=(/.*?)\r?$" % variable, text, re.MULTILINE)
            if found:
                return capture.read(root, found.group(1))
        raise capture.Absent(errno.ENOENT, os.strerror(errno.ENOENT), variable)
    return read_it


def _walk(root):
    """(folder, folders, files) below ROOTS, on their own file systems. Raises OSError where there are too many."""
    folders_seen = 0
    for base in ROOTS:
        top = capture.inside(root, base)
        if not os.path.isdir(top) or os.path.islink(top):
            continue
        device = os.lstat(top).st_dev
        for folder, folders, files in os.walk(top):
            folders_seen += 1
            if folders_seen > MAX_FOLDERS:
                raise OSError(errno.EFBIG, "more than %d folders" % MAX_FOLDERS, base)
            folders[:] = sorted(name for name in folders if not _elsewhere(os.path.join(folder, name), device))
            yield folder, folders, files


def _elsewhere(path, device):
    try:
        return os.path.islink(path) or os.lstat(path).st_dev != device
    except OSError:
        return True


def library_files(root):
    """Every copy of libnccl, libcuda and NVML as `find` would list them, links with their targets."""
    rows = []
    for folder, _folders, files in _walk(root):
        for name in sorted(files):
            if _LIBRARY.fullmatch(name):
                path = os.path.join(folder, name)
                arrow = " -> " + os.readlink(path) if os.path.islink(path) else ""
                rows.append(capture.seen(root, path) + arrow)
    return capture.lines(rows)


def pip_list(root):
    """`pip list --format=freeze` for NCCL and PyTorch, from the dist-info folders of every Python on the node."""
    rows = set()
    for _folder, folders, _files in _walk(root):
        rows.update("%s==%s" % found.groups() for found in map(_DIST_INFO.fullmatch, folders) if found)
    return capture.lines(sorted(rows))
