# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More recordings of OFED and peer memory, in the words of public reports: what is wrong is told, and its healthy twin is not."""
from __future__ import annotations

import pytest

from .recorded import failed, found, judged

DOCA = {"os": "ubuntu-24.04", "running_kernel": "6.8.0-90-generic", "lock": {"ofed": "25.07-0.9.7.0"}}
MLNX = {"os": "ubuntu-22.04", "lock": {"ofed": "23.10-1.1.9.0"}}
TOLD = "MLNX_OFED_LINUX-23.10-1.1.9.0:\n"
OTHER = ("[Tue Sep  8 17:16:02 2026] nvidia_peermem: disagrees about version of symbol ib_register_peer_memory_client\n"
         "[Tue Sep  8 17:16:02 2026] nvidia_peermem: Unknown symbol ib_register_peer_memory_client (err -22)\n")
INVALID = failed("modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument\n")
PEERMEM = ("filename:       /lib/modules/6.8.0-90-generic/updates/dkms/nvidia-peermem.ko.zst\nversion:        570.172.08\ndepends:        %s\n"
           "name:           nvidia_peermem\n")
LOADED = "Module                  Size  Used by\nnvidia_peermem         16384  0\nnvidia              56000000  1 nvidia_peermem\n"


# github.com/NVIDIA/gpu-operator/issues/2868, Mellanox/nv_peer_memory/issues/8.
@pytest.mark.parametrize(("log", "more", "speaks"), [
    (OTHER, {"modprobe_run": INVALID}, True), ("Sep 08 17:16:02 n7 kernel: " + OTHER.split("] ")[1], {}, True), (OTHER, {"lsmod": LOADED}, False),
    ("[   10.1] nvidia_peermem: module uses symbols ib_register_peer_memory_client from proprietary module ib_core, inheriting taint.\n", {}, False)])
def test_peer_memory_built_against_another_ofed(log, more, speaks):
    record = judged(DOCA, dmesg=log, ofed_info="OFED-internal-25.07-0.9.7:\n", **more)
    assert [row[1:] for row in found(record, "peermem_built_against_other_ofed")] == ([("error", "broken")] if speaks else [])
    assert len(record["findings"]) == speaks


@pytest.mark.parametrize(("recordings", "given", "speaks"), [
    ({"modprobe_run": INVALID, "modinfo": PEERMEM % "nvidia", "ofed_info": "OFED-internal-25.07-0.9.7:\n"}, DOCA, True),
    ({"modprobe_run": INVALID, "dmesg": failed(""), "ofed_info": TOLD}, MLNX, True),
    ({"modprobe_run": INVALID, "dmesg": "", "kallsyms": failed("")}, {"os": "ubuntu-22.04"}, True),
    ({"modinfo": PEERMEM % "nvidia", "kallsyms": failed(""), "ofed_info": failed("bash: ofed_info: command not found\n", 127)}, {"os": "ubuntu-22.04"}, False),
    ({"modinfo": PEERMEM % "ib_core,nvidia", "ofed_info": "OFED-internal-25.07-0.9.7:\n"}, DOCA, False)])
def test_peer_memory_built_without_ofed(recordings, given, speaks):
    record = judged(given, **recordings)
    assert found(record, "peermem_built_without_ofed") == ([("nvidia_peermem", "error", "broken")] if speaks else [])
    assert len(record["findings"]) == speaks


# github.com/Mellanox/nv_peer_memory/issues/84: depmod says it before anybody loads the module.
@pytest.mark.parametrize("recordings", [
    {"modprobe_run": "depmod: WARNING: /lib/modules/3.10.0-1127.19.1.el7.x86_64/extra/nv_peer_mem.ko needs unknown symbol ib_register_peer_memory_client\n"},
    {"dmesg": "[   22.9] nv_peer_mem: Unknown symbol ib_register_peer_memory_client (err -2)\n"},
    {"modprobe_run": failed("modprobe: ERROR: could not insert 'nv_peer_mem': Unknown symbol in module, or unknown parameter (see dmesg)\n"),
     "kallsyms": failed("")}])
def test_a_kernel_without_the_peer_memory_interface(recordings):
    record = judged({"os": "rhel-7.8", "lock": {"ofed": "5.0-2.1.8.0"}}, **recordings)
    assert [row[1:] for row in found(record, "peermem_symbol_missing")] == [("error", "broken")]
    assert [row["action"] for row in record["plan"]] == ["load_module", "rebuild"]


def kernel(release, **recordings):
    return judged(dict(MLNX, running_kernel=release), uname_r=release + "\n", ofed_info=TOLD, **recordings)


