# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every stack that the collection ships for these distributions, and every claim of the catalogue: exact packages, or what is missing."""
from __future__ import annotations

import os
import re
import subprocess

import pytest

import expected
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge, plan, stack as stacks
from collection import B200, H100, V100, need_of

SERVED = {
    "ubuntu-22.04": ("ubuntu2204-cuda", "ubuntu2204-archive", "container-toolkit-deb"),
    "ubuntu-24.04": ("ubuntu2404-cuda", "ubuntu2404-archive", "container-toolkit-deb"),
    "debian-12": ("debian12-cuda", "container-toolkit-deb"),
    "rocky-9": ("rhel9-cuda", "el9-baseos", "container-toolkit-rpm"),
    "rocky-10": ("el10-cuda", "el10-baseos", "container-toolkit-rpm"),
}


def system_of(stack):
    return "%(id)s-%(release)s" % stack["os"]


def of_vendors():
    """Names of the stacks that need a vendor's repository on a served distribution. Debian's own lie beside: its archive has no stubs."""
    every = {name: stacks.expand(name) for name in stacks.names()}
    return [name for name, stack in every.items() if system_of(stack) in SERVED and (
        stack["os"]["id"] != "debian" or stack["driver"]["source"] == "nvidia")]


def without_kernel_of_debian(stack):
    """Debian's kernels lie in its archive, of which there are no stubs."""
    return {key: value for key, value in stack.items() if key not in ("name", "description", "remarks") and not (
        key == "kernel" and stack["os"]["id"] == "debian")}


def test_there_are_stacks_for_every_distribution():
    assert {system_of(stacks.expand(name)) for name in of_vendors()} == set(SERVED)


def node_for(stack, apt_node, dnf_node):
    ids = SERVED[system_of(stack)]
    return dnf_node(*ids, release=int(stack["os"]["release"])) if stack["os"]["id"] == "rocky" else apt_node(*ids)


@pytest.mark.parametrize("name", of_vendors())
def test_a_stack_is_exact(name, apt_node, dnf_node, on):
    stack = without_kernel_of_debian(stacks.expand(name))
    ours, need = on(node_for(stack, apt_node, dnf_node)), need_of(stack, gpus=[H100], nvswitches=4)
    made = ours.apply(need)
    # Modules that are built for a kernel have its version; Debian's nvidia-kernel-common and nvidia-support have their own.
    driver = {name: version for name, version in made.managed("driver").items()
              if not re.match(r"linux-modules-|kmod-nvidia-\d|nvidia-(kernel-common|support)$", name)}
    assert {expected.upstream(version) for version in driver.values()} == {stack["driver"]["version"]}
    for part in need["slices"]:
        for request in part["requests"]:
            assert request["optional"] or re.fullmatch(request["version"], made.managed()[request["name"]]), request
    assert ours.due(need) == [] and ours.moves(made) == []


def deb_of(name, version, folders):
    """The file of a package, in whichever repository it is."""
    found = [path for folder in folders.values() for path in sorted(folder.glob("%s_%s_*.deb" % (name, version.rpartition(":")[2])))]
    assert found, (name, version)
    return str(found[0])


@pytest.mark.parametrize("name", [name for name in of_vendors() if not name.startswith("rocky")])
def test_its_files_do_not_collide(name, apt_node, on, tmp_path):
    """The real dpkg unpacks the whole closure into an empty root folder."""
    stack = without_kernel_of_debian(stacks.expand(name))
    node = node_for(stack, apt_node, None)
    made = on(node).resolve(need_of(stack, gpus=[B200], nvswitches=2))
    root = tmp_path / "unpacked"
    for folder in ("var/lib/dpkg/info", "var/lib/dpkg/updates"):
        (root / folder).mkdir(parents=True)
    (root / "var/lib/dpkg/status").write_text("", encoding="ascii")
    debs = [deb_of(package, version, node.root.repos) for package, version in made.changes().items()]
    done = subprocess.run(["dpkg", "--root=%s" % root, "--force-not-root", "--force-script-chrootless", "--force-depends", "--unpack", *debs],
                          capture_output=True, text=True, check=False, env=dict(os.environ, LC_ALL="C"))
    assert done.returncode == 0 and "trying to overwrite" not in done.stderr, done.stderr[-2000:]


