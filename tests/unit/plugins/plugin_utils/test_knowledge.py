# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of compat/ and stacks/ keep their schemas, and their names mean something."""
from __future__ import annotations

import json
import pathlib

import jsonschema
import pytest
import yaml
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge, stack

SCHEMAS = pathlib.Path(__file__).resolve().parents[3] / "schema"
FACTS = knowledge.load()


def schema(name):
    return jsonschema.Draft202012Validator(json.loads((SCHEMAS / name).read_text()))


def rows(node):
    if isinstance(node, dict):
        if "as_of" in node:
            yield node
        for value in node.values():
            yield from rows(value)
    elif isinstance(node, list):
        for value in node:
            yield from rows(value)


@pytest.mark.parametrize("path", sorted(knowledge.COMPAT_DIR.glob("*.yml")), ids=lambda path: path.stem)
def test_compat_files_fit_their_schema(path):
    content = yaml.safe_load(path.read_text())
    schema("compat.json").validate({path.stem: content})
    for row in rows(content):
        for key, value in row.items():
            if key == "source" or key.endswith("_source"):
                assert value == "measured" or value in content["sources"]


@pytest.mark.parametrize("path", sorted(knowledge.STACKS_DIR.glob("*.yml")), ids=lambda path: path.stem)
def test_stack_files_fit_their_schema(path):
    schema("stack.json").validate(yaml.safe_load(path.read_text()))


def test_the_schema_refuses_a_row_without_a_source():
    content = yaml.safe_load((knowledge.COMPAT_DIR / "nccl.yml").read_text())
    del content["builds"][0]["source"]
    assert not schema("compat.json").is_valid({"nccl": content})


def test_short_names_of_sources_are_addresses_when_loaded():
    for name, content in FACTS.items():
        for row in rows(content):
            assert row.get("certainty") == "reported" or row["source"].startswith(("https://", "measured 20")), (name, row)


def test_every_gpu_has_an_architecture_and_ids_are_unique():
    ids = [row["id"] for row in FACTS["gpus"]["gpus"]]
    assert len(ids) == len(set(ids))
    assert {row["architecture"] for row in FACTS["gpus"]["gpus"]} == set(FACTS["gpus"]["architectures"])


@pytest.mark.parametrize(("name", "expected"), [
    ("10de:2330", "H100 SXM5 80GB HBM3"), ("10DE:2330", "H100 SXM5 80GB HBM3"), ("H100 PCIe", "H100 PCIe"), ("Tesla T4", "Tesla T4"),
    ("B200", "B200"), ("L4", "L4"), ("10de:ffff", None), ("", None), ("PCIe", None), ("B2", None),
])
def test_gpus_are_found_by_id_and_by_product(name, expected):
    row = knowledge.gpu(FACTS, name)
    assert (row or {}).get("name") == expected


@pytest.mark.parametrize(("name", "architecture", "data_centre"), [
    ("NVIDIA H100 80GB HBM3", "Hopper", True), ("NVIDIA A100-SXM4-80GB", "Ampere", True), ("nvidia_h100", "Hopper", True),
    ("8x A100-80GB SXM", "Ampere", True), ("GB300 NVL72", "Blackwell Ultra", True), ("NVIDIA H100 NVL", "Hopper", True),
    ("NVIDIA GH200 480GB", "Grace Hopper", True), ("Tesla V100-SXM2-32GB", "Volta", True), ("HGX H100 8x", "Hopper", True),
    ("NVIDIA A100 96GB", "Ampere", True), ("DGX Spark", "Blackwell GB10", False), ("RTX PRO 6000", "Blackwell RTX", None),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "Blackwell RTX", True), ("NVIDIA", None, None), ("8x", None, None), ("80GB", None, None),
    ("K40", "Kepler GK11x", True), ("GeForce GTX 750 Ti", "Maxwell GM10x", False), ("DGX-2 (V100)", "Volta", True), ("DGX-2", None, None),
    ("RTX 4060 Ti", "Ada Lovelace", False), ("RTX A6000", "Ampere GA10x", False)])
def test_gpus_are_found_as_tools_and_people_name_them(name, architecture, data_centre):
    row = knowledge.gpu(FACTS, name) or {}
    assert (row.get("architecture"), row.get("data_centre")) == (architecture, data_centre)


def test_a_product_of_several_boards_has_what_they_agree_on():
    row = knowledge.gpu(FACTS, "RTX PRO 6000")
    assert row["name"] == "RTX PRO 6000" and "min_driver" not in row and "data_centre" not in row and row["flavour"] == "open"
    assert knowledge.gpu(FACTS, "RTX PRO 6000 Blackwell Server Edition")["min_driver"] == "575.57.08"


