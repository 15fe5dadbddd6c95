# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GRUB's menu, default and one-time entry, on menus that Debian 12's and 13's grub-mkconfig wrote."""

from __future__ import annotations

import pathlib
import subprocess

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import grub, parse_boot
from ansible_collections.lockstep.gpu.plugins.module_utils.run import Result

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures/grub"
UUID = "3e1f0f6a-7a52-4b0c-9a0e-5d0d3a0f1c11"
NEW, OLD = "6.12.117+deb13-amd64", "6.12.107+deb13-amd64"


def spec(kernel):
    return "gnulinux-advanced-%s>gnulinux-%s-advanced-%s" % (UUID, kernel, UUID)


def menu(name):
    return parse_boot.parse_grub_menu((FIXTURES / name).read_text()).value


@pytest.mark.parametrize("name, kernel", [
    ("debian12.cfg", "6.1.0-50-amd64"), ("debian12.cfg", "6.1.0-49-amd64"), ("debian13.cfg", NEW), ("debian13.cfg", OLD)])
def test_entry_is_named_by_ids_below_the_submenu(name, kernel):
    assert grub.spec_of(grub.entry_for(menu(name), kernel)) == spec(kernel)


@pytest.mark.parametrize("kernel", ["6.12.1", "6.12.117", "6.12.117+deb13", "", "6.12.117.deb13-amd64"])
def test_no_entry_for_a_kernel_that_is_only_similar(kernel):
    assert grub.entry_for(menu("debian13.cfg"), kernel) is None


def test_flat_menu_without_ids_takes_the_title():
    text = ("menuentry 'Linux 6.1 (recovery mode)' {\n\tlinux\t/vmlinuz-6.1 single\n}\n"
            "menuentry 'a > b' {\n\tlinux\t/vmlinuz-6.1 quiet\n}\n")
    entries = parse_boot.parse_grub_menu(text).value
    assert grub.spec_of(grub.entry_for(entries, "6.1")) == "a >> b"


def test_default_in_the_menu():
    assert parse_boot.cfg_default((FIXTURES / "debian13.cfg").read_text()) == "0"
    assert parse_boot.cfg_default((FIXTURES / "debian13-saved.cfg").read_text()) == "${saved_entry}"
    assert parse_boot.cfg_default("") is None


@pytest.mark.parametrize("filesystem, abstraction, writable", [
    ("ext2", "", True), ("xfs", "\n", True), ("ext2", "cryptodisk luks", True), ("btrfs", "", False), ("zfs", "", False),
    ("ext2", "lvm", False), ("ext2", "mdraid1x", False), ("ext2", "diskfilter mdraid09", False), ("", "", None)])
def test_where_grub_can_write(filesystem, abstraction, writable):
    assert grub.can_write(filesystem, abstraction) is writable


