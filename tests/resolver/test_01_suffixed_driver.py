# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An exact driver whose packages carry the branch in their names: 550.54.15 of NVIDIA's repository for Ubuntu 22.04."""
from __future__ import annotations

import expected

V = "550.54.15-0ubuntu1"


class TestWhatAptDoes:
    def test_the_driver_at_its_version_finds_no_way(self, apt_node):
        """Its parts are wanted at the same version, while apt considers the newest of each only."""
        got = apt_node("ubuntu2204-cuda").install("nvidia-driver-550=" + V)
        assert got.rc == 100
        assert got.text.count("Depends:") == 13
        assert "550.163.01" in got.text

    def test_the_headless_meta_brings_everything_at_another_version(self, apt_node):
        got = apt_node("ubuntu2204-cuda").install("nvidia-headless-550=" + V)
        assert got.rc == 0 and got.removes == []
        assert got["nvidia-headless-550"] == V
        others = ("nvidia-dkms-550", "libnvidia-compute-550", "nvidia-compute-utils-550", "nvidia-kernel-source-550", "nvidia-kernel-common-550")
        assert {got.upstream[name] for name in others} == {"550.163.01"}

    def test_sixteen_names_do(self, apt_node):
        want = expected.suffixed_driver(V)
        assert len(want) == 16
        got = apt_node("ubuntu2204-cuda").install(*expected.words(want))
        assert got.rc == 0 and got.removes == []
        assert {name: got[name] for name in want} == want
        assert not [name for name, version in got.installs.items() if "nvidia" in name and version != V]

    def test_nine_names_do_for_computing(self, apt_node):
        want = expected.suffixed_compute(V)
        assert len(want) == 9
        got = apt_node("ubuntu2204-cuda").install(*expected.words(want))
        assert got.rc == 0
        assert {name: version for name, version in got.installs.items() if "nvidia" in name} == want
