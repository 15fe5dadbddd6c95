# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dpkg's list, apt's marks, sources, preferences and locks."""

from __future__ import annotations

import pathlib
import time

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_apt, parse_dpkg

BUNDLE = pathlib.Path(__file__).parents[3] / "fixtures" / "bundles" / "debian13-550"
COLUMNS = "libcuda1\tamd64\t550.163.01-2\tnvidia-graphics-drivers\t550.163.01-2\t%s\t%s\t%s\n"
DPKG = "dpkg\tamd64\t1.22\tdpkg\t1.22\tinstall\tok\tinstalled\n"


def recorded(name):
    return (BUNDLE / (name + ".txt")).read_text(encoding="utf-8")


def test_a_recorded_list():
    rows, problems = parse_dpkg.parse_rows(recorded("dpkg_list"))
    assert problems == [] and parse_dpkg.native_arch(rows) == "amd64"
    auto = parse_dpkg.parse_extended_states(recorded("apt_extended_states"))
    assert auto.problems == []
    table = parse_dpkg.packages(rows, auto.value, "amd64")
    assert table["libcuda1"] == {
        "version": "550.163.01-2", "arch": "amd64", "source": "nvidia-graphics-drivers", "source_version": "550.163.01-2",
        "status": "installed", "hold": False, "auto": False}
    # Architecture: all, pulled in: apt wrote it under the native architecture.
    assert table["dkms"]["auto"] is True
    assert {"libnccl2", "rdma-core", "nvidia-cuda-toolkit", "libthrust-dev", "linux-image-6.12.117+deb13-amd64"} < set(table)
    assert not {"perl", "systemd", "bash", "libc6"} & set(table)
    assert table["linux-image-6.12.117+deb13-amd64"]["source"] == "linux-signed-amd64"
    assert parse_dpkg.compilers(rows) == [{"name": "gcc-13", "version": "13.3.0"}, {"name": "gcc-14", "version": "14.2.0"}]
    assert parse_dpkg.broken(rows, "amd64") == [] and parse_dpkg.holds(rows, "amd64") == []
    assert "perl" in parse_dpkg.parse_dpkg_list(recorded("dpkg_list"))


@pytest.mark.parametrize("want,error,status,broken,held", [
    ("install", "ok", "installed", False, False), ("hold", "ok", "installed", False, True),
    ("install", "ok", "half-configured", True, False), ("install", "reinstreq", "installed", True, False),
    ("install", "ok", "triggers-pending", False, False), ("install", "ok", "triggers-awaited", False, False), ("deinstall", "ok", "config-files", False, False),
    ("hold", "ok", "not-installed", False, True), ("install", "reinstreq", "half-installed", True, False)])
def test_states(want, error, status, broken, held):
    rows = parse_dpkg.parse_rows(DPKG + COLUMNS % (want, error, status)).value
    assert parse_dpkg.broken(rows, "amd64") == ["libcuda1"] * broken
    assert parse_dpkg.holds(rows, "amd64") == ["libcuda1"] * held


def test_a_foreign_architecture_is_in_the_name():
    text = DPKG + COLUMNS % ("install", "ok", "installed") + (COLUMNS % ("hold", "ok", "installed")).replace("amd64", "i386")
    table = parse_dpkg.parse_dpkg_list(text)
    assert table["libcuda1"]["hold"] is False and table["libcuda1:i386"]["hold"] is True


def test_shorter_forms():
    rows, problems = parse_dpkg.parse_rows("nvidia-dkms-535\t535.154.05-0ubuntu1\tii \nlibnccl2:amd64\t2.22.3-1-1\n"
                                           "libnvidia-compute-580:amd64\t580.95.05-0ubuntu1\trc \nx y\n")
    assert [(row["name"], row["status"], row["want"]) for row in rows] == [
        ("nvidia-dkms-535", "installed", "install"), ("libnccl2", None, None),
        ("libnvidia-compute-580", "config-files", "deinstall")]
    assert problems == ["line 4 is not understood: x y"]
    assert parse_dpkg.holds(rows, None) is None and parse_dpkg.broken(rows, None) == []


@pytest.mark.parametrize("line", ["libcuda1\tamd64\t1\tx\t1\tinstall\tok\thappy", "libcuda1\tamd64\t1", "libcuda1", "LIB\t1",
                                  "libcuda1\t\tii ", "\ufffd\t1", "libcuda1\t1\tii \t"])
def test_malformed_rows(line):
    parsed = parse_dpkg.parse_rows(DPKG + line + "\n")
    assert len(parsed.value) == 1 and len(parsed.problems) == 1


def test_truncated_recording():
    text = recorded("dpkg_list")
    parsed = parse_dpkg.parse_rows(text[:text.index("nvidia-smi\t") + 25])
    assert len(parsed.problems) == 1 and len(parsed.value) > 100


def test_extended_states_malformed():
    assert parse_dpkg.parse_extended_states("Package: a\nArchitecture: amd64\nAuto-Installed: 0\n\n") == (set(), [])
    assert len(parse_dpkg.parse_extended_states("\ufffd\ufffd").problems) == 1


