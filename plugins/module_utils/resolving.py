# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The joint closure of a stack's slices: what to ask for by name, what follows, what leaves, and what apt makes of it.

The functions without ``ask`` are pure and serve every package manager; ask is an apt.Apt.
"""
from __future__ import annotations

import difflib
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import apt, apt_pins, closure, versions
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import Refused, check_space

# That many candidates are enough for a message.
SHOWN = 12


def targets_of(slices, packages, available, own_pins, strangers=(), compare=versions.compare):
    """({name: version} to ask for by name, [problems]); nothing is guessed: what does not exist is a problem.

    strangers: installed packages from an origin that is not the stack's. One problem for each component: a version that
    is not there is mostly missing for all its packages.
    """
    targets, problems = {}, []
    for part in slices:
        missing = []
        for request in part["requests"]:
            package = packages.get(request["name"])
            # A build from elsewhere is not what the stack means, whatever its version says.
            ours = package is None or (request["name"] not in strangers
                                       and closure.owner(slices, request["name"], package.get("source")) == part["name"])
            version = closure.wanted_version(
                request, available.get(request["name"], []), closure.version_for(part, package, request["version"]) if ours else None,
                own_pins.get(request["name"]), compare)
            if version:
                targets[request["name"]] = version
            elif not request.get("optional"):
                missing.append(request["name"])
        if missing:
            problems.append({
                "code": "locked_version_gone_from_archive", "component": part["name"], "name": missing[0], "missing": missing,
                "available": ["%s=%s" % (name, version) for name in missing for version in available.get(name, [])],
                "message": "stack key '%s': this node's archives do not have %s as %s" % (
                    part["name"], part.get("version"), ", ".join(missing))})
    return targets, problems


def companions_of(slices, packages, available, own_pins, targets=None, compare=versions.compare, strangers=()):
    """({name: version}, [names to remove]) for installed managed packages that nobody asks for by name.

    They follow the stack's version; what was agreed on before (the own pin) is restored; and what exists at no
    fitting version has to go, as does what was asked for if it can be had. targets: of targets_of(). strangers: installed
    packages from an origin that is not the stack's; they move to the stack's, and where it has none those go that we brought.
    """
    found, gone = {}, []
    asked = {request["name"]: bool(request.get("optional")) for part in slices for request in part["requests"]}
    for part in slices:
        moving = set(closure.followers(part, packages)) | {name for name in strangers if name in own_pins or available.get(name)}
        moving |= {request["name"] for request in part["requests"] if request.get("optional") and request["name"] not in (targets or {})}
        for name, package in packages.items():
            if asked.get(name) is False or name in (targets or {}) or closure.version_of(package) is None:
                continue
            if closure.owner(slices, name, package.get("source")) != part["name"]:
                continue
            pin, known = own_pins.get(name), available.get(name, [])
            versioned = closure.one_version(part, name, package.get("source"))
            pattern = part["pattern"] if versioned else ".*"
            if name in moving or (pin and pin != package["version"] and re.fullmatch(pattern, pin)):
                version = closure.wanted_version({"version": pattern}, known, None, pin if pin in known else None, compare)
                if version and name not in asked:
                    found[name] = version
                elif name in moving:
                    gone.append(name)
    return found, gone


def members_of(slices, names):
    """{name: slice} of known names that work at their slice's version only; names: what the archives and the node have."""
    return {name: part for name in names for part in slices
            if closure.matches_any(part.get("one_names"), name) and closure.owner([part], name, None)}


def beside(members, available, own_pins, targets, compare=versions.compare):
    """{name: version} for members that nobody asked for by name, should something need them.

    Agreed on before, or the revision that the slice's first package has, or the newest that fits.
    """
    found = {}
    for name, part in members.items():
        first = targets.get(part["requests"][0]["name"]) if part["requests"] else None
        agreed = [version for version in (own_pins.get(name), first) if version in available.get(name, ())]
        version = closure.wanted_version({"version": part["pattern"]}, available.get(name, ()), None,
                                         next((one for one in agreed if re.fullmatch(part["pattern"], one)), None), compare)
        if version and name not in targets:
            found[name] = version
    return found


