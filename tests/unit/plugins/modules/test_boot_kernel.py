# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""boot_kernel: what is changed, what is only said in check mode, what is refused."""

from __future__ import annotations

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import grub
from ansible_collections.lockstep.gpu.plugins.modules import boot_kernel

ENTRIES = [{"title": "t", "id": "adv", "number": "0", "kernel": None, "submenu": True, "parents": []}] + [
    {"title": kernel, "id": kernel, "number": "0>%d" % number, "kernel": kernel, "submenu": False,
     "parents": [{"title": "t", "id": "adv", "number": "0"}]} for number, kernel in enumerate(["new", "old"])]


class Loader:
    """A Grub whose state is kept in memory."""

    def __init__(self, default="0", env=None, writable=True):
        self.default, self.env, self.writable, self.calls = default, env or {}, writable, []

    def read(self):
        return grub.State(ENTRIES, self.default, "saved" if "saved" in self.default else "0", dict(self.env), self.writable)

    def entry(self, state, kernel):
        return grub.entry_for(state.entries, kernel)

    def set_default(self, spec):
        self.calls.append("default")
        self.env = {"saved_entry": spec}

    def set_once(self, spec):
        self.calls.append("once")
        self.env["next_entry"] = spec

    def make_saved(self):
        self.calls.append("saved")
        self.default = "${saved_entry}"


SAVED = {"default": "${saved_entry}", "env": {"saved_entry": "adv>old"}}


def params(state, kernel=None):
    return {"state": state, "kernel": kernel}


def test_query_changes_nothing():
    result = boot_kernel.apply(Loader(**SAVED), params("query"), False)
    assert (result["changed"], result["default_before"], result["default_after"]) == (False, "old", "old")


def test_default_is_saved_entry_first():
    loader = Loader()
    result = boot_kernel.apply(loader, params("default", "old"), False)
    assert loader.calls == ["default", "saved"]
    assert (result["default_before"], result["default_after"], result["entry"]) == ("new", "old", "adv>old")
    assert not boot_kernel.apply(loader, params("default", "old"), False)["changed"]


def test_check_mode_predicts_the_run():
    for start in ({}, SAVED, dict(SAVED, env={"saved_entry": "adv>old", "next_entry": "adv>new"})):
        for wanted in (params("default", "new"), params("default", "old"), params("once", "new")):
            if wanted["state"] == "once" and not start:
                continue
            loader = Loader(**dict(start, env=dict(start.get("env", {}))))
            said = boot_kernel.apply(loader, wanted, True)
            assert loader.calls == []
            assert said == boot_kernel.apply(loader, wanted, False)


def test_once_keeps_the_default():
    result = boot_kernel.apply(Loader(**SAVED), params("once", "new"), False)
    assert (result["default_after"], result["next_before"], result["next_after"]) == ("old", None, "new")


@pytest.mark.parametrize("changes, code", [
    ({"writable": False}, "grubenv_not_writable"), ({"writable": None}, "grubenv_not_writable"),
    ({"default": "0"}, "grub_default_not_saved"), ({"env": {"x": "y"}}, "grub_default_not_saved")])
def test_trial_boot_that_could_not_return_is_refused(changes, code):
    with pytest.raises(grub.GrubError) as caught:
        boot_kernel.apply(Loader(**dict(SAVED, **changes)), params("once", "new"), False)
    assert caught.value.code == code
    assert str(caught.value).startswith(code)
