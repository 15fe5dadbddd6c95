# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take single collections out of the `ansible` wheel, so that no Galaxy server is needed.

Usage: extract_collections.py LOCK DEST COLLECTION...

LOCK is a requirements file that names the wheel with its hash. DEST is a site-packages directory: ansible-core
looks for collections below it by itself. Exit status 1 with one sentence when a collection is not in the wheel.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile
import zipfile


def download(lock: str, directory: str) -> pathlib.Path:
    """Download the locked wheel into *directory* and return its path.

    The wheel is only unpacked, never imported, so its own Python requirement does not matter.
    """
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary", ":all:",
         "--ignore-requires-python", "--disable-pip-version-check", "--require-hashes", "-r", lock, "-d", directory],
        check=True,
    )
    return next(pathlib.Path(directory).glob("ansible-*.whl"))


def extract(wheel: pathlib.Path, dest: str, names: list[str]) -> None:
    """Unpack the collections *names* (`namespace.name`) of *wheel* below *dest*.

    Raises:
        SystemExit: when the wheel does not contain one of them.
    """
    with zipfile.ZipFile(wheel) as archive:
        for name in names:
            prefix = "ansible_collections/%s/" % name.replace(".", "/")
            members = [member for member in archive.namelist() if member.startswith(prefix)]
            if not members:
                raise SystemExit("%s holds no collection %s" % (wheel.name, name))
            archive.extractall(dest, members)


def main() -> None:
    """Read the command line, download, unpack."""
    lock, dest, *names = sys.argv[1:]
    with tempfile.TemporaryDirectory() as directory:
        extract(download(lock, directory), dest, names)


if __name__ == "__main__":
    main()
