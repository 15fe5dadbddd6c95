# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a stack and a node's state to what has to be done: the plan that the roles execute and the report shows.

``wanted`` turns a stack into package slices by compat/packages.yml; ``plan`` compares them with the state. Both are
pure, so a plan can be made for a live node, a bundle or a test.
"""
from __future__ import annotations

import itertools
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import closure
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt import OWN_SOURCES
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge

# sources.list(5): options of the one-line form whose deb822 field has another name. apt wants them equal for equal sources.
LONG_OPTIONS = {"arch": "Architectures", "lang": "Languages", "target": "Targets"}
DKMS_GUARD = "/etc/dkms/no-autoinstall"
COMPONENTS = ("kernel", "ofed", "driver", "cuda", "nccl")


class PlanError(Exception):
    """The stack cannot be turned into packages here; the text names the file that would know."""


def unserved(stack):
    """Keys of a stack that nothing acts on yet: to take them silently would make the report untrue."""
    found = [key for key in ("fabric", "container_toolkit", "dcgm", "modules", "expect") if stack.get(key)]
    found += ["kernel.cmdline"] if (stack.get("kernel") or {}).get("cmdline") else []
    driver = stack.get("driver") or {}
    found += ["driver.%s" % key for key in ("options", "stream") if driver.get(key)]
    found += ["ofed.doca"] if (stack.get("ofed") or {}).get("doca") else []
    found += ["nccl.conf"] if (stack.get("nccl") or {}).get("conf") else []
    found += ["driver.module: " + driver["module"]] if driver.get("module", "dkms") != "dkms" else []
    return found


def find_set(component, stack, facts, flavour):
    """The set of packages for a component. Raises PlanError naming what compat/packages.yml does have."""
    row = knowledge.package_set(facts, component, stack, flavour)
    if row:
        return row
    there = "; ".join(", ".join("%s %s" % (key, value) for key, value in other["when"].items())
                      for other in facts["packages"]["products"][component]["sets"])
    raise PlanError("%s: no packages are known for %s %s with %s; compat/packages.yml has sets for: %s" % (
        component, stack["os"].get("id"), stack["os"].get("release"),
        ", ".join("%s %s" % (key, value) for key, value in stack[component].items() if isinstance(value, str)), there))


def same_system(when, system):
    """True when a set is for this distribution release, whatever else it asks for."""
    return when.get("os") == system["id"] and system["release"] in when.get("release", [])


def version_of(component, stack):
    """The component's version as a person says it."""
    part = stack[component]
    if component == "kernel":
        return "%s (%s)" % (part["release"], part["package_version"])
    if component == "cuda":
        return ", ".join(part["versions"])
    return part["version"]


def fill(template, values, escape):
    """Replace {name} placeholders of packages.yml; in patterns the values are escaped, in names not."""
    return re.sub(r"\{(\w+)\}", lambda match: re.escape(values[match[1]]) if escape else values[match[1]], template)


def readable(pattern):
    """A pattern of packages.yml as people write it: 550\\.163\\.01-.+ -> 550.163.01-*."""
    return re.sub(r"\\(.)", r"\1", (pattern or "none").replace(".+", "*"))


def globs(template, version):
    """A version template of packages.yml as patterns of apt_preferences(5), which know only ``*``."""
    plain = template.replace("{version}", version or "").replace(".+", "*")
    if plain.startswith("(*~)?"):
        return ["*~" + plain[5:], plain[5:]]
    return [plain]


