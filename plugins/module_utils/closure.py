# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The managed closure as pure data: who belongs to it, what differs, what has to change.

Used on the node (pinned_packages) and on the controller (the plan), so that both say the same.

Words
- slice: what one component asks for. ``requests: [{name, version, optional}]`` with ``version``, as ``pattern``, a
  regular expression for the whole package version. A package belongs to the slice when its *source* package fits
  ``sources`` or its own name fits ``names``; it works at ``pattern`` only when its source fits ``one_version`` or its
  name ``one_names``; ``family`` are the sources of all sets of the product, ``others`` the names that its other sets ask
  for, ``rivals`` those that must not come along. ``guard``: globs of names that have to come at ``pattern`` whenever
  somebody installs them. ``away: [{packages, release or repo}]``: names that must not come from that origin.
  ``instead_of``: components that are not for this node, and whose packages this slice takes along.
  ``installonly``: several versions lie side by side and none replaces another (EL kernels). All but ``name``,
  ``requests``, ``sources`` and ``pattern`` may be missing.
- managed: an installed package that belongs to a slice; held, pinned and compared.
- base: whatever else a transaction brings along; recorded, never held.
- packages: ``{name: {version, source, status, hold, ...}}`` as node_facts returns them.
- compare: the package manager's order of versions, versions.compare (dpkg) or versions_rpm.compare.
- row: one package of a closure: ``{name, version, old, change, component, managed, ...}``.
"""
from __future__ import annotations

import functools
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import versions

# What leads to the newest kernel of a flavour, in Debian's and Ubuntu's names.
_KERNEL_META = re.compile(r"linux-(image|headers|modules|generic|virtual|lowlatency|signed|oem|aws|azure|gcp|gke|ibm|oracle|nvidia|hwe)(-.+)?")
CHANGES = ("keep", "install", "upgrade", "downgrade")
# The same in the words of a plan (docs/plan.md).
ACTIONS = {"install": "install_exact", "upgrade": "install_exact", "downgrade": "downgrade_exact"}


def matches_any(patterns, text):
    """True when one of the regular expressions covers the whole of text."""
    return _matches_any(tuple(patterns or ()), text or "")


# A node has hundreds of packages from few sources, and a fleet has the same ones on every node.
@functools.lru_cache(maxsize=1 << 14)
def _matches_any(patterns, text):
    return any(re.fullmatch(pattern, text) for pattern in patterns)


def bare(name):
    """A package's name without the architecture that dpkg and rpm tables put behind it."""
    return name.partition(":")[0]


def belongs(part, name, source):
    """Whether a package, by its own name or by its source package, is one of the slice's product."""
    return matches_any(part.get("sources"), source) or matches_any(part.get("names"), bare(name))


def owner(slices, name, source):
    """Name of the first slice whose product holds this package, else None; source is None where nobody knows it (rpm)."""
    for part in slices:
        if belongs(part, name, source):
            return part["name"]
    return None


def one_version(part, name, source):
    """Whether this package of the slice's product works at the slice's version only."""
    return matches_any(part.get("one_version"), source) or matches_any(part.get("one_names"), bare(name))


def owned(slices, packages):
    """{name: slice name} of the packages in a node_facts table that belong to one."""
    found = {name: owner(slices, name, package.get("source")) for name, package in packages.items()}
    return {name: part for name, part in found.items() if part}


def taken_over(slices, component):
    """Whether a slice stands in for a component that the slices do not name, whose guards and origins count no more then."""
    return any(component in (part.get("instead_of") or []) for part in slices)


def is_installed(package):
    """True for a package that dpkg calls installed (not half-configured, not removed); its triggers may wait."""
    return bool(package) and package.get("status") in ("installed", "triggers-pending", "triggers-awaited")


def version_of(package):
    """The version of a package of which anything is unpacked, however far it got; None otherwise."""
    if not package or package.get("status") in (None, "not-installed", "config-files"):
        return None
    return package["version"]


def versions_of(package):
    """All versions of a package that are there, the newest first: kernels of EL lie side by side."""
    version = version_of(package)
    return [] if version is None else [version, *(package.get("others") or [])]


def version_for(part, package, pattern=None):
    """The installed version that counts for a slice, or None.

    Where versions lie side by side, that is the newest that fits the pattern (None: the slice's), and nothing where
    none fits: another version is no older state of it. part is None for a package that belongs to no slice.
    """
    if not (part or {}).get("installonly"):
        return version_of(package)
    fitting = [version for version in versions_of(package) if re.fullmatch(pattern or part["pattern"], version)]
    return fitting[0] if fitting else None


def change_of(old, new, compare=versions.compare):
    """What going from version old (None: absent) to new is: one of CHANGES."""
    if old is None:
        return "install"
    order = compare(old, new)
    return "keep" if order == 0 else ("upgrade" if order < 0 else "downgrade")


