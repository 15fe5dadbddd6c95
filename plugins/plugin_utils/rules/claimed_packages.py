# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rules of packages.py where there is a claim instead of a plan: one function for each code that both share."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from . import claimed, fabric_facts
from .context import Context, Hit, Row, listed

# Fabric manager's own package is judged beside the driver (fabric.py), NCCL's two packages beside each other (nccl.py).
_DAEMON = re.compile(r"(nvidia|cuda-drivers)-fabric-?manager(-.*)?")
SPLIT = ("driver", "fabric", "container_toolkit", "dcgm")
# The package that stands for a product, where nothing of it is installed.
MAIN = {"driver": r"nvidia-(driver|open|headless|kernel-dkms|open-kernel-dkms)(-.*)?|cuda-drivers(-\d+)?|kmod-nvidia.*",
        "container_toolkit": r"nvidia-container-toolkit", "dcgm": r"datacenter-gpu-manager(-4-core)?", "nccl": r"libnccl2?"}


def _split(ctx: Context, of: str) -> t.Optional[t.Tuple[t.Dict[str, str], t.List[str]]]:
    """({name: version} of those that moved or stayed behind, versions of the rest) of a product at more than one version."""
    table = {name: version for name, row in claimed.members(ctx, of).items()
             for version in [claimed.version_of(ctx, name, row.get("version"))] if version and not claimed.other_branch(ctx, name)}
    lock = claimed.locked(ctx, of)
    if not ctx.packages_known:
        return _split_by_history(ctx, table, lock)
    by_version: t.Dict[str, t.List[str]] = {}
    for name, version in table.items():
        # Without a claim only packages of one branch have to fit each other: Debian has several side by side.
        by_version.setdefault(version, []).append(name)
    if len(by_version) < 2 or not lock and len({claimed.branch_in(ctx, name) for name in table}) > 1:
        return None
    right = {version for version in by_version if lock and claimed.fits(version, lock)}
    if len(right) == 1:
        odd = {name: version for name, version in table.items() if version not in right}
        return odd, sorted(right)
    # The smallest group is the one that moved (or stayed behind).
    version, names = min(by_version.items(), key=lambda item: (len(item[1]), item[0]))
    return dict.fromkeys(names, version), sorted(other for other in by_version if other != version)


def _split_by_history(ctx: Context, table: t.Dict[str, str], lock: t.Optional[str]) -> t.Optional[t.Tuple[t.Dict[str, str], t.List[str]]]:
    """The same where only apt's history is known: what moved off the claimed version, while others of the set are held."""
    odd = {name: version for name, version in table.items() if lock and claimed.fits(version, lock) is False}
    held = [name for name in claimed.manager(ctx).get("holds") or [] if claimed.one_version(ctx, name) and name not in table]
    before = {claimed.version_of(ctx, name, claimed.packages(ctx)[name].get("old")) for name in odd}
    return (odd, [lock]) if odd and lock and held and all(claimed.fits(version, lock) for version in before if version) else None


def set_split(ctx: Context) -> t.Iterator[Hit]:
    """Packages of one product have one version."""
    for of in SPLIT:
        parts = _split(ctx, of)
        if not parts or of == "fabric" and fabric_facts.driver_version(ctx) and all(fabric_facts.COUPLED.fullmatch(claimed.plain(name)) for name in parts[0]):
            # What follows the driver to the last digit is judged beside it, where the driver is known (fabric.py).
            continue
        odd, rest = parts
        lock = claimed.locked(ctx, of)
        # Without a lock the rest of the set says where the odd ones belong.
        wanted = lock if lock and claimed.is_exact(of, lock) else rest[0]
        moves = [claimed.move(ctx, name, version, wanted) for name, version in sorted(odd.items()) if not claimed.fits(version, wanted)]
        if not moves:
            moves = [claimed.move(ctx, name, row.get("version"), wanted) for name, row in sorted(claimed.members(ctx, of).items()) if name not in odd]
        if of == "driver" and not ctx.loaded_module and any("-dkms" in name for name in odd):
            # Where a module is loaded, the rules about it say what has to be built.
            moves.append(step("dkms_build_install", "nvidia/%s" % wanted))
        if of != "driver":
            moves += [claimed.keep(ctx, name) for name in sorted(claimed.members(ctx, of))]
        names = listed(map(claimed.shown, odd))
        shown = claimed.pattern_of(odd) if len(odd) > 1 else names
        yield Hit("%s %s beside %s" % (shown, ", ".join(sorted(set(odd.values()))), ", ".join(rest)), "%s %s at %s, the rest of the set at %s." % (
            names, "is" if len(odd) == 1 else "are", ", ".join(sorted(set(odd.values()))), ", ".join(rest)), None,
            "driver" if of == "driver" else "default", tuple(moves))