class Node:
    """A node's /boot and /etc below tmp_path, and the effect of GRUB's tools on them."""

    def __init__(self, root, cfg="debian13.cfg"):
        self.root, self.calls = root, []
        self.filesystem, self.abstraction = Result(0, "ext2\n", ""), Result(0, "\n", "")
        self.env = {}
        self.put("boot/grub/grub.cfg", (FIXTURES / cfg).read_text())
        self.put("etc/default/grub", "GRUB_DEFAULT=0\nGRUB_DISTRIBUTOR=`lsb_release -i -s 2> /dev/null || echo Debian`\n")
        for kernel in (NEW, OLD):
            self.put("boot/vmlinuz-" + kernel, "x")
            self.put("boot/initrd.img-" + kernel, "x")
        self.loader = grub.Grub(self, str(root))

    def put(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def save_env(self):
        text = "# GRUB Environment Block\n" + "".join("%s=%s\n" % item for item in self.env.items())
        self.put("boot/grub/grubenv", text + "#" * (1024 - len(text)))

    def __call__(self, argv, ok=(0,), env=None, stdin=None):
        self.calls.append(argv)
        if argv[0] == "grub-probe":
            return self.filesystem if argv[1] == "--target=fs" else self.abstraction
        if argv[0] == "grub-set-default":
            self.env = {"saved_entry": argv[2]}
            self.save_env()
        elif argv[0] == "grub-reboot":
            self.env["next_entry"] = argv[2]
            self.save_env()
        elif argv[0] == "update-grub":
            setting = self.loader.read().setting
            self.put("boot/grub/grub.cfg", (FIXTURES / ("debian13-saved.cfg" if setting == "saved" else "debian13.cfg")).read_text())
        return Result(0, "", "")


@pytest.fixture(name="node")
def fixture_node(tmp_path):
    return Node(tmp_path)


def test_state_of_a_fresh_node(node):
    state = node.loader.read()
    assert (state.cfg_default, state.setting, state.env, state.env_writable) == ("0", "0", None, None)
    assert grub.default_kernel(state) == NEW
    assert not grub.is_saved(state)


def test_saved_default(node):
    node.loader.set_default(spec(OLD))
    node.loader.make_saved()
    state = node.loader.read()
    assert grub.is_saved(state)
    assert grub.default_kernel(state) == OLD
    node.loader.set_once(spec(NEW))
    assert grub.default_kernel(node.loader.read()) == OLD
    assert state.env_writable is True
    assert (node.root / grub.DROP_IN).read_text().endswith("GRUB_DEFAULT=saved\n")


def test_setting_alone_does_not_make_it_saved(node):
    node.put("etc/default/grub", "GRUB_DEFAULT=saved\n")
    assert not grub.is_saved(node.loader.read())


def test_later_drop_in_wins_and_is_named(node):
    node.put("etc/default/grub.d/zzz-mine.cfg", "GRUB_DEFAULT=2\n")
    with pytest.raises(grub.GrubError, match="grub_default_not_saved: GRUB_DEFAULT is 2"):
        node.loader.make_saved()


def test_one_time_entry(node):
    node.loader.set_default(spec(OLD))
    node.loader.set_once(spec(NEW))
    assert node.loader.read().env == {"saved_entry": spec(OLD), "next_entry": spec(NEW)}


def test_entry_that_is_not_taken_over_is_noticed(node):
    node.save_env = lambda: None
    with pytest.raises(grub.GrubError, match="saved_entry is None after it was set"):
        node.loader.set_default(spec(OLD))


@pytest.mark.parametrize("name", ["boot/vmlinuz-", "boot/initrd.img-"])
def test_kernel_without_image_or_initramfs(node, name):
    (node.root / (name + OLD)).unlink()
    with pytest.raises(grub.GrubError, match="cannot be booted"):
        node.loader.entry(node.loader.read(), OLD)


def test_kernel_without_entry_names_those_that_have_one(node):
    with pytest.raises(grub.GrubError, match=r"no entry for kernel 6\.1; it has 6\.12\.107\+deb13-amd64, 6\.12\.117"):
        node.loader.entry(node.loader.read(), "6.1")


def test_environment_block_that_grub_cannot_use(node):
    node.save_env()
    assert node.loader.read().env_writable is True
    node.put("boot/grub/grubenv", "# GRUB Environment Block\n")
    assert node.loader.read().env_writable is False         # GRUB writes in place: a block of another size is none
    node.put("boot/grub/grubenv", "garbage")
    assert node.loader.read().env is None
    node.save_env()
    node.abstraction = Result(0, "lvm\n", "")
    assert node.loader.read().env_writable is False
    node.filesystem = Result(1, "", "error: failed to get canonical path\n")
    assert node.loader.read().env_writable is None


def test_other_loaders(tmp_path):
    loader = grub.Grub(None, str(tmp_path))
    assert not loader.configured
    assert loader.other_loader() is None
    (tmp_path / "boot/loader/entries").mkdir(parents=True)
    assert loader.other_loader() == "boot loader specification entries"


def test_grub_editenv_agrees(tmp_path):
    """GRUB's own tool is the judge; `make test` installs it, so its absence is a failure."""
    path = tmp_path / "grubenv"
    subprocess.run(["grub-editenv", str(path), "create"], check=True)
    subprocess.run(["grub-editenv", str(path), "set", "saved_entry=" + spec(NEW), "odd=a\\b"], check=True)
    assert parse_boot.parse_grubenv(path.read_text()).value == {"saved_entry": spec(NEW), "odd": "a\\b"}
    assert path.stat().st_size == grub.ENV_SIZE
