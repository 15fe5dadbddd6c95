# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An exact CUDA toolkit: 12.8.0, where the repositories have 12.8.2, too."""
from __future__ import annotations

import expected
from collection import need_of


class TestWhatAptDoes:
    def test_the_meta_at_its_version_brings_the_newest_parts(self, apt_node):
        got = apt_node("ubuntu2204-cuda").install("cuda-toolkit-12-8=12.8.0-1")
        assert got.rc == 0
        assert {name: got[name] for name in ("cuda-toolkit-12-8", "cuda-libraries-12-8", "cuda-nvcc-12-8", "libcublas-12-8")} == {
            "cuda-toolkit-12-8": "12.8.0-1", "cuda-libraries-12-8": "12.8.2-1", "cuda-nvcc-12-8": "12.8.93-1", "libcublas-12-8": "12.8.5.5-1"}
        assert got.upstream["cuda-toolkit-config-common"].startswith("13.0.")
        assert not [name for name in got.installs if "driver" in name and name != "cuda-driver-dev-12-8"]


class TestWhatDnfDoes:
    def test_the_meta_at_its_version_brings_the_newest_parts(self, dnf_node):
        got = dnf_node("rhel9-cuda").would("install", "cuda-toolkit-12-8-12.8.0-1")
        assert got.ok
        assert {name: got[name] for name in ("cuda-toolkit-12-8", "cuda-libraries-12-8", "cuda-nvcc-12-8", "libcublas-12-8")} == {
            "cuda-toolkit-12-8": "12.8.0-1", "cuda-libraries-12-8": "12.8.2-1", "cuda-nvcc-12-8": "12.8.93-1", "libcublas-12-8": "12.8.5.5-1"}


SHARED = {"cuda-toolkit-config-common", "cuda-toolkit-12-config-common"}
NO_DRIVER = {"cuda-drivers", "nvidia-open", "nvidia-dkms", "nvidia-driver", "libnvidia-compute", "kmod-nvidia-open-dkms", "nvidia-driver-cuda"}


def own(made):
    """What is managed of the toolkit, without what several releases share."""
    return {name: version for name, version in made.managed("cuda").items() if name not in SHARED}


class TestOurs:
    def test_every_part_is_of_its_release(self, apt_node, on):
        ours, need = on(apt_node("ubuntu2204-cuda", "ubuntu2204-archive")), need_of({"os": "ubuntu-22.04", "cuda": {"versions": ["12.8.0"]}})
        made = ours.apply(need)
        assert own(made) == expected.toolkit_12_8_0() and not NO_DRIVER & set(made.changes())
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_a_node_that_the_meta_gave_newer_parts(self, apt_node, on):
        node = apt_node("ubuntu2204-cuda", "ubuntu2204-archive")
        node.settle("install", "--no-install-recommends", "cuda-toolkit-12-8=12.8.0-1")
        ours, need = on(node), need_of({"os": "ubuntu-22.04", "cuda": {"versions": ["12.8.0"]}})
        made = ours.apply(need)
        want = expected.toolkit_12_8_0()
        assert {name: version for name, version in own(made).items() if name in want} == want
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_on_enterprise_linux(self, dnf_node, on):
        node = dnf_node("rhel9-cuda", "el9-baseos")
        ours, need = on(node), need_of({"os": "rocky-9.6", "cuda": {"versions": ["12.8.0"]}})
        made = ours.apply(need)
        assert own(made) == expected.toolkit_12_8_0("-devel") and not NO_DRIVER & set(made.changes())
        assert ours.due(need) == [] and ours.moves(made) == []