def version_differs(ctx: Context) -> t.Iterator[Hit]:
    """Every installed package that has its product's version has the claimed one."""
    for of in claimed.VERSIONED:
        # What fabric manager brings is judged beside the driver, where one is known (revision_coupling).
        lock = None if of == "fabric" and fabric_facts.driver_version(ctx) else claimed.locked(ctx, of)
        split = set((_split(ctx, of) or ({}, []))[0]) if of in SPLIT else set()
        for name, row in sorted(claimed.members(ctx, of, False).items()) if lock else ():
            version = claimed.version_of(ctx, name, row.get("version"))
            if claimed.fits(version, lock or "") is not False or name in split or claimed.other_branch(ctx, name):
                continue
            if _DAEMON.fullmatch(name) or claimed.counts_for_itself(ctx, name, row.get("version")):
                continue
            yield Hit("%s %s, wanted %s" % (claimed.shown(name), row["version"], lock),
                      "%s is %s, the claim's %s is %s." % (name, row["version"], of.replace("_", " "), lock),
                      do=(claimed.move(ctx, name, version, lock or ""),))


def still_present(ctx: Context) -> t.Iterator[Hit]:
    """Where the claimed branch is installed, no package of another one is left."""
    for of in ("driver", "fabric"):
        table = claimed.members(ctx, of)
        here = {name for name in table if claimed.branch_in(ctx, name) and not claimed.other_branch(ctx, name)}
        left = sorted(name for name in table if claimed.other_branch(ctx, name)) if here else []
        for name in left:
            yield Hit("%s %s" % (name, table[name].get("version")), "%s %s is of another branch than the claim's %s %s, whose packages are installed too." % (
                name, table[name].get("version"), of, claimed.locked(ctx, of)), do=(step("remove", name),))


def flavour_conflicts(ctx: Context) -> t.Iterator[Hit]:
    """No package of the other flavour stands in the way of the one that is asked for."""
    unmet = [row for row in (claimed.manager(ctx).get("run") or {}).get("unmet") or [] if row["kind"] in ("Conflicts", "Breaks")]
    for row in (*unmet, *claimed.excluding(ctx)):
        if claimed.other_flavour(ctx, row):
            yield Hit(row["on"], "%s excludes %s, the driver's other flavour: one of the two has to go." % (row["package"], row["on"]),
                      do=(step("remove", row["on"]), step("install_exact", claimed.target(ctx, row["package"], claimed.locked(ctx, "driver") or "")))
                      if claimed.locked(ctx, "driver") else (step("remove", row["on"]),))


def missing(ctx: Context) -> t.Iterator[Hit]:
    """Something of each claimed product is installed, where the package list can tell."""
    manager = claimed.manager(ctx)
    loaded = ctx.loaded_module or ctx.state.get("runfile")
    for of, pattern in MAIN.items():
        lock = claimed.locked(ctx, of)
        if not lock or not ctx.packages_known or claimed.members(ctx, of, False) or of == "driver" and loaded:
            continue
        named = _asked_for(ctx, pattern)
        if not named and manager.get("packages_complete") and of in ("container_toolkit", "nccl"):
            named = ["libnccl2" if of == "nccl" and manager.get("kind") == "apt" else "libnccl" if of == "nccl" else "nvidia-container-toolkit"]
        for name in named:
            yield Hit(name, "%s %s (%s) is not installed." % (name, lock, of.replace("_", " ")), do=(step("install_exact", claimed.target(ctx, name, lock)),))


def _asked_for(ctx: Context, pattern: str) -> t.List[str]:
    """The packages of a product that somebody asked for by name and that are not there; of what dpkg merely knows about, the first."""
    asked = sorted(name for name in claimed.manager(ctx).get("absent") or [] if re.fullmatch(pattern, name) and not claimed.other_branch(ctx, name))
    known = sorted(name for name, row in (ctx.state.get("packages") or {}).items()
                   if row.get("status") == "not-installed" and re.fullmatch(pattern, name) and not claimed.other_branch(ctx, name))
    # Of kernel modules' packages, which exclude each other, nobody can want all.
    modules = [name for name in asked if re.search(r"kmod|dkms", name)]
    if len(modules) > 1:
        asked = [name for name in asked if name not in modules] or modules[:1]
    return [name for name in asked if name not in known] or known[:1]


# Whose packages these are, by the end of their versions; no revision of Ubuntu's begins with 1: there is no package of Debian's below.
_REVISIONS = (("distribution", r"-0ubuntu0\.\d\d\.\d\d\.\d+$"), ("nvidia", r"-1(ubuntu\d+)?$"), ("ppa", r"-0ubuntu0~gpu\d\d\.\d\d\.\d+$"),
              ("pop", r"-1pop\d+~"))
_MAKERS = {"distribution": "Ubuntu's archive", "nvidia": "NVIDIA's CUDA repository", "ppa": "the graphics-drivers PPA", "pop": "Pop!_OS's archive"}


def _maker(version: str) -> t.Optional[str]:
    """Who made a package of Ubuntu's, as far as its version tells."""
    return next((maker for maker, pattern in _REVISIONS if re.search(pattern, version)), None)


