# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about NCCL: its copies, its cache entry, the files it is given, and what a run says about its network."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils import versions
from ansible_collections.lockstep.gpu.plugins.plugin_utils import actions, nccl_settings

from . import nccl_builds, nccl_conf
from .context import Context, Hit, Row, upstream
from .nccl_conf import grammar, mended, rewrite

# Where packages put libraries and the loader looks without being told.
LOADER_FOLDERS = re.compile(r"(/usr)?/lib(64)?(/[a-z0-9_]+-linux-gnu)?")
_PIP_FOLDER = re.compile(r".*/(?:site|dist)-packages/nvidia/nccl/lib")
_RUNTIME = ("libnccl2", "libnccl")
# The packages that ship a library under the loader's name; families.yml knows the driver's many names.
_SHIPS = {"libnccl.so.2": ("nccl", _RUNTIME), "libcuda.so.1": ("driver", ("libcuda1",)), "libnvidia-ml.so.1": ("driver", ("libnvidia-ml1",))}


def _nccl(ctx: Context) -> Row:
    return ctx.state.get("nccl") or {}


def _package(ctx: Context) -> t.Optional[str]:
    """The version of the package with NCCL's library, with its revision and build; None without one."""
    return next((ctx.packages[name].get("version") for name in _RUNTIME if name in ctx.packages), None)


def _plain(version: t.Optional[str]) -> t.Optional[str]:
    """2.28.3-1+cuda13.0 as 2.28.3."""
    return re.split(r"[-+]", upstream(version) or "")[0] or None


def _system(ctx: Context) -> t.Optional[str]:
    """The version of the system's own NCCL: the package's, else the stack's."""
    return _plain(_package(ctx)) or (ctx.stack.get("nccl") or {}).get("version")


def _is_other(version: t.Optional[str], system: str) -> bool:
    """Whether a version is another one, at the precision that both have."""
    if not version:
        return False
    one, other = version.split("."), system.split(".")
    length = min(len(one), len(other))
    return one[:length] != other[:length]


def _real(ctx: Context, path: str) -> str:
    """A path without the links that every distribution or CUDA's packages have in it: /lib, /usr/local/cuda, lib64 of a toolkit."""
    path = re.sub(r"^/lib(?=/|64/)", "/usr/lib", path)
    toolkit = re.match(r"/usr/local/cuda(-[\d.]+)?/(?:lib64|targets/[\w-]+/lib)/(.*)", path)
    if not toolkit:
        return path
    release = toolkit.group(1)
    if release is None:
        active = str((ctx.state.get("cuda") or {}).get("active_release") or "")
        names = [str(file["path"]) for file in ctx.state.get("library_files") or []]
        there = {found.group(1) for found in (re.match(r"/usr/local/cuda(-[\d.]+)/", name) for name in names) if found}
        release = "-" + ".".join(active.split(".")[:2]) if active else there.pop() if len(there) == 1 else ""
    return "/usr/local/cuda%s/lib64/%s" % (release, toolkit.group(2))


def _loaded_copy(ctx: Context) -> t.Optional[t.Tuple[str, t.Optional[str]]]:
    """(path, version) of the libnccl that the loader takes."""
    for row in ctx.state.get("libraries") or []:
        if row.get("soname") == "libnccl.so.2":
            there = {_real(ctx, file["path"]): file["version"] for file in ctx.state.get("library_files") or []}
            return row.get("path") or "", row.get("version") or there.get(_real(ctx, row.get("path") or ""))
    return None


