# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The distribution's archive and NVIDIA's repository on one node, and DOCA beside NVIDIA's."""
from __future__ import annotations

import os
import subprocess

import pytest

import expected
from collection import need_of
from stubs import variants

BOTH_2204 = ("ubuntu2204-cuda", "ubuntu2204-archive")
BOTH_2404 = ("ubuntu2404-cuda", "ubuntu2404-archive")
ARCHIVE_580 = dict(expected.suffixed_driver("580.95.05-0ubuntu0.24.04.2", "-open"), dkms="3.0.11-1ubuntu13")


class TestWhatAptDoes:
    def test_the_archive_s_exact_driver_finds_no_way(self, apt_node):
        got = apt_node(*BOTH_2204).install("nvidia-driver-535-open=535.54.03-0ubuntu0.22.04.1")
        assert got.rc == 100

    @pytest.mark.parametrize("verb", [("install", "--only-upgrade", "libnvidia-compute-580"), ("dist-upgrade",)])
    def test_one_library_or_an_upgrade_moves_the_whole_driver_to_the_other_origin(self, apt_node, verb):
        got = apt_node(*BOTH_2404, installed=ARCHIVE_580).get(*verb)
        assert got.rc == 0
        moved = {name for name, version in got.installs.items() if version == "580.178.04-1ubuntu1"}
        assert {"nvidia-driver-580-open", "nvidia-dkms-580-open", "libnvidia-compute-580", "nvidia-utils-580"} <= moved
        assert len(moved) == 16 and got.upstream["nvidia-modprobe"] == "610.57.04"

    def test_without_the_pin_file_the_higher_version_wins(self, apt_node, of_that_day):
        """The archive of that day was ahead of NVIDIA's repository: its parts replace those that the node was given."""
        keep = variants.combine({BOTH_2204[0]: [variants.until("570.172.08")], BOTH_2204[1]: [variants.until("570.195.03")]})
        node = apt_node(folders=of_that_day(*BOTH_2204, keep=keep), cuda_pin=False)
        node.settle("install", "--no-install-recommends", *expected.words(dict(
            expected.suffixed_driver("570.172.08-0ubuntu1"), **{"nvidia-modprobe": "570.172.08-0ubuntu1"})))
        got = node.get("dist-upgrade")
        assert got.rc == 0
        assert {got[name] for name in ("nvidia-driver-570", "nvidia-dkms-570", "libnvidia-compute-570")} == {"570.195.03-0ubuntu0.22.04.1"}

    def test_apt_agrees_to_files_that_collide(self, apt_node):
        node = apt_node(*BOTH_2404, installed=dict(expected.suffixed_driver("610.43.02-0ubuntu0.24.04.1", "-open"), dkms="3.0.11-1ubuntu13"))
        got = node.install("libnvidia-cfg1=610.43.02-1ubuntu1", "nvidia-firmware=610.43.02-1ubuntu1")
        assert got.rc == 0 and got["libnvidia-cfg1"] == "610.43.02-1ubuntu1"

    @pytest.mark.parametrize("one, other", [("nvidia-firmware-610-610.43.02", "nvidia-firmware"), ("libnvidia-cfg1-610", "libnvidia-cfg1")])
    def test_dpkg_does_not(self, tmp_path, repositories, one, other):
        folders = repositories(*BOTH_2404)
        debs = ["%s/%s_610.43.02-0ubuntu0.24.04.1_amd64.deb" % (folders["ubuntu2404-archive"], one),
                "%s/%s_610.43.02-1ubuntu1_amd64.deb" % (folders["ubuntu2404-cuda"], other)]
        for name in ("var/lib/dpkg/info", "var/lib/dpkg/updates"):
            (tmp_path / name).mkdir(parents=True)
        (tmp_path / "var/lib/dpkg/status").write_text("", encoding="ascii")
        done = subprocess.run(["dpkg", "--root=%s" % tmp_path, "--force-not-root", "--force-script-chrootless", "--force-depends", "--unpack", *debs],
                              capture_output=True, text=True, check=False, env=dict(os.environ, LC_ALL="C"))
        assert done.returncode != 0
        assert "trying to overwrite" in done.stderr and "which is also in package %s 610.43.02-0ubuntu0.24.04.1" % one in done.stderr

    def test_doca_beside_nvidia_s_repository_finds_no_way(self, apt_node):
        got = apt_node("doca-ubuntu2204-3.2.1-044000", "ubuntu2204-archive", "ubuntu2204-cuda").install("doca-ofed")
        assert got.rc == 100 and "mft" in got.text


