# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The repositories that tables make: one per table, one per release of DOCA and MLNX_OFED, and the derived ones of EL 10."""
from __future__ import annotations

import dataclasses
import re

from . import tables

DIRECT = ("ubuntu2204-cuda", "ubuntu2204-archive", "ubuntu2404-cuda", "ubuntu2404-archive", "debian12-cuda",
          "container-toolkit-deb", "externals-deb", "base-deb",
          "rhel9-cuda", "el9-baseos", "container-toolkit-rpm", "externals-rpm")
PER_RELEASE = ("doca-ubuntu2204", "mlnx-ofed-ubuntu2204")
# EL 9's kernels under numbers of EL 10, in the same order. Seen as a name: only 6.12.0-211.33.1.el10_2.
EL10_KERNELS = ("6.12.0-55.12.1.el10_0", "6.12.0-124.8.1.el10_1", "6.12.0-211.33.1.el10_2")
EL10_FIRST_BRANCH = 570


@dataclasses.dataclass(frozen=True)
class Repository:
    """One repository to write: rows, the fields of its Release file (apt) or its modules (dnf), and its table's id."""

    id: str
    kind: str
    meta: dict
    rows: tuple
    table: str
    module: dict | None = None


def ids():
    """The ids of all repositories, apt's first."""
    releases = ["%s-%s" % (table, release) for table in PER_RELEASE for release in _releases(table)]
    direct = [table for table in DIRECT if tables.load(table).kind == "deb"]
    return [*direct, *releases, *(table for table in DIRECT if table not in direct), "el10-cuda", "el10-baseos"]


def get(identifier):
    """The Repository of an id. Raises KeyError for an unknown one."""
    if identifier in DIRECT:
        table = tables.load(identifier)
        return Repository(identifier, table.kind, table.meta, table.rows, identifier, table.module)
    if identifier == "el10-cuda":
        return _el10_cuda()
    if identifier == "el10-baseos":
        return _el10_baseos()
    for name in PER_RELEASE:
        release = identifier[len(name) + 1:] if identifier.startswith(name + "-") else None
        if release in _releases(name):
            table = tables.load(name)
            rows = tuple(row for row in table.rows if row.release == release)
            return Repository(identifier, table.kind, tables.fill(table.meta, {"r": release}), rows, name)
    raise KeyError(identifier)


def _releases(table):
    return list(dict.fromkeys(row.release for row in tables.load(table).rows))


def renamed(row, change):
    """The row with `change` applied to every text of it; derived, whatever it was."""
    return dataclasses.replace(
        row, name=change(row.name), version=change(row.version), certainty="derived", relation_certainty="derived",
        relations={field: [change(text) for text in texts] for field, texts in row.relations.items()},
        files=tuple(change(path) for path in row.files))


def _el10_cuda():
    """rhel9-cuda by its own rule: same names, .el10, no modules, no precompiled kmods; branches from EL10_FIRST_BRANCH on."""
    def there(row):
        branch = tables.parts(row.version).get("b")
        precompiled = re.match(r"kmod-nvidia-(open-)?\d", row.name)
        return not precompiled and (branch is None or int(branch) >= EL10_FIRST_BRANCH)

    def change(row):
        """On EL 10, nvidia-kmod-common recommends the open modules."""
        row = renamed(row, lambda text: text.replace(".el9", ".el10"))
        if row.name != "nvidia-kmod-common":
            return row
        return dataclasses.replace(row, relations=dict(row.relations, recommends=["kmod-nvidia-open-dkms = 3:" + row.upstream]))

    table = tables.load("rhel9-cuda")
    rows = tuple(change(row) for row in table.rows if there(row))
    return Repository("el10-cuda", "rpm", table.meta, rows, "rhel9-cuda")


def _el10_baseos():
    table = tables.load("el9-baseos")
    kernels = list(dict.fromkeys(row.version for row in table.rows if row.name == "kernel-core"))
    pairs = list(zip(kernels, EL10_KERNELS))

    def change(text):
        for old, new in pairs:
            text = text.replace(old, new)
        return text

    rows = tuple(renamed(row, change) for row in table.rows if any(old in row.version for old, _new in pairs))
    return Repository("el10-baseos", "rpm", table.meta, rows, "el9-baseos")
