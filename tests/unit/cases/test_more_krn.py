# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Made-up recordings of the kinds of the public reports about kernels, headers and boot loaders: broken nodes, and their healthy twins."""
from __future__ import annotations

import pytest

from .recorded import failed, judged

OLD, KERNEL, NEXT = "5.15.0-88-generic", "5.15.0-91-generic", "5.15.0-101-generic"
EL, EL_NEXT = "5.14.0-427.13.1.el9_4.x86_64", "5.14.0-427.26.1.el9_4.x86_64"
OWN = "cd3361a338fe47348de9937e51a7a4aa"
DF = "Filesystem      Size  Used Avail Use% Mounted on\n/dev/nvme0n1p2  488M  450M  2.0M 100% /boot\n"


def ubuntu(locked=KERNEL, running=KERNEL, **lock):
    return {"os": "ubuntu-22.04", "running_kernel": running, "lock": dict({"kernel": locked}, **lock)}


def rocky(locked=EL, running=EL):
    return {"os": "rocky-9.4", "running_kernel": running, "lock": {"kernel": locked}}


def image(*kernels):
    return "".join("linux-image-%s\t1\tii \n" % kernel for kernel in kernels)


def codes(record):
    return [row["code"] for row in record["findings"]]


def steps(record):
    return [(step["action"], step.get("target")) for step in record["plan"]]


def test_a_kernel_that_is_not_installed_cannot_become_the_default():
    record = judged(ubuntu(running=OLD), dpkg_list=image(OLD))
    assert steps(record) == [("install_exact", "linux-image-" + KERNEL), ("set_default_kernel", KERNEL), ("reboot_once", None)]
    assert "not installed" in record["findings"][-1]["message"] or "not installed" in record["findings"][0]["message"]
    record = judged(rocky(running=EL_NEXT), rpm_list="kernel-core-%s\n" % EL_NEXT)
    assert ("install_exact", "kernel-" + EL) in steps(record)


def test_a_kernel_that_has_an_entry_waits_for_a_reboot():
    record = judged(rocky(locked=EL_NEXT), machine_id=OWN, bls_entries="%s-%s.conf\n%s-%s.conf\n" % (OWN, EL_NEXT, OWN, EL))
    assert record["verdict"] == "drift" and set(codes(record)) == {"reboot_required", "running_kernel_not_locked"} and steps(record) == [("reboot_once", None)]


@pytest.mark.parametrize("text,rc,asks", [
    ("linux-image-5.15.0-91-generic\nlinux-base\n", 0, True), ("*** System restart required ***\n", 0, True), ("libc6\n", 0, False),
    ("Core libraries or services have been updated since boot-up:\n  * kernel-core\n\nReboot is required to fully utilize these updates.\n", 1, True)])
def test_what_asks_for_a_reboot(text, rc, asks):
    record = judged(ubuntu(), uname_r=KERNEL, reboot_marks=failed(text, rc))
    assert (codes(record), steps(record)) == ((["reboot_required"], [("reboot_once", None)]) if asks else ([], []))


@pytest.mark.parametrize("space", [
    DF, "Dateisystem    Gr\u00f6\u00dfe Benutzt Verf. Verw% Eingeh\u00e4ngt auf\n/dev/sda1       488M    450M  2,0M  100% /boot\n",
    "Filesystem     1K-blocks   Used Available Use% Mounted on\n/dev/mapper/a-very-long-name\n                  499656 460000      2048 100% /boot\n"])
def test_no_room_for_the_kernel_that_is_to_come(space):
    record = judged(ubuntu(running=OLD), dpkg_list=image(OLD), space=space)
    assert record["state"]["space"] == {"/boot": 2 << 20} and "boot_space_low" in codes(record) and record["verdict"] == "drift"
    # What is there needs no room.
    assert judged(ubuntu(), dpkg_list=image(KERNEL), space=space)["findings"] == []


@pytest.mark.parametrize("probe,text,subject,verdict", [
    ("apt_run", "update-initramfs: Generating /boot/initrd.img-5.15.0-101-generic\nError 24 : Write error : cannot write compressed block \n"
     "E: mkinitramfs failure lz4 -9 -l 24\n", "/boot", "broken"),
    ("apt_run", "cannot copy extracted data for './boot/vmlinuz-5' to '/boot/vmlinuz-5.dpkg-new': failed to write (No space left on device)\n", "/boot",
     "broken"),
    ("apt_run", "E: You don't have enough free space in /var/cache/apt/archives/.\n", "/var/cache/apt/archives", "blocked"),
    ("dnf_run", "Error: Transaction test error:\n  installing package kernel-core-%s needs 21MB more space on the /boot filesystem\n" % EL_NEXT, "/boot",
     "blocked")])
def test_a_run_that_found_no_room(probe, text, subject, verdict):
    record = judged(ubuntu(), **{probe: failed(text, 100)})
    (row,) = [row for row in record["findings"] if row["code"] == "boot_space_low"]
    assert (row["subject"].rstrip("/"), record["verdict"]) == (subject, verdict)


@pytest.mark.parametrize("listing", [
    "lrwxrwxrwx 1 root root 40 Nov 14 2023 /lib/modules/{0}/build -> /usr/src/linux-headers-{0}\n"
    "ls: cannot access '/usr/src/linux-headers-{0}': No such file or directory\n", "ls: cannot access '/lib/modules/{0}/build': No such file or directory\n"])
def test_a_link_to_headers_that_leads_nowhere(listing):
    record = judged(ubuntu(driver="535.129.03"), dkms_status="nvidia/535.129.03: added\n", kernel_files=failed(listing.format(KERNEL), 2))
    assert {"headers_missing", "dkms_not_built_for_kernel"} <= set(codes(record))
    assert steps(record)[0] == ("install_exact", "linux-headers-" + KERNEL)


