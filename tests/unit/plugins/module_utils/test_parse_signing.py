# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys, signatures, refused modules; modprobe's configuration, loaded modules, the initramfs; and how a live node shows them."""
from __future__ import annotations

import os

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import capture, capture_dkms, capture_security, parse_os, parse_pci
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_module_config as config
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_signing as signing
from hypothesis import given
from hypothesis import strategies as st

SHA1 = "76:a0:92:06:58:00:bf:37:69:01:c3:72:cd:55:a9:0e:1f:de:d2:e0"
LONG = ("[key 1]\nSHA1 Fingerprint: %s\nCertificate:\n    Data:\n        Version: 3 (0x2)\n        Serial Number:\n            b9:41:24:a0:18:2c:92:67\n"
        "        Issuer: C=GB, O=Canonical Ltd., CN=Canonical Ltd. Master Certificate Authority\n        Validity\n"
        "        Subject: C=GB, CN=Canonical Ltd. Master Certificate Authority\n        Subject Public Key Info:\n"
        "            X509v3 Subject Key Identifier: \n                AD:91\n[key 2]\nSHA1 Fingerprint: %s\n"
        "        Subject: CN=node-d Secure Boot Module Signature key\n")


def test_keys_long():
    rows = signing.parse_mok_list(LONG % (SHA1, SHA1.replace("76", "77"))).value
    assert [row["subject"] for row in rows] == ["C=GB, CN=Canonical Ltd. Master Certificate Authority", "CN=node-d Secure Boot Module Signature key"]
    assert rows[0]["sha1"] == SHA1 and rows[0]["issuer"].startswith("C=GB, O=Canonical")


@pytest.mark.parametrize("text,rc,subjects", [
    ("2bb010e24d fedoraca\n68447cfc17 secureblue secureboot key\n", 0, ["fedoraca", "secureblue secureboot key"]), ("MokListRT is empty\n", 0, []),
    ("MokNew is empty\n", 1, []), ("EFI variables are not supported on this system\n", 1, []), ("Failed to read MokListRT\n", 255, None), ("", 0, [])])
def test_keys_short_and_none(text, rc, subjects):
    value, problems = signing.parse_mok_list(text, rc)
    assert (None if value is None else [row["subject"] for row in value]) == subjects and bool(problems) == (subjects is None)


@pytest.mark.parametrize("text,rows", [
    ("/var/lib/dkms/mok.pub is not enrolled\n", [("/var/lib/dkms/mok.pub", "missing")]), ("/x.der is already enrolled\n", [("/x.der", "enrolled")]),
    ("/x.der is already in the enrollment request\n", [("/x.der", "pending")]), ("/x.der is already in db\n", [("/x.der", "enrolled")]),
    ("/x.der is already in the built-in trusted keyring\n", [("/x.der", "enrolled")]), ("/x.der is blocked in dbx\n", [("/x.der", "blocked")]),
    ("Failed to open /x.der\n", None), ("", None)])
def test_tested_keys(text, rows):
    value, problems = signing.parse_key_test(text, 1)
    assert (None if value is None else [(row["path"], row["state"]) for row in value]) == rows and bool(problems) == (rows is None and text != "")


FILE = "filename:       /lib/modules/6.8.0-44-generic/updates/dkms/nvidia-uvm.ko.zst\nversion:        550.107.02\n"


@pytest.mark.parametrize("more,signed,signer", [
    ("vermagic:       6.8.0-44-generic SMP\nsig_id:         PKCS#7\nsigner:         x y\nsig_key:        11:22\n", True, "x y"),
    ("vermagic:       6.8.0-44-generic SMP\n", False, None), ("", None, None),
    ("vermagic:       6.8.0-44-generic SMP\nsig_id:         PKCS#7\nsigner:         \n", True, None)])
def test_signatures(more, signed, signer):
    (row,) = signing.parse_signatures(FILE + more + "signature:      AA:BB:\n\t\tCC:DD\nparm:           x:y\n").value
    assert (row["signed"], row["signer"], row["name"], row["kernel"]) == (signed, signer, "nvidia-uvm", "6.8.0-44-generic")


@pytest.mark.parametrize("text,module,why", [
    ("modprobe: ERROR: could not insert 'nvidia': Key was rejected by service", "nvidia", "key_rejected"),
    ("insmod: ERROR: could not insert module ./nvidia-uvm.ko: Required key not available", "nvidia_uvm", "key_missing"),
    ("modprobe: ERROR: could not insert 'nvidia_current': Operation not permitted", "nvidia_current", "not_permitted"),
    ("modprobe: ERROR: could not insert 'nvidia': No such device", "nvidia", "no_device"),
    ("FATAL: Error inserting nvidia (/lib/modules/3.10.0/extra/nvidia.ko): Invalid module format", "nvidia", "exec_format"),
    ("modprobe: ERROR: could not insert 'nv_peer_mem': Unknown symbol in module, or unknown parameter (see dmesg)", "nv_peer_mem", "unknown_symbol"),
    ("modprobe: FATAL: Module nvidia not found in directory /lib/modules/5.15.0-91-generic", "nvidia", "not_found"),
    ("modprobe: ERROR: could not insert 'nvidia': Something new", "nvidia", None)])
