# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One state from many observations: what node_facts returns.

None is "unknown" everywhere but where a docstring says otherwise, and each unknown value has an entry in `unknown`.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils import facts_boot, parse_alternatives, parse_apt, parse_dpkg
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_dkms, parse_kernel, parse_libraries, parse_modules
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_os, parse_pci, versions
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, parse_arrows, split_files
from ansible_collections.lockstep.gpu.plugins.module_utils import facts_cuda, facts_nccl, parse_ofed
from ansible_collections.lockstep.gpu.plugins.module_utils.facts_reader import Reader
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import BUNDLE, LEVELS, SECTIONS, of_levels
from ansible_collections.lockstep.gpu.plugins.module_utils.neighbours import NeighbourProbe
from ansible_collections.lockstep.gpu.plugins.module_utils.recorded_text import PlainProbe

SCHEMA = 1
_GUARD_MARK = "lockstep.gpu"
# How people call distributions, to the ID of their os-release.
_OS_IDS = {"amazon": "amzn", "amazon-linux": "amzn", "al": "amzn", "centos-stream": "centos", "redhat": "rhel", "red-hat": "rhel", "el": "rhel",
           "alma": "almalinux", "rocky-linux": "rocky", "oracle": "ol", "oracle-linux": "ol", "suse": "sles", "sle": "sles"}
# Debian and Ubuntu mark unsigned images at different ends. A metapackage (linux-image-amd64) has no digit there, debugging
# symbols boot nothing, and packages of a foreign architecture have a colon.
_IMAGE_PACKAGE = re.compile(r"linux-image-(?:unsigned-)?(?P<release>\d[^:]*?)(?:-unsigned)?(?<!-dbg)(?<!-dbgsym)")


def _text(text):
    """The parser of a file that is taken as it is."""
    return Parsed(text, [])


def assemble(probe, gather=("local",)):
    """The state of a node.

    probe: LiveProbe or BundleProbe; gather: some of LEVELS (and BUNDLE, for a bundle). Never raises for what a node holds:
    unreadable values are None and have entries {probe, reason} in `unknown`; what a bundle does not have is listed in
    `not_recorded`; `unreadable` names the probes that gave nothing at all, `heard` counts those that gave an answer.
    """
    wanted = of_levels(gather)
    probe = NeighbourProbe(PlainProbe(probe)) if BUNDLE in gather else probe
    reader = Reader(probe, wanted)
    probe.start(wanted)
    state = {"schema": SCHEMA, "gathered": [level for level in LEVELS if level in gather]}
    if "local" in gather:
        state.update(_local(reader))
    for part in SECTIONS:
        _merge(state, part.section(reader))
    for name in getattr(probe, "unread", ()):
        reader.note(name, "no probe of this name")
    state["unknown"] = reader.unknown
    state["unreadable"] = reader.unreadable
    state["not_recorded"] = reader.not_recorded
    state["heard"] = reader.heard
    _believe(state, getattr(probe, "given", {}))
    return state


def _merge(state, part):
    """Add a section; two that fill one mapping share it."""
    for key, value in part.items():
        if isinstance(value, dict) and isinstance(state.get(key), dict):
            state[key].update(value)
        else:
            state[key] = value


def _believe(state, given):
    """Take from a bundle's `given` what nobody recorded: os ("ubuntu-22.04"), arch, running_kernel, next_boot_kernel."""
    if not isinstance(given, dict):
        return
    state["believed"] = []
    words = {key: value for key, value in given.items() if isinstance(value, (str, int, float)) and not isinstance(value, bool)}
    system = re.fullmatch(r"([A-Za-z]+(?:[-_ ][A-Za-z]+)*)[-_ ]?(\d[\w.]*)?", str(words.get("os") or ""))
    if system and "os" in state and not state["os"].get("id"):
        name = re.sub(r"[-_ ]", "-", system.group(1).lower())
        state["os"].update(id=_OS_IDS.get(name, name), release=system.group(2))
    if words.get("arch") and "os" in state and not state["os"].get("arch"):
        state["os"]["arch"] = str(words["arch"])
    for key, part, name in (("running_kernel", "kernel", "running"), ("next_boot_kernel", "boot", "default_kernel")):
        if words.get(key) and part in state and state[part].get(name) is None:
            state[part][name] = str(words[key])
            state["believed"].append("%s.%s" % (part, name))


