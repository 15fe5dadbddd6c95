# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One call of pinned_packages, on a package manager that is a table."""
from __future__ import annotations

import inspect
import types

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import acting, pinned_node, pinning, versions

NCCL = {"name": "nccl", "version": "2.22.3", "pattern": r"2\.22\.3-.+", "sources": [], "names": ["libnccl.*"], "one_names": ["libnccl.*"],
        "requests": [{"name": "libnccl2", "version": r"2\.22\.3-.+"}], "guard": ["libnccl-dev"]}
ROW = {"name": "libnccl2", "version": "2.22.3-1", "old": None, "change": "install", "component": "nccl", "step": "nccl", "managed": True, "source": None}


def backend(folder, packages=None, pins=None, text="", settings=()):
    """A package manager whose installations work, and that notes what it is told."""
    table = types.SimpleNamespace(
        SOURCES_FILE=str(folder / "sources"), PINS_FILE=str(folder / "pins"), PIN_ACTION="add_apt_pin", KEY_FORM="binary",
        compare=versions.compare, packages=dict(packages or {}), pins=dict(pins or {}), text=text, log=[])

    def install(run, slices, given, wanted, agreed):
        table.log.append(("install", wanted["ask"], wanted["removed"]))
        for name, version in wanted["ask"].items():
            table.packages[name] = {"version": version, "status": "installed", "hold": False, "source": None}
        settle(run, slices, given, agreed)

    def settle(_run, slices, given, agreed):
        table.log.append(("settle", given["sources"]))
        table.pins, table.text = dict(agreed), table.pin_text(slices, agreed)

    def hold(_run, names):
        table.log.append(("hold", names))
        for name in names:
            table.packages[name]["hold"] = True

    table.install, table.settle, table.hold = install, settle, hold
    table.wait_for_lock = lambda: None
    table.state = lambda run: (table.packages, {})
    table.pins_now = lambda: table.pins
    table.pin_text_now = lambda: table.text
    table.pin_text = lambda slices, agreed: "%s %s" % (sorted(agreed.items()), [part.get("guard") for part in slices])
    table.settings_due = lambda run, slices: list(settings)
    table.finish = lambda run, packages, slices: table.log.append(("finish",))
    table.resolve_aside = lambda *words: {"closure": [dict(ROW)], "removed": [], "targets": {}}
    return table


def node(table, **params):
    return pinned_node.Node(lambda *words, **more: None, dict(
        {"slices": [NCCL], "only": None, "repositories": None, "alternatives": {}, "closure": None, "removed": [], "keys": []}, **params), table)


def run(call, state="present", check=False):
    return pinned_node.run_state(types.SimpleNamespace(params={"state": state}, check_mode=check), call)


@pytest.fixture(autouse=True)
def guard(tmp_path, monkeypatch):
    monkeypatch.setattr(acting.DkmsGuard.__init__, "__defaults__", (str(tmp_path / "dkms" / "guard"),))


def words(result):
    return [(row["action"], row["target"]) for row in result["actions"]]


def test_a_call_installs_pins_holds_and_is_done(tmp_path):
    table = backend(tmp_path)
    result = run(node(table))
    assert words(result) == [("install_exact", "libnccl2=2.22.3-1"), ("add_apt_pin", "libnccl2"), ("hold", "libnccl2")]
    assert [step[0] for step in table.log] == ["install", "settle", "hold"] and table.pins == {"libnccl2": "2.22.3-1"}
    again = run(node(table))
    assert not again["changed"] and again["actions"] == [] and again["diff"] == []


@pytest.mark.parametrize("state, check", [("resolved", False), ("present", True)])
def test_nothing_happens_where_nothing_may(tmp_path, state, check):
    table = backend(tmp_path)
    result = run(node(table), state, check)
    assert table.log == [] and table.packages == {} and result["changed"] is check


def there():
    return {"libnccl2": {"version": "2.22.3-1", "status": "installed", "hold": True, "source": None}}


def test_a_pin_file_that_guards_too_little_is_written_again(tmp_path):
    table = backend(tmp_path, there(), {"libnccl2": "2.22.3-1"}, "[('libnccl2', '2.22.3-1')] [[]]")
    result = run(node(table))
    assert words(result) == [("add_apt_pin", table.PINS_FILE)] and [step[0] for step in table.log] == ["settle", "hold"]
    assert not run(node(table))["changed"]


