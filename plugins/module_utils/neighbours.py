# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings under the name of a neighbour: people put the list of installed packages beside the repositories', a log beside a run.

A text is what its lines say it is. It is read by every probe that nobody recorded and whose lines are in it; a probe whose own lines
are not in it does not read it. Transcripts of package managers and results of Ansible's modules need none of this: their sections
read each of them in every way.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.facts_reader import NOT_RECORDED
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import Observation

UNKNOWN = "nothing in it is known"
# Marks stand near the beginning of their lines; what is longer is looked at so far.
_LOOKED_AT = 4 << 20
_SMI = ("nvidia_smi", "nvidia_smi_version", "nvidia_smi_list", "nvidia_smi_query", "nvidia_smi_fabric")
_REMOTE = r"(?:mlx[\w-]{1,40}|ib_\w{1,40}|nv_peer_mem|iw_cm|rdma_\w{1,40}|rdma-rxe|irdma|knem)"
_DRIVER = r"nvidia(?:-(?:current|tesla|legacy)[\w-]{0,30}?)?(?:-open)?(?:[-_](?:drm|modeset|uvm))?"
_MODINFO = r"^filename:[ \t]*(?:\S{0,300}/)?%s\.ko|^name:[ \t]*%s$|^modinfo: ERROR: (?:Module|could not find module) %s\b"
_FROM_A_REPOSITORY = r"^[\w.+-]{1,200}\.(?:x86_64|aarch64|noarch|i[36]86)[ \t]+[\w.:~^+-]{1,200}[ \t]+(?!installed[ \t]*$)[A-Za-z0-9][\w.:-]{0,200}[ \t]*$"
# probe: (the lines that are its own, the neighbours that may hold them).
_OWN = {name: (re.compile(mark, re.MULTILINE), others) for name, mark, others in (
    ("rpm_list", r"^Installed [Pp]ackages\b|[ \t]@[\w.-]{1,200}[ \t]*$", ("dnf_repoquery",)),
    ("dnf_repoquery", r"^Available (?:Packages|Upgrades)\b|" + _FROM_A_REPOSITORY, ("rpm_list",)),
    ("modinfo", _MODINFO % (_DRIVER, _DRIVER, "nvidia"), ("modinfo_rdma",)),
    ("modinfo_rdma", _MODINFO % ((_REMOTE,) * 3), ("modinfo",)),
    ("dkms_run", r"^[ \t]*Error! |^Loading new \S{1,200} DKMS files|Autoinstall of module |^Autoinstall on |^Building (?:initial |new )?module for "
                 r"|^Consult /var/lib/dkms/|dkms autoinstall", ("dkms_make_log",)),
    ("dkms_make_log", r"^DKMS (?:\([\w.+~-]{1,40}\) )?make\.log for |^==> \S{1,300}make\.log|^[ \t]*make\[\d{1,3}\]: "
                      r"|^[ \t]*\S{1,300}\.[ch]:\d{1,7}:(?:\d{1,7}:)? (?:fatal )?error: ", ("dkms_run",)),
    ("nvidia_smi", r"^\| NVIDIA-SMI |NVSMI LOG|<nvidia_smi_log", _SMI),
    ("nvidia_smi_version", r"^NVIDIA-SMI version[ \t]*:", _SMI),
    ("nvidia_smi_list", r"^GPU \d{1,3}: .{1,200}\(UUID: ", _SMI),
    ("nvidia_smi_query", r"^(?:[\w.]{1,40}(?: \[\w+\])?, ){0,20}(?:driver_version|pci\.bus_id|gpu_bus_id|uuid)(?:,|$)|^\d{3}\.\d{2,3}(?:\.\d{2})?$"
                         r"|^[^|:<\n]{0,200}, \d{3}\.\d{2,3}(?:\.\d{2})?(?:,|$)"
                         r"|^(?:[^|<:\n]{0,200}, *)?(?:GPU-[0-9a-f]{8}-[0-9a-f-]{20,40}|[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.0)(?:,|$)", _SMI),
    ("nvidia_smi_fabric", r"\bfabric\.(?:state|status)\b|(?:^|,)[ \t]*\[?(?:Completed|In Progress|Not Started)\]?[ \t]*(?:,|$)", _SMI),
    ("gpu_devices", r"/dev/nvidia|\bnvidia(?:ctl|\d{1,3})\b", ("nvswitch_nodes",)),
    ("nvswitch_nodes", r"nvidia-nvswitch|^(?:.*[ \t])?(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$", ("gpu_devices",)),
)}
# Index and name are rows of a query, too, but of one of the fabric's states as well.
_ROWS = re.compile(r"^\d{1,3}, |^NVIDIA [\w .-]{1,60}, ", re.MULTILINE)
# A word of the tool that is in every text of it, where its parser has nothing to say of what went well. Logs may be silent.
_WORDS = {name: re.compile(words, re.IGNORECASE | re.MULTILINE) for names, words in (
    (("apt_run", "apt_simulation"),
     r"apt|dpkg|\.deb|\bdnf\b|\byum\b|zypper|\brpm\b|\.rpm|packag|paque|paket|pacchett|пакет|软件包|パッケージ|패키지|\b[EWN]: |^(?:Inst|Remv|Conf) |-dkms|nvidia|cuda"
     r"|linux-|kernel|\blib[a-z0-9-]{1,60}\d|metadata|transaction|repo|complete!|\block|process with pid|\"(?:changed|failed|msg)\"|FAILED|fatal:"),
    (("dkms_run", "dkms_make_log"), r"dkms|modules?\b|\bmake\b|error|\bkernel\b|\bmod(?:post|info)\b|\b(?:CC|LD|AR|SYMLINK) |gcc|warning"),
    (("modprobe_run", "rmmod_run"), r"modprobe|insmod|rmmod|module|nvidia|mlx|\bkey\b"),
    (("openibd_run",), r"HCA|openib|mlx|module|driver|modprobe|unload|\bib_|rdma"),
    (("ansible_result", "ansible_error"), r"\"[a-z_]+\":|\b[a-z_]+: |fatal|error|failed|changed|\bok\b|task|ansible|apt|dnf|dpkg|package"),
    (("mok_enrolled", "mok_new"), r"key|SHA|cert|MOK|\bCN\b|\bCA\b|boot|EFI|support|[0-9a-f]{10}"),
    (("initramfs_files",), r"/|image"),
    (("nvswitch_nodes",), r"nvidia|nvswitch|ls:|^total \d|[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]|no such file"),
    (("cdi_list",), r"cdi|nvidia|level=|time="),
    (("pip_list",), r"==|version|package|\d\.\d|\[\]|\{"),
    (("grub_run",), r"grub|kernel|linux|vmlinu|initr|menu|entry|boot|error"),
) for name in names}


