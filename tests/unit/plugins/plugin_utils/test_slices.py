# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a stack to slices: exact requests, whose each package is, and what is refused."""
from __future__ import annotations

import pathlib
import re
import sys

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge, plan, slices, stack

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from stubs import repositories as stubs  # noqa: E402  (needs the path above)

FACTS = knowledge.load()
H100, A100, V100, B200, GB200 = "10de:2330", "10de:20b2", "10de:1db5", "10de:2901", "10de:2941"
TABLES = {
    "ubuntu2204": ("ubuntu2204-cuda", "ubuntu2204-archive", "container-toolkit-deb"),
    "ubuntu2404": ("ubuntu2404-cuda", "ubuntu2404-archive", "container-toolkit-deb"),
    "debian12-nvidia": ("debian12-cuda", "container-toolkit-deb"), "rocky9": ("rhel9-cuda", "el9-baseos", "container-toolkit-rpm"),
    "rocky10": ("el10-cuda", "el10-baseos", "container-toolkit-rpm"),
}
VENDOR = [name for name in stack.names() if name.startswith(tuple(TABLES))]


def need_of(value, **node):
    return plan.wanted(stack.expand(value), FACTS, **node)


def part_of(value, component, **node):
    return next(part for part in need_of(value, **node)["slices"] if part["name"] == component)


def asked(value, component, **node):
    return {ask["name"]: ask["version"] for ask in part_of(value, component, **node)["requests"]}


def ubuntu(version="580.126.20", **words):
    return {"os": "ubuntu-24.04", "driver": dict({"version": version, "flavour": "open", "source": "nvidia"}, **words)}


def rocky(version="580.126.20", release="9", **words):
    return {"os": "rocky-" + release, "driver": dict({"version": version, "flavour": "open"}, **words)}


def refusal(value, **node):
    with pytest.raises(plan.PlanError) as caught:
        need_of(value, **node)
    return str(caught.value)


# -- what there is -------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [[], [H100], [B200], [A100]])
@pytest.mark.parametrize("name", VENDOR)
def test_what_a_shipped_stack_asks_for_exists(name, kind):
    prefix = next(one for one in sorted(TABLES, key=len, reverse=True) if name.startswith(one))
    there = {}
    for table in TABLES[prefix]:
        for row in stubs.get(table).rows:
            there.setdefault(row.name, set()).add(row.version)
    for part in need_of(name, gpus=kind, nvswitches=[{}] if kind else [])["slices"]:
        for ask in part["requests"]:
            if part["name"] != "kernel" or not name.startswith("debian"):
                assert ask["optional"] or any(re.fullmatch(ask["version"], version) for version in there.get(ask["name"], ())), (part["name"], ask)


@pytest.mark.parametrize("name", VENDOR)
def test_a_shipped_stack_is_judged_without_an_error(name):
    from ansible_collections.lockstep.gpu.plugins.filter import lockstep
    found = lockstep.findings(name)
    assert not [row for row in found if row["severity"] == "error"]
    assert {row["code"] for row in found} <= {"unproven"}


