# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch over a kernel on trial: systemd's own opinion of the units, and the script, run with fake programs and paths."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import trial, trial_units

RECORD = dict(trial.new("6.1.0-50-amd64", "6.1.0-49-amd64", "d", "b", 600, 0), token="0123456789abcdef")
TOKEN = RECORD["token"]
SHELLS = [shell for shell in ("/bin/dash", "/bin/bash") if os.path.exists(shell)] or ["/bin/sh"]


def under(root, record):
    """The units of a record below a folder."""
    trial_units.bring(lambda name: str(root / name), trial_units.files(record))
    return root / trial_units.FOLDER


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
@pytest.mark.parametrize("within", [0, 600])
def test_systemd_takes_the_units(tmp_path, within):
    units = under(tmp_path, dict(RECORD, confirm_within=within))
    names = [str(path) for path in sorted(units.glob("*.service")) + sorted(units.glob("*.timer"))]
    assert len(names) == (3 if within else 1)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", *names], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if "lockstep" in line]) == (0, [])


def test_every_unit_is_for_this_trial_only_and_outlives_an_emergency(tmp_path):
    for path in sorted(under(tmp_path, RECORD).glob("lockstep-gpu-trial*.*")):
        text = path.read_text()
        if path.suffix != ".sh":
            assert "\nConditionKernelCommandLine=lockstep.gpu.trial=%s\n" % TOKEN in text
            assert "\nDefaultDependencies=no\n" in text and "\nIgnoreOnIsolate=yes\n" in text
    assert "OnActiveSec=600\n" in (tmp_path / trial_units.FOLDER / trial_units.TIMER).read_text()


def test_units_come_and_go(tmp_path):

    def path(name):
        return str(tmp_path / name)

    wanted = trial_units.files(RECORD)
    assert trial_units.bring(path, wanted, check=True) and not (tmp_path / "etc").exists()
    assert trial_units.bring(path, wanted) and not trial_units.bring(path, wanted)
    # Without a limit the timer goes, and the mark stays.
    assert trial_units.bring(path, trial_units.files(dict(RECORD, confirm_within=0)))
    left = sorted(item.name for item in tmp_path.rglob("lockstep*"))
    assert left == [trial_units.MARK, trial_units.MARK, trial_units.SCRIPT]
    other = tmp_path / trial_units.FOLDER / "mine.service"
    other.write_text("")
    assert trial_units.bring(path, {}) and not trial_units.bring(path, {})
    assert [item.name for item in tmp_path.rglob("*") if item.is_file()] == ["mine.service"]


@pytest.fixture(name="node", params=SHELLS)
def fixture_node(request, tmp_path):
    """A function that runs the script with fakes, and gives what they noted."""
    programs, state, proc = tmp_path / "bin", tmp_path / "state", tmp_path / "proc"
    for folder in (programs, proc / "sys/kernel"):
        folder.mkdir(parents=True)
    (proc / "sysrq-trigger").write_text("")
    (proc / "sys/kernel/sysrq").write_text("438\n")
    log = tmp_path / "log"
    fakes = {"ip": 'echo "of ip $*"', "systemctl": 'echo "systemctl $*" >> %s' % log, "sleep": "exec /bin/sleep 0.05", "sync": "exit 1"}

    def run(verb, **others):
        for name, text in dict(fakes, **others).items():
            (programs / name).write_text("#!/bin/sh\n%s\n" % text)
            (programs / name).chmod(0o755)
        script = tmp_path / "trial.sh"
        script.write_text(trial_units.script(TOKEN, str(state), str(proc / "sysrq-trigger"), 0))
        done = subprocess.run([request.param, str(script), verb], env={"PATH": "%s:/usr/bin:/bin" % programs}, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, check=False, timeout=60)
        return done, (log.read_text().splitlines() if log.exists() else [])

    run.state, run.proc = state, proc
    return run


def test_user_space_was_reached(node):
    done, said = node("reached")
    assert (done.returncode, said) == (0, [])
    assert {path.name: path.read_text() for path in node.state.iterdir()} == {"trial.reached": TOKEN + "\n"}


def test_the_node_returns(node):
    _done, said = node("return")
    assert (node.state / "trial.expired").read_text() == "%s\nof ip -brief address\nof ip route\n" % TOKEN
    assert said == ["systemctl --force reboot", "systemctl --force --force reboot"]
    assert (node.proc / "sysrq-trigger").read_text() == "b\n"          # the last of what a reboot takes
    assert (node.proc / "sys/kernel/sysrq").read_text() == "1\n"
    assert trial.network((node.state / "trial.expired").read_text()) == "of ip -brief address; of ip route"


def test_nothing_that_hangs_keeps_the_node(node):
    hangs = "exec /bin/sleep 20"
    node("return", ip=hangs, systemctl=hangs, sync=hangs)
    assert (node.proc / "sysrq-trigger").read_text() == "b\n"


def test_nothing_that_is_missing_keeps_the_node(node, tmp_path):
    node.state.write_text("no folder")
    _done, said = node("return", ip="exit 127")
    assert said[0] == "systemctl --force reboot" and (node.proc / "sysrq-trigger").read_text() == "b\n"


def test_the_texts_have_no_place_of_a_test():
    text = trial_units.script(TOKEN)
    assert "state=/var/lib/lockstep-gpu\n" in text and "sysrq=/proc/sysrq-trigger\n" in text and "%" not in text.replace("${sysrq%/*}", "")
    assert pathlib.PurePosixPath(trial.FOLDER).is_absolute() is False
