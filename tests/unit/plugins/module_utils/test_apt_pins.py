# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written into apt's preferences, and that it reads back."""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.lockstep.gpu.plugins.module_utils import apt_pins
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt import OWN_PREFERENCES, parse_own_pins, parse_preferences

NAMES = st.from_regex(r"[a-z0-9][a-z0-9.+-]{1,20}", fullmatch=True)
VERSIONS = st.from_regex(r"([0-9]:)?[0-9][0-9a-z.+~]{0,10}-[0-9a-z.+~]{1,5}", fullmatch=True)


@given(st.dictionaries(NAMES, VERSIONS, max_size=8))
def test_pins_survive_writing_and_reading(wanted):
    assert parse_own_pins(apt_pins.render([], wanted)) == wanted


def test_pins_are_written_where_they_are_read():
    assert OWN_PREFERENCES.endswith(".pref")


@pytest.mark.parametrize("globs, chosen, expected", [
    (["535.261.03-*"], "535.261.03-1", ["535.261.03-1", "535.261.03-*"]),
    (["*~11.8.0-*", "11.8.0-*"], "11.8.89~11.8.0-5~deb12u1",
     ["*~11.8.0-5~deb12u1", "11.8.0-5~deb12u1", "*~11.8.0-*", "11.8.0-*"]),
])
def test_source_pins_prefer_the_chosen_revision(globs, chosen, expected):
    part = {"requests": [{"name": "a"}], "one_version": ["s"], "globs": globs}
    text = apt_pins.while_resolving([part], {"a": chosen})
    assert text.startswith("Package: a\nPin: version %s\nPin-Priority: 1002\n" % chosen)
    assert [line[13:] for line in text.splitlines() if line.startswith("Pin: version")][1:] == expected
    assert "Package: src:s\n" in text and text.index("1002") < text.index("1001")


FABRIC = {"name": "fabric", "requests": [{"name": "nvidia-fabricmanager"}], "globs": ["580.126.20-*"], "guard": ["nvidia-imex*", "libnvsdm*"],
          "away": [{"packages": ["nvidia-imex*"], "release": "l=Ubuntu"}, {"packages": ["x"], "repo": "ubuntu"}]}


def test_what_keeps_away_stands_behind_what_is_exact():
    """The first stanza that fits counts, so the order is the meaning."""
    found = parse_preferences("==> /x <==\n" + apt_pins.render([FABRIC], {"nvidia-imex": "580.126.20-1"})).value
    assert [(pin["package"], pin["pin"], pin["priority"]) for pin in found] == [
        ("nvidia-imex", "version 580.126.20-1", 1001),
        ("nvidia-imex*", "release l=Ubuntu", -1),
        ("nvidia-imex* libnvsdm*", "version 580.126.20-*", 1001), ("nvidia-imex* libnvsdm*", "version *", -1)]


def test_stanzas_of_components_that_nobody_names_now_stay():
    """A role alone names its own component only; whoever wrote last, the file is the same."""
    nccl = {"name": "nccl", "requests": [{"name": "libnccl2"}], "globs": ["2.26.2-*"], "guard": ["libnccl*"],
            "away": [{"packages": ["libnccl*"], "release": "o=Ubuntu"}]}
    both = apt_pins.render([FABRIC, nccl], {"a": "1"})
    assert apt_pins.render([nccl], {"a": "1"}, apt_pins.render([FABRIC], {})) == both == apt_pins.render([FABRIC], {"a": "1"}, both)
    assert apt_pins.render([FABRIC, nccl], {"a": "1"}, both) == both
    moved = apt_pins.render([dict(FABRIC, globs=["610.57.04-*"])], {}, both)
    assert "580.126.20" not in moved and "Package: libnccl*\nPin: version 2.26.2-*\n" in moved
    found = [pin["pin"].split()[0] for pin in parse_preferences("==> /x <==\n" + both).value]
    assert found == sorted(found, key=["version", "release"].index)[:1] + ["release"] * 2 + ["version"] * 4


def test_what_our_file_does_not_guard_is_told():
    pins = parse_preferences("==> %s <==\n%s" % (OWN_PREFERENCES, apt_pins.render([FABRIC], {"a": "1"}))).value
    assert apt_pins.unguarded([FABRIC], pins) == [] and apt_pins.unguarded([], []) == []
    assert apt_pins.unguarded([FABRIC], [dict(pin, file="/etc/apt/preferences.d/mine") for pin in pins]) == ["nvidia-imex*", "nvidia-imex* libnvsdm*"]
    assert apt_pins.unguarded([dict(FABRIC, globs=["580.159.03-*"])], pins) == ["nvidia-imex* libnvsdm*"]


def test_patterns_are_no_pins_of_packages():
    assert parse_own_pins(apt_pins.render([FABRIC], {"nvidia-imex": "580.126.20-1"})) == {"nvidia-imex": "580.126.20-1"}


@pytest.mark.parametrize("words, expected", [
    ("*", True), ("nvidia-*", True), ("libnvidia-* nvidia-dkms-580", True), ("/dkms-5[0-9]0$/", True), ("nvidia-dkms", False), ("/[/", False),
    ("src:nvidia-graphics-drivers-580", False)])
def test_a_users_pin_speaks_of_a_package(words, expected):
    assert apt_pins.covers(words, "nvidia-dkms-580") is expected


def test_files_that_keep_a_package_away():
    pins = [{"file": "/a", "package": "nvidia-*", "priority": -1}, {"file": "/b", "package": "nvidia-*", "priority": 600},
            {"file": "/c", "package": "*", "priority": -10}]
    assert apt_pins.forbidding(pins, "nvidia-dkms-580") == ["/a", "/c"]
