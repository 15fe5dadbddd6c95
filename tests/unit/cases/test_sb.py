# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about secure boot and other drivers: the parsed values, and what must not be done."""
from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.plugin_utils import signing

from . import case


def test_sb_01_signed_with_a_key_that_nobody_enrolled():
    want, state = case.expected("sb-01")["parsed"], case.state("sb-01")
    assert state["secure_boot"] is want["secure_boot"]
    (row,) = state["signing"]["modules"]
    assert row["signed"] is want["module_signed"] and row["signer"] == want["signer"]
    assert signing.site_key_enrolled(state["signing"], state["dkms_settings"]) is want["enrolled"]


def test_sb_01_only_a_person_at_the_console_can_help():
    record = case.record("sb-01")
    assert [step["action"] for step in record["plan"]] == ["manual"]
    assert [row["code"] for row in record["findings"]] == ["mok_not_enrolled"]


def test_sb_05_nova_core_is_in_use_though_nouveau_is_gone():
    want, state = case.expected("sb-05")["parsed"], case.state("sb-05")
    assert sorted(state["modprobe"]["blacklist"]) == want["blacklisted"]
    assert want["in_use"] in state["modules"]["list"] and "nouveau" not in state["modules"]["list"]
    assert [row["name"] for row in state["initramfs"]["modules"]] == [want["in_use"]]
    assert [row["subject"] for row in case.record("sb-05")["findings"]] == [want["in_use"]]


def test_sb_06_nothing_is_installed_that_the_kernel_would_refuse():
    want, state = case.expected("sb-06")["parsed"], case.state("sb-06")
    assert state["secure_boot"] is want["secure_boot"] and state["lock_file"]["doca"] == want["doca"]
    assert signing.site_key_enrolled(state["signing"], state["dkms_settings"]) is want["site_mok"]
    assert [step["action"] for step in case.record("sb-06")["plan"]] == ["fail_preflight"]
