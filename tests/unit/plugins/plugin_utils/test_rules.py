# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Every rule: one case where it speaks, one beside it where it is silent."""
from __future__ import annotations

import copy
import pathlib
import re

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_nccl
from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine, knowledge, stack

KERNEL = "6.12.117+deb13-amd64"
OLD_KERNEL = "6.12.107+deb13-amd64"
CURRENT = "/usr/lib/nvidia/current"
SOURCES = {"nvidia-kernel-dkms": "nvidia-graphics-drivers", "libcuda1": "nvidia-graphics-drivers",
           "libnvidia-ml1": "nvidia-graphics-drivers", "nvidia-smi": "nvidia-graphics-drivers"}


def package(version, source, **more):
    return dict({"version": version, "arch": "amd64", "source": source, "source_version": version, "status": "installed",
                 "hold": True, "auto": False}, **more)


def host():
    """A bare-metal Debian 13 node that is exactly what debian13-550 wants."""
    return {
        "schema": 1, "container": False, "unknown": [],
        "os": {"id": "debian", "release": "13", "codename": "trixie", "arch": "x86_64"},
        "kernel": {"running": KERNEL, "installed": [
            {"release": KERNEL, "package_version": "6.12.117-1", "image": True, "initramfs": True, "headers": True,
             "compiler": "gcc 14.2.0", "drm": True}]},
        "boot": {"loader": "grub", "default_kernel": KERNEL, "env_writable": True},
        "gpus": [{"address": "0000:17:00.0", "id": "10de:2330", "class": "0302"}], "nvswitches": [],
        "dkms": [{"module": "nvidia-current", "version": "550.163.01", "kernel": KERNEL, "arch": "x86_64", "state": "installed",
                  "flags": []}],
        "modules": {"loaded": {"version": "550.163.01", "flavour": "proprietary"},
                    "files": [{"kernel": KERNEL, "name": "nvidia-current", "version": "550.163.01"}]},
        "packages": {name: package("550.163.01-2", source) for name, source in SOURCES.items()},
        "package_manager": {"kind": "apt", "broken": [], "sources": [
            {"file": "/etc/apt/sources.list", "uris": ["x"], "options": {}, "signed_by": None, "enabled": True}]},
        "alternatives": {"nvidia": {"mode": "manual", "value": CURRENT, "choices": []}},
        "libraries": [{"soname": "libcuda.so.1", "version": "550.163.01"}, {"soname": "libnccl.so.2", "version": "2.22.3"}],
        "space": {"/": 50 << 30, "/boot": 1 << 30},
    }


def planned(key, *entries, component="driver"):
    return {"components": {component: {key: list(entries)}}}


def drift(name, have, want, why, component="driver"):
    return planned("drift", {"name": name, "have": have, "want": want, "why": why}, component=component)


def case(code, subject, fire, silent=None, name="debian13-550"):
    """fire and silent change the stack or the node; without `silent` the unchanged node is the silent case."""
    return pytest.param(code, subject, fire, silent, name, id=code + ":" + subject[:40])


def set_in(path, value):
    """A change: set_in("state.boot.loader", ...)."""
    def change(world):
        *folders, last = path.split(".")
        node = world
        for folder in folders:
            node = node[int(folder)] if isinstance(node, list) else node[folder]
        if isinstance(node, list):
            node[int(last)] = value
        else:
            node[last] = value
    return change


def both(*changes):
    def change(world):
        for one in changes:
            one(world)
    return change


def claim(target=None, **components):
    """A change: the stack becomes a claim, judged without a node."""
    def change(world):
        world.update(stack=stack.expand(components, exact=False), state=None, target=target or {})
    return change


V100, H100, B200, T4 = ({"gpus": [pci]} for pci in ("10de:1db1", "10de:2330", "10de:2901", "10de:1eb8"))
ON_13 = {"os": {"id": "debian", "release": "13", "arch": "x86_64"}}
RUNS_OLD = both(set_in("state.kernel.running", OLD_KERNEL))
BESIDE = set_in("state.packages.libnvidia-tesla-535-cuda1", package("535.274.02-1~deb13u1", "nvidia-graphics-drivers-tesla-535"))

COMPAT = both(*(set_in("state.libraries.0." + key, value) for key, value in (
    ("path", "/usr/local/cuda-12.8/compat/libcuda.so.1"), ("version", "570.86.10"))))
PCIE = set_in("state.gpus.0.id", "10de:2331")
SWITCH = set_in("state.nvswitches", [{"address": "0000:05:00.0", "id": "10de:22a3"}])
GUEST = both(set_in("state.virtualization", "kvm"), set_in("state.nvswitches", []), set_in("state.gpus.0.id", "10de:2330"))
FABRIC = set_in("state.fabric", {"log": {"reason": "nothing_to_do"}, "gpus": [{"index": 0, "name": None, "state": "In Progress", "status": "N/A"}]})
SPEC = {"path": "/etc/cdi/nvidia.yaml", "kind": "nvidia.com/gpu", "versions": ["535.161.08"], "devices": ["all"], "paths": []}


def transaction(name, version):
    """A change: a package manager would install a package."""
    row = {"name": name, "arch": None, "version": version, "old": None, "origin": None}
    return set_in("state.package_manager.transaction", {"install": [row], "upgrade": [], "downgrade": [], "remove": [], "tool": "apt", "error": None})


def manager_says(key, value):
    """A change: something that apt or dnf told."""
    return set_in("state.package_manager." + key, value)


