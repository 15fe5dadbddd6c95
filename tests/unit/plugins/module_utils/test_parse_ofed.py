# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OFED's versions in every spelling, its modules, and the peer memory interface."""

from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import capture_ofed, parse_ofed
from hypothesis import given
from hypothesis import strategies as st

# Spellings of one release, 24.10-3.2.5.
SPELLINGS = ("OFED-internal-24.10-3.2.5:", "24.10.OFED.24.10.3.2.5.1", "24.10.OFED.24.10.3.2.5.1-1", "24.10-OFED.24.10.3.2.5.1.rhel9u4", "OFED.24.10.3.2.5.1",
             "24.10-3.2.5", "24.10-3.2.5.0", "MLNX_OFED_LINUX-24.10-3.2.5.0:", "24.10-3.2.5.0-0", "24.10")
OTHERS = ("24.10-1.1.4", "24.10.OFED.24.10.1.1.4.1", "23.10", "OFED-internal-25.10-3.2.5:", "MLNX_OFED_LINUX-5.4-3.1.0.0")


@pytest.mark.parametrize("one", SPELLINGS)
def test_spellings_of_one_release_agree(one):
    version = parse_ofed.ofed_version(one)
    assert version["release"] == "24.10"
    assert all(parse_ofed.agree(version, parse_ofed.ofed_version(other)) for other in SPELLINGS)
    assert [other for other in OTHERS if parse_ofed.agree(version, parse_ofed.ofed_version(other)) is not False] == (
        ["24.10-1.1.4", "24.10.OFED.24.10.1.1.4.1"] if one == "24.10" else [])


@pytest.mark.parametrize(("one", "other", "same"), [
    ("5.4-3.1.0.0", "5.4-OFED.5.4.3.1.0.1.rhel7u9", True), ("5.4-3.1.0.0", "5.4-3.1.0.1", False), ("5.8-1.1.2.1", "5.8-1.0.1.1", False),
    ("24.10-1.1.4.0", "OFED-internal-24.10-1.1.4.0.200:", True), ("4.9", "4.9-OFED.4.9.4.1.7.1", True), ("5.9-0.5.6.0", "24.10-0.5.6.0", False)])
def test_numbers_are_compared_at_the_precision_of_both(one, other, same):
    assert parse_ofed.agree(parse_ofed.ofed_version(one), parse_ofed.ofed_version(other)) is same


@pytest.mark.parametrize("text", ["", "OFED", "2.9.3-0.3.4", "580.95.05", "6.8.0-60-generic", "59mlnx44-1.59056", "24.10.OFED.23.10.3.2.5.1", "56.1-1+deb13u1"])
def test_what_is_no_version_of_ofed(text):
    assert parse_ofed.ofed_version(text) is None
    assert parse_ofed.agree(None, parse_ofed.ofed_version("24.10")) is None


@given(st.integers(4, 30), st.integers(1, 12), st.lists(st.integers(0, 20), min_size=3, max_size=3))
def test_every_tool_prints_the_same_release(year, month, build):
    release, numbers = "%d.%02d" % (year, month), ".".join(map(str, build))
    tool, package, modinfo = [parse_ofed.ofed_version(text) for text in (
        "OFED-internal-%s-%s:" % (release, numbers), "%s.OFED.%s.%s.1-1" % (release, release, numbers), "%s-%s" % (release, numbers))]
    assert parse_ofed.agree(tool, package) and parse_ofed.agree(package, modinfo) and tool["build"] == numbers == modinfo["build"]


@pytest.mark.parametrize(("text", "kind", "version"), [
    ("MLNX_OFED_LINUX-5.4-3.1.0.0:\n", "mlnx", "5.4-3.1.0.0"), ("OFED-internal-24.10-3.2.5:", "doca", "24.10-3.2.5"), ("5.0-2.1.8\n", None, "5.0-2.1.8"),
    ("MLNX_OFED_LINUX-24.10-1.1.4.0 (OFED-24.10-1.1.4):\n\nclusterkit:\nmlnx_ofed_clusterkit/x.src.rpm\n", "mlnx", "24.10-1.1.4.0"), ("", None,
                                                                                                                                      None), ("OFED", None,
                                                                                                                                              None)])
def test_ofed_info(text, kind, version):
    value = parse_ofed.parse_ofed_info(text).value or {}
    assert (value.get("kind"), value.get("version")) == (kind, version)


