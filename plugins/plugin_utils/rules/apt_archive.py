# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What apt's archives and pins mean for a claim: where a version comes from, and what keeps it away. No rules of their own."""
from __future__ import annotations

import fnmatch
import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from . import claimed
from .context import Context, Hit, Row, listed

PREFERENCES = "https://manpages.debian.org/apt_preferences"
NAMES = {"nvidia": "CUDA repository", "doca": "DOCA repository", "ubuntu": "Ubuntu", "debian": "Debian"}
# From this priority on apt also moves a package to an older version.
_MOVES_BACK = 1000
_YES = ("yes", "true", "1")


def policies(ctx: Context) -> t.Dict[str, Row]:
    """apt's policy of the packages of products, by plain name."""
    return {name: row for name, row in (claimed.manager(ctx).get("policy") or {}).items() if claimed.product(ctx, name) not in (None, "desktop")}


def archive(ctx: Context, origin: Row) -> str:
    """Who makes the packages of an archive: nvidia, doca, ubuntu, debian, a PPA or the host's name; mirrors are told by their layout."""
    uri = str(origin["uri"]).lower().rstrip("/")
    release = next((row["release"] for row in claimed.manager(ctx).get("policy_sources") or []
                    if str(row["uri"]).lower().rstrip("/") == uri and row.get("suite") == origin.get("suite") and row["release"]), {})
    maker = str(release.get("o") or "").lower()
    ppa = re.match(r"lp-ppa-(\S+)", maker) or re.search(r"//ppa\.[^/]+/([^/]+)|/ppa/", uri)
    if ppa:
        return "PPA %s" % (ppa.group(1) or "of somebody")
    if maker in ("nvidia", "ubuntu", "debian"):
        return maker
    if re.search(r"doca|mellanox|mlnx", uri):
        return "doca"
    if re.search(r"nvidia|/cuda(/|$)|/compute/cuda|var/cuda-repo", uri):
        return "nvidia"
    found = re.search(r"/(ubuntu|debian)(-ports|-security|-updates)?$", uri) if origin.get("suite") else None
    return found.group(1) if found else re.sub(r"^[a-z+]+:/*([^/]*).*", r"\1", uri) or uri


def row_of(policy: Row, version: t.Optional[str]) -> t.Optional[Row]:
    """The row of a version in a package's table."""
    return next((row for row in policy["table"] if row["version"] == version), None)


def archives(ctx: Context, row: t.Optional[Row]) -> t.Set[str]:
    """Who offers a version; empty where only dpkg has it."""
    return {archive(ctx, origin) for origin in (row or {}).get("origins") or []}


def _wanted_archives(ctx: Context) -> t.Set[str]:
    """The archives that the claim's driver may come from; empty where it does not say."""
    source = (ctx.stack.get("driver") or {}).get("source")
    return {"nvidia"} if source == "nvidia" else {"ubuntu", "debian"} if source == "distribution" else set()


def shown(kinds: t.Iterable[str]) -> str:
    """Archives as one text."""
    return listed({NAMES.get(kind, kind) for kind in kinds})


def leaving(ctx: Context) -> t.Dict[t.Tuple[str, str], t.List[t.Tuple[str, Row]]]:
    """{(from, to): [(package, policy)]} of candidates of another archive than the claim's, or than the installed package's."""
    found: t.Dict[t.Tuple[str, str], t.List[t.Tuple[str, Row]]] = {}
    for name, policy in sorted(policies(ctx).items()):
        wanted = _wanted_archives(ctx) if claimed.product(ctx, name) in ("driver", "fabric") else set()
        here = wanted or archives(ctx, row_of(policy, policy["installed"]))
        there = archives(ctx, row_of(policy, policy["candidate"]))
        # What is not installed yet, and not at the claimed version, is a matter of pins (pinned_away).
        right = policy["installed"] or policy["candidate"] in [row["version"] for row in policy["table"] if _is_claimed(ctx, name, row)]
        if policy["candidate"] and policy["candidate"] != policy["installed"] and right and here and there and not here & there:
            names = archives(ctx, row_of(policy, policy["installed"])) & here or here
            if len(names) > 1 and ctx.os.get("id") in names:
                names = {str(ctx.os["id"])}
            found.setdefault((shown(names), shown(there)), []).append((name, policy))
    return found