def nccl_other_copy(ctx: Context) -> t.Iterator[Hit]:
    """Programs may bring an NCCL of their own: that is worth knowing, and no drift; the loader must take the system's."""
    system = _system(ctx)
    if not system:
        return
    source = ctx.facts["nccl"]["copies"]["source"]
    loaded = _loaded_copy(ctx)
    loader_path = None
    if loaded and (_is_other(loaded[1], system) or _package(ctx) and loaded[0] and not LOADER_FOLDERS.fullmatch(loaded[0].rpartition("/")[0])):
        loader_path = loaded[0]
        yield Hit(" ".join(["libnccl", loaded[1] or "of an unknown version", loaded[0]]).strip(), "The loader takes %s (%s), the system's NCCL is %s." % (
            loaded[0] or "libnccl.so.2", loaded[1] or "unknown version", system), source)
    known = {system}
    for name, version in sorted((_nccl(ctx).get("pip") or {}).items()):
        if re.fullmatch(r"nvidia-nccl-cu\d+|nccl", name):
            known.add(version)
            if _is_other(version, system):
                label = "%s %s %s" % ("conda" if name == "nccl" else "pip", name, version)
                yield Hit(label, "The Python package %s brings NCCL %s beside the system's %s; programs of that Python use it." % (
                    name, version, system), source, "beside")
    for label, version in (("torch-linked", _nccl(ctx).get("torch")), ("program", (_nccl(ctx).get("log") or {}).get("version"))):
        if version and version not in known and _is_other(version, system):
            known.add(version)
            yield Hit("%s %s" % (label, version), "%s NCCL %s; the system's is %s." % (
                "PyTorch is linked with" if label == "torch-linked" else "The program of the log uses", version, system), source, "beside")
    yield from _files_beside(ctx, system, loader_path, source)


def _files_beside(ctx: Context, system: str, loader_path: t.Optional[str], source: str) -> t.Iterator[Hit]:
    """Copies on the disk that neither the package nor a Python package accounts for, one for each folder."""
    folders: t.Dict[str, Row] = {}
    for row in ctx.state.get("library_files") or []:
        folder, _slash, name = row["path"].rpartition("/")
        if name.startswith("libnccl.so"):
            best = folders.setdefault(folder, row)
            if best["version"] is None and row["version"]:
                folders[folder] = row
    for folder, row in sorted(folders.items()):
        own = LOADER_FOLDERS.fullmatch(folder)
        in_pip = _PIP_FOLDER.fullmatch(folder)
        is_loaded = bool(loader_path) and _real(ctx, folder + "/") == _real(ctx, str(loader_path).rpartition("/")[0] + "/")
        if is_loaded or in_pip and _nccl(ctx).get("pip") or own and not _is_other(row["version"], system):
            continue
        if row["version"] is None or _is_other(row["version"], system):
            yield Hit("%s %s" % (row["path"], row["version"] or "of an unknown version"), "Another NCCL (%s) lies at %s, beside the system's %s." % (
                row["version"] or "unknown version", row["path"], system), source, "beside")


def library_not_in_cache(ctx: Context) -> t.Iterator[Hit]:
    """The loader's cache knows every library of the driver and of NCCL that lies in its folders."""
    cache = ctx.state.get("loader_cache")
    if cache not in ("all", "nothing"):
        return
    listed = {row.get("soname") for row in ctx.state.get("libraries") or []}
    for soname, (product, names) in sorted(_SHIPS.items()):
        files = [row["path"] for row in ctx.state.get("library_files") or []
                 if LOADER_FOLDERS.fullmatch(row["path"].rpartition("/")[0]) and row["path"].rpartition("/")[2].startswith(soname)]
        # A search that found nothing may have been for something else: then only files, or a stack that asks for it, tell.
        package = next((name for name in names if name in ctx.packages), None) if cache == "all" or ctx.stack.get(product) else None
        if soname in listed or not (files or package):
            continue
        version = str((ctx.packages.get(package or "") or {}).get("version") or "")
        fact = ctx.facts["nccl"]["no_ldconfig"]
        known = soname == "libnccl.so.2" and _plain(_package(ctx)) == fact["first"]
        yield Hit(soname, "%s is installed%s, but the loader's cache does not have it%s." % (
            soname, " as %s" % (files[0] if files else "%s %s" % (package, version)),
            ": this release's package does not run ldconfig, %s does" % fact["fixed"] if known else ""),
            fact["source"] if known else None, do=(actions.step("run_ldconfig"),))


