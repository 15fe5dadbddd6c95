# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From a component of a stack to a slice: what pinned_packages is asked for (words: module_utils/closure.py).

A slice is a set of compat/packages*.yml with the stack's words filled in: ``{version}`` in a name is the version, in a pattern
the version with its dots escaped.
"""
from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge, package_sets

# Packages that bring a kernel module, built on the node or before: one driver has one of them.
MODULES = re.compile(r"-dkms(-|$)|^linux-modules-nvidia-|^kmod-nvidia-")
FABRIC = ("manager", "nscq", "imex", "nvlsm")
SHOWN = 8


class PlanError(Exception):
    """The stack cannot be turned into packages here; the text names the key and the file that would know."""


def find_set(component, stack, facts, flavour):
    """The set of packages for a component. Raises PlanError naming what compat/packages*.yml do have."""
    row = knowledge.package_set(facts, component, stack, flavour)
    if row:
        check_stream(component, stack, row)
        return row
    system = stack["os"]
    here = package_sets.siblings(facts, component, system)
    there = "; ".join(dict.fromkeys(describe(other["when"]) for other in here or facts["packages"]["products"][component]["sets"]))
    asked = [(key, value) for key, value in stack[component].items() if isinstance(value, str)]
    asked += [("flavour", flavour)] if component == "driver" and flavour and stack[component].get("flavour") == "auto" else []
    raise PlanError("stack key '%s': no packages are known for %s %s with %s; compat/packages.yml and its neighbours have %s for: %s" % (
        component, system.get("id"), system.get("release"), ", ".join("%s %s" % pair for pair in asked), "sets" if here else "other systems", there))


def describe(when):
    """What a set is for, in one line."""
    found = []
    for key, value in when.items():
        if key == "branches":
            value = "%s to %s" % (value[0] or "any", value[1] or "any")
        found.append("%s %s" % (key, ", ".join(value) if isinstance(value, list) else value))
    return ", ".join(found)


def check_stream(component, stack, row):
    """Raise PlanError where the stack names another module stream than its version, flavour and kind of module have."""
    said, module = stack[component].get("stream"), row.get("stream")
    if said and module:
        real = fill(module, texts(component, stack, None)).partition(":")[2]
        if said != real:
            raise PlanError("stack key '%s.stream': '%s' is not the stream of %s %s here; candidates: %s" % (
                component, said, component, stack[component]["version"], real))


def version_of(component, stack):
    """The component's version as a person says it."""
    part = stack[component]
    if component == "kernel":
        return "%s (%s)" % (part["release"], part["package_version"])
    if component == "cuda":
        return ", ".join(part["versions"])
    if component == "fabric":
        return fabric_version(stack)
    return part["version"]


def fabric_version(stack):
    """The version of the fabric's packages: the one that the stack names, else the driver's. Raises PlanError without any."""
    named = {stack["fabric"][key] for key in FABRIC if key != "nvlsm" and stack["fabric"].get(key, "auto") not in ("auto", "none")}
    if len(named) > 1:
        raise PlanError("stack key 'fabric': fabric manager, NSCQ and IMEX have one version; here are %s" % ", ".join(sorted(named)))
    version = next(iter(named), None) or (stack.get("driver") or {}).get("version")
    if not version:
        raise PlanError("stack key 'fabric.manager': auto is the driver's version, and the stack has no driver; name the version")
    return version


def plain(version):
    """A version without its epoch and its package revision: 1:4.4.2-1 -> 4.4.2."""
    return re.sub(r"^\d+:|-.*$", "", version or "")


