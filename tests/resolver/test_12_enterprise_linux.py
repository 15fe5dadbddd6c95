# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Enterprise Linux 9 and 10: module streams, version locks and kernels of NVIDIA's repository."""
from __future__ import annotations

import pytest

import expected
from collection import H100, need_of
from ansible_collections.lockstep.gpu.plugins.module_utils import acting
from stubs import variants

EL9 = ("rhel9-cuda", "el9-baseos")
V570, V580 = "3:570.133.20-1.el9", "3:580.126.20-1.el9"
K = "5.14.0-570.18.1.el9_6"
NEWEST_KERNEL = "5.14.0-687.25.1.el9_8"
FM = "580.126.20-1"
# Names that no stream holds: all of their versions are always there.
FABRIC = ("nvidia-imex", "libnvidia-nscq", "libnvsdm")


def with_580(node):
    """The node of (c): everything at 580.126.20 by name, under the stream 580-open."""
    node.settle("module", "enable", "nvidia-driver:580-open")
    node.settle("install", *["%s-%s" % (name, V580) for name in ("nvidia-open", "nvidia-modprobe", "nvidia-libXNVCtrl")],
                "nvidia-fabricmanager-" + FM)
    return node


class TestStreams:
    def test_without_its_stream_an_exact_driver_is_hidden(self, dnf_node):
        got = dnf_node(*EL9).would("install", "nvidia-open-" + V570)
        assert not got.ok and "filtered out by modular filtering" in got.text

    def test_under_its_stream_it_is_exact_but_for_two(self, dnf_node):
        node = dnf_node(*EL9)
        node.settle("module", "enable", "nvidia-driver:570-open")
        got = node.would("install", "nvidia-open-" + V570)
        assert got["nvidia-open"] == got["nvidia-driver-cuda"] == got["kmod-nvidia-open-dkms"] == V570
        floats = {name for name, version in got.upstream.items() if version.startswith("570.") and version != "570.133.20"}
        assert floats == {"nvidia-modprobe", "nvidia-libXNVCtrl"}

    def test_another_stream_needs_a_reset(self, dnf_node):
        node = dnf_node(*EL9)
        node.settle("module", "enable", "nvidia-driver:570-open")
        rc, text = node.dnf("-y", "module", "enable", "nvidia-driver:580-open")
        assert rc != 0 and "reset" in text
        node.settle("module", "reset", "nvidia-driver")
        node.settle("module", "enable", "nvidia-driver:580-open")

    def test_a_disabled_module_stays_hidden(self, dnf_node):
        node = dnf_node(*EL9)
        node.settle("module", "disable", "nvidia-driver")
        assert "filtered out by modular filtering" in node.would("install", "nvidia-open-" + V570).text

    def test_a_stream_with_the_newest_module_only_has_no_older_one(self, dnf_node, of_that_day):
        node = dnf_node(folders=of_that_day(*EL9, module=variants.newest_kmod_only))
        node.settle("module", "enable", "nvidia-driver:570-open")
        got = node.would("install", "nvidia-driver-cuda-" + V570, "kmod-nvidia-open-dkms-" + V570)
        assert not got.ok and "filtered out by modular filtering for argument: kmod-nvidia-open-dkms-" + V570 in got.text

    def test_there_the_user_s_part_alone_brings_the_proprietary_module(self, dnf_node, of_that_day):
        node = dnf_node(folders=of_that_day(*EL9, module=variants.newest_kmod_only))
        node.settle("module", "enable", "nvidia-driver:570-open")
        got = node.would("install", "nvidia-driver-cuda-" + V570)
        assert got["nvidia-driver-cuda"] == V570 and got["kmod-nvidia-latest-dkms"]
        assert "kmod-nvidia-open-dkms" not in got.installs