def test_refused_modules(text, module, why):
    (row,) = signing.parse_module_load(text + "\n", 1).value
    assert (row["module"], row["why"]) == (module, why)
    assert row["kernel"] == ("5.15.0-91-generic" if why == "not_found" else None)


@pytest.mark.parametrize("text,expected", [
    ("Module                  Size  Used by\nnova_core             180224  0\ndrm                   811008  2 nova_core,nvidia-drm\n",
     {"nova_core": [], "drm": ["nova_core", "nvidia_drm"]}),
    ("nvidia 56717312 19 nvidia_uvm,nvidia_modeset, Live 0x0000000000000000 (POE)\nsnd 122880 0 - Live 0x0\n",
     {"nvidia": ["nvidia_uvm", "nvidia_modeset"], "snd": []}), ("foo 16384 -2 [permanent]\n", {"foo": []}), ("", {})])
def test_loaded_modules(text, expected):
    assert config.parse_lsmod(text) == (expected, [])


@pytest.mark.parametrize("text,blacklist,disabled,ignored", [
    ("/etc/modprobe.d/lockstep.conf: blacklist nouveau\n/etc/modprobe.d/a.conf:3:#blacklist nova_core\n", ["nouveau"], [], []),
    ("==> /etc/modprobe.d/nvidia.conf <==\nblacklist  nouveau # x\ninstall nova-core /bin/false\n\n==> /etc/modprobe.d/x <==\nblacklist nova_core\n",
     ["nouveau"], ["nova_core"], ["/etc/modprobe.d/x"]), ("blacklist nova-core\nalias a b\noptions nvidia-drm modeset=1\n", ["nova_core"], [], []),
    ("install nvidia /sbin/modprobe --ignore-install nvidia\n", [], [], []),
    ("/etc/modprobe.d/a.conf.rpmsave:blacklist nouveau\n", [], [], ["/etc/modprobe.d/a.conf.rpmsave"])])
def test_modprobe_configuration(text, blacklist, disabled, ignored):
    value = config.parse_modprobe_config(text).value
    assert (sorted(value["blacklist"]), sorted(value["disabled"]), sorted(value["ignored"])) == (blacklist, disabled, ignored)


@given(st.sampled_from(["nouveau", "nova-core", "nova_core"]),
       st.sampled_from(["/etc/modprobe.d/x.conf:", "/etc/modprobe.d/x.conf: ", "/etc/modprobe.d/x.conf:12:", ""]))
def test_dashes_and_underscores_are_one(name, prefix):
    assert list(config.parse_modprobe_config("%sblacklist %s\n" % (prefix, name)).value["blacklist"]) == [name.replace("-", "_")]


def test_options_and_the_command_line():
    value = config.parse_modprobe_config("options nvidia-drm modeset=1 fbdev=1\noptions nvidia-drm fbdev=0\n").value
    assert value["options"] == {"nvidia_drm": {"modeset": "1", "fbdev": "0"}}
    assert config.cmdline_blacklist("ro modprobe.blacklist=nouveau,nova-core quiet module_blacklist=rivafb") == ["nouveau", "nova_core", "rivafb"]
    assert config.cmdline_blacklist(None) == []


def test_initramfs():
    text = ("Image: /boot/initramfs-6.19.10-200.fc43.x86_64.img: 33M\n========\ndracut modules:\nbash\n"
            "-rw-r--r--   1 root     root        1234 Nov 30 10:00 usr/lib/modules/6.19.10-200.fc43.x86_64/kernel/drivers/gpu/nova-core/nova_core.ko.xz\n"
            "-rw-r--r--   1 root     root          20 Nov 30 10:00 etc/modprobe.d/nvidia.conf\nlib/modules/5.15.0-91-generic/updates/dkms/nvidia-drm.ko\n")
    value = config.parse_initramfs(text).value
    assert value["image"] == "/boot/initramfs-6.19.10-200.fc43.x86_64.img" and value["configs"] == ["/etc/modprobe.d/nvidia.conf"]
    assert [(row["name"], row["kernel"]) for row in value["modules"]] == [("nova_core", "6.19.10-200.fc43.x86_64"), ("nvidia_drm", "5.15.0-91-generic")]


