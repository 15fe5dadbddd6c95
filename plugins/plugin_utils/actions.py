# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The words of a plan, in the order in which steps can be taken. docs/plan.md says what each means."""
from __future__ import annotations

import typing as t

Row = t.Dict[str, t.Any]

ORDER = (
    # nothing may be changed, or not yet
    "fail_preflight", "refuse_transaction", "wait_for_lock", "retry", "gather_facts", "manual",
    # packages
    "remove_guard", "configure_repository", "add_apt_pin", "remove", "module_reset", "module_enable", "downgrade_exact", "install_exact",
    "replace", "switch_flavour", "configure_packages", "hold", "dnf_versionlock",
    # what the next boot takes
    "set_default_kernel", "remove_or_hold", "blacklist", "rebuild_initramfs",
    # modules
    "dkms_remove", "dkms_install", "dkms_build_install", "rebuild_ofed", "load_module", "rebuild",
    # selection and configuration
    "set_alternative", "run_ldconfig", "rewrite_file", "restore_file", "write_file",
    # services, and the node as a whole
    "start_service", "stop_disable_service", "reboot_once",
)


def step(action: str, target: t.Optional[str] = None, **more: t.Any) -> Row:
    """One step: {action, target, ...}. Raises ValueError for a word that ORDER does not have."""
    ORDER.index(action)
    row = {"action": action} if target is None else {"action": action, "target": target}
    return dict(row, **more)


def ordered(steps: t.Iterable[Row]) -> t.List[Row]:
    """The steps, each once, in the order of ORDER; equal words keep the order in which they came."""
    seen: t.List[Row] = []
    for row in steps:
        if row not in seen:
            seen.append(row)
    return sorted(seen, key=lambda row: ORDER.index(row["action"]))
