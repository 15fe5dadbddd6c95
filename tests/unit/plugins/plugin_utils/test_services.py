# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""services: which units a stack's packages bring, and whether the node can run them."""
from __future__ import annotations

import pytest

from ansible_collections.lockstep.gpu.plugins.plugin_utils import actions, services

DRIVER = "580.126.20"


def asked(component, *names):
    return {"name": component, "requests": [{"name": name, "version": ".*"} for name in names]}


def units(state, changes=(), slices=None, stack=None):
    slices = slices if slices is not None else [asked("fabric", "nvidia-fabricmanager", "libnvidia-nscq")]
    components = {part["name"]: {"changes": list(changes)} for part in slices}
    return services.of(stack or {"driver": {"version": DRIVER}}, slices, components, state)


@pytest.mark.parametrize("state, start, why", [
    ({"modules": {"loaded": {"version": DRIVER}}}, "started", None),
    ({"modules": {"loaded": None}}, None, "no NVIDIA driver loaded"),
    ({}, None, "no NVIDIA driver loaded"),
    ({"modules": {"loaded": {"version": "570.86.15"}}}, None, "driver 570.86.15 loaded, not 580.126.20"),
    # A container sees its host's driver, and starts nothing for it.
    ({"container": True, "modules": {"loaded": {"version": DRIVER}}}, None, "container"),
    ({"modules": {"loaded": {"version": DRIVER}}, "host": {"unit_files": {"nvidia-fabricmanager": "masked"}}}, None, "masked"),
])
def test_fabric_manager_starts_beside_its_own_driver_only(state, start, why):
    found = units(state)
    (row,) = found["fabric"]
    assert (row["name"], row["state"]) == ("nvidia-fabricmanager", start)
    assert why is None and not row["why"] or why in row["why"]
    said = services.remarks(found)
    assert len(said) == (0 if start else 1) and all(row["why"] in text for text in said)


@pytest.mark.parametrize("name, known", [
    ("nvidia-fabricmanager-570", True), ("nvidia-fabric-manager", True), ("nvidia-fabricmanager", True), ("nvidia-fabricmanager-dev-570", False),
    ("libnvidia-nscq-570", False)])
def test_the_package_of_every_era_brings_the_unit(name, known):
    assert bool(units({}, slices=[asked("fabric", name)])["fabric"]) is known


def test_imex_only_where_its_package_is_asked_for():
    assert [row["name"] for row in units({}, slices=[asked("fabric", "nvidia-fabricmanager", "nvidia-imex")])["fabric"]] == [
        "nvidia-fabricmanager", "nvidia-imex"]
    assert units({}, slices=[]) == {"fabric": [], "dcgm": []}


def test_dcgm_takes_any_driver_and_stops_while_its_packages_change():
    state = {"modules": {"loaded": {"version": "470.57.02"}}, "host": {"unit_files": {"nvidia-dcgm": "enabled"}}}
    slices = [asked("dcgm", "datacenter-gpu-manager-4-core")]
    (row,) = units(state, slices=slices)["dcgm"]
    assert (row["state"], row["stop"], row["due"]) == ("started", False, False)
    (row,) = units(state, [{"name": "datacenter-gpu-manager-4-core"}], slices)["dcgm"]
    assert (row["state"], row["stop"]) == ("restarted", True)
    (row,) = units({}, [{"name": "datacenter-gpu-manager-4-core"}], slices)["dcgm"]
    assert (row["state"], row["stop"]) == (None, False)


@pytest.mark.parametrize("word, due", [("enabled", False), ("disabled", True), ("absent", True), ("masked", False), (None, False)])
def test_a_unit_that_is_not_enabled_is_a_step_of_the_plan(word, due):
    found = units({"host": {"unit_files": {"nvidia-fabricmanager": word} if word else None}})
    steps = services.steps(found)
    assert steps == ([{"action": "start_service", "target": "nvidia-fabricmanager"}] if due else [])
    assert actions.ordered(steps) == steps


@pytest.mark.parametrize("word, there", [("enabled", True), ("disabled", True), ("masked", True), ("absent", False), (None, False)])
def test_a_check_asks_nothing_about_a_unit_that_has_yet_to_come(word, there):
    (row,) = units({"host": {"unit_files": {"nvidia-fabricmanager": word} if word else None}})["fabric"]
    assert row["there"] is there
