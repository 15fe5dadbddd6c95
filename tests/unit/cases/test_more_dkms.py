# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Made-up recordings of the kinds of the public reports about DKMS: broken nodes, and their healthy twins."""
from __future__ import annotations

import pytest

from .recorded import failed, judged

KERNEL, NEXT = "5.15.0-91-generic", "5.15.0-101-generic"
DRIVER = "nvidia/535.129.03"
OK = "%s, %s, x86_64: installed\n" % (DRIVER, KERNEL)
NO_CONF = "Error! Could not locate dkms.conf file.\nFile: /var/lib/dkms/%s/source/dkms.conf does not exist.\n"
FAILED = "Error! Bad return status for module build on kernel: %s (x86_64)\nConsult /var/lib/dkms/%s/build/make.log for more information.\n"
BUILD = ("dkms_build_install", DRIVER)
HEADERS = ("install_exact", "linux-headers-" + KERNEL)


def given(**lock):
    return {"os": "ubuntu-22.04", "running_kernel": KERNEL, "lock": dict({"kernel": KERNEL, "driver": "535.129.03"}, **lock)}


def outcome(record):
    return (record["verdict"], [(row["code"], row["severity"]) for row in record["findings"]],
            [(step["action"], step.get("target")) for step in record["plan"]])


@pytest.mark.parametrize("status,verdict,codes,plan", [
    # A module that lay there before: nothing to do, in both wordings.
    (OK.strip() + " (original_module exists)\n", "in_sync", [("dkms_original_archived", "info")], []),
    (OK.strip() + " (Original modules exist)\n", "in_sync", [("dkms_original_archived", "info")], []),
    (OK.strip() + " (WARNING! Missing some built modules!)\n", "broken", [("dkms_built_file_missing", "error")], [HEADERS, BUILD]),
    (OK.strip() + " (Built modules are missing in the kernel modules folder)\n", "broken", [("dkms_built_file_missing", "error")], [HEADERS, BUILD]),
    # Another kernel's remark is nobody's trouble.
    (OK + "%s, 5.15.0-83-generic, x86_64: installed (WARNING! Diff between built and installed module!)\n" % DRIVER, "in_sync", [], []),
    (DRIVER + ": added\n", "broken", [("dkms_not_built_for_kernel", "error")], [HEADERS, BUILD]),
    (OK.replace("installed", "built"), "drift", [("dkms_not_installed", "error")], [("dkms_install", DRIVER)]),
    ("nvidia/525.147.05, 5.15.0-83-generic, x86_64: installed\n" + OK, "drift", [("stale_dkms_registration", "warn")], [("dkms_remove", "nvidia/525.147.05")]),
    ("nvidia, 470.223.02, %s, x86_64: installed\nnvidia-srv, 535.129.03, %s, x86_64: installed\n" % (KERNEL, KERNEL), "drift",
     [("stale_dkms_registration", "warn")], [("dkms_remove", "nvidia/470.223.02")]),
    # Another module's folder lost its source; the list goes on.
    (NO_CONF % "system76/1.0.18~1743109511~24.04~8b1da53" + OK, "drift", [("dkms_broken_source", "warn")],
     [("manual", "restore or remove system76/1.0.18~1743109511~24.04~8b1da53")]),
    # The list ends at the driver's, with exit status 0 (3.0) or 4.
    (NO_CONF % DRIVER, "broken", [("dkms_broken_source", "error"), ("dkms_status_unusable", "error")],
     [("gather_facts", "dkms status"), ("manual", "restore or remove " + DRIVER)]),
    (failed("evdi, 4.2.29: added\nError! Could not locate dkms.conf file.\nFile:  does not exist.\n", 4), "unknown", [("dkms_status_unusable", "error")],
     [("gather_facts", "dkms status")]),
    (failed("Error! This command requires root\n"), "unknown", [("dkms_status_unusable", "error")], [("gather_facts", "dkms status")]),
    ("nvidia/535.129.03, 5.15.0-91-gen", "unknown", [("dkms_status_unusable", "error")], [("gather_facts", "dkms status")]),
])
def test_a_list_alone(status, verdict, codes, plan):
    assert outcome(judged(given(), dkms_status=status)) == (verdict, codes, plan)


