# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The receipt module from call to call: open, closed, nothing in check mode, nothing for a run that changed nothing."""
from __future__ import annotations

import pytest

from ansible_collections.lockstep.gpu.plugins.action import receipt as action
from ansible_collections.lockstep.gpu.plugins.module_utils import receipts
from ansible_collections.lockstep.gpu.plugins.modules import receipt


class Done(Exception):
    """The module has ended."""


@pytest.fixture
def call(tmp_path, monkeypatch):
    """A function that calls the module on a node whose packages are `call.packages`; its result."""
    folder = str(tmp_path / "receipts")
    for function in (receipts.load, receipts.save, receipts.drop):
        monkeypatch.setattr(function, "__defaults__", (folder,))
    monkeypatch.setattr(receipts.prune, "__defaults__", (folder, receipts.KEEP))
    monkeypatch.setattr(receipt.os, "geteuid", lambda: 0)
    monkeypatch.setattr(receipt.pinned_node, "backend_for", lambda manager: Module)

    class Module:
        check = False

        def __init__(self, argument_spec, supports_check_mode):
            self.params = {name: row.get("default") for name, row in argument_spec.items()}
            self.params.update(run.params)
            self.check_mode = run.check

        @staticmethod
        def prepare(_module):
            """A backend that needs nothing."""

        def exit_json(self, **result):
            run.result = result
            raise Done

        def fail_json(self, **result):
            raise AssertionError(result)

    def run(check=False, **params):
        run.params, run.check = params, check
        with pytest.raises(Done):
            receipt.main()
        return run.result

    run.packages = {"driver": "1"}
    monkeypatch.setattr(receipt, "AnsibleModule", Module)
    monkeypatch.setattr(receipt.node_snapshot, "take", lambda _run, _backend: {
        "manager": "apt", "packages": dict(run.packages), "pins": dict(run.packages), "holds": [], "auto": [], "files": {}, "alternatives": {},
        "streams": {}, "dkms": [], "running": "6.1", "default": None})
    run.folder = tmp_path / "receipts"
    return run


def test_a_run_and_its_receipt(call):
    opened = call(state="open", stack={"name": "B"}, who=action.who())
    assert opened["changed"] and opened["receipts"][0]["status"] == "open" and set(opened["receipts"][0]["who"]) == {"user", "host", "ansible"}
    call.packages = {"driver": "2"}
    closed = call(state="closed", succeeded=False, reason="no space")
    row = closed["receipts"][0]
    assert closed["id"] == opened["id"] and (row["status"], row["message"], row["changes"], row["stack"]) == ("failed", "no space", 1, "B")
    assert not call(state="closed")["changed"]


def test_a_run_that_changed_nothing_leaves_none(call):
    call(state="open")
    closed = call(state="closed")
    assert closed["receipts"] == [] and closed["id"] is None


def test_a_check_writes_nothing(call):
    assert not call(check=True, state="open")["changed"] and not call.folder.exists()
    assert call()["receipts"] == []


def test_a_killed_run_is_named_by_the_next(call):
    first = call(state="open")["id"]
    call.packages = {"driver": "2"}
    again = call(state="open")
    assert again["interrupted"] == [first] and [row["status"] for row in again["receipts"]] == ["interrupted", "open"]


def test_only_so_many_stay(call):
    for number in range(6):
        call(state="open", keep=3)
        call.packages = {"driver": str(number + 10)}
        call(state="closed")
    assert len(call()["receipts"]) == 3
