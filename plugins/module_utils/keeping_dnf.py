# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the files of installed RPMs are: in dnf's cache, or still in a repository."""
from __future__ import annotations

import glob
import os

from ansible_collections.lockstep.gpu.plugins.module_utils import dnf as dnf4, versions_rpm
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import PackageError, Refused
from ansible_collections.lockstep.gpu.plugins.module_utils.resolving_dnf import open_dnf

try:
    import dnf.exceptions
    import hawkey
except ImportError:
    # dnf_python.ensure() has said so before anything here is called.
    pass


def fetch(system, store, wanted):
    """Put packages {key: version} into a store (keeping.py). Returns [{name, version, reason}] of those that nobody has."""
    found = {key: path for key, path in ((key, cached(system, key, version)) for key, version in wanted.items()) if path}
    lost, rest = store.add([(key, wanted[key], path) for key, path in sorted(found.items())]), {key: wanted[key] for key in wanted if key not in found}
    try:
        ask = open_dnf(system, [], [])[0] if rest else None
    except (PackageError, Refused) as error:
        return lost + [{"name": key, "version": version, "reason": str(error)} for key, version in sorted(rest.items())]
    if ask is None:
        return lost
    try:
        # What the user excludes, or another module stream has, can be kept all the same.
        for key, version in sorted(rest.items()):
            package = offered(ask, key, version)
            reason = "neither the node's cache nor a repository has it" if package is None else download(ask, package)
            if reason:
                lost.append({"name": key, "version": version, "reason": reason})
            else:
                # It may lie in somebody's mirror on this machine.
                lost += store.add([(key, version, package.localPkg())], linked=False)
        return lost
    finally:
        ask.close()


def offered(ask, key, version):
    """The package of a repository that is exactly this, whatever is excluded; None without one."""
    return next(iter(ask.exact(key, version, ask.query(flags=hawkey.IGNORE_EXCLUDES))), None)


def download(ask, package):
    """Why a package cannot be had; None when it lies where localPkg() says."""
    try:
        ask.base.download_packages([package])
        ask._check_signature(package)  # pylint: disable=protected-access
    except (dnf.exceptions.Error, RuntimeError, OSError) as error:
        return "it cannot be downloaded: %s" % error
    return None


def cached(system, key, version):
    """The path of a package in dnf's cache; None without one. dnf throws downloads away, unless it is told to keep them."""
    name, _colon, arch = key.partition(":")
    have = versions_rpm.parse(version)
    file = "%s-%s-%s.%s.rpm" % (name, have.version, have.release, arch or "*")
    return next(iter(sorted(glob.glob(os.path.join(dnf4.settings(system).cachedir, "*", "packages", file)))), None)
