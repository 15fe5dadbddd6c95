# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From stack to stack as a play goes, one component after the other by one plan: what the plan said is what happened, whatever was there."""
from __future__ import annotations

import random
import re

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import acting, pinned_node, pinning
from collection import A100, B200, H100, V100, need_of

import expected

SYSTEMS = {
    "ubuntu-22.04": ("ubuntu2204-cuda", "ubuntu2204-archive", "container-toolkit-deb"),
    "ubuntu-24.04": ("ubuntu2404-cuda", "ubuntu2404-archive", "container-toolkit-deb"),
    "debian-12": ("debian12-cuda", "container-toolkit-deb"),
}
# By hand: a driver of every era and origin of each system.
DRIVERS = {
    "ubuntu-22.04": ["535.183.01", "550.163.01", "570.133.20", "580.126.20", "595.71.05", "610.43.02", "550.144.03 archive", "580.126.09 archive server"],
    "ubuntu-24.04": ["535.216.01", "550.90.07", "570.211.01", "580.105.08", "590.48.01", "610.57.04", "580.173.02 archive", "535.309.01 archive"],
    "debian-12": ["535.161.08", "550.90.12", "560.35.03", "570.133.20", "580.126.20", "580.178.04", "590.48.01", "595.71.05", "610.43.02"],
}
OF_THE_DRIVER = re.compile(r"(lib)?nvidia-(?!container|egl|prime|fabric|nscq|imex|support|settings)|libcuda1"
                           r"|xserver-xorg-video-nvidia|cuda-drivers|firmware-nvidia")
# Debian's own, whose version is a day.
OF_DEBIAN = ("nvidia-kernel-common",)


def any_stack(system, dice):
    version, *origin = dice.choice(DRIVERS[system]).split()
    driver = {"version": version, "flavour": dice.choice(["open", "proprietary"]), "source": "distribution" if origin else "nvidia"}
    stack = {"os": system, "driver": dict(driver, stream="server") if "server" in origin else driver}
    maybe = {"container_toolkit": ["1.17.8", "1.18.2", "1.16.2"], "dcgm": ["3.3.9", "4.4.1", "4.5.2"],
             "nccl": [{"version": "2.25.1", "cuda": "12.8", "source": "nvidia"}], "cuda": [{"versions": ["12.8.0"], "profile": "runtime", "source": "nvidia"}]}
    return dict(stack, **{name: dice.choice(some) for name, some in maybe.items() if dice.random() < 0.4})


def go(node, ours, need):
    """Resolve, then one component after the other; (what was planned, what happened), each {name: version, None when it goes}."""
    plan = ours.step(need)
    plan.resolve()
    planned = dict({row["name"]: row["version"] for row in plan.rows if row["change"] != "keep"}, **dict.fromkeys(plan.removed))
    before = dict(node.root.base, **node.state)
    for part in need["slices"]:
        step = pinned_node.Node(ours.run, {"slices": need["slices"], "only": [part["name"]], "repositories": None, "alternatives": {},
                                           "closure": plan.rows, "removed": plan.removed}, pinning)
        if step.actions():
            step.apply()
    after = dict(node.root.base, **node.state)
    return planned, {name: after.get(name) for name in before | after if before.get(name) != after.get(name)}


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("system", SYSTEMS)
def test_a_walk_through_stacks(system, seed, apt_node, on):
    dice = random.Random("%s %d" % (system, seed))
    node = apt_node(*SYSTEMS[system])
    ours, reached = on(node), 0
    for dummy in range(5):
        stack = any_stack(system, dice)
        need = need_of(stack, gpus=[dice.choice([H100, A100, V100, B200])])
        try:
            planned, happened = go(node, ours, need)
        except acting.Refused as error:
            assert "archives do not have" in str(error), (stack, str(error))
            continue
        reached += 1
        assert happened == planned, stack
        wrong = {name: version for name, version in node.state.items() if OF_THE_DRIVER.match(name)
                 and name not in OF_DEBIAN and expected.upstream(version) != stack["driver"]["version"]}
        assert not wrong, stack
        assert ours.due(need) == [] and ours.moves(ours.resolve(need)) == [], stack
    assert reached >= 2


def test_debians_own_part_leaves_with_the_era_that_needs_it(apt_node, on):
    """From 590 on NVIDIA's packages conflict with Debian's nvidia-kernel-common, which the older ones need."""
    node = apt_node(*SYSTEMS["debian-12"])
    ours = on(node)
    for version, there in (("580.126.20", True), ("595.71.05", False), ("535.161.08", True), ("610.43.02", False)):
        need = need_of({"os": "debian-12", "driver": {"version": version, "source": "nvidia", "flavour": "open"}})
        ours.apply(need)
        assert ("nvidia-kernel-common" in node.state) is there and ours.due(need) == []
