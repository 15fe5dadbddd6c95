# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The throw-away OpenPGP key of the stub repositories: made once in the cache by gpg, no secret to anybody."""
from __future__ import annotations

import contextlib
import dataclasses
import os
import pathlib
import shutil
import subprocess
import tempfile

USER = "lockstep.gpu stub repositories <stubs@example.invalid>"


@dataclasses.dataclass(frozen=True)
class Key:
    """folder holds key.asc, key.gpg (public), key.fingerprint (40 hex digits) and secret.asc."""

    folder: pathlib.Path

    @property
    def fingerprint(self):
        return (self.folder / "key.fingerprint").read_text(encoding="ascii").strip()

    @contextlib.contextmanager
    def home(self):
        """A GnuPG home with the secret key, for as long as the block runs. In /tmp: a socket's path must be short."""
        with _home() as home:
            _gpg(home, "--import", str(self.folder / "secret.asc"))
            yield home

    def publish(self, out):
        """Copy the public files into `out`; those that are there already are left alone, as another process may be reading them."""
        for name in ("key.asc", "key.gpg", "key.fingerprint"):
            target = pathlib.Path(out) / name
            if not target.exists() or target.read_bytes() != (self.folder / name).read_bytes():
                shutil.copyfile(self.folder / name, target)


def clear_sign(home, text_file, target):
    """Write `target`, the clear-signed copy of a file (InRelease)."""
    _gpg(home, "--clearsign", "--digest-algo", "SHA256", "-o", str(target), str(text_file))


def detach_sign(home, file, target):
    """Write `target`, an armoured signature over a file (Release.gpg, repomd.xml.asc)."""
    _gpg(home, "--armor", "--detach-sign", "--digest-algo", "SHA256", "-o", str(target), str(file))


def key(cache):
    """The key of a cache folder; made if there is none."""
    folder = pathlib.Path(cache) / "key"
    if not (folder / "key.fingerprint").exists():
        with tempfile.TemporaryDirectory(dir=cache) as made:
            _make(pathlib.Path(made))
            with contextlib.suppress(OSError):  # another process made it meanwhile: that one is as good
                os.rename(made, folder)
            pathlib.Path(made).mkdir(exist_ok=True)
    return Key(folder)


def _make(folder):
    with _home() as home:
        _gpg(home, "--passphrase", "", "--quick-generate-key", USER, "rsa2048", "sign", "never")
        listed = _gpg(home, "--with-colons", "--list-keys").decode()
        fingerprint = next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))
        (folder / "secret.asc").write_bytes(_gpg(home, "--armor", "--export-secret-keys"))
        (folder / "key.asc").write_bytes(_gpg(home, "--armor", "--export"))
        (folder / "key.gpg").write_bytes(_gpg(home, "--export"))
        (folder / "key.fingerprint").write_text(fingerprint + "\n", encoding="ascii")


@contextlib.contextmanager
def _home():
    home = tempfile.mkdtemp(prefix="stubs-gpg-")
    try:
        yield home
    finally:
        subprocess.run(["gpgconf", "--homedir", home, "--kill", "all"], check=False, capture_output=True)
        shutil.rmtree(home, ignore_errors=True)


def _gpg(home, *words):
    done = subprocess.run(["gpg", "--homedir", home, "--batch", "--yes", "--quiet", "--pinentry-mode", "loopback", *words],
                          capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError("gpg %s: %s" % (" ".join(words), done.stderr.decode(errors="replace")))
    return done.stdout
