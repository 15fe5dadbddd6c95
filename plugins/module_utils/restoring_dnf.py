# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back on dnf: one exact transaction of kept files, versions of the repositories and removals. restoring.py says what a session has."""
from __future__ import annotations

import os
import shutil
import tempfile

from ansible_collections.lockstep.gpu.plugins.module_utils import pinning_dnf, restoring, versionlocks
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import PackageError, Refused, set_file, write_atomically
from ansible_collections.lockstep.gpu.plugins.module_utils.dnf import Words, key_of, version_of
from ansible_collections.lockstep.gpu.plugins.module_utils.resolving_dnf import doubles, open_dnf

try:
    import dnf.exceptions
    import dnf.module.module_base as modules
except ImportError:
    # dnf_python.ensure() has said so before anything here is called.
    pass


class Session:
    """dnf on the node or, aside, on a private copy of its settings with the repositories of the goal."""

    def __init__(self, _run, goal, sources, store, aside):
        self._goal, self._sources, self._store, self._aside = goal, sources, store, aside
        self._folder, self._ask, self._began = None, None, pinning_dnf.journal()
        Words().listen()
        if aside:
            self._folder = tempfile.mkdtemp(prefix="lockstep-dnf-")
            self._open({"folder": self._folder, "sources": sources, "own": pinning_dnf.SOURCES_FILE, "keys": []})

    def _open(self, aside=None):
        """The goal's streams are enabled in memory, those that it does not have are left; other versions of its names are out of sight."""
        streams = [{"name": name, "stream": "%s:%s" % item, "requests": []} for name, item in ((item[0], item) for item in self._goal["streams"].items())]
        self._ask = open_dnf(pinning_dnf.SYSTEM, [part for part in streams if part["stream"] not in self._present()], [], aside)[0]
        gone = sorted(set(pinning_dnf.streams_now()) - set(self._goal["streams"]))
        if gone:
            try:
                modules.ModuleBase(self._ask.base).reset(gone)
            except (dnf.exceptions.Error, RuntimeError) as error:
                raise PackageError("module streams %s: %s" % (", ".join(gone), error)) from error

    def _present(self):
        return ["%s:%s" % item for item in pinning_dnf.streams_now().items()]

    def close(self):
        """Nothing of a private copy stays."""
        if self._ask:
            self._ask.close()
            self._ask = None
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def side_by_side(self):
        """Names of kernels' packages."""
        return {key_of(package) for package in self._ask.base._get_installonly_query()}  # pylint: disable=protected-access

    def files(self, asks):
        """({key: path} that are kept, [keys that nobody has]). What is kept can be asked for from now on."""
        found = {key: self._store.find(key, version) for key, version in asks.items()}
        kept = {key: path for key, path in found.items() if path}
        right = self._goal["packages"]
        self._ask.exclude([package for package in self._ask.query() if key_of(package) in right
                           and version_of(package) not in (right[key_of(package)] or "").split()])
        if kept:
            self._ask.base.add_remote_rpms(sorted(kept.values()), strict=True)
        return kept, sorted(key for key, version in asks.items() if key not in kept and not self._ask.exact(key, version, self._ask.query()))

    def _more(self, change):
        """What ends beside the change: surplus versions, and what a killed transaction left twice."""
        there = self._ask.installed()
        double = {key: [package for package in there.get(key, []) if version_of(package) in gone] for key, gone in change["surplus"].items()}
        return {"double": dict(doubles(self._ask, [], change["ask"], self._began), **double)}

    def _solved(self, change):
        erase = [*change["remove"], *change["soft"]]
        more = self._more(change)
        return erase, more, self._ask.simulate(change["ask"], erase, **more)

    def simulate(self, change):
        """What dnf would do: ({key: version}, [removed])."""
        _erase, _more, outcome = self._solved(change)
        return {key: version_of(package) for key, package in outcome.installs.items()}, outcome.removed

    def act(self, change):
        """The goal's repositories, streams and locks with the transaction. Raises Refused, PackageError."""
        before = pinning_dnf.read_text(pinning_dnf.SYSTEM.path(pinning_dnf.SOURCES_FILE))
        set_file(pinning_dnf.SYSTEM.path(pinning_dnf.SOURCES_FILE), self._sources)
        try:
            self._open()
            lost = self.files(change["ask"])[1]
            problems = [restoring.problem(key, "%s=%s cannot be had any more" % (key, change["ask"][key])) for key in lost]
            if problems:
                raise Refused(problems)
            erase, more, outcome = self._solved(change)
            installs = {key: version_of(package) for key, package in outcome.installs.items()}
            problems = restoring.transgressions(installs, outcome.removed, change)
            if problems:
                raise Refused(problems)
        except Exception:
            set_file(pinning_dnf.SYSTEM.path(pinning_dnf.SOURCES_FILE), before)
            raise
        journal = pinning_dnf.SYSTEM.path(pinning_dnf.JOURNAL)

        def begin():
            self._write_locks()
            write_atomically(journal, "".join("%s=%s\n" % item for item in sorted(dict(self._began, **installs).items())))

        if installs or erase or any(more["double"].values()):
            self._ask.act(self._ask.goal(change["ask"], erase, **more), outcome, list(more["double"]), begin)
            if os.path.exists(journal):
                os.unlink(journal)
        self._ask.save_streams()
        self._write_locks()

    def _write_locks(self):
        block = self._goal["files"].get(pinning_dnf.PINS_FILE, "")
        pinning_dnf.write_locks(versionlocks.put_block(pinning_dnf.lock_text(), block))

    def finish(self, _holds):
        """A version lock is the hold."""
