# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node as far as dnf sees it: the real dnf and rpm on a root folder of its own, where transactions really happen."""
from __future__ import annotations

import pathlib
import shutil

import expected
from stubs.dnf_root import DnfRoot


class Outcome:
    """What dnf would do, or did. installs: {name: version, the newest of several}; removes: [name], also of what is replaced."""

    def __init__(self, plan):
        self.rc, self.text, self.ok = plan.rc, plan.output, plan.rc == 0
        self.installs = {name: versions[-1] for name, versions in plan.installed.items()}
        self.removes = sorted([*plan.removed, *plan.replaced])

    def __getitem__(self, name):
        return self.installs.get(name)

    @property
    def upstream(self):
        """{name: 580.126.20} of what would be installed."""
        return {name: expected.upstream(version) for name, version in self.installs.items()}


class DnfNode:
    """repositories: {id: folder}; release: 9 or 10."""

    def __init__(self, folder, repositories, release=9):
        self.root = DnfRoot(folder, repositories, release=release)
        # The base system, as far as packages ask for it. Only its name is there, so no scripts can run.
        self.root.install_state(["bash-*"])
        self.configure("tsflags=noscripts")

    def serve(self, repositories):
        """These folders are from now on the repositories of their ids."""
        self.root.repos.update({name: pathlib.Path(path).resolve() for name, path in repositories.items()})
        (self.root.root / "etc/yum.repos.d/stubs.repo").write_text("\n".join(self.root.source(name) for name in self.root.repos), encoding="utf-8")
        shutil.rmtree(self.root.folder / "cache")

    def configure(self, line):
        """One more line of dnf.conf."""
        self.root.conf.write_text(self.root.conf.read_text(encoding="utf-8") + line + "\n", encoding="utf-8")

    def lock(self, *lines):
        """The whole list of version locks."""
        self.root.locks.write_text("".join(line + "\n" for line in lines), encoding="utf-8")

    def locks(self):
        """The lines of the list of version locks."""
        return [line for line in self.root.locks.read_text(encoding="utf-8").splitlines() if line and not line.startswith("#")]

    def dnf(self, *words):
        """(rc, text) of a call that acts."""
        done = self.root.run(*words)
        return done.returncode, done.stdout + done.stderr

    def would(self, *words):
        """What a call would do."""
        return Outcome(self.root.simulate(*words))

    def settle(self, *words):
        """Do it. Raises AssertionError when dnf refuses."""
        rc, text = self.dnf(*words)
        if rc:
            raise AssertionError(text)

    def installed(self):
        """{name: [version]} of rpm's database."""
        return self.root.installed()
