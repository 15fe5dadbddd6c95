# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Combinations that public projects run: nothing may be refused, and hardly anything warned of."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.filter import lockstep
from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine, stack

from . import known

KNOWN, UNSEEN = known.rows("good.yml", "stacks"), known.rows("unseen.yml", "good")


def each(rows):
    return pytest.mark.parametrize("row", rows, ids=lambda row: row["id"])


@each(KNOWN + UNSEEN)
def test_a_good_combination_is_not_refused(row):
    found = known.judged(row)
    assert not [(one["code"], one["subject"]) for one in found if one["severity"] == "error"]
    assert engine.verdict(found) not in ("blocked", "unknown", "broken"), found


@pytest.mark.parametrize("rows", [KNOWN, UNSEEN], ids=["known", "unseen"])
def test_one_warning_a_combination_at_most_on_average(rows):
    warnings = [one for row in rows for one in known.judged(row) if one["severity"] == "warn"]
    assert len(warnings) <= len(rows), sorted({one["code"] for one in warnings})


def test_a_warning_is_rare_where_no_kernel_is_named():
    # What warns everywhere is read by nobody; a kernel for which nothing was measured is said so.
    warned = [row["id"] for row in KNOWN + UNSEEN if "kernel" not in row and any(one["severity"] == "warn" for one in known.judged(row))]
    assert len(warned) <= 8, warned


@each(KNOWN + UNSEEN)
def test_a_claim_stays_the_same_once_it_is_read(row):
    claim = {key: value for key, value in row.items() if key not in known.ASIDE}
    long_form = stack.expand(claim, exact=False)
    assert stack.expand(long_form, exact=False) == long_form


@each(KNOWN)
def test_the_versions_of_a_row_are_read(row):
    long_form = stack.expand({key: value for key, value in row.items() if key not in known.ASIDE}, exact=False)
    version = long_form["driver"]["version"]
    assert version in str(row["driver"])
    for key, value in (("cuda", (long_form.get("cuda") or {}).get("active")), ("nccl", (long_form.get("nccl") or {}).get("version"))):
        assert (value is not None) == (key in row)
        assert value is None or value in str(row[key]) or value.replace(".", "-") in str(row[key])


@pytest.mark.parametrize(("driver", "kernel"), [("450.80.02", None), ("470.57.02", "5.10.0-8-amd64"), ("520.61.05", None), ("535.183.01", "6.8.0-45-generic"),
                                                ("550.90.07", "6.8.0-71-generic"), ("580.126.16", "6.17.0-19-generic")])
def test_cuda_11_8_has_no_other_floor_and_no_newest_kernel(driver, kernel):
    claim = dict({"cuda": "11.8.0", "driver": driver}, **({"kernel": kernel} if kernel else {}))
    assert not [row for row in known.judged(claim) if "cuda" in row["code"] or row["severity"] == "error"]


@pytest.mark.parametrize("system", ["Talos", "talos", "Bottlerocket", "Arch Linux", "arch", "Linux Mint 22.1", "openSUSE Tumbleweed",
                                    {"id": "anolis", "release": "8.8"}, {"id": "kylin", "release": "V10"},
                                    {"id": "ubuntu", "release": "24.04", "arch": "arm64"}])
def test_a_system_by_any_of_its_names_is_known(system):
    for claim, target in (({"os": system}, {}), ({}, {"os": system})):
        assert lockstep.findings(dict(claim, driver="580.95.05", flavour="open"), target) == []


def test_a_claim_with_only_an_architecture_leaves_the_targets_system():
    claim = {"arch": "aarch64", "driver": "580.95.05", "ofed": "DOCA 3.2.1", "kernel": "6.17"}
    assert not [row for row in lockstep.findings(claim, {"os": "Ubuntu 24.04"}) if row["severity"] == "error"]
    found = lockstep.findings(dict(claim, kernel="6.18 mainline"), {"os": "Ubuntu 24.04"})
    assert "ofed_fails_to_build_on_kernel" in {row["code"] for row in found}
