# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write roles/*/README.md from meta/argument_specs.yml and defaults/main.yml; with --check only say what is stale."""

from __future__ import annotations

import pathlib
import re
import sys

import yaml

ROLES = pathlib.Path(__file__).resolve().parents[1] / "roles"


def plain(text) -> str:
    """Ansible's markup to Markdown: C(x) and V(x) become `x`."""
    joined = " ".join(text) if isinstance(text, list) else text
    return re.sub(r"[CVOM]\(([^)]*)\)", r"`\1`", joined)


def cell(value) -> str:
    """A default as it is written in YAML, fit for a table."""
    return "`%s`" % yaml.safe_dump(value, default_flow_style=True, width=1000).strip().removesuffix("\n...").replace("|", "\\|")


def readme(role: pathlib.Path) -> str:
    """The whole page of one role."""
    specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]
    path = role / "defaults/main.yml"
    defaults = (yaml.safe_load(path.read_text(encoding="utf-8")) if path.exists() else None) or {}
    main = specs["main"]
    lines = ["# lockstep.gpu.%s" % role.name, "", plain(main["short_description"]) + ".", ""]
    lines += [plain(sentence) for sentence in main.get("description", [])]
    lines += ["", "| variable | type | default | meaning |", "| --- | --- | --- | --- |"]
    for name, option in main.get("options", {}).items():
        default = cell(defaults[name]) if name in defaults else "required" if option.get("required") else "none"
        kind = "list of " + option["elements"] if option.get("elements") else option["type"]
        lines.append("| %s | %s | %s | %s |" % (name, kind, default, plain(option["description"])))
    lines += ["", "```yaml", "- hosts: gpu_nodes", "  roles:", "    - role: lockstep.gpu.%s" % role.name]
    # A rollback goes to the stack that the node had.
    if role.name != "rollback":
        # One that has the component.
        stack = "ubuntu2404-580" if role.name in ("fabric_manager", "container_toolkit", "dcgm") else "debian13-550"
        lines += ["  vars:", "    %s: %s" % ("preflight_stack" if main.get("options", {}).get("preflight_stack") else "lockstep_stack", stack)]
    return "\n".join([*lines, "```", ""])


def main() -> int:
    """Write or compare every role's page."""
    stale = []
    for role in sorted(path for path in ROLES.iterdir() if path.is_dir()):
        page, text = role / "README.md", readme(role)
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            stale.append(page)
            if "--check" not in sys.argv:
                page.write_text(text, encoding="utf-8")
    for page in stale:
        print("%s: %s" % ("stale" if "--check" in sys.argv else "written", page.relative_to(ROLES.parent)))
    return 1 if stale and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