def removable(ask, candidates, targets=None):
    """Those candidates that can go without taking anything else along; apt is asked, not guessed.

    targets: {name: version} that come in the same transaction. What needs a candidate now may need another one then: the
    kernel's part of a driver has one package of firmware for each version, with the version in its name.
    """
    if not candidates:
        return []
    limit = set(candidates)
    coming = ["%s=%s" % item for item in sorted((targets or {}).items()) if item[0] not in limit]

    def would(arguments, **verb):
        try:
            return ask.simulate(arguments, **verb)
        except apt.AptError:
            return None

    def goes_alone(names):
        alone = would(sorted(names), verb="remove")
        if alone and not alone[0] and set(alone[1]) <= limit:
            return True
        then = would(coming + ["%s-" % name for name in sorted(names)]) if coming else None
        return bool(then) and set(then[1]) <= limit

    if goes_alone(candidates):
        return sorted(candidates)
    # What another candidate needs can go once that one goes, so go round until nothing more is found.
    chosen, growing = [], True
    while growing:
        growing = False
        for name in candidates:
            if name not in chosen and goes_alone([*chosen, name]):
                chosen.append(name)
                growing = True
    return sorted(chosen)


def similar(ask, name):
    """What the archives have instead of a name they do not know: the same name with other digits, else one with letters like these."""
    match = re.match(r"(\D+)\d.*?(-[a-z][\w-]*)?$", name)
    if not match:
        return []
    tail = match.group(2) or ""
    known = ask.names_like(match.group(1))
    names = [other for other in known if other.endswith(tail) and re.fullmatch(re.escape(match.group(1)) + r"[\d.+~a-z-]*?\d[^-]*" + re.escape(tail), other)]
    found = ask.versions(names or difflib.get_close_matches(name, known, SHOWN, 0.9))
    return ["%s=%s" % (other, version) for other in sorted(found) for version in found[other]][:SHOWN]


def stages(ask, slices, packages, targets, leaving):
    """Simulate the whole stack, and each slice with those before it: (installs, removed, [(slice, {name: row})]).

    Where slices cannot be had without those behind them, as on a node whose dependencies are broken, the whole stack comes with the first of them.
    """
    owners = {request["name"]: part["name"] for part in slices for request in part["requests"]}
    arrivals, done, everything = [], set(), {part["name"] for part in slices}

    def simulate(parts):
        def mine(name):
            return parts == everything or (owners.get(name) or closure.owner(slices, name, packages[name].get("source"))) in parts

        return ask.simulate(["%s=%s" % item for item in sorted(targets.items()) if mine(item[0])] + ["%s-" % name for name in leaving if mine(name)])

    for part in slices:
        done.add(part["name"])
        try:
            installs, removed = simulate(done)
        except apt.AptError as error:
            try:
                installs, removed = simulate(everything)
            except apt.AptError as whole:
                # The part's own words may be about what the others bring.
                unmet = re.search(r"^([a-z0-9][a-z0-9.+:-]*) : ", str(whole), re.MULTILINE)
                name = unmet.group(1) if unmet else part["name"]
                raise Refused([{"code": "transaction_leaves_lock", "name": name,
                                "message": "apt finds no way to install exactly this stack's %s:\n%s" % (owners.get(name, part["name"]), whole),
                                }]) from error
        arrivals.append((part["name"], installs))
    return installs, removed, arrivals


def explain(ask, slices, problems, policies):
    """Say of missing versions what the archives have instead, and why it does not count."""
    wanted = {request["name"]: request["version"] for part in slices for request in part["requests"]}
    for problem in problems:
        missing = {name: policies[name] for name in problem["missing"] if name in policies}
        # Where an archive gave a set up, some of its names are gone, and others lead to what came after, at the very version.
        asked = {request["name"]: policies[request["name"]] for part in slices if part["name"] == problem["component"]
                 for request in part["requests"] if request["name"] in policies}
        leading = {name: row for name, row in ask.show({name: found[0] for name, found in apt.existing(asked).items()}).items()
                   if row.get("leads_to")}
        away = {name: version for name, found in apt.kept_away(missing).items() for version in found if re.fullmatch(wanted[name], version)}
        files = {name: apt_pins.forbidding(ask.pins(), name) for name in away}
        if any(files.values()):
            name = min(name for name, found in files.items() if found)
            problem.update(code="pinned_away", name=name)
            problem["message"] += "; there is %s=%s, but %s keeps it away" % (name, away[name], ", ".join(files[name]))
        elif leading:
            name = min(leading)
            problem.update(code="candidate_is_transitional", name=name)
            problem["message"] += "; " + _leads(name, leading[name])
        else:
            problem["available"] = problem["available"] or similar(ask, problem["name"])
            problem["message"] += "; they have: %s" % (", ".join(problem["available"]) or "no such package")
    return problems