# -- names and versions ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "component", "package", "fits", "misfits"), [
    (ubuntu(), "driver", "nvidia-dkms-580-open", ["580.126.20-1ubuntu1", "580.126.20-0ubuntu1", "580.126.20-1"],
     ["580.126.20-0ubuntu0.24.04.1", "580.126.2-1", "580.126.20", "580x126.20-1"]),
    (ubuntu("580.95.05", source="distribution"), "driver", "nvidia-dkms-580-open", ["580.95.05-0ubuntu0.24.04.2"],
     ["580.95.05-0ubuntu1", "580.95.05-1ubuntu1"]),
    (ubuntu("595.71.05"), "driver", "libnvidia-gpucomp", ["595.71.05-1ubuntu1"], ["595.71.05-0ubuntu0.24.04.1", "595.84-1ubuntu1"]),
    (rocky(), "driver", "kmod-nvidia-open-dkms", ["3:580.126.20-1.el9", "580.126.20-1"], ["3:580.126.09-1.el9", "2:580.126.20-1.el9"]),
    (dict(ubuntu(), nccl={"version": "2.21.5", "cuda": "12.4"}), "nccl", "libnccl2", ["2.21.5-1+cuda12.4"],
     ["2.21.5-1+cuda12.2", "2.21.5-1+cuda12.41", "2.21.5-1-1"]),
    (dict(ubuntu(), dcgm={"version": "4.4.2", "cuda": "12"}), "dcgm", "datacenter-gpu-manager-4-cuda12", ["1:4.4.2-1"], ["4.4.2-1", "1:4.4.21-1"]),
    (dict(ubuntu(), dcgm={"version": "1:4.4.2-1", "cuda": "12"}), "dcgm", "datacenter-gpu-manager-4-core", ["1:4.4.2-1"], ["1:4.4.1-1", "1:4.4.2-2"]),
    (dict(ubuntu(), dcgm="3.3.9"), "dcgm", "datacenter-gpu-manager", ["1:3.3.9", "1:3.3.9-1"], ["1:3.3.90", "3.3.9"]),
    (dict(ubuntu(), container_toolkit="1.17.8-1"), "container_toolkit", "libnvidia-container1", ["1.17.8-1"], ["1.17.80-1", "1.17.8", "1.17.8-2"]),
    (dict(ubuntu(), dcgm={"version": "4.4.2-1", "cuda": "12", "exporter": "4.5.0"}), "dcgm", "datacenter-gpu-manager-exporter", ["4.5.0-2"], ["4.4.2-1"]),
    (dict(ubuntu(), dcgm="3.3.9-1"), "dcgm", "datacenter-gpu-manager", ["1:3.3.9-1"], ["1:3.3.9", "1:3.3.9-2"]),
    (dict(ubuntu(), cuda="12.8.0"), "cuda", "cuda-cudart-12-8", ["12.8.57-1"], ["12.8.90-1", "12.8.57"]),
    (dict(ubuntu(), cuda="12.8.2"), "cuda", "libcublas-12-8", ["12.8.5.5-1"], ["12.8.4.1-1"]),
    (dict(rocky(), cuda="13.0.0"), "cuda", "libcublas-devel-13-0", ["13.0.0.19-1"], ["13.0.0.19"]),
    ({"os": "ubuntu-22.04", "ofed": {"provider": "mlnx", "version": "24.10-2.1.8.0"}}, "ofed", "mlnx-ofed-kernel-dkms",
     ["24.10.OFED.24.10.2.1.8.1-1"], ["24.10.OFED.24.10.1.1.4.1-1", "23.10.OFED.23.10.2.1.8.1-1"]),
    ({"os": "ubuntu-22.04", "ofed": {"provider": "doca", "version": "25.10-1.7.1", "doca": "3.2.1"}}, "ofed", "doca-ofed",
     ["3.2.1-044000", "3.2.1-044413"], ["3.2.10-044000", "3.2.3-019000"]),
    ({"os": "ubuntu-22.04", "ofed": {"provider": "doca", "version": "25.10-1.7.1", "doca": "3.2.1-044000"}}, "ofed", "doca-ofed", ["3.2.1-044000"],
     ["3.2.1-044413"]),
])
def test_versions_are_matched_whole(value, component, package, fits, misfits):
    pattern = asked(value, component)[package]
    assert all(re.fullmatch(pattern, version) for version in fits), pattern
    assert not [version for version in misfits if re.fullmatch(pattern, version)], pattern