def origin_differs(ctx: Context) -> t.Iterator[Hit]:
    """Packages of the driver come from the archive that the claim names, where their version tells the archive."""
    source = (ctx.stack.get("driver") or {}).get("source")
    rows = claimed.members(ctx, "driver", False) if source and ctx.os.get("id") == "ubuntu" else {}
    own = {claimed.version_of(ctx, name, row.get("version")) for name, row in rows.items() if _maker(row.get("version") or "") == "distribution"}
    for name, row in sorted(rows.items()):
        version = row.get("version") or ""
        # Beside Ubuntu's update of the same driver, a revision without the release in it is NVIDIA's.
        mixed = version.endswith("-0ubuntu1") and claimed.version_of(ctx, name, version) in own and claimed.one_version(ctx, name)
        maker = _maker(version) or ("nvidia" if mixed else None)
        if maker and maker != source and name not in (claimed.manager(ctx).get("policy") or {}):
            told = "%s %s is from %s, the claim's driver from %s." % (name, version, _MAKERS[maker], _MAKERS[source])
            yield Hit("%s %s" % (claimed.shown(name), version), told,
                      "https://wiki.ubuntu.com/SecurityTeam/UpdatePreparation", "claim",
                      (step("install_exact", "%s of %s" % (claimed.shown(name), _MAKERS[source])),))


def _unheld(ctx: Context) -> t.Tuple[t.List[str], t.List[str]]:
    """(packages of the claim's products that are not held, those that are), where it is known which are."""
    holds = claimed.manager(ctx).get("holds")
    if holds is None or claimed.manager(ctx).get("kind") == "dnf":
        return [], []
    claims = {of for of in (*claimed.VERSIONED, "cuda", "ofed") if ctx.stack.get(of)} | ({"fabric"} if ctx.stack.get("driver") else set())
    # A keyring has to follow its archive; what is of another branch has to go.
    names = [name for of in sorted(claims) for name, row in claimed.members(ctx, of, False).items() if not name.endswith("-keyring")
             and not claimed.other_branch(ctx, name) and not (of == "driver" and claimed.counts_for_itself(ctx, name, row.get("version")))]
    # Where the claim names a kernel, the rule about its metapackages tells (meta_package_not_held).
    if (ctx.stack.get("expect") or {}).get("hold") and not ctx.stack.get("kernel"):
        names += [name for name in claimed.packages(ctx) if claimed.kernel_meta(ctx, name)]
    held = {claimed.plain(name) for name in holds}
    return (sorted(name for name in set(names) if claimed.plain(name) not in held),
            sorted(name for name in held if claimed.product(ctx, name) in claims | {"kernel"}))


def _recorded_holds(ctx: Context) -> bool:
    """Whether somebody asked for all holds; else the package list shows some."""
    return "apt_holds" not in (ctx.state.get("not_recorded") or []) or bool(claimed.manager(ctx).get("packages_complete"))


def _expects_holds(ctx: Context) -> bool:
    """Whether missing holds are a fault: the claim does not say that they are not wanted."""
    return (ctx.stack.get("expect") or {}).get("hold") is not False


def not_held(ctx: Context) -> t.Iterator[Hit]:
    """Packages of the claim's products are held: none of them is, or one was forgotten."""
    unheld, held = _unheld(ctx)
    if not _expects_holds(ctx) or held and (len(unheld) > 1 or _recorded_holds(ctx)):
        return
    for name in unheld:
        version = claimed.packages(ctx)[name].get("version")
        yield Hit(claimed.plain(name), "%s %s is not held%s; the next upgrade may move it." % (
            name, version, ", while %s %s" % (listed(held), "is" if len(held) == 1 else "are") if held else ""),
            context="straggler" if held else "default", do=(claimed.keep(ctx, name),))


def incomplete(ctx: Context) -> t.Iterator[Hit]:
    """Where some packages of the claim's products are held, all are."""
    unheld, held = _unheld(ctx)
    if unheld and held and _expects_holds(ctx) and (len(unheld) > 1 or _recorded_holds(ctx)):
        moved = {str(row["by"]) for name, row in claimed.packages(ctx).items() if name in unheld and row.get("by")}
        names = listed(map(claimed.plain, unheld))
        yield Hit(names, "%d packages of the claim's products are not held, only %s: %s%s." % (
            len(unheld), listed(held), names, "; %s moved them" % listed(moved) if moved else ""),
            do=tuple(claimed.keep(ctx, name) for name in unheld))


def unfinished(ctx: Context, names: t.Set[str]) -> t.Set[str]:
    """Those of some unfinished packages that belong to a product, whether the claim names it or not."""
    return {name for name in names if claimed.product(ctx, name) not in (None, "cuda", "desktop")}


def told_unfinished(ctx: Context) -> t.Set[str]:
    """What a run of dpkg left unfinished, by its own words; a package list that shows it whole is newer."""
    run: Row = claimed.manager(ctx).get("run") or {}
    unpacked = {name for name, row in (run.get("dpkg") or {}).items() if row["phase"] != "unpack"}
    refused = set(run.get("dpkg") or {}) - unpacked
    named = unpacked | (set(run.get("failed") or []) - refused)
    return {name for name in named if (ctx.packages.get(name) or {}).get("status") != "installed"}
