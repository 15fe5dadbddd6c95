# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drivers of the distribution's archive: transitional packages, prebuilt modules; and NVIDIA's repository for Debian 12."""
from __future__ import annotations

import pytest

import expected
from ansible_collections.lockstep.gpu.plugins.module_utils import acting
from collection import need_of

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


UBUNTU = {"os": "ubuntu-22.04"}
K138 = {"release": "6.8.0-138-generic", "package_version": "6.8.0-138.138~22.04.1"}


def archive_set(version, flavour=""):
    """What a driver of the archive needs for computing, with a module that is built on the node."""
    branch = version.split(".")[0]
    names = ["%s-%s" % (name, branch) for name in ("libnvidia-compute", "libnvidia-cfg1", "nvidia-utils", "nvidia-compute-utils", "nvidia-kernel-common")]
    names += ["%s-%s%s" % (name, branch, flavour) for name in ("nvidia-dkms", "nvidia-kernel-source")]
    return expected.each([*names, "nvidia-firmware-%s-%s" % (branch, expected.upstream(version))], version)


class TestOurs:
    @pytest.mark.parametrize("flavour, words", [("open", "-open"), ("proprietary", "")])
    def test_the_archive_s_driver(self, apt_node, on, flavour, words):
        node = apt_node("ubuntu2204-archive")
        ours, need = on(node), need_of(dict(UBUNTU, driver={"version": "580.173.02", "flavour": flavour}))
        made = ours.apply(need)
        assert made.managed() == archive_set("580.173.02-0ubuntu0.22.04.1", words) and made.removed == []
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_the_prebuilt_module_comes_without_dkms_and_without_a_kernel_of_its_own(self, apt_node, on):
        node = apt_node("ubuntu2204-archive")
        node.change({}, ["dkms"])
        driver = {"version": "595.84", "flavour": "proprietary", "module": "precompiled"}
        ours, need = on(node), need_of(dict(UBUNTU, kernel=K138, driver=driver))
        made = ours.apply(need)
        V = "595.84-0ubuntu0.22.04.1"
        assert made.managed("driver") == dict(
            expected.each(["libnvidia-cfg1-595", "libnvidia-compute-595", "nvidia-compute-utils-595", "nvidia-kernel-common-595", "nvidia-utils-595",
                           "nvidia-firmware-595-595.84"], V), **{"linux-modules-nvidia-595-6.8.0-138-generic": "6.8.0-138.138~22.04.1"})
        assert "dkms" not in made.changes()
        assert ours.due(need) == [] and ours.moves(made) == []

    @pytest.mark.parametrize("driver, fabric, leads", [
        # Of 590 the archive has some names left, at the very version that was asked for; they are ways to 595.
        ({"version": "590.48.01", "flavour": "open"}, None, "595"),
        ({"version": "570.211.01", "flavour": "open"}, {"manager": "570.211.01", "nscq": "none", "imex": "none"}, "nvidia-fabricmanager-580"),
    ])
    def test_a_transitional_package_is_refused_with_what_it_leads_to(self, apt_node, on, driver, fabric, leads):
        ours = on(apt_node("ubuntu2204-archive"))
        with pytest.raises(acting.Refused) as refused:
            ours.resolve(need_of(dict(UBUNTU, driver=driver, fabric=fabric)))
        told = [problem["message"] for problem in refused.value.problems if problem["code"] == "candidate_is_transitional"]
        assert told and all("only leads to" in line and leads in line for line in told)

    def test_a_version_that_the_archive_dropped_is_refused_with_what_there_is(self, apt_node, on):
        ours = on(apt_node("ubuntu2204-archive"))
        with pytest.raises(acting.Refused) as refused:
            ours.resolve(need_of(dict(UBUNTU, driver={"version": "580.82.07", "flavour": "open"})))
        problem = refused.value.problems[0]
        assert problem["code"] == "locked_version_gone_from_archive" and "580.173.02" in problem["message"]


DEBIAN = {"os": "debian-12", "driver": {"version": "580.126.20", "source": "nvidia", "flavour": "open"}}
DEBIAN_COMPUTE = ("nvidia-kernel-open-dkms", "nvidia-driver-cuda", "libcuda1", "libnvidia-ml1", "libnvidia-ptxjitcompiler1", "libnvidia-nvvm4",
                  "libnvidia-cfg1", "libcudadebugger1", "nvidia-opencl-icd", "nvidia-kernel-support", "firmware-nvidia-gsp",
                  "nvidia-persistenced", "nvidia-modprobe")


class TestOursOnDebian:
    @pytest.mark.parametrize("naive", [[], ["nvidia-open=580.126.20-1"]])
    def test_every_name_at_its_version(self, apt_node, on, naive):
        node = apt_node("debian12-cuda")
        if naive:
            node.settle("install", "--no-install-recommends", *naive)
        ours, need = on(node), need_of(DEBIAN)
        made = ours.apply(need)
        at = {name: version for name, version in made.managed().items() if name not in ("nvidia-kernel-common", "nvidia-support")}
        assert set(DEBIAN_COMPUTE) <= set(at) and set(at.values()) == {"580.126.20-1"}
        assert ours.due(need) == [] and ours.moves(made) == []
