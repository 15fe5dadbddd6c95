# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The live probe: limits, absence, side by side."""

from __future__ import annotations

import os
import pathlib
import time

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import capture
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import LiveProbe, Observation
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Command, File, Function
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import PROBES

DOCS = pathlib.Path(__file__).parents[4] / "docs" / "probes.md"


def live(how, **options):
    return LiveProbe(probes={"x": how}, **options).read("x")


def test_command_output_and_status():
    seen = live(Command(("sh", "-c", "echo out; echo err >&2; exit 3")))
    assert seen == Observation(3, "out\n", "err\n")
    assert seen.why() == "exit status 3: err"


def test_the_locale_is_fixed(monkeypatch):
    monkeypatch.setenv("LANG", "de_DE.UTF-8")
    monkeypatch.setenv("LC_MESSAGES", "de_DE.UTF-8")
    assert live(Command(("sh", "-c", "echo $LANG $LC_ALL"))).out == "C C\n"


def test_absence():
    command, file = live(Command(("no-such-command-at-all",))), live(File("/no/such/file"))
    assert (command.rc, file.rc) == (127, 1)
    assert command.absent("dpkg_list") and file.absent("grubenv")
    # A command that is there and misses a file of its own is not absent.
    assert not Observation(1, "", "dpkg-query: cannot open: No such file or directory").absent("dpkg_list")
    assert not Observation(1, "", "Permission denied").absent("grubenv")
    assert not Observation(None, reason="not in the bundle").absent("grubenv")


def test_a_hanging_command_is_killed_with_its_children(tmp_path):
    mark = tmp_path / "alive"
    began = time.monotonic()
    seen = live(Command(("sh", "-c", "(sleep 1; touch %s) & sleep 30" % mark)), timeout=0.3)
    assert time.monotonic() - began < 3
    assert (seen.rc, seen.reason) == (None, "no answer within 0.3 s")
    time.sleep(1.2)
    assert not mark.exists()


def test_a_background_process_that_keeps_the_pipe_does_not_block():
    began = time.monotonic()
    assert live(Command(("sh", "-c", "echo done; sleep 30 &")), timeout=0.3).rc is None
    assert time.monotonic() - began < 3


def test_a_hanging_function_is_killed():
    assert live(Function(lambda root: time.sleep(30), "x"), timeout=0.2).rc is None


def test_endless_output_is_cut_off():
    began = time.monotonic()
    seen = live(Command(("yes",)), max_bytes=100000)
    assert (seen.rc, seen.out, seen.reason) == (None, "", "more than 100000 bytes")
    assert time.monotonic() - began < 3


def test_a_crashing_function_is_an_observation():
    seen = live(Function(lambda root: 1 // 0, "x"))
    assert seen.rc == 1 and "ZeroDivisionError" in seen.err


def test_a_file_that_vanishes_is_no_absence(tmp_path):
    seen = live(Function(lambda root: capture.read(root, "/gone"), "x"), root=str(tmp_path))
    assert seen.rc == 1 and not seen.absent("pci_devices")


def test_death_by_signal():
    assert live(Command(("sh", "-c", "kill -9 $$"))).rc == -9


def test_undecodable_bytes_are_replaced():
    assert live(Command(("printf", r"a\377b"))).out == "a\ufffdb"


def test_probes_run_side_by_side_and_once():
    probe = LiveProbe(probes={name: Command(("sh", "-c", "sleep 0.4; date +%N; yes | head -c 300000")) for name in "abcd"})
    began = time.monotonic()
    probe.start("abcd")
    first = {name: probe.read(name) for name in "abcd"}
    assert time.monotonic() - began < 1.3
    assert all(len(seen.out) > 300000 for seen in first.values())
    assert probe.read("a") is first["a"]


def test_no_descriptor_and_no_child_is_left():
    before = len(os.listdir("/proc/self/fd"))
    probe = LiveProbe(probes={"x": Command(("true",)), "y": Command(("sleep", "9"))}, timeout=0.2)
    probe.read("x"), probe.read("y")
    # One for the selector.
    assert len(os.listdir("/proc/self/fd")) <= before + 1
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_special_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "big").write_bytes(b"x" * 11)
    for name, message in (("pipe", "not a regular file"), ("", "Is a directory"), ("big", "longer than 10 bytes")):
        with pytest.raises(OSError, match=message):
            capture.read(str(tmp_path), "/" + name, limit=10)


def test_the_documentation_lists_every_probe():
    listed = [line.split("`")[1] for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert sorted(listed) == sorted(PROBES)
