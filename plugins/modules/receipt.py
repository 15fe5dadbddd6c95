#!/usr/bin/python
# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: receipt
short_description: Write down what a node was before a run, and what it is after it
version_added: 0.1.0
author: lockstep.gpu contributors (@lockstep-gpu)
description:
  - Keeps receipts in C(/var/lib/lockstep-gpu/receipts), one for each run that changed something, readable for root alone. M(lockstep.gpu.restored_packages)
    goes by them.
  - A receipt has the packages, holds, pins, repositories, options of modules, alternatives, DKMS modules, the running kernel and the boot default, before and
    after; who ran what from where; and which of the replaced packages are kept.
  - Passwords, tokens and private keys are redacted.
  - A receipt that a killed run left open becomes V(interrupted) when the next one is opened; what it says of the time before stays.
  - Runs on the node; the controller adds who runs it.
extends_documentation_fragment: lockstep.gpu.attributes
attributes:
  check_mode:
    support: full
    details: No receipt is written, since nothing changes.
  diff_mode:
    support: none
  idempotent:
    support: partial
    details: Each V(open) is a run of its own. Closing without an open receipt changes nothing.
options:
  state:
    description:
      - V(open) before the first change of a run, V(closed) at its end.
      - A receipt of a run after which everything is as before is removed when it is closed.
      - V(listed) only reads.
    type: str
    choices: [open, closed, listed]
    default: listed
  kind:
    description: What runs.
    type: str
    choices: [site, rollback]
    default: site
  undoes:
    description: Id of the receipt that a rollback undoes.
    type: str
  stack:
    description: The stack that the run leads to.
    type: dict
  closure:
    description: The C(closure) that M(lockstep.gpu.pinned_packages) resolved.
    type: list
    elements: dict
    default: []
  removed:
    description: Names of packages that are to leave.
    type: list
    elements: str
    default: []
  succeeded:
    description: For V(closed), whether the run got to its end.
    type: bool
    default: true
  reason:
    description: For V(closed), why it did not.
    type: str
  keep:
    description: How many receipts stay.
    type: int
    default: 20
  who:
    description: Filled in by the controller - who runs what from where.
    type: dict
  manager:
    description: The package manager; V(auto) takes the one that the node has.
    type: str
    choices: [auto, apt, dnf]
    default: auto
seealso:
  - module: lockstep.gpu.restored_packages
"""

EXAMPLES = r"""
- name: Before the first change
  lockstep.gpu.receipt:
    state: open
    stack: "{{ my_stack }}"

- name: At the end
  lockstep.gpu.receipt:
    state: closed

- name: What happened to this node
  lockstep.gpu.receipt:
  register: history
"""

RETURN = r"""
id:
  description: Id of the receipt that was opened or closed; null where there is none.
  returned: always
  type: str
  sample: 20261130T181502Z-9f3c2a51
interrupted:
  description: Ids of receipts that killed runs left.
  returned: when O(state=open)
  type: list
  elements: str
receipts:
  description: The receipts, the oldest first, without their packages.
  returned: always
  type: list
  elements: dict
  sample:
    - {id: 20261130T181502Z-9f3c2a51, kind: site, status: done, opened: "2026-11-30T18:15:02Z", closed: "2026-11-30T18:19:40Z",
       stack: ubuntu2204-550, from: null, who: {user: ops, host: deploy1, ansible: 2.19.4}, changes: 61, not_kept: []}
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.lockstep.gpu.plugins.module_utils import node_snapshot, pinned_node, receipts
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import PackageError
from ansible_collections.lockstep.gpu.plugins.module_utils.run import CommandError, Runner


def line(row):
    """A receipt in a few words."""
    short = {key: row[key] for key in ("id", "kind", "status", "opened", "closed", "who", "kept", "not_kept", "continues", "undoes", "message")}
    return dict(short, changes=len(row["changes"]), **{key: (row[key] or {}).get("name") for key in ("stack", "from")})


def open_one(params, known, take):
    """(the receipts as they have to be written, the last one of them new; ids of interrupted ones). take(): the node's state now."""
    before, changed, interrupted = take(), [], []
    for place, row in enumerate(known):
        if row["status"] == "open":
            known[place] = receipts.closed(row, before, "interrupted", "the run was killed, or lost its node")
            changed.append(known[place])
            interrupted.append(row["id"])
    # Of a run that changed nothing before it was killed there is nothing to go back from.
    nothing = [row for row in changed if not row["changes"]]
    known = [row for row in known if row not in nothing]
    planned = {"packages": {row["name"]: row["version"] for row in params["closure"]}, "removed": list(params["removed"])}
    new = receipts.opened(known, before, params["kind"], params["undoes"], receipts.stack_of(params["stack"]), planned, params["who"])
    return [row for row in changed if row["changes"]] + [new], [row["id"] for row in nothing], interrupted


def main():
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["open", "closed", "listed"], "default": "listed"},
            "kind": {"type": "str", "choices": ["site", "rollback"], "default": "site"},
            "undoes": {"type": "str"},
            "stack": {"type": "dict"},
            "closure": {"type": "list", "elements": "dict", "default": []},
            "removed": {"type": "list", "elements": "str", "default": []},
            "succeeded": {"type": "bool", "default": True},
            "reason": {"type": "str"},
            "keep": {"type": "int", "default": receipts.KEEP, "no_log": False},
            "who": {"type": "dict"},
            "manager": {"type": "str", "choices": ["auto", "apt", "dnf"], "default": "auto"},
        },
        supports_check_mode=True)
    params = module.params
    if os.geteuid() != 0:
        module.fail_json(msg="Receipts are root's; run with become.")
    result = {"changed": False, "id": None}
    try:
        known = receipts.load()
        if params["state"] != "listed" and not module.check_mode:
            backend = pinned_node.backend_for(params["manager"])
            backend.prepare(module)
            run = Runner(module)

            def take():
                return node_snapshot.take(run, backend)

            if params["state"] == "open":
                rows, gone, result["interrupted"] = open_one(params, known, take)
                for row in rows:
                    receipts.save(row)
                for ident in gone:
                    receipts.drop(ident)
                receipts.prune(keep=max(1, params["keep"]))
                result.update(changed=True, id=rows[-1]["id"])
            else:
                current = receipts.still_open(known)
                if current:
                    end = receipts.closed(current, take(), "done" if params["succeeded"] else "failed", params["reason"])
                    if end["changes"]:
                        receipts.save(end)
                    else:
                        receipts.drop(end["id"])
                    result.update(changed=True, id=end["id"] if end["changes"] else None)
        module.exit_json(receipts=[line(row) for row in receipts.load()], **result)
    except (PackageError, CommandError, OSError) as error:
        module.fail_json(msg=str(error), **result)


if __name__ == "__main__":
    main()
