# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings that people made at a terminal, without what the terminal and its shell added.

Line ends of other systems, colours, prompts with the command behind them, and what sudo, ssh and a shell without its locale say
before the command does. A line that goes leaves an empty one, so that the numbers in messages stay those of the file.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.probe import Observation
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import BUNDLE, LEVEL_OF

# ECMA-48: colours and cursor (CSI), titles (OSC).
_ESCAPES = re.compile("\x1b(?:\\[[0-9;?]{0,40}[A-Za-z]|\\][^\x07\x1b\n]{0,300}(?:\x07|\x1b\\\\)|[()][0-9A-B])")
_TOOLS = (r"(?:sudo|dkms|uname|cat|ls|lspci|lsmod|modinfo|modprobe|mokutil|dpkg|dpkg-query|apt|apt-\w+|rpm|dnf|yum|zypper|grubby|grub2?-[\w-]+|nvidia-\w+"
          r"|systemctl|journalctl|dmesg|lsinitrd|lsinitramfs|find|e?grep|tail|head|awk|readlink|gcc|cc|nvcc|ofed_info|ldconfig|pip3?|docker|df|mount"
          r"|findmnt|bootctl|needs-restarting|update-alternatives|getenforce|ip|env|python3?)\b")
_PROMPT = (
    # user@host:~$ command, [user@host ~]# command, host:~ # command, $ command
    r"[ \t]*(?:\([\w.-]{1,40}\) )?(?:[\w.-]{1,64}@[\w.-]{1,64}(?:[: ][~/\w][^\n$#%>:]{0,80}|\[[^\]\n]{1,60}\])?[$#%>]"
    r"|\[[\w.-]{1,64}@[\w.-]{1,64} [^\]\n]{1,80}\][$#]"
    r"|[\w.-]{1,64}:[~/][\w./~-]{0,80} ?[$#])(?:[ \t][^\n]*)?"
    r"|\$(?: [^\n]*)?|[#>] ?" + _TOOLS + r"[^\n]*")
_BESIDE = (
    r"sudo: (?:unable to resolve host|unable to stat|/etc/sudo|setrlimit)[^\n]*|\[sudo\] [^\n:]{1,60}:[ *]*"
    r"|(?:-?\w{0,8}sh|/[\w/]{1,40}|manpath|locale|dkms): (?:line \d+: )?warning: setlocale: [^\n]*|manpath: can't set the locale[^\n]*"
    r"|locale: Cannot set LC_[^\n]*|perl: warning: (?:Setting locale|Please check that|Falling back)[^\n]*"
    r"|[ \t]+(?:LANGUAGE|LC_\w{1,20}|LANG) = [^\n]*|[ \t]+are supported and installed on your system\."
    r"|Warning: Permanently added [^\n]* to the list of known hosts\.|Connection to \S{1,100} closed\.|Pseudo-terminal will not be allocated[^\n]*"
    r"|```[\w-]{0,20}|lspci: Unable to load libkmod resources[^\n]*|pcilib: [^\n]*|Script (?:started|done) on [^\n]*")
_LINE = re.compile("^(?:%s|%s)[ \\t]*$" % (_PROMPT, _BESIDE), re.MULTILINE)
_BESIDE_LINE = re.compile("^(?:%s)[ \\t]*$" % _BESIDE, re.MULTILINE)


# Of what only bundles have, these say what was asked for in their prompts; the others are outputs like any.
_TRANSCRIPT = re.compile(r"_run$|^(apt_simulation|ansible_error|ansible_result|nccl_log|lock_file)$")


class PlainProbe:
    """A probe back end whose recordings are plain(); the rest is the back end's."""

    def __init__(self, probe):
        self._probe, self._read = probe, {}
        self.unread, self.given = getattr(probe, "unread", ()), getattr(probe, "given", {})

    def start(self, names):
        """The back end's."""
        self._probe.start(names)

    def read(self, name):
        """The back end's Observation with plain texts."""
        if name not in self._read:
            seen = self._probe.read(name)
            self._read[name] = Observation(seen.rc, plain(name, seen.out), plain(name, seen.err), seen.reason)
        return self._read[name]


def plain(name, text):
    """The text of a probe without what the terminal added. What a person ran is a part of a transcript, so prompts stay there."""
    text = text.lstrip("\ufeff")
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    # NCCL takes a carriage return for a part of the value, which is a fault to be found.
    if "\r" in text and name != "nccl_conf":
        text = text.replace("\r\n", "\n")
    return (_BESIDE_LINE if LEVEL_OF.get(name) == BUNDLE and _TRANSCRIPT.search(name) else _LINE).sub("", text)
