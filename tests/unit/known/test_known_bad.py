# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Combinations that are reported as failing: refused where a public fact says so, warned of where it is only told."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine

from . import known

KNOWN, UNSEEN = known.rows("bad.yml", "rows"), known.rows("unseen.yml", "bad")
# Rows without a public source of their own, whose combination another fact with a public source refuses.
COVERED = {
    "fm-mismatch-7": "fabric_manager_version_differs", "dkms-no-headers": "build_headers_missing",
    "nccl-cuda13-on-12": "nccl_cuda_major_differs",
    "cx3-ofed51": "ofed_not_for_nic", "gcc-560-68aws": "build_compiler_differs",
    "cuda13-on-550-geforce": "cuda_not_supported_by_driver", "cuda132-on-122": "cuda_not_supported_by_driver",
}
# What these say cannot be decided by what they name: a board that also works, with the same words.
UNDECIDABLE = {"peermem-symver"}
# It falls back to another way: slower, and no failure.
FALLS_BACK = {"dmabuf-old-kernel"}
# Codes that say that a fact is missing; all others that refuse rest on one, and name it.
WITHOUT_FACT = {"os_unknown", "os_differs", "gpu_unknown", "driver_branch_unknown", "cuda_unknown"}


def worst(found):
    return min((row["severity"] for row in found), key=engine.SEVERITIES.index, default=None)


def expected(row):
    if row["verdict"] == "RISK" or row["id"] in FALLS_BACK:
        return "warn"
    return "error" if row["public"] or row["id"] in COVERED else "warn"


@pytest.mark.parametrize("row", [row for row in KNOWN if row["id"] not in UNDECIDABLE], ids=lambda row: row["id"])
def test_a_bad_combination_weighs_what_its_source_is_worth(row):
    found = known.judged(row)
    assert worst(found) == expected(row), found
    if row["id"] in COVERED:
        assert COVERED[row["id"]] in {one["code"] for one in found if one["severity"] == "error"}


@pytest.mark.parametrize("row", UNSEEN, ids=lambda row: row["id"])
def test_other_bad_combinations_are_seen_too(row):
    found = known.judged(row)
    assert worst(found) == row["expect"], found


@pytest.mark.parametrize("row", KNOWN + UNSEEN, ids=lambda row: row["id"])
def test_what_refuses_names_a_public_source(row):
    for one in known.judged(row):
        assert one["message"].endswith(".") and "None" not in one["message"], one
        if one["severity"] == "error" and one["code"] not in WITHOUT_FACT:
            assert str(one["source"]).startswith(("https://", "measured 20")), one