INBOX = "/lib/modules/5.15.0-97-generic/kernel/drivers/net/ethernet/mellanox/mlx5/core/mlx5_core.ko\n"
DKMS = "mlnx-ofed-kernel/23.10.OFED.23.10.1.1.9.1, 5.15.0-91-generic, x86_64: installed\n"


# github.com/BarrinXu/FaaSMem/issues/1, Azure/azhpc-images/pull/119.
@pytest.mark.parametrize(("recordings", "codes", "actions"), [
    ({"openibd_run": failed("Module mlx5_core does not exist, skipping...               [FAILED]\nModule mlx5_ib does not exist, skipping...  [FAILED]\n")},
     {"ofed_not_built_for_kernel"}, ["rebuild_ofed"]),
    ({"modinfo_rdma": failed("modinfo: ERROR: Module mlx5_core not found.\n")}, {"ofed_not_built_for_kernel"}, ["rebuild_ofed"]),
    ({"openibd_run": failed("Module mlx5_ib belong to kernel which is not a part of MLN[FAILED]kipping...\n")}, {"inbox_module_in_use"}, ["rebuild_ofed"]),
    ({"modinfo_rdma": INBOX}, {"inbox_module_in_use"}, ["rebuild_ofed"]),
    ({"modinfo_rdma": "filename:       " + INBOX + "intree:         Y\n", "dkms_status": DKMS},
     {"inbox_module_in_use", "ofed_not_built_for_kernel", "dkms_not_built_for_kernel"}, None),
    ({"dkms_status": DKMS}, {"ofed_not_built_for_kernel", "dkms_not_built_for_kernel"}, None),
    ({"openibd_run": "Unloading HCA driver:                      [  OK  ]\nModule mlx4_core does not exist, skipping...     [FAILED]\n"}, set(), []),
    ({"ofed_module_files": "/lib/modules/5.15.0-97-generic/updates/dkms/mlx5_core.ko\n"}, set(), []),
    ({"dkms_status": DKMS.replace("-91-", "-97-"), "modinfo_rdma": INBOX.replace("/kernel/", "/updates/")}, set(), [])])
def test_a_kernel_without_ofeds_modules(recordings, codes, actions):
    record = kernel("5.15.0-97-generic", **recordings)
    assert {row["code"] for row in record["findings"]} == codes and record["verdict"] == ("broken" if codes else "in_sync")
    assert actions is None or [row["action"] for row in record["plan"]] == actions


MIXED = [("apt_run", "The following packages have unmet dependencies:\n ibverbs-providers : Depends: libibverbs1 (>= 50.0-2build2) but "
          "2410mlnx54-1.2410068 is to be installed\n", ["libibverbs1", "50.0-2build2", "2410mlnx54-1.2410068"]),
         ("apt_run", "dpkg: error processing archive /tmp/apt-dpkg-install-abc/03-rdma-core_2307mlnx47-1.2307050_amd64.deb (--unpack):\n trying to overwrite "
          "'/usr/sbin/rdma-ndd', which is also in package infiniband-diags 39.0-1\n", ["rdma-core 2307mlnx47-1.2307050", "infiniband-diags 39.0-1"]),
         ("dnf_run", "Error: \n Problem 1: package doca-ofed-3.2.1-044000.x86_64 from doca requires rdma-core = 2510mlnx58, but none of the providers can be "
          "installed\n"
          "  - cannot install both rdma-core-57.0-2.el9.x86_64 from baseos and rdma-core-2510mlnx58-1.2510122.x86_64 from doca\n",
          ["rdma-core 57.0-2.el9", "2510mlnx58-1.2510122"]),
         ("dnf_run", "Error: Package: libibverbs-22.4-5.el7.x86_64 (base)\n           Requires: rdma-core(x86-64) = 22.4-5.el7\n           Installed: "
          "rdma-core-52mlnx1-1.53100.x86_64 (@mlnx_ofed)\n               rdma-core(x86-64) = 52mlnx1-1.53100\n           Available: "
          "rdma-core-22.4-5.el7.x86_64 (base)\n               rdma-core(x86-64) = 22.4-5.el7\n", ["rdma-core", "22.4-5.el7", "52mlnx1-1.53100"])]


@pytest.mark.parametrize(("probe", "text", "words"), MIXED)
def test_two_stacks_in_one_transaction(probe, text, words):
    record = judged({}, **{probe: failed(text, 100 if probe == "apt_run" else 1)})
    row, = [row for row in record["findings"] if row["code"] == "mixed_rdma_stack"]
    assert (row["severity"], row["verdict"]) == ("error", "blocked") and all(word in row["subject"] + row["message"] for word in words)
    assert record["plan"][0]["action"] == "fail_preflight"


