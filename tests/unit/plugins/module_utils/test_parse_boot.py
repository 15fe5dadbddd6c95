# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB: which kernel boots next."""

from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_boot

# As grub-mkconfig of Debian 13 writes it for two kernels, shortened to what matters.
CFG = """set timeout=5
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
fi
menuentry 'Debian GNU/Linux' --class debian --class gnu-linux --class os $menuentry_id_option 'gnulinux-simple-abc' {
\tload_video
\tif [ x$grub_platform = xxen ]; then insmod xzio; fi
\tlinux\t/boot/vmlinuz-6.12.117+deb13-amd64 root=UUID=abc ro  quiet
\tinitrd\t/boot/initrd.img-6.12.117+deb13-amd64
}
submenu 'Advanced options for Debian GNU/Linux' $menuentry_id_option 'gnulinux-advanced-abc' {
\tmenuentry 'Debian GNU/Linux, with Linux 6.12.117+deb13-amd64' --class debian $menuentry_id_option 'gnulinux-6.12.117+deb13-amd64-advanced-abc' {
\t\tlinux\t/boot/vmlinuz-6.12.117+deb13-amd64 root=UUID=abc ro  quiet
\t}
\tmenuentry 'Debian GNU/Linux, with Linux 6.12.107+deb13-amd64' --class debian $menuentry_id_option 'gnulinux-6.12.107+deb13-amd64-advanced-abc' {
\t\tlinux\t/boot/vmlinuz-6.12.107+deb13-amd64 root=UUID=abc ro  quiet
\t}
}
menuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {
\tfwsetup
}
"""
NEW, OLD = "6.12.117+deb13-amd64", "6.12.107+deb13-amd64"
OLD_PATH = "gnulinux-advanced-abc>gnulinux-%s-advanced-abc" % OLD


def test_menu():
    entries, problems = parse_boot.parse_grub_menu(CFG)
    assert [(item["number"], item["kernel"]) for item in entries] == [
        ("0", NEW), ("1", None), ("1>0", NEW), ("1>1", OLD), ("2", None)]
    assert entries[3]["title"] == "Debian GNU/Linux, with Linux " + OLD and problems == []


@pytest.mark.parametrize("setting,environment,expected", [
    ("0", {}, NEW), ("", {}, NEW), ("1>1", {}, OLD), ("1", {}, NEW), (OLD_PATH, {}, OLD),
    ("Advanced options for Debian GNU/Linux>Debian GNU/Linux, with Linux " + OLD, {}, OLD),
    (None, {}, NEW), ("${saved_entry}", {}, NEW), ("${saved_entry}", {"saved_entry": OLD_PATH}, OLD), ("${mine}", {}, None),
    ("0", {"saved_entry": OLD_PATH}, NEW),
    ("0", {"next_entry": "1>1"}, OLD), ("gone", {}, NEW), ("2", {}, None), ("${saved_entry}", None, None)])
def test_default_kernel(setting, environment, expected):
    kernel, reason = parse_boot.default_kernel(parse_boot.parse_grub_menu(CFG).value, setting, environment)
    assert kernel == expected and (reason is None) == (expected is not None)


def test_no_entries():
    assert parse_boot.default_kernel(None, "0", {})[0] is None


@pytest.mark.parametrize("text", ["", "menuentry 'open {\n", "menuentry {\n", "menuentry 'a' --id {\n", "\ufffd"])
def test_malformed_menu(text):
    parsed = parse_boot.parse_grub_menu(text)
    assert parsed.value is None and len(parsed.problems) == 1


