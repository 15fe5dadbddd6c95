# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The repository drops the version of the stack."""

from __future__ import annotations

import pytest


@pytest.fixture
def dropped(changed, want):
    """The node, whose vendor's repository has lost the driver's version."""
    version = want["driver"].replace(".", r"\.")
    changed.offer("dropped", *["--without=%s=.*=.*%s.*" % (name, version) for name in want["vendor"]], repositories=want["vendor"])
    return changed


def test_what_is_installed_stays(dropped):
    before = dropped.packages()
    dropped.upgrade()
    assert dropped.packages() == before
    status, output = dropped.site()
    assert status == 0 and dropped.report()["verdict"] == "in_sync", output


@pytest.mark.many
def test_a_node_that_lost_it_is_told_what_there_is(dropped, want):
    """Refused before any change, with the versions that the repository has."""
    name = want["library"]
    if dropped.rpm:
        dropped.output("rpm -e --nodeps %s" % name)
    else:
        dropped.output("dpkg --purge --force-depends --force-hold %s" % name)
    before = dropped.packages()
    status, output = dropped.site()
    assert status != 0 and dropped.report()["verdict"] == "blocked", output
    finding = next(row for row in dropped.report()["findings"] if row["code"] == "locked_version_gone_from_archive")
    assert name in finding["message"] and want["driver"] in finding["message"], finding
    assert dropped.packages() == before
