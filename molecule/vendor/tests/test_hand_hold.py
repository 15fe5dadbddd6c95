# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A package that the owner moved and holds is named, and not touched."""

from __future__ import annotations

import pytest

APT = ("ubuntu2204", "ubuntu2404", "debian12_nvidia")


@pytest.mark.platforms(*APT)
def test_the_owners_hold_is_respected(changed, want):
    node, (name, version) = changed, want["floats"]
    pins = "/etc/apt/preferences.d/lockstep-gpu.pref"
    node.output("sh -c 'mv %s /root/ && apt-mark unhold %s && apt-get update -q'" % (pins, name))
    node.output("apt-get install -y -q --allow-downgrades --allow-change-held-packages %s=%s" % (name, version))
    node.output("apt-mark hold " + name)
    status, output = node.site()
    assert status != 0 and node.report()["verdict"] == "blocked", output
    assert "package_held_by_user" in node.codes()
    assert node.packages()[name] == version
    node.output("apt-mark unhold " + name)
    status, output = node.site()
    assert status == 0 and node.packages()[name] != version, output
