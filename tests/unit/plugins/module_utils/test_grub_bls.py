# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The default kernel on Red Hat's distributions, on files as Rocky Linux 9 has them."""

from __future__ import annotations

import json
import os

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import bls_trial, grub, grub_bls, parse_bls
from ansible_collections.lockstep.gpu.plugins.module_utils.run import Result
from ansible_collections.lockstep.gpu.plugins.modules import boot_kernel

OWN, OTHER = "cd3361a338fe47348de9937e51a7a4aa", "104a42359fae41b687caac066397aec2"
OLD, NEW = "5.14.0-570.18.1.el9_6.x86_64", "5.14.0-687.25.1.el9_7.x86_64"
# The beginning and the entries' part of /boot/grub2/grub.cfg, as grub2-mkconfig writes them there.
CFG = """### BEGIN /etc/grub.d/00_header ###
set pager=1
if [ -f ${config_directory}/grubenv ]; then
  load_env -f ${config_directory}/grubenv
elif [ -s $prefix/grubenv ]; then
  load_env
fi
if [ "${next_entry}" ] ; then
   set default="${next_entry}"
   set next_entry=
   save_env next_entry
   set boot_once=true
else
   set default="%s"
fi
### END /etc/grub.d/00_header ###
### BEGIN /etc/grub.d/10_linux ###
insmod part_gpt
insmod xfs
insmod blscfg
blscfg
### END /etc/grub.d/10_linux ###
"""
DEFAULTS = ('GRUB_TIMEOUT=5\nGRUB_DISTRIBUTOR="$(sed \'s, release .*$,,g\' /etc/system-release)"\nGRUB_DEFAULT=%s\nGRUB_DISABLE_SUBMENU=true\n'
            'GRUB_DISABLE_RECOVERY="true"\nGRUB_ENABLE_BLSCFG=true\n')
SYSCONFIG = "# UPDATEDEFAULT specifies if kernel-install should make\n# new kernels the default\nUPDATEDEFAULT=%s\n\nDEFAULTKERNEL=kernel-core\n"
ENTRY = ("title Rocky Linux (%s) 9.7 (Blue Onyx)\nversion %s\nlinux /vmlinuz-%s\ninitrd /initramfs-%s.img $tuned_initrd\n"
         "options root=UUID=3e1f ro $tuned_params\ngrub_users $grub_users\ngrub_arg --unrestricted\ngrub_class rocky\n")


