# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""boot_kernel of a machine of files, with the results of the real one."""
from __future__ import annotations

import os
import sys

from ansible.module_utils.basic import AnsibleModule

sys.path.insert(0, os.environ["LOCKSTEP_FAKES"])
from node import Node  # noqa: E402  pylint: disable=wrong-import-position


def outcome(now):
    trial = now["trial"]
    return None if trial is None else trial["outcome"] if trial["outcome"] == "failed" else trial.get("judged", "pending")


def act(now, params):
    """Whether anything changes; now is changed in place. Returns None where a trial is refused."""
    trial, before = now["trial"], str(now)
    if params["state"] == "once":
        if trial and trial["kernel"] == params["kernel"] and trial["attempts"] >= params["trials"]:
            return None
        attempts = trial["attempts"] if trial and trial["kernel"] == params["kernel"] else 0
        now["trial"] = {"kernel": params["kernel"], "from": now["running"], "attempts": attempts, "confirm_within": params["confirm_within"],
                        "outcome": "pending", "reason": None, "armed": True}
    elif params["state"] == "settled" and outcome(now) == "failed":
        trial["outcome"] = "failed"
    elif params["state"] == "withdrawn" and outcome(now) == "pending":
        now["trial"] = None
    elif params["state"] == "default":
        now["default"] = params["kernel"]
        if outcome(now) in ("running", "failed") and trial["kernel"] == params["kernel"]:
            now["trial"] = None
    return str(now) != before


def main():
    module = AnsibleModule(
        argument_spec={"kernel": {}, "state": {"default": "default"}, "confirm_within": {"type": "int", "default": 0}, "watch": {"default": "keep"},
                       "panic": {"type": "int", "default": 30}, "trials": {"type": "int", "default": 2}}, supports_check_mode=True)
    node, params = Node(), module.params
    changed = act(node.now, params)
    words = [params["state"], params["kernel"] or "", "within=%d" % params["confirm_within"] if params["state"] == "once" else ""]
    words += [params["watch"]] if params["watch"] != "keep" else []
    if changed is None:
        module.fail_json(msg="trial_boot_failed: kernel %s was booted on trial %d times" % (params["kernel"], node.now["trial"]["attempts"]),
                         code="trial_boot_failed")
    if not module.check_mode:
        node.log("boot_kernel", *(word for word in words if word))
        node.save()
    trial = dict(node.now["trial"], outcome=outcome(node.now)) if node.now["trial"] else None
    module.exit_json(changed=changed, status="ok", trial=trial, env_writable=True)


if __name__ == "__main__":
    main()
