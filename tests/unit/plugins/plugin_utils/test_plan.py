# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a stack to packages, and from a state to a plan."""
from __future__ import annotations

import copy
import re

import pytest

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge, plan, stack

FACTS = knowledge.load()


def need_of(name, **node):
    return plan.wanted(stack.expand(name), FACTS, **node)


def by_name(need):
    return {part["name"]: part for part in need["slices"]}


@pytest.mark.parametrize("name, package, fits, misfits", [
    ("debian13-550", "nvidia-kernel-dkms", "550.163.01-2", "550.163.012-2"),
    ("debian13-535", "nvidia-tesla-535-kernel-dkms", "535.274.02-1~deb13u1", "535x274.02-1"),
    ("debian13-550", "nvidia-cuda-toolkit", "12.4.131~12.4.1-2", "12.4.131~12.4.10-2"),
    ("debian13-550", "linux-image-6.12.117+deb13-amd64", "6.12.117-1", "6.12.117-1.1"),
    ("debian13-550", "libnccl2", "2.22.3-1-1", "2.22.30-1"),
])
def test_versions_are_matched_whole_and_literally(name, package, fits, misfits):
    patterns = {ask["name"]: ask["version"] for part in need_of(name)["slices"] for ask in part["requests"]}
    assert re.fullmatch(patterns[package], fits) and not re.fullmatch(patterns[package], misfits)


def test_each_embedded_stack_is_known_in_order():
    for name in stack.names():
        # An H100 with its switches, so that auto has a fabric.
        assert [part["name"] for part in need_of(name, gpus=["10de:2330"], nvswitches=[{}])["slices"]] == [
            component for component in plan.COMPONENTS if stack.expand(name).get(component)]


def test_a_stack_without_a_kernel_builds_for_the_one_that_is_named():
    wanted = {key: value for key, value in stack.expand("debian13-550").items() if key != "kernel"}
    need = plan.wanted(wanted, FACTS, kernel="6.12.107+deb13-amd64")
    assert need["dkms"]["kernel"] == "6.12.107+deb13-amd64" and plan.proof_of(wanted, need)["kernel"] == "6.12.107+deb13-amd64"
    assert plan.wanted(wanted, FACTS)["dkms"]["kernel"] is None


def test_a_driver_set_knows_its_rivals():
    driver = by_name(need_of("debian13-535"))["driver"]
    assert driver["rivals"] == ["nvidia-kernel-dkms", "nvidia-open-kernel-dkms"]
    assert {"nvidia-smi", "nvidia-persistenced", "libcuda1"} <= set(driver["others"])
    assert by_name(need_of("debian13-550"))["cuda"]["others"] == []


@pytest.mark.parametrize("template, version, expected", [
    ("{version}-.+", "535.261.03", ["535.261.03-*"]),
    ("(.+~)?{version}-.+", "11.8.0", ["*~11.8.0-*", "11.8.0-*"]),
])
def test_globs(template, version, expected):
    assert plan.globs(template, version) == expected


def test_what_is_not_known_names_the_file_that_would_know():
    wanted = stack.expand("debian13-550")
    wanted["driver"] = dict(wanted["driver"], version="580.65.06")
    with pytest.raises(plan.PlanError) as error:
        plan.wanted(wanted, FACTS)
    assert "compat/packages.yml" in str(error.value) and "580.65.06" in str(error.value)


def source(components, **more):
    return dict({"file": "/etc/apt/sources.list.d/debian.sources", "types": ["deb"], "uris": ["http://mirror.example/debian"],
                 "suites": ["trixie", "trixie-updates"], "components": components, "signed_by": None, "options": {},
                 "enabled": True}, **more)


def state_with(*sources):
    return {"os": {"codename": "trixie"}, "package_manager": {"sources": list(sources)}}


NEED = ["main", "contrib", "non-free", "non-free-firmware"]