MODINFO = """filename:       /lib/modules/6.8.0-60-generic/updates/dkms/mlx5_core.ko.zst
basedon:        Korg 6.8-rc4
version:        24.10-3.2.5
license:        Dual BSD/GPL
alias:          pci:v000015B3d0000A2DCsv*sd*bc*sc*i*
depends:        mlx_compat,mlxdevm,mlxfw,psample,tls,pci-hyperv-intf
name:           mlx5_core
vermagic:       6.8.0-60-generic SMP preempt mod_unload modversions
parm:           num_of_groups:Eswitch offloads (uint)
filename:       /lib/modules/6.8.0-60-generic/kernel/drivers/infiniband/core/ib_core.ko.zst
intree:         Y
modinfo: ERROR: Module mlx5_ib not found.
filename:       (builtin)
name:           ib_uverbs
"""


def test_modinfo():
    rows, problems = parse_ofed.parse_modinfo_rdma(MODINFO)
    assert not problems
    assert [(row["module"], row["kind"], row["kernel"], row["version"], row["intree"]) for row in rows] == [
        ("mlx5_core", "ofed", "6.8.0-60-generic", "24.10-3.2.5", None), ("ib_core", "inbox", "6.8.0-60-generic", None, True), ("mlx5_ib", None, None, None,
                                                                                                                               None),
        ("ib_uverbs", "inbox", None, None, True)]
    assert rows[0]["depends"].startswith("mlx_compat") and parse_ofed.is_peer_module("nvidia_current_peermem") and not parse_ofed.is_peer_module("nvidia_uvm")


def test_module_files():
    text = ("/lib/modules/5.14.0-1.el9/extra/mlnx-ofa_kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko\n"
            "/lib/modules/5.14.0-2.el9/weak-updates/mlnx-ofa_kernel/x/mlx5_ib.ko"
            " -> /lib/modules/5.14.0-1.el9/extra/x/mlx5_ib.ko\n/usr/lib/modules/5.14.0-2.el9/kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko.xz\n"
            "find: '/lib/modules/x': Permission denied\n/etc/modprobe.d/mlnx.conf\n")
    rows, problems = parse_ofed.parse_module_files(text)
    assert not problems
    assert [(row["kernel"], row["module"], row["kind"]) for row in rows] == [
        ("5.14.0-1.el9", "mlx5_ib", "ofed"), ("5.14.0-2.el9", "mlx5_ib", "ofed"), ("5.14.0-2.el9", "mlx5_ib", "inbox")]


def test_symbols_and_what_openibd_passes_over():
    text = "ffffffffc0a1b2c0 T ib_register_peer_memory_client\t[ib_core]\nffffffffa0de25ac r __kstrtab_ib_register_peer_memory_client\t[ib_core]\n(null) T x\n"
    assert parse_ofed.parse_kallsyms(text) == ({"ib_register_peer_memory_client": "ib_core", "x": "kernel"}, [])
    text = "Loading Mellanox MLX5_IB HCA driver: [ OK ]\nModule mlx5_ib belong to a kernel which is not a part of MLNX_OFED, skipping...\n"
    assert parse_ofed.parse_openibd(text).value == {"passed_over": ["mlx5_ib"], "absent": []}


def test_a_live_node_lists_its_own_modules(tmp_path):
    for path in ("lib/modules/6.1/updates/dkms/mlx5_core.ko.zst", "lib/modules/6.1/updates/dkms/other.ko", "lib/modules/6.1/kernel/net/mlx5_core.ko",
                 "lib/modules/6.2/extra/mlnx-ofa_kernel/ib_core.ko", "proc/kallsyms"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("0 T ib_register_peer_memory_client\t[ib_core]\n0 T other\n")
    assert capture_ofed.module_files(str(tmp_path)) == ("/lib/modules/6.1/updates/dkms/mlx5_core.ko.zst\n/lib/modules/6.2/extra/mlnx-ofa_kernel/ib_core.ko\n")
    assert parse_ofed.parse_kallsyms(capture_ofed.kallsyms(str(tmp_path))).value == {"ib_register_peer_memory_client": "ib_core"}
    assert capture_ofed.modinfo_rdma(str(tmp_path), "/nowhere") == ""
