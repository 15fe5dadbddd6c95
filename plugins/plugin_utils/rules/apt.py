# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about apt beyond the plan: candidates, pins, renamed and transitional packages, failed runs, locks."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from . import apt_archive, claimed
from .context import Context, Hit, Row, listed

WAIT_S = 600
KEYRING = "cuda-keyring"
# Packages that have to move in one call: apt takes the newest of each that carries no version.
TOOLKIT_SET = ("nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1")
_TOOLKIT_ISSUE = "https://github.com/NVIDIA/nvidia-container-toolkit/issues/1100"


def _run(ctx: Context) -> Row:
    return claimed.manager(ctx).get("run") or {}


def apt_locked(ctx: Context) -> t.Iterator[Hit]:
    """Nobody else installs packages at the same time."""
    # site waits by itself for whoever installs at the moment.
    rows = _run(ctx).get("locks") if ctx.purpose == "install" else claimed.manager(ctx).get("locks")
    for row in rows or []:
        who = "%s (%d)" % (row["process"], row["pid"]) if row["process"] and row["pid"] else "process %d" % row["pid"] if row["pid"] else "another process"
        path = row["path"] or "the package manager's lock"
        yield Hit(who if row["pid"] else path, "%s holds %s: what it does to the packages is not known until it has finished." % (who, path),
                  do=(step("wait_for_lock", path, timeout_s=WAIT_S, holder=who), step("retry")))


def keyring_newer(ctx: Context) -> t.Iterator[Hit]:
    """A repository's keyring package is not asked to become older."""
    have = (ctx.packages.get(KEYRING) or {}).get("version")
    result = claimed.manager(ctx).get("module_result") or {}
    asked = re.search(r"cuda-keyring_([0-9][^_/\s]*)_all\.deb", "%s %s" % (result.get("args"), result.get("msg")))
    refused = [{"name": name, "have": None, "want": (_run(ctx).get("asked") or {}).get(name)} for name in _refused(ctx) if name == KEYRING]
    for row in [*(_run(ctx).get("later") or []), *refused]:
        name = row["name"] or (KEYRING if asked or have else None)
        want = row["want"] or (asked.group(1) if asked else None)
        if name and re.search(r"keyring", name):
            now = row["have"] or have
            yield Hit("%s %s" % (name, " > ".join(filter(None, (now, want)))), "%s is installed at a later version%s than the one asked for%s; the later one "
                      "has the present key and stays." % (name, " (%s)" % now if now else "", " (%s)" % want if want else ""))
        elif not name:
            yield Hit("a later version is installed", "A package file is older than what is installed; where it is a keyring, the later one has the present "
                      "key and stays.", context="unnamed")


def transitional_package_installed(ctx: Context) -> t.Iterator[Hit]:
    """No package of the claimed branch is one that only leads to another."""
    for name, row in sorted(ctx.packages.items()):
        leads = claimed.leads_elsewhere(ctx, name, row.get("version"))
        if not leads:
            continue
        branch, lock = claimed.branch_in(ctx, name), claimed.locked(ctx, "driver")
        asked = bool(lock and branch == knowledge.branch_of(lock))
        shown = "branch %s" % leads if leads.isdigit() else leads
        yield Hit(claimed.plain(name), "%s %s is a transitional package: it has no content and leads to %s." % (name, row.get("version"), shown),
                  context="default" if asked else "leftover", do=_not_installable(branch) if asked else ())


def _not_installable(branch: t.Optional[str]) -> t.Tuple[Row, ...]:
    return (step("fail_preflight", "%s is not installable from this archive; change the lock or the source" % branch),)


def candidate_is_transitional(ctx: Context) -> t.Iterator[Hit]:
    """What apt would install of the claimed branch has content."""
    policies = apt_archive.policies(ctx)
    for name, policy in sorted(policies.items()):
        leads = claimed.leads_elsewhere(ctx, name, policy["candidate"])
        if leads and policy["candidate"] != policy["installed"] and not claimed.other_branch(ctx, name):
            yield _leading(ctx, name, policy["candidate"], leads)
    for name, rows in sorted((claimed.manager(ctx).get("show") or {}).items()):
        # Without a policy the newest is the candidate.
        leads = claimed.leads_elsewhere(ctx, name, rows[0]["version"]) if rows and name not in policies and name not in ctx.packages else None
        if leads and claimed.product(ctx, name) and not claimed.other_branch(ctx, name):
            yield _leading(ctx, name, rows[0]["version"], leads)
    for name, row in sorted(claimed.planned(ctx).items()):
        leads = claimed.leads_elsewhere(ctx, name, row.get("version"))
        if leads and name not in policies and not claimed.other_branch(ctx, name):
            yield _leading(ctx, name, row["version"], leads)


