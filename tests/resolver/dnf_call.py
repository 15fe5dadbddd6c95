# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One call of pinned_packages on the root folder of a dnf_node.DnfNode, run by the Python that has dnf: JSON in, JSON out.

In: {root, packages: folders to find ansible and the collection in, do: resolve | apply, slices, sources, keys}.
Out: {closure, removed, actions, settings: [{action, target}]} or {problems: [...]} or {failed: text}.
"""
from __future__ import annotations

import json
import subprocess
import sys
import traceback


def main():
    asked = json.load(sys.stdin)
    sys.path += asked["packages"]
    from ansible_collections.lockstep.gpu.plugins.module_utils import acting, dnf, pinned_node, pinning_dnf
    from ansible_collections.lockstep.gpu.plugins.module_utils.run import CommandError, Result

    def run(argv, ok=(0,), env=None, stdin=None):
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        if ok is not None and done.returncode not in ok:
            raise CommandError(argv, done.returncode, done.stdout, done.stderr)
        return Result(done.returncode, done.stdout, done.stderr)

    pinning_dnf.SYSTEM = dnf.System(asked["root"])
    acting.DkmsGuard.__init__.__defaults__ = (asked["root"] + acting.DKMS_GUARD,)
    try:
        node = pinned_node.Node(run, {"slices": asked["slices"], "only": None, "repositories": asked["sources"], "keys": asked["keys"],
                                      "alternatives": {}, "closure": None, "removed": []}, pinning_dnf)
        node.resolve()
        actions = node.actions()
        if asked["do"] == "apply" and actions:
            node.apply()
        return {"closure": node.rows, "removed": node.removed, "actions": actions}
    except acting.Refused as error:
        return {"problems": error.problems}
    except Exception:
        return {"failed": traceback.format_exc()}


if __name__ == "__main__":
    json.dump(main(), sys.stdout)
