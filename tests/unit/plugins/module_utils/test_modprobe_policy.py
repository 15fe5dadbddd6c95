# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""modprobe_policy: the file, when an initramfs has to be made anew, and what a death half-way leaves."""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
from collections import namedtuple

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import capture_security
from ansible_collections.lockstep.gpu.plugins.module_utils import modprobe_policy as policy
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_module_config as config
from ansible_collections.lockstep.gpu.plugins.modules.modprobe_policy import apply

Result = namedtuple("Result", ["rc", "out", "err"])
KERNEL = "6.1.0-50-amd64"
TOOLS = os.environ["PATH"] + ":/usr/sbin:/sbin"
TEXT = policy.render()


class Boot:
    """A root with one kernel, and the tools of a distribution as functions on it."""

    def __init__(self, root, image="boot/initrd.img-" + KERNEL, tools=("update-initramfs", "lsinitramfs")):
        self.root, self.image, self.tools, self.calls = root, root / image, tools, []
        self.image.parent.mkdir(parents=True, exist_ok=True)
        self.image.write_text("")
        os.utime(self.image, (1000, 1000))

    def find(self, name):
        return "/usr/sbin/" + name if name in self.tools else None

    def __call__(self, argv, ok=(0,), **_more):
        self.calls.append(argv[0])
        if argv[0].startswith("lsinit"):
            return Result(0, pathlib.Path(argv[1]).read_text(), "")
        target = self.image if argv[0] == "update-initramfs" else pathlib.Path(argv[-1])
        held = [path for path in (policy.FILE,) if (self.root / path.lstrip("/")).exists()]
        fresh = target.with_name(target.name + ".fresh")
        fresh.write_text("".join("drwxr-xr-x %s\n" % path.lstrip("/") for path in held))
        fresh.rename(target)
        return Result(0, "", "")

    @property
    def node(self):
        return policy.Node(self, self.find, str(self.root))


@pytest.fixture(params=[
    ("boot/initrd.img-" + KERNEL, ("update-initramfs", "lsinitramfs")), ("boot/initramfs-%s.img" % KERNEL, ("dracut", "lsinitrd")),
    ("boot/initrd-" + KERNEL, ("dracut", "lsinitrd"))], ids=["debian", "el", "suse"])
def boot(request, tmp_path):
    return Boot(tmp_path, *request.param)


def test_the_file_is_written_and_the_initramfs_made_once(boot):
    planned = apply(boot.node, TEXT, KERNEL, True)
    assert (planned["changed"], planned["initramfs"]) == (True, "rebuilt") and not (boot.root / "etc").exists()
    done = apply(boot.node, TEXT, KERNEL, False)
    assert (done["changed"], done["initramfs"], done["diff"]) == (True, "rebuilt", planned["diff"])
    assert (boot.root / policy.FILE.lstrip("/")).read_text() == TEXT and policy.FILE.lstrip("/") in boot.image.read_text()
    again = apply(boot.node, TEXT, KERNEL, False)
    assert (again["changed"], again["initramfs"]) == (False, "current")
    assert not [path for path in boot.root.rglob("*") if path.name.endswith(".new") or path.name.startswith(".lockstep")]


def test_a_run_that_died_behind_the_file_is_finished(boot):
    boot.node.write(TEXT)
    done = apply(boot.node, TEXT, KERNEL, False)
    assert (done["changed"], done["initramfs"]) == (True, "rebuilt") and "is older than" in done["reason"]


def killed():
    raise OSError("killed")


def test_a_run_that_died_before_the_rename_left_the_old_file(boot, monkeypatch):
    boot.node.write("old\n")
    monkeypatch.setattr(policy.os, "rename", lambda *_paths: killed())
    with pytest.raises(OSError):
        boot.node.write(TEXT)
    assert boot.node.text() == "old\n"
    monkeypatch.undo()
    assert apply(boot.node, TEXT, KERNEL, False)["changed"] and boot.node.text() == TEXT


def test_a_newer_initramfs_without_the_file_is_made_anew(boot):
    boot.node.write(TEXT)
    boot.image.write_text("etc/fstab\n")
    os.utime(boot.image, (4e9, 4e9))
    assert "does not hold" in apply(boot.node, TEXT, KERNEL, False)["reason"]


def test_changed_options_reach_the_initramfs(boot):
    apply(boot.node, TEXT, KERNEL, False)
    text = policy.render(policy.options_of({"NVreg_OpenRmEnableUnsupportedGpus": True}))
    done = apply(boot.node, text, KERNEL, False)
    assert done["initramfs"] == "rebuilt" and boot.node.text() == text and done["diff"][0]["before"] == TEXT


def test_a_clock_that_went_back_makes_no_loop(boot):
    boot.node.write(TEXT)
    os.utime(boot.root / policy.FILE.lstrip("/"), (4e9, 4e9))
    apply(boot.node, TEXT, KERNEL, False)
    assert not apply(boot.node, TEXT, KERNEL, False)["changed"]


