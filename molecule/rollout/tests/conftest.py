# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disks that the tests start from, each made once by the main job."""

from __future__ import annotations

import os
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))

import machines  # noqa: E402


def pytest_configure(config):
    config.addinivalue_line("markers", "many: too long for CI; run by make test-all")


def pytest_collection_modifyitems(items):
    for item in items:
        if item.get_closest_marker("many") and not os.environ.get("LOCKSTEP_ALL"):
            item.add_marker(pytest.mark.skip(reason="make test-all"))


def disk(name, base, folder, to):
    """(image, job): the first machine, started from `base` and brought to a stack without a reboot, kept as an image."""
    image = "lockstep-simulated/rollout-" + name
    machines.fresh(base, machines.NODES[:1])
    job = machines.Job(folder, machines.NODES[:1], to=to)()
    # The kernel that it would boot once now, it shall boot when a test says so.
    machines.module(machines.NODES[0], "boot_kernel", kernel=machines.A, state="default")
    machines.run("tools/machine.sh", "save", machines.NODES[0], image)
    return image, job


@pytest.fixture(scope="session")
def on_a(tmp_path_factory):
    """The image of a node that is in sync with the stack of kernel A."""
    image, job = disk("a", "", tmp_path_factory.mktemp("a"), "a")
    assert job.status == 0 and job.verdicts() == {"in_sync": machines.NODES[:1]}, job.output
    return image


@pytest.fixture(scope="session")
def waiting(on_a, tmp_path_factory):
    """(image, job) of a node on kernel A that has everything of the stack of kernel B and was not allowed to reboot."""
    return disk("b", on_a, tmp_path_factory.mktemp("b"), "b")


@pytest.fixture
def job(tmp_path):
    """Make a run of the main job."""
    def make(*arguments, **variables):
        return machines.Job(tmp_path, *arguments, **variables)
    return make