def offers(*rows, installed=None, candidate=None, uri="http://archive.example.org/debian"):
    """A change: apt's policy of the driver's module package; rows: (version, priority)."""
    table = [{"version": version, "priority": priority, "installed": version == installed, "origins": [{"priority": priority, "uri": place, "suite": suite}]}
             for version, priority, place, suite in ((*row, uri, "trixie/non-free")[:4] for row in rows)]
    return manager_says("policy", {"nvidia-kernel-dkms": {"installed": installed, "candidate": candidate, "pin": None, "table": table}})


LEAVES = transaction("libcuda1", "560.35.03-1")
KERNEL_560 = transaction("linux-image-6.12.120+deb13-amd64", "6.12.120-1")
NOTHING_MORE = dict.fromkeys(("relation", "need", "have", "why"))
CUDA_REPOSITORY = ("https://repo.example.org/cuda/debian13/x86_64", None)


def nccl_conf(*lines, **more):
    """A change: the lines of /etc/nccl.conf, and what else is known of NCCL."""
    return set_in("state.nccl", dict({"conf": parse_nccl.parse_nccl_conf("\n".join(lines) + "\n").value}, **more))


def cache_without(searched):
    """A change: a search in the loader's cache that found nothing ("nothing"), or something else ("part")."""
    return both(set_in("state.loader_cache", searched), set_in("state.packages.libnccl2", package("2.22.3-1-1", "nvidia-nccl")), set_in("state.libraries", []))


def nccl_packages(headers):
    return both(set_in("state.packages.libnccl2", package("2.22.3-1-1", "nvidia-nccl")), set_in("state.packages.libnccl-dev", package(headers, "nvidia-nccl")))


def interface(name):
    return set_in("state.interfaces", [{"name": name, "running": True, "addresses": ["192.0.2.17/24"]}])


def rdma(**parts):
    """A change: a node with MLNX_OFED, and what is known of its modules."""
    return both(set_in("state.ofed", {"kind": "mlnx", "version": "24.10-1.1.4.0", "release": "24.10", "build": "1.1.4.0"}),
                set_in("state.rdma", dict(dict.fromkeys(("modules", "files", "symbols", "passed_over", "peer_modules")), **parts)))


def kernel_says(symbol, err):
    return set_in("state.kernel_log", [{"kind": "unknown_symbol", "module": "nv_peer_mem", "symbol": symbol, "err": err, "text": "x", "driver": None}])


