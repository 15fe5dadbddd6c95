# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt and dpkg beyond the package list: candidates, holds, history, simulations, failed runs."""

from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils import capture_apt, parse_apt, parse_apt_actions, parse_apt_archive
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_apt_run, parse_module_result
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import File, Function, Recorded, Special

# name: (level, how to take it live); docs/probes.md describes each.
PROBES = {
    "unattended_upgrades": ("local", Function(capture_apt.apt_conf, "tail -v -n +1 /etc/apt/apt.conf /etc/apt/apt.conf.d/*")),
    "apt_policy": ("archive", Special(capture_apt.policy, "apt-cache policy of the products' packages")),
    "apt_show": ("archive", Special(capture_apt.show, "apt-cache show of the products' packages with a branch in their name")),
    "apt_history": ("archive", File("/var/log/apt/history.log")),
    # dpkg_list has the holds of a live node.
    "apt_holds": ("bundle", Recorded("apt-mark showhold")),
    "apt_madison": ("bundle", Recorded("apt-cache madison NAME...")),
    "apt_simulation": ("bundle", Recorded("apt-get -s install NAME...")),
    "apt_run": ("bundle", Recorded("what apt, apt-get or dpkg printed")),
    "ansible_result": ("bundle", Recorded("the result of an Ansible module")),
}


def section(reader):
    """The part of the state that these probes fill: package_manager, with

    - policy: {name: {installed, candidate, pin, table}}; policy_sources; policy_pinned: parse_apt_archive.parse_policy()
    - madison, show: {name: [rows]} of parse_apt_archive
    - history: [runs], oldest first; unattended: {enabled, blacklist, whitelist, origins}: parse_apt_actions
    - run: what transcripts say, parse_apt_run.parse_apt_run(); those of an Ansible module's result too
    - module_result: {msg, args, failed, text, ...} of parse_module_result
    - locks: [{path, pid, process}] of who holds apt's or dpkg's locks; [] when it is known that nobody does

    and only where they were recorded

    - holds: the held packages as apt-mark says, instead of what the package list has
    - transaction: what a package manager would do: {tool: apt | dnf, install, upgrade, downgrade, remove: [{name, arch, version,
      old, origin}], error}. version: the one that the package would get, None for a removed one; old: the one that it has;
      None where nothing tells. origin: archive or repository, in the tool's words. error: why it would not do it.
    """
    policy = reader.parsed("apt_policy", parse_apt_archive.parse_policy) or {}
    result = reader.told("ansible_result", lambda text, rc: parse_module_result.parse_module_result(text))
    run, plan = _runs(reader, result)
    part = {
        "policy": policy.get("packages"), "policy_sources": policy.get("sources"), "policy_pinned": policy.get("pinned"),
        "madison": reader.parsed("apt_madison", parse_apt_archive.parse_madison),
        "show": reader.parsed("apt_show", parse_apt_archive.parse_show),
        "history": reader.parsed("apt_history", parse_apt_actions.parse_history, absent=[]),
        "unattended": reader.parsed("unattended_upgrades", parse_apt_actions.parse_unattended, absent=None),
        # Words that are no result are a transcript.
        "run": run, "module_result": result if result and "failed" in result else None, "locks": _locks(reader, run),
    }
    recorded = {"holds": reader.parsed("apt_holds", parse_apt_actions.parse_holds), "transaction": plan}
    # Whoever ran apt has it, also where nobody recorded the packages.
    asked = plan or any(part[key] for key in ("policy", "policy_sources", "madison", "show")) or recorded["holds"] is not None
    recorded["kind"] = "apt" if asked else None
    return {"package_manager": dict(part, **{key: value for key, value in recorded.items() if value is not None})}


def _runs(reader, result):
    """(what all transcripts say, the transaction that they announce); None where there is no transcript."""
    simulated = reader.told("apt_simulation", lambda text, rc: Parsed((parse_apt_actions.parse_simulation(text).value, _said(text, rc)), []))
    told = [_said(result["text"])] if result else []
    if result and not simulated:
        # In check mode Ansible's module simulates.
        simulated = (parse_apt_actions.parse_simulation(result["text"]).value, told.pop())
    told += [simulated[1]] if simulated else []
    run = reader.told("apt_run", parse_apt_run.parse_apt_run)
    told += [run] if run else []
    if not told:
        return None, None
    whole = parse_apt_run.merged(told)
    plan = whole.pop("transaction")
    # The steps of a simulation have versions; the lists above them have names.
    return whole, (simulated and simulated[0]) or plan


def _said(text, rc=0):
    return parse_apt_run.parse_apt_run(text, rc).value


def _locks(reader, run):
    """Who holds a lock: by what a run said, and by the locks themselves."""
    seen = reader.parsed("apt_locks", parse_apt.parse_lock_holders)
    if run is None and seen is None:
        return None
    return parse_apt_run.holders((run["locks"] if run else []) + (seen or []))
