# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node as far as apt sees it: the real apt on a root folder of its own, and what it would do there."""
from __future__ import annotations

import pathlib
import re

import expected
from stubs.apt_root import AptRoot


class Outcome:
    """What apt-get would do. installs: {name: version}, removes: [name]; [name]: its new version, None when it stays."""

    def __init__(self, plan):
        self.rc, self.text = plan.rc, plan.output
        self.installs, self.removes, self.before = plan.installed, sorted(plan.removed), plan.before

    def __getitem__(self, name):
        return self.installs.get(name)

    @property
    def upstream(self):
        """{name: 580.126.20} of what would be installed."""
        return {name: expected.upstream(version) for name, version in self.installs.items()}


class AptNode:
    """repositories: {id: folder}. installed: {name: version}. preferences: text of a pin file of the user's."""

    def __init__(self, folder, repositories, installed=None, holds=(), preferences="", cuda_pin=True):
        self.root = AptRoot(folder, repositories, cuda_pin=cuda_pin)
        self.state, self.held, self.auto = dict(installed or {}), set(holds), set()
        if preferences:
            self.root.write("etc/apt/preferences.d/mine", preferences)
        self._write()

    def _write(self):
        self.root.install_state(["%s=%s" % item for item in self.state.items()], self.held, self.auto)

    def serve(self, repositories):
        """These folders are from now on the repositories of their ids."""
        self.root.repos.update({name: pathlib.Path(path).resolve() for name, path in repositories.items()})
        self.root.write("etc/apt/sources.list.d/stubs.sources", "\n".join(self.root.source(name) for name in self.root.repos))
        self.root.update()

    def hold(self, *names):
        """These names are held, too."""
        self.held |= set(names)
        self._write()

    def get(self, *words):
        """What apt-get would do."""
        return Outcome(self.root.simulate(*words))

    def install(self, *words):
        """What apt-get install would do, without recommended packages."""
        return self.get("install", "--no-install-recommends", *words)

    def settle(self, *words):
        """Let the node be as apt-get would leave it. Raises AssertionError when apt-get refuses."""
        got = self.get(*words)
        if got.rc:
            raise AssertionError(got.text)
        asked = {word.split("=")[0] for word in words}
        self.change(got.installs, got.removes)
        self.auto |= {name for name in got.installs if name not in asked and name not in got.before}
        self._write()
        return got

    def change(self, installs, removes):
        """Let packages be there at other versions, and others be gone."""
        self.held = {line.split()[0] for line in self.apt("apt-mark", "showhold")[1].splitlines()}
        for name in removes:
            self.state.pop(name, None)
            self.held.discard(name)
            self.root.base.pop(name, None)
        self.state.update(installs)
        self._write()

    def apt(self, *words):
        """(rc, text) of another tool of apt's."""
        done = self.root.run(*words)
        return done.returncode, done.stdout + done.stderr


def providers(text, name):
    """Lines of apt's text that speak of a package."""
    return [line for line in text.splitlines() if re.search(r"(^|\s)%s(\s|$)" % re.escape(name), line)]