@pytest.mark.parametrize(("lock", "recordings", "subject"), [
    ({"doca": "2.9.3"}, {"dpkg_list": "doca-ofed\t2.9.1-018000\tii \n", "ofed_info": "OFED-internal-24.10-1.1.4:\n"}, "doca-ofed 2.9.1-018000, wanted 2.9.3"),
    ({"doca": "2.9.3"}, {"dpkg_list": "doca-ofed\t2.9.3-0.3.4\tii \n", "ofed_info": "OFED-internal-24.10-3.2.5:\n"}, None),
    ({"ofed": {"provider": "inbox", "version": "50.0"}}, {"dpkg_list": "rdma-core\t2410mlnx54-1.2410068\tii \n"},
     "rdma-core 2410mlnx54-1.2410068, wanted 50.0"),
    ({"ofed": {"provider": "inbox", "version": "50.0"}}, {"dpkg_list": "rdma-core\t50.0-2build2\tii \n"}, None),
    ({"ofed": "24.10-0.7.0"}, {"dpkg_list": "rdma-core\t2410mlnx54-1.2410068\tii \nmlnx-ofed-kernel-dkms\t24.10.OFED.24.10.0.7.0.1-1\tii \n"}, None)])
def test_a_stack_of_another_release(lock, recordings, subject):
    record = judged({"os": "ubuntu-24.04", "lock": lock}, **recordings)
    assert found(record, "package_version_differs") == ([(subject, "error", "drift")] if subject else [])


# github.com/BarrinXu/FaaSMem/issues/1, uclasystem/hermit/issues/8.
@pytest.mark.parametrize(("kernel", "verdict", "steps"), [("6.1.55", "blocked", []), ("5.4.0-91-generic", "broken", ["rebuild_ofed"])])
def test_what_is_known_not_to_build_is_not_planned(kernel, verdict, steps):
    record = judged({"os": "ubuntu-20.04", "running_kernel": kernel, "lock": {"ofed": "4.9-5.1.0.0"}}, ofed_info="MLNX_OFED_LINUX-4.9-5.1.0.0:\n",
                    openibd_run=failed("Module mlx5_core does not exist, skipping...               [FAILED]\n"))
    assert [row["severity"] for row in record["findings"] if row["code"] == "ofed_not_built_for_kernel"] == ["error"]
    assert (record["verdict"], [row["action"] for row in record["plan"]]) == (verdict, steps)


def test_what_sudo_says_before_a_module_is_loaded_is_no_failure():
    record = judged(MLNX, ofed_info=TOLD, modprobe_run="sudo: unable to resolve host n7: Name or service not known\n", lsmod=LOADED)
    assert (record["verdict"], record["findings"]) == ("in_sync", [])


# Composed in the words of kmod, after no report in particular; openibd unloads with rmmod.
@pytest.mark.parametrize(("said", "subjects"), [
    ("rmmod: ERROR: Module ib_core is in use by: nvidia_peermem\n", ["ib_core (nvidia_peermem)"]),
    ("rmmod: ERROR: Module ib_uverbs is in use by: nv_peer_mem rdma_ucm\n", ["ib_uverbs (nv_peer_mem, rdma_ucm)"]),
    ("rmmod: ERROR: Module ib_isert is in use\n", [])])
def test_peer_memory_keeps_the_stack_from_being_exchanged(said, subjects):
    record = judged(MLNX, ofed_info=TOLD, openibd_run=failed("Unloading ib_core                                          [FAILED]\n" + said))
    assert [row["subject"] for row in record["findings"] if row["code"] == "module_in_use"] == subjects


# Composed in the words of kmod, after no report in particular.
@pytest.mark.parametrize(("names", "subjects"), [
    (["nvidia-peermem"], ["nvidia_peermem@6.8.0-90-generic"]), (["nvidia", "nvidia-peermem"], ["nvidia@6.8.0-90-generic"]), (["nv_peer_mem"], [])])
def test_a_peer_memory_module_that_is_not_there(names, subjects):
    said = "".join("modprobe: FATAL: Module %s not found in directory /lib/modules/6.8.0-90-generic\n" % name for name in names)
    record = judged(DOCA, modprobe_run=failed(said), ofed_info="OFED-internal-25.07-0.9.7:\n")
    assert found(record, "kernel_module_missing") == [(subject, "error", "broken") for subject in subjects]
