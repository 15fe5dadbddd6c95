# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ansible's own side: the controller, the node's Python, and what a first module said when it failed."""

from __future__ import annotations

import sys

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_controller
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import NOT_FOUND_RC, Function, Recorded


def _python(_root):
    return "%s %d.%d.%d\n" % (sys.executable or "python", *sys.version_info[:3])


PROBES = {
    "target_python": ("local", Function(_python, "the path and the version of the node's Python")),
    "ansible_version": ("bundle", Recorded("ansible --version")),
    "ansible_error": ("bundle", Recorded("what ansible-playbook printed when a module failed")),
    "ansible_inventory": ("bundle", Recorded("the inventory")),
    "ansible_facts": ("bundle", Recorded("the facts that a play had, as JSON")),
}


def section(reader):
    """The part of the state that these probes tell: `controller`.

    ansible: the version of ansible-core. python: {path, version} of the node, the version None where there is no Python. error: what a failed
    module said (parse_controller.parse_ansible_error). local: whether the inventory has a local connection; local_reboot_refused: a
    reboot was refused because of it. facts: the plain facts that a play had.
    """
    errors = [error for error in (reader.told("ansible_error", parse_controller.parse_ansible_error),
                                  *(reader.told(name, _of_a_result) for name in ("ansible_result", "apt_run", "dnf_run"))) if error]
    inventory = reader.told("ansible_inventory", parse_controller.parse_inventory)
    return {"controller": {
        "ansible": reader.parsed("ansible_version", parse_controller.parse_ansible_version),
        "python": _target(reader),
        "error": _together(errors),
        "local": None if inventory is None else inventory["local"],
        "local_reboot_refused": any(error["local_reboot"] for error in errors),
        "facts": reader.told("ansible_facts", parse_controller.parse_facts),
    }}


def _of_a_result(text, rc):
    """What the result of a module says; a transcript of a package manager is none."""
    return parse_controller.parse_ansible_result(text, rc) if '"msg"' in text or "FAILED!" in text else Parsed(None, [])


def _target(reader):
    """The node's Python; a command that is not there is the answer, not the lack of one."""
    seen = reader.seen("target_python")
    if seen is not None and seen.rc == NOT_FOUND_RC:
        return parse_controller.parse_target_python(seen.out + seen.err, seen.rc).value
    return reader.told("target_python", parse_controller.parse_target_python)


def _together(errors):
    """One answer of several transcripts: each value from the first that has it, the bindings of all."""
    if not errors:
        return None
    first = {key: next((error[key] for error in errors if error[key]), errors[0][key]) for key in errors[0]}
    return dict(first, bindings=[row for error in errors for row in error["bindings"]])
