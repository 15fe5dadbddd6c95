# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel module files: where they lie for a kernel, and what modinfo says of them."""

from __future__ import annotations

import hashlib
import os

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_modules import parse_modinfo

SUFFIXES = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")
# In the order in which depmod's default configuration prefers them.
_PREFERRED_DIRS = ("updates/dkms", "updates", "extra", "weak-updates")


def stem(path):
    """nvidia-current for .../nvidia-current.ko.xz; None when the name is not a module's."""
    name = os.path.basename(path)
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name[:-len(suffix)]
    return None


def find(kernel_dir, names):
    """The files of the modules `names` (stems) below /lib/modules/<release>: {stem: path}; absent ones are left out.

    The usual places of external modules are looked at first, so that a hit costs no walk over thousands of files.
    """
    found = {}
    for place in _PREFERRED_DIRS:
        for name in names:
            for suffix in SUFFIXES:
                path = os.path.join(kernel_dir, place, name + suffix)
                if name not in found and os.path.isfile(path):
                    found[name] = path
    missing = set(names) - set(found)
    if missing:
        for folder, dummy, files in os.walk(kernel_dir):
            for file_name in files:
                if stem(file_name) in missing:
                    found.setdefault(stem(file_name), os.path.join(folder, file_name))
    return found


def sha256(path):
    """The hex digest of a file's content."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def describe(run, paths, hashed=True):
    """What module files are: [{name, path, version, vermagic, license, signer, sha256}], None for what one does not say.

    run: a run.Runner. A file that modinfo cannot read (cut off, not a module) has None in all its fields. One command
    serves all files: each call unpacks a file of tens of megabytes.
    """
    known = {}
    if paths:
        known = {row["path"]: row for row in parse_modinfo(run(["modinfo", *paths], ok=None).out).value}
    rows = []
    for path in paths:
        row = {"name": stem(path), "path": path}
        row.update((key, known.get(path, {}).get(key)) for key in ("version", "vermagic", "license", "signer"))
        row["sha256"] = sha256(path) if hashed else None
        rows.append(row)
    return rows


def faults(row, kernel, version):
    """Why a described module file does not serve `kernel` at `version`: a list of sentences, empty when it does."""
    if row["vermagic"] is None:
        return ["%s cannot be read by modinfo" % row["path"]]
    found = []
    if row["vermagic"].split(" ")[0] != kernel:
        found.append("%s was built for %s" % (row["path"], row["vermagic"].split(" ")[0]))
    # Some modules carry no version at all; only a different one is a fault.
    if row["version"] is not None and row["version"] != version:
        found.append("%s is version %s" % (row["path"], row["version"]))
    return found
