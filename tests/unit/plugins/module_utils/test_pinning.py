# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolving and acting, with an apt that answers from a table."""
from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import acting, apt, pinning

NCCL = {"name": "nccl", "version": "2.22.3", "pattern": r"2\.22\.3-.+", "sources": ["nvidia-nccl"], "one_version": ["nvidia-nccl"],
        "requests": [{"name": "libnccl2", "version": r"2\.22\.3-.+"}]}
KERNEL = {"name": "kernel", "version": "6.12.120+deb13-amd64 (6.12.120-1)", "pattern": "x", "sources": ["linux-signed-amd64"],
          "requests": [{"name": "linux-image-6.12.120+deb13-amd64", "version": r"6\.12\.120-1"}]}


class FakeApt:
    """An archive as a table; the simulation installs what is asked for and its dependencies."""

    def __init__(self, archive, sources, depends=(), removes=()):
        self.archive, self.sources, self.depends, self.removes = archive, sources, dict(depends), list(removes)
        self.asked = []

    def versions(self, names):
        return {name: self.archive[name] for name in names if name in self.archive}

    def names_like(self, prefix):
        return sorted(name for name in self.archive if name.startswith(prefix))

    def prefer(self, text):
        self.preferred = text

    def show(self, targets):
        return {name: {"source": self.sources.get(name), "arch": "amd64", "size": 1, "installed_kib": 1} for name in targets}

    def simulate(self, arguments, verb="install"):
        self.asked.append((verb, list(arguments)))
        if verb == "remove":
            return {}, list(arguments) + self.removes
        installs = dict(item.split("=") for item in arguments if "=" in item)
        for name in list(installs):
            installs.update(self.depends.get(name, {}))
        return ({name: {"version": version, "old": None, "origin": "Test"} for name, version in installs.items()},
                [item[:-1] for item in arguments if item.endswith("-")])


def test_the_closure_of_a_fresh_node():
    ask = FakeApt({"libnccl2": ["2.23.4-1", "2.22.3-1-1"]}, {"libnccl2": "nvidia-nccl"}, {"libnccl2": {"libstdc++6": "14-1"}})
    found = pinning.resolve(ask, [NCCL], {}, {})
    assert {(row["name"], row["version"], row["managed"], row["step"]) for row in found["closure"]} == {
        ("libnccl2", "2.22.3-1-1", True, "nccl"), ("libstdc++6", "14-1", False, "nccl")}
    assert found["removed"] == []


def test_a_version_that_is_gone_names_those_that_are_there():
    with pytest.raises(acting.Refused) as error:
        pinning.resolve(FakeApt({"libnccl2": ["2.23.4-1"]}, {}), [NCCL], {}, {})
    problem = error.value.problems[0]
    assert problem["code"] == "locked_version_gone_from_archive" and "2.23.4-1" in problem["message"]


def test_a_kernel_that_is_gone_names_its_flavour_only():
    archive = {name: ["6.12.117-1"] for name in (
        "linux-image-6.12.117+deb13-amd64", "linux-image-6.12.117+deb13-cloud-amd64", "linux-image-6.12.117+deb13-amd64-dbg",
        "linux-image-6.12.117+deb13-amd64-unsigned", "linux-image-amd64")}
    with pytest.raises(acting.Refused) as error:
        pinning.resolve(FakeApt(archive, {}), [KERNEL], {}, {})
    assert error.value.problems[0]["available"] == ["linux-image-6.12.117+deb13-amd64=6.12.117-1"]


def test_all_missing_versions_are_named_at_once():
    with pytest.raises(acting.Refused) as error:
        pinning.resolve(FakeApt({}, {}), [KERNEL, NCCL], {}, {})
    assert [problem["component"] for problem in error.value.problems] == ["kernel", "nccl"]


def installed(version, source):
    return {"version": version, "source": source, "status": "installed", "hold": True, "arch": "amd64"}


def test_a_companion_follows_or_leaves():
    packages = {"libnccl2": installed("2.21-1", "nvidia-nccl"), "libnccl-dev": installed("2.21-1", "nvidia-nccl"),
                "nccl-doc": installed("2.21-1", "nvidia-nccl")}
    pins = {name: "2.21-1" for name in packages}
    ask = FakeApt({"libnccl2": ["2.22.3-1"], "libnccl-dev": ["2.22.3-1", "2.21-1"]}, dict.fromkeys(packages, "nvidia-nccl"))
    found = pinning.resolve(ask, [NCCL], packages, pins)
    assert found["removed"] == ["nccl-doc"]
    assert {row["name"]: row["change"] for row in found["closure"]} == {"libnccl2": "upgrade", "libnccl-dev": "upgrade"}


def test_what_something_else_needs_is_not_removed():
    ask = FakeApt({}, {}, removes=["postgresql"])
    assert pinning.removable(ask, ["a", "b"]) == []
    assert pinning.removable(FakeApt({}, {}), ["b", "a"]) == ["a", "b"]


