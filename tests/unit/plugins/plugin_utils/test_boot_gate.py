# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate: a node that is ready, and everything that may be wrong with it or unknown about it."""
from __future__ import annotations

import copy
import functools

import pytest
from playbooks.machines import NEW, OLD, STACK, state_in_sync

from ansible_collections.lockstep.gpu.plugins.filter.plan import make_plan
from ansible_collections.lockstep.gpu.plugins.plugin_utils import boot_gate, stack

WANTED = stack.expand(STACK)


@functools.lru_cache(maxsize=1)
def whole():
    state = state_in_sync()
    state["kernel"]["running"] = OLD
    state["boot"].update(saved_entry="with-" + OLD, default_kernel=OLD)
    return state


@pytest.fixture
def state():
    return copy.deepcopy(whole())


def answers(plan):
    """What cuda_probe says of a kernel that is ready."""
    rows = {}
    for subject in plan["proof"]["gate"]["subjects"]:
        for name in ["module:" + stem for stem in plan["proof"]["gate"]["modules"]] if subject == "modules" else [subject]:
            path = "/lib/modules/%s/updates/dkms/%s.ko.xz" % (NEW, name.partition(":")[2])
            rows[name] = {"subject": name, "proven": True, "value": "x", "detail": "right", "path": path, "signed": True, "vermagic": NEW + " SMP"}
    return {"proof": rows}


def reasons(state, change=None, wanted=None, without=()):
    wanted = wanted or WANTED
    plan = make_plan(wanted, state)
    probe = answers(plan)
    if change:
        change(probe["proof"])
    for name in without:
        del probe["proof"][name]
    return boot_gate.reasons(wanted, plan, state, probe)


def test_a_node_that_is_ready_passes(state):
    assert reasons(state) == []


def _release(state, **changes):
    next(row for row in state["kernel"]["installed"] if row["release"] == NEW).update(changes)


BAD_STATES = {
    "no image": (lambda state: _release(state, image=False), "has no image"), "image unknown": (lambda state: _release(state, image=None), "whether kernel"),
    "no initramfs": (lambda state: _release(state, initramfs=False), "has no initramfs"), "initramfs unknown": (
        lambda state: _release(state, initramfs=None), "whether kernel %s has an initramfs" % NEW),
    "kernels unknown": (lambda state: state["kernel"].update(installed=None), "not known which kernels"),
    "kernel gone": (lambda state: state["kernel"].update(installed=state["kernel"]["installed"][:1]), "has no image"),
    "other build": (lambda state: _release(state, package_version="6.12.117-2"), "is installed as 6.12.117-2"),
    "stale": (lambda state: state["modprobe"].update(stale=[NEW]), "older than the blacklist"),
    "age unknown": (lambda state: state["modprobe"].update(stale=None), "It is not known whether the initramfs"),
    "modprobe unknown": (lambda state: state.update(modprobe=None), "It is not known whether the initramfs"),
    "dkms unknown": (lambda state: state.update(dkms=None), "not known what DKMS"),
    "dkms empty": (lambda state: state.update(dkms=[]), "DKMS has not installed"),
    "dkms only built": (lambda state: state["dkms"][0].update(state="built"), "DKMS has not installed"),
    "dkms other kernel": (lambda state: state["dkms"][0].update(kernel=OLD), "DKMS has not installed"),
    "dkms other version": (lambda state: state["dkms"][0].update(version="535.274.02"), "DKMS has not installed"),
    "dkms differs": (lambda state: state["dkms"][0].update(flags=["diff"]), "DKMS has not installed"),
    "secure boot unknown": (lambda state: state.update(secure_boot=None), "not known whether secure boot"),
    "work left": (lambda state: state["package_manager"]["own_pins"].popitem(), "still to be done"),
    "dpkg half-way": (lambda state: state["package_manager"].update(broken=["linux-image-" + NEW]), "still to be done"),
}


@pytest.mark.parametrize("name", BAD_STATES)
def test_one_thing_that_is_wrong_or_unknown_closes_it(state, name):
    spoil, words = BAD_STATES[name]
    spoil(state)
    assert any(words in reason for reason in reasons(state)), reasons(state)


@pytest.mark.parametrize("name", ["initramfs", "initramfs_content", "modprobe", "module:nvidia-current", "module:nvidia-current-uvm"])
def test_a_proof_that_fails_or_is_missing_closes_it(state, name):
    assert reasons(state, lambda rows: rows[name].update(proven=False, detail="it is something else.")) == ["%s: it is something else." % name]
    assert reasons(state, without=[name]) == ["%s could not be looked at." % name]


@pytest.mark.parametrize("secured, signed, words", [
    (True, True, None), (False, False, None), (True, False, "is not signed"), (True, None, "may not be signed"), (None, False, "may be on")])
def test_signatures_count_where_secure_boot_is_on(state, secured, signed, words):
    state["secure_boot"] = secured
    # The key's enrolment is judged by a rule.
    state["signing"].update(tests=[{"path": "/var/lib/dkms/mok.pub", "state": "enrolled"}])
    found = [reason for reason in reasons(state, lambda rows: rows["module:nvidia-current"].update(signed=signed)) if "nvidia-current.ko" in reason]
    assert bool(found) == bool(words) and (not words or words in found[0])