def slice_of(component, stack, facts, row):
    """What pinned_packages needs to know about one component (see module_utils/closure.py); row: its package set."""
    product = facts["packages"]["products"][component]
    part = stack[component]
    requests = []
    for version in part.get("versions") or [part.get("version")]:
        values = dict({key: value for key, value in part.items() if isinstance(value, str)}, version=version or "")
        requests += [{"name": fill(ask["name"], values, False), "version": fill(ask["version"], values, True)}
                     for ask in row["requests"]]
    names = {ask["name"] for ask in requests}
    if len(names) < len(requests):
        raise PlanError("%s: %s are the same packages here; name one of them" % (component, version_of(component, stack)))
    siblings = [other for other in product["sets"] if same_system(other["when"], stack["os"])]
    others = sorted({ask["name"] for other in siblings for ask in other["requests"] if "{" not in ask["name"]} - names)
    return {
        "name": component, "version": version_of(component, stack), "requests": requests,
        "sources": product["sources"], "pattern": requests[0]["version"], "one_version": row.get("one_version") or [],
        "globs": globs(row["requests"][0]["version"], (part.get("versions") or [part.get("version")])[0]),
        "family": sorted({source for other in siblings for source in other.get("one_version") or []}),
        # What a profile of the toolkit leaves out, another user of the node may want: only drivers exclude each other.
        "others": others if row.get("dkms") else [],
        "rivals": [name for name in others if row.get("dkms") and name.endswith("-dkms")],
    }


def wanted(stack, facts, gpus=(), kernel=None):
    """A stack as packages: {slices, alternatives, dkms, kernel, archive, remarks, flavour}.

    stack: long form; facts: knowledge.load(); gpus: PCI ids, which decide a flavour of ``auto``; kernel: the
    release to build the driver for when the stack names none. Raises PlanError.
    """
    flavour = knowledge.flavour(facts, stack["driver"], gpus) if stack.get("driver") else None
    found = {"slices": [], "alternatives": {}, "dkms": None, "kernel": (stack.get("kernel") or {}).get("release") or kernel or None,
             "archive": [], "remarks": [], "flavour": flavour}
    for row in facts["packages"]["archive"]:
        if same_system(row["when"], stack["os"]):
            found["archive"] = row["components"]
    for component in COMPONENTS:
        if not stack.get(component):
            continue
        row = find_set(component, stack, facts, flavour)
        found["slices"].append(slice_of(component, stack, facts, row))
        found["alternatives"].update(row.get("alternatives") or {})
        found["remarks"] += row.get("remarks") or []
        if row.get("dkms"):
            found["dkms"] = dict(row["dkms"], version=stack[component]["version"], kernel=found["kernel"])
    return found


def is_distributions_own(entry, uri):
    """True for the distribution's own archive: other vendors, too, call a suite by its code name and a component main."""
    last = uri.rstrip("/").rsplit("/", 1)[-1]
    return "debian-archive-keyring" in (entry.get("signed_by") or "") or last.startswith("debian")


def archive_of(state):
    """{(uri, suite): {components, signed_by, options}} of the distribution's own archive, as the node's sources have it."""
    codename = (state.get("os") or {}).get("codename") or ""
    suites = {codename, codename + "-updates", codename + "-security"}
    found, own = {}, {}
    for entry in (state.get("package_manager") or {}).get("sources") or []:
        if not entry.get("enabled", True) or entry["file"] == OWN_SOURCES or "deb" not in entry["types"]:
            continue
        for uri, suite in itertools.product(entry["uris"], entry["suites"]):
            if suite in suites:
                row = found.setdefault((uri.rstrip("/"), suite), {
                    "components": set(), "signed_by": entry.get("signed_by"), "options": entry.get("options") or {}})
                row["components"] |= set(entry["components"])
                if is_distributions_own(entry, uri):
                    own[(uri.rstrip("/"), suite)] = row
    # A mirror by any other name: the only one that has this release.
    return own or (found if len({uri for uri, dummy in found}) == 1 else {})


def repositories(need, state):
    """deb822 text that adds the archive components the stack needs to the distribution's own sources of this node.

    The node keeps using the mirror it has. Empty when nothing is missing.
    """
    stanzas = []
    for (uri, suite), row in archive_of(state).items():
        missing = [name for name in need if name not in row["components"]]
        if "main" not in row["components"] or not missing:
            continue
        lines = ["Types: deb", "URIs: " + uri, "Suites: " + suite, "Components: " + " ".join(missing)]
        lines += ["%s: %s" % (LONG_OPTIONS.get(key, key.title()), value.replace(",", " ")) for key, value in sorted(row["options"].items())]
        if row["signed_by"]:
            # An embedded key has several lines, each a continuation in deb822.
            lines.append("Signed-By: " + row["signed_by"].replace("\n", "\n "))
        stanzas.append("\n".join(lines) + "\n")
    if not stanzas:
        return ""
    return ("# Written by lockstep.gpu: archive components that this node's stack needs, from the node's own mirror.\n"
            + "\n".join(stanzas))


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
    return package["version"] if closure.is_installed(package) else None


