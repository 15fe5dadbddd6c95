# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node has of an NVLink fabric that its boards do not need any more, and what a stack says nothing about."""
from __future__ import annotations

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import acting
from collection import A100, B200, H100, V100, need_of

JAMMY, NOBLE, EL9 = ("ubuntu2204-cuda", "ubuntu2204-archive"), ("ubuntu2404-cuda", "ubuntu2404-archive"), ("rhel9-cuda", "el9-baseos")
WHOLE, BARE = {"gpus": [A100], "nvswitches": 6}, {"gpus": [V100], "nvswitches": 0}
ARCHIVES = "580.126.09-0ubuntu0.22.04.1"


def need(system, version, node, flavour="proprietary", source="nvidia", fabric=True):
    named = {"fabric": {"manager": "auto"}} if fabric else {}
    return need_of({"os": system, "driver": {"version": version, "source": source, "flavour": flavour}, **named}, **node)


def names(versions, *words):
    """{name: version} of what belongs to a fabric."""
    return {name: version for name, version in versions.items() if any(word in name for word in ("fabric", "nscq", "imex", "nvsdm", "nvlink", *words))}


@pytest.mark.parametrize("version, there", [("580.178.04", True), ("570.133.20", False)])
def test_a_fabric_that_is_needed_no_more_follows_the_driver_on_apt(apt_node, on, version, there):
    """The boards were changed: what stays of their fabric works beside exactly this driver; what has no such version leaves."""
    follows(on(apt_node("ubuntu2204-cuda", "ubuntu2204-archive")), "ubuntu-22.04", version, there)


@pytest.mark.parametrize("version, there", [("580.105.08", True), ("535.183.01", False)])
def test_a_fabric_that_is_needed_no_more_follows_the_driver_on_dnf(dnf_node, on, version, there):
    follows(on(dnf_node("rhel9-cuda", "el9-baseos")), "rocky-9.6", version, there)


def follows(ours, system, version, there):
    """From boards with a fabric to some without, and to another driver; and back."""
    parts = {"nvidia-fabricmanager", "libnvidia-nscq"}

    whole, bare = need(system, "580.126.20", WHOLE), need(system, version, BARE)
    assert parts <= set(ours.apply(whole).managed("fabric"))
    made = ours.apply(bare)
    left = {name: number for name, number in made.managed().items() if name in parts}
    assert set(left) == (parts if there else set()) and all(number.startswith(version + "-") for number in left.values())
    assert ours.due(bare) == [] and ours.moves(made) == []
    assert ours.apply(whole).managed("fabric").items() >= dict.fromkeys(parts, "580.126.20-1").items()
    assert ours.due(whole) == []


@pytest.mark.parametrize("there", [
    # The archive's own, of the driver's version, as somebody brought them who knew what he did.
    {"nvidia-fabricmanager-580": ARCHIVES, "libnvidia-nscq-580": ARCHIVES}, {"nvidia-imex": "580.126.20-1"}])
def test_what_a_stack_says_nothing_about_stays(apt_node, on, there):
    ours = on(apt_node(*JAMMY, installed=there))
    made = ours.resolve(need("ubuntu-22.04", "580.126.09", {"gpus": [H100], "nvswitches": 4}, "open", fabric=False))
    assert made.removed == [] and names(made.changes()) == {}


@pytest.mark.parametrize("version, after", [("580.126.20", {}), ("570.211.01", {"nvlink5-570": "570.211.01-1"})])
def test_a_metapackage_of_the_fabric_follows_or_leaves_with_it_on_apt(apt_node, on, version, after):
    node = apt_node(*NOBLE)
    metapackage(on(node), lambda: node.settle("install", "--no-install-recommends", "nvlink5-570=570.133.20-1"), "ubuntu-24.04", "570.133.20", version, after)


@pytest.mark.parametrize("version, after", [("580.126.20", {}), ("570.211.01", {"nvlink5-570": "570.211.01-1"})])
def test_a_metapackage_of_the_fabric_follows_or_leaves_with_it_on_dnf(dnf_node, on, version, after):
    node = dnf_node(*EL9)
    metapackage(on(node), lambda: node.settle("install", "nvlink5-570-570.124.06-1"), "rocky-9.6", "570.124.06", version, after)


