# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The container toolkit and DCGM at exact versions."""
from __future__ import annotations

import pytest

import expected
from collection import need_of

FOUR = expected.TOOLKIT


class TestWhatAptDoes:
    def test_the_toolkit_alone_finds_no_way(self, apt_node):
        assert apt_node("ubuntu2404-cuda").install("nvidia-container-toolkit=1.17.8-1").rc == 100

    @pytest.mark.parametrize("version, named, floats", [
        ("1.17.8-1", FOUR[:2], FOUR[2:]),
        ("1.18.2-1", FOUR[:3], FOUR[3:]),
    ])
    def test_what_is_not_named_floats(self, apt_node, version, named, floats):
        got = apt_node("ubuntu2404-cuda").install(*expected.words(expected.each(named, version)))
        assert got.rc == 0
        assert got.installs == dict(expected.each(named, version), **expected.each(floats, "1.19.1-1"))

    def test_two_holds_let_the_libraries_move(self, apt_node):
        node = apt_node("ubuntu2404-cuda", installed=expected.each(FOUR, "1.17.8-1"), holds=FOUR[:2])
        assert node.get("dist-upgrade").installs == expected.each(FOUR[2:], "1.19.1-1")

    def test_all_four_named_and_held_stay(self, apt_node):
        want = expected.each(FOUR, "1.17.8-1")
        node = apt_node("ubuntu2404-cuda")
        assert node.install(*expected.words(want)).installs == want
        node.settle("install", *expected.words(want))
        node.hold(*FOUR)
        assert node.get("dist-upgrade").installs == {}

    def test_dcgm_4_replaces_dcgm_3(self, apt_node):
        got = apt_node("ubuntu2404-cuda", installed={"datacenter-gpu-manager": "1:3.3.9"}).install("datacenter-gpu-manager-4-cuda12")
        assert got.rc == 0 and got.removes == ["datacenter-gpu-manager"]

    def test_dcgm_at_its_version_alone_finds_no_way(self, apt_node):
        assert apt_node("ubuntu2404-cuda").install("datacenter-gpu-manager-4-cuda12=1:4.4.2-1").rc == 100

    def test_dcgm_s_four_do(self, apt_node):
        want = expected.each(["datacenter-gpu-manager-4-" + part for part in ("core", "cuda12", "proprietary", "proprietary-cuda12")], "1:4.4.2-1")
        got = apt_node("ubuntu2404-cuda").install(*expected.words(want))
        assert got.rc == 0
        assert {name: version for name, version in got.installs.items() if name.startswith("datacenter")} == want


class TestWhatDnfDoes:
    def test_the_toolkit_at_its_version_brings_the_newest_libraries(self, dnf_node):
        got = dnf_node("rhel9-cuda").would("install", "nvidia-container-toolkit-1.17.8-1")
        assert got.installs == dict(expected.each(FOUR[:2], "1.17.8-1"), **expected.each(FOUR[2:], "1.19.1-1"))

    def test_all_four_do(self, dnf_node):
        got = dnf_node("rhel9-cuda").would("install", *["%s-1.17.8-1" % name for name in FOUR])
        assert got.installs == expected.each(FOUR, "1.17.8-1")

    def test_dcgm_4_beside_dcgm_3_needs_leave_to_erase(self, dnf_node):
        node = dnf_node("rhel9-cuda")
        node.settle("install", "datacenter-gpu-manager")
        got = node.would("install", "datacenter-gpu-manager-4-cuda12")
        assert not got.ok and "--allowerasing" in got.text

    def test_dcgm_at_its_version_alone_is_taken(self, dnf_node):
        got = dnf_node("rhel9-cuda").would("install", "datacenter-gpu-manager-4-cuda12-1:4.4.2-1")
        assert got.ok and got["datacenter-gpu-manager-4-cuda12"] == "1:4.4.2-1"


class TestOurs:
    def stack(self, system):
        return {"os": system, "driver": {"version": "580.126.20", "source": "nvidia", "flavour": "open"}, "container_toolkit": "1.17.8", "dcgm": "4.4.2"}

    def want(self, major):
        names = ["datacenter-gpu-manager-4-" + part for part in ("core", "cuda%s" % major, "proprietary", "proprietary-cuda%s" % major)]
        return dict(expected.each(FOUR, "1.17.8-1"), **expected.each(names, "1:4.4.2-1"))

    def test_on_apt(self, apt_node, on):
        ours, need = on(apt_node("ubuntu2404-cuda", "ubuntu2404-archive", "container-toolkit-deb")), need_of(self.stack("ubuntu-24.04"))
        made = ours.apply(need)
        # The driver's own CUDA decides for which one DCGM's packages are.
        assert made.managed("container_toolkit", "dcgm") == self.want("13")
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_on_dnf(self, dnf_node, on):
        node = dnf_node("rhel9-cuda", "el9-baseos", "container-toolkit-rpm")
        ours, need = on(node), need_of(self.stack("rocky-9.6"))
        made = ours.apply(need)
        assert made.managed("container_toolkit", "dcgm") == self.want("13")
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_floated_libraries_and_dcgm_3_on_apt(self, apt_node, on):
        node = apt_node("ubuntu2404-cuda", "container-toolkit-deb", installed={"datacenter-gpu-manager": "1:3.3.9"})
        node.settle("install", *expected.words(expected.each(FOUR[:2], "1.17.8-1")))
        ours, need = on(node), need_of({"os": "ubuntu-24.04", "container_toolkit": "1.17.8", "dcgm": {"version": "4.4.2", "cuda": "12"}})
        made = ours.apply(need)
        assert made.managed() == self.want("12") and made.removed == ["datacenter-gpu-manager"]
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_dcgm_3_on_dnf(self, dnf_node, on):
        node = dnf_node("rhel9-cuda", "el9-baseos")
        node.settle("install", "datacenter-gpu-manager")
        ours, need = on(node), need_of({"os": "rocky-9.6", "dcgm": {"version": "4.4.2", "cuda": "12"}})
        made = ours.apply(need)
        assert "datacenter-gpu-manager" in made.removed and set(made.managed().values()) == {"1:4.4.2-1"}
        assert ours.due(need) == [] and ours.moves(made) == []

    @pytest.mark.parametrize("system", ["ubuntu-24.04", "rocky-9.6"])
    def test_where_only_the_cuda_repository_has_the_toolkit(self, apt_node, dnf_node, on, system):
        """The same builds lie in both: a site's one mirror suffices."""
        node = apt_node("ubuntu2404-cuda") if system.startswith("ubuntu") else dnf_node("rhel9-cuda")
        made = on(node).resolve(need_of({"os": system, "container_toolkit": "1.17.8"}))
        assert made.managed() == expected.each(FOUR, "1.17.8-1")
