# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One node's record for the report: what was wanted, found, proven, and what went wrong on the way."""
from __future__ import annotations

from . import engine

# Which finding a proof row is when what a program gets differs from the stack.
CONTRADICTIONS = {
    "libcuda": "driver_library_mismatch", "libnvidia-ml": "driver_library_mismatch", "nvidia-smi": "driver_library_mismatch",
    "libcudart": "active_cuda_differs", "nvcc": "active_cuda_differs", "libnccl": "nccl_other_copy",
    "modprobe": "kernel_module_missing", "initramfs": "initramfs_missing",
}


# What needs hardware that a node may lack; without a value these are not proven, and nothing else is wrong.
HARDWARE = ("nvml", "program", "ibv_devinfo")


def contradictions(probe):
    """Findings for the rows of cuda_probe that are not what the stack says, or not there at all."""
    found = []
    for subject, row in ((probe or {}).get("proof") or {}).items():
        if row["proven"] or (row["value"] is None and subject in HARDWARE):
            continue
        if row["value"] is None and "no answer within" in row["detail"]:
            found.append(engine.finding("probe_failed", subject, "%s: %s" % (subject, row["detail"])))
            continue
        if subject == "libcuda" and "/compat/" in (row.get("path") or ""):
            # A newer libcuda over the driver's, put there on purpose; whether this GPU can have it, a rule says.
            found.append(engine.finding("libcuda_shadowed_by_compat", row["path"], "A program gets %s." % row["path"]))
            continue
        code = CONTRADICTIONS.get(subject, "kernel_module_missing" if subject.startswith("module:") else "proof_failed")
        have = "missing" if row["value"] is None else row["value"]
        message = "%s is %s, the stack says %s: %s" % (subject, have, row["expected"] or "it is there", row["detail"])
        found.append(engine.finding(code, "%s %s" % (subject, have), message))
    return found


def failures(failure):
    """Findings for a task that ended the run on this node: {task, result}."""
    if not failure:
        return []
    result = failure["result"]
    if result.get("problems"):
        return [engine.finding(row["code"], row["name"], row["message"]) for row in result["problems"]]
    if result.get("first_error"):
        diagnosis = (result.get("diagnosis") or {}).get("meaning")
        message = "The kernel module does not build. First error: %s.%s Log: %s" % (
            result["first_error"], " " + diagnosis if diagnosis else "", result.get("log_path"))
        return [engine.finding("dkms_build_failed", result.get("subject") or failure["task"], message)]
    if result.get("code") in engine.codes():
        return [engine.finding(result["code"], failure["task"], str(result.get("msg")))]
    message = str(result.get("msg") or result)[:2000]
    # A command's own words, which Ansible's message does not repeat.
    said = " ".join(str(result.get("stderr") or result.get("stdout") or "").split())[-500:] if result.get("rc") else ""
    return [engine.finding("run_failed", failure["task"], "%s: %s" % (message.rstrip("."), said) if said and said not in message else message)]


def components(plan):
    """Rows for the report: wanted, have, and in one word how the node stands."""
    rows = []
    for name, part in plan["components"].items():
        state_word = "exact, held" if part["converged"] else ", ".join(sorted({row["why"] for row in part["drift"]})) or "to do"
        rows.append({"name": name, "wanted": part["wanted"], "have": part["have"],
                     "state": state_word.replace("package_", "").replace("_", " ")})
    return rows


def refusal(findings):
    """The blocking findings as one text for a person: what, why, by which source, and what to do."""
    lines = ["Refused before any change:"]
    for row in findings:
        if row["verdict"] == "blocked" and not row.get("accepted"):
            lines.append("%s@%s: %s" % (row["code"], row["subject"], row["message"]))
            lines += ["  %s: %s" % (label, row[key]) for label, key in (("source", "source"), ("remedy", "remedy")) if row.get(key)]
    return "\n".join(lines)


def accepted(found, accept):
    """The same findings, with those marked that the user accepts (engine.findings has checked the entries)."""
    entries = {accept} if isinstance(accept, str) else set(accept or [])
    return [dict(row, accepted=True) if {"%s@*" % row["code"], "%s@%s" % (row["code"], row["subject"])} & entries else row
            for row in found]


def node_record(stack, state, plan, findings, probe=None, failure=None, done=(), accept=()):
    """The record: {stack, verdict, remarks, findings, components, proof, not_proven, plan, changed, state}.

    stack, state, plan: None where the run ended before they were known. findings: of the rules. probe: what cuda_probe
    returned. failure: {task, result} of the task that ended the run. done: actions that were taken.
    """
    found = accepted([dict(row) for row in findings or []] + contradictions(probe) + failures(failure), accept)
    rows = list((probe or {}).get("proof", {}).values())
    not_proven = engine.not_proven(stack, state) if stack and state else []
    not_proven += [{"subject": row["subject"], "reason": row["detail"]} for row in rows
                   if row["value"] is None and row["subject"] in HARDWARE]
    if plan and plan.get("dkms") and not plan["dkms"]["kernel"]:
        not_proven.append({"subject": "kernel module", "reason": "neither the stack nor this node names a kernel to build it for"})
    if "nvcc" in [row["subject"] for row in rows] and "compile" not in [row["subject"] for row in rows]:
        not_proven.append({"subject": "compile", "reason": "not repeated, since this run changed nothing (gpu_validate_compile: always)"})
    todo = plan["actions"] if plan and not (plan["converged"] and not plan["actions"]) else []
    if todo and not failure and engine.verdict(found) == "in_sync":
        found.append(engine.finding("stack_not_installed", (stack or {}).get("name") or "stack",
                                    "%d steps lead from here to the stack." % len(todo)))
    return {
        "stack": (stack or {}).get("name"),
        # A stack that names no component has nothing to say about a node.
        "verdict": engine.verdict(found, applicable=not plan or bool(plan["components"])), "findings": found,
        "remarks": list(dict.fromkeys((stack or {}).get("remarks", []) + (plan or {}).get("remarks", []))),
        "components": components(plan) if plan else [], "proof": [row for row in rows if row["value"] is not None],
        "not_proven": not_proven, "plan": todo, "changed": list(done), "state": state,
    }


def after_boot(known, failure=None, problems=(), remarks=(), done=(), accept=()):
    """A record with what was done about the boot, and what went wrong there: the node is judged by all of it.

    failure: {task, result}; problems: [{code, name, message}], which say more than the failure where there are any.
    """
    found = failures(dict(failure, result=dict(failure["result"], problems=list(problems))) if failure else None)
    rows = list(known["findings"]) + accepted(found, accept)
    return dict(known, findings=rows, verdict=engine.verdict(rows, applicable=known["verdict"] != "not_applicable"),
                remarks=list(dict.fromkeys([*known.get("remarks", []), *remarks])), changed=[*known.get("changed", []), *done])
