# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debian packages without dpkg-deb: an ar archive of two tar files (deb(5)). A thousand take a second."""
from __future__ import annotations

import gzip
import hashlib
import io
import tarfile

from .payload import SCRIPTS

# deb-control(5): the field of each kind of relation.
FIELDS = {"pre_depends": "Pre-Depends", "depends": "Depends", "recommends": "Recommends", "provides": "Provides",
          "conflicts": "Conflicts", "breaks": "Breaks", "replaces": "Replaces"}
# Older than every clock that tests run under, the same in every build.
TIME = 1767225600  # 2026-01-01


def control(row):
    """The control paragraph of a row, without its description, as lines."""
    lines = ["Package: " + row.name, "Version: " + row.version, "Architecture: " + row.arch]
    lines += ["Source: " + row.source] if row.source and row.source != row.name else []
    lines += ["Maintainer: lockstep.gpu stubs <stubs@example.invalid>", "Section: " + (row.section or "misc"),
              "Priority: optional", "Installed-Size: 1"]
    return lines + ["%s: %s" % (field, ", ".join(row.relations[key])) for key, field in FIELDS.items() if row.relations.get(key)]


def package(row, payload):
    """The bytes of the .deb of a row."""
    members = {"control": ("\n".join(control(row)) + "\nDescription: stub of %s\n" % row.name).encode()}
    scripts = {name: script(SCRIPTS[name], lines).encode() for name, lines in payload.scripts.items() if SCRIPTS[name]}
    if payload.conffiles:
        members["conffiles"] = "".join(path + "\n" for path in payload.conffiles).encode()
    control_tar = _tar([(name, data, 0o644, "") for name, data in members.items()] + [(name, data, 0o755, "") for name, data in scripts.items()])
    data_tar = _tar([(path.lstrip("/"), file.data, file.mode, file.link) for path, file in sorted(payload.files.items())])
    return _ar([("debian-binary", b"2.0\n"), ("control.tar.gz", control_tar), ("data.tar.gz", data_tar)])


def script(condition, lines):
    """A maintainer script: these lines of sh, under the condition."""
    return "#!/bin/sh\nset -e\nif %s; then\n%sfi\n" % (condition, lines)


def file_name(row):
    """The name of the file, as archives write it: no epoch."""
    return "%s_%s_%s.deb" % (row.name, row.version.split(":", 1)[-1], row.arch)


def index_entry(row, data):
    """The paragraph of Packages about a package with these bytes."""
    return "\n".join([*control(row), "Filename: ./" + file_name(row), "Size: %d" % len(data),
                      "SHA256: " + hashlib.sha256(data).hexdigest(), "Description: stub of " + row.name, ""])


def _tar(entries):
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.GNU_FORMAT) as tar:
        made = set()
        for path, data, mode, link in entries:
            folders = path.split("/")[:-1]
            for depth in range(1, len(folders) + 1):
                folder = "/".join(folders[:depth])
                if folder not in made:
                    made.add(folder)
                    tar.addfile(_info(folder, tarfile.DIRTYPE, 0o755))
            info = _info(path, tarfile.SYMTYPE if link else tarfile.REGTYPE, 0o777 if link else mode)
            info.linkname = link
            info.size = 0 if link else len(data)
            tar.addfile(info, None if link else io.BytesIO(data))
    return gzip.compress(raw.getvalue(), compresslevel=1, mtime=TIME)


def _info(path, kind, mode):
    info = tarfile.TarInfo("./" + path)
    info.type, info.mode, info.mtime, info.uname, info.gname = kind, mode, TIME, "root", "root"
    return info


def _ar(members):
    out = b"!<arch>\n"
    for name, data in members:
        out += ("%-16s%-12d%-6d%-6d%-8s%-10d`\n" % (name, TIME, 0, 0, "100644", len(data))).encode()
        out += data + b"\n" * (len(data) % 2)
    return out
