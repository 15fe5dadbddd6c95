# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The action plugin: one remote call, or a bundle here."""

from __future__ import annotations

import pathlib
from types import SimpleNamespace

import pytest
from ansible.errors import AnsibleActionFail
from ansible.parsing.dataloader import DataLoader
from ansible.plugins.action import ActionBase
from ansible_collections.lockstep.gpu.plugins.action.node_facts import ActionModule

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures" / "bundles"


@pytest.fixture
def action(monkeypatch):
    """A function that runs the plugin with arguments; `calls` counts remote calls."""
    calls = []
    monkeypatch.setattr(ActionBase, "run", lambda self, tmp=None, task_vars=None: {})
    monkeypatch.setattr(ActionModule, "_execute_module", lambda self, **options: calls.append(options) or {"remote": True})
    loader = DataLoader()
    loader.set_basedir(str(FIXTURES))

    def run(**args):
        plugin = ActionModule.__new__(ActionModule)
        plugin._task = SimpleNamespace(args=args)
        plugin._loader = loader
        plugin._templar = None
        return plugin.run(task_vars={})

    run.calls = calls
    return run


def test_without_a_bundle_the_module_runs_once(action):
    assert action(gather=["local"]) == {"remote": True}
    assert [(call["module_name"], call["module_args"]) for call in action.calls] == [
        ("lockstep.gpu.node_facts", {"gather": ["local"]})]


def test_a_bundle_beside_the_playbook_touches_no_node(action):
    result = action(bundle="debian13-550", gather=["local"])
    assert result["changed"] is False and result["unknown"] == 0 and action.calls == []
    assert result["ansible_facts"]["lockstep"]["os"]["release"] == "13"


def test_no_bundle_there(action):
    with pytest.raises(AnsibleActionFail, match="nothing-here: cannot read bundle.yml"):
        action(bundle="nothing-here")


def test_a_wrong_level(action):
    with pytest.raises(Exception, match="gather"):
        action(bundle="debian13-550", gather=["everything"])
