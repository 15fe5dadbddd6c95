#!/usr/bin/python
# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: capture
short_description: Write a node's state as a bundle that can be judged anywhere
version_added: 0.1.0
author: lockstep.gpu contributors (@lockstep-gpu)
description:
  - Takes the same observations as M(lockstep.gpu.node_facts) and writes them, as the tools printed them, into a folder on the controller.
  - The folder is a bundle, which C(lockstep.gpu.audit) and M(lockstep.gpu.node_facts) replay on any machine.
  - Nothing is changed on the node. The folder is written in check mode, too, since it is the answer.
extends_documentation_fragment:
  - lockstep.gpu.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: none
    details: A node is another one a moment later; the folder always has the latest.
options:
  dest:
    description:
      - Folder on the controller; it is made, or its bundle replaced. A relative one lies below the current directory.
      - A folder that holds something else than a bundle is refused.
    type: path
    required: true
  gather:
    description: Levels to read, as in M(lockstep.gpu.node_facts).
    type: list
    elements: str
    choices: [local, gpu, archive, deep]
    default: [local, gpu, archive, deep]
  redact:
    description:
      - Replace what tells who the owner is, each thing always by the same stand-in, so that what belongs together still does.
      - That is host and user names, network and hardware addresses, serial numbers, UUIDs, machine ids, and the hosts of private repositories.
      - What decides about compatibility stays. Look at the bundle before you send it all the same.
    type: bool
    default: false
  probe_timeout:
    description: Seconds that each single probe may take.
    type: float
    default: 15.0
"""

EXAMPLES = r"""
- name: Record the node for a bug report
  lockstep.gpu.capture:
    dest: "bundles/{{ inventory_hostname }}"
    redact: true
"""

RETURN = r"""
path:
  description: The bundle's folder.
  type: str
  returned: success
probes:
  description: How many observations it holds.
  type: int
  returned: success
  sample: 61
unanswered:
  description: Probes without a result, each with C(probe) and C(reason). What is not there is a result.
  type: list
  elements: dict
  returned: success
"""

import platform

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import DEFAULT_TIMEOUT, LiveProbe
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import LEVELS, of_levels


def observed(probe, names):
    """{probe: {rc, out, err, reason}} of the probes; a None or an empty part is left out."""
    probe.start(names)
    return {name: {key: value for key, value in probe.read(name)._asdict().items() if value not in (None, "")} for name in names}


def main():
    module = AnsibleModule(
        argument_spec={
            "dest": {"type": "path", "required": True},
            "gather": {"type": "list", "elements": "str", "choices": list(LEVELS), "default": list(LEVELS)},
            "redact": {"type": "bool", "default": False},
            "probe_timeout": {"type": "float", "default": DEFAULT_TIMEOUT},
        },
        supports_check_mode=True,
    )
    # nvidia-smi creates device nodes as root.
    levels = [level for level in module.params["gather"] if not (module.check_mode and level == "gpu")]
    module.exit_json(changed=False, node=platform.node(),
                     observations=observed(LiveProbe(timeout=module.params["probe_timeout"]), of_levels(levels)))


if __name__ == "__main__":
    main()