def test_missing_components_come_from_the_nodes_own_mirror():
    text = plan.repositories(NEED, state_with(source(["main", "non-free-firmware"], signed_by="/k.gpg")))
    assert text.count("Components: contrib non-free\n") == 2
    assert "Suites: trixie\n" in text and "Suites: trixie-updates\n" in text
    assert text.count("Signed-By: /k.gpg") == 2 and "http://mirror.example/debian" in text


@pytest.mark.parametrize("sources", [
    [source(NEED)],
    [source(["main"]), source(["contrib", "non-free", "non-free-firmware"], file="/etc/apt/sources.list")],
    [source(["main"], enabled=False)],
    [source(["main"], suites=["trixie-backports"])],
    [source(["main"], suites=["stable-tools"], uris=["https://vendor.example"])],
    [source(NEED), source(["main"], uris=["https://apt.vendor.example"], suites=["trixie"])],
    [source(NEED), source(["main"], suites=["trixie-pgdg"])],
    [source(["main"], uris=["https://a.example"]), source(["main"], uris=["https://b.example"])],
    [],
])
def test_nothing_is_added_where_nothing_is_missing(sources):
    assert plan.repositories(NEED, state_with(*sources)) == ""


def test_a_mirror_by_any_name_counts_when_it_is_the_only_one():
    assert "URIs: https://packages.corp.example/os" in plan.repositories(
        NEED, state_with(source(["main"], uris=["https://packages.corp.example/os"])))


def test_the_own_file_does_not_answer_for_itself():
    first = plan.repositories(NEED, state_with(source(["main"])))
    again = plan.repositories(NEED, state_with(source(["main"]), source(NEED[1:], file=plan.OWN_SOURCES)))
    assert first == again != ""


def test_options_of_the_source_are_carried_over():
    text = plan.repositories(NEED, state_with(source(["main"], options={"arch": "amd64,i386", "check-valid-until": "no"})))
    assert "Architectures: amd64 i386\n" in text and "Check-Valid-Until: no\n" in text


def test_an_embedded_key_keeps_its_lines():
    text = plan.repositories(NEED, state_with(source(["main"], signed_by="-----BEGIN\n.\nabc\n-----END")))
    assert "Signed-By: -----BEGIN\n .\n abc\n -----END" in text


def converged():
    need = need_of("debian13-550")
    packages, pins = {}, {}
    for part in need["slices"]:
        for ask in part["requests"]:
            version = {"kernel": "6.12.117-1", "ofed": "56.1-1", "driver": "550.163.01-2", "cuda": "12.4.131~12.4.1-2",
                       "nccl": "2.22.3-1-1"}[part["name"]]
            owner = {"kernel": "linux", "ofed": "rdma-core", "driver": "nvidia-graphics-drivers", "cuda": "nvidia-cuda-toolkit",
                     "nccl": "nvidia-nccl"}[part["name"]]
            packages[ask["name"]] = {"version": version, "source": owner, "hold": True, "status": "installed"}
            pins[ask["name"]] = version
    kernel, dkms = need["kernel"], need["dkms"]
    return need, {
        "os": {"codename": "trixie"}, "packages": packages,
        "package_manager": {"own_pins": pins, "own_sources": None, "broken": [], "sources": []},
        "alternatives": {"nvidia": {"mode": "manual", "value": "/usr/lib/nvidia/current"}},
        "dkms": [{"module": dkms["module"], "version": dkms["version"], "kernel": kernel, "state": "installed", "flags": []}],
        "modules": {"files": [{"kernel": kernel, "name": name, "version": dkms["version"], "vermagic": kernel + " SMP"}
                              for name in dkms["files"]]},
    }


def test_a_converged_node_needs_nothing():
    need, state = converged()
    found = plan.plan(need, state)
    assert found["converged"] and found["actions"] == [] and found["dkms"]["due"] is None
    assert {part["have"] for part in found["components"].values()} >= {"550.163.01-2", "12.4.131~12.4.1-2"}


