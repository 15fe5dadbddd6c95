# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The joint closure, with an apt that answers from a table; tests/resolver has the real one."""
from __future__ import annotations

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import acting, apt, resolving, versions_rpm

NCCL = {"name": "nccl", "version": "2.22.3", "pattern": r"2\.22\.3-.+", "sources": ["nvidia-nccl"], "one_version": ["nvidia-nccl"],
        "requests": [{"name": "libnccl2", "version": r"2\.22\.3-.+"}]}
KERNEL = {"name": "kernel", "version": "6.12.120+deb13-amd64 (6.12.120-1)", "pattern": "x", "sources": ["linux-signed-amd64"],
          "requests": [{"name": "linux-image-6.12.120+deb13-amd64", "version": r"6\.12\.120-1"}]}


class FakeApt:
    """An archive as a table; the simulation installs what is asked for and its dependencies."""

    def __init__(self, archive, sources, depends=(), removes=(), away=(), leads=(), users=()):
        """away: [(name, version)] that a pin keeps away; leads: {name: where it leads}; users: the user's pins."""
        self.archive, self.sources, self.depends, self.removes = archive, sources, dict(depends), list(removes)
        self.asked, self.away, self.leads, self.users = [], set(away), dict(leads), list(users)

    def versions(self, names):
        return apt.existing(self.policies(names))

    def policies(self, names):
        def row(name, version):
            return {"version": version, "priority": -1 if (name, version) in self.away else 500, "installed": False,
                    "origins": [{"uri": "http://a.example"}]}

        return {name: {"table": [row(name, version) for version in self.archive[name]]} for name in names if name in self.archive}

    def pins(self):
        return self.users

    def names_like(self, prefix):
        return sorted(name for name in self.archive if name.startswith(prefix))

    def prefer(self, text):
        self.preferred = text

    def show(self, targets):
        return {name: {"version": version, "source": self.sources.get(name), "arch": "amd64", "size": 1, "installed_kib": 1,
                       "leads_to": self.leads.get(name)} for name, version in targets.items()}

    def simulate(self, arguments, verb="install"):
        self.asked.append((verb, list(arguments)))
        if verb == "remove":
            return {}, list(arguments) + self.removes
        installs = dict(item.split("=") for item in arguments if "=" in item)
        for name in list(installs):
            installs.update(self.depends.get(name, {}))
        return ({name: {"version": version, "old": None, "origin": "Test"} for name, version in installs.items()},
                [item[:-1] for item in arguments if item.endswith("-")])


def test_the_closure_of_a_fresh_node():
    ask = FakeApt({"libnccl2": ["2.23.4-1", "2.22.3-1-1"]}, {"libnccl2": "nvidia-nccl"}, {"libnccl2": {"libstdc++6": "14-1"}})
    found = resolving.resolve(ask, [NCCL], {}, {})
    assert {(row["name"], row["version"], row["managed"], row["step"]) for row in found["closure"]} == {
        ("libnccl2", "2.22.3-1-1", True, "nccl"), ("libstdc++6", "14-1", False, "nccl")}
    assert found["removed"] == []


def test_a_version_that_is_gone_names_those_that_are_there():
    with pytest.raises(acting.Refused) as error:
        resolving.resolve(FakeApt({"libnccl2": ["2.23.4-1"]}, {}), [NCCL], {}, {})
    problem = error.value.problems[0]
    assert problem["code"] == "locked_version_gone_from_archive" and "2.23.4-1" in problem["message"]


def test_a_kernel_that_is_gone_names_its_flavour_only():
    archive = {name: ["6.12.117-1"] for name in (
        "linux-image-6.12.117+deb13-amd64", "linux-image-6.12.117+deb13-cloud-amd64", "linux-image-6.12.117+deb13-amd64-dbg",
        "linux-image-6.12.117+deb13-amd64-unsigned", "linux-image-amd64")}
    with pytest.raises(acting.Refused) as error:
        resolving.resolve(FakeApt(archive, {}), [KERNEL], {}, {})
    assert error.value.problems[0]["available"] == ["linux-image-6.12.117+deb13-amd64=6.12.117-1"]


