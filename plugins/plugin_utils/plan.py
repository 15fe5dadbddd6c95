# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a stack and a node's state to what has to be done: the plan that the roles execute and the report shows.

``wanted`` turns a stack into package slices by compat/packages.yml; ``plan`` compares them with the state. Both are
pure, so a plan can be made for a live node, a bundle or a test.
"""
from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils import apt_pins, closure, versionlocks
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt import OWN_PREFERENCES, OWN_SOURCES
from ansible_collections.lockstep.gpu.plugins.plugin_utils import boot_proof, completed, knowledge, package_sets, repositories as sources
from ansible_collections.lockstep.gpu.plugins.plugin_utils.repositories import repositories
from ansible_collections.lockstep.gpu.plugins.plugin_utils.slices import PlanError, dkms_of, find_set, globs, readable, slice_of, texts, with_fabric

__all__ = ["COMPONENTS", "DKMS_GUARD", "OWN_SOURCES", "PlanError", "globs", "plan", "proof_of", "readable", "repositories", "unserved", "wanted"]

DKMS_GUARD = "/etc/dkms/no-autoinstall"
COMPONENTS = ("kernel", "ofed", "driver", "fabric", "cuda", "nccl", "container_toolkit", "dcgm")


def unserved(stack):
    """Keys of a stack that nothing acts on yet: to take them silently would make the report untrue."""
    found = [key for key in ("modules", "expect") if stack.get(key)]
    found += ["kernel.cmdline"] if (stack.get("kernel") or {}).get("cmdline") else []
    driver = stack.get("driver") or {}
    found += ["nccl.conf"] if (stack.get("nccl") or {}).get("conf") else []
    found += ["driver.module: " + driver["module"]] if driver.get("module") == "prebuilt" else []
    return found


def wanted(stack, facts, gpus=(), kernel=None, nvswitches=None, overrides=None):
    """A stack as packages: {slices, alternatives, dkms, modules, kernel, archive, repositories, manager, remarks, flavour}.

    stack: long form; facts: knowledge.load(); gpus: PCI ids, which decide a flavour of ``auto``; kernel: the
    release to build the driver for when the stack names none; nvswitches: the node's, None where nobody looked;
    overrides: the user's repositories by id. Raises PlanError.
    """
    flavour, fabric_named = completed.flavour(stack, facts, gpus), bool(stack.get("fabric"))
    stack = completed.whole(stack, facts, gpus, nvswitches)
    system = knowledge.distribution(facts, stack["os"]) or {}
    arch = stack["os"].get("arch")
    if arch and arch not in system.get("arch", [arch]):
        raise PlanError("stack key 'os.arch': nothing is known about packages of %s for %s (compat/distributions.yml); candidates: %s" % (
            stack["os"]["id"], arch, ", ".join(system["arch"])))
    found = {"slices": [], "alternatives": {}, "dkms": None, "modules": None, "kernel": (stack.get("kernel") or {}).get("release") or kernel or None,
             "archive": [], "repositories": [], "manager": "dnf" if system.get("package_manager") == "dnf" else "apt", "remarks": [], "flavour": flavour}
    needs = []
    for component in COMPONENTS:
        if not stack.get(component):
            continue
        row = find_set(component, stack, facts, flavour)
        part = slice_of(component, stack, facts, row, found["kernel"])
        # What a stack does not name is left alone; what it names and this node's boards do not need any more is not.
        unneeded = component == "driver" and fabric_named and not stack.get("fabric")
        found["slices"].append(with_fabric(part, stack, facts) if unneeded else part)
        found["alternatives"].update(row.get("alternatives") or {})
        found["remarks"] += row.get("remarks") or []
        needs += [(name, texts(component, stack, found["kernel"])) for name in row.get("repositories") or []]
        if component == "driver":
            module = dkms_of(row, stack["driver"]["version"])
            same = {"version": stack["driver"]["version"], "kernel": found["kernel"]}
            found["dkms"] = dict(module, **same) if module else None
            found["modules"] = dict(same, files=module["files"] if module else row["modules"])
    found["repositories"] = sources.chosen(needs, stack["os"], facts, overrides)
    for row in facts["packages"]["archive"]:
        if package_sets.same_system(row["when"], stack["os"]) and row["when"].get("source") in (None, package_sets.source_of("driver", stack)):
            found["archive"] = row["components"]
    return found


def dkms_due(dkms, state):
    """Why the module has to be built: a text, or None when it lies there as it should."""
    if not dkms or not dkms.get("kernel"):
        return None
    row = next((row for row in state.get("dkms") or [] if row["module"] == dkms["module"]
                and row["version"] == dkms["version"] and row.get("kernel") == dkms["kernel"]), None)
    if not row or row["state"] != "installed" or row.get("flags"):
        return "dkms says %s" % (" ".join([row["state"], *row["flags"]]) if row else "nothing")
    files = {entry["name"]: entry for entry in (state.get("modules") or {}).get("files") or []
             if entry["kernel"] == dkms["kernel"]}
    for name in dkms["files"]:
        entry = files.get(name)
        if not entry:
            return "%s is missing" % name
        if entry.get("version") not in (None, "", dkms["version"]) or not (
                entry.get("vermagic") or "").startswith(dkms["kernel"] + " "):
            return "%s is %s for %s" % (name, entry.get("version"), entry.get("vermagic"))
    return None


def alternatives_due(names, state):
    """[{name, have, want, why}] of alternatives that point elsewhere, or that apt may move."""
    rows = []
    for name, path in sorted(names.items()):
        now = (state.get("alternatives") or {}).get(name) or {}
        if now.get("value") != path or now.get("mode") != "manual":
            rows.append({"name": "alternative " + name, "have": now.get("value"), "want": path, "why": "alternative_differs"})
    return rows


def have_version(part, packages):
    """The installed version that stands for a component: that of the first package asked for."""
    package = packages.get(part["requests"][0]["name"])
    return closure.version_for(part, package, part["requests"][0]["version"]) if closure.is_installed(package) else None


def proof_of(stack, need, state=None):
    """What cuda_probe has to show for a stack: {subjects, expected, modules, kernel}; packages: versions that only packages show;
    gate: what it has to show of a kernel before that is booted (boot_proof.subjects).

    state: where it says that the kernel runs, the driver's module is really loaded.
    """
    modules = need["modules"]
    found = {"subjects": [], "expected": {}, "modules": modules["files"] if modules else [], "kernel": need["kernel"],
             "packages": {part["name"]: part["version"] for part in need["slices"] if part["name"] in ("fabric", "container_toolkit", "dcgm")}}
    if stack.get("kernel"):
        found["subjects"].append("initramfs")
    if stack.get("driver"):
        version = stack["driver"]["version"]
        found["subjects"] += ["libcuda", "libnvidia-ml", "nvidia-smi"]
        found["expected"].update({"libcuda": version, "libnvidia-ml": version, "nvidia-smi": version})
    if modules and need["kernel"]:
        found["subjects"] += ["modprobe", "modules"]
        found["expected"].update({"module:" + name: modules["version"] for name in modules["files"]}, modprobe=modules["files"][0])
        if state and not state.get("container") and (state.get("kernel") or {}).get("running") == need["kernel"]:
            found["subjects"].append("load")
            found["expected"]["load"] = modules["version"]
    if stack.get("cuda"):
        release = stack["cuda"].get("active") or stack["cuda"]["versions"][0]
        names = ["libcudart", "nvcc"] if stack["cuda"].get("profile") == "toolkit" else ["libcudart"]
        found["subjects"] += names
        # The parts of a toolkit count their own patch levels; major and minor are the release's.
        found["expected"].update(dict.fromkeys(names, ".".join(release.split(".")[:2])))
    if stack.get("ofed"):
        found["subjects"].append("ibv_devinfo")
    if stack.get("nccl"):
        found["subjects"].append("libnccl")
        found["expected"]["libnccl"] = stack["nccl"]["version"]
    return dict(found, gate=boot_proof.subjects(stack, need))


def stream_due(part, state):
    """[{name, have, want, why}] where another stream of the slice's module is enabled, or none."""
    module, dummy, stream = (part.get("stream") or "").partition(":")
    if not module:
        return []
    now = ((state.get("package_manager") or {}).get("modules") or {}).get(module) or {}
    if now.get("enabled") == stream and not now.get("disabled"):
        return []
    return [{"name": module, "have": now.get("enabled"), "want": stream, "why": "module_stream_differs"}]


