# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modules are built with: compilers, headers, makefiles, logs."""

from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import capture, facts_build, parse_build, parse_kernel


@pytest.mark.parametrize("text,release,program,version", [
    ("Linux version 6.8.0-1029-aws (buildd@host) (x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0, GNU ld (GNU Binutils for Ubuntu) 2.38) "
     "#31~22.04.1-Ubuntu SMP", "6.8.0-1029-aws", "gcc-12", "12.3.0"),
    ("Linux version 3.10.0-957.el7.x86_64 (mockbuild@kbuilder.example.org) (gcc version 4.8.5 20150623 (Red Hat 4.8.5-36) (GCC) ) #1 SMP Thu Nov 8",
     "3.10.0-957.el7.x86_64", "gcc", "4.8.5"),
    ("Linux version 5.14.0-427.13.1.el9_4.x86_64 (mockbuild@x.example.org) (gcc (GCC) 11.4.1 20231218 (Red Hat 11.4.1-3), GNU ld version 2.35.2-43.el9) #1",
     "5.14.0-427.13.1.el9_4.x86_64", "gcc", "11.4.1"),
    ("Linux version 6.6.1 (x@y) (clang version 17.0.6, LLD 17.0.6) #1 SMP", "6.6.1", "clang", "17.0.6"),
    ("Linux version 5.10.0-26-amd64 (debian-kernel@example.org) (gcc-10 (Debian 10.2.1-6) 10.2.1 20210110, GNU ld (GNU Binutils for Debian) 2.35.2) #1",
     "5.10.0-26-amd64", "gcc-10", "10.2.1")])
def test_proc_version(text, release, program, version):
    assert parse_build.parse_proc_version(text + "\n") == ({"release": release, "compiler": {"program": program, "version": version}}, [])


def test_what_is_no_version():
    assert parse_build.parse_proc_version("6.8.0\n").value is None
    assert parse_build.parse_proc_version("Linux version 6.8.0 (a@b) #1\n") == ({"release": "6.8.0", "compiler": None}, ["no compiler is named"])


@pytest.mark.parametrize("text,expected", [
    ("/usr/bin/gcc -> gcc-11\n", "gcc-11"), ("gcc-11\n", "gcc-11"), ("/usr/bin/x86_64-linux-gnu-gcc-11\n", "gcc-11"), ("/usr/bin/gcc\n", "gcc"),
    ("lrwxrwxrwx 1 root root 6 Aug  5  2021 /usr/bin/gcc -> gcc-11\n", "gcc-11"),
    ("/usr/bin/cc -> /etc/alternatives/cc\n/etc/alternatives/cc -> /usr/bin/gcc\n/usr/bin/gcc -> gcc-12\n/usr/bin/gcc-12 -> x86_64-linux-gnu-gcc-12\n",
     "gcc-12"),
    ("/usr/bin/cc -> /etc/alternatives/cc\n/etc/alternatives/cc -> /usr/bin/clang-18\n", "clang-18"), ("/usr/bin/gcc -> gcc\n", "gcc")])
def test_where_gcc_leads(text, expected):
    assert parse_build.parse_compiler_link(text) == (expected, [])


def test_no_compiler():
    assert parse_build.parse_compiler_link("") == (None, [])
    assert parse_build.parse_compiler_link("/usr/bin/python3\n").value is None


@pytest.mark.parametrize("text,program,version", [
    ("gcc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0\nCopyright (C) 2021\n", "gcc", "11.4.0"), ("cc (GCC) 8.5.0 20210514 (Red Hat 8.5.0-22)\n", "cc", "8.5.0"),
    ("11\n", "cc", "11"), ("\nUbuntu clang version 14.0.0-1ubuntu1.1\n", "clang", "14.0.0")])
def test_the_compiler_itself(text, program, version):
    assert parse_build.parse_compiler_version(text).value == {"program": program, "version": version}


LOG = """DKMS make.log for nvidia-560.35.05 for kernel 6.8.0-1029-aws (x86_64)
Sat Nov 30 10:00:00 UTC 2024
make: Entering directory '/usr/src/linux-headers-6.8.0-1029-aws'
warning: the compiler differs from the one used to build the kernel
  The kernel was built by: x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1ubuntu1~22.04) 12.3.0
  You are using:           cc (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0
%s
"""