def test_all_missing_versions_are_named_at_once():
    with pytest.raises(acting.Refused) as error:
        resolving.resolve(FakeApt({}, {}), [KERNEL, NCCL], {}, {})
    assert [problem["component"] for problem in error.value.problems] == ["kernel", "nccl"]


def installed(version, source):
    return {"version": version, "source": source, "status": "installed", "hold": True, "arch": "amd64"}


def test_a_companion_follows_or_leaves():
    packages = {"libnccl2": installed("2.21-1", "nvidia-nccl"), "libnccl-dev": installed("2.21-1", "nvidia-nccl"),
                "nccl-doc": installed("2.21-1", "nvidia-nccl")}
    pins = {name: "2.21-1" for name in packages}
    ask = FakeApt({"libnccl2": ["2.22.3-1"], "libnccl-dev": ["2.22.3-1", "2.21-1"]}, dict.fromkeys(packages, "nvidia-nccl"))
    found = resolving.resolve(ask, [NCCL], packages, pins)
    assert found["removed"] == ["nccl-doc"]
    assert {row["name"]: row["change"] for row in found["closure"]} == {"libnccl2": "upgrade", "libnccl-dev": "upgrade"}


def test_what_something_else_needs_is_not_removed():
    ask = FakeApt({}, {}, removes=["postgresql"])
    assert resolving.removable(ask, ["a", "b"]) == []
    assert resolving.removable(FakeApt({}, {}), ["b", "a"]) == ["a", "b"]


def test_what_another_candidate_needs_goes_after_it():
    """apt answers the removal of support alone by installing another one, and keeps libcuda for the toolkit."""
    class Apt:
        def simulate(self, arguments, verb):
            if "libcuda1" in arguments:
                return {}, [*arguments, "nvidia-cuda-toolkit"]
            return ({} if "dkms" in arguments else {"other-support": {}}), list(arguments)

    assert resolving.removable(Apt(), ["a-support", "dkms", "libcuda1"]) == ["a-support", "dkms"]


def test_what_only_the_old_version_of_a_package_needs_can_go_with_it():
    """nvidia-kernel-common 580.178.04 needs the firmware of its version, 580.126.20 that of its own."""
    class Apt:
        def simulate(self, arguments, verb="install"):
            firmware = [one for one in ("firmware-178", "firmware-178-") if one in arguments]
            moves = "kernel-common=126" in arguments
            return ({"kernel-common": {}} if moves else {}), [*map(lambda one: one.rstrip("-"), firmware), *([] if moves else ["kernel-common"])]

    assert resolving.removable(Apt(), ["firmware-178"], {"kernel-common": "126"}) == ["firmware-178"]
    assert resolving.removable(Apt(), ["firmware-178"], {"other": "1"}) == resolving.removable(Apt(), ["firmware-178"]) == []


V, P = "580.126.20", r"580\.126\.20-.+"
DRIVER = {"name": "driver", "version": V, "pattern": P, "globs": [V + "-*"], "sources": [], "names": ["nvidia-.+", "libnvidia-.+"],
          "one_names": ["nvidia-(dkms|firmware)-580.*", "libnvidia-.+"],
          "requests": [{"name": "nvidia-dkms-580", "version": P}, {"name": "libnvidia-vulkan", "version": P, "optional": True}],
          "away": [{"packages": ["nvidia-*", "libnvidia-*"], "release": "l=Ubuntu"}]}
ARCHIVE = {"nvidia-dkms-580": ["580.178.04-1ubuntu1", "580.126.20-1ubuntu1"], "nvidia-firmware-580-580.126.20": ["580.126.20-1ubuntu1"],
           "libnvidia-compute-580": ["580.178.04-1ubuntu1", "580.126.20-1ubuntu1", "580.126.20-0ubuntu0.24.04.1"]}


def pinned(text):
    """{package: version} of exact stanzas."""
    stanzas = [dict(line.split(": ", 1) for line in stanza.splitlines()) for stanza in text.strip().split("\n\n")]
    return {stanza["Package"]: stanza["Pin"][8:] for stanza in stanzas if stanza["Pin"].startswith("version ") and "*" not in stanza["Pin"]}


