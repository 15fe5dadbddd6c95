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

    class Apt:
        def update(self):
            pass

        def simulate(self, arguments):
            return {"libnccl2": {"version": "2.22.3-1"}, "surprise": {"version": "1-1"}}, []

        def act(self, arguments):
            pytest.fail("it acted")

    monkeypatch.setattr(apt, "Apt", lambda run: Apt())
    wanted = {"ask": {"libnccl2": "2.22.3-1"}, "all": {"libnccl2": "2.22.3-1"}, "removed": [], "removable": []}
    with pytest.raises(acting.Refused) as error:
        pinning.install(None, [], {"sources": "", "keys": []}, wanted, {"libnccl2": "2.22.3-1"})
    assert "surprise=1-1" in str(error.value)
    assert pref.read_text() == "before\n"
