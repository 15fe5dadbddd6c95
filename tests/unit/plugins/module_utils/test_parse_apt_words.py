# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What apt and dpkg print: lists in every form, policies, simulations, history, settings, failed runs."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_apt, parse_apt_actions, parse_apt_archive, parse_apt_run
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_dpkg, parse_module_result
from hypothesis import given
from hypothesis import strategies as st

RECORDED = pathlib.Path(__file__).parents[3] / "fixtures" / "apt"
HEADER = """Desired=Unknown/Install/Remove/Purge/Hold
| Status=Not/Inst/Conf-files/Unpacked/halF-conf/Half-inst/trig-aWait/Trig-pend
|/ Err?=(none)/Reinst-required (Status,Err: uppercase=bad)
||/ Name              Version             Architecture Description
+++-=================-===================-============-=================================
"""
GERMAN = """Gewünscht=Unbekannt/Installieren/R=Entfernen/P=Vollständig Löschen/Halten
| Status=Nicht/Installiert/Config/U=Entpackt/halb konFiguriert/
         Halb installiert/Trigger erWartet/Trigger anhängig
|/ Fehler?=(kein)/R=Neuinstallation notwendig (Status, Fehler: GROSS=schlecht)
||/ Name              Version             Architektur  Beschreibung
+++-=================-===================-============-=================================
"""


def row(text):
    (found,), problems = parse_dpkg.parse_rows(text)
    assert problems == []
    return found["name"], found["arch"], found["version"], found["want"], found["status"], found["error"]


@pytest.mark.parametrize("line,expected", [
    ("ii  libcuda1 550.163.01-2 amd64 NVIDIA CUDA Driver Library", ("libcuda1", "amd64", "550.163.01-2", "install", "installed", "ok")),
    ("hi  libnvidia-compute-550:amd64 550.90.07-0ubuntu1 amd64 x", ("libnvidia-compute-550", "amd64", "550.90.07-0ubuntu1", "hold", "installed", "ok")),
    ("iF  mlnx-ofed-kernel-dkms  24.10.OFED.24.10.3.2.5.1-1  all  x",
     ("mlnx-ofed-kernel-dkms", "all", "24.10.OFED.24.10.3.2.5.1-1", "install", "half-configured", "ok")),
    ("iHR nvidia-dkms-535 535.1-1 amd64", ("nvidia-dkms-535", "amd64", "535.1-1", "install", "half-installed", "reinstreq")),
    ("iU  a 1:2.3-4 all", ("a", "all", "1:2.3-4", "install", "unpacked", "ok")),
    ("it  a 1 all x", ("a", "all", "1", "install", "triggers-pending", "ok")), ("iW  a 1 all x", ("a", "all", "1", "install", "triggers-awaited", "ok")),
    ("un  nvidia-driver  <none>  <none>  (no description available)", ("nvidia-driver", None, None, "unknown", "not-installed", "ok")),
    ("rc  libnvidia-compute-580:amd64 580.95.05-0ubuntu1 amd64 x", ("libnvidia-compute-580", "amd64", "580.95.05-0ubuntu1", "deinstall", "config-files", "ok")),
    ("pn  nvidia-driver  <none>  <none>  x", ("nvidia-driver", None, None, "purge", "not-installed", "ok")),
    ("nvidia-driver-535/jammy-updates,now 535.183.01-0ubuntu0.22.04.1 amd64 [installed,automatic]",
     ("nvidia-driver-535", "amd64", "535.183.01-0ubuntu0.22.04.1", None, "installed", None)),
    ("nvidia-driver-535/now 535.1-1 amd64 [residual-config]", ("nvidia-driver-535", "amd64", "535.1-1", None, "config-files", None)),
    ("nvidia-driver-535/jammy 535.216-1 amd64 [upgradable from: 535.183-1]", ("nvidia-driver-535", "amd64", "535.183-1", None, "installed", None)),
    ("nvidia-driver-535 535.1-1 install ok installed", ("nvidia-driver-535", None, "535.1-1", "install", "installed", "ok")),
    ("nvidia-driver-535\t535.1-1\thold ok half-configured", ("nvidia-driver-535", None, "535.1-1", "hold", "half-configured", "ok")),
    ("nvidia-driver-535 535.1-1", ("nvidia-driver-535", None, "535.1-1", None, None, None)),
    ("nvidia-driver-535\t535.1-1\thi ", ("nvidia-driver-535", None, "535.1-1", "hold", "installed", "ok")),
    ("nvidia-driver-535\t\tun ", ("nvidia-driver-535", None, None, "unknown", "not-installed", "ok")),
    ("nvidia-driver-535\t", ("nvidia-driver-535", None, None, None, "not-installed", None)),
    ("dpkg-query: no packages found matching nvidia-driver-535", ("nvidia-driver-535", None, None, None, "not-installed", None)),
    ("dpkg-query: package 'nvidia-driver-535' is not installed and no information is available",
     ("nvidia-driver-535", None, None, None, "not-installed", None)),
])
def test_a_row_of_any_form(line, expected):
    assert row(line) == expected