def pin(ctx: Context, names: t.Iterable[str], version: str, priority: str) -> Row:
    """The step that pins a driver's packages: all of a branch, as one moves the others."""
    branch = knowledge.branch_of(claimed.version_of(ctx, next(iter(names)), version) or version)
    if all(claimed.product(ctx, name) in ("driver", "fabric") for name in names):
        return step("add_apt_pin", "nvidia-* and libnvidia-* of %s" % branch, version=version, priority=priority)
    return step("add_apt_pin", listed(names), version=version, priority=priority)


def highest(policy: Row) -> int:
    """The highest priority that apt gives a version of a package."""
    return max((row["priority"] or 0 for row in policy["table"]), default=500)


def _is_claimed(ctx: Context, name: str, row: Row) -> bool:
    """Whether a row of a package's table has the claimed version."""
    lock = claimed.locked(ctx, claimed.product(ctx, name))
    return bool(lock and claimed.fits(claimed.version_of(ctx, name, row["version"]), lock))


def fitting(ctx: Context, name: str, policy: Row) -> t.List[Row]:
    """The rows of a package that have the claimed version and an archive, the preferred first."""
    rows = [row for row in policy["table"] if row["origins"] and _is_claimed(ctx, name, row)]
    wanted = _wanted_archives(ctx)
    own = [row for row in rows if archives(ctx, row) & wanted]
    return sorted(own or rows, key=lambda row: -(row["priority"] or 0))


def origin_differs(ctx: Context) -> t.Iterator[Hit]:
    """An installed package of the driver comes from an archive that the claim names."""
    wanted = _wanted_archives(ctx)
    for name, policy in sorted(policies(ctx).items()) if wanted else ():
        here = archives(ctx, row_of(policy, policy["installed"]))
        if here and not here & wanted and claimed.product(ctx, name) in ("driver", "fabric"):
            right = [row for row in policy["table"] if archives(ctx, row) & wanted and row in fitting(ctx, name, policy)]
            names = wanted & {str(ctx.os.get("id"))} or wanted
            yield Hit("%s %s" % (name, policy["installed"]), "%s %s comes from %s, the claim's driver from %s." % (
                name, policy["installed"], shown(here), shown(names)), context="claim",
                do=(step("install_exact", "%s=%s" % (name, right[0]["version"])),) if right else ())


def colliding(ctx: Context) -> t.Iterator[Hit]:
    """No two archives' packages of one driver have the same files."""
    for row in (claimed.manager(ctx).get("run") or {}).get("overwrite") or []:
        new, old = str(row["package"]), claimed.plain(str(row["owner"]))
        if same_branch(ctx, row) and claimed.product(ctx, old) in claimed.VERSIONED:
            yield Hit("%s %s" % (new, row["version"] or "over %s" % old), "%s %s has files of %s %s (%s): the two come from different archives, which do not "
                      "go together." % (new, row["version"] or "", old, row["owner_version"] or "", row["path"]), context="claim",
                      do=(step("add_apt_pin", "nvidia-* and libnvidia-* of the other archive", version="*", priority="-1"),))


def of_other_makers(ctx: Context) -> t.Iterator[Hit]:
    """No driver package of RPM Fusion's meets one of NVIDIA's: both have the same files."""
    found: t.Dict[str, str] = {}
    for row in claimed.manager(ctx).get("problems") or []:
        other = row.get("other") or {}
        names = (str(row.get("package")), str(other.get("name")))
        excludes = row.get("reason") in ("file_conflict", "conflicts", "obsoletes")
        if excludes and claimed.other_maker(*names) and {claimed.product(ctx, name) for name in names} == {"driver"}:
            told = ["%s %s" % (name, version) if version else name for name, version in zip(names, (row.get("version"), other.get("version")))]
            found.setdefault(told[1], told[0])
    for old, new in sorted(found.items()):
        yield Hit(old, "%s and %s are one driver of two makers, NVIDIA and RPM Fusion: they do not go together." % (new, old), context="claim",
                  do=(step("remove", "every package of %s's maker" % old.split()[0]),))


