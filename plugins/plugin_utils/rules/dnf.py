# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about dnf: module streams, version locks, precompiled modules; and RDMA packages of two stacks."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_dnf, parse_rpm_kernels, versions_rpm
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from .context import Context, Hit, Row, listed

MODULE = "nvidia-driver"
# Streams that move to a new branch when NVIDIA's repository does.
FLOATING = ("latest", "latest-dkms", "open-dkms")
STREAMS = "https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"
DRIVER_NAMES = re.compile(r"(nvidia|cuda-drivers|kmod-nvidia|dkms-nvidia|libnvidia|xorg-x11-nvidia|libcuda|libnv).*", re.IGNORECASE)
# What rdma-core builds, on RPM systems and on Debian's; MLNX_OFED and DOCA bring the same names.
RDMA_NAMES = re.compile(r"rdma-core(-devel)?|(lib)?(ibverbs|ibumad|ibmad|ibnetdisc|rdmacm|rdmacm1|mlx[45]|efa)\d*(-utils|-providers|-dev|-devel|t64)?"
                        r"|infiniband-diags(-compat)?|ibacm|srp_daemon|srptools|iwpmd|opensm.*")


def _manager(ctx: Context) -> Row:
    return ctx.state.get("package_manager") or {}


def _problems(ctx: Context, *reasons: str) -> t.List[Row]:
    """What runs of dnf said, of some reasons."""
    return [row for row in _manager(ctx).get("problems") or [] if row.get("reason") in reasons]


def _module(ctx: Context) -> t.Optional[Row]:
    """The driver's module as dnf has it; empty where dnf knows none, None where nobody looked."""
    modules = _manager(ctx).get("modules")
    return None if modules is None else modules.get(MODULE) or {}


def _enabled(ctx: Context) -> t.Optional[str]:
    """The enabled stream of the driver's module: as listed, else as a refused switch names it."""
    listed_stream = (_module(ctx) or {}).get("enabled")
    return listed_stream or next((row["old"] for row in _problems(ctx, "stream_switch") if row["package"] == MODULE), None)


def _stream(ctx: Context) -> t.Optional[str]:
    """The stream that the claim names."""
    return (ctx.stack.get("driver") or {}).get("stream")


def _stream_to_enable(ctx: Context) -> str:
    """The stream to enable, as module_enable's target names it: the claim's, else what its driver would be in."""
    driver = ctx.driver
    branch = re.match(r"\d{3,4}", driver.get("version") or "")
    wanted = _stream(ctx)
    if not wanted and branch and driver.get("module") == "precompiled" and driver.get("flavour") != "open":
        wanted = branch.group()
    elif not wanted and branch and driver.get("flavour") in ("open", "proprietary"):
        wanted = "%s-%s" % (branch.group(), "open" if driver["flavour"] == "open" else "dkms")
    elif not wanted and branch and _enabled(ctx):
        # Nobody names the flavour: it stays what it is.
        kind = re.search(r"-?(open|dkms)\b", str(_enabled(ctx)))
        wanted = branch.group() + ("-" + kind.group(1) if kind else "")
    return "%s:%s" % (MODULE, wanted or "<stream of the lock>")


def _contradicts(ctx: Context, stream: str) -> bool:
    """Whether a stream cannot hold the claim's driver, where the claim names no stream itself."""
    driver = ctx.stack.get("driver") or {}
    branch, _dash, kind = stream.partition("-")
    if driver.get("version") and branch.isdigit() and branch != driver["version"].split(".")[0]:
        return True
    if kind == "open" and driver.get("flavour") == "proprietary" or kind == "dkms" and driver.get("flavour") == "open":
        return True
    return branch.isdigit() and (driver.get("module") == "precompiled" and bool(kind) or driver.get("module") == "dkms" and not kind)


def _other_stream(ctx: Context) -> t.Optional[t.Tuple[str, str]]:
    """(enabled, wanted) where another stream than the claim's is enabled, and not merely a floating one."""
    enabled, wanted = _enabled(ctx), _stream(ctx)
    if not enabled or enabled in FLOATING and wanted not in FLOATING and not _problems(ctx, "stream_switch"):
        return None
    if wanted:
        return None if wanted == enabled else (enabled, wanted)
    if _contradicts(ctx, enabled):
        return enabled, _stream_to_enable(ctx).partition(":")[2]
    switch = next((row for row in _problems(ctx, "stream_switch") if row["package"] == MODULE), None)
    return (enabled, switch["new"]) if switch and switch["old"] == enabled else None


