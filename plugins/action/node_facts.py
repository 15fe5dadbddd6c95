# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_facts: one remote call, or the replay of a bundle here on the controller."""

from __future__ import annotations

import yaml
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    """Runs the module on the node unless a bundle is named."""

    TRANSFERS_FILES = False

    def run(self, tmp=None, task_vars=None):
        """The module's result; with `bundle` the same keys from the recorded outputs. Raises AnsibleActionFail."""
        super().run(tmp, task_vars)
        if not self._task.args.get("bundle"):
            return self._execute_module(module_name="lockstep.gpu.node_facts", module_args=self._task.args,
                                        task_vars=task_vars)
        # Half a hundred parsers, which the controller needs for a bundle only.
        from ansible_collections.lockstep.gpu.plugins.module_utils.bundle import BundleError, BundleProbe
        from ansible_collections.lockstep.gpu.plugins.module_utils.facts import replay
        from ansible_collections.lockstep.gpu.plugins.module_utils.probes import LEVELS
        _spec, args = self.validate_argument_spec(argument_spec={
            "gather": {"type": "list", "elements": "str", "choices": list(LEVELS), },
            "bundle": {"type": "path"},
            "certificate": {"type": "path"},
            "probe_timeout": {"type": "float"},
        })
        folder = self._loader.path_dwim(args["bundle"])
        try:
            probe = BundleProbe(folder, yaml.safe_load)
        except BundleError as error:
            raise AnsibleActionFail("bundle %s: %s" % (folder, error)) from error
        return dict(replay(probe, args["gather"]), given=probe.given if isinstance(probe.given, dict) else {})
