# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The user space of the driver: libcuda, NVML, nvidia-smi, Debian's alternative."""
from __future__ import annotations

from .tables import parts

# What cuDriverGetVersion answers: the newest CUDA release that the first version of a branch was for.
CUDA_API = {"520": 11080, "525": 12000, "535": 12020, "545": 12030, "550": 12040, "555": 12050, "560": 12060, "565": 12070, "570": 12080,
            "575": 12090, "580": 13000, "590": 13010, "595": 13020, "610": 13030}
# The folder of Debian's alternative, and what it puts into place: link -> name of the slave, file.
CURRENT = "/usr/lib/nvidia/current"
DEBIAN_FOLDER = "/usr/lib/x86_64-linux-gnu/nvidia/current"
SLAVES = (("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "nvidia--libcuda.so.1-x86_64-linux-gnu", DEBIAN_FOLDER + "/libcuda.so.1"),
          ("/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "nvidia--libnvidia-ml.so.1-x86_64-linux-gnu", DEBIAN_FOLDER + "/libnvidia-ml.so.1"),
          ("/usr/bin/nvidia-smi", "nvidia--nvidia-smi", CURRENT + "/nvidia-smi"),
          ("/etc/modprobe.d/nvidia.conf", "nvidia--nvidia-modprobe.conf", "/etc/nvidia/current/nvidia-modprobe.conf"))
ALTERNATIVE = CURRENT + "/stub-alternative"


def by_alternative(maker, row):
    """Whether Debian's alternative puts this version's files into place (NVIDIA's packages for Debian up to 580)."""
    return maker.table == "debian12-cuda" and maker.has("nvidia-alternative", row.upstream)


def _folder(maker, row, made):
    if not by_alternative(maker, row):
        return maker.library_folder
    made.run("postinst", "if [ -x %s ]; then %s; fi" % (ALTERNATIVE, ALTERNATIVE))
    return DEBIAN_FOLDER


def libcuda(maker, row, made, _match):
    data = maker.compiled.library("libcuda", "libcuda.so.1", row.upstream, CUDA_API[parts(row.version)["b"]])
    maker.add_library(made, _folder(maker, row, made), data, "libcuda", row.upstream, "1", development=True)


def nvml(maker, row, made, _match):
    data = maker.compiled.library("libnvidia-ml", "libnvidia-ml.so.1", row.upstream)
    maker.add_library(made, _folder(maker, row, made), data, "libnvidia-ml", row.upstream, "1")


def smi(maker, row, made, _match):
    """nvidia-smi, unless another package of this version is known to bring it."""
    owners = {"nvidia-driver-cuda": ["nvidia-smi"] if maker.kind == "deb" else [], "libnvidia-compute": ["nvidia-utils"]}
    if any(maker.has(owner, row.upstream) for owner in owners.get(row.name, ())):
        return
    program = maker.compiled.program("nvidia-smi", row.upstream)
    if by_alternative(maker, row):
        _folder(maker, row, made)
        made.data(CURRENT + "/nvidia-smi", program, 0o755)
    else:
        made.data("/usr/bin/nvidia-smi", program, 0o755)


def alternative(_maker, row, made, _match):
    """Debian's: the link group nvidia, whose master is the folder /usr/lib/nvidia/current."""
    slaves = "".join(" \\\n  --slave %s %s %s" % slave for slave in SLAVES)
    made.text(ALTERNATIVE, "#!/bin/sh\nupdate-alternatives --quiet --install /usr/lib/nvidia/nvidia nvidia %s %s%s\nldconfig\n"
              % (CURRENT, row.upstream.split(".")[0], slaves), 0o755)
    made.run("postinst", ALTERNATIVE)
    made.run("prerm", 'if [ "$1" = remove ]; then update-alternatives --quiet --remove nvidia %s; fi' % CURRENT)


def firmware(_maker, row, made, _match):
    """The GSP's firmware of rpm's driver; the apt tables list theirs."""
    for chip in ("ga10x", "tu10x"):
        made.text("/usr/lib/firmware/nvidia/%s/gsp_%s.bin" % (row.upstream, chip), "stub %s %s\n" % (chip, row.upstream))


_UBUNTU = "ubuntu.*"
RULES = (
    (_UBUNTU, r"libnvidia-compute(-\d+(-server)?)?", libcuda),
    (_UBUNTU, r"libnvidia-compute(-\d+(-server)?)?", nvml),
    (_UBUNTU, r"nvidia-utils(-\d+(-server)?)?|libnvidia-compute", smi),
    ("debian12-cuda", "libcuda1", libcuda),
    ("debian12-cuda", "libnvidia-ml1", nvml),
    ("debian12-cuda", "nvidia-smi|nvidia-driver-cuda", smi),
    ("debian12-cuda", "nvidia-alternative", alternative),
    ("rhel9-cuda", "nvidia-driver-cuda-libs", libcuda),
    ("rhel9-cuda", "libnvidia-ml|nvidia-driver-NVML", nvml),
    ("rhel9-cuda", "nvidia-driver-cuda", smi),
    ("rhel9-cuda", "nvidia-kmod-common", firmware),
)
