# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Boot Loader Specification entries, in every form that people record, and which one GRUB takes."""

from __future__ import annotations

import itertools

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_bls
from hypothesis import given
from hypothesis import strategies as st

OWN, OTHER = "cd3361a338fe47348de9937e51a7a4aa", "104a42359fae41b687caac066397aec2"
OLD, NEW, FOREIGN = "5.14.0-284.11.1.el9_2.x86_64", "5.14.0-284.30.1.el9_2.x86_64", "5.14.0-162.22.2.el9_1.x86_64"
NAMES = ["%s-0-rescue" % OTHER, "%s-%s" % (OTHER, FOREIGN), "%s-0-rescue" % OWN, "%s-%s" % (OWN, OLD), "%s-%s" % (OWN, NEW)]
# In this order since blscfg compares ids as rpm does: digits are higher than letters there.
MENU = [NAMES[1], NAMES[0], NAMES[4], NAMES[3], NAMES[2]]
LONG = "total 20\n" + "".join("-rw-r--r--. 1 root root 449 Mar 31  2023 %s.conf\n" % name for name in NAMES)
PLAIN = "".join("/boot/loader/entries/%s.conf\n" % name for name in NAMES)
BARE = "/boot/loader/entries:\ntotal 20\n" + "".join("%s.conf\n" % name for name in NAMES)


def entry(ident, kernel="6.1.0-1-amd64", title=None):
    return {"id": ident, "title": title, "kernel": kernel, "machine_id": None, "rescue": False}


@pytest.mark.parametrize("text", [LONG, PLAIN, BARE], ids=["ls -l", "paths", "ls"])
def test_a_listing_of_the_folder(text):
    entries, problems = parse_bls.parse_bls_entries(text)
    assert problems == [] and [one["id"] for one in entries] == NAMES
    assert [(one["kernel"], one["machine_id"], one["rescue"]) for one in entries] == [
        (None, OTHER, True), (FOREIGN, OTHER, False), (None, OWN, True), (OLD, OWN, False), (NEW, OWN, False)]


def test_files():
    text = ("==> /boot/loader/entries/%s-%s.conf <==\ntitle Rocky Linux (%s) 9.2 (Blue Onyx)\nversion %s\nlinux /boot/vmlinuz-%s\n"
            "initrd /boot/initramfs-%s.img $tuned_initrd\noptions root=UUID=1 ro $tuned_params\ngrub_users $grub_users\n"
            "\n==> /efi/loader/entries/7d0f-mine+3-1.conf <==\ntitle Mine\nmachine-id %s\nlinux /7d0f/6.12.9-amd64/linux\n" % (
                OWN, NEW, NEW, NEW, NEW, NEW, OWN))
    entries, problems = parse_bls.parse_bls_entries(text)
    assert problems == []
    assert entries[0] == {"id": "%s-%s" % (OWN, NEW), "title": "Rocky Linux (%s) 9.2 (Blue Onyx)" % NEW, "kernel": NEW, "machine_id": OWN, "rescue": False}
    assert entries[1]["kernel"] == "6.12.9-amd64" and entries[1]["machine_id"] == OWN


def test_a_folder_without_entries():
    assert parse_bls.parse_bls_entries("total 0\n") == (None, ["no boot entry"])
    assert parse_bls.parse_bls_entries("what is this\n").value is None


BOOTCTL = """         type: Boot Loader Specification Type #1 (.conf)
        title: Debian GNU/Linux 12 (bookworm) (6.1.0-18-amd64)
           id: %s-6.1.0-18-amd64.conf
       source: /boot/efi//loader/entries/%s-6.1.0-18-amd64.conf
      version: 6.1.0-18-amd64
        linux: /boot/efi//%s/6.1.0-18-amd64/linux

         type: Boot Loader Specification Type #1 (.conf)
        title: Debian GNU/Linux 12 (bookworm) (6.1.0-13-amd64) (default) (selected)
           id: %s-6.1.0-13-amd64.conf
      version: 6.1.0-13-amd64

         type: Automatic
        title: Reboot Into Firmware Interface
           id: auto-reboot-to-firmware-setup
""" % (OWN, OWN, OWN, OWN)