def test_a_table_with_its_heading():
    body = "ii  nvidia-dkms-535   535.183.01-0ubuntu1 amd64        NVIDIA DKMS package\n"
    assert row(HEADER + body)[0] == "nvidia-dkms-535"
    # A heading that is broken over two lines, as some languages have it, costs a note and no row.
    rows, problems = parse_dpkg.parse_rows(GERMAN + body)
    assert [one["name"] for one in rows] == ["nvidia-dkms-535"] and len(problems) <= 1


@pytest.mark.parametrize("rc,text,value,problems", [
    (1, "", [], 0), (1, "dpkg-query: no packages found matching nvidia*\n", None, 1), (2, "", None, 1), (2, "dpkg-query: error: damaged\n", None, 1),
    (0, "Listing... Done\n", [], 0), (0, "N: There is 1 additional version.\n", [], 0)])
def test_a_list_that_is_empty(rc, text, value, problems):
    assert parse_dpkg.parse_listing(text, rc)[0] == value and len(parse_dpkg.parse_listing(text, rc)[1]) == problems


def test_what_part_of_a_list_says_of_holds():
    part = "ii  a 1 all x\n"
    assert parse_dpkg.holds(parse_dpkg.parse_rows(part).value, None) is None
    assert parse_dpkg.holds(parse_dpkg.parse_rows(part + "hi  b 1 all x\n").value, None) == ["b"]
    assert parse_dpkg.holds(parse_dpkg.parse_rows(part + "ii  dpkg 1 amd64 x\n").value, "amd64") == []
    assert parse_dpkg.native_arch(parse_dpkg.parse_rows("ii  a 1 i386 x\nii  a:amd64 1 amd64 x\n").value) == "amd64"
    assert set(parse_dpkg.parse_dpkg_list("ii  a 1 i386 x\nii  a:amd64 1 amd64 x\n")) == {"a", "a:i386"}


@pytest.mark.parametrize("text,held", [
    ("nvidia-driver-535\nlibcuda1:i386\n", ["libcuda1:i386", "nvidia-driver-535"]), ("", []),
    ("nvidia-driver-535\t\t\t\thold\ncurl\tinstall\n", ["nvidia-driver-535"]),
    ("ihA nvidia-driver-535             - NVIDIA driver metapackage\n", ["nvidia-driver-535"]),
    ("hi  nvidia-driver-535 535.1 amd64 x\n", ["nvidia-driver-535"])])
def test_holds(text, held):
    assert parse_apt_actions.parse_holds(text) == (held, [])


def test_holds_that_are_something_else():
    assert len(parse_apt_actions.parse_holds("E: Broken thing here\n").problems) == 1


