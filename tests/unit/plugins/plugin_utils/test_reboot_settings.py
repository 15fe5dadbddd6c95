# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When nodes may reboot, and how many at once."""
from __future__ import annotations

import datetime

import pytest
import yaml
from ansible.errors import AnsibleFilterError
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.lockstep.gpu.plugins.filter import reboots
from ansible_collections.lockstep.gpu.plugins.plugin_utils import reboot_settings as settings

NIGHT = {"days": ["sat", "sun"], "from": "22:00", "to": "04:00"}


@pytest.mark.parametrize("clock, inside", [
    ("6 21:59", False), ("6 22:00", True), ("7 00:00", True), ("7 03:59", True), ("7 04:00", False), ("7 22:00", True),
    # Monday before four belongs to Sunday's night; Saturday before four to Friday's, which is none.
    ("1 03:59", True), ("1 04:00", False), ("6 03:59", False), ("1 22:00", False)])
def test_a_night_belongs_to_the_day_on_which_it_begins(clock, inside):
    assert settings.inside(NIGHT, clock) is inside


@pytest.mark.parametrize("value, clock, inside", [
    ({"from": "02:00", "to": "04:00"}, "3 02:00", True), ({"from": "02:00", "to": "04:00"}, "3 04:00", False),
    ({"days": "wed", "from": "02:00", "to": "04:00"}, "4 03:00", False), ({"days": ["Wednesday"], "from": "2:00", "to": "4:00"}, "3 03:00", True),
    ({"days": ["wed"], "from": "00:00", "to": "24:00"}, "3 23:59", True), ({"days": ["wed"], "from": "00:00", "to": "24:00"}, "4 00:00", False),
    ({"days": ["wed"], "from": "08:00", "to": "08:00"}, "4 07:59", True), ({"days": ["wed"], "from": "08:00", "to": "08:00"}, "4 08:00", False)])
def test_windows(value, clock, inside):
    assert settings.inside(value, clock) is inside


@given(st.sets(st.integers(0, 6), min_size=1), st.integers(0, 1439), st.integers(0, 1439),
       st.datetimes(datetime.datetime(2026, 1, 1), datetime.datetime(2027, 1, 1)))
def test_a_window_as_the_calendar_has_it(days, start, end, now):
    """Oracle: real intervals around a real date, each beginning on its day."""
    value = {"days": [settings.DAYS[day] for day in days], "from": "%02d:%02d" % divmod(start, 60), "to": "%02d:%02d" % divmod(end, 60)}
    now = now.replace(second=0, microsecond=0)
    length = datetime.timedelta(minutes=(end - start) % 1440 or 1440)
    begins = [datetime.datetime.combine(now.date() - datetime.timedelta(days=back), datetime.time()) + datetime.timedelta(minutes=start) for back in (0, 1)]
    expected = any(begin.weekday() in days and begin <= now < begin + length for begin in begins)
    assert settings.inside(value, now.strftime("%u %H:%M")) is expected


def test_times_without_quotes_are_what_they_look_like():
    """YAML 1.1 makes 22:00 a number of base 60."""
    value = yaml.safe_load("{days: [sat], from: 22:00, to: 04:00}")
    assert value["from"] == 1320 and settings.window(value) == settings.window(dict(NIGHT, days=["sat"]))


@pytest.mark.parametrize("value, words", [
    (None, "is missing"), ("sat", "no mapping"), ({"from": "22:00"}, "lacks 'to'"), (dict(NIGHT, until="1"), "has no key 'until'"),
    (dict(NIGHT, days=["sa"]), "'sa' is no day"), (dict(NIGHT, days=["satan"]), "'satan' is no day"), (dict(NIGHT, days=[]), "names no day"),
    (dict(NIGHT, days=[6]), "6 is no day"), (dict(NIGHT, **{"from": "25:00"}), "'25:00' is no time"), (dict(NIGHT, to="24:01"), "no time"),
    (dict(NIGHT, to=22), "22 is no time"), (dict(NIGHT, to=True), "no time"), (dict(NIGHT, to="10 pm"), "no time")])
def test_a_window_that_cannot_be_meant(value, words):
    with pytest.raises(settings.SettingError, match="lockstep_reboot_window") as error:
        settings.window(value)
    assert words in str(error.value)


@pytest.mark.parametrize("clock", ["", "0 10:00", "8 10:00", "Sat 22:00", "6 2200", None])
def test_a_clock_that_cannot_be_read(clock):
    with pytest.raises(settings.SettingError, match="clock"):
        settings.inside(NIGHT, clock)