ARCHIVE = {"os": "ubuntu-24.04", "driver": {"version": "580.95.05", "source": "distribution", "flavour": "open"}}
NVIDIA = {"os": "ubuntu-24.04", "driver": {"version": "580.126.20", "source": "nvidia", "flavour": "open"}}
A, N = "580.95.05-0ubuntu0.24.04.2", "580.126.20-1ubuntu1"


class TestOurs:
    def test_the_archive_s_driver_stays_the_archive_s(self, apt_node, on):
        node = apt_node(*BOTH_2404, installed=ARCHIVE_580)
        ours, need = on(node), need_of(ARCHIVE)
        made = ours.apply(need)
        assert made.managed() == expected.suffixed_driver(A, "-open") and made.changes() == {}
        assert ours.due(need) == [] and ours.moves(made) == []
        assert not [name for name, version in node.install("libnvidia-compute-580").installs.items() if version.endswith("-1ubuntu1")]

    def test_an_exact_driver_of_the_archive_in_spite_of_the_pin(self, apt_node, on):
        ours = on(apt_node(*BOTH_2204))
        need = need_of({"os": "ubuntu-22.04", "driver": {"version": "535.54.03", "source": "distribution", "flavour": "open"}})
        made = ours.apply(need)
        assert set(made.managed().values()) == {"535.54.03-0ubuntu0.22.04.1"} and len(made.managed()) == 8
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_from_one_to_the_other_and_back(self, apt_node, on):
        node = apt_node(*BOTH_2404, installed=ARCHIVE_580)
        ours = on(node)
        ours.apply(need_of(ARCHIVE))
        there = ours.apply(need_of(NVIDIA))
        assert there.managed() == dict(expected.suffixed_driver(N, "-open"), **{"nvidia-modprobe": N})
        assert there.removed == ["nvidia-firmware-580-580.95.05"]
        assert ours.due(need_of(NVIDIA)) == [] and ours.moves(there) == []
        back = ours.apply(need_of(ARCHIVE))
        assert back.managed() == expected.suffixed_driver(A, "-open")
        # What NVIDIA's set brought, and the archive does not have.
        assert back.removed == ["nvidia-firmware-580-580.126.20", "nvidia-modprobe"]
        assert ours.due(need_of(ARCHIVE)) == [] and ours.moves(back) == []

    def test_without_the_pin_file_nvidia_s_driver_stays_nvidia_s(self, apt_node, on, of_that_day):
        keep = variants.combine({BOTH_2204[0]: [variants.until("570.172.08")], BOTH_2204[1]: [variants.until("570.195.03")]})
        node = apt_node(folders=of_that_day(*BOTH_2204, keep=keep), cuda_pin=False)
        ours, need = on(node), need_of({"os": "ubuntu-22.04", "driver": {"version": "570.172.08", "source": "nvidia", "flavour": "proprietary"}})
        made = ours.apply(need)
        assert set(made.managed().values()) == {"570.172.08-0ubuntu1"}
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_files_that_collide_do_not_meet(self, apt_node, on):
        """The archive's 610 goes as a whole where the stack means NVIDIA's: no package of one lies beside one of the other."""
        node = apt_node(*BOTH_2404, installed=dict(expected.suffixed_driver("610.43.02-0ubuntu0.24.04.1", "-open"), dkms="3.0.11-1ubuntu13"))
        ours, need = on(node), need_of(dict(NVIDIA, driver={"version": "610.43.02", "source": "nvidia", "flavour": "open"}))
        made = ours.apply(need)
        assert set(made.managed().values()) == {"610.43.02-1ubuntu1"}
        assert not [name for name, version in node.state.items() if version == "610.43.02-0ubuntu0.24.04.1"]
        assert ours.due(need) == [] and ours.moves(made) == []

    def test_doca_beside_nvidia_s_repository(self, apt_node, on):
        node = apt_node("doca-ubuntu2204-3.2.1-044000", *BOTH_2204)
        ours, need = on(node), need_of({"os": "ubuntu-22.04", "ofed": {"provider": "doca", "doca": "3.2.1", "version": "25.10-1.7.1"}})
        made = ours.apply(need)
        known = {"doca-ofed": "3.2.1-044000", "doca-ofed-userspace": "3.2.1-044000", "mft": "4.34.1-10",
                 "mlnx-ofed-kernel-dkms": "25.10.OFED.25.10.1.7.1.1-1", "mlnx-ofed-kernel-utils": "25.10.OFED.25.10.1.7.1.1-1"}
        assert known.items() <= made.managed("ofed").items()
        assert not {"dkms", "openmpi"} & set(made.changes())
        assert ours.due(need) == [] and ours.moves(made) == []
