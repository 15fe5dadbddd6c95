# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernels are installed, and which boots next where no menu is known."""
from __future__ import annotations

import itertools

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import installed_kernels, next_boot
from hypothesis import given
from hypothesis import strategies as st

OLD, NEW, NEWEST = "5.15.0-91-generic", "5.15.0-101-generic", "6.8.0-40-generic"


def package(status="installed"):
    return {"version": "1", "status": status}


def state(*kernels, **boot):
    packages = {"linux-image-%s" % name: package() for name in kernels}
    return {"packages": packages, "package_manager": {"kind": "apt"}, "boot": boot, "not_recorded": ["grub_cfg", "boot_files"]}


def settings(**words):
    return {"GRUB_%s" % key: value for key, value in words.items()}


@pytest.mark.parametrize("kernels,expected", [
    ([OLD, NEW], [NEW, OLD]),
    (["4.15.0-45-generic", "4.15.0-041500-generic", "4.15.0-20-generic"], ["4.15.0-041500-generic", "4.15.0-45-generic", "4.15.0-20-generic"]),
    (["6.12.107+deb13-amd64", "6.12.117+deb13-amd64", "6.1.0-50-amd64"], ["6.12.117+deb13-amd64", "6.12.107+deb13-amd64", "6.1.0-50-amd64"]),
    (["6.9.0-rc1", "6.9.0", "6.8.12"], ["6.9.0", "6.9.0-rc1", "6.8.12"]),
    (["6.12.9+deb13-amd64", "6.12.9+deb13-cloud-amd64"], ["6.12.9+deb13-cloud-amd64", "6.12.9+deb13-amd64"])])
def test_the_order_of_the_menu(kernels, expected):
    for mixed in itertools.permutations(kernels):
        assert installed_kernels.newest_first(mixed) == expected


def test_flavours_of_ubuntu_come_first():
    kernels = ["6.8.0-1029-aws", "6.8.0-59-generic", "6.8.0-59-generic-64k", "6.8.0-60-lowlatency"]
    assert installed_kernels.newest_first(kernels, "generic-64k lowlatency")[:2] == ["6.8.0-59-generic-64k", "6.8.0-60-lowlatency"]
    assert installed_kernels.newest_first(kernels, "generic")[0] == "6.8.0-59-generic"


@given(st.lists(st.text(alphabet="0123456789.-+~_rcgit", min_size=1, max_size=12), max_size=6))
def test_the_order_does_not_depend_on_the_order_of_reading(names):
    assert installed_kernels.newest_first(names) == installed_kernels.newest_first(reversed(names))


def test_kernels_of_packages():
    packages = {"linux-image-" + OLD: package(), "linux-image-unsigned-" + NEW: package("half-configured"), "linux-image-generic": package(),
                "linux-image-6.1.0-50-amd64-dbg": package(), "linux-image-6.7-686:i386": package(), "linux-headers-" + NEWEST: package()}
    assert [row["release"] for row in installed_kernels.listed({"packages": packages})] == [OLD]
    files = [{"release": NEW, "image": True}]
    assert installed_kernels.listed({"packages": packages, "kernel": {"installed": files}}) == files
    assert installed_kernels.listed({}) == []


@pytest.mark.parametrize("boot,expected", [
    ({}, NEWEST),
    ({"grub_settings": settings(DEFAULT="0", TIMEOUT="0")}, NEWEST),
    ({"grub_settings": settings(DEFAULT="1")}, NEWEST),
    ({"grub_settings": settings(DEFAULT="1>0")}, NEWEST),
    ({"grub_settings": settings(DEFAULT="1>2")}, NEW),
    ({"grub_settings": settings(DEFAULT="1>1", DISABLE_RECOVERY="true")}, NEW),
    ({"grub_settings": settings(DEFAULT="2", DISABLE_SUBMENU="y")}, NEW),
    ({"grub_settings": settings(DEFAULT="2")}, None),
    ({"grub_settings": settings(DEFAULT="1>20")}, None),
    ({"grub_settings": settings(DEFAULT=None)}, None),
    ({"grub_settings": settings(FLAVOUR_ORDER=None)}, None),
    ({"grub_settings": settings(DEFAULT="mine")}, None),
    ({"grub_settings": settings(DEFAULT="Advanced options for Ubuntu>Ubuntu, with Linux " + OLD)}, OLD),
    ({"grub_settings": settings(DEFAULT="Ubuntu, with Linux 5.4.0-1-generic")}, NEWEST),
    ({"grub_settings": settings(DEFAULT="gnulinux-advanced-ab12>gnulinux-%s-advanced-ab12" % OLD)}, OLD),
    ({"grub_settings": settings(DEFAULT="gnulinux-simple-ab12")}, NEWEST),
    ({"grub_settings": settings(DEFAULT="saved")}, None),
    ({"grub_settings": settings(DEFAULT="saved"), "environment": {}}, NEWEST),
    ({"grub_settings": settings(DEFAULT="saved"), "environment": {"saved_entry": "1>4"}, "saved_entry": "1>4"}, OLD),
    ({"grub_settings": settings(DEFAULT="0"), "environment": {}, "next_entry": "1>4"}, OLD),
    ({"default_kernel": OLD, "grub_settings": settings(DEFAULT="0")}, OLD),
    ({"loader": "systemd-boot"}, None),
    ({"entries": [{"id": "x"}]}, None)])