@pytest.mark.parametrize(("value", "node", "there", "absent"), [
    (ubuntu(), {}, {"nvidia-dkms-580-open", "nvidia-firmware-580-580.126.20", "nvidia-modprobe"}, {"nvidia-dkms-580", "nvidia-open-580", "cuda-drivers"}),
    (ubuntu(flavour="proprietary"), {}, {"nvidia-dkms-580", "nvidia-kernel-source-580"}, {"nvidia-dkms-580-open"}),
    (ubuntu(flavour="auto"), {"gpus": [V100]}, {"nvidia-dkms-580"}, {"nvidia-dkms-580-open"}),
    (ubuntu(flavour="auto"), {"gpus": [B200]}, {"nvidia-dkms-580-open"}, {"nvidia-dkms-580"}),
    (ubuntu("595.71.05"), {}, {"nvidia-dkms-open", "libnvidia-compute", "nvidia-persistenced"}, {"nvidia-dkms-595-open", "nvidia-utils-595"}),
    (rocky(), {}, {"kmod-nvidia-open-dkms", "libnvidia-ml"}, {"kmod-nvidia-latest-dkms", "nvidia-driver-NVML"}),
    (rocky("550.163.01"), {}, {"nvidia-driver-NVML"}, {"libnvidia-ml", "libnvidia-gpucomp"}),
    (rocky("570.211.01", flavour="proprietary", module="precompiled"), {"kernel": "5.14.0-570.18.1.el9_6.x86_64"},
     {"kmod-nvidia-570.211.01-5.14.0-570.18.1"}, {"kmod-nvidia-latest-dkms"}),
    (ubuntu("580.173.02", source="distribution", module="precompiled"), {"kernel": "6.8.0-138-generic"},
     {"linux-modules-nvidia-580-open-6.8.0-138-generic", "nvidia-kernel-common-580"}, {"nvidia-dkms-580-open", "nvidia-modprobe"}),
    (ubuntu("580.126.09", source="distribution", stream="server"), {}, {"nvidia-dkms-580-server-open", "nvidia-firmware-580-server-580.126.09"},
     {"nvidia-dkms-580-open"}),
])
def test_the_drivers_names(value, node, there, absent):
    names = set(asked(value, "driver", **node))
    assert there <= names and not absent & names


@pytest.mark.parametrize(("value", "module", "files"), [
    (ubuntu(), "nvidia", "nvidia-uvm"), (ubuntu("580.126.09", source="distribution", stream="server"), "nvidia-srv", "nvidia-uvm"),
    (rocky("570.133.20"), "nvidia-open", "nvidia-uvm"), (rocky("570.148.08"), "nvidia", "nvidia-uvm"),
    (rocky("570.133.20", flavour="proprietary"), "nvidia", "nvidia"),
    (dict(ubuntu(), os="debian-12"), "nvidia-current-open", "nvidia-current-open-uvm"), (dict(ubuntu("590.48.01"), os="debian-12"), "nvidia", "nvidia-drm"),
    (dict(ubuntu(flavour="proprietary"), os="debian-12"), "nvidia-current", "nvidia-current-peermem")])
def test_the_module_is_called_as_its_packages_call_it(value, module, files):
    need = need_of(value)
    assert need["dkms"]["module"] == module and files in need["dkms"]["files"] and need["modules"]["files"] == need["dkms"]["files"]
    assert set(need["dkms"]) == {"module", "files", "version", "kernel"}


def test_modules_that_are_not_built_here_have_no_dkms_and_are_proven_all_the_same():
    value = rocky("570.211.01", flavour="proprietary", module="precompiled")
    need = need_of(value, kernel="5.14.0-570.18.1.el9_6.x86_64")
    proof = plan.proof_of(stack.expand(value), need)
    assert need["dkms"] is None and need["modules"]["kernel"] == "5.14.0-570.18.1.el9_6.x86_64"
    assert proof["modules"][0] == "nvidia" and proof["expected"]["module:nvidia-uvm"] == "570.211.01" and "modprobe" in proof["subjects"]


@pytest.mark.parametrize(("value", "stream"), [
    (rocky(), "nvidia-driver:580-open"), (rocky(flavour="proprietary"), "nvidia-driver:580-dkms"), (rocky(release="10"), ""), (ubuntu(), ""),
    (rocky(stream="580-open"), "nvidia-driver:580-open"), (rocky(release="9.4"), "nvidia-driver:580-open")])