def module_stream_differs(ctx: Context) -> t.Iterator[Hit]:
    """The enabled stream of the driver's module is the claim's."""
    other = _other_stream(ctx)
    if not other:
        return
    enabled, wanted = other
    content = (_module(ctx) or {}).get("profiles") or ctx.members("driver")
    version = ctx.driver.get("version")
    new_set = "driver set of %s:%s%s" % (MODULE, wanted, " at %s" % version if version else "")
    steps = [step("module_reset", MODULE), step("module_enable", "%s:%s" % (MODULE, wanted)), step("install_exact", new_set)]
    if content:
        steps.insert(0, step("remove", "content of %s:%s" % (MODULE, enabled)))
    yield Hit("%s enabled, %s locked" % (enabled, wanted),
              "Module %s has the stream %s enabled, the driver's stream is to be %s; dnf does not switch a stream while packages of the old one "
              "are installed." % (MODULE, enabled, wanted), STREAMS, do=tuple(steps))


def floating_stream(ctx: Context) -> t.Iterator[Hit]:
    """No stream is enabled that follows NVIDIA's newest branch."""
    enabled = (_module(ctx) or {}).get("enabled")
    if enabled not in FLOATING or not ctx.driver or _other_stream(ctx):
        return
    names = listed(ctx.members("driver")) or "driver set"
    if _stream(ctx) == enabled:
        yield Hit(str(enabled), "The claim's own stream %s moves to a new branch when NVIDIA's repository does; only version locks keep the driver at %s."
                  % (enabled, ctx.driver.get("version") or "its version"), STREAMS, "locked", (step("dnf_versionlock", names),))
        return
    yield Hit(str(enabled), "Module %s has the stream %s enabled, which moves to a new branch when NVIDIA's repository does; the driver is to stay at %s."
              % (MODULE, enabled, ctx.driver.get("version") or _stream(ctx) or "its version"), STREAMS,
              do=(step("module_reset", MODULE), step("module_enable", _stream_to_enable(ctx)), step("dnf_versionlock", names)))


def module_stream_not_enabled(ctx: Context) -> t.Iterator[Hit]:
    """A stream of the driver's module is enabled, so that dnf shows its packages."""
    if _other_stream(ctx):
        return
    filtered = [row for row in _problems(ctx, "modular_filtering") if row.get("package")]
    own = [row for row in filtered if DRIVER_NAMES.fullmatch(row["package"])]
    enable = step("module_enable", _stream_to_enable(ctx))
    if own:
        stream = _enabled(ctx)
        yield Hit(MODULE, "dnf leaves out %s by modular filtering: %s. The packages are in the repository." % (
            listed({_written(row) for row in own}),
            "the enabled stream %s of module %s does not have them" % (stream, MODULE) if stream else "no stream of module %s is enabled" % MODULE),
            STREAMS, do=(enable,))
    for name in sorted({row["package"] for row in filtered if row not in own}):
        yield Hit(name, "dnf leaves out %s by modular filtering: no enabled module stream has it. The package is in the repository." % name)
    module = _module(ctx)
    # An exact stack's stream is in its plan.
    wanted = _stream(ctx) or next((row["want"] for _component, row in ctx.planned("drift") if row["why"] == "module_stream_differs"), None)
    if not own and module is not None and wanted and not _enabled(ctx):
        yield Hit("%s:%s" % (MODULE, wanted), "The driver is to come from %s:%s, and %s." % (
            MODULE, wanted, "the module is disabled" if module.get("disabled") else "no stream of the module is enabled"),
            STREAMS, "listed", (enable,))


def unprovided(ctx: Context) -> t.Iterator[Hit]:
    """A repository has what the product's packages need of other makers' packages: dkms, which EPEL has, above all."""
    found: t.Dict[str, t.List[str]] = {}
    for row in _problems(ctx, "nothing_provides"):
        need = re.match(r"([A-Za-z][\w.+-]*)(?: [<>=]+ \S+)?$", row.get("what") or "")
        package = row.get("package") or ""
        # Kernels, their modules and RDMA packages have rules of their own.
        if need and not re.match(r"kernel|nvidia-kmod|kmod-|lib\S*\.so", need.group(1)) and not RDMA_NAMES.fullmatch(need.group(1)) \
                and ctx.family(package).get("product") and not (need.group(1) == "dkms" and ctx.driver.get("module") == "precompiled"):
            found.setdefault(need.group(), []).append(_written(row))
    for what, packages in found.items():
        yield Hit(what, "No enabled repository has %s, which %s needs." % (what, listed(packages)), context="unavailable",
                  do=(step("configure_repository", "one that has %s%s" % (what, ", as EPEL does" if what.split()[0] == "dkms" else "")),))