class TestUpdates:
    def test_what_no_stream_holds_leaves(self, dnf_node):
        node = with_580(dnf_node(*EL9))
        node.settle("install", *["%s-%s" % (name, FM) for name in FABRIC])
        got = node.would("update")
        assert {name: got.upstream.get(name) for name in (*FABRIC, "nvidia-fabricmanager")} == dict.fromkeys(
            (*FABRIC, "nvidia-fabricmanager"), "610.57.04")

    def test_a_glob_in_the_list_of_locks_locks_nothing(self, dnf_node):
        node = with_580(dnf_node(*EL9))
        node.lock("*nvidia*580.126.20*")
        assert node.would("update").upstream["nvidia-fabricmanager"] == "610.57.04"

    def test_the_command_locks_what_is_installed_and_nothing_else(self, dnf_node):
        node = with_580(dnf_node(*EL9))
        node.settle("versionlock", "add", "*nvidia*580.126.20*")
        assert "nvidia-fabricmanager-0:580.126.20-1.*" in node.locks()
        assert node.would("update").installs == {}
        assert node.would("install", "nvidia-imex").upstream["nvidia-imex"] == "610.57.04"

    def test_locks_on_names_to_come_keep_them(self, dnf_node):
        node = with_580(dnf_node(*EL9))
        node.lock(*["%s-0:%s.*" % (name, FM) for name in FABRIC])
        got = node.would("install", *FABRIC)
        assert got.installs == expected.each(FABRIC, FM)

    def test_without_modules_everything_leaves(self, dnf_node):
        node = dnf_node("el10-cuda", "el10-baseos", release=10)
        node.settle("install", "nvidia-open-3:580.126.20-1.el10", "nvidia-fabricmanager-" + FM)
        got = node.would("update")
        assert {got.upstream[name] for name in ("nvidia-open", "kmod-nvidia-open-dkms", "nvidia-driver-cuda")} == {"610.57.04"}
        assert got.upstream["nvidia-fabric-manager"] == "570.211.01" and "nvidia-fabricmanager" in got.removes


class TestKernels:
    def node(self, dnf_node):
        node = dnf_node(*EL9)
        node.settle("install", "kernel-" + K)
        return node

    def test_headers_come_for_the_newest_kernel(self, dnf_node):
        assert self.node(dnf_node).would("install", "kernel-devel")["kernel-devel"] == NEWEST_KERNEL

    def test_a_lock_on_the_kernel_alone_lets_its_parts_move(self, dnf_node):
        node = self.node(dnf_node)
        node.lock("kernel-0:%s.*" % K)
        got = node.would("update")
        assert got["kernel-core"] == NEWEST_KERNEL and "kernel" not in got.installs, got.text

    def test_five_locks_keep_all_and_bring_the_right_headers(self, dnf_node):
        node = self.node(dnf_node)
        node.lock(*["%s-0:%s.*" % (name, K) for name in expected.EL_KERNEL])
        assert not {"kernel", "kernel-core", "kernel-modules", "kernel-modules-core"} & set(node.would("update").installs)
        assert node.would("install", "kernel-devel")["kernel-devel"] == K

    def test_headers_of_one_kernel_by_name(self, dnf_node):
        assert self.node(dnf_node).would("install", "kernel-devel-" + K)["kernel-devel"] == K

    def test_under_a_precompiled_stream_the_kernel_leaves_the_module_behind(self, dnf_node):
        node = dnf_node(*EL9)
        node.settle("module", "enable", "nvidia-driver:580")
        node.settle("install", "kernel-" + K, "nvidia-driver-cuda")
        got = node.would("update")
        assert got["kernel-core"] == NEWEST_KERNEL
        assert not [name for name in got.installs if name.startswith("kmod-nvidia") and NEWEST_KERNEL.split("-")[1].split(".el")[0] in name]


class TestRight:
    @pytest.mark.parametrize("stream, version", [("570-open", V570), ("580-open", V580)])
    def test_every_name_at_its_version_under_its_stream(self, dnf_node, stream, version):
        node = dnf_node(*EL9)
        node.settle("module", "enable", "nvidia-driver:" + stream)
        got = node.would("install", *["%s-%s" % (name, version) for name in ("nvidia-open", "nvidia-modprobe", "nvidia-libXNVCtrl")])
        assert got["nvidia-open"] == version
        assert {got.upstream[name] for name in got.installs if "nvidia" in name} == {expected.upstream(version)}


KERNEL = {"release": K + ".x86_64", "package_version": K}
# What a compute node needs: the user's part of the driver, and the module that its name says.
PARTS = ("nvidia-driver-cuda", "nvidia-driver-cuda-libs", "libnvidia-ml", "libnvidia-cfg", "nvidia-kmod-common", "nvidia-persistenced", "nvidia-modprobe")


def driver(version="580.126.20", flavour="open", **more):
    return {"version": version, "source": "nvidia", "flavour": flavour, **more}


def at_one_version(made, version):
    """Whether everything of the driver is at it, and the kernel's module among it."""
    return {expected.upstream(one) for one in made.managed("driver").values()} == {version}


