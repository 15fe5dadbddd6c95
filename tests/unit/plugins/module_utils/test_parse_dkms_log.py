# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Failed builds: the sentences are DKMS's own, from public reports and upstream's tests."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_dkms_log import failures, parse_make_logs
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_dkms_tree import parse_dkms_conf, parse_dkms_tree
from hypothesis import given
from hypothesis import strategies as st

NAME = st.from_regex(r"[a-z][a-z0-9]{0,8}(-[a-z0-9]{1,8}){0,2}", fullmatch=True)
VERSION = st.from_regex(r"[0-9]{1,3}(\.[0-9]{1,3}){1,3}", fullmatch=True)
KERNEL = st.from_regex(r"[4-7]\.[0-9]{1,2}\.[0-9]{1,3}(\+deb13(\+1)?|-[0-9]{1,3})-(amd64|generic|aws)", fullmatch=True)


def short(text):
    return [(row["reason"], row["module"], row["version"], row["kernel"]) for row in failures(text)]


@pytest.mark.parametrize("text,expected", [
    # Ubuntu's package, with the name of the module before the build
    ("Setting up nvidia-dkms-535 (535.54.03-0ubuntu0.22.04.1) ...\nLoading new nvidia-535.54.03 DKMS files...\nBuilding for 6.5.0-14-generic\n"
     "Building initial module for 6.5.0-14-generic\nERROR: Cannot create report: [Errno 17] File exists: '/var/crash/nvidia-dkms-535.0.crash'\n"
     "Error! Bad return status for module build on kernel: 6.5.0-14-generic (x86_64)\n"
     "Consult /var/lib/dkms/nvidia/535.54.03/build/make.log for more information.\n", [("build_failed", "nvidia", "535.54.03", "6.5.0-14-generic")]),
    # a summary repeats what was told, and tells of another module
    ("Building module:\nCleaning build area...\n'make' -j16 ...(bad exit status: 2)\n"
     "Error! Bad return status for module build on kernel: 6.12.9-amd64 (x86_64)\n"
     "Consult /var/lib/dkms/nvidia-current/535.183.01/build/make.log for more information.\nError! One or more modules failed to install during autoinstall.\n"
     "dkms autoinstall on 6.12.9-amd64/x86_64 failed for nvidia-current(10) zfs(10)\n",
     [("build_failed", "nvidia-current", "535.183.01", "6.12.9-amd64"), ("build_failed", "zfs", None, "6.12.9-amd64")]),
    # 3.1 and later
    ("Autoinstall of module nvidia/570.86.15 for kernel 6.13.1-1 (x86_64)\nBuilding module(s)...(bad exit status: 2)\nFailed command:\nmake\n\n"
     "Error! Bad return status for module build on kernel: 6.13.1-1 (x86_64)\nConsult /var/lib/dkms/nvidia/570.86.15/build/make.log for more information.\n\n"
     "Autoinstall on 6.13.1-1 failed for module(s) nvidia(10).\n", [("build_failed", "nvidia", "570.86.15", "6.13.1-1")]),
    # the log's folder on a line of its own, in 2.x
    ("dkms build -m nvidia -v 390.157 -k 6.5.0-9-generic\nError! Bad return status for module build on kernel: 6.5.0-9-generic (x86_64)\n"
     "Consult the make.log in the build directory\n/var/lib/dkms/nvidia/390.157/build/ for more information.\n",
     [("build_failed", "nvidia", "390.157", "6.5.0-9-generic")]),
    ("Error! Your kernel headers for kernel 6.1.131-143.221.amzn2023.x86_64 cannot be found at /lib/modules/x/build or /lib/modules/x/source.\n",
     [("headers_missing", None, None, "6.1.131-143.221.amzn2023.x86_64")]),
    ("$ dkms install nvidia/470.57.02 -k 5.4.0-80-generic\nError! DKMS tree already contains: nvidia-470.57.02\n",
     [("tree_has_it", "nvidia", "470.57.02", "5.4.0-80-generic")]),
    ("Error! DKMS tree already contains: nvidia-srv/535.309.01\n", [("tree_has_it", "nvidia-srv", "535.309.01", None)]),
    ("Error! Could not locate dkms.conf file.\nFile: /var/lib/dkms/nvidia/465.19.01/source/dkms.conf does not exist.\n",
     [("conf_missing", "nvidia", "465.19.01", None)]),
    ("Error! Could not locate dkms.conf file.\nFile:  does not exist.\n", [("conf_missing", None, None, None)]),
    ("Error! iser/24.10: Missing the module source directory or the symbolic link pointing to it.\n", [("broken", "iser", "24.10", None)]),
    ("Error! nvidia/525.60.13 is broken!\n", [("broken", "nvidia", "525.60.13", None)]),
    ("Error! Aborting build of module iser/24.10 for kernel 6.8.0-60-generic (x86_64) due to missing BUILD_DEPENDS: mlnx-ofed-kernel.\n",
     [("depends", "iser", "24.10", "6.8.0-60-generic")]),
    ("Error! The /var/lib/dkms/xpmem/2.7.3/6.8.0-60-generic/x86_64/dkms.conf for module xpmem includes a BUILD_EXCLUSIVE directive which\n",
     [("build_exclusive", "xpmem", None, None)]),
    ("nvidia/535.104.05 autoinstall failed due to the following error: (10)\n", [("build_failed", "nvidia", "535.104.05", None)]),
    ("Building initial module for 6.8.0-60-generic\nDone.\nnvidia.ko:\nRunning module version sanity check.\ndepmod...\n", []), ("", [])])