def wanted_version(request, available, installed, pinned, compare=versions.compare):
    """The exact version for a request, or None when no known version satisfies it.

    The pattern names what the stack says; several package revisions may satisfy it. What this node
    already agreed on (its own pin, then what is installed) wins over what is newest in the archive,
    so that a stack does not move by itself.
    """
    fits = [v for v in [pinned, installed] if v and re.fullmatch(request["version"], v)]
    if fits and (fits[0] in available or fits[0] == installed):
        return fits[0]
    best = None
    for version in available:
        if re.fullmatch(request["version"], version) and (best is None or compare(best, version) < 0):
            best = version
    if best is None and installed and re.fullmatch(request["version"], installed):
        return installed
    return best


def followers(part, packages):
    """Packages, whole or half-configured, that must move with the slice: same source family, version not the stack's.

    They were not asked for by name (a library that a user installed beside), but a driver's parts
    only work at one version.
    """
    asked = {request["name"] for request in part["requests"]}
    return sorted(
        name for name, package in packages.items()
        if name not in asked and version_of(package) is not None and not part.get("installonly")
        and one_version(part, name, package.get("source"))
        and not re.fullmatch(part["pattern"], package["version"])
    )


def leftovers(part, packages):
    """Installed packages of the product that belong to another set (an older branch, the other flavour).

    Candidates for removal; whether something still needs them only the package manager can say.
    """
    asked = {request["name"] for request in part["requests"]}
    found = []
    for name, package in packages.items():
        if name in asked or not is_installed(package):
            continue
        source = package.get("source")
        other_family = matches_any(part.get("family"), source) and not one_version(part, name, source)
        if other_family or name in (part.get("others") or []):
            found.append(name)
    return sorted(found)


def drift(part, slices, packages, own_pins):
    """Differences between one slice and an installed system, from dpkg's state alone.

    Returns ``[{name, have, want, why}]``; empty means converged. Why is one of package_missing,
    package_version_differs, package_origin_differs, package_half_configured, package_set_split, package_not_held, not_pinned,
    pin_differs.
    """
    rows = []

    def add(name, have, want, why):
        rows.append({"name": name, "have": have, "want": want, "why": why})

    for request in part["requests"]:
        package = packages.get(request["name"])
        have = version_for(part, package, request["version"])
        if have is None:
            # What is optional need not exist, and only the archives know.
            if not request.get("optional"):
                add(request["name"], None, request["version"], "package_missing")
        elif not re.fullmatch(request["version"], have):
            add(request["name"], have, request["version"], "package_version_differs")
        elif owner(slices, request["name"], package.get("source")) != part["name"]:
            # Same name and version, other source: a vendor's or a hand-made build.
            add(request["name"], have, part["name"], "package_origin_differs")
    for name in followers(part, packages):
        add(name, packages[name]["version"], part["pattern"], "package_set_split")
    for name in sorted(packages):
        package = packages[name]
        if owner(slices, name, package.get("source")) != part["name"] or version_of(package) is None:
            continue
        if not is_installed(package):
            add(name, package["version"], package["version"], "package_half_configured")
            continue
        version = version_for(part, package)
        if version is None and part.get("installonly"):
            # Of another kernel, which lies beside the stack's.
            continue
        version = version or package["version"]
        if not package.get("hold"):
            add(name, version, version, "package_not_held")
        pin = own_pins.get(name)
        if pin is None:
            add(name, version, None, "not_pinned")
        elif pin != version:
            add(name, version, pin, "pin_differs")
    return rows


def close(slices, packages, installs, metadata, compare=versions.compare):
    """The closure after a simulated transaction.

    packages: what is installed now; installs: ``{name: version}`` the transaction would unpack;
    metadata: ``{name: {source, source_version, arch, sha256, size, depends, origin}}`` of those.
    Returns rows for every managed package that will be there, and for every base package that changes.
    """
    rows, by_name = [], {part["name"]: part for part in slices}
    for name in sorted(set(packages) | set(installs)):
        package, meta = packages.get(name), metadata.get(name, {})
        source = meta.get("source") or (package or {}).get("source")
        component = owner(slices, name, source)
        version = installs.get(name, version_for(by_name.get(component), package))
        old = version_for(by_name.get(component), package, re.escape(version or ""))
        if version is None or (component is None and name not in installs):
            continue
        rows.append({
            "name": name, "version": version, "old": old, "change": change_of(old, version, compare),
            "component": component, "managed": component is not None, "source": source,
            "arch": meta.get("arch") or (package or {}).get("arch"),
            "sha256": meta.get("sha256"), "size": meta.get("size"), "origin": meta.get("origin"),
        })
    return rows


