# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""systemd-boot: defaults and trials, with a bootctl that writes variables as efivarfs shows them."""

from __future__ import annotations

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import facts_boot, grub, parse_bls, systemd_boot
from ansible_collections.lockstep.gpu.plugins.module_utils.facts_reader import Reader
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import LiveProbe
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import PROBES
from ansible_collections.lockstep.gpu.plugins.module_utils.run import Result
from ansible_collections.lockstep.gpu.plugins.modules import boot_kernel

MACHINE = "cd3361a338fe47348de9937e51a7a4aa"
OLD, NEW = "6.12.107+deb13-amd64", "6.12.117+deb13-amd64"
VENDOR = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"
# As kernel-install writes it.
ENTRY = ("# Boot Loader Specification type#1 entry\n# File created by /usr/lib/kernel/install.d/90-loaderentry.install\ntitle      Debian GNU/Linux 13\n"
         "version    {0}\nmachine-id {1}\nsort-key   debian\noptions    root=UUID=3e1f ro quiet\n"
         "linux      /{1}/{0}/linux\ninitrd     /{1}/{0}/initrd.img-{0}\n")


class Node:
    """A node that systemd-boot started. tries: the counter in the names of its entries' files."""

    def __init__(self, root, place="boot/efi", tries=""):
        self.root, self.place, self.running, self.calls = root, place, OLD, []
        self.put(place + "/loader/loader.conf", "timeout 3\ndefault %s-*\n" % MACHINE)
        self.put("etc/machine-id", MACHINE + "\n")
        self.put("proc/sys/kernel/random/boot_id", "first\n")
        for kernel in (OLD, NEW):
            self.put("%s/loader/entries/%s-%s%s.conf" % (place, MACHINE, kernel, tries), ENTRY.format(kernel, MACHINE))
            self.put("%s/%s/%s/linux" % (place, MACHINE, kernel), "image")
            self.put("%s/%s/%s/initrd.img-%s" % (place, MACHINE, kernel, kernel), "initramfs")
        self.variable("LoaderInfo", "systemd-boot 257.7-1")
        self.loader = systemd_boot.SystemdBoot(self, str(root))

    def put(self, path, text):
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        (self.root / path).write_text(text)

    def variable(self, name, text):
        path = self.root / systemd_boot.VARIABLES / ("%s-%s" % (name, VENDOR))
        path.parent.mkdir(parents=True, exist_ok=True)
        if text:
            path.write_bytes(b"\x07\0\0\0" + text.encode("utf-16-le") + b"\0\0")
        elif path.exists():
            path.unlink()

    def __call__(self, argv, ok=(0,), env=None, stdin=None):
        self.calls.append(argv)
        if argv[0] == "bootctl":
            self.variable({"set-default": "LoaderEntryDefault", "set-oneshot": "LoaderEntryOneShot"}[argv[1]], argv[2])
        return Result(0, self.running + "\n", "")

    def boot(self, boot_id):
        """systemd-boot forgets the one-time entry, and starts it."""
        state = self.loader.read()
        taken = state.env.get("next_entry") or state.env["saved_entry"]
        self.variable("LoaderEntryOneShot", "")
        entry = next(entry for entry in state.entries if entry["id"] == taken)
        text = self.loader._files()[entry["id"]]
        self.running = entry["kernel"]
        self.put("proc/cmdline", next(line for line in open(text, encoding="utf-8") if line.startswith("options")))
        self.put("proc/sys/kernel/random/boot_id", boot_id + "\n")

    def apply(self, state, kernel=None, check=False):
        params = {"state": state, "kernel": kernel, "confirm_within": 600, "watch": "keep", "panic": 30, "trials": 2}
        return boot_kernel.apply(self.loader, self, params, check)


@pytest.fixture(name="node", params=[("boot/efi", ""), ("efi", "+3"), ("boot", "+2-1")])
def fixture_node(request, tmp_path):
    return Node(tmp_path, *request.param)


def ident(kernel):
    return "%s-%s" % (MACHINE, kernel)


