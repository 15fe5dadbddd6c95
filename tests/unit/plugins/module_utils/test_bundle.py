# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bundles: replay, refusal of everything that leaves the folder, round trip."""

from __future__ import annotations

import os

import pytest
import yaml
from ansible_collections.lockstep.gpu.plugins.module_utils.bundle import BundleError, BundleProbe, to_bundle
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import Observation
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import PROBES
from hypothesis import given, settings
from hypothesis import strategies as st


def write(folder, inputs, **files):
    folder.mkdir(exist_ok=True)
    (folder / "bundle.yml").write_text(yaml.safe_dump({"given": {}, "inputs": inputs}), encoding="utf-8")
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return BundleProbe(str(folder), yaml.safe_load, max_bytes=10000)


def test_replay(tmp_path):
    probe = write(tmp_path / "b", [{"probe": "dkms_status", "file": "a", "stderr": "e", "rc": 0, "cmd": "dkms status", "host": "n1"},
                                   {"probe": "grubenv", "rc": 1, "stderr": "none"}, {"probe": "space", "rc": None, "reason": "slow"},
                                   {"probe": "uname_r", "rc": 0, "file": "missing"}, {"probe": "from_the_future", "rc": 0}],
                  a=b"x\xff\n", e=b"warn\n", none=b"cat: /boot/grub/grubenv: No such file or directory\n")
    assert probe.read("dkms_status") == Observation(0, "x\ufffd\n", "warn\n")
    assert probe.read("grubenv").absent("grubenv")
    assert probe.read("space").why() == "slow"
    assert probe.read("modinfo").why() == "not in the bundle"
    assert "missing" in probe.read("uname_r").why()
    assert probe.unread == ["from_the_future"]


@pytest.mark.parametrize("name", ["/etc/passwd", "../outside", "sub/../../outside", "link", "linkdir/outside", "a\0b"])
def test_a_path_that_leaves_is_refused(tmp_path, name):
    folder = tmp_path / "b"
    folder.mkdir()
    (tmp_path / "outside").write_text("secret", encoding="utf-8")
    os.symlink(tmp_path / "outside", folder / "link")
    os.symlink(tmp_path, folder / "linkdir")
    for key in ("file", "stderr"):
        with pytest.raises(BundleError, match="leaves the bundle"):
            write(folder, [{"probe": "uname_r", "rc": 0, key: name}])


def test_the_manifest_itself_must_not_leave(tmp_path):
    folder = tmp_path / "b"
    folder.mkdir()
    (tmp_path / "outside").write_text("inputs: []", encoding="utf-8")
    os.symlink(tmp_path / "outside", folder / "bundle.yml")
    with pytest.raises(BundleError, match="leaves the bundle"):
        BundleProbe(str(folder), yaml.safe_load)


def test_a_link_inside_is_fine(tmp_path):
    folder = tmp_path / "b"
    folder.mkdir()
    os.symlink("a", folder / "link")
    assert write(folder, [{"probe": "uname_r", "rc": 0, "file": "link"}], a=b"6.1\n").read("uname_r").out == "6.1\n"


def test_special_and_long_files_are_unknown(tmp_path):
    folder = tmp_path / "b"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    probe = write(folder, [{"probe": "uname_r", "rc": 0, "file": "pipe"}, {"probe": "uname_m", "rc": 0, "file": "long"}], long=b"x" * 10001)
    assert probe.read("uname_r").why() == "pipe is not a regular file"
    assert probe.read("uname_m").why() == "long is longer than 10000 bytes"


@pytest.mark.parametrize("text,message", [
    ("inputs: [", "not valid YAML"), ("[]", "needs a list"), ("", "needs a list"), ("inputs: {}", "needs a list"),
    ("inputs: [1]", "needs a `probe`"), ("inputs: [{probe: 1}]", "needs a `probe`"),
    ("inputs: [{probe: a, rc: x}]", "rc must"), ("inputs: [{probe: a, rc: true}]", "rc must"),
    ("inputs: [{probe: a, rc: 256}]", "rc must"), ("inputs: [{probe: a, rc: 0x%s}]" % ("f" * 6000), "rc must"),
    ("inputs: [{probe: a, rc: 0, ? 0x%s : 1}]" % ("f" * 6000), "unknown keys: what is no text"),
    ("inputs: [{probe: a, rc: 0, file: [b]}]", "file must be text"), ("inputs: [{probe: a, rc: 0, typo: 1}]", "typo"),
    ("inputs: [{probe: a}, {probe: a}]", "repeats"), ("!!python/object:os.system x", "not valid YAML"),
    ("inputs: [{probe: a, host: x}, {probe: b, host: y}]", "mixes the hosts x, y"),
    ("inputs: [" + "{probe: a}," * 501 + "]", "more than 500")])
def test_malformed_manifest(tmp_path, text, message):
    (tmp_path / "bundle.yml").write_text(text, encoding="utf-8")
    with pytest.raises(BundleError, match=message):
        BundleProbe(str(tmp_path), yaml.safe_load)


def test_no_bundle(tmp_path):
    with pytest.raises(BundleError, match="cannot read bundle.yml"):
        BundleProbe(str(tmp_path / "nothing"), yaml.safe_load)


plain = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\r"), max_size=50)
observation = st.one_of(st.builds(Observation, st.integers(-15, 127), plain, plain),
                        st.builds(lambda reason: Observation(None, reason=reason), st.text("abc ", min_size=1)))


@settings(max_examples=50, deadline=None)
@given(seen=st.dictionaries(st.sampled_from(sorted(PROBES)), observation, max_size=6))
def test_round_trip(tmp_path_factory, seen):
    folder = tmp_path_factory.mktemp("bundle")
    manifest, texts = to_bundle(seen)
    for name, text in texts.items():
        (folder / name).write_bytes(text.encode())
    (folder / "bundle.yml").write_text(yaml.safe_dump(manifest), encoding="utf-8")
    probe = BundleProbe(str(folder), yaml.safe_load)
    assert {name: probe.read(name) for name in seen} == seen and probe.unread == []