def test_what_a_run_says(text, expected):
    assert short(text) == expected


def test_the_log_is_named():
    text = ("Error! Bad return status for module build on kernel: 6.5.0-14-generic (x86_64)\n"
            "Consult /var/lib/dkms/nvidia/1.2/build/make.log for more information.\n")
    assert failures(text)[0]["log"] == "/var/lib/dkms/nvidia/1.2/build/make.log"


@given(NAME, VERSION, KERNEL)
def test_any_module_version_and_kernel(module, version, kernel):
    text = ("Error! Bad return status for module build on kernel: %s (x86_64)\nConsult /var/lib/dkms/%s/%s/build/make.log for more information.\n"
            % (kernel, module, version))
    assert short("Building initial module for %s\n%s" % (kernel, text)) == [("build_failed", module, version, kernel)]


LOG = ("DKMS (dkms-3.2.2) make.log for nvidia-current/550.163.01 for kernel 6.18.0-1-amd64 (x86_64)\nTue Nov 30 10:00:00 UTC 2026\n"
       "/var/lib/dkms/nvidia-current/550.163.01/build/nvidia/os-mlock.c:10:5: error: implicit declaration of function 'foo'\n"
       "make[2]: *** [scripts/Makefile.build:251: x.o] Error 1\n")


def test_make_log():
    (row,) = parse_make_logs(LOG).value
    assert (row["module"], row["version"], row["kernel"], row["code"]) == ("nvidia-current", "550.163.01", "6.18.0-1-amd64", "kernel_api_changed")
    assert row["error"].startswith("nvidia/os-mlock.c:10:5: error: implicit")


def test_several_logs_and_one_without_an_error():
    text = "==> /var/lib/dkms/a/1/build/make.log <==\nfine\n\n==> /var/lib/dkms/gdrdrv/2.4.1/build/make.log <==\nx.c:1:1: error: no\nmake: *** [y] Error 2\n"
    assert [(row["module"], row["version"]) for row in parse_make_logs(text).value] == [("gdrdrv", "2.4.1")]


@pytest.mark.parametrize("text,orphans", [
    ("/var/lib/dkms/nvidia\n/var/lib/dkms/nvidia/525.60.13\n/var/lib/dkms/nvidia/525.60.13/5.15.0-91-generic\n/var/lib/dkms/mok.key\n"
     "/var/lib/dkms/nvidia/550.107.02/source -> /usr/src/nvidia-550.107.02\n/var/lib/dkms/nvidia/550.107.02/6.8.0-44-generic\n"
     "/var/lib/dkms/nvidia/kernel-6.8.0-44-generic-x86_64 -> 550.107.02/6.8.0-44-generic/x86_64\n/var/lib/dkms/nvidia/original_module/x\n",
     [("nvidia", "525.60.13")]),
    ("/var/lib/dkms/nvidia/525.60.13:\ntotal 8\ndrwxr-xr-x 2 root root 4096 Nov 30 10:00 build\n\n/var/lib/dkms/nvidia/550.107.02:\n"
     "lrwxrwxrwx 1 root root 26 Nov 30 10:00 source -> /usr/src/nvidia-550.107.02\n", [("nvidia", "525.60.13")]),
    ("/var/lib/dkms/dkms_dbversion\n", []), ("", [])])
def test_folders_that_dkms_does_not_know(text, orphans):
    assert [(row["module"], row["version"]) for row in parse_dkms_tree(text).value if row["listed"]] == orphans


@pytest.mark.parametrize("text", [
    "/var/lib/dkms/nvidia:\n525.60.13\n550.107.02\nkernel-6.8.0-44-generic-x86_64\n", "/var/lib/dkms/nvidia/525.60.13  /var/lib/dkms/nvidia/550.107.02\n",
    "/var/lib/dkms\n\u251c\u2500\u2500 mok.key\n\u2514\u2500\u2500 nvidia\n    \u251c\u2500\u2500 525.60.13\n    \u251c\u2500\u2500 550.107.02\n"
    "    \u2514\u2500\u2500 kernel-6.8.0-44-generic-x86_64 -> 550.107.02/6.8.0-44-generic/x86_64\n",
    "/var/lib/dkms/nvidia\n|-- 525.60.13\n`-- 550.107.02\n"])
def test_names_alone_do_not_tell_what_is_in_a_folder(text):
    assert [(row["version"], row["listed"]) for row in parse_dkms_tree(text).value] == [("525.60.13", False), ("550.107.02", False)]


def test_settings():
    text = ("==> /etc/dkms/framework.conf <==\n## comment\n# mok_signing_key=/a\nmok_signing_key=\nmok_certificate=\"/root/site.der\"  # ours\nverbose=1\n"
            "\n==> /etc/dkms/framework.conf.d/x.conf <==\nsign_file='/usr/bin/kmodsign'\n")
    assert parse_dkms_conf(text).value == {"mok_signing_key": None, "mok_certificate": "/root/site.der", "sign_file": "/usr/bin/kmodsign"}
