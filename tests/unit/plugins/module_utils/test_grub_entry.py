# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Copies of menu entries: GRUB's own grub-script-check has to take them, and only the kernel's command line may differ."""

from __future__ import annotations

import pathlib
import shlex
import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ansible_collections.lockstep.gpu.plugins.module_utils import grub, grub_entry, parse_boot

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures/grub"
MENUS = sorted(path.name for path in FIXTURES.glob("*.cfg"))
WORDS = ["panic=30", "lockstep.gpu.trial=0123456789abcdef"]


def accepted(text):
    """Whether GRUB can parse it; `make test` installs the tool, so its absence is a failure."""
    return subprocess.run(["grub-script-check"], input=text, text=True, capture_output=True, check=False).returncode == 0


def copied(text, kernel):
    entries = parse_boot.parse_grub_menu(text).value
    place = entries.index(grub.entry_for(entries, kernel))
    return grub_entry.copy_of(text, place, kernel, "lockstep-gpu-trial", WORDS), place


@pytest.mark.parametrize("name", MENUS)
def test_every_kernel_of_real_menus(name):
    text = (FIXTURES / name).read_text()
    kernels = {entry["kernel"] for entry in parse_boot.parse_grub_menu(text).value if entry["kernel"]}
    assert len(kernels) == 2
    for kernel in kernels:
        copy, place = copied(text, kernel)
        assert accepted(copy)
        (found,) = parse_boot.parse_grub_menu(copy).value
        assert (found["id"], found["kernel"], found["submenu"]) == ("lockstep-gpu-trial", kernel, False)
        body = grub_entry.lines_of(text, place)[1]
        theirs = copy.splitlines()[1:-1]
        assert [(one, two) for one, two in zip(body, theirs) if one != two] == [
            (line, "%s %s" % (line.rstrip(), " ".join(WORDS))) for line in body if line.split()[0] == "linux"]
        assert len(body) == len(theirs) and "--class debian" in copy.splitlines()[0]


def test_the_trial_is_read_with_the_menu_and_is_nobodys_entry():
    text = (FIXTURES / "debian13-saved.cfg").read_text()
    kernel = "6.12.117+deb13-amd64"
    copy, _place = copied(text, kernel)
    both = grub_entry.with_custom(text, grub_entry.with_block("", copy))
    before, after = (parse_boot.parse_grub_menu(menu).value for menu in (text, both))
    # Nobody's number moves.
    assert after[:-1] == before and after[-1]["id"] == "lockstep-gpu-trial"
    assert grub.entry_for(after, kernel) == grub.entry_for(before, kernel)
    assert parse_boot.default_kernel(after, "${saved_entry}", {"next_entry": "lockstep-gpu-trial"}) == (kernel, None)
    assert grub_entry.sources_custom(text) and not grub_entry.sources_custom(text.replace("custom.cfg\n", "custom.cfg.off\n"))
    assert grub_entry.with_custom(text, None) == text


@pytest.mark.parametrize("line, expected", [
    ("linux /vmlinuz-1 ro  quiet ", "linux /vmlinuz-1 ro  quiet a=1 b"),
    ("linux /vmlinuz-1 ro -- single", "linux /vmlinuz-1 ro a=1 b -- single"),
    ("linux /vmlinuz-1 ro --", "linux /vmlinuz-1 ro a=1 b --"),
    ("linux /vmlinuz-1 ro --foo", "linux /vmlinuz-1 ro --foo a=1 b"),
    ("linux /vmlinuz-1 dyndbg=\"file a.c +p; -- x\"", "linux /vmlinuz-1 dyndbg=\"file a.c +p; -- x\" a=1 b"),
    ("linux ($root)/vmlinuz-1 ${extra} $more", "linux ($root)/vmlinuz-1 ${extra} $more a=1 b"),
    ("linux16 /vmlinuz-1 a\\;b", "linux16 /vmlinuz-1 a\\;b a=1 b")])
def test_where_words_go(line, expected):
    assert grub_entry.extended(line, ["a=1", "b"]) == expected


@pytest.mark.parametrize("line", ["linux /vmlinuz-1 ro \\", "linux /vmlinuz-1 'open", "linux /vmlinuz-1 \"open", "linux /vmlinuz-1; initrd /x",
                                  "linux /vmlinuz-1 # note", "linux /vmlinuz-1 && true"])
def test_what_is_no_plain_command_line_is_refused(line):
    with pytest.raises(grub_entry.EntryError, match="no plain one"):
        grub_entry.extended(line, ["a"])


@pytest.mark.parametrize("body", ["initrd /x", "linux /vmlinuz-1\nlinux /vmlinuz-2", "linux /vmlinuz-2", "linux", "multiboot /xen\nmodule /vmlinuz-1"])
def test_an_entry_that_starts_the_kernel_otherwise_is_refused(body):
    with pytest.raises(grub_entry.EntryError, match="a plain command"):
        grub_entry.copy_of("menuentry 'a' {\n%s\n}\n" % body, 0, "1", "x", [])


@pytest.mark.parametrize("text, place", [("", 0), ("menuentry 'a' {\n}\n", 1), ("menuentry 'a' {\nlinux /vmlinuz-1\n", 0)])
def test_an_entry_that_is_not_there_or_has_no_end(text, place):
    with pytest.raises(grub_entry.EntryError):
        grub_entry.copy_of(text, place, "1", "x", [])


