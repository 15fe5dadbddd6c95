# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Metapackages of CUDA that bring a driver: cuda-12-4 and cuda-runtime-11-8 of NVIDIA's repository for Ubuntu 22.04."""
from __future__ import annotations

import pytest

import expected

METAS = ["cuda-12-4", "cuda-runtime-11-8"]


class TestWhatAptDoes:
    @pytest.mark.parametrize("meta", METAS)
    def test_the_newest_driver_comes_too_and_proprietary(self, apt_node, meta):
        got = apt_node("ubuntu2204-cuda").install(meta)
        assert got.rc == 0
        assert got.upstream["cuda-drivers"] == got.upstream["nvidia-dkms"] == "610.57.04"

    @pytest.mark.parametrize("meta", METAS)
    def test_on_a_node_with_a_driver_it_finds_no_way(self, apt_node, meta):
        got = apt_node("ubuntu2204-cuda", installed=expected.suffixed_driver("550.54.15-0ubuntu1")).install(meta)
        assert got.rc == 100 and "Conflicts:" in got.text

    def test_the_driver_s_meta_at_its_version_finds_no_way(self, apt_node):
        got = apt_node("ubuntu2204-cuda").install("cuda-runtime-11-8", "cuda-drivers=550.54.15-1")
        assert got.rc == 100 and "Depends: cuda-drivers-550 (= 550.54.15-1)" in got.text

    @pytest.mark.parametrize("meta", ["cuda-toolkit-12-4", "cuda-libraries-12-4"])
    def test_toolkit_and_libraries_bring_none(self, apt_node, meta):
        got = apt_node("ubuntu2204-cuda").install(meta)
        assert got.rc == 0
        assert not {"cuda-drivers", "nvidia-dkms", "nvidia-driver", "nvidia-open"} & set(got.installs)