@pytest.mark.parametrize("change, action", [
    (lambda s: s["alternatives"]["nvidia"].update(mode="auto"),
     {"action": "set_alternative", "target": "nvidia=/usr/lib/nvidia/current"}),
    (lambda s: s["packages"]["libnccl2"].update(hold=False), {"action": "hold", "target": "libnccl2"}),
    (lambda s: s["package_manager"].update(broken=["rdma-core"]), {"action": "configure_packages", "target": "rdma-core"}),
    (lambda s: s["package_manager"].update(own_sources="Types: deb\n"),
     {"action": "configure_repository", "target": plan.OWN_SOURCES}),
    (lambda s: s["package_manager"].update(dkms_guard="ours"), {"action": "remove_guard", "target": plan.DKMS_GUARD}),
    (lambda s: s["package_manager"]["own_pins"].clear(), {"action": "add_apt_pin", "target": "libnccl2"}),
    (lambda s: s["packages"]["libnccl2"].update(source="handmade"), {"action": "replace", "target": "libnccl2"}),
    (lambda s: s["dkms"].clear(), {"action": "dkms_build_install", "target": "nvidia-current/550.163.01@6.12.117+deb13-amd64"}),
    (lambda s: s["dkms"][0].update(flags=["diff"]),
     {"action": "dkms_build_install", "target": "nvidia-current/550.163.01@6.12.117+deb13-amd64"}),
    (lambda s: s["modules"]["files"].pop(),
     {"action": "dkms_build_install", "target": "nvidia-current/550.163.01@6.12.117+deb13-amd64"}),
])
def test_each_difference_becomes_an_action(change, action):
    need, state = converged()
    state = copy.deepcopy(state)
    change(state)
    assert action in plan.plan(need, state)["actions"]


def test_what_was_resolved_is_planned_where_it_comes():
    need, state = converged()
    row = {"name": "perl", "version": "5.40-1", "old": None, "change": "install", "component": None, "managed": False, "step": "cuda"}
    found = plan.plan(need, state, {"closure": [row, dict(row, name="kept", change="keep")], "removed": ["libcuda1"]})
    assert found["components"]["cuda"]["changes"] == [row] and not found["components"]["cuda"]["converged"]
    assert found["components"]["driver"]["removed"] == ["libcuda1"]
    assert {"action": "install_exact", "target": "perl=5.40-1"} in found["actions"]
    assert {"action": "hold", "target": "perl"} not in found["actions"]


def test_the_proof_asks_for_what_the_stack_has():
    wanted = stack.expand("debian12-535")
    proof = plan.proof_of(wanted, plan.wanted(wanted, FACTS))
    assert "libnccl" not in proof["subjects"] and proof["expected"]["nvcc"] == "11.8"
    assert proof["expected"]["module:nvidia-current-uvm"] == "535.261.03" and proof["expected"]["modprobe"] == "nvidia-current"


@pytest.mark.parametrize("part, words, key", [
    ("driver", {"module": "prebuilt"}, "driver.module: prebuilt"), ("modules", {"gdrdrv": "2.5"}, "modules"),
    ("nccl", {"conf": {"NCCL_DEBUG": "INFO"}}, "nccl.conf"), ("kernel", {"cmdline": ["a"]}, "kernel.cmdline")])
def test_what_nothing_acts_on_is_named(part, words, key):
    assert plan.unserved({part: words}) == [key]


def el_state(need, **manager):
    """A node of EL 9 with every package of the need, each at the version that the first pattern fits."""
    packages, pins = {}, {}
    for part in need["slices"]:
        for ask in part["requests"]:
            version = re.sub(r"\\(.)", r"\1", ask["version"].replace("(3:)?", "3:").replace(".+", "1.el9"))
            packages[ask["name"]] = {"version": version, "source": None, "hold": True, "status": "installed"}
            pins[ask["name"]] = version
    return {"packages": packages, "package_manager": dict({
        "kind": "dnf", "own_pins": pins, "own_sources": plan.plan(need, {"packages": {}})["repositories"], "broken": [], "sources": [],
        "modules": {"nvidia-driver": {"enabled": "580-open"}}}, **manager)}


