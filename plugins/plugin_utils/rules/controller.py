# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about Ansible's own side: whether its modules can run on the node at all."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import actions, knowledge

from .context import Context, Hit, Row

# Interpreters of the distribution itself; its bindings are installed for these and no other.
_SYSTEM = re.compile(r"(/usr)?/bin/python3?|/usr/libexec/platform-python")
# The oldest ansible-core that the collection runs with.
OWN_CORE = "2.17"


def _rows(ctx: Context) -> t.List[Row]:
    return list(ctx.facts["ansible"]["target_python"])


def _row(ctx: Context, core: t.Optional[str]) -> t.Optional[Row]:
    """The row of an ansible-core release; None for one that is not known."""
    series = ".".join(str(number) for number in knowledge.numbers(core or "")[:2])
    return next((row for row in _rows(ctx) if row["core"] == series), None)


def _runs(row: Row, python: str) -> bool:
    """Whether the modules of an ansible-core run with a Python."""
    version = knowledge.numbers(python)
    if version[:1] == (2,):
        return bool(row["python2"]) and version >= (2, 7)
    return version >= knowledge.numbers(row["python"])


def target_python_too_old(ctx: Context) -> t.Iterator[Hit]:
    """The node's Python runs the modules of this ansible-core."""
    controller = ctx.state.get("controller") or {}
    error, python = controller.get("error") or {}, controller.get("python") or {}
    version = python.get("version") or error.get("python")
    core = controller.get("ansible")
    missing = error.get("kind") == "python_missing" or (controller.get("python") is not None and not version)
    row = _row(ctx, core)
    if missing and not version:
        yield _no_python(ctx, error.get("interpreter") or python.get("path"), row)
    elif version and (row or core is None) and not _runs(row or _needed(ctx, error, version), version):
        yield _too_old(ctx, version, row or _needed(ctx, error, version), python.get("path") or error.get("interpreter"))
    elif not version and error.get("kind") == "python_too_old":
        need = error.get("minimum") or (row or {}).get("python")
        yield Hit("older than %s%s" % (need or "needed", " for ansible-core %s" % row["core"] if row else ""),
                  "The node's Python is older than %s, which the modules of %s need." % (need or "the one", "ansible-core %s" % (core or "this release")),
                  (row or _rows(ctx)[-1])["source"], do=(_refuse(ctx, None, need),))


def _needed(ctx: Context, error: Row, version: str) -> Row:
    """The row to judge by where nobody recorded the controller: the first that names the minimum of the error, else the collection's own."""
    named = next((row for row in _rows(ctx) if row["python"] == error.get("minimum") and not row["python2"]), None)
    return named or _row(ctx, OWN_CORE) or _rows(ctx)[-1]


def _too_old(ctx: Context, version: str, row: Row, path: t.Optional[str]) -> Hit:
    later = next((one for one in _rows(ctx) if knowledge.numbers(one["core"]) > knowledge.numbers(row["core"]) and one["python"] != row["python"]), None)
    subject = "%s < %s for ansible-core %s%s" % (version, row["python"], row["core"], " (%s for %s)" % (later["python"], later["core"]) if later else "")
    return Hit(subject, "The node has Python %s%s; the modules of ansible-core %s need %s or newer." % (
        version, " (%s)" % path if path else "", row["core"], row["python"]), row["source"], do=(_refuse(ctx, version, row["python"]),))


def _no_python(ctx: Context, path: t.Optional[str], row: t.Optional[Row]) -> Hit:
    need = (row or _row(ctx, OWN_CORE) or _rows(ctx)[-1])["python"]
    where = path or "the node"
    return Hit("no Python at %s" % where, "There is no Python at %s; the modules of ansible-core%s need %s or newer." % (
        where, " %s" % row["core"] if row else "", need), (row or _rows(ctx)[-1])["source"], "missing",
        (actions.step("fail_preflight", "install the distribution's Python %s or newer, or name it in ansible_python_interpreter" % need),))


def _refuse(ctx: Context, version: t.Optional[str], need: t.Optional[str]) -> Row:
    """The step instead of a traceback: the newest ansible-core that still runs with this Python, or another Python."""
    older = [row["core"] for row in _rows(ctx) if (_runs(row, version) if version else need and knowledge.numbers(row["python"]) < knowledge.numbers(need))]
    if older:
        return actions.step("fail_preflight", "use ansible-core %s for this node, or a Python that is new enough" % older[-1])
    return actions.step("fail_preflight", "the node needs a newer Python")


def package_bindings_missing(ctx: Context) -> t.Iterator[Hit]:
    """The Python that runs the modules has the bindings of the node's package manager."""
    for row in ((ctx.state.get("controller") or {}).get("error") or {}).get("bindings") or []:
        path, package = row["interpreter"], row["package"]
        named = "%s%s" % (path or "the node's Python", " %s" % row["version"] if row["version"] else "")
        own = path is None or bool(_SYSTEM.fullmatch(path))
        steps = [actions.step("fail_preflight", "%s for %s" % (package, named))]
        if own:
            steps.append(actions.step("install_exact", package))
        else:
            steps.append(actions.step("manual", "set ansible_python_interpreter to the distribution's own Python: %s belongs to that one only" % package))
        tried = "; tried: %s" % ", ".join(row["attempted"]) if row["attempted"] else ""
        yield Hit("%s for %s" % (package, named), "%s cannot import the bindings that %s brings%s." % (named[:1].upper() + named[1:], package, tried),
                  do=tuple(steps))


def ansible_module_unknown(ctx: Context) -> t.Iterator[Hit]:
    """Ansible finds the modules that a playbook uses."""
    name = ((ctx.state.get("controller") or {}).get("error") or {}).get("no_module")
    if name:
        row = next((row for row in ctx.facts["ansible"]["no_modules"] if row["name"] == name), None)
        why = "; there never was one of that name" if row else ": its collection is missing, or it is misspelt"
        yield Hit(name, "Ansible does not find the module %s%s." % (name, why), (row or {}).get("source"),
                  do=(actions.step("fail_preflight", "use %s" % (row["instead"] if row else "a module that is installed")),))


RULES = (target_python_too_old, package_bindings_missing, ansible_module_unknown)
