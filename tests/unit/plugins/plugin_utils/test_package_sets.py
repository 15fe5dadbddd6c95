# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which set of packages a stack gets, and whose a package is by its name."""
from __future__ import annotations

import pathlib
import re
import sys

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge, package_sets

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from stubs import tables  # noqa: E402  (needs the path above)

FACTS = knowledge.load()
PRODUCTS = FACTS["packages"]["products"]
SETS = [(product, row) for product, entry in PRODUCTS.items() for row in entry["sets"]]


def chosen(product, system, **words):
    release = system.rpartition("-")
    return package_sets.find(FACTS, product, {"os": {"id": release[0], "release": release[2]}, product: words}, words.get("flavour"))


@pytest.mark.parametrize(("system", "there"), [
    ("rocky-9", True), ("rhel-9.4", True), ("almalinux-9.8", True), ("ol-9", True), ("centos-9", True), ("rocky-8", False), ("rocky-90", False),
    ("fedora-42", False)])
def test_a_minor_release_has_its_majors_sets(system, there):
    assert bool(chosen("container_toolkit", system, version="1.18.2")) is there


@pytest.mark.parametrize(("system", "there"), [("ubuntu-22.04", True), ("ubuntu-24.04", True), ("ubuntu-22", False), ("ubuntu-22.10", False)])
def test_a_release_is_never_coarser_than_its_row(system, there):
    assert bool(chosen("container_toolkit", system, version="1.18.2")) is there


@pytest.mark.parametrize(("limits", "inside", "outside"), [
    (["535", "589"], ["535", "580", "589"], ["534", "590", ""]), (["590", None], ["590", "610"], ["589", "x"]), ([None, "579"], ["450", "579"], ["580"])])
def test_branches_are_a_range_with_both_ends(limits, inside, outside):
    assert all(package_sets.in_range(branch, limits) for branch in inside)
    assert not any(package_sets.in_range(branch, limits) for branch in outside)


@pytest.mark.parametrize(("words", "first"), [
    ({"version": "580.126.20", "source": "nvidia", "flavour": "open"}, "nvidia-dkms-{branch}-open"),
    ({"version": "580.126.20", "source": "nvidia", "flavour": "proprietary"}, "nvidia-dkms-{branch}"),
    ({"version": "595.71.05", "source": "nvidia", "flavour": "open"}, "nvidia-dkms-open"),
    ({"version": "595.71.05", "source": "nvidia", "flavour": "proprietary"}, "nvidia-dkms"),
    ({"version": "595.84", "source": "distribution", "flavour": "open"}, "nvidia-dkms-{branch}-open"),
    ({"version": "580.126.09", "source": "distribution", "flavour": "open", "stream": "server"}, "nvidia-dkms-{branch}-server-open"),
    ({"version": "595.84", "source": "distribution", "flavour": "proprietary", "module": "precompiled"}, "nvidia-utils-{branch}"),
    ({"version": "580.126.20", "source": "nvidia", "flavour": "open", "module": "precompiled"}, None),
    ({"version": "580.126.20", "source": "nvidia", "flavour": "open", "stream": "580-open"}, None),
    ({"version": "470.256.02", "source": "nvidia", "flavour": "proprietary"}, None),
])
def test_ubuntus_sets_are_by_origin_era_and_kind(words, first):
    row = chosen("driver", "ubuntu-22.04", **words)
    assert (row["requests"][0]["name"] if row else None) == first


@pytest.mark.parametrize(("system", "words", "stream"), [
    ("rocky-9", {"flavour": "open"}, "nvidia-driver:{branch}-open"), ("rocky-9", {"flavour": "proprietary"}, "nvidia-driver:{branch}-dkms"),
    ("rocky-9", {"flavour": "proprietary", "module": "precompiled"}, "nvidia-driver:{branch}"),
    ("rocky-9", {"flavour": "open", "module": "precompiled"}, "none"),
    ("rocky-9", {"flavour": "open", "stream": "580-open"}, "nvidia-driver:{branch}-open"), ("rocky-10", {"flavour": "open"}, None),
    ("rocky-10", {"flavour": "open", "stream": "580-open"}, "none"), ("rocky-10", {"flavour": "proprietary", "module": "precompiled"}, "none")])
def test_streams_are_those_of_the_release(system, words, stream):
    row = chosen("driver", system, version="580.126.20", source="nvidia", **words)
    assert (row.get("stream") if row else "none") == stream


