# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The managed closure as pure data: who belongs to it, what differs, what has to change.

Used on the node (pinned_packages) and on the controller (the plan), so that both say the same.

Words
- slice: what one component asks for: ``{name, requests: [{name, version}], sources, one_version,
  family, others, rivals, pattern}``; ``version`` and ``pattern`` are regular expressions for the whole
  package version, ``sources``, ``one_version`` and ``family`` for the whole *source* package name;
  ``others`` are the names that the product's other sets ask for, ``rivals`` those that must not come along.
- managed: an installed package whose source belongs to a slice; held, pinned and compared.
- base: whatever else a transaction brings along; recorded, never held.
- packages: ``{name: {version, source, status, hold, ...}}`` as node_facts returns them.
- row: one package of a closure: ``{name, version, old, change, component, managed, ...}``.
"""
from __future__ import annotations

import functools
import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt import OWN_PRIORITY
from ansible_collections.lockstep.gpu.plugins.module_utils.versions import compare

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


def owner(slices, source):
    """Name of the first slice whose product holds this source package, else None."""
    for part in slices:
        if matches_any(part["sources"], source):
            return part["name"]
    return None


def is_installed(package):
    """True for a package that dpkg calls installed (not half-configured, not removed); its triggers may wait."""
    return bool(package) and package.get("status") in ("installed", "triggers-pending", "triggers-awaited")


def version_of(package):
    """The version of a package of which anything is unpacked, however far it got; None otherwise."""
    if not package or package.get("status") in (None, "not-installed", "config-files"):
        return None
    return package["version"]


def change_of(old, new):
    """What going from version old (None: absent) to new is: one of CHANGES."""
    if old is None:
        return "install"
    order = compare(old, new)
    return "keep" if order == 0 else ("upgrade" if order < 0 else "downgrade")


def wanted_version(request, available, installed, pinned):
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
    """Installed packages that must move with the slice: same source family, version not the stack's.

    They were not asked for by name (a library that a user installed beside), but a driver's parts
    only work at one version.
    """
    asked = {request["name"] for request in part["requests"]}
    return sorted(
        name for name, package in packages.items()
        if name not in asked and is_installed(package)
        and matches_any(part.get("one_version"), package.get("source"))
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
        other_family = matches_any(part.get("family"), source) and not matches_any(part.get("one_version"), source)
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
        have = version_of(packages.get(request["name"]))
        if have is None:
            add(request["name"], None, request["version"], "package_missing")
        elif not re.fullmatch(request["version"], have):
            add(request["name"], have, request["version"], "package_version_differs")
        elif owner(slices, packages[request["name"]].get("source")) != part["name"]:
            # Same name and version, other source: a vendor's or a hand-made build.
            add(request["name"], have, part["name"], "package_origin_differs")
    for name in followers(part, packages):
        add(name, packages[name]["version"], part["pattern"], "package_set_split")
    for name in sorted(packages):
        package = packages[name]
        if owner(slices, package.get("source")) != part["name"] or version_of(package) is None:
            continue
        if not is_installed(package):
            add(name, package["version"], package["version"], "package_half_configured")
            continue
        if not package.get("hold"):
            add(name, package["version"], package["version"], "package_not_held")
        pin = own_pins.get(name)
        if pin is None:
            add(name, package["version"], None, "not_pinned")
        elif pin != package["version"]:
            add(name, package["version"], pin, "pin_differs")
    return rows


def close(slices, packages, installs, metadata):
    """The closure after a simulated transaction.

    packages: what is installed now; installs: ``{name: version}`` the transaction would unpack;
    metadata: ``{name: {source, source_version, arch, sha256, size, depends, origin}}`` of those.
    Returns rows for every managed package that will be there, and for every base package that changes.
    """
    rows = []
    for name in sorted(set(packages) | set(installs)):
        package = packages.get(name)
        old = version_of(package)
        meta = metadata.get(name, {})
        version = installs.get(name, old)
        if version is None:
            continue
        source = meta.get("source") or (package or {}).get("source")
        component = owner(slices, source)
        if component is None and name not in installs:
            continue
        rows.append({
            "name": name, "version": version, "old": old, "change": change_of(old, version),
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


def objections(slices, packages, rows, removed, planned_removals, own_pins, held=()):
    """Reasons why a simulated transaction must not run: ``[{code, name, message}]``.

    held: every name that is held, also of packages that are not installed.
    """
    found = []

    def object_to(code, name, message):
        found.append({"code": code, "name": name, "message": message})

    asked = {request["name"] for part in slices for request in part["requests"]}
    coming = {row["name"] for row in rows if row["change"] != "keep"}
    for part in slices:
        for request in part["requests"]:
            source = (packages.get(request["name"]) or {}).get("source")
            if source and owner(slices, source) != part["name"] and request["name"] not in coming:
                # The archive has the same version, so the package manager sees nothing to do.
                object_to("package_origin_differs", request["name"], "%s is built from %s, not from a source of the stack's %s; "
                          "remove it, and the next run installs the archive's" % (request["name"], source, part["name"]))
    theirs = {name for name in held if name not in own_pins}
    for name in sorted(theirs & set(removed)):
        object_to("package_held_by_user", name, "%s is held by somebody else and would be removed; run 'apt-mark unhold %s'" % (
            name, name))
    for name in sorted(set(removed) - set(planned_removals) - theirs):
        object_to("transaction_leaves_lock", name, "%s %s would be removed, which the stack does not ask for"
                  % (name, (packages.get(name) or {}).get("version")))
    by_slice = {part["name"]: part for part in slices}
    for row in rows:
        if row["change"] == "keep":
            continue
        name = row["name"]
        if name in theirs:
            object_to("package_held_by_user", name,
                      "%s is held at %s by somebody else and would become %s; run 'apt-mark unhold %s' or name that "
                      "version in the stack" % (name, row["old"] or "not installed", row["version"], name))
        part = by_slice.get(row["component"]) if row["managed"] else None
        if not part:
            continue
        if matches_any(part.get("one_version"), row["source"]) and not re.fullmatch(part["pattern"], row["version"]):
            object_to("transaction_leaves_lock", name, "%s would come at %s, beside %s" % (
                name, row["version"], part.get("version")))
        if name not in asked and name in (part.get("rivals") or []):
            object_to("transaction_leaves_lock", name, "%s would come too, and rivals the stack's own %s" % (
                name, part["name"]))
        if part["name"] == "kernel" and name not in asked and re.match(r"(linux-image|kernel-core)-?\d", name):
            object_to("transaction_installs_unlocked_kernel", name, "%s %s would be installed; the stack names %s" % (
                name, row["version"], part.get("version")))
    return found


def pins_after(slices, rows, own_pins, packages):
    """Content of the own pins: this run's managed rows, and earlier ones of products not asked for now."""
    pins = {row["name"]: row["version"] for row in rows if row["managed"]}
    for name, version in own_pins.items():
        package = packages.get(name)
        if name not in pins and is_installed(package) and owner(slices, package.get("source")) is None:
            pins[name] = version
    return pins


