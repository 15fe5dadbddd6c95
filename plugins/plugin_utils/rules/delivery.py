# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about who brought the driver: packages, NVIDIA's own installer, another system."""
from __future__ import annotations

import re
import typing as t

from . import driver_found as found
from .context import Context, Hit, listed

PREBUILT = re.compile(r"linux-(modules|objects)-nvidia-.+|kmod-nvidia-(open-)?\d.+|nvidia-(open-)?driver-G\d+.*-kmp-.+|kmod-nvidia(-open)?-\d+\.\d+.+")
DELIVERERS = (("/run/nvidia/driver", "the GPU operator's driver container"), ("/etc/dgx-release", "DGX OS"), ("/etc/nvidia/gridd.conf", "NVIDIA vGPU (GRID)"))
INSTALLER_LOG = "/var/log/nvidia-installer.log"


def driver_from_runfile(ctx: Context) -> t.Iterator[Hit]:
    """The driver comes from packages."""
    marks = ctx.state.get("runfile") or []
    packages = {**found.kernel_packages(ctx), **found.user_packages(ctx)}
    # The log stays when the installer's driver goes, so it alone counts only where nothing else brought the driver.
    programs = [path for path in marks if path != INSTALLER_LOG]
    if not marks or not programs and (packages or not found.running(ctx) or not ctx.packages_known):
        return
    mark = (programs or marks)[0].rsplit("/", 1)[-1]
    version = " %s" % found.running(ctx) if found.running(ctx) else ""
    if packages:
        yield Hit("%s present beside %s" % (mark, listed("%s %s" % item for item in packages.items())),
                  "%s is there: NVIDIA's own installer brought the driver%s, beside packages of it (%s)." % (
                      mark, version, listed("%s %s" % item for item in packages.items())), context="beside")
    else:
        yield Hit("no nvidia driver package installed, %s present" % mark,
                  "%s is there and no package of the driver: NVIDIA's own installer (.run) brought the driver%s, so no package manager keeps its version." % (
                      mark, version))


def module_prebuilt(ctx: Context) -> t.Iterator[Hit]:
    """A stack that builds its module by DKMS finds no prebuilt one."""
    names = [name for name in ctx.packages if PREBUILT.fullmatch(name)]
    asked = (ctx.stack.get("driver") or {}).get("module")
    if names and asked == "dkms" and not found.dkms_rows(ctx):
        yield Hit(listed(names), "The stack builds the driver's module by DKMS, the node has it prebuilt: %s." % listed(names))


def driver_delivered_by_other(ctx: Context) -> t.Iterator[Hit]:
    """Nobody else delivers the node's driver."""
    marks = ctx.state.get("delivery") or []
    for path, who in DELIVERERS:
        if path in marks:
            yield Hit(path, "%s delivers this node's driver (%s); what packages change here, it may change back." % (who[0].upper() + who[1:], path),
                      context="acting" if ctx.purpose == "install" and ctx.driver else "default")
    grid = [name for name in ctx.packages if re.fullmatch(r"nvidia-(linux-)?grid-.+|NVIDIA-vGPU.*|nvidia-vgpu-.+", name)]
    if grid and "/etc/nvidia/gridd.conf" not in marks:
        yield Hit(listed(grid), "NVIDIA vGPU (GRID) delivers this node's driver: %s." % listed(grid),
                  context="acting" if ctx.purpose == "install" and ctx.driver else "default")


RULES = (driver_from_runfile, module_prebuilt, driver_delivered_by_other)
