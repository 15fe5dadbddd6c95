# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of RPM packages in all forms, and the kernels among them."""

from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_rpm, parse_rpm_kernels
from hypothesis import given
from hypothesis import strategies as st

DRIVER = {"name": "nvidia-driver", "epoch": "3", "version": "550.54.15", "release": "1.el9", "arch": "x86_64", "repo": None}
TOOLKIT = {"name": "nvidia-container-toolkit", "epoch": None, "version": "1.17.6", "release": "1", "arch": "x86_64", "repo": None}


def rows(text):
    value, problems = parse_rpm.parse_rpm_list(text)
    assert problems == []
    return value["rows"]


@pytest.mark.parametrize("line", [
    "nvidia-driver 3 550.54.15 1.el9 x86_64", "nvidia-driver\t3\t550.54.15\t1.el9\tx86_64", "nvidia-driver|3|550.54.15|1.el9|x86_64",
    "nvidia-driver,3,550.54.15,1.el9,x86_64", "nvidia-driver-3:550.54.15-1.el9.x86_64", "3:nvidia-driver-550.54.15-1.el9.x86_64",
    "nvidia-driver 3:550.54.15-1.el9 x86_64", "nvidia-driver.x86_64 3:550.54.15-1.el9",
    "nvidia-driver-3:550.54.15-1.el9.x86_64      Tue 03 Jun 2025 10:11:12 AM UTC"])
def test_one_package(line):
    assert rows(line + "\n") == [DRIVER]


@pytest.mark.parametrize("line", [
    "nvidia-container-toolkit (none) 1.17.6 1 x86_64", "nvidia-container-toolkit 0 1.17.6 1 x86_64", "nvidia-container-toolkit 1.17.6 1 x86_64",
    "nvidia-container-toolkit-(none):1.17.6-1.x86_64", "nvidia-container-toolkit-1.17.6-1.x86_64", "nvidia-container-toolkit 1.17.6-1 x86_64",
    "i+ | nvidia-container-toolkit | package | 1.17.6-1 | x86_64 | cuda"])
def test_no_epoch(line):
    assert rows(line) == [TOOLKIT]


def test_columns_that_are_left_out():
    assert rows("nvidia-driver 550.54.15")[0]["version"] == "550.54.15"
    assert rows("nvidia-driver 550.54.15-1.el9")[0]["release"] == "1.el9"
    assert rows("nvidia-driver 3 550.54.15 1.el9")[0]["epoch"] == "3"
    assert rows("gpg-pubkey-d42d0685-62589a51.(none)")[0]["arch"] is None


def test_the_name_of_a_precompiled_module():
    row = rows("kmod-nvidia-535.183.06-4.18.0-553.22.1-535.183.06-3.el8_10.x86_64")[0]
    assert row["name"] == "kmod-nvidia-535.183.06-4.18.0-553.22.1" and row["release"] == "3.el8_10"


TABLE = """\
Updating Subscription Management repositories.
Last metadata expiration check: 0:12:03 ago on Mon 02 Jun 2025 08:00:00 AM UTC.
Installed Packages
kernel.x86_64                                5.14.0-503.14.1.el9_5                   @baseos
kernel.x86_64                                5.14.0-570.12.1.el9_6                   @baseos
kmod-nvidia-535.183.06-4.18.0-553.22.1.x86_64
                                             3:535.183.06-3.el8_10                   @cuda-rhel8-x86_64
nvidia-driver.x86_64                         3:550.54.15-1.el9                       @cuda-rhel9-x86_64
Available Packages
nvidia-driver.x86_64                         3:570.86.15-1.el9                       cuda-rhel9-x86_64
"""


def test_a_table_with_long_names_and_what_is_only_available():
    found = rows(TABLE)
    assert [(row["name"], parse_rpm.evr(row), row["repo"]) for row in found] == [
        ("kernel", "5.14.0-503.14.1.el9_5", "@baseos"), ("kernel", "5.14.0-570.12.1.el9_6", "@baseos"),
        ("kmod-nvidia-535.183.06-4.18.0-553.22.1", "3:535.183.06-3.el8_10", "@cuda-rhel8-x86_64"),
        ("nvidia-driver", "3:550.54.15-1.el9", "@cuda-rhel9-x86_64")]
    assert [row["installed"] for row in parse_rpm.read_table(TABLE, installed=False).value] == [True] * 4 + [False]


def test_rpm_says_what_is_not_there():
    value, problems = parse_rpm.parse_rpm_list("kernel-core-5.14.0-570.12.1.el9_6.x86_64\npackage kernel-devel is not installed\n")
    assert problems == [] and value["absent"] == ["kernel-devel"] and len(value["rows"]) == 1


def test_what_is_not_understood_is_a_problem():
    value, problems = parse_rpm.parse_rpm_list("error: cannot open Packages database in /var/lib/rpm\nnvidia-driver-3:550.54.15-1.el9.x86_64\n")
    assert value["rows"] == [DRIVER] and problems == ["line 1 is not understood: error: cannot open Packages database in /var/lib/rpm"]


