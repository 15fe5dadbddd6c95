# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node's GPUs decide: the flavour of the kernel's module, and the parts of the fabric."""
from __future__ import annotations

import pytest

from ansible_collections.lockstep.gpu.plugins.plugin_utils.plan import PlanError
from collection import A100, B200, H100, V100, need_of

SYSTEMS = {
    "ubuntu-22.04": ("nvidia-dkms-%(branch)s-open", "nvidia-dkms-%(branch)s"),
    "ubuntu-24.04": ("nvidia-dkms-%(branch)s-open", "nvidia-dkms-%(branch)s"),
    "debian-12": ("nvidia-kernel-open-dkms", "nvidia-kernel-dkms"),
    "rocky-9.6": ("kmod-nvidia-open-dkms", "kmod-nvidia-latest-dkms"),
    "rocky-10.1": ("kmod-nvidia-open-dkms", "kmod-nvidia-latest-dkms"),
}
OPEN, PROPRIETARY = 0, 1


def names(system, version, gpus, **more):
    """Names that a stack with the flavour `auto` asks for."""
    stack = {"os": system, "driver": {"version": version, "source": "nvidia", "flavour": "auto"}, "fabric": {"manager": "auto"}}
    return {request["name"] for part in need_of(stack, gpus=gpus, **more)["slices"] for request in part["requests"]}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("version, gpus, flavour", [
    ("580.126.20", [H100], OPEN),
    ("580.126.20", [A100], OPEN),
    ("580.126.20", [B200], OPEN),
    # Volta has no GSP: only the proprietary module knows it, and it decides for the whole node.
    ("580.126.20", [V100], PROPRIETARY),
    ("580.126.20", [H100, V100], PROPRIETARY),
    # Nobody looked, or there is none: NVIDIA's default of the branch.
    ("580.126.20", [], OPEN),
])
def test_the_flavour(system, version, gpus, flavour):
    modules = [name % {"branch": version.split(".")[0]} for name in SYSTEMS[system]]
    asked = names(system, version, gpus)
    assert modules[flavour] in asked and modules[1 - flavour] not in asked


@pytest.mark.parametrize("version, flavour", [("550.163.01", PROPRIETARY), ("570.133.20", OPEN)])
def test_without_a_gpu_the_branch_decides(version, flavour):
    modules = [name % {"branch": version.split(".")[0]} for name in SYSTEMS["ubuntu-22.04"]]
    assert modules[flavour] in names("ubuntu-22.04", version, [])


def test_a_gpu_that_nobody_knows_decides_nothing():
    with pytest.raises(PlanError) as refused:
        names("ubuntu-24.04", "580.126.20", ["10de:ffff"])
    assert "10de:ffff" in str(refused.value) and "compat/gpus.yml" in str(refused.value)


@pytest.mark.parametrize("gpus, switches, parts", [
    ([H100], 4, {"nvidia-fabricmanager", "libnvidia-nscq"}),
    ([A100], 6, {"nvidia-fabricmanager", "libnvidia-nscq"}),
    ([B200], 2, {"nvidia-fabricmanager", "libnvidia-nscq", "nvidia-imex", "libnvsdm", "nvlsm"}),
    ([H100], 0, set()),
    ([V100], 0, set()),
    ([], 0, set()),
])
@pytest.mark.parametrize("system", ["ubuntu-24.04", "rocky-9.6", "rocky-10.1", "debian-12"])
def test_the_fabric(system, gpus, switches, parts):
    known = {"nvidia-fabricmanager", "libnvidia-nscq", "nvidia-imex", "libnvsdm", "nvlsm"}
    assert names(system, "580.126.20", gpus, nvswitches=switches) & known == parts


@pytest.mark.parametrize("system, manager", [("ubuntu-22.04", "nvidia-fabricmanager-570"), ("rocky-9.6", "nvidia-fabric-manager")])
def test_older_names_of_the_fabric(system, manager):
    assert manager in names(system, "570.211.01", [H100], nvswitches=4)


def test_what_the_stack_says_beats_the_node():
    stack = {"os": "ubuntu-24.04", "driver": {"version": "580.126.20", "source": "nvidia", "flavour": "open"},
             "fabric": {"manager": "580.126.20", "imex": "none", "nscq": "none", "nvlsm": "none"}}
    need = need_of(stack, gpus=[B200], nvswitches=0)
    fabric = next(part for part in need["slices"] if part["name"] == "fabric")
    assert [request["name"] for request in fabric["requests"] if request["name"] != "libnvsdm"] == ["nvidia-fabricmanager"]
