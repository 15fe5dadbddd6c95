# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What other tools than ours say of a converged node."""

from __future__ import annotations


def test_dpkg_is_whole(host):
    """No package is half installed and no dependency is broken."""
    assert host.run("dpkg --audit").stdout == ""
    assert host.run("apt-get check -q").rc == 0