def test_settings():
    text = """==> /etc/default/grub <==
# comment
GRUB_DEFAULT=0
GRUB_DISTRIBUTOR=`( . /etc/os-release && echo ${NAME} )`
GRUB_CMDLINE_LINUX_DEFAULT="quiet iommu=pt"
GRUB_BROKEN="open

==> /etc/default/grub.d/50.cfg <==
export GRUB_DEFAULT=saved # set here
"""
    value, problems = parse_boot.parse_default_grub(text)
    assert value == {"GRUB_DEFAULT": "saved", "GRUB_DISTRIBUTOR": None, "GRUB_CMDLINE_LINUX_DEFAULT": "quiet iommu=pt",
                     "GRUB_BROKEN": None}
    assert len(problems) == 1 and "/etc/default/grub" in problems[0]


def test_environment():
    block = "# GRUB Environment Block\n# WARNING: Do not edit\nsaved_entry=1>1\nnext_entry=\n" + "#" * 900
    assert parse_boot.parse_grubenv(block).value == {"saved_entry": "1>1", "next_entry": ""}
    assert parse_boot.parse_grubenv("torn").value is None
    assert parse_boot.parse_grubenv("\0" * 1024).value is None


MOUNTS = ("/dev/mapper/vg-root / ext4 rw 0 0\n/dev/sda2 /boot ext4 rw 0 0\n/dev/sdb1 /mnt/with\\040blank xfs rw 0 0\n"
          "short\n/dev/md0 /srv ext4 rw 0 0\n")


@pytest.mark.parametrize("path,expected,writable", [
    ("/boot/grub/grubenv", ("/dev/sda2", "ext4"), True), ("/bootstrap", ("/dev/mapper/vg-root", "ext4"), False),
    ("/mnt/with blank/x", ("/dev/sdb1", "xfs"), True), ("/srv/x", ("/dev/md0", "ext4"), False)])
def test_mounts(path, expected, writable):
    assert parse_boot.mount_of(MOUNTS, path) == expected
    assert parse_boot.environment_writable(expected) is writable


@pytest.mark.parametrize("mount,writable", [
    (None, None), (("/dev/mapper/mpatha-part2", "ext4"), True), (("/dev/mapper/mpatha-part2", "btrfs"), False),
    (("/dev/mapper/vg-mpath", "ext4"), False), (("/dev/cciss/c0d0p1", "ext4"), True), (("/dev/sda1", "btrfs"), False),
    (("rpool/boot", "zfs"), False), (("overlay", "overlay"), False),
    (("/dev/vg/root", "ext4"), False), (("/dev/dm-0", "ext4"), False), (("host", "9p"), None), (("/dev/nvme0n1p2", "vfat"), True)])
def test_writable(mount, writable):
    assert parse_boot.environment_writable(mount) is writable


def test_unknown_mount():
    assert parse_boot.mount_of("", "/boot") is None


# As Debian 13's grub-mkconfig writes it on a machine with UEFI: an entry inside of two conditions; then one by hand.
UEFI = CFG[:CFG.index("menuentry 'UEFI")] + """if [ "$grub_platform" = "efi" ]; then
\tfwsetup --is-supported
\tif [ "$?" = 0 ]; then
\t\tmenuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {
\t\t\tfwsetup
\t\t}
\tfi
fi
function gfxmode {
\tset gfxpayload="${1}"
}
menuentry "My kernel" {
  function hello {
  echo hello
  }
  linux /boot/vmlinuz-6.1.0-50-amd64 root=/dev/sda1
  }
menuentry "Last" {
}
"""


def test_an_entry_ends_with_its_own_brace():
    entries = parse_boot.parse_grub_menu(UEFI).value
    assert [(item["number"], item["title"], item["kernel"]) for item in entries[4:]] == [
        ("2", "UEFI Firmware Settings", None), ("3", "My kernel", "6.1.0-50-amd64"), ("4", "Last", None)]


@pytest.mark.parametrize("text", ["menuentry 'x' {\n" * 9000, "menuentry 'x' {\n}\n" * 9000])
def test_a_menu_without_end_is_refused(text):
    parsed = parse_boot.parse_grub_menu(text)
    assert parsed.value is None and "more than" in parsed.problems[0]