def test_the_stream_is_the_versions(value, stream):
    assert part_of(value, "driver")["stream"] == stream


def test_el_drivers_come_from_nvidia_when_nobody_says():
    assert stack.expand(rocky())["driver"]["source"] == "nvidia" and stack.expand(dict(ubuntu(), driver="580.126.20"))["driver"]["source"] == "distribution"


# -- CUDA --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("profile", "count", "there", "absent"), [
    ("runtime", 2, {"cuda-cudart-12-8", "cuda-toolkit-12-8-config-common"}, {"libcublas-12-8"}),
    ("libraries", 15, {"libcublas-12-8", "libnvjpeg-12-8", "cuda-libraries-12-8"}, {"cuda-nvcc-12-8", "libcublas-dev-12-8"}),
    ("toolkit", 58, {"cuda-nvcc-12-8", "libcublas-dev-12-8", "cuda-toolkit-12-8", "nsight-compute-2025.1.0", "cuda-nvml-dev-12-8"}, set())])
def test_a_profile_is_a_list_of_parts(profile, count, there, absent):
    names = set(asked(dict(ubuntu(), cuda={"versions": ["12.8.0"], "profile": profile}), "cuda"))
    assert len(names) == count and there <= names and not absent & names
    assert not {"cuda", "cuda-12-8", "cuda-runtime-12-8", "cuda-drivers", "cuda-toolkit-config-common", "cuda-toolkit-12-config-common"} & names


def test_the_parts_of_a_release_are_what_its_metapackage_asks_for_at_least():
    # The closure of cuda-toolkit-12-8 12.8.0-1 over the floors of its relations, by the stub's table.
    rows = {(row.name, row.version): row for row in stubs.get("ubuntu2404-cuda").rows}
    todo, floors = ["cuda-toolkit-12-8 (>= 12.8.0)"], {}
    while todo:
        name, dummy, version = todo.pop().partition(" (>= ")
        version = version.rstrip(")")
        if name in floors or not version:
            continue
        floors[name] = version
        row = next((row for (one, have), row in rows.items() if one == name and have.rpartition("-")[0] == version), None)
        todo += row.relations.get("depends", []) if row else []
    shared = {"cuda-toolkit-config-common", "cuda-toolkit-12-config-common"}
    ours = {name: slices.readable(pattern.replace("(_[^-]+)?", "")).rpartition("-")[0]
            for name, pattern in asked(dict(ubuntu(), cuda="12.8.0"), "cuda").items()}
    assert ours == {name: version for name, version in floors.items() if name not in shared}


def test_rpms_of_nsight_systems_have_a_build_and_those_of_cupti_no_headers():
    part = part_of(dict(rocky(), cuda="12.8.0"), "cuda")
    ask = {request["name"]: request for request in part["requests"]}
    nsight = next(ask[name] for name in ask if name.startswith("nsight-systems-"))
    version = slices.readable(nsight["version"].partition("(")[0])
    assert all(re.fullmatch(nsight["version"], version + end) for end in ("-1", "_243335121308v0-0"))
    assert not re.fullmatch(nsight["version"], version + "1-1")
    assert [name for name, request in ask.items() if request["optional"]] == ["cuda-cupti-devel-12-8"]


def test_several_releases_lie_side_by_side():
    names = asked(dict(ubuntu(), cuda={"versions": ["12.8.0", "13.0.0"], "active": "13.0.0", "profile": "runtime"}), "cuda")
    assert {"cuda-cudart-12-8", "cuda-cudart-13-0"} <= set(names)
    assert "same packages" in refusal(dict(ubuntu(), cuda={"versions": ["12.8.0", "12.8.2"], "active": "12.8.0"}))


