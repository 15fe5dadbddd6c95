# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module itself: documentation, and a real run on this machine."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys

import yaml
from ansible_collections.lockstep.gpu.plugins.module_utils import facts
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import DEFAULT_TIMEOUT, Observation
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import BUNDLE, LEVELS
from ansible_collections.lockstep.gpu.plugins.modules import node_facts


def run(**args):
    """The module's answer from a process of its own."""
    code = ("import sys; from ansible.module_utils import basic; basic._ANSIBLE_ARGS = sys.argv[1].encode();"
            "basic._ANSIBLE_PROFILE = 'legacy';"
            "from ansible_collections.lockstep.gpu.plugins.modules.node_facts import main; main()")
    done = subprocess.run([sys.executable, "-c", code, json.dumps({"ANSIBLE_MODULE_ARGS": args})], capture_output=True, text=True, check=False)
    return json.load(io.StringIO(done.stdout))


def test_options_are_documented_as_they_are():
    options = yaml.safe_load(node_facts.DOCUMENTATION)["options"]
    assert options["gather"]["choices"] == list(facts.LEVELS)
    assert options["probe_timeout"]["default"] == DEFAULT_TIMEOUT


def test_a_real_run_in_check_mode():
    result = run(_ansible_check_mode=True, gather=["local", "gpu"])
    state = result["ansible_facts"]["lockstep"]
    assert result["changed"] is False and result["unknown"] == len(state["unknown"])
    assert state["gathered"] == ["local"] and state["kernel"]["running"]
    assert "nvidia_smi_query" in {item["probe"] for item in state["unknown"]}


def test_a_bundle_is_not_for_the_node():
    assert "action plugin" in run(bundle="/x")["msg"]


def test_the_documentation_names_every_key_of_the_state():
    class Nothing:
        """A node of which nothing can be read."""

        def start(self, names):
            pass

        def read(self, name):
            return Observation(None, reason="nothing")
    documented = yaml.safe_load(node_facts.RETURN)["ansible_facts"]["contains"]["lockstep"]["description"]
    assert set(re.findall(r"C\((\w+)\)", " ".join(documented))) == set(facts.assemble(Nothing(), (*LEVELS, BUNDLE)))
