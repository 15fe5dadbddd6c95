# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our block among the version locks of others. That dnf takes its lines as they are meant, tests/resolver shows."""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_dnf, versionlocks

DRIVER = {"name": "driver", "pattern": r"(3:)?580\.126\.20-.+", "guard": ["nvidia-settings", "nvidia-imex*", "libnvidia-ml"]}
PINS = {"libnvidia-ml": "3:580.126.20-1.el9", "libnccl": "2.21.5-1+cuda12.4", "libnvidia-ml:i686": "3:580.126.20-1.el9"}
BLOCK = """\
# BEGIN lockstep.gpu
# The exact versions of this node's stack. Changes are undone by the next run.
libnccl-0:2.21.5-1+cuda12.4.*
libnvidia-ml-3:580.126.20-1.el9.*
libnvidia-ml-3:580.126.20-1.el9.i686
# What must not come at another version whenever it is installed: driver
nvidia-imex*-0:580.126.20-*.*
nvidia-imex*-3:580.126.20-*.*
nvidia-settings-0:580.126.20-*.*
nvidia-settings-3:580.126.20-*.*
# END lockstep.gpu
"""
THEIRS = "\n# Added lock on Mon Nov 30 14:00:00 2026\npodman-4:4.9.4-1.el9.*\n!kernel-0:5.14.0-687.25.1.el9_8.*\n"


def test_the_block_says_every_pin_and_every_guard_that_is_none():
    assert versionlocks.render([DRIVER], PINS) == BLOCK
    assert versionlocks.own_pins(BLOCK) == PINS


def test_an_exact_guard_is_no_pin():
    kernel = {"name": "kernel", "pattern": r"5\.14\.0\-570\.18\.1\.el9_6", "guard": ["kernel-modules-extra"]}
    text = versionlocks.render([kernel], {"kernel-core": "5.14.0-570.18.1.el9_6"})
    assert "kernel-modules-extra-0:5.14.0-570.18.1.el9_6.*\n" in text
    assert versionlocks.own_pins(text) == {"kernel-core": "5.14.0-570.18.1.el9_6"}


def test_guards_of_components_that_nobody_names_now_stay():
    """A role alone names its own component only."""
    nccl = {"name": "nccl", "pattern": r"2\.21\.5-.+", "guard": ["libnccl-static"]}
    both = versionlocks.render([DRIVER, nccl], PINS)
    assert versionlocks.render([nccl], PINS, BLOCK) == both == versionlocks.render([DRIVER], PINS, both)
    moved = versionlocks.render([dict(DRIVER, pattern=r"(3:)?570\.211\.01-.+")], PINS, both)
    assert "580.126.20-*" not in moved and "libnccl-static-0:2.21.5-*.*\n" in moved
    assert versionlocks.unguarded([DRIVER], PINS, both) == [] and versionlocks.unguarded([nccl], PINS, BLOCK) == ["nccl"]


def test_without_anything_to_lock_there_is_no_block():
    assert versionlocks.render([], {}) == "" and versionlocks.own_pins("") == {} and versionlocks.own_block(THEIRS) == ""


def test_what_others_wrote_stays_before_and_after():
    text = versionlocks.put_block(THEIRS, BLOCK)
    assert text == THEIRS + BLOCK
    moved = versionlocks.put_block(text + "htop-0:3.3.0-1.el9.*\n", versionlocks.render([], {"libnccl": "2.30.4-1+cuda13.3"}))
    assert moved.startswith(THEIRS + "# BEGIN") and moved.endswith("# END lockstep.gpu\nhtop-0:3.3.0-1.el9.*\n") and "2.21.5" not in moved
    assert versionlocks.put_block(moved, "") == THEIRS + "htop-0:3.3.0-1.el9.*\n"


def test_a_file_without_a_last_newline():
    assert versionlocks.put_block("htop-0:3.3.0-1.el9.*", BLOCK) == "htop-0:3.3.0-1.el9.*\n" + BLOCK


def test_lines_of_others_keep_their_numbers():
    text = versionlocks.put_block("podman-4:4.9.4-1.el9.*\n", BLOCK) + THEIRS
    numbers = {spec: number for number, spec, dummy in versionlocks.foreign(text)}
    lines = text.splitlines()
    assert all(spec in lines[number - 1] for spec, number in numbers.items())
    assert [(spec, excludes) for dummy, spec, excludes in versionlocks.foreign(text)] == [
        ("podman-4:4.9.4-1.el9.*", False), ("podman-4:4.9.4-1.el9.*", False), ("kernel-0:5.14.0-687.25.1.el9_8.*", True)]


def test_what_dnf_versionlock_delete_leaves_of_our_block_is_ours_again():
    """`dnf versionlock delete` writes the file anew without its comments, so without our marks."""
    left = "".join(line + "\n" for line in (THEIRS + BLOCK).splitlines() if line and not line.startswith("#") and "libnccl" not in line)
    assert versionlocks.own_pins(left) == {}
    assert versionlocks.put_block(left, BLOCK) == "podman-4:4.9.4-1.el9.*\n!kernel-0:5.14.0-687.25.1.el9_8.*\n" + BLOCK


