# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people write where a version belongs."""
from __future__ import annotations

import pathlib
import time

import pytest
from ansible_collections.lockstep.gpu.plugins.plugin_utils import claim, claim_text, knowledge, stack
from hypothesis import given
from hypothesis import strategies as st

READERS = (claim_text.driver, claim_text.cuda, claim_text.kernel, claim_text.system, claim_text.ofed)


@pytest.mark.parametrize(("text", "expected"), [
    ("535.183.01", {"version": "535.183.01"}), ("535.183.01-0ubuntu1", {"version": "535.183.01"}), ("v550.90.07", {"version": "550.90.07"}),
    ("R550", {"version": "550"}), ("550.x", {"version": "550"}), ("570 branch, open", {"version": "570", "flavour": "open"}),
    ("580-open", {"version": "580", "flavour": "open"}), ("nvidia-driver-550-server", {"version": "550"}),
    ("nvidia-driver-570-open=570.133.20-0ubuntu1", {"version": "570.133.20", "flavour": "open"}),
    ("550.163.01-4~deb13u1", {"version": "550.163.01", "source": "distribution"}),
    ("535.274.02-0ubuntu0.22.04.1", {"version": "535.274.02", "source": "distribution"}),
    ("610.57.04 / 595.91.07 (default)", {"version": "610.57.04", "alternatives": ["595.91.07"]}),
    ("550.90.07, 535.183.01", {"version": "550.90.07", "alternatives": ["535.183.01"]}),
    ("550.54.15/550.90.07", {"version": "550.54.15", "alternatives": ["550.90.07"]}),
    ("< 570.133.20", {"version": "570.133.20", "below": True}), ("pre-595", {"version": "595", "below": True}), ("<= 550.120", {"version": "550.120"}),
    ("any >= 515", {"version": "515"}), ("any", {}), ("12.2-era (535)", {"version": "535"}), ("3:610.57.04-1.el9", {"version": "610.57.04"}),
    ("libs 550.54.15 != module 535.161.08", {"version": "535.161.08", "libraries": "550.54.15"}),
    ("NVML 550.54.15, kernel 535.161.08", {"version": "535.161.08", "libraries": "550.54.15"}),
    ("550.54.15 libraries, 535.161.08 module", {"version": "535.161.08", "libraries": "550.54.15"}),
    ("module 570.133.20, user space 570.133.20", {"version": "570.133.20"}), ("570.133.20 (dkms, unsigned)", {"version": "570.133.20", "module": "dkms"}),
    ("linux-modules-nvidia-570-server-6.8.0-57-generic", {"version": "570", "module": "prebuilt"}),
    ("libs != module", {"libraries": "other"}), ("cuda-drivers", {"packages": ["cuda-drivers"]}), ("proprietary", {"flavour": "proprietary"}),
    # A pattern, and slips of the pen, stay as they are.
    ("535.*", {"version": "535.*"}), ("550.163.o1", {"version": "550.163.o1"}), ("550,163,01", {"version": "550,163,01"}),
    ("550.163.1", {"version": "550.163.1"})])
def test_drivers(text, expected):
    assert claim_text.driver(text) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("12.4", {"versions": ["12.4"]}), ("11.8.0-1", {"versions": ["11.8.0"]}), ("12.8 (toolkit optional)", {"versions": ["12.8"]}),
    ("12.2 (runfile 535.54.03)", {"versions": ["12.2"]}), ("cuda-toolkit-12-9 (cuda-toolkit-config-common-12.9.79-1)", {"versions": ["12.9"]}),
    ("13.1 in container through compat", {"compat": True, "versions": ["13.1"]}), ("12.x", {"versions": ["12"]}), ("13.x container", {"versions": ["13"]}),
    ("12.0-12.3", {"versions": ["12.0", "12.3"]}), ("<= 13.0", {"versions": ["13.0"]}), ("13.2.78", {"versions": ["13.2"]}), ("cu124", {"versions": ["12.4"]}),
    ("12.1 / 12.4", {"versions": ["12.1", "12.4"]}), ("13.0 via cuda-compat-13-0 in container", {"compat": True, "versions": ["13.0"]}),
    ("CUDA 12.4 Update 1", {"versions": ["12.4"]}), ("cuda", {"packages": ["cuda"]}), ("none", {}), ("12,4,1", {"versions": ["12,4,1"]}),
    ("12.4.*", {"versions": ["12.4.*"]})])
