# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The parts of tools/vm.py and tools/vm_image.py that need no machine."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "tools"))
import vm  # noqa: E402
import vm_image  # noqa: E402

MADISON = """\
linux-image-6.1.0-47-cloud-amd64 | 6.1.170-3 | http://archive.invalid bookworm/main amd64 Packages
linux-headers-6.1.0-47-cloud-amd64 | 6.1.170-3 | http://archive.invalid bookworm/main amd64 Packages
linux-image-6.1.0-9-cloud-amd64 | 6.1.27-1 | http://archive.invalid bookworm/main amd64 Packages
linux-headers-6.1.0-9-cloud-amd64 | 6.1.27-1 | http://archive.invalid bookworm/main amd64 Packages
linux-image-6.1.0-49-cloud-amd64 | 6.1.174-1 | http://archive.invalid bookworm-security/main amd64 Packages
linux-image-6.1.0-50-amd64 | 6.1.176-1 | http://archive.invalid bookworm/main amd64 Packages
linux-image-6.1.0-50-amd64 | 6.1.176-1 | http://archive.invalid bookworm-security/main amd64 Packages
linux-headers-6.1.0-50-amd64 | 6.1.176-1 | http://archive.invalid bookworm/main amd64 Packages
linux-image-6.1.0-50-amd64-dbg | 6.1.176-1 | http://archive.invalid bookworm/main amd64 Packages
"""
AMONG = r"6\.1\.0-\d+-(cloud-)?amd64"


def releases(*wanted):
    return [row["release"] for row in vm_image.choose(list(wanted), AMONG, vm_image.offered(MADISON))]


def test_wanted_kernels_are_taken():
    chosen = vm_image.choose(["6.1.0-9-cloud-amd64", "6.1.0-50-amd64"], AMONG, vm_image.offered(MADISON))
    assert chosen == [{"release": "6.1.0-9-cloud-amd64", "package_version": "6.1.27-1"}, {"release": "6.1.0-50-amd64", "package_version": "6.1.176-1"}]


def test_without_one_of_them_the_newest_two_with_headers():
    assert releases("6.1.0-40-cloud-amd64", "6.1.0-50-amd64") == ["6.1.0-47-cloud-amd64", "6.1.0-50-amd64"]
    assert releases("6.1.0-49-cloud-amd64", "6.1.0-50-amd64") == ["6.1.0-47-cloud-amd64", "6.1.0-50-amd64"]


def test_no_two_kernels_are_an_error():
    with pytest.raises(vm.VmError, match="no two kernels"):
        vm_image.choose(["a", "b"], r"6\.1\.0-50-amd64", vm_image.offered(MADISON))


def test_a_disk_has_one_partition_that_starts_behind_grub(tmp_path, monkeypatch):
    """Its files as debugfs reads them."""
    if any(not pathlib.Path(path).exists() for path in ("/usr/bin/qemu-img", "/usr/bin/grub-mkimage", "/usr/sbin/mke2fs", vm_image.GRUB / "boot.img")):
        pytest.skip("the tools for disks are not installed")
    monkeypatch.setattr(vm_image, "SIZE", 64 * 2**20)
    (tmp_path / "root/boot").mkdir(parents=True)
    (tmp_path / "root/boot/hello").write_text("hello\n", encoding="utf-8")
    vm_image.disk(tmp_path / "root", tmp_path, "0f2a9c1e-1111-4222-8333-444455556666", tmp_path / "disk.qcow2")
    raw = tmp_path / "again.raw"
    subprocess.run(["qemu-img", "convert", "-O", "raw", tmp_path / "disk.qcow2", raw], check=True)
    sector = raw.read_bytes()[:512]
    # A DOS partition table: active, type 83, sector 2048 to the end; three empty entries, the signature.
    assert sector[446] == 0x80 and sector[450] == 0x83 and sector[462:510] == bytes(48) and sector[510:] == b"\x55\xaa"
    assert int.from_bytes(sector[454:458], "little") == 2048 and int.from_bytes(sector[458:462], "little") == 131072 - 2048
    with raw.open("rb") as handle:
        handle.seek(vm_image.START)
        (tmp_path / "part").write_bytes(handle.read())
    assert subprocess.run(["/usr/sbin/debugfs", "-R", "cat /boot/hello", tmp_path / "part"], check=True, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL, text=True).stdout == "hello\n"


def test_only_names_of_disposable_machines(tmp_path):
    with pytest.raises(vm.VmError, match="lockstep-vm-"):
        vm.Machine("lockstep-debian12", tmp_path)


def test_a_process_that_has_the_number_now_is_not_the_machine(tmp_path):
    machine = vm.Machine("lockstep-vm-x", tmp_path)
    assert machine.pid() is None
    (tmp_path / "qemu.pid").write_text("%d\n" % os.getpid(), encoding="ascii")
    assert machine.pid() is None
    machine.cut()
    assert machine.folder == tmp_path and os.getpid()
