# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dnf backend without dnf: what it reads and writes itself. tests/resolver has it with the real one."""
from __future__ import annotations

import subprocess
import sys

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import closure, dnf, pinning_dnf, versionlocks
from ansible_collections.lockstep.gpu.plugins.module_utils.run import Result

DRIVER = {"name": "driver", "pattern": r"3:580\.126\.20-.+", "names": ["nvidia-.*"], "sources": [], "requests": [], "stream": "nvidia-driver:580-open"}
LIST = ("nvidia-driver-cuda\t3\t580.126.20\t1.el9\tx86_64\tnvidia-driver-580.126.20-1.el9.src.rpm\n"
        "kernel-core\t(none)\t5.14.0\t570.18.1.el9_6\tx86_64\tkernel-5.14.0-570.18.1.el9_6.src.rpm\n"
        "kernel-core\t(none)\t5.14.0\t687.25.1.el9_8\tx86_64\tkernel-5.14.0-687.25.1.el9_8.src.rpm\n"
        "htop\t(none)\t3.3.0\t1.el9\tx86_64\thtop-3.3.0-1.el9.src.rpm\n")


@pytest.fixture
def root(tmp_path, monkeypatch):
    """A folder that stands for the node."""
    monkeypatch.setattr(pinning_dnf, "SYSTEM", dnf.System(str(tmp_path)))
    return tmp_path


