# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Resolving aside, with the real apt: a signed repository that the node does not have, and whose key it does not have either."""
from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import acting, apt, pinning, repository_keys
from ansible_collections.lockstep.gpu.plugins.module_utils.run import CommandError, Result

STANZA = """\
Package: %s
Version: %s
Architecture: amd64
Maintainer: vendor <vendor@example.com>
Installed-Size: 1
Depends: %s
Filename: ./%s_%s_amd64.deb
Size: 1000
SHA256: %s
Section: libs
Priority: optional
Description: stub
"""
ROWS = [("nvidia-dkms-580", "580.126.20-1", "libnvidia-compute-580, nvidia-firmware-580-580.126.20 (= 580.126.20-1)"),
        ("nvidia-dkms-580", "580.178.04-1", "libnvidia-compute-580"), ("nvidia-firmware-580-580.126.20", "580.126.20-1", ""),
        ("libnvidia-compute-580", "580.126.20-1", ""), ("libnvidia-compute-580", "580.178.04-1", ""),
        ("nvidia-imex", "580.126.20-1", ""), ("nvidia-imex", "610.57.04-1", "")]
V, P = "580.126.20", r"580\.126\.20-.+"
DRIVER = {"name": "driver", "version": V, "pattern": P, "globs": [V + "-*"], "sources": [], "names": ["(lib)?nvidia-.+-580(-.+)?"],
          "one_names": ["(lib)?nvidia-.+-580(-.+)?"], "requests": [{"name": "nvidia-dkms-580", "version": P}], "guard": ["nvidia-imex*"]}


@pytest.fixture(scope="module")
def vendor(tmp_path_factory):
    """(folder of the repository, its key in armour, the key's fingerprint)."""
    home, folder = tempfile.mkdtemp(prefix="gpg-", dir="/tmp"), tmp_path_factory.mktemp("vendor")
    gpg = ["gpg", "--homedir", home, "--batch", "--quiet", "--no-tty", "--passphrase", ""]
    subprocess.run([*gpg, "--quick-generate-key", "vendor@example.com", "rsa2048", "sign", "never"], check=True, capture_output=True)
    index = "\n".join(STANZA % (name, version, depends, name, version, hashlib.sha256((name + version).encode()).hexdigest())
                      for name, version, depends in ROWS).replace("Depends: \n", "")
    (folder / "Packages").write_text(index)
    data = index.encode()
    head = "Origin: NVIDIA\nLabel: NVIDIA CUDA\nArchitectures: amd64\nDate: Mon, 30 Nov 2026 00:00:00 UTC\nSHA256:\n"
    (folder / "Release").write_text(head + " %s %d Packages\n" % (hashlib.sha256(data).hexdigest(), len(data)))
    subprocess.run([*gpg, "--clearsign", "--output", str(folder / "InRelease"), str(folder / "Release")], check=True, capture_output=True)
    key = subprocess.run([*gpg, "--armor", "--export"], check=True, capture_output=True).stdout
    yield folder, key.decode(), repository_keys.fingerprints(key)[0]
    subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False)
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def node(tmp_path, monkeypatch):
    """A runner whose apt has a root of its own; it has no repository."""
    root = tmp_path / "node"
    for path in ("etc/preferences.d", "etc/sources.list.d", "etc/apt.conf.d", "state/lists/partial", "cache/archives/partial", "log"):
        (root / path).mkdir(parents=True)
    (root / "status").write_text("")
    values = {"Dir::State": "state", "Dir::State::status": "status", "Dir::Cache": "cache", "Dir::Etc": "etc", "Dir::Log": "log"}
    config = "".join('%s "%s";\n' % (key, root / value) for key, value in values.items())
    (root / "apt.conf").write_text(config + 'APT::Architecture "amd64";\nAPT::Architectures { "amd64"; };\nDebug::NoLocking "true";\n')
    for name, value in (("LISTS", "state/lists"), ("SOURCE_PARTS", "etc/sources.list.d"), ("PREFERENCE_PARTS", "etc/preferences.d"),
                        ("PREFERENCES", "etc/preferences")):
        monkeypatch.setattr(apt, name, str(root / value))
    monkeypatch.setattr(pinning, "PINS_FILE", str(root / "etc/preferences.d/lockstep-gpu.pref"))
    monkeypatch.setattr(pinning, "SOURCES_FILE", str(root / "etc/sources.list.d/lockstep-gpu.sources"))

    def run(argv, ok=(0,), env=None, stdin=None):
        done = subprocess.run(argv, env=dict(os.environ, LC_ALL="C", APT_CONFIG=str(root / "apt.conf")), capture_output=True, text=True, check=False)
        if ok is not None and done.returncode not in ok:
            raise CommandError(argv, done.returncode, done.stdout, done.stderr)
        return Result(done.returncode, done.stdout, done.stderr)

    run.root = root
    return run


def settings(node, vendor, path, key=None):
    folder, armoured, fingerprint = vendor
    keys = repository_keys.load([{"path": str(path), "key": key or armoured, "fingerprints": [fingerprint]}], None, repository_keys.BINARY)
    return {"sources": "Types: deb\nURIs: file:%s\nSuites: ./\nSigned-By: %s\n" % (folder, path), "keys": keys}


def files(root):
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.mark.parametrize("name", ["vendor.gpg", "vendor.asc"])
def test_a_repository_is_read_that_the_node_does_not_have(node, vendor, tmp_path, name):
    before = files(node.root)
    path = tmp_path / "keyrings" / name
    found = pinning.resolve_aside(node, [DRIVER], settings(node, vendor, path), {}, {}, {})
    assert {row["name"]: row["version"] for row in found["closure"]} == dict.fromkeys(
        ("nvidia-dkms-580", "libnvidia-compute-580", "nvidia-firmware-580-580.126.20"), "580.126.20-1")
    assert not path.exists() and files(node.root) == before


def test_a_repository_that_somebody_else_signs_is_not_read(node, vendor, tmp_path):
    given = settings(node, vendor, tmp_path / "vendor.gpg")
    given["keys"] = []
    with pytest.raises(acting.PackageError):
        pinning.resolve_aside(node, [DRIVER], given, {}, {}, {})


def test_what_is_written_guards_what_comes_later(node, vendor, tmp_path):
    """The key lies where the sources say, and somebody's later installation takes the stack's versions."""
    given, path = settings(node, vendor, tmp_path / "keyrings" / "vendor.gpg"), tmp_path / "keyrings" / "vendor.gpg"
    pinning.settle(node, [DRIVER], given, {"nvidia-dkms-580": "580.126.20-1"})
    assert repository_keys.fingerprints(path.read_bytes()) == [vendor[2]]
    ask = apt.Apt(node)
    ask.update()
    installs, removed = ask.simulate(["nvidia-imex", "nvidia-dkms-580"])
    assert {name: row["version"] for name, row in installs.items() if name != "libnvidia-compute-580"} == {
        "nvidia-imex": "580.126.20-1", "nvidia-dkms-580": "580.126.20-1", "nvidia-firmware-580-580.126.20": "580.126.20-1"} and not removed
    assert pinning.pins_now() == {"nvidia-dkms-580": "580.126.20-1"}
