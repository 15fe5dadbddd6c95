# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the node decides where the stack leaves it open."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import completed, knowledge, stack
from ansible_collections.lockstep.gpu.plugins.plugin_utils.slices import PlanError

FACTS = knowledge.load()
# V100 SXM3 (DGX-2), V100 SXM2, A100 SXM4, H100 SXM5, H100 PCIe, B200, GB200
DGX2, V100, A100, H100, PCIE, B200, GB200 = "10de:1db8", "10de:1db5", "10de:20b2", "10de:2330", "10de:2331", "10de:2901", "10de:2941"
SWITCH = [{"id": "10de:22a3"}]
OLD, NEW = {"manager", "nscq"}, {"manager", "nscq", "imex", "nvsdm", "nvlsm"}


def parts(gpus, switches, **said):
    wanted = stack.expand({"os": "ubuntu-24.04", "driver": {"version": "580.126.20", "source": "nvidia"}, "fabric": dict({"manager": "auto"}, **said)})
    found = completed.whole(wanted, FACTS, gpus, switches)["fabric"]
    return set(found["parts"]) if found else None


@pytest.mark.parametrize(("gpus", "switches", "expected"), [
    ([H100], SWITCH, OLD), ([A100], SWITCH, OLD), ([DGX2], SWITCH, OLD),
    # NVSwitches that nobody could see, boards that show none, no such board.
    ([H100], None, OLD), ([H100], [], None), ([A100], [], None), ([V100], [], None), ([PCIE], [], None), ([], [], None), ([], None, None),
    # Unknown boards with switches.
    ([], SWITCH, OLD), ([V100], SWITCH, OLD),
    # NVLink 5: its switches are no NVSwitches of PCI.
    ([B200], [], NEW), ([B200], None, NEW), ([B200], SWITCH, NEW), ([GB200], [], {"imex"})])
def test_auto_is_by_switches_and_boards(gpus, switches, expected):
    assert parts(gpus, switches) == expected


@pytest.mark.parametrize(("gpus", "switches", "said", "expected"), [
    ([], [], {"manager": "580.126.20"}, {"manager"}), ([B200], [], {"nvlsm": "none", "imex": "none"}, {"manager", "nscq", "nvsdm"}),
    ([H100], SWITCH, {"manager": "none", "nscq": "none"}, None), ([H100], SWITCH, {"imex": "580.126.20"}, {"manager", "nscq", "imex"}),
    ([B200], [], {"nvlsm": "2025.06.11"}, NEW)])
def test_what_is_said_counts_before_what_is_seen(gpus, switches, said, expected):
    assert parts(gpus, switches, **said) == expected


@pytest.mark.parametrize(("driver", "cuda", "said", "expected"), [
    ("580.126.20", None, None, "13"), ("550.163.01", None, None, "12"), ("535.183.01", "11.8.0", None, "12"), ("580.126.20", "12.8.0", None, "13"),
    ("580.126.20", None, "12", "12"), (None, "12.8.0", None, "12")])
def test_dcgm_is_for_the_drivers_cuda(driver, cuda, said, expected):
    wanted = {"os": {"id": "ubuntu", "release": "24.04"}, "dcgm": {"version": "4.4.2", "cuda": said}, "cuda": {"active": cuda} if cuda else None,
              "driver": {"version": driver} if driver else None}
    assert completed.whole(wanted, FACTS, [], [])["dcgm"]["cuda"] == expected


def test_dcgm_3_has_no_cuda_and_is_asked_for_none():
    assert completed.whole({"os": {"id": "ubuntu"}, "dcgm": {"version": "3.3.9"}}, FACTS, [], [])["dcgm"] == {"version": "3.3.9"}


@pytest.mark.parametrize(("gpus", "version", "expected"), [
    ([H100], "580.126.20", "open"), ([V100], "580.126.20", "proprietary"), ([B200], "570.133.20", "open"), ([V100, H100], "580.126.20", "proprietary"),
    ([], "580.126.20", "open")])
def test_auto_takes_the_flavour_that_the_gpus_need(gpus, version, expected):
    assert completed.flavour({"driver": {"version": version, "flavour": "auto"}}, FACTS, gpus) == expected


def test_an_unknown_gpu_fails_closed_and_says_what_to_add():
    with pytest.raises(PlanError, match="10de:ffff, which compat/gpus.yml does not know"):
        completed.flavour({"driver": {"version": "580.126.20", "flavour": "auto"}}, FACTS, [H100, "10de:ffff"])
    assert completed.flavour({"driver": {"version": "580.126.20", "flavour": "open"}}, FACTS, ["10de:ffff"]) == "open"
    assert completed.flavour({}, FACTS, ["10de:ffff"]) is None


def test_the_stack_that_was_given_stays_as_it_was():
    wanted = stack.expand({"os": "ubuntu-24.04", "driver": {"version": "580.126.20", "source": "nvidia"}, "fabric": "auto"})
    before = repr(wanted)
    completed.whole(wanted, FACTS, [H100], SWITCH)
    assert repr(wanted) == before
