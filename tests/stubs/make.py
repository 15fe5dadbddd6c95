# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the stub repositories: tests/stubs/make.py OUT [--only ID ...]. README.md says what each is."""
from __future__ import annotations

import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from stubs import build, repositories, variants  # noqa: E402  (needs the path above)


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", nargs="?", help="folder to write them below")
    parser.add_argument("--only", nargs="+", metavar="ID", choices=repositories.ids(), help="these repositories; default: all")
    parser.add_argument("--kind", choices=("deb", "rpm"), help="all repositories of one kind")
    parser.add_argument("--cache", help="folder of the key and of built rpms; default: below ~/.cache/lockstep-gpu")
    parser.add_argument("--until", action="append", default=[], metavar="ID=VERSION", help="no driver newer than this; ID may be '*'")
    parser.add_argument("--without", action="append", default=[], metavar="ID=NAME[=VERSION]", help="drop rows; regular expressions")
    parser.add_argument("--list", action="store_true", help="print the ids, and do nothing")
    args = parser.parse_args(words)
    ids = args.only or [name for name in repositories.ids() if args.kind in (None, repositories.get(name).kind)]
    if args.list:
        print("\n".join(ids))
        return 0
    if not args.out:
        parser.error("name a folder to write to")
    begin = time.monotonic()
    made = build.build(args.out, ids, variants.parse(args.until, args.without), args.cache)
    print("%d repositories below %s, %.1f s" % (len(made), args.out, time.monotonic() - begin))
    return 0


if __name__ == "__main__":
    sys.exit(main())
