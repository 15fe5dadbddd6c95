# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What dpkg left half-way, as after a power cut, is finished by the next run."""

from __future__ import annotations

import pytest

APT = ("ubuntu2204", "ubuntu2404", "debian12_nvidia")


@pytest.mark.platforms(*APT)
@pytest.mark.parametrize("state", ["reinstreq half-installed", pytest.param("ok half-configured", marks=pytest.mark.many)])
def test_it_is_finished(changed, want, state):
    node = changed
    node.output("sed -i '/^Package: %s$/,/^$/ s/^Status: .*/Status: hold %s/' /var/lib/dpkg/status" % (want["library"], state))
    assert node.output("dpkg --audit") != ""
    status, output = node.site()
    assert status == 0, output
    assert node.output("dpkg --audit") == ""
    status, output = node.site()
    assert status == 0 and node.report()["verdict"] == "in_sync", output
