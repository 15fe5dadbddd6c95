# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about RPM packages and dnf: the parsed values, and what must not be done."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import versions_rpm

from . import case


def parsed(name):
    return case.expected(name)["parsed"]


def manager(name, bundle="main"):
    return case.state(name, bundle)["package_manager"]


def codes(name, bundle="main"):
    return {row["code"] for row in case.record(name, bundle)["findings"]}


def plan_text(name, bundle="main"):
    return str(case.record(name, bundle)["plan"])


@pytest.mark.parametrize("bundle", ["a", "b"])
def test_pkg_07_what_is_filtered_out_is_not_missing(bundle):
    want, expected = parsed("pkg-07")[bundle], case.expected("pkg-07")
    problem = next(row for row in manager("pkg-07", bundle)["problems"] if row["reason"] == want["reason"])
    assert problem["package"] == want["package"] and problem["version"] == want.get("evr")
    record = case.record("pkg-07", bundle)
    assert record["verdict"] == expected["verdict"] and codes("pkg-07", bundle) == {"module_stream_not_enabled"}
    assert case.missing_findings(expected["findings"], record["findings"]) == [] and case.missing_steps(expected["plan"]["actions"], record["plan"]) == []
    assert all(row["reason"] != "no_match" for row in manager("pkg-07", bundle)["problems"])
    assert "--skip-broken" not in plan_text("pkg-07", bundle) and "--nobest" not in plan_text("pkg-07", bundle)


def test_pkg_08_another_stream_is_enabled():
    want = parsed("pkg-08")
    module = manager("pkg-08")["modules"][want["module"]]
    assert module["enabled"] == want["enabled"] and module["profiles"] == want["installed_profiles"] and want["wanted"] in module["streams"]
    switch = next(row for row in manager("pkg-08")["problems"] if row["reason"] == "stream_switch")
    assert (switch["package"], switch["old"], switch["new"]) == (want["module"], want["enabled"], want["wanted"])
    assert [step["action"] for step in case.record("pkg-08")["plan"]] == ["remove", "module_reset", "module_enable", "install_exact"]
    assert "module_stream_switch" not in plan_text("pkg-08")


def test_pkg_10_no_module_for_this_driver_and_this_kernel():
    kmods = manager("pkg-10")["kmods"]
    assert [{"driver": row["driver"], "kernel": row["kernel"]} for row in kmods] == parsed("pkg-10")["kmods"]
    assert not any(row["installed"] for row in kmods)
    assert [step["action"] for step in case.record("pkg-10")["plan"]] == ["fail_preflight"] and "553.16.1" not in plan_text("pkg-10")


def test_ans_14_a_stream_that_follows_the_newest_branch():
    want = parsed("ans-14")
    assert manager("ans-14")["modules"]["nvidia-driver"]["enabled"] == want["enabled"]
    assert case.state("ans-14")["packages"]["nvidia-driver"]["version"] == want["installed"]
    moved = manager("ans-14")["transaction"]["upgrade"][0]
    assert (moved["name"], moved["old"], moved["version"]) == ("nvidia-driver", want["installed"], want["would_be"])
    # The installed driver is the locked one: nothing is installed or removed.
    assert {step["action"] for step in case.record("ans-14")["plan"]} & {"install_exact", "remove", "downgrade_exact"} == set()


def test_ctk_01_four_packages_of_two_versions():
    packages = case.state("ctk-01")["packages"]
    assert {name: versions_rpm.upstream(row["version"]) for name, row in packages.items()} == parsed("ctk-01")
    assert all(row["version"].endswith("-1") and ":" not in row["version"] for row in packages.values())


def test_krn_10_a_kernel_comes_as_a_dependency():
    want, plan = parsed("krn-10"), manager("krn-10")["transaction"]
    assert [row["name"] for row in plan["install"] if not row["dependency"]] == want["installing"]
    assert [row["name"] for row in plan["install"] if row["dependency"]] == want["dependencies"]
    core = next(row for row in plan["install"] if row["name"] == "kernel-core")
    assert "%s.%s" % (core["version"], core["arch"]) == want["new_kernel"] and core["origin"] == "baseos"
    assert "reboot" not in plan_text("krn-10")


def test_ofed_10_two_stacks_in_one_transaction():
    problem = next(row for row in manager("ofed-10")["problems"] if row["reason"] == "cannot_install_both")
    for pair, name, version in zip(parsed("ofed-10")["pair"], (problem["package"], problem["other"]["name"]),
                                   (problem["version"], problem["other"]["version"])):
        parts = versions_rpm.parse(version)
        assert (name, parts.version, parts.release) == (pair["name"], pair["version"], pair["release"])
    said = case.said(case.record("ofed-10")["findings"][0])
    assert "41.0-1.el8 (inbox)" in said and "59mlnx44-1.59056 (mlnx)" in said and "perftest-4.5-12.el8" in plan_text("ofed-10")
    assert "--skip-broken" not in plan_text("ofed-10") and "--allowerasing" not in plan_text("ofed-10")


def test_krn_01_and_krn_02_development_files_of_another_kernel():
    packages, want = case.state("krn-01")["packages"], parsed("krn-01")
    assert (packages["kernel"]["version"], packages["kernel-devel"]["version"]) == (want["kernel"], want["devel"])
    packages, want = case.state("krn-02")["packages"], parsed("krn-02")
    assert [packages["kernel"]["version"]] == want["kernel"] and [packages["kernel-devel"]["version"]] == want["devel"]
    for name in ("krn-01", "krn-02"):
        kernel = case.state(name)["kernel"]["installed"]
        assert [(row["release"], row["headers"]) for row in kernel] == [(case.state(name)["kernel"]["running"], False)]