# -- others, guards, away ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "rivals", "others", "not_others"), [
    (ubuntu(), {"nvidia-dkms-580", "nvidia-dkms-open"}, {"nvidia-driver-580", "cuda-drivers-580", "libnvidia-compute"},
     {"nvidia-driver-580-open", "nvidia-modprobe", "nvidia-open-580"}),
    (ubuntu(flavour="proprietary"), {"nvidia-dkms-580-open"}, {"nvidia-open-580", "nvidia-driver-580-open"}, {"cuda-drivers-580"}),
    (ubuntu("595.71.05"), {"nvidia-dkms"}, {"nvidia-driver", "cuda-drivers", "nvidia-utils-595"}, {"nvidia-open", "nvidia-driver-open"}),
    (rocky(), {"kmod-nvidia-latest-dkms"}, {"cuda-drivers", "nvidia-driver-NVML"}, {"nvidia-open", "libnvidia-ml"}),
    # The same names from Debian's own archive are its dependencies, not another set.
    ({"os": "debian-12", "driver": {"version": "535.261.03", "flavour": "proprietary"}}, {"nvidia-open-kernel-dkms", "nvidia-kernel-open-dkms"},
     {"nvidia-open-kernel-dkms"}, {"nvidia-modprobe", "nvidia-alternative", "libnvidia-cfg1"}),
])
def test_other_sets_are_known_by_name(value, rivals, others, not_others):
    part = part_of(value, "driver")
    assert rivals <= set(part["rivals"]) and others <= set(part["others"]) and not not_others & set(part["others"])


@pytest.mark.parametrize(("value", "name", "version", "moves"), [
    (ubuntu(), "libnvidia-gl-570", "570.133.20-0ubuntu1", True), (ubuntu(), "nvidia-settings", "510.47.03-0ubuntu4", True),
    (ubuntu(), "nvidia-driver-pinning-610", "610-1", False), (ubuntu(), "nvidia-firmware-580-580.105.08", "580.105.08-0ubuntu1", True),
    (ubuntu(), "libnvidia-egl-wayland21", "1.0.1-1ubuntu1", False), (ubuntu(), "libnvidia-container1", "1.17.8-1", False),
    (ubuntu(), "linux-modules-nvidia-595-open-6.8.0-138-generic", "6.8.0-138.138", True),
    # A fabric that the stack has is a component of its own, one that it does not name is not its business; what is left of one that
    # these boards do not need works beside exactly this driver.
    (ubuntu(), "nvidia-fabricmanager", "570.1-1", False), (dict(ubuntu(), fabric={"manager": "580.126.20"}), "nvidia-fabricmanager", "570.1-1", False),
    (dict(ubuntu(), fabric={"manager": "auto"}), "nvidia-fabricmanager", "570.1-1", True),
    (ubuntu("580.173.02", source="distribution", module="precompiled"), "linux-modules-nvidia-580-open-6.8.0-138-generic", "6.8.0-138.138", False),
    (rocky(), "nvidia-libXNVCtrl", "3:610.57.04-1.el9", True), (rocky(), "nvidia-driver-assistant", "0.21-1", False),
    (dict(ubuntu(), os="debian-12"), "nvidia-smi", "535.261.03-1", True), (dict(ubuntu(), os="debian-12"), "nvidia-container-toolkit", "1.17.8-1", False),
])
def test_what_moves_with_the_driver(value, name, version, moves):
    from ansible_collections.lockstep.gpu.plugins.module_utils import closure
    part = part_of(value, "driver", kernel="6.8.0-138-generic")
    assert (name in closure.followers(part, {name: {"version": version, "status": "installed", "source": None}})) is moves


@pytest.mark.parametrize(("value", "guarded"), [
    (ubuntu(), {"nvidia-imex*", "libnvsdm*", "nvidia-settings", "libnvidia-gl-580*"}), (ubuntu("595.71.05"), {"nvidia-driver*", "nvidia-imex*"}),
    (rocky(), {"nvidia-imex*", "libnvsdm*", "nvidia-fabricmanager*", "nvidia-libXNVCtrl*"})])
