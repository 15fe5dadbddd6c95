# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The kernel's log (`dmesg`, `journalctl -k`) to what it says about GPU drivers, their modules and signatures.

The wording is that of NVIDIA's kernel modules (https://github.com/NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-pci.c
and src/nvidia/arch/nvalloc/unix) and of the kernel itself (kernel/module, security/lockdown in Linux).
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, shown

# What stands before a message: dmesg's seconds or date, journalctl's date, host and "kernel:", a syslog level.
_STAMP = re.compile(
    r"(?:<\d{1,3}>|[a-z]+ *:[a-z]+ *: *)?"
    r"(?:\[[^\]]{1,40}\] *|\d{4}-\d\d-\d\dT[\d:,.+-]{8,30} +|[A-Z][a-z]{2} +\d{1,2} [\d:]{8} +)?"
    r"(?:\S{1,64} kernel: *)?(?:\[[ \d.]{1,20}\] *)?")
_PCI = r"(?:PCI:)?(?P<gpu>(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}(?:\.[0-9a-fA-F])?)"
_VERSION = r"\d{2,4}\.\d{1,4}(?:\.\d{1,4})?"
_MODULE = r"(?P<module>[\w-]{1,64})"

# (kind, pattern): the first that is found in a message decides; the named groups become fields.
_KINDS = tuple((kind, re.compile(pattern)) for kind, pattern in (
    ("xid", r"^NVRM: (?:GPU at .{0,80}?)?Xid \(" + _PCI + r"\): (?P<xid>\d{1,4})(?:, (?P<what>.*))?"),
    ("sxid", r"SXid \(" + _PCI + r"\): (?P<xid>\d{1,6})(?:, (?P<what>.*))?"),
    ("fallen_off_bus", r"^NVRM: (?:The NVIDIA )?GPU (?:at )?" + _PCI + r".{0,120}fallen off the bus"),
    ("requires_open", r"^NVRM: .{0,20}NVIDIA GPU " + _PCI + r" \(PCI ID: (?P<id>[0-9a-f]{4}:[0-9a-f]{4})\).*"
                      r"requires use of the NVIDIA open kernel modules"),
    ("requires_proprietary", r"^NVRM: .{0,20}NVIDIA GPU " + _PCI + r" \(PCI ID: (?P<id>[0-9a-f]{4}:[0-9a-f]{4})\).*"
                             r"(?:not supported by open|nvidia\.ko because it does not include)"),
    ("legacy_gpu", r"^NVRM: The NVIDIA (?P<name>.{1,120}?)(?: GPU)? installed in this system is +supported through the NVIDIA (?P<branch>\d{2,4})\.xx [Ll]egacy"
                   r"(?:.{0,200}?The (?P<version>" + _VERSION + r") NVIDIA)?"),
    ("gpu_not_supported", r"^NVRM: .{0,20}NVIDIA GPU " + _PCI + r" \(PCI ID: (?P<id>[0-9a-f]{4}:[0-9a-f]{4})\).*not supported by the"
                          r"(?:.{0,20}NVIDIA (?P<version>" + _VERSION + r") driver)?"),
    ("probe_not_called", r"^NVRM: The NVIDIA probe routine was not called for (?P<count>\d{1,4}) device"),
    ("probe_failed", r"^NVRM: The NVIDIA probe routine failed for (?P<count>\d{1,4}) device"),
    ("no_gpu", r"^NVRM: (?:No NVIDIA (?:GPU found|devices probed|graphics adapter)|None of the NVIDIA (?:devices|graphics adapters) were)"),
    ("rm_init_failed", r"^NVRM: (?:GPU " + _PCI + r": )?(?:RmInitAdapter|rm_init_adapter) failed(?:!? \((?P<status>[^()]{1,40})\))?"),
    ("api_mismatch", r"^NVRM: API mismatch: the client.{0,120}? has the version (?P<client>" + _VERSION + r"), but.*?"
                     r"this kernel module has\s+the version (?P<loaded>" + _VERSION + r")"),
    ("driver_loading", r"^NVRM: loading NVIDIA UNIX (?P<open>Open )?.{0,60}?Kernel Module.{0,40}? (?P<version>" + _VERSION + r")(?= |$)"),
    ("bound", r"^(?P<driver>nouveau|NovaCore|nova-core|nova_core) " + _PCI + r": "),
    ("symbol_version", r"^" + _MODULE + r": disagrees about version of symbol (?P<symbol>\S{1,200})"),
    ("unknown_symbol", r"^" + _MODULE + r": Unknown symbol (?P<symbol>\S{1,200})(?: \(err (?P<err>-?\d{1,5})\))?"),
    ("vermagic", r"^" + _MODULE + r": version magic '(?P<have>[^' ]{1,200}).{0,200}?should be '(?P<want>[^' ]{1,200})"),
    ("tainting", r"^" + _MODULE + r": module verification failed: signature and/or required key missing"),
    ("unsigned_rejected", r"^(?:" + _MODULE + r": )?[Ll]oading of unsigned module is rejected"
                          r"|^Lockdown: .{0,40}unsigned module loading is restricted"),
    ("key_rejected", r"^(?:" + _MODULE + r": )?[Ll]oading of module with unavailable key is rejected"
                     r"|PKCS#7 signature not signed with a trusted key"),
    ("lockdown", r"Kernel is locked down from EFI Secure Boot"),
    ("secure_boot", r"[Ss]ecureboot: Secure boot (?P<setting>enabled|disabled)|Secure boot (?P<early>enabled|disabled)$"),
))
_ABOUT_GPUS = re.compile(r"NVRM|nvidia|nouveau|nova|NovaCore", re.IGNORECASE)
# A message never spans more lines than this; a longer run of NVRM lines is several messages.
_MOST_LINES = 8
_MOST_EVENTS = 2000