def test_the_next_boot(boot, expected):
    assert next_boot.next_kernel(state(OLD, NEW, NEWEST, **boot)) == expected


def test_nothing_is_guessed():
    assert next_boot.next_kernel({}) is None
    assert next_boot.next_kernel(state()) is None
    assert next_boot.next_kernel(dict(state(OLD), container=True)) is None
    assert next_boot.next_kernel(dict(state(OLD), not_recorded=[])) is None


EL_OLD, EL_NEW, EL_64K = "5.14.0-70.13.1.el9_0.x86_64", "5.14.0-427.13.1.el9_4.x86_64", "5.14.0-503.11.1.el9_5.aarch64+64k"


def rpm_state(*kernels, **more):
    rows = [{"release": name, "image": True} for name in kernels]
    return dict({"kernel": {"installed": rows, "running": EL_OLD}, "package_manager": {"kind": "dnf"}, "boot": {}, "not_recorded": ["grub_cfg"]}, **more)


def test_rpm_systems_boot_the_newest_kernel_of_the_variant_that_runs():
    assert next_boot.next_kernel(rpm_state(EL_OLD, EL_NEW, EL_64K)) == EL_NEW
    assert next_boot.next_kernel(rpm_state(EL_OLD, EL_NEW, new_kernel_default=False)) is None
    saved = {"saved_entry": "0123456789abcdef0123456789abcdef-" + EL_OLD}
    assert next_boot.next_kernel(rpm_state(EL_OLD, EL_NEW, boot=dict(saved, environment=saved))) == EL_OLD
    assert next_boot.next_kernel(rpm_state(EL_OLD, EL_NEW, boot=dict(saved, grub_settings={"GRUB_DEFAULT": "0"}))) == EL_NEW
    assert next_boot.next_kernel(rpm_state(EL_OLD, EL_NEW, boot={"saved_entry": "Rocky Linux (%s) 9.0 (Blue Onyx)" % EL_OLD})) == EL_OLD
    assert next_boot.next_kernel(rpm_state(EL_OLD, EL_NEW, boot={"saved_entry": "3"})) is None
    assert next_boot.next_kernel(rpm_state(EL_64K)) is None


@pytest.mark.parametrize("wanted,running,expected", [
    (OLD, NEW, OLD), ("5.15.0-91", NEW, OLD), ("5.15", NEW, NEW), ("5.15", None, "5.15"), ("6.8", None, NEWEST), ("7.0", NEW, "7.0"),
    ("5.15.0-9", NEW, "5.15.0-9"), ("5.15.0-91-lowlatency", NEW, "5.15.0-91-lowlatency")])
def test_a_claim_means_the_kernel_that_fits_it(wanted, running, expected):
    node = dict(state(OLD, NEW, NEWEST), kernel={"running": running})
    assert installed_kernels.resolve(wanted, node) == expected


def test_a_claim_without_the_architecture():
    node = {"kernel": {"installed": [{"release": EL_NEW}, {"release": EL_64K}], "running": EL_NEW}}
    assert installed_kernels.resolve("5.14.0-427.13.1.el9_4", node) == EL_NEW
    assert installed_kernels.resolve("5.14.0-503.11.1.el9_5.aarch64", node) == "5.14.0-503.11.1.el9_5.aarch64"


SAVED = [{"id": "3f-%s" % EL_OLD, "title": "Rocky", "kernel": EL_OLD, "machine_id": "3f"}]


@pytest.mark.parametrize("wanted,entries,expected", [
    (None, None, None), ("1>2", None, NEW), ("Ubuntu, with Linux 5.4.0-1-generic", None, "5.4.0-1-generic"), ("0", SAVED, EL_OLD),
    ("Rocky", SAVED, EL_OLD), ("3f-" + EL_OLD, SAVED, EL_OLD), ("0123456789abcdef0123456789abcdef-" + EL_NEW, SAVED, EL_NEW), ("x", SAVED, None)])
def test_what_a_saved_entry_names(wanted, entries, expected):
    assert next_boot.named(state(OLD, NEW, NEWEST, entries=entries), wanted) == expected
