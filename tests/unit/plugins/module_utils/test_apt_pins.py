# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is written into apt's preferences, and that it reads back."""
from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.lockstep.gpu.plugins.module_utils import apt_pins
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt import OWN_PREFERENCES, parse_own_pins

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
    assert [line[13:] for line in text.splitlines() if line.startswith("Pin: version")] == expected
    assert "Package: src:s\n" in text and text.index("1002") < text.index("1001")
