# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site's key: what DKMS is told, whose signature a module has, and whether the firmware trusts it."""
from __future__ import annotations

import os
import subprocess

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import capture_security, dkms_signing, module_files, parse_signing, x509
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_dkms_tree import parse_dkms_conf
from ansible_collections.lockstep.gpu.plugins.module_utils.run import Result

KEY, PATH = "/etc/keys/site.priv", "/etc/keys/site.der"
KERNEL = "6.1.0-57-amd64"
# As kmod 30 prints a module that DKMS 3.0.10 and 3.2.2 signed.
MODINFO = ("filename:       %s\nversion:        1.0\nlicense:        GPL\nname:           lt\n"
           "vermagic:       6.1.0-57-amd64 SMP preempt mod_unload modversions \n%s")
SIGNED = "sig_id:         PKCS#7\nsigner:         %s\nsig_key:        %s\nsig_hashalgo:   sha256\nsignature:      3C:F9:58:92\n\t\tE5:51:CE:0D\n"


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Two certificates of one name, as files {a, b}, with their keys beside them."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("a", "b"):
        subprocess.run(["openssl", "req", "-new", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-outform", "DER",
                        "-keyout", str(folder / (name + ".priv")), "-out", str(folder / (name + ".der")), "-subj", "/O=Example, Inc./CN=Site, Inc. module key"],
                       check=True, capture_output=True)
    return folder


@pytest.fixture
def node(tmp_path, made):
    """A root with key and certificate, and a function that makes a Signing for a version of DKMS."""
    (tmp_path / "etc/keys").mkdir(parents=True)
    for name, kind in (("site.priv", "a.priv"), ("site.der", "a.der")):
        (tmp_path / "etc/keys" / name).write_bytes((made / kind).read_bytes())
    os.chmod(tmp_path / "etc/keys/site.priv", 0o600)

    def signing(version="dkms-3.0.10\n", tools=(), key=KEY, path=PATH):
        return dkms_signing.Signing(lambda argv, ok: Result(0 if version else 127, version, ""), lambda name: name if name in tools else None,
                                    key, path, str(tmp_path))
    signing.root = tmp_path
    return signing


def serial(path):
    said = subprocess.run(["openssl", "x509", "-inform", "DER", "-in", str(path), "-noout", "-serial"], capture_output=True, text=True, check=True).stdout
    digits = said.strip().split("=")[1]
    return ":".join(digits[at:at + 2] for at in range(0, len(digits), 2))


def described(text):
    return module_files.describe(lambda argv, ok: Result(0, text, ""), ["/m/lt.ko"], False)[0]


@pytest.mark.parametrize("version", ["dkms-3.0.4\n", "dkms-3.0.10\n", "dkms-3.2.2\n", ""])
def test_a_drop_in_once(node, version):
    signing = node(version)
    assert signing.certificate().subject == "Site, Inc. module key" and not signing.exposed()
    assert list(signing.unwritten()) == [dkms_signing.DROP_IN]
    signing.configure()
    assert signing.unwritten() == {}
    assert parse_dkms_conf((node.root / dkms_signing.DROP_IN.lstrip("/")).read_text()).value == {"mok_signing_key": KEY, "mok_certificate": PATH}
    # DKMS sources it, and takes these variables from it.
    told = subprocess.run(["bash", "-c", ". %s; echo $mok_signing_key $mok_certificate" % (node.root / dkms_signing.DROP_IN.lstrip("/"))],
                          capture_output=True, text=True, check=True)
    assert told.stdout.split() == [KEY, PATH]


def test_an_old_dkms_gets_a_program_that_signs(node):
    conf = node.root / dkms_signing.OLD_CONF.lstrip("/")
    conf.parent.mkdir(parents=True, exist_ok=True)
    conf.write_text("# the user's\nsource_tree=/usr/src")
    signing = node("dkms-2.8.7\n")
    assert sorted(signing.unwritten()) == [dkms_signing.OLD_CONF, dkms_signing.SIGN_TOOL]
    signing.configure()
    assert signing.unwritten() == {} and not list(node.root.rglob("*.new"))
    assert conf.read_text().startswith("# the user's\nsource_tree=/usr/src\n" + dkms_signing.BEGIN)
    tool = node.root / dkms_signing.SIGN_TOOL.lstrip("/")
    assert os.access(tool, os.X_OK)
    # Another key replaces our block and nothing else.
    (node.root / "etc/keys/b.priv").write_text("x")
    other = node("dkms-2.8.7\n", key="/etc/keys/b.priv")
    other.configure()
    assert conf.read_text().count(dkms_signing.BEGIN) == 1 and "b.priv" in conf.read_text() and KEY not in conf.read_text()
    assert conf.read_text().startswith("# the user's\nsource_tree=/usr/src\n")