FOREIGN = """nvidia-driver-535:
  Installiert:           (keine)
  Installationskandidat: 535.54.03-0ubuntu1
  Paketnadel: 535.54.03-0ubuntu1
  Versionstabelle:
     535.54.03-0ubuntu1 1001
       1001 %s  Packages
         -1 file:/srv/repo ./ Packages
 *** 535.1-0ubuntu1 500 (phased 20%%)
        500 mirror+file:/etc/apt/x jammy/main amd64 Packages
        100 /var/lib/dpkg/status
"""
CHINESE = "nvidia-driver-535:\n  已安装：535.54.03-0ubuntu1\n  候选： （无）\n  版本列表：\n *** 535.54.03-0ubuntu1 100\n        100 /var/lib/dpkg/status\n"
SOURCES = """Package files:
 100 /var/lib/dpkg/status
     release a=now
 600 https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64  Packages
     release o=NVIDIA,l=NVIDIA CUDA,c=
     origin developer.download.nvidia.com
Pinned packages:
     nvidia-driver-535 -> 535.183.01-0ubuntu1 with priority 1001
"""


def test_a_policy_in_any_language():
    value, problems = parse_apt_archive.parse_policy(FOREIGN % "https://repo.example.org/cuda" + "N: Unable to locate package nvidia-foo\n")
    package = value["packages"]["nvidia-driver-535"]
    assert problems == [] and (package["installed"], package["candidate"], package["pin"]) == (None, "535.54.03-0ubuntu1", "535.54.03-0ubuntu1")
    assert package["table"][0]["origins"] == [{"priority": 1001, "uri": "https://repo.example.org/cuda", "suite": None},
                                              {"priority": -1, "uri": "file:/srv/repo", "suite": "./"}]
    assert package["table"][1]["installed"] and [one["suite"] for one in package["table"][1]["origins"]] == ["jammy/main"]
    assert value["packages"]["nvidia-foo"] == {"installed": None, "candidate": None, "pin": None, "table": []}
    package = parse_apt_archive.parse_policy(CHINESE).value["packages"]["nvidia-driver-535"]
    assert (package["installed"], package["candidate"], package["table"][0]["origins"]) == ("535.54.03-0ubuntu1", None, [])


def test_a_policy_of_everything():
    value, problems = parse_apt_archive.parse_policy(SOURCES)
    assert problems == [] and value["packages"] == {} and value["sources"][1]["release"] == {"o": "NVIDIA", "l": "NVIDIA CUDA", "c": ""}
    assert value["pinned"] == [{"package": "nvidia-driver-535", "version": "535.183.01-0ubuntu1", "priority": 1001}]


def test_this_machine_s_own_policy():
    text = subprocess.run(["apt-cache", "policy", "dpkg", "no-such-package-at-all"], stdout=subprocess.PIPE, check=True).stdout.decode()
    value, problems = parse_apt_archive.parse_policy(text)
    assert problems == [] and value["packages"]["dpkg"]["installed"] in [one["version"] for one in value["packages"]["dpkg"]["table"]]


def test_recorded_madison_and_show():
    value, problems = parse_apt_archive.parse_madison((RECORDED / "madison.txt").read_text(encoding="utf-8"))
    assert problems == [] and value["libcuda1"] == [{"version": "550.163.01-2", "uri": "http://mirror.example/debian", "suite": "trixie/non-free"}]
    value, problems = parse_apt_archive.parse_show((RECORDED / "show.txt").read_text(encoding="utf-8"))
    assert problems == [] and value["libcuda1"][0]["transitional"] is False and "nvidia-alternative" in value["libcuda1"][0]["depends"]
    assert parse_apt_archive.parse_show("nothing of the kind\n").problems