@pytest.mark.parametrize("line,option,plain,cause", [
    ("cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'", "-ftrivial-auto-var-init=zero", None, "compiler_mismatch"),
    ("gcc: error: unrecognized command line option \u2018-mharden-sls=all\u2019", "-mharden-sls=all", None, "compiler_mismatch"),
    ("clang: error: unknown argument: '-fconserve-stack'", "-fconserve-stack", None, "compiler_mismatch"),
    ("/bin/sh: 1: gcc: not found", None, "gcc", "plain_gcc_missing"), ("make[2]: gcc: No such file or directory", None, "gcc", "plain_gcc_missing"),
    ("/bin/sh: line 1: cc: command not found", None, "cc", "plain_gcc_missing"), ("make: gcc: Command not found", None, "gcc", "plain_gcc_missing"),
    ("make CC=gcc-12\ngcc: error: unrecognized command-line option '-fx'", "-fx", "gcc", "compiler_mismatch"),
    ("a.c:1:2: error: 'struct drm_driver' has no member named 'x'", None, None, "kernel_api_changed"), ("", None, None, "compiler_mismatch")])
def test_a_log(line, option, plain, cause):
    value = parse_build.parse_build_log(LOG % line).value
    assert (value["option"], value["plain_compiler"], value["cause"]) == (option, plain, cause)
    assert (value["module"], value["version"], value["kernel"]) == ("nvidia", "560.35.05", "6.8.0-1029-aws")
    assert value["kernel_compiler"] == {"program": "gcc-12", "version": "12.3.0"} and value["compiler"] == {"program": "cc", "version": "11.4.0"}


def test_the_words_of_older_drivers():
    text = ("Compiler version check failed:\n\nThe major and minor number of the compiler used to\ncompile the kernel:\n\ngcc version 7.3.0 (GCC)\n\n"
            "does not match the compiler used here:\n\nclang version 6.0.0 (tags/RELEASE_600/final)\n")
    value = parse_build.parse_build_log(text).value
    assert value["kernel_compiler"] == {"program": "gcc", "version": "7.3.0"} and value["compiler"] == {"program": "clang", "version": "6.0.0"}


def test_the_last_of_several_logs_counts():
    text = "==> /var/lib/dkms/a/1/build/make.log <==\n/bin/sh: 1: gcc: not found\n\n==> /var/lib/dkms/nvidia/560.35.05/build/make.log <==\n" + LOG % ""
    assert parse_build.parse_build_log(text).value["module"] == "nvidia"


@pytest.mark.parametrize("text,expected", [
    ("==> /usr/src/a-1/Makefile <==\nall:\n\tgcc -c x.c\n\n==> /usr/src/b-1/Makefile <==\nall:\n\t$(CC) -c x.c\n", ["/usr/src/a-1/Makefile"]),
    ("CC := gcc\n", ["Makefile"]), ("12:VER := $(shell gcc -dumpversion)\n", ["Makefile"]), ("CC ?= $(CROSS_COMPILE)gcc\n# gcc here\n", [])])
def test_makefiles(text, expected):
    assert parse_build.parse_module_makefile(text) == (expected, [])


@pytest.mark.parametrize("text,expected", [
    ("Error! Your kernel headers for kernel 6.1.131-143.221.amzn2023.x86_64 cannot be found at /lib/modules/6.1.131-143.221.amzn2023.x86_64/build or x.",
     ["6.1.131-143.221.amzn2023.x86_64"]),
    ("Please install the linux-headers-6.5.0-14-generic package or use the --kernelsourcedir option", ["6.5.0-14-generic"]),
    ("Module build for kernel 6.1.0-13-amd64 was skipped since the\nkernel headers for this kernel do not seem to be installed.", ["6.1.0-13-amd64"]),
    ("make[1]: *** /lib/modules/5.15.0-91-generic/build: No such file or directory.  Stop.", ["5.15.0-91-generic"]), ("all is well", [])])
def test_headers_that_a_tool_looked_for(text, expected):
    assert parse_build.headers_not_found(text) == expected