CASES = [
    case("os_unknown", "debian 11", set_in("state.os.release", "11")),
    case("os_unknown", "gentoo 2", claim({"os": {"id": "gentoo", "release": "2"}}), claim(ON_13)),
    case("os_differs", "debian 12 x86_64, stack: debian 13 x86_64", set_in("state.os.release", "12")),
    case("os_differs", "debian 13 aarch64, stack: debian 13 x86_64", set_in("state.os.arch", "aarch64"), set_in("state.os.arch", None)),
    case("gpu_unknown", "10de:ffff", set_in("state.gpus.0.id", "10de:ffff"), set_in("state.gpus.0.id", "1002:7388")),
    case("gpu_unknown", "PCIe", claim({"gpus": ["PCIe"]}, driver="550"), claim({"gpus": ["H100"]}, driver="550")),
    case("probe_failed", "dkms_status", set_in("state.unknown", [{"probe": "dkms_status", "reason": "timed out"}]),
         set_in("state.unknown", [{"probe": "secure_boot", "reason": "no EFI"}])),
    case("probe_failed", "pci_devices", both(set_in("state.unknown", [{"probe": "pci_devices", "reason": "timed out"}]), set_in("state.gpus", None))),
    case("driver_branch_unknown", "999.10.01", claim(driver="999.10.01"), claim(driver="550")),
    case("flavour_not_in_branch", "470 open", claim(driver={"version": "470", "flavour": "open"}),
         claim(driver={"version": "515", "flavour": "open"})),
    case("gpu_needs_proprietary", "10de:1db1", claim(V100, driver={"version": "580.65.06", "flavour": "open"}),
         claim(T4, driver={"version": "580.65.06", "flavour": "open"})),
    case("flavour_mismatch", "10de:2901 needs open, 570.211.01 is proprietary",
         claim(B200, driver={"version": "570.211.01", "flavour": "proprietary"}),
         claim(H100, driver={"version": "570.211.01", "flavour": "proprietary"})),
    case("gpu_needs_newer_driver", "10de:2901 needs 570.133.20", claim(B200, driver="570.86.15"), claim(B200, driver="570")),
    case("branch_dropped_gpu", "10de:1db1@590", claim(V100, driver="590"), claim(V100, driver="580")),
    case("driver_fails_to_build_on_kernel", "nvidia-open-kernel-dkms=550.163.01-2@" + KERNEL,
         set_in("stack.driver.flavour", "open")),
    case("driver_fails_to_build_on_kernel", "nvidia-open-kernel-dkms=550.163.01-2@" + OLD_KERNEL,
         claim(ON_13, kernel=OLD_KERNEL, driver={"version": "550.163.01", "flavour": "open"}),
         claim(ON_13, kernel=OLD_KERNEL, driver={"version": "550.163.01", "flavour": "open", "module": "precompiled"})),
    case("unproven", "driver 535.999.01", claim(driver="535.999.01"), claim(driver="535.274")),
    case("unproven", "driver 550.163.01 proprietary@6.12.90+deb13-amd64",
         set_in("stack.kernel", {"release": "6.12.90+deb13-amd64", "package_version": "6.12.90-1"})),
    case("unproven", "cuda 12.4.9", claim(cuda="12.4.9"), claim(cuda="12.4")),
    case("no_package_set", "nccl@debian 12", set_in("stack.os.release", "12")),
    case("no_package_set", "driver@debian 13", set_in("stack.driver.version", "580.65.06"),
         claim(ON_13, driver={"source": "distribution", "flavour": "auto"})),
    case("cuda_unknown", "99.1.0", claim(cuda="99.1.0"), claim(cuda="11.8.0")),
    case("cuda_not_supported_by_driver", "cuda 12.4.1@470.256.02", claim(cuda="12.4.1", driver="470.256.02"),
         claim(cuda="11.8.0", driver="470.256.02")),
    case("cuda_not_supported_by_driver", "cuda 13@550", claim(cuda="13", driver="550"), claim(cuda="12.9", driver="525")),
    case("cuda_not_supported_by_driver", "cuda 11.0.3@450.51.05", claim(cuda="11.0.3", driver="450.51.05"),
         claim(cuda="11.0.3", driver="450.51.06")),
    case("cuda_not_supported_by_driver", "cuda 11.0@450.36.05", claim(cuda="11.0", driver="450.36.05"), claim(cuda="11.0", driver="450.36.06")),
    case("cuda_not_supported_by_driver", "cuda 11.1.0@450.51.06", claim(cuda="11.1.0", driver="450.51.06"), claim(cuda="11", driver="450.51.06")),
    case("cuda_needs_compat", "cuda 12.4.1@470.256.02", claim(V100, cuda="12.4.1", driver="470.256.02"),
         claim(V100, cuda="12.4.1", driver="525.60.13")),
    case("cuda_dropped_gpu", "10de:1db1@13.0.0", claim(V100, cuda="13.0.0"), claim(V100, cuda="12.9.1")),
    case("cuda_too_old_for_gpu", "10de:2901@12.6.3", claim(B200, cuda="12.6.3"), claim(B200, cuda="12")),
    case("nccl_cuda_major_differs", "nccl 2.22.3 for 12.4, active 11.8.0",
         claim(nccl={"version": "2.22.3", "cuda": "12.4"}, cuda="11.8.0"), claim(nccl={"version": "2.22.3", "cuda": "12.4"}, cuda="12.9.1")),
    case("headers_missing", KERNEL, set_in("state.kernel.installed.0.headers", False), set_in("state.kernel.installed.0.headers", None)),
    case("kernel_module_missing", "nvidia-current@" + KERNEL, both(set_in("state.modules.files", []), set_in("state.dkms", [])),
         both(set_in("state.modules.files", []), set_in("state.dkms", []), set_in("state.packages.nvidia-kernel-dkms.status", "half-configured"))),
    case("kernel_module_missing", "nvidia-current@" + KERNEL, set_in("state.modules.files", []), set_in("state.modules.files", None)),
    case("running_kernel_not_locked", "%s, locked: %s" % (OLD_KERNEL, KERNEL), RUNS_OLD, both(RUNS_OLD, set_in("state.container", True))),
    case("next_boot_kernel_not_locked", OLD_KERNEL, set_in("state.boot.default_kernel", OLD_KERNEL), set_in("state.boot.default_kernel", None)),
    case("reboot_required", "%s -> %s" % (OLD_KERNEL, KERNEL), RUNS_OLD, both(RUNS_OLD, set_in("state.kernel.installed.0.initramfs", False))),
    case("grubenv_not_writable", "/boot/grub/grubenv", both(RUNS_OLD, set_in("state.boot.env_writable", False)),
         set_in("state.boot.env_writable", False)),
    case("boot_space_low", "/boot", both(set_in("plan", drift("linux-image", None, "x", "package_missing", "kernel")),
                                         set_in("state.space", {"/boot": 9 << 20})),
         set_in("state.space", {"/boot": 9 << 20})),
    case("boot_space_low", "/", both(set_in("plan", drift("nvidia-cuda-toolkit", None, "x", "package_missing", "cuda")),
                                     set_in("state.space", {"/": 5 << 30})),
         both(set_in("plan", drift("nvidia-cuda-toolkit", None, "x", "package_missing", "cuda")), set_in("state.space", {}))),
    case("boot_space_low", "/usr", both(set_in("plan", drift("nvidia-cuda-toolkit", None, "x", "package_missing", "cuda")),
                                        set_in("state.space", {"/": 9 << 30, "/usr": 5 << 30})),
         both(set_in("plan", drift("nvidia-cuda-toolkit", None, "x", "package_missing", "cuda")),
              set_in("state.space", {"/": 5 << 30, "/usr": 90 << 30}))),
    case("boot_space_low", "/", both(set_in("plan", drift("nvidia-cuda-toolkit", None, "x", "package_missing", "cuda")),
                                     set_in("state.space", {"/": 5 << 30, "/usr": 5 << 30}))),
    case("dkms_not_built_for_kernel", "nvidia-current/550.163.01@" + KERNEL,
         both(set_in("state.modules.files", []), set_in("state.dkms.0.kernel", OLD_KERNEL)), set_in("state.dkms", [])),
    case("dkms_not_built_for_kernel", "nvidia-current/550.163.01@" + KERNEL,
         both(set_in("state.modules.files", []), set_in("state.dkms.0.state", "added")), set_in("state.dkms.0.state", "added")),
    case("dkms_not_installed", "nvidia-current/550.163.01@" + KERNEL, set_in("state.dkms.0.state", "built"),
         set_in("state.dkms.0.state", "installed_weak")),
    case("dkms_broken_source", "iser/24.10", lambda world: world["state"]["dkms"].append(
        {"module": "iser", "version": "24.10", "kernel": None, "state": "broken", "flags": []})),
    case("installed_module_differs_from_dkms", "nvidia-current@" + KERNEL, set_in("state.dkms.0.flags", ["diff"]),
         set_in("state.dkms.0.flags", ["original_exists"])),
    case("driver_library_mismatch", "module 535.274.02 / libcuda.so.1 550.163.01",
         set_in("state.modules.loaded.version", "535.274.02"), set_in("state.libraries.0.version", None)),
    case("driver_library_mismatch", "libnvidia-ml.so.1 570.86.10", set_in("state.libraries", [
        {"soname": "libnvidia-ml.so.1", "path": "/usr/local/cuda-12.8/compat/libnvidia-ml.so.1", "version": "570.86.10"}])),
    case("driver_library_mismatch", "libcuda.so.1 570.86.10", both(COMPAT, set_in("state.libraries.0.path", "/opt/libcuda.so.1")), COMPAT),
    case("libcuda_shadowed_by_compat", "libcuda.so.1 570.86.10", COMPAT, both(COMPAT, set_in("state.libraries.0.path", "/opt/libcuda.so.1"))),
    case("libcuda_shadowed_by_compat", "libcuda.so.1 535.54.03", both(COMPAT, set_in("state.libraries.0.version", "535.54.03"))),
    case("inactive_userland", "550.163.01 (libcuda1, libnvidia-ml1)", BESIDE, name="debian13-535"),
    case("package_version_differs", "libcuda1 550.144.03-1, wanted 550.163.01-*",
         set_in("plan", drift("libcuda1", "550.144.03-1", r"550\.163\.01-.+", "package_version_differs"))),
    case("package_missing", "libnccl2", set_in("plan", drift("libnccl2", None, r"2\.22\.3-.+", "package_missing", "nccl")),
         both(set_in("plan", drift("libnccl2", None, r"2\.22\.3-.+", "package_missing", "nccl")), set_in("state.packages", None))),
    case("package_origin_differs", "libcuda1 550.163.01-2", set_in("plan", drift("libcuda1", "550.163.01-2", "driver", "package_origin_differs"))),
    case("package_still_present", "nvidia-open-kernel-dkms", set_in("plan", planned("removed", "nvidia-open-kernel-dkms"))),
    case("package_not_pinned", "libcuda1", set_in("plan", drift("libcuda1", "550.163.01-2", None, "not_pinned"))),
    case("stale_pin", "libcuda1=550.144.03-1", set_in("plan", drift("libcuda1", "550.163.01-2", "550.144.03-1", "pin_differs"))),
    case("alternative_differs", "nvidia=/usr/lib/nvidia/tesla-535",
         set_in("plan", drift("alternative nvidia", CURRENT, "/usr/lib/nvidia/tesla-535", "alternative_differs"))),
    case("package_not_held", "nvidia-kernel-dkms", set_in("plan", planned("unheld", "nvidia-kernel-dkms")),
         set_in("plan", planned("unheld", "nvidia-alternative"))),
    case("hold_incomplete", "nvidia-alternative", set_in("plan", planned("unheld", "nvidia-alternative")),
         set_in("plan", planned("unheld", "nvidia-kernel-dkms"))),
    case("package_half_configured", "linux-image-x", set_in("state.package_manager.broken", ["linux-image-x"])),
    case("package_half_configured", "libcuda1", set_in("state.packages.libcuda1.status", "half-configured"),
         set_in("state.packages.libcuda1.status", "triggers-awaited")),
    case("package_set_split", "nvidia-kernel-dkms 520.56.06 beside 550.163.01",
         set_in("state.packages.nvidia-kernel-dkms.version", "520.56.06-1"), set_in("state.packages.nvidia-kernel-dkms.version", "550.163.01-3")),
    case("repository_unauthenticated", "/etc/apt/sources.list", set_in("state.package_manager.sources.0.options", {"trusted": "yes"}),
         both(set_in("state.package_manager.sources.0.options", {"trusted": "yes"}), set_in("state.package_manager.sources.0.types", ["deb-src"]))),
    case("repository_unauthenticated", "/etc/apt/sources.list", set_in("state.package_manager.sources.0.options", {"Allow-Insecure": "true"}),
         both(set_in("state.package_manager.sources.0.options", {"trusted": "yes"}), set_in("state.package_manager.sources.0.enabled", False))),
    # The subject's own files (test_rules_fabric.py, _containers.py, _controller.py) have the other forms of these.
    case("fabric_manager_version_differs", "550.54.15 / 550.163.01", set_in("state.packages.nvidia-fabricmanager-550", package("550.54.15-1", "fm")),
         set_in("state.packages.nvidia-fabricmanager-550", package("550.163.01-1", "fm"))),
    case("fabric_manager_version_would_differ", "550.54.15 / 550.163.01", transaction("nvidia-fabricmanager-550", "550.54.15-1"),
         transaction("nvidia-fabricmanager-550", "550.163.01-1")),
    case("fabric_manager_missing", "1 NVSwitches, driver 550.163.01", SWITCH,
         both(SWITCH, set_in("state.packages.nvidia-fabricmanager-550", package("550.163.01-1", "fm")))),
    case("fabric_manager_not_needed", "no NVSwitch", both(PCIE, set_in("state.fabric", {"log": {"reason": "nothing_to_do"}})),
         both(SWITCH, set_in("state.fabric", {"log": {"reason": "nothing_to_do"}}))),
    case("fabric_manager_on_wrong_side", "no NVSwitch visible in the guest", both(GUEST, FABRIC), both(GUEST, FABRIC, SWITCH)),
    case("fabric_not_completed", "1 of 1", FABRIC, set_in("state.fabric", {"gpus": [{"index": 0, "name": None, "state": "Not Supported", "status": "N/A"}]})),
    case("revision_coupling", "libnvidia-nscq-550 550.54.15 / 550.163.01", set_in("state.packages.libnvidia-nscq-550", package("550.54.15-1", "fm")),
         set_in("state.packages.libnvidia-nscq-550", package("550.163.01-1", "fm"))),
    case("cdi_spec_stale", "/etc/cdi/nvidia.yaml: 535.161.08 / 550.163.01", set_in("state.containers", {"cdi": [SPEC]}),
         set_in("state.containers", {"cdi": [dict(SPEC, versions=["550.163.01"])]})),
    case("dcgm_exporter_mismatch", "host engine 2.0.13", set_in("state.dcgm", {"version": "2.0.13", "log": {"mismatch": "API version mismatch"}}),
         set_in("state.dcgm", {"version": "2.0.13", "log": {"mismatch": None, "library": None}})),
    case("target_python_too_old", "3.6.8 < 3.7", set_in("state.controller", {"ansible": "2.17.5", "python": {"path": None, "version": "3.6.8"}}),
         set_in("state.controller", {"ansible": "2.17.5", "python": {"path": None, "version": "3.9.2"}})),
    case("package_bindings_missing", "python3-apt", set_in("state.controller", {"error": {"bindings": [
        {"package": "python3-apt", "interpreter": None, "version": None, "attempted": []}]}}), set_in("state.controller", {"error": {"bindings": []}})),
    case("ansible_module_unknown", "community.general.nvidia_driver", set_in("state.controller", {"error": {"no_module": "community.general.nvidia_driver"}}),
         set_in("state.controller", {"error": {"no_module": None}})),
    # The other forms of these: tests/unit/cases/test_pkg_apt.py.
    case("apt_locked", "unattended-upgr (24459)", manager_says("run", {"locks": [
        {"path": "/var/lib/dpkg/lock-frontend", "pid": 24459, "process": "unattended-upgr"}]}), manager_says("run", {"locks": []})),
    case("keyring_newer", "cuda-keyring 1.1-1 > 1.0-1", manager_says("run", {"later": [{"name": "cuda-keyring", "have": "1.1-1", "want": "1.0-1"}]}),
         manager_says("run", {"later": [{"name": "libnccl2", "have": "2", "want": "1"}]})),
    case("transitional_package_installed", "nvidia-driver-550", set_in("state.packages.nvidia-driver-550", package("580.173.02-0ubuntu0.22.04.1", "x")),
         set_in("state.packages.nvidia-driver-550", package("550.163.01-0ubuntu0.22.04.1", "x"))),
    case("candidate_is_transitional", "nvidia-driver-550 580.173.02-1", transaction("nvidia-driver-550", "580.173.02-1"),
         transaction("nvidia-driver-550", "550.163.01-1")),
    case("candidate_leaves_origin", "Debian -> CUDA repository",
         offers(("550.163.01-3", 600, *CUDA_REPOSITORY), ("550.163.01-2", 500), installed="550.163.01-2", candidate="550.163.01-3"),
         offers(("550.163.01-3", 500), ("550.163.01-2", 500), installed="550.163.01-2", candidate="550.163.01-3")),
    case("pinned_away", "nvidia-kernel-dkms 550.163.01-2", offers(("550.163.01-2", -1)), offers(("550.163.01-2", 500), candidate="550.163.01-2")),
    case("locked_version_gone_from_archive", "nvidia-kernel-dkms=550.163.01", offers(("560.35.03-1", 500), candidate="560.35.03-1"),
         offers(("560.35.03-1", 500), ("550.163.01-2", 500), candidate="560.35.03-1")),
    case("package_renamed", "nvidia-docker2 -> nvidia-container-toolkit", manager_says("run", {"missing": [{"name": "nvidia-docker2", "version": None}]}),
         manager_says("run", {"missing": [{"name": "no-such-thing", "version": None}]})),
    case("package_held_by_user", "libcuda1",
         both(manager_says("run", {"held_changed": True, "asked": {"libcuda1": "550.163.01-2"}}), manager_says("holds", ["libcuda1"])),
         manager_says("holds", ["libcuda1"])),
    case("downgrade_refused", "libcuda1", manager_says("run", {"downgrade_refused": True, "asked": {"libcuda1": "550.163.01-2"}}),
         manager_says("run", {"downgrade_refused": False, "asked": {"libcuda1": "550.163.01-2"}})),
    case("exact_set_needed", "libcuda1=550.163.01-2", manager_says("run", {"unmet": [
        {"package": "nvidia-smi", "kind": "Depends", "on": "libcuda1", "relation": "=", "need": "550.163.01-2", "have": "560.35.03-1", "why": "x"}]}),
        manager_says("run", {"unmet": []})),
    case("branch_switch_needs_removal", "535-server", manager_says("run", {"unmet": [
        dict(NOTHING_MORE, package="libnvidia-compute-550-server", kind="Conflicts", on="libnvidia-compute-535-server")]}),
        manager_says("run", {"unmet": [dict(NOTHING_MORE, package="a", kind="Conflicts", on="b")]})),
    case("transaction_leaves_lock", "libcuda1 560.35.03", LEAVES, transaction("libcuda1", "550.163.01-2")),
    case("transaction_installs_unlocked_kernel", "6.12.120+deb13-amd64", KERNEL_560, transaction("linux-image-" + KERNEL, "6.12.117-1")),
    case("transaction_removes_locked_kernel", KERNEL, manager_says("transaction", {"remove": [
        {"name": "linux-image-" + KERNEL, "arch": None, "version": None, "old": "6.12.117-1", "origin": None}], "tool": "apt"}), KERNEL_560),
    # The other forms of these: test_rules_nccl.py and test_rules_ofed.py.
    case("nccl_other_copy", "pip nvidia-nccl-cu12 2.21.5", set_in("state.nccl", {"pip": {"nvidia-nccl-cu12": "2.21.5"}}),
         set_in("state.nccl", {"pip": {"nvidia-nccl-cu12": "2.22.3"}})),
    case("library_not_in_cache", "libnccl.so.2", cache_without("nothing"), cache_without("part")),
    case("nccl_dev_runtime_split", "libnccl-dev 2.21.5-1-1", nccl_packages("2.21.5-1-1"), nccl_packages("2.22.3-1-1")),
    case("nccl_ib_fallback", "Using network Socket", set_in("state.nccl", {"log": {"networks": ["Socket"], "no_ib_device": True}}),
         set_in("state.nccl", {"log": {"networks": ["IB"], "no_ib_device": False}})),
    case("nccl_ifname_allows_loopback", "^docker0", nccl_conf("NCCL_SOCKET_IFNAME=^docker0"), nccl_conf("NCCL_SOCKET_IFNAME=^docker0,lo")),
    case("nccl_ifname_matches_nothing", "eth0", both(nccl_conf("NCCL_SOCKET_IFNAME=eth0"), interface("ens6")),
         both(nccl_conf("NCCL_SOCKET_IFNAME=eth0"), interface("eth0"))),
    case("nccl_graph_file_pinned", "/etc/nccl.conf", nccl_conf("NCCL_GRAPH_FILE=/opt/g.xml"), nccl_conf("NCCL_TOPO_FILE=/opt/t.xml")),
    case("nccl_graph_file_other_size", "4 GPUs in the file, 1 on the node", set_in("state.nccl", {"graph_file": {"gpus": 4, "graphs": 1}}),
         set_in("state.nccl", {"graph_file": {"gpus": 1, "graphs": 1}})),
    case("nccl_cuda_newer_minor", "nccl 2.29.7 for 13.2, active 13.0", claim(nccl={"version": "2.29.7", "cuda": "13.2"}, cuda="13.0"),
         claim(nccl={"version": "2.28.9", "cuda": "13.0"}, cuda="13.0")),
    case("nccl_variable_unknown", "NCCL_BUFFERSIZE", nccl_conf("NCCL_BUFFERSIZE=4194304"), nccl_conf("NCCL_BUFFSIZE=4194304")),
    case("nccl_value_reset", "NCCL_NTHREADS=4", nccl_conf("NCCL_NTHREADS=4"), nccl_conf("NCCL_NTHREADS=64")),
    case("nccl_settings_contradict", "NCCL_IB_DISABLE=1, NCCL_SOCKET_IFNAME=ib0", nccl_conf("NCCL_IB_DISABLE=1", "NCCL_SOCKET_IFNAME=ib0"),
         nccl_conf("NCCL_IB_DISABLE=0", "NCCL_SOCKET_IFNAME=ib0")),
    *(case("nccl_conf_" + fault, "line 1: NCCL_DEBUG", nccl_conf(line), nccl_conf("NCCL_DEBUG=INFO")) for fault, line in (
        ("no_equals", "NCCL_DEBUG INFO"), ("export_prefix", "export NCCL_DEBUG=INFO"), ("leading_blank", " NCCL_DEBUG=INFO"),
        ("blank_in_name", "NCCL_DEBUG =INFO"), ("inline_comment", "NCCL_DEBUG=INFO # all"), ("quotes_kept", 'NCCL_DEBUG="INFO"'),
        ("carriage_return", "NCCL_DEBUG=INFO\r"))),
    case("nccl_conf_duplicate", "NCCL_DEBUG in /etc/nccl.conf", nccl_conf("NCCL_DEBUG=INFO", "NCCL_DEBUG=WARN"), nccl_conf("NCCL_DEBUG=INFO")),
    case("nccl_conf_overridden", "NCCL_DEBUG in /etc/nccl.conf", nccl_conf("NCCL_DEBUG=INFO", log={"settings": {"NCCL_DEBUG": "WARN"}}),
         nccl_conf("NCCL_DEBUG=INFO", log={"settings": {"NCCL_DEBUG": "INFO"}})),
    case("ofed_not_built_for_kernel", KERNEL, rdma(files=[]), rdma(files=None)),
    case("inbox_module_in_use", "mlx5_ib", rdma(passed_over=["mlx5_ib"]), rdma(passed_over=[])),
    case("peermem_symbol_missing", "nv_peer_mem", kernel_says("ib_register_peer_memory_client", "0"), kernel_says("other", "0")),
    case("peermem_built_against_other_ofed", "nv_peer_mem", kernel_says("ib_register_peer_memory_client", "-22"),
         kernel_says("ib_register_peer_memory_client", "0")),
    case("peermem_built_against_other_driver", "nvidia_p2p_get_pages", kernel_says("nvidia_p2p_get_pages", "-22"), kernel_says("other", "-22")),
    case("peermem_built_without_ofed", "nvidia_peermem", rdma(peer_modules=[{"module": "nvidia_peermem", "depends": "nvidia"}]),
         rdma(peer_modules=[{"module": "nvidia_peermem", "depends": "nvidia,ib_core"}])),
    case("ofed_fails_to_build_on_kernel", "4.9-4.1.7.0@5.14", claim(ofed={"provider": "mlnx", "version": "4.9-4.1.7.0"}, kernel="5.14"),
         claim(ofed={"provider": "mlnx", "version": "4.9-4.1.7.0"}, kernel="5.4")),
    case("ofed_not_for_nic", "ConnectX-3", claim({"nics": ["ConnectX-3"]}, ofed={"provider": "mlnx", "version": "5.8-1.0.1.1"}),
         claim({"nics": ["ConnectX-3"]}, ofed={"provider": "mlnx", "version": "4.9-4.1.7.0"})),
    case("ofed_not_for_os", "rhel 9.8", claim(ofed={"provider": "doca", "doca": "3.2.1"}, os="rhel-9.8"),
         claim(ofed={"provider": "doca", "doca": "3.2.3"}, os="rhel-9.8")),
    case("doca_ofed_mismatch", "DOCA 2.9.3", claim(ofed={"doca": "2.9.3", "version": "25.10-1.6.6.0"}),
         claim(ofed={"doca": "2.9.3", "version": "24.10-3.2.5.0"})),
    case("gpudirect_not_possible", "kernel 4.18", claim(driver={"version": "550.163.01", "flavour": "proprietary"}, kernel="4.18"),
         claim(driver={"version": "550.163.01", "flavour": "open"}, kernel="4.18")),
]


