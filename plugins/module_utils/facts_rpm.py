# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RPM systems: packages, module streams, version locks, transactions, failed runs."""

from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils import capture_rpm, parse_kernel, parse_rpm, parse_rpm_kernels
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Special

# name: (level, how to take it live); docs/probes.md describes each.
PROBES = {
    "rpm_list": ("local", Special(capture_rpm.rpm_list, "rpm -qa --qf '%s'" % parse_rpm.RPM_FORMAT)),
}


def section(reader):
    """The part of the state that these probes fill.

    packages: as parse_rpm.packages() says. kernel.installed: rows as on other systems, by package. compilers.
    package_manager: kind "dnf"; packages_complete: whether the list shows a whole system, so that what is not in it is not
    there. Nothing at all where there is no list of RPM packages.
    """
    listing = reader.told("rpm_list", _listing)
    if listing is None:
        dpkg = reader.seen("dpkg_list")
        if dpkg and dpkg.absent("dpkg_list"):
            reader.note("dpkg_list", dpkg.why() + ", and no list of RPM packages is known either")
        return {}
    rows, absent = listing["rows"], listing["absent"]
    whole = parse_rpm.complete(rows)
    part = {"packages": parse_rpm.packages(rows, absent), "package_manager": {"kind": "dnf", "packages_complete": whole}}
    installed = _kernels(reader, parse_rpm_kernels.kernels(rows, absent))
    if installed or whole:
        part["kernel"] = {"installed": installed}
    found = parse_rpm.compilers(rows)
    if found or whole:
        part["compilers"] = found
    return part


def _listing(text, rc):
    """Parser of rpm_list; rpm -q ends with the number of packages that are not installed."""
    listing, problems = parse_rpm.parse_rpm_list(text)
    if rc and not (listing["rows"] or listing["absent"]):
        return parse_rpm.Parsed(None, problems or ["exit status %d without a list" % rc])
    return parse_rpm.Parsed(listing, problems)


def _kernels(reader, owned):
    """The installed kernels: those with an image package, and those with an image that no package of the list has."""
    seen, configs = reader.seen("kernel_files"), reader.seen("kernel_configs")
    files = parse_kernel.parse_kernel_files(seen.out).value if seen and seen.rc == 0 else None
    compiled = parse_kernel.parse_kernel_configs(configs.out).value if configs and configs.rc == 0 else {}
    rows = {row["release"]: row for row in owned}
    for release, row in (files or {}).items():
        if row["image"] and release not in rows:
            rows[release] = {"release": release, "package": None, "package_version": None, "headers": row["headers"]}
    return [_kernel(rows[release], files, compiled.get(release, {})) for release in sorted(rows)]


def _kernel(row, files, compiled):
    """A row of kernel.installed; what only files could tell is None where nobody looked at them."""
    there = {"image": True, "initramfs": None} if files is None else files.get(row["release"], {"image": False, "initramfs": False})
    headers = there.get("headers") if files is not None and "headers" in there else row["headers"]
    return dict(row, image=there["image"], initramfs=there["initramfs"], headers=headers, compiler=compiled.get("compiler"), drm=compiled.get("drm"))
