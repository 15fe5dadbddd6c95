# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan filter; what it means: plan.yml beside this file."""
from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ansible_collections.lockstep.gpu.plugins.module_utils.modprobe_policy import PolicyError
from ansible_collections.lockstep.gpu.plugins.plugin_utils import dkms_signing, knowledge, modprobe, plan, services


def make_plan(stack, state, resolved=None, kernel=None, repositories=None, signing=None):
    """A long-form stack and a node's state to its plan (see plugin_utils/plan.py).

    repositories: the user's mapping by id, over compat/repositories.yml. signing: {key, certificate}, paths on the node.
    """
    # A container runs its host's kernel, for which nothing can be built in it.
    if state.get("packages", {}) is None:
        raise AnsibleFilterError("the node's packages could not be read, so nothing can be planned")
    running = None if state.get("container") else (state.get("kernel") or {}).get("running")
    try:
        need = plan.wanted(stack, knowledge.load(), [gpu["id"] for gpu in knowledge.usable_gpus(state) if gpu["id"]],
                           kernel or running, state.get("nvswitches"), repositories)
        found = plan.plan(need, state, resolved)
        policy = modprobe.of(stack, need["dkms"], need["kernel"], state)
    except (plan.PlanError, PolicyError) as error:
        raise AnsibleFilterError(str(error)) from error
    found = dkms_signing.planned(found, signing, state)
    units = services.of(stack, need["slices"], found["components"], state)
    actions = found["actions"] + modprobe.steps(policy, state) + services.steps(units)
    idle = found["converged"] and not actions and not (policy or {}).get("due") and not any(row["state"] for rows in units.values() for row in rows)
    return dict(found, idle=idle, slices=need["slices"], alternatives=need["alternatives"], services=units, modprobe=policy,
                remarks=need["remarks"] + services.remarks(units), flavour=need["flavour"], proof=plan.proof_of(stack, need, state), actions=actions)


class FilterModule:
    """Filters about what has to be done."""

    def filters(self):
        """Names to functions."""
        return {"plan": make_plan}
