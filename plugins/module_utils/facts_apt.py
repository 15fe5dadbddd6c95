# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt and dpkg beyond the package list: candidates, holds, history, simulations, failed runs."""

from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils import capture_apt, parse_apt, parse_apt_actions, parse_apt_archive
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_apt_run, parse_module_result
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import File, Function, Recorded, Special

# Where the result of an Ansible module may stand; the last two are transcripts otherwise.
_RESULTS = ("ansible_result", "ansible_error", "apt_run", "dnf_run")
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
    policy = reader.parsed("apt_policy", parse_apt_archive.parse_policy, absent=None) or {}
    results = [value for name in _RESULTS for value in [reader.told(name, _result)] if value and ("failed" in value or name in _RESULTS[:2])]
    result = next((value for value in results if "failed" in value), None)
    run, plan = _runs(reader, results)
    part = {
        "policy": policy.get("packages"), "policy_sources": policy.get("sources"), "policy_pinned": policy.get("pinned"),
        "madison": reader.parsed("apt_madison", parse_apt_archive.parse_madison),
        "show": reader.parsed("apt_show", parse_apt_archive.parse_show, absent=None),
        "history": reader.parsed("apt_history", parse_apt_actions.parse_history, absent=[]),
        "unattended": reader.parsed("unattended_upgrades", parse_apt_actions.parse_unattended, absent=None),
        # Words that are no result are a transcript.
        "run": run, "module_result": result, "locks": _locks(reader, run),
    }
    recorded = {"holds": reader.parsed("apt_holds", parse_apt_actions.parse_holds), "transaction": plan}
    # Whoever ran apt has it, also where nobody recorded the packages.
    asked = plan or any(part[key] for key in ("policy", "policy_sources", "madison", "show")) or recorded["holds"] is not None
    recorded["kind"] = "apt" if asked else None
    return {"package_manager": dict(part, **{key: value for key, value in recorded.items() if value is not None})}


def _result(text, rc):
    """A module's result; where it does not say that it failed, the exit status does."""
    value = parse_module_result.parse_module_result(text).value
    if value and "failed" in value and value["failed"] is None and rc:
        value["failed"] = True
    return Parsed(value, [])


def _runs(reader, results):
    """(what all transcripts say, the transaction that they announce); None where there is no transcript.

    A simulation may stand under any of the names, and in the result of a module in check mode.
    """
    told = [value for value in (reader.told(name, _transcript) for name in ("apt_simulation", "apt_run")) if value]
    told += [_transcript(result["text"]).value for result in results]
    if not told:
        return None, None
    whole = parse_apt_run.merged([said for _steps, said in told])
    announced = whole.pop("transaction")
    steps = [one for one, _said in told if one]
    # The steps of a simulation have versions; the lists above them have names.
    moving = next((one for one in steps if any(one[kind] for kind in parse_apt_actions.KINDS)), None)
    return whole, moving or announced or next(iter(steps), None)


def _transcript(text, rc=0):
    """(the steps of a simulation or None, what else it says)."""
    result = parse_module_result.parse_module_result(text).value
    text = result["text"] if result and "failed" in result else text
    return Parsed((parse_apt_actions.parse_simulation(text).value, parse_apt_run.parse_apt_run(text, rc).value), [])


def _locks(reader, run):
    """Who holds a lock: by what a run said, and by the locks themselves."""
    seen = reader.parsed("apt_locks", parse_apt.parse_lock_holders)
    if seen is None and not (run and run["locks"]):
        return None
    return parse_apt_run.holders((run["locks"] if run else []) + (seen or []))
