# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The joint closure of a stack's slices on dnf; what is pure of it, resolving.py has.

Exactness: every available version of a managed name but the wanted one is excluded before dnf resolves, as is what obsoletes a wanted
package; so dnf finds exactly this, or nothing. ask is a dnf.Dnf, limits a dnf_user.Limits.
"""
from __future__ import annotations

import fnmatch
import os
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import closure, resolving, versionlocks, versions_rpm
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import PackageError, Refused, check_space, read_text
from ansible_collections.lockstep.gpu.plugins.module_utils.dnf import Dnf, key_of, metadata, open_base, version_of
from ansible_collections.lockstep.gpu.plugins.module_utils.dnf_user import Limits

PLUGIN = "python3-dnf-plugin-versionlock"
compare = versions_rpm.compare


def wanted_streams(slices):
    """["name:stream"] that the slices need, each once."""
    return sorted({part["stream"] for part in slices if part.get("stream")})


def open_dnf(system, slices, locks, aside=None):
    """(Dnf, Limits) of a system, with the streams of the slices enabled in memory. locks: versionlocks.foreign().

    Raises Refused or PackageError.
    """
    names = {request["name"] for part in slices if part.get("installonly") for request in part["requests"]}
    ask = Dnf(open_base(system, sorted(names), aside))
    try:
        problems = [problem for problem in (stream_problem(ask, spec) for spec in wanted_streams(slices)) if problem]
        if problems:
            raise Refused(problems)
        for spec in wanted_streams(slices):
            ask.enable(spec)
        return ask, Limits(ask, system, locks)
    except Exception:
        ask.close()
        raise


def stream_problem(ask, spec):
    """Why a module stream cannot be enabled: a problem, or None."""
    name, _colon, stream = spec.partition(":")
    now = ask.stream_of(name)
    if not now or stream not in ask.streams(name):
        return {"code": "locked_version_gone_from_archive", "name": spec, "available": ["%s:%s" % (name, one) for one in ask.streams(name)],
                "message": "no repository has the module stream %s; there are: %s" % (spec, ", ".join(ask.streams(name)) or "none of this module")}
    if now[0] == "disabled":
        return {"code": "module_stream_not_enabled", "name": spec, "message": "the module %s is disabled on this node, by /etc/dnf/modules.d/%s.module; "
                "run 'dnf module reset %s' if that is no longer meant" % (name, name, name)}
    return None


def explain(ask, limits, slices, problems):
    """Say of missing versions who hides them, or what the repositories have instead."""
    wanted, found = {request["name"]: request["version"] for part in slices for request in part["requests"]}, []
    for problem in problems:
        hidden, free = limits.problems({name: [
            version for query in (limits.hidden, limits.filtered) for version in ask.versions([name], query).get(name, [])
            if re.fullmatch(wanted[name], version)] for name in problem["missing"]})
        found += [dict(row, component=problem["component"]) for row in hidden]
        if free and not hidden:
            problem["available"] = problem["available"] or resolving.similar(ask, problem["name"])
            problem["message"] += "; they have: %s" % (", ".join(problem["available"]) or "no such package")
            found.append(problem)
    return found


def restrict(ask, slices, targets, leaving=()):
    """Exclude every version of the managed names that must not come, and what would replace the right ones."""
    unwanted, right = [], []
    asked = {request["name"] for part in slices for request in part["requests"]}
    for package in ask.query():
        key, version = key_of(package), version_of(package)
        if key in targets:
            (unwanted if version != targets[key] else right).append(package)
            continue
        for part in slices:
            if away(part, package):
                unwanted.append(package)
            guarded = any(fnmatch.fnmatchcase(package.name, glob) for glob in part.get("guard") or [])
            if guarded and not guarded_version(part, version):
                unwanted.append(package)
            elif closure.belongs(part, package.name, package.source_name):
                rival = package.name in (part.get("rivals") or []) and package.name not in asked
                if rival or closure.one_version(part, package.name, package.source_name) and not re.fullmatch(part["pattern"], version):
                    unwanted.append(package)
    staying = [package for key, found in ask.installed().items() for package in found
               if key not in leaving and closure.owner(slices, key, package.source_name)]
    kept = {package.name for package in right}
    unwanted += [package for package in ask.obsoleters([*right, *[one for one in staying if one.name not in kept]])
                 if package.name not in kept or targets.get(key_of(package)) != version_of(package)]
    ask.exclude(unwanted)


def away(part, package):
    """Whether a slice keeps this package's repository off its name."""
    return any(fnmatch.fnmatchcase(package.reponame, row["repo"]) and any(fnmatch.fnmatchcase(package.name, glob) for glob in row["packages"])
               for row in part.get("away") or [] if row.get("repo"))