@pytest.mark.parametrize("text,drivers", [
    ("0000:17:00.0 0302: 10de:2330\n\tKernel driver in use: nvidia\n0000:17:00.1 0403: 10de:22ba\n\tKernel driver in use: snd_hda_intel\n",
     {"0000:17:00.0": "nvidia"}),
    ("01:00.0 VGA compatible controller [0300]: NVIDIA Corporation GP104 [10de:1b80] (rev a1)\n\tSubsystem: x\n\tKernel modules: nouveau\n",
     {"0000:01:00.0": None}),
    ("01:00.0 3D controller: NVIDIA Corporation GH100\n\tKernel driver in use: vfio-pci\n", {"0000:01:00.0": "vfio-pci"}),
    ("0000:17:00.0 0302: 10de:2330\n", {}), ("", {})])
def test_drivers_in_use(text, drivers):
    assert parse_pci.parse_pci_drivers(text) == (drivers, [])


@pytest.mark.parametrize("text,on", [("SecureBoot enabled\n", True), ("SecureBoot disabled\nPlatform is in Setup Mode\n", False),
                                     ("SecureBoot enabled\nSecureBoot validation is disabled in shim\n", False), ("   Secure Boot: enabled (user)\n", True),
                                     ("  Secure Boot: disabled (setup)\n", False), ("This system doesn't support Secure Boot\n", False), ("x\n", None)])
def test_secure_boot(text, on):
    assert parse_os.parse_secure_boot(text).value is on


def write(root, path, text=""):
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def test_modprobe_configuration_of_a_node(tmp_path):
    write(tmp_path, "etc/modprobe.d/a.conf", "blacklist nouveau\n")
    write(tmp_path, "usr/lib/modprobe.d/a.conf", "blacklist hidden\n")
    write(tmp_path, "usr/lib/modprobe.d/b.conf", "blacklist nova_core\n")
    write(tmp_path, "etc/modprobe.d/c", "blacklist rivafb\n")
    value = config.parse_modprobe_config(capture_security.modprobe_config(str(tmp_path))).value
    assert sorted(value["blacklist"]) == ["nouveau", "nova_core"] and value["ignored"] == {"/etc/modprobe.d/c": ["rivafb"]}


def test_mokutil_runs_only_where_secure_boot_is_on(tmp_path):
    assert signing.parse_mok_list(capture_security.mok_list("--list-enrolled")(str(tmp_path), "")).value == []
    assert capture_security.mok_test(str(tmp_path), "") == ""


def test_an_initramfs_that_cannot_be_listed(tmp_path):
    write(tmp_path, "boot/vmlinuz-6.12.117+deb13-amd64", "")
    write(tmp_path, "boot/initrd.img-6.12.117+deb13-amd64", "")
    for folder in (tmp_path, tmp_path / "empty"):
        with pytest.raises(capture.Absent):
            capture_security.initramfs_files(str(folder), "")


@pytest.mark.parametrize(("releases", "running", "chosen"), [
    (["6.12.99+deb13-amd64", "6.12.107+deb13-amd64"], "6.18.44-of-the-host", "6.12.107+deb13-amd64"),
    (["6.12.99+deb13-amd64", "6.12.107+deb13-amd64"], "6.12.99+deb13-amd64", "6.12.99+deb13-amd64"),
])
def test_whose_initramfs_is_listed(tmp_path, monkeypatch, releases, running, chosen):
    for release in releases:
        write(tmp_path, "boot/vmlinuz-" + release, "")
        write(tmp_path, "boot/initrd.img-" + release, "")
    write(tmp_path, "boot/initrd.img-7.0-without-a-kernel", "")
    (tmp_path / "lsinitramfs").write_text("#!/bin/sh\n", encoding="ascii")
    (tmp_path / "lsinitramfs").chmod(0o755)
    monkeypatch.setattr(capture_security.platform, "release", lambda: running)
    monkeypatch.setattr(capture_security, "execute", lambda argv, tools: argv)
    assert capture_security.initramfs_files(str(tmp_path), str(tmp_path)) == ("lsinitramfs", str(tmp_path / ("boot/initrd.img-" + chosen)))


def test_dkms_folders_of_a_node(tmp_path):
    write(tmp_path, "var/lib/dkms/nvidia/1.0/6.1/x86_64/module/nvidia.ko")
    (tmp_path / "var/lib/dkms/nvidia/2.0").mkdir()
    os.symlink("/usr/src/nvidia-2.0", tmp_path / "var/lib/dkms/nvidia/2.0/source")
    assert capture_dkms.dkms_folders(str(tmp_path)) == (
        "/var/lib/dkms/nvidia\n/var/lib/dkms/nvidia/1.0\n/var/lib/dkms/nvidia/1.0/6.1\n/var/lib/dkms/nvidia/2.0\n"
        "/var/lib/dkms/nvidia/2.0/source -> /usr/src/nvidia-2.0\n")
