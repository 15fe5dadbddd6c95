# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Recordings from a terminal."""

from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import recorded_text
from hypothesis import given
from hypothesis import strategies as st

STATUS = "nvidia/535.129.03, 5.15.0-91-generic, x86_64: installed\n"
PERL = ("perl: warning: Setting locale failed.\nperl: warning: Please check that your locale settings:\n\tLANGUAGE = (unset),\n"
        "\tLC_ALL = \"de_DE.UTF-8\",\n\tLANG = \"C\"\n    are supported and installed on your system.\n"
        "perl: warning: Falling back to the standard locale (\"C\").\n")


@pytest.mark.parametrize("before", [
    "$ dkms status", "root@node17:~# dkms status", "[root@node17 ~]# dkms status", "user@node17:/usr/src$ sudo dkms status", "# dkms status",
    "#dkms status", "localhost:~ # dkms status", "user@node17 ~ % dkms status", "(base) user@node17:~$ dkms status",
    "sudo: unable to resolve host node17: Name or service not known", "[sudo] password for user:",
    "-bash: warning: setlocale: LC_ALL: cannot change locale (de_DE.UTF-8)", "/bin/bash: warning: setlocale: LC_ALL: cannot change locale (C.UTF-8)",
    "Warning: Permanently added 'node17' (ED25519) to the list of known hosts.", "\ufeff", PERL.rstrip("\n")])
def test_what_a_terminal_adds_is_gone(before):
    assert recorded_text.plain("dkms_status", before + "\n" + STATUS).strip("\n") == STATUS.strip("\n")


def test_colours_and_line_ends():
    assert recorded_text.plain("dkms_status", "\x1b[01;31m\x1b[Knvidia\x1b[m\x1b[K/535\r\n") == "nvidia/535\n"


@pytest.mark.parametrize("name,text", [
    ("grubenv", "# GRUB Environment Block\nsaved_entry=0\n"), ("grub_default", "# If you change this file, run 'update-grub' afterwards\n"),
    ("proc_version", "Linux version 5.15.0-91-generic (buildd@lcy02-amd64-045) (gcc (Ubuntu 11.4.0) 11.4.0) #101-Ubuntu SMP\n"),
    ("unit_files", "serial-getty@ttyS0.service enabled\n"), ("nccl_conf", "NCCL_DEBUG=$LEVEL\n"),
    ("dkms_run", "root@node17:~# dkms build nvidia/535.129.03\n"), ("dmesg", "[    3.1] nouveau 0000:17:00.0: NVIDIA GH100\n"),
    ("ip_addresses", "2: eth0@if5: <BROADCAST,MULTICAST,UP> mtu 1500\n"), ("apt_sources", "deb http://user@archive.example/ubuntu jammy main # a remark\n")])
def test_the_rest_stays(name, text):
    assert recorded_text.plain(name, text) == text


@given(st.text())
def test_whatever_it_is_no_line_is_added(text):
    assert len(recorded_text.plain("dkms_status", text).splitlines()) <= len(text.splitlines())