@pytest.mark.parametrize(("system", "driver", "product", "source"), [
    ("debian", None, "cuda", "distribution"), ("debian", "distribution", "nccl", "distribution"), ("debian", "nvidia", "cuda", "nvidia"),
    ("ubuntu", None, "cuda", "nvidia"), ("ubuntu", "distribution", "nccl", "nvidia"), ("rocky", None, "nccl", "nvidia"),
    ("ubuntu", "distribution", "fabric", "distribution"), ("ubuntu", "nvidia", "fabric", "nvidia"), ("ubuntu", None, "driver", None)])
def test_where_a_component_comes_from_when_nobody_says(system, driver, product, source):
    stack = {"os": {"id": system, "release": "12"}, "driver": {"source": driver} if driver else None}
    assert package_sets.source_of(product, stack) == source
    assert package_sets.source_of(product, dict(stack, **{product: {"source": "nvidia"}})) == "nvidia"


def names_in_tables():
    return sorted({row.name for path in sorted(tables.DATA.glob("*.yml")) for row in tables.load(path.stem).rows})


def test_a_name_belongs_to_one_product_at_most():
    owners = {product: package_sets.names_of(FACTS, product) for product in PRODUCTS}
    for name in names_in_tables():
        found = [product for product, patterns in owners.items() if any(re.fullmatch(pattern, name) for pattern in patterns)]
        assert len(found) <= 1, (name, found)


@pytest.mark.parametrize(("name", "product"), [
    ("libnvidia-container1", "container_toolkit"), ("nvidia-container-toolkit-base", "container_toolkit"), ("libnvidia-compute-580", "driver"),
    ("libnvidia-nscq-570", "fabric"), ("libnvsdm", "fabric"), ("nvidia-imex", "fabric"), ("cuda-drivers-fabricmanager-570", "fabric"),
    ("cuda-drivers", "driver"),
    ("cuda-cudart-12-8", "cuda"), ("libcublas-dev-12-8", "cuda"), ("nsight-compute-2025.1.0", "cuda"), ("libnccl2", "nccl"), ("libnccl-devel", "nccl"),
    ("datacenter-gpu-manager-4-core", "dcgm"), ("datacenter-gpu-manager-exporter", "dcgm"), ("nvlsm", "fabric"), ("nvidia-modprobe", "driver"),
    ("linux-modules-nvidia-595-6.8.0-138-generic", "driver"), ("linux-modules-6.8.0-138-generic", "kernel"), ("rdma-core", "ofed"),
    ("kmod-nvidia-open-dkms", "driver")])
def test_names_are_the_products(name, product):
    assert [one for one in PRODUCTS if any(re.fullmatch(pattern, name) for pattern in package_sets.names_of(FACTS, one))] == [product]


@pytest.mark.parametrize("position", range(len(SETS)))
def test_every_set_can_be_used(position):
    product, row = SETS[position]
    for pattern in [*row.get("one_names", []), *row.get("names", []),
                    *(ask["version"].replace("{", "x").replace("}", "x") for ask in row.get("requests") or [])]:
        re.compile(pattern)
    names = row["when"]["os"] if isinstance(row["when"]["os"], list) else [row["when"]["os"]]
    for name in row.get("repositories", []):
        for system in names:
            for release in row["when"]["release"]:
                if knowledge.distribution(FACTS, {"id": system, "release": release}):
                    assert [one for one in FACTS["repositories"]["repositories"]
                            if one["id"] == name and package_sets.same_system(one["when"], {"id": system, "release": release})], (product, name, system,
                                                                                                                                  release)
    if product == "driver":
        assert (row.get("dkms") or row.get("modules")) and row["when"]["flavour"]


def test_a_pattern_of_one_maker_refuses_the_others_revisions():
    # Ubuntu's and NVIDIA's packages of one name, in both directions.
    for product, row in SETS:
        names = row["when"]["os"] if isinstance(row["when"]["os"], list) else [row["when"]["os"]]
        if product == "driver" and names == ["ubuntu"]:
            pattern = next(ask["version"] for ask in row["requests"] if "{version}" in ask["version"]).replace("{version}", r"580\.126\.09")
            fits = {version for version in ("580.126.09-0ubuntu0.22.04.1", "580.126.09-1ubuntu1", "580.126.09-0ubuntu1",
                                            "580.126.09-1") if re.fullmatch(pattern, version)}
            assert fits == ({"580.126.09-0ubuntu0.22.04.1"} if row["when"]["source"] == "distribution" else
                            {"580.126.09-1ubuntu1", "580.126.09-0ubuntu1", "580.126.09-1"}), row["when"]


def test_the_sets_of_all_files_are_one_and_debians_come_first():
    assert [name for name in FACTS if name.startswith("packages")] == ["packages"]
    assert PRODUCTS["driver"]["sets"][0]["when"]["os"] == "debian" and len(PRODUCTS["driver"]["sets"]) > 25
