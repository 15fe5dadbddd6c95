# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From one stack to another and back by the receipts: dpkg's and rpm's own word about what is there, before and after."""
from __future__ import annotations

import json
import os
import pathlib
import subprocess
import types

import pytest

import ansible
import ansible_collections
from ansible_collections.lockstep.gpu.plugins.module_utils import keeping, node_snapshot, pinning, receipts, restoring, restoring_apt
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import Refused
from ansible_collections.lockstep.gpu.plugins.module_utils.run import Result
from ansible_collections.lockstep.gpu.plugins.modules import receipt as receipt_module
from collection import PYTHON, need_of

UBUNTU = ("ubuntu2204-cuda", "ubuntu2204-archive")
A, B = "550.54.15", "580.126.20"


def ubuntu(version, **more):
    return dict({"os": "ubuntu-22.04", "driver": {"version": version, "source": "nvidia", "flavour": "proprietary"}}, **more)


class Apt:
    """The collection on a private root, with receipts and kept packages of its own."""

    def __init__(self, node, ours):
        self.node, self.ours = node, ours

    def site(self, version, killed=False, **more):
        """A run with its receipt; killed: it never gets to close it."""
        need = need_of(ubuntu(version, **more))
        call = self.ours.step(need)
        call.keep_mib = 4096
        call.resolve()
        self.open(closure=call.rows, removed=call.removed, stack={"name": version})
        call.apply()
        if not killed:
            self.close()

    def open(self, **params):
        params = dict({"kind": "site", "undoes": None, "stack": None, "closure": [], "removed": [], "who": {"user": "ops"}}, **params)
        rows, gone, interrupted = receipt_module.open_one(params, receipts.load(receipts.FOLDER), self.take)
        for row in rows:
            receipts.save(row, receipts.FOLDER)
        return interrupted

    def close(self, status="done"):
        known = receipts.load(receipts.FOLDER)
        receipts.save(receipts.closed(receipts.still_open(known), self.take(), status), receipts.FOLDER)

    def run(self, argv, **more):
        """As on a node without DKMS."""
        return Result(127, "", "dkms is not installed") if argv[0] == "dkms" else self.ours.run(argv, **more)

    def take(self):
        return node_snapshot.take(self.run, pinning)

    def way(self, receipt=None, moved=False):
        way = restoring.Restore(self.run, pinning, {"receipt": receipt, "moved": moved, "keep_mib": 4096}, restoring_apt.Session)
        way.plan()
        return way

    def rollback(self, **more):
        way = self.way(**more)
        goal = way.goal["stack"] or {}
        self.open(kind="rollback", undoes=way.undone[-1]["id"], stack=goal.get("mapping"),
                  closure=[{"name": name, "version": version} for name, version in way.change["ask"].items()],
                  removed=[*way.change["remove"], *way.change["soft"]])
        way = self.way(**dict(more, receipt=way.undone[-1]["id"]))
        way.apply()
        self.close()
        return way

    def seen(self):
        """What dpkg, apt and the pin file say."""
        text = self.node.apt("dpkg-query", "-W", "-f", "${Package} ${Version} ${db:Status-Status}\\n")[1]
        return sorted(text.splitlines()), sorted(self.node.apt("apt-mark", "showhold")[1].split()), self.ours.pins()


@pytest.fixture
def stores(tmp_path, monkeypatch):
    """Folders of the test's own in the place of the node's."""
    monkeypatch.setattr(receipts, "FOLDER", str(tmp_path / "receipts"))
    monkeypatch.setattr(receipts.load, "__defaults__", (str(tmp_path / "receipts"),))
    monkeypatch.setattr(keeping, "FOLDER", str(tmp_path / "packages"))
    monkeypatch.setattr(keeping, "SPARE", 0)
    monkeypatch.setattr(receipts.save, "__defaults__", (str(tmp_path / "receipts"),))
    monkeypatch.setattr(node_snapshot, "ALTERNATIVES", ())
    monkeypatch.setattr(node_snapshot.files, "__defaults__", (str(tmp_path / "modprobe.conf"),))
    monkeypatch.setattr(restoring, "modprobe_policy", types.SimpleNamespace(FILE=str(tmp_path / "modprobe.conf")))
    return tmp_path


@pytest.fixture
def there(apt_node, on, stores):
    """A node that went from A to B."""
    node = apt_node(*UBUNTU)
    ours = Apt(node, on(node))
    ours.fresh = ours.seen()
    ours.site(A)
    ours.first = ours.seen()
    ours.site(B)
    ours.second = ours.seen()
    assert ours.first != ours.second
    return ours


