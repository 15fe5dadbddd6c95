# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A flat apt repository: packages, Packages(.gz), Release, Release.gpg and InRelease in one folder."""
from __future__ import annotations

import gzip
import hashlib
import pathlib

from . import deb, keys

DATE = "Thu, 01 Jan 2026 00:00:00 UTC"  # apt refuses a Release file of the future
# Field of Release: key of a table's meta. apt's pins read them as o=, l=, n=, a=.
RELEASE = {"Origin": "origin", "Label": "label", "Suite": "suite", "Codename": "suite"}


def release_text(meta, files):
    """The Release file: the fields that the vendor's has, and the sums of `files` {name: bytes}."""
    lines = ["%s: %s" % (field, meta[key]) for field, key in RELEASE.items() if meta.get(key)]
    lines += ["Architectures: amd64", "Date: " + DATE, "SHA256:"]
    lines += [" %s %d %s" % (hashlib.sha256(data).hexdigest(), len(data), name) for name, data in files.items()]
    return "\n".join(lines) + "\n"


def write(folder, meta, rows, payload_of, home):
    """Write the repository of `rows` into an existing folder, signed by the key of the GnuPG home."""
    folder = pathlib.Path(folder)
    entries = []
    for row in rows:
        data = deb.package(row, payload_of(row))
        (folder / deb.file_name(row)).write_bytes(data)
        entries.append(deb.index_entry(row, data))
    packages = "\n".join(entries).encode()
    files = {"Packages": packages, "Packages.gz": gzip.compress(packages, mtime=deb.TIME)}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "Release").write_text(release_text(meta, files), encoding="utf-8")
    keys.clear_sign(home, folder / "Release", folder / "InRelease")
    keys.detach_sign(home, folder / "Release", folder / "Release.gpg")
