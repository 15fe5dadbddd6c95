# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""scontrol and kubectl as far as the hooks use them, over a file with one node: the first argument is the program's name.

scontrol show node NAME prints State= and Reason= as Slurm 22.05 does; State=DRAIN keeps the base state until the last job has left, State=RESUME
lifts drain and down. kubectl drain cordons before it evicts, and refuses pods that nothing manages; uncordon of a free node is no error.
"""
from __future__ import annotations

import json
import os
import pathlib
import sys

SHOWN = """NodeName=%(name)s Arch=x86_64 CoresPerSocket=1
   CPUAlloc=%(jobs)d CPUEfctv=2 CPUTot=2 CPULoad=0.08
   NodeAddr=%(name)s NodeHostName=%(name)s Version=22.05.8
   State=%(state)s ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=all%(reason)s
"""
HOME = pathlib.Path(os.environ["LOCKSTEP_FAKE_NODES"]).parent


def scontrol(words, node):
    if words[:2] == ["show", "node"]:
        if words[2] != node["name"]:
            return "Node %s not found" % words[2], 1
        # A job ends whenever somebody looks.
        state = ("MIXED" if node["jobs"] else "IDLE") + ("+DRAIN" if node["drained"] else "")
        text = SHOWN % dict(node, state=state, reason="\n   Reason=%s [root@2026-11-30T18:00:00]" % node["reason"] if node["reason"] else "")
        node["jobs"] = max(0, node["jobs"] - 1)
        return text, 0
    given = dict(word.split("=", 1) for word in words[1:])
    if given["State"] == "DRAIN" and not given.get("Reason"):
        return "slurm_update error: You must specify a reason when DOWNING or DRAINING a node", 1
    node["drained"] = given["State"] == "DRAIN"
    node["reason"] = given.get("Reason", "")
    return "", 0


def kubectl(words, node):
    if words[0] == "get":
        return json.dumps({"kind": "Node", "metadata": {"name": node["name"], "annotations": node["notes"]},
                           "spec": {"unschedulable": True} if node["drained"] else {}}), 0
    if words[0] == "drain":
        node["drained"] = True
        return ("", 0) if not node.get("stubborn") else ("error: cannot delete Pods declare no controller (use --force to override): default/mine", 1)
    if words[0] == "uncordon":
        node["drained"] = False
    elif words[-1].endswith("-"):
        node["notes"].pop(words[-1][:-1], None)
    else:
        node["notes"].update([words[-1].split("=", 1)])
    return "", 0


def main():
    path, program = HOME / "scheduler.json", sys.argv[1]
    node = json.loads(path.read_text())
    text, status = {"scontrol": scontrol, "kubectl": kubectl}[program](sys.argv[2:], node)
    path.write_text(json.dumps(node))
    with open(HOME / "nodes" / "node1" / "log", "a", encoding="utf-8") as out:
        out.write(" ".join(sys.argv[1:]) + "\n")
    print(text, file=sys.stderr if status else sys.stdout)
    return status


if __name__ == "__main__":
    sys.exit(main())
