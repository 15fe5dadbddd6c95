# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which kernels may leave."""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.lockstep.gpu.plugins.plugin_utils.surplus_kernels import surplus

RELEASES = ["6.1.0-%d-amd64" % number for number in range(40, 52)]


def node(releases, running, default=None, held=(), pins=(), **more):
    """A Debian machine with these kernels, each with its headers."""
    names = [prefix + release for release in releases for prefix in ("linux-image-", "linux-headers-")]
    return dict({
        "container": False, "boot": {"default_kernel": default or running}, "trial": None,
        "kernel": {"running": running, "installed": [
            {"release": release, "package": "linux-image-" + release, "package_version": "1", "image": True, "initramfs": True} for release in releases]},
        "packages": {name: {"version": "1", "status": "installed"} for name in [*names, "linux-image-amd64"]},
        "package_manager": {"kind": "apt", "holds": list(held), "own_pins": {name: "1" for name in pins}}}, **more)


def test_the_oldest_leave_and_what_is_needed_stays():
    found = surplus(node(RELEASES[:5], RELEASES[4], RELEASES[4]), {"kernel": {"release": RELEASES[4]}}, 2)
    assert [row["release"] for row in found] == RELEASES[2::-1]
    assert found[0]["packages"] == ["linux-headers-" + RELEASES[2], "linux-image-" + RELEASES[2]]


def test_what_the_user_holds_stays_and_our_own_holds_do_not_matter():
    held = ["linux-image-" + RELEASES[0], "linux-headers-" + RELEASES[1]]
    state = node(RELEASES[:4], RELEASES[3], held=held, pins=[held[1]])
    assert [row["release"] for row in surplus(state, {"kernel": {"release": RELEASES[3]}}, 1)] == [RELEASES[2], RELEASES[1]]


@given(st.lists(st.sampled_from(RELEASES), min_size=1, unique=True), st.data(), st.integers(0, 6))
def test_nothing_that_is_needed_ever_leaves(releases, data, keep):
    running, default, locked, trial = (data.draw(st.sampled_from(RELEASES)) for dummy in range(4))
    held = data.draw(st.sets(st.sampled_from(releases)))
    state = node(releases, running, default, held=["linux-image-" + release for release in held], trial={"kernel": trial})
    gone = {row["release"] for row in surplus(state, {"kernel": {"release": locked}}, keep)}
    assert not gone & {running, default, locked, trial, *held} and gone <= set(releases)
    stays = [release for release in releases if release not in gone]
    assert keep == 0 and not gone or len(stays) >= min(keep, len(releases))
    # Not more than asked for, unless all that stays has to.
    assert not keep or len(stays) <= keep or set(stays) <= {running, default, locked, trial, *held}
    # What stays of its own is newer than all that leaves.
    own = [release for release in stays if release not in {running, default, locked, trial, *held}]
    assert not gone or not own or min(own) > max(gone)


@pytest.mark.parametrize("changes", [
    {"container": True}, {"packages": None}, {"boot": {}}, {"boot": {"default_kernel": None}}, {"kernel": {"running": RELEASES[2], "installed": None}},
    {"package_manager": {"kind": "apt", "holds": None}}, {"kernel": {"running": None, "installed": []}}])
def test_where_something_is_unknown_nothing_leaves(changes):
    assert surplus(node(RELEASES[:4], RELEASES[3], **changes), {}, 1) == []


def test_rpm_kernels_are_named_with_their_version():
    rows = [{"release": "5.14.0-%d.el9.x86_64" % number, "package": "kernel-core", "package_version": "5.14.0-%d.el9" % number, "image": True}
            for number in (362, 427, 503)]
    names = ("kernel", "kernel-core", "kernel-modules", "kernel-devel", "kernel-headers")
    packages = {name: {"version": "5.14.0-503.el9", "others": ["5.14.0-362.el9", "5.14.0-427.el9"], "status": "installed"} for name in names}
    packages["kernel-headers"]["others"] = []
    state = {"container": False, "boot": {"default_kernel": rows[2]["release"]}, "kernel": {"running": rows[2]["release"], "installed": rows},
             "packages": packages, "package_manager": {"kind": "dnf", "holds": ["kernel-core"], "own_pins": {}}}
    found = surplus(state, {"kernel": {"release": rows[2]["release"]}}, 2)
    assert found == [{"release": rows[0]["release"], "packages": ["%s-5.14.0-362.el9.x86_64" % name for name in sorted(names[:4])]}]
