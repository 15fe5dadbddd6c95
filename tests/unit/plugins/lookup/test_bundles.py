# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which bundles a folder holds."""
from __future__ import annotations

import pytest
from ansible.errors import AnsibleLookupError
from ansible_collections.lockstep.gpu.plugins.lookup.bundles import LookupModule


@pytest.fixture
def folder(tmp_path):
    for name in ("a/one", "a/two", "b/one"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "bundle.yml").write_text("inputs: []\n")
    (tmp_path / "a" / "notes").mkdir()
    return tmp_path


def look(*terms):
    return LookupModule().run([str(term) for term in terms])


def test_a_bundle_is_itself(folder):
    assert look(folder / "a" / "one") == [{"name": "one", "path": str(folder / "a" / "one")}]


def test_a_folder_stands_for_its_bundles(folder):
    assert [row["name"] for row in look(folder / "a")] == ["one", "two"]


def test_names_that_occur_twice_carry_their_folder(folder):
    assert [row["name"] for row in look(folder / "a", folder / "b", folder / "a" / "one")] == ["a-one", "two", "b-one"]


@pytest.mark.parametrize("name, words", [("a/notes", "is no bundle"), ("nowhere", "does not exist"), ("a/one/bundle.yml", "name its folder")])
def test_nothing_there_is_an_error(folder, name, words):
    with pytest.raises(AnsibleLookupError, match=words):
        look(folder / name)


def test_a_name_is_needed():
    with pytest.raises(AnsibleLookupError, match="without a name"):
        look("")
