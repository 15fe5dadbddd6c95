# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rendering a node to text, on folders that look like one."""

from __future__ import annotations

import fcntl
import os
import time

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import capture
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_dkms import parse_dkms_status

KERNEL = "6.12.117+deb13-amd64"
TREE = "var/lib/dkms/nvidia-current/550.163.01"


@pytest.fixture
def node(tmp_path):
    """A function that writes a file below an empty root, and the root."""
    def write(path, content=""):
        target = tmp_path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content.encode())
        return target
    write.root = str(tmp_path)
    return write


def build(node, module=b"elf", installed=b"elf"):
    """A DKMS tree with one module, built and perhaps installed."""
    node("usr/src/nvidia-current-550.163.01/dkms.conf")
    node(TREE + "/%s/x86_64/module/nvidia-current.ko.xz" % KERNEL, module.decode())
    node("var/lib/dkms/mok.key")
    root = capture.inside(node.root, "/")
    os.symlink(os.path.join(root, "usr/src/nvidia-current-550.163.01"), os.path.join(root, TREE, "source"))
    if installed is not None:
        node("lib/modules/%s/updates/dkms/nvidia-current.ko.xz" % KERNEL, installed.decode())
        os.symlink("550.163.01/%s/x86_64" % KERNEL,
                   os.path.join(root, "var/lib/dkms/nvidia-current/kernel-%s-x86_64" % KERNEL))


def status(node):
    return [(row["module"], row["kernel"], row["state"], row["flags"])
            for row in parse_dkms_status(capture.dkms_tree(node.root)).value]


def test_dkms_installed(node):
    build(node)
    assert capture.dkms_tree(node.root) == "nvidia-current/550.163.01, %s, x86_64: installed\n" % KERNEL


def test_dkms_built_only(node):
    build(node, installed=None)
    assert status(node) == [("nvidia-current", KERNEL, "built", [])]


def test_dkms_differs_and_original(node):
    build(node, installed=b"other")
    node("var/lib/dkms/nvidia-current/original_module/%s/x86_64/nvidia.ko" % KERNEL)
    assert status(node) == [("nvidia-current", KERNEL, "installed", ["diff", "original_exists"])]


def test_dkms_module_gone_from_the_kernel(node):
    build(node)
    os.unlink(os.path.join(node.root, "lib/modules", KERNEL, "updates/dkms/nvidia-current.ko.xz"))
    assert status(node) == [("nvidia-current", KERNEL, "installed", ["diff"])]


def test_dkms_built_file_gone(node):
    build(node)
    os.unlink(os.path.join(node.root, TREE, KERNEL, "x86_64/module/nvidia-current.ko.xz"))
    assert status(node) == [("nvidia-current", KERNEL, "installed", ["missing_built"])]


def test_dkms_added_broken_and_leftover(node):
    node("usr/src/gdrdrv-2.4/dkms.conf")
    for version in ("gdrdrv/2.4", "iser/24.10", "old/1.0"):
        os.makedirs(os.path.join(node.root, "var/lib/dkms", version))
    os.symlink(os.path.join(node.root, "usr/src/gdrdrv-2.4"), os.path.join(node.root, "var/lib/dkms/gdrdrv/2.4/source"))
    os.symlink("/nowhere/iser", os.path.join(node.root, "var/lib/dkms/iser/24.10/source"))
    assert status(node) == [("gdrdrv", None, "added", []), ("iser", None, "broken", [])]


def test_dkms_weak(node):
    build(node)
    other = os.path.join(node.root, "lib/modules/6.12.118+deb13-amd64/weak-updates")
    os.makedirs(other)
    os.symlink(os.path.join(node.root, "lib/modules", KERNEL, "updates/dkms/nvidia-current.ko.xz"),
               os.path.join(other, "nvidia-current.ko.xz"))
    rows = parse_dkms_status(capture.dkms_tree(node.root)).value
    assert [(row["kernel"], row["state"], row.get("built_for")) for row in rows] == [
        (KERNEL, "installed", None), ("6.12.118+deb13-amd64", "installed_weak", KERNEL)]


def test_dkms_relocated(node):
    node("etc/dkms/framework.conf", "# dkms_tree=/x\n")
    assert not capture.dkms_is_relocated(node.root)
    node("etc/dkms/framework.conf.d/a.conf", 'dkms_tree="/srv/dkms"\n')
    assert capture.dkms_is_relocated(node.root)


def test_no_dkms(node):
    assert capture.dkms_tree(node.root) == "" and not capture.dkms_is_relocated(node.root)


def test_module_files(node):
    for path in ("updates/dkms/nvidia-current.ko.xz", "kernel/drivers/video/nvidia.ko", "kernel/nvidia-535/nvidia-uvm.ko.zst",
                 "kernel/drivers/platform/x86/nvidia-wmi-ec-backlight.ko", "kernel/nouveau.ko", "updates/nvidia.ko.bak"):
        node("lib/modules/6.1/" + path)
    assert [path.rsplit("/", 1)[-1] for path in capture.module_files(node.root)] == [
        "nvidia.ko", "nvidia-uvm.ko.zst", "nvidia-current.ko.xz"]