def test_recorded_simulations():
    plan = parse_apt_actions.parse_simulation((RECORDED / "simulate-535-over-550.txt").read_text(encoding="utf-8")).value
    assert {one["name"]: one["version"] for one in plan["install"]}["nvidia-tesla-535-kernel-dkms"] == "535.274.02-1~deb13u1"
    assert {one["name"]: one["old"] for one in plan["remove"]}["libnvidia-cfg1"] == "550.163.01-2"
    text = (RECORDED / "simulate-no-such-version.txt").read_text(encoding="utf-8")
    assert parse_apt_actions.parse_simulation(text).value is None
    assert parse_apt_run.parse_apt_run(text, 100).value["missing"][0] == {"name": "libcuda1", "version": "550.163.02-1"}
    assert parse_apt_actions.parse_simulation("0 upgraded, 0 newly installed, 0 to remove and 3 not upgraded.\n").value == parse_apt_actions.empty()


NAMES = st.from_regex(r"[a-z][a-z0-9-]{1,12}", fullmatch=True)
VERSIONS = st.from_regex(r"[1-9][0-9]{0,2}\.[0-9]{1,2}-[0-9]", fullmatch=True)


@given(st.lists(st.tuples(NAMES, st.none() | VERSIONS, VERSIONS, st.sampled_from(["NVIDIA:cuda", "Ubuntu:24.04/noble-updates, Ubuntu:24.04/noble-security"])),
                max_size=5))
def test_a_simulation_round_trips(items):
    steps = ("Inst %s %s(%s %s [amd64])\nConf %s (%s %s [amd64])\n" % (name, "[%s] " % old if old else "", new, origin, name, new, origin)
             for name, old, new, origin in items)
    text = "NOTE: This is only a simulation!\n" + "".join(steps)
    value, problems = parse_apt_actions.parse_simulation(text)
    rows = [] if value is None else [one for kind in parse_apt_actions.KINDS for one in value[kind]]
    assert problems == [] and sorted((one["name"], one["old"] or "", one["version"], one["origin"]) for one in rows) == sorted(
        (name, old or "", new, origin) for name, old, new, origin in items)


@given(st.lists(st.tuples(NAMES, VERSIONS, VERSIONS), min_size=1, max_size=5))
def test_a_history_round_trips(items):
    text = "\nStart-Date: 2026-01-02  03:04:05\nCommandline: /usr/bin/unattended-upgrade\nUpgrade: %s\nEnd-Date: 2026-01-02  03:04:06\n" % ", ".join(
        "%s:amd64 (%s, %s)" % item for item in items)
    (run,), problems = parse_apt_actions.parse_history(text)
    assert problems == [] and run["by"] == "unattended-upgrade" and run["start"] == "2026-01-02 03:04:05"
    assert [(one["name"], one["old"], one["version"], one["arch"]) for one in run["upgrade"]] == [(name, old, new, "amd64") for name, old, new in items]


def test_a_history_of_every_kind():
    text = ("Install: a:amd64 (1, automatic)\nEnd-Date: x\n\nStart-Date: y\nRequested-By: me (1000)\nCommandline: apt-get purge b\nPurge: b:amd64 (2)\n"
            "Error: Sub-process /usr/bin/dpkg returned an error code (1)\nsomething else\n")
    (first, second), problems = parse_apt_actions.parse_history(text)
    assert len(problems) == 1 and first["install"][0]["version"] == "1" and first["by"] is None
    assert second["remove"][0]["old"] == "2" and second["error"].startswith("Sub-process") and second["by"] == "apt-get"


@given(st.lists(st.from_regex(r"[a-z.*\\+-]{1,8}", fullmatch=True), max_size=4))
def test_a_blacklist_in_any_spelling(patterns):
    block = 'Unattended-Upgrade::Package-Blacklist {\n  // none\n%s};\n' % "".join('  "%s"; # why\n' % pattern for pattern in patterns)
    lines = "".join('Unattended-Upgrade::Package-Blacklist:: "%s";\n' % pattern for pattern in patterns)
    nested = "Unattended-Upgrade {\n Package-Blacklist {%s };\n /* a; } */ };\n" % "".join(' "%s";' % pattern for pattern in patterns)
    assert [parse_apt_actions.parse_unattended(text).value["blacklist"] for text in (block, lines, nested)] == [patterns] * 3


