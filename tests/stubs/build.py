# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes repositories into a folder, each only where something of it changed since the last time."""
from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import pathlib
import shutil

from . import apt_repo, contents, dnf_repo, keys, repositories

HERE = pathlib.Path(__file__).parent


def cache_folder():
    """Where keys and built rpms are kept between checkouts: LOCKSTEP_CACHE as in tools/lib.sh, then XDG's."""
    home = os.environ.get("LOCKSTEP_CACHE") or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "lockstep-gpu")
    return pathlib.Path(home) / "stubs"


def build(out, only=None, keep=None, cache=None, module=None):
    """Write the repositories of `only` (ids; all of them by default) below `out`; return {id: folder}.

    keep: function of (repository id, Row), whether that row is there: "the repository of that day".
    module: function of a table's module, the module as it is to be (variants.newest_kmod_only).
    cache: folder for the key and for built rpms, cache_folder() by default. Raises KeyError for an unknown id.
    """
    out, cache = pathlib.Path(out).resolve(), pathlib.Path(cache or cache_folder()).resolve()
    wanted = [repositories.get(identifier) for identifier in (only or repositories.ids())]
    out.mkdir(parents=True, exist_ok=True)
    cache.mkdir(parents=True, exist_ok=True)
    with _lock(cache / "lock"):
        key = keys.key(cache)
        key.publish(out)
        cut = [dataclasses.replace(repo, rows=tuple(row for row in repo.rows if keep is None or keep(repo.id, row)),
                                   module=module(repo.module) if module and repo.module else repo.module) for repo in wanted]
        stale = [(repo, mark) for repo, mark in ((repo, _mark(repo, key)) for repo in cut) if _written(out / repo.id) != mark]
        if stale:
            with key.home() as home:
                for repo, mark in stale:
                    _write(out / repo.id, repo, mark, key, home, cache)
    return {repo.id: out / repo.id for repo in wanted}


def _write(folder, repo, mark, key, home, cache):
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    payload_of = contents.maker(repo, cache)
    if repo.kind == "deb":
        apt_repo.write(folder, repo.meta, repo.rows, payload_of, home)
    else:
        dnf_repo.write(folder, repo.rows, repo.module, payload_of, home, cache / ("rpm-" + key.fingerprint))
    (folder / ".made").write_text(mark, encoding="ascii")


def _written(folder):
    with contextlib.suppress(OSError):
        return (folder / ".made").read_text(encoding="ascii")
    return None


def _mark(repo, key):
    """A hash of all that a repository is made from: its rows, this code, the key."""
    seen = hashlib.sha256(key.fingerprint.encode())
    for path in sorted(HERE.rglob("*")):
        if path.suffix in (".py", ".c", ".h"):
            seen.update(path.read_bytes())
    seen.update(repr((repo.id, sorted(repo.meta.items()), repo.rows, repo.module)).encode())
    return seen.hexdigest()


@contextlib.contextmanager
def _lock(path):
    with open(path, "w", encoding="ascii") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
