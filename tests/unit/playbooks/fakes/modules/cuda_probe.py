# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""cuda_probe of a machine of files: everything is as expected, but what node.json calls wrong under the running kernel."""
from __future__ import annotations

import os
import sys

from ansible.module_utils.basic import AnsibleModule

sys.path.insert(0, os.environ["LOCKSTEP_FAKES"])
from node import Node  # noqa: E402  pylint: disable=wrong-import-position


def main():
    module = AnsibleModule(argument_spec={"subjects": {"type": "list"}, "kernel": {}, "modules": {"type": "list"}, "alias": {}, "compile": {"type": "bool"},
                                          "expected": {"type": "dict"}, "limit": {}}, supports_check_mode=True)
    node = Node()
    gate = "initramfs_content" in module.params["subjects"]
    node.log("gate" if gate else "proof", "of", module.params["kernel"])
    rows = {}
    for subject in module.params["subjects"]:
        for name in ["module:" + stem for stem in module.params["modules"]] if subject == "modules" else [subject]:
            wrong = name in node.now.get("wrong_at_gate" if gate else "wrong", []) and (gate or node.now["running"] == module.params["kernel"])
            expected = module.params["expected"].get(name)
            rows[name] = {"subject": name, "value": "nonsense" if wrong else expected or "there", "expected": expected, "proven": not wrong,
                          "detail": "%s is %s" % (name, "nonsense" if wrong else "right"), "path": "/lib/modules/x/%s.ko" % name if "module:" in name else None,
                          "signed": True, "vermagic": module.params["kernel"] + " SMP"}
    module.exit_json(changed=False, proof=rows, not_proven=[], contradicted=[])


if __name__ == "__main__":
    main()
