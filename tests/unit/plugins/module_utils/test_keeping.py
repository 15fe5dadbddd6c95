# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The store of replaced packages: bounded, what receipts need first, and never trusted without a look."""
from __future__ import annotations

import hashlib
import types

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import keeping, keeping_apt, receipts
from test_receipts import A, run


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setattr(keeping, "SPARE", 0)
    return keeping.Store(str(tmp_path / "packages"), 1000)


def package(folder, name, version, size=100):
    path = folder / ("%s_%s_amd64.deb" % (name, version))
    path.write_bytes(name.encode() * (size // len(name)))
    return name, version, str(path)


def test_what_is_kept_is_found_by_its_content(store, tmp_path):
    assert store.add([package(tmp_path, "driver", "1")]) == []
    path = store.find("driver", "1")
    row = next(iter(store.index().values()))
    assert hashlib.sha256(open(path, "rb").read()).hexdigest() == row["sha256"] and store.find("driver", "2") is None
    with open(path, "r+b") as handle:
        handle.write(b"x")
    assert store.has("driver", "1") and store.find("driver", "1") is None


def test_a_file_that_is_too_large_is_not_kept_and_told(store, tmp_path):
    assert [row["name"] for row in store.add([package(tmp_path, "cuda", "1", 2000)])] == ["cuda"] and store.index() == {}


def test_what_the_newest_receipts_need_stays_and_strangers_leave(store, tmp_path):
    store.add([package(tmp_path, name, "1", 400) for name in ("aaaa", "bbbb", "cccc", "dddd")])
    (tmp_path / "packages" / "torn.deb").write_bytes(b"x")
    store.prune([("dddd", "1"), ("bbbb", "1")])
    assert sorted(row["name"] for row in store.index().values()) == ["bbbb", "dddd"]
    assert {path.name for path in (tmp_path / "packages").iterdir()} == {"index.json", "bbbb_1_amd64.deb", "dddd_1_amd64.deb"}


def test_an_index_that_cannot_be_read_is_none(store, tmp_path):
    store.add([package(tmp_path, "driver", "1")])
    (tmp_path / "packages" / "index.json").write_text("{", encoding="utf-8")
    assert store.index() == {} and store.find("driver", "1") is None


def test_the_open_receipt_says_what_was_kept_and_what_was_not(store, tmp_path):
    notes = str(tmp_path / "receipts")
    receipts.save(run([], A, None, status="open"), notes)

    def fetch(_run, target, wanted):
        assert wanted == {"driver": "1", "tool": "5"}
        target.add([package(tmp_path, "driver", "1")])
        return [{"name": "tool", "version": "5", "reason": "nobody has it"}]

    kept, lost = keeping.keep(None, types.SimpleNamespace(fetch=fetch), {"driver": "1", "tool": "5"}, 1, folder=store.folder, notes=notes)
    row = receipts.load(notes)[0]
    assert kept == row["kept"] == ["driver=1"] and lost == row["not_kept"] == [{"name": "tool", "version": "5", "reason": "nobody has it"}]


def test_nothing_is_kept_where_nothing_may(store):
    assert keeping.keep(None, None, {"driver": "1"}, 0, folder=store.folder) == ([], [])


@pytest.mark.parametrize("content, whole", [
    (b"!<arch>\n" + b"%-48s%-10d`\n" % (b"debian-binary", 4) + b"2.0\n", True),
    (b"!<arch>\n" + b"%-48s%-10d`\n" % (b"debian-binary", 5) + b"2.0\n", False),
    (b"!<arch>\n" + b"%-48s%-10d`\n" % (b"debian-binary", 3) + b"2.0\n", True),
    (b"!<arch>\n" + b"junk", False), (b"<html>", False), (b"", False)])
def test_a_deb_ends_where_it_should(tmp_path, content, whole):
    path = tmp_path / "a.deb"
    path.write_bytes(content)
    assert keeping_apt.is_whole(str(path)) is whole