def same_branch(ctx: Context, row: Row) -> bool:
    """Whether the two packages that have a file in common are of one driver branch."""
    versions = [claimed.version_of(ctx, str(name), version) for name, version in ((row["package"], row["version"]), (row["owner"], row["owner_version"]))]
    branches = {knowledge.branch_of(version) for version in versions if version}
    named = {claimed.branch_in(ctx, str(row[key])) for key in ("package", "owner")} - {None}
    return len(branches or named) < 2


def _pinned_version(row: Row) -> t.Optional[str]:
    """The version (perhaps with *) that a pin names."""
    found = re.fullmatch(r"version\s+(\S+)", str(row["pin"]).strip())
    return found.group(1) if found else None


def names_of(row: Row) -> t.List[str]:
    """The names and patterns that a pin is for."""
    return str(row["package"]).split()


def covers(row: Row, name: str) -> bool:
    """Whether a pin is for a package: by name, by pattern, or by a regular expression between slashes (apt_preferences(5))."""
    for word in names_of(row):
        if word.startswith("src:"):
            continue
        if len(word) > 2 and word.startswith("/") and word.endswith("/"):
            try:
                if re.search(word[1:-1], name):
                    return True
            except re.error:
                continue
        elif fnmatch.fnmatchcase(name, word):
            return True
    return False


# One name of each product, to see which one a pattern is for.
SAMPLES = {"driver": ("nvidia-driver-%s", "libnvidia-compute-%s", "nvidia-driver", "libnvidia-compute", "cuda-drivers-%s", "cuda-drivers", "nvidia-dkms-%s",
                      "nvidia-kernel-dkms", "libcuda1", "nvidia-open"),
           "fabric": ("nvidia-fabricmanager-%s", "nvidia-fabricmanager"), "container_toolkit": ("nvidia-container-toolkit",),
           "nccl": ("libnccl2",), "dcgm": ("datacenter-gpu-manager",)}


def _follows(ctx: Context, name: str, of: str, version: t.Optional[str]) -> bool:
    """Whether a package of a product has the product's version, so that a pin to this one (None for a pin of an archive) says which."""
    return claimed.product(ctx, name) == of and not (version and claimed.counts_for_itself(ctx, name, version))


def pinned_product(ctx: Context, row: Row) -> t.Optional[str]:
    """The product that a pin is for; None for a pin of everything, or of nothing that a claim names."""
    if any(word == "*" for word in names_of(row)):
        return None
    for of, samples in SAMPLES.items():
        lock = claimed.locked(ctx, of)
        if not lock:
            continue
        version = _pinned_version(row)
        known = [name for name in claimed.packages(ctx) if _follows(ctx, name, of, version)]
        named = [name for name in names_of(row) if _follows(ctx, name, of, version) and not claimed.other_branch(ctx, name)]
        samples_here = [sample % knowledge.branch_of(lock) if "%s" in sample else sample for sample in samples]
        if named or any(covers(row, name) for name in (*known, *samples_here)):
            return of
    return None


def _moving(ctx: Context, row: Row, version: str) -> t.Iterator[Hit]:
    """A pin that takes a package of a claimed product, with a version of its own, away from the one that it has."""
    for name in names_of(row):
        have = (ctx.packages.get(name) or {}).get("version")
        if have and not fnmatch.fnmatchcase(have, version) and ctx.stack.get(claimed.product(ctx, name)):
            yield Hit("%s=%s" % (name, version), "%s pins %s to %s, but %s is installed." % (row["file"], name, version, have), PREFERENCES,
                      do=(step("add_apt_pin", name, version=have, priority=str(row["priority"])),))


