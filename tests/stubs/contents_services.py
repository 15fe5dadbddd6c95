# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Daemons and their units: they say their version, and run only where a driver of that version is loaded."""
from __future__ import annotations

LOADED = "/run/lockstep-gpu-driver"     # as in c/stub.h
_UNIT = """\
[Unit]
Description={name} (stub)

[Service]
ExecStart={command}
{more}
[Install]
WantedBy=multi-user.target
"""
_DAEMON = """\
#!/bin/sh
case "${{1:-}}" in --version|-v|-V) echo "{says}"; exit 0 ;; esac
if [ "$(cat {loaded} 2>/dev/null)" = "{version}" ]; then exec sleep infinity; fi
echo "{name}: no NVIDIA driver {version} is loaded" >&2
exit 1
"""


def _daemon(maker, made, unit, program, version, says, more=""):
    made.text(program, _DAEMON.format(says=says, loaded=LOADED, version=version, name=unit), 0o755)
    made.text("%s/%s.service" % (maker.unit_folder, unit), _UNIT.format(name=unit, command=program, more=more))
    made.run("postinst", "if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi")


def fabric_manager(maker, row, made, _match):
    _daemon(maker, made, "nvidia-fabricmanager", "/usr/bin/nv-fabricmanager", row.upstream, "Fabric Manager version is : " + row.upstream)
    made.text("/usr/share/nvidia/nvswitch/fabricmanager.cfg", "LOG_LEVEL=4\nDAEMONIZE=1\nFABRIC_MODE=0\n")
    if maker.kind == "deb":
        made.conffiles.append("/usr/share/nvidia/nvswitch/fabricmanager.cfg")


def imex(maker, row, made, _match):
    _daemon(maker, made, "nvidia-imex", "/usr/bin/nvidia-imex", row.upstream, "IMEX version is: " + row.upstream)


def persistenced(maker, row, made, _match):
    """In a package of its own, or in nvidia-compute-utils where the repository has none of this version."""
    if row.name != "nvidia-persistenced" and maker.has("nvidia-persistenced", row.upstream):
        return
    _daemon(maker, made, "nvidia-persistenced", "/usr/bin/nvidia-persistenced", row.upstream, "nvidia-persistenced:  version " + row.upstream)


def dcgm(maker, row, made, _match):
    """Runs without a driver, too, as the real one does."""
    version = row.upstream
    made.text("/usr/bin/dcgmi", '#!/bin/sh\necho\necho "dcgmi  version: %s"\n' % version, 0o755)
    made.text("/usr/bin/nv-hostengine", '#!/bin/sh\ncase "${1:-}" in --version) echo "Version : %s"; exit 0 ;; esac\nexec sleep infinity\n' % version, 0o755)
    made.text(maker.unit_folder + "/nvidia-dcgm.service", _UNIT.format(name="nvidia-dcgm", command="/usr/bin/nv-hostengine", more=""))
    made.run("postinst", "if [ -d /run/systemd/system ]; then systemctl daemon-reload || :; fi")


RULES = (
    (".*-cuda|.*-archive", r"nvidia-fabric-?manager(-\d+)?", fabric_manager),
    (".*-cuda|.*-archive", r"nvidia-imex(-\d+)?", imex),
    (".*-cuda|.*-archive", r"nvidia-persistenced|nvidia-compute-utils-\d+(-server)?", persistenced),
    (".*-cuda", "datacenter-gpu-manager|datacenter-gpu-manager-4-core", dcgm),
)
