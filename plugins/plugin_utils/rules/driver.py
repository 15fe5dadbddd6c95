# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the driver that a stack asks for: can it exist, drive the GPUs, and be built?"""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge

from . import flavour_found
from .context import Context, Hit, upstream, weight


def driver_branch_unknown(ctx: Context) -> t.Iterator[Hit]:
    """The driver's branch has a row."""
    if ctx.purpose == "install" and ctx.driver.get("version") and not knowledge.branch(ctx.facts, ctx.driver["version"]):
        known = ", ".join(row["branch"] for row in ctx.facts["drivers"]["branches"])
        yield Hit(ctx.driver["version"], "Driver %s belongs to no known branch; known: %s." % (ctx.driver["version"], known))


def flavour_not_in_branch(ctx: Context) -> t.Iterator[Hit]:
    """The branch has the open module that is asked for."""
    row = knowledge.branch(ctx.facts, ctx.driver.get("version") or "")
    if row and ctx.driver.get("flavour") == "open" and not row["open"]:
        yield Hit("%s open" % row["branch"], "Driver branch %s has no open kernel module." % row["branch"], row["source"])


def gpu_needs_proprietary(ctx: Context) -> t.Iterator[Hit]:
    """No GPU without a GSP gets the open module."""
    for name, row in ctx.gpus:
        if ctx.driver.get("flavour") == "open" and row["flavour"] == "proprietary":
            yield Hit(name, "%s (%s, %s) has no GSP: the open module does not drive it." % (
                row["name"], name, row["architecture"]), row["flavour_source"])
    if ctx.driver.get("flavour") != "open":
        yield from flavour_found.needs_proprietary(ctx)


def flavour_mismatch(ctx: Context) -> t.Iterator[Hit]:
    """A GPU that only the open module drives gets it, and the node has the flavour that is asked for."""
    for name, row in ctx.gpus:
        if row["flavour"] == "open" and ctx.driver.get("flavour") == "proprietary":
            yield Hit("%s needs open, %s is proprietary" % (name, ctx.driver.get("version") or "the driver"),
                      "%s (%s) is driven by the open kernel module only; the stack asks for the proprietary one." % (
                          row["name"], name), row["flavour_source"])
    if ctx.driver.get("flavour") != "proprietary" or not any(row["flavour"] == "open" for name, row in ctx.gpus):
        yield from flavour_found.mismatches(ctx)


def gpu_needs_newer_driver(ctx: Context) -> t.Iterator[Hit]:
    """The driver knows the GPU."""
    version = ctx.driver.get("version")
    for name, row in ctx.gpus if version else ():
        floor, first, listed_in = row.get("min_driver"), row.get("first_branch"), row.get("listed_in")
        if floor and knowledge.at_least(version, floor) is False:
            yield Hit("%s needs %s" % (name, floor), "%s (%s) needs driver %s or newer, the stack asks for %s." % (
                row["name"], name, floor, version), row["min_driver_source"])
        elif first and int(knowledge.branch_of(version)) < int(first):
            yield Hit("%s needs %s" % (name, first), "%s (%s, %s) needs driver branch %s or newer, which came with the first CUDA for it (%s); the stack "
                      "asks for %s." % (row["name"], name, row["architecture"], first, row["cuda"]["first"], version), row["first_branch_source"])
        elif ctx.purpose == "install" and listed_in and knowledge.at_least(version, listed_in) is False:
            yield Hit("%s, listed in %s" % (name, listed_in), "%s (%s) is listed by the open module from %s on; the stack asks for %s." % (
                row["name"], name, listed_in, version), row.get("source"), "reported")


def branch_dropped_gpu(ctx: Context) -> t.Iterator[Hit]:
    """The branch still drives the GPU."""
    branch = knowledge.branch_of(ctx.driver.get("version") or "0")
    for name, row in ctx.gpus:
        if row["last_branch"] and int(branch) > int(row["last_branch"]):
            yield Hit("%s@%s" % (name, branch), "Driver branch %s no longer drives %s (%s, %s); %s is the last that does." % (
                branch, row["name"], name, row["architecture"], row["last_branch"]), row["last_branch_source"])
    yield from flavour_found.dropped(ctx)


def _builds(ctx: Context) -> t.List[t.Dict[str, t.Any]]:
    """The measured builds of exactly what would be built: narrowed by package versions and compiler where they are known."""
    if not ctx.kernel or ctx.driver.get("module") == "precompiled":
        return []
    rows = knowledge.builds(ctx.facts, ctx.os, ctx.kernel, ctx.driver.get("version") or "", ctx.driver.get("flavour") or "")
    package_version = (ctx.stack.get("kernel") or {}).get("package_version")
    compiler = (ctx.installed_kernel or {}).get("compiler")
    result = []
    for row in rows:
        have = ctx.revision_of(row["driver"]["package"])
        other_revision = have and upstream(have) == row["driver"]["version"] and have != row["driver"]["revision"]
        other_kernel = package_version and package_version != row["kernel"]["package_version"]
        if not other_revision and not other_kernel and compiler in (None, row["compiler"]):
            result.append(row)
    return result