def _written(row: Row) -> str:
    """A package as dnf writes it: nvidia-settings-3:580.65.06-1.el10."""
    return "%s-%s" % (row["package"], row["version"]) if row.get("version") else row["package"]


def _closure(ctx: Context) -> t.Dict[str, Row]:
    """The installed packages that version locks have to keep: those of every product that the claim names."""
    found: t.Dict[str, Row] = {}
    for product in ("driver", "cuda", "nccl", "fabric", "container_toolkit", "dcgm", "ofed"):
        if ctx.stack.get(product):
            found.update(ctx.members(product))
    release = (ctx.stack.get("kernel") or {}).get("release")
    for name, row in ctx.members("kernel").items() if release else ():
        # User space brings kernel-headers and kernel-tools of its own pace.
        versions = [row["version"], *row.get("others", [])]
        own = next((version for version in versions if version and str(release).startswith(version)), None)
        if own and not re.search(r"-(headers|tools|tools-libs|doc|srpm-macros|rpm-macros)$", name):
            found[name] = dict(row, version=own)
    return found


def versionlock_incomplete(ctx: Context) -> t.Iterator[Hit]:
    """Every installed package of the claim's products is locked at its version, also those that came as dependencies."""
    locks = _manager(ctx).get("versionlocks")
    if locks is None or (ctx.stack.get("expect") or {}).get("hold") is False:
        return
    closure = _closure(ctx)
    loose = [name for name, row in closure.items() if row.get("version") and not any(
        parse_dnf.locked(lock, name.partition(":")[0], row["version"], row.get("arch")) for lock in locks)]
    if not loose:
        return
    elsewhere = listed({lock["spec"] for lock in locks for name in loose if not lock["exclude"] and parse_dnf.names(lock, name)})
    yield Hit(listed(loose), "%d of %d packages of the claim's products have no version lock at what is installed: %s.%s" % (
        len(loose), len(closure), listed("%s-%s" % (name, closure[name]["version"]) for name in loose),
        " Locks for another version: %s." % elsewhere if elsewhere else ""), do=(step("dnf_versionlock", listed(loose)),))


