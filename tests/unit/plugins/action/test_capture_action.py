# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The folder that capture writes."""
from __future__ import annotations

import pytest
import yaml
from ansible_collections.lockstep.gpu.plugins.action import capture
from ansible_collections.lockstep.gpu.plugins.module_utils.bundle import BundleProbe, to_bundle
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import Observation

SEEN = {"uname_r": Observation(0, "6.1.0-50-amd64\n"), "dkms_status": Observation(127, "", "dkms: command not found\n"),
        "proc_cmdline": Observation(None, reason="no answer within 15 s")}


def test_a_bundle_gives_back_what_was_seen(tmp_path):
    path = capture.write(str(tmp_path / "a" / "node1"), *to_bundle(SEEN))
    probe = BundleProbe(path, yaml.safe_load)
    assert {name: probe.read(name) for name in SEEN} == SEEN


def test_an_older_bundle_is_replaced_as_a_whole(tmp_path):
    capture.write(str(tmp_path / "node1"), *to_bundle(SEEN))
    capture.write(str(tmp_path / "node1"), *to_bundle({"uname_r": SEEN["uname_r"]}))
    assert sorted(path.name for path in (tmp_path / "node1").iterdir()) == ["bundle.yml", "uname_r.txt"]
    assert [path.name for path in tmp_path.iterdir()] == ["node1"]


def test_a_folder_of_other_things_is_left_alone(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_text("")
    with pytest.raises(ValueError, match="something else"):
        capture.write(str(tmp_path / "photos"), *to_bundle(SEEN))