def texts(component, stack, kernel):
    """What stands for the placeholders in names; kernel: release of the kernel that modules are for, None where nobody knows it."""
    part = stack[component]
    values = {key: value for key, value in part.items() if isinstance(value, str)}
    version = fabric_version(stack) if component == "fabric" else values.get("version", "")
    if component in ("dcgm", "container_toolkit"):
        version = plain(version)
    values.update(version=version, branch=knowledge.branch_of(version), major=package_sets.major_of(version))
    if component == "driver":
        release = (stack.get("kernel") or {}).get("release") or kernel
        values["package_version"] = (stack.get("kernel") or {}).get("package_version") or ""
        if release:
            values.update(kernel=release, kernel_build=re.sub(r"\.el\d.*$", "", release))
    if component == "ofed":
        line, dummy, build = version.partition("-")
        values.update(line=line, build=re.sub(r"^(\d+\.\d+\.\d+)\.\d+$", r"\1", build), doca_release=values.get("doca", "").partition("-")[0])
    return values


def patterns(component, values):
    """Placeholders that stand for a pattern of their own in a pattern, because the stack says less than a version."""
    found = {}
    if component == "driver":
        # Ubuntu builds modules again for the same kernel: 6.8.0-79.79+1.
        found["kernel_package"] = re.escape(values["package_version"]) + r"(\+.+)?" if values["package_version"] else ".+"
    if component == "fabric":
        # NVLSM counts by the calendar; unless the stack says which, the newest one comes, and stays.
        found["nvlsm_package"] = ".+" if values.get("nvlsm", "auto") == "auto" else re.escape(values["nvlsm"]) + "-.+"
    if component == "ofed":
        found["doca_package"] = re.escape(values.get("doca", "")) + ("" if "-" in values.get("doca", "") else "(-.+)?")
        found["build_package"] = re.escape(values["build"]) + r"\..+" if values["build"] else ".+"
    return found


def fill(template, values, raw=None):
    """Replace {name} placeholders. raw (not None): the template is a pattern, so values are escaped; raw's are patterns already.

    Raises PlanError for a placeholder that the stack says nothing about.
    """
    def replace(match):
        if raw and match[1] in raw:
            return raw[match[1]]
        if not values.get(match[1]):
            raise PlanError(MISSING.get(match[1]) or "packages: nothing is known for {%s} of %s" % (match[1], template))
        return re.escape(values[match[1]]) if raw is not None else values[match[1]]
    return re.sub(r"\{([a-z]\w*)\}", replace, template)


MISSING = {
    "kernel": "stack key 'driver.module': precompiled modules are for one kernel; name it (kernel.release), or plan for a node that runs it",
    "kernel_build": "stack key 'driver.module': precompiled modules are for one kernel; name it (kernel.release), or plan for a node that runs it",
    "cuda": "stack key 'nccl.cuda': is missing; NVIDIA builds a version of NCCL for several releases of CUDA",
    "doca_release": "stack key 'ofed.doca': is missing; NVIDIA's repositories are by the release of DOCA-Host, for instance 3.2.1",
}


def readable(pattern):
    """A pattern of packages.yml as people write it: 550\\.163\\.01-.+ -> 550.163.01-*."""
    return re.sub(r"\\(.)", r"\1", re.sub(r"\(\?![^()]*\)", "", pattern or "none").replace(".+", "*")).replace("(3:)?", "")


def globs(template, version=None):
    """A pattern, or the template of one, as patterns of apt_preferences(5), which know only ``*``; a look ahead has none."""
    text = re.sub(r"\(\?![^()]*\)", "", template).replace("{version}", version or "").replace(".+", "*").replace(r"\d+", "*")
    optional = re.match(r"\(([^()]*)\)\?", text)
    found = [optional[1] + text[optional.end():], text[optional.end():]] if optional else [text]
    return [re.sub(r"\\(.)", r"\1", re.sub(r"\([^()]*\)\?", "*", one)) for one in found]


