# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How OFED's kernel modules and the symbols of peer memory are found on a live node."""

from __future__ import annotations

import os
import platform
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import capture
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import execute

_NAMES = re.compile(r"(?:mlx5_core|mlx5_ib|ib_core|mlx_compat|nv_peer_mem|nvidia-peermem)\.ko(?:\.(?:xz|zst|gz|bz2))?")
_SYMBOLS = ("ib_register_peer_memory_client", "ib_unregister_peer_memory_client")


def module_files(root):
    """RDMA modules beside the kernel's own, of every kernel: OFED's are in updates, extra or weak-updates."""
    found = []
    for release in capture.find(root, "/lib/modules/*"):
        for part in ("updates", "extra", "weak-updates"):
            for folder, _folders, names in os.walk(capture.inside(root, release + "/" + part)):
                found += [capture.seen(root, os.path.join(folder, name)) for name in names if _NAMES.fullmatch(name)]
    return capture.lines(sorted(found))


def modinfo_rdma(root, tools):
    """modinfo of the modules that the running kernel would load; none where there is no RDMA module at all."""
    index = "/lib/modules/%s/modules.dep" % platform.release()
    try:
        listed = capture.read(root, index)
    except FileNotFoundError:
        return ""
    names = [name for name in ("mlx5_core", "mlx5_ib", "ib_core") if re.search(r"(?:^|/)%s\.ko" % name, listed, re.MULTILINE)]
    return execute(["modinfo", *names], tools) if names else ""


def kallsyms(root):
    """The lines of /proc/kallsyms about the peer memory interface; it is read line by line, since it is long."""
    found = []
    with open(capture.inside(root, "/proc/kallsyms"), encoding="utf-8", errors="replace") as handle:
        for line in handle:
            if any(symbol in line for symbol in _SYMBOLS):
                found.append(line)
    return "".join(found)