def _published_failure(ctx: Context) -> t.Optional[t.Dict[str, t.Any]]:
    """The row by which the driver does not build for the kernel as NVIDIA ships it; a distribution's own packages are patched."""
    driver = ctx.driver
    if ctx.purpose != "install" or not ctx.kernel or not driver.get("version") or driver.get("source") == "distribution":
        return None
    # Of "any driver before 595" some may build.
    if driver.get("module") != "dkms" or driver.get("older"):
        return None
    return knowledge.fails_to_build(ctx.facts, driver["version"], ctx.kernel, driver.get("flavour"), ctx.os.get("arch"))


def driver_fails_to_build_on_kernel(ctx: Context) -> t.Iterator[Hit]:
    """No build of this driver for this kernel is known to fail; a measured success of another revision counts for the driver."""
    rows = _builds(ctx)
    if any(row["result"] == "ok" for row in rows):
        return
    published = _published_failure(ctx)
    if published:
        fixed = "; mended in " + ", ".join(published["fixed"]) if published["fixed"] else ""
        yield Hit("%s@%s" % (ctx.driver["version"], ctx.kernel), "The module of driver %s does not build for kernel %s unless it is patched: "
                  "%s and older of its branch fail from %s on%s." % (
                      ctx.driver["version"], ctx.kernel, published["driver"], ", ".join(published["kernel"]), fixed),
                  published.get("source"), weight(published, "published"))
    for row in rows:
        measured = row.get("certainty") != "reported"
        yield Hit("%s=%s@%s" % (row["driver"]["package"], row["driver"]["revision"], row["kernel"]["release"]),
                  "The %s module %s does not build for kernel %s (%s) with %s; %s on %s: %s." % (
                      row["driver"]["flavour"], row["driver"]["revision"], row["kernel"]["release"],
                      row["kernel"]["package_version"], row["compiler"], "measured" if measured else "reported",
                      row["as_of"], row["error"].rstrip(".")),
                  row.get("source"), "default" if measured else "reported")


def unproven(ctx: Context) -> t.Iterator[Hit]:
    """Something measured or published stands behind the driver, its build, and the CUDA release."""
    # What runs on a node needs no other proof.
    if ctx.purpose == "audit" and ctx.state:
        return
    version = ctx.driver.get("version") or ""
    row = knowledge.branch(ctx.facts, version)
    if row and "." in version and not any(known == version or known.startswith(version + ".") for known in row["versions"]):
        yield Hit("driver %s" % version, "Driver %s is not among the known versions of branch %s (newest: %s)." % (
            version, row["branch"], ", ".join(row["versions"][:-4:-1])), row["source"])
    elif version and ctx.kernel and ctx.os and ctx.driver.get("module") != "precompiled" and not _builds(ctx) and not _published_failure(ctx):
        flavour = ctx.driver.get("flavour") or "any flavour"
        yield Hit("driver %s %s@%s" % (version, flavour, ctx.kernel),
                  "No build of driver %s (%s) for kernel %s has been measured." % (version, flavour, ctx.kernel))
    for cuda in (ctx.stack.get("cuda") or {}).get("versions") or []:
        if knowledge.cuda_floor(ctx.facts, cuda) and not knowledge.toolkits(ctx.facts, cuda):
            near = knowledge.toolkits(ctx.facts, ".".join(cuda.split(".")[:2])) or knowledge.toolkits(ctx.facts, cuda.split(".")[0])
            yield Hit("cuda %s" % cuda, "CUDA %s is not a known release (near: %s)." % (cuda, ", ".join(near[:4])))


def no_package_set(ctx: Context) -> t.Iterator[Hit]:
    """The distribution has packages for each component of an exact stack."""
    # Only an exact stack says where its packages come from, and at which version; a claim is not going to be installed.
    exact = (ctx.stack.get("driver") or {}).keys() >= {"version", "source", "options"}
    if not exact or not knowledge.distribution(ctx.facts, ctx.os):
        return
    for product in ctx.facts["packages"]["products"]:
        component = ctx.stack.get(product)
        if component and not ctx.set_of(product):
            words = [str(component.get(key)) for key in ("version", "active", "profile", "provider", "source") if component.get(key)]
            yield Hit("%s@%s %s" % (product, ctx.os["id"], ctx.os["release"]), "%s %s has no known packages for %s." % (
                ctx.os["id"], ctx.os["release"], " ".join([product, *words] + ([ctx.driver["flavour"] or "auto"] if product == "driver" else []))))


RULES = (driver_branch_unknown, flavour_not_in_branch, gpu_needs_proprietary, flavour_mismatch, gpu_needs_newer_driver,
         branch_dropped_gpu, driver_fails_to_build_on_kernel, unproven, no_package_set)
