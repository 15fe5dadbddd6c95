# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What leads back: differences, what is left, what is refused before any change."""
from __future__ import annotations

import types

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import keeping, pinning, receipts, restoring, versions
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import PackageError, Refused
from ansible_collections.lockstep.gpu.plugins.modules import restored_packages
from test_receipts import A, B, run, state

RUNNING = "6.1.0-50-amd64"
EL = "5.14.0-570.18.1.el9_6.x86_64"


def goal(packages, managed=None):
    return {"packages": packages, "managed": sorted(packages if managed is None else managed)}


class TestDifferences:
    def test_managed_names_come_move_and_leave(self):
        found = restoring.differences(goal({"driver": "1", "old": "1", "new": None, "same": "3"}), {"driver": "2", "new": "1", "same": "3"}, RUNNING)
        assert found == {"ask": {"driver": "1", "old": "1"}, "remove": ["new"], "soft": [], "surplus": {}, "left": []}

    def test_what_was_merely_needed_leaves_if_it_may_and_never_goes_back(self):
        found = restoring.differences(goal({"gcc": None, "libc6": "2.35", "gone": "1"}, []), {"gcc": "12", "libc6": "2.36"}, RUNNING)
        assert found["soft"] == ["gcc"] and found["ask"] == {"gone": "1"} and [row["name"] for row in found["left"]] == ["libc6"]

    @pytest.mark.parametrize("name, version, running", [
        ("linux-image-6.1.0-50-amd64", "6.1.176-1", RUNNING), ("linux-headers-6.1.0-50-common", "6.1.176-1", RUNNING),
        ("linux-modules-nvidia-580-open-6.8.0-138-generic", "6.8.0-138.138", "6.8.0-138-generic"), ("kernel-core", "5.14.0-570.18.1.el9_6", EL)])
    def test_the_running_kernel_stays(self, name, version, running):
        found = restoring.differences(goal({name: None}), {name: version}, running)
        assert found["remove"] == [] and "running kernel" in found["left"][0]["reason"]

    def test_kernels_side_by_side(self):
        there, both = "5.14.0-503.14.1.el9_5", "5.14.0-570.18.1.el9_6 5.14.0-503.14.1.el9_5"
        assert restoring.differences(goal({"kernel-core": there}), {"kernel-core": both}, RUNNING)["surplus"] == {"kernel-core": [both.split()[0]]}
        assert restoring.differences(goal({"kernel-core": both}), {"kernel-core": there}, RUNNING)["ask"] == {"kernel-core": both.split()[0]}


class Session:
    """A package manager that does what it is told, and more: unwanted."""

    def __init__(self, kept=(), unwanted=(), needed=()):
        self.kept, self.unwanted, self.needed, self.closed = kept, unwanted, set(needed), False

    def side_by_side(self):
        return ()

    def files(self, asks):
        return {}, [name for name in sorted(asks) if name not in self.kept]

    def simulate(self, change):
        if self.unwanted == "impossible":
            raise PackageError("unmet dependencies")
        extra = ["somebodys-own"] if self.needed & {*change["soft"]} else []
        return dict(change["ask"]), [*change["remove"], *change["soft"], *self.unwanted, *extra]

    def close(self):
        self.closed = True


@pytest.fixture
def way(tmp_path, monkeypatch):
    """A function that makes a Restore of a node that went from A to B."""
    monkeypatch.setattr(receipts.load, "__defaults__", (str(tmp_path / "receipts"),))
    monkeypatch.setattr(keeping, "FOLDER", str(tmp_path / "packages"))
    known = []
    receipts.save(run(known, state({"driver": "0"}), A, stack={"name": "A", "mapping": {"driver": "1"}}), str(tmp_path / "receipts"))
    receipts.save(run(known, A, B, stack={"name": "B", "mapping": {"driver": "2"}}), str(tmp_path / "receipts"))

    def make(session, now=None, moved=False, receipt=None):
        backend = types.SimpleNamespace(SOURCES_FILE=str(tmp_path / "sources"), PINS_FILE=str(tmp_path / "pins"), wait_for_lock=lambda: None,
                                        compare=versions.compare)
        monkeypatch.setattr(restoring.node_snapshot, "take", lambda run, backend: now or B)
        return restoring.Restore(None, backend, {"receipt": receipt, "moved": moved, "keep_mib": 100}, lambda *words: session)
    return make