def cuda_requests(stack, facts, row):
    """What to ask for by compat/cuda_components.yml. Raises PlanError for a release that it does not have."""
    known = {entry["version"]: entry for entry in facts["cuda_components"]["releases"]}
    profile = facts["cuda_components"]["profiles"][stack["cuda"]["profile"]]
    found = []
    for release in stack["cuda"]["versions"]:
        if release not in known:
            near = [name for name in known if name.split(".")[:2] == release.split(".")[:2]] or list(known)
            raise PlanError("stack key 'cuda.versions': the parts of CUDA %s are not known: add it to releases of"
                            " compat/cuda_components.yml; candidates: %s" % (release, ", ".join(near[:SHOWN])))
        found += cuda_parts(known[release], profile, row["components"])
    return found


def cuda_parts(release, profile, tail):
    """The requests of one release for a profile; tail: what ends the names of packages for compiling, -dev or -devel."""
    series, every = "-".join(release["version"].split(".")[:2]), not profile
    names = dict(release["whole"]) if every else {}
    for name, version in release["parts"].items():
        if every or name in profile["parts"]:
            names[with_tail(name, tail) + "-" + series] = version
            if every and name in release["dev"]:
                names["%s%s-%s" % (name, tail, series)] = version
    for name in release["metas"]:
        if every or name in profile["metas"]:
            names[with_tail(name, tail) + "-" + series] = release["version"]
    names["cuda-toolkit-%s-config-common" % series] = release["config"]
    # What a release is called comes first: its version stands for the component.
    first = [name for name in ("cuda-toolkit-" + series, "cuda-libraries-" + series, "cuda-cudart-" + series) if name in names][:1]
    # RPMs of Nsight Systems have the build behind the version (474_253236389321v0); CUPTI's headers are in no rpm of their own.
    return [{"name": name, "version": re.escape(names[name]) + ("(_[^-]+)?" if name in release["whole"] else "") + "-.+",
             "optional": name == "cuda-cupti-devel-" + series}
            for name in sorted(names, key=lambda name: (name not in first, name))]


def with_tail(name, tail):
    """cuda-driver-dev as the package manager's distributions call it."""
    return name[:-len("-dev")] + tail if name.endswith("-dev") else name


def plain_requests(component, stack, row, kernel):
    """What to ask for by a set's own list; of the fabric those parts that the node needs. Raises PlanError for a part without a package."""
    parts, found = stack[component].get("parts", ()), []
    lacking = sorted(set(parts) - {ask.get("part") for ask in row["requests"]} - {"nvsdm"})
    if lacking:
        raise PlanError("stack key 'fabric.%s': %s has no package of it for this driver; set it to none, or take the driver from NVIDIA's"
                        " repository (driver.source: nvidia)" % (lacking[0], describe(row["when"])))
    for version in stack[component].get("versions") or [None]:
        values = texts(component, stack, kernel)
        if version:
            values["version"] = version
        raw = patterns(component, values)
        found += [{"name": fill(ask["name"], values), "version": revised(component, stack, ask, fill(ask["version"], values, raw)),
                   "optional": bool(ask.get("optional"))}
                  for ask in row["requests"] if (ask.get("part") is None or ask["part"] in parts) and (ask.get("given") is None or values.get(ask["given"]))]
    return found


def revised(component, stack, ask, pattern):
    """A request's pattern with the package revision that the stack names, where it names one. Raises PlanError for what is none: 1.18.0-rc.1."""
    version, dash, revision = (stack[component].get("version") or "").partition("-")
    if component not in ("dcgm", "container_toolkit") or not dash or ask.get("given"):
        return pattern
    if not re.fullmatch(r"\d[\w.+]*", revision):
        raise PlanError("stack key '%s.version': '-%s' is no package revision; candidates: %s, %s-1" % (component, revision, version, version))
    return re.sub(r"(-\.\+|\(-\.\+\)\?)$", lambda _match: "-" + re.escape(revision), pattern)


def names_asked(component, stack, facts, row, kernel):
    """The names that a set asks for, as far as the stack (or a claim) tells them; none without a set."""
    try:
        if (row or {}).get("components"):
            return {ask["name"] for ask in cuda_requests(stack, facts, row)}
        values = texts(component, stack, kernel)
    except (PlanError, KeyError):
        return set()
    return {name for name in (filled(ask["name"], values) for ask in (row or {}).get("requests") or []) if name}


