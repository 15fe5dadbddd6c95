# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about packages: versions, holds, sets, and where they come from."""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import slices
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step
from ansible_collections.lockstep.gpu.plugins.plugin_utils.plan import readable

from . import apt_archive, claimed, claimed_packages, dnf, nccl, ofed_found
from .context import INSTALLED, Context, Hit, listed, upstream

SETTLED = (*INSTALLED, "config-files", "not-installed")
UNCHECKED_OPTIONS = ("trusted", "allow-insecure", "allow-weak")


def _drift(ctx: Context, why: str) -> t.Iterator[t.Tuple[str, t.Mapping[str, t.Any]]]:
    """(component, entry) of the plan's differences of one kind."""
    return ((component, entry) for component, entry in ctx.planned("drift") if entry.get("why") == why)


def package_version_differs(ctx: Context) -> t.Iterator[Hit]:
    """Every package of the stack that is installed has the stack's version."""
    for component, entry in _drift(ctx, "package_version_differs"):
        want = readable(entry.get("want"))
        yield Hit("%s %s, wanted %s" % (entry["name"], entry["have"], want),
                  "%s is %s, the stack's %s needs %s." % (entry["name"], entry["have"], component, want))
    if claimed.judging(ctx):
        yield from claimed_packages.version_differs(ctx)
        yield from ofed_found.version_differs(ctx)
        yield from nccl.build_differs(ctx)


def package_missing(ctx: Context) -> t.Iterator[Hit]:
    """Every package of the stack is installed."""
    for component, entry in _drift(ctx, "package_missing") if ctx.packages_known else ():
        yield Hit(entry["name"], "%s %s (%s) is not installed." % (entry["name"], readable(entry.get("want")), component))
    if claimed.judging(ctx):
        yield from claimed_packages.missing(ctx)
        yield from dnf.unprovided(ctx)


def package_origin_differs(ctx: Context) -> t.Iterator[Hit]:
    """Every package of the stack is built from the product's own source."""
    for component, entry in _drift(ctx, "package_origin_differs"):
        source = (ctx.packages.get(entry["name"]) or {}).get("source") or "another source"
        yield Hit("%s %s" % (entry["name"], entry["have"]), "%s %s is built from %s, not from a source of the stack's %s." % (
            entry["name"], entry["have"], source, component), context="planned")
    if claimed.judging(ctx):
        yield from claimed_packages.origin_differs(ctx)
        yield from apt_archive.origin_differs(ctx)
        yield from apt_archive.colliding(ctx)
        yield from apt_archive.of_other_makers(ctx)


def package_still_present(ctx: Context) -> t.Iterator[Hit]:
    """Nothing of another set of the product is left."""
    for component, name in ctx.planned("removed"):
        yield Hit(name, "%s belongs to another %s than the stack's and has to go." % (name, component))
    if claimed.judging(ctx):
        yield from claimed_packages.still_present(ctx)
        yield from claimed_packages.flavour_conflicts(ctx)


def package_not_pinned(ctx: Context) -> t.Iterator[Hit]:
    """Every package of the stack's products is pinned to its version."""
    names = [entry["name"] for component, entry in _drift(ctx, "not_pinned")]
    if names:
        yield Hit(listed(names), "%d packages of the stack's products are not pinned: %s." % (len(names), listed(names)))


def stale_pin(ctx: Context) -> t.Iterator[Hit]:
    """No pin of ours names another version than the installed one; no pin of anybody one that is not the stack's, or is gone."""
    for _component, entry in _drift(ctx, "pin_differs"):
        yield Hit("%s=%s" % (entry["name"], entry["want"]), "%s is pinned to %s, but %s is installed." % (
            entry["name"], entry["want"], entry["have"]))
    if claimed.judging(ctx):
        yield from apt_archive.stale_pins(ctx)


def alternative_differs(ctx: Context) -> t.Iterator[Hit]:
    """The alternatives of the driver point where the stack's driver lies, and stay there."""
    for _component, entry in _drift(ctx, "alternative_differs"):
        if entry.get("have") == entry["want"]:
            text = "%s points at %s, but in automatic mode: another package may move it." % (entry["name"], entry["want"])
        else:
            text = "%s points at %s, the stack's driver lies in %s." % (entry["name"], entry.get("have") or "nothing", entry["want"])
        yield Hit("%s=%s" % (entry["name"].split()[-1], entry["want"]), text)


def _requested(ctx: Context) -> t.Set[str]:
    """The packages that the stack's products ask for by name."""
    stack = dict(ctx.stack, os=ctx.os, **({"kernel": dict(ctx.stack["kernel"], release=ctx.kernel)} if ctx.stack.get("kernel") and ctx.kernel else {}))
    return {name for product in ctx.facts["packages"]["products"] if ctx.stack.get(product)
            for name in slices.names_asked(product, stack, ctx.facts, ctx.set_of(product), ctx.kernel)}


