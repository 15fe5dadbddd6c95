# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bundles come from strangers: whatever is in them, the answer is "unknown" or a clear error, never a traceback or a guess."""
from __future__ import annotations

import json
import os
import pathlib
import sys

import pytest
import yaml
from ansible_collections.lockstep.gpu.plugins.module_utils.bundle import BundleError, BundleProbe
from ansible_collections.lockstep.gpu.plugins.module_utils.facts import replay
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import PROBES
from ansible_collections.lockstep.gpu.plugins.plugin_utils import audit, engine, report
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

CASES = pathlib.Path(__file__).parents[3] / "fixtures" / "cases"
LOCK = {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01", "kernel": "5.15.0-91-generic", "cuda": "12.2", "nccl": "2.18.3-1", "ofed": "24.10-3.2.5"}}
JUNK = {
    "binary": bytes(range(256)) * 40,
    "zeros": b"\0" * 4096,
    "another encoding": "nvidia/535.183.01, 5.15.0-91-generic, x86_64: installed\n".encode("utf-16"),
    "one endless line": b"a" * 500000,
    "brackets": b"[" * 20000 + b"{" * 20000 + b"<a>" * 5000,
    "an entity bomb": b'<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><l>&b;</l>',
}


def bundle(folder, inputs, given_words=None, **files):
    """Write a bundle and return its probe."""
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "bundle.yml").write_text(json.dumps({"given": given_words or LOCK, "inputs": inputs}))
    return BundleProbe(str(folder), yaml.safe_load)


def judged(probe):
    record = audit.judge(replay(probe)["ansible_facts"]["lockstep"], given=probe.given)
    # What a person and a machine get must be printable too.
    json.dumps(report.document({"node": record}))
    assert all(char.isprintable() or char == "\n" for char in report.table({"node": record}))
    return record


@pytest.mark.parametrize("kind", sorted(JUNK))
@pytest.mark.parametrize("name", sorted(PROBES))
def test_junk_is_no_good_news(tmp_path, name, kind):
    record = judged(bundle(tmp_path, [{"probe": name, "file": "junk", "rc": 0}], junk=JUNK[kind]))
    assert record["verdict"] not in ("in_sync", "not_applicable"), (record["findings"], record["state"]["unknown"])


@pytest.mark.parametrize("name", sorted(PROBES))
def test_junk_of_a_failed_command_is_no_good_news_either(tmp_path, name):
    record = judged(bundle(tmp_path, [{"probe": name, "file": "junk", "rc": 77}], junk=JUNK["binary"]))
    assert record["verdict"] not in ("in_sync", "not_applicable"), (record["findings"], record["state"]["unknown"])


def test_a_hundred_megabytes_are_too_much(tmp_path):
    with open(tmp_path / "huge", "wb") as out:
        out.truncate(100 << 20)
    probe = bundle(tmp_path, [{"probe": "dpkg_list", "file": "huge", "rc": 0}, {"probe": "dkms_status", "file": "huge", "rc": 0}])
    record = judged(probe)
    assert record["verdict"] == "unknown"
    assert "longer than" in " ".join(row["message"] for row in record["findings"])


@pytest.mark.parametrize("make", [
    lambda path: path.symlink_to("/etc/passwd"), lambda path: path.symlink_to(".."), lambda path: path.symlink_to("/proc/self/environ")])
def test_a_link_out_of_the_folder_refuses_the_bundle(tmp_path, make):
    make(tmp_path / "out")
    with pytest.raises(BundleError, match="leaves the bundle's folder"):
        bundle(tmp_path, [{"probe": "uname_r", "file": "out", "rc": 0}])


@pytest.mark.parametrize("make", [lambda path: path.mkdir(), os.mkfifo, lambda path: None, lambda path: path.symlink_to("loop")])
def test_what_is_no_file_is_unknown(tmp_path, make):
    make(tmp_path / "loop")
    try:
        record = judged(bundle(tmp_path, [{"probe": "dkms_status", "file": "loop", "rc": 0}]))
    except BundleError as error:
        assert "leaves" in str(error)
    else:
        assert record["verdict"] == "unknown"


def test_an_empty_bundle_proves_nothing(tmp_path):
    record = judged(bundle(tmp_path, []))
    assert record["verdict"] == "unknown" and [row["code"] for row in record["findings"]] == ["no_evidence"]


def halves():
    """(case, bundle, file) of every recording of the cases."""
    for manifest in sorted(CASES.glob("*/*/bundle.yml")):
        for row in yaml.safe_load(manifest.read_text())["inputs"]:
            yield manifest.parent, row["probe"], (manifest.parent / row["file"]).read_bytes()


HALVES = list(halves())


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(HALVES), st.data())
def test_half_a_recording_is_never_a_traceback(tmp_path, recording, data):
    folder, name, content = recording
    cut = content[:data.draw(st.integers(0, len(content)))] + data.draw(st.binary(max_size=12))
    source = yaml.safe_load((folder / "bundle.yml").read_text())
    judged(bundle(tmp_path, [{"probe": name, "file": "half", "rc": 0}], source["given"], half=cut))


WORDS = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20), lambda inner: st.lists(
    inner, max_size=3) | st.dictionaries(st.text(max_size=12) | st.sampled_from(sorted(LOCK["lock"])), inner, max_size=4), max_leaves=8)


@given(st.dictionaries(st.sampled_from(["os", "lock", "running_kernel", "next_boot_kernel", "arch"]), WORDS))
def test_any_words_of_a_stranger_can_be_judged(words):
    record = audit.judge({}, given=words)
    assert record["verdict"] in engine.VERDICTS


def test_the_work_is_linear(tmp_path):
    """Ten times the lines may take at most twenty times the calls: a square would be a hundred times."""
    def calls(count, name, line):
        probe = bundle(tmp_path, [{"probe": name, "file": "long", "rc": 0}], long=line * count)
        counted = 0

        def count_one(_frame, event, _argument):
            nonlocal counted
            counted += event.endswith("call")
        sys.setprofile(count_one)
        try:
            judged(probe)
        finally:
            sys.setprofile(None)
        return counted
    lines = {
        "dkms_status": b"nvidia/1.%d, 5.15.0-91-generic, x86_64: installed\n",
        "dpkg_list": b"libnvidia-a%d\t1-1\tii \n",
        "dmesg": b"[ 1.0] NVRM: Xid %d\n"}
    for name, line in lines.items():
        assert calls(3000, name, line) < 20 * calls(300, name, line), name