def test_the_program_signs_with_the_kernels_hash(tmp_path):
    """The script as sh runs it, with a sign-file that says what it was called with."""
    tool = tmp_path / "tool"
    script = dkms_signing.sign_tool(KEY, PATH).replace("/boot/", "%s/boot/" % tmp_path).replace('"/lib/', '"%s/lib/' % tmp_path)
    tool.write_text(script)
    (tmp_path / "boot").mkdir()
    (tmp_path / "boot/config-5.15.0-91-generic").write_text('CONFIG_MODULE_SIG=y\nCONFIG_MODULE_SIG_HASH="sha384"\n')
    for kernel, hashed in (("5.15.0-91-generic", "sha384"), ("5.15.0-92-generic", "sha512")):
        sign = tmp_path / "lib/modules" / kernel / "build/scripts/sign-file"
        sign.parent.mkdir(parents=True)
        sign.write_text('#!/bin/sh\necho "$@"\n')
        sign.chmod(0o755)
        said = subprocess.run(["sh", str(tool), kernel, "/m/nvidia.ko"], capture_output=True, text=True, check=True)
        assert said.stdout.split() == [hashed, KEY, PATH, "/m/nvidia.ko"]


def test_ubuntus_old_dkms_signs_with_the_machines_key_only(node):
    (node.root / "var/lib/shim-signed/mok").mkdir(parents=True)
    with pytest.raises(dkms_signing.SigningError, match="MOK.priv"):
        node("dkms-2.8.7\n", ("kmodsign",)).unwritten()
    assert node("dkms-2.8.7\n", ("kmodsign",), dkms_signing.MACHINE_KEY, dkms_signing.MACHINE_CERTIFICATE).unwritten() == {}
    assert node("dkms-3.0.11\n", ("kmodsign",)).unwritten()


@pytest.mark.parametrize("key, path, words", [
    ("/etc/keys/none", PATH, "does not exist"), (KEY, "/etc/keys/none", "cannot be read"), (KEY, KEY, "no X.509 certificate"),
    ("/etc/keys/$(x)", PATH, "no absolute path"), ("site.priv", PATH, "no absolute path"), (KEY, "/etc/a\"b", "no absolute path")])
def test_what_cannot_sign_is_refused(node, key, path, words):
    with pytest.raises(dkms_signing.SigningError, match=words):
        node(key=key, path=path).certificate()


def test_a_key_in_hardware_is_no_file(node):
    assert node(key="pkcs11:token=site;object=modules").certificate().issuer == "Site, Inc. module key"


def test_a_readable_key_is_noticed(node):
    os.chmod(node.root / KEY.lstrip("/"), 0o640)
    assert node().exposed()


def test_whose_signature(made):
    a, b = (x509.read((made / name).read_bytes()) for name in ("a.der", "b.der"))
    mine = described(MODINFO % ("/m/lt.ko", SIGNED % (a.issuer, serial(made / "a.der"))))
    assert (mine["signed"], mine["signer"]) == (True, "Site, Inc. module key")
    assert module_files.signature_faults(mine, a) == []
    # Another key of the same name.
    (fault,) = module_files.faults(mine, KERNEL, "1.0", b)
    assert a.serial in fault and b.serial in fault and module_files.is_about_a_signature(fault)
    (fault,) = module_files.signature_faults(described(MODINFO % ("/m/lt.ko", SIGNED % ("DKMS module signing key", "11:22"))), a)
    assert "is signed by DKMS module signing key" in fault
    (fault,) = module_files.signature_faults(described(MODINFO % ("/m/lt.ko", "")), a)
    assert fault == "/m/lt.ko is not signed" and module_files.is_about_a_signature(fault)
    # kmod without libcrypto tells only that there is a signature.
    assert module_files.signature_faults(described(MODINFO % ("/m/lt.ko", "sig_id:         PKCS#7\nsigner:         \nsig_key:        \n")), a) == []
    assert module_files.faults(mine, KERNEL, "2.0", a) == ["/m/lt.ko is version 1.0"]
    assert not module_files.is_about_a_signature("/m/lt.ko is version 1.0")


