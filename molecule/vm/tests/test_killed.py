# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The run is killed, or the machine loses its power: the next run finishes the work."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

# What is true on the machine at the moment, for a shell there.
MOMENTS = {
    "judging": "grep -qsx python3 /proc/[0-9]*/comm",
    "packages": "grep -qsx dpkg /proc/[0-9]*/comm",
    "armed": "test -e /var/lib/lockstep-gpu/trial.json",
    "on trial": "grep -q lockstep.gpu.trial /proc/cmdline",
}
# Packages that a run installs without compiling anything.
MORE = {"debian12": {"ofed": {"provider": "inbox", "version": "44.0"}}, "debian13": {"ofed": {"provider": "inbox", "version": "56.1"}}}


@pytest.mark.many
@pytest.mark.parametrize("way", ["run", "power"])
@pytest.mark.parametrize("moment", list(MOMENTS))
def test_the_next_run_finishes(node, platform, moment, way):
    stack = node.stack(node.new, **MORE[platform])
    node.starts_before = node.starts()
    run = subprocess.Popen(node.command(node.new, lockstep_stack=stack), cwd=str(node.root), env=node.environment(),
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        node.wait_for(MOMENTS[moment], run)
        if way == "power":
            node.machine.cut()
    finally:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
    if way == "power":
        node.machine.start()
        node.machine.wait(900)
    node.converge(node.new, lockstep_stack=stack)
    node.is_settled_on(node.new)
    # No loop: the kernel was tried once, and once more where its trial was cut short.
    assert node.kernels_started().count(node.new["release"]) <= 2
    node.whole()