def test_what_nobody_asks_for_comes_at_the_stacks_version():
    """A plain "Depends: libnvidia-compute-580" would take 580.178.04."""
    ask = FakeApt(ARCHIVE, {}, {"nvidia-dkms-580": {"libnvidia-compute-580": "580.126.20-1ubuntu1"}})
    found = resolving.resolve(ask, [DRIVER], {}, {})
    assert pinned(ask.preferred) == {"nvidia-dkms-580": "580.126.20-1ubuntu1", "libnvidia-compute-580": "580.126.20-1ubuntu1",
                                     "nvidia-firmware-580-580.126.20": "580.126.20-1ubuntu1"}
    assert {row["name"]: row["managed"] for row in found["closure"]} == {"nvidia-dkms-580": True, "libnvidia-compute-580": True}


def test_what_comes_at_another_version_is_refused_by_name():
    ask = FakeApt(ARCHIVE, {}, {"nvidia-dkms-580": {"libnvidia-extra": "610.57.04-1"}})
    with pytest.raises(acting.Refused) as error:
        resolving.resolve(ask, [DRIVER], {}, {})
    assert [(problem["code"], problem["name"]) for problem in error.value.problems] == [("transaction_leaves_lock", "libnvidia-extra")]


def test_an_optional_package_is_asked_for_where_it_is():
    assert set(resolving.resolve(FakeApt(ARCHIVE, {}), [DRIVER], {}, {})["targets"]) == {"nvidia-dkms-580"}
    there = dict(ARCHIVE, **{"libnvidia-vulkan": ["580.126.20-1ubuntu1"]})
    assert set(resolving.resolve(FakeApt(there, {}), [DRIVER], {}, {})["targets"]) == {"nvidia-dkms-580", "libnvidia-vulkan"}


def test_an_optional_package_that_cannot_follow_leaves():
    packages = {"libnvidia-vulkan": installed("570.1-1", "x")}
    assert resolving.resolve(FakeApt(ARCHIVE, {}), [DRIVER], packages, {})["removed"] == ["libnvidia-vulkan"]


def test_what_a_pin_keeps_away_does_not_exist():
    away = [("nvidia-dkms-580", "580.126.20-1ubuntu1")]
    users = [{"file": "/etc/apt/preferences.d/mine", "package": "nvidia-*", "pin": "release l=NVIDIA CUDA", "priority": -1}]
    for pins, code, words in ((users, "pinned_away", "/etc/apt/preferences.d/mine"), ([], "locked_version_gone_from_archive", "580.178.04")):
        with pytest.raises(acting.Refused) as error:
            resolving.resolve(FakeApt(ARCHIVE, {}, away=away, users=pins), [DRIVER], {}, {})
        assert error.value.problems[0]["code"] == code and words in error.value.problems[0]["message"]


def test_a_package_of_another_origin_that_we_brought_goes_with_its_set():
    packages = {"nvidia-settings": installed("580.126.20-0ubuntu0.24.04.1", "x")}
    ask = FakeApt(dict(ARCHIVE, **{"nvidia-settings": ["580.126.20-0ubuntu0.24.04.1"]}), {}, away=[("nvidia-settings", "580.126.20-0ubuntu0.24.04.1")])
    found = resolving.resolve(ask, [DRIVER], packages, {"nvidia-settings": "580.126.20-0ubuntu0.24.04.1"})
    assert found["removed"] == ["nvidia-settings"]


def test_a_package_of_another_origin_stays_only_over_an_objection():
    packages = {"nvidia-settings": installed("580.126.20-0ubuntu0.24.04.1", "x")}
    ask = FakeApt(dict(ARCHIVE, **{"nvidia-settings": ["580.126.20-0ubuntu0.24.04.1"]}), {}, away=[("nvidia-settings", "580.126.20-0ubuntu0.24.04.1")])
    with pytest.raises(acting.Refused) as error:
        resolving.resolve(ask, [DRIVER], packages, {})
    assert [(problem["code"], problem["name"]) for problem in error.value.problems] == [("package_origin_differs", "nvidia-settings")]