def parse_dmesg(text):
    """A kernel log to events [{kind, driver, text, ...}], in order, each once.

    kind: a name of _KINDS, whose named groups are further keys (gpu, xid, symbol, version ...; None where a message lacks
    one), or None for another message about NVIDIA GPUs. driver: who says it ("NVRM", "nouveau", a module), None when unknown.
    All other lines of a kernel log are about other things, so no line is a problem.
    """
    events, seen = [], set()
    for message in _messages(text):
        event = _event(message)
        key = (event["kind"], event["text"]) if event else None
        if event and key not in seen and len(events) < _MOST_EVENTS:
            seen.add(key)
            events.append(event)
    return Parsed(events, [])


def _messages(text):
    """Messages without their time stamps; lines that go on with one are joined to it."""
    messages, lines = [], 0
    for raw in text.splitlines():
        line = raw[:1000].strip()
        line = line[_STAMP.match(line).end():].strip()
        if not line:
            continue
        # The driver writes one message over several lines, each with its name in front and none with a new subject.
        goes_on = messages and lines < _MOST_LINES and re.match(r"NVRM: +\S", line) and _is_open(messages[-1], line)
        if goes_on:
            messages[-1] += " " + line[len("NVRM:"):].strip()
            lines += 1
        else:
            messages.append(line)
            lines = 1
    return messages


def _is_open(message, line):
    """Whether `line` ends a message of the driver that began before."""
    if message.startswith("NVRM: API mismatch"):
        return re.match(r"NVRM: +(?:has the version|the version|this kernel module has|kernel module and all|make sure|Please|components have"
                        r"|have the same)", line)
    if re.match(r"NVRM: The NVIDIA GPU [0-9a-fA-F:.]{7,16}$", message):
        return re.match(r"NVRM: +\(PCI ID: ", line)
    if re.match(r"NVRM: The NVIDIA .{0,120}\(PCI ID: ", message):
        return re.match(r"NVRM: +(?:installed in this|fallen off|NVIDIA \S+ driver|driver |system |nvidia\.ko|Please|visit|for more|is |required"
                        r"|System Processor|Firmware)", line)
    if re.match(r"NVRM: The NVIDIA .{0,120} installed in this system", message):
        return re.match(r"NVRM: +(?:is |supported through|visit|information|for more|this GPU)", line)
    if re.match(r"NVRM: The NVIDIA probe routine (?:was not|failed)", message):
        return re.match(r"NVRM: +(?:This can occur|nouveau|was loaded|Try|another|had|device)", line)
    return None


def _event(message):
    for kind, pattern in _KINDS:
        found = pattern.search(message)
        if found:
            fields = found.groupdict()
            if kind == "secure_boot":
                fields = {"setting": fields["setting"] or fields["early"]}
            if kind == "driver_loading":
                fields = {"version": fields["version"], "flavour": "open" if fields["open"] else "proprietary"}
            return dict({"driver": fields.get("module") or _speaker(message)}, **dict(fields, kind=kind, text=shown(message, 300)))
    if _ABOUT_GPUS.search(message):
        return {"kind": None, "driver": _speaker(message), "text": shown(message, 300)}
    return None


def _speaker(message):
    found = re.match(r"([\w-]{1,64})(?:: | [0-9a-fA-F]{4}:[0-9a-fA-F]{2}:)", message)
    return found.group(1) if found else None
