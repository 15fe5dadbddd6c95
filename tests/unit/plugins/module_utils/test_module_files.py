# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Module files: found by name, described by modinfo, judged for a kernel and a version."""

from __future__ import annotations

import hashlib

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import module_files
from ansible_collections.lockstep.gpu.plugins.module_utils.run import Result

KERNEL = "6.12.74+deb13+1-amd64"


@pytest.mark.parametrize("path, name", [
    ("/x/nvidia-current.ko.xz", "nvidia-current"), ("nvidia.ko", "nvidia"), ("a.ko.zst", "a"), ("b.ko.gz", "b"),
    ("nvidia.conf", None), ("nvidia.ko.sig", None)])
def test_stem(path, name):
    assert module_files.stem(path) == name


def test_updates_win_and_other_places_are_searched(tmp_path):
    for place in ("kernel/drivers/video/nvidia.ko.xz", "updates/dkms/nvidia.ko", "kernel/drivers/net/mlx5_core.ko.xz", "extra/nvidia-uvm.ko"):
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text("x")
    found = module_files.find(str(tmp_path), ["nvidia", "mlx5_core", "nvidia-uvm", "nvidia-drm"])
    assert {name: path[len(str(tmp_path)) + 1:] for name, path in found.items()} == {
        "nvidia": "updates/dkms/nvidia.ko", "mlx5_core": "kernel/drivers/net/mlx5_core.ko.xz", "nvidia-uvm": "extra/nvidia-uvm.ko"}


def test_describe_in_one_call(tmp_path):
    paths = [str(tmp_path / name) for name in ("a.ko", "cut.ko")]
    for path in paths:
        with open(path, "w", encoding="utf-8") as handle:
            handle.write("content")
    calls = []

    def run(argv, ok):
        calls.append(argv)
        return Result(1, "filename: %s\nversion: 1.2\nvermagic: %s SMP\nsigner: me\n" % (paths[0], KERNEL), "modinfo: ERROR\n")

    good, cut = module_files.describe(run, paths)
    assert calls == [["modinfo", *paths]]
    assert (good["version"], good["signer"], good["license"]) == ("1.2", "me", None)
    assert good["sha256"] == hashlib.sha256(b"content").hexdigest()
    assert cut["vermagic"] is None
    assert module_files.describe(run, []) == []


@pytest.mark.parametrize("vermagic, version, count", [
    (KERNEL + " SMP preempt", "1", 0), (KERNEL + " SMP", None, 0), ("6.12.74+deb13-amd64 SMP", "1", 1), (KERNEL + "x SMP", "1", 1),
    (KERNEL + " SMP", "2", 1), ("6.1 SMP", "2", 2), (None, None, 1)])
def test_faults(vermagic, version, count):
    assert len(module_files.faults({"path": "p", "vermagic": vermagic, "version": version}, KERNEL, "1")) == count
