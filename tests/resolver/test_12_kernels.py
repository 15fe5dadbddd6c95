# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An exact kernel of Ubuntu's archive, and what keeps it."""
from __future__ import annotations

import pytest

import expected
from ansible_collections.lockstep.gpu.plugins.module_utils import acting
from collection import need_of

K = "6.8.0-84.84~22.04.1"
HWE = ["%s-hwe-22.04" % name for name in expected.KERNEL_METAS]


class TestWhatAptDoes:
    def test_the_meta_at_its_version_finds_no_way(self, apt_node):
        assert apt_node("ubuntu2204-archive").install("linux-generic-hwe-22.04=" + K).rc == 100

    def test_the_three_metas_do(self, apt_node):
        got = apt_node("ubuntu2204-archive").install(*expected.words(expected.each(HWE, K)))
        assert got.rc == 0 and got["linux-image-6.8.0-84-generic"] == K
        assert "linux-image-6.8.0-138-generic" not in got.installs

    def test_all_three_held_stay(self, apt_node):
        node = apt_node("ubuntu2204-archive")
        node.settle("install", "--no-install-recommends", *expected.words(expected.each(HWE, K)))
        node.hold(*HWE)
        got = node.get("dist-upgrade")
        assert got.installs == {} and got.removes == []

    @pytest.mark.parametrize("held", [["linux-image-6.8.0-84-generic", "linux-headers-6.8.0-84-generic"], ["linux-image-generic-hwe-22.04"]])
    def test_fewer_holds_do_not_stop_an_upgrade(self, apt_node, held):
        node = apt_node("ubuntu2204-archive")
        node.settle("install", "--no-install-recommends", *expected.words(expected.each(HWE, K)))
        node.hold(*held)
        got = node.get("dist-upgrade")
        assert "linux-headers-6.8.0-138-generic" in got.installs or "linux-image-6.8.0-138-generic" in got.installs or got.removes


OS = {"os": "ubuntu-22.04"}
OLD = {"release": "6.8.0-84-generic", "package_version": K}
PARTS = ["linux-%s-6.8.0-84-generic" % part for part in ("image", "modules", "modules-extra", "headers")] + ["linux-hwe-6.8-headers-6.8.0-84"]


class TestOurs:
    def test_on_a_bare_node(self, apt_node, on):
        node = apt_node("ubuntu2204-archive")
        ours, need = on(node), need_of(dict(OS, kernel=OLD))
        made = ours.apply(need)
        assert made.managed() == expected.each(PARTS, K) and made.others() == {} and made.removed == []
        assert ours.due(need) == [] and ours.moves(made) == []

    @pytest.mark.parametrize("version, abi", [(K, "84"), ("6.8.0-138.138~22.04.1", "138")])
    def test_metapackages_that_are_there_stay_as_they_are(self, apt_node, on, version, abi):
        """Whatever they lead to, they bring no other kernel any more; and what is there is not taken away."""
        node = apt_node("ubuntu2204-archive")
        node.settle("install", "--no-install-recommends", *expected.words(expected.each(HWE, version)))
        before = dict(node.state)
        ours, need = on(node), need_of(dict(OS, kernel=OLD))
        made = ours.apply(need)
        assert made.removed == [] and before.items() <= node.state.items()
        assert set(made.changes()) == (set() if abi == "84" else set(PARTS))
        assert {name: made.managed()[name] for name in HWE} == expected.each(HWE, version)
        assert ours.due(need) == [] and ours.moves(made) == []


@pytest.mark.parametrize("release, build, candidate", [
    ("6.8.0-99-generic", "6.8.0-99.99", "linux-image-6.8.0-31-generic=6.8.0-31.31"),
    ("6.8.0-31-genric", "6.8.0-31.31", "linux-image-6.8.0-31-generic=6.8.0-31.31")])
def test_a_kernel_that_no_archive_has_is_refused_with_those_that_they_have(apt_node, on, release, build, candidate):
    with pytest.raises(acting.Refused) as refused:
        on(apt_node("ubuntu2404-archive")).resolve(need_of({"os": "ubuntu-24.04", "kernel": {"release": release, "package_version": build}}))
    assert "linux-image-" + release in str(refused.value) and candidate in str(refused.value)