def place(rows, slices, arrivals):
    """Say which slice's transaction brings each row: ``row["step"]``.

    arrivals: ``[(slice name, {name: version})]``, what apt would unpack for the slices up to this one. A package
    can come with another component than the one that owns it: Debian's CUDA toolkit brings a driver library.
    """
    for row in rows:
        first = next((step for step, names in arrivals if row["name"] in names), None)
        row["step"] = first or row["component"] or slices[-1]["name"]
    return rows


def objections(slices, packages, rows, removed, planned_removals, theirs=None, planned=None):
    """Reasons why a simulated transaction must not run: ``[{code, name, message}]``.

    theirs: {name: what to do about it} of names that somebody else holds, also of packages that are not installed;
    planned: {name: version} that the transaction was to bring.
    """
    found, theirs, planned = [], theirs or {}, planned or {}

    def object_to(code, name, message):
        found.append({"code": code, "name": name, "message": message})

    asked = {request["name"] for part in slices for request in part["requests"]}
    coming = {row["name"] for row in rows if row["change"] != "keep"}
    for part in slices:
        for request in part["requests"]:
            source = (packages.get(request["name"]) or {}).get("source")
            if source and owner(slices, request["name"], source) != part["name"] and request["name"] not in coming:
                # The archive has the same version, so the package manager sees nothing to do.
                object_to("package_origin_differs", request["name"], "%s is built from %s, not from a source of the stack's %s; "
                          "remove it, and the next run installs the archive's" % (request["name"], source, part["name"]))
    for name in sorted(set(theirs) & set(removed)):
        object_to("package_held_by_user", name, "%s is held by somebody else and would be removed; %s" % (name, theirs[name]))
    for name in sorted(set(removed) - set(planned_removals) - set(theirs)):
        object_to("transaction_leaves_lock", name, "%s %s would be removed, which the stack does not ask for"
                  % (name, (packages.get(name) or {}).get("version")))
    by_slice = {part["name"]: part for part in slices}
    for row in rows:
        name, part = row["name"], by_slice.get(row["component"]) if row["managed"] else None
        split = part and one_version(part, name, row["source"]) and not re.fullmatch(part["pattern"], row["version"])
        if row["change"] == "keep":
            if split and not part.get("installonly"):
                object_to("transaction_leaves_lock", name, "%s would stay at %s, beside %s: the archives have no other, and something needs it" % (
                    name, row["version"], part.get("version")))
            continue
        if name in theirs:
            object_to("package_held_by_user", name,
                      "%s is held at %s by somebody else and would become %s; %s or name that version in the stack" % (
                          name, row["old"] or "not installed", row["version"], theirs[name]))
        if not part:
            continue
        if split:
            object_to("transaction_leaves_lock", name, "%s would come at %s, beside %s" % (
                name, row["version"], part.get("version")))
        if name not in asked and name in (part.get("rivals") or []):
            object_to("transaction_leaves_lock", name, "%s would come too, and rivals the stack's own %s" % (
                name, part["name"]))
        if part["name"] == "kernel":
            found.extend(kernel_objections(part, row, asked, planned))
    return found


def kernel_objections(part, row, asked, planned):
    """What a changing row of the kernel's slice must not do: bring another kernel, or move what leads to the newest one."""
    name, version = row["name"], row["version"]
    if name in asked or planned.get(name) == version:
        return []
    other = re.match(r"linux-image-(unsigned-)?\d", name) or (
        part.get("installonly") and not re.fullmatch(part["pattern"], version))
    if other:
        return [{"code": "transaction_installs_unlocked_kernel", "name": name,
                 "message": "%s %s would be installed; the stack names %s" % (name, version, part.get("version"))}]
    if row["old"] and _KERNEL_META.fullmatch(name) and not re.search(r"\d+\.\d+\.\d+", name):
        return [{"code": "transaction_leaves_lock", "name": name, "message": "%s would go from %s to %s, and the node's kernel with it" % (
            name, row["old"], version)}]
    return []


def pins_after(slices, rows, own_pins, packages):
    """Content of the own pins: this run's managed rows, and earlier ones of products not asked for now."""
    pins = {row["name"]: row["version"] for row in rows if row["managed"]}
    for name, version in own_pins.items():
        package = packages.get(name)
        if name not in pins and is_installed(package) and owner(slices, name, package.get("source")) is None:
            pins[name] = version
    return pins


def diff_lines(rows, removed, packages):
    """(before, after) as sorted ``name=version`` lines of what changes, for Ansible's diff."""
    before = ["%s=%s" % (row["name"], row["old"]) for row in rows if row["change"] != "keep" and row["old"]]
    before += ["%s=%s" % (name, packages[name]["version"]) for name in removed]
    after = ["%s=%s" % (row["name"], row["version"]) for row in rows if row["change"] != "keep"]
    return "".join(line + "\n" for line in sorted(before)), "".join(line + "\n" for line in sorted(after))
