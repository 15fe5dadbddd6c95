# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The short parsers: operating system, kernels, modules, PCI, alternatives, libraries."""

from __future__ import annotations

import json
import pathlib
import subprocess

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_alternatives, parse_common, parse_kernel
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_libraries, parse_modules, parse_os, parse_pci

BUNDLE = pathlib.Path(__file__).parents[3] / "fixtures" / "bundles" / "debian13-550"


def recorded(name):
    return (BUNDLE / (name + ".txt")).read_text(encoding="utf-8")


def test_files_are_split_as_tail_joins_them(tmp_path):
    contents = [("a", "one\ntwo\n"), ("b", ""), ("c", "three\n")]
    for name, content in contents:
        (tmp_path / name).write_text(content, encoding="utf-8")
    paths = [str(tmp_path / name) for name, _content in contents]
    text = subprocess.run(["tail", "-v", "-n", "+1", *paths], capture_output=True, text=True, check=True).stdout
    files = [(path, content) for path, (_name, content) in zip(paths, contents)]
    assert parse_common.split_files(text) == (files, [])
    assert parse_common.join_files(files) == text


def test_text_before_the_first_file_is_a_problem():
    assert parse_common.split_files("lost\n==> /a <==\nx\n") == ([("/a", "x\n")], ["line 1 is not understood: lost"])


def test_os_release():
    assert parse_os.parse_os_release(recorded("os_release")) == (
        {"id": "debian", "release": "13", "codename": "trixie", "name": "Debian GNU/Linux 13 (trixie)"}, [])
    quoted = parse_os.parse_os_release("ID='rhel'\nVERSION_ID=\"9.4\"\nPRETTY_NAME=\"a \\\"b\\\"\"\n# c\nBROKEN\n")
    assert quoted.value == {"id": "rhel", "release": "9.4", "codename": None, "name": 'a "b"'}
    assert quoted.problems == ["line 5 is not understood: BROKEN"]
    assert parse_os.parse_os_release("").value is None


@pytest.mark.parametrize("text,expected", [("6.12.117+deb13-amd64\n", "6.12.117+deb13-amd64"), ("", None), ("a b", None)])
def test_word(text, expected):
    assert parse_os.parse_word(text).value == expected


@pytest.mark.parametrize("text,expected", [
    ("SecureBoot enabled\n", True), ("SecureBoot disabled\nPlatform is in Setup Mode\n", False),
    ("EFI variables are not supported on this system\n", False), ("This system doesn't support Secure Boot\n", False),
    ("", None), ("Failed to read SecureBoot", None)])
def test_secure_boot(text, expected):
    assert parse_os.parse_secure_boot(text).value is expected


def test_space_reads_df_too():
    assert parse_os.parse_space("     Avail Mounted on\n     12345 /boot\n") == ({"/boot": 12345}, [])
    assert parse_os.parse_space("many /\n") == (None, ["line 1 is not understood: many /"])


def test_kernel_files():
    text = ("/boot/vmlinuz-6.1.0-50-amd64\n/boot/initrd.img-6.1.0-50-amd64\n/boot/initrd.img-6.1.0-50-amd64.old-dkms\n"
            "/lib/modules/6.1.0-51-amd64/build/Makefile\n/boot/initramfs-5.14.0-427.el9.x86_64kdump.img\n"
            "/boot/vmlinuz-5.14.0-427.el9.x86_64\n/boot/initramfs-5.14.0-427.el9.x86_64.img\n/boot/vmlinuz.old\n")
    value, problems = parse_kernel.parse_kernel_files(text)
    assert value == {
        "6.1.0-50-amd64": {"image": True, "initramfs": True, "headers": False},
        "6.1.0-51-amd64": {"image": False, "initramfs": False, "headers": True},
        "5.14.0-427.el9.x86_64": {"image": True, "initramfs": True, "headers": False}} and not problems


@pytest.mark.parametrize("text,expected", [
    ('"x86_64-linux-gnu-gcc-14 (Debian 14.2.0-19) 14.2.0"', "gcc 14.2.0"),
    ('"x86_64-linux-gnu-gcc-13 (Ubuntu 13.3.0-6ubuntu2~24.04) 13.3.0"', "gcc 13.3.0"),
    ('"gcc-12 (Debian 12.2.0-14+deb12u1) 12.2.0"', "gcc 12.2.0"),
    ('"gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3)"', "gcc 11.4.1"),
    ('"clang version 18.1.8 (Fedora 18.1.8-1.fc40)"', "clang 18.1.8"), ('"icc 1"', None), ("", None)])
def test_compiler(text, expected):
    assert parse_kernel.compiler_of(text) == expected


def test_kernel_configs():
    assert parse_kernel.parse_kernel_configs(recorded("kernel_configs")) == (
        {"6.12.117+deb13-amd64": {"compiler": "gcc 14.2.0", "drm": True}}, [])
    # A cloud kernel: a configuration without CONFIG_DRM.
    assert parse_kernel.parse_kernel_configs('/boot/config-6.1:CONFIG_CC_VERSION_TEXT="gcc-12 (D) 12.2.0"\n').value == {
        "6.1": {"compiler": "gcc 12.2.0", "drm": False}}