def test_settings_of_the_package_manager_are_told(tmp_path):
    due = [{"action": "module_enable", "target": "nvidia-driver:580-open", "before": "none\n", "after": "580-open\n"}]
    result = run(node(backend(tmp_path, settings=due)), check=True)
    assert ("module_enable", "nvidia-driver:580-open") in words(result)
    assert [part["after"] for part in result["diff"] if part["after_header"] == "nvidia-driver:580-open"] == ["580-open\n"]


def test_keys_are_told_by_path_and_fingerprint(tmp_path, monkeypatch):
    row = {"path": "/etc/apt/keyrings/a.gpg", "content": b"k", "fingerprints": ["AB12"], "now": ["CD34"], "same": False}
    monkeypatch.setattr(pinned_node.repository_keys, "load", lambda keys, fetch, form: [row])
    result = run(node(backend(tmp_path)), check=True)
    assert ("configure_repository", "/etc/apt/keyrings/a.gpg") in words(result)
    shown, = [part for part in result["diff"] if part["after_header"] == "/etc/apt/keyrings/a.gpg"]
    assert (shown["before"], shown["after"]) == ("key CD34\n", "key AB12\n")
    row["same"] = True
    assert all(target != "/etc/apt/keyrings/a.gpg" for dummy, target in words(run(node(backend(tmp_path)), check=True)))


def test_a_key_that_nobody_expects_stops_the_call_before_anything(tmp_path):
    table = backend(tmp_path)
    table.wait_for_lock = table.state = lambda *words: pytest.fail("it went on")
    with pytest.raises(acting.Refused) as error:
        node(table, keys=[{"path": str(tmp_path / "a.gpg"), "key": "/nowhere", "fingerprints": ["AB"]}])
    assert error.value.problems[0]["code"] == "repository_key_unknown"


def test_what_comes_at_another_version_is_a_failure(tmp_path):
    table = backend(tmp_path)
    table.install = lambda *words: table.packages.update(libnccl2={"version": "2.21-1", "status": "installed", "source": None})
    with pytest.raises(acting.PackageError) as error:
        run(node(table))
    assert "libnccl2 is 2.21-1, wanted 2.22.3-1" in str(error.value)


def test_versions_that_lie_side_by_side_are_no_upgrade(tmp_path):
    part = {"name": "kernel", "version": "570", "pattern": "5.14.0-570", "sources": [], "names": ["kernel-core"], "installonly": True,
            "requests": [{"name": "kernel-core", "version": "5.14.0-570"}]}
    packages = {"kernel-core": {"version": "5.14.0-687", "others": ["5.14.0-611"], "status": "installed", "hold": True, "source": None}}
    row = dict(ROW, name="kernel-core", version="5.14.0-570", component="kernel", step="kernel")
    call = node(backend(tmp_path, packages), slices=[part], closure=[row])
    assert [due["change"] for due in call.due()] == ["install"]
    packages["kernel-core"]["others"].append("5.14.0-570")
    assert [due["change"] for due in call.due()] == ["keep"]


@pytest.mark.parametrize("manager, tool, expected", [
    ("auto", "/usr/bin/apt-get", "apt"), ("auto", None, "dnf"), ("apt", None, "apt"), ("dnf", "/usr/bin/apt-get", "dnf")])
def test_the_backend_is_the_nodes(monkeypatch, manager, tool, expected):
    monkeypatch.setattr(pinned_node, "find_tool", lambda name: tool)
    assert pinned_node.backend_for(manager) is pinned_node.BACKENDS[expected]


@pytest.mark.parametrize("name", sorted(pinned_node.BACKENDS))
def test_every_backend_has_what_the_list_says(name):
    """The list is the docstring of pinning.py; the numbers of arguments are apt's."""
    here = pinned_node.BACKENDS[name]
    assert here.KEY_FORM in ("binary", "armoured") and here.SOURCES_FILE.startswith("/") and here.PINS_FILE.startswith("/") and here.PIN_ACTION
    for word in ("compare", "prepare", "wait_for_lock", "state", "pins_now", "pin_text_now", "pin_text", "settings_due", "resolve_aside", "finish",
                 "install", "settle", "hold"):
        needed = [one for one in inspect.signature(getattr(here, word)).parameters.values() if one.default is one.empty]
        model = [one for one in inspect.signature(getattr(pinning, word)).parameters.values() if one.default is one.empty]
        assert len(needed) == len(model), word
