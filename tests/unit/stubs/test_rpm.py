# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rpms, dnf repositories and module streams; rpm and dnf judge them."""
from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from stubs import dnf_repo, payload, rpm, tables
from stubs.dnf_root import DnfRoot

pytestmark = pytest.mark.skipif(not all(map(shutil.which, ("rpmbuild", "rpmsign", "createrepo_c", "modifyrepo_c"))), reason="no tools of rpm here")
needs_dnf = pytest.mark.skipif(shutil.which("dnf") is None or os.geteuid() != 0, reason="no dnf here, or no root to run it")


def ask(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("version, want", [("3:580.126.20-1.el9", ("3", "580.126.20", "1.el9")), ("1.17.8-1", ("", "1.17.8", "1"))])
def test_evr(version, want):
    assert rpm.split_evr(version) == want


def test_a_spec_has_the_rows_of_one_source():
    rows = [tables.Row("x", "1-1", "noarch", {}, source="x"), tables.Row("y", "1-1", "noarch", {"depends": ["x = 1-1"]}, source="x"),
            tables.Row("z", "1-1", "x86_64", {}), tables.Row("z", "2-1", "x86_64", {})]
    groups = rpm.groups(rows, lambda _row: payload.Payload())
    assert [(source, version, [row.name for row, _made in members]) for source, version, members in groups] == [
        ("x", "1-1", ["x", "y"]), ("stubs", "1-1", ["z"]), ("stubs", "2-1", ["z"])]
    text = rpm.spec("x", "1-1", groups[0][2], "/tree")
    assert "%package -n x\n" not in text and "%package -n y\n" in text and "Requires: x = 1-1\n" in text and "%files -n x\n" in text


def test_packages_with_one_path_are_of_two_specs():
    made = payload.Payload()
    made.text("/usr/src/x", "x")
    assert len(rpm.groups([tables.Row("a", "1-1", "noarch", {}), tables.Row("b", "1-1", "noarch", {})], lambda _row: made)) == 2


def test_rpm_reads_what_a_row_says(dnf_repositories):
    path = dnf_repositories["rhel9-cuda"] / "kmod-nvidia-open-dkms-580.126.20-1.el9.noarch.rpm"
    assert ask("rpm", "-qp", "--nosignature", "--qf", "%{NEVRA} %{SOURCERPM}", str(path)) == (
        "kmod-nvidia-open-dkms-3:580.126.20-1.el9.noarch kmod-nvidia-open-dkms-580.126.20-1.el9.src.rpm")
    assert "nvidia-kmod = 3:580.126.20\n" in ask("rpm", "-qp", "--nosignature", "--provides", str(path))
    assert "/usr/src/nvidia-580.126.20/dkms.conf\n" in ask("rpm", "-qpl", "--nosignature", str(path))
    assert "dkms add -m nvidia -v 580.126.20 -q" in ask("rpm", "-qp", "--nosignature", "--scripts", str(path))


def test_rpm_finds_the_signature_good(dnf_repositories, tmp_path):
    folder = dnf_repositories["externals-rpm"]
    database = ["--dbpath", str(tmp_path)]
    subprocess.run(["rpmkeys", *database, "--import", str(folder.parent / "key.asc")], check=True)
    text = ask("rpmkeys", *database, "--checksig", "-v", *map(str, folder.glob("gcc-*.rpm")))
    assert "Signature, key ID" in text and "NOKEY" not in text and "BAD" not in text
    subprocess.run(["gpgv", "--keyring", str(folder.parent / "key.gpg"), str(folder / "repodata/repomd.xml.asc"), str(folder / "repodata/repomd.xml")],
                   check=True, capture_output=True)


def test_a_stream_has_the_artifacts_that_are_there():
    module = {"name": "m", "default_stream": "old", "streams": [
        {"stream": name, "version": "20260101000000", "context": "c", "summary": "s", "profiles": {"default": ["x"]}, "artifacts": {version: ["x"]}}
        for name, version in (("old", "3:1-1"), ("new", "3:2-1"))]}
    first, defaults = dnf_repo.module_documents(module, [tables.Row("x", "3:2-1", "noarch", {})])
    assert first["data"]["stream"] == "new" and first["data"]["artifacts"] == {"rpms": ["x-3:2-1.noarch"]}
    assert "stream" not in defaults["data"] and list(defaults["data"]["profiles"]) == ["new"]


@needs_dnf
def test_dnf_resolves_by_streams_and_locks(dnf_repositories, tmp_path):
    root = DnfRoot(tmp_path, dnf_repositories)
    assert root.simulate("install", "nvidia-driver-cuda-3:580.126.20-1.el9").rc == 1
    assert root.run("module", "enable", "nvidia-driver:580-open").returncode == 0
    plan = root.simulate("install", "nvidia-driver-cuda-3:580.126.20-1.el9")
    assert plan.rc == 0 and plan.installed["kmod-nvidia-open-dkms"] == ["3:580.126.20-1.el9"] and not plan.removed
    root.locks.write_text("nvidia-driver-cuda-3:570.211.01-1.el9.*\n")
    assert root.simulate("install", "nvidia-driver-cuda-3:580.126.20-1.el9").rc == 1


@needs_dnf
def test_dnf_knows_what_is_installed(dnf_repositories, tmp_path):
    root = DnfRoot(tmp_path, dnf_repositories)
    root.install_state(["dkms-3.1.8-1.el9", "libglvnd-1.3.4-1.el9"])
    assert root.installed() == {"dkms": ["3.1.8-1.el9"], "libglvnd": ["1:1.3.4-1.el9"]}
    assert root.simulate("remove", "dkms").removed == {"dkms": ["3.1.8-1.el9"]}
    with pytest.raises(ValueError, match="no such package"):
        root.install_state(["dkms-9"])
