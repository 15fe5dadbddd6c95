# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A claim that names a part of a node: which package has which product's version, and what no archive has."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import actions, knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.rules import attainable
from ansible_collections.lockstep.gpu.plugins.plugin_utils.rules.context import Context, Hit

from .recorded import found, judged

# (package, version, source package, its version): what site installs on Debian 13.
SET = (("libcuda1", "550.163.01-2", "nvidia-graphics-drivers", "550.163.01-2"), ("nvidia-smi", "550.163.01-2", "nvidia-graphics-drivers", "550.163.01-2"),
       ("firmware-nvidia-gsp", "550.163.01-2", "nvidia-graphics-drivers", "550.163.01-2"),
       ("nvidia-persistenced", "550.163.01-1", "nvidia-persistenced", "550.163.01-1"), ("nvidia-modprobe", "570.133.07-1", "nvidia-modprobe", "570.133.07-1"),
       ("nvidia-kernel-common", "20240109+1", "nvidia-support", "20240109+1"), ("nvidia-support", "20240109+1", "nvidia-support", "20240109+1"),
       ("libnvidia-ml-dev", "12.4.127~12.4.1-2", "nvidia-cuda-toolkit", "12.4.1-2"), ("libcublas12", "12.4.5.8~12.4.1-2", "nvidia-cuda-toolkit", "12.4.1-2"),
       ("libnccl2", "2.22.3-1-1", "nvidia-nccl", "2.22.3-1-1"), ("linux-libc-dev", "6.12.118-1", "linux", "6.12.118-1"))
ARCHIVE = "http://deb.debian.example/debian trixie/non-free amd64 Packages"


def listing(rows=SET):
    return "".join("%s\tamd64\t%s\t%s\t%s\thold\tok\tinstalled\n" % row for row in rows)


def pins(**other):
    """The collection's own file of pins; other: versions that differ from the installed ones."""
    return "==> /etc/apt/preferences.d/lockstep-gpu.pref <==\n" + "".join(
        "Package: %s\nPin: version %s\nPin-Priority: 1001\n\n" % (row[0], other.get(row[0].replace("-", "_"), row[1])) for row in SET)


def policy(*names, version="550.163.01-2"):
    return "".join("%s:\n  Installed: %s\n  Candidate: %s\n  Version table:\n *** %s 1001\n        500 %s\n        100 /var/lib/dpkg/status\n" % (
        name, version, version, version, ARCHIVE) for name in names)


def node(lock, **recorded):
    return judged({"os": "debian-13", "lock": lock}, **dict({"dpkg_list": listing(), "apt_preferences": pins()}, **recorded))


@pytest.mark.parametrize("lock", [{"driver": "550.163.01"}, {"driver": "550"}, {"nccl": "2.22.3"}, {"driver": "550.163.01", "nccl": "2.22.3"}], ids=str)
def test_a_claim_about_a_part_leaves_the_pins_of_other_sources_alone(lock):
    record = node(lock)
    assert [row["code"] for row in record["findings"]] == [] and record["plan"] == [] and record["verdict"] == "in_sync"


def test_a_pin_of_the_driver_s_own_source_is_stale_where_it_differs():
    record = node({"driver": "550.163.01"}, apt_preferences=pins(libcuda1="535.183.01-1", firmware_nvidia_gsp="535.183.01-1"))
    assert [row[0] for row in found(record, "stale_pin")] == ["firmware-nvidia-gsp=535.183.01-1", "libcuda1=535.183.01-1"]
    assert [(row["target"], row["version"]) for row in record["plan"]] == [("firmware-nvidia-gsp", "550.163.01-2"), ("libcuda1", "550.163.01-2")]


def test_a_pin_of_a_helper_is_stale_where_it_takes_the_helper_away_from_what_it_has():
    record = node({"driver": "550.163.01"}, apt_preferences=pins(nvidia_modprobe="535.161.07-1", libcublas12="11.8~11.8.0-1"))
    assert [row[0] for row in found(record, "stale_pin")] == ["nvidia-modprobe=535.161.07-1"]
    assert [(row["target"], row["version"]) for row in record["plan"]] == [("nvidia-modprobe", "570.133.07-1")]


@pytest.mark.parametrize("pin", ["Package: nvidia-kernel-common\nPin: version 20240109+1\n", "Package: libnvidia-ml-dev\nPin: version 12.4.*\n",
                                 "Package: libcuda1\nPin: version 550.163.01-2\n", "Package: libcuda1\nPin: version 550.*\n"])