def found(change, name="debian13-550"):
    world = {"stack": stack.expand(name), "state": host(), "plan": {}, "target": None}
    if change:
        change(world)
    return engine.findings(world["stack"], world["state"], world["target"], world["plan"])


@pytest.mark.parametrize(("code", "subject", "fire", "silent", "name"), CASES)
def test_a_rule_speaks_and_is_silent(code, subject, fire, silent, name):
    loud = [row for row in found(fire, name) if row["code"] == code]
    assert [row["subject"] for row in loud if subject in row["subject"]], loud
    for row in loud:
        assert row["message"].endswith(".") and "None" not in row["message"] and "%" not in row["message"]
        assert row["remedy"]
    assert not [row for row in found(silent, name) if row["code"] == code and subject in row["subject"]]


def test_every_rule_has_a_case_and_every_code_a_rule():
    """The cases lie here, beside (test_rules_*.py), and among the public reports."""
    unit = pathlib.Path(__file__).resolve().parents[2]
    files = [*unit.glob("**/test_*.py"), *(unit.parent / "fixtures" / "cases").glob("*/expected.yml")]
    tested = {word for path in files for word in re.findall(r"[a-z][a-z0-9_]{5,}", path.read_text(encoding="utf-8"))}
    rules = {rule.__name__ for rule in engine.RULES}
    assert rules - tested == set()
    assert len(rules) == len(engine.RULES)
    assert {code for code, row in engine.codes().items() if not row.get("raised_by")} == rules


