# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OFED's and peer memory's rules: each where it speaks and where it is silent."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_ofed
from ansible_collections.lockstep.gpu.plugins.plugin_utils import claim, engine, knowledge, stack

KERNEL = "5.14.0-427.13.1.el9_4.x86_64"
OTHER = "5.14.0-362.8.1.el9_3.x86_64"
CODES = {"ofed_not_built_for_kernel", "inbox_module_in_use", "peermem_symbol_missing", "peermem_built_against_other_ofed", "peermem_built_against_other_driver",
         "peermem_built_without_ofed", "ofed_fails_to_build_on_kernel", "ofed_not_for_nic", "ofed_not_for_os", "doca_ofed_mismatch", "gpudirect_not_possible",
         "package_version_differs"}
MLNX = {"kind": "mlnx", "version": "24.10-1.1.4.0", "release": "24.10", "build": "1.1.4.0"}


def judged(wanted=None, state=None, target=None, purpose="audit"):
    long_form = stack.expand(claim.normal(wanted or {}, knowledge.load()), exact=False)
    return [row for row in engine.findings(long_form, state, target, purpose=purpose) if row["code"] in CODES]


def codes(*args, **world):
    return [(row["code"], row["severity"]) for row in judged(*args, **world)]


def node(**rdma):
    parts = dict.fromkeys(("modules", "files", "symbols", "passed_over", "peer_modules"))
    return {"kernel": {"running": KERNEL}, "ofed": MLNX, "rdma": dict(parts, **rdma)}


def modinfo(path, **more):
    lines = ["filename: " + path, *("%s: %s" % pair for pair in more.items())]
    return parse_ofed.parse_modinfo_rdma("\n".join(lines)).value


def files(*paths):
    return parse_ofed.parse_module_files("\n".join(paths)).value


@pytest.mark.parametrize(("rdma", "action"), [
    ({"modules": modinfo("/lib/modules/%s/kernel/drivers/infiniband/hw/mlx5/mlx5_ib.ko.xz" % KERNEL, intree="Y")}, "rebuild_ofed"),
    ({"passed_over": ["mlx5_ib"]}, "rebuild_ofed"),
    ({"modules": modinfo("/lib/modules/%s/kernel/x/mlx5_ib.ko.xz" % KERNEL), "files": files("/lib/modules/%s/extra/mlnx-ofa_kernel/mlx5_ib.ko" % KERNEL)},
     "load_module")])
def test_the_kernels_own_module_is_in_use(rdma, action):
    row, = judged(state=node(**rdma))
    assert (row["code"], row["subject"], row["verdict"], row["do"][0]["action"]) == ("inbox_module_in_use", "mlx5_ib", "broken", action)


@pytest.mark.parametrize("state", [
    node(modules=modinfo("/lib/modules/%s/extra/mlnx-ofa_kernel/mlx5_ib.ko" % KERNEL)), node(modules=modinfo("/lib/modules/%s/kernel/x/mlx5_ib.ko" % OTHER,
                                                                                                             intree="Y")),
    dict(node(modules=modinfo("/lib/modules/%s/kernel/x/mlx5_ib.ko" % KERNEL, intree="Y")), ofed={"kind": "inbox", "version": "48.0"}),
    dict(node(passed_over=["mlx5_ib"]), container=True)])
def test_other_modules_are_no_news(state):
    assert not judged(state=state)


def test_ofed_has_no_modules_for_the_kernel():
    row, = judged(state=node(files=files("/lib/modules/%s/extra/mlnx-ofa_kernel/mlx5_core.ko" % OTHER)))
    assert (row["code"], row["subject"]) == ("ofed_not_built_for_kernel", KERNEL) and OTHER in row["message"]
    assert row["do"] == [{"action": "rebuild_ofed", "target": "24.10-1.1.4.0", "kernel": KERNEL}]
    weak = node(files=files("/lib/modules/%s/extra/mlnx-ofa_kernel/mlx5_core.ko" % OTHER, "/lib/modules/%s/weak-updates/mlnx-ofa_kernel/mlx5_core.ko" % KERNEL))
    dkms = dict(node(files=[]), dkms=[{"module": "mlnx-ofed-kernel", "version": "24.10.OFED.24.10.1.1.4.1", "kernel": KERNEL, "arch": "x86_64",
                                       "state": "installed",
                                       "flags": []}])
    package = {"version": "24.10.1.1.4-1", "status": "installed", "source": None}
    packaged = dict(node(), packages={"doca-kernel-5.14.0.427.13.1.el9.4.x86.64": package})
    assert not judged(state=weak) and not judged(state=dkms) and not judged(state=packaged) and not judged(state=node(files=None))
    assert codes(state=dict(packaged, packages={"doca-kernel-5.14.0.362.8.1.el9.3.x86.64": package})) == [("ofed_not_built_for_kernel", "error")]


