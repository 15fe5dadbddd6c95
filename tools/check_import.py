# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check that galaxy-importer really saw this collection: every role and module of the source, each module documented.

Usage: check_import.py RESULT.json SOURCE. Exit status 1 with one sentence per fault.
"""

from __future__ import annotations

import json
import pathlib
import sys


def faults(result: dict, source: pathlib.Path) -> list[str]:
    """Return what *result* (galaxy-importer's JSON) lacks of the collection in *source*; empty when it is complete."""
    seen = {(item["content_type"], item["name"]) for item in result["contents"]}
    documented = {item["content_name"] for item in result["docs_blob"]["contents"]
                  if item["content_type"] == "module" and item.get("doc_strings", {}) and item["doc_strings"].get("doc")}
    wanted = [("role", path.name) for path in source.glob("roles/*") if path.is_dir()]
    modules = [path.stem for path in source.glob("plugins/modules/*.py") if path.stem != "__init__"]
    wanted += [("module", name) for name in modules]
    found = ["%s %s is not in the import" % item for item in sorted(wanted) if item not in seen]
    return found + ["module %s has no documentation in the import" % name for name in sorted(modules) if name not in documented]


def main() -> None:
    """Read the two paths of the command line and report."""
    result = json.loads(pathlib.Path(sys.argv[1]).read_text(encoding="utf-8"))
    found = faults(result, pathlib.Path(sys.argv[2]))
    if found:
        raise SystemExit("\n".join(found))
    sys.stdout.write("imported: %d contents\n" % len(result["contents"]))


if __name__ == "__main__":
    main()
