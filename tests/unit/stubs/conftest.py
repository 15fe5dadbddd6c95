# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The stub repositories that these tests look at, written once."""
from __future__ import annotations

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

from stubs import build, contents, elf, repositories  # noqa: E402  (needs the path above)


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def compiled(cache):
    return elf.Compiled(cache)


@pytest.fixture(scope="session")
def apt_repositories(tmp_path_factory, cache):
    return build.build(tmp_path_factory.mktemp("apt"), ["container-toolkit-deb", "externals-deb", "base-deb"], cache=cache)


@pytest.fixture(scope="session")
def dnf_repositories(tmp_path_factory, cache):
    def keep(identifier, row):
        return identifier != "rhel9-cuda" or (row.upstream in ("570.211.01", "580.126.20") and "fabric" not in row.name)

    return build.build(tmp_path_factory.mktemp("dnf"), ["rhel9-cuda", "externals-rpm"], keep=keep, cache=cache)


@pytest.fixture(scope="session")
def payload_of(compiled):
    """A function of a repository's id, a name and a part of its version: what that package brings."""
    def find(identifier, name, version=""):
        repo = repositories.get(identifier)
        row = next(row for row in repo.rows if row.name == name and version in row.version)
        return contents.Maker(repo, compiled)(row)
    return find