def for_any_gpu():
    """Names of those stacks that leave the flavour to the node."""
    return [name for name in of_vendors() if stacks.expand(name)["driver"]["flavour"] == "auto"]


@pytest.mark.parametrize("name", for_any_gpu())
def test_on_a_node_with_another_kind_of_gpu(name, apt_node, dnf_node, on):
    """Volta: the other flavour, and no fabric."""
    stack = without_kernel_of_debian(stacks.expand(name))
    made = on(node_for(stack, apt_node, dnf_node)).resolve(need_of(stack, gpus=[V100], nvswitches=0))
    modules = [name for name in made.managed() if re.search("dkms", name)]
    assert len(modules) == 1 and "open" not in modules[0] and made.managed("fabric") == {}


NOTES = ("name", "description", "remarks", "claim", "missing", "source", "as_of")


def completed(claim, system):
    """(stack, [what was missing]) of a claim: what it lacks is the first candidate that the refusal offers, or is left out.

    system: the distribution where the claim names none.
    """
    given = {key: dict(value) if isinstance(value, dict) else value for key, value in claim.items() if key not in NOTES}
    given.setdefault("os", system)
    given.get("driver", {}).setdefault("source", "nvidia")
    missing = []
    for _round in range(20):
        try:
            return stacks.expand(given), missing
        except stacks.StackError as error:
            missing.append(str(error))
            part, dot, name = error.key.partition(".")
            if part == "kernel" or not error.candidates and "is not a key" not in str(error):
                given.pop(part)
            elif "is not a key" in str(error):
                given[part].pop(name)
            elif name.startswith("versions["):
                given[part]["versions"] = [error.candidates[0]]
            else:
                given[part][name] = error.candidates[0]
    raise AssertionError("\n".join(missing))


@pytest.mark.parametrize("name", stacks.claims())
def test_a_claim_says_what_it_lacks_and_completed_is_packages_or_a_missing_fact(name):
    with pytest.raises(stacks.StackError) as refused:
        stacks.expand(name)
    assert "claim" in str(refused.value)
    claim = stacks.expand(name, exact=False)
    for system in [claim["os"]] if "os" in claim else [{"id": "ubuntu", "release": "22.04"}, {"id": "rocky", "release": "9"}]:
        stack, missing = completed(claim, system)
        assert all("stack key '" in line for line in missing)
        if stack.get("nccl") and stack.get("cuda"):
            stack["nccl"].setdefault("cuda", stack["cuda"]["active"].rpartition(".")[0])
        try:
            need = plan.wanted(stack, knowledge.load(), gpus=[H100], nvswitches=4)
        except plan.PlanError as error:
            assert re.search(r"stack key '[a-z_.]+'.*(compat/|candidates)", str(error)), str(error)
            continue
        asked = {part["name"]: part for part in need["slices"]}
        assert set(asked) == {key for key in stack if key in asked or key not in ("os", "expect", "modules", "name")}
        for part in asked.values():
            # Exact: a version of the stack's is in every pattern, and nothing is asked for at any version.
            assert part["requests"] and all(request["version"] not in (".+", ".*") or request["name"] == "nvlsm" for request in part["requests"])


def test_claims_become_packages_where_everything_is_known():
    """So many do, that the facts about packages are no dead letter; the others name what is not known (see above)."""
    found = 0
    for name in stacks.claims():
        claim = stacks.expand(name, exact=False)
        stack, dummy = completed(claim, {"id": "ubuntu", "release": "22.04"})
        if stack.get("nccl") and stack.get("cuda"):
            stack["nccl"].setdefault("cuda", stack["cuda"]["active"].rpartition(".")[0])
        try:
            found += bool(plan.wanted(stack, knowledge.load(), gpus=[H100], nvswitches=4)["slices"])
        except plan.PlanError:
            continue
    assert found >= 8
