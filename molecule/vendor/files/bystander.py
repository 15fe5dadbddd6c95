# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A signed repository of somebody else, with empty packages: bystander.py KIND FOLDER NAME=VERSION... (kind: deb or rpm)."""

from __future__ import annotations

import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests"))

from stubs import apt_repo, build, dnf_repo, keys, payload, tables  # noqa: E402  (needs the path above)


def main(kind: str, out: str, *packages: str) -> None:
    """Write the repository anew; it is signed by the key of the stub repositories."""
    folder, cache = pathlib.Path(out), build.cache_folder()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    arch = {"deb": "amd64", "rpm": "x86_64"}[kind]
    rows = [tables.Row(name=name, version=version, arch=arch, relations={}) for name, _equal, version in (text.partition("=") for text in packages)]
    with keys.key(cache).home() as home:
        if kind == "deb":
            apt_repo.write(folder, {"origin": "Somebody", "label": "bystander"}, rows, lambda _row: payload.Payload(), home)
        else:
            dnf_repo.write(folder, rows, None, lambda _row: payload.Payload(), home, cache / "bystander")


if __name__ == "__main__":
    main(*sys.argv[1:])