def test_the_settings_of_unattended_upgrades():
    text = ('==> /etc/apt/apt.conf.d/20auto-upgrades <==\nAPT::Periodic::Update-Package-Lists "1";\nAPT::Periodic::Unattended-Upgrade "1";\n\n'
            '==> /etc/apt/apt.conf.d/50unattended-upgrades <==\nUnattended-Upgrade::Allowed-Origins {\n\t"${distro_id}:${distro_codename}-security";\n'
            '//\t"${distro_id}:${distro_codename}-updates";\n};\nUnattended-Upgrade::Package-Blacklist {\n//  "linux-";\n};\n')
    assert parse_apt_actions.parse_unattended(text) == ({"enabled": True, "blacklist": [], "whitelist": [], "origins": [
        "${distro_id}:${distro_codename}-security"]}, [])


@pytest.mark.parametrize("text,holder", [
    ("E: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 24459 (unattended-upgr)",
     ("/var/lib/dpkg/lock-frontend", 24459, "unattended-upgr")),
    ("Waiting for cache lock: Could not get lock /var/lib/dpkg/lock-frontend. It is held by process 12 (apt)... 3s",
     ("/var/lib/dpkg/lock-frontend", 12, "apt")),
    ("E: Could not get lock /var/lib/dpkg/lock - open (11: Resource temporarily unavailable)", ("/var/lib/dpkg/lock", None, None)),
    ("E:Could not get lock /var/lib/apt/lists/lock", ("/var/lib/apt/lists/lock", None, None)),
    ("E: Unable to lock the administration directory (/var/lib/dpkg/), is another process using it?", ("/var/lib/dpkg", None, None)),
    ("E: Unable to lock directory /var/lib/apt/lists/", ("/var/lib/apt/lists", None, None)),
    ("dpkg: error: dpkg frontend lock is locked by another process", (None, None, None)),
    ("dpkg: error: dpkg database lock was locked by another process with pid 77", (None, 77, None)),
    ("Failed to lock apt for exclusive operation", (None, None, None)),
    ("dpkg: error: dpkg status database is locked by another process", (None, None, None))])
def test_a_lock_in_any_spelling(text, holder):
    (lock,) = parse_apt_run.parse_apt_run("Reading package lists...\n" + text + "\n").value["locks"]
    assert (lock["path"], lock["pid"], lock["process"]) == holder


@pytest.mark.parametrize("text", ["E: Could not open lock file /var/lib/dpkg/lock-frontend - open (13: Permission denied)",
                                  "E: Unable to acquire the dpkg frontend lock (/var/lib/dpkg/lock-frontend), are you root?",
                                  "E: Unable to locate package lock", "E: Could not get lock /x - open (13: Permission denied)"])
def test_no_lock(text):
    assert parse_apt_run.parse_apt_run(text + "\n").value["locks"] == []


RUN = """The following packages have unmet dependencies:
 nvidia-container-toolkit : Depends: nvidia-container-toolkit-base (= 1.17.8-1) but 1.18.0-1 is to be installed
                            Depends: libnvidia-container-tools (>= 1.17.8-1) but it is not installable or
                                     something-else but it is not installable
 b:i386 : PreDepends: c
E: Unable to correct problems, you have held broken packages.
Package nvidia-fabricmanager-580 is a virtual package provided by:
  nvidia-fabricmanager 580.65.06-1
You should explicitly select one to install.

Package nvidia-docker2 is not available, but is referred to by another package.
However the following packages replace it:
  nvidia-container-toolkit nvidia-container-toolkit:i386

E: Package 'nvidia-docker2' has no installation candidate
Note, selecting 'nvidia-open' instead of 'nvidia-open-610'
The following packages will be upgraded:
   libnvidia-compute-535 (535.183.01-0ubuntu1 => 535.216.03-0ubuntu1)
The following packages will be REMOVED:
  linux-image-6.8.0-41-generic* nvidia-driver-535
Errors were encountered while processing:
 /var/cache/apt/archives/libnvidia-cfg1_610.57.04-1ubuntu1_amd64.deb
 mlnx-ofed-kernel-dkms
E: Sub-process /usr/bin/dpkg returned an error code (1)
"""


