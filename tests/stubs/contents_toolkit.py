# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA toolkits, NCCL, the container toolkit, and the tools of RDMA."""
from __future__ import annotations

import json
import re

_NVCC = """\
#!/bin/sh
# A stub: it compiles nothing, what it makes says that there is no device.
output=
while [ $# -gt 0 ]; do
  case $1 in
    --version|-V)
      echo "nvcc: NVIDIA (R) Cuda compiler driver"
      echo "Copyright (c) 2005-2026 NVIDIA Corporation"
      echo "Cuda compilation tools, release {release}, V{version}"
      exit 0 ;;
    -o) output=$2; shift ;;
  esac
  shift
done
[ -n "$output" ] || exit 1
printf '%s\\n' '#!/bin/sh' 'echo "error 100 no CUDA-capable device is detected"' 'exit 3' >"$output"
chmod 755 "$output"
"""
_NVIDIA_CTK = """\
#!/bin/sh
case "$*" in
  --version|-v) echo "NVIDIA Container Toolkit CLI version {version}"; echo "commit: stub" ;;
  "cdi list") echo 'level=info msg="Found 0 CDI devices"' >&2 ;;
  *) exit 0 ;;
esac
"""
_IBV_DEVINFO = """\
#!/bin/sh
cd /sys/class/infiniband 2>/dev/null && set -- * && [ -e "$1" ] || { echo "No IB devices found"; exit 255; }
echo "$# HCAs found:"
printf '\\t%s\\n' "$@"
echo
"""


def _root(series):
    """/usr/local/cuda-12.8 of "12-8"."""
    return "/usr/local/cuda-" + series.replace("-", ".")


def cudart(maker, row, made, match):
    major, minor = row.upstream.split(".")[:2]
    soname = "11.0" if major == "11" else major
    data = maker.compiled.library("libcudart", "libcudart.so." + soname, number=1000 * int(major) + 10 * int(minor))
    maker.add_library(made, _root(match.group(1)) + "/targets/x86_64-linux/lib", data, "libcudart", row.upstream, soname)


def nvcc(_maker, row, made, match):
    made.text(_root(match.group(1)) + "/bin/nvcc", _NVCC.format(release=match.group(1).replace("-", "."), version=row.upstream), 0o755)


def config_common(_maker, row, made, match):
    """The links /usr/local/cuda and /usr/local/cuda-12, by alternatives."""
    root, major = _root(match.group(1)), match.group(1).split("-", 1)[0]
    priority = match.group(1).replace("-", "")
    made.text(root + "/.stub", "%s\n" % row.version)
    made.run("postinst", "".join(
        "update-alternatives --quiet --install /usr/local/%s %s %s %s\n" % (name, name, root, priority) for name in ("cuda", "cuda-" + major)))
    made.run("prerm", "".join("update-alternatives --quiet --remove %s %s\n" % (name, root) for name in ("cuda", "cuda-" + major)))


def config_all(_maker, _row, made, match):
    """Where the loader looks for the libraries of the chosen toolkit."""
    major = match.group(1) or ""
    path = "/etc/ld.so.conf.d/%s.conf" % ("988_cuda" + major if major else "000_cuda")
    made.text(path, "/usr/local/cuda%s/targets/x86_64-linux/lib\n" % major)
    made.run("postinst", "ldconfig")


def documentation(maker, row, made, match):
    """version.json, which says the release that this version was made for: the first whose toolkit asks for exactly it."""
    series = match.group(1)
    releases = [other.upstream for other in maker.rows if other.name == "cuda-toolkit-" + series and row.upstream in _asked(other, row.name)]
    if releases:
        release = min(releases, key=_numbers)
        compilers = [version for other in maker.rows if other.name == "cuda-compiler-" + series and other.upstream == release
                     for version in _asked(other, "cuda-nvcc-" + series)]
        made.text(_root(series) + "/version.json", json.dumps({
            "cuda": {"name": "CUDA SDK", "version": release},
            "cuda_nvcc": {"name": "CUDA NVCC", "version": (compilers or [row.upstream])[0]}}, indent=3) + "\n")


