# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Certificates, against openssl."""
from __future__ import annotations

import re
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.lockstep.gpu.plugins.module_utils import x509


def openssl(*words):
    return subprocess.run(["openssl", *words], capture_output=True, text=True, check=True).stdout


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A function that makes a self-signed certificate: (path of the DER file, what openssl says of it)."""
    folder = tmp_path_factory.mktemp("certificates")

    def make(subject, *more):
        der, key = folder / "c.der", folder / "c.key"
        openssl("req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-utf8", "-keyout", str(key), "-outform", "DER", "-out", str(der),
                "-subj", subject, *more)
        told = openssl("x509", "-inform", "DER", "-in", str(der), "-noout", "-serial", "-fingerprint", "-sha1", "-issuer",
                       "-nameopt", "multiline,utf8,-esc_msb")
        return der, told
    return make


@pytest.mark.parametrize("subject, more", [
    ("/CN=Site Key", ()), ("/C=DE/O=Cluster/OU=a+CN=Kernmodulschl\u00fcssel", ("-multivalue-rdn",)), ("/O=no name", ()),
    ("/CN=first/CN=second", ()), ("/CN=x", ("-set_serial", "0x00ff01")), ("/CN=x", ("-set_serial", "1"))])
def test_fields_are_what_openssl_says(made, subject, more):
    der, told = made(subject, *more)
    found = x509.read(der.read_bytes())
    assert found.serial == x509.hexadecimal(re.search(r"serial=(\w+)", told).group(1))
    assert found.sha1 == re.search(r"(?i)sha1 fingerprint=(\S+)", told).group(1).lower()
    names = re.findall(r"commonName += (.*)", told)
    assert (found.issuer, found.subject) == ((names[0], names[0]) if names else (None, None))
    pem = openssl("x509", "-inform", "DER", "-in", str(der))
    assert x509.read(b"text before\n" + pem.encode()) == found and found.der == der.read_bytes()


def test_a_certificate_of_another_issuer(made, tmp_path):
    der, _told = made("/CN=Root of the site")
    key, request, signed = (str(tmp_path / name) for name in ("k", "r", "c"))
    openssl("x509", "-inform", "DER", "-in", str(der), "-out", str(tmp_path / "ca.pem"))
    openssl("req", "-new", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", request, "-subj", "/CN=Modules")
    openssl("x509", "-req", "-in", request, "-CA", str(tmp_path / "ca.pem"), "-CAkey", str(der.with_name("c.key")), "-set_serial", "77", "-out", signed)
    with open(signed, "rb") as handle:
        found = x509.read(handle.read())
    assert (found.issuer, found.subject, found.serial) == ("Root of the site", "Modules", "4D")


@given(st.binary(max_size=200))
def test_junk_is_refused(content):
    with pytest.raises(ValueError):
        x509.read(content)


def test_half_a_certificate_is_refused(made):
    whole = made("/CN=x")[0].read_bytes()
    for length in range(0, len(whole), 7):
        with pytest.raises(ValueError):
            x509.read(whole[:length])


@pytest.mark.parametrize("text, form", [("2a:F3", "2AF3"), ("0:0:1", "01"), ("00ff", "FF"), ("1", "01"), ("00", "00")])
def test_one_form_of_serial_numbers(text, form):
    assert x509.hexadecimal(text) == form