def test_a_run_of_everything():
    said = parse_apt_run.parse_apt_run(RUN, 100).value
    assert [(row["package"], row["kind"], row["on"], row["relation"], row["need"], row["have"]) for row in said["unmet"]] == [
        ("nvidia-container-toolkit", "Depends", "nvidia-container-toolkit-base", "=", "1.17.8-1", "1.18.0-1"),
        ("nvidia-container-toolkit", "Depends", "libnvidia-container-tools", ">=", "1.17.8-1", None), ("b:i386", "PreDepends", "c", None, None, None)]
    assert said["replaced"] == {"nvidia-fabricmanager-580": ["nvidia-fabricmanager"], "nvidia-open-610": ["nvidia-open"],
                                "nvidia-docker2": ["nvidia-container-toolkit", "nvidia-container-toolkit:i386"]}
    assert said["missing"] == [{"name": "nvidia-docker2", "version": None}] and said["failed"] == ["libnvidia-cfg1", "mlnx-ofed-kernel-dkms"]
    assert said["transaction"]["upgrade"][0]["version"] == "535.216.03-0ubuntu1"
    assert [row["name"] for row in said["transaction"]["remove"]] == ["linux-image-6.8.0-41-generic", "nvidia-driver-535"]


def test_the_headings_of_apt_3():
    text = "Upgrading:\n  nvidia-driver-535\n\nREMOVING:\n  a\n\nNot upgrading:\n  b\n\nSummary:\n  Upgrading: 1\nError: Unable to locate package c\n"
    said = parse_apt_run.parse_apt_run(text, 1).value
    assert [row["name"] for row in said["transaction"]["upgrade"]] == ["nvidia-driver-535"] and said["kept"] == ["b"]
    assert said["missing"] == [{"name": "c", "version": None}] and said["transaction"]["error"] == "Unable to locate package c"


@pytest.mark.parametrize("text,msg,args", [
    ('{"msg": "a", "stderr": "b\\n", "invocation": {"module_args": {"name": ["x=1"]}}}', "a", {"name": ["x=1"]}),
    ('fatal: [n1]: FAILED! => {"msg": "a", "stderr": "b"}\n', "a", {}), ('ok: [n] => {"results": [{"msg": "a", "stdout": "b"}, 1], "msg": "c"}', "a", {})])
def test_the_result_of_a_module(text, msg, args):
    value, problems = parse_module_result.parse_module_result(text)
    assert problems == [] and msg in value["text"] and "b" in value["text"] and value["args"] == args


def test_what_is_no_json_is_text():
    assert parse_module_result.parse_module_result("E: x {").value["text"] == "E: x {" and parse_module_result.parse_module_result("").value is None


def test_files_without_their_names():
    (row,), problems = parse_apt.parse_preferences("Package: a\nPin: version 1\nPin-Priority: 1001\n")
    assert problems == [] and row["file"] == parse_apt.UNNAMED and row["priority"] == 1001
    (row,), problems = parse_apt.parse_sources("Types: deb\nURIs: http://x.example\nSuites: ./\nTrusted: yes\n")
    assert problems == [] and row["options"] == {"trusted": "yes"}
    rows, problems = parse_apt.parse_sources("/etc/apt/sources.list:deb http://x.example jammy main\n"
                                             "/etc/apt/sources.list.d/a.list:3:# deb http://y.example /\n")
    assert problems == [] and [row["file"] for row in rows] == ["/etc/apt/sources.list"]
