# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run with NCCL_DEBUG=INFO printed. A program's own lines are between NCCL's; only NCCL's are read."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, shown

# host:pid:tid [gpu] NCCL INFO text; a warning names the place in the source before the word (src/debug.cc).
_LINE = re.compile(r"NCCL (INFO|WARN|TRACE|VERSION) (.*)")
_VERSION = re.compile(r"NCCL version (\d+\.\d+\.\d+)(?:\+cuda(\d+\.\d+))?")
_SET = re.compile(r"([A-Z][A-Z0-9_]{2,60}) set (?:by environment )?to (.*)")
_NETWORK = re.compile(r"Using network (.{1,60})")
# Before 2.28 nothing says that no interface was found, but the next connection fails on an address of no family.
_NO_INTERFACE = re.compile(r"no socket interface found|NET/Socket ?: ?no interface found|no NCCL_SOCKET_IFNAME interface found", re.IGNORECASE)
_NO_FAMILY = re.compile(r"connecting to address\s+with family \d+ is neither AF_INET")
_OWN_INTERFACE = re.compile(r"(?:Bootstrap|NET/Socket) ?: ?Using \S")
_DRIVER_CUDA = re.compile(r"cudaDriverVersion (\d{1,3})0(\d)0\b")
_DEVICE_MISSING = re.compile(r"XML Import Channel : dev (\d+) not found")
_MOST = 20
# Words of a plugin or of the verbs transport that could not start; NCCL then goes on with what is left.
_FAILED = re.compile(r"Failed to open libibverbs|No eligible providers|find any optimal provider|"
                     r"NET/OFI .*(?:failed|not found|unable)|Failed to initialize NET plugin|"
                     r"External network plugin .* is unsupported|NET/Plugin.*(?:dlerror|cannot open shared object|undefined symbol)|"
                     r"NET/IB : Unable to (?:open|query)|Failed to initialize any NET plugin", re.IGNORECASE)
_NO_PLUGIN = re.compile(r"(?:Could not find:?|No plugin found)[ (]*([^\s()]+)", re.IGNORECASE)


def parse_nccl_log(text):
    """A log to {version, cuda, driver_cuda, settings, networks, no_ib_device, no_interface, plugins_missing, failures, missing_devices, warnings}.

    settings: {name: value} that NCCL says it was given ("set by environment" is what it says for its files, too). networks: the
    names after "Using network". cuda: the release that NCCL is built with; driver_cuda: the driver's. no_ib_device: whether the
    verbs transport found nothing. no_interface: whether no interface was left to NCCL. plugins_missing: names of network
    plugins that were not there. failures, warnings: NCCL's own words, the first of them. missing_devices: numbers of GPUs
    that a graph file names and the node does not have. None without a line of NCCL's.
    """
    value = {"version": None, "cuda": None, "driver_cuda": None, "settings": {}, "networks": [], "no_ib_device": False, "no_interface": False,
             "plugins_missing": [], "failures": [], "missing_devices": [], "warnings": []}
    seen = lost = used = False
    for line in text.splitlines():
        found = _VERSION.search(line)
        if found and value["version"] is None:
            value["version"], value["cuda"] = found.groups()
            seen = True
        lost = lost or bool(_NO_FAMILY.search(line))
        used = used or bool(_OWN_INTERFACE.search(line))
        found = _LINE.search(line)
        if found:
            seen = True
            _read(value, found.group(1), found.group(2).strip())
    if not seen:
        return Parsed(None, ["no line of NCCL's: %s" % shown(text)] if text.strip() else ["the log is empty"])
    value["no_interface"] = value["no_interface"] or lost and not used
    return Parsed(value, [])


def _read(value, level, text):
    found = _SET.match(text)
    if found:
        # Numbers are printed with a full stop behind them.
        words = found.group(2)
        value["settings"].setdefault(found.group(1), re.sub(r"^(-?\d+)\.$", r"\1", words))
    found = _NETWORK.search(text)
    if found:
        _add(value["networks"], found.group(1).strip())
    if re.search(r"NET/IB ?: ?No device found", text):
        value["no_ib_device"] = True
    if _NO_INTERFACE.search(text):
        value["no_interface"] = True
    found = _DRIVER_CUDA.search(text)
    if found:
        value["driver_cuda"] = value["driver_cuda"] or ".".join(found.groups())
    found = _DEVICE_MISSING.search(text)
    if found:
        _add(value["missing_devices"], int(found.group(1)[:6]))
    found = _NO_PLUGIN.search(text) if "NET/Plugin" in text else None
    if found:
        _add(value["plugins_missing"], found.group(1).rstrip(".,"))
    if _FAILED.search(text):
        _add(value["failures"], shown(text, 160))
    if level == "WARN":
        _add(value["warnings"], shown(text, 160))


def _add(items, item):
    if item not in items and len(items) < _MOST:
        items.append(item)