def _leads(name, row):
    return "%s %s is a transitional package that only leads to %s" % (name, row["version"], row["leads_to"])


def transitional(slices, rows, metadata):
    """Objections to packages asked for by name that have no content and lead to another one."""
    asked = {request["name"] for part in slices for request in part["requests"]}
    return [{"code": "candidate_is_transitional", "name": row["name"], "message": _leads(row["name"], metadata[row["name"]])}
            for row in rows if row["name"] in asked and row["change"] != "keep" and metadata.get(row["name"], {}).get("leads_to")]


def strangers_of(slices, packages, policies):
    """Installed packages whose version comes from an origin that a slice keeps away, and from no other; away() pins have to be set."""
    away, there = apt.kept_away(policies), apt.existing(policies)
    have = {name: closure.version_of(packages.get(name)) for name in away}
    return {name for name in away if apt_pins.is_away(slices, name) and have[name] in away[name] and have[name] not in there.get(name, [])}


def staying(rows, strangers):
    """Objections to strangers that stay: parts of two origins overwrite each other's files, or do not work together."""
    return [{"code": "package_origin_differs", "name": row["name"],
             "message": "%s %s is from another origin than the stack's %s, which has nothing to put in its place; "
             "remove it, and the next run goes on" % (row["name"], row["version"], row["component"])}
            for row in rows if row["managed"] and row["change"] == "keep" and row["name"] in strangers]


def resolve(ask, slices, packages, own_pins, theirs=None):
    """The joint closure of all slices: {closure, removed, targets}. Raises Refused with every problem found."""
    ask.prefer("\n".join(apt_pins.away(slices)))
    managed = closure.owned(slices, packages)
    members = members_of(slices, set(ask.names_like("")) | set(packages)) if any(part.get("one_names") for part in slices) else {}
    asked = [request["name"] for part in slices for request in part["requests"]]
    policies = ask.policies(set(managed) | set(asked) | set(members))
    available, strangers = apt.existing(policies), strangers_of(slices, packages, policies)
    targets, problems = targets_of(slices, packages, available, own_pins, strangers)
    if problems:
        raise Refused(explain(ask, slices, problems, policies))
    follow, gone = companions_of(slices, packages, available, own_pins, targets, strangers=strangers)
    # What is empty at its new version leads to another set.
    moving = {name: version for name, version in follow.items() if own_pins.get(name) != version}
    empty = {name for name, row in ask.show(moving).items() if row.get("leads_to")}
    follow = {name: version for name, version in follow.items() if name not in empty}
    ask.prefer(apt_pins.while_resolving(slices, dict(beside(members, available, own_pins, dict(follow, **targets)), **dict(follow, **targets))))
    candidates = set(gone) | empty
    for part in slices:
        candidates |= set(closure.leftovers(part, packages))
    candidates -= set(targets)
    leaving = removable(ask, sorted(candidates), dict(follow, **targets))
    targets.update({name: version for name, version in follow.items() if name not in leaving})
    installs, removed, arrivals = stages(ask, slices, packages, targets, leaving)
    metadata = ask.show({name: row["version"] for name, row in installs.items()})
    for name, row in installs.items():
        metadata.setdefault(name, {})["origin"] = row["origin"]
    after = {name: package for name, package in packages.items() if name not in removed}
    rows = closure.close(slices, after, {name: row["version"] for name, row in installs.items()}, metadata)
    rows = closure.place(rows, slices, arrivals)
    problems = closure.objections(slices, packages, rows, removed, candidates, theirs, targets) + check_space(rows, metadata)
    problems += transitional(slices, rows, metadata) + staying(rows, strangers)
    if problems:
        raise Refused(problems)
    return {"closure": rows, "removed": sorted(removed), "targets": targets}