def test_toolkits(text, expected):
    assert claim_text.cuda(text) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("5.15.0-119-generic", {"release": "5.15.0-119-generic"}), ("6.8-aws", {"release": "6.8-aws"}), ("6.6.51+ (cos)", {"release": "6.6.51"}),
    ("linux-image-6.8.0-1032-aws", {"release": "6.8.0-1032-aws"}), ("kernel-5.14.0-284.25.1.el9_2.x86_64", {"release": "5.14.0-284.25.1.el9_2.x86_64"}),
    ("5.15.0-1037-azure (README of that period)", {"release": "5.15.0-1037-azure"}), ("linux-azure-6.8 (default)", {"meta": "linux-azure-6.8"}),
    ("linux-azure-lts-22.04", {"meta": "linux-azure-lts-22.04"}), ("versionlocked kernel set", {}), ("GCP 22.04 HWE", {"hwe": True}),
    (">= 6.15 (also 6.17, 7.0)", {"release": "6.15"}), (">= 6.17 mainline", {"release": "6.17", "mainline": True}), ("22.04", {}),
    ("22.04.5", {}), ("5.10.x", {"release": "5.10"}),
    ("4.18 / 5.4", {"release": "4.18", "alternatives": ["5.4"]}), ("6.4.6 (gcc-12 built)", {"compiler": "gcc 12", "release": "6.4.6"}),
    ("6.14.0-33-generic (built with gcc-13)", {"compiler": "gcc 13", "release": "6.14.0-33-generic"}),
    ("3.10.0-957.el7 without kernel-devel", {"headers": False, "release": "3.10.0-957.el7"}), ("certain kernels", {"kaslr": True}),
    ("6.12 with nokaslr", {"release": "6.12"}), ("linux-headers-amd64 unheld", {"held": False, "meta": "linux-headers-amd64"}),
    ("6.12.7_1", {"release": "6.12.7_1"}), ("6.12*", {"release": "6.12*"})])
def test_kernels(text, expected):
    assert claim_text.kernel(text) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("Ubuntu 22.04.5", "ubuntu 22.04"), ("ubuntu22.04", "ubuntu 22.04"), ("ubuntu-2204-lts", "ubuntu 22.04"),
    ("Ubuntu 24.04 LTS (Noble Numbat)", "ubuntu 24.04"),
    ("Ubuntu jammy", "ubuntu 22.04"), ("DGX OS 6.2", "ubuntu 22.04"), ("dgx-7.2.3", "ubuntu 24.04"), ("AL 2", "amzn 2"),
    ("DGX OS 7.4.0 (Ubuntu 24.04)", "ubuntu 24.04"), ("Ubuntu 20.04 (KVM guests)", "ubuntu 20.04"),
    ("Ubuntu 22.04 based", "ubuntu 22.04"), ("RHEL 9.2", "rhel 9.2"), ("Red Hat Enterprise Linux 8.10", "rhel 8.10"), ("rhel810", "rhel 8.10"),
    ("el9", "rhel 9"),
    ("EL 9.8", "rhel 9.8"), ("almalinux8.10", "almalinux 8.10"), ("Rocky Linux 9", "rocky 9"), ("Oracle Linux 8.10 RHCK", "ol 8.10"), ("ol9", "ol 9"),
    ("CentOS 7.9", "centos 7.9"), ("CentOS Stream 9", "centos 9"), ("Amazon Linux 2023 (k8s 1.36)", "amzn 2023"), ("AL2", "amzn 2"),
    ("amazon-2023", "amzn 2023"),
    ("SLES 15 SP6", "sles 15.6"), ("SLES 16", "sles 16"), ("SUSE Linux Enterprise Server 15 SP5", "sles 15.5"), ("openSUSE Leap 15.6", "opensuse-leap 15.6"),
    ("Debian 12 (bookworm)", "debian 12"), ("debian-13", "debian 13"), ("Fedora 43", "fedora 43"), ("azurelinux3.0", "azurelinux 3.0"),
    ("CBL-Mariner 2.0", "mariner 2.0"), ("RHCOS 4.16", "rhcos 4.16"), ("cos-113-18244", "cos None"), ("gentoo-2", "gentoo 2"),
    ("Talos", "talos None"), ("Bottlerocket 1.50.0", "bottlerocket 1.50.0"), ("Arch Linux", "arch None"), ("Linux Mint 22.1", "linuxmint 22.1"),
    ("Pop!_OS 22.04", "pop 22.04"), ("openSUSE Tumbleweed", "opensuse-tumbleweed None"), ("Alibaba Cloud Linux 3", "alinux 3"),
    ("Kylin V10", "kylin 10"), ("openEuler 22.03 LTS SP3", "openeuler None"), ("x86_64 archive", "None None"),
    # Several releases, or several distributions, are none.
    ("Rocky 8/9", "rocky None"), ("Ubuntu 22.04/24.04 (6.8 6.14 6.17)", "ubuntu None"), ("Debian 12/13", "debian None"),
    ("AL2/Ubuntu/RHEL/Rocky images", "None None"), ("Windows Server 2022", "None None"), ("", "None None")])
