# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every claim of the catalogue for Ubuntu, Debian and EL becomes exact packages, or says which fact is missing and where it belongs."""
from __future__ import annotations

import pathlib
import re
import sys

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge, plan, stack

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3]))
from stubs import repositories as stubs  # noqa: E402  (needs the path above)

FACTS = knowledge.load()
EL = ("rhel", "rocky", "almalinux", "ol", "centos")
TABLES = {"ubuntu22.04": ("ubuntu2204-cuda", "container-toolkit-deb"), "ubuntu24.04": ("ubuntu2404-cuda", "container-toolkit-deb"),
          "debian12": ("debian12-cuda", "container-toolkit-deb"), "el9": ("rhel9-cuda", "container-toolkit-rpm"),
          "el10": ("el10-cuda", "container-toolkit-rpm")}
# What somebody who fills in a claim would look at: the key of the stack, or the file of facts.
NAMED = re.compile(r"stack key '[a-z]+[.\w\[\]]*'|compat/\w+\.yml|lockstep_repositories")


def claims():
    found = {name: stack.expand(name, exact=False) for name in stack.claims()}
    return {name: claim for name, claim in found.items() if (claim.get("os") or {}).get("id") in ("ubuntu", "debian", *EL)}


CLAIMS = claims()


def attempt(claim):
    """({component: slice}, {component: why it has none}): each component for itself, the driver from NVIDIA where nobody says."""
    driver = dict({"source": "nvidia"}, **{key: value for key, value in claim["driver"].items() if key != "alternatives"})
    made, refused = {}, {}
    for component in plan.COMPONENTS:
        if not claim.get(component):
            continue
        wanted = {"os": claim["os"], "driver": driver, component: driver if component == "driver" else claim[component]}
        if component in ("kernel", "ofed", "container_toolkit"):
            wanted.pop("driver")
        if component == "cuda":
            wanted["cuda"] = {key: value for key, value in claim["cuda"].items() if key != "compat"}
        try:
            need = plan.wanted(stack.expand(wanted), FACTS, gpus=["10de:2330"], nvswitches=[{}])
            made[component] = next(part for part in need["slices"] if part["name"] == component)
        except (stack.StackError, plan.PlanError) as error:
            refused[component] = str(error)
    return made, refused


def offered(claim):
    """{name: versions} of the stub repositories of a claim's distribution; None where there are none."""
    system = claim["os"]
    key = "el" + system["release"].split(".")[0] if system["id"] in EL else system["id"] + system["release"]
    found = {}
    for table in TABLES.get(key, ()):
        for row in stubs.get(table).rows:
            found.setdefault(row.name, set()).add(row.version)
    return found or None


def absent(part, there):
    """The requests of a slice that no repository has: what pinned_packages refuses, with the versions that there are."""
    return [ask["name"] for ask in part["requests"] if not ask["optional"] and not any(re.fullmatch(ask["version"],
                                                                                                    version) for version in there.get(ask["name"], ()))]


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_is_packages_or_says_what_is_missing(name):
    claim = CLAIMS[name]
    made, refused = attempt(claim)
    assert set(made) | set(refused) == {component for component in plan.COMPONENTS if claim.get(component)}
    for component, text in refused.items():
        assert NAMED.search(text) and "\n" not in text, (component, text)
    for part in made.values():
        assert part["requests"] and all(ask["name"] and "{" not in ask["name"] + ask["version"] for ask in part["requests"])
        assert not any(ask["name"] in ("cuda", "cuda-drivers") or ask["version"] in ("", ".*") for ask in part["requests"])


@pytest.mark.parametrize(("name", "components"), [
    ("ubuntu2204-azure-570", {"driver", "fabric", "dcgm"}), ("ubuntu2204-azure-580", {"driver", "dcgm"}), ("ubuntu2404-azure-h100-580", {"driver", "dcgm"}),
    ("ubuntu2204-nvidia-gh200-550", {"driver"}), ("ubuntu2404-podsys-570", {"driver", "cuda", "ofed"}), ("rocky9-stackhpc-580", {"driver", "cuda", "fabric"}),
    ("rocky9-stackhpc-595", {"driver", "cuda", "fabric"}), ("rocky9-azure-580", {"driver", "fabric"}),
    ("ubuntu2204-podsys-535", {"driver", "cuda", "fabric", "container_toolkit", "dcgm", "ofed"}),
    ("rhel9-h100-550-compat", {"driver"}), ("almalinux9-azure-580", {"driver", "fabric"})])
def test_what_a_claim_says_whole_becomes_packages(name, components):
    assert set(attempt(CLAIMS[name])[0]) == components


@pytest.mark.parametrize(("name", "component", "words"), [
    ("ubuntu2404-azure-h100-580", "cuda", "cuda.versions"), ("ubuntu2404-azure-h100-580", "nccl", "nccl.cuda"),
    ("ubuntu2404-azure-h100-580", "ofed", "ofed.version"),
    ("ubuntu2404-azure-h100-580", "kernel", "kernel"),
    ("ol9-oci-580", "driver", "driver.version"),
    ("rocky8-azure-580", "driver", "compat/packages.yml"), ("ubuntu2004-azure-560", "driver", "compat/packages.yml"),
    ("ubuntu2204-podsys-535", "nccl", "nccl.cuda"),
    ("ubuntu2204-podsys-535", "kernel", "kernel.package_version")])
def test_what_is_missing_is_named(name, component, words):
    assert words in attempt(CLAIMS[name])[1][component]


@pytest.mark.parametrize(("name", "component", "there"), [
    ("rocky9-stackhpc-580", "driver", True), ("rocky9-stackhpc-580", "fabric", True), ("rocky9-stackhpc-595", "driver", True),
    ("ubuntu2404-azure-h100-580", "driver", True), ("ubuntu2404-azure-h100-580", "dcgm", True), ("ubuntu2204-azure-570", "driver", True),
    ("ubuntu2204-nvidia-gh200-550", "driver", True), ("rhel9-h100-550-compat", "driver", False),
    # Archive's only: NVIDIA's repository never had it, so a node says what there is.
    ("ubuntu2404-azure-570", "driver", False)])
def test_packages_that_no_repository_has_are_known_by_name(name, component, there):
    missing = absent(attempt(CLAIMS[name])[0][component], offered(CLAIMS[name]))
    assert (missing == []) is there, missing


def test_there_are_claims_to_try():
    assert len(CLAIMS) >= 25
