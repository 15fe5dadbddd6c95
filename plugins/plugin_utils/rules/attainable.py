# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which steps can be taken: none that needs a version of which it is known that no archive of the node has it. No rules of its own."""
from __future__ import annotations

import re
import typing as t

from . import claimed
from .context import Context, Hit, Row, once_a_node

_NEED_AN_ARCHIVE = ("downgrade_exact", "install_exact", "add_apt_pin", "replace", "switch_flavour", "hold", "dnf_versionlock")


def asked_of_archives(ctx: Context) -> t.Set[str]:
    """The packages of which somebody asked the archives for their versions."""
    manager = claimed.manager(ctx)
    return {*(manager.get("policy") or {}), *(manager.get("madison") or {}), *(manager.get("available") or {})}


@once_a_node
def gone(ctx: Context, of: str) -> bool:
    """Whether archives have packages of a product, and none of them in the claimed version."""
    lock = claimed.locked(ctx, of)
    versions = [claimed.version_of(ctx, name, version) for name in asked_of_archives(ctx)
                if claimed.product(ctx, name) == of and claimed.one_version(ctx, name) and not claimed.other_branch(ctx, name)
                for version in claimed.offered(ctx, name) or []]
    return bool(lock and any(versions)) and not any(claimed.fits(version, lock or "") for version in versions)


def attainable(ctx: Context, hit: Hit) -> Hit:
    """A hit without the steps that would need such a version: its package's revision could only be made up."""
    lost = [of for of in claimed.VERSIONED if hit.do and gone(ctx, of)]
    return hit._replace(do=tuple(row for row in hit.do if not any(_needs(ctx, row, of) for of in lost))) if lost else hit


def _needs(ctx: Context, row: Row, of: str) -> bool:
    """Whether a step brings a package of a product to the claimed version, or keeps it at another."""
    lock, said = claimed.locked(ctx, of) or "", "%s %s" % (row.get("target"), row.get("version"))
    if row["action"] not in _NEED_AN_ARCHIVE or row["action"] not in ("hold", "dnf_versionlock") and lock not in said:
        return False
    for word in str(row.get("target")).split():
        name = re.sub(r"(?:=|-(?:\d+:)?%s).*" % re.escape(lock), "", word)
        # What is there at that version stays, and may be kept.
        there = claimed.fits(claimed.version_of(ctx, name, (claimed.packages(ctx).get(name) or {}).get("version")), lock)
        if not there and (claimed.product(ctx, name) == of or "*" in name and of in ("driver", "fabric")):
            return True
    return False
