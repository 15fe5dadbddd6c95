# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which RDMA stack is asked for and which one is on a node, in one spelling."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_ofed
from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from .context import Context, Hit, Row

# Packages whose version is OFED's own; others of the product count for themselves, and doca-ofed counts as DOCA does.
OFED_PACKAGES = re.compile(
    r"(kmod-)?mlnx-(ofa_kernel|ofed-kernel)(-dkms|-devel|-modules|-utils|-source)?(-.*)?|(kmod-)?(iser|isert|srp|mlnx-nvme|mlnx-rdma-rxe)(-dkms)?"
    r"|mlnx-ofed-(all|basic|hpc|kernel-only|dpdk|guest|hypervisor)(-.*)?")
# Modules for one kernel, whose release the name has with dots: doca-kernel-5.14.0.427.13.1.el9.4.x86.64.
KERNEL_PACKAGE = re.compile(r"doca-kernel-(\d[\w.+~-]*)")
DKMS_MODULES = ("mlnx-ofed-kernel", "mlnx-ofa_kernel")
PEER_MODULES = ("nv_peer_mem", "nvidia_peermem")


def wanted(ctx: Context) -> t.Optional[Row]:
    """The vendor's OFED that the stack asks for, as parse_ofed.ofed_version has it; None for the distribution's own, or none."""
    ofed = ctx.stack.get("ofed") or {}
    found = parse_ofed.ofed_version(ofed["version"]) if ofed.get("version") else None
    if provider(ctx) in ("mlnx", "doca"):
        return dict(found, provider=provider(ctx)) if found else None
    return None


def provider(ctx: Context) -> t.Optional[str]:
    """mlnx, doca or inbox as the stack says, or as the version tells: MLNX_OFED's have a build, rdma-core's have none."""
    ofed = ctx.stack.get("ofed") or {}
    if ofed.get("provider"):
        return str(ofed["provider"])
    if ofed.get("doca"):
        return "doca"
    version = parse_ofed.ofed_version(ofed.get("version") or "")
    if version and version["build"]:
        node = (ctx.state.get("ofed") or {}).get("kind")
        # DOCA's releases follow MLNX_OFED's last one, 24.10.
        return node if node in ("mlnx", "doca") else "doca" if knowledge.numbers(version["release"]) > (24, 10) else "mlnx"
    return "mlnx" if version and re.fullmatch(r"(4\.9|5\.\d|2[34]\.\d\d)", version["release"]) else None


def told(ctx: Context) -> t.Optional[str]:
    """The version that ofed_info prints; None without OFED."""
    ofed = ctx.state.get("ofed") or {}
    return ofed.get("version") if ofed.get("kind") not in ("inbox", "none") and ofed.get("release") else None


def is_vendor(ctx: Context) -> bool:
    """Whether OFED of the vendor is asked for, or is what the node says it has."""
    return provider(ctx) in ("mlnx", "doca") or told(ctx) is not None


def label(ctx: Context) -> str:
    """OFED's version as a person says it: the stack's, else the node's."""
    return str((ctx.stack.get("ofed") or {}).get("version") or told(ctx) or (ctx.stack.get("ofed") or {}).get("doca") or "OFED")


def versions(ctx: Context) -> t.Iterator[t.Tuple[str, str, Row]]:
    """(what, its version as written, the version) of everything on the node that has OFED's version."""
    said = told(ctx)
    if said:
        yield "ofed_info", said, parse_ofed.ofed_version(said) or {}
    for name, row in sorted(ctx.packages.items()):
        version = parse_ofed.ofed_version(row.get("version") or "") if OFED_PACKAGES.fullmatch(name.partition(":")[0]) else None
        if version:
            yield name, row["version"], version
    for row in ctx.state.get("dkms") or []:
        version = parse_ofed.ofed_version(row["version"]) if row["module"] in DKMS_MODULES else None
        if version:
            yield "dkms %s" % row["module"], row["version"], version
    for row in (ctx.state.get("rdma") or {}).get("modules") or []:
        version = parse_ofed.ofed_version(row["version"]) if row["version"] and row["kind"] == "ofed" and row["module"] != "mlx_compat" else None
        if version and version["build"]:
            yield "modinfo %s" % row["module"], row["version"], version


def version_differs(ctx: Context) -> t.Iterator[Hit]:
    """Everything that is of another OFED than the stack's, at the precision that both have (package_version_differs)."""
    want = wanted(ctx)
    for what, text, version in versions(ctx) if want else ():
        if parse_ofed.agree(version, want) is False:
            newer = [knowledge.numbers("%s %s" % (one["release"], one["build"] or "")) for one in (version, want or {})]
            move = step("downgrade_exact" if newer[0] > newer[1] else "install_exact", "OFED %s" % label(ctx))
            yield Hit("%s %s, wanted %s" % (what, text, label(ctx)), "%s is %s, the claim's OFED is %s." % (what, text, label(ctx)), do=(move,))
    yield from _other_doca(ctx)
    yield from _other_inbox(ctx)


