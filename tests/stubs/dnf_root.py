# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dnf of its own in a folder: chosen repositories, an rpm database, module streams, version locks. Needs root, as dnf does.

    root = DnfRoot(tmp_path, build.build(out, ["rhel9-cuda", "el9-baseos", "externals-rpm"]))
    root.run("module", "enable", "nvidia-driver:580-open")
    plan = root.simulate("install", "nvidia-open-3:580.126.20-1.el9")

The host's dnf answers for it with `-c root.conf`; dnf's Python API with conf.read(root.conf). Nothing of the host's own
configuration is read. Both signatures, of packages and of metadata, are checked.
"""
from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess

# Ids under which nodes know these repositories.
REPO_IDS = {"rhel9-cuda": "cuda-rhel9-x86_64", "el10-cuda": "cuda-rhel10-x86_64", "el9-baseos": "baseos", "el10-baseos": "baseos",
            "container-toolkit-rpm": "nvidia-container-toolkit"}
PLUGINS = "/usr/lib/python3/dist-packages/dnf-plugins"
# Headings of dnf's table of a transaction: the key of Plan.
_HEADINGS = {"Installing": "installed", "Installing dependencies": "installed", "Installing weak dependencies": "installed",
             "Installing group/module packages": "installed", "Upgrading": "installed", "Downgrading": "installed", "Reinstalling": "installed",
             "Removing": "removed", "Removing dependent packages": "removed", "Removing unused dependencies": "removed"}


@dataclasses.dataclass(frozen=True)
class Plan:
    """What dnf would do. installed, removed: {name: [EVR, ...]}, kernels may come several at a time; replaced: names it obsoletes."""

    rc: int
    installed: dict
    removed: dict
    replaced: list
    output: str


class DnfRoot:
    """repos: {repository id: folder}, as build.build() returns it. release: 9 or 10."""

    def __init__(self, folder, repos, release=9, key=None):
        self.folder = pathlib.Path(folder).resolve()
        self.repos = {name: pathlib.Path(path).resolve() for name, path in repos.items()}
        self.key = pathlib.Path(key) if key else next(iter(self.repos.values())).parent / "key.asc"
        self.root = self.folder / "root"
        self.release = release
        for path in ("root/etc/dnf/modules.d", "root/etc/dnf/plugins", "root/etc/yum.repos.d", "root/var/lib/rpm", "cache", "log"):
            (self.folder / path).mkdir(parents=True, exist_ok=True)
        self.locks = self.root / "etc/dnf/plugins/versionlock.list"
        self.locks.write_text("", encoding="utf-8")
        (self.root / "etc/dnf/plugins/versionlock.conf").write_text("[main]\nenabled = 1\nlocklist = %s\n" % self.locks, encoding="utf-8")
        (self.root / "etc/os-release").write_text('ID=rocky\nVERSION_ID="%s"\nPLATFORM_ID="platform:el%s"\n' % (release, release), encoding="utf-8")
        self.conf = self.root / "etc/dnf/dnf.conf"
        self.conf.write_text(self._config(release), encoding="utf-8")
        (self.root / "etc/yum.repos.d/stubs.repo").write_text("\n".join(self.source(name) for name in self.repos), encoding="utf-8")

    def source(self, name):
        """The section of a .repo file for one of the repositories."""
        return ("[%s]\nname=%s\nbaseurl=file://%s\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey=file://%s\n"
                % (REPO_IDS.get(name, name), name, self.repos[name], self.key))

    def run(self, *words):
        """Run `dnf -y WORDS`; a CompletedProcess with text."""
        return subprocess.run(["dnf", "-y", "-c", str(self.conf), "--releasever=%s" % self.release, *words], env=dict(os.environ, LC_ALL="C", COLUMNS="400"),
                              capture_output=True, text=True, check=False)

    def install_state(self, words):
        """Put packages into the rpm database, as they are in the repositories: ["name-EVR", ...] (no epoch); nothing else of them is done."""
        paths = [path for word in words for folder in self.repos.values() for path in sorted(folder.glob(word + ".*.rpm"))]
        if len(paths) < len(words):
            raise ValueError("no such package in the repositories: %s" % sorted(words))
        done = subprocess.run(["rpm", "--root", str(self.root), "-i", "--justdb", "--noscripts", "--notriggers", "--nodeps", "--nosignature",
                               "--ignorearch", *map(str, paths)], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr)

    def installed(self):
        """{name: [EVR, ...]} of the rpm database; EVR without an epoch where there is none."""
        text = subprocess.run(["rpm", "--root", str(self.root), "-qa", "--qf", "%{NAME} %{EVR}\n"], capture_output=True, text=True, check=False).stdout
        found = {}
        for name, evr in (line.split(" ") for line in text.splitlines() if not line.startswith("gpg-pubkey ")):
            found.setdefault(name, []).append(evr)
        return found

    def simulate(self, *words):
        """The Plan of `dnf --assumeno WORDS`. dnf's exit status is 1 for a transaction that it would do: rc is 0 then."""
        done = self.run("--assumeno", *words)
        installed, removed, replaced, where = {}, {}, [], None
        for line in done.stdout.splitlines():
            heading = re.fullmatch(r"([A-Z][a-z /]+):", line)
            row = re.match(r" (\S+) +(?:x86_64|noarch|i686) +(\S+) +\S+ +[\d.]+ *\S*\s*$", line)
            gone = re.match(r" +replacing +(\S+)\.(?:x86_64|noarch) ", line)
            if heading:
                where = {"installed": installed, "removed": removed}.get(_HEADINGS.get(heading.group(1)))
            elif gone:
                replaced.append(gone.group(1))
            elif row and where is not None:
                where.setdefault(row.group(1), []).append(row.group(2))
        declined = done.returncode == 1 and "Operation aborted." in done.stdout + done.stderr
        return Plan(0 if declined else done.returncode, installed, removed, replaced, done.stdout + done.stderr)

    def _config(self, release):
        values = {
            "installroot": self.root, "reposdir": self.root / "etc/yum.repos.d", "varsdir": self.root / "etc/dnf/vars", "cachedir": self.folder / "cache",
            "persistdir": self.root / "var/lib/dnf", "logdir": self.folder / "log", "pluginpath": PLUGINS, "pluginconfpath": self.root / "etc/dnf/plugins",
            "releasever": release, "module_platform_id": "platform:el%s" % release, "gpgcheck": 1, "installonly_limit": 3, "best": 1,
            "clean_requirements_on_remove": 1, "keepcache": 0, "metadata_expire": 0, "zchunk": 0,
            "tsflags": "noscripts"}  # the root has no shell
        return "[main]\n" + "".join("%s=%s\n" % item for item in values.items())
