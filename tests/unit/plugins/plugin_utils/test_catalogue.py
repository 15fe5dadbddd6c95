# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The claims of the catalogue: sourced, judged without an error, and never installed."""
from __future__ import annotations

import json
import pathlib

import jsonschema
import pytest
import yaml
from ansible_collections.lockstep.gpu.plugins.filter import lockstep
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge, stack

ROOT = pathlib.Path(__file__).resolve().parents[4]
SCHEMA = json.loads((ROOT / "tests" / "schema" / "claim.json").read_text(encoding="utf-8"))
FILES = sorted((knowledge.STACKS_DIR / "claims").glob("*"))


def content(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def each(function):
    return pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)(function)


@each
def test_a_claim_fits_its_schema(path):
    assert path.suffix == ".yml"
    jsonschema.Draft202012Validator(SCHEMA).validate(content(path))


@each
def test_a_claim_is_judged_without_an_error(path):
    found = lockstep.findings(path.stem)
    assert not [(row["code"], row["subject"]) for row in found if row["severity"] == "error"]
    assert len(found) <= 2
    assert stack.expand(path.stem, exact=False)["name"] == path.stem


@each
def test_a_claim_is_refused_where_something_would_be_installed(path):
    with pytest.raises(stack.StackError) as caught:
        stack.expand(path.stem)
    assert caught.value.code == "version_not_exact"
    assert "only a claim" in str(caught.value) and content(path)["missing"][0] in str(caught.value)
    assert set(caught.value.candidates) <= set(stack.names()) and caught.value.candidates


def test_claims_and_stacks_have_names_of_their_own():
    assert stack.claims() == [path.stem for path in FILES]
    assert not set(stack.claims()) & set(stack.names())
    assert 25 <= len(FILES) <= 40


def test_own_claims_are_found_beside_own_stacks(tmp_path):
    (tmp_path / "claims").mkdir()
    (tmp_path / "claims" / "ours.yml").write_text("driver: '580'\nmissing: [driver.version]\n")
    assert "ours" in stack.claims(str(tmp_path))
    assert stack.expand("ours", str(tmp_path), exact=False)["driver"] == {"version": "580"}
    with pytest.raises(stack.StackError, match="only a claim"):
        stack.expand("ours", str(tmp_path))


@pytest.mark.parametrize("value", [{"claim": True, "os": "debian-13", "driver": "550.163.01"},
                                   {"missing": ["kernel"], "os": "debian-13", "driver": "550.163.01"}])
def test_a_mapping_that_calls_itself_a_claim_is_not_installed(value):
    with pytest.raises(stack.StackError, match="only a claim"):
        stack.expand(value)
    assert stack.expand(value, exact=False)["driver"] == {"version": "550.163.01"}


def test_a_slip_in_the_name_of_a_claim_shows_the_claims_too():
    with pytest.raises(stack.StackError) as caught:
        stack.expand("ubuntu2404-azure-58", exact=False)
    assert caught.value.code == "stack_unknown" and "ubuntu2404-azure-580" in caught.value.candidates
    with pytest.raises(stack.StackError) as caught:
        stack.expand("debian13-55")
    assert "debian13-550" in caught.value.candidates and not set(caught.value.candidates) & set(stack.claims())


def table():
    """The catalogue as docs/stacks.md shows it."""
    lines = ["| claim | what | driver | CUDA |", "| --- | --- | --- | --- |"]
    for path in FILES:
        words = content(path)
        driver = [words["driver"]["version"], *words["driver"].get("alternatives", [])]
        cuda = (words.get("cuda") or {}).get("versions", [])
        lines.append("| [%s](../plugins/plugin_utils/stacks/claims/%s) | %s | %s | %s |" % (
            path.stem, path.name, words["description"], ", ".join(driver), ", ".join(cuda)))
    return "\n".join(lines)


def test_the_docs_show_the_catalogue():
    assert table() in (ROOT / "docs" / "stacks.md").read_text(encoding="utf-8")