class TestOnApt:
    def test_back_and_forth(self, there):
        way = there.rollback()
        assert there.seen() == there.first and way.goal["stack"]["name"] == A
        way = there.rollback()
        assert there.seen() == there.second and way.goal["stack"]["name"] == B
        assert [row["kind"] for row in receipts.load(receipts.FOLDER)] == ["site", "site", "rollback", "rollback"]

    def test_back_to_before_the_first_run(self, there):
        there.rollback(receipt=receipts.load(receipts.FOLDER)[0]["id"])
        packages, holds, pins = there.seen()
        assert (packages, holds, pins) == (there.fresh[0], [], "")

    def test_versions_that_the_archive_gave_up_are_kept(self, there, of_that_day):
        there.node.serve(of_that_day("ubuntu2204-cuda", keep=lambda _repo, row: A not in row.version))
        assert A not in there.node.apt("apt-cache", "policy", "nvidia-dkms-550")[1]
        there.rollback()
        assert there.seen() == there.first

    def test_what_is_kept_nowhere_is_refused_and_nothing_changes(self, there, of_that_day, stores):
        there.node.serve(of_that_day("ubuntu2204-cuda", keep=lambda _repo, row: A not in row.version))
        victim = next(path for path in (stores / "packages").iterdir() if path.name.startswith("nvidia-dkms-550"))
        victim.unlink()
        victim.write_bytes(b"torn")
        with pytest.raises(Refused) as refused:
            there.way()
        assert {(row["code"], row["name"]) for row in refused.value.problems} == {("rollback_not_possible", "nvidia-dkms-550")}
        assert there.seen() == there.second

    def test_a_node_that_moved_on_is_refused_unless_told(self, there):
        there.node.change({"libnvidia-compute-580": "580.105.08-0ubuntu1"}, [])
        before = there.seen()
        with pytest.raises(Refused, match="moved on"):
            there.way()
        assert there.seen() == before
        there.rollback(moved=True)
        assert there.seen()[0] == there.first[0]

    def test_a_killed_run_is_named_and_goes_back(self, apt_node, on, stores):
        node = apt_node(*UBUNTU)
        ours = Apt(node, on(node))
        ours.site(A)
        first = ours.seen()
        ours.site(B, killed=True)
        ours.rollback()
        assert [(row["kind"], row["status"]) for row in receipts.load(receipts.FOLDER)] == [
            ("site", "done"), ("site", "interrupted"), ("rollback", "done")]
        assert ours.seen() == first

    def test_a_run_that_finishes_a_killed_one_goes_back_with_it(self, apt_node, on, stores):
        node = apt_node(*UBUNTU)
        ours = Apt(node, on(node))
        ours.site(A)
        first = ours.seen()
        ours.site(B, killed=True)
        ours.site("570.133.20")
        assert receipts.load(receipts.FOLDER)[-1]["continues"]
        ours.rollback()
        assert ours.seen() == first

    def test_the_store_has_what_was_replaced(self, there, stores):
        index = keeping.Store().index()
        assert {row["version"].split("-")[0] for row in index.values()} >= {A}
        assert all(os.path.getsize(stores / "packages" / file) == row["size"] for file, row in index.items())
        assert receipts.load(receipts.FOLDER)[-1]["not_kept"] == []


class Dnf:
    """The same with the real dnf and rpm, in processes of their own."""

    def __init__(self, node):
        self.node = node

    def call(self, do, **more):
        where = [str(pathlib.Path(module.__path__[0]).parent) for module in (ansible, ansible_collections)]
        asked = dict({"root": str(self.node.root.root), "packages": where, "do": do, "receipt": None, "moved": False}, **more)
        done = subprocess.run([PYTHON, "-B", str(pathlib.Path(__file__).parent / "rollback_call.py")], input=json.dumps(asked),
                              capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        answer = json.loads(done.stdout)
        assert "failed" not in answer, answer["failed"] + done.stderr
        if "problems" in answer:
            raise Refused(answer["problems"])
        return answer

    def site(self, version, flavour="open", killed=False):
        stack = {"os": "rocky-9.6", "driver": {"version": version, "source": "nvidia", "flavour": flavour}}
        return self.call("site", slices=need_of(stack)["slices"], stack={"name": version}, killed=killed)

    def rollback(self, **more):
        return self.call("rollback", **more)

    def seen(self):
        """What rpm, the list of locks and the streams' files say."""
        streams = {path.name: path.read_text(encoding="utf-8") for path in (self.node.root.root / "etc/dnf/modules.d").glob("*.module")}
        return self.node.installed(), sorted(self.node.locks()), {name: text for name, text in streams.items() if "state=enabled" in text}


@pytest.fixture
def rocky(dnf_node):
    """A node that went from A to B."""
    ours = Dnf(dnf_node("rhel9-cuda", "el9-baseos"))
    ours.fresh = ours.seen()
    ours.site("570.133.20")
    ours.first = ours.seen()
    ours.site("580.126.20")
    ours.second = ours.seen()
    assert ours.first != ours.second
    return ours


class TestOnDnf:
    def test_back_and_forth_and_to_the_start(self, rocky):
        answer = rocky.rollback()
        assert rocky.seen() == rocky.first and answer["stack"]["name"] == "570.133.20"
        answer = rocky.rollback()
        assert rocky.seen() == rocky.second and answer["stack"]["name"] == "580.126.20"
        rocky.rollback(receipt=answer["receipts"][0]["id"])
        packages, locks, streams = rocky.seen()
        assert packages == rocky.fresh[0] and locks == [] and streams == {}

    def test_versions_that_the_repository_gave_up_are_kept(self, rocky, of_that_day):
        rocky.node.serve(of_that_day("rhel9-cuda", keep=lambda _repo, row: "570.133.20" not in row.version))
        rocky.rollback()
        assert rocky.seen() == rocky.first

    def test_what_is_kept_nowhere_is_refused_and_nothing_changes(self, rocky, of_that_day):
        rocky.node.serve(of_that_day("rhel9-cuda", keep=lambda _repo, row: "570.133.20" not in row.version))
        victim = next((rocky.node.root.root / "var/lib/lockstep-gpu/packages").glob("nvidia-driver-cuda-570*.rpm"))
        victim.unlink()
        victim.write_bytes(b"torn")
        with pytest.raises(Refused) as refused:
            rocky.rollback()
        assert {(row["code"], row["name"]) for row in refused.value.problems} == {("rollback_not_possible", "nvidia-driver-cuda")}
        assert rocky.seen() == rocky.second

    def test_a_killed_run_goes_back(self, rocky):
        rocky.site("580.105.08", killed=True)
        answer = rocky.rollback()
        assert [row["status"] for row in answer["receipts"]] == ["done", "done", "interrupted", "done"]
        assert rocky.seen() == rocky.second