def guarded_version(part, version):
    """Whether a version is the slice's, as the lock file says it."""
    have = versions_rpm.parse(version)
    return any(str(have.epoch) == epoch and fnmatch.fnmatchcase(have.version, number) and fnmatch.fnmatchcase(have.release, release)
               for epoch, number, release in versionlocks.version_globs(part["pattern"]))


def doubles(ask, slices, wanted, begun):
    """{key: [packages to end]} of managed packages that are there twice, and of those that a killed transaction of ours left twice.

    wanted, begun: {key: version}, what is to be there, and what that transaction was about to install.
    """
    found, side_by_side = {}, {key_of(package) for package in ask.base._get_installonly_query().installed()}
    for key, packages in ask.installed().items():
        if len(packages) > 1 and key not in side_by_side and (key in begun or closure.owner(slices, key, packages[0].source_name)):
            # What is wanted stays; else what was coming; else the newest.
            best = next((one for version in (wanted.get(key), begun.get(key)) for one in packages if version_of(one) == version), packages[0])
            found[key] = [package for package in packages if package is not best]
    return found


def needs_plugin(ask, system):
    """Whether version locks have no effect yet, as dnf's plugin is not there. Raises Refused where it is switched off."""
    conf = ask.base.conf
    if not conf.plugins:
        raise Refused([plugin_problem("dnf's plugins are switched off (plugins=0 in dnf.conf), so no version lock has any effect")])
    for folder in conf.pluginconfpath:
        text = read_text(os.path.join(folder, "versionlock.conf")) or ""
        if re.search(r"^\s*enabled\s*=\s*(0|no|false|off)\s*$", text, re.MULTILINE | re.IGNORECASE):
            raise Refused([plugin_problem("the version lock plugin is switched off in %s/versionlock.conf" % folder)])
        other = re.search(r"^\s*locklist\s*=\s*(\S+)", text, re.MULTILINE)
        if other and other.group(1) not in (versionlocks.LOCKS_FILE, system.path(versionlocks.LOCKS_FILE)):
            raise Refused([plugin_problem("the version lock plugin reads %s, not %s" % (other.group(1), versionlocks.LOCKS_FILE))])
    return not any(os.path.exists(os.path.join(folder, "versionlock.py")) for folder in conf.pluginpath)


def plugin_problem(message):
    return {"code": "versionlock_plugin_missing", "name": PLUGIN, "message": message}


def plugin_target(ask, system):
    """{name: version} of the version lock plugin where it has to be installed first; without it no lock has any effect. Raises Refused."""
    if not needs_plugin(ask, system):
        return {}
    versions = ask.versions([PLUGIN]).get(PLUGIN)
    if not versions:
        raise Refused([plugin_problem("dnf has no version lock plugin on this node, and no repository has %s" % PLUGIN)])
    return {PLUGIN: versions[0]}


def removable(ask, targets, candidates, double):
    """Those candidates that can go without taking anything else along, once the targets are there; dnf is asked, not guessed."""
    def goes(names):
        try:
            return set(ask.simulate(targets, names, double=double).removed) <= set(candidates)
        except PackageError:
            return False

    if not candidates or goes(candidates):
        return sorted(candidates)
    chosen, growing = [], True
    while growing:
        growing = False
        for name in sorted(candidates):
            if name not in chosen and goes([*chosen, name]):
                chosen.append(name)
                growing = True
    return sorted(chosen)


