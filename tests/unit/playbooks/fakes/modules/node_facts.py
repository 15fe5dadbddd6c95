# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""node_facts of a machine of files."""
from __future__ import annotations

import json
import os
import sys

from ansible.module_utils.basic import AnsibleModule

sys.path.insert(0, os.environ["LOCKSTEP_FAKES"])
from node import Node  # noqa: E402  pylint: disable=wrong-import-position


def main():
    module = AnsibleModule(argument_spec={"gather": {"type": "list"}, "bundle": {}, "certificate": {}, "probe_timeout": {}}, supports_check_mode=True)
    node = Node()
    node.log("node_facts")
    module.exit_json(changed=False, ansible_facts={"lockstep": json.loads(json.dumps(node.state()))}, unknown=0)


if __name__ == "__main__":
    main()