def test_modinfo():
    value, problems = parse_modules.parse_modinfo(recorded("modinfo"))
    assert problems == []
    assert [item["name"] for item in value] == [
        "nvidia-current-drm", "nvidia-current-modeset", "nvidia-current-peermem", "nvidia-current-uvm", "nvidia-current"]
    assert value[-1] == {
        "kernel": "6.12.117+deb13-amd64", "name": "nvidia-current", "version": "550.163.01", "license": "NVIDIA",
        "path": "/lib/modules/6.12.117+deb13-amd64/updates/dkms/nvidia-current.ko.xz", "signer": "DKMS module signing key",
        "vermagic": "6.12.117+deb13-amd64 SMP preempt mod_unload modversions"}


def test_modinfo_skips_signatures_and_names_noise():
    text = "version: 1\nfilename: /x/nvidia.ko\nsignature:      1B:94\n\t\t82:2E:version: 9\nversion:        550.1\nnonsense\n"
    value, problems = parse_modules.parse_modinfo(text)
    assert value[1]["version"] == "550.1" and value[1]["kernel"] is None
    assert len(problems) == 1


def test_modinfo_without_a_filename_is_one_nameless_row():
    value, problems = parse_modules.parse_modinfo("version: 580.1\nlicense: Dual MIT/GPL\nsigner: DKMS\ndepends:\n")
    assert problems == [] and value == [{"kernel": None, "name": None, "path": None, "version": "580.1", "vermagic": None,
                                         "license": "Dual MIT/GPL", "signer": "DKMS"}]
    assert parse_modules.parse_modinfo("depends: i2c\n").value == []


@pytest.mark.parametrize("text,expected", [
    ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.78  Sun Apr 14 06:35:45 UTC 2024\nGCC version:  gcc\n",
     {"version": "550.78", "flavour": "proprietary", "arch": "x86_64", "gcc": None}),
    ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  565.57.01  Release Build  (dvs-builder@U16)  Thu Oct\n",
     {"version": "565.57.01", "flavour": "open", "arch": "x86_64", "gcc": None}),
    ("NVRM version: NVIDIA UNIX Open Kernel Module for aarch64  570.86.15  Release Build\n",
     {"version": "570.86.15", "flavour": "open", "arch": "aarch64", "gcc": None}),
    ("NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  575.64  Release Build\nGCC version:  gcc version 4.8.5 20150623 (Red Hat 4.8.5-44) (GCC) \n",
     {"version": "575.64", "flavour": "open", "arch": "x86_64", "gcc": "4.8.5"}),
    ("NVRM version: NVIDIA UNIX x86_64 Kern", None), ("", None), ("\ufffd" * 9, None), ("GCC version: gcc 12.2.0", None)])
def test_proc_driver_version(text, expected):
    parsed = parse_modules.parse_proc_driver_version(text)
    assert parsed.value == expected and bool(parsed.problems) == (expected is None)


@pytest.mark.parametrize("text,expected", [("550.78\n", "550.78"), ("", None), ("current", None), ("1.2.3.4", None)])
def test_module_version(text, expected):
    assert parse_modules.parse_module_version(text).value == expected


def test_pci_forms():
    text = ("0000:17:00.0 0302: 10de:2330 (rev a1)\n0000:05:00.0 0680: 10de:22a3 (rev a1)\n"
            "41:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 [GeForce RTX 4090] [10de:2684] (rev a1)\n"
            "41:00.1 Audio device [0403]: NVIDIA Corporation AD102 High Definition Audio Controller [10de:22ba] (rev a1)\n"
            "\tKernel driver in use: nvidia\n00:02.0 0300: 8086:4692\nnot a device\n")
    value, problems = parse_pci.parse_pci(text)
    assert parse_pci.gpus(value) == [{"address": "0000:17:00.0", "id": "10de:2330", "class": "0302"},
                                     {"address": "0000:41:00.0", "id": "10de:2684", "class": "0300"}]
    assert parse_pci.nvswitches(value) == [{"address": "0000:05:00.0", "id": "10de:22a3"}]
    assert problems == ["line 7 is not understood: not a device"]


QUERY = """Name: nvidia
Link: /usr/lib/nvidia/nvidia
Slaves:
 nvidia--libcuda.so.1-x86_64-linux-gnu /usr/lib/x86_64-linux-gnu/libcuda.so.1
Status: manual
Best: /usr/lib/nvidia/current
Value: /usr/lib/nvidia/tesla-535

Alternative: /usr/lib/nvidia/current
Priority: 550
Slaves:
 nvidia--libcuda.so.1-x86_64-linux-gnu /usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.1

Alternative: /usr/lib/nvidia/tesla-535
Priority: 535
Slaves:
 nvidia--libcuda.so.1-x86_64-linux-gnu /usr/lib/x86_64-linux-gnu/nvidia/tesla-535/libcuda.so.1
"""


