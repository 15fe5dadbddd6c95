# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back on apt: one exact transaction of kept files, versions of the archives and removals. restoring.py says what a session has."""
from __future__ import annotations

import os
import shutil
import tempfile

from ansible_collections.lockstep.gpu.plugins.module_utils import apt, closure, keeping_apt, pinning, restoring
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import Refused, read_text, set_file


class Session:
    """apt on the node or, aside, on a private copy of its settings with the sources of the goal."""

    def __init__(self, run, goal, sources, store, aside):
        self._run, self._goal, self._sources, self._store = run, goal, sources, store
        self._folder = tempfile.mkdtemp(prefix="lockstep-apt-") if aside else None
        options = apt.overlay(self._folder, sources) if aside else ()
        self._ask = apt.Apt(run, options, os.path.join(self._folder, "preferences.d") if aside else None)
        self._kept, self._updated = {}, False

    def close(self):
        """Nothing of a private copy stays."""
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def side_by_side(self):
        """dpkg has one version of a package."""
        return ()

    def files(self, asks):
        """({name: path} that are kept, [names that nobody has])."""
        found = {name: self._store.find(name.partition(":")[0], version) or self._store.find(name, version) for name, version in asks.items()}
        self._kept = {name: path for name, path in found.items() if path}
        rest = {name: version for name, version in asks.items() if name not in self._kept}
        if rest and not self._updated:
            try:
                self._ask.update()
                self._updated = True
            except apt.AptError:
                # An archive that does not answer has nothing.
                return self._kept, sorted(rest)
        return self._kept, sorted(set(rest) - keeping_apt.in_archives(self._ask, rest))

    def _arguments(self, change):
        asks = [self._kept.get(name) or "%s=%s" % (name, version) for name, version in sorted(change["ask"].items())]
        return asks + ["%s-" % name for name in sorted([*change["remove"], *change["soft"]])]

    def simulate(self, change):
        """What apt would do: ({name: version}, [removed])."""
        installs, removed = self._ask.simulate(self._arguments(change))
        return {name: row["version"] for name, row in installs.items()}, removed

    def act(self, change):
        """The goal's sources and pins, then the transaction. Raises Refused (then the files are what they were), AptError."""
        before = {path: read_text(path) for path in (pinning.SOURCES_FILE, pinning.PINS_FILE)}
        there = pinning.state(self._run)[0]
        if not all(map(closure.is_installed, there.values())):
            pinning.finish(self._run, there, [])
        set_file(pinning.SOURCES_FILE, self._sources)
        set_file(pinning.PINS_FILE, self._goal["files"].get(pinning.PINS_FILE))
        if not any(change[key] for key in ("ask", "remove", "soft")):
            return
        try:
            problems = [restoring.problem(name, "%s=%s cannot be had any more" % (name, change["ask"][name])) for name in self.files(change["ask"])[1]]
            problems += [] if problems else restoring.transgressions(*self.simulate(change), change)
            if problems:
                raise Refused(problems)
        except Exception:
            for path, text in before.items():
                set_file(path, text)
            raise
        self._ask.act(self._arguments(change))

    def finish(self, holds):
        """Holds ({name: whether}) as they were, and which packages came as dependencies."""
        if holds:
            words = "".join("%s %s\n" % (name, "hold" if held else "install") for name, held in sorted(holds.items()))
            result = apt.patiently(self._run, ["dpkg", "--set-selections"], stdin=words)
            if result.rc != 0:
                raise apt.AptError("holds cannot be set: " + apt.missing_words(result.err + result.out))
        there = pinning.state(self._run)[0]
        auto = [name for name in self._goal["auto"] if name in there and name in self._goal["packages"]]
        if auto:
            self._run(["apt-mark", "auto", *auto], ok=None)