def test_an_exact_node_has_no_findings():
    assert found(None) == []


def test_a_loaded_proprietary_module_under_a_blackwell_gpu_is_broken_not_blocked():
    rows = found(both(set_in("state.gpus.0.id", "10de:2901"), set_in("stack.driver.flavour", "open"), set_in("stack.driver.version", "570.211.01")))
    assert [row["verdict"] for row in rows if row["code"] == "flavour_mismatch"] == ["broken"]


def test_the_selected_foreign_userland_is_broken_and_the_idle_one_only_told():
    idle = both(BESIDE, set_in("state.libraries", [{"soname": "libcuda.so.1", "version": "535.274.02"}]))
    selected = both(BESIDE, set_in("state.libraries", [{"soname": "libcuda.so.1", "version": "550.163.01"}]))
    weights = [[(row["severity"], row["verdict"]) for row in found(change, "debian13-535") if row["code"] == "inactive_userland"]
               for change in (idle, selected)]
    assert weights == [[("info", "in_sync")], [("error", "broken")]]


def test_cuda_compat_that_is_installed_lifts_the_floor():
    value = stack.expand({"driver": "470.256.02", "cuda": "12.4.1"}, exact=False)
    state = {"gpus": [{"id": "10de:1db1"}], "packages": {"cuda-compat-12-4": package("550.54.15-1", "cuda-compat")}}
    assert engine.verdict(engine.findings(value, state)) == "in_sync"
    assert engine.verdict(engine.findings(value, dict(state, packages={}))) == "blocked"


