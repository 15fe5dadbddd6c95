# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What belongs to the closure, what differs, what must not happen."""
from __future__ import annotations

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import closure, versions_rpm

DRIVER = {
    "name": "driver", "version": "535.274.02", "pattern": r"535\.274\.02-.+",
    "requests": [{"name": "nvidia-tesla-535-kernel-dkms", "version": r"535\.274\.02-.+"}],
    "sources": ["nvidia-graphics-drivers(-.+)?", "nvidia-modprobe"],
    "one_version": ["nvidia-graphics-drivers-tesla-535"],
    "family": ["nvidia-graphics-drivers", "nvidia-graphics-drivers-tesla-535"],
    "others": ["nvidia-kernel-dkms", "nvidia-persistenced"], "rivals": ["nvidia-kernel-dkms"],
}
KERNEL = {
    "name": "kernel", "version": "6.12.117+deb13-amd64", "pattern": r"6\.12\.117-1", "sources": ["linux", "linux-signed-amd64"],
    "requests": [{"name": "linux-image-6.12.117+deb13-amd64", "version": r"6\.12\.117-1"}],
}
SLICES = [KERNEL, DRIVER]


def package(version, source, hold=True, status="installed"):
    return {"version": version, "source": source, "hold": hold, "status": status, "arch": "amd64"}


def converged():
    return {
        "linux-image-6.12.117+deb13-amd64": package("6.12.117-1", "linux-signed-amd64"),
        "nvidia-tesla-535-kernel-dkms": package("535.274.02-1", "nvidia-graphics-drivers-tesla-535"),
        "libcuda1": package("550.163.01-2", "nvidia-graphics-drivers"),
        "libc6": package("2.41-12", "glibc", hold=False),
    }


def pins(packages):
    return {name: row["version"] for name, row in packages.items() if name != "libc6"}


def test_a_converged_node_has_no_drift():
    packages = converged()
    for part in SLICES:
        assert closure.drift(part, SLICES, packages, pins(packages)) == []


@pytest.mark.parametrize("change, why, name", [
    (lambda p: p.pop("nvidia-tesla-535-kernel-dkms"), "package_missing", "nvidia-tesla-535-kernel-dkms"),
    (lambda p: p["nvidia-tesla-535-kernel-dkms"].update(version="535.216.03-1"), "package_version_differs",
     "nvidia-tesla-535-kernel-dkms"),
    (lambda p: p["nvidia-tesla-535-kernel-dkms"].update(status="half-configured"), "package_half_configured",
     "nvidia-tesla-535-kernel-dkms"),
    (lambda p: p.update(extra=package("535.216.03-1", "nvidia-graphics-drivers-tesla-535")), "package_set_split", "extra"),
    (lambda p: p["libcuda1"].update(hold=False), "package_not_held", "libcuda1"),
    (lambda p: p["libcuda1"].update(version="550.163.01-3"), "pin_differs", "libcuda1"),
    (lambda p: p.update({"nvidia-modprobe": package("570.1-1", "nvidia-modprobe")}), "not_pinned", "nvidia-modprobe"),
])
def test_each_kind_of_drift_is_named(change, why, name):
    packages = converged()
    agreed = pins(packages)
    change(packages)
    found = closure.drift(DRIVER, SLICES, packages, agreed)
    assert (name, why) in {(row["name"], row["why"]) for row in found}
    assert closure.drift(KERNEL, SLICES, packages, agreed) == []


def test_what_is_gone_but_configured_is_missing_not_broken():
    packages = converged()
    packages["nvidia-tesla-535-kernel-dkms"]["status"] = "config-files"
    assert [row["why"] for row in closure.drift(DRIVER, SLICES, packages, pins(packages))] == ["package_missing"]