EL9 = {"os": "rocky-9", "driver": {"version": "580.126.20", "flavour": "open"}}


def test_a_converged_node_of_el_needs_nothing():
    need = plan.wanted(stack.expand(EL9), FACTS)
    found = plan.plan(need, el_state(need))
    assert found["converged"] and found["actions"] == []


@pytest.mark.parametrize("modules, have, steps", [
    ({"nvidia-driver": {"enabled": "570-dkms"}}, "570-dkms", [
        {"action": "module_reset", "target": "nvidia-driver"}, {"action": "module_enable", "target": "nvidia-driver:580-open"}]),
    ({"nvidia-driver": {"enabled": None, "default": "open-dkms"}}, None, [{"action": "module_enable", "target": "nvidia-driver:580-open"}]),
    ({}, None, [{"action": "module_enable", "target": "nvidia-driver:580-open"}]),
    (None, None, [{"action": "module_enable", "target": "nvidia-driver:580-open"}]),
    ({"nvidia-driver": {"enabled": "580-open", "disabled": True}}, "580-open", [
        {"action": "module_reset", "target": "nvidia-driver"}, {"action": "module_enable", "target": "nvidia-driver:580-open"}]),
])
def test_a_stream_that_differs_is_drift(modules, have, steps):
    need = plan.wanted(stack.expand(EL9), FACTS)
    found = plan.plan(need, el_state(need, modules=modules))
    assert found["components"]["driver"]["drift"] == [{"name": "nvidia-driver", "have": have, "want": "580-open", "why": "module_stream_differs"}]
    assert found["actions"] == steps and not found["converged"]


def test_a_lock_of_dnf_is_one_word_for_hold_and_pin():
    need = plan.wanted(stack.expand(EL9), FACTS)
    state = el_state(need, own_pins={})
    state["packages"]["nvidia-modprobe"]["hold"] = False
    words = plan.plan(need, state)["actions"]
    assert {step["action"] for step in words} == {"dnf_versionlock"} and len(words) == len(need["slices"][0]["requests"])


def test_what_only_packages_show_is_part_of_the_proof():
    value = dict(EL9, dcgm={"version": "4.4.2", "cuda": "13"}, container_toolkit="1.18.2", fabric="auto")
    need = plan.wanted(stack.expand(value), FACTS, gpus=["10de:2330"], nvswitches=[{}])
    assert plan.proof_of(stack.expand(value), need)["packages"] == {"fabric": "580.126.20", "container_toolkit": "1.18.2", "dcgm": "4.4.2"}


def test_an_optional_request_that_is_not_there_is_no_drift():
    need = plan.wanted(stack.expand(EL9), FACTS)
    state = el_state(need)
    del state["packages"]["libnvidia-gpucomp"]
    assert plan.plan(need, state)["converged"]
    del state["packages"]["libnvidia-ml"]
    assert [row["why"] for row in plan.plan(need, state)["components"]["driver"]["drift"]] == ["package_missing"]


def test_a_mirror_that_nobody_told_of_is_no_drift():
    need = plan.wanted(stack.expand(EL9), FACTS)
    state = el_state(need, own_sources="[lockstep-gpu-cuda]\nbaseurl=https://mirror.example/\n")
    assert plan.plan(need, state, sources_known=False)["converged"] and not plan.plan(need, state)["converged"]
    # A key that nobody vouches for stops a run, and no look at a node.
    need = plan.wanted(stack.expand(dict(EL9, os="rocky-10")), FACTS)
    assert plan.plan(need, el_state(plan.wanted(stack.expand(EL9), FACTS)), sources_known=False)["keys"] == []
