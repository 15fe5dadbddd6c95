# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Receipts: bounded, readable for root alone, without secrets, and what they say of the way back."""
from __future__ import annotations

import json
import stat

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import receipts
from ansible_collections.lockstep.gpu.plugins.modules import receipt as receipt_module

SOURCES = "/etc/apt/sources.list.d/lockstep-gpu.sources"


def state(packages=None, pins=None, **more):
    """A node's state with a few packages, all of them pinned unless pins are named."""
    packages = dict(packages or {})
    return dict({"manager": "apt", "packages": packages, "pins": dict(packages if pins is None else pins), "holds": [], "auto": [], "files": {},
                 "alternatives": {}, "streams": {}, "dkms": [], "running": "6.1.0-50-amd64", "default": None}, **more)


def run(known, before, after, status="done", **more):
    """Append a receipt of a run from one state to another."""
    row = receipts.opened(known, before, **more)
    known.append(receipts.closed(row, after, status) if status != "open" else row)
    return known[-1]


A, B = state({"driver": "1", "tool": "5"}), state({"driver": "2", "tool": "5"})


class TestFiles:
    def test_only_the_newest_stay_and_only_root_reads_them(self, tmp_path):
        folder, known = tmp_path / "receipts", []
        for number in range(25):
            receipts.save(run(known, state({"driver": str(number)}), state({"driver": str(number + 1)})), str(folder))
        assert len(receipts.prune(str(folder), 20)) == 5
        left = receipts.load(str(folder))
        assert [row["after"]["packages"]["driver"] for row in left] == [str(number) for number in range(6, 26)]
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}

    def test_names_are_in_the_order_of_the_runs_within_one_second_too(self):
        known = []
        for dummy in range(50):
            run(known, A, B)
        assert [row["id"] for row in known] == sorted(row["id"] for row in known)

    def test_what_is_torn_or_not_ours_is_left_out(self, tmp_path):
        (tmp_path / "20261130T000000Z-aa.json").write_text('{"schema": 1, "id": "2026', encoding="utf-8")
        (tmp_path / "20261130T000000Z-bb.json").write_text('[]', encoding="utf-8")
        (tmp_path / "20261130T000000Z-cc.json").write_text('{"schema": 99, "id": "20261130T000000Z-cc"}', encoding="utf-8")
        assert receipts.load(str(tmp_path)) == [] and receipts.load(str(tmp_path / "none")) == []


class TestSecrets:
    TEXT = ("Types: deb\nURIs: https://bob:pa55w0rd@mirror.example/cuda/\n\n[cuda]\nusername = carol\nproxy_password=s3cret\n"
            "baseurl=https://x.example/?token=t0ken&a=1\n")

    def test_nothing_secret_is_written(self, tmp_path):
        key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEpAIB\n-----END RSA PRIVATE KEY-----\n"
        row = run([], state(files={SOURCES: self.TEXT, "/k": key}), B, stack=receipts.stack_of({"name": "s", "repo": {"password": "pa55w0rd"}}),
                  who={"user": "ops", "token": "t0ken"})
        receipts.save(row, str(tmp_path))
        text = next(tmp_path.glob("*.json")).read_text(encoding="utf-8")
        assert not [word for word in ("pa55w0rd", "carol", "s3cret", "t0ken", "MIIEpAIB", "bob") if word in text] and "ops" in text
        assert json.loads(text)["stack"]["name"] == "s"

    def test_a_password_may_have_an_at_sign(self):
        text = "URIs: https://bob:pa55@w0rd@mirror.example/cuda/\n"
        assert receipts.redacted(text) == "URIs: https://REDACTED@mirror.example/cuda/\n"
        assert receipts.filled(receipts.redacted(text), text) == (text, [])

    def test_what_was_taken_out_comes_back_from_the_node(self):
        text, missing = receipts.filled(receipts.redacted(self.TEXT), self.TEXT)
        assert (text, missing) == (self.TEXT, [])

    def test_a_login_that_the_node_no_longer_has_is_missing(self):
        dummy, missing = receipts.filled(receipts.redacted(self.TEXT), "")
        assert "the login of https://mirror.example" in missing and len(missing) == 4