@pytest.mark.parametrize("available, installed, pinned, expected", [
    (["1.2-3", "1.2-2", "1.3-1"], None, None, "1.2-3"),           # the newest revision that fits, never another version
    (["1.2-3", "1.2-2"], "1.2-2", None, "1.2-2"),                 # a newer revision does not move a node
    (["1.2-3", "1.2-2"], "1.2-3", "1.2-2", "1.2-2"),              # drift goes back to what was agreed
    (["1.2-3"], "1.2-2", "1.2-1", "1.2-3"),                       # the agreed one is gone from the archive
    ([], "1.2-2", None, "1.2-2"),                                 # gone from the archive, but there
    (["1.3-1"], "1.1-1", "1.1-1", None),                          # a changed stack is not satisfied by old pins
    (["1.2-10", "1.2-9"], None, None, "1.2-10"),                  # dpkg's order, not the text's
])
def test_which_revision_a_request_means(available, installed, pinned, expected):
    assert closure.wanted_version({"version": r"1\.2-.+"}, available, installed, pinned) == expected


def test_leftovers_are_the_other_sets_of_the_product_only():
    packages = dict(converged(), **{
        "nvidia-kernel-dkms": package("550.163.01-2", "nvidia-graphics-drivers"),
        "nvidia-persistenced": package("550.163.01-1", "nvidia-persistenced"),
        "nvidia-modprobe": package("570.1-1", "nvidia-modprobe"),
    })
    assert closure.leftovers(DRIVER, packages) == ["libcuda1", "nvidia-kernel-dkms", "nvidia-persistenced"]


def rows_for(installs, packages=None, sources=None):
    meta = {name: {"source": (sources or {}).get(name, "glibc")} for name in installs}
    return closure.close(SLICES, packages or {}, installs, meta)


def test_the_closure_has_all_managed_and_only_changing_base_packages():
    packages = converged()
    rows = rows_for({"nvidia-modprobe": "570.1-1", "perl": "5.40-1"}, packages, {"nvidia-modprobe": "nvidia-modprobe"})
    assert {(row["name"], row["change"], row["managed"]) for row in rows} == {
        ("libcuda1", "keep", True), ("linux-image-6.12.117+deb13-amd64", "keep", True),
        ("nvidia-tesla-535-kernel-dkms", "keep", True), ("nvidia-modprobe", "install", True), ("perl", "install", False)}


def test_a_row_belongs_to_the_transaction_that_brings_it():
    rows = rows_for({"libcuda1": "550.163.01-2"}, {}, {"libcuda1": "nvidia-graphics-drivers"})
    placed = closure.place(rows, SLICES, [("kernel", {}), ("driver", {}), ("cuda", {"libcuda1": {}})])
    assert (placed[0]["component"], placed[0]["step"]) == ("driver", "cuda")


@pytest.mark.parametrize("installs, sources, removed, code", [
    ({"nvidia-kernel-dkms": "550.163.01-2"}, {"nvidia-kernel-dkms": "nvidia-graphics-drivers"}, [], "transaction_leaves_lock"),
    ({"libx": "535.216.03-1"}, {"libx": "nvidia-graphics-drivers-tesla-535"}, [], "transaction_leaves_lock"),
    ({"linux-image-6.12.200+deb13-amd64": "6.12.200-1"}, {"linux-image-6.12.200+deb13-amd64": "linux-signed-amd64"}, [],
     "transaction_installs_unlocked_kernel"),
    ({}, {}, ["postgresql"], "transaction_leaves_lock"),
    ({"libcuda1": "550.163.01-2"}, {"libcuda1": "nvidia-graphics-drivers"}, [], None),
    ({"perl": "5.40-1"}, {}, [], None),
])
def test_what_a_transaction_must_not_do(installs, sources, removed, code):
    found = closure.objections(SLICES, {}, rows_for(installs, {}, sources), removed, [])
    assert [row["code"] for row in found] == ([code] if code else [])


def test_a_hold_of_the_users_own_stops_the_run():
    packages = {"libcuda1": package("550.1-1", "nvidia-graphics-drivers")}
    rows = rows_for({"libcuda1": "550.163.01-2"}, packages, {"libcuda1": "nvidia-graphics-drivers"})
    assert closure.objections(SLICES, packages, rows, [], [], {"vim": "do that"}) == []
    found = closure.objections(SLICES, packages, rows, [], [], {"libcuda1": "remove line 3 of /etc/locks"})
    assert found[0]["code"] == "package_held_by_user" and "remove line 3 of /etc/locks" in found[0]["message"]