def test_a_version_that_both_origins_have_is_of_the_one_that_may_stay():
    packages = {"nvidia-settings": installed("580.126.20-1", "x")}

    def row(priority):
        return {"version": "580.126.20-1", "priority": priority, "installed": priority < 0, "origins": [{"uri": "http://a.example"}]}

    part = dict(DRIVER, away=[{"packages": ["nvidia-settings"], "release": "o=Debian"}])
    for table, found in (([row(-1), row(500)], set()), ([row(-1)], {"nvidia-settings"})):
        assert resolving.strangers_of([part], packages, {"nvidia-settings": {"table": table}}) == found


def test_a_package_that_only_leads_elsewhere_is_refused_by_name():
    part = dict(DRIVER, requests=[{"name": "nvidia-driver-590-open", "version": r"590\.48\.01-.+"}])
    for versions in (["590.48.01-0ubuntu4"], ["595.84-0ubuntu1"]):
        with pytest.raises(acting.Refused) as error:
            resolving.resolve(FakeApt({"nvidia-driver-590-open": versions}, {}, leads={"nvidia-driver-590-open": "nvidia-driver-595-open"}), [part], {}, {})
        assert [(problem["code"], problem["name"]) for problem in error.value.problems] == [("candidate_is_transitional", "nvidia-driver-590-open")]
        assert "nvidia-driver-595-open" in str(error.value)


def test_a_set_of_which_some_names_are_gone_and_others_lead_elsewhere_is_told_by_these():
    part = dict(DRIVER, requests=[{"name": name, "version": r"590\.48\.01-.+"} for name in ("nvidia-dkms-590-open", "nvidia-kernel-source-590-open")])
    with pytest.raises(acting.Refused) as error:
        resolving.resolve(FakeApt({"nvidia-dkms-590-open": ["590.48.01-0ubuntu4"]}, {}, leads={"nvidia-dkms-590-open": "nvidia-dkms-595-open"}), [part], {}, {})
    problem, = error.value.problems
    assert (problem["code"], problem["name"]) == ("candidate_is_transitional", "nvidia-dkms-590-open")
    assert "nvidia-kernel-source-590-open" in problem["message"] and "nvidia-dkms-595-open" in problem["message"]


def test_a_build_of_another_origin_is_replaced_by_the_stacks():
    packages = {"nvidia-dkms-580": installed("580.126.20-0ubuntu0.24.04.1", "x")}
    archive = dict(ARCHIVE, **{"nvidia-dkms-580": ["580.126.20-1ubuntu1", "580.126.20-0ubuntu0.24.04.1"]})
    ask = FakeApt(archive, {}, away=[("nvidia-dkms-580", "580.126.20-0ubuntu0.24.04.1")])
    assert resolving.resolve(ask, [DRIVER], packages, {})["targets"] == {"nvidia-dkms-580": "580.126.20-1ubuntu1"}


def test_apts_refusal_names_the_package():
    class Unmet(FakeApt):
        def simulate(self, arguments, verb="install"):
            raise apt.AptError("The following packages have unmet dependencies:\nnvidia-dkms-580 : Depends: nvidia-firmware-580 but it is not installable")

    with pytest.raises(acting.Refused) as error:
        resolving.resolve(Unmet(ARCHIVE, {}), [DRIVER], {}, {})
    assert error.value.problems[0]["name"] == "nvidia-dkms-580"


def test_pure_parts_take_another_order_of_versions():
    """1.0^git1 is newer than 1.0 for rpm only."""
    part = {"name": "a", "version": "1", "pattern": r"1\..+", "sources": [], "names": ["a"], "requests": [{"name": "a", "version": r"1\..+"}]}
    targets, problems = resolving.targets_of([part], {}, {"a": ["1.0-1", "1.0^git1-1"]}, {}, compare=versions_rpm.compare)
    assert targets == {"a": "1.0^git1-1"} and not problems