def test_container_marks(node):
    with pytest.raises(FileNotFoundError):
        capture.container_marks(node.root)
    node("proc/1/environ", "PATH=/bin\0HOME=/\0")
    node("proc/1/cgroup", "0::/init.scope\n")
    assert capture.container_marks(node.root) == ""
    node("proc/1/environ", "container=lxc\0TERM=linux\0")
    assert capture.container_marks(node.root) == "environ container=lxc\n"
    node("run/systemd/container", "docker\n")
    node("proc/1/cgroup", "0::/docker/0123/init.scope\n")
    assert len(capture.container_marks(node.root).splitlines()) == 3


def test_apt_files(node):
    with pytest.raises(FileNotFoundError):
        capture.apt_sources(node.root)
    for name in ("a.pref", "b", "c.bak", "d.pref.dpkg-old"):
        node("etc/apt/preferences.d/" + name, "x\n")
    assert capture.apt_preferences(node.root).count("==>") == 2
    node("etc/apt/sources.list.d/x.sources", "Types: deb\n")
    assert capture.apt_sources(node.root) == "==> /etc/apt/sources.list.d/x.sources <==\nTypes: deb\n"


def test_locks(node):
    held = node("var/lib/dpkg/lock-frontend")
    node("var/lib/dpkg/lock")
    pid = os.fork()
    if pid == 0:
        with open(held, "wb") as handle:
            fcntl.lockf(handle, fcntl.LOCK_EX)
            node("ready")
            time.sleep(30)
        os._exit(0)
    try:
        while not os.path.exists(os.path.join(node.root, "ready")):
            time.sleep(0.01)
        report = capture.apt_locks(node.root).splitlines()
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    assert report[:3] == ["/var/lib/dpkg/lock-frontend: held by %d" % pid, "/var/lib/dpkg/lock: free",
                          "/var/lib/apt/lists/lock: absent"]


def test_pci(node):
    for address, vendor, kind, device in (("0000:17:00.0", "0x10de", "0x030200", "0x2330"), ("0000:00:02.0", "0x8086", "0x030000", "0x1")):
        for name, content in (("vendor", vendor), ("class", kind), ("device", device)):
            node("sys/bus/pci/devices/%s/%s" % (address, name), content + "\n")
    assert capture.pci_devices(node.root) == "0000:17:00.0 0302: 10de:2330\n"


def test_secure_boot(node):
    assert capture.secure_boot(node.root).startswith("EFI variables are not supported")
    path = capture._SECURE_BOOT.lstrip("/")
    for content, sentence in (("\6\0\0\0\1", "SecureBoot enabled\n"), ("\6\0\0\0\0", "SecureBoot disabled\n")):
        node(path, content)
        assert capture.secure_boot(node.root) == sentence
    node(path, "\6\0")
    with pytest.raises(OSError):
        capture.secure_boot(node.root)


def test_library_targets(node):
    node("usr/lib/x/libcuda.so.550.163.01")
    os.symlink("libcuda.so.550.163.01", os.path.join(node.root, "usr/lib/x/libcuda.so.1"))
    os.symlink("usr/lib", os.path.join(node.root, "lib"))
    listing = ("9 libs found\n\tlibc.so.6 (libc6,x86-64) => /lib/x/libc.so.6\n\tlibcuda.so.1 (libc6,x86-64) => /lib/x/libcuda.so.1\n"
               "\tlibnccl.so.2 (libc6,x86-64) => /lib/x/libnccl.so.2\n")
    assert capture.with_targets(listing, node.root) == (
        "\tlibcuda.so.1 (libc6,x86-64) => /usr/lib/x/libcuda.so.1 -> /usr/lib/x/libcuda.so.550.163.01\n"
        "\tlibnccl.so.2 (libc6,x86-64) => /usr/lib/x/libnccl.so.2\n")


def test_kernel_and_cuda_and_boot_lists(node):
    for path in ("boot/vmlinuz-6.1", "boot/initrd.img-6.1", "boot/grub/grub.cfg", "usr/src/h/Makefile", "usr/bin/nvcc",
                 "usr/local/cuda-12.4/bin/nvcc", "lib/modules/6.1/modules.dep"):
        node(path)
    os.symlink("../../../usr/src/h", os.path.join(node.root, "lib/modules/6.1/build"))
    os.symlink("cuda-12.4", os.path.join(node.root, "usr/local/cuda"))
    node("boot/config-6.1", "CONFIG_X=y\nCONFIG_DRM=m\n")
    node("boot/config-6.2", "CONFIG_X=y\n")
    assert capture.kernel_files(node.root) == "/boot/vmlinuz-6.1\n/boot/initrd.img-6.1\n/lib/modules/6.1/build/Makefile\n"
    assert capture.kernel_configs(node.root) == "/boot/config-6.1:CONFIG_DRM=m\n/boot/config-6.2:\n"
    assert capture.boot_loader_files(node.root) == "/boot/grub/grub.cfg\n"
    assert capture.cuda_paths(node.root) == "/usr/local/cuda-12.4/bin/nvcc\n/usr/bin/nvcc\n/usr/local/cuda -> /usr/local/cuda-12.4\n"