def test_a_held_package_is_neither_removed_nor_brought_in():
    rows = rows_for({"nvidia-modprobe": "570.1-1"}, {}, {"nvidia-modprobe": "nvidia-modprobe"})
    found = closure.objections(SLICES, {}, rows, ["nvidia-persistenced"], ["nvidia-persistenced"],
                               dict.fromkeys(("nvidia-persistenced", "nvidia-modprobe", "vim"), "unhold it"))
    assert [(row["code"], row["name"]) for row in found] == [
        ("package_held_by_user", "nvidia-persistenced"), ("package_held_by_user", "nvidia-modprobe")]


def test_a_build_from_elsewhere_is_not_the_stacks():
    packages = converged()
    packages["nvidia-tesla-535-kernel-dkms"]["source"] = "handmade"
    assert [row["why"] for row in closure.drift(DRIVER, SLICES, packages, pins(packages))] == ["package_origin_differs"]


def test_a_build_from_elsewhere_at_the_same_version_is_refused():
    packages = {"nvidia-tesla-535-kernel-dkms": package("535.274.02-1", "handmade")}
    assert [row["code"] for row in closure.objections(SLICES, packages, [], [], [])] == ["package_origin_differs"]
    rows = rows_for({"nvidia-tesla-535-kernel-dkms": "535.274.02-2"}, packages,
                    {"nvidia-tesla-535-kernel-dkms": "nvidia-graphics-drivers-tesla-535"})
    assert closure.objections(SLICES, packages, rows, [], []) == []


def test_waiting_triggers_are_no_defect():
    packages = converged()
    packages["libcuda1"]["status"] = "triggers-awaited"
    assert closure.drift(DRIVER, SLICES, packages, pins(packages)) == []


def test_pins_of_products_that_were_not_asked_for_stay():
    packages = {"libnccl2": package("2.22.3-1-1", "nvidia-nccl"), "gone": package("1-1", "nvidia-nccl", status="config-files")}
    rows = rows_for({"nvidia-modprobe": "570.1-1"}, packages, {"nvidia-modprobe": "nvidia-modprobe"})
    assert closure.pins_after(SLICES, rows, {"libnccl2": "2.22.3-1-1", "gone": "1-1", "nvidia-modprobe": "550-1"}, packages) == {
        "libnccl2": "2.22.3-1-1", "nvidia-modprobe": "570.1-1"}


FABRIC = {"name": "fabric", "version": "580.126.20", "pattern": r"580\.126\.20-.+", "sources": [], "names": ["nvidia-(fabric|imex).*", "libnvsdm"],
          "one_names": ["nvidia-(fabric|imex).*", "libnvsdm"],
          "requests": [{"name": "nvidia-fabricmanager", "version": r"580\.126\.20-.+"},
                       {"name": "libnvsdm", "version": r"580\.126\.20-.+", "optional": True}]}
KERNEL_EL = {"name": "kernel", "version": "5.14.0-570.18.1.el9_6", "pattern": r"5\.14\.0-570\.18\.1\.el9_6", "sources": [], "names": ["kernel(-.+)?"],
             "installonly": True, "requests": [{"name": "kernel-core", "version": r"5\.14\.0-570\.18\.1\.el9_6"}]}


@pytest.mark.parametrize("name, source, expected", [
    ("nvidia-imex", "unknown", "fabric"), ("nvidia-imex:amd64", None, "fabric"), ("nvidia-modprobe", "nvidia-modprobe", "driver"),
    ("nvidia-settings", "nvidia-settings", None), ("kernel-devel", None, "kernel"), ("kernelshark", None, None)])
def test_a_package_belongs_by_its_source_or_by_its_name(name, source, expected):
    assert closure.owner([KERNEL_EL, DRIVER, FABRIC], name, source) == expected


def test_members_by_name_follow_the_slice():
    packages = {"nvidia-fabricmanager": package("580.126.20-1", None), "nvidia-imex": package("610.57.04-1", None)}
    assert closure.followers(FABRIC, packages) == ["nvidia-imex"]
    assert [row["why"] for row in closure.drift(FABRIC, [FABRIC], packages, pins(packages))] == ["package_set_split"]
    rows = closure.close([FABRIC], {}, {"nvidia-imex": "610.57.04-1"}, {})
    assert [row["code"] for row in closure.objections([FABRIC], {}, rows, [], [])] == ["transaction_leaves_lock"]