@pytest.mark.parametrize(("version", "floor", "expected"), [
    ("450.80.02", "450.80.02", True), ("450.80.01", "450.80.02", False), ("450", "450.80.02", None), ("449", "450.80.02", False),
    ("451", "450.80.02", True), ("525.60", "525.60.13", None), ("525.105.17", "525.60.13", True), ("550.100", "550.90.07", True),
])
def test_versions_are_judged_at_their_precision(version, floor, expected):
    assert knowledge.at_least(version, floor) is expected


@pytest.mark.parametrize(("gpus", "version", "expected"), [
    ([], "550.163.01", "proprietary"), ([], "580.65.06", "open"), (["10de:1db1"], "580.65.06", "proprietary"),
    (["10de:2901"], "570.133.20", "open"), (["10de:2330"], "550.163.01", "proprietary"), (["10de:1db1", "10de:2330"], "580.65.06", "proprietary"),
])
def test_auto_takes_the_flavour_that_the_gpus_need(gpus, version, expected):
    assert knowledge.flavour(FACTS, {"version": version, "flavour": "auto"}, gpus) == expected


def test_a_flavour_that_is_said_is_kept():
    assert knowledge.flavour(FACTS, {"version": "580.65.06", "flavour": "open"}, ["10de:1db1"]) == "open"
    assert knowledge.flavour(FACTS, {"version": "580"}, []) is None
    assert knowledge.flavour(FACTS, {"flavour": "auto"}, []) is None
    assert knowledge.flavour(FACTS, {"flavour": "auto"}, ["B200"]) == "open"


@pytest.mark.parametrize("name", stack.names())
def test_every_component_of_a_shipped_stack_has_a_package_set(name):
    value = stack.expand(name)
    for product in FACTS["packages"]["products"]:
        if product in value:
            flavour = knowledge.flavour(FACTS, value["driver"], []) if product == "driver" else None
            assert knowledge.package_set(FACTS, product, value, flavour), product


def test_a_set_is_chosen_by_release_branch_and_flavour():
    value = stack.expand("debian13-535")
    assert knowledge.package_set(FACTS, "driver", value)["dkms"]["module"] == "nvidia-tesla-535"
    assert knowledge.package_set(FACTS, "driver", value, "open") is None
    assert knowledge.package_set(FACTS, "nccl", stack.expand("debian12-535")) is None


def test_the_links_at_the_top_lead_to_the_data():
    root = SCHEMAS.parents[1]
    for name, folder in (("compat", knowledge.COMPAT_DIR), ("stacks", knowledge.STACKS_DIR)):
        assert (root / name).resolve() == folder.resolve()


def test_a_kind_of_boards_is_known_one_by_one():
    assert len(FACTS["gpus"]["gpus"]) > 500 and "boards" not in FACTS["gpus"]
    assert all(row["source"].startswith("https://") for row in FACTS["gpus"]["gpus"])


def test_every_branch_has_versions_and_every_toolkit_a_driver_of_one():
    branches = {row["branch"] for row in FACTS["drivers"]["branches"]}
    assert {"340", "390", "470", "535", "580", "620"} <= branches
    assert [row["version"] for row in FACTS["cuda"]["toolkits"] if row["driver"] and knowledge.branch_of(row["driver"]) not in branches] == []


@pytest.mark.parametrize(("driver", "kernel", "certainty"), [
    ("470.256.02", "6.12.48", None), ("550.54.15", "6.8.0-45-generic", ...), ("580.105.08", "6.8.0-45-generic", ...)])
def test_a_driver_without_a_fix_that_its_branch_took_later_may_not_build(driver, kernel, certainty):
    row = knowledge.fails_to_build(FACTS, driver, kernel, None, None)
    assert (row or {"certainty": ...}).get("certainty") == certainty


@pytest.mark.parametrize(("version", "expected"), [("8.0.44", "367"), ("10.2", "440"), ("11.8", "450"), ("13.2.1", "580")])
def test_a_toolkit_has_the_floor_of_its_release_or_of_its_major(version, expected):
    assert knowledge.branch_of(knowledge.cuda_floor(FACTS, version)["driver"]) == expected


def test_a_branch_newer_than_every_toolkit_says_nothing_of_its_cuda():
    assert knowledge.cuda_of_driver(FACTS, "999.10") is None and knowledge.cuda_of_driver(FACTS, "550.90.07") == (12, 4)
