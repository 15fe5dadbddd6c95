# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA toolkits of a node: which there are, and which one programs get."""

from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_cuda, parse_libraries, versions
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Command, Recorded

# name: (level, how to take it live); docs/probes.md describes each. The live node's folders come from cuda_paths.
PROBES = {
    "nvcc_version": ("deep", Command(("/usr/local/cuda/bin/nvcc", "--version"))),
    "cuda_run": ("bundle", Recorded("deviceQuery")),
    "cuda_dirs": ("bundle", Recorded("ls -d /usr/local/cuda-*")),
}
ACTIVE_LINK = "/usr/local/cuda"
DISTRIBUTION_TOOLKIT = "/usr/lib/nvidia-cuda-toolkit"
_NVCC = "/bin/nvcc"


def cuda(reader, packages):
    """{toolkits: [{path, version, release}], active, active_release}, each None when it is unknown.

    A toolkit's version is its compiler's, release is CUDA's. active: the folder that /usr/local/cuda leads to, or the
    distribution's toolkit where nothing else is there; active_release: its release, or what nvcc itself says.
    """
    links = reader.parsed("cuda_paths", parse_cuda.parse_links, absent={})
    named = reader.told("cuda_dirs", parse_cuda.parse_cuda_dirs)
    vendor = reader.parsed("cuda_versions", parse_libraries.parse_cuda_versions, absent={})
    compiler = reader.parsed("nvcc_version", parse_cuda.parse_nvcc_version, absent=None)
    selected = (vendor or {}).get(ACTIVE_LINK) or {}
    if links is None and named is None:
        return {"toolkits": None, "active": None, "active_release": (compiler or selected).get("release")}
    links = links or {}
    plain = [path[:-len(_NVCC)] for path in links if path.endswith(_NVCC) and path != "/usr/bin/nvcc"]
    target = parse_cuda.resolve(links, ACTIVE_LINK)
    active = target
    if active is None and "/usr/bin/nvcc" in links and DISTRIBUTION_TOOLKIT in plain:
        active = DISTRIBUTION_TOOLKIT
    folders = plain + [folder for folder in _own_folders(named or {}) if folder not in plain]
    # A person's recording of links alone names the toolkit; the live list has every compiler, so what is not in it is none.
    if active not in folders and named is None and not plain and parse_cuda.release_of(active):
        folders.append(active)
    toolkits = [dict(_toolkit(folder, vendor or {}, packages or {}), path=folder) for folder in folders]
    for toolkit in toolkits:
        if compiler and toolkit["path"] == active:
            toolkit.update(version=toolkit["version"] or compiler["version"], release=toolkit["release"] or compiler["release"])
        if selected and toolkit["path"] == active:
            toolkit.update((key, toolkit[key] or selected[key]) for key in ("version", "release"))
        if toolkit["version"] is None and toolkit["release"] is None:
            toolkit["release"] = _named(toolkit["path"])
        if toolkit["version"] is None and toolkit["release"] is None:
            reader.note("cuda_versions", "nothing tells the version of %s" % toolkit["path"])
    active = active if active in folders else None
    return {"toolkits": toolkits, "active": active, "active_release": _active_release(toolkits, active, compiler or selected)}


def _own_folders(named):
    """Folders of releases; that of a major release is a link to one of them where there is one."""
    return [folder for folder, release in named.items()
            if "." in release or not any(other.startswith(release + ".") for other in named.values())]


def _named(folder):
    release = parse_cuda.release_of(folder)
    return release if release and "." in release else None


def _active_release(toolkits, active, compiler):
    # What the compiler says of itself is what programs are built with.
    if compiler:
        return compiler["release"]
    return next((toolkit["release"] for toolkit in toolkits if toolkit["path"] == active), None)


def _toolkit(folder, vendor, packages):
    """{version, release} of a toolkit. Debian's version says both: 12.4.131~12.4.1-2."""
    package = packages.get("nvidia-cuda-toolkit")
    if folder == DISTRIBUTION_TOOLKIT and package:
        try:
            version, _tilde, release = versions.upstream(package["version"] or "").partition("~")
        except ValueError:
            return {"version": None, "release": None}
        return {"version": version, "release": release.split("~")[0] or None}
    row = vendor.get(folder, {})
    return {"version": row.get("version"), "release": row.get("release")}
