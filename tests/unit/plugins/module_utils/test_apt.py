# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt's outputs, recorded on Debian 13, and how the collection calls it."""
from __future__ import annotations

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.lockstep.gpu.plugins.module_utils import apt
from ansible_collections.lockstep.gpu.plugins.module_utils.run import Result

RECORDED = pathlib.Path(__file__).parents[3] / "fixtures" / "apt"


def recorded(name):
    return (RECORDED / name).read_text(encoding="utf-8")


def test_simulation_of_a_removal_that_brings_something():
    installs, removed = apt.parse_simulation(recorded("simulate-remove-nvidia-alternative.txt"))
    assert installs == {
        "nvidia-tesla-535-alternative": {"version": "535.274.02-1~deb13u1", "old": None, "origin": "Debian:13.8/stable"},
        "libnvidia-tesla-535-cfg1": {"version": "535.274.02-1~deb13u1", "old": None, "origin": "Debian:13.8/stable"},
    }
    assert "nvidia-cuda-toolkit" in removed and "nvidia-smi" in removed and len(removed) == 13


def test_simulation_of_a_branch_change():
    installs, removed = apt.parse_simulation(recorded("simulate-535-over-550.txt"))
    assert sorted(removed) == ["libnvidia-cfg1", "nvidia-kernel-dkms", "nvidia-persistenced", "nvidia-smi"]
    assert installs["nvidia-tesla-535-kernel-dkms"]["version"] == "535.274.02-1~deb13u1"


@pytest.mark.parametrize("line, expected", [
    ("Inst libc6 [2.41-12] (2.41-13 Debian:13.8/stable, Debian-Security:13/stable-security [amd64]) []",
     {"libc6": {"version": "2.41-13", "old": "2.41-12", "origin": "Debian:13.8/stable, Debian-Security:13/stable-security"}}),
    ("Inst libcuda1:i386 (550.163.01-2 Debian:13.8/stable [i386])",
     {"libcuda1:i386": {"version": "550.163.01-2", "old": None, "origin": "Debian:13.8/stable"}}),
    ("Inst local (1:2.0~rc1-1 [all])", {"local": {"version": "1:2.0~rc1-1", "old": None, "origin": ""}}),
    ("Conf libc6 (2.41-13 Debian:13.8/stable [amd64])", {}),
])
def test_simulation_lines(line, expected):
    assert apt.parse_simulation(line)[0] == expected


def test_show_finds_the_source_package():
    found = apt.parse_show(recorded("show.txt"))
    assert found["libcuda1"]["source"] == "nvidia-graphics-drivers"
    assert found["libcuda1"]["source_version"] == "550.163.01-2"
    image = found["linux-image-6.12.117+deb13-amd64"]
    assert (image["source"], image["source_version"], image["version"]) == ("linux-signed-amd64", "6.12.117+1", "6.12.117-1")
    assert len(found["libcudart12"]["sha256"]) == 64 and found["libcudart12"]["size"] > 0


@given(st.text(max_size=400))
def test_parsers_take_anything(text):
    apt.parse_simulation(text)
    apt.parse_show(text)


class Recorder:
    """A runner that answers every command alike and keeps what was asked."""

    def __init__(self, rc=0, out="", err=""):
        self.answer, self.calls = Result(rc, out, err), []

    def __call__(self, argv, ok=(0,), env=None, stdin=None):
        self.calls.append(argv)
        return self.answer


def test_every_call_names_one_solver_and_ignores_phasing():
    run = Recorder()
    ask = apt.Apt(run, ["-o", "Dir::Cache=/x"])
    ask.update()
    ask.versions(["a"])
    ask.names_like("linux-image-")
    ask.show({"a": "1"})
    ask.simulate(["a=1"])
    ask.act(["a=1"])
    assert len(run.calls) == 6
    for argv in run.calls:
        assert "APT::Solver=internal" in argv and "Dir::Cache=/x" in argv
        assert "APT::Get::Always-Include-Phased-Updates=true" in argv


@pytest.mark.parametrize("words", [
    "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 12 (apt-get)",
    "dpkg: error: dpkg frontend lock was locked by another process with pid 618"])
def test_another_run_is_waited_for(monkeypatch, words):
    waits, answers = [], [Result(100, "", words), Result(2, "", words), Result(0, "done", "")]
    monkeypatch.setattr(apt.time, "sleep", waits.append)
    assert apt.patiently(lambda argv, ok, **options: answers.pop(0), ["dpkg"]).out == "done"
    assert waits == [apt.LOCK_PAUSE] * 2


def test_waiting_ends(monkeypatch):
    monkeypatch.setattr(apt.time, "sleep", lambda seconds: None)
    run = Recorder(100, "", "E: Could not get lock /x")
    assert apt.patiently(run, ["apt-get"]).rc == 100 and len(run.calls) == apt.LOCK_TRIES


def test_what_apt_says_reaches_the_user():
    run = Recorder(100, "Reading package lists...\n", recorded("simulate-no-such-version.txt"))
    with pytest.raises(apt.AptError) as error:
        apt.Apt(run).simulate(["libcuda1=550.163.02-1"])
    assert "E: Version '550.163.02-1' for 'libcuda1' was not found" in str(error.value)
    assert "Reading package lists" not in str(error.value)


POLICY = """\
nvidia-imex:
  Installed: 610.57.04-1
  Candidate: 580.126.20-1
  Version table:
 *** 610.57.04-1 -1
        600 https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64  Packages
        100 /var/lib/dpkg/status
     580.126.20-1 1001
        600 https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2404/x86_64  Packages
local:
  Installed: 1-1
  Candidate: 1-1
  Version table:
 *** 1-1 100
        100 /var/lib/dpkg/status
"""


def test_versions_come_with_their_priorities():
    """What is only installed is in no archive, and what has a negative priority is out of reach."""
    ask = apt.Apt(Recorder(0, POLICY))
    assert ask.versions(["nvidia-imex", "local"]) == {"nvidia-imex": ["580.126.20-1"]}
    assert apt.kept_away(ask.policies(["nvidia-imex", "local"])) == {"nvidia-imex": ["610.57.04-1"]}
    assert ask.versions([]) == {}


@pytest.mark.parametrize("fields, expected", [
    ("Section: oldlibs\nDepends: nvidia-driver-595-open (>= 595), x", "nvidia-driver-595-open"),
    ("Section: restricted/oldlibs\n", "nothing"),
    ("Section: libs\nDescription-en: Transitional package for libnvidia-common-570\nDepends: a", "a"),
    ("Section: libs\nDescription: NVIDIA driver\nDepends: a", None),
])
def test_a_package_without_content_says_where_it_leads(fields, expected):
    assert apt.parse_show("Package: x\nVersion: 1-1\n%s\n" % fields)["x"]["leads_to"] == expected


def test_the_users_pins_have_their_files_names(tmp_path, monkeypatch):
    monkeypatch.setattr(apt, "PREFERENCES", str(tmp_path / "preferences"))
    folder = tmp_path / "private"
    folder.mkdir()
    for path in (tmp_path / "preferences", folder / "mine", folder / "lockstep-gpu.pref"):
        path.write_text("Package: a\nPin: version 1\nPin-Priority: -1\n")
    assert [pin["file"] for pin in apt.Apt(Recorder(), [], str(folder)).pins()] == [
        str(tmp_path / "preferences"), str(tmp_path / "preferences.d" / "mine")]