def nccl_dev_runtime_split(ctx: Context) -> t.Iterator[Hit]:
    """NCCL's headers and its library are of one build, on the node and in what a package manager was asked for."""
    for runtime, others in (("libnccl2", ("libnccl-dev",)), ("libnccl", ("libnccl-devel", "libnccl-static"))):
        have = (ctx.packages.get(runtime) or {}).get("version")
        for name in others:
            version = (ctx.packages.get(name) or {}).get("version")
            if have and version and have != version:
                yield _split(ctx, runtime, have, name, version, "programs would run with another build than they see")
    for runtime, have, name, version in sorted(_refused_pairs(ctx)):
        if name not in ctx.packages:
            yield _split(ctx, runtime, have, name, version, "they need each other at one version, so nothing is installed")


def _split(ctx: Context, runtime: str, have: str, name: str, version: str, so: str) -> Hit:
    wanted = (ctx.stack.get("nccl") or {}).get("version")
    # The one that the stack does not name moves; without a stack the headers follow the library.
    runtime_moves = wanted and _plain(version) == wanted and _plain(have) != wanted
    moves, old, goal = (runtime, have, version) if runtime_moves else (name, version, have)
    action = "downgrade_exact" if moves in ctx.packages and _newer(old, goal) else "install_exact"
    return Hit("%s %s, %s %s" % (runtime, have, name, version), "%s is %s, but %s is %s: %s." % (runtime, have, name, version, so),
               do=(actions.step(action, "%s%s%s" % (moves, "=" if runtime == "libnccl2" else "-", goal)),))


def _refused_pairs(ctx: Context) -> t.Set[t.Tuple[str, str, str, str]]:
    """(library, its version, headers, their version) that apt or dnf did not put together."""
    manager = ctx.state.get("package_manager") or {}
    pairs = set()
    for row in (manager.get("run") or {}).get("unmet") or []:
        if row["package"] == "libnccl-dev" and row["on"] == "libnccl2" and row["need"] and row["have"] and row["need"] != row["have"]:
            pairs.add((row["on"], row["have"], row["package"], row["need"]))
    have = (ctx.packages.get("libnccl") or {}).get("version")
    for row in manager.get("problems") or []:
        need = re.fullmatch(r"libnccl(?:\(x86-64\))? = (\S+)", str(row.get("what") or ""))
        if need and row.get("package") in ("libnccl-devel", "libnccl-static") and have and need.group(1) != have:
            pairs.add(("libnccl", have, row["package"], row.get("version") or need.group(1)))
    return pairs


def build_differs(ctx: Context) -> t.Iterator[Hit]:
    """NCCL's packages of the claimed version, built for another minor release of CUDA than the claimed one (package_version_differs)."""
    wanted = ctx.stack.get("nccl") or {}
    for name in sorted(ctx.members("nccl")) if wanted.get("version") and wanted.get("cuda") else ():
        version = str(ctx.packages[name].get("version") or "")
        build = re.search(r"\+cuda(\d+)\.(\d+)", version)
        # Another major release has a code of its own, and another version is found by its numbers.
        major, _dot, minor = wanted["cuda"].partition(".")
        if build and _plain(version) == wanted["version"] and major == build.group(1) and minor != build.group(2):
            goal = "%s+cuda%s" % (version.partition("+cuda")[0], wanted["cuda"])
            action = "downgrade_exact" if _newer(version, goal) else "install_exact"
            yield Hit("%s %s, wanted %s" % (name, version, goal), "%s is %s, the claim's NCCL is built for CUDA %s." % (name, version, wanted["cuda"]),
                      do=(actions.step(action, "%s=%s" % (name, goal)),))


def _newer(version: str, other: str) -> bool:
    try:
        return versions.compare(version, other) > 0
    except ValueError:
        return False