def dkms_of(row, version):
    """{module, files} of a set's module, by the name that it has in this version of the driver; None without any."""
    dkms = row.get("dkms")
    earlier = (dkms or {}).get("earlier")
    if not dkms:
        return None
    named = earlier["module"] if earlier and knowledge.numbers(version) < knowledge.numbers(earlier["before"]) else dkms["module"]
    return {"module": named, "files": dkms["files"]}


def others_of(component, stack, facts, row, kernel, names):
    """Names that the product's other sets here ask for, with the metapackages that want them.

    Where two makers use the same names for the same parts, only the packages that bring a kernel module tell their sets apart.
    """
    values, found = texts(component, stack, kernel), set()
    for other in package_sets.siblings(facts, component, stack["os"]):
        theirs = {name for name in map(lambda template: filled(template, values), [
            *(ask["name"] for ask in other.get("requests") or []), *(other.get("metas") or [])]) if name}
        found |= theirs if other["when"].get("source") == row["when"].get("source") else {name for name in theirs if MODULES.search(name)}
    return sorted(found - names - {filled(template, values) for template in row.get("metas") or []})


def filled(template, values):
    """fill(), or None where the stack does not say what a placeholder needs."""
    try:
        return fill(template, values)
    except PlanError:
        return None


def own_names(patterns_, requested):
    """The names of a product told by names: also every package that is asked for, whatever family it is of (gds-tools-12-8 of a toolkit)."""
    strange = [name for name in sorted(requested) if not any(re.fullmatch(pattern, name) for pattern in patterns_)] if patterns_ else []
    return [*patterns_, *map(re.escape, strange)]


def slice_of(component, stack, facts, row, kernel=None):
    """What pinned_packages needs to know about one component (see module_utils/closure.py); row: its package set."""
    product = facts["packages"]["products"][component]
    requests = cuda_requests(stack, facts, row) if row.get("components") else plain_requests(component, stack, row, kernel)
    names = {ask["name"] for ask in requests}
    if len(names) < len(requests):
        raise PlanError("%s: %s are the same packages here; name one of them" % (component, version_of(component, stack)))
    driver = component == "driver"
    others = others_of(component, stack, facts, row, kernel, names) if driver else []
    values = texts(component, stack, kernel)
    pattern = fill(row["pattern"], values, patterns(component, values)) if row.get("pattern") else requests[0]["version"]
    siblings = [other for other in package_sets.siblings(facts, component, stack["os"])
                if other["when"].get("source") == row["when"].get("source")]
    return {
        "name": component, "version": version_of(component, stack), "requests": requests,
        "sources": row.get("sources", product["sources"]),
        "names": own_names(row.get("names") or (package_sets.names_of(facts, component) if row.get("by_name") else []), names),
        "pattern": pattern,
        "one_version": row.get("one_version") or [], "one_names": row.get("one_names") or [],
        "globs": globs(pattern),
        "family": sorted({source for other in siblings for source in other.get("one_version") or []}),
        "guard": [fill(name, values) for name in row.get("guard") or []],
        "away": row.get("away") or [],
        "stream": fill(row["stream"], values) if row.get("stream") else "",
        "installonly": bool(row.get("installonly")),
        # What a profile of the toolkit leaves out, another user of the node may want: only drivers exclude each other.
        "others": others,
        "rivals": [name for name in others if MODULES.search(name)],
    }


def with_fabric(part, stack, facts):
    """The driver's slice where the stack's fabric is not for this node: what lies there of one, since it had other boards, works beside this driver
    only, so it moves with it, or leaves.
    """
    row = package_sets.find(facts, "fabric", dict(stack, fabric={}))
    if not row:
        return part
    return dict(part, names=[*part["names"], *package_sets.names_of(facts, "fabric")], one_names=[*part["one_names"], *row["one_names"]],
                instead_of=["fabric"])
