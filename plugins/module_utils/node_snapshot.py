# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's state as a receipt has it, before and after a run.

{manager: apt | dnf, packages: {name: versions}, pins: {name: version} of our own, holds: [name], auto: [name] (apt: came as dependencies),
files: {path: text} of our own files that are there, of a shared one our part, alternatives: {name: {mode, value}}, streams: {module: stream},
dkms: [{module, version, kernel, arch, state}], running: kernel, default: kernel that boots, None in a container or where it is not known}
"""
from __future__ import annotations

import glob
import os
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import closure, grub, grub_bls, modprobe_policy, pinned_node, pinning
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import alternatives_now, read_text
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_dkms import parse_dkms_status
from ansible_collections.lockstep.gpu.plugins.module_utils.run import CommandError

ALTERNATIVES = ("/var/lib/dpkg/alternatives", "/var/lib/alternatives")
_OURS = re.compile(r".*(nvidia|glx|cuda).*")
_BUILT = ("built", "installed", "installed_weak")


def manager_of(backend):
    """apt or dnf, of a backend of pinned_node.py."""
    return next(name for name, other in pinned_node.BACKENDS.items() if other is backend)


def versions_of(packages):
    """{name: versions, joined by a space} of everything of which anything is unpacked."""
    found = {name: " ".join(closure.versions_of(package)) for name, package in packages.items()}
    return {name: versions for name, versions in found.items() if versions}


def take(run, backend):
    """The state of the node. run: a Runner."""
    packages, _theirs = backend.state(run)
    apt = backend is pinning
    state = {
        "manager": manager_of(backend), "packages": versions_of(packages), "pins": backend.pins_now(),
        "holds": sorted(name for name, package in packages.items() if package.get("hold")) if apt else [],
        "auto": sorted(set(run(["apt-mark", "showauto"], ok=None).out.split()) & set(packages)) if apt else [],
        "files": files(backend), "alternatives": alternatives(run) if apt else {}, "streams": {} if apt else backend.streams_now(),
        "dkms": dkms_rows(run),
    }
    return dict(state, running=os.uname().release, default=default_kernel(run))


def files(backend, policy=modprobe_policy.FILE):
    """{path: text} of our files; policy: that of modprobe."""
    texts = {path: read_text(path) for path in (backend.SOURCES_FILE, policy)}
    texts[backend.PINS_FILE] = backend.pin_text_now()
    return {path: text for path, text in texts.items() if text}


def alternatives(run):
    """{name: {mode, value}} of the alternatives that are about a driver or a toolkit."""
    names = sorted({os.path.basename(path) for folder in ALTERNATIVES for path in glob.glob(os.path.join(folder, "*"))
                    if _OURS.fullmatch(os.path.basename(path))})
    return {name: {"mode": row.get("mode"), "value": row.get("value")} for name, row in alternatives_now(run, names).items()}


def dkms_rows(run):
    """What DKMS has built, without remarks."""
    rows = parse_dkms_status(run(["dkms", "status"], ok=None).out).value or []
    return sorted(({key: row[key] for key in ("module", "version", "kernel", "arch", "state")} for row in rows if row["state"] in _BUILT),
                  key=lambda row: [str(value) for value in row.values()])


def default_kernel(run):
    """The kernel that boots by default; None where no boot loader of ours tells."""
    try:
        loader = next((loader for loader in (grub.Grub(run), grub_bls.Bls(run)) if loader.configured), None)
        return grub.default_kernel(loader.read()) if loader else None
    except (grub.GrubError, CommandError, OSError):
        return None