def _node_gpus(ctx: Context) -> t.Optional[int]:
    for rows in (ctx.state.get("gpu_query"), (ctx.state.get("smi") or {}).get("gpus"), ctx.state.get("gpus")):
        if rows:
            return len(rows)
    return (ctx.stack.get("expect") or {}).get("gpus")


def nccl_graph_file_other_size(ctx: Context) -> t.Iterator[Hit]:
    """A graph file belongs to machines with as many GPUs as it names."""
    graph, gpus, log = _nccl(ctx).get("graph_file"), _node_gpus(ctx), _nccl(ctx).get("log") or {}
    missing = log.get("missing_devices") or []
    if graph and gpus is not None and graph["gpus"] != gpus or missing:
        setting = nccl_settings.effective(nccl_settings.given(ctx.state, ctx.stack)).get("NCCL_GRAPH_FILE")
        named = "%s GPUs in the file, %s on the node" % (graph["gpus"] if graph else "more", gpus if gpus is not None else "fewer")
        saw = "; a run did not find GPU %s" % ", ".join(str(number) for number in missing) if missing else ""
        yield Hit(named, "The graph file %s is of another machine size: %s%s." % (setting.value if setting else "", named, saw),
                  grammar(ctx, "graph"), do=rewrite(_permanent(ctx), "NCCL_GRAPH_FILE", None))


def _permanent(ctx: Context) -> t.Optional[str]:
    """The file that sets NCCL_GRAPH_FILE for every program; NCCL prints "set by environment" for it, too."""
    return next((row.file for row in nccl_settings.given(ctx.state, ctx.stack) if row.name == "NCCL_GRAPH_FILE" and row.file), None)


def nccl_graph_file_pinned(ctx: Context) -> t.Iterator[Hit]:
    """A graph, the result of a search that every start repeats, is not kept for good."""
    for setting in nccl_settings.given(ctx.state, ctx.stack):
        if setting.name == "NCCL_GRAPH_FILE" and (setting.file or setting.where == nccl_settings.STACK):
            yield Hit("NCCL_GRAPH_FILE in %s" % setting.where, "NCCL_GRAPH_FILE=%s in %s should not be permanent: it keeps NCCL from looking at the "
                      "machine, and is not documented." % (setting.value, setting.where), grammar(ctx, "graph"),
                      do=rewrite(setting.file, "NCCL_GRAPH_FILE", None))


def _interface_choice(ctx: Context) -> t.Optional[t.Tuple[nccl_settings.Setting, nccl_settings.Interfaces]]:
    """NCCL_SOCKET_IFNAME as it counts here; None where NCCL chooses by itself."""
    setting = nccl_settings.effective(nccl_settings.given(ctx.state, ctx.stack)).get("NCCL_SOCKET_IFNAME")
    chosen = nccl_settings.interfaces(setting.value) if setting else None
    return (setting, chosen) if setting and chosen else None


def nccl_ifname_allows_loopback(ctx: Context) -> t.Iterator[Hit]:
    """The choice of interfaces leaves the loopback out: NCCL's own choice does, a list of others to leave out does not."""
    found = _interface_choice(ctx)
    if not found or not found[1].takes("lo"):
        return
    setting, chosen = found
    usable = nccl_settings.candidates(chosen, ctx.state.get("interfaces") or [])
    seen = "; it would use %s" % ", ".join(usable) if usable else ""
    if chosen.exclude:
        wanted = setting.value.rstrip(",") + ",lo"
        yield Hit(setting.value, "NCCL_SOCKET_IFNAME=%s in %s lets NCCL take the loopback lo, which reaches no other node%s; say %s, or nothing." % (
            setting.value, setting.where, seen, wanted), grammar(ctx, "loopback"), do=rewrite(setting.file, setting.name, wanted))
    else:
        yield Hit(setting.value, "NCCL_SOCKET_IFNAME=%s in %s takes the loopback lo, which reaches no other node%s." % (
            setting.value, setting.where, seen), grammar(ctx, "loopback"), "chosen")


