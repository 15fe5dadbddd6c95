# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys of repositories; the oracle is gpg itself."""
from __future__ import annotations

import os
import shutil
import subprocess
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.lockstep.gpu.plugins.module_utils import acting
from ansible_collections.lockstep.gpu.plugins.module_utils import repository_keys as keys

KINDS = ("rsa2048", "ed25519", "nistp256")


class Gpg:
    """gpg with a home of its own."""

    def __init__(self):
        # gpg-agent's socket needs a short path.
        self.home = tempfile.mkdtemp(prefix="gpg-", dir="/tmp")

    def __call__(self, *words, data=None):
        return subprocess.run(["gpg", "--homedir", self.home, "--batch", "--quiet", "--no-tty", "--passphrase", "", *words],
                              input=data, capture_output=True, check=True).stdout

    def fingerprints(self, data):
        """Of the primary keys in data, as gpg shows them."""
        rows = [line.split(":") for line in self("--with-colons", "--show-keys", data=data).decode().splitlines()]
        return [row[9] for before, row in zip(rows, rows[1:]) if row[0] == "fpr" and before[0] == "pub"]


@pytest.fixture(scope="module")
def gpg():
    found = Gpg()
    for kind in KINDS:
        found("--quick-generate-key", "%s <%s@example.com>" % (kind, kind), kind, "sign", "never")
    # One with a subkey, a second user id and an expired subkey's worth of packets.
    first = found.fingerprints(found("--export", "rsa2048"))[0]
    found("--quick-add-key", first, "rsa2048", "encrypt", "1y")
    found("--quick-add-uid", first, "Another <another@example.com>")
    yield found
    subprocess.run(["gpgconf", "--homedir", found.home, "--kill", "all"], check=False)
    shutil.rmtree(found.home, ignore_errors=True)


@pytest.mark.parametrize("kind", KINDS)
def test_fingerprints_are_gpgs(gpg, kind):
    binary, armoured = gpg("--export", kind), gpg("--armor", "--export", kind)
    expected = gpg.fingerprints(binary)
    assert len(expected) == 1 and keys.fingerprints(binary) == keys.fingerprints(armoured) == expected


def test_all_keys_of_a_file_count(gpg):
    both = gpg("--export", "rsa2048", "ed25519")
    found = keys.fingerprints(both)
    assert found == gpg.fingerprints(both) and len(found) == 2
    assert keys.strangers(both, found[:1]) == found[1:]
    assert keys.fingerprints(gpg("--armor", "--export", "rsa2048") + b"\n" + gpg("--armor", "--export", "ed25519")) == found


@pytest.mark.parametrize("kind", KINDS)
def test_armour_is_gpgs_both_ways(gpg, kind):
    binary, armoured = gpg("--export", kind), gpg("--armor", "--export", kind)
    assert keys.dearmor(armoured) == binary == keys.dearmor(binary)
    assert keys.dearmor(armoured.replace(b"\n", b"\r\n")) == binary
    headed = armoured.replace(b"BLOCK-----\n", b"BLOCK-----\nVersion: GnuPG v1\nComment: a: b\n", 1)
    assert keys.dearmor(b"words before it\n" + headed) == binary
    # As an editor of Windows leaves it, and with a header that says nothing.
    assert keys.dearmor(b"\xef\xbb\xbf" + headed.replace(b": a: b", b":")) == binary
    assert gpg("--dearmor", data=keys.enarmor(binary)) == binary


def test_both_packet_formats_are_read(gpg):
    """gpg writes old headers; new ones have one, two or five octets of length."""
    binary = gpg("--export", "rsa2048")
    (tag, body), *_rest = keys.packets(binary)
    for length in (bytes([255]) + len(body).to_bytes(4, "big"), bytes([192 + ((len(body) - 192) >> 8), (len(body) - 192) & 255])):
        again = bytes([0xC0 | tag]) + length + body
        assert keys.fingerprints(again) == gpg.fingerprints(binary)


@pytest.mark.parametrize("change", [
    lambda binary, armoured: b"", lambda binary, armoured: b"<html>not found</html>", lambda binary, armoured: binary[:-3],
    lambda binary, armoured: armoured.replace(b"\n\n", b"\n\nAAAA", 1), lambda binary, armoured: armoured[:200],
    lambda binary, armoured: b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n!!\n-----END PGP PUBLIC KEY BLOCK-----\n",
    lambda binary, armoured: bytes([0x80 | 5 << 2]) + b"\x01\x04", lambda binary, armoured: bytes([0xC0 | 6, 1, 3]),
    lambda binary, armoured: b"\xc6\xff" + (1 << 16).to_bytes(4, "big") + b"\x04" * (1 << 16),
    lambda binary, armoured: armoured.replace(b"\n\n", b"\n\n\xc3\xa4", 1),
    # As much of it as is read of any file, in no time.
    lambda binary, armoured: b"-----BEGIN PGP PUBLIC KEY BLOCK-----\n" * 28000,
])
def test_what_is_no_key_is_refused(gpg, change):
    with pytest.raises(keys.NoKey):
        keys.fingerprints(change(gpg("--export", "ed25519"), gpg("--armor", "--export", "ed25519")))


