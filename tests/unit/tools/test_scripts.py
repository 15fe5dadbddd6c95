# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The Python scripts of tools/ and tests/bench/."""

from __future__ import annotations

import zipfile

import pytest

DEB822 = """# a comment
Types: deb
# URIs: http://old.example/debian
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: sid
"""
ONE_LINE = """# deb http://old.example/debian bookworm main
deb [arch=amd64 signed-by=/k.gpg] http://mirror.example/debian bookworm main
deb-src http://source.example/debian bookworm main
deb https://other.example/apt stable main
"""


@pytest.fixture(name="apt")
def _apt(script):
    return script("tools/apt_archive.py")


def test_deb822(apt):
    """Comments, disabled stanzas and commented fields are left out."""
    assert apt.uris_of(DEB822, True) == ["http://mirror.example/debian/", "http://mirror.example/debian-security"]


def test_deb822_of_several_lines(apt):
    """A field may go on over lines."""
    assert apt.uris_of("Types: deb\nURIs:\n http://a.example/debian\n http://b.example/debian\nSuites: x\n", True) == [
        "http://a.example/debian", "http://b.example/debian"]


def test_one_line_style(apt):
    """Source entries and comments are left out, options are skipped."""
    assert apt.uris_of(ONE_LINE, False) == ["http://mirror.example/debian", "https://other.example/apt"]


def test_machine_with_a_mirror_list(apt, tmp_path):
    """Cloud images name a file of mirrors; files that apt ignores are ignored."""
    directory = tmp_path / "etc/apt/sources.list.d"
    directory.mkdir(parents=True)
    (directory / "debian.sources").write_text("Types: deb\nURIs: mirror+file:///etc/apt/mirrors/debian.list\nSuites: x\n")
    (directory / "debian.sources.dpkg-old").write_text("Types: deb\nURIs: http://old.example/debian\nSuites: x\n")
    (tmp_path / "etc/apt/mirrors").mkdir()
    (tmp_path / "etc/apt/mirrors/debian.list").write_text("# mirrors\nhttps://mirror.example/debian\tpriority:1\n")
    assert apt.machine_uris(tmp_path) == ["https://mirror.example/debian"]


def test_sources_of_another_suite(apt):
    """The main archive with its updates, security on its own host; component main only."""
    text = apt.sources("trixie", ["https://other.example/apt", "http://a.example/debian/", "http://b.example/debian-security"])
    assert "URIs: http://a.example/debian/\nSuites: trixie trixie-updates\nComponents: main\n" in text
    assert "URIs: http://b.example/debian-security\nSuites: trixie-security\n" in text
    assert "security" not in apt.sources("trixie", ["http://a.example/debian"])


def test_no_debian_archive(apt):
    """Another distribution is told so in one sentence."""
    with pytest.raises(SystemExit, match="no Debian archive"):
        apt.sources("trixie", ["http://mirror.example/ubuntu"])


def test_extracting_a_collection(script, tmp_path):
    """Only the named collection is unpacked, and one that is not there is an error."""
    extract = script("tools/extract_collections.py").extract
    wheel = tmp_path / "ansible-1.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("ansible_collections/a/b/x.py", "")
        archive.writestr("ansible_collections/a/bc/y.py", "")
    extract(wheel, tmp_path / "site", ["a.b"])
    assert [path.name for path in (tmp_path / "site").rglob("*.py")] == ["x.py"]
    with pytest.raises(SystemExit, match="holds no collection a.c"):
        extract(wheel, tmp_path / "site", ["a.c"])


def test_import_that_misses_something(script, tmp_path):
    """A role that was not seen and a module without documentation are faults; a complete import has none."""
    faults = script("tools/check_import.py").faults
    (tmp_path / "roles/one").mkdir(parents=True)
    (tmp_path / "plugins/modules").mkdir(parents=True)
    (tmp_path / "plugins/modules/two.py").touch()
    module = {"content_type": "module", "content_name": "two", "doc_strings": {"doc": {"module": "two"}}}
    contents = [{"content_type": "role", "name": "one"}, {"content_type": "module", "name": "two"}]
    assert faults({"contents": contents, "docs_blob": {"contents": [module]}}, tmp_path) == []
    assert faults({"contents": [], "docs_blob": {"contents": [{**module, "doc_strings": None}]}}, tmp_path) == [
        "module two is not in the import", "role one is not in the import", "module two has no documentation in the import"]


def test_counting_remote_calls(script, tmp_path):
    """Each call of a wrapped connection is one line, and still reaches the connection."""
    counter = script("tests/bench/plugins/callback/remote_calls.py")

    class Connection:
        class _play_context:
            remote_addr = "node"

        def exec_command(self, command):
            return command.upper()

        def put_file(self, source, destination):
            return source, destination

        def fetch_file(self, source, destination):
            return None

    log = tmp_path / "log"
    connection = counter.counted(Connection(), str(log))
    assert connection.exec_command("a") == "A" and connection.exec_command(command="b") == "B"
    assert connection.put_file("s", "d") == ("s", "d")
    assert counter.totals(log.read_text().splitlines()) == {"node": {"exec_command": 2, "put_file": 1}}
