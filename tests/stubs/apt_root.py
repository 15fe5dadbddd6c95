# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An apt of its own in a folder: chosen repositories, an invented dpkg database, holds, preferences. No root needed.

    root = AptRoot(tmp_path, build.build(out, ["ubuntu2404-cuda", "base-deb", "externals-deb"]))
    root.install_state(["nvidia-driver-580-open=580.126.20-1ubuntu1"])
    plan = root.simulate("install", "nvidia-open-580")

The real apt-get, apt-cache, apt-mark and dpkg-query answer for it when they run with `root.env`.
"""
from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess

from . import deb, repositories

# What NVIDIA's cuda-keyring package installs (the part that decides between repositories).
CUDA_PIN = "Package: *\nPin: release l=NVIDIA CUDA\nPin-Priority: 600\n"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What `apt-get -s` would do. installed: {name: version}, before: {name: version before}, removed: {name: version}."""

    rc: int
    installed: dict
    before: dict
    removed: dict
    output: str


class AptRoot:
    """repos: {repository id: folder}, as build.build() returns it. key: the public key; by default key.asc beside them."""

    def __init__(self, folder, repos, key=None, base=True, cuda_pin=True):
        """base: the names of base-deb are installed. cuda_pin: there is cuda-keyring's pin file if there is a CUDA repository."""
        self.folder = pathlib.Path(folder).resolve()
        self.repos = {name: pathlib.Path(path).resolve() for name, path in repos.items()}
        for path in ("etc/apt/apt.conf.d", "etc/apt/preferences.d", "etc/apt/sources.list.d", "etc/apt/trusted.gpg.d", "etc/apt/keyrings",
                     "var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/log/apt", "var/lib/dpkg/info", "var/lib/dpkg/updates"):
            (self.folder / path).mkdir(parents=True, exist_ok=True)
        self.dpkg = self.folder / "var/lib/dpkg"
        key = pathlib.Path(key) if key else next(iter(self.repos.values())).parent / "key.asc"
        self.key = self.folder / "etc/apt/keyrings/stubs.asc"
        self.key.write_bytes(key.read_bytes())
        self.env = dict(os.environ, APT_CONFIG=str(self.folder / "apt.conf"), DPKG_ADMINDIR=str(self.dpkg), LC_ALL="C")
        (self.folder / "apt.conf").write_text(self._config(), encoding="utf-8")
        self.write("etc/apt/sources.list.d/stubs.sources", "\n".join(self.source(name) for name in self.repos))
        self.base = {row.name: row.version for row in repositories.get("base-deb").rows} if base else {}
        if cuda_pin and any(name.endswith("-cuda") for name in self.repos):
            self.write("etc/apt/preferences.d/cuda-repository-pin-600", CUDA_PIN)
        self.install_state([])
        self.update()

    def source(self, name):
        """The deb822 paragraph of one of the repositories."""
        return "Types: deb\nURIs: file:%s\nSuites: ./\nSigned-By: %s\n" % (self.repos[name], self.key)

    def write(self, path, text):
        """Write a file of the root: write("etc/apt/preferences.d/mine", "...")."""
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
        return target

    def install_state(self, words, holds=(), auto=()):
        """Say what is installed: ["name=version", ...], with the relations that the repositories' rows have.

        The names of base-deb come too. holds: names on hold. auto: names that were installed as dependencies.
        """
        known = {(row.name, row.version): row for name in self.repos for row in repositories.get(name).rows}
        known.update({(row.name, row.version): row for row in repositories.get("base-deb").rows})
        wanted = dict(self.base)
        wanted.update(word.split("=", 1) for word in words)
        entries = []
        for name, version in wanted.items():
            lines = deb.control(known[name, version]) if (name, version) in known else [
                "Package: " + name, "Version: " + version, "Architecture: amd64", "Maintainer: stub <stub@example.invalid>", "Section: misc"]
            lines.insert(1, "Status: %s ok installed" % ("hold" if name in holds else "install"))
            entries.append("\n".join(lines) + "\nDescription: stub of %s\n" % name)
        (self.dpkg / "status").write_text("\n".join(entries), encoding="utf-8")
        # apt tells an old cache by the size and the second of what it was made from; here much happens in a second.
        for cached in (self.folder / "var/cache/apt").glob("*.bin"):
            cached.unlink()
        (self.dpkg / "available").write_text("", encoding="utf-8")
        states = ["Package: %s\nArchitecture: amd64\nAuto-Installed: 1\n" % name for name in auto]
        self.write("var/lib/apt/extended_states", "\n".join(states))

    def run(self, *words):
        """Run a command with this root's environment; a CompletedProcess with text."""
        return subprocess.run(words, env=self.env, capture_output=True, text=True, check=False)

    def update(self):
        """apt-get update. Raises RuntimeError when it fails or warns: then the repositories or their signatures are wrong."""
        done = self.run("apt-get", "update")
        if done.returncode or re.search(r"^[WE]:", done.stderr, re.MULTILINE):
            raise RuntimeError(done.stdout + done.stderr)

    def simulate(self, *words):
        """The Plan of `apt-get -s -y WORDS`."""
        done = self.run("apt-get", "-s", "-y", *words)
        rows = re.findall(r"^Inst (\S+) (?:\[(\S+)\] )?\((\S+)", done.stdout, re.MULTILINE)
        return Plan(done.returncode, {name: new for name, _old, new in rows}, {name: old for name, old, _new in rows if old},
                    dict(re.findall(r"^Remv (\S+) \[(\S+)\]", done.stdout, re.MULTILINE)), done.stdout + done.stderr)

    def candidate(self, name):
        """The version that `apt-get install NAME` would take; None when there is none."""
        found = re.search(r"^  Candidate: (\S+)", self.run("apt-cache", "policy", name).stdout, re.MULTILINE)
        return None if found is None or found.group(1) == "(none)" else found.group(1)

    def _config(self):
        values = {
            "Dir::State": self.folder / "var/lib/apt", "Dir::State::status": self.dpkg / "status", "Dir::Cache": self.folder / "var/cache/apt",
            "Dir::Etc": self.folder / "etc/apt", "Dir::Log": self.folder / "var/log/apt", "APT::Architecture": "amd64", "APT::Sandbox::User": "root",
            "Acquire::Languages": "none", "APT::Install-Recommends": "true", "Debug::NoLocking": "true"}
        lists = ['APT::Architectures { "amd64"; };', 'DPkg::Options { "--admindir=%s"; "--force-not-root"; };' % self.dpkg]
        return "".join('%s "%s";\n' % item for item in values.items()) + "\n".join(lists) + "\n"
