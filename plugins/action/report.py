# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes the report of a play and shows it; runs on the controller only."""
from __future__ import annotations

import json
import os
import tempfile

from ansible.plugins.action import ActionBase
from ansible.utils.display import Display

from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine, record, report

RECORD = "__gpu_validate_record"


def records_of(task_vars):
    """{host: record} of every host of the play that this run has come to."""
    batch = task_vars.get("ansible_play_batch") or []
    found = {}
    for host in task_vars["ansible_play_hosts_all"]:
        known = task_vars["hostvars"][host].get(RECORD)
        if known:
            found[host] = known
        elif host in batch:
            lost = engine.finding("run_failed", host, "The run ended on this node before it could be judged.")
            found[host] = record.node_record(None, None, None, [lost])
    return found


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
        dummy, arguments = self.validate_argument_spec({"path": {"type": "path", "required": True}})
        nodes = records_of(task_vars)
        path = write(arguments["path"], report.document(nodes))
        Display().display("\n" + report.table(nodes) + "\nThe same for machines: " + path)
        result.update(changed=False, path=path, verdicts={host: row["verdict"] for host, row in nodes.items()})
        return result
