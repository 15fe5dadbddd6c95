# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An exact driver whose packages carry the branch in their names: 550.54.15 of NVIDIA's repository for Ubuntu 22.04."""
from __future__ import annotations

import re

import pytest

import expected
from collection import need_of

V = "550.54.15-0ubuntu1"


class TestWhatAptDoes:
    def test_the_driver_at_its_version_finds_no_way(self, apt_node):
        """Its parts are wanted at the same version, while apt considers the newest of each only."""
        got = apt_node("ubuntu2204-cuda").install("nvidia-driver-550=" + V)
        assert got.rc == 100
        assert got.text.count("Depends:") == 13
        assert "550.163.01" in got.text

    def test_the_headless_meta_brings_everything_at_another_version(self, apt_node):
        got = apt_node("ubuntu2204-cuda").install("nvidia-headless-550=" + V)
        assert got.rc == 0 and got.removes == []
        assert got["nvidia-headless-550"] == V
        others = ("nvidia-dkms-550", "libnvidia-compute-550", "nvidia-compute-utils-550", "nvidia-kernel-source-550", "nvidia-kernel-common-550")
        assert {got.upstream[name] for name in others} == {"550.163.01"}

    def test_sixteen_names_do(self, apt_node):
        want = expected.suffixed_driver(V)
        assert len(want) == 16
        got = apt_node("ubuntu2204-cuda").install(*expected.words(want))
        assert got.rc == 0 and got.removes == []
        assert {name: got[name] for name in want} == want
        assert not [name for name, version in got.installs.items() if "nvidia" in name and version != V]

    def test_nine_names_do_for_computing(self, apt_node):
        want = expected.suffixed_compute(V)
        assert len(want) == 9
        got = apt_node("ubuntu2204-cuda").install(*expected.words(want))
        assert got.rc == 0
        assert {name: version for name, version in got.installs.items() if "nvidia" in name} == want


STACK = {"os": "ubuntu-22.04", "driver": {"version": "550.54.15", "source": "nvidia", "flavour": "proprietary"}}
BOTH = ("ubuntu2204-cuda", "ubuntu2204-archive")


def without_metas(packages):
    """Metapackages have no content; a stack asks for what has."""
    return {name: version for name, version in packages.items() if not re.match(r"nvidia-headless", name)}


class TestOurs:
    def test_what_computing_needs(self, apt_node, on):
        """nvidia-modprobe comes too: it makes the device nodes, and nothing in the driver asks for one version of it."""
        ours, need = on(apt_node(*BOTH)), need_of(STACK)
        made = ours.apply(need)
        assert made.managed() == dict(without_metas(expected.suffixed_compute(V)), **{"nvidia-modprobe": V})
        assert made.others() == {} and made.removed == []
        assert ours.due(need) == [] and ours.moves(made) == []

    @pytest.mark.parametrize("naive", [["nvidia-driver-550"], ["nvidia-headless-550=" + V]])
    def test_a_node_that_a_naive_command_filled(self, apt_node, on, naive):
        """Whatever it brought goes to the version, the parts of a desktop too, and nothing is lost."""
        node = apt_node(*BOTH)
        node.settle("install", "--no-install-recommends", *naive)
        before = {name for name in node.state if "nvidia" in name and not name.startswith("nvidia-firmware")}
        ours, need = on(node), need_of(STACK)
        made = ours.apply(need)
        assert before <= set(made.managed()) and set(made.managed().values()) == {V}
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_a_desktop_s_sixteen(self, apt_node, on):
        node = apt_node(*BOTH)
        node.settle("install", "--no-install-recommends", "nvidia-driver-550")
        made = on(node).apply(need_of(STACK))
        want = expected.suffixed_driver(V)
        # The firmware of the version that was there has another name: nothing replaces it.
        assert {name: version for name, version in made.managed().items() if name in want} == want
        assert set(made.managed()) - set(want) == {"nvidia-modprobe"}