def unguarded(need, manager):
    """[{action, target}] where our pins leave out what must not come later at another version, or from elsewhere."""
    pins = manager.get("own_pins") or {}
    if need["manager"] == "dnf":
        missing = manager.get("own_pin_text") is not None and versionlocks.unguarded(need["slices"], pins, manager["own_pin_text"])
        return [{"action": "dnf_versionlock", "target": versionlocks.LOCKS_FILE}] if missing else []
    missing = manager.get("pins") is not None and apt_pins.unguarded(need["slices"], manager["pins"])
    return [{"action": "add_apt_pin", "target": OWN_PREFERENCES}] if missing else []


def plan(need, state, resolved=None, sources_known=True):
    """The plan for one node: {components: {name: {...}}, converged, actions, repositories, keys, dkms}. Raises PlanError.

    need: of wanted(); state: ansible_facts.lockstep; resolved: return value of pinned_packages (closure, removed); sources_known: False
    where nobody said whether the site has mirrors of its own, so that the node's own file cannot be judged.
    """
    packages = state.get("packages") or {}
    manager = state.get("package_manager") or {}
    pins = manager.get("own_pins") or {}
    if sources_known or not need["repositories"]:
        text, keys = sources.vendors(need["repositories"], state)
        text = "\n".join(part for part in (repositories(need["archive"], state), text) if part)
    else:
        text, keys = manager.get("own_sources") or "", []
    components = {}
    for part in need["slices"]:
        name = part["name"]
        drift = stream_due(part, state) + closure.drift(part, need["slices"], packages, pins)
        if name == "driver":
            drift += alternatives_due(need["alternatives"], state)
        rows = [row for row in (resolved or {}).get("closure") or [] if row["step"] == name and row["change"] != "keep"]
        leaving = [gone for gone in (resolved or {}).get("removed") or []
                   if (closure.owner(need["slices"], gone, (packages.get(gone) or {}).get("source")) or name) == name]
        components[name] = {
            "wanted": part["version"], "have": have_version(part, packages), "drift": drift,
            "unheld": [row["name"] for row in drift if row["why"] == "package_not_held"],
            "changes": rows, "removed": leaving, "converged": not drift and not rows and not leaving,
        }
    first = next(iter(components), None)
    broken = sorted(name for name in manager.get("broken") or []
                    if closure.owner(need["slices"], name, (packages.get(name) or {}).get("source")))
    guarded = manager.get("dkms_guard") == "ours"
    open_to = unguarded(need, manager)
    if first and (broken or guarded or open_to or (manager.get("own_sources") or "") != text):
        components[first]["converged"] = False
    due = dkms_due(need["dkms"], state)
    return {
        "components": components,
        "converged": all(part["converged"] for part in components.values()),
        "repositories": text,
        "keys": keys,
        "dkms": dict(need["dkms"], due=due) if need["dkms"] else None,
        "actions": actions(need, components, due, (manager.get("own_sources") or "") != text, broken, guarded) + open_to,
    }


