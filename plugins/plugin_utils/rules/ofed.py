# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the RDMA stack and GPUDirect: OFED, DOCA, peer memory."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_ofed
from ansible_collections.lockstep.gpu.plugins.plugin_utils import actions, knowledge

from . import ofed_found as found
from .context import Context, Hit, Row, listed

PEER_SYMBOL = re.compile(r"ib_(?:un)?register_peer_memory_client")
RESTART = "OFED's ib_core (restart openibd)"


def inbox_module_in_use(ctx: Context) -> t.Iterator[Hit]:
    """With OFED the kernel's own RDMA modules are not what is loaded."""
    names = found.inbox_modules(ctx) if found.is_vendor(ctx) and not ctx.container else []
    if names:
        kernels = found.built_kernels(ctx)
        # Where OFED's modules are there and others are used, they have to be loaded; else they have to be built first.
        there = kernels is not None and found.has_kernel(ctx, kernels)
        yield Hit(listed(names), "%s %s the kernel's own, although OFED %s is %s." % (
            listed(names), "is" if len(names) == 1 else "are", found.label(ctx), "installed" if found.told(ctx) else "what the stack asks for"),
            ctx.facts["ofed"]["peermem"]["inbox"]["source"], do=(actions.step("load_module", RESTART),) if there else _rebuild(ctx))


def _rebuild(ctx: Context) -> t.Tuple[Row, ...]:
    """The step that builds OFED's modules; none where it is known that they do not build."""
    if any(hit.context == "default" for hit in ofed_fails_to_build_on_kernel(ctx)):
        return ()
    return (actions.step("rebuild_ofed", found.label(ctx), kernel=ctx.kernel),) if ctx.kernel else (actions.step("rebuild_ofed", found.label(ctx)),)


def ofed_not_built_for_kernel(ctx: Context) -> t.Iterator[Hit]:
    """The kernel that has to work has OFED's modules."""
    kernels, missing = found.built_kernels(ctx), found.missing_modules(ctx)
    if not ctx.kernel or not found.is_vendor(ctx) or ctx.container or kernels is None and not missing or found.has_kernel(ctx, kernels or ()):
        return
    text = "OFED %s has modules for %s, none for %s" % (found.label(ctx), listed(kernels or []) or "no kernel", ctx.kernel)
    if kernels is None:
        text = "OFED %s has no modules for %s" % (found.label(ctx), ctx.kernel)
    # What DKMS has registered DKMS builds (dkms_not_built_for_kernel).
    yield Hit(ctx.kernel, text + ("; it has no %s." % listed(missing) if missing else "."), do=() if found.in_dkms(ctx) else _rebuild(ctx))


def _peer_events(ctx: Context) -> t.Iterator[Row]:
    """What the kernel said about symbols of a peer memory module."""
    loaded = (ctx.state.get("modules") or {}).get("list") or {}
    for event in [*(ctx.state.get("kernel_log") or []), *((ctx.state.get("rdma") or {}).get("depmod") or [])]:
        module = str(event.get("module") or "").replace("-", "_")
        # What is loaded now was built again, or loaded after the right ib_core.
        if event.get("kind") in ("symbol_version", "unknown_symbol") and module in found.PEER_MODULES and module not in loaded:
            yield dict(event, module=module)


def _versions_differ(event: Row) -> bool:
    """err -22 says that the symbol is there with another checksum; 0 and -2 say that it is not there."""
    return event["kind"] == "symbol_version" or event.get("err") == "-22"


def peermem_symbol_missing(ctx: Context) -> t.Iterator[Hit]:
    """ib_core has the peer memory interface, which only OFED's has."""
    events = [event for event in _peer_events(ctx) if PEER_SYMBOL.fullmatch(event["symbol"])]
    modules = {event["module"] for event in events} - {event["module"] for event in events if _versions_differ(event)}
    symbols = (ctx.state.get("rdma") or {}).get("symbols")
    if symbols == {} and not events:
        # Nobody kept the kernel's log, but the symbol is not there.
        modules = {row["module"] for row in _refused(ctx) if row["why"] == "unknown_symbol"}
    for module in sorted(modules):
        names = listed({event["symbol"] for event in events if event["module"] == module}) or "ib_register_peer_memory_client"
        yield Hit("%s: ib_core has no peer memory API" % module, "%s needs %s (err 0: there is no such symbol)%s: the inbox RDMA stack is loaded, or OFED's "
                  "modules are not; load OFED's ib_core first, then build %s." % (
                      module, names, "; the running kernel does not have it" if symbols == {} else "", module),
                  ctx.facts["ofed"]["peermem"]["symbols"]["source"],
                  do=(actions.step("load_module", RESTART), actions.step("rebuild", module, after="OFED")))


def _refused(ctx: Context) -> t.List[Row]:
    """What modprobe said about peer memory modules that it could not load."""
    return [row for row in (ctx.state.get("modules") or {}).get("refused") or [] if row["module"] in found.PEER_MODULES]