def _leading(ctx: Context, name: str, version: str, leads: str) -> Hit:
    shown = "branch %s" % leads if leads.isdigit() else leads
    return Hit("%s %s" % (name, version), "The candidate of %s is %s, a transitional package that leads to %s." % (name, version, shown),
               do=_not_installable(claimed.branch_in(ctx, name) or name))


def candidate_leaves_origin(ctx: Context) -> t.Iterator[Hit]:
    """The candidates of installed packages come from the archive that the packages came from."""
    for (here, there), rows in sorted(apt_archive.leaving(ctx).items()):
        name, policy = rows[0]
        right = apt_archive.fitting(ctx, name, policy)
        stay = next((row["version"] for row in right), policy["installed"])
        if not stay:
            continue
        told = "; ".join("%s %s -> %s" % (one, table["installed"] or "not installed", table["candidate"]) for one, table in rows)
        yield Hit("%s -> %s" % (here, there), "apt would take packages of %s instead of %s's: %s." % (there, here, told), apt_archive.PREFERENCES,
                  do=(apt_archive.pin(ctx, [one for one, table in rows], stay, "> %d" % max(apt_archive.highest(table) for one, table in rows)),))


def pinned_away(ctx: Context) -> t.Iterator[Hit]:
    """No pin keeps the claimed version from being the candidate."""
    left = {name for rows in apt_archive.leaving(ctx).values() for name, policy in rows if policy["installed"]}
    for name, policy in sorted(apt_archive.policies(ctx).items()):
        rows = apt_archive.fitting(ctx, name, policy)
        candidate = apt_archive.row_of(policy, policy["candidate"])
        if not rows or policy["candidate"] in [row["version"] for row in rows] or name in left:
            continue
        best, pins = rows[0], _covering(ctx, name)
        away = (best["priority"] or 0) < ((candidate or {}).get("priority") or 0) or (best["priority"] or 0) < 0 or policy["pin"] not in (None, best["version"])
        if away:
            yield Hit("%s %s" % (name, best["version"]), "%s %s has priority %s and is not the candidate, %s is%s%s." % (
                name, best["version"], best["priority"], policy["candidate"] or "nothing",
                " with %s" % candidate["priority"] if candidate else "", "; pins: %s" % pins if pins else ""), apt_archive.PREFERENCES,
                do=(step("add_apt_pin", name, version=best["version"], priority="> %d" % max(apt_archive.highest(policy), 1000)),
                    step("install_exact", "%s=%s" % (name, best["version"]))))
    yield from _forbidden(ctx)
    excluded = claimed.excluded(ctx)
    if excluded:
        patterns = " ".join(claimed.exclusions(ctx))
        why = "exclude=%s" % patterns if patterns else "an exclude= of its configuration or a version lock"
        yield Hit(listed(excluded), "dnf leaves out %s because of %s; the packages are in the repository." % (listed(excluded), why),
                  do=(step("manual", "take %s out of exclude= or out of the version locks, whichever it is" % listed(excluded)),))


def _covering(ctx: Context, name: str) -> str:
    """The pins that are for a package, as one text."""
    return "; ".join("%s (%s, %d) in %s" % (row["package"], row["pin"], row["priority"], row["file"]) for row in claimed.manager(ctx).get("pins") or []
                     if "*" not in apt_archive.names_of(row) and apt_archive.covers(row, name))