def failing_build(**change):
    facts = copy.deepcopy(knowledge.load())
    row = dict(next(row for row in facts["proven"]["builds"] if row["result"] == "fail"), **change)
    facts["proven"]["builds"] = [row]
    value = stack.expand({"os": "debian-13", "kernel": {"release": row["kernel"]["release"], "package_version": "6.12.117-1"},
                          "driver": {"version": "550.163.01", "flavour": "open"}})
    return value, facts


@pytest.mark.parametrize(("change", "plan", "state", "expected"), [
    ({}, {}, {}, ("error", "blocked")),
    ({"certainty": "reported"}, {}, {}, ("warn", "in_sync")),
    # Another revision, compiler or kernel build was not measured: nothing is known of it.
    ({}, planned("changes", {"name": "nvidia-open-kernel-dkms", "version": "550.163.01-3"}), {}, None),
    ({}, {}, {"packages": {"nvidia-open-kernel-dkms": package("550.163.01-3", "nvidia-open-gpu-kernel-modules")}}, None),
    ({}, {}, {"kernel": {"installed": [{"release": KERNEL, "image": True, "compiler": "gcc 15.1.0"}]}}, None),
    ({"kernel": {"release": KERNEL, "package_version": "6.12.117-9"}}, {}, {}, None),
])
def test_a_measured_failure_counts_for_exactly_its_key(change, plan, state, expected):
    value, facts = failing_build(**change)
    rows = engine.findings(value, dict({"os": value["os"]}, **state), plan=plan, facts=facts)
    weights = [(row["severity"], row["verdict"]) for row in rows if row["code"] == "driver_fails_to_build_on_kernel"]
    assert weights == ([expected] if expected else [])
    assert bool([row for row in rows if row["code"] == "unproven"]) == (expected is None)


