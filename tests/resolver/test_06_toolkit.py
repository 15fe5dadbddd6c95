# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An exact CUDA toolkit: 12.8.0, where the repositories have 12.8.2, too."""
from __future__ import annotations


class TestWhatAptDoes:
    def test_the_meta_at_its_version_brings_the_newest_parts(self, apt_node):
        got = apt_node("ubuntu2204-cuda").install("cuda-toolkit-12-8=12.8.0-1")
        assert got.rc == 0
        assert {name: got[name] for name in ("cuda-toolkit-12-8", "cuda-libraries-12-8", "cuda-nvcc-12-8", "libcublas-12-8")} == {
            "cuda-toolkit-12-8": "12.8.0-1", "cuda-libraries-12-8": "12.8.2-1", "cuda-nvcc-12-8": "12.8.93-1", "libcublas-12-8": "12.8.5.5-1"}
        assert got.upstream["cuda-toolkit-config-common"].startswith("13.0.")
        assert not [name for name in got.installs if "driver" in name and name != "cuda-driver-dev-12-8"]


class TestWhatDnfDoes:
    def test_the_meta_at_its_version_brings_the_newest_parts(self, dnf_node):
        got = dnf_node("rhel9-cuda").would("install", "cuda-toolkit-12-8-12.8.0-1")
        assert got.ok
        assert {name: got[name] for name in ("cuda-toolkit-12-8", "cuda-libraries-12-8", "cuda-nvcc-12-8", "libcublas-12-8")} == {
            "cuda-toolkit-12-8": "12.8.0-1", "cuda-libraries-12-8": "12.8.2-1", "cuda-nvcc-12-8": "12.8.93-1", "libcublas-12-8": "12.8.5.5-1"}
