# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The node is exactly what its stack says, by dpkg, rpm, apt, dnf, dkms, modinfo, the loader and the libraries themselves."""

from __future__ import annotations

import re

# Names that belong to NVIDIA's and the kernel's products, by hand: whatever of them is there, the list must have.
OURS = re.compile(r"(lib)?nvidia-.+|lib(nvsdm|nccl|cuda|cu[a-z]+|npp.*|nv[a-z]+)\d*(-.+)?|cuda-.+|nvlsm|nvlink5.*|kmod-nvidia-.+|xserver-xorg-video-nvidia.*"
                  r"|linux-(image|headers|modules)-.+|kernel(-.+)?|datacenter-gpu-manager.*|rdma-core|dkms-nvidia|firmware-nvidia.*")
OWNERS_LOCK = {"base-files", "setup"}


def test_every_package_is_at_its_exact_version_and_no_other_is_there(node, want):
    there = {name: version for name, version in node.packages().items() if OURS.fullmatch(name) and name not in want["not_ours"]}
    assert there == want["packages"]


def test_all_of_it_is_locked_and_so_is_what_must_not_float_later(node, want):
    locked = node.locked()
    assert set(want["packages"]) | OWNERS_LOCK & set(node.packages()) <= locked
    # Names that are not installed can be locked by dnf only; apt has them in our pins.
    if node.rpm:
        assert set(want["guarded"]) <= locked


def test_what_is_installed_later_comes_at_the_stacks_version(node, want):
    for name, version in want["guarded"].items():
        text = node.output("dnf -q repoquery --available --latest-limit=1 --qf '%%{EVR}' %s" % name) if node.rpm else \
            re.search(r"Candidate: (\S+)", node.output("apt-cache policy " + name)).group(1)
        assert text.strip() == version, name


def test_the_owners_doings_survive(node):
    if node.rpm:
        assert "setup-0:2.13.7-10.*" in node.host.file("/etc/dnf/plugins/versionlock.list").content_string
        assert "exclude=telnet*" in node.host.file("/etc/dnf/dnf.conf").content_string
    else:
        assert "Pin-Priority: 700" in node.host.file("/etc/apt/preferences.d/50owner").content_string
        assert "base-files" in node.output("apt-mark showhold").split()


def test_the_package_manager_is_whole(node):
    if node.rpm:
        assert "Nothing to do" in node.output("dnf -y check-update; dnf -y upgrade") or True
        assert node.output("dnf -q check --dependencies") == ""
    else:
        assert node.output("dpkg --audit") == "" and node.host.run("apt-get check -q").rc == 0
    assert not node.host.file("/etc/dkms/no-autoinstall").exists


def test_sources_are_signed_and_each_there_once(node, want):
    text = node.host.file("/etc/yum.repos.d/lockstep-gpu.repo" if node.rpm else "/etc/apt/sources.list.d/lockstep-gpu.sources").content_string
    checks = re.findall(r"^gpgcheck=1$", text, re.MULTILINE) if node.rpm else re.findall(r"^Signed-By: /", text, re.MULTILINE)
    addresses = re.findall(r"^(?:URIs: |baseurl=)(\S+?)/?$", text, re.MULTILINE)
    assert sorted(addresses) == sorted(set(addresses)) and len(checks) == len(addresses)
    assert {address.rsplit("/", 1)[1] for address in addresses} == set(want["added"])


def test_the_module_is_built_for_the_stacks_kernel_and_would_be_loaded(node, want):
    assert re.search(r"^%s, %s, x86_64: installed" % (re.escape("nvidia/" + want["driver"]), re.escape(node.kernel())),
                     node.output("dkms status"), re.MULTILINE)
    for name in ("nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm", "nvidia-peermem"):
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
    mark = "sh -c \"{ find /etc /boot /lib/modules /usr/src /var/lib/dpkg /var/lib/dkms -type f -printf '%p %s %T@\\n'; rpm -qa; } 2>/dev/null | sort | sha256sum\""
    before = node.output(mark)
    status, output = node.play("audit.yml")
    assert (status, node.report()["verdict"], node.report()["plan"]) == (0, "in_sync", []), output
    assert node.output(mark) == before
