# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One run of the main job's package steps, or one rollback, on the root folder of a dnf_node.DnfNode: JSON in, JSON out, as in dnf_call.py.

In: {root, packages, do: site | rollback, slices, stack, killed, receipt, moved}. Out: {stack, receipts} or {problems} or {failed: text}.
"""
from __future__ import annotations

import json
import subprocess
import sys
import traceback
import types


def main():
    asked = json.load(sys.stdin)
    sys.path += asked["packages"]
    from ansible_collections.lockstep.gpu.plugins.module_utils import acting, dnf, keeping, modprobe_policy, node_snapshot, pinned_node, pinning_dnf
    from ansible_collections.lockstep.gpu.plugins.module_utils import receipts, restoring, restoring_dnf
    from ansible_collections.lockstep.gpu.plugins.module_utils.run import CommandError, Result
    from ansible_collections.lockstep.gpu.plugins.modules import receipt as receipt_module

    def run(argv, ok=(0,), env=None, stdin=None):
        if argv[0] == "dkms":
            return Result(127, "", "dkms is not installed")
        done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
        if ok is not None and done.returncode not in ok:
            raise CommandError(argv, done.returncode, done.stdout, done.stderr)
        return Result(done.returncode, done.stdout, done.stderr)

    root = asked["root"]
    pinning_dnf.SYSTEM = dnf.System(root)
    acting.DkmsGuard.__init__.__defaults__ = (root + acting.DKMS_GUARD,)
    receipts.FOLDER, keeping.FOLDER, keeping.SPARE = root + receipts.FOLDER, root + keeping.FOLDER, 0
    for function in (receipts.load, receipts.save):
        function.__defaults__ = (receipts.FOLDER,)
    node_snapshot.files.__defaults__ = (root + modprobe_policy.FILE,)
    restoring.modprobe_policy = types.SimpleNamespace(FILE=root + modprobe_policy.FILE)

    def take():
        return node_snapshot.take(run, pinning_dnf)

    def open_one(**params):
        params = dict({"kind": "site", "undoes": None, "stack": None, "closure": [], "removed": [], "who": {}}, **params)
        for row in receipt_module.open_one(params, receipts.load(), take)[0]:
            receipts.save(row)

    def close():
        receipts.save(receipts.closed(receipts.still_open(receipts.load()), take(), "done"))

    def way_back(receipt):
        way = restoring.Restore(run, pinning_dnf, {"receipt": receipt, "moved": asked["moved"], "keep_mib": 4096}, restoring_dnf.Session)
        way.plan()
        return way

    try:
        stack = None
        if asked["do"] == "site":
            node = pinned_node.Node(run, {"slices": asked["slices"], "only": None, "repositories": "", "keys": [], "alternatives": {},
                                          "closure": None, "removed": [], "keep_mib": 4096}, pinning_dnf)
            node.resolve()
            open_one(closure=node.rows, removed=node.removed, stack=asked["stack"])
            node.apply()
        else:
            way = way_back(asked["receipt"])
            stack, change = way.goal["stack"], way.change
            open_one(kind="rollback", undoes=way.undone[-1]["id"], stack=(stack or {}).get("mapping"),
                     closure=[{"name": key, "version": version} for key, version in change["ask"].items()], removed=[*change["remove"], *change["soft"]])
            way = way_back(way.undone[-1]["id"])
            way.apply()
        if not asked.get("killed"):
            close()
        return {"stack": stack, "receipts": receipts.load()}
    except acting.Refused as error:
        return {"problems": error.problems}
    except Exception:
        return {"failed": traceback.format_exc()}


if __name__ == "__main__":
    json.dump(main(), sys.stdout)