def test_a_private_key_is_refused(gpg):
    with pytest.raises(keys.NoKey):
        keys.fingerprints(gpg("--pinentry-mode", "loopback", "--export-secret-keys", "ed25519"))


@given(st.binary(max_size=200))
def test_any_bytes_have_a_fingerprint_or_are_refused(data):
    try:
        keys.fingerprints(data)
    except keys.NoKey:
        pass


@given(st.text(max_size=100))
def test_any_text_in_a_block_has_a_fingerprint_or_is_refused(text):
    try:
        keys.fingerprints(("-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n%s\n-----END PGP PUBLIC KEY BLOCK-----\n" % text).encode("utf-8"))
    except keys.NoKey:
        pass


@given(st.binary(min_size=1, max_size=500).map(lambda data: b"\x99" + data))
def test_armour_comes_back(data):
    assert keys.dearmor(keys.enarmor(data)) == data


def spaced(fingerprint):
    return "0x" + " ".join(fingerprint[start:start + 4] for start in range(0, 40, 4)).lower()


def test_a_key_comes_from_its_text_a_path_or_an_address(gpg, tmp_path):
    binary, armoured = gpg("--export", "ed25519"), gpg("--armor", "--export", "ed25519")
    (tmp_path / "vendor.asc").write_bytes(armoured)
    path, expected = str(tmp_path / "keyrings" / "vendor.gpg"), keys.fingerprints(binary)
    asked = []
    for key in (armoured.decode(), str(tmp_path / "vendor.asc"), "https://example.com/vendor.asc"):
        row, = keys.load([{"path": path, "key": key, "fingerprints": [spaced(expected[0])]}], lambda url: asked.append(url) or armoured, keys.BINARY)
        assert (row["path"], row["content"], row["fingerprints"], row["now"]) == (path, binary, expected, None)
    assert asked == ["https://example.com/vendor.asc"] and not os.path.exists(path)


def test_a_key_that_lies_there_is_not_fetched_again(gpg, tmp_path):
    binary, path = gpg("--export", "ed25519"), str(tmp_path / "vendor.gpg")
    wanted = [{"path": path, "key": "https://example.com/k", "fingerprints": keys.fingerprints(binary)}]
    keys.place(keys.load(wanted, lambda url: binary, keys.BINARY))
    assert open(path, "rb").read() == binary and oct(os.stat(path).st_mode & 0o777) == "0o644"
    row, = keys.load(wanted, lambda url: pytest.fail("it was fetched"), keys.BINARY)
    assert keys.due([row]) == []
    open(path, "wb").write(gpg("--export", "rsa2048"))
    row, = keys.load(wanted, lambda url: binary, keys.BINARY)
    assert keys.due([row]) and row["now"] == keys.fingerprints(gpg("--export", "rsa2048"))


def test_every_key_that_is_not_the_expected_one_is_named(gpg, tmp_path):
    def unreachable(url):
        raise OSError("Request failed: timed out")

    ours, other = gpg("--export", "ed25519"), gpg("--armor", "--export", "rsa2048").decode()
    rows = [{"path": "/etc/apt/keyrings/%s.gpg" % name, "key": key, "fingerprints": keys.fingerprints(ours)} for name, key in (
        ("text", other), ("address", "https://example.com/k"), ("path", str(tmp_path / "none")), ("word", "vendor"))]
    with pytest.raises(acting.Refused) as error:
        keys.load(rows, unreachable, keys.BINARY)
    assert [problem["code"] for problem in error.value.problems] == ["repository_key_unknown"] * 4
    first, second, third, fourth = [problem["message"] for problem in error.value.problems]
    assert keys.fingerprints(other.encode())[0] in first and keys.fingerprints(ours)[0] in first
    assert "timed out" in second and "is not there" in third and "neither" in fourth


@pytest.mark.parametrize("path, form, armoured", [
    ("/etc/apt/keyrings/a.gpg", keys.BINARY, False), ("/etc/apt/keyrings/a.asc", keys.BINARY, True), ("/etc/pki/rpm-gpg/RPM-GPG-KEY-a", keys.ARMOURED, True)])
def test_a_file_has_the_form_that_its_reader_takes(gpg, path, form, armoured):
    binary = gpg("--export", "ed25519")
    content = keys.formed(binary, path, form)
    assert content.startswith(b"-----BEGIN") is armoured and keys.fingerprints(content) == keys.fingerprints(binary)


def test_keys_aside_are_named_in_the_text(gpg, tmp_path):
    binary = gpg("--export", "ed25519")
    rows = [{"path": "/etc/apt/keyrings/a.gpg", "content": binary}, {"path": "/etc/apt/keyrings/a.gpg.gpg", "content": binary}]
    written = "Signed-By: /etc/apt/keyrings/a.gpg\nSigned-By: /etc/apt/keyrings/a.gpg.gpg\ngpgkey=file:///etc/apt/keyrings/a.gpg\n"
    text = keys.aside(written, rows, str(tmp_path))
    first, second, third = [line.split(" ")[-1].split("file://")[-1] for line in text.splitlines()]
    assert first == third == str(tmp_path / "0-a.gpg") and second == str(tmp_path / "1-a.gpg.gpg")
    assert open(first, "rb").read() == binary
