# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about CDI specifications, DCGM and its exporter."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine

OLD, NEW = "535.161.08", "550.54.14"
LIBRARY = "/usr/lib/x86_64-linux-gnu/libcuda.so."


def found(state, stack=None):
    return [row for row in engine.findings(stack or {}, state, purpose="audit") if row["code"] in ("cdi_spec_stale", "dcgm_exporter_mismatch")]


def said(*args):
    return [(row["code"], row["subject"], row["verdict"]) for row in found(*args)]


def spec(*versions, path="/etc/cdi/nvidia.yaml"):
    return {"path": path, "kind": "nvidia.com/gpu", "versions": list(versions), "devices": ["all"], "paths": [LIBRARY + one for one in versions]}


def node(loaded=None, libraries=(), **containers):
    return {"modules": {"loaded": {"version": loaded, "flavour": "open"} if loaded else None}, "containers": containers,
            "libraries": [{"soname": "libcuda.so.1", "version": version, "path": "/x"} for version in libraries]}


STALE = ("cdi_spec_stale", "/etc/cdi/nvidia.yaml: %s / %s" % (OLD, NEW), "drift")


@pytest.mark.parametrize("state,expected", [
    (node(NEW, cdi=[spec(OLD)]), [STALE]), (node(NEW, [NEW], cdi=[spec(NEW)]), []), (node(None, [NEW], cdi=[spec(OLD)]), [STALE]),
    # what is on disk is given to containers, not what is loaded
    (node(OLD, [NEW], cdi=[spec(NEW)]), []), (node(OLD, [NEW], cdi=[spec(OLD)]), [STALE]),
    (node(NEW, cdi=[]), []), (node(NEW, cdi=None), []), (node(None, cdi=[spec(OLD)]), []), (node(NEW, cdi=[spec()]), []),
    (node(None, cdi=[spec(OLD)], cdi_missing=[LIBRARY + OLD]), [("cdi_spec_stale", "/etc/cdi/nvidia.yaml: %s" % (LIBRARY + OLD), "drift")]),
    (node(NEW, cdi=None, run={"missing": [LIBRARY + OLD], "unresolved": [], "mismatch": False}), [STALE[:2] + ("broken",)]),
    (node(OLD, cdi=None, run={"missing": [LIBRARY + OLD], "unresolved": [], "mismatch": False}), []),
    (node(NEW, cdi=[spec(OLD)], run={"missing": [LIBRARY + OLD], "unresolved": [], "mismatch": False}), [STALE[:2] + ("broken",)]),
    (node(NEW, cdi=[], run={"missing": [], "unresolved": ["nvidia.com/gpu=all"], "mismatch": False}),
     [("cdi_spec_stale", "/etc/cdi/nvidia.yaml, nvidia.com/gpu=all", "broken")])])
def test_cdi(state, expected):
    assert said(state) == expected


def test_cdi_beside_the_stacks_driver_only():
    assert said(node(None, cdi=[spec(OLD)]), {"driver": {"version": NEW}}) == [STALE]
    assert said(node(None, cdi=[spec(OLD)]), {"driver": {"version": "550"}}) == []


def test_the_step_writes_that_file():
    (row,) = found(node(NEW, cdi=[spec(OLD, path="/var/run/cdi/nvidia.yaml")]))
    assert row["do"] == [{"action": "rewrite_file", "target": "/var/run/cdi/nvidia.yaml",
                          "command": "nvidia-ctk cdi generate --output=/var/run/cdi/nvidia.yaml"}]


LOG = {"mismatch": "Error getting device busid: API version mismatch", "library": None, "dcgm": None, "exporter": None}


@pytest.mark.parametrize("dcgm,subject,target", [
    ({"version": "2.0.13", "log": LOG, "exporter": {"dcgm": "3.3.5", "exporter": "3.4.0"}}, "host engine 2.0.13 / exporter for 3.3.5",
     "datacenter-gpu-manager=3.3.5"),
    ({"version": "2.1.4", "log": LOG}, "host engine 2.1.4", "datacenter-gpu-manager of the exporter's DCGM version"),
    ({"version": "3.3.5", "host_engine": "3.1.8", "log": LOG}, "host engine 3.1.8", "datacenter-gpu-manager of the exporter's DCGM version"),
    ({"version": "3.3.9", "exporter": {"dcgm": "4.2.3", "exporter": "4.1.3"}}, "host engine 3.3.9 / exporter for 4.2.3", "datacenter-gpu-manager-4-core=4.2.3"),
    ({"log": dict(LOG, mismatch=None, library="4")}, "host engine of an unknown version", "datacenter-gpu-manager of the exporter's DCGM version"),
    ({"version": "3.3.9", "exporter": {"dcgm": "3.3.5", "exporter": "3.4.0"}}, None, None), ({"version": "2.1.4"}, None, None),
    ({"version": "2.1.4", "log": dict(LOG, mismatch=None)}, None, None), ({}, None, None)])
def test_dcgm(dcgm, subject, target):
    rows = found({"dcgm": dcgm})
    assert [(row["subject"], row["do"][0]["target"]) for row in rows] == ([(subject, target)] if subject else [])
    assert not any("driver" in row["message"] for row in rows)


def test_the_installed_package_tells_the_host_engine():
    packages = {"datacenter-gpu-manager": {"version": "1:3.1.8", "status": "installed", "source": None}}
    assert [row["subject"] for row in found({"dcgm": {"log": LOG}, "packages": packages})] == ["host engine 3.1.8"]