def nccl_ifname_matches_nothing(ctx: Context) -> t.Iterator[Hit]:
    """At least one interface that is up and has an address fits NCCL_SOCKET_IFNAME."""
    found, have = _interface_choice(ctx), ctx.state.get("interfaces") or []
    # A run has the last word: it may have been in a container, with other interfaces.
    told = bool((_nccl(ctx).get("log") or {}).get("no_interface"))
    if not found or not told and (not have or nccl_settings.candidates(found[1], have)):
        return
    setting, chosen = found
    idle = [row["name"] for row in have if chosen.takes(row["name"])]
    why = "a run found none" if not have else "there are %s" % ", ".join(row["name"] for row in have)
    if idle:
        why = "a run did not find %s" % ", ".join(idle) if told else "%s %s no carrier or no address" % (", ".join(idle), "has" if len(idle) == 1 else "have")
    yield Hit(setting.value, "NCCL_SOCKET_IFNAME=%s in %s fits no usable interface (%s), so NCCL does not start." % (setting.value, setting.where, why),
              grammar(ctx, "interfaces"), do=() if mended(ctx, setting) else rewrite(setting.file, setting.name, None))


def nccl_ib_fallback(ctx: Context) -> t.Iterator[Hit]:
    """A node with InfiniBand or RoCE adapters communicates through them."""
    log = _nccl(ctx).get("log") or {}
    own = nccl_settings.effective(nccl_settings.given(ctx.state, ctx.stack))
    named = own.get("NCCL_NET_PLUGIN")
    # Without a plugin NCCL uses its own transports; one that somebody asked for is missed.
    missed = [name for name in log.get("plugins_missing") or [] if named and named.value.lower() != "none" and named.value in name]
    sockets = [name for name in log.get("networks") or [] if name.lower() == "socket"]
    others = [name for name in log.get("networks") or [] if name.lower() != "socket"]
    hcas = (ctx.stack.get("expect") or {}).get("hcas")
    if not sockets or others or _wants_sockets(own) or hcas == 0:
        return
    own_verbs = [text for text in log.get("failures") or [] if _OWN_VERBS.search(text)]
    why = ["plugin %s not found" % name for name in missed] + [text for text in log.get("failures") or [] if text not in own_verbs]
    disabled = own.get("NCCL_IB_DISABLE")
    if disabled and nccl_settings.read_as(disabled.value):
        # Somebody wanted it so; but a node that is to have adapters does not use them.
        why += ["NCCL_IB_DISABLE=%s in %s" % (disabled.value, disabled.where)] if hcas else []
    elif why or hcas or not _without_adapters(ctx):
        why = (["NET/IB : No device found"] if log.get("no_ib_device") else []) + own_verbs + why
    if why:
        yield Hit("Using network Socket", "NCCL fell back to TCP sockets: %s." % "; ".join(why), grammar(ctx, "fallback"))


# What NCCL's own verbs transport says where there is no adapter, or where it is turned off.
_OWN_VERBS = re.compile(r"Failed to initialize NET plugin IB\b|Failed to open libibverbs")


def _wants_sockets(own: t.Mapping[str, nccl_settings.Setting]) -> bool:
    network = own.get("NCCL_NET")
    return bool(network and network.value.lower() == "socket")


def _without_adapters(ctx: Context) -> bool:
    """Whether the node is known to have no adapter of InfiniBand or RoCE."""
    return ctx.state.get("nics") == [] and not ctx.state.get("rdma_ports") or ctx.state.get("rdma_ports") == [] and not ctx.state.get("nics")


RULES = (nccl_other_copy, library_not_in_cache, nccl_dev_runtime_split, nccl_graph_file_other_size, nccl_graph_file_pinned,
         nccl_ifname_allows_loopback, nccl_ifname_matches_nothing, nccl_ib_fallback, *nccl_builds.RULES, *nccl_conf.RULES)