def test_alternatives_query():
    entry = parse_alternatives.parse_alternatives(QUERY)
    assert (entry["mode"], entry["value"], entry["link"]) == ("manual", "/usr/lib/nvidia/tesla-535", "/usr/lib/nvidia/nvidia")
    assert [choice["priority"] for choice in entry["choices"]] == [550, 535]
    assert entry["choices"][1]["links"] == {
        "nvidia--libcuda.so.1-x86_64-linux-gnu": "/usr/lib/x86_64-linux-gnu/nvidia/tesla-535/libcuda.so.1"}


def test_alternatives_admin_file():
    files = dict(parse_common.split_files(recorded("alternatives_admin")).value)
    entry = parse_alternatives.parse_admin_file(files["/var/lib/dpkg/alternatives/nvidia"]).value
    assert (entry["mode"], entry["value"], len(entry["choices"])) == ("auto", None, 1)
    assert entry["choices"][0]["path"] == "/usr/lib/nvidia/current" and entry["choices"][0]["priority"] == 550
    assert entry["choices"][0]["links"]["nvidia--nvidia-smi"] == "/usr/lib/nvidia/current/nvidia-smi"


def test_alternatives_admin_file_with_a_missing_slave():
    text = "manual\n/usr/bin/x\nman\n/usr/share/x\n\n/usr/bin/x1\n-5\n\n/usr/bin/x2\n10\n/usr/share/x2\n\n"
    assert [choice["links"] for choice in parse_alternatives.parse_admin_file(text).value["choices"]] == [
        {}, {"man": "/usr/share/x2"}]


@pytest.mark.parametrize("text", ["", "auto", "auto\n/a\nb", "maybe\n/a\n\n\n", "auto\n/a\n\n/c\nten\n\n", "auto\n/a\n\n/c\n"])
def test_alternatives_admin_file_malformed(text):
    parsed = parse_alternatives.parse_admin_file(text)
    assert parsed.value is None and parsed.problems


@pytest.mark.parametrize("text", ["", "Name: x\n", "Name: x\nStatus: odd\n", "Name: x\nStatus: auto\n\nAlternative: /a\n",
                                  "Name: x\nStatus: auto\n\nAlternative: /a\nPriority: 1\nSlaves:\n lonely\n"])
def test_alternatives_query_malformed(text):
    parsed = parse_alternatives.parse_query(text)
    assert parsed.value is None and parsed.problems


def test_loader_libraries():
    value, problems = parse_libraries.parse_loader_libraries(recorded("loader_libraries"))
    assert problems == []
    assert [(item["soname"], item["version"]) for item in value] == [
        ("libcuda.so.1", "550.163.01"), ("libnvidia-ml.so.1", "550.163.01"), ("libnccl.so.2", "2.22.3")]
    assert value[0]["target"] == "/usr/lib/x86_64-linux-gnu/nvidia/current/libcuda.so.550.163.01"


def test_the_first_native_library_wins():
    text = ("2 libs found in cache `/etc/ld.so.cache'\n\tlibcuda.so.1 (libc6) => /usr/lib/i386-linux-gnu/libcuda.so.1\n"
            "\tlibcuda.so.1 (libc6,x86-64) => /usr/local/cuda/compat/libcuda.so.1\n"
            "\tlibcuda.so.1 (libc6,x86-64) => /lib/x86_64-linux-gnu/libcuda.so.1 -> /lib/x86_64-linux-gnu/libcuda.so.1\n"
            "Cache generated by: ldconfig (Debian GLIBC 2.41-12) stable release version 2.41\n")
    assert parse_libraries.parse_loader_libraries(text) == (
        [{"soname": "libcuda.so.1", "path": "/usr/local/cuda/compat/libcuda.so.1", "target": None, "version": None}], [])
    assert parse_libraries.parse_loader_libraries(text, "aarch64").value == []
    assert parse_libraries.parse_loader_libraries(text, "riscv").value is None


@pytest.mark.parametrize("name,expected", [
    ("libcuda.so.550.163.01", "550.163.01"), ("libcuda.so.1", None), ("libcuda.so.1.1", "1.1"), ("libcuda.so", None),
    ("", None), (None, None)])
def test_library_version(name, expected):
    assert parse_libraries.library_version("libcuda.so.1", name) == expected


def test_cuda_versions():
    table = json.dumps({"cuda": {"name": "CUDA SDK", "version": "12.4.1"}, "cuda_nvcc": {"version": "12.4.131"}})
    text = parse_common.join_files([("/usr/local/cuda-12.4/version.json", table), ("/usr/local/cuda-13/version.json", "{"),
                                    ("/usr/local/cuda-10.2/version.txt", "CUDA Version 10.2.89\n")])
    value, problems = parse_libraries.parse_cuda_versions(text)
    assert value == {"/usr/local/cuda-12.4": {"release": "12.4.1", "version": "12.4.131"},
                     "/usr/local/cuda-10.2": {"release": "10.2.89", "version": None}}
    assert len(problems) == 1 and "cuda-13" in problems[0]