def test_bootctl():
    entries, problems = parse_bls.parse_bls_entries(BOOTCTL)
    assert problems == [] and [(one["kernel"], one.get("default")) for one in entries] == [
        ("6.1.0-18-amd64", None), ("6.1.0-13-amd64", True), (None, None)]
    assert entries[1]["title"] == "Debian GNU/Linux 12 (bookworm) (6.1.0-13-amd64)"


GRUBBY = """index=0
kernel="/boot/vmlinuz-%s"
args="ro crashkernel=1G-4G:192M rhgb quiet $tuned_params"
root="UUID=2"
initrd="/boot/initramfs-%s.img $tuned_initrd"
title="Rocky Linux"
id="%s-%s"
index=1
kernel="/boot/vmlinuz-0-rescue-%s"
id="%s-0-rescue"
non linux entry
boot=/dev/sda
""" % (NEW, NEW, OWN, NEW, OWN, OWN)


def test_grubby():
    entries, problems = parse_bls.parse_grubby_info(GRUBBY)
    assert problems == [] and [(one["kernel"], one["rescue"], one["machine_id"]) for one in entries] == [(NEW, False, OWN), (None, True, OWN)]
    assert parse_bls.parse_default_path("/boot/vmlinuz-%s\n" % NEW) == (NEW, [])
    assert parse_bls.parse_default_path("/boot/vmlinuz-0-rescue-%s\n" % OWN) == (None, [])
    assert parse_bls.parse_default_path("The param is wrong\n") == (None, ["no kernel image is named"])
    assert parse_bls.parse_default_path("") == (None, [])


def test_the_order_of_blscfg():
    for mixed in itertools.permutations(parse_bls.parse_bls_entries(PLAIN).value):
        assert [one["id"] for one in parse_bls.in_menu_order(mixed)] == MENU


@given(st.lists(st.text(alphabet="0123456789abcdef-._", min_size=1, max_size=20), max_size=5))
def test_any_ids_have_an_order(names):
    assert len(parse_bls.in_menu_order([entry(name) for name in names])) == len(names)


@pytest.mark.parametrize("environment,place,named", [
    ({}, 0, True), ({"saved_entry": MENU[2]}, 2, True), ({"saved_entry": "3"}, 3, True), ({"saved_entry": "gone"}, 0, False),
    ({"saved_entry": MENU[3], "next_entry": MENU[2]}, 2, True)])
def test_what_grub_takes(environment, place, named):
    entries = parse_bls.in_menu_order(parse_bls.parse_bls_entries(PLAIN).value)
    assert parse_bls.chosen(entries, environment) == (entries[place], named)


@pytest.mark.parametrize("text,expected", [
    ("timeout 3\ndefault *-6.1.0-13-amd64\n", "*-6.1.0-13-amd64"), ("default @saved\n", None), ("#default x\n", None), ("", None)])
def test_loader_conf(text, expected):
    assert parse_bls.parse_loader_default(text) == (expected, [])


@pytest.mark.parametrize("pattern,expected", [("a*", ["a-1", "a-2"]), ("a-1.conf", ["a-1"]), (None, []), ("*" * 50, [])])
def test_patterns_of_loader_conf(pattern, expected):
    assert [one["id"] for one in parse_bls.matching([entry("a-1"), entry("a-2"), entry("b-1")], pattern)] == expected


@pytest.mark.parametrize("text,expected", [(OWN + "\n", OWN), ("uninitialized\n", None), ("f" * 31, "f" * 31)])
def test_machine_id(text, expected):
    assert parse_bls.parse_machine_id(text).value == expected