def test_only_where_it_runs(node):
    assert node.loader.configured
    node.variable("LoaderInfo", "GRUB 2.12")
    assert not node.loader.configured
    node.variable("LoaderInfo", "")
    assert not node.loader.configured


def test_a_pattern_that_fits_several_is_no_default(node):
    assert node.apply("query")["default_before"] is None
    with pytest.raises(grub.GrubError, match="grub_default_not_saved"):
        node.apply("once", NEW)


def test_the_default(node):
    said = node.apply("default", OLD, check=True)
    assert not [argv for argv in node.calls if argv[0] == "bootctl"]
    done = node.apply("default", OLD)
    assert said == done and (done["loader"], done["default_after"], done["entry"]) == ("systemd-boot", OLD, ident(OLD))
    assert ["bootctl", "set-default", ident(OLD) + ".conf"] in node.calls
    assert not node.apply("default", OLD)["changed"]


def test_a_trial_that_is_confirmed(node):
    node.apply("default", OLD)
    assert node.apply("once", NEW)["next_after"] == NEW and not node.apply("once", NEW)["changed"]
    assert ["bootctl", "set-oneshot", "lockstep-gpu-trial.conf"] in node.calls
    text = (node.root / node.place / "loader/entries/lockstep-gpu-trial.conf").read_text()
    assert "\nlinux      /%s/%s/linux\n" % (MACHINE, NEW) in text and " panic=30 lockstep.gpu.trial=" in text and "#" not in text
    node.boot("second")
    assert node.running == NEW and node.apply("settled")["trial"]["outcome"] == "running"
    assert node.apply("default", NEW)["default_after"] == NEW
    assert not list(node.root.rglob("*trial*")) and not node.apply("default", NEW)["changed"]


def test_a_trial_that_fails_and_one_that_is_taken_back(node):
    node.apply("default", OLD)
    node.apply("once", NEW)
    node.boot("second")
    node.boot("third")
    assert node.running == OLD and "did not reach user space" in node.apply("settled")["trial"]["reason"]
    node.apply("once", NEW)
    done = node.apply("default", OLD)
    assert (done["next_after"], done["trial"]) == (None, None) and ["bootctl", "set-oneshot", ""] in node.calls


def test_the_trial_sorts_last():
    text = ENTRY.format(NEW, MACHINE)
    from ansible_collections.lockstep.gpu.plugins.module_utils import bls_trial
    assert "version ~" + NEW in bls_trial.copy_of(text, NEW, ["x"])
    assert parse_bls.parse_bls_entries("==> /a/lockstep-gpu-trial.conf <==\n" + bls_trial.copy_of(text, NEW, ["x"])).value[0]["kernel"] == NEW


def test_node_facts_know_the_next_kernel(node):
    def told():
        names = ("boot_files", "bls_entries", "loader_conf", "loader_variables", "machine_id")
        reader = Reader(LiveProbe(root=str(node.root), probes={name: PROBES[name] for name in names}), names)
        boot = facts_boot.boot(reader, False)
        assert reader.unknown == []
        return boot["loader"], boot["saved_entry"], boot["next_entry"], boot["default_kernel"]

    assert told() == ("systemd-boot", None, None, None)
    node.apply("default", OLD)
    assert told() == ("systemd-boot", ident(OLD), None, OLD)
    node.apply("once", NEW)
    assert told() == ("systemd-boot", ident(OLD), "lockstep-gpu-trial", NEW)


def test_what_cannot_be_booted(node):
    node.apply("default", OLD)
    (node.root / node.place / MACHINE / NEW / "linux").unlink()
    with pytest.raises(grub.GrubError, match="cannot be booted"):
        node.apply("once", NEW)
    with pytest.raises(grub.GrubError, match="no boot entry is for kernel 6.1"):
        node.apply("default", "6.1")


def test_an_entry_without_an_image(node):
    node.apply("default", OLD)
    for path in (node.root / node.place / "loader/entries").glob("*%s*" % NEW):
        path.write_text("title x\nversion %s\nefi /EFI/Linux/x.efi\n" % NEW)
    with pytest.raises(grub.GrubError, match="names no kernel image"):
        node.apply("once", NEW)
