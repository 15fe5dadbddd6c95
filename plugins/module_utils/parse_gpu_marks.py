# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Marks that a deliverer of the driver leaves, and the processes that use a GPU."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_nvidia_smi import answered, is_remark

INSTALLER_LOG = "/var/log/nvidia-installer.log"
_ABSENT = re.compile(r"^(?:ls|stat|which|\S*/which|type|cat|bash|-bash|sh|sudo): .*|no \S+ in \(.*|.*No such file or directory.*|.*not found\b.*")
# fuser -v, lsof, ps: a process in a line of its own.
_PROCESS = re.compile(r"(?P<name2>\S+) +(?P<pid2>\d{1,8}) +(?:\d+ +)?\S+ +(?:mem|\d+[a-zA-Z]{0,2}|cwd|txt|DEL) +.*"
                      r"|(?:/dev/nvidia\S*: +)?(?P<user>[\w.+-]+) +(?P<pid>\d{1,8}) +[A-Za-z.]{1,10} +(?P<name>\S.*)", re.ASCII)
_BESIDE = re.compile(r"USER +PID|COMMAND +PID|pid, |gpu_uuid, |No running processes|lsof: WARNING|Output information|/dev/nvidia\S*:?$|\[")
_CSV_PROCESS = re.compile(r"(?:(?:GPU|MIG)-[\w/-]+, *)?(?P<pid>\d{1,8}), *(?P<name>[^,]+)(?:,.*)?", re.ASCII)


def parse_runfile(text, rc=0):
    """Paths that `ls`, `which` or `type` found, or nvidia-installer's log itself, to the list of paths; [] where there are none."""
    del rc
    if re.match(r"nvidia-installer log file '", text):
        return Parsed([INSTALLER_LOG], [])
    value, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        line = line[:4000].strip()
        found = re.search(r"(?:^|\s)(/\S+)$", line)
        if not line or _ABSENT.fullmatch(line):
            continue
        if found:
            value.append(found.group(1))
        else:
            problems.append(not_understood(number, line))
    return Parsed(value, problems)


_DELIVERERS = (("/etc/dgx-release", re.compile(r"DGX_\w{2,40}=")), ("/etc/nv_tegra_release", re.compile(r"# R\d+ \(release\), REVISION")),
               ("/etc/nvidia/gridd.conf", re.compile(r"(?:# )?(?:FeatureType|ServerAddress|LicenseInterval|EnableUI)\s*=")))


def parse_delivery(text, rc=0):
    """parse_runfile() for the marks of other deliverers; also what stands in one of those files instead of its path."""
    held = [(path, [line for line in text.splitlines() if pattern.match(line[:200].strip())]) for path, pattern in _DELIVERERS]
    told = [path for path, lines in held if lines]
    return Parsed(told, []) if told else parse_runfile(text, rc)


def parse_processes(text, rc=0):
    """Processes that use a GPU to [{pid, name}], from --query-compute-apps=...pid,process_name..., `fuser -v` or `lsof` of /dev/nvidia*."""
    del rc
    value, problems = {}, []
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw[:2000].strip()
        csv, row = _CSV_PROCESS.fullmatch(line), _PROCESS.fullmatch(line)
        if csv:
            value.setdefault(int(csv.group("pid")), csv.group("name").strip())
        elif row:
            value.setdefault(int(row.group("pid") or row.group("pid2")), (row.group("name") or row.group("name2")).strip())
        elif line and not is_remark(line) and not _BESIDE.match(line):
            problems.append(not_understood(number, line))
    return Parsed([{"pid": pid, "name": name} for pid, name in value.items()] if value or answered(text) else None, problems)