def test_modules_that_modprobe_does_not_find():
    text = "modprobe: FATAL: Module %s not found in directory /lib/modules/5.15.0-91-generic\n"
    record = judged(ubuntu(driver="535.129.03"), modprobe_run=failed(text % "ipmi_devintf"))
    assert [(row["code"], row["subject"]) for row in record["findings"]] == [("kernel_module_missing", "ipmi_devintf@" + KERNEL)]
    assert steps(record) == [("install_exact", "linux-modules-extra-" + KERNEL)]
    packages = image(KERNEL) + "linux-modules-nvidia-535-server-%s\t1\tii \nnvidia-utils-535-server\t535.129.03-0ubuntu1\tii \n" % OLD
    record = judged(ubuntu(driver="535.129.03"), modprobe_run=failed(text % "nvidia"), dpkg_list=packages)
    assert ("install_exact", "linux-modules-nvidia-535-server-" + KERNEL) in steps(record)
    record = judged(ubuntu(driver="535.129.03"), modinfo=failed("modinfo: ERROR: Module nvidia not found.\n"))
    assert codes(record) == ["kernel_module_missing"] and record["state"]["unknown"] == []


@pytest.mark.parametrize("config,low", [("installonly_limit=2\n", True), ("5:installonly_limit=2\n", True), ("/etc/dnf/dnf.conf:5:installonly_limit=2\n", True),
                                        ("[main]\ninstallonly_limit=0\n", False), ("[main]\ninstallonly_limit=3\n", False)])
def test_how_many_kernels_dnf_keeps(config, low):
    assert codes(judged(rocky(), uname_r=EL, dnf_config=config)) == (["installonly_limit_too_low"] if low else [])


MENU = "\n".join((
    "set default=\"%s\"",
    "menuentry 'Ubuntu' $menuentry_id_option 'gnulinux-simple-1' {",
    "\tlinux\t/vmlinuz-5.15.0-101-generic root=UUID=1 ro",
    "}",
    "submenu 'Advanced options for Ubuntu' $menuentry_id_option 'gnulinux-advanced-1' {",
    "\tmenuentry 'Ubuntu, with Linux 5.15.0-101-generic' $menuentry_id_option 'gnulinux-5.15.0-101-generic-advanced-1' {",
    "\t\tlinux\t/vmlinuz-5.15.0-101-generic root=UUID=1 ro",
    "\t}",
    "\tmenuentry 'Ubuntu, with Linux 5.15.0-91-generic' $menuentry_id_option 'gnulinux-5.15.0-91-generic-advanced-1' {",
    "\t\tlinux\t/vmlinuz-5.15.0-91-generic root=UUID=1 ro",
    "\t}",
    "}", ""))
ENTRY = "gnulinux-advanced-1>gnulinux-5.15.0-91-generic-advanced-1"


@pytest.mark.parametrize("default,setting,environment,found", [
    ("0", "0", "", {"next_boot_kernel_not_locked"}), ("1>2", "'1>2'", "", {"next_boot_kernel_not_locked"}), (ENTRY, "'%s'" % ENTRY, "", set()),
    ("${saved_entry}", "saved", "saved_entry=%s\n" % ENTRY, set()),
    # The menu was made before the setting, an entry is below a submenu, a trial boot waits.
    ("0", "saved", "saved_entry=%s\n" % ENTRY, {"next_boot_kernel_not_locked", "grub_default_not_saved"}),
    ("${saved_entry}", "saved", "saved_entry=gnulinux-5.15.0-91-generic-advanced-1\n", {"next_boot_kernel_not_locked"}),
    ("${saved_entry}", "saved", "saved_entry=%s\nnext_entry=0\n" % ENTRY, {"next_boot_kernel_not_locked"})])
def test_what_grub_takes_next(default, setting, environment, found):
    record = judged(ubuntu(), grub_cfg=MENU % default, grub_default="GRUB_DEFAULT=%s\n" % setting, grubenv="# GRUB Environment Block\n" + environment)
    assert set(codes(record)) - {"unlocked_kernel_installed"} == found
    assert steps(record) == ([("set_default_kernel", KERNEL)] if found else [])


OLD_HEADERS = ("linux-image-5.15.0-113-generic\t5.15.0-113.123\tii \nlinux-headers-5.15.0-113-generic\t5.15.0-113.123\tii \n"
               "linux-image-5.15.0-118-generic\t5.15.0-118.128\tii \n")


@pytest.mark.parametrize("more,codes", [
    ({"dkms_status": "nvidia/535.183.01, 5.15.0-113-generic, x86_64: installed\n"}, ["dkms_not_built_for_kernel", "headers_missing"]),
    # A held package that the list does not have says that the list is a part.
    ({"dkms_status": "nvidia/535.183.01, 5.15.0-118-generic, x86_64: installed\n", "apt_holds": "linux-headers-5.15.0-118-generic\n"}, []),
    ({"dpkg_list": OLD_HEADERS + "linux-modules-nvidia-535-5.15.0-118-generic\t5.15.0-118.128\tii \n"}, [])])
def test_only_the_older_kernels_headers_are_installed(more, codes):
    kernel = "5.15.0-118-generic"
    record = judged({"os": "ubuntu-22.04", "running_kernel": kernel, "lock": {"kernel": kernel, "driver": "535.183.01"}},
                    **dict({"uname_r": kernel + "\n", "dpkg_list": OLD_HEADERS}, **more))
    assert [row["code"] for row in record["findings"]] == codes
    assert [step["target"] for step in record["plan"]] == (["linux-headers-" + kernel, "nvidia/535.183.01"] if codes else [])