def solved(ask, limits, slices, targets, leaving, double):
    """The Outcome of the whole stack. Raises Refused, naming what the user hides where that is what is missing."""
    try:
        return ask.simulate(targets, leaving, double=double)
    except PackageError as error:
        words = str(error)
    ask.only_own_excludes()
    try:
        outcome = ask.simulate(targets, leaving, double=double)
        hidden = limits.problems({key: [version_of(package)] for key, package in outcome.installs.items()})[0]
    except PackageError:
        hidden = []
    modular = sorted(set(re.findall(r"package (\S+) .*is filtered out by modular filtering", words)))
    problems = hidden or [
        {"code": "module_stream_not_enabled" if modular else "transaction_leaves_lock", "name": modular[0] if modular else slices[-1]["name"],
         "message": "dnf finds no way to install exactly this stack:\n" + words}]
    raise Refused(problems)


def stages(ask, slices, packages, targets, leaving, double):
    """What each slice brings with those before it: [(slice, {key: package})]. Where it does not stand alone, the next one brings it."""
    owners = {request["name"]: part["name"] for part in slices for request in part["requests"]}
    arrivals, done = [], set()
    for part in slices[:-1]:
        done.add(part["name"])
        mine = {name: version for name, version in targets.items()
                if name == PLUGIN or (owners.get(name) or closure.owner(slices, name, packages.get(name, {}).get("source"))) in done}
        try:
            outcome = ask.simulate(mine, [name for name in leaving if closure.owner(slices, name, packages[name].get("source")) in done], double=double)
        except PackageError:
            continue
        arrivals.append((part["name"], outcome.installs))
    return arrivals


def resolve(ask, limits, system, slices, packages, own_pins, theirs, begun):
    """The joint closure of all slices: {closure, removed, targets}. Raises Refused with every problem found.

    packages: as pinning_dnf.state() says; begun: its journal().
    """
    packages = {name: dict(package, status="installed") for name, package in packages.items()}
    asked = [request["name"] for part in slices for request in part["requests"]]
    available = ask.versions(set(closure.owned(slices, packages)) | set(asked))
    targets, problems = resolving.targets_of(slices, packages, available, own_pins, (), compare)
    if problems:
        raise Refused(explain(ask, limits, slices, problems))
    follow, gone = resolving.companions_of(slices, packages, available, own_pins, targets, compare)
    candidates = (set(gone) | {name for part in slices for name in closure.leftovers(part, packages)}) - set(targets)
    targets.update({name: version for name, version in follow.items() if name not in candidates}, **plugin_target(ask, system))
    restrict(ask, slices, targets, candidates)
    double = doubles(ask, slices, targets, begun)
    for key, ending in double.items():
        packages[key]["version"] = next(version for version in closure.versions_of(packages[key]) if version not in map(version_of, ending))
    leaving = removable(ask, targets, candidates, double)
    outcome = solved(ask, limits, slices, targets, leaving, double)
    meta = {key: metadata(package) for key, package in outcome.installs.items()}
    after = {name: package for name, package in packages.items() if name not in outcome.removed}
    rows = closure.close(slices, after, {key: version_of(package) for key, package in outcome.installs.items()}, meta, compare)
    rows = closure.place(rows, slices, stages(ask, slices, packages, targets, leaving, double))
    # A lock that lets the wanted version through is no obstacle; dnf does not let locks keep a package from being removed.
    kept = {name: remedy for name, remedy in theirs.items() if name in outcome.removed}
    problems = closure.objections(slices, packages, rows, outcome.removed, candidates, kept) + check_space(rows, meta, "/var/cache/dnf")
    if problems:
        raise Refused(problems)
    return {"closure": rows, "removed": outcome.removed, "targets": targets}
