# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node is exactly what its stack says, by dpkg, rpm, apt, dnf, dkms, modinfo, the loader and the libraries themselves."""

from __future__ import annotations

import re

import pytest

pytestmark = pytest.mark.everywhere

# Names that belong to NVIDIA's and the kernel's products, by hand: whatever of them is there, the list must have. CUDA's parts,
# some sixty, are looked at by themselves.
OURS = re.compile(r"(lib)?nvidia-.+|libnvsdm.*|libnccl.*|libcuda\d*|libcudadebugger.*|libxnvctrl.*|cuda-drivers.*|nvlsm|nvlink5.*|kmod-nvidia-.+"
                  r"|xserver-xorg-video-nvidia.*|linux-(image|headers|modules|modules-extra)-\d.+|kernel(-.+)?|datacenter-gpu-manager.*|firmware-nvidia.*"
                  r"|rdma-core|ibverbs-.*|libibverbs.*")
PARTS = re.compile(r".*-1[23]-\d")
# The header tree that the image of a real Debian came with.
IMAGES_OWN = re.compile(r"linux-headers-6\.1\.0-(?!50-).*")
OWNERS_LOCK = {"base-files", "setup"}


def test_every_package_is_at_its_exact_version_and_no_other_is_there(node, want):
    there = {name: version for name, version in node.packages().items() if OURS.fullmatch(name) and not IMAGES_OWN.fullmatch(name)}
    assert there == want["packages"]


def test_the_parts_of_cuda_are_those_of_the_release(node, want):
    there = {name: version for name, version in node.packages().items() if PARTS.fullmatch(name)}
    assert {name: there.get(name) for name in want["parts"]} == want["parts"]
    series = {name[-4:] for name in there}
    assert len(series) == 1 and len(there) > 50
    assert {name: version for name, version in there.items()
            if there.get(name.replace("-devel-", "-").replace("-dev-", "-"), version) != version} == {}


def test_all_of_it_is_locked(node, want):
    locked = node.locked()
    parts = {name for name in node.packages() if PARTS.fullmatch(name)}
    assert (set(want["packages"]) | parts | OWNERS_LOCK & set(node.packages())) - locked == set()


def test_what_is_installed_later_comes_at_the_stacks_version(node, want):
    node.refresh()
    assert {name: node.candidate(name) for name in want["guarded"]} == want["guarded"]


def test_the_owners_doings_survive(node):
    if node.rpm:
        assert "setup-0:2.13.7-10.*" in node.host.file("/etc/dnf/plugins/versionlock.list").content_string
        assert "exclude=telnet*" in node.host.file("/etc/dnf/dnf.conf").content_string
    else:
        assert "Pin-Priority: 700" in node.host.file("/etc/apt/preferences.d/50owner").content_string
        assert "base-files" in node.output("apt-mark showhold").split()


def test_the_package_manager_is_whole(node):
    if node.rpm:
        assert node.output("dnf -q check --dependencies") == ""
    else:
        assert node.output("dpkg --audit") == "" and node.host.run("apt-get check -q").rc == 0
    assert not node.host.file("/etc/dkms/no-autoinstall").exists


def test_sources_are_signed_and_each_there_once(node, want):
    text = node.host.file("/etc/yum.repos.d/lockstep-gpu.repo" if node.rpm else "/etc/apt/sources.list.d/lockstep-gpu.sources").content_string
    checks = re.findall(r"^gpgcheck=1$", text, re.MULTILINE) if node.rpm else re.findall(r"^Signed-By: /", text, re.MULTILINE)
    addresses = re.findall(r"^(?:URIs: |baseurl=)(\S+?)/?$", text, re.MULTILINE)
    suites = re.findall(r"^Suites: (\S+)$", text, re.MULTILINE) or [""] * len(addresses)
    assert len(set(zip(addresses, suites))) == len(addresses) == len(suites) == len(checks)
    # Debian's own archive has further components for it.
    assert {address.rsplit("/", 1)[1] for address in addresses if address.startswith("file:")} == set(want["added"])


def test_the_module_is_built_for_the_stacks_kernel_and_would_be_loaded(node, want):
    assert re.search(r"^%s, %s, x86_64: installed" % (re.escape("%s/%s" % (want.get("dkms", "nvidia"), want["driver"])), re.escape(node.kernel())),
                     node.output("dkms status"), re.MULTILINE)
    for suffix in ("", "-uvm", "-modeset", "-drm", "-peermem"):
        name = want.get("dkms", "nvidia") + suffix
        assert node.module(node.kernel(), "version", name) == want["driver"]
        assert node.module(node.kernel(), "vermagic", name).split()[0] == node.kernel()
    assert node.module(node.kernel(), "license") == want["licence"]


def test_nouveau_stays_off(node):
    shown = node.output("modprobe --showconfig")
    assert "blacklist nouveau" in shown and "blacklist nova_core" in shown


def test_programs_get_the_drivers_libraries(node, want):
    assert node.asked("libcuda.so.1", "cuDriverGetVersion") == want["cuda_driver_api"]
    for soname in ("libcuda.so.1", "libnvidia-ml.so.1"):
        assert node.library_file(soname).endswith(".so." + want["driver"])
    if want["nccl"]:
        assert node.asked("libnccl.so.2", "ncclGetVersion") == want["nccl"]
    if want["nvcc"]:
        assert want["nvcc"] in node.output("/usr/local/cuda/bin/nvcc --version")


def test_check_named_exactly_what_was_installed(node, plan):
    """The plan made on the fresh node against what the package manager logged, both ways."""
    planned = sorted(step["target"] for step in plan["plan"] if step["action"] in ("install_exact", "downgrade_exact"))
    assert planned == sorted(node.logged_installs()) and len(planned) > 20


def test_the_report_says_in_sync_and_what_it_could_not_show(first):
    assert first["verdict"] == "in_sync"
    assert [row for row in first["findings"] if row["severity"] == "error"] == []
    assert "running kernel" in {row["subject"] for row in first["not_proven"]}
    assert all(row["proven"] for row in first["proof"])


def test_audit_agrees_and_touches_nothing(node):
    folders = "/etc /boot /lib/modules /usr/src /var/lib/dpkg /var/lib/dkms"
    mark = "sh -c \"{ find %s -type f -printf '%%p %%s %%T@\\n'; rpm -qa; } 2>/dev/null | sort | sha256sum\"" % folders
    node.refresh()
    before = node.output(mark)
    # Without the level gpu: no driver is loaded that nvidia-smi could ask.
    status, output = node.play("audit.yml", lockstep_gather=["local", "archive", "deep"])
    assert (status, node.report()["verdict"], node.report()["plan"]) == (0, "in_sync", []), output
    assert node.output(mark) == before
