# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every shipped stack of a vendor's repository resolves on a fresh node, to exactly what it says."""
from __future__ import annotations

import re

import pytest
from collection import B200, H100, V100, need_of

APT = {
    "ubuntu2204-550": ("ubuntu2204-cuda", "ubuntu2204-archive", "container-toolkit-deb"),
    "ubuntu2204-580": ("ubuntu2204-cuda", "ubuntu2204-archive", "container-toolkit-deb"),
    "ubuntu2204-server-580": ("ubuntu2204-cuda", "ubuntu2204-archive", "container-toolkit-deb"),
    "ubuntu2404-580": ("ubuntu2404-cuda", "ubuntu2404-archive", "container-toolkit-deb"),
    "ubuntu2404-595": ("ubuntu2404-cuda", "ubuntu2404-archive", "container-toolkit-deb"),
    "ubuntu2404-archive-580": ("ubuntu2404-cuda", "ubuntu2404-archive", "container-toolkit-deb"),
    "debian12-nvidia-580": ("debian12-cuda", "container-toolkit-deb"),
}
DNF = {
    "rocky9-570": ("rhel9-cuda", "el9-baseos", "container-toolkit-rpm"),
    "rocky9-580": ("rhel9-cuda", "el9-baseos", "container-toolkit-rpm"),
    "rocky10-580": ("el10-cuda", "el10-baseos", "container-toolkit-rpm"),
}
NODES = {"none": ([], []), "h100": ([H100], [{"id": "10de:22a3"}]), "b200": ([B200], []), "v100": ([V100], [])}


def need_on(name, kind):
    """The needs of a stack on a kind of node; Debian's kernel is in no stub repository."""
    gpus, switches = NODES[kind]
    need = need_of(name, gpus=gpus, nvswitches=switches)
    return dict(need, slices=[part for part in need["slices"] if part["name"] != "kernel"]) if name.startswith("debian") else need


def exact(need, got):
    """Whether the closure has what each slice asks for, and of its one version nothing else."""
    for part in need["slices"]:
        here = got.managed(part["name"])
        for ask in part["requests"]:
            if not ask["optional"]:
                assert re.fullmatch(ask["version"], here[ask["name"]]), (ask, here.get(ask["name"]))
        for name, version in here.items():
            if any(re.fullmatch(pattern, name) for pattern in part["one_names"]):
                assert re.fullmatch(part["pattern"], version), (part["name"], name, version)


@pytest.mark.parametrize("kind", ["none", "h100", "b200"])
@pytest.mark.parametrize("name", [name for name in APT if name != "ubuntu2204-550"])
def test_a_stack_of_apt_resolves(name, kind, apt_node, on):
    need = need_on(name, kind)
    got = on(apt_node(*APT[name], preferences="")).resolve(need)
    exact(need, got)
    assert not got.removed
    assert not [one for one in got.others() if re.match(r"nvidia-|libnvidia-|cuda-|libcuda", one)]


def test_the_old_branch_resolves(apt_node, on):
    need = need_on("ubuntu2204-550", "h100")
    exact(need, on(apt_node(*APT["ubuntu2204-550"], preferences="")).resolve(need))


@pytest.mark.parametrize("name, kind", [("rocky9-580", "none"), ("rocky9-580", "v100"), ("rocky9-580", "b200"), ("rocky9-570", "h100"),
                                        ("rocky10-580", "b200")])
def test_a_stack_of_dnf_resolves(name, kind, dnf_node, on):
    need = need_on(name, kind)
    exact(need, on(dnf_node(*DNF[name])).resolve(need))