def _forbidden(ctx: Context) -> t.Iterator[Hit]:
    """Pins below zero that are for the claimed version, or for the claimed archive, where no policy shows what they do."""
    source = (ctx.stack.get("driver") or {}).get("source")
    for row in claimed.manager(ctx).get("pins") or []:
        if row["priority"] >= 0:
            continue
        of = apt_archive.pinned_product(ctx, row)
        lock = claimed.locked(ctx, of)
        if not lock or any(apt_archive.covers(row, name) for name in apt_archive.policies(ctx)):
            continue
        version = re.fullmatch(r"version\s+(?:\d+:)?([\d.]*\d).*", str(row["pin"]))
        vendor = bool(re.search(r"nvidia", str(row["pin"]), re.IGNORECASE))
        distribution = bool(re.search(r"ubuntu|debian", str(row["pin"]), re.IGNORECASE))
        hit = apt_archive.agrees(version.group(1), lock) if version else source == "nvidia" and vendor or source == "distribution" and distribution
        if hit:
            yield Hit("%s %s" % (row["package"], lock), "%s forbids %s (%s, priority %d), which the claim's %s %s is." % (
                row["file"], row["package"], row["pin"], row["priority"], str(of).replace("_", " "), lock), apt_archive.PREFERENCES,
                do=(step("add_apt_pin", str(row["package"]), version=lock + "*", priority="1001"),))


def locked_version_gone_from_archive(ctx: Context) -> t.Iterator[Hit]:
    """An archive of the node has the claimed version of each package that is asked for."""
    renamed = {old for old, _new, _source in renames(ctx)}
    # A stream has the modules of its own flavour only; the others that are listed are of other branches.
    listed_names = {name for name in claimed.manager(ctx).get("available") or {}
                    if not claimed.of_one_kernel(name) and not claimed.other_module(ctx, name)}
    for name in sorted({*apt_archive.policies(ctx), *(claimed.manager(ctx).get("madison") or {}), *listed_names}):
        of = claimed.product(ctx, name)
        lock, there = claimed.locked(ctx, of), claimed.offered(ctx, name) or []
        versions = [claimed.version_of(ctx, name, version) for version in there]
        if not lock or not there or name in renamed or claimed.other_branch(ctx, name) or not any(versions) or not claimed.one_version(ctx, name):
            continue
        if not any(claimed.fits(version, lock) for version in versions) and not claimed.leads_elsewhere(ctx, name, there[0]):
            yield _gone(ctx, name, lock, there)
    yield from _nowhere(ctx, renamed)
    for row in _run(ctx).get("missing") or []:
        name, version = row["name"], row["version"]
        # What modules need of a kernel, headers_unavailable tells.
        needed = claimed.product(ctx, name) == "kernel" and re.search(r"-(devel|headers)", name)
        if name in renamed or not version or needed or not claimed.product(ctx, name) or claimed.offered(ctx, name):
            continue
        lock = claimed.locked(ctx, claimed.product(ctx, name))
        if not lock or claimed.fits(claimed.version_of(ctx, name, version.rstrip("*")), lock) is not False:
            yield _gone(ctx, name, version, [])


def _nowhere(ctx: Context, renamed: t.Set[str]) -> t.Iterator[Hit]:
    """Packages of the claimed branch, or of the claimed kernel, of which archives have no version at all."""
    names = {row["name"] for row in _run(ctx).get("missing") or [] if not row["version"]}
    names |= {name for name, policy in apt_archive.policies(ctx).items() if not policy["table"] and not policy["installed"]}
    kernel = (ctx.stack.get("kernel") or {}).get("release")
    for name in sorted(names - renamed):
        lock = claimed.locked(ctx, claimed.product(ctx, name))
        if lock and claimed.branch_in(ctx, name) == knowledge.branch_of(lock):
            yield _gone(ctx, name, lock, [])
        elif kernel and re.fullmatch(r"linux-(image|modules)(-unsigned)?-%s" % re.escape(kernel), name):
            yield _gone(ctx, name, kernel, [])


def _gone(ctx: Context, name: str, version: str, there: t.List[str]) -> Hit:
    """The version may still be installed: then it cannot be installed again."""
    have = (ctx.packages.get(name) or {}).get("version") or (apt_archive.policies(ctx).get(name) or {}).get("installed")
    installed = bool(have and claimed.fits(claimed.version_of(ctx, name, have), version))
    offers = "they have %s" % ", ".join(there[:8]) if there else "nothing tells what they have"
    words = "the installed %s cannot be installed again, nor on another node" % have if installed else offers
    return Hit("%s=%s" % (name, version), "The archives of the node do not have %s %s; %s." % (name, version, words),
               context="installed" if installed else "default",
               do=() if installed else (step("fail_preflight", "lock a version that an archive has (%s), or add an archive that has %s" % (offers, version)),))


