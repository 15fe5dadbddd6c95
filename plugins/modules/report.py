#!/usr/bin/python
# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: report
short_description: Show and write the report of a play
version_added: 0.1.0
author: lockstep.gpu contributors (@lockstep-gpu)
description:
  - Joins what the roles found about every node of the play into one report, shows it as a table, and writes it as JSON.
  - Runs on the controller; nothing is done on a node. It also writes in check mode, since the file is the answer.
extends_documentation_fragment:
  - lockstep.gpu.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
options:
  path:
    description: Where the JSON goes, on the controller.
    type: path
    required: true
  judge:
    description:
      - Name of the variable that holds what M(lockstep.gpu.node_facts) returned; every host of the play that has one is judged
        here, against its C(lockstep_stack), and all of them at once.
      - C(lockstep_accept), C(lockstep_target) and C(lockstep_stacks_dirs) count, too.
    type: str
  wanted:
    description: A stack or a claim, which counts for hosts that have no C(lockstep_stack).
    type: dict
  purpose:
    description: V(audit) to judge what is there; V(install) where a change is at hand and what is unknown must stop it.
    type: str
    choices: [audit, install]
    default: audit
  show:
    description: Whether to show the table, too. A play writes the file at its start, so that a run that breaks off leaves no old answer.
    type: bool
    default: true
"""

EXAMPLES = r"""
- name: Report
  lockstep.gpu.report:
    path: lockstep-report.json
  run_once: true
"""

RETURN = r"""
path:
  description: The file.
  type: str
  returned: success
verdicts:
  description: Verdict by node.
  type: dict
  returned: success
  sample: {gpu01: in_sync}
"""