@pytest.mark.parametrize("text,expected", [
    ("E: Unable to locate package linux-headers-5.4.0-1029-aws\nE: Couldn't find any package by glob 'linux-headers-5.4.0-1029-aws'",
     ["linux-headers-5.4.0-1029-aws"]),
    ("E: Package 'linux-headers-5.4.0-1030-aws' has no installation candidate", ["linux-headers-5.4.0-1030-aws"]),
    ("Package linux-headers-5.4.0-1031-aws is not available, but is referred to by another package.", ["linux-headers-5.4.0-1031-aws"]),
    ("Error: Unable to find a match: kernel-devel-4.18.0-305.el8.x86_64", ["kernel-devel-4.18.0-305.el8.x86_64"]),
    ("No package kernel-devel-3.10.0-957.el7.x86_64 available.", ["kernel-devel-3.10.0-957.el7.x86_64"]),
    ("No package matching 'linux-headers-5.4.0-1099-aws' is available", ["linux-headers-5.4.0-1099-aws"]),
    ("No provider of 'kernel-default-devel=5.14.21-150500.55.19' found.", ["kernel-default-devel=5.14.21-150500.55.19"]),
    ("Package kernel-devel-5.14.0-427.13.1.el9_4.x86_64 is already installed.", []), ("E: Unable to locate package linux-headers-generic", [])])
def test_headers_that_no_archive_has(text, expected):
    assert parse_build.headers_unavailable(text) == expected


def test_links_of_a_live_node(tmp_path):
    programs, alternatives = tmp_path / "usr/bin", tmp_path / "etc/alternatives"
    programs.mkdir(parents=True)
    alternatives.mkdir(parents=True)
    links = facts_build.PROBES["compiler_link"][1]
    with pytest.raises(capture.Absent):
        links(str(tmp_path), None)
    (programs / "gcc-12").write_text("")
    for path, target in ((programs / "cc", "/etc/alternatives/cc"), (alternatives / "cc", "/usr/bin/gcc"), (programs / "gcc", "gcc-12")):
        path.symlink_to(target)
    text = links(str(tmp_path), None)
    assert "/etc/alternatives/cc -> /usr/bin/gcc\n" in text and parse_build.parse_compiler_link(text) == ("gcc-12", [])


@pytest.mark.parametrize("text,expected", [
    ("6.8.0-40-generic\n", "6.8.0-40-generic"), ("Linux node-a 5.15.0-91-generic #101-Ubuntu SMP Tue x86_64 GNU/Linux\n", "5.15.0-91-generic"),
    ("two words\n", None), ("Linux a b c d\n", None)])
def test_uname(text, expected):
    assert parse_kernel.parse_uname(text).value == expected


@pytest.mark.parametrize("text,expected", [
    ("/boot/vmlinuz-6.1.0-1-amd64\n", (True, None, None)),
    ("total 9\n-rw-r--r-- 1 root root 1 Jan  5  2024 vmlinuz-6.1.0-1-amd64\n-rw-r--r-- 1 root root 1 Jan  5  2024 initrd.img-6.1.0-1-amd64\n"
     "lrwxrwxrwx 1 root root 1 Jan  5  2024 vmlinuz -> vmlinuz-6.1.0-1-amd64\ndrwxr-xr-x 5 root root 1 Jan  5  2024 grub\n", (True, True, None)),
    ("config-6.1.0-1-amd64\ngrub\ninitrd.img-6.1.0-1-amd64\nlost+found\nSystem.map-6.1.0-1-amd64\nvmlinuz-6.1.0-1-amd64\n", (True, True, None)),
    ("/boot/vmlinuz-6.1.0-1-amd64\n/boot/initrd.img-6.1.0-2-amd64\n/lib/modules/6.1.0-2-amd64/build/Makefile\n", (True, False, False))])
def test_kernel_files(text, expected):
    value, problems = parse_kernel.parse_kernel_files(text)
    row = value["6.1.0-1-amd64"]
    assert (row["image"], row["initramfs"], row["headers"]) == expected and problems == []


def test_what_is_no_list_of_kernels():
    assert parse_kernel.parse_kernel_files("hello\n").problems == ["line 1 is not understood: hello"]
