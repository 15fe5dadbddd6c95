# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What other tools than ours say of a converged node: dpkg, apt-mark, dkms, modinfo, nvcc, the loader."""

from __future__ import annotations

import re

# Everything installed from these source packages belongs to a stack. Written by hand on purpose.
SOURCES = {
    "linux", "linux-signed-amd64", "rdma-core", "nvidia-graphics-drivers", "nvidia-open-gpu-kernel-modules", "nvidia-modprobe",
    "nvidia-persistenced", "nvidia-support", "nvidia-cuda-toolkit", "nvidia-nccl", "cccl", "cub", "libcudacxx", "libthrust",
}
OWNERS_HOLDS = {"base-files"}


def output(host, command):
    """Standard output of a command that must succeed."""
    done = host.run(command)
    assert done.rc == 0, (command, done.rc, done.stdout, done.stderr)
    return done.stdout


def installed(host):
    """{package: (version, source package)} by dpkg-query."""
    text = output(host, "dpkg-query -W -f '${Package} ${Version} ${source:Package} ${db:Status-Status}\\n'")
    rows = [line.split() for line in text.splitlines()]
    return {row[0]: (row[1], row[2]) for row in rows if row[3] == "installed"}


def test_every_component_is_at_its_exact_version(host, expected):
    packages = installed(host)
    assert {name: packages.get(name, (None,))[0] for name in expected["packages"]} == expected["packages"]


def test_one_driver_version_throughout(host, expected):
    packages = installed(host)
    versions = {version for version, source in packages.values() if source == "nvidia-graphics-drivers"}
    assert versions == {expected["packages"]["libcuda1"]}


def test_holds_are_the_closure_and_the_owners(host):
    closure = {name for name, (dummy, source) in installed(host).items() if source in SOURCES}
    assert set(output(host, "apt-mark showhold").split()) == closure | OWNERS_HOLDS
    assert len(closure) > 40


def test_the_owners_settings_survive(host):
    assert "Pin-Priority: 700" in host.file("/etc/apt/preferences.d/50owner").content_string
    assert "Install-Suggests" in host.file("/etc/apt/apt.conf.d/50owner").content_string
    assert re.search(r"^ \*\*\* \S+ 700$", output(host, "apt-cache policy base-files"), re.MULTILINE)


def test_pins_keep_each_version(host, expected):
    for name, version in expected["packages"].items():
        policy = output(host, "apt-cache policy %s" % name)
        assert "Candidate: %s\n" % version in policy
        assert re.search(r"%s 1001$" % re.escape(version), policy, re.MULTILINE), policy


def test_dpkg_is_whole(host):
    assert host.run("dpkg --audit").stdout == ""
    assert host.run("apt-get check -q").rc == 0
    assert not host.file("/etc/dkms/no-autoinstall").exists


def test_dkms_built_for_the_stacks_kernel(host, expected):
    status = output(host, "dkms status -k %(kernel)s" % expected)
    assert "%(module)s/%(driver)s, %(kernel)s, x86_64: installed\n" % expected in status


def test_the_kernel_would_load_this_module(host, expected):
    for suffix in ("", "-uvm", "-modeset", "-drm", "-peermem"):
        module = expected["module"] + suffix
        fields = output(host, "modinfo -k %s %s" % (expected["kernel"], module))
        assert re.search(r"^vermagic: +%s " % re.escape(expected["kernel"]), fields, re.MULTILINE)
        assert re.search(r"^version: +%s$" % re.escape(expected["driver"]), fields, re.MULTILINE), fields
    assert host.file("/boot/initrd.img-%(kernel)s" % expected).size > 5_000_000
    assert host.file("/boot/vmlinuz-%(kernel)s" % expected).exists


def test_the_compiler_is_the_stacks(host, expected):
    assert expected["nvcc"] in output(host, "nvcc --version")


def asked(host, soname, function):
    """What a library that the loader chose says of itself."""
    script = "import ctypes; v = ctypes.c_int(); ctypes.CDLL('%s').%s(ctypes.byref(v)); print(v.value)" % (soname, function)
    return int(output(host, "python3 -c \"%s\"" % script))


def test_the_loader_takes_the_stacks_libraries(host, expected):
    assert asked(host, "libcuda.so.1", "cuDriverGetVersion") == expected["cuda_driver_api"]
    for soname in ("libcuda.so.1", "libnvidia-ml.so.1"):
        assert output(host, "readlink -f /usr/lib/x86_64-linux-gnu/%s" % soname).strip().endswith(".so." + expected["driver"])
    if expected["nccl"]:
        assert asked(host, "libnccl.so.2", "ncclGetVersion") == expected["nccl"]


def test_the_alternative_stays_where_it_is(host, expected):
    assert "\nStatus: manual\n" in output(host, "update-alternatives --query nvidia")
    assert output(host, "readlink /etc/alternatives/nvidia").strip() == expected["alternative"]


def test_check_named_exactly_what_was_installed(host, plan):
    """The plan made on the fresh node against dpkg's log, both ways."""
    steps = [step["target"] for step in plan["plan"] if step["action"] in ("install_exact", "downgrade_exact")]
    log = output(host, "grep -hE ' (install|upgrade) ' /var/log/dpkg.log")
    done = []
    for line in log.splitlines():
        dummy, dummy, dummy, package, dummy, version = line.split()
        done.append("%s=%s" % (package.split(":")[0], version))
    assert sorted(steps) == sorted(done)
    assert len(done) > 100


def test_the_report_says_in_sync_and_what_it_could_not_show(report):
    assert report["verdict"] == "in_sync"
    assert [row for row in report["findings"] if row["severity"] == "error"] == []
    assert {row["subject"] for row in report["not_proven"]} >= {"running kernel", "GPU context"}
    assert all(row["proven"] for row in report["proof"])
    assert {row["name"]: row["state"] for row in report["components"]}["driver"] == "exact, held"
