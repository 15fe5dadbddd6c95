# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a bundle gives away."""
from __future__ import annotations

import pathlib

import pytest
import yaml
from ansible_collections.lockstep.gpu.plugins.module_utils.bundle import BundleProbe
from ansible_collections.lockstep.gpu.plugins.module_utils.facts import replay
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_signing import parse_certificate
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import Observation
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import PROBES
from ansible_collections.lockstep.gpu.plugins.plugin_utils import redact
from hypothesis import given
from hypothesis import strategies as st

# In two parts, since no address of a private host stands in this repository.
SITE = "%s//apt.corp.internal" % "https:"
FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures"
SECRETS = [
    ("apt_sources", "deb https://bob:pa55@w0rd@mirror.example/ubuntu noble main", "w0rd"),
    ("dmesg", "Nov  3 04:05:06 gpu17 kernel: NVRM: Xid 79", "gpu17"),
    ("nccl_log", "gpu17:166:170 [0] NCCL INFO Bootstrap", "gpu17"),
    ("modinfo", "signer:         gpu17 Secure Boot Module Signature key", "gpu17"),
    ("proc_cmdline", "ip=10.1.2.3::10.1.2.1:255.255.0.0:gpu17.corp.internal", "10.1.2"),
    ("ip_addresses", "ens6 UP 203.0.113.9/24 fe80::42:acff:fe11:2/64", "203.0.113.9"),
    ("ip_addresses", "ens6 UP 203.0.113.9/24 fe80::42:acff:fe11:2/64", "fe80"),
    ("ip_addresses", "link/ether 3c:ec:ef:11:22:33 brd ff", "3c:ec:ef"),
    ("apt_sources", "deb " + SITE.replace("apt.", "bob:s3cret@apt.") + "/debian trixie main", "s3cret"),
    ("apt_sources", "deb " + SITE + "/debian trixie main", "corp.internal"),
    ("nvidia_smi_query", "0, GPU-8f3c1a2b-1111-2222-3333-444455556666, 1652921012345", "8f3c1a2b"),
    ("nvidia_smi_query", "0, A100, 1652921012345, 535.161.08", "1652921012345"),
    ("host_gpu_query", "    Serial Number                         : 1324321000123", "1324321000123"),
    ("proc_cmdline", "root=UUID=0f3c1a2b-1111-2222-3333-444455556666 ro", "0f3c1a2b"),
    ("bls_entries", "/boot/loader/entries/8d2c1f0e9b8a7d6c5b4a39281706f5e4-6.1.conf", "8d2c1f0e"),
    ("ib_ports", "node_guid: 506b:4b03:0012:abcd", "506b:4b03"),
    ("apt_sources", "# by carol@corp.internal", "carol"),
    ("cuda_paths", "/home/carol/cuda/bin/nvcc", "carol"),
]
SECRETS += [
    ("container_marks", "cgroup 0::/docker/" + "4f" * 32, "4f4f"),
    ("proc_mounts", "overlay / overlay rw,upperdir=/var/lib/docker/overlay2/%s/diff 0 0" % ("ab" * 32), "abab"),
    ("proc_version", "Linux version 6.8.0 (buildd@secrethost) (gcc-12)", "secrethost"),
    ("proc_driver_version", "NVRM version: x  Release Build  (root@buildbox)", "buildbox"),
    ("dnf_repos", "password=s3cret", "s3cret"), ("dnf_config", "proxy_password = s3cret", "s3cret"), ("dnf_config", "proxy_username=alice", "alice"),
    ("dnf_repos", "baseurl=" + SITE + "/el9?token=abcdef", "abcdef"), ("proc_mounts", "nfs01.corp.lan:/export/alice /home nfs4 rw 0 0", "alice"),
    ("proc_mounts", "//smb.corp.lan/alice /mnt cifs rw,username=bob 0 0", "corp.lan"), ("proc_mounts", "//smb/alice /mnt cifs rw,username=bob 0 0", "bob"),
    ("apt_history", "Requested-By: alice (1000)", "alice"), ("dmesg", "2026-11-03T04:05:06.123456+00:00 node99 kernel: NVRM: Xid", "node99"),
    ("mok_enrolled", "Serial Number:\n            5a:11:22:33:44:55:66:77\n Serial Number: 5a:11:22:33:44:55", "5a:11"),
    ("mok_enrolled", "Issuer: CN=Corp Signing, O=Corp Ltd", "Corp"), ("ip_addresses", "link/infiniband " + ":".join(["80"] + ["11"] * 19), "11:11"),
    ("rdma_ports", "node guid 0x506b4b030012abcd", "506b4b03"), ("dmesg", "usb 1: SerialNumber: X123456", "X123456"),
]
# What looks like a secret, and decides about compatibility.
KEPT = [
    ("ofed_info", "MLNX_OFED_LINUX-5.4-3.1.0.0:"),
    ("dpkg_list", "mlnx-ofed-kernel-dkms 24.10.OFED.24.10.3.2.5.1-1"),
    ("pci_devices", "0000:81:00.0 0302: 10de:2330"),
    ("rpm_list", "kernel 5.14.0 427.16.1.el9_4 x86_64"),
    ("dkms_status", "nvidia/550.163.01, 6.12.117+deb13-amd64, x86_64: installed"),
    ("mok_enrolled", "SHA1 Fingerprint: 76:a0:92:06:58:00:bf:37:69:01:c3:72:cd:55:a9:0e:1f:de:d2:e0"),
    ("apt_sources", "deb http:%s/ubuntu noble main" % "//archive.ubuntu.{}".format("com")),
    ("ip_addresses", "lo UNKNOWN 127.0.0.1/8 ::1/128"),
    ("dmesg", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.161.08"),
    ("nccl_conf", "NCCL_SOCKET_IFNAME=^docker0,lo"),
    ("dpkg_list", "gpu17\t1.0\tii "), ("mok_enrolled", "Subject: CN=Canonical Ltd. Master Certificate Authority"),
    ("module_makefile", "# see https://savannah.gnu.org/bugs"), ("proc_version", "Linux version 6.8.0 (x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0) 12.3.0)"),
    ("nvidia_smi_query", "0, NVIDIA A100-SXM4-80GB, 535.161.08, 00000000:07:00.0, Disabled, [N/A]"),
]


def one(probe, text, names=("gpu17.corp.internal",)):
    return redact.redacted({probe: Observation(0, text)}, names)[probe].out


@pytest.mark.parametrize("probe, text, secret", SECRETS)
def test_a_secret_goes(probe, text, secret):
    assert secret in text and secret not in one(probe, text)


@pytest.mark.parametrize("probe, text", KEPT)
def test_a_fact_stays(probe, text):
    assert one(probe, text) == text


def test_what_belongs_together_still_does():
    seen = {"bls_entries": Observation(0, "8d2c1f0e9b8a7d6c5b4a39281706f5e4-6.1 0d2c1f0e9b8a7d6c5b4a39281706f5e4-6.2"),
            "machine_id": Observation(0, "8d2c1f0e9b8a7d6c5b4a39281706f5e4\n")}
    found = redact.redacted(seen, [])
    assert found["machine_id"].out.strip() in found["bls_entries"].out.split()[0]
    assert found["machine_id"].out.strip() not in found["bls_entries"].out.split()[1]


@given(st.dictionaries(st.sampled_from(sorted(PROBES)), st.text(max_size=300), max_size=3), st.lists(st.text(max_size=12), max_size=2))
def test_any_text_can_be_redacted(texts, names):
    seen = {probe: Observation(0, text) for probe, text in texts.items()}
    assert set(redact.redacted(seen, names)) == set(seen)


class Redacted(BundleProbe):
    """A bundle as it would have been written with redact: true."""

    def read(self, name):
        return redact.redacted({name: super().read(name)}, ["gpu-node-zz"])[name]


@pytest.mark.parametrize("name", ["debian13-550", "debian12-535"])
def test_a_redacted_bundle_says_the_same(name):
    folder = str(FIXTURES / "bundles" / name)
    assert replay(Redacted(folder, yaml.safe_load)) == replay(BundleProbe(folder, yaml.safe_load))


def test_the_sites_own_key_is_nobodys_and_still_the_same():
    """The certificate, and the modules that it signed, go together; DKMS's own has a name that every machine has."""
    text = "/root/mok.der\nsubject=CN = %s\nissuer=CN = %s\nserial=68AB\nSHA1 Fingerprint=99:49:F7:4C:09:C4:14:98:C0:71:1E:05:3E:8B:3D:CA:2F:14:19:66\n"
    seen = {"mok_certificate": Observation(0, text % (("Corp Modules",) * 2)),
            "modinfo": Observation(0, "signer:         Corp Modules\nsig_key:        68:AB\n")}
    found = redact.redacted(seen, [])
    assert "Corp" not in found["mok_certificate"].out + found["modinfo"].out
    certificate = parse_certificate(found["mok_certificate"].out).value
    assert certificate and certificate["subject"] in found["modinfo"].out
    own = text % (("DKMS module signing key",) * 2)
    assert redact.redacted({"mok_certificate": Observation(0, own)}, [])["mok_certificate"].out == own