def test_several_versions_of_a_kernel_are_all_kept():
    table = parse_rpm.packages(rows("kernel-core-5.14.0-503.14.1.el9_5.x86_64\nkernel-core-5.14.0-570.12.1.el9_6.x86_64\n"
                                    "kernel-core-5.14.0-427.13.1.el9_4.x86_64\nnvidia-driver-libs-3:550.54.15-1.el9.x86_64\n"
                                    "nvidia-driver-libs-3:550.54.15-1.el9.i686\nvim-2:9.1-1.x86_64\n"))
    assert table["kernel-core"]["version"] == "5.14.0-570.12.1.el9_6"
    assert table["kernel-core"]["others"] == ["5.14.0-503.14.1.el9_5", "5.14.0-427.13.1.el9_4"]
    assert set(table) == {"kernel-core", "nvidia-driver-libs", "nvidia-driver-libs:i686"} and parse_rpm.duplicates(table) == []


def test_an_interrupted_update_leaves_two_versions():
    table = parse_rpm.packages(rows("nvidia-driver-3:550.54.15-1.el9.x86_64\nnvidia-driver-3:560.35.03-1.el9.x86_64"))
    assert parse_rpm.duplicates(table) == ["nvidia-driver"]


@pytest.mark.parametrize("package,release", [
    ("kernel-core-5.14.0-570.12.1.el9_6.x86_64", "5.14.0-570.12.1.el9_6.x86_64"),
    ("kernel-64k-core-5.14.0-570.12.1.el9_6.aarch64", "5.14.0-570.12.1.el9_6.aarch64+64k"),
    ("kernel-64k-debug-core-5.14.0-570.12.1.el9_6.aarch64", "5.14.0-570.12.1.el9_6.aarch64+64k-debug"),
    ("kernel-debug-core-5.14.0-570.12.1.el9_6.x86_64", "5.14.0-570.12.1.el9_6.x86_64+debug"),
    ("kernel-rt-core-5.14.0-570.12.1.el9_6.x86_64", "5.14.0-570.12.1.el9_6.x86_64+rt"),
    ("kernel-rt-core-4.18.0-553.rt7.342.el8_10.x86_64", "4.18.0-553.rt7.342.el8_10.x86_64"),
    ("kernel-3.10.0-957.el7.x86_64", "3.10.0-957.el7.x86_64"), ("kernel-debug-3.10.0-957.el7.x86_64", "3.10.0-957.el7.x86_64.debug"),
    ("kernel-6.1.131-143.221.amzn2023.x86_64", "6.1.131-143.221.amzn2023.x86_64"),
    ("kernel6.12-6.12.20-23.97.amzn2023.x86_64", "6.12.20-23.97.amzn2023.x86_64"),
    ("kernel-uek-core-5.15.0-300.163.18.el9uek.x86_64", "5.15.0-300.163.18.el9uek.x86_64"),
    ("kernel-lt-5.4.278-1.el8.elrepo.x86_64", "5.4.278-1.el8.elrepo.x86_64"),
    ("kernel-default-6.4.0-150600.23.25.1.x86_64", "6.4.0-150600.23.25-default"),
    ("kernel-devel-5.14.0-570.12.1.el9_6.x86_64", None), ("kernel-headers-5.14.0-570.12.1.el9_6.x86_64", None),
    ("kernel-modules-core-5.14.0-570.12.1.el9_6.x86_64", None), ("kernel-tools-5.14.0-570.12.1.el9_6.x86_64", None)])
def test_what_a_kernel_package_boots_as(package, release):
    assert parse_rpm_kernels.release_of(parse_rpm.nevra(package)) == release


@pytest.mark.parametrize("beside,headers", [
    ("", None), ("kernel-devel-5.14.0-570.12.1.el9_6.x86_64", True), ("kernel-devel-5.14.0-503.14.1.el9_5.x86_64", False),
    ("kernel-tools-5.14.0-570.12.1.el9_6.x86_64", False), ("package kernel-devel is not installed", False),
    ("glibc-2.34-1.el9.x86_64\nrpm-4.16-1.el9.x86_64", False), ("kernel-debug-devel-5.14.0-570.12.1.el9_6.x86_64", False)])
def test_whether_a_kernel_has_its_headers(beside, headers):
    value = parse_rpm.parse_rpm_list("kernel-core-5.14.0-570.12.1.el9_6.x86_64\nkernel-5.14.0-570.12.1.el9_6.x86_64\n" + beside).value
    assert parse_rpm_kernels.kernels(value["rows"], value["absent"]) == [
        {"release": "5.14.0-570.12.1.el9_6.x86_64", "package": "kernel-core", "package_version": "5.14.0-570.12.1.el9_6", "headers": headers}]


