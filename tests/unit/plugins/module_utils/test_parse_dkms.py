# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`dkms status`: the lines are DKMS's own, from public reports and upstream's tests."""

from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_dkms import parse_dkms_status

KERNEL = "6.8.0-44-generic"


def row(module, version, kernel=KERNEL, state="installed", flags=(), arch="x86_64", **more):
    if kernel is None:
        arch = None
    return dict({"module": module, "version": version, "kernel": kernel, "arch": arch, "state": state, "flags": list(flags)}, **more)


@pytest.mark.parametrize("line,expected", [
    # up to 2.8.5
    ("nvidia, 470.57.02, 5.4.0-80-generic, x86_64: installed", row("nvidia", "470.57.02", "5.4.0-80-generic")),
    ("nvidia, 470.57.02: added", row("nvidia", "470.57.02", None, "added")),
    ("nvidia-current, 470.199.02, 5.10.0-26-amd64, x86_64: installed (original_module exists)",
     row("nvidia-current", "470.199.02", "5.10.0-26-amd64", flags=["original_exists"])),
    ("kernel-mft-dkms, 4.9.0, 4.15.0-041500-generic, x86_64: installed",
     row("kernel-mft-dkms", "4.9.0", "4.15.0-041500-generic")),
    # from 2.8.6 on
    ("fwts-efi-runtime-dkms/24.07.00: added", row("fwts-efi-runtime-dkms", "24.07.00", None, "added")),
    ("nvidia-fs/2.22.3, 6.8.0-44-generic, x86_64: built", row("nvidia-fs", "2.22.3", state="built")),
    ("nvidia-srv/535.309.01, 6.17.0-23-generic, x86_64: installed", row("nvidia-srv", "535.309.01", "6.17.0-23-generic")),
    ("nvidia/535.154.05, 6.8.0-44-generic, x86_64: installed" + 5 * " (WARNING! Diff between built and installed module!)",
     row("nvidia", "535.154.05", flags=["diff"])),
    ("nvidia/1, 6.8.0-44-generic, x86_64: built (WARNING! Missing some built modules!)",
     row("nvidia", "1", state="built", flags=["missing_built"])),
    # 3.1 and later
    ("iser/24.10: broken", row("iser", "24.10", None, "broken")),
    ("nvidia/1, 6.8.0-44-generic, x86_64: installed (Original modules exist) (Differences between built and installed modules)",
     row("nvidia", "1", flags=["diff", "original_exists"])),
    ("nvidia/1, 6.8.0-44-generic, x86_64: installed (Built modules are missing in the kernel modules folder)",
     row("nvidia", "1", flags=["missing_built"])),
    # weak links keep the commas
    ("nvidia, 535.183.01, 5.14.0-427.16.1.el9_4.x86_64, x86_64: installed-weak from 5.14.0-427.13.1.el9_4.x86_64",
     row("nvidia", "535.183.01", "5.14.0-427.16.1.el9_4.x86_64", "installed_weak", built_for="5.14.0-427.13.1.el9_4.x86_64")),
    # kernel names
    ("nvidia-current/550.163.01, 6.12.74+deb13+1-amd64, x86_64: installed",
     row("nvidia-current", "550.163.01", "6.12.74+deb13+1-amd64")),
    ("nvidia/570.86.15, 5.14.0-570.12.1.el9_6.aarch64+64k, aarch64: installed",
     row("nvidia", "570.86.15", "5.14.0-570.12.1.el9_6.aarch64+64k", arch="aarch64")),
])
def test_lines(line, expected):
    parsed = parse_dkms_status(line + "\n")
    assert parsed.value == [expected]
    assert parsed.problems == []


@pytest.mark.parametrize("line", [
    "Error! iser/24.10 fell from the sky",
    "nvidia/550.107.02, 6.8.0-44-generic, x86_64: loaded", "nvidia/550.107.02, 6.8.0-44-generic, x86_64:",
    "nvidia/550.107.02, 6.8.0-44-generic: installed", "nvidia: added", "/1: added", "nvidia/: added", "\0\ufffd",
    "nvidia/1, 6.8.0-44-generic, x86_64: installed (half a rem"])
def test_strange_lines_are_named_and_the_others_kept(line):
    parsed = parse_dkms_status("gdrdrv/2.4.1, 6.8.0-44-generic, x86_64: installed\n%s\niser/24.10: broken\n" % line)
    assert [item["module"] for item in parsed.value] == ["gdrdrv", "iser"]
    assert len(parsed.problems) == 1 and parsed.problems[0].startswith("line 2 ")


def test_an_unknown_remark_keeps_the_row():
    parsed = parse_dkms_status("nvidia/1, 6.8.0-44-generic, x86_64: installed (Signed by nobody)\n")
    assert parsed.value == [row("nvidia", "1")]
    assert "Signed by nobody" in parsed.problems[0]


def test_advice_is_no_module():
    text = "Deprecated feature: REMAKE_INITRD (/var/lib/dkms/nvidia/1/source/dkms.conf)\nnvidia/1: added\n"
    assert parse_dkms_status(text) == ([row("nvidia", "1", None, "added")], [])
