# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is asked of apt on a live node."""

from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import capture, capture_apt

STATUS = """Package: nvidia-driver-535
Status: install ok installed

Package: libnvidia-compute-580
Status: deinstall ok config-files

Package: cuda-keyring
Status: hold ok installed

Package: linux-image-generic
Status: install ok installed

Package: bash
Status: install ok installed
"""


@pytest.fixture(name="root")
def _root(tmp_path):
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text(STATUS)
    return str(tmp_path)


def test_the_installed_packages_of_products(root):
    assert capture_apt.installed(root) == ["cuda-keyring", "linux-image-generic", "nvidia-driver-535"]


def test_apt_is_asked_once(root, monkeypatch):
    asked = []
    monkeypatch.setattr(capture_apt, "execute", lambda argv, tools: asked.append(argv))
    capture_apt.policy(root, "/bin")
    capture_apt.show(root, "/bin")
    assert asked == [["apt-cache", "policy", "cuda-keyring", "linux-image-generic", "nvidia-driver-535"], ["apt-cache", "show", "nvidia-driver-535"]]


def test_nothing_is_asked_about_nothing(tmp_path):
    (tmp_path / "var/lib/dpkg").mkdir(parents=True)
    (tmp_path / "var/lib/dpkg/status").write_text("")
    assert capture_apt.policy(str(tmp_path), "/bin") == "" and capture_apt.show(str(tmp_path), "/bin") == ""


@pytest.mark.parametrize("ask", [capture_apt.policy, capture_apt.show])
def test_a_system_without_dpkg_has_no_answer(tmp_path, ask):
    with pytest.raises(capture.Absent):
        ask(str(tmp_path), "/bin")


def test_only_the_files_that_apt_reads(tmp_path):
    folder = tmp_path / "etc/apt/apt.conf.d"
    with pytest.raises(capture.Absent):
        capture_apt.apt_conf(str(tmp_path))
    folder.mkdir(parents=True)
    for name in ("20auto-upgrades", "50x.conf", "50unattended-upgrades.ucf-dist", "99.bak"):
        (folder / name).write_text('A "%s";\n' % name)
    text = capture_apt.apt_conf(str(tmp_path))
    assert "20auto-upgrades" in text and "50x.conf" in text and "ucf-dist" not in text and ".bak" not in text