def result(probe, gather, ask_gpu=True):
    """What node_facts returns. ask_gpu: False in check mode, where nvidia-smi must not run; that is then noted."""
    asked = [level for level in gather if ask_gpu or level != "gpu"]
    state = assemble(probe, asked)
    if len(asked) < len(gather):
        state["unknown"].append({"probe": "nvidia_smi_query", "reason": "not asked in check mode: it creates device nodes"})
    return {"changed": False, "ansible_facts": {"lockstep": state}, "unknown": len(state["unknown"])}


def replay(probe, gather=None):
    """What node_facts returns for a bundle: every level unless some are named."""
    return result(probe, [*(gather or LEVELS), BUNDLE])


def _local(reader):
    system = reader.parsed("os_release", parse_os.parse_os_release) or dict.fromkeys(("id", "release", "codename", "name"))
    arch = reader.parsed("uname_m", parse_os.parse_word)
    container = reader.parsed("container_marks", parse_os.parse_container)
    # No dpkg is no fault where rpm is (facts_rpm.py); what neither has is told below.
    rows = reader.told("dpkg_list", parse_dpkg.parse_listing)
    native = parse_dpkg.native_arch(rows or [])
    auto = reader.parsed("apt_extended_states", parse_dpkg.parse_extended_states, absent=frozenset())
    packages = None if rows is None else parse_dpkg.packages(rows, auto, native)
    devices = reader.parsed("pci_devices", parse_pci.parse_pci)
    return {
        "os": dict(system, arch=arch),
        "container": container,
        "kernel": _kernel(reader, packages, native is not None),
        "compilers": None if rows is None else parse_dpkg.compilers(rows),
        "boot": facts_boot.boot(reader, container),
        "gpus": None if devices is None else parse_pci.gpus(devices),
        "gpu_devices": reader.parsed("gpu_devices", parse_pci.parse_device_nodes),
        "nvswitches": None if devices is None else parse_pci.nvswitches(devices),
        "dkms": reader.parsed("dkms_status", parse_dkms.parse_dkms_status, absent=[], partial=True),
        "modules": {"loaded": _loaded(reader),
                    "files": [] if parse_modules.finds_no_module(reader.seen("modinfo")) else
                    reader.parsed("modinfo", parse_modules.parse_modinfo, partial=True)},
        "packages": packages,
        "package_manager": _package_manager(reader, rows, native),
        "alternatives": _alternatives(reader),
        "libraries": _libraries(reader, arch),
        "cuda": facts_cuda.cuda(reader, packages),
        "ofed": _ofed(reader, packages),
        "secure_boot": _secure_boot(reader, container),
        "space": reader.parsed("space", parse_os.parse_space),
    }


def _kernel(reader, packages, whole):
    """Running kernel and the installed ones: those with an image or an image package. whole: the package list is a node's whole list."""
    files = reader.parsed("kernel_files", parse_kernel.parse_kernel_files)
    configs = reader.parsed("kernel_configs", parse_kernel.parse_kernel_configs) or {}
    kernel = {"running": reader.parsed("uname_r", parse_kernel.parse_uname),
              "cmdline": reader.parsed("proc_cmdline", parse_os.parse_cmdline), "installed": None}
    if files is None:
        return kernel
    owners = {}
    for name in sorted(packages or {}):
        found = _IMAGE_PACKAGE.fullmatch(name)
        if found:
            # Sorted, so that the signed image comes before the unsigned one of the same release.
            owners.setdefault(found.group("release"), name)
    nothing = {"image": False, "initramfs": False, "headers": False}
    if whole:
        # The list of files has no headers at all; the list of packages tells whether there are any.
        files = {release: dict(row, headers="linux-headers-" + release in packages if row["headers"] is None else row["headers"])
                 for release, row in files.items()}
    kernel["installed"] = [
        dict(files.get(release, nothing), release=release, package=owners.get(release),
             package_version=packages[owners[release]]["version"] if release in owners else None,
             compiler=configs.get(release, {}).get("compiler"), drm=configs.get(release, {}).get("drm"))
        for release in sorted(set(files) | set(owners))
        if release in owners or files[release]["image"]]
    return kernel