def test_a_user_s_lock_that_says_what_ours_says_stays_the_user_s():
    theirs = "libnccl-0:2.21.5-1+cuda12.4.*\n"
    assert versionlocks.put_block(theirs, BLOCK) == theirs + BLOCK


@pytest.mark.parametrize("pattern, globs", [
    (r"(3:)?580\.126\.20-.+", [("3", "580.126.20", "*"), ("0", "580.126.20", "*")]),
    (r"3:580\.126\.20-1\.el9", [("3", "580.126.20", "1.el9")]),
    (r"2\.21\.5-\d+\+cuda12\.4", [("0", "2.21.5", "*+cuda12.4")]),
    (r"5\.14\.0\-570\.18\.1\.el9_6", [("0", "5.14.0", "570.18.1.el9_6")]),
    (r"12\.8\.[0-9]+-1", [("0", "12.8.*", "1")]),
])
def test_a_pattern_as_globs(pattern, globs):
    assert versionlocks.version_globs(pattern) == globs


def package(version, *others, arch="x86_64"):
    return dict({"version": version, "arch": arch}, **({"others": list(others)} if others else {}))


@pytest.mark.parametrize("spec, names", [
    ("kernel-core-0:5.14.0-570.18.1.el9_6.*", {"kernel-core"}),
    ("libnvidia-ml-3:580.126.20-1.el9.*", {"libnvidia-ml"}),
    ("libnvidia-ml-0:580.126.20-1.el9.*", set()),
    ("libnvidia-ml-3:580.126.09-1.el9.*", set()),
    ("libnvidia*-3:580.126.20-*.*", {"libnvidia-ml", "libnvidia-cfg"}),
    ("libnvidia-ml-580.126.20", {"libnvidia-ml"}),
    ("libnvidia-ml-580.126.20-1.el9", {"libnvidia-ml"}),
    ("libnvidia-ml-580.126.20-1.el9.x86_64", {"libnvidia-ml"}),
    ("libnvidia-ml-580.126.20-1.el9.i686", set()),
    # dnf takes these for names, and a name is locked at no version.
    ("libnvidia-ml", set()),
    ("libnvidia*", set()),
    ("*nvidia*580.126.20*", set()),
    ("3:libnvidia-cfg-580.126.20-1.el9.x86_64", {"libnvidia-cfg"}),
])
def test_what_a_lock_holds(spec, names):
    packages = {"libnvidia-ml": package("3:580.126.20-1.el9"), "libnvidia-cfg": package("3:580.126.20-1.el9"),
                "kernel-core": package("5.14.0-687.25.1.el9_8", "5.14.0-570.18.1.el9_6"), "kernel": package("5.14.0-687.25.1.el9_8")}
    locks = parse_dnf.parse_dnf_versionlock(spec + "\n").value
    assert versionlocks.held(packages, locks) == names


def test_the_remedy_names_file_and_line():
    packages = {"podman": package("4:4.9.4-1.el9"), "kernel": package("5.14.0-570.18.1.el9_6"), "htop": package("3.3.0-1.el9")}
    found = versionlocks.remedies(packages, versionlocks.foreign(THEIRS))
    assert found == {"podman": "remove line 3 of /etc/dnf/plugins/versionlock.list (podman-4:4.9.4-1.el9.*)",
                     "kernel": "remove line 4 of /etc/dnf/plugins/versionlock.list (!kernel-0:5.14.0-687.25.1.el9_8.*)"}


NAMES = st.from_regex(r"[a-z][a-z0-9]{0,5}(-[a-z0-9]{1,5}){0,2}", fullmatch=True)
VERSIONS = st.builds(lambda epoch, version, release: "%s%s-%s" % ("%d:" % epoch if epoch else "", version, release),
                     st.integers(0, 9), st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){0,2}", fullmatch=True),
                     st.from_regex(r"[0-9]{1,2}(\.el[0-9])?(\+cuda[0-9]{2})?", fullmatch=True))


@given(st.dictionaries(NAMES, VERSIONS, max_size=6))
def test_pins_survive_the_file(pins):
    text = versionlocks.put_block(THEIRS, versionlocks.render([], pins))
    assert versionlocks.own_pins(text) == pins
    packages = {name: package(version) for name, version in pins.items()}
    assert versionlocks.held(packages, parse_dnf.parse_dnf_versionlock(text).value) == set(pins)


@given(st.text(alphabet="ab*-:.!# \n", max_size=60))
def test_nothing_of_a_strange_file_is_lost(text):
    with_ours = versionlocks.put_block(text, BLOCK)
    kept = [line for line in versionlocks.put_block(with_ours, "").splitlines() if line.strip()]
    assert kept == [line for line in text.splitlines() if line.strip()]
    assert versionlocks.own_pins(with_ours) == PINS