def test_the_refusal_of_a_measured_failure_tells_the_evidence():
    (row,) = engine.findings(stack.expand("debian13-550-open"))
    for part in ("550.163.01-2", KERNEL, "gcc 14.2.0", "2026-11-30", "nvidia/nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'"):
        assert part in row["message"]


def weights(change, code, name="debian13-550"):
    return [(row["severity"], row["verdict"]) for row in found(change, name) if row["code"] == code]


def foreign_diff(world):
    world["state"]["dkms"].append({"module": "zfs", "version": "2.2.2", "kernel": KERNEL, "state": "installed", "flags": ["diff"]})


def claimed_on_ubuntu(module, version="535.154.05"):
    """A change: a claim without a package set, on a node where DKMS knows a module that differs from the built one."""
    def change(world):
        world["stack"] = stack.expand({"driver": "535.154.05", "kernel": KERNEL}, exact=False)
        world["state"].update(dkms=[{"module": module, "version": version, "kernel": KERNEL, "state": "installed", "flags": ["diff"]}])
    return change


@pytest.mark.parametrize(("code", "change", "expected"), [
    ("installed_module_differs_from_dkms", claimed_on_ubuntu("nvidia"), [("error", "broken")]),
    ("installed_module_differs_from_dkms", claimed_on_ubuntu("nvidia-fs"), [("warn", "drift")]),
    ("installed_module_differs_from_dkms", claimed_on_ubuntu("nvidia", "1.0"), [("warn", "drift")]),
    ("installed_module_differs_from_dkms", set_in("state.dkms.0.flags", ["diff"]), [("error", "broken")]),
    ("installed_module_differs_from_dkms", foreign_diff, [("warn", "drift")]),
    ("package_half_configured", set_in("state.package_manager.broken", ["postfix"]), [("warn", "in_sync")]),
    ("package_half_configured", set_in("state.package_manager.broken", ["postfix", "nvidia-smi"]), [("error", "broken"), ("warn", "in_sync")]),
    ("package_half_configured", set_in("state.package_manager.broken", ["libnccl2"]), [("error", "broken")]),
    ("probe_failed", set_in("state.unknown", [{"probe": "dpkg_list", "reason": "line 1"}, {"probe": "dpkg_list", "reason": "line 2"}]),
     [("warn", "unknown")]),
    ("probe_failed", both(set_in("state.unknown", [{"probe": "dpkg_list", "reason": "slow"}]), set_in("state.packages", None)),
     [("error", "blocked")]),
    ("probe_failed", both(set_in("state.unknown", [{"probe": "os_release", "reason": "slow"}]),
                          set_in("state.os", {"id": None, "release": None, "arch": "x86_64"})), [("error", "blocked")]),
    ("os_unknown", set_in("state.os", {"id": None, "release": None, "arch": "x86_64"}), []),
    ("os_unknown", set_in("state.os", {"id": "debian", "release": None, "arch": "x86_64"}), [("error", "blocked")]),
    ("grubenv_not_writable", both(RUNS_OLD, set_in("state.boot.env_writable", False)), [("warn", "drift")]),
    ("nccl_cuda_major_differs", claim(nccl={"version": "2.22.3", "cuda": "12.4"}, cuda="11.8.0", driver="550.163.01"), [("warn", "degraded")]),
    ("nccl_cuda_major_differs", claim(nccl={"version": "2.22.3", "cuda": "12.4"}, cuda="11.8.0", driver="470.256.02"), [("error", "blocked")]),
])
def test_a_code_weighs_by_what_it_hits(code, change, expected):
    assert weights(change, code) == expected


