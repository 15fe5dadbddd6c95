# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernels a node has, from its files or, where nobody recorded those, from its packages; and which GRUB lists first."""
from __future__ import annotations

import functools
import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils import versions, versions_rpm

Row = t.Dict[str, t.Any]

INSTALLED = ("installed", "triggers-awaited", "triggers-pending")
_DEB_IMAGE = re.compile(r"linux-image-(?:unsigned-)?(?P<release>\d[^:]*?)(?:-unsigned)?(?<!-dbg)(?<!-dbgsym)")
# What GRUB's helper does to a name before it compares (version_test_gt of grub-mkconfig_lib): a candidate is older than its release.
_CANDIDATE = re.compile(r"[._-](?=(?:pre|rc|test|git|old|trunk))")


def listed(state: t.Mapping[str, t.Any]) -> t.List[Row]:
    """Rows like those of state.kernel.installed: {release, package, package_version, image, initramfs, headers, ...}.

    Where no files are known, image is True for an installed image package, and the rest None. Empty when nothing is known.
    """
    rows = (state.get("kernel") or {}).get("installed")
    if rows is not None:
        return list(rows)
    return [{"release": release, "package": name, "package_version": row.get("version"), "image": True, "initramfs": None,
             "headers": None, "compiler": None, "drm": None} for release, name, row in images(state.get("packages") or {})]


def images(packages: t.Mapping[str, Row]) -> t.List[t.Tuple[str, str, Row]]:
    """(release, name, package) of every installed package that holds a kernel image, each release once."""
    found: t.Dict[str, t.Tuple[str, str, Row]] = {}
    for name, row in sorted(packages.items()):
        image = _DEB_IMAGE.fullmatch(name)
        if image and row.get("status") in (*INSTALLED, None):
            found.setdefault(image.group("release"), (image.group("release"), name, row))
    return list(found.values())


def rpm(state: t.Mapping[str, t.Any]) -> bool:
    """Whether the node's packages are RPM's."""
    return (state.get("package_manager") or {}).get("kind") == "dnf"


def newest_first(releases: t.Iterable[str], flavour_order: str = "", like_rpm: bool = False) -> t.List[str]:
    """Releases in the order of GRUB's menu: 10_linux sorts by version, Ubuntu's first by GRUB_FLAVOUR_ORDER; like_rpm: as rpm sorts."""
    flavours = flavour_order.split()
    # A number of thousands of digits, which Python refuses to read, is nobody's kernel.
    known = {release for release in releases if len(release) < 200}
    newest = sorted(known, key=functools.cmp_to_key(_compare_rpm if like_rpm else _compare), reverse=True)
    return sorted(newest, key=lambda release: _place(release, flavours))


def resolve(wanted: str, state: t.Mapping[str, t.Any]) -> str:
    """The release that a claim means: 5.15.0-91 is 5.15.0-91-generic where exactly that runs, or is the only one of its kind.

    5.14.0-427.13.1.el9_4 lacks the architecture, 6.8 the rest. What is a whole release, or fits several kernels, stays.
    """
    running = (state.get("kernel") or {}).get("running")
    known = {row["release"] for row in listed(state)} | ({running} if running else set())
    if wanted in known:
        return wanted
    pattern = re.compile(re.escape(wanted) + r"(?:\.(?:x86_64|aarch64)|-[a-z][\w-]*|[.-]\d.*)")
    fitting = sorted(release for release in known if pattern.fullmatch(release))
    if running in fitting:
        return running
    return fitting[0] if len(fitting) == 1 else wanted


def _compare(left: str, right: str) -> int:
    a, b = (_CANDIDATE.sub("~", release) for release in (left, right))
    return versions.compare_text(a, b) or (left > right) - (left < right)


def _compare_rpm(left: str, right: str) -> int:
    return versions_rpm.vercmp(left, right) or (left > right) - (left < right)


def _place(release: str, flavours: t.Sequence[str]) -> int:
    """Ubuntu's patch matches -NUMBER-FLAVOUR at the end of the name."""
    return next((place for place, flavour in enumerate(flavours) if re.search(r"-\d*-%s$" % re.escape(flavour), release)), len(flavours))