def event(kind, symbol, err=None, module="nvidia_peermem"):
    return {"kind": kind, "module": module, "symbol": symbol, "err": err, "text": "x", "driver": module}


@pytest.mark.parametrize(("events", "code", "actions"), [
    ([event("unknown_symbol", "ib_register_peer_memory_client", "0")], "peermem_symbol_missing", ["load_module", "rebuild"]),
    ([event("unknown_symbol", "ib_unregister_peer_memory_client", "-2", "nv_peer_mem")], "peermem_symbol_missing", ["load_module", "rebuild"]),
    ([event("symbol_version", "ib_register_peer_memory_client"), event("unknown_symbol", "ib_register_peer_memory_client", "-22")],
     "peermem_built_against_other_ofed", ["rebuild"]),
    ([event("unknown_symbol", "ib_register_peer_memory_client", "-22")], "peermem_built_against_other_ofed", ["rebuild"]),
    ([event("symbol_version", "nvidia_p2p_get_pages", None, "nv_peer_mem")], "peermem_built_against_other_driver", ["rebuild"]),
    ([event("unknown_symbol", "ib_register_peer_memory_client", "0", "other")], None, [])])
def test_symbols_of_peer_memory(events, code, actions):
    found = judged(state=dict(node(), kernel_log=events))
    assert [row["code"] for row in found] == ([code] if code else [])
    assert [step["action"] for row in found for step in row["do"]] == actions


REFUSED = [{"module": "nvidia_peermem", "why": None, "kernel": None, "text": "modprobe: ERROR: could not insert 'nvidia_peermem': Invalid argument"}]
UNKNOWN = [{"module": "nv_peer_mem", "why": "unknown_symbol", "kernel": None,
            "text": "modprobe: ERROR: could not insert 'nv_peer_mem': Unknown symbol in module"}]


@pytest.mark.parametrize(("state", "code"), [
    (dict(node(), kernel_log=[], modules={"refused": REFUSED}), "peermem_built_without_ofed"), (dict(node(), modules={"refused": REFUSED}), None),
    (node(peer_modules=modinfo("/lib/modules/k/updates/dkms/nvidia-peermem.ko", depends="nvidia")), "peermem_built_without_ofed"),
    (node(peer_modules=modinfo("/lib/modules/k/updates/dkms/nvidia-peermem.ko", depends="nvidia,ib_core")), None),
    (dict(node(peer_modules=modinfo("/lib/modules/k/updates/dkms/nvidia-peermem.ko", depends="nvidia")), ofed={"kind": "none", "version": None}), None),
    (dict(node(symbols={}), modules={"refused": UNKNOWN}), "peermem_symbol_missing"), (dict(node(), modules={"refused": UNKNOWN}), None)])
def test_peer_memory_that_modprobe_refuses(state, code):
    assert [row["code"] for row in judged(state=state)] == ([code] if code else [])