def peermem_built_against_other_ofed(ctx: Context) -> t.Iterator[Hit]:
    """A peer memory module is built after the OFED that is loaded."""
    for module in sorted({event["module"] for event in _peer_events(ctx) if PEER_SYMBOL.fullmatch(event["symbol"]) and _versions_differ(event)}):
        yield Hit("%s: ib_register_peer_memory_client" % module, "%s disagrees about the version of ib_register_peer_memory_client (err -22): it was built "
                  "against another OFED than the loaded one." % module, ctx.facts["ofed"]["peermem"]["order"]["source"],
                  do=(actions.step("rebuild", module, after="OFED"),))


def peermem_built_against_other_driver(ctx: Context) -> t.Iterator[Hit]:
    """A peer memory module is built against the driver that is loaded."""
    events = [event for event in _peer_events(ctx) if event["symbol"].startswith("nvidia_p2p_")]
    for module in sorted({event["module"] for event in events}):
        names = listed({event["symbol"] for event in events if event["module"] == module})
        yield Hit("%s: %s" % (module, names), "%s does not fit the loaded NVIDIA driver: %s." % (module, names),
                  ctx.facts["ofed"]["peermem"]["order"]["source"], do=(actions.step("rebuild", module, after="the driver"),))


def peermem_built_without_ofed(ctx: Context) -> t.Iterator[Hit]:
    """nvidia_peermem is built where the driver's build finds OFED's headers; else it loads nowhere."""
    complained = {event["module"] for event in _peer_events(ctx)}
    plain = [row for row in (ctx.state.get("rdma") or {}).get("peer_modules") or [] if row["depends"] is not None and "ib_" not in row["depends"]]
    refused = [row for row in _refused(ctx) if row["module"] == "nvidia_peermem" and "Invalid argument" in row["text"]]
    # A node without OFED has it built so, and nobody misses it. Without the kernel's log nobody knows whether a symbol was the reason.
    if plain and (refused or found.is_vendor(ctx)) or refused and ctx.state.get("kernel_log") is not None and "nvidia_peermem" not in complained:
        symbols = (ctx.state.get("rdma") or {}).get("symbols")
        seen = "it does not depend on ib_core" if plain else "it is refused (Invalid argument), and the kernel names no symbol"
        inbox = "; the running ib_core has no peer memory API either" if symbols == {} else ""
        yield Hit("nvidia_peermem", "nvidia_peermem was built without OFED: %s%s; build the driver's modules again after OFED, or use dma-buf." % (
            seen, inbox), ctx.facts["ofed"]["peermem"]["without"]["source"], do=(actions.step("rebuild", "nvidia_peermem", after="OFED"),))


def ofed_fails_to_build_on_kernel(ctx: Context) -> t.Iterator[Hit]:
    """No public report says that this OFED's modules do not build for the kernel."""
    want, stack = found.provider(ctx), found.wanted(ctx)
    for row in ctx.facts["ofed"]["kernel_limits"]:
        if not ctx.kernel or row["provider"] != want or row.get("release") and (not stack or stack["release"] != row["release"]):
            continue
        doca = (ctx.stack.get("ofed") or {}).get("doca")
        if row.get("last_doca") and doca and knowledge.numbers(doca)[:2] > knowledge.numbers(row["last_doca"]):
            continue
        if (_mainline(ctx) or not row.get("mainline")) and knowledge.numbers(ctx.kernel)[:2] >= knowledge.numbers(row["from"])[:2]:
            yield Hit("%s@%s" % (_called(ctx), ctx.kernel), "%s does not build for kernel %s; it is known not to build from %s on." % (
                _called(ctx), ctx.kernel, row["from"]), row.get("source"), "default" if row.get("source") else "reported")


def _mainline(ctx: Context) -> bool:
    """Whether the kernel is nobody's own: said so, or a bare number where no distribution with kernels of its own is named."""
    own = (knowledge.distribution(ctx.facts, ctx.os) or {}).get("package_manager") in ("apt", "dnf", "zypper")
    return bool(ctx.claimed_kernel.get("mainline") or not own and re.fullmatch(r"\d+\.\d+(\.\d+)?", ctx.kernel or ""))


def _called(ctx: Context) -> str:
    """The vendor's stack as people call it, with the version that the stack names."""
    ofed = ctx.stack.get("ofed") or {}
    doca = found.provider(ctx) == "doca"
    return " ".join(["DOCA-OFED" if doca else "MLNX_OFED", str((ofed.get("doca") if doca else None) or ofed.get("version") or "")]).strip()


def _nic_names(ctx: Context) -> t.List[str]:
    """Names of the adapters: of a PCI id by pci.ids, of a product as it is called without its maker."""
    names = []
    for nic in ctx.nics:
        row = next((row for row in ctx.facts["ofed"]["nics"] if nic.strip().lower() in row["ids"]), None)
        words = re.sub(r"(?i)\b(?:nvidia|mellanox|technologies)\b|[\[\]]", " ", nic)
        plain = re.sub(r"(?i)\b(?:cx|connect-?x)-?(?=\d)", "ConnectX-", words)
        plain = re.sub(r"(?i)\b(?:bf|blue-?field)-?(?=\d)", "BlueField-", plain)
        names.append(row["name"] if row else " ".join(plain.split()))
    return names