class TestHistory:
    def test_a_receipt_says_what_changed_and_nothing_else(self):
        row = run([], state({"driver": "1", "bash": "5"}, pins={}), state({"driver": "2", "bash": "6"}, pins={"driver": "2"}),
                  planned={"packages": {"driver": "2"}, "removed": []})
        assert row["changes"] == [{"what": "package driver", "before": "1", "after": "2"}] and "bash" not in row["before"]["packages"]

    def test_an_open_one_becomes_interrupted_and_keeps_its_before(self):
        known = []
        run(known, A, A)
        known[-1]["changes"] = [1]
        killed = run(known, A, None, status="open", planned={"packages": {"driver": "2"}, "removed": []})
        half = state({"driver": "2", "tool": "5"})
        rows, gone, interrupted = receipt_module.open_one({"kind": "site", "undoes": None, "stack": None, "closure": [], "removed": [], "who": {}},
                                                          list(known), lambda: half)
        assert interrupted == [killed["id"]] and gone == []
        assert rows[0]["status"] == "interrupted" and rows[0]["before"]["packages"]["driver"] == "1" and rows[0]["after"]["packages"]["driver"] == "2"
        assert rows[1]["status"] == "open" and rows[1]["continues"] == killed["id"]

    def test_a_killed_run_that_changed_nothing_leaves_no_receipt(self):
        known = []
        killed = run(known, A, None, status="open")
        rows, gone, interrupted = receipt_module.open_one({"kind": "site", "undoes": None, "stack": None, "closure": [], "removed": [], "who": {}},
                                                          known, lambda: A)
        assert gone == interrupted == [killed["id"]] and len(rows) == 1 and rows[0]["continues"] is None


class TestTheWayBack:
    def history(self):
        known = []
        run(known, state({}), A, stack={"name": "A"})
        run(known, A, B, stack={"name": "B"})
        return known

    def test_the_last_run_is_undone(self):
        known = self.history()
        goal = receipts.goal(receipts.chosen(known))
        assert goal["packages"] == {"driver": "1", "tool": "5"} and goal["stack"] == {"name": "A"}

    def test_a_rollback_is_undone_like_any_run(self):
        known = self.history()
        run(known, B, A, kind="rollback", undoes=known[-1]["id"], stack={"name": "A"})
        goal = receipts.goal(receipts.chosen(known))
        assert goal["packages"] == {"driver": "2", "tool": "5"} and goal["stack"] == {"name": "B"}

    def test_an_older_receipt_takes_the_later_ones_with_it(self):
        known = self.history()
        goal = receipts.goal(receipts.chosen(known, known[0]["id"]))
        assert goal["packages"] == {"driver": None, "tool": None} and goal["stack"] is None and goal["managed"] == ["driver", "tool"]

    def test_a_rollback_that_did_not_end_is_taken_up_again(self):
        known = self.history()
        target = known[-1]["id"]
        run(known, B, state({"driver": "2", "tool": "6"}), status="interrupted", kind="rollback", undoes=target)
        undone = receipts.chosen(known)
        assert [row["id"] for row in undone] == [known[2]["id"], target] and receipts.goal(undone)["packages"]["driver"] == "1"

    @pytest.mark.parametrize("status", ["interrupted", "failed"])
    def test_a_run_goes_together_with_the_one_that_it_ends(self, status):
        known = self.history()
        run(known, B, state({"driver": "3", "tool": "5"}), status=status)
        run(known, state({"driver": "3", "tool": "5"}), state({"driver": "4", "tool": "5"}))
        assert receipts.goal(receipts.chosen(known))["packages"]["driver"] == "2"

    def test_a_receipt_that_is_not_there_is_told(self):
        with pytest.raises(receipts.ReceiptError, match="no receipt nonsense; it has: 2"):
            receipts.chosen(self.history(), "nonsense")
        with pytest.raises(receipts.ReceiptError, match="no receipt of a run that changed something"):
            receipts.chosen([])

    @pytest.mark.parametrize("now, names", [({"driver": "2", "tool": "5"}, []), ({"driver": "3", "tool": "5"}, ["driver"]), ({"tool": "5"}, ["driver"])])
    def test_a_node_that_moved_on(self, now, names):
        known = self.history()
        assert [row["name"] for row in receipts.moved(known[-1], now, ["driver", "tool"])] == names

    def test_what_the_last_run_was_not_about_has_not_moved(self):
        assert receipts.moved(self.history()[-1], {"driver": "2", "tool": "5", "cuda-12-4": "12.4"}, ["cuda-12-4", "driver", "tool"]) == []

    def test_what_a_killed_run_found_and_what_it_was_to_bring_is_no_move(self):
        row = run([], A, None, status="open", planned={"packages": {"driver": "2"}, "removed": ["tool"]})
        for now in ({"driver": "1", "tool": "5"}, {"driver": "2"}):
            assert receipts.moved(row, now, ["driver", "tool"]) == []
        assert receipts.moved(row, {"driver": "9", "tool": "5"}, ["driver"])

    def test_what_the_newest_receipt_needs_comes_first(self):
        assert receipts.needs(self.history())[:2] == [("driver", "1"), ("driver", "2")]