def test_systems(text, expected):
    found = claim_text.system(text)
    assert "%s %s" % (found.get("id"), found.get("release")) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("MLNX_OFED 24.10-1.1.4.0", {"provider": "mlnx", "version": "24.10-1.1.4.0"}), ("DOCA 3.2.1", {"provider": "doca", "doca": "3.2.1"}),
    ("MLNX_OFED_LINUX-5.4-3.0.3.0-rhel7.9-x86_64", {"provider": "mlnx", "version": "5.4-3.0.3.0"}), ("DOCA 3.2.x", {"provider": "doca", "doca": "3.2"}),
    ("DOCA-Host 3.2.1-044413", {"provider": "doca", "doca": "3.2.1"}), ("DOCA-Host 3.0.0-058000-25.04 built with x", {"provider": "doca", "doca": "3.0.0"}),
    ("DOCA 2.9.3 (3.2.1 on 9.7+)", {"provider": "doca", "doca": "2.9.3"}), ("DOCA-OFED (2026-01)", {"provider": "doca"}),
    ("DOCA-OFED 24.10-0.7.0.0", {"provider": "doca", "version": "24.10-0.7.0.0"}), ("inbox rdma-core, HPC-X 2.24.1 inbox", {"provider": "inbox"}),
    ("rdma-core 56.1", {"provider": "inbox", "version": "56.1"}), (">= 5.1", {"version": "5.1"}), ("public MLNX_OFED", {"provider": "mlnx"}), ("none", {})])
def test_rdma(text, expected):
    assert claim_text.ofed(text) == expected


@pytest.mark.parametrize(("text", "expected"), [
    ("H100", ["H100"]), ("GH200 / B200 / GB200", ["GH200", "B200", "GB200"]), ("B200, RTX PRO 6000", ["B200", "RTX PRO 6000"]), ("H100/H200", ["H100", "H200"]),
    ("V100 (10de:1db1 ff.)", ["10de:1db1"]), ("GH200 120GB / 480GB", ["GH200 120GB / 480GB"]), ("8x A100-80GB SXM", ["8x A100-80GB SXM"])])
def test_products(text, expected):
    assert claim_text.gpus(text) == expected


@given(text=st.text(max_size=80) | st.text("0123456789./-+ ()<>=~,:abcdorxuntelk", max_size=80))
def test_no_text_breaks_a_reader(text):
    for reader in READERS:
        assert isinstance(reader(text), dict)
    assert isinstance(claim_text.gpus(text), list)


@pytest.mark.parametrize("unit", ["1", "1.", "1-", "570.1", "(", "() ", "a/", " / ", "nvlink ", "linux-", "12.0-", "sp1", "ubuntu ", "(a)"])
def test_a_long_text_takes_no_time(unit):
    text, start = unit * 4000, time.process_time()
    for reader in (*READERS, claim_text.gpus, claim_text.plain_version):
        reader(text)
    assert time.process_time() - start < 5


def test_older_than_a_version_is_the_newest_known_below_it():
    assert stack.expand({"driver": "< 570.133.20"}, exact=False)["driver"] == {"version": "570.133.07", "older": True}
    assert stack.expand({"driver": "pre-595"}, exact=False)["driver"] == {"version": "590.48.01", "older": True}


def test_each_alternative_is_judged_once():
    value = stack.expand({"driver": "550.90.07 / 470.256.02", "kernel": "6.8 / 5.15", "cuda": "12.4"}, exact=False)
    assert [(one["driver"]["version"], one["kernel"]["release"]) for one in claim.variants(value)] == [
        ("550.90.07", "6.8"), ("550.90.07", "5.15"), ("470.256.02", "6.8"), ("470.256.02", "5.15")]
    assert claim.variants({"driver": {"version": "550"}}) == [{"driver": {"version": "550"}}]


def test_what_only_a_claim_may_say_is_no_word_of_a_stack():
    base = {"os": "debian-13"}
    for value in ({"driver": {"version": "550.163.01", "alternatives": ["535.274.02"]}}, {"cuda": {"versions": ["12.4.1"], "compat": True}},
                  {"kernel": {"release": "6.12.117+deb13-amd64", "package_version": "6.12.117-1", "headers": False}}, {"compiler": {"gcc": "12"}},
                  {"glibc": "2.41"}, {"packages": ["cuda"]}, {"flavour": "open"}, {"gcc": "12"}, {"expect": {"products": ["H100"]}},
                  {"driver": "570 branch, open"}, {"driver": "535.183.01-0ubuntu1"}, {"cuda": "12.4.1-1"}, {"os": "Debian 13.1 (trixie)"}):
        with pytest.raises(stack.StackError):
            stack.expand(dict(base, **value))