def test_the_plan_is_what_would_be_done(way):
    session = Session(kept=["driver"])
    found = way(session)
    found.plan()
    told = restored_packages.told(found)
    assert told["actions"] == [{"action": "downgrade_exact", "target": "driver=1"}] and told["changed"] and session.closed
    assert told["stack"] == {"driver": "1"} and told["stack_now"] == {"driver": "2"}
    assert told["diff"] == [{"before_header": "packages", "after_header": "packages", "before": "driver=2\n", "after": "driver=1\n"}]


@pytest.mark.parametrize("session, now, words", [
    (Session(), B, "driver=1 is neither kept on this node nor in an archive"),
    (Session(kept=["driver"], unwanted=["desktop"]), B, "desktop would be removed, which was there before"),
    (Session(kept=["driver"], unwanted="impossible"), B, "no transaction leads there"),
    (Session(kept=["driver"]), state({"driver": "7", "tool": "5"}), "driver is 7, the last receipt says 2: the node has moved on"),
    (Session(kept=["driver"]), dict(B, manager="dnf"), "of a node with apt"),
])
def test_refused_before_any_change(way, session, now, words):
    with pytest.raises(Refused, match=words) as refused:
        way(session, now).plan()
    assert {row["code"] for row in refused.value.problems} == {"rollback_not_possible"}


def test_repositories_that_do_not_answer_are_a_refusal(way):
    found = way(Session())

    def no_answer(*_words):
        raise PackageError("the repositories cannot be read: no route")
    found._open = no_answer
    with pytest.raises(Refused, match="no route"):
        found.plan()


def test_a_node_that_moved_on_goes_back_when_told(way):
    found = way(Session(kept=["driver"]), state({"driver": "7", "tool": "5"}), moved=True)
    found.plan()
    assert found.change["ask"] == {"driver": "1"}


def test_a_name_that_something_else_needs_by_now_stays():
    change = {"ask": {}, "remove": [], "soft": ["gcc", "make"], "surplus": {}, "left": []}
    found = restoring.settled(Session(needed=["gcc"]), change)
    assert found["soft"] == ["make"] and [row["name"] for row in found["left"]] == ["gcc"]


class TestKernel:
    def test_a_default_kernel_that_is_gone_is_refused(self, tmp_path):
        rows = restoring.kernel_problems({"default": RUNNING, "dkms": []}, {"ask": {}}, str(tmp_path))
        assert [row["name"] for row in rows] == [RUNNING]
        assert restoring.kernel_problems({"default": RUNNING, "dkms": []}, {"ask": {"linux-image-" + RUNNING: "1"}}, str(tmp_path)) == []
        assert restoring.kernel_problems({"default": None, "dkms": []}, {"ask": {}}, str(tmp_path)) == []
        for version, problems in (("5.14.0-570.18.1.el9_6", 0), ("5.14.0-503.14.1.el9_5", 1)):
            assert len(restoring.kernel_problems({"default": EL, "dkms": []}, {"ask": {"kernel-core": version}}, str(tmp_path))) == problems

    def test_a_module_needs_headers(self, tmp_path):
        (tmp_path / "boot").mkdir()
        (tmp_path / "boot" / ("vmlinuz-" + RUNNING)).write_bytes(b"")
        dkms = [{"module": "nvidia", "version": "1", "kernel": RUNNING, "arch": "x86_64", "state": "installed"}]
        assert "headers are gone" in restoring.kernel_problems({"default": RUNNING, "dkms": dkms}, {"ask": {}}, str(tmp_path))[0]["message"]
        (tmp_path / "lib/modules" / RUNNING / "build").mkdir(parents=True)
        assert restoring.kernel_problems({"default": RUNNING, "dkms": dkms}, {"ask": {}}, str(tmp_path)) == []


def test_the_backend_of_apt_is_known():
    assert restoring.node_snapshot.manager_of(pinning) == "apt"
