# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Somebody's own repository has a part of the driver, newer than any: nothing comes from it, and what was forced is put right."""

from __future__ import annotations

import pytest


@pytest.fixture
def newest(node):
    """Newer than any version of the driver; NVIDIA's rpms have an epoch."""
    return "3:999.1-1" if node.rpm else "999.1-1"


@pytest.fixture
def foreign(changed, want, newest):
    """The node with that repository."""
    changed.foreign(**{want["library"]: newest})
    yield changed
    changed.no_foreign()


def test_nothing_comes_from_it_and_what_was_forced_is_put_right(foreign, want, newest):
    before = foreign.packages()
    foreign.upgrade()
    assert foreign.packages() == before
    name = want["library"]
    if foreign.rpm:
        foreign.output("sh -c 'rpm -U --nodeps /srv/repos/foreign/*.rpm'")
    else:
        foreign.output("sh -c 'rm /etc/apt/preferences.d/lockstep-gpu.pref && apt-get -q update'")
        foreign.output("sh -c 'apt-get -o dir::cache::archives=/tmp download %s=999.1-1 && dpkg -i --force-all ./*999.1-1*.deb && rm ./*.deb'" % name)
    assert foreign.packages()[name] == newest
    status, output = foreign.site()
    assert status == 0, output
    assert foreign.packages()[name] == want["packages"][name]
    assert foreign.codes() == {"unproven"}