def write(root, path, text):
    (root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    (root / path.lstrip("/")).write_text(text)


def rpm(text):
    asked = []

    def run(argv, ok=(0,)):
        asked.append(argv)
        return Result(0, text, "")
    run.asked = asked
    return run


class TestState:
    def test_an_empty_node(self, root):
        assert pinning_dnf.state(rpm("")) == ({}, {})
        assert pinning_dnf.pins_now() == {} and pinning_dnf.pin_text_now() == "" and pinning_dnf.journal() == {}

    def test_holds_are_locks_ours_and_others(self, root):
        block = versionlocks.render([], {"kernel-core": "5.14.0-570.18.1.el9_6"})
        write(root, pinning_dnf.PINS_FILE, "htop-0:3.3.0-1.el9.*\n" + block)
        run = rpm(LIST)
        packages, theirs = pinning_dnf.state(run)
        assert run.asked[0][:3] == ["rpm", "--root", str(root)]
        assert {name for name, package in packages.items() if package["hold"]} == {"htop", "kernel-core"}
        assert theirs == {"htop": "remove line 1 of /etc/dnf/plugins/versionlock.list (htop-0:3.3.0-1.el9.*)"}
        assert all(closure.is_installed(package) for package in packages.values())
        assert packages["kernel-core"]["others"] == ["5.14.0-570.18.1.el9_6"] and packages["htop"]["source"] == "htop"
        assert pinning_dnf.pins_now() == {"kernel-core": "5.14.0-570.18.1.el9_6"} and pinning_dnf.pin_text_now() == block

    def test_what_a_killed_transaction_left_is_not_installed(self, root):
        write(root, pinning_dnf.JOURNAL, "htop=3.3.0-1.el9\nkernel-core=5.14.0-570.18.1.el9_6\nnvidia-modprobe=3:580.126.20-1.el9\n")
        twice = LIST + "nvidia-driver-cuda\t3\t570.133.20\t1.el9\tx86_64\tnvidia-driver-570.133.20-1.el9.src.rpm\n"
        packages, dummy = pinning_dnf.state(rpm(twice))
        assert {name: package["status"] for name, package in packages.items()} == {
            "nvidia-driver-cuda": "duplicate", "kernel-core": "interrupted", "htop": "interrupted"}
        assert not any(closure.is_installed(package) for package in packages.values())
        assert closure.version_of(packages["nvidia-driver-cuda"]) == "3:580.126.20-1.el9"

    def test_another_version_than_that_of_a_killed_transaction_is_as_it_was(self, root):
        write(root, pinning_dnf.JOURNAL, "htop=3.4.0-1.el9\n")
        assert pinning_dnf.state(rpm(LIST))[0]["htop"]["status"] == "installed"


class TestStreams:
    STATE = "[nvidia-driver]\nname=nvidia-driver\nstream=%s\nprofiles=\nstate=%s\n"

    def due(self):
        return [(row["action"], row["target"], row["before"] != row["after"]) for row in pinning_dnf.settings_due(None, [DRIVER, dict(DRIVER, stream="")])]

    def test_none_is_enabled(self, root):
        assert self.due() == [("module_enable", "nvidia-driver:580-open", True)]

    @pytest.mark.parametrize("stream, state, due", [
        ("580-open", "enabled", []),
        ("570-open", "enabled", [("module_reset", "nvidia-driver:570-open", True), ("module_enable", "nvidia-driver:580-open", True)]),
        ("", "disabled", [("module_enable", "nvidia-driver:580-open", True)]),
    ])
    def test_the_node_s_files_say_which(self, root, stream, state, due):
        write(root, "/etc/dnf/modules.d/nvidia-driver.module", self.STATE % (stream, state))
        write(root, "/etc/dnf/modules.d/perl.module", "[perl]\nname=perl\nstream=5.32\nprofiles=\nstate=enabled\n")
        assert self.due() == due

    def test_a_slice_without_a_stream_wants_none(self, root):
        assert pinning_dnf.settings_due(None, [dict(DRIVER, stream="")]) == []


class TestFiles:
    def test_settle_writes_files_and_keeps_what_others_locked(self, root):
        write(root, "/etc/dnf/modules.d/nvidia-driver.module", TestStreams.STATE % ("580-open", "enabled"))
        write(root, pinning_dnf.PINS_FILE, "htop-0:3.3.0-1.el9.*\n")
        key = {"path": "/etc/pki/rpm-gpg/RPM-GPG-KEY-lockstep-cuda", "content": b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n"}
        pins = {"nvidia-driver-cuda": "3:580.126.20-1.el9"}
        pinning_dnf.settle(None, [DRIVER], {"sources": "[lockstep-cuda]\n", "keys": [key]}, pins)
        assert (root / "etc/yum.repos.d/lockstep-gpu.repo").read_text() == "[lockstep-cuda]\n"
        assert (root / "etc/pki/rpm-gpg/RPM-GPG-KEY-lockstep-cuda").read_bytes() == key["content"]
        text = (root / "etc/dnf/plugins/versionlock.list").read_text()
        assert text == "htop-0:3.3.0-1.el9.*\n" + versionlocks.render([DRIVER], pins) and pinning_dnf.pins_now() == pins
        pinning_dnf.settle(None, [DRIVER], {"sources": "", "keys": []}, {})
        assert not (root / "etc/yum.repos.d/lockstep-gpu.repo").exists()
        assert (root / "etc/dnf/plugins/versionlock.list").read_text() == "htop-0:3.3.0-1.el9.*\n"

    def test_an_empty_lock_file_stays_for_dnf_s_plugin(self, root):
        pinning_dnf.write_locks("")
        assert (root / "etc/dnf/plugins/versionlock.list").read_text() == ""

    def test_another_transaction_is_waited_for(self, root):
        lock = root / "var/lib/rpm/.rpm.lock"
        write(root, "/var/lib/rpm/.rpm.lock", "")
        holder = subprocess.Popen([sys.executable, "-c", "import fcntl, sys, time; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX);"
                                   " print('held', flush=True); time.sleep(1)", str(lock)], stdout=subprocess.PIPE)
        assert holder.stdout.readline() == b"held\n"
        pinning_dnf.wait_for_lock()
        assert holder.poll() is not None or holder.wait(5) == 0


class Package:
    """What dnf says of a package, as far as it counts here."""

    def __init__(self, version):
        epoch, _colon, rest = version.rpartition(":")
        self.epoch, (self.version, self.release) = int(epoch or 0), rest.split("-")


class TestTransgressions:
    WANTED = {"all": {"a": "1-1", "b": "3:2-1"}, "removable": ["old"]}

    def outcome(self, removed=(), **installs):
        found = type("Outcome", (), {})()
        found.installs, found.removed = {name: Package(version) for name, version in installs.items()}, list(removed)
        return [(row["code"], row["name"]) for row in pinning_dnf.transgressions(found, self.WANTED, {"torn": "5-1"})]

    def test_what_is_wanted_and_what_is_mended(self):
        assert self.outcome(["old"], a="1-1", b="3:2-1", torn="5-1") == []

    @pytest.mark.parametrize("removed, installs, name", [
        ([], {"a": "1-2"}, "a"), ([], {"c": "1-1"}, "c"), ([], {"b": "2-1"}, "b"), ([], {"torn": "6-1"}, "torn"), (["glibc"], {}, "glibc")])
    def test_anything_else_is_refused(self, removed, installs, name):
        assert self.outcome(removed, **installs) == [("transaction_leaves_lock", name)]
