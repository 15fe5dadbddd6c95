# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the report of a play and shows it; runs on the controller only."""
from __future__ import annotations

import json
import os
import tempfile

from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.lockstep.gpu.plugins.plugin_utils import audit, engine, knowledge, record, report, stack

# Ansible imports this before it forks off the tasks: the facts are read once, not by each task that judges.
knowledge.load()

RECORD = "__gpu_validate_record"


def judged(known, name, purpose, wanted=None):
    """The record of a host whose state was registered as `name`; known: its variables; wanted: what counts where it names no stack.

    All hosts are judged here, in one process: facts and stacks are read once for a fleet, not once a node.
    """
    read = known.get(name)
    if not read:
        return None
    if read.get("failed") or read.get("unreachable"):
        return audit.unreadable({"task": "Read the node's state", "result": read})
    accept = known.get("lockstep_accept") or []
    try:
        return audit.judge((read.get("ansible_facts") or {}).get("lockstep") or {}, known.get("lockstep_stack") or wanted,
                           read.get("given"), known.get("lockstep_target"), [accept] if isinstance(accept, str) else accept,
                           known.get("lockstep_stacks_dirs"), purpose)
    except stack.StackError as error:
        return audit.refused(error.code, str(error))
    except (engine.AcceptError, engine.TargetError) as error:
        return audit.refused("stack_invalid", str(error))


def records_of(task_vars, name=None, purpose="audit", wanted=None):
    """({host: record} of every host of the play, [hosts that the run has not come to yet]); the rest: of judged()."""
    present = task_vars.get("ansible_play_hosts") or []
    found, waiting = {}, []
    for host in task_vars["ansible_play_hosts_all"]:
        variables = task_vars["hostvars"][host]
        known = variables.get(RECORD) or (judged(variables, name, purpose, wanted) if name else None)
        if not known:
            # Left the play without a record: lost on the way, or one more failure while the first was told.
            message = "The run ended on this node before it was judged."
            if host in present:
                waiting.append(host)
                message = "The run has not judged this node yet."
            known = record.node_record(None, None, None, [engine.finding("run_failed", host, message)])
        found[host] = known
    return found, waiting


def write(path, document):
    """Replace the report in one step."""
    path = os.path.abspath(os.path.expanduser(path))
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".lockstep-")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        json.dump(document, out, indent=1, sort_keys=True, default=str)
        out.write("\n")
    os.chmod(temporary, 0o644)
    os.replace(temporary, path)
    return path


class ActionModule(ActionBase):
    """lockstep.gpu.report"""

    TRANSFERS_FILES = False
    _requires_connection = False

    def run(self, tmp=None, task_vars=None):
        """Collect the records, show the table, write the document."""
        result = super().run(tmp, task_vars)
        dummy, arguments = self.validate_argument_spec({
            "path": {"type": "path", "required": True}, "show": {"type": "bool", "default": True}, "judge": {"type": "str"},
            "purpose": {"type": "str", "choices": ["audit", "install"], "default": "audit"}, "wanted": {"type": "dict"}})
        nodes, waiting = records_of(task_vars, arguments["judge"], arguments["purpose"], arguments["wanted"])
        if arguments["show"]:
            Display().display("\n" + report.table({host: row for host, row in nodes.items() if host not in waiting}))
        try:
            path = write(arguments["path"], report.document(nodes))
        except OSError as error:
            raise AnsibleActionFail("the report cannot be written to %s: %s" % (arguments["path"], error)) from error
        if arguments["show"]:
            Display().display("The same for machines: " + path)
        result.update(changed=False, path=path, verdicts={host: row["verdict"] for host, row in nodes.items()})
        return result
