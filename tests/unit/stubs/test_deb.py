# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Debs and apt repositories; dpkg-deb, gpgv and apt judge them."""
from __future__ import annotations

import subprocess

import pytest
from stubs import apt_repo, build, deb, payload, tables
from stubs.apt_root import AptRoot

ROW = tables.Row("libx1", "1:2.0-3", "amd64", {"depends": ["a (>= 1)", "b | c"], "conflicts": ["d"]}, section="libs", source="x")


def ask(*words):
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.fixture
def package(tmp_path):
    made = payload.Payload()
    made.text("/etc/x.conf", "x\n")
    made.data("/usr/bin/x", b"#!/bin/sh\n", 0o755)
    made.link("/usr/lib/libx.so", "libx.so.1")
    made.run("postinst", "echo made")
    made.run("posttrans", "rpm only")
    made.conffiles.append("/etc/x.conf")
    path = tmp_path / deb.file_name(ROW)
    path.write_bytes(deb.package(ROW, made))
    return path


def test_dpkg_reads_the_control_file(package):
    assert package.name == "libx1_2.0-3_amd64.deb"
    fields = dict(line.split(": ", 1) for line in ask("dpkg-deb", "-f", str(package)).splitlines())
    want = {"Package": "libx1", "Version": "1:2.0-3", "Source": "x", "Depends": "a (>= 1), b | c", "Conflicts": "d", "Section": "libs"}
    assert {key: fields[key] for key in want} == want


def test_dpkg_unpacks_it(package, tmp_path):
    subprocess.run(["dpkg-deb", "-R", str(package), str(tmp_path / "out")], check=True)
    out = tmp_path / "out"
    assert (out / "usr/bin/x").stat().st_mode & 0o777 == 0o755 and (out / "usr/lib/libx.so").readlink().name == "libx.so.1"
    assert (out / "DEBIAN/conffiles").read_text() == "/etc/x.conf\n" and sorted(path.name for path in (out / "DEBIAN").iterdir()) == [
        "conffiles", "control", "postinst"]
    script = str(out / "DEBIAN/postinst")
    assert ask(script, "configure", "") == "made\n" and ask(script, "abort-upgrade", "") == ""


def test_the_same_row_makes_the_same_bytes():
    assert deb.package(ROW, payload.Payload()) == deb.package(ROW, payload.Payload())


def test_release_has_the_vendor_s_fields():
    text = apt_repo.release_text({"origin": "Ubuntu", "label": "Ubuntu", "suite": "noble"}, {"Packages": b""})
    assert text.startswith("Origin: Ubuntu\nLabel: Ubuntu\nSuite: noble\nCodename: noble\nArchitectures: amd64\n")
    assert " e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855 0 Packages\n" in text


def test_the_signatures_are_good(apt_repositories):
    folder = apt_repositories["container-toolkit-deb"]
    key = str(folder.parent / "key.gpg")
    for words in (["InRelease"], ["Release.gpg", "Release"]):
        subprocess.run(["gpgv", "--keyring", key, *(str(folder / word) for word in words)], check=True, capture_output=True)
    fingerprint = (folder.parent / "key.fingerprint").read_text().strip()
    assert fingerprint in ask("gpg", "--with-colons", "--show-keys", str(folder.parent / "key.asc"))


def test_apt_resolves_from_it(apt_repositories, tmp_path):
    root = AptRoot(tmp_path, apt_repositories)
    assert root.candidate("nvidia-container-toolkit") == "1.20.0-1" and root.candidate("nothing") is None
    plan = root.simulate("install", "nvidia-container-toolkit")
    assert plan.rc == 0 and plan.installed["libnvidia-container1"] == "1.20.0-1" and not plan.removed
    assert root.simulate("install", "nvidia-container-toolkit=1.17.8-1").rc == 100


def test_apt_knows_what_is_installed_and_held(apt_repositories, tmp_path):
    root = AptRoot(tmp_path, apt_repositories)
    names = ["nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1"]
    root.install_state([name + "=1.17.8-1" for name in names] + ["foreign=7"], holds=["libnvidia-container1"], auto=["libnvidia-container-tools"])
    # Nothing pins the base package: it moves alone.
    assert root.simulate("dist-upgrade").installed == {"nvidia-container-toolkit-base": "1.20.0-1"}
    assert root.run("apt-mark", "showhold").stdout == "libnvidia-container1\n"
    assert root.run("apt-mark", "showauto").stdout == "libnvidia-container-tools\n"
    assert root.run("dpkg-query", "-W", "foreign", "dkms").stdout.split() == ["dkms", root.base["dkms"], "foreign", "7"]
    root.install_state([name + "=1.17.8-1" for name in names])
    assert root.simulate("dist-upgrade").before == dict.fromkeys(names, "1.17.8-1")


def test_apt_refuses_a_repository_of_another_key(apt_repositories, tmp_path):
    other = build.build(tmp_path / "other", ["externals-deb"], cache=tmp_path / "cache")
    with pytest.raises(RuntimeError, match="NO_PUBKEY"):
        AptRoot(tmp_path / "root", other, key=apt_repositories["base-deb"].parent / "key.asc")


def test_only_what_changed_is_written_again(tmp_path, cache):
    def times():
        return {path.name: path.stat().st_mtime_ns for path in tmp_path.glob("*/Release")}, (tmp_path / "base-deb/Release").stat().st_mtime_ns

    build.build(tmp_path, ["base-deb", "externals-deb"], cache=cache)
    before = times()
    build.build(tmp_path, ["base-deb", "externals-deb"], cache=cache)
    assert times() == before
    build.build(tmp_path, ["base-deb"], keep=lambda _id, row: row.name != "kmod", cache=cache)
    assert times() != before and "Package: kmod\n" not in (tmp_path / "base-deb/Packages").read_text()