def renames(ctx: Context) -> t.List[t.Tuple[str, str, t.Optional[str]]]:
    """(asked name, present name, source) of packages that are to be had under another name only."""
    run, found = _run(ctx), {}
    for old, new in sorted((run.get("replaced") or {}).items()):
        same = [name for name in new if claimed.product(ctx, name)]
        if same and (claimed.product(ctx, old) or same):
            found[old] = (same[0], None)
    policies = apt_archive.policies(ctx)
    unknown = {row["name"] for row in run.get("missing") or []} | {name for name, row in policies.items() if not row["candidate"] and not row["installed"]}
    unknown |= {str(row["package"]) for row in claimed.manager(ctx).get("problems") or [] if row.get("reason") == "no_match"}
    unknown |= {name for name, rows in (claimed.manager(ctx).get("madison") or {}).items() if not rows}
    for row in ctx.facts["renames"]["renames"]:
        for old in sorted(unknown - set(found)):
            rpm = claimed.manager(ctx).get("kind") == "dnf"
            # What has no candidate under the old name is not in the distribution's archive either.
            if (row["archive"] == "any" or (row["archive"] == "rpm") == rpm) and re.fullmatch(row["old"], old):
                found[old] = (re.sub(row["old"], lambda match, new=row["new"]: match.expand(new), old), row["source"])
    return [(old, new, source) for old, (new, source) in sorted(found.items()) if old != new]


def package_renamed(ctx: Context) -> t.Iterator[Hit]:
    """What is asked for by name is to be had under that name."""
    for old, new, source in renames(ctx):
        lock = claimed.locked(ctx, claimed.product(ctx, new) or claimed.product(ctx, old))
        tried = next((row["version"] for row in _run(ctx).get("missing") or [] if row["name"] == old and row["version"]), None)
        if tried and lock and claimed.fits(claimed.version_of(ctx, new, tried), lock) and "*" not in tried and not claimed.exact(ctx, new, lock):
            yield Hit("%s -> %s" % (old, new), "%s is to be had as %s now; no archive has a package of the old name." % (old, new), source,
                      do=(step("install_exact", "%s%s%s" % (new, "-" if claimed.manager(ctx).get("kind") == "dnf" else "=", tried)),))
            continue
        yield Hit("%s -> %s" % (old, new), "%s is to be had as %s now; no archive has a package of the old name." % (old, new), source,
                  do=(step("install_exact", claimed.target(ctx, new, lock) if lock else new),))


def package_held_by_user(ctx: Context) -> t.Iterator[Hit]:
    """A change of held packages says that it means them."""
    if not _run(ctx).get("held_changed"):
        return
    claims = [of for of in claimed.VERSIONED if claimed.locked(ctx, of)]
    asked = _run(ctx).get("asked") or {}
    held = claimed.manager(ctx).get("holds") or _run(ctx).get("held") or []
    names = sorted({claimed.plain(name) for name in (*held, *asked) if claimed.product(ctx, name) in claims}) or sorted(asked)
    moves = [step("install_exact", _meant(ctx, name, asked), allow_change_held_packages=True) for name in names]
    yield Hit(listed(names) or "held packages", "apt refused to change held packages: %s." % (listed(names) or "it does not say which"), context="refused",
              do=(*moves, *(claimed.keep(ctx, name) for name in names)))


def downgrade_refused(ctx: Context) -> t.Iterator[Hit]:
    """A change to an older version says that it means it."""
    names, asked = _refused(ctx), _run(ctx).get("asked") or {}
    # A keyring that is newer is right as it is.
    if not _run(ctx).get("downgrade_refused") or names == [KEYRING]:
        return
    names = [name for name in names if name != KEYRING]
    yield Hit(listed(names) or "packages", "apt refused to install older versions than it has: %s." % (listed(names) or "it does not say of what"),
              do=tuple(step("downgrade_exact", _meant(ctx, name, asked), allow_downgrade=True) for name in names))


def _refused(ctx: Context) -> t.List[str]:
    """The packages that apt was to make older: those that were asked for, and the claim's."""
    if not _run(ctx).get("downgrade_refused"):
        return []
    named = {row["name"] for row in (claimed.manager(ctx).get("transaction") or {}).get("downgrade") or []}
    return sorted(set(_run(ctx).get("asked") or {}) | {name for name in named if claimed.locked(ctx, claimed.product(ctx, name))}) or sorted(named)


