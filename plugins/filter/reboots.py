# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters about boots and reboots; what they mean: the .yml files beside this one."""
from __future__ import annotations

from ansible.errors import AnsibleFilterError

from ansible_collections.lockstep.gpu.plugins.plugin_utils import boot_gate, engine, reboot_settings, record, schedulers, surplus_kernels


def _number(row, name):
    """A number that a host says; None where it is made of what only the role knows."""
    try:
        value = row.get(name)
    except Exception:  # pylint: disable=broad-exception-caught
        return None
    # Depending on its version Ansible gives what it cannot render as it is written, or with "<< error" in it.
    return None if isinstance(value, str) and ("{{" in value or "<<" in value) else value


def settings(hosts, hostvars, place=""):
    """What a rollout of these hosts is like, once everything that they say about reboots is checked."""
    try:
        # A play that is only looked at (--syntax-check, --list-tasks) has no variables of hosts yet.
        known = {host: hostvars[host] if host in hostvars else {} for host in hosts}
        said = {host: dict({name: row.get(name) for name in reboot_settings.NAMES}, **{name: _number(row, name) for name in reboot_settings.NUMBERS})
                for host, row in known.items()}
        return reboot_settings.settings(said, [place])
    except reboot_settings.SettingError as error:
        raise AnsibleFilterError(str(error)) from None


def hook_files(named, when, role, places, before=()):
    """The tasks files of hooks before or after a boot."""
    try:
        names = reboot_settings.ready_made(before, named) if when == "after" else reboot_settings.hooks(named, "lockstep_before_reboot")
        return reboot_settings.files(names, when, role, places)
    except reboot_settings.SettingError as error:
        raise AnsibleFilterError(str(error)) from None


def in_window(clock, window):
    """Whether a node's clock is inside a window."""
    try:
        return reboot_settings.inside(window, str(clock))
    except reboot_settings.SettingError as error:
        raise AnsibleFilterError(str(error)) from None


def gate(stack, plan, state=None, probe=None, accept=()):
    """The reasons against a boot, as problems of a record."""
    accept = [accept] if isinstance(accept, str) else list(accept or [])
    answered = probe if isinstance(probe, dict) and not probe.get("failed") and not probe.get("unreachable") else None
    try:
        found = boot_gate.reasons(stack, plan or {}, state, answered, accept)
    except engine.AcceptError as error:
        raise AnsibleFilterError(str(error)) from error
    return boot_gate.problems(found, ((plan or {}).get("proof") or {}).get("kernel"))


def scheduler_node(text, kind):
    """What a scheduler says about one node."""
    try:
        return schedulers.node(text, kind)
    except schedulers.SchedulerError as error:
        raise AnsibleFilterError(str(error)) from None


class FilterModule:
    """Filters about boots and reboots."""

    def filters(self):
        """Names to functions."""
        return {
            "reboot_settings": settings, "reboot_hooks": hook_files, "reboot_window": in_window, "scheduler_node": scheduler_node,
            "boot_due": boot_gate.boot, "boot_gate": gate, "boot_kept": boot_gate.kept, "boot_failed": record.after_boot,
            "surplus_kernels": surplus_kernels.surplus,
        }
