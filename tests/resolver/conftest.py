# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stub repositories, written once, and nodes on private roots that use them."""
from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import pathlib
import shutil
import signal
import sys
import time

import pytest

HERE = pathlib.Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

from apt_node import AptNode  # noqa: E402  (needs the path above)
from collection import Collection, CollectionOnDnf  # noqa: E402
from dnf_node import DnfNode  # noqa: E402
from stubs import build  # noqa: E402

OUT = HERE.parents[1] / ".lockstep" / "resolver"
KEPT_SECONDS = 3600


def code():
    """A hash of all that the repositories are made from; folders of others that nobody used lately are removed."""
    seen = hashlib.sha256()
    for path in sorted((HERE.parent / "stubs").rglob("*")):
        if path.suffix in (".py", ".yml", ".c", ".sh"):
            seen.update(path.read_bytes())
    name = seen.hexdigest()[:12]
    for folder in OUT.glob("*"):
        if folder.name != name and time.time() - folder.stat().st_mtime > KEPT_SECONDS:
            shutil.rmtree(folder, ignore_errors=True)
    return name


@pytest.fixture(scope="session")
def repositories():
    """A function of ids: {id: folder} of the repositories as they are today.

    In a folder for this state of the stubs, so that a change of them does not pull a run's repositories away.
    """
    made, out = {}, OUT / code()

    def folders(*ids):
        missing = [name for name in ids if name not in made]
        made.update(build.build(out, missing) if missing else {})
        return {name: made[name] for name in ids}
    return folders


@pytest.fixture
def of_that_day(tmp_path):
    """A function of ids, keep and module (see stubs/variants.py): the repositories as they were on another day."""
    count = itertools.count()
    return lambda *ids, **changes: build.build(tmp_path / ("day%d" % next(count)), list(ids), **changes)


@pytest.fixture
def apt_node(tmp_path, repositories):
    """A function that makes a node from ids of repositories, or from folders; see AptNode."""
    count = itertools.count()

    def make(*ids, folders=None, **more):
        every = dict(folders or repositories(*ids), **repositories("base-deb", "externals-deb"))
        return AptNode(tmp_path / ("node%d" % next(count)), every, **more)
    return make


@pytest.fixture
def dnf_node(tmp_path, repositories):
    """A function that makes a node from ids of repositories, or from folders; see DnfNode."""
    count = itertools.count()

    def make(*ids, folders=None, **more):
        return DnfNode(tmp_path / ("node%d" % next(count)), dict(folders or repositories(*ids), **repositories("externals-rpm")), **more)
    yield make
    # dnf's keyrings start agents, which live as long as their folders.
    for command in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = command.read_bytes()
            if words.startswith(b"gpg-agent") and str(tmp_path).encode() in words:
                os.kill(int(command.parent.name), signal.SIGTERM)


@pytest.fixture
def on(monkeypatch):
    """A function that makes the Collection of an AptNode or a DnfNode."""
    return lambda node: CollectionOnDnf(node) if isinstance(node, DnfNode) else Collection(node, monkeypatch)
