# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The headers package of a kernel by the release that uname prints."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils.kernel_names import headers_package
from hypothesis import given
from hypothesis import strategies as st


@pytest.mark.parametrize("release,system,package", [
    ("6.12.74+deb13+1-amd64", "debian", "linux-headers-6.12.74+deb13+1-amd64"),
    ("6.12.74+deb13+1-amd64", None, "linux-headers-6.12.74+deb13+1-amd64"),
    ("4.15.0-45-generic", "ubuntu", "linux-headers-4.15.0-45-generic"),
    ("4.15.0-041500-generic", "ubuntu", "linux-headers-4.15.0-041500-generic"),
    ("6.8.0-1030-nvidia-64k", "ubuntu", "linux-headers-6.8.0-1030-nvidia-64k"),
    ("6.8.0-1029-aws", None, "linux-headers-6.8.0-1029-aws"),
    ("6.1.0-50-cloud-amd64", "debian", "linux-headers-6.1.0-50-cloud-amd64"),
    ("6.8.12-4-pve", "debian", "proxmox-headers-6.8.12-4-pve"),
    ("5.15.158-1-pve", "debian", "pve-headers-5.15.158-1-pve"),
    ("5.14.0-427.16.1.el9_4.x86_64", "rhel", "kernel-devel-5.14.0-427.16.1.el9_4.x86_64"),
    ("5.14.0-570.12.1.el9_6.aarch64+64k", None, "kernel-64k-devel-5.14.0-570.12.1.el9_6.aarch64"),
    ("5.14.0-570.12.1.el9_6.x86_64+debug", None, "kernel-debug-devel-5.14.0-570.12.1.el9_6.x86_64"),
    ("5.14.0-570.12.1.el9_6.x86_64+rt", None, "kernel-rt-devel-5.14.0-570.12.1.el9_6.x86_64"),
    ("4.18.0-553.rt7.342.el8_10.x86_64", None, "kernel-rt-devel-4.18.0-553.rt7.342.el8_10.x86_64"),
    ("5.15.0-206.153.7.el9uek.x86_64", "ol", "kernel-uek-devel-5.15.0-206.153.7.el9uek.x86_64"),
    ("6.19.10-200.fc43.x86_64", "fedora", "kernel-devel-6.19.10-200.fc43.x86_64"),
    ("6.1.131-143.221.amzn2023.x86_64", "amzn", "kernel-devel-6.1.131-143.221.amzn2023.x86_64"),
    ("6.12.20-23.97.amzn2023.x86_64", "amzn", "kernel6.12-devel-6.12.20-23.97.amzn2023.x86_64"),
    ("6.4.0-150600.23.7-default", "sles", "kernel-default-devel-6.4.0-150600.23.7"),
    ("6.4.0-150600.23.7-default", None, "kernel-default-devel-6.4.0-150600.23.7"),
    ("6.10.2", None, None),
])
def test_names(release, system, package):
    assert headers_package(release, system) == package


@given(st.text(max_size=60), st.sampled_from([None, "debian", "rhel", "sles", "x"]))
def test_never_raises(release, system):
    assert headers_package(release, system) is None or release.split("+")[0].split("-")[0] in headers_package(release, system)
