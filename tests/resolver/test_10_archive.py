# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drivers of the distribution's archive: transitional packages, prebuilt modules; and NVIDIA's repository for Debian 12."""
from __future__ import annotations

import pytest

K = "6.8.0-84.84~22.04.1"


class TestWhatAptDoes:
    @pytest.mark.parametrize("asked, comes", [
        ("nvidia-driver-590-open", ("nvidia-driver-595-open", "595.84")),
        ("nvidia-driver-550", ("nvidia-driver-580", "580.173.02")),
        ("nvidia-fabricmanager-570", ("nvidia-fabricmanager-580", "580.173.02")),
    ])
    def test_a_transitional_package_brings_another_branch(self, apt_node, asked, comes):
        got = apt_node("ubuntu2204-archive").install(asked)
        assert got.rc == 0 and (comes[0], got.upstream[comes[0]]) == comes

    def test_the_driver_alone_brings_a_module_to_be_built(self, apt_node):
        node = apt_node("ubuntu2204-archive")
        node.change({}, ["dkms"])
        got = node.install("nvidia-driver-595")
        assert got.rc == 0 and got["nvidia-dkms-595"] and got["dkms"]

    def test_the_driver_with_a_built_module_brings_none(self, apt_node):
        node = apt_node("ubuntu2204-archive")
        node.change({}, ["dkms"])
        got = node.install("nvidia-driver-595", "linux-modules-nvidia-595-6.8.0-138-generic")
        assert got.rc == 0 and got["linux-modules-nvidia-595-6.8.0-138-generic"]
        assert not {"nvidia-dkms-595", "dkms"} & set(got.installs)

    def test_the_modules_meta_brings_the_newest_kernel(self, apt_node):
        metas = ["%s-hwe-22.04" % name for name in ("linux-generic", "linux-image-generic", "linux-headers-generic")]
        node = apt_node("ubuntu2204-archive")
        node.settle("install", "--no-install-recommends", *["%s=%s" % (name, K) for name in metas])
        node.hold(*metas)
        got = node.install("linux-modules-nvidia-595-generic-hwe-22.04")
        assert got.rc == 0 and got["linux-image-6.8.0-138-generic"]

    def test_debian_s_names_in_nvidia_s_repository(self, apt_node):
        node = apt_node("debian12-cuda")
        assert node.install("nvidia-driver=580.126.20-1").rc == 100
        for meta in ("nvidia-open", "cuda-drivers-580"):
            got = node.install(meta + "=580.126.20-1")
            assert got.rc == 0 and got[meta] == "580.126.20-1"
            assert got.upstream["nvidia-driver"] == got.upstream["libcuda1"] == "610.43.02"