def proof_of(stack, need):
    """What cuda_probe has to show for a stack: {subjects, expected, modules, kernel}."""
    dkms = need["dkms"]
    found = {"subjects": [], "expected": {}, "modules": dkms["files"] if dkms else [], "kernel": need["kernel"]}
    if stack.get("kernel"):
        found["subjects"].append("initramfs")
    if stack.get("driver"):
        version = stack["driver"]["version"]
        found["subjects"] += ["libcuda", "libnvidia-ml", "nvidia-smi"]
        found["expected"].update({"libcuda": version, "libnvidia-ml": version, "nvidia-smi": version})
    if dkms and need["kernel"]:
        found["subjects"] += ["modprobe", "modules"]
        found["expected"].update({"module:" + name: dkms["version"] for name in dkms["files"]}, modprobe=dkms["files"][0])
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
    return found


def plan(need, state, resolved=None):
    """The plan for one node: {components: {name: {...}}, converged, actions, repositories, dkms}.

    need: of wanted(); state: ansible_facts.lockstep; resolved: return value of pinned_packages (closure, removed).
    """
    packages = state.get("packages") or {}
    manager = state.get("package_manager") or {}
    pins = manager.get("own_pins") or {}
    text = repositories(need["archive"], state)
    components = {}
    for part in need["slices"]:
        name = part["name"]
        drift = closure.drift(part, need["slices"], packages, pins)
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
    if first and (broken or guarded or (manager.get("own_sources") or "") != text):
        components[first]["converged"] = False
    due = dkms_due(need["dkms"], state)
    return {
        "components": components,
        "converged": all(part["converged"] for part in components.values()),
        "repositories": text,
        "dkms": dict(need["dkms"], due=due) if need["dkms"] else None,
        "actions": actions(need, components, due, (manager.get("own_sources") or "") != text, broken, guarded),
    }


def actions(need, components, dkms_reason, sources_differ, broken, guarded):
    """The plan in words, in the order of execution: [{action, target}] (docs/report.md lists the actions)."""
    todo = [{"action": "configure_packages", "target": name} for name in broken]
    if guarded:
        todo.append({"action": "remove_guard", "target": DKMS_GUARD})
    if sources_differ:
        todo.append({"action": "configure_repository", "target": OWN_SOURCES})
    for name, part in components.items():
        todo += [{"action": "remove", "target": gone} for gone in part["removed"]]
        todo += [{"action": closure.ACTIONS[row["change"]], "target": "%s=%s" % (row["name"], row["version"])} for row in part["changes"]]
        if not part["changes"]:
            # Nobody resolved the closure: what is asked for by name is known all the same, and its version as far as the stack tells.
            todo += [{"action": "install_exact", "target": "%s=%s" % (row["name"], readable(row["want"]))}
                     for row in part["drift"] if row["why"] in ("package_missing", "package_version_differs")]
        todo += [{"action": "hold", "target": row["name"]} for row in part["changes"] if row["managed"]]
        todo += [{"action": "add_apt_pin", "target": row["name"]} for row in part["drift"] if row["why"] in ("not_pinned", "pin_differs")]
        todo += [{"action": "hold", "target": held} for held in part["unheld"]]
        todo += [{"action": "replace", "target": row["name"]} for row in part["drift"] if row["why"] == "package_origin_differs"]
        if name == "driver":
            todo += [{"action": "set_alternative", "target": "%s=%s" % (row["name"].split()[-1], row["want"])}
                     for row in part["drift"] if row["why"] == "alternative_differs"]
            if dkms_reason:
                todo.append({"action": "dkms_build_install", "target": "%(module)s/%(version)s@%(kernel)s" % need["dkms"]})
    return todo
