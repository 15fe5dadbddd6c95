# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports about OFED and GPUDirect: the parsed values, and what must not be done."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_ofed

from . import case

FLAVOURS = {"mlnx": "mlnx_ofed", "doca": "doca", None: "unknown"}


@pytest.mark.parametrize("bundle", case.bundles("ofed-01"))
def test_ofed_01_every_spelling(bundle):
    want = case.expected("ofed-01")["parsed"][bundle]
    ofed = case.state("ofed-01", bundle)["ofed"]
    assert {"flavour": FLAVOURS[ofed["kind"]], "release": ofed["release"], "build": ofed["build"]} == want
    assert case.record("ofed-01", bundle)["findings"] == []


def version(text):
    found = parse_ofed.ofed_version(text)
    return {"release": found["release"], "build": found["build"]}


def test_ofed_03_one_release_in_four_spellings():
    want, state, old = case.expected("ofed-03")["parsed"], case.state("ofed-03"), case.state("ofed-03", "old")
    assert state["ofed"]["version"] == want["ofed_info"] and state["rdma"]["modules"][0]["version"] == want["modinfo"]
    assert version(state["dkms"][0]["version"]) == want["dkms"] and state["packages"]["doca-ofed"]["version"].startswith(want["doca"] + "-")
    assert version(old["dkms"][0]["version"]) == want["old_dkms"] and version(old["packages"]["mlnx-ofed-kernel-dkms"]["version"]) == want["old_dpkg"]
    assert case.record("ofed-03")["findings"] == [] and case.record("ofed-03", "old")["findings"] == []


def test_ofed_05_the_kernels_own_module():
    want, state, record = case.expected("ofed-05")["parsed"], case.state("ofed-05"), case.record("ofed-05")
    assert state["ofed"]["version"] == want["ofed"] and state["rdma"]["modules"][0]["intree"] is want["mlx5_ib"]["intree"]
    assert [row["kernel"] for row in state["rdma"]["files"]] == want["ofed_module_kernels"]
    assert record["plan"] == [{"action": "rebuild_ofed", "target": "5.4-3.1.0.0", "kernel": "3.10.0-1160.62.1.el7.x86_64"}]


def test_ofed_06_a_symbol_that_is_not_there():
    want, state, record = case.expected("ofed-06")["parsed"], case.state("ofed-06"), case.record("ofed-06")
    event = state["kernel_log"][0]
    assert (event["symbol"], int(event["err"]), state["rdma"]["symbols"].get(event["symbol"])) == (want["symbol"], want["err"], want["provided_by"])
    assert [step["action"] for step in record["plan"]] == ["load_module", "rebuild"] and record["plan"][1]["after"] == "OFED"
    assert {row["code"] for row in record["findings"]} == {"peermem_symbol_missing"}


def test_ofed_09_the_running_kernels_ofed_is_not_called_broken():
    record = case.record("ofed-09")
    assert not [row for row in record["findings"] if "6.8.0-1030-nvidia" in row["subject"]]
    assert "rebuild_ofed" not in [step["action"] for step in record["plan"]]