def test_settings_of_no_file():
    assert parse_boot.parse_default_grub("DEFAULT=saved\n").value is None


@pytest.mark.parametrize("text", ["# a comment\nGRUB_DEFAULT=saved\nGRUB_TIMEOUT=0\n",
                                  "/etc/default/grub:GRUB_DEFAULT=0\n/etc/default/grub.d/50-cloud.cfg:6:GRUB_DEFAULT=saved\n"])
def test_settings_as_cat_and_grep_print_them(text):
    value, problems = parse_boot.parse_default_grub(text)
    assert value["GRUB_DEFAULT"] == "saved" and not problems


@pytest.mark.parametrize("text,expected", [("saved_entry=0\nkernelopts=root=/dev/sda1 ro\nboot_success=0\n",
                                            {"saved_entry": "0", "kernelopts": "root=/dev/sda1 ro", "boot_success": "0"}), ("", {})])
def test_environment_as_grub_editenv_lists_it(text, expected):
    assert parse_boot.parse_grubenv(text) == (expected, [])
    assert parse_boot.parse_default_grub("").value == {}


LISTED = """menuentry 'Ubuntu' --class ubuntu $menuentry_id_option 'gnulinux-simple-ab' {
submenu 'Advanced options for Ubuntu' $menuentry_id_option 'gnulinux-advanced-ab' {
\tmenuentry 'Ubuntu, with Linux 5.15.0-101-generic' --class ubuntu $menuentry_id_option 'gnulinux-5.15.0-101-generic-advanced-ab' {
\tmenuentry 'Ubuntu, with Linux 5.15.0-91-generic' --class ubuntu $menuentry_id_option 'gnulinux-5.15.0-91-generic-advanced-ab' {
menuentry 'UEFI Firmware Settings' $menuentry_id_option 'uefi-firmware' {
"""


@pytest.mark.parametrize("numbers", [False, True])
def test_the_lines_that_grep_finds(numbers):
    text = "".join("%s%s" % ("%d:" % number if numbers else "", line) for number, line in enumerate(LISTED.splitlines(True), 100))
    entries, problems = parse_boot.parse_grub_menu(text)
    assert problems == [] and [(item["number"], item["kernel"]) for item in entries] == [
        ("0", "5.15.0-101-generic"), ("1", None), ("1>0", "5.15.0-101-generic"), ("1>1", "5.15.0-91-generic"), ("2", None)]


@pytest.mark.parametrize("text,expected", [
    ("linux-image-6.8.0-1-generic\nlinux-base\n", ["linux-base", "linux-image-6.8.0-1-generic"]), ("*** System restart required ***\n", []),
    ("No core libraries or services have been updated since boot-up.\nReboot should not be necessary.\n", None),
    ("Core libraries or services have been updated since boot-up:\n  * kernel\n\nReboot is required to fully utilize these updates.\n", ["kernel"])])
def test_who_asks_for_a_reboot(text, expected):
    assert parse_boot.parse_reboot_marks(text) == (expected, [])


@pytest.mark.parametrize("text,expected", [
    ("# x\nUPDATEDEFAULT=yes\nDEFAULTKERNEL=kernel-core\n", True), ("UPDATEDEFAULT=\"no\"\n", False), ("DEFAULTKERNEL=kernel\n", None)])
def test_whether_new_kernels_become_the_default(text, expected):
    assert parse_boot.parse_sysconfig_kernel(text) == (expected, [])


@pytest.mark.parametrize("text,expected", [
    ("error: diskfilter writes are not supported.\nPress any key to continue...\n", "diskfilter writes are not supported"),
    ("grub-editenv: error: environment block too small.\n", "environment block too small"), ("Sourcing file `/etc/default/grub'\ndone\n", None)])
def test_what_grub_could_not_write(text, expected):
    assert parse_boot.parse_grub_run(text) == (expected, [])