def mokutil(words, rc=0):
    def run(argv, ok):
        assert argv[:2] == ["mokutil", "--test-key"]
        with open(argv[2], "rb") as handle:
            assert x509.read(handle.read()).der[:1] == b"\x30"      # DER, whatever the site's file is
        return Result(rc, words % argv[2] if "%s" in words else words, "")
    return run


@pytest.mark.parametrize("words, refused", [
    ("%s is already enrolled\n", None), ("%s is not enrolled\n", "is not enrolled"), ("%s is already in the enrollment request\n", "pending"),
    ("%s is blocked in MokListX\n", "blocked"), ("", None)])
def test_enrolment(made, words, refused):
    certificate = x509.read((made / "a.der").read_bytes())
    if refused is None:
        dkms_signing.require_enrolled(mokutil(words, 1), certificate, PATH)
        return
    with pytest.raises(dkms_signing.SigningError, match=refused) as error:
        dkms_signing.require_enrolled(mokutil(words), certificate, PATH)
    assert error.value.code == "mok_not_enrolled" and PATH in str(error.value)


def test_what_the_kernel_would_refuse_ends_the_run(made, tmp_path):
    (tmp_path / "var/lib/dkms").mkdir(parents=True)
    (tmp_path / dkms_signing.DKMS_CERTIFICATE.lstrip("/")).write_bytes((made / "b.der").read_bytes())
    b = x509.read((made / "b.der").read_bytes())
    unsigned = described(MODINFO % ("/m/lt.ko", ""))
    with pytest.raises(dkms_signing.SigningError, match="modules won't be signed") as error:
        dkms_signing.require_loadable(mokutil(""), [unsigned], ["Binary x not found, modules won't be signed"], str(tmp_path))
    assert error.value.code == "module_unsigned"
    ours = described(MODINFO % ("/m/lt.ko", SIGNED % (b.issuer, b.serial)))
    with pytest.raises(dkms_signing.SigningError) as error:
        dkms_signing.require_loadable(mokutil("%s is not enrolled"), [ours], [], str(tmp_path))
    assert error.value.code == "mok_not_enrolled"
    dkms_signing.require_loadable(mokutil("%s is already enrolled", 1), [ours], [], str(tmp_path))
    # A certificate that lies nowhere on the node is not judged.
    vendors = described(MODINFO % ("/m/lt.ko", SIGNED % ("Canonical Ltd. Kernel Module Signing", "44")))
    dkms_signing.require_loadable(mokutil("%s is not enrolled"), [vendors], [], str(tmp_path))


def test_facts_tell_the_certificate(node, made, monkeypatch):
    root = str(node.root)
    with pytest.raises(FileNotFoundError):
        capture_security.mok_certificate(root)
    monkeypatch.setattr(capture_security, "PREFERRED", [PATH])
    told = parse_signing.parse_certificate(capture_security.mok_certificate(root)).value
    known = x509.read((made / "a.der").read_bytes())
    assert told == {"path": PATH, "subject": known.subject, "issuer": known.issuer, "serial": known.serial, "sha1": known.sha1}
    monkeypatch.setattr(capture_security, "PREFERRED", [])
    node().configure()
    assert capture_security.certificate_path(root) == PATH      # what DKMS was told of


def test_certificates_as_openssl_prints_them(made):
    said = subprocess.run(["openssl", "x509", "-inform", "DER", "-in", str(made / "a.der"), "-noout",
                           "-subject", "-issuer", "-serial", "-fingerprint", "-sha1"],
                          capture_output=True, text=True, check=True).stdout
    known = x509.read((made / "a.der").read_bytes())
    value = parse_signing.parse_certificate(said).value
    assert (value["path"], value["serial"], value["sha1"]) == (None, known.serial, known.sha1)


@pytest.mark.parametrize("line, name", [
    ("subject=CN = Site key", "Site key"), ("subject=CN=Site key", "Site key"), ("subject= /C=DE/CN=Site key", "Site key"),
    ("subject=C = DE, O = X, CN = Site key, OU = y", "Site key"), ("subject=CN = Example, Inc. key", "Example, Inc. key"), ("subject=O = X", None)])
def test_common_names(line, name):
    assert parse_signing.parse_certificate(line + "\nserial=0A\n").value["subject"] == name


def test_without_a_serial_number_nothing_is_known():
    assert parse_signing.parse_certificate("unable to load certificate\n") == (None, ["no serial number in it"])