class NeighbourProbe:
    """A probe back end of recordings that gives each text to the probes that it is of; the rest is the back end's."""

    def __init__(self, probe):
        self._probe, self._found = probe, {}
        self.unread, self.given = getattr(probe, "unread", ()), getattr(probe, "given", {})

    def start(self, names):
        """The back end's."""
        self._probe.start(names)

    def read(self, name):
        """What was recorded of a probe, under its own name or a neighbour's."""
        if name not in self._found:
            self._found[name] = self._look(name)
        return self._found[name]

    def _look(self, name):
        seen = self._probe.read(name)
        if not _recorded(seen):
            return next((other for source in _OWN.get(name, (None, ()))[1] for other in [self._probe.read(source)]
                         if source != name and _has(other, name, source)), seen)
        if name in _OWN and not _has(seen, name, name) and self._goes_elsewhere(name, seen):
            return Observation(None, reason=NOT_RECORDED)
        if name in _WORDS and not _empty(seen) and not _WORDS[name].search(seen.out[:_LOOKED_AT]) and not _WORDS[name].search(seen.err[:_LOOKED_AT]):
            return Observation(None, reason=UNKNOWN)
        return seen

    def _goes_elsewhere(self, name, seen):
        """Whether another probe, which nobody recorded, reads this text."""
        return any(name in others and other != name and _has(seen, other, name) and not _recorded(self._probe.read(other))
                   for other, (_mark, others) in _OWN.items())


def _recorded(seen):
    return seen.rc is not None or seen.reason != NOT_RECORDED


def _empty(seen):
    return seen.rc is None or seen.rc == 127 or not (seen.out.strip() or seen.err.strip())


def _has(seen, name, source):
    """Whether a text, recorded as a source's, has lines of a probe; one that is not there has none."""
    if seen.rc is None:
        return False
    marks = [_OWN[name][0]] + ([_ROWS] if name == "nvidia_smi_query" and source != "nvidia_smi_fabric" else [])
    return any(mark.search(text[:_LOOKED_AT]) for mark in marks for text in (seen.out, seen.err))