def test_precompiled_modules():
    found = parse_rpm_kernels.kmods(rows(
        "kmod-nvidia-535.183.06-4.18.0-553.22.1-3:535.183.06-3.el8_10.x86_64\nkmod-nvidia-open-570.86.15-5.14.0-503.22.1-3:570.86.15-1.el9_5.x86_64\n"
        "kmod-nvidia-latest-dkms-3:560.35.03-1.el9.x86_64\n"), installed=False)
    assert [(row["driver"], row["kernel"], row["flavour"]) for row in found] == [
        ("535.183.06", "4.18.0-553.22.1", None), ("570.86.15", "5.14.0-503.22.1", "open")]
    assert parse_rpm_kernels.without_dist("4.18.0-553.22.1.el8_10.x86_64") == "4.18.0-553.22.1"
    assert parse_rpm_kernels.without_dist("6.12.20-23.97.amzn2023.x86_64") == "6.12.20-23.97"


def test_compilers():
    assert parse_rpm.compilers(rows("gcc-11.5.0-5.el9.x86_64\ngcc-toolset-13-gcc-13.3.1-2.el9.x86_64\ngcc-c++-11.5.0-5.el9.x86_64")) == [
        {"name": "gcc", "version": "11.5.0"}, {"name": "gcc-toolset-13-gcc", "version": "13.3.1"}]


NAME = st.from_regex(r"[a-z][a-z0-9]{0,6}(-[a-z0-9.]{1,8}){0,3}", fullmatch=True)
PART = st.from_regex(r"[0-9]{1,3}(\.[0-9a-z]{1,4}){0,2}", fullmatch=True)


@given(NAME, st.sampled_from([None, "1", "3"]), PART, PART, st.sampled_from(["x86_64", "aarch64", "noarch"]))
def test_every_way_to_write_a_package_is_the_same(name, epoch, version, release, arch):
    row = {"name": name, "epoch": epoch, "version": version, "release": release, "arch": arch, "repo": None}
    whole = "%s-%s.%s" % (name, parse_rpm.evr(row), arch)
    for text in ("%s %s %s %s %s" % (name, epoch or "(none)", version, release, arch), whole, "%s %s %s" % (name, parse_rpm.evr(row), arch)):
        assert rows(text) == [row]


INFO = """\
Installed Packages
Name         : nvidia-driver
Epoch        : 3
Version      : 550.54.15
Release      : 1.el9
Architecture : x86_64
Size         : 250 M
Source       : nvidia-driver-550.54.15-1.el9.src.rpm
Repository   : @System
Summary      : NVIDIA's proprietary display driver
Description  : Version : none
             : Name of it

Available Packages
Name         : nvidia-driver
Epoch        : 3
Version      : 570.86.15
Release      : 1.el9
Architecture : x86_64
"""


def test_paragraphs_of_fields():
    assert rows(INFO) == [DRIVER]
    assert [(row["version"], row["installed"]) for row in parse_rpm.read_table(INFO, installed=False).value] == [("550.54.15", True), ("570.86.15", False)]
    assert rows("Name        : nvidia-driver\nEpoch       : 3\nVersion     : 550.54.15\nRelease     : 1.el9\nArchitecture: x86_64\n"
                "Install Date: Tue 03 Jun 2025 10:11:12 AM UTC\n") == [DRIVER]


def test_zypper_tells_what_is_installed():
    text = ("S  | Name                     | Type    | Version  | Arch   | Repository\n"
            "---+--------------------------+---------+----------+--------+-----------\n"
            "i+ | nvidia-container-toolkit | package | 1.17.6-1 | x86_64 | cuda\nv  | nvidia-container-toolkit | package | 1.17.8-1 | x86_64 | cuda\n"
            "   | nvidia-open-driver-G06   | package | 570.1-1  | x86_64 | cuda\n")
    assert rows(text) == [TOOLKIT] and len(parse_rpm.read_table(text, installed=False).value) == 3


def test_the_source_package_is_the_last_column():
    text = ("nvidia-driver\t3\t550.54.15\t1.el9\tx86_64\tnvidia-driver-550.54.15-1.el9.src.rpm\n"
            "kernel-core\t(none)\t5.14.0\t570.18.1.el9_6\tx86_64\tkernel-5.14.0-570.18.1.el9_6.src.rpm\n"
            "libnvidia-ml\t3\t550.54.15\t1.el9\ti686\tnvidia-driver-550.54.15-1.el9.nosrc.rpm\n"
            "gpg-pubkey\t(none)\td42d0685\t62589a51\t(none)\t(none)\n")
    assert [row["source"] for row in rows(text)] == ["nvidia-driver", "kernel", "nvidia-driver", None]
    assert rows(text)[0] == dict(DRIVER, source="nvidia-driver") and rows(text)[3]["arch"] is None
    table = parse_rpm.packages(rows(text), chosen=lambda name: True)
    assert {key: row["source"] for key, row in table.items()} == {
        "nvidia-driver": "nvidia-driver", "kernel-core": "kernel", "libnvidia-ml:i686": "nvidia-driver", "gpg-pubkey": None}
    assert parse_rpm.packages([DRIVER])["nvidia-driver"]["source"] is None