# Combinations that public sources call failing, as people write them, and neighbours that work.
MLNX_24 = "MLNX_OFED 24.10-1.1.4.0"
CLAIMS = [
    ({"ofed": "MLNX_OFED 4.9-4.1.7.0", "kernel": "5.14"}, ("ofed_fails_to_build_on_kernel", "error")),
    ({"ofed": "MLNX_OFED 4.9-4.1.7.0", "kernel": "5.4"}, None),
    ({"ofed": MLNX_24, "kernel": "5.14.0-427.13.1.el9_4.x86_64"}, None),
    ({"ofed": "DOCA-OFED (2026-01)", "kernel": ">= 6.17 mainline"}, ("ofed_fails_to_build_on_kernel", "error")),
    ({"ofed": "DOCA-OFED 3.2.1", "kernel": "6.17.0-1007-aws"}, None),
    ({"ofed": "DOCA-OFED 3.2.1", "kernel": "6.16"}, None),
    ({"ofed": "DOCA 3.2.x", "os": "EL 9.8"}, ("ofed_not_for_os", "error")),
    ({"ofed": "DOCA 3.2.1", "os": "rocky-9.8"}, ("ofed_not_for_os", "error")),
    ({"ofed": "DOCA 3.2.3", "os": "rocky-9.8"}, None),
    ({"ofed": "DOCA 3.2.2", "os": "almalinux-9.8"}, None),
    ({"ofed": "DOCA 3.2.1", "os": "rocky-9.7"}, None),
    ({"ofed": ">= 5.1", "nic": "ConnectX-3"}, ("ofed_not_for_nic", "error")),
    ({"ofed": "MLNX_OFED 4.9-4.1.7.0", "nic": "ConnectX-3 Pro"}, None),
    ({"ofed": "MLNX_OFED 24.10", "nic": "ConnectX-8, BlueField-3"}, ("ofed_not_for_nic", "warn")),
    ({"ofed": "DOCA 3.2.1", "nic": "ConnectX-8"}, None),
    ({"ofed": "public MLNX_OFED", "os": "Ubuntu 22.04.3"}, ("ofed_not_for_os", "error")),
    ({"ofed": MLNX_24, "os": "Ubuntu 22.04.5"}, None),
    ({"ofed": MLNX_24, "os": "Ubuntu 22.04.3"}, ("ofed_not_for_os", "warn")),
    ({"ofed": MLNX_24, "os": "Ubuntu 22.04.3", "kernel": "5.15.0-91-generic"}, None),
    ({"ofed": MLNX_24, "os": "Ubuntu 22.04.3", "nvidia_fs": "2.22.3"}, ("ofed_not_for_os", "error")),
    ({"doca": "2.9.3", "ofed": "25.10-1.6.6.0"}, ("doca_ofed_mismatch", "error")),
    ({"doca": "2.9.3", "ofed": "24.10-3.2.5"}, None),
    ({"doca": "3.2.3", "ofed": "26.01-1.0.0.0"}, ("doca_ofed_mismatch", "warn")),
    ({"doca": "9.9.9", "ofed": "26.01-1.0.0.0"}, None),
    ({"kernel": "4.18 / 5.4", "driver": "proprietary"}, ("gpudirect_not_possible", "warn")),
    ({"kernel": "6.8", "driver": "proprietary"}, None),
    ({"kernel": "4.18", "driver": "proprietary", "ofed": MLNX_24}, None),
    ({"kernel": "4.18", "driver": "580 open"}, None),
]


@pytest.mark.parametrize(("ofed", "nics", "expected"), [
    ("MLNX_OFED 5.8-1.0.1.1", ["15b3:1003"], ("ofed_not_for_nic", "error")), ("MLNX_OFED 5.8-1.0.1.1", ["15b3:1017"], None),
    ("DOCA 2.10.0", "Mellanox Technologies [ConnectX-4]", ("ofed_not_for_nic", "warn")), ("DOCA 2.9.3", ["ConnectX-4"], None),
    ("MLNX_OFED 23.10-3.2.2.0", ["NVIDIA CX-3"], ("ofed_not_for_nic", "error"))])
def test_adapters_of_a_target(ofed, nics, expected):
    assert set(codes({"ofed": ofed}, target={"nics": nics})) == ({expected} if expected else set())


@pytest.mark.parametrize(("words", "expected"), CLAIMS)
def test_claims(words, expected):
    found = codes(words)
    assert set(found) == ({expected} if expected else set())


def test_a_finding_of_a_claim_has_its_source():
    for words in ({"ofed": "MLNX_OFED 4.9-4.1.7.0", "kernel": "5.14"}, {"ofed": "DOCA 3.2.x", "os": "EL 9.8"}, {"ofed": ">= 5.1", "nic": "ConnectX-3"}):
        row, = judged(words)
        assert row["source"].startswith("https://") and row["verdict"] == "blocked"


@pytest.mark.parametrize(("lock", "said", "differs"), [
    ("24.10-3.2.5", MLNX, ["ofed_info 24.10-1.1.4.0, wanted 24.10-3.2.5"]), ("24.10-1.1.4.0", MLNX, []), ("24.10", MLNX, []),
    ("23.10", MLNX, ["ofed_info 24.10-1.1.4.0, wanted 23.10"])])
def test_ofed_of_another_release(lock, said, differs):
    found = judged({"ofed": lock}, {"ofed": said, "packages": {}})
    assert [row["subject"] for row in found] == differs and {row["code"] for row in found} <= {"package_version_differs"}
    if differs:
        assert found[0]["do"] == [{"action": "install_exact" if "3.2.5" in lock else "downgrade_exact", "target": "OFED %s" % lock}]


def test_the_target_has_adapters_and_secure_boot():
    with pytest.raises(engine.TargetError, match="nics"):
        engine.findings({}, target={"nics": 5})
    with pytest.raises(engine.TargetError, match="secure_boot"):
        engine.findings({}, target={"secure_boot": "on"})
    assert engine.findings({}, target={"nics": "ConnectX-7", "secure_boot": True}) == []
