# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages that a run replaces are kept on the node, so that a rollback does not depend on what an archive still has.

/var/lib/lockstep-gpu/packages/ holds the files as their archive calls them, and index.json: {file: {name, version, sha256, size, kept}}. What
is not in the index is torn or nobody's, and leaves. The folder is bounded: what the newest receipts need stays first.
"""
from __future__ import annotations

import hashlib
import json
import os
import shutil
import time

from ansible_collections.lockstep.gpu.plugins.module_utils import receipts
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import MIB, write_atomically

FOLDER = "/var/lib/lockstep-gpu/packages"
LIMIT_MIB = 4096
# A node needs room for other things, too.
SPARE = 1024 * MIB
INDEX = "index.json"
# Downloads lie here until they are complete.
PARTIAL = "partial"


def sha256_of(path):
    """The digest of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def surplus(index, needed, limit):
    """The files that have to go: of an index the unneeded ones first, the oldest before the newer; then what the oldest receipts need. Pure.

    needed: [(name, version)], the most important first; limit: bytes.
    """
    place = {item: number for number, item in enumerate(needed)}
    order = sorted(index, key=lambda file: (place.get((index[file]["name"], index[file]["version"]), len(place)), -index[file]["kept"], file))
    gone, size = [], 0
    for file in order:
        if size + index[file]["size"] > limit:
            gone.append(file)
        else:
            size += index[file]["size"]
    return gone


class Store:
    """The kept packages. limit: bytes, 0 keeps nothing."""

    def __init__(self, folder=None, limit=LIMIT_MIB * MIB):
        self.folder, self.limit = folder or FOLDER, limit

    @property
    def partial(self):
        """The folder for downloads, which is there afterwards."""
        path = os.path.join(self.folder, PARTIAL)
        os.makedirs(path, exist_ok=True)
        return path

    def index(self):
        """{file: row}; {} where there is none, or none that can be read."""
        try:
            with open(os.path.join(self.folder, INDEX), encoding="utf-8") as handle:
                return json.load(handle)
        except (OSError, ValueError):
            return {}

    def find(self, name, version):
        """The path of a kept package whose content is still what was kept; None without one."""
        for file, row in sorted(self.index().items()):
            path = os.path.join(self.folder, file)
            if (row["name"], row["version"]) == (name, version) and os.path.isfile(path) and sha256_of(path) == row["sha256"]:
                return path
        return None

    def has(self, name, version):
        """Whether a package is in the index, and its file there at its size; find() looks closer."""
        return any((row["name"], row["version"]) == (name, version) and os.path.isfile(os.path.join(self.folder, file))
                   and os.path.getsize(os.path.join(self.folder, file)) == row["size"] for file, row in self.index().items())

    def room(self, size):
        """Why a file of this size cannot be kept; None when it can."""
        if size > self.limit:
            return "larger than all that may be kept (%d MiB)" % (self.limit // MIB)
        os.makedirs(self.folder, exist_ok=True)
        if shutil.disk_usage(self.folder).free < size + SPARE:
            return "the file system of %s is nearly full" % self.folder
        return None

    def add(self, found, linked=True):
        """Take files over, [(name, version, path)]; linked: nobody writes into them where they are. Returns [{name, version, reason}] of the others."""
        index, lost = self.index(), []
        for name, version, path in found:
            reason = self.room(os.path.getsize(path))
            if reason:
                lost.append({"name": name, "version": version, "reason": reason})
                continue
            file = os.path.basename(path)
            target = os.path.join(self.folder, file)
            take_over(path, target + ".new", linked)
            os.rename(target + ".new", target)
            index[file] = {"name": name, "version": version, "sha256": sha256_of(target), "size": os.path.getsize(target), "kept": int(time.time())}
        self._write(index)
        return lost

    def _write(self, index):
        write_atomically(os.path.join(self.folder, INDEX), json.dumps(index, indent=1, sort_keys=True) + "\n")

    def prune(self, needed):
        """Keep to the limit, and drop what is in no index. Returns the files that left."""
        if not os.path.isdir(self.folder):
            return []
        index = self.index()
        gone = surplus(index, needed, self.limit)
        if gone:
            # The index first: a file that it does not have is swept by the next run.
            self._write({file: row for file, row in index.items() if file not in gone})
        for file in os.listdir(self.folder):
            path = os.path.join(self.folder, file)
            if os.path.isfile(path) and file != INDEX and (file in gone or file not in index):
                os.unlink(path)
        shutil.rmtree(os.path.join(self.folder, PARTIAL), ignore_errors=True)
        return gone


def take_over(source, target, linked):
    """Link a file, or copy it where that is impossible or not meant."""
    if os.path.lexists(target):
        os.unlink(target)
    try:
        if not linked:
            raise OSError
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)


def keep(run, backend, leaving, limit_mib=LIMIT_MIB, first=(), folder=None, notes=None):
    """Keep the files of packages, {name: version}, that a transaction is about to replace or remove. Never raises for what cannot be kept.

    What was kept and what was not is written into the open receipt, if there is one. first: [(name, version)] that are needed
    most; notes: the folder of the receipts. Returns (kept, lost).
    """
    store = Store(folder, limit_mib * MIB)
    if not leaving or not store.limit:
        return [], []
    wanted = {name: version for name, version in leaving.items() if not store.has(name, version)}
    lost = backend.fetch(run, store, wanted) if wanted else []
    known = receipts.load(notes or receipts.FOLDER)
    current = receipts.still_open(known)
    # The open receipt has every package of the node; what leaves now is what it needs.
    store.prune([*first, *sorted(leaving.items()), *receipts.needs([row for row in known if row["after"]])])
    kept = sorted("%s=%s" % item for item in leaving.items() if store.has(*item))
    reasons = {(row["name"], row["version"]): row["reason"] for row in lost}
    lost = [{"name": name, "version": version, "reason": reasons.get((name, version), "there is no room for it (%d MiB)" % limit_mib)}
            for name, version in sorted(leaving.items()) if "%s=%s" % (name, version) not in kept]
    if current:
        current["kept"] = sorted({*current["kept"], *kept})
        current["not_kept"] = [row for row in current["not_kept"] if row["name"] not in leaving] + lost
        receipts.save(current, notes or receipts.FOLDER)
    return kept, lost