def test_an_optional_package_may_be_missing_but_not_differ():
    packages = {"nvidia-fabricmanager": package("580.126.20-1", None)}
    assert closure.drift(FABRIC, [FABRIC], packages, pins(packages)) == []
    packages["libnvsdm"] = package("610.57.04-1", None)
    assert [row["why"] for row in closure.drift(FABRIC, [FABRIC], packages, pins(packages))] == ["package_version_differs"]


@pytest.mark.parametrize("there, why", [
    (["5.14.0-570.18.1.el9_6"], []), (["5.14.0-687.25.1.el9_7", "5.14.0-570.18.1.el9_6"], []), (["5.14.0-687.25.1.el9_7"], ["package_missing"])])
def test_kernels_lie_side_by_side(there, why):
    packages = {"kernel-core": dict(package(there[0], None), others=there[1:])}
    assert [row["why"] for row in closure.drift(KERNEL_EL, [KERNEL_EL], packages, {"kernel-core": "5.14.0-570.18.1.el9_6"}) if row["why"] != "not_pinned"
            and row["why"] != "pin_differs"] == why
    rows = closure.close([KERNEL_EL], packages, {"kernel-core": "5.14.0-570.18.1.el9_6"} if why else {}, {}, versions_rpm.compare)
    assert [(row["version"], row["change"]) for row in rows] == [("5.14.0-570.18.1.el9_6", "install" if why else "keep")]


def test_the_order_is_the_package_managers():
    """A caret is newer than nothing for rpm, and no version for dpkg."""
    assert closure.change_of("1.0-1", "1.0^git1-1", versions_rpm.compare) == "upgrade"
    assert closure.wanted_version({"version": ".*"}, ["1.0-1", "1.0^git1-1"], None, None, versions_rpm.compare) == "1.0^git1-1"


UBUNTU = {"name": "kernel", "version": "6.8.0-84-generic", "pattern": ".*", "sources": [], "names": ["linux-(image|headers|modules|generic|tools).*"],
          "requests": [{"name": "linux-image-6.8.0-84-generic", "version": ".*"}]}


@pytest.mark.parametrize("name, old, new, planned, code", [
    ("linux-image-6.8.0-138-generic", None, "6.8.0-138.138", {}, "transaction_installs_unlocked_kernel"),
    ("linux-image-unsigned-6.8.0-138-generic", None, "6.8.0-138.138", {}, "transaction_installs_unlocked_kernel"),
    ("linux-generic-hwe-22.04", "6.8.0-84.84", "6.8.0-138.138", {}, "transaction_leaves_lock"),
    ("linux-generic-hwe-22.04", "6.8.0-138.138", "6.8.0-84.84", {"linux-generic-hwe-22.04": "6.8.0-84.84"}, None),   # back to its pin
    ("linux-headers-6.8.0-84-generic", None, "6.8.0-84.84", {}, None),
    ("linux-tools-common", "6.8.0-84.84", "6.8.0-138.138", {}, None),
    ("linux-image-6.8.0-84-generic", "6.8.0-84.83", "6.8.0-84.84", {}, None),
])
def test_nothing_moves_the_nodes_kernel(name, old, new, planned, code):
    packages = {name: package(old, "linux")} if old else {}
    rows = closure.close([UBUNTU], packages, {name: new}, {})
    assert [row["code"] for row in closure.objections([UBUNTU], packages, rows, [], [], {}, planned)] == ([code] if code else [])


def test_a_part_that_stays_at_another_version_is_named():
    packages = {"nvidia-imex": package("610.57.04-1", None)}
    rows = closure.close([FABRIC], packages, {}, {})
    assert [(row["code"], row["name"]) for row in closure.objections([FABRIC], packages, rows, [], [])] == [("transaction_leaves_lock", "nvidia-imex")]


def test_a_part_of_another_kernel_alone_is_nobodys_drift():
    packages = {"kernel-core": dict(package("5.14.0-570.18.1.el9_6", None)), "kernel-modules-extra": dict(package("5.14.0-687.25.1.el9_7", None), hold=False)}
    assert closure.drift(KERNEL_EL, [KERNEL_EL], packages, {"kernel-core": "5.14.0-570.18.1.el9_6"}) == []