def test_a_tool_that_does_nothing_is_told(boot, monkeypatch):
    monkeypatch.setattr(Boot, "__call__", lambda self, argv, ok=(0,): Result(0, "", ""))
    if "dracut" in boot.tools:
        with pytest.raises(OSError):
            apply(boot.node, TEXT, KERNEL, False)
    else:
        with pytest.raises(policy.PolicyError, match="update_initramfs=no"):
            apply(boot.node, TEXT, KERNEL, False)
    assert boot.node.why_rebuild(KERNEL, TEXT)       # and the next run does not take it for done


@pytest.mark.parametrize("kernel, tools, word", [
    (KERNEL, (), "no_tool"), ("6.1.0-47-amd64", ("update-initramfs",), "absent"), (None, ("update-initramfs",), "not_asked")])
def test_where_there_is_nothing_to_make_the_file_alone_is_written(tmp_path, kernel, tools, word):
    boot = Boot(tmp_path, tools=tools)
    done = apply(boot.node, TEXT, kernel, False)
    assert (done["changed"], done["initramfs"]) == (True, word) and boot.calls == [] and boot.node.text() == TEXT
    assert not apply(boot.node, TEXT, kernel, False)["changed"]


def test_dracut_is_told_to_take_the_file(tmp_path):
    boot = Boot(tmp_path, "boot/initramfs-%s.img" % KERNEL, ("dracut", "lsinitrd"))
    apply(boot.node, TEXT, KERNEL, False)
    # dracut.conf(5) is a piece of bash.
    told = subprocess.run(["bash", "-c", ". %s; echo $install_items; echo $omit_drivers" % (boot.root / policy.DRACUT_FILE.lstrip("/"))],
                          capture_output=True, text=True, check=True)
    assert told.stdout.splitlines()[-2:] == [policy.FILE, "nouveau nova_core nova_drm"]


@pytest.mark.parametrize("options, line", [
    ({"NVreg_EnableGpuFirmware": 0}, "options nvidia NVreg_EnableGpuFirmware=0"), ({"nvidia-drm.modeset": True}, "options nvidia_drm modeset=1"),
    ({"NVreg_RegistryDwords": "A=1;B=2"}, "options nvidia NVreg_RegistryDwords=A=1;B=2"), ({"nvidia.a": "b c"}, 'options nvidia a="b c"')])
def test_options(options, line):
    assert line in policy.render(policy.options_of(options)).splitlines()


@pytest.mark.parametrize("options", [
    {"a b": 1}, {"a": ""}, {"a": "x\nblacklist nvidia"}, {"a": 'x" y="1'}, {"a": "x # y"}, {"a.b.c": 1}, {"a": "x" * 2000}, {"-a": 1}])
def test_options_that_would_say_something_else_are_refused(options):
    with pytest.raises(policy.PolicyError):
        policy.options_of(options)


def test_renamed_modules_get_the_options_too():
    aliases = policy.aliases_of(["nvidia-current", "nvidia-current-drm", "nvidia-peermem", "nvidia-uvm"])
    assert aliases == {"nvidia": ["nvidia-current"], "nvidia_drm": ["nvidia-current-drm"]}
    assert policy.aliases_of(["nvidia-tesla-535-modeset"]) == {"nvidia_modeset": ["nvidia-tesla-535-modeset"]}
    lines = policy.render(policy.options_of({"a": 1, "nvidia_drm.b": 2}), aliases).splitlines()
    assert lines[-4:] == ["options nvidia a=1", "options nvidia-current a=1", "options nvidia_drm b=2", "options nvidia-current-drm b=2"]


def test_modprobe_itself_reads_it(tmp_path):
    """The oracle: what modprobe says its configuration is."""
    (tmp_path / "a.conf").write_text(policy.render(policy.options_of({"NVreg_X": "b c", "nvidia-drm.modeset": 1}), {"nvidia": ["nvidia-current"]}))
    shown = subprocess.run([shutil.which("modprobe", path=TOOLS), "--showconfig", "-C", str(tmp_path)],
                           capture_output=True, text=True, check=True).stdout.splitlines()
    assert [line for line in shown if line.startswith("blacklist")] == ["blacklist " + name for name in policy.BLACKLIST]
    assert {"options nouveau modeset=0", 'options nvidia NVreg_X="b c"', 'options nvidia_current NVreg_X="b c"',
            "options nvidia_drm modeset=1"} <= set(shown)


def test_facts_tell_the_text_and_what_is_older(tmp_path):
    boot = Boot(tmp_path)
    (tmp_path / "boot/initrd.img-6.1.0-51-amd64").write_text("")
    (tmp_path / "boot/initramfs-0-rescue-abc.img").write_text("")
    (tmp_path / "boot/initramfs-5.14.0-687.el9.x86_64kdump.img").write_text("")
    assert capture_security.initramfs_age(str(tmp_path)) == "6.1.0-50-amd64 newer\n6.1.0-51-amd64 newer\n"
    boot.node.write(TEXT)
    os.utime(tmp_path / "boot/initrd.img-6.1.0-51-amd64", (4e9, 4e9))
    assert config.parse_initramfs_age(capture_security.initramfs_age(str(tmp_path))) == ([KERNEL], [])
    assert config.parse_modprobe_config(capture_security.modprobe_config(str(tmp_path))).value["own"] == TEXT
    assert config.parse_modprobe_config("blacklist nouveau\n").value["own"] is None