def test_what_says_nothing_becomes_a_remark():
    value = stack.expand({"os": "AL2/Ubuntu images", "driver": "580.126.20 (pinned)", "kernel": "whatever there is", "dcgm": "datacenter-gpu-manager-4-cuda12",
                          "note": "aside"}, exact=False)
    assert value == {"driver": {"version": "580.126.20"}, "remarks": [
        "os: AL2/Ubuntu images", "driver: 580.126.20 (pinned)", "kernel: whatever there is", "dcgm: datacenter-gpu-manager-4-cuda12"]}


@pytest.mark.parametrize(("system", "row"), [
    ({"id": "rhel", "release": "9.4"}, "rhel 9"), ({"id": "debian", "release": "12.5"}, "debian 12"), ({"id": "azurelinux", "release": "3"}, "azurelinux 3.0"),
    ({"id": "sles", "release": "15.6"}, "sles 15"), ({"id": "cos", "release": "113"}, "cos *"), ({"id": "ubuntu", "release": "99.04"}, None)])
def test_a_minor_release_has_its_major_s_row(system, row):
    found = knowledge.distribution(knowledge.load(), system)
    assert (found and "%(id)s %(release)s" % found) == row


@pytest.mark.parametrize(("product", "architecture"), [
    ("GT 1030 (Pascal)", "Pascal GP10x"), ("GB200-class (sm_100)", "Blackwell"), ("p5.48xlarge (8xH100)", "Hopper"), ("ND96isr H100 v5", "Hopper"),
    ("GB10 (Blackwell)", "Blackwell GB10"), ("NVIDIA GeForce RTX 4090", "Ada Lovelace"), ("Quadro K2200 (Maxwell)", "Maxwell GM10x"),
    ("GeForce GTX 750 Ti", "Maxwell GM10x"), ("GeForce GTX 680", "Kepler GK10x"),
    ("NVIDIA A100-SXM4-80GB", "Ampere"), ("nvidia_gb300", "Blackwell Ultra"), ("a3-highgpu-8g", None), ("RTX 6000", None)])
def test_products_as_people_name_them(product, architecture):
    assert (knowledge.gpu(knowledge.load(), product) or {}).get("architecture") == architecture


@pytest.mark.parametrize(("value", "expected"), [
    ({"provider": "doca", "version": "3.2.1"}, {"provider": "doca", "doca": "3.2.1"}), ({"provider": "doca", "version": "24.10-1.1.4.0"}, {
        "provider": "doca", "version": "24.10-1.1.4.0"}), ({"provider": "MLNX_OFED", "version": "5.8-3.0.7.0"}, {"provider": "mlnx", "version": "5.8-3.0.7.0"}),
    ({"provider": "doca", "doca": "3.2."}, {"provider": "doca", "doca": "3.2"}), ({"provider": "doca", "doca": "2026-01"}, {"provider": "doca"}),
    ({"provider": "doca", "doca": "3.2.1"}, {"provider": "doca", "doca": "3.2.1"})])
def test_rdma_in_keys_of_its_own(value, expected):
    assert stack.expand({"ofed": value}, exact=False)["ofed"] == expected


@pytest.mark.parametrize(("value", "expected"), [
    ({"driver_version": "550.90.07", "kernel-version": "6.8.0-45-generic"}, {"driver": {"version": "550.90.07"}, "kernel": {"release": "6.8.0-45-generic"}}),
    ({"os": "ubuntu", "os_version": "22.04", "arch": "arm64"}, {"os": {"id": "ubuntu", "release": "22.04", "arch": "aarch64"}}),
    ({"distro": "Rocky 9", "gpu_model": "H100"}, {"os": {"id": "rocky", "release": "9"}, "expect": {"products": ["H100"]}}),
    ({"nccl": {"conf": "# ours\nexport NCCL_DEBUG=INFO\nNCCL_IB_HCA=mlx5"}}, {"nccl": {"conf": {"NCCL_DEBUG": "INFO", "NCCL_IB_HCA": "mlx5"}}}),
    ({"driver": "550", "hpcx": "2.21", "kubernetes": "1.31", "note": "x"}, {"driver": {"version": "550"}})])
def test_other_words_for_the_same(value, expected):
    assert stack.expand(value, exact=False) == expected


@pytest.mark.parametrize(("key", "candidate"), [("dirver", "driver"), ("fabricmanger", "fabricmanager"), ("containr_toolkit", "container_toolkit")])
def test_an_unknown_key_is_one_error_with_candidates(key, candidate):
    with pytest.raises(stack.StackError) as refused:
        stack.expand({"cuda": "12.4", key: "1"}, exact=False)
    assert refused.value.key == key and candidate in refused.value.candidates


def test_the_words_that_are_not_judged_are_documented():
    page = (pathlib.Path(__file__).resolve().parents[4] / "docs" / "stacks.md").read_text(encoding="utf-8")
    assert [word for word in claim.ASIDE if "`%s`" % word not in page] == []