def ofed_not_for_nic(ctx: Context) -> t.Iterator[Hit]:
    """The adapters are of a generation that the stack supports."""
    ofed = ctx.stack.get("ofed") or {}
    version, provider = parse_ofed.ofed_version(ofed.get("version") or ""), found.provider(ctx)
    for nic in _nic_names(ctx):
        for row in ctx.facts["ofed"]["nic_limits"]:
            if nic not in row["nics"] or row["provider"] != provider:
                continue
            last, have = (row["last"], version["release"] if version else None) if row.get("last") else (row.get("last_doca"), ofed.get("doca"))
            if last and (not have or knowledge.numbers(have)[:2] <= knowledge.numbers(last)[:2]):
                continue
            yield Hit("%s with %s" % (nic, _called(ctx)), "%s does not support %s%s; take %s." % (
                _called(ctx), nic, ", %s is the last that does" % last if last else "", row["advice"]), row.get("source"),
                "default" if row.get("source") else "reported")


def ofed_not_for_os(ctx: Context) -> t.Iterator[Hit]:
    """The stack works with this release of the distribution."""
    ofed = ctx.stack.get("ofed") or {}
    for row in ctx.facts["ofed"]["conflicts"]:
        if row["provider"] != found.provider(ctx) or ctx.os.get("id") not in row["os"] or row["release"] not in (ctx.os.get("release"), ctx.os.get("point")):
            continue
        doca = ofed.get("doca")
        if row.get("doca") and (not doca or knowledge.at_least(doca, row["works_from"]) or not _same_series(doca, row["doca"])):
            continue
        if row.get("kernel_from") and ctx.kernel and knowledge.numbers(ctx.kernel)[:2] < knowledge.numbers(row["kernel_from"])[:2]:
            continue
        # A release that somebody names may have come later; one that nobody names is any.
        wants = (ctx.stack.get("modules") or {}).get(row.get("needs"))
        context = "default" if not row.get("needs") or wants or not ofed.get("version") else "unwanted"
        yield Hit("%s@%s %s" % (_called(ctx), ctx.os["id"], row["release"]), "%s does not work with %s %s: %s." % (
            _called(ctx), ctx.os["id"], row["release"], row["why"]), row["source"], context)


def _same_series(version: str, series: str) -> bool:
    length = len(knowledge.numbers(series))
    return knowledge.numbers(version)[:length] == knowledge.numbers(series)


def doca_ofed_mismatch(ctx: Context) -> t.Iterator[Hit]:
    """A release of DOCA-Host comes with one OFED; the two have numbers of their own."""
    ofed = ctx.stack.get("ofed") or {}
    version = parse_ofed.ofed_version(ofed.get("version") or "")
    row = next((row for row in ctx.facts["ofed"]["doca"] if row["doca"] == ofed.get("doca")), None)
    if row and version and knowledge.numbers(version["release"]) != knowledge.numbers(row["ofed"]):
        yield Hit("DOCA %s, OFED %s" % (row["doca"], ofed["version"]), "DOCA %s brings OFED %s, not %s." % (row["doca"], row["ofed"], ofed["version"]),
                  row.get("source"), "default" if row.get("source") else "reported")


def gpudirect_not_possible(ctx: Context) -> t.Iterator[Hit]:
    """GPUDirect RDMA has a way: OFED's peer memory, or dma-buf with a kernel and a module that have it."""
    limits = ctx.facts["ofed"]["dmabuf"]
    flavour = ctx.driver.get("flavour")
    if not ctx.driver or not ctx.kernel or found.is_vendor(ctx) or ctx.container:
        return
    old = knowledge.numbers(ctx.kernel)[:2] < knowledge.numbers(limits["kernel"])
    if old and flavour == "proprietary":
        expect = ctx.stack.get("expect") or {}
        rdma = bool(ctx.stack.get("ofed") or expect.get("hcas") or ctx.nics)
        if rdma or not ctx.state:
            yield Hit("kernel %s, %s module" % (ctx.kernel, flavour), "GPUDirect RDMA over dma-buf needs kernel %s or newer and the open module; with kernel "
                      "%s and the %s one it needs OFED's peer memory, and no OFED is named." % (limits["kernel"], ctx.kernel, flavour),
                      limits["source"], "default" if rdma else "unwanted")


RULES: t.Tuple[t.Callable[[Context], t.Iterator[Hit]], ...] = (
    inbox_module_in_use, ofed_not_built_for_kernel, peermem_symbol_missing, peermem_built_against_other_ofed,
    peermem_built_against_other_driver, peermem_built_without_ofed, ofed_fails_to_build_on_kernel, ofed_not_for_nic, ofed_not_for_os, doca_ofed_mismatch,
    gpudirect_not_possible)
