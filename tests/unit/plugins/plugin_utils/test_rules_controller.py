# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about Ansible's own side."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine

ERROR = {"kind": None, "minimum": None, "python": None, "interpreter": None, "bindings": [], "local_reboot": False}


def found(**controller):
    rows = engine.findings({}, {"controller": controller}, purpose="audit")
    return [row for row in rows if row["code"] in ("target_python_too_old", "package_bindings_missing")]


def python(version, path=None):
    return {"path": path, "version": version}


@pytest.mark.parametrize("core,version,subject,core_to_use", [
    ("2.17.5", "3.6.8", "3.6.8 < 3.7 for ansible-core 2.17 (3.8 for 2.18)", "2.16"), ("2.18.1", "3.7.17", "3.7.17 < 3.8 for ansible-core 2.18 (3.9 for 2.20)",
                                                                                      "2.17"),
    ("2.20.0", "3.8.20", "3.8.20 < 3.9 for ansible-core 2.20", "2.19"), ("2.19.2", "3.6.8", "3.6.8 < 3.8 for ansible-core 2.19 (3.9 for 2.20)", "2.16"),
    ("2.17.0", "2.7.5", "2.7.5 < 3.7 for ansible-core 2.17 (3.8 for 2.18)", "2.16"), ("2.16.1", "3.5.2", "3.5.2 < 3.6 for ansible-core 2.16 (3.7 for 2.17)",
                                                                                      "2.15"),
    ("2.13.13", "2.6.6", "2.6.6 < 3.5 for ansible-core 2.13 (3.6 for 2.16)", None), (None, "3.6.8", "3.6.8 < 3.7 for ansible-core 2.17 (3.8 for 2.18)",
                                                                                     "2.16")])
def test_too_old(core, version, subject, core_to_use):
    (row,) = found(ansible=core, python=python(version))
    assert (row["subject"], row["verdict"], row["severity"]) == (subject, "blocked", "error") and row["source"]
    (step,) = row["do"]
    assert step["action"] == "fail_preflight" and (core_to_use is None or "ansible-core %s " % core_to_use in step["target"])


@pytest.mark.parametrize("core,version", [("2.17.5", "3.7.0"), ("2.16.3", "3.6.8"), ("2.16.3", "2.7.5"), ("2.9.27", "3.5.2"), ("2.21.5", "3.9.2"), ("2.18.0",
                                                                                                                                                    "3.12.3"),
                                          ("9.9", "3.6.8"), (None, "3.9.2")])
def test_new_enough(core, version):
    assert found(ansible=core, python=python(version)) == []


def test_only_the_transcript():
    old = dict(ERROR, kind="python_too_old", minimum="3.7")
    assert [row["subject"] for row in found(error=old)] == ["older than 3.7"]
    assert [row["subject"] for row in found(error=old, ansible="2.18.3")] == ["older than 3.7 for ansible-core 2.18"]
    told = dict(ERROR, kind="python_too_old", minimum="3.8", python="3.7.17")
    assert [row["subject"] for row in found(error=told)] == ["3.7.17 < 3.8 for ansible-core 2.18 (3.9 for 2.20)"]
    assert [row["subject"] for row in found(error=dict(ERROR, kind="python_missing", interpreter="/usr/bin/python3"))] == ["no Python at /usr/bin/python3"]
    assert [row["subject"] for row in found(python=python(None))] == ["no Python at the node"]
    assert found(error=ERROR) == [] and found() == []


def binding(package, interpreter=None, version=None):
    return dict(ERROR, bindings=[{"package": package, "interpreter": interpreter, "version": version, "attempted": []}])


@pytest.mark.parametrize("package,interpreter,version,subject,actions", [
    ("python3-apt", None, None, "python3-apt for the node's Python", ["fail_preflight", "install_exact"]),
    ("python3-dnf", "/usr/bin/python3", "3.9.18", "python3-dnf for /usr/bin/python3 3.9.18", ["fail_preflight", "install_exact"]),
    ("python3-dnf", "/usr/bin/python3.11", "3.11.7", "python3-dnf for /usr/bin/python3.11 3.11.7", ["fail_preflight", "manual"]),
    ("python3-apt", "/opt/venv/bin/python", None, "python3-apt for /opt/venv/bin/python", ["fail_preflight", "manual"])])
def test_bindings(package, interpreter, version, subject, actions):
    (row,) = found(error=binding(package, interpreter, version))
    assert (row["subject"], row["verdict"]) == (subject, "blocked") and [step["action"] for step in row["do"]] == actions
