# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""capture: one remote call, then a folder here on the controller."""

from __future__ import annotations

import json
import os
import shutil
import tempfile

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase

from ansible_collections.lockstep.gpu.plugins.module_utils.bundle import MANIFEST, to_bundle
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import Observation
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import LEVELS
from ansible_collections.lockstep.gpu.plugins.plugin_utils.redact import redacted


def write(folder, manifest, texts):
    """Replace the bundle in one step. Raises OSError, ValueError for a folder that holds something else."""
    folder = os.path.abspath(os.path.expanduser(folder))
    if os.path.lexists(folder) and not os.path.exists(os.path.join(folder, MANIFEST)) and os.listdir(folder):
        raise ValueError("%s holds something else than a bundle" % folder)
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    fresh = tempfile.mkdtemp(prefix=".lockstep-", dir=os.path.dirname(folder))
    try:
        for name, text in dict(texts, **{MANIFEST: yaml.safe_dump(manifest, sort_keys=False, width=120)}).items():
            with open(os.path.join(fresh, name), "w", encoding="utf-8", errors="replace") as out:
                out.write(text)
        os.chmod(fresh, 0o755)
        old = fresh + ".old"
        if os.path.lexists(folder):
            os.rename(folder, old)
        os.rename(fresh, folder)
        shutil.rmtree(old, ignore_errors=True)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return folder


class ActionModule(ActionBase):
    """lockstep.gpu.capture"""

    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        """Observe the node, redact on request, write the bundle. Raises AnsibleActionFail when it cannot be written."""
        super().run(tmp, task_vars)
        dummy, arguments = self.validate_argument_spec(argument_spec={
            "dest": {"type": "path", "required": True}, "redact": {"type": "bool", "default": False}, "probe_timeout": {"type": "float"},
            "gather": {"type": "list", "elements": "str", "choices": list(LEVELS)}})
        result = self._execute_module(module_name="lockstep.gpu.capture", module_args=self._task.args, task_vars=task_vars)
        observations, node = result.pop("observations", None), result.pop("node", None)
        if observations is None:
            return result
        # Older ansible-core marks texts of nodes with types of its own, which are no plain text to YAML.
        observations = json.loads(json.dumps(observations))
        seen = {name: Observation(**dict({"rc": None}, **row)) for name, row in observations.items()}
        if arguments.get("redact"):
            seen = redacted(seen, [node, task_vars.get("inventory_hostname"), task_vars.get("ansible_host")])
        manifest, texts = to_bundle(seen)
        try:
            path = write(str(arguments["dest"]), manifest, texts)
        except (OSError, ValueError) as error:
            raise AnsibleActionFail("the bundle cannot be written: %s" % error) from error
        lost = [{"probe": name, "reason": row.reason} for name, row in sorted(seen.items()) if row.rc is None]
        result.update(path=path, probes=len(seen) - len(lost), unanswered=lost)
        return result