def metapackage(ours, by_hand, system, first, version, after):
    ours.apply(need(system, first, {"gpus": [B200], "nvswitches": 2}, "open"))
    by_hand()
    bare = need(system, version, {"gpus": [H100], "nvswitches": 0}, "open")
    made = ours.apply(bare)
    assert {name: number for name, number in made.managed().items() if "nvlink5" in name} == after and ours.due(bare) == []


def test_a_metapackage_of_the_fabric_is_in_no_upgrade_s_way(apt_node, on):
    node = apt_node(*NOBLE)
    ours, boards = on(node), {"gpus": [B200], "nvswitches": 2}
    ours.apply(need("ubuntu-24.04", "570.133.20", boards, "open"))
    node.settle("install", "--no-install-recommends", "nvlink5-570=570.133.20-1")
    later = need("ubuntu-24.04", "580.126.20", boards, "open")
    made = ours.apply(later)
    assert made.managed()["nvidia-fabricmanager"] == "580.126.20-1" and "nvlink5-570" not in made.managed() and ours.due(later) == []


@pytest.mark.parametrize("status", ["half-configured", "unpacked"])
@pytest.mark.parametrize("version, after", [("550.90.07", "550.90.07-1"), ("570.133.20", None)])
def test_a_half_configured_part_follows_or_leaves_too(apt_node, on, status, version, after):
    node = apt_node(*JAMMY)
    ours = on(node)
    ours.apply(need("ubuntu-22.04", "550.163.01", WHOLE))
    table = node.root.dpkg / "status"
    table.write_text("\n\n".join(row.replace(" ok installed", " ok " + status) if row.lstrip().startswith("Package: nvidia-fabricmanager-550\n") else row
                                 for row in table.read_text(encoding="utf-8").split("\n\n")), encoding="utf-8")
    made = ours.resolve(need("ubuntu-22.04", version, BARE))
    assert made.managed().get("nvidia-fabricmanager-550") == after and ("nvidia-fabricmanager-550" in made.removed) is (after is None)


def test_a_part_that_is_empty_at_the_driver_s_version_leaves(apt_node, on):
    """Ubuntu's nvidia-fabricmanager-570 at 570.211.01 only leads to 580's."""
    ours = on(apt_node(*JAMMY))
    ours.apply(need("ubuntu-22.04", "570.195.03", WHOLE, source="distribution"))
    bare = need("ubuntu-22.04", "570.211.01", BARE, source="distribution")
    made = ours.apply(bare)
    assert "nvidia-fabricmanager-570" in made.removed and "nvidia-fabricmanager-580" not in made.changes() and ours.due(bare) == []


def test_pins_do_not_depend_on_what_the_node_had(apt_node, on):
    """From NVIDIA's driver with a fabric to Ubuntu's without: nothing of the fabric's pins is left, and its archive has it."""
    node, fresh = apt_node(*JAMMY), apt_node(*JAMMY)
    bare = need("ubuntu-22.04", "580.126.09", BARE, source="distribution")
    new = on(fresh)
    new.apply(bare)
    text = new.pins()
    ours = on(node)
    ours.apply(need("ubuntu-22.04", "580.126.20", WHOLE))
    ours.apply(bare)
    assert ours.pins() == text and node.install("nvidia-fabricmanager-580").installs == {"nvidia-fabricmanager-580": ARCHIVES}


def test_what_keeps_a_broken_node_from_its_stack_is_named(apt_node, on):
    """The driver alone fails for what NCCL lacks, which the stack brings; the whole for what apt brings to no broken node."""
    node = apt_node(*JAMMY, "container-toolkit-deb")
    ours = on(node)
    stack = {"os": "ubuntu-22.04", "driver": {"version": "550.163.01", "source": "nvidia", "flavour": "proprietary"},
             "nccl": {"version": "2.21.5", "cuda": "12.4"}}
    ours.apply(need_of(stack, **BARE))
    node.change({}, ["libnccl2"])
    with pytest.raises(acting.Refused) as refused:
        ours.resolve(need_of(dict(stack, dcgm={"version": "4.4.1", "cuda": "12"}), **BARE))
    assert "this stack's dcgm" in str(refused.value) and "lshw" in str(refused.value) and "libnccl" not in str(refused.value)
