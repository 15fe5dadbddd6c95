# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels among RPM packages: which package is an image, which release it boots as, whether its development files are there.

Sources: kernel.spec of Fedora, CentOS Stream and RHEL (variants and their +suffix), kernel.spec of Amazon Linux,
kernel-source of SUSE (uname -r without the rebuild counter).
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_rpm

# kernel, kernel-core, kernel-64k-debug-core, kernel6.12, kernel-uek-core, kernel-lt; kernel-default of SUSE.
_IMAGE = re.compile(r"kernel(?P<series>\d+\.\d+)?(?:-(?P<line>uek|lt|ml|automotive))?"
                    r"(?:-(?P<variant>rt|rt-debug|rt-64k|rt-64k-debug|64k|64k-debug|16k|16k-debug|debug|zfcpdump|uek64k))?(?P<core>-core)?")
_SUSE = re.compile(r"kernel-(?P<flavour>default|azure|64kb|preempt|vanilla|kvmsmall|rt)")
_DEVEL = "-devel"
# Beside any of these a list of kernel packages would also have -devel.
_BESIDE = re.compile(r"kernel[\w.-]*-(headers|tools|tools-libs|modules|modules-core|modules-extra|devel|devel-matched|default-base)")


def kernels(rows, absent=()):
    """The kernel images of parse_rpm_list(): [{release, package, package_version, headers}], sorted by release.

    headers: None where the list says nothing about development packages.
    """
    # kernel-64k-devel belongs to kernel-64k-core; EL 7 and SUSE have no -core.
    devel = {release_of(dict(row, name=row["name"][:-len(_DEVEL)] + core))
             for row in rows if row["name"].endswith(_DEVEL) for core in ("-core", "")} - {None}
    told = parse_rpm.complete(rows) or any(_BESIDE.fullmatch(row["name"]) for row in rows) or any(name.endswith(_DEVEL) for name in absent)
    found = {}
    # On systems with kernel-core the package kernel is empty, and sorts first.
    for row in sorted(rows, key=lambda row: row["name"]):
        release = release_of(row)
        if release:
            found[release] = {"release": release, "package": row["name"], "package_version": parse_rpm.evr(row),
                              "headers": True if release in devel else False if told else None}
    return [found[release] for release in sorted(found)]


def release_of(row):
    """What `uname -r` says of a kernel image package (a row of parse_rpm_list()); None for any other package."""
    if not row["release"]:
        return None
    suse = _SUSE.fullmatch(row["name"])
    if suse and ".el" not in row["release"]:
        return "%s-%s-%s" % (row["version"], re.sub(r"\.\d+$", "", row["release"]), suse.group("flavour"))
    found = _IMAGE.fullmatch(row["name"])
    if not found:
        return None
    plain = "%s-%s" % (row["version"], row["release"])
    release = plain if row["arch"] is None else "%s.%s" % (plain, row["arch"])
    variant = found.group("variant")
    # Real-time kernels before EL 9.3 have their mark in the release.
    if not variant or variant == "rt" and ".rt" in row["release"] or variant == "uek64k":
        return release
    # Without -core the variant is EL 7's, which writes it differently.
    return "%s+%s" % (release, variant) if found.group("core") else "%s.%s" % (release, variant)


# kmod-nvidia-535.183.06-4.18.0-553.22.1: a module that was built for one driver and one kernel.
_KMOD = re.compile(r"kmod-nvidia-(?P<open>open-)?(?P<driver>\d{3}\.\d+(?:\.\d+)?)-(?P<kernel>\d+\.\d+\.\d+-\d[\w.]*)")


def without_dist(release):
    """A kernel release as kmods name it: 4.18.0-553.22.1.el8_10.x86_64 is 4.18.0-553.22.1."""
    return re.sub(r"\.(?:el|fc|amzn|x86_64|aarch64).*", "", release or "")


def kmods(rows, installed):
    """The precompiled driver modules among packages: [{package, version, driver, kernel, flavour, arch, installed}].

    kernel: without the distribution's mark, see without_dist().
    """
    found = []
    for row in rows:
        name = _KMOD.fullmatch(row["name"])
        if name:
            found.append({"package": row["name"], "version": parse_rpm.evr(row), "driver": name.group("driver"),
                          "kernel": without_dist(name.group("kernel")), "flavour": "open" if name.group("open") else None,
                          "arch": row["arch"], "installed": installed})
    return found