def package_not_held(ctx: Context) -> t.Iterator[Hit]:
    """Every package that the stack names is held."""
    requested = _requested(ctx)
    for component, name in ctx.planned("unheld"):
        if name in requested:
            yield Hit(name, "%s (%s) is not held; the next upgrade may move it." % (name, component))
    if claimed.judging(ctx):
        yield from claimed_packages.not_held(ctx)


def hold_incomplete(ctx: Context) -> t.Iterator[Hit]:
    """What came as a dependency of the stack's products is held too."""
    requested = _requested(ctx)
    names = [name for component, name in ctx.planned("unheld") if name not in requested]
    if names:
        yield Hit(listed(names), "%d packages of the stack's products are not held: %s." % (len(names), listed(names)))
    if claimed.judging(ctx):
        yield from claimed_packages.incomplete(ctx)


def package_half_configured(ctx: Context) -> t.Iterator[Hit]:
    """dpkg has finished what it began."""
    broken = set((ctx.state.get("package_manager") or {}).get("broken") or [])
    broken |= {name for name, row in (ctx.state.get("packages") or {}).items() if row.get("status") and row["status"] not in SETTLED}
    # By name too: a package that could not be unpacked may have no source in dpkg's list.
    own = broken & (set(ctx.packages_from(ctx.product_sources)) | _requested(ctx))
    finish: t.Tuple[t.Dict[str, t.Any], ...] = ()
    if claimed.judging(ctx):
        broken |= claimed_packages.told_unfinished(ctx)
        own |= claimed_packages.unfinished(ctx, broken)
        finish = (step("configure_packages", "dnf remove --duplicates" if claimed.manager(ctx).get("kind") == "dnf" else "dpkg --configure -a"),)
    for names, context in ((own, "locked"), (broken - own, "default")):
        if names:
            yield Hit(listed(names), "Not fully installed: %s." % listed(names), context=context, do=finish)
    if claimed.judging(ctx) and not broken and (claimed.manager(ctx).get("run") or {}).get("interrupted"):
        yield Hit("dpkg", "dpkg was interrupted: some package is not fully installed.", context="locked", do=finish)


def package_set_split(ctx: Context) -> t.Iterator[Hit]:
    """Packages that belong together have one version."""
    if claimed.judging(ctx):
        yield from claimed_packages.set_split(ctx)
        return
    for sources, context in ((ctx.package_set.get("one_version") or [], "driver"), (["nvidia-nccl"], "default")):
        by_version: t.Dict[str, t.List[str]] = {}
        for name, row in ctx.packages_from(sources).items():
            version = upstream(row.get("version"))
            if version:
                by_version.setdefault(version, []).append(name)
        if len(by_version) > 1:
            # The smallest group is the one that moved (or stayed behind).
            odd, names = min(by_version.items(), key=lambda item: (len(item[1]), item[0]))
            rest = listed(version for version in by_version if version != odd)
            yield Hit("%s %s beside %s" % (listed(names), odd, rest), "%s at %s, the rest of the set at %s." % (
                listed(names), odd, rest), context=context)


def repository_unauthenticated(ctx: Context) -> t.Iterator[Hit]:
    """No package source switches signature checks off, and no package has failed one."""
    manager = ctx.state.get("package_manager") or {}
    for row in manager.get("sources") or []:
        options = {str(key).lower(): str(value).lower() for key, value in (row.get("options") or {}).items()}
        off = ["%s=yes" % key for key in UNCHECKED_OPTIONS if options.get(key) in ("yes", "true", "1")]
        types = row.get("types") or ["deb"]
        if "rpm" in types:
            off = ["gpgcheck=0"] if options.get("gpgcheck") == "0" else []
        # Sources of deb-src alone bring no package onto the node.
        if off and row.get("enabled", True) and ("deb" in types or "rpm" in types):
            yield Hit("%s [%s]" % (row["file"], row["id"]) if row.get("id") else row["file"], "%s reads %s with %s: nobody can tell who made its packages." % (
                row["file"], ", ".join(row.get("uris") or []) or row.get("id"), off[0]))
    failed = [row for row in manager.get("problems") or [] if row.get("reason") == "bad_signature"]
    named = listed({str(row.get(key)) for row in failed for key in ("package", "repo") if row.get(key)})
    if failed:
        yield Hit(named or "packages of a repository", "The signature of %s does not check out with the keys that rpm has: nobody can tell who made it." % (
            named or "a package"), context="failed")
    yield from apt_archive.unauthenticated(ctx)


RULES = (package_version_differs, package_missing, package_origin_differs, package_still_present, package_not_pinned, stale_pin,
         alternative_differs, package_not_held, hold_incomplete, package_half_configured, package_set_split, repository_unauthenticated)
