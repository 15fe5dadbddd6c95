#!/usr/bin/python
# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: restored_packages
short_description: Bring a node's packages back to what they were before a run
version_added: 0.1.0
author: lockstep.gpu contributors (@lockstep-gpu)
description:
  - Goes by the receipts of M(lockstep.gpu.receipt). Without O(receipt) it undoes the last run that changed something, which may be a rollback; then it goes
    forward again. With O(receipt) that run and all later ones are undone.
  - The way back is one exact transaction of kept packages, versions that the repositories still have, and removals; then holds, pins, our repositories' file
    and alternatives as they were.
  - Refused before any change (C(rollback_not_possible)) when a package can be had nowhere, when the node has moved on since, when the transaction would do
    anything else, and when the kernel that was the boot default is gone.
  - What the products merely needed (a compiler, a C library) is removed where it came with the run and nothing else needs it, and never downgraded. Packages
    of the running kernel stay.
  - Kernel modules and boot entries are not its business; RV(dkms) and RV(default_kernel) say what they were.
extends_documentation_fragment: lockstep.gpu.attributes
attributes:
  check_mode:
    support: full
    details: Nothing is changed; the repositories are read into a private folder.
  diff_mode:
    support: full
  idempotent:
    support: full
    details: With O(receipt). Without it the second call undoes the first one, once there is a receipt of that.
options:
  receipt:
    description: Id of the receipt to undo, with all later ones.
    type: str
  state:
    description: V(planned) finds out what would be done, and refuses what cannot; V(present) does it.
    type: str
    choices: [planned, present]
    default: present
  moved:
    description: Go back although managed packages are no longer what the last receipt says.
    type: bool
    default: false
  keep_mib:
    description: How many MiB of replaced packages are kept, as in M(lockstep.gpu.pinned_packages).
    type: int
    default: 4096
  manager:
    description: The package manager; V(auto) takes the one that the node has.
    type: str
    choices: [auto, apt, dnf]
    default: auto
seealso:
  - module: lockstep.gpu.receipt
  - module: lockstep.gpu.pinned_packages
"""

EXAMPLES = r"""
- name: Can the last run be undone?
  lockstep.gpu.restored_packages:
    state: planned
  register: way_back

- name: Undo it
  lockstep.gpu.restored_packages:
    receipt: "{{ way_back.receipt }}"
"""

RETURN = r"""
receipt:
  description: Id of the oldest receipt that is undone.
  returned: success
  type: str
undone:
  description: Ids of the receipts that are undone, the newest first.
  returned: success
  type: list
  elements: str
actions:
  description: What was done, or has to be done.
  returned: success
  type: list
  elements: dict
  sample:
    - {action: downgrade_exact, target: libnvidia-compute-550=550.90.07-0ubuntu1}
closure:
  description: Names and versions that come.
  returned: success
  type: list
  elements: dict
removed:
  description: Names that leave.
  returned: success
  type: list
  elements: str
left:
  description: What stays different from before, and why.
  returned: success
  type: list
  elements: dict
  sample:
    - {name: libc6, reason: 'libc6 stays at 2.36-9+deb12u13: what the products merely need is not held'}
stack:
  description: The stack that the node had then; null where it had none, or nobody knows.
  returned: success
  type: dict
stack_now:
  description: The stack that the node has by its receipts.
  returned: success
  type: dict
dkms:
  description: The modules that DKMS had built then, and that have to be built now.
  returned: success
  type: list
  elements: dict
modprobe:
  description: What our file of modules' options and blacklists said; empty where there was none.
  returned: success
  type: str
running_kernel:
  description: The kernel that ran then.
  returned: success
  type: str
default_kernel:
  description: The kernel that was the boot default then; null in a container.
  returned: success
  type: str
problems:
  description: Why nothing was changed.
  returned: when the rollback was refused
  type: list
  elements: dict
  sample:
    - {code: rollback_not_possible, name: libcuda1, message: libcuda1=550.90.07-1 is neither kept on this node nor in an archive}
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.lockstep.gpu.plugins.module_utils import (
    acting, modprobe_policy, pinned_node, pinning, receipts, restoring, restoring_apt, restoring_dnf)
from ansible_collections.lockstep.gpu.plugins.module_utils.run import CommandError, Runner


def told(way):
    """What the playbook needs to know about a planned Restore."""
    change, goal = way.change, way.goal
    last = receipts.stack_now(way.known)
    return {
        "changed": bool(way.actions()), "receipt": way.undone[-1]["id"], "undone": [row["id"] for row in way.undone], "actions": way.actions(),
        "closure": [{"name": name, "version": version} for name, version in sorted(change["ask"].items())],
        "removed": sorted([*change["remove"], *change["soft"]]), "left": change["left"],
        "stack": (goal["stack"] or {}).get("mapping"), "stack_now": (last or {}).get("mapping"), "dkms": way.builds(),
        "modprobe": goal["files"].get(modprobe_policy.FILE, ""), "running_kernel": goal["running"], "default_kernel": goal["default"], "diff": way.diff(),
    }


def main():
    module = AnsibleModule(
        argument_spec={
            "receipt": {"type": "str"},
            "state": {"type": "str", "choices": ["planned", "present"], "default": "present"},
            "moved": {"type": "bool", "default": False},
            "keep_mib": {"type": "int", "default": 4096},
            "manager": {"type": "str", "choices": ["auto", "apt", "dnf"], "default": "auto"},
        },
        supports_check_mode=True)
    if os.geteuid() != 0:
        module.fail_json(msg="Packages are root's business; run with become.")
    try:
        backend = pinned_node.backend_for(module.params["manager"])
        backend.prepare(module)
        session = restoring_apt.Session if backend is pinning else restoring_dnf.Session
        way = restoring.Restore(Runner(module), backend, module.params, session)
        way.plan()
        result = told(way)
        if module.params["state"] == "planned":
            result["changed"] = False
        elif result["changed"] and not module.check_mode:
            way.apply()
        module.exit_json(**result)
    except receipts.ReceiptError as error:
        module.fail_json(msg="Nothing was changed. %s" % error, problems=[restoring.problem(module.params["receipt"] or "receipt", str(error))])
    except acting.Refused as error:
        module.fail_json(msg="Nothing was changed. %s" % error, problems=[dict(row, code=restoring.CODE) for row in error.problems])
    except (acting.PackageError, CommandError) as error:
        module.fail_json(msg="The package manager failed; the same rollback goes on from here. %s" % error)


if __name__ == "__main__":
    main()