def _asked(row, name):
    """The versions of `name` that a row depends on, by floor: of apt's and of rpm's spelling."""
    found = (re.fullmatch(re.escape(name) + r" \(?>= ?([\d.]+)\)?", text) for text in row.relations.get("depends", ()))
    return [match.group(1) for match in found if match]


def _numbers(version):
    return [int(number) for number in version.split(".")]


def nccl(maker, row, made, _match):
    version = row.upstream
    major, minor, patch = (int(number) for number in version.split("."))
    data = maker.compiled.library("libnccl", "libnccl.so.2", number=10000 * major + 100 * minor + patch)
    maker.add_library(made, maker.library_folder, data, "libnccl", version, "2")


def nccl_development(maker, row, made, _match):
    major, minor, patch = row.upstream.split(".")
    made.text("/usr/include/nccl.h", "#define NCCL_MAJOR %s\n#define NCCL_MINOR %s\n#define NCCL_PATCH %s\n" % (major, minor, patch))
    made.link(maker.library_folder + "/libnccl.so", "libnccl.so.2")


def container_base(_maker, row, made, _match):
    made.text("/usr/bin/nvidia-ctk", _NVIDIA_CTK.format(version=row.upstream), 0o755)
    made.text("/etc/nvidia-container-runtime/config.toml", "# stub\n[nvidia-container-cli]\n[nvidia-container-runtime]\nmode = \"auto\"\n")
    made.conffiles.append("/etc/nvidia-container-runtime/config.toml")


def container_tools(_maker, row, made, _match):
    made.text("/usr/bin/nvidia-container-cli", '#!/bin/sh\necho "cli-version: %s"\necho "lib-version: %s"\n' % (row.upstream, row.upstream), 0o755)


def container_library(maker, row, made, _match):
    data = maker.compiled.library("library", "libnvidia-container.so.1", row.upstream)
    maker.add_library(made, maker.library_folder, data, "libnvidia-container", row.upstream, "1")


def ibv_devinfo(_maker, _row, made, _match):
    made.text("/usr/bin/ibv_devinfo", _IBV_DEVINFO, 0o755)


def ofed_info(maker, row, made, _match):
    """MLNX_OFED has it in ofed-scripts; where the tables have no such package of a release, the kernel's tools bring it."""
    if row.name != "ofed-scripts" and any(other.name == "ofed-scripts" for other in maker.rows):
        return
    release, numbers = row.upstream.split(".OFED.", 1)
    doca = "OFED-internal-%s-%s" % (release, ".".join(numbers.split(".")[2:5]))
    told = doca if maker.table.startswith("doca") else "MLNX_OFED_LINUX-" + row.release
    made.text("/usr/bin/ofed_info", '#!/bin/sh\necho "%s:"\n' % told, 0o755)


_SERIES = r"(\d+-\d+)"
RULES = (
    (".*-cuda", "cuda-cudart-" + _SERIES, cudart),
    (".*-cuda", "cuda-nvcc-" + _SERIES, nvcc),
    (".*-cuda", "cuda-toolkit-%s-config-common" % _SERIES, config_common),
    (".*-cuda", r"cuda-toolkit(-\d+)?-config-common", config_all),
    (".*-cuda", "cuda-documentation-" + _SERIES, documentation),
    (".*", r"libnccl2?", nccl),
    (".*", r"libnccl-dev(el)?", nccl_development),
    (".*", "nvidia-container-toolkit-base", container_base),
    (".*", "libnvidia-container-tools", container_tools),
    (".*", "libnvidia-container1", container_library),
    (".*", "ibverbs-utils", ibv_devinfo),
    ("mlnx-.*|doca-.*", "ofed-scripts|mlnx-ofed-kernel-utils", ofed_info),
)
