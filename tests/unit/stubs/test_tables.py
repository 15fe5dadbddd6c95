# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables, and what is derived from them."""
from __future__ import annotations

import re

import pytest
from stubs import repositories, tables, variants

ALL = repositories.ids()


def test_an_entry_stands_for_a_row_per_name_and_version():
    entry = {"names": ["libnvidia-compute-$b", "nvidia-dkms-$b"], "depends": ["x (= $v)", "y (>= $u)"], "files": ["/lib/firmware/$u/a"],
             "relations": "spec", "seen": ["580.126.20-1ubuntu1"], "inferred": ["550.90.07-0ubuntu1"]}
    rows = {(row.name, row.certainty): row for row in tables.expand(entry, "deb", [["libnvidia-.*-(\\d+)", "drivers-\\1"]])}
    row = rows["libnvidia-compute-580", "seen"]
    assert len(rows) == 4 and row.relations == {"depends": ["x (= 580.126.20-1ubuntu1)", "y (>= 580.126.20)"]}
    assert row.files == ("/lib/firmware/580.126.20/a",) and row.relation_certainty == "spec" and row.arch == "amd64"
    assert row.source == "drivers-580" and rows["nvidia-dkms-550", "inferred"].source == ""


def test_a_version_that_yaml_takes_for_a_number_is_refused():
    with pytest.raises(ValueError, match="quote this version: 1.5 of x"):
        list(tables.expand({"name": "x", "seen": [1.5]}, "deb"))


@pytest.mark.parametrize("version, want", [
    ("3:580.126.20-1.el9", {"w": "580.126.20-1.el9", "u": "580.126.20", "b": "580"}),
    ("12.8.57-1", {"w": "12.8.57-1", "u": "12.8.57", "c": "12-8"}),
    ("6.8.0-31.31", {"w": "6.8.0-31.31", "u": "6.8.0", "a": "6.8.0-31"}),
    ("2.21.5-1+cuda12.4", {"w": "2.21.5-1+cuda12.4", "u": "2.21.5"})])
def test_parts_of_versions(version, want):
    assert tables.parts(version) == dict(want, v=version)


@pytest.mark.parametrize("identifier", ALL)
def test_each_repository_is_sound(identifier):
    repo = repositories.get(identifier)
    assert repo.rows and all(row.certainty in tables.CERTAINTIES and row.relation_certainty in tables.CERTAINTIES for row in repo.rows)
    for row in repo.rows:
        text = " ".join([row.name, row.version, *row.files, *(one for texts in row.relations.values() for one in texts)])
        assert "$" not in text and (repo.kind == "deb" or "-" in row.version), row
    # What one repository asks for exactly, of a name that it has, it offers; rpm's "= 580.126.20" takes any release of it.
    there = {(row.name, version) for row in repo.rows for version in (row.version, row.version.rsplit("-", 1)[0] if repo.kind == "rpm" else "")}
    provided = {re.sub("[()]", "", text) for row in repo.rows for text in row.relations.get("provides", ())}
    names = {row.name for row in repo.rows}
    for row in repo.rows:
        for text in row.relations.get("depends", ()):
            exact = re.fullmatch(r"(\S+) \(?= ([^)\s]+)\)?", text)
            assert not exact or exact.group(1) not in names or exact.groups() in there or re.sub("[()]", "", text) in provided, (row.nevra, text)


def test_releases_are_repositories_of_their_own():
    assert "doca-ubuntu2204-3.2.1-044000" in ALL and "mlnx-ofed-ubuntu2204-24.10-1.1.4.0" in ALL
    repo = repositories.get("doca-ubuntu2204-3.2.1-044000")
    assert repo.meta["label"] == "DOCA-HOST-3.2.1-044000" and {row.release for row in repo.rows} == {"3.2.1-044000"}
    with pytest.raises(KeyError):
        repositories.get("doca-ubuntu2204-9")


def test_el_10_is_el_9_by_its_rule():
    repo = repositories.get("el10-cuda")
    rows = {(row.name, row.version) for row in repo.rows}
    assert ("nvidia-open", "3:580.65.06-1.el10") in rows and repo.module is None
    assert not any(".el9" in str(row) for row in repo.rows) and not any(re.match(r"kmod-nvidia-\d", row.name) for row in repo.rows)
    assert {row.certainty for row in repo.rows} == {"derived"}
    common = next(row for row in repo.rows if (row.name, row.upstream) == ("nvidia-kmod-common", "580.126.20"))
    assert common.relations["recommends"] == ["kmod-nvidia-open-dkms = 3:580.126.20"]
    assert {row.version for row in repositories.get("el10-baseos").rows} == set(repositories.EL10_KERNELS)


def test_profiles_of_a_module_are_written_out():
    module = {"streams": [{"profiles": {"default": ["a", "b"], "fm": ["+default", "c"], "ks": ["+default", "-a"]}}]}
    assert tables.profiles(module)["streams"][0]["profiles"] == {"default": ["a", "b"], "fm": ["a", "b", "c"], "ks": ["b"]}


def _row(name, version):
    return tables.Row(name, version, "amd64", {})


@pytest.mark.parametrize("row, there", [
    (_row("nvidia-dkms-580", "580.126.20-1ubuntu1"), True), (_row("nvidia-dkms-580", "580.159.03-1ubuntu1"), False),
    (_row("libnccl2", "2.31.2-1+cuda13.4"), True), (_row("nvidia-driver-pinning-590", "590-1"), False),
    (_row("nvidia-driver-pinning-580", "580-1"), True), (_row("linux-image-6.8.0-138-generic", "6.8.0-138.138"), True),
    (_row("datacenter-gpu-manager", "1:3.3.6"), True), (_row("nvidia-open", "3:610.57.04-1.el9"), False)])
def test_a_day_has_no_newer_driver(row, there):
    assert variants.until("580.126.20")(row) is there
    assert variants.parse(["x=580.126.20"], [])("x", row) is there and variants.parse(["x=580.126.20"], [])("y", row)


def test_rows_are_dropped_by_name_and_version():
    keep = variants.parse([], [r"x=nvidia-.*=580\..*", "*=gone"])
    assert not keep("x", _row("nvidia-smi", "580.1-1")) and keep("x", _row("nvidia-smi", "570.1-1")) and keep("y", _row("nvidia-smi", "580.1-1"))
    assert not keep("y", _row("gone", "1"))
    assert variants.only("a", "1.*")(_row("b", "2")) and not variants.only("a", "1.*")(_row("a", "2"))
