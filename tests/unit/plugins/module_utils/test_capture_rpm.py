# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reading RPM systems, below a folder that stands for a node."""

from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import capture_rpm, parse_dnf
from ansible_collections.lockstep.gpu.plugins.module_utils.capture import Absent


def write(root, path, text):
    target = root / path.lstrip("/")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


@pytest.mark.parametrize("database,dpkg,answer", [
    ("usr/lib/sysimage/rpm", None, True), ("var/lib/rpm", None, True), (None, None, False), ("var/lib/rpm", "Package: dpkg\n", False),
    ("var/lib/rpm", "", True)])
def test_which_systems_are_rpms(tmp_path, database, dpkg, answer):
    if database:
        (tmp_path / database).mkdir(parents=True)
    if dpkg is not None:
        write(tmp_path, "/var/lib/dpkg/status", dpkg)
    assert capture_rpm.is_rpm_system(str(tmp_path)) is answer


def test_files_of_an_rpm_system(tmp_path):
    (tmp_path / "var/lib/rpm").mkdir(parents=True)
    write(tmp_path, "/etc/dnf/dnf.conf", "[main]\ninstallonly_limit=2\n")
    (tmp_path / "etc/yum.conf").symlink_to("dnf/dnf.conf")
    text = capture_rpm.reading(*capture_rpm.CONFIGS)(str(tmp_path))
    # A link and its target are one file.
    assert text.count("installonly_limit") == 1 and parse_dnf.parse_dnf_config(text).value["installonly_limit"] == 2
    with pytest.raises(Absent):
        capture_rpm.reading(*capture_rpm.LOCKS)(str(tmp_path))


def test_another_system_has_nothing_to_read(tmp_path):
    write(tmp_path, "/etc/dnf/dnf.conf", "[main]\n")
    with pytest.raises(Absent):
        capture_rpm.reading(*capture_rpm.CONFIGS)(str(tmp_path))
    for ask in (capture_rpm.rpm_list, capture_rpm.asking("module", "list")):
        with pytest.raises(Absent):
            ask(str(tmp_path), "/usr/bin")
