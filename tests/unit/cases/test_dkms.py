# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about DKMS: the parsed values, and what must not be done."""
from __future__ import annotations

import re

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils.kernel_names import headers_package
from ansible_collections.lockstep.gpu.plugins.plugin_utils import dkms_modules

from . import case


def actions_of(name):
    return [(step["action"], step.get("target"), step.get("kernel")) for step in case.record(name)["plan"]]


@pytest.mark.parametrize("name,bundle,parsed", [
    ("dkms-01", "main", None), ("dkms-02", "main", None), ("dkms-07", "main", None), ("dkms-12", "main", None),
    ("dkms-14", "main", "dkms_status"), ("dkms-14", "64k", "dkms_status_64k"), ("dkms-04", "main", "dkms")])
def test_the_rows(name, bundle, parsed):
    want = case.expected(name)["parsed"]
    assert case.state(name, bundle)["dkms"] == (want[parsed] if parsed else want)
    assert [row for row in case.state(name, bundle)["unknown"] if row["probe"] == "dkms_status"] == []


def test_dkms_02_another_module_is_not_touched():
    assert actions_of("dkms-02") == [("dkms_install", "nvidia-fs/2.22.3", "6.8.0-44-generic")]
    assert not any("fwts" in case.said(row) for row in case.record("dkms-02")["findings"])


def test_dkms_04_one_warning_repeated_is_one_finding():
    codes = [row["code"] for row in case.record("dkms-04")["findings"]]
    assert codes.count("installed_module_differs_from_dkms") == 1
    (step,) = [step for step in case.record("dkms-04")["plan"] if step["action"] == "dkms_install"]
    assert step == {"action": "dkms_install", "target": "nvidia/535.154.05", "kernel": "6.8.0-31-generic", "force": True}


def test_dkms_07_advice_on_stderr_is_no_module_and_the_rest_is_good():
    assert [row["code"] for row in case.record("dkms-07")["findings"]] == ["dkms_broken_source"]
    assert case.state("dkms-07")["dkms_status"]["unusable"] is None


def test_dkms_09_a_mainline_kernel_is_not_the_locked_one():
    rows, want = case.state("dkms-09")["dkms"], case.expected("dkms-09")["parsed"]
    assert len(rows) == want["count"] and sorted({row["module"] for row in rows}) == want["modules"]
    kernels = {row["kernel"] for row in rows}
    built = {(row["module"], row["kernel"]) for row in rows}
    assert [{"module": module, "kernel": kernel} for module in want["modules"] for kernel in sorted(kernels)
            if (module, kernel) not in built] == want["missing"]
    assert {kernel for _action, _target, kernel in actions_of("dkms-09") if kernel} == {"4.15.0-45-generic"}
    (row,) = [row for row in case.record("dkms-09")["findings"] if row["code"] == "dkms_not_built_for_kernel"]
    assert "the kernel that boots next" in row["message"] and "4.15.0-041500-generic" in row["message"]


@pytest.mark.parametrize("bundle", list("abcde"))
def test_dkms_10_one_driver_has_many_names(bundle):
    want = case.expected("dkms-10")["parsed"][bundle]
    (row,) = case.state("dkms-10", bundle)["dkms"]
    assert dkms_modules.is_driver(row["module"]) and want["component"] == "nvidia_driver"
    assert row["version"] == want["version"]
    assert (dkms_modules.flavour_of(row["module"]) or "unknown") == want["flavour_from_name"]


def test_dkms_12_a_weak_module_is_not_absent():
    (row,) = case.record("dkms-12")["findings"]
    assert row["code"] == "dkms_weak_only" and "5.14.0-427.13.1.el9_4.x86_64" in row["message"]


def test_dkms_14_a_plus_is_a_plus():
    kernel = case.state("dkms-14")["kernel"]["running"]
    want = case.expected("dkms-14")["parsed"]["headers_package"]
    assert headers_package(kernel, "debian") == want["debian"]
    assert headers_package(case.state("dkms-14", "64k")["kernel"]["running"], "rhel") == want["rhel_64k"]
    assert not re.search(r"aarch64\+64k", want["rhel_64k"])
    (row,) = case.record("dkms-14")["findings"]
    assert "6.12.73+deb13-amd64" in row["message"]
    assert case.record("dkms-14", "64k")["findings"] == []
