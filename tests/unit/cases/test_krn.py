# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about kernels, headers, compilers and boot loaders: the parsed values, and what must not be done."""
from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge, next_boot

from . import case


def parsed(name):
    return case.expected(name)["parsed"]


def steps(name):
    return [(step["action"], step.get("target")) for step in case.record(name)["plan"]]


def codes(name):
    return {row["code"] for row in case.record(name)["findings"]}


def test_krn_01_headers_of_another_line():
    packages = case.state("krn-01")["packages"]
    assert packages["kernel"]["version"] == parsed("krn-01")["kernel"] and packages["kernel-devel"]["version"] == parsed("krn-01")["devel"]
    # Neither the plain name, which is 6.12 again, nor another kernel.
    assert [step for step in steps("krn-01") if step[0] == "install_exact"] == [
        ("install_exact", "kernel-devel-6.1.131-143.221.amzn2023.x86_64")]
    assert not any("6.12" in str(target) for _action, target in steps("krn-01"))


def test_krn_02_debug_headers_and_user_space_headers_are_none():
    packages = case.state("krn-02")["packages"]
    assert [packages["kernel"]["version"]] == parsed("krn-02")["kernel"] and [packages["kernel-devel"]["version"]] == parsed("krn-02")["devel"]
    (row,) = [row for row in case.record("krn-02")["findings"] if row["code"] == "headers_mismatch"]
    assert "debug" not in row["subject"] and "kernel-headers" not in row["subject"]
    assert case.state("krn-02")["kernel"]["installed"][0]["headers"] is False
    assert steps("krn-02") == [("install_exact", "kernel-devel-3.10.0-957.el7.x86_64")]


def test_krn_06_the_kernels_compiler():
    build = case.state("krn-06")["build"]
    assert "%(program)s %(version)s" % build["kernel"]["compiler"] == parsed("krn-06")["kernel_cc"]
    assert build["log"]["kernel_compiler"] == build["kernel"]["compiler"] and build["kernel"]["release"] == "6.8.0-1029-aws"
    assert build["log"]["compiler"]["version"] == parsed("krn-06")["host_cc"] and build["link"] == "gcc-11"
    assert build["log"]["option"] == parsed("krn-06")["bad_option"]
    # The driver is not to blame, and no variable teaches gcc-11 the option.
    assert not codes("krn-06") & {"driver_fails_to_build_on_kernel", "headers_missing"}
    assert "IGNORE_CC_MISMATCH" not in str(case.record("krn-06")["plan"])


def test_krn_08_held_packages_beside_metapackages_that_are_not():
    state = case.state("krn-08")
    assert state["package_manager"]["holds"] == parsed("krn-08")["held"]
    metas = [name for name in state["packages"] if knowledge.kernel_metapackage(knowledge.load(), name)]
    assert sorted(metas) == sorted(parsed("krn-08")["metas"])
    assert case.record("krn-08")["verdict"] != "in_sync" and "running_kernel_not_locked" not in codes("krn-08")
    assert not any(action in ("remove", "remove_or_hold") for action, _target in steps("krn-08"))


def test_krn_09_in_sync_until_the_next_power_cycle():
    state = case.state("krn-09")
    assert next_boot.next_kernel(state) == parsed("krn-09")["predicted_next_boot"] and state["boot"]["grub_default"] == "0"
    (row,) = [row for row in case.record("krn-09")["findings"] if row["code"] == "meta_package_not_held"]
    assert row["subject"].split(", ") == parsed("krn-09")["metas_unheld"]
    assert not any(action.startswith("dkms") or "6.8.0" in str(target) for action, target in steps("krn-09"))
