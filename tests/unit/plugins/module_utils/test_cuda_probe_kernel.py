# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an initramfs holds, and what a kernel answers to modprobe."""
from __future__ import annotations

import os

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import cuda_probe_kernel as lib
from ansible_collections.lockstep.gpu.plugins.module_utils.run import TIMED_OUT_RC, Result

KERNEL = "6.1.0-50-amd64"
CONFIG = "etc/modprobe.d/lockstep-gpu.conf\n"
NOUVEAU = "usr/lib/modules/%s/kernel/drivers/gpu/drm/nouveau/nouveau.ko\n" % KERNEL
DRIVER = "usr/lib/modules/%s/updates/dkms/nvidia-current.ko\n" % KERNEL
# Debian's package renames the module and installs it by an install line, so that modprobe says more than one thing.
NO_DEVICE = """modprobe: ERROR: could not insert 'nvidia_current': No such device
modprobe: ERROR: ../libkmod/libkmod-module.c:1047 command_do() Error running install command 'modprobe -i nvidia-current ' for module nvidia: retcode 1
modprobe: ERROR: could not insert 'nvidia': Invalid argument
"""


@pytest.mark.parametrize("text, modules, faults", [
    (CONFIG, {}, []), (CONFIG + NOUVEAU, {}, []), ("etc/fstab\n", {}, ["lacks"]), (NOUVEAU, {}, ["and holds nouveau"]),
    (CONFIG + DRIVER, {"nvidia-current": 10}, []), (CONFIG + DRIVER, {"nvidia-current": 30}, ["holds nvidia_current, and is older"]),
    (CONFIG, {"nvidia-current": 30}, []), (DRIVER, {"nvidia-current": 30}, ["lacks", "is older"])])
def test_an_initramfs(text, modules, faults):
    found = lib.content_faults(text, modules, "/lib/modules/" + KERNEL, 20, "/boot/initrd.img-" + KERNEL)
    assert len(found) == len(faults) and all(words in said for words, said in zip(faults, found))


@pytest.fixture
def root(tmp_path):
    (tmp_path / "boot").mkdir()
    (tmp_path / "sys/module/nvidia").mkdir(parents=True)
    return tmp_path


def test_an_initramfs_is_listed_by_the_distributions_tool(root, monkeypatch):
    tool = root / "lister"
    tool.write_text("#!/bin/sh\ntest -s \"$1\" && echo %s" % CONFIG)
    tool.chmod(0o755)
    monkeypatch.setattr(lib, "find_tool", lambda name: str(tool) if name == "lsinitrd" else None)
    assert "has no initramfs" in lib.content_row(KERNEL, [], 5, str(root))["detail"]
    image = root / "boot" / ("initrd.img-" + KERNEL)
    image.write_text("")
    broken = lib.content_row(KERNEL, [], 5, str(root))
    assert not broken["proven"] and broken["value"] is None and "exit status 1" in broken["detail"]
    image.write_text("x")
    assert lib.content_row(KERNEL, [], 5, str(root))["proven"]
    monkeypatch.setattr(lib, "find_tool", lambda name: None)
    assert "neither lsinitramfs nor lsinitrd" in lib.content_row(KERNEL, [], 5, str(root))["detail"]


@pytest.mark.parametrize("result, devices, value, proven", [
    (Result(0, "", ""), 1, "550.163.01", True), (Result(1, "", NO_DEVICE), 0, lib.NO_DEVICE, True), (Result(1, "", NO_DEVICE), 8, "refused", False),
    (Result(1, "", "modprobe: ERROR: could not insert 'nvidia': No such device\n"), 0, lib.NO_DEVICE, True),
    (Result(1, "", "modprobe: ERROR: could not insert 'nvidia': Exec format error\n"), 0, "refused", False),
    (Result(1, "", "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service\n"), 0, "refused", False),
    (Result(1, "", "modprobe: ERROR: could not insert 'nvidia': Unknown symbol in module, or unknown parameter (see dmesg)\n"), 0, "refused", False),
    (Result(1, "", "modprobe: FATAL: Module nvidia not found in directory /lib/modules/%s\n" % KERNEL), 0, "refused", False),
    (Result(1, "", "modprobe: ERROR: could not insert 'nvidia': Operation not permitted\n"), 0, "refused", False),
    # One part has no device, another does not fit: that is not as without a GPU.
    (Result(1, "", "modprobe: ERROR: could not insert 'drm': Exec format error\n" + NO_DEVICE), 0, "refused", False),
    (Result(TIMED_OUT_RC, "", "no answer within 5 s"), 0, "refused", False), (Result(1, "", ""), 0, "refused", False),
    (Result(127, "", "No such file or directory"), 0, "refused", False)])
def test_what_modprobe_answers(result, devices, value, proven):
    row = lib.loaded(result, "nvidia", KERNEL, devices, lambda: "550.163.01", "550.163.01")
    assert (row["value"], row["proven"]) == (value, proven)
    assert (row.get("words") == "answers as on a machine without a GPU") is (value == lib.NO_DEVICE)


def test_a_module_of_another_version_is_loaded():
    row = lib.loaded(Result(0, "", ""), "nvidia", KERNEL, 1, lambda: "535.274.02", "550.163.01")
    assert not row["proven"] and row["value"] == "535.274.02"


def test_nothing_is_loaded_where_it_must_not_be(root, monkeypatch):
    monkeypatch.setattr(lib, "run_limited", lambda *arguments: pytest.fail("modprobe was started"))
    assert lib.load_row("nvidia", KERNEL, True, 5, None, str(root), running="other")["value"] is None
    assert "check mode" in lib.load_row("nvidia", KERNEL, False, 5, None, str(root), running=KERNEL)["detail"]
    (root / "sys/module/nvidia/version").write_text("550.163.01\n")
    assert lib.load_row("nvidia", KERNEL, True, 5, "550.163.01", str(root), running=KERNEL)["proven"]


def test_gpus_are_nvidias_display_controllers(root):
    for number, (vendor, kind) in enumerate([("0x10de", "0x030000"), ("0x10de", "0x030200"), ("0x10de", "0x040300"), ("0x1002", "0x030000")]):
        folder = root / ("sys/bus/pci/devices/0000:0%d:00.0" % number)
        os.makedirs(folder)
        (folder / "vendor").write_text(vendor + "\n")
        (folder / "class").write_text(kind + "\n")
    assert lib.gpus(str(root)) == 2 and lib.gpus(str(root / "nowhere")) == 0