@pytest.mark.parametrize("tree", [
    "/var/lib/dkms/nvidia:\n525.60.13\n535.129.03\nkernel-5.15.0-91-generic-x86_64\n",
    "/var/lib/dkms\n|-- mok.key\n`-- nvidia\n    |-- 525.60.13\n    |   `-- 5.15.0-56-generic\n    `-- 535.129.03\n"
    "        `-- source -> /usr/src/nvidia-535.129.03\n"])
def test_a_folder_that_the_list_does_not_have(tree):
    assert outcome(judged(given(), dkms_status=OK, dkms_tree=tree)) == (
        "drift", [("dkms_tree_orphan", "warn")], [("manual", "remove /var/lib/dkms/nvidia/525.60.13")])
    # Without the list, nobody knows.
    assert judged(given(), uname_r=KERNEL, dkms_tree="/var/lib/dkms/nvidia:\n525.60.13\n535.129.03\n")["findings"] == []
    assert judged(given(), dkms_status=OK, dkms_tree="/var/lib/dkms/nvidia:\n535.129.03\n")["findings"] == []


def test_what_did_not_compile_is_not_built_again():
    record = judged(given(), dkms_status="%s, 5.15.0-83-generic, x86_64: installed\n" % DRIVER, dkms_run=failed(FAILED % (KERNEL, DRIVER), 10))
    assert outcome(record) == ("broken", [("dkms_build_failed", "error"), ("dkms_not_built_for_kernel", "error")], [])
    assert judged(given(), dkms_status=OK, dkms_run=failed(FAILED % (KERNEL, DRIVER), 10))["verdict"] == "in_sync"


def test_headers_that_a_package_has_are_not_installed_again():
    known = {"os": "ubuntu-22.04", "running_kernel": KERNEL, "next_boot_kernel": NEXT, "lock": {"kernel": NEXT, "driver": "535.129.03"}}
    listing = "linux-image-{0}\t1\tii \nlinux-headers-{0}\t1\tii \n".format(NEXT)
    steps = [(step["action"], step.get("target")) for step in judged(known, dkms_status=OK, dpkg_list=listing)["plan"]]
    assert steps == [BUILD, ("reboot_once", None)]


@pytest.mark.parametrize("rows,subject", [("", "gdrdrv/2.4.1@" + KERNEL), ("gdrdrv/2.3, %s, x86_64: installed\n" % KERNEL, "gdrdrv/2.4.1@" + KERNEL),
                                          ("gdrdrv/2.4.1-1, %s, x86_64: installed\n" % KERNEL, None)])
def test_a_claimed_module_that_the_list_does_not_have(rows, subject):
    record = judged(given(gdrdrv="2.4.1"), dkms_status=OK + rows)
    assert [row["subject"] for row in record["findings"]] == ([subject] if subject else [])


@pytest.mark.parametrize("before", ["$ dkms status", "root@node17:~# dkms status", "#dkms status",
                                    "sudo: unable to resolve host node17: Name or service not known",
                                    "\ufeff", "", "-bash: warning: setlocale: LC_ALL: cannot change locale (de_DE.UTF-8)"])
def test_a_terminal_around_the_list(before):
    text = before + "\n\x1b[01;31m\x1b[Knvidia\x1b[m\x1b[K" + OK.replace("installed", "built")[len("nvidia"):]
    record = judged(given(), dkms_status=text.replace("\n", "\r\n"))
    assert outcome(record) == ("drift", [("dkms_not_installed", "error")], [("dkms_install", DRIVER)]) and record["state"]["unknown"] == []
