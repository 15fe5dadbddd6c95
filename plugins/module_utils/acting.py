# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every backend of pinned_packages shares: refusals, files that are replaced whole, the guard against DKMS, space."""
from __future__ import annotations

import os
import shutil
import tempfile

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_alternatives import parse_alternatives

DKMS_GUARD = "/etc/dkms/no-autoinstall"
GUARD_TEXT = ("# Written by lockstep.gpu for the length of a package transaction: modules are built explicitly,\n"
              "# for the stack's kernel. If no run is going on, the next run removes this file.\n")
MIB = 1 << 20


class Refused(Exception):
    """The transaction must not run. problems: [{code, name, message, available?}]."""

    def __init__(self, problems):
        super().__init__("; ".join(problem["message"] for problem in problems))
        self.problems = problems


class PackageError(Exception):
    """The package manager failed; the text is its own words."""


def read_text(path):
    """A file's text, None when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except FileNotFoundError:
        return None


def write_atomically(path, content, mode=0o644):
    """Replace a file's content (text or bytes) in one step, so that a killed run leaves the old or the new one."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".lockstep-")
    with os.fdopen(handle, "wb") as out:
        out.write(content if isinstance(content, bytes) else content.encode("utf-8"))
        out.flush()
        os.fsync(out.fileno())
    os.chmod(temporary, mode)
    os.rename(temporary, path)


def set_file(path, text):
    """Write text (None or empty: remove the file) when it differs; True when it did."""
    now = read_text(path)
    if not text:
        if now is not None:
            os.unlink(path)
        return now is not None
    if now != text:
        write_atomically(path, text)
    return now != text


def alternatives_now(run, names):
    """{name: {mode, value, choices}} of the alternatives that exist."""
    found = {}
    for name in names:
        result = run(["update-alternatives", "--query", name], ok=(0, 2))
        if result.rc == 0:
            found[name] = parse_alternatives(result.out) or {}
    return found


def check_space(rows, metadata, archives="/var/cache/apt/archives"):
    """A problem when the transaction would not fit: downloads below archives, unpacked files below /usr.

    rows: of a closure, with size; metadata: {name: {installed_kib}}.
    """
    changing = [row for row in rows if row["change"] != "keep"]
    downloads = sum(row["size"] or 0 for row in changing)
    unpacked = 1024 * sum(metadata.get(row["name"], {}).get("installed_kib", 0) for row in changing)
    needs = {}
    for path, size in ((archives, downloads), ("/usr", unpacked)):
        existing = path if os.path.isdir(path) else "/"
        status = os.statvfs(existing)
        key = os.stat(existing).st_dev
        need, free, names = needs.get(key, (0, status.f_bavail * status.f_frsize, []))
        needs[key] = (need + size, free, names + [path])
    return [{"code": "space_low", "name": " and ".join(names),
             "message": "%s: %d MiB needed, %d MiB free" % (" and ".join(names), need // MIB, free // MIB)}
            for need, free, names in needs.values() if need > free]


class DkmsGuard:
    """While it is held, neither maintainer scripts nor kernel hooks build modules (DKMS reads the file).

    A guard that a killed run left behind is taken over and removed; somebody else's file is left alone.
    """

    def __init__(self, path=DKMS_GUARD):
        self._path = path

    def ours(self):
        """True when the file is there and was written by this collection."""
        return "lockstep.gpu" in (read_text(self._path) or "")

    def __enter__(self):
        if read_text(self._path) is None:
            write_atomically(self._path, GUARD_TEXT)
        return self

    def __exit__(self, *_details):
        if self.ours():
            os.unlink(self._path)
            if not os.listdir(os.path.dirname(self._path)):
                os.rmdir(os.path.dirname(self._path))
        return False


def wait_for_first_boot(run):
    """cloud-init installs packages too; wait until it is done (its own failures are not ours to judge)."""
    if os.path.isdir("/run/cloud-init") and shutil.which("cloud-init"):
        run(["cloud-init", "status", "--wait"], ok=None)
