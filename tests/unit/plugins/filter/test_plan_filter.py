# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan filter: what the node adds to a stack."""
from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError

from ansible_collections.lockstep.gpu.plugins.filter.lockstep import expand
from ansible_collections.lockstep.gpu.plugins.filter.plan import make_plan
from ansible_collections.lockstep.gpu.plugins.plugin_utils import stack

AUTO = {"os": "debian-12", "driver": {"version": "535.261.03", "flavour": "auto"}}


@pytest.mark.parametrize("state, flavour, kernel", [
    ({"gpus": [{"id": "10de:2901"}], "kernel": {"running": "6.1.0-50-amd64"}}, "open", "6.1.0-50-amd64"),
    ({"gpus": [{"id": "10de:1db1"}], "kernel": {"running": "6.1.0-50-amd64"}}, "proprietary", "6.1.0-50-amd64"),
    # A container sees its host's boards and kernel, and has neither.
    ({"gpus": [{"id": "10de:2901"}], "kernel": {"running": "6.1.0-50-amd64"}, "container": True}, "proprietary", None),
])
def test_the_node_decides_what_the_stack_leaves_open(state, flavour, kernel):
    found = make_plan(stack.expand(AUTO), state)
    assert (found["flavour"], found["dkms"]["kernel"]) == (flavour, kernel)


@pytest.mark.parametrize("more, key", [
    ({"modules": {"gdrdrv": "2.5"}}, "modules"), ({"expect": {"gpus": 8}}, "expect"),
    ({"driver": {"version": "550.163.01", "module": "prebuilt"}}, "driver.module"),
    ({"kernel": {"release": "6.12.117+deb13-amd64", "package_version": "6.12.117-1", "cmdline": ["iommu=pt"]}}, "kernel.cmdline"),
])
def test_what_nothing_acts_on_is_refused(more, key):
    with pytest.raises(AnsibleFilterError) as error:
        expand(dict({"os": "debian-13"}, **more))
    assert "'" + key in str(error.value) and "served are os, kernel" in str(error.value)
    assert expand(more, exact=False)        # a claim may say anything


def test_unread_packages_are_not_missing_packages():
    with pytest.raises(AnsibleFilterError):
        make_plan(stack.expand(AUTO), {"packages": None})


def test_a_named_kernel_counts_before_the_running_one():
    found = make_plan(stack.expand(AUTO), {"kernel": {"running": "6.1.0-47-amd64"}}, kernel="6.1.0-50-amd64")
    assert found["dkms"]["kernel"] == "6.1.0-50-amd64" == found["proof"]["kernel"]
