# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a stack can ask for is in the state's package table: else it would be missing for ever."""

from __future__ import annotations

import re

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_dpkg, parse_rpm
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge

FACTS = knowledge.load()
# Of other makers' names a table of interesting ones says nothing; slices that need them name the source packages.
VALUES = {"branch": "580", "version": "580.126.20", "release": "6.8.0-79-generic", "kernel": "6.8.0-79-generic", "kernel_build": "5.14.0-570.18.1",
          "cuda": "12.8", "major": "4", "line": "24.10", "build": "1.1.4.0", "doca_release": "3.2.1"}


def asked(manager):
    """Every name that a set of packages asks for under a package manager."""
    known = {row["id"]: row["package_manager"] for row in FACTS["distributions"]["distributions"]}
    for product in FACTS["packages"]["products"].values():
        for row in product["sets"]:
            systems = row["when"].get("os")
            if manager in {known[name] for name in (systems if isinstance(systems, list) else [systems])}:
                for ask in row.get("requests") or []:
                    yield re.sub(r"\{(\w+)\}", lambda match: VALUES[match[1]], ask["name"])


def parts(tail):
    """Every package of CUDA's releases. tail: what ends the names of those for compiling."""
    for release in FACTS["cuda_components"]["releases"]:
        yield from (name + "-12-8" for name in [*release["parts"], *release["metas"], *(part + tail for part in release["dev"])])
        yield from release["whole"]


@pytest.mark.parametrize("name", sorted({*asked("apt"), *parts("-dev")}))
def test_dpkgs_table_has_it(name):
    assert parse_dpkg.interesting({"name": name, "source": name})


@pytest.mark.parametrize("name", sorted({*asked("dnf"), *parts("-devel")}))
def test_rpms_table_has_it(name):
    assert parse_rpm.INTERESTING.fullmatch(name)
