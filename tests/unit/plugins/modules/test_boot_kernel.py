# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""boot_kernel: what is changed, what is only said in check mode, what is refused."""

from __future__ import annotations

import pytest
from boot_nodes import NEW, OLD, Node, spec

from ansible_collections.lockstep.gpu.plugins.module_utils import grub
from ansible_collections.lockstep.gpu.plugins.module_utils.run import Result


@pytest.fixture(name="node")
def fixture_node(tmp_path):
    return Node(tmp_path)


def test_query_changes_nothing(node):
    result = node.apply("query")
    assert (result["changed"], result["default_before"], result["default_after"], result["trial"]) == (False, OLD, OLD, None)
    assert node.effects == 0


def test_default_is_saved_entry_first(tmp_path):
    node = Node(tmp_path, saved=None)
    result = node.apply("default", OLD)
    assert [argv[0] for argv in node.calls if argv[0] in ("grub-set-default", "update-grub")] == ["grub-set-default", "update-grub"]
    assert (result["default_before"], result["default_after"], result["entry"]) == (NEW, OLD, spec(OLD))
    assert not node.apply("default", OLD)["changed"]


@pytest.mark.parametrize("saved", [None, OLD])
@pytest.mark.parametrize("pending", [None, NEW])
@pytest.mark.parametrize("state, kernel", [("default", NEW), ("default", OLD), ("once", NEW), ("once", OLD), ("settled", None),
                                           ("withdrawn", None), ("query", None)])
def test_check_mode_predicts_the_run(tmp_path, saved, pending, state, kernel):
    node = Node(tmp_path, saved)
    if not saved and (pending or state == "once"):
        return
    if pending:
        node.apply("once", pending)
    before = node.effects
    said = node.apply(state, kernel, check=True)
    assert node.effects == before
    done = node.apply(state, kernel)
    # Whether GRUB can write its environment is known only once there is one.
    assert said == (dict(done, env_writable=None) if saved is None else done)


@pytest.mark.parametrize("change, code", [
    (lambda node: setattr(node, "abstraction", Result(0, "lvm\n", "")), "grubenv_not_writable"),
    (lambda node: setattr(node, "filesystem", Result(1, "", "x")), "grubenv_not_writable"),
    (lambda node: node.put("etc/default/grub", "GRUB_DEFAULT=0\n"), "grub_default_not_saved"),
    (lambda node: node.edit_environment("unset", "saved_entry"), "grub_default_not_saved"),
    (lambda node: node.edit_environment("set", "saved_entry=gone"), "grub_default_not_saved"),
    (lambda node: node.edit_environment("set", "saved_entry=" + spec(NEW)), "grub_default_not_saved"),
    (lambda node: node.edit_environment("set", "saved_entry=lockstep-gpu-trial"), "grub_default_not_saved"),
    (lambda node: node.put("boot/grub/grub.cfg", node.text("boot/grub/grub.cfg").replace("/custom.cfg", "/mine.cfg")), None),
    (lambda node: node.put("boot/grub/custom.cfg", "menuentry 'mine' {\n"), None), (lambda node: node.put("boot/grub/custom.cfg", "menuentry 'it {\n"), None)])
def test_trial_boot_that_could_not_return_is_refused(node, change, code):
    change(node)
    before, there = node.environment, node.traces()
    with pytest.raises(grub.GrubError) as caught:
        node.apply("once", NEW)
    assert caught.value.code == code
    assert (node.environment, node.traces(), node.text("var/lib/lockstep-gpu/trial.json")) == (before, there, None)


@pytest.mark.parametrize("text", ["menuentry 'it's mine {\n", "menuentry 'mine' {\n", "}\n}\n", "\0\xff"])
def test_a_broken_custom_cfg_is_in_nobodys_way_but_a_trials(node, text):
    node.put("boot/grub/custom.cfg", text)
    assert node.apply("query")["default_before"] == OLD
    assert node.apply("default", NEW)["default_after"] == NEW
    assert node.text("boot/grub/custom.cfg") == text