def render_pins(pins):
    """apt_preferences(5) text that keeps each package at its version, in both directions (1001 allows down)."""
    head = "# Written by lockstep.gpu: the exact versions of this node's stack. Changes are undone by the next run.\n"
    body = ["Package: %s\nPin: version %s\nPin-Priority: %d\n" % (name, pins[name], OWN_PRIORITY) for name in sorted(pins)]
    return head + "\n" + "\n".join(body) if body else head


def source_pins(slices, targets):
    """apt_preferences(5) text that keeps whole source packages at the stack's version while apt resolves.

    Without it apt takes the newest version for what is not asked for by name, and then finds no solution where the
    parts of a driver depend on each other by exact version. The chosen revision comes first, any other one that fits
    second.
    """
    stanzas = []
    for part in slices:
        chosen = targets.get(part["requests"][0]["name"])
        if not chosen or not part.get("globs"):
            continue
        exact = [chosen]
        if part["globs"][0].startswith("*~") and "~" in chosen:
            # CUDA's parts count by themselves; what they share follows the first tilde.
            tail = chosen.split("~", 1)[1]
            exact = ["*~" + tail, tail]
        for priority, versions in ((1002, exact), (1001, part["globs"])):
            stanzas += ["Package: src:%s\nPin: version %s\nPin-Priority: %d\n" % (source, version, priority)
                        for source in part["one_version"] for version in versions]
    return "\n".join(stanzas)


def diff_lines(rows, removed, packages):
    """(before, after) as sorted ``name=version`` lines of what changes, for Ansible's diff."""
    before = ["%s=%s" % (row["name"], row["old"]) for row in rows if row["change"] != "keep" and row["old"]]
    before += ["%s=%s" % (name, packages[name]["version"]) for name in removed]
    after = ["%s=%s" % (row["name"], row["version"]) for row in rows if row["change"] != "keep"]
    return "".join(line + "\n" for line in sorted(before)), "".join(line + "\n" for line in sorted(after))
