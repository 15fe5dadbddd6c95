# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The GRUB of simulated machines against menus that grub-mkconfig made, and blocks that grub-editenv wrote."""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
sys.path.insert(0, str(ROOT / "molecule/rollout/machine"))
import simulated_grub  # noqa: E402

UUID = "3e1f0f6a-7a52-4b0c-9a0e-5d0d3a0f1c11"
NEWER = "6.1.0-50-amd64"


def editenv(path, *words):
    """grub-editenv itself."""
    return subprocess.run(["grub-editenv", str(path), *words], check=True, stdout=subprocess.PIPE, text=True).stdout


@pytest.fixture
def machine(tmp_path):
    """A root folder with Debian 12's menu, its kernels and an empty environment block."""
    grub = tmp_path / "boot/grub"
    grub.mkdir(parents=True)
    text = (ROOT / "tests/fixtures/grub/debian12.cfg").read_text(encoding="utf-8")
    (grub / "grub.cfg").write_text(text.replace('set default="0"', 'set default="${saved_entry}"'), encoding="utf-8")
    for line in text.splitlines():
        words = line.split()
        if words[:1] in (["linux"], ["initrd"]):
            (tmp_path / words[1].lstrip("/")).touch()
    editenv(grub / "grubenv", "create")
    return tmp_path


def kernels(machine):
    """The releases in the machine's menu, by its folder."""
    return sorted(path.name[len("vmlinuz-"):] for path in (machine / "boot").glob("vmlinuz-*"))


def spec(kernel):
    """What the collection saves for a kernel."""
    return "gnulinux-advanced-%s>gnulinux-%s-advanced-%s" % (UUID, kernel, UUID)


def test_nothing_saved_boots_the_first_entry(machine):
    started = simulated_grub.Menu(machine).boot()
    assert started["kernel"] == NEWER and started["entry"] == "gnulinux-simple-" + UUID
    assert started["options"] == "BOOT_IMAGE=/boot/vmlinuz-%s root=/dev/vda1 ro quiet" % NEWER
    assert started["initrd"] == "/boot/initrd.img-" + NEWER


def test_the_saved_entry_boots_again_and_again(machine):
    older = kernels(machine)[0]
    editenv(machine / "boot/grub/grubenv", "set", "saved_entry=" + spec(older))
    assert [simulated_grub.Menu(machine).boot()["kernel"] for _time in range(2)] == [older, older]


def test_the_next_entry_boots_once(machine):
    block = machine / "boot/grub/grubenv"
    older = kernels(machine)[0]
    editenv(block, "set", "saved_entry=" + spec(NEWER), "next_entry=" + spec(older))
    assert [simulated_grub.Menu(machine).boot()["kernel"] for _time in range(2)] == [older, NEWER]
    assert editenv(block, "list").splitlines() == ["saved_entry=" + spec(NEWER), "next_entry="]
    assert block.stat().st_size == 1024


@pytest.mark.parametrize("wanted", ["gnulinux-gone", "7", "gnulinux-advanced-%s>gone" % UUID], ids=["id", "number", "below"])
def test_what_is_not_there_boots_the_first_of_its_menu(machine, wanted):
    editenv(machine / "boot/grub/grubenv", "set", "saved_entry=" + wanted)
    assert simulated_grub.Menu(machine).boot()["kernel"] == NEWER


def test_an_entry_of_the_owners_file(machine):
    older = kernels(machine)[0]
    (machine / "boot/grub/custom.cfg").write_text(
        "menuentry 'A trial; \"quoted\" {here}' --id trial-of-mine {\n\tlinux /boot/vmlinuz-%s root=/dev/vda1 panic=30 a.b=c # no word\n"
        "\tinitrd /boot/initrd.img-%s\n}\n" % (older, older), encoding="utf-8")
    editenv(machine / "boot/grub/grubenv", "set", "next_entry=trial-of-mine")
    started = simulated_grub.Menu(machine).boot()
    assert (started["entry"], started["kernel"]) == ("trial-of-mine", older)
    assert started["options"].split()[1:] == ["root=/dev/vda1", "panic=30", "a.b=c"]


def test_a_missing_initramfs_stops_grub(machine):
    (machine / ("boot/initrd.img-" + NEWER)).unlink()
    with pytest.raises(simulated_grub.GrubError, match="initrd.img-%s' not found" % NEWER):
        simulated_grub.Menu(machine).boot()


def test_without_a_block_nothing_can_be_saved(machine):
    (machine / "boot/grub/grubenv").unlink()
    assert simulated_grub.Menu(machine).boot()["kernel"] == NEWER


@pytest.mark.skipif(shutil.which("cc") is None, reason="no compiler")
def test_the_kernels_side_compiles_without_a_warning(tmp_path):
    subprocess.run(["cc", "-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", str(tmp_path / "machine.so"),
                    str(ROOT / "molecule/rollout/machine/machine.c"), "-ldl"], check=True)