def _fits(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one, at the precision of the claim."""
    return version == wanted or version.startswith(wanted + ".")


def no_precompiled_kmod(ctx: Context) -> t.Iterator[Hit]:
    """Where the module is to come precompiled, a repository has it for this driver and this kernel."""
    version, release = ctx.driver.get("version"), ctx.kernel
    if ctx.driver.get("module") != "precompiled" or not version or not release:
        return
    kmods, available = _manager(ctx).get("kmods"), _manager(ctx).get("available")
    kernel = parse_rpm_kernels.without_dist(release)
    if any(row["kernel"] == kernel and _fits(row["driver"], version) for row in kmods or []):
        return
    offered = [row for row in kmods or [] if not row["installed"]]
    # A search that also asked for such modules finds others, or nothing at all.
    asked = available is not None and (offered or not available)
    missed = [row for row in _problems(ctx, "no_match", "nothing_provides", "requires")
              if "nvidia-kmod" in (row.get("what") or "") or re.fullmatch(r"kmod-nvidia-(open-)?\d.*", row.get("package") or "")]
    if not asked and not missed:
        return
    here = sorted({row["driver"] for row in offered if row["kernel"] == kernel})
    offer = "offer: %s, or the dkms stream" % ("driver %s on this kernel" % listed(here) if here else "a driver that has one for this kernel")
    short = re.sub(r"\.(x86_64|aarch64)$", "", release)
    yield Hit("%s for %s" % (version, short), "No repository has a precompiled module of driver %s for kernel %s; %s." % (
        version, short, "for this kernel there is %s" % listed(here) if here else "for this kernel there is none at all"),
        STREAMS, do=(step("fail_preflight", offer),))


def kernels_without_module(ctx: Context) -> t.Iterator[t.Tuple[str, bool]]:
    """(kernel, held back) of kernels that a transaction brings, or that dnf holds back, without the precompiled module of the driver."""
    for row in _problems(ctx, "skipped_kernel"):
        yield re.sub(r"^kernel-(core-)?", "", row.get("what") or ""), True
    manager, kmods = _manager(ctx), _manager(ctx).get("kmods") or []
    transaction = manager.get("transaction") or {}
    coming = [row for kind in ("install", "upgrade") for row in transaction.get(kind) or [] if row.get("version")]
    driver = ctx.driver.get("version") or next((row["driver"] for row in kmods if row["installed"]), None)
    if not driver or not (ctx.driver.get("module") == "precompiled" or any(row["installed"] for row in kmods)):
        return
    modules = kmods + parse_rpm_kernels.kmods([_parts(row) for row in coming], False)
    there = {row["kernel"] for row in modules if _fits(row["driver"], driver)}
    releases = {parse_rpm_kernels.release_of(_parts(row)) for row in coming} - {None}
    for release in sorted(str(release) for release in releases):
        if parse_rpm_kernels.without_dist(release) not in there:
            yield release, False


def _parts(row: Row) -> Row:
    """A row of a transaction in the form of a list's rows."""
    try:
        have = versions_rpm.parse(row["version"])
    except ValueError:
        return {"name": row["name"], "epoch": None, "version": row["version"], "release": None, "arch": row.get("arch")}
    return {"name": row["name"], "epoch": None, "version": have.version, "release": have.release or None, "arch": row.get("arch")}


def _vendor(version: t.Optional[str]) -> str:
    """Which stack an RDMA package belongs to, by its version: 59mlnx44-1.59056 counts for itself and is no later 41.0."""
    return "mlnx" if "mlnx" in (version or "").lower() else "inbox"


def _rdma_pairs(ctx: Context) -> t.Dict[str, t.Tuple[t.Tuple[str, str], t.Tuple[str, str]]]:
    """{name: ((name, version) inbox, (name, version) mlnx)} of packages that no transaction can have together, as dnf or apt says."""
    both = []
    for row in _problems(ctx, "cannot_install_both", "conflicts", "obsoletes", "file_conflict", "instead"):
        other = row.get("other") or {}
        both.append(((row.get("package"), row.get("version")), (other.get("name"), other.get("version"))))
    for row in (_manager(ctx).get("run") or {}).get("unmet") or []:
        both.append(((row.get("on"), row.get("need")), (row.get("on"), row.get("have"))))
    for row in (_manager(ctx).get("run") or {}).get("overwrite") or []:
        both.append(((row.get("package"), row.get("version")), (row.get("owner"), row.get("owner_version"))))
    found: t.Dict[str, t.Tuple[t.Tuple[str, str], t.Tuple[str, str]]] = {}
    for pair in both:
        if all(name and version and RDMA_NAMES.fullmatch(name) for name, version in pair) and len({_vendor(version) for _name, version in pair}) == 2:
            inbox, vendor = sorted(pair, key=lambda one: _vendor(one[1]))
            found.setdefault(str(pair[0][0]), (inbox, vendor))
    return found


def mixed_rdma_stack(ctx: Context) -> t.Iterator[Hit]:
    """The distribution's RDMA packages and those of MLNX_OFED or DOCA are not mixed, neither installed nor in one transaction."""
    pairs = _rdma_pairs(ctx)
    if pairs:
        needs = sorted({"%s needs %s" % (_written(row), row["what"]) for row in _problems(ctx, "requires", "nothing_provides") if row.get("package")})
        text = "; ".join("%s %s (inbox) and %s %s (mlnx)" % (inbox + vendor) for inbox, vendor in pairs.values())
        yield Hit("%s inbox and mlnx" % listed(pairs), "One transaction cannot have %s: choose one RDMA stack.%s" % (
            text, " %s." % "; ".join(needs) if needs else ""),
            do=(step("fail_preflight", "choose one RDMA stack, inbox or mlnx%s" % ("; inbox packages in the way: %s" % "; ".join(needs) if needs else "")),))
        return
    found: t.Dict[str, t.List[str]] = {"inbox": [], "mlnx": []}
    for name, row in ctx.packages.items():
        if RDMA_NAMES.fullmatch(name.partition(":")[0]) and row.get("version"):
            found[_vendor(row["version"])].append("%s %s" % (name, row["version"]))
    if all(found.values()):
        yield Hit("%s inbox and mlnx" % listed(name.split()[0] for name in found["inbox"]),
                  "RDMA packages of two stacks are installed: %s (inbox); %s (mlnx)." % (listed(found["inbox"]), listed(found["mlnx"])),
                  context="installed", do=(step("manual", "choose one RDMA stack, inbox or mlnx, and remove the packages of the other"),))


RULES = (module_stream_not_enabled, module_stream_differs, floating_stream, versionlock_incomplete, no_precompiled_kmod, mixed_rdma_stack)
