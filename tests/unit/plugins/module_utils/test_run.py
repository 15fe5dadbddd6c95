# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command runner: locale, exit statuses, limits."""

from __future__ import annotations

import subprocess
import time

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import run


class Module:
    """run_command as AnsibleModule has it, for the keywords that are used."""

    def run_command(self, argv, environ_update=None, data=None):
        done = subprocess.run(argv, env=environ_update, input=data, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr


def test_locale_is_fixed():
    assert "LC_ALL=C" in run.Runner(Module())(["env"]).out.splitlines()


def test_exit_status_is_checked_and_named():
    with pytest.raises(run.CommandError) as caught:
        run.Runner(Module())(["sh", "-c", "echo first; echo why it failed >&2; exit 3"])
    assert caught.value.rc == 3
    assert caught.value.argv[0] == "sh"
    assert "exit status 3: why it failed" in str(caught.value)


def test_allowed_exit_status_is_returned():
    assert run.Runner(Module())(["sh", "-c", "exit 3"], ok=(0, 3)).rc == 3
    assert run.Runner(Module())(["sh", "-c", "exit 4"], ok=None).rc == 4


def test_absent_command():
    with pytest.raises(run.CommandError, match="exit status 127: no-such-tool is not installed"):
        run.Runner(Module())(["no-such-tool"])


def test_extra_environment_and_input():
    assert run.Runner(Module())(["sh", "-c", "echo $MORE; cat"], env={"MORE": "yes"}, stdin="in").out == "yes\nin"


def test_last_lines_skips_blank_ones():
    assert run.last_lines("a\n\n b \n\n", 2) == ["a", "b"]


def test_limit_kills_the_whole_group():
    began = time.monotonic()
    result = run.run_limited(["sh", "-c", "sleep 30 & sleep 30"], 0.3)
    assert result.rc == run.TIMED_OUT_RC
    assert "0.3 s" in result.err
    assert time.monotonic() - began < 5


def test_limited_run_reports_signals_and_absence():
    assert run.run_limited(["sh", "-c", "kill -SEGV $$"], 5).rc == -11
    assert run.run_limited(["/no/such/tool"], 5).rc == 127
    assert run.run_limited(["sh", "-c", "printf 'a\\377'"], 5).out == "a\ufffd"


def test_endless_output_is_dropped_and_not_kept():
    result = run.run_limited(["sh", "-c", "yes & yes >&2"], 0.5)
    assert result.rc == run.TIMED_OUT_RC and result.out == ""
    long = run.run_limited(["sh", "-c", "head -c 3000000 /dev/zero; exit 3"], 10)
    assert (long.rc, len(long.out)) == (3, run.MAX_OUTPUT)


def test_a_child_that_cannot_be_reaped_is_left_behind(monkeypatch):
    def never(child, timeout=None):
        raise subprocess.TimeoutExpired(child.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", never)
    began = time.monotonic()
    assert run.run_limited(["true"], 0.2).rc == run.TIMED_OUT_RC
    assert time.monotonic() - began < 5


def test_a_child_that_closes_its_output_has_the_limit_too():
    assert run.run_limited(["sh", "-c", "exec >&- 2>&-; sleep 30"], 0.3).rc == run.TIMED_OUT_RC
