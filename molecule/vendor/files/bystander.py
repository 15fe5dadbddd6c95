# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A signed repository with one package that no stack knows: bystander.py KIND VERSION FOLDER (kind: deb or rpm)."""

from __future__ import annotations

import pathlib
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tests"))

from stubs import apt_repo, build, dnf_repo, keys, payload, tables  # noqa: E402  (needs the path above)

NAME = "lockstep-bystander"


def main(kind: str, version: str, out: str) -> None:
    """Write the repository anew; it is signed by the key of the stub repositories."""
    folder, cache = pathlib.Path(out), build.cache_folder()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    row = tables.Row(name=NAME, version=version, arch={"deb": "all", "rpm": "noarch"}[kind], relations={})
    made = payload.Payload()
    made.text("/usr/share/%s/version" % NAME, version + "\n")
    with keys.key(cache).home() as home:
        if kind == "deb":
            apt_repo.write(folder, {"origin": "Somebody", "label": "bystander"}, [row], lambda _row: made, home)
        else:
            dnf_repo.write(folder, [row], None, lambda _row: made, home, cache / "bystander")


if __name__ == "__main__":
    main(*sys.argv[1:])