def _meant(ctx: Context, name: str, asked: t.Mapping[str, str]) -> str:
    lock = claimed.locked(ctx, claimed.product(ctx, name))
    return claimed.target(ctx, name, lock) if lock else "%s=%s" % (name, asked[name]) if name in asked else name


def exact_set_needed(ctx: Context) -> t.Iterator[Hit]:
    """apt could put the claimed set together: every package of it was named with its version."""
    names: t.Dict[str, str] = {}
    for row in _run(ctx).get("unmet") or []:
        of = claimed.product(ctx, row["on"])
        if of not in claimed.VERSIONED or row["kind"] not in ("Depends", "PreDepends") or not row["need"] or not _would_be_other(row):
            continue
        # NCCL's headers follow its library, whose build the CUDA release decides (nccl_dev_runtime_split).
        lock = claimed.locked(ctx, of) or (None if of == "nccl" else claimed.version_of(ctx, row["on"], row["need"]))
        if lock and claimed.fits(claimed.version_of(ctx, row["on"], row["need"]), lock):
            others = TOOLKIT_SET if of == "container_toolkit" else (row["package"], row["on"])
            for name in others:
                if claimed.product(ctx, name) == of:
                    names[name] = claimed.exact(ctx, name, lock) or row["need"]
    for name, policy in apt_archive.policies(ctx).items():
        # Who asked apt about a package meant it for the set.
        right = apt_archive.fitting(ctx, name, policy)
        if right and name not in names and claimed.product(ctx, name) in {claimed.product(ctx, other) for other in names}:
            names[name] = right[0]["version"]
    if names and not conflicts(ctx):
        every = " ".join("%s=%s" % item for item in sorted(names.items()))
        yield Hit(every, "apt takes the newest version of each package that is not named with one, and then finds no solution: %s belong together." % every,
                  _TOOLKIT_ISSUE if set(names) & set(TOOLKIT_SET) else None,
                  do=(step("install_exact", every), *(claimed.keep(ctx, name) for name in sorted(names))))
    lock = claimed.locked(ctx, "container_toolkit")
    needs = [row for row in claimed.manager(ctx).get("problems") or [] if row["reason"] == "requires" and row["package"] in TOOLKIT_SET
             and lock and claimed.fits(claimed.version_of(ctx, row["package"], row["version"]), lock)
             and (row["what"] or "").split(" ")[0] in TOOLKIT_SET]
    if needs:
        every = " ".join("%s-%s" % (name, needs[0]["version"]) for name in TOOLKIT_SET)
        yield Hit(every, "dnf takes the newest version of each package that is not named with one, and then finds no solution: %s %s needs %s." % (
            needs[0]["package"], needs[0]["version"], needs[0]["what"]), _TOOLKIT_ISSUE,
            do=(step("install_exact", every), *(claimed.keep(ctx, name) for name in TOOLKIT_SET)))


def _would_be_other(row: Row) -> bool:
    """Whether apt would take, or keep, another version than the one needed; of a range it does not always tell which."""
    # apt 3 says no reason at all.
    if row["have"]:
        return bool(row["have"] != row["need"])
    return row["why"] is None or "is not going to be installed" in row["why"] or row["relation"] != "="


def conflicts(ctx: Context) -> t.List[Row]:
    """The packages of two driver sets that exclude each other in a failed run: {package, on}."""
    rows = [row for row in _run(ctx).get("unmet") or [] if row["kind"] in ("Conflicts", "Breaks")
            and claimed.product(ctx, row["package"]) in ("driver", "fabric") and not claimed.other_flavour(ctx, row)]
    for row in _run(ctx).get("overwrite") or []:
        new, old = str(row["package"]), str(row["owner"])
        if claimed.product(ctx, old) in ("driver", "fabric") and not apt_archive.same_branch(ctx, row):
            rows.append({"package": new, "on": old})
    rows += [row for row in claimed.excluding(ctx) if not claimed.other_flavour(ctx, row)]
    return [row for row in rows if claimed.product(ctx, row["on"]) in ("driver", "fabric")]