def test_what_another_candidate_needs_goes_after_it():
    """apt answers the removal of support alone by installing another one, and keeps libcuda for the toolkit."""
    class Apt:
        def simulate(self, arguments, verb):
            if "libcuda1" in arguments:
                return {}, [*arguments, "nvidia-cuda-toolkit"]
            return ({} if "dkms" in arguments else {"other-support": {}}), list(arguments)

    assert pinning.removable(Apt(), ["a-support", "dkms", "libcuda1"]) == ["a-support", "dkms"]


def test_space_is_checked_before_anything_is_downloaded():
    rows = [{"name": "huge", "change": "install", "size": 1 << 60}]
    assert acting.check_space(rows, {})[0]["code"] == "space_low"
    assert acting.check_space([{"name": "huge", "change": "keep", "size": 1 << 60}], {}) == []


def test_the_guard_is_taken_over_but_a_foreign_one_stays(tmp_path):
    path = tmp_path / "dkms" / "no-autoinstall"
    with acting.DkmsGuard(str(path)):
        assert "lockstep.gpu" in path.read_text()
    assert not path.parent.exists()
    path.parent.mkdir()
    path.write_text(acting.GUARD_TEXT)             # a killed run left it
    with acting.DkmsGuard(str(path)):
        assert path.exists()
    assert not path.exists()
    path.parent.mkdir(exist_ok=True)
    path.write_text("mine\n")
    with acting.DkmsGuard(str(path)):
        pass
    assert path.read_text() == "mine\n"


def test_another_installation_is_waited_for(tmp_path):
    """A real lock of another process, which goes away with it."""
    lock = tmp_path / "lock"
    lock.write_bytes(b"")
    holder = subprocess.Popen([sys.executable, "-c", "import fcntl, sys, time; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX);"
                               " print('held', flush=True); time.sleep(1)", str(lock)], stdout=subprocess.PIPE)
    assert holder.stdout.readline() == b"held\n"
    pinning.wait_for_lock(str(lock))
    assert holder.poll() is not None or holder.wait(5) == 0
    pinning.wait_for_lock(str(tmp_path / "none"))


def test_files_are_replaced_whole(tmp_path):
    path = tmp_path / "d" / "f"
    assert acting.set_file(str(path), "a\n") and not acting.set_file(str(path), "a\n")
    assert path.read_text() == "a\n" and oct(os.stat(path).st_mode & 0o777) == "0o644"
    assert acting.set_file(str(path), "") and not path.exists()
    assert os.listdir(path.parent) == []


@pytest.mark.parametrize("old", [{"a": "1", "perl": "5.40-1"}, None])
def test_old_lists_are_read_again_when_they_lead_elsewhere(tmp_path, monkeypatch, old):
    """The closure came from today's lists, the node has yesterday's: another version of a dependency, or none of a."""
    monkeypatch.setattr(pinning, "PINS_FILE", str(tmp_path / "p"))
    monkeypatch.setattr(pinning, "SOURCES_FILE", str(tmp_path / "s"))
    calls = []

    class Apt:
        def update(self):
            calls.append("update")

        def simulate(self, arguments):
            lists = {"a": "1", "perl": "5.40-2"} if "update" in calls else old
            if lists is None:
                raise apt.AptError("E: Version '1' for 'a' was not found")
            return {name: {"version": version} for name, version in lists.items()}, []

        def act(self, arguments):
            calls.append("act")

    monkeypatch.setattr(apt, "Apt", lambda run: Apt())
    wanted = {"ask": {"a": "1"}, "all": {"a": "1", "perl": "5.40-2"}, "removed": [], "removable": []}
    pinning.install(None, [], {"sources": "", "keys": []}, wanted, {"a": "1"})
    assert calls == ["update", "act"]


def test_a_transaction_that_leaves_the_closure_puts_everything_back(tmp_path, monkeypatch):
    pref, sources = tmp_path / "p.pref", tmp_path / "s.sources"
    pref.write_text("before\n")
    monkeypatch.setattr(pinning, "PINS_FILE", str(pref))
    monkeypatch.setattr(pinning, "SOURCES_FILE", str(sources))
    ask = FakeApt({"libnccl2": ["2.22.3-1"]}, {}, {"libnccl2": {"surprise": "1-1"}})
    ask.act = lambda arguments: pytest.fail("it acted")
    ask.update = lambda: None
    monkeypatch.setattr(apt, "Apt", lambda run: ask)
    wanted = {"ask": {"libnccl2": "2.22.3-1"}, "all": {"libnccl2": "2.22.3-1"}, "removed": [], "removable": []}
    with pytest.raises(acting.Refused) as error:
        pinning.install(None, [], {"sources": "", "keys": []}, wanted, {"libnccl2": "2.22.3-1"})
    assert "surprise=1-1" in str(error.value)
    assert pref.read_text() == "before\n"