def test_what_a_container_sees_of_its_host_does_not_count():
    host_driver = both(set_in("state.container", True), set_in("state.modules.loaded.version", "535.274.02"),
                       set_in("state.gpus.0.id", "10de:ffff"))
    assert not {row["code"] for row in found(host_driver)} & {"driver_library_mismatch", "gpu_unknown"}
    passed_in = both(host_driver, lambda world: world["state"].update(gpu_devices=True))
    codes = {row["code"] for row in found(passed_in)}
    assert "gpu_unknown" in codes and "driver_library_mismatch" not in codes
    blackwell = both(set_in("state.container", True), set_in("state.gpus.0.id", "10de:2901"), lambda world: world["state"].update(gpu_devices=True),
                     set_in("stack.driver.flavour", "open"), set_in("stack.driver.version", "570.211.01"))
    assert weights(blackwell, "flavour_mismatch") == []


def test_a_refusal_cites_where_the_branch_is_said_to_end():
    (row,) = [row for row in found(claim(V100, driver="590")) if row["code"] == "branch_dropped_gpu"]
    assert row["source"] == knowledge.load()["gpus"]["architectures"]["Volta"]["last_branch_source"]
    assert row["source"].endswith("/issues/1003")


@pytest.mark.parametrize("driver", [{"flavour": "auto"}, {"flavour": "proprietary"}, {"module": "dkms", "source": "distribution", "flavour": "proprietary"}])
@pytest.mark.parametrize("target", [{}, H100, B200, dict(B200, **ON_13)])
def test_a_claim_without_a_driver_version_is_judged(driver, target):
    assert all("None" not in row["message"] + row["subject"] for row in found(claim(target, driver=driver)))


@pytest.mark.parametrize("target", [{"os": {"id": "debian", "release": 13}}, {"os": "debian-13"}, {"os": "Debian 13", "gpus": "H100"}])
def test_a_target_may_be_written_short(target):
    rows = found(claim(target, kernel=KERNEL, driver={"version": "550.163.01", "flavour": "open"}))
    assert [row["code"] for row in rows] == ["driver_fails_to_build_on_kernel"]


@pytest.mark.parametrize("target", [{"os": ["debian"]}, {"os": "thirteen"}, {"os": {"id": "debian", "release": 10 ** 5000}}, {"gpus": {"a": 1}},
                                    {"gpus": [["H100"]]}, {"kernel": 6}])
def test_a_target_that_cannot_be_read_is_refused(target):
    with pytest.raises(engine.TargetError, match="target"):
        found(claim(target, driver="550"))