def _series(ctx: Context, name: str) -> t.Optional[str]:
    """The branch with its variant in a name: nvidia-utils-460-server -> 460-server."""
    branch = claimed.branch_in(ctx, name)
    if not branch:
        return None
    return branch + ("-server" if re.search(r"-%s-server(-|$)" % branch, claimed.plain(name)) else "")


def branch_switch_needs_removal(ctx: Context) -> t.Iterator[Hit]:
    """No set of another branch stands in the way of the claimed one."""
    rows = conflicts(ctx)
    if not rows:
        return
    if claimed.manager(ctx).get("kind") == "dnf":
        yield from _excluded_by_rpm(ctx, rows)
        return
    unmet = _run(ctx).get("unmet") or []
    asked = sorted(name for name in {str(row["package"]) for row in unmet} | {row["on"] for row in unmet if row["relation"] == "="}
                   if claimed.product(ctx, name) == "driver" and not claimed.other_branch(ctx, name) and name not in map(claimed.plain, ctx.packages))
    new = next((_series(ctx, name) for name in asked if _series(ctx, name)), None) or next((_series(ctx, str(row["package"])) for row in rows), None)
    there = {name: _series(ctx, name) for name in map(claimed.plain, ctx.packages)} if ctx.packages_known else {}
    there.update((name, _series(ctx, name)) for row in rows for name in (claimed.plain(str(row["on"])), str(row["package"])))
    left = {series for series in there.values() if series and series != new}
    names = sorted(name for name, series in there.items() if series in left and name in ctx.packages)
    if left:
        old, said = listed(left), "%s set still installed" % listed(left)
    else:
        # Nobody recorded which it is: what can be there is a set of an earlier branch of the same kind.
        old = " or ".join(_earlier(ctx, new)) or "another"
        said = "another branch's set still installed (%s)" % old if new else "another branch's set still installed"
    lock = claimed.locked(ctx, "driver") or ""
    every = [claimed.target(ctx, name, lock) for name in asked] if lock else asked
    coming = listed({str(row["package"]) for row in rows if _series(ctx, str(row["package"])) not in left}) or "The set %s" % new
    there_now = "the set %s" % old if left else "what is installed of %s" % listed({row["on"] for row in rows})
    yield Hit(said, "%s and %s exclude each other: apt does not change the branch in place, and no package is held because of it." % (coming, there_now),
              do=(step("remove", " ".join(names) or "every installed package of the %s set" % old),
                  step("install_exact", " ".join(every) or "the whole %s set" % (new or lock))))


def _excluded_by_rpm(ctx: Context, rows: t.List[Row]) -> t.Iterator[Hit]:
    """The same on RPM systems, whose packages have no branch in their names: of another branch, or of another way to the module."""
    lock = claimed.locked(ctx, "driver")
    old = {str(row["on"]): row.get("have") or (ctx.packages.get(str(row["on"])) or {}).get("version") for row in rows}
    new = {str(row["package"]): row.get("need") for row in rows}
    left = listed("%s %s" % (name, version) if version else name for name, version in old.items())
    yield Hit("%s still installed" % left, "%s and the installed %s exclude each other: dnf does not exchange the two sets in place." % (
        listed("%s %s" % (name, version) if version else name for name, version in new.items()), left),
        do=(step("remove", "%s and the rest of its set" % " ".join(sorted(old))),
            step("install_exact", " ".join(claimed.target(ctx, name, lock) if lock else "%s-%s" % (name, version) if version else name
                                           for name, version in sorted(new.items())))))


def _earlier(ctx: Context, new: t.Optional[str]) -> t.List[str]:
    """The series before one that a node may still have; server packages exist of long-term and production branches only."""
    branch, dash, variant = (new or "").partition("-")
    rows = [row for row in ctx.facts["drivers"]["branches"] if branch and int(row["branch"]) < int(branch) and (not dash or row["type"] in ("LTSB", "PB"))]
    return [row["branch"] + dash + variant for row in sorted(rows, key=lambda row: -int(row["branch"]))[:2]]


RULES: t.Tuple[t.Callable[[Context], t.Iterator[Hit]], ...] = (
    apt_locked, keyring_newer, transitional_package_installed, candidate_is_transitional, candidate_leaves_origin, pinned_away,
    locked_version_gone_from_archive, package_renamed, package_held_by_user, downgrade_refused, exact_set_needed,
    branch_switch_needs_removal)
