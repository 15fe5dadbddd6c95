# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The filters: doors that turn errors into one clean sentence."""
from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from ansible_collections.lockstep.gpu.plugins.filter import lockstep

FILTERS = lockstep.FilterModule().filters()


def test_each_filter_has_its_page():
    folder = pathlib.Path(lockstep.__file__).parent
    for name in FILTERS:
        page = yaml.safe_load((folder / (name + ".yml")).read_text())
        assert page["DOCUMENTATION"]["name"] == name
        assert {"DOCUMENTATION", "EXAMPLES", "RETURN"} == set(page)


def test_a_claim_is_judged_without_a_node():
    rows = FILTERS["findings"]({"driver": "470.256.02", "cuda": "12.4.1"}, {"gpus": ["V100"]})
    assert [row["code"] for row in rows] == ["cuda_needs_compat"]
    assert FILTERS["verdict"](rows) == "blocked"
    assert FILTERS["verdict"](FILTERS["findings"]("debian13-550-open", accept="driver_fails_to_build_on_kernel@*")) == "in_sync"


@pytest.mark.parametrize(("name", "value", "options", "word"), [
    ("stack", {"os": "debian-13", "driver": "535"}, {}, "driver.version"),
    ("stack", "nothing-like-it", {}, "lockstep_stack"),
    ("findings", {"driver": "535.*"}, {}, "driver.version"),
    ("findings", "debian13-550", {"accept": ["nonsense"]}, "lockstep_accept"),
    ("findings", "debian13-550", {"target": "gpu"}, "target"),
    ("findings", "debian13-550", {"target": {"os": ["debian"]}}, "target.os"),
    ("findings", "debian13-550", {"target": {"gpus": 5}}, "target.gpus"),
])
def test_an_error_is_one_sentence(name, value, options, word):
    with pytest.raises(AnsibleFilterError, match=word) as caught:
        FILTERS[name](value, **options)
    assert "Traceback" not in str(caught.value) and "\n" not in str(caught.value)