class TestOurs:
    @pytest.mark.parametrize("stream, version", [("570-open", V570), ("580-open", V580)])
    def test_the_stream_is_enabled_and_every_name_is_at_its_version(self, dnf_node, on, stream, version):
        node = dnf_node(*EL9)
        ours, need = on(node), need_of({"os": "rocky-9.6", "driver": driver(expected.upstream(version))})
        made = ours.apply(need)
        assert dict(expected.each(PARTS, version), **{"kmod-nvidia-open-dkms": version}).items() <= made.managed().items()
        assert at_one_version(made, expected.upstream(version))
        assert {name: versions for name, versions in node.installed().items() if name in made.managed()} == {
            name: [version] for name, version in made.managed().items()}
        assert ours.due(need) == [] and ours.moves(made) == []
        assert "nvidia-driver" in node.dnf("module", "list", "--enabled")[1] and stream in node.dnf("module", "list", "--enabled")[1]

    def test_what_a_naive_command_left_floating_moves_to_the_version(self, dnf_node, on):
        node = dnf_node(*EL9)
        node.settle("module", "enable", "nvidia-driver:570-open")
        node.settle("install", "nvidia-open-" + V570)
        ours, need = on(node), need_of({"os": "rocky-9.6", "driver": driver("570.133.20")})
        made = ours.apply(need)
        assert made.changes() == expected.each(["nvidia-modprobe", "nvidia-libXNVCtrl"], V570)
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_a_stream_that_lists_no_such_module_is_told_and_the_other_flavour_does_not_come(self, dnf_node, on, of_that_day):
        ours = on(dnf_node(folders=of_that_day(*EL9, module=variants.newest_kmod_only)))
        with pytest.raises(acting.Refused) as refused:
            ours.resolve(need_of({"os": "rocky-9.6", "driver": driver("570.133.20")}))
        assert {problem["name"] for problem in refused.value.problems} == {"kmod-nvidia-open-dkms"}
        assert {problem["code"] for problem in refused.value.problems} <= {"module_stream_not_enabled", "locked_version_gone_from_archive"}

    def test_the_fabric_s_names_are_locked_before_they_come(self, dnf_node, on):
        node = dnf_node(*EL9)
        ours, need = on(node), need_of({"os": "rocky-9.6", "driver": driver(), "fabric": {"manager": "auto"}}, gpus=[H100], nvswitches=4)
        made = ours.apply(need)
        assert made.managed("fabric") == expected.each(["nvidia-fabricmanager", "libnvidia-nscq"], FM)
        assert node.would("install", "nvidia-imex", "libnvsdm").installs == expected.each(["nvidia-imex", "libnvsdm"], FM)
        assert {node.would("install", "nvidia-settings").upstream.get(name) for name in ("nvidia-settings", "nvidia-libXNVCtrl")} == {"580.126.20"}

    def test_without_modules_nothing_leaves_and_nothing_is_replaced(self, dnf_node, on):
        node = dnf_node("el10-cuda", "el10-baseos", release=10)
        ours, need = on(node), need_of({"os": "rocky-10.1", "driver": driver(), "fabric": {"manager": "auto"}}, gpus=[H100], nvswitches=4)
        made = ours.apply(need)
        assert at_one_version(made, "580.126.20") and made.managed()["nvidia-fabricmanager"] == FM
        assert ours.due(need) == [] and ours.moves(made) == []
        got = node.would("update")
        assert "nvidia-fabric-manager" not in got.installs and "nvidia-fabricmanager" not in got.removes

    def test_five_packages_of_the_kernel_and_its_headers(self, dnf_node, on):
        node = dnf_node(*EL9)
        ours, need = on(node), need_of({"os": "rocky-9.6", "kernel": KERNEL})
        made = ours.apply(need)
        assert made.managed() == expected.each(expected.EL_KERNEL, K)
        assert ours.due(need) == [] and ours.moves(made) == []
        assert node.would("update").installs == {}

    def test_a_newer_kernel_that_runs_stays_beside(self, dnf_node, on):
        node = dnf_node(*EL9)
        node.settle("install", "kernel")
        ours, need = on(node), need_of({"os": "rocky-9.6", "kernel": KERNEL})
        made = ours.apply(need)
        assert made.removed == [] and sorted(node.installed()["kernel-core"]) == sorted([K, NEWEST_KERNEL])
        assert made.managed() == expected.each(expected.EL_KERNEL, K)
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_a_precompiled_module_and_its_kernel_stay_together(self, dnf_node, on):
        node = dnf_node(*EL9)
        ours, need = on(node), need_of({"os": "rocky-9.6", "kernel": KERNEL, "driver": driver(flavour="proprietary", module="precompiled")})
        made = ours.apply(need)
        assert made.managed()["kmod-nvidia-580.126.20-5.14.0-570.18.1"].startswith("3:580.126.20-") and "dkms" not in made.changes()
        assert ours.due(need) == [] and ours.moves(made) == []