def test_what_nothing_says_is_one_batch_and_no_reboot():
    assert settings.settings({"a": {}, "b": {"lockstep_reboot": "never"}}) == {"serial": ["100%"], "max_fail_percentage": 0.0}


def test_a_node_that_may_boot_makes_one_go_first():
    assert settings.settings({"a": {}, "b": {"lockstep_reboot": "auto"}})["serial"] == settings.CANARY_FIRST
    assert settings.settings({"a": {"lockstep_reboot": "auto", "lockstep_rollout": ["1", "30%", 5], "lockstep_max_fail_percentage": "25"}}) == {
        "serial": [1, "30%", 5], "max_fail_percentage": 25.0}


@pytest.mark.parametrize("value, words", [
    ({"lockstep_reboot": "sometimes"}, "candidates: never, auto, window"), ({"lockstep_reboot": True}, "candidates"),
    ({"lockstep_reboot": "window"}, "lockstep_reboot_window: is missing"), ({"lockstep_reboot_window": {"from": 1}}, "lockstep_reboot_window"),
    ({"lockstep_rollout": []}, "lockstep_rollout"), ({"lockstep_rollout": "0"}, "lockstep_rollout"), ({"lockstep_rollout": [1, "101%"]}, "lockstep_rollout"),
    ({"lockstep_rollout": True}, "lockstep_rollout"), ({"lockstep_max_fail_percentage": -1}, "max_fail"), ({"lockstep_max_fail_percentage": "few"}, "max_fail"),
    ({"lockstep_max_fail_percentage": float("nan")}, "max_fail"), ({"lockstep_before_reboot": ["slrum"]}, "candidates: slurm, kubernetes"),
    ({"lockstep_before_reboot": [5]}, "list of tasks files"), ({"lockstep_after_reboot": ["gone.yml"]}, "there is no file"),
    ({"node_kernel_confirm_within": "10m"}, "'10m' is no whole number from 0 on"), ({"node_kernel_drain_poll": 0}, "from 1 on"),
    ({"node_kernel_keep": True}, "no whole number"), ({"node_kernel_panic": -1}, "node_kernel_panic"), ({"node_kernel_trials": 1.5}, "node_kernel_trials")])
def test_what_cannot_be_meant(value, words):
    with pytest.raises(settings.SettingError) as error:
        settings.settings({"n": value}, ["/nowhere"])
    assert words in str(error.value)


def test_numbers_of_the_command_line_are_text():
    assert settings.settings({"n": {"node_kernel_confirm_within": "700", "node_kernel_keep": "2", "node_kernel_trials": 3}})["serial"] == ["100%"]


@pytest.mark.parametrize("text", ["{{ node_kernel_confirm_within + 60 }}", "<< error 1 - 'node_kernel_confirm_within' is undefined >>"])
def test_a_number_made_of_what_only_the_role_knows_is_left_to_it(text):
    assert reboots.settings(["n"], {"n": {"node_kernel_reboot_timeout": text, "node_kernel_keep": "2"}})["serial"] == ["100%"]
    with pytest.raises(AnsibleFilterError, match="node_kernel_keep"):
        reboots.settings(["n"], {"n": {"node_kernel_reboot_timeout": text, "node_kernel_keep": "two"}})


def test_a_rollout_is_one_for_all():
    with pytest.raises(settings.SettingError, match="differs between nodes"):
        settings.settings({"a": {"lockstep_rollout": 1}, "b": {"lockstep_rollout": 2}})


def test_hooks_are_ready_made_or_files_beside_the_playbook_or_the_inventory(tmp_path):
    (tmp_path / "inventory").mkdir()
    (tmp_path / "inventory" / "mine.yml").write_text("[]")
    places = [str(tmp_path / "playbook"), "", str(tmp_path / "inventory")]
    assert settings.files(["slurm", "mine.yml"], "before", "/role", places) == [
        "/role/tasks/hooks/slurm_before.yml", str(tmp_path / "inventory" / "mine.yml")]
    assert settings.files([str(tmp_path / "inventory" / "mine.yml")], "after", "/role", places) == [str(tmp_path / "inventory" / "mine.yml")]
    assert settings.ready_made(["mine.yml", "slurm", "kubernetes"], None) == ["kubernetes", "slurm"]
    assert settings.ready_made(["slurm"], []) == [] and settings.ready_made(["slurm"], ["mine.yml"]) == ["mine.yml"]
