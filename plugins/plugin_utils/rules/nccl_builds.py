# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the CUDA release that NCCL is built with: asked for, installed, about to come, or used by a program."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from . import claimed
from .context import Context, Hit, Row
from .cuda import driver_runs, floor_above

_PACKAGES = ("libnccl2", "libnccl")


def nccl_cuda_major_differs(ctx: Context) -> t.Iterator[Hit]:
    """NCCL is built with the active toolkit's CUDA major release; it brings its own runtime, so only the driver can refuse it."""
    nccl = ctx.stack.get("nccl") or {}
    active = (ctx.stack.get("cuda") or {}).get("active")
    if nccl.get("cuda") and active and _major(nccl["cuda"]) != _major(active):
        name = "NCCL %s" % nccl["version"] if nccl.get("version") else "NCCL"
        text = "%s is built with CUDA %s, the active toolkit is %s" % (name, nccl["cuda"], active)
        yield _hit(ctx, nccl["cuda"], active, "%s for %s, active %s" % (name.lower(), nccl["cuda"], active), text, False)
    wanted = nccl.get("cuda") or active or (ctx.state.get("cuda") or {}).get("active_release")
    if wanted:
        yield from _installed(ctx, str(wanted))
        yield from _coming(ctx, str(wanted))
    yield from _program(ctx)


def _installed(ctx: Context, wanted: str) -> t.Iterator[Hit]:
    """An install that names no version takes the highest build there is."""
    lock = claimed.locked(ctx, "nccl")
    for package in _PACKAGES:
        version = str((ctx.packages.get(package) or {}).get("version") or "")
        build = _other_build(version, wanted)
        if build:
            text = "%s %s is built with CUDA %s, wanted is CUDA %s" % (package, version, build, wanted)
            hit = _hit(ctx, build, wanted, "%s %s, wanted cuda %s" % (package, version, wanted), text, True)
            # Another version is said, and mended, for itself.
            if (ctx.stack.get("nccl") or {}).get("cuda") and lock and claimed.fits(claimed.version_of(ctx, package, version), lock):
                action = "downgrade_exact" if int(_major(build)) > int(_major(wanted)) else "install_exact"
                goal = "%s%s%s+cuda%s" % (package, "=" if package == "libnccl2" else "-", version.partition("+cuda")[0], wanted)
                hit = hit._replace(context="installed" if hit.context == "default" else hit.context, do=(step(action, goal),))
            yield hit


def _coming(ctx: Context, wanted: str) -> t.Iterator[Hit]:
    """What a transaction would bring, and what an install that names no version would take."""
    planned, policies = claimed.planned(ctx), claimed.manager(ctx).get("policy") or {}
    for package in _PACKAGES:
        version = str((planned.get(package) or {}).get("version") or "")
        build = _other_build(version, wanted)
        if build:
            text = "The transaction would bring %s %s, built with CUDA %s; wanted is CUDA %s" % (package, version, build, wanted)
            hit = _hit(ctx, build, wanted, "%s %s, wanted cuda %s" % (package, version, wanted), text, True)
            # Where NCCL is claimed, transaction_leaves_lock keeps it where it is.
            yield hit if claimed.locked(ctx, "nccl") else hit._replace(do=(step("refuse_transaction", "it brings %s %s" % (package, version)),))
        policy = policies.get(package) or {}
        version = str(policy.get("candidate") or "")
        build = _other_build(version, wanted)
        if build and not policy["installed"] and package not in ctx.packages and package not in planned:
            text = "An install of %s that names no version takes %s, built with CUDA %s; wanted is CUDA %s" % (package, version, build, wanted)
            hit = _hit(ctx, build, wanted, "%s %s, wanted cuda %s" % (package, version, wanted), text, True)
            right = _right_build(ctx, package, policy, wanted)
            yield hit._replace(do=(step("install_exact", "%s=%s" % (package, right)),)) if right else hit


def _right_build(ctx: Context, package: str, policy: Row, wanted: str) -> t.Optional[str]:
    """The version of a package, of those that an archive has, that is the claimed one and built with the wanted CUDA; the newest one."""
    lock = claimed.locked(ctx, "nccl")
    rows = [str(row["version"]) for row in policy["table"] if row["origins"] and re.search(r"\+cuda%s\." % _major(wanted), str(row["version"]))]
    return next((version for version in rows if not lock or claimed.fits(claimed.version_of(ctx, package, version), lock)), None)


def _other_build(version: str, wanted: str) -> t.Optional[str]:
    """The CUDA release that a package of NCCL's is built with, where it is of another major release than the wanted one."""
    build = re.search(r"\+cuda(\d+\.\d+)", version)
    return build.group(1) if build and _major(build.group(1)) != _major(wanted) else None


def _program(ctx: Context) -> t.Iterator[Hit]:
    """The NCCL of a program that was run: only the driver can refuse it, and the log tells what CUDA release that has."""
    log = (ctx.state.get("nccl") or {}).get("log") or {}
    built, have = log.get("cuda"), log.get("driver_cuda")
    floor = knowledge.cuda_floor(ctx.facts, built) if built else None
    refused = int(_major(have)) < int(_major(built)) if built and have else floor and driver_runs(ctx, built) is False
    if floor and refused:
        driver = "a driver of CUDA %s" % have if have else "driver %s" % (ctx.driver.get("version") or ctx.module_version)
        yield Hit("nccl %s for %s, %s" % (log["version"], built, driver), "The program of the log uses NCCL %s, built with CUDA %s, which needs driver %s or "
                  "newer; the node has %s." % (log["version"], built, floor["driver"], driver), floor["source"], "fails")


def _hit(ctx: Context, built: str, wanted: str, subject: str, text: str, there: bool) -> Hit:
    """there: whether this build is on the node, or about to be, and not only asked for."""
    floor = knowledge.cuda_floor(ctx.facts, built)
    runs = driver_runs(ctx, built)
    if floor and runs is False and floor_above(ctx, built):
        return Hit(subject, "%s, and CUDA %s needs driver %s or newer; the stack asks for %s." % (
            text, built, floor["driver"], ctx.driver["version"]), floor["source"], "fails" if there else "below_floor")
    # An older build runs with a newer driver; a newer one needs a driver that a node with the older toolkit rarely has.
    if floor and not runs and int(_major(built)) > int(_major(wanted)):
        return Hit(subject, "%s; CUDA %s needs driver %s or newer." % (text, built, floor["driver"]), ctx.facts["nccl"]["newer_major"]["source"],
                   "installed" if there else "newer")
    return Hit(subject, text + ".")


def nccl_cuda_newer_minor(ctx: Context) -> t.Iterator[Hit]:
    """NCCL is not built for a newer minor release than the toolkit's, where that was reported to cause trouble."""
    built, active = (ctx.stack.get("nccl") or {}).get("cuda"), (ctx.stack.get("cuda") or {}).get("active")
    reported = {row["major"] for row in ctx.facts["nccl"]["newer_minor"]}
    if built and active and _major(built) == _major(active) and _major(built) in reported:
        if len(knowledge.numbers(active)) > 1 and knowledge.numbers(built)[:2] > knowledge.numbers(active)[:2]:
            yield Hit("nccl %s for %s, active %s" % ((ctx.stack.get("nccl") or {}).get("version") or "", built, active),
                      "NCCL is built with CUDA %s, newer than the toolkit %s; such pairs were reported to fail." % (built, active))


def _major(version: str) -> str:
    return str(version).split(".", maxsplit=1)[0]


RULES = (nccl_cuda_major_differs, nccl_cuda_newer_minor)