SOURCES = """==> /etc/apt/sources.list <==
# comment
deb http://mirror.example/debian trixie main contrib   # trailing
deb-src [arch=amd64 signed-by=/usr/share/keyrings/A.gpg] http://mirror.example/debian trixie main
deb [trusted=yes] file:/srv/repo ./
not a source

==> /etc/apt/sources.list.d/lockstep-gpu.sources <==
# ours
Types: deb
URIs: http://mirror.example/debian
Suites: trixie trixie-updates
Components: main contrib
 non-free
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
Enabled: no
URIs: http://mirror.example/other
Suites: x
# in between
Architectures: amd64

Types: deb
"""


def test_sources():
    value, problems = parse_apt.parse_sources(SOURCES)
    assert [item["uris"] for item in value] == [["http://mirror.example/debian"], ["http://mirror.example/debian"], ["file:/srv/repo"],
                                                ["http://mirror.example/debian"], ["http://mirror.example/other"]]
    assert value[0]["components"] == ["main", "contrib"] and value[0]["enabled"] is True and value[0]["signed_by"] is None
    assert value[1]["signed_by"] == "/usr/share/keyrings/A.gpg" and value[1]["options"] == {"arch": "amd64"}
    assert value[2]["options"] == {"trusted": "yes"} and value[2]["suites"] == ["./"] and value[2]["components"] == []
    assert value[3]["components"] == ["main", "contrib", "non-free"] and value[3]["suites"] == ["trixie", "trixie-updates"]
    assert value[3]["signed_by"] == "/usr/share/keyrings/debian-archive-keyring.gpg" and value[3]["options"] == {}
    assert value[4]["enabled"] is False and value[4]["options"] == {"architectures": "amd64"}
    assert len(problems) == 2


def test_an_embedded_key_stays_whole():
    text = "==> /a.sources <==\nTypes: deb\nURIs: u\nSuites: s\nSigned-By:\n -----BEGIN PGP\n .\n abc\n"
    assert parse_apt.parse_sources(text).value[0]["signed_by"] == "\n-----BEGIN PGP\n.\nabc"


def test_preferences():
    text = """==> /etc/apt/preferences.d/lockstep-gpu.pref <==
# ours
Package: libcuda1 libnvidia-ml1
Pin: version 550.163.01-2
Pin-Priority: 1001

Package: nvidia-smi
Pin: version 550.163.01-2
Pin-Priority: 1001

==> /etc/apt/preferences.d/theirs <==
Explanation: why

Package: *
Pin: release a=stable
Pin-Priority: -10

Package: broken
Pin-Priority: high
"""
    value, problems = parse_apt.parse_preferences(text)
    assert value[-1] == {"file": "/etc/apt/preferences.d/theirs", "package": "*", "pin": "release a=stable", "priority": -10}
    expected = dict.fromkeys(("libcuda1", "libnvidia-ml1", "nvidia-smi"), "550.163.01-2")
    assert parse_apt.own_pins(value) == expected
    assert parse_apt.parse_own_pins(text.split("\n\n==>", maxsplit=1)[0].split("\n", 1)[1]) == expected
    assert problems == ["/etc/apt/preferences.d/theirs: a pin without Package, Pin or a whole Pin-Priority"]


@pytest.mark.parametrize("text,expected", [
    ("/var/lib/dpkg/lock: free\n", False), ("/var/lib/dpkg/lock: absent\n", False),
    ("/var/lib/dpkg/lock: free\n/var/lib/apt/lists/lock: held by 12\n", True), ("", False), ("what", None)])
def test_locks(text, expected):
    assert parse_apt.parse_locks(text).value is expected


def test_extended_states_of_any_shape_are_read_in_one_pass():
    text = "\n \nPackage: a\nArchitecture: amd64\nAuto-Installed: 1\n\t\n\nPackage:b" + " " * 400000 + "x\nAuto-Installed:1"
    began = time.monotonic()
    auto, problems = parse_dpkg.parse_extended_states(text)
    assert ("a", "amd64") in auto and len(auto) == 2 and problems == []
    assert time.monotonic() - began < 2


def test_a_cdrom_is_one_address():
    line = "deb cdrom:[Debian GNU/Linux 13 _Trixie_ - Official amd64 NETINST 20250809-11:20]/ trixie contrib main\n"
    (row,), problems = parse_apt.parse_sources("==> /etc/apt/sources.list <==\n" + line)
    assert problems == [] and row["suites"] == ["trixie"] and row["components"] == ["contrib", "main"]
    assert row["uris"] == ["cdrom:[Debian GNU/Linux 13 _Trixie_ - Official amd64 NETINST 20250809-11:20]/"]
    assert parse_apt.parse_sources("==> /etc/apt/sources.list <==\ndeb cdrom:[open trixie main\n").value[0]["uris"] == ["cdrom:[open"]