@pytest.mark.parametrize("probe", [None, {}, {"proof": {}}])
def test_no_proof_at_all_closes_it(state, probe):
    assert len(boot_gate.reasons(WANTED, make_plan(WANTED, state), state, probe)) >= 8


def test_no_state_and_no_kernel_close_it(state):
    plan = make_plan(WANTED, state)
    assert boot_gate.reasons(WANTED, plan, None, answers(plan)) == ["The node's state could not be read."]
    assert boot_gate.reasons(WANTED, {}, state, None) == ["It is not known which kernel is to be booted."]


def test_what_is_wrong_with_the_running_kernel_only_does_not_close_it(state):
    """nouveau holds the GPUs until the boot, a module of before is loaded, the old kernel has none of the driver's."""
    state["modules"]["loaded"] = {"version": "535.274.02", "flavour": "proprietary"}
    state["trial"] = {"kernel": NEW, "from": OLD, "attempts": 1, "outcome": "failed", "reason": "hung", "confirm_within": 0}
    assert reasons(state) == []


def test_what_somebody_set_for_the_next_start_closes_it_where_no_trial_replaces_it(state):
    state["boot"].update(next_entry="with-" + OLD, default_kernel=OLD)
    assert reasons(state) == []
    state["kernel"]["running"] = NEW
    assert [text for text in reasons(state) if "for the next start only, which is kernel " + OLD in text]
    state["boot"]["next_entry"] = "lockstep-gpu-trial"
    assert not [text for text in reasons(state) if "for the next start" in text]
    state["boot"]["next_entry"] = "memtest"
    assert [text for text in reasons(state) if "no kernel that is known" in text]


def test_ofed_of_nvidia_has_to_be_there_for_the_kernel(state):
    wanted = dict(WANTED, ofed={"provider": "mlnx", "version": "24.10-2.1.8.0"})
    rows = {"module:" + name: {"path": "/lib/modules/%s/updates/dkms/%s.ko" % (NEW, name), "vermagic": NEW + " SMP"} for name in boot_gate.OFED_MODULES}
    there = dict(state, dkms=[{"module": "mlnx-ofed-kernel", "version": "24.10.OFED.24.10.2.1.8.1", "kernel": NEW, "arch": "x86_64",
                               "state": "installed", "flags": []}])
    assert list(boot_gate._ofed(wanted, there, NEW, rows)) == []
    assert "OFED's modules are not built" in " ".join(boot_gate._ofed(wanted, dict(there, dkms=[dict(there["dkms"][0], kernel=OLD)]), NEW, rows))
    assert "not known for which kernels" in " ".join(boot_gate._ofed(wanted, dict(state, dkms=None, rdma=None), NEW, rows))
    rows["module:mlx5_core"]["path"] = "/lib/modules/%s/kernel/drivers/net/ethernet/mellanox/mlx5_core.ko" % NEW
    rows["module:mlx5_ib"]["vermagic"] = OLD + " SMP"
    del rows["module:ib_core"]
    told = " ".join(boot_gate._ofed(wanted, there, NEW, rows))
    assert "no mlx5_core of OFED's" in told and "mlx5_ib.ko was built for " + OLD in told and "no ib_core of OFED's" in told


@pytest.mark.parametrize("changes, expected", [
    ({"running": OLD}, {"due": ["kernel %s runs, the stack's is %s" % (OLD, NEW)], "kept": True}),
    ({"running": NEW}, {"due": [], "kept": False}), ({"running": NEW, "saved": NEW}, {"due": [], "kept": True}),
    ({"running": NEW, "saved": NEW, "loaded": "535.274.02"}, {"due": ["module 535.274.02 is loaded, the stack's is 550.163.01"], "kept": True}),
    ({"running": NEW, "saved": NEW, "loaded": "550.163.01"}, {"due": [], "kept": True}),
    ({"running": NEW, "saved": NEW, "setting": "0"}, {"due": [], "kept": False}),
    ({"running": NEW, "trial": "pending"}, {"pending": True}), ({"running": OLD, "trial": "pending"}, {"pending": True}),
    ({"running": OLD, "trial": "failed"}, {"pending": False}), ({"running": NEW, "trial": "failed"}, {"pending": True})])
def test_what_a_boot_is_about(state, changes, expected):
    state["kernel"]["running"] = changes["running"]
    saved = changes.get("saved", OLD)
    state["boot"].update(saved_entry="with-" + saved, default_kernel=saved, grub_default=changes.get("setting", "saved"))
    if "loaded" in changes:
        state["modules"]["loaded"] = {"version": changes["loaded"], "flavour": "proprietary"}
    if "trial" in changes:
        state["trial"] = {"kernel": NEW, "outcome": changes["trial"]}
    found = boot_gate.boot(WANTED, make_plan(WANTED, state), state)
    assert {key: found[key] for key in expected} == expected and found["kernel"] == NEW and found["locked"]


def test_a_new_kernel_that_becomes_the_default_by_itself_keeps_nothing(state):
    state["kernel"]["running"] = OLD
    assert not boot_gate.boot(WANTED, make_plan(WANTED, state), dict(state, new_kernel_default=True))["kept"]