class Node:
    """A node's /boot and /etc below tmp_path, and the effect of GRUB's tools and of a kernel's installation on them."""

    def __init__(self, root):
        self.root, self.calls, self.filesystem, self.abstraction = root, [], "xfs\n", "\n"
        self.running, self.cmdline = OLD, "ro"
        self.put("proc/sys/kernel/random/boot_id", "first\n")
        self.put("boot/grub2/grub.cfg", CFG % "${saved_entry}")
        self.put("etc/default/grub", DEFAULTS % "saved")
        self.put("etc/sysconfig/kernel", SYSCONFIG % "yes")
        self.put("etc/machine-id", OWN + "\n")
        self.install(OLD)
        self.install(NEW)
        self.put("boot/loader/entries/%s-0-rescue.conf" % OWN, ENTRY % (("0-rescue-" + OWN,) * 4))
        self.loader = grub_bls.Bls(self, str(root))

    def put(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def install(self, kernel, machine=OWN):
        """What a kernel package brings, and the rule of its install script."""
        self.put("boot/loader/entries/%s-%s.conf" % (machine, kernel), ENTRY % ((kernel,) * 4))
        for name in ("boot/vmlinuz-" + kernel, "boot/initramfs-%s.img" % kernel):
            self.put(name, "x")
        if "UPDATEDEFAULT=yes" in (self.root / "etc/sysconfig/kernel").read_text():
            self.save(saved_entry="%s-%s" % (machine, kernel))

    def save(self, **variables):
        text = "# GRUB Environment Block\n" + "".join("%s=%s\n" % item for item in variables.items())
        self.put("boot/grub2/grubenv", text + "#" * (1024 - len(text)))

    def __call__(self, argv, ok=(0,), env=None, stdin=None):
        self.calls.append(argv[0])
        if argv[0] == "grub2-probe":
            return Result(0, self.filesystem if argv[1] == "--target=fs" else self.abstraction, "")
        if argv[0] in ("sync", "uname"):
            return Result(0, "%s\n" % self.running, "")
        if argv[0] == "grub2-editenv":
            assert argv[1:] == [str(self.root / "boot/grub2/grubenv"), "unset", "next_entry"]
            self.save(saved_entry=self.loader.read().env["saved_entry"])
            return Result(0, "", "")
        assert argv[1] == "--boot-directory=%s" % (self.root / "boot")
        if argv[0] == "grub2-set-default":
            self.save(saved_entry=argv[2])
        elif argv[0] == "grub2-reboot":
            self.save(saved_entry=self.loader.read().env["saved_entry"], next_entry=argv[2])
        return Result(0, "", "")

    def apply(self, state, kernel=None, check=False):
        return boot_kernel.apply(self.loader, self, {"state": state, "kernel": kernel, "confirm_within": 600, "watch": "keep", "panic": 30, "trials": 2}, check)


@pytest.fixture(name="node")
def fixture_node(tmp_path):
    return Node(tmp_path)


def test_state_of_a_fresh_node(node):
    assert node.loader.configured and not grub.Grub(node, str(node.root)).configured
    state = node.loader.read()
    assert [entry["kernel"] for entry in state.entries] == [NEW, OLD, None]
    assert (state.cfg_default, state.setting, state.env_writable) == ("${saved_entry}", "saved, UPDATEDEFAULT=yes", True)
    assert grub.default_kernel(state) == NEW and not grub.is_saved(state)


def test_the_running_kernel_stays_while_kernels_are_installed(node):
    said = node.apply("default", OLD, check=True)
    assert "grub2-set-default" not in node.calls and "UPDATEDEFAULT=yes" in (node.root / "etc/sysconfig/kernel").read_text()
    done = node.apply("default", OLD)
    assert (done["changed"], done["default_before"], done["default_after"], done["entry"]) == (True, NEW, OLD, "%s-%s" % (OWN, OLD))
    assert said == done
    assert (node.root / "etc/sysconfig/kernel").read_text() == SYSCONFIG % "no"
    node.install("5.14.0-700.1.1.el9_7.x86_64")
    assert grub.default_kernel(node.loader.read()) == OLD
    assert not node.apply("default", OLD)["changed"]


def test_a_trial(node):
    node.apply("default", OLD)
    done = node.apply("once", NEW)
    assert (done["default_after"], done["next_after"]) == (OLD, NEW)
    assert node.loader.read().env == {"saved_entry": "%s-%s" % (OWN, OLD), "next_entry": "~lockstep-gpu-trial"}
    assert [entry["kernel"] for entry in node.loader.read().entries] == [NEW, OLD, None, NEW]
    text = (node.root / "boot/loader/entries/~lockstep-gpu-trial.conf").read_text()
    token = json.loads((node.root / "var/lib/lockstep-gpu/trial.json").read_text())["token"]
    assert text.splitlines() == [
        "title Rocky Linux (%s) 9.7 (Blue Onyx), once on trial (lockstep.gpu)" % NEW, "version ~" + NEW, "linux /vmlinuz-" + NEW,
        "initrd /initramfs-%s.img $tuned_initrd" % NEW,
        "options root=UUID=3e1f ro $tuned_params panic=30 lockstep.gpu.trial=%s rd.shell=0 rd.emergency=reboot" % token,
        "grub_users $grub_users", "grub_arg --unrestricted", "grub_class rocky"]
    assert not node.apply("once", NEW)["changed"]
    # It starts, and is confirmed.
    node.save(saved_entry="%s-%s" % (OWN, OLD))
    node.running = NEW
    node.put("proc/sys/kernel/random/boot_id", "second\n")
    assert node.apply("settled")["trial"]["outcome"] == "running"
    done = node.apply("default", NEW)
    assert (done["changed"], done["default_after"], done["trial"]) == (True, NEW, None)
    assert not list(node.root.rglob("*trial*")) and not node.apply("default", NEW)["changed"]


@pytest.mark.parametrize("machine", ["0" * 32, "f" * 32, "a0" * 16])
def test_the_trial_is_the_last_entry_of_any_menu(machine):
    names = ["%s-%s" % (machine, kernel) for kernel in (OLD, NEW, "0-rescue")] + ["~lockstep-gpu-trial"]
    assert parse_bls.in_menu_order([{"id": name} for name in names])[-1]["id"] == "~lockstep-gpu-trial"


@pytest.mark.parametrize("text", ["linux /vmlinuz-1\n", "options ro\n", ""])
def test_an_entry_that_nothing_can_be_added_to(text):
    with pytest.raises(grub.GrubError, match="no line"):
        bls_trial.copy_of(text, "1", ["x"])


@pytest.mark.parametrize("abstraction, code", [("lvm\n", "grubenv_not_writable"), ("\n", None)])
def test_a_trial_that_could_not_return_is_refused(node, abstraction, code):
    node.apply("default", OLD)
    node.abstraction = abstraction
    if code is None:
        node.apply("once", NEW)
        return
    with pytest.raises(grub.GrubError) as caught:
        node.apply("once", NEW)
    assert caught.value.code == code


def test_a_default_that_is_not_the_saved_one_is_told(node):
    node.put("boot/grub2/grub.cfg", CFG % "0")
    node.put("etc/default/grub", DEFAULTS % "0")
    with pytest.raises(grub.GrubError, match="GRUB_DEFAULT is 0.*grub2-mkconfig"):
        node.apply("default", OLD)
    with pytest.raises(grub.GrubError, match="grub_default_not_saved"):
        node.apply("once", NEW)


def test_without_a_word_on_updates_nothing_moves_the_default(node):
    os.remove(node.root / "etc/sysconfig/kernel")
    assert node.loader.read().setting == "saved"
    assert node.apply("default", OLD)["changed"] and not (node.root / "etc/sysconfig/kernel").exists()


def test_entries_of_the_machine_that_this_one_was_cloned_from(node):
    node.install(OLD, OTHER)
    node.install(NEW, OTHER)
    assert node.apply("default", OLD)["entry"] == "%s-%s" % (OWN, OLD)
    # Only the clone's origin has an entry: better that one than none.
    os.remove(node.root / ("boot/loader/entries/%s-%s.conf" % (OWN, OLD)))
    assert node.apply("default", OLD)["entry"] == "%s-%s" % (OTHER, OLD)


@pytest.mark.parametrize("remove, words", [
    ("boot/vmlinuz-" + OLD, "vmlinuz"), ("boot/initramfs-%s.img" % OLD, "initramfs"), ("boot/loader/entries/%s-%s.conf" % (OWN, OLD), "no boot entry")])
def test_a_kernel_that_cannot_be_booted_is_refused(node, remove, words):
    os.remove(node.root / remove)
    with pytest.raises(grub.GrubError, match=words):
        node.apply("default", OLD)


def test_only_a_grub_that_reads_the_entries_counts(node):
    node.put("boot/grub2/grub.cfg", "menuentry 'x' {\n}\n")
    assert not node.loader.configured
    # EL 8 on EFI: the menu and the environment lie on the EFI partition.
    node.put("boot/efi/EFI/rocky/grub.cfg", CFG % "${saved_entry}")
    assert node.loader.configured
    node.put("boot/efi/EFI/rocky/grubenv", (node.root / "boot/grub2/grubenv").read_text())
    os.remove(node.root / "boot/grub2/grubenv")
    os.symlink("../efi/EFI/rocky/grubenv", node.root / "boot/grub2/grubenv")
    assert node.loader.read().env_writable is True


def test_a_block_of_another_size_is_not_written_by_grub(node):
    node.put("boot/grub2/grubenv", "# GRUB Environment Block\nsaved_entry=x\n")
    assert node.loader.read().env_writable is False
    os.remove(node.root / "boot/grub2/grubenv")
    assert node.loader.read().env_writable is None