def _other_doca(ctx: Context) -> t.Iterator[Hit]:
    """Packages of DOCA-Host, whose version is DOCA's own, of another release than the claimed one."""
    doca = str((ctx.stack.get("ofed") or {}).get("doca") or "")
    profiles = [name for name in sorted(ctx.packages) if re.fullmatch(r"doca-(ofed|all|networking|ofed-userspace)", name.partition(":")[0])]
    for name in (profiles or [name for name in ctx.packages if name == "doca-host"]) if re.fullmatch(r"\d+\.\d+(\.\d+)?", doca) else ():
        version = str(ctx.packages[name].get("version") or "")
        have, want = knowledge.numbers(re.split(r"[-+~]", version)[0]), knowledge.numbers(doca)
        if re.match(r"\d+\.\d+\.\d+", version) and have[:len(want)] != want:
            yield Hit("%s %s, wanted %s" % (name, version, doca), "%s is %s, the claim's DOCA is %s." % (name, version, doca),
                      do=(step("downgrade_exact" if have > want else "install_exact", "%s %s" % (name, doca)),))


def _other_inbox(ctx: Context) -> t.Iterator[Hit]:
    """The distribution's own stack is asked for, and the vendor's packages, or another release of it, are there."""
    want = (ctx.stack.get("ofed") or {}).get("version")
    name = next((name for name in ("rdma-core", "libibverbs1", "libibverbs") if name in ctx.packages), None)
    if provider(ctx) != "inbox" or not name or not want:
        return
    version = str(ctx.packages[name].get("version") or "")
    numbers = knowledge.numbers(str(want))
    if "mlnx" in version.lower() or re.match(r"\d+\.\d", version) and knowledge.numbers(re.split(r"[-+~]", version)[0])[:len(numbers)] != numbers:
        yield Hit("%s %s, wanted %s" % (name, version, want), "%s is %s, the claim asks for the distribution's own %s." % (name, version, want),
                  do=(step("manual", "remove MLNX_OFED or DOCA, then install the distribution's RDMA packages"),) if "mlnx" in version.lower() else
                  (step("install_exact", "%s %s" % (name, want)),))


def inbox_modules(ctx: Context) -> t.List[str]:
    """RDMA modules of the kernel's own that are in use where OFED's should be."""
    rdma = ctx.state.get("rdma") or {}
    # A module of another kernel than the one that has to work tells nothing about it.
    rows = [row["module"] for row in rdma.get("modules") or []
            if row["kind"] == "inbox" and row["module"] in parse_ofed.RDMA_MODULES and (ctx.kernel is None or row["kernel"] in (None, ctx.kernel))]
    return list(dict.fromkeys([*rows, *(rdma.get("passed_over") or [])]))


def built_kernels(ctx: Context) -> t.Optional[t.List[str]]:
    """The kernels that have OFED's modules, sorted; None where neither files nor DKMS nor packages of one kernel tell."""
    rdma = ctx.state.get("rdma") or {}
    names = ("mlx5_core", "mlx5_ib", "mlx4_core", "mlx4_ib", "ib_core", "mlx_compat")
    registered = [row for row in ctx.state.get("dkms") or [] if row["module"] in DKMS_MODULES]
    packaged = {found.group(1) for found in map(KERNEL_PACKAGE.fullmatch, ctx.packages) if found}
    if rdma.get("files") is None and not packaged and not registered:
        return None
    kernels = {row["kernel"] for row in rdma.get("files") or [] if row["kind"] == "ofed" and row["module"] in names} | packaged
    # A search may have been for one folder only; what DKMS installed, or modinfo found, is there all the same.
    kernels |= {row["kernel"] for row in registered if row.get("kernel") and str(row["state"]).startswith("installed")}
    kernels |= {row["kernel"] for row in rdma.get("modules") or [] if row["kind"] == "ofed" and row["kernel"] and row["module"] in names}
    return sorted(kernels)


def in_dkms(ctx: Context) -> bool:
    """Whether DKMS builds OFED's modules here."""
    return any(row["module"] in DKMS_MODULES for row in ctx.state.get("dkms") or [])


def missing_modules(ctx: Context) -> t.List[str]:
    """Modules that every OFED has and that the running kernel does not: neither OFED's nor its own."""
    rdma = ctx.state.get("rdma") or {}
    running = (ctx.state.get("kernel") or {}).get("running")
    if running and ctx.kernel and running != ctx.kernel:
        return []
    names = [*(rdma.get("absent") or []), *(row["module"] for row in rdma.get("modules") or [] if row["path"] is None)]
    return [name for name in dict.fromkeys(names) if name in ("mlx5_core", "mlx5_ib", "ib_core", "ib_uverbs", "mlx_compat")]


def has_kernel(ctx: Context, kernels: t.Iterable[str]) -> bool:
    """Whether the kernel that has to work is among some, one of which may be written with dots."""
    return bool(ctx.kernel) and re.sub("[-_]", ".", str(ctx.kernel)) in {re.sub("[-_]", ".", kernel) for kernel in kernels}