def test_names_that_must_not_float_when_they_come_later(value, guarded):
    assert guarded <= set(part_of(value, "driver")["guard"])


@pytest.mark.parametrize(("value", "component", "origin", "name"), [
    (ubuntu(), "driver", "o=Ubuntu", "nvidia-dkms*"), (ubuntu("580.95.05", source="distribution"), "driver", "l=NVIDIA CUDA", "nvidia-dkms*"),
    (dict(ubuntu(), os="debian-12"), "driver", "o=Debian", "libcuda1"),
    ("debian12-535", "driver", "l=NVIDIA CUDA", "libcuda1"), ("debian13-550", "driver", "l=NVIDIA CUDA", "libcuda1"),
    ("debian13-550-open", "driver", "l=NVIDIA CUDA", "nvidia-open-kernel-*"), ("debian13-535", "driver", "l=NVIDIA CUDA", "nvidia-kernel-*"),
    ({"os": "ubuntu-22.04", "ofed": {"provider": "doca", "version": "25.10-1.7.1", "doca": "3.2.1"}}, "ofed", "l=NVIDIA CUDA", "mft*"),
    ({"os": "ubuntu-22.04", "ofed": {"provider": "doca", "version": "25.10-1.7.1", "doca": "3.2.1"}}, "ofed", "l=DOCA-HOST*", "dkms"),
    (dict(ubuntu(), nccl={"version": "2.26.2", "cuda": "12.8"}), "nccl", "o=Ubuntu", "libnccl*")])
def test_another_origins_packages_are_kept_off(value, component, origin, name):
    assert [row for row in part_of(value, component)["away"] if row["release"] == origin and name in row["packages"]]


def test_debians_own_sets_are_told_by_source_alone():
    driver = part_of("debian13-550", "driver")
    assert driver["names"] == [] and driver["one_names"] == [] and driver["stream"] == "" and driver["installonly"] is False


def test_kernels_of_el_lie_side_by_side():
    value = dict(rocky(), kernel={"release": "5.14.0-570.18.1.el9_6.x86_64", "package_version": "5.14.0-570.18.1.el9_6"})
    part = part_of(value, "kernel")
    assert part["installonly"] and part["sources"] == [] and {ask["name"] for ask in part["requests"]} == {
        "kernel", "kernel-core", "kernel-modules", "kernel-modules-core", "kernel-devel"}
    assert not any(re.fullmatch(pattern, "kernel-headers") for pattern in part["names"])


@pytest.mark.parametrize("release", ["6.8.0-79-generic", "6.17.0-1014-nvidia", "6.8.0-1032-aws", "6.8.0-1030-azure", "6.8.0-1033-gcp"])
def test_kernels_of_ubuntu_are_named_by_their_release(release):
    value = dict(ubuntu(), kernel={"release": release, "package_version": "6.8.0-79.79"})
    part = part_of(value, "kernel")
    assert {ask["name"]: ask["optional"] for ask in part["requests"]} == {
        "linux-image-" + release: False, "linux-modules-" + release: False, "linux-headers-" + release: False, "linux-modules-extra-" + release: True}
    for source in ("linux", "linux-signed", "linux-meta", "linux-hwe-6.8", "linux-signed-hwe-6.8", "linux-meta-hwe-6.8", "linux-aws", "linux-nvidia-6.17"):
        assert any(re.fullmatch(pattern, source) for pattern in part["sources"]), source
    for source in ("linux-restricted-modules", "linux-firmware", "linux-base", "linux-atm", "linuxptp"):
        assert not any(re.fullmatch(pattern, source) for pattern in part["sources"]), source


@pytest.mark.parametrize(("pattern", "expected"), [
    (r"580\.126\.20-(?!0ubuntu0\.).+", ["580.126.20-*"]), (r"(3:)?580\.126\.20-.+", ["3:580.126.20-*", "580.126.20-*"]), (r"1:3\.3\.9(-.+)?", ["1:3.3.9*"]),
    (r"580\.95\.05-0ubuntu0\..+", ["580.95.05-0ubuntu0.*"]), (r"6\.8\.0\-79\.79(\+.+)?", ["6.8.0-79.79*"])])