def test_a_pin_of_what_is_not_installed_is_judged_by_name_and_form(pin):
    record = node({"driver": "550.163.01"}, apt_preferences="==> /etc/apt/preferences.d/x <==\n%sPin-Priority: 1001\n" % pin,
                  dpkg_list=listing([row for row in SET if row[0] == "nvidia-smi"]))
    assert not found(record, "stale_pin")


@pytest.mark.parametrize("name, row, expected", [
    ("libnvidia-ml-dev", {"source": "nvidia-cuda-toolkit", "version": "12.4.127~12.4.1-2", "source_version": "12.4.1-2"}, ("cuda", False)),
    ("firmware-nvidia-gsp", {"source": "nvidia-graphics-drivers", "version": "550.163.01-2", "source_version": "550.163.01-2"}, ("driver", True)),
    ("nvidia-kernel-common", {"source": "nvidia-support", "version": "20240109+1", "source_version": "20240109+1"}, ("driver", False)),
    # A rebuild of the archive's is the same version.
    ("libnccl2", {"source": "nvidia-nccl", "version": "2.22.3-1-1+b1", "source_version": "2.22.3-1-1"}, ("nccl", True)),
    # Ubuntu's sources have the series in their names.
    ("nvidia-utils-550-server", {"source": "nvidia-graphics-drivers-550-server", "version": "550.90.07-0ubuntu1", "source_version": "550.90.07-0ubuntu1"},
     ("driver", True)),
    ("nvidia-utils-550", {}, ("driver", True)),
    ("nvidia-fabricmanager-550", {"source": "nvidia-graphics-drivers", "version": "1", "source_version": "1"}, ("fabric", True)),
    ("linux-libc-dev", {"source": "linux", "version": "6.12.118-1", "source_version": "6.12.118-1"}, (None, None)),
    ("bash", {"source": "bash", "version": "5.2-1", "source_version": "5.2-1"}, (None, None)),
])
def test_the_source_decides_where_it_is_known(name, row, expected):
    told = knowledge.member(knowledge.load(), name, row)
    assert (told.get("product"), told.get("one_version")) == expected


def test_no_revision_is_made_up_of_a_version_that_no_archive_has():
    names = [row[0] for row in SET[:3]]
    record = node({"driver": "550.54.15"}, apt_policy=policy(*names))
    assert record["verdict"] == "blocked" and {row[0] for row in found(record, "locked_version_gone_from_archive")} == {
        "libcuda1=550.54.15", "nvidia-smi=550.54.15", "firmware-nvidia-gsp=550.54.15"}
    assert [row["action"] for row in record["plan"]] == ["fail_preflight"] and "550.163.01-2" in record["plan"][0]["target"]
    assert found(record, "package_version_differs") and found(record, "stale_pin")


def test_without_an_archive_s_word_the_revision_is_the_neighbours():
    record = node({"driver": "550.54.15"}, apt_preferences="")
    assert ("downgrade_exact", "libcuda1=550.54.15-2") in [(row["action"], row["target"]) for row in record["plan"]]


def test_only_what_is_there_at_the_claimed_version_may_still_be_kept():
    state = {"packages": {"libcuda1": {"version": "550.54.15-2", "status": "installed"}, "nvidia-smi": {"version": "550.163.01-2", "status": "installed"}},
             "package_manager": {"kind": "apt", "policy": {"libcuda1": {"installed": "550.54.15-2", "candidate": "550.163.01-2", "pin": None, "table": [
                 {"version": "550.163.01-2", "priority": 500, "origins": [{"uri": "http://deb.debian.example/debian", "priority": 500}]}]}}}}
    ctx = Context({"driver": {"version": "550.54.15"}}, state, purpose="audit")
    steps = [actions.step("hold", "libcuda1"), actions.step("hold", "nvidia-smi"), actions.step("install_exact", "nvidia-smi=550.54.15-2"),
             actions.step("add_apt_pin", "nvidia-* and libnvidia-* of 550", version="550.54.15*"), actions.step("install_exact", "libnccl2=2.22.3-1"),
             actions.step("reboot_once")]
    assert attainable.attainable(ctx, Hit("x", "x", do=tuple(steps))).do == (steps[0], steps[4], steps[5])