def _loaded(reader):
    """The loaded driver {version, flavour}; None when none is loaded (then `unknown` has no entry for it)."""
    loaded = reader.parsed("proc_driver_version", parse_modules.parse_proc_driver_version, absent=None)
    version = reader.parsed("sys_module_version", parse_modules.parse_module_version, absent=None)
    if loaded is None and version is not None:
        reader.note("proc_driver_version", "a module is loaded whose flavour is not known")
        return {"version": version, "flavour": None}
    return loaded


def _sources(text):
    """Parser of apt_sources: (sources, content of our own file or None)."""
    sources, problems = parse_apt.parse_sources(text)
    if problems and not sources:
        return Parsed(None, problems)
    return Parsed((sources, dict(split_files(text).value).get(parse_apt.OWN_SOURCES)), problems)


def _package_manager(reader, rows, native):
    """dpkg's and apt's condition. own_sources and dkms_guard are None when there is no such file."""
    sources, own_sources = reader.parsed("apt_sources", _sources, absent=([], None)) or (None, None)
    pins = reader.parsed("apt_preferences", parse_apt.parse_preferences, absent=[])
    guard = reader.parsed("dkms_guard", _text, absent=None)
    return {
        "kind": None if rows is None else "apt",
        "broken": None if rows is None else parse_dpkg.broken(rows, native),
        "holds": None if rows is None else parse_dpkg.holds(rows, native),
        "packages_complete": None if rows is None else parse_dpkg.is_whole(rows),
        "absent": None if rows is None else parse_dpkg.absent(rows),
        "lock_held": reader.parsed("apt_locks", parse_apt.parse_locks),
        "sources": sources,
        "own_sources": own_sources,
        "pins": pins,
        "own_pins": None if pins is None else parse_apt.own_pins(pins),
        "dkms_guard": None if guard is None else "ours" if _GUARD_MARK in guard else "foreign",
    }


def _alternatives(reader):
    """{name: {mode, value, choices}}; {} on a node without them."""
    texts = reader.parsed("alternatives_admin", split_files, absent=[])
    links = reader.parsed("alternatives_links", parse_arrows)
    if texts is None:
        return None
    table = {}
    for path, text in texts:
        name = path.rsplit("/", 1)[-1]
        entry, problems = parse_alternatives.parse_admin_file(text)
        for problem in problems:
            reader.note("alternatives_admin", "%s: %s" % (name, problem))
        if entry is not None:
            table[name] = dict(entry, value=(links or {}).get("/etc/alternatives/" + name))
    return table


def _libraries(reader, arch):
    # What grep says where the cache has no such library; loader_cache of facts_nccl says that it was a search.
    if facts_nccl.found_nothing(reader.seen("loader_libraries")):
        return []
    return reader.parsed("loader_libraries", lambda text: parse_libraries.parse_loader_libraries(
        text, arch or parse_libraries.arch_of(text) or "unknown architecture"))


def _ofed(reader, packages):
    """Which RDMA stack: what ofed_info says, else what dpkg has; kind "none" when there is none."""
    vendor = reader.parsed("ofed_info", parse_ofed.parse_ofed_info, absent={})
    if vendor:
        return vendor
    if vendor is None or packages is None:
        return {"kind": None, "version": None}
    package = packages.get("rdma-core")
    if package is None or package["status"] != "installed":
        return {"kind": "none", "version": None}
    try:
        return {"kind": "inbox", "version": versions.upstream(package["version"] or "")}
    except ValueError:
        reader.note("dpkg_list", "rdma-core has no version")
        return {"kind": "inbox", "version": None}


def _secure_boot(reader, container):
    """None without an entry in `unknown` in a container, which has no firmware of its own."""
    return None if container else reader.told("secure_boot", lambda text, rc: parse_os.parse_secure_boot(text))