def stream_steps(part):
    """Leave the stream that a module has, and enable the stack's."""
    for row in part["drift"]:
        if row["why"] == "module_stream_differs":
            yield from [{"action": "module_reset", "target": row["name"]}] if row["have"] else []
            yield {"action": "module_enable", "target": "%s:%s" % (row["name"], row["want"])}


def actions(need, components, dkms_reason, sources_differ, broken, guarded):
    """The plan in words, in the order of execution: [{action, target}] (docs/plan.md lists the actions)."""
    # With dnf one lock is what hold and pin are with apt.
    hold, pin = ("dnf_versionlock", "dnf_versionlock") if need["manager"] == "dnf" else ("hold", "add_apt_pin")
    todo = [{"action": "configure_packages", "target": name} for name in broken]
    if guarded:
        todo.append({"action": "remove_guard", "target": DKMS_GUARD})
    if sources_differ:
        todo.append({"action": "configure_repository", "target": sources.OWN[need["manager"]]})
    for name, part in components.items():
        todo += stream_steps(part)
        todo += [{"action": "remove", "target": gone} for gone in part["removed"]]
        todo += [{"action": closure.ACTIONS[row["change"]], "target": "%s=%s" % (row["name"], row["version"])} for row in part["changes"]]
        if not part["changes"]:
            # Nobody resolved the closure: what is asked for by name is known all the same, and its version as far as the stack tells.
            todo += [{"action": "install_exact", "target": "%s=%s" % (row["name"], readable(row["want"]))}
                     for row in part["drift"] if row["why"] in ("package_missing", "package_version_differs")]
        todo += [{"action": hold, "target": row["name"]} for row in part["changes"] if row["managed"]]
        todo += [{"action": pin, "target": row["name"]} for row in part["drift"] if row["why"] in ("not_pinned", "pin_differs")]
        todo += [{"action": hold, "target": held} for held in part["unheld"]]
        todo += [{"action": "replace", "target": row["name"]} for row in part["drift"] if row["why"] == "package_origin_differs"]
        if name == "driver":
            todo += [{"action": "set_alternative", "target": "%s=%s" % (row["name"].split()[-1], row["want"])}
                     for row in part["drift"] if row["why"] == "alternative_differs"]
            if dkms_reason:
                todo.append({"action": "dkms_build_install", "target": "%(module)s/%(version)s@%(kernel)s" % need["dkms"]})
    return [row for position, row in enumerate(todo) if row not in todo[:position]]