def test_patterns_become_globs_of_apt(pattern, expected):
    assert slices.globs(pattern) == expected


@pytest.mark.parametrize(("pattern", "expected"), [(r"580\.126\.20-(?!0ubuntu0\.).+", "580.126.20-*"), (r"(3:)?580\.126\.20-.+", "580.126.20-*"),
                                                   (None, "none")])
def test_patterns_become_words(pattern, expected):
    assert slices.readable(pattern) == expected


# -- refusals ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "node", "words"), [
    (dict(ubuntu(), os="ubuntu-20.04"), {}, ["'driver'", "ubuntu 20.04"]),
    ({"os": "rocky-8", "driver": {"version": "580.126.20", "flavour": "open"}}, {}, ["'driver'", "rocky 8"]),
    ({"os": "rocky-9", "driver": {"version": "580.126.20", "flavour": "open", "source": "distribution"}}, {}, ["'driver'", "source nvidia"]),
    (ubuntu("470.256.02"), {}, ["'driver'", "470.256.02", "branches 535 to 589"]),
    (ubuntu(module="precompiled"), {}, ["'driver'", "module precompiled", "source distribution"]),
    (ubuntu("580.173.02", source="distribution", module="precompiled"), {}, ["driver.module", "kernel.release"]),
    (rocky(stream="570-open"), {}, ["driver.stream", "570-open", "candidates: 580-open"]),
    (rocky(release="10", stream="580-open"), {}, ["'driver'", "stream 580-open"]),
    (rocky(release="10", module="precompiled", flavour="proprietary"), {}, ["'driver'", "module precompiled"]),
    (dict(ubuntu(), cuda="12.8.9"), {}, ["cuda.versions", "12.8.9", "compat/cuda_components.yml", "12.8.0"]),
    (dict(ubuntu(), cuda="14.0.0"), {}, ["compat/cuda_components.yml", "11.8.0"]),
    (dict(ubuntu(), nccl="2.25.1"), {}, ["nccl.cuda", "is missing", "candidates", "12.8"]),
    ({"os": "ubuntu-22.04", "ofed": {"provider": "doca", "version": "25.10-1.7.1"}}, {}, ["ofed.doca", "is missing"]),
    ({"os": "ubuntu-22.04", "ofed": {"provider": "inbox", "version": "39.0"}, "dcgm": "4.4.2"}, {}, ["dcgm.cuda", "12, 13"]),
    ({"os": "ubuntu-24.04", "container_toolkit": "1.18.0-rc.1"}, {}, ["container_toolkit.version", "'-rc.1' is no package revision", "1.18.0, 1.18.0-1"]),
    (ubuntu(flavour="auto"), {"gpus": ["10de:ffff"]}, ["driver.flavour", "10de:ffff", "compat/gpus.yml", "open, proprietary"]),
    (dict(ubuntu("580.173.02", source="distribution"), fabric="auto"), {"gpus": [B200]}, ["fabric.imex", "none", "driver.source: nvidia"]),
    ({"os": "ubuntu-24.04", "fabric": "auto", "container_toolkit": "1.18.2"}, {"gpus": [H100], "nvswitches": [{}]}, ["fabric.manager", "has no driver"]),
    (dict(ubuntu(), fabric={"manager": "580.126.20", "nscq": "580.105.08"}), {"gpus": [H100]}, ["'fabric'", "580.105.08, 580.126.20"]),
])
def test_what_is_not_known_is_refused_with_its_key(value, node, words):
    text = refusal(value, **node)
    assert all(word in text for word in words), text
    assert "\n" not in text


def test_an_unknown_gpu_is_nobodys_business_where_the_flavour_is_said():
    assert need_of(ubuntu(), gpus=["10de:ffff"])["flavour"] == "open"