def test_ubuntus_cloud_images_start_with_the_initramfs_at_once():
    """As 10_linux writes it there; what it calls would boot the trial twice."""
    text = """menuentry 'Ubuntu, with Linux 6.8.0-31-generic' --class ubuntu $menuentry_id_option 'gnulinux-6.8.0-31-generic-advanced-x' {
\trecordfail
\tload_video
\tgfxmode $linux_gfx_mode
\tif [ "${initrdfail}" = 1 ]; then
\t  echo\t'GRUB_FORCE_PARTUUID set, initrdless boot failed. Attempting with initrd.'
\t  linux\t/boot/vmlinuz-6.8.0-31-generic root=PARTUUID=26f2 ro  console=tty1
\t  initrd\t/boot/initrd.img-6.8.0-31-generic
\telse
\t  echo\t'GRUB_FORCE_PARTUUID set, attempting initrdless boot.'
\t  linux\t/boot/vmlinuz-6.8.0-31-generic root=PARTUUID=26f2 ro  console=tty1 panic=-1
\tfi
\tinitrdfail
}
"""
    copy, _place = copied(text, "6.8.0-31-generic")
    assert accepted(copy)
    assert copy.splitlines()[1] == "\tset initrdfail=1" and "\tinitrdfail" not in copy
    assert [line.split()[-2:] for line in copy.splitlines() if line.split()[0] == "linux"] == [WORDS, WORDS]


def test_an_entry_that_saves_itself_does_not_on_trial():
    copy = grub_entry.copy_of("menuentry 'a' --users '' --unrestricted $menuentry_id_option 'b' --hotkey=c --class d {\n\tsavedefault\n\trecordfail\n"
                              "\tlinux /vmlinuz-1\n}\n", 0, "1", "x", ["y"])
    assert copy == ("menuentry 'Linux 1, once on trial (lockstep.gpu)' --users '' --unrestricted --class d --id 'x' {\n"
                    "\tlinux /vmlinuz-1 y\n}\n")
    assert accepted(copy)


WORD = st.text("abcdefgh0123=,.:/+-_", min_size=1, max_size=12).filter(lambda word: word != "--")
TITLE = st.text("abc XYZ'(),>\"$\\", min_size=1, max_size=20)


def quoted(text):
    return "'%s'" % text.replace("'", "'\\''")


@st.composite
def menus(draw):
    """(text of a menu with submenus, functions and conditions; how many kernels it starts): kernel number n is of release 6.n."""
    lines, count = ["set default=0", "function load_video {", "\tinsmod all_video", "}"], 0

    def entry(indent):
        nonlocal count
        head = "%smenuentry %s --class os $menuentry_id_option %s {" % (indent, quoted(draw(TITLE)), quoted("id-%d" % count))
        extra = draw(st.lists(st.sampled_from(["load_video", "if [ x$a = xy ]; then", "savedefault", "echo 'Loading {'", "insmod gzio"]), max_size=3))
        body = [line if not line.startswith("if") else line + " true; fi" for line in extra]
        options = " ".join(draw(st.lists(WORD, max_size=5)))
        body.append("linux\t/boot/vmlinuz-6.%d %s" % (count, options))
        body.append("initrd /boot/initrd.img-6.%d" % count)
        count += 1
        lines.extend([head, *(indent + "\t" + line for line in body), indent + "}"])

    for kind in draw(st.lists(st.sampled_from(["entry", "submenu", "condition"]), min_size=1, max_size=5)):
        if kind == "submenu":
            lines.append("submenu %s $menuentry_id_option 'sub-%d' {" % (quoted(draw(TITLE)), count))
            for _number in range(draw(st.integers(1, 3))):
                entry("\t")
            lines.append("}")
        elif kind == "condition":
            lines.append("if [ x$b = xy ]; then")
            entry("  ")
            lines.append("fi")
        else:
            entry("")
    return "\n".join(lines) + "\n", count


@settings(max_examples=60)
@given(menu=menus(), data=st.data())
def test_any_menu(menu, data):
    text, count = menu
    if not count:
        return
    number = data.draw(st.integers(0, count - 1))
    entries = parse_boot.parse_grub_menu(text).value
    if entries is None:
        return
    place = next(place for place, entry in enumerate(entries) if entry["kernel"] == "6.%d" % number)
    copy = grub_entry.copy_of(text, place, "6.%d" % number, "lockstep-gpu-trial", WORDS)
    assert accepted(text) and accepted(copy)
    original = next(line for line in text.splitlines() if "/vmlinuz-6.%d " % number in line)
    ours = next(line for line in copy.splitlines() if "/vmlinuz-" in line)
    assert shlex.split(ours) == shlex.split(original) + WORDS
    assert "/initrd.img-6.%d" % number in copy and "savedefault" not in copy and copy.count("/vmlinuz-") == 1


@given(owner=st.text("ab#\n \\'{}\r\x0b", max_size=60), entries=st.lists(st.text("ab\n", max_size=10).map(lambda text: text + "\n"), min_size=1, max_size=3))
def test_the_owner_gets_custom_cfg_back(owner, entries):
    text = owner
    for entry in entries:
        text = grub_entry.with_block(text, entry)
        assert grub_entry.block_entry(text) == entry
    assert grub_entry.without_block(text) == owner and text.startswith(owner)
    assert grub_entry.without_block(owner) == owner and grub_entry.block_entry(owner) is None


def test_what_comes_behind_the_block_stays():
    text = grub_entry.with_block("a", "b\n") + "c\n"
    assert grub_entry.without_block(text) == "ac\n"


@pytest.mark.parametrize("cut", ["BEGIN", "END"])
def test_a_block_that_somebody_cut_is_told(cut):
    text = "".join(line for line in grub_entry.with_block("", "b\n").splitlines(True) if cut not in line)
    for function in (grub_entry.without_block, grub_entry.block_entry):
        with pytest.raises(grub_entry.EntryError, match="a part of a block"):
            function(text)