def stale_pins(ctx: Context) -> t.Iterator[Hit]:
    """Every pin of a product names the claimed version, and one that an archive still has."""
    for row in claimed.manager(ctx).get("pins") or []:
        version, of = _pinned_version(row), pinned_product(ctx, row)
        if not version or row["priority"] < 0:
            continue
        lock = claimed.locked(ctx, of)
        # Drivers have three digits first; Debian dates its helpers: 20240109+1.
        said = re.match(r"(?:\d+:)?(\d{3}(?!\d)(?:\.[\d.]*\d)?)" if of in ("driver", "fabric") else r"(?:\d+:)?([\d.]*\d)", version)
        other = bool(of and lock and said and not agrees(said.group(1), lock))
        tables = [table for name, table in policies(ctx).items() if covers(row, name)]
        gone = bool(tables) and not any(fnmatch.fnmatchcase(one["version"], version) for table in tables for one in table["table"])
        if other or gone and not other:
            why = "the claim has %s %s" % (str(of).replace("_", " "), lock) if other else "no archive has that version any more"
            right = claimed.exact(ctx, names_of(row)[0], lock) if lock and not re.search(r"[*/]", names_of(row)[0]) else None
            mend = (step("add_apt_pin", str(row["package"]), version=right or (lock + "*"), priority=str(max(row["priority"], 1001))),) if lock else ()
            yield Hit("%s=%s" % (row["package"], version), "%s pins %s to %s, but %s." % (row["file"], row["package"], version, why), PREFERENCES, do=mend)
        elif not of and row["priority"] >= _MOVES_BACK:
            yield from _moving(ctx, row, version)
    for name, package in sorted(ctx.packages.items()):
        # The package has the branch, or the whole version, in its name; its own version counts differently.
        found = re.fullmatch(r"nvidia-driver-pinning-([\d.]+)", claimed.plain(name))
        lock = claimed.locked(ctx, "driver")
        if found and lock and not agrees(found.group(1), lock):
            right = "nvidia-driver-pinning-%s" % lock
            yield Hit(name, "%s %s pins the driver to %s, but the claim has driver %s." % (name, package.get("version"), found.group(1), lock), PREFERENCES,
                      do=(step("remove", name), step("install_exact", right)))


def agrees(said: str, lock: str) -> bool:
    """Whether two versions agree as far as both are told: 535 and 535.183.01 do."""
    have, want = knowledge.numbers(said), knowledge.numbers(lock)
    return have[:len(want)] == want[:len(have)]


def unauthenticated(ctx: Context) -> t.Iterator[Hit]:
    """No task skipped the check of signatures, and apt refused no archive for its signature."""
    manager = claimed.manager(ctx)
    args = (manager.get("module_result") or {}).get("args") or {}
    off = [key for key in ("allow_unauthenticated", "disable_gpg_check") if str(args.get(key)).lower() in _YES]
    if off:
        yield Hit("%s: true" % off[0], "A task installs packages with %s: nobody can tell who made them." % off[0],
                  do=(step("fail_preflight", "give the repository its key (Signed-By), and drop %s" % off[0]),))
    rows = (manager.get("run") or {}).get("untrusted") or []
    by_place: t.Dict[str, t.List[str]] = {}
    for row in rows:
        by_place.setdefault(row["uri"] or "", []).append(row["reason"])
    for uri, reasons in sorted(by_place.items()):
        if uri or len(by_place) == 1:
            key = next((reason for reason in reasons if re.search(r"[0-9A-F]{8}", reason)), reasons[0])
            yield Hit("%s%s" % (uri + ": " if uri else "", key), "apt cannot tell who made the packages%s: %s." % (
                " of %s" % uri if uri else "", key.rstrip(".:")), context="failed",
                do=(step("configure_repository", "the archive's present key, as Signed-By of its source"),))
