# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about DKMS: each where it speaks and where it is silent, from recordings of the kinds that people report."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import Observation
from ansible_collections.lockstep.gpu.plugins.plugin_utils import dkms_modules
from cases.recorded import judged
from hypothesis import given
from hypothesis import strategies as st

KERNEL, OTHER = "6.8.0-44-generic", "6.8.0-41-generic"
LOCK = {"driver": "550.107.02", "kernel": KERNEL}
OWN = "nvidia/550.107.02, %s, x86_64: installed\n" % KERNEL
MODULE = "filename:       /lib/modules/%s/updates/dkms/nvidia.ko.zst\nversion:        %s\nvermagic:       %s SMP preempt mod_unload modversions \n"
CONF = "Error! Could not locate dkms.conf file.\nFile: /var/lib/dkms/nvidia/465.19.01/source/dkms.conf does not exist.\n"
FAILED = ("Building initial module for 6.11.0-9-generic\nError! Bad return status for module build on kernel: 6.11.0-9-generic (x86_64)\n"
          "Consult /var/lib/dkms/nvidia/550.107.02/build/make.log for more information.\n")
MAKE_LOG = ("DKMS make.log for nvidia-550.107.02 for kernel 6.11.0-9-generic (x86_64)\n"
            "/var/lib/dkms/nvidia/550.107.02/build/nvidia-drm/nvidia-drm-drv.c:74:5: error: too few arguments to function 'drm_foo'\n"
            "make[1]: *** [Makefile:2039: modules] Error 2\n")


def record(lock=None, system="ubuntu-24.04", running=KERNEL, next_boot=None, **recorded):
    told = {"os": system, "lock": LOCK if lock is None else lock, "running_kernel": running, "next_boot_kernel": next_boot}
    return judged(told, **recorded)


def found(**recorded):
    """(code, subject, severity, verdict) of the findings."""
    return [(row["code"], row["subject"], row["severity"], row["verdict"]) for row in record(**recorded)["findings"]]


def of(code, **recorded):
    return [row[1:] for row in found(**recorded) if row[0] == code]


def plan(**recorded):
    return [(step["action"], step.get("target"), step.get("kernel")) for step in record(**recorded)["plan"]]


@pytest.mark.parametrize("status", [
    OWN, OWN + "nvidia/550.107.02, %s, x86_64: installed\n" % OTHER, OWN + "zfs/2.2.2, %s, x86_64: built\n" % KERNEL,
    OWN + "virtualbox/7.0.16: added\n", OWN + "evdi/1.14: added\nevdi/1.13: added\n",
    "nvidia-srv/550.107.02, %s, x86_64: installed\n" % KERNEL, "\x1b[32m" + OWN.strip() + "\x1b[0m\n",
    "Deprecated feature: REMAKE_INITRD (/var/lib/dkms/nvidia/550.107.02/source/dkms.conf)\n" + OWN,
    "nvidia, 550.107.02, %s, x86_64: installed\n" % KERNEL])
def test_nothing_is_said_where_nothing_is_wrong(status):
    assert found(dkms_status=status) == []


@pytest.mark.parametrize("name", ["nvidia", "nvidia-srv", "nvidia-current", "nvidia-current-open", "nvidia-open", "nvidia-tesla-535", "nvidia-legacy-390xx"])
def test_any_name_of_the_driver_is_judged(name):
    status = "%s/550.107.02, %s, x86_64: installed\n" % (name, OTHER)
    assert found(dkms_status=status) == [("dkms_not_built_for_kernel", "%s/550.107.02@%s" % (name, KERNEL), "error", "broken")]
    assert plan(dkms_status=status) == [("install_exact", "linux-headers-" + KERNEL, None),
                                        ("dkms_build_install", name + "/550.107.02", KERNEL)]


@pytest.mark.parametrize("name,driver", [("nvidia-fs", False), ("nvidia-peermem", False), ("nvidia-fs-next", False), ("gdrdrv", False), ("nvidiafb", False),
                                         ("nvidia-fsx", True), (None, False), ("", False)])
def test_what_is_no_driver(name, driver):
    assert dkms_modules.is_driver(name) is driver


@pytest.mark.parametrize("lock,name", [({"gdrdrv": "2.4.1"}, "gdrdrv/2.4.1"), ({"nvidia_fs": "2.22.3"}, "nvidia-fs/2.22.3"),
                                       ({"mft": "4.30.1"}, "kernel-mft-dkms/4.30.1"), ({"ofed": "24.10-3.2.5"}, "mlnx-ofed-kernel/24.10.OFED.24.10.3.2.5.1"),
                                       ({"modules": {"gdrdrv": "2.4.1"}}, "gdrdrv/2.4.1-1")])
def test_every_module_of_a_claim_is_judged(lock, name):
    status = "%s, %s, x86_64: installed\n" % (name, OTHER)
    assert of("dkms_not_built_for_kernel", lock=dict(lock, kernel=KERNEL), dkms_status=status) == [("%s@%s" % (name, KERNEL), "error", "broken")]
    assert of("dkms_not_built_for_kernel", lock={"kernel": KERNEL}, dkms_status=status) == []
    assert of("dkms_not_built_for_kernel", lock=dict(lock, kernel=KERNEL), dkms_status=status + status.replace(OTHER, KERNEL)) == []


def test_the_kernel_that_boots_next_gets_no_build_beside_the_lock():
    recorded = {"dkms_status": OWN, "next_boot": "6.11.0-9-generic"}
    assert of("dkms_not_built_for_kernel", **recorded) == [("nvidia/550.107.02@6.11.0-9-generic", "error", "broken")]
    assert not [step for step in plan(**recorded) if step[0].startswith("dkms")]
    free = dict(recorded, lock={"driver": "550.107.02"})
    assert ("dkms_build_install", "nvidia/550.107.02", "6.11.0-9-generic") in plan(**free)


@pytest.mark.parametrize("state,codes", [
    ("built", [("dkms_not_installed", "nvidia/550.107.02@" + KERNEL, "error", "drift")]),
    ("installed (original_module exists)", [("dkms_original_archived", "nvidia@" + KERNEL, "info", "in_sync")]),
    ("installed (Original modules exist)", [("dkms_original_archived", "nvidia@" + KERNEL, "info", "in_sync")]),
    ("installed (WARNING! Missing some built modules!)", [("dkms_built_file_missing", "nvidia/550.107.02@" + KERNEL, "error", "broken")]),
    ("installed (Built modules are missing in the kernel modules folder)",
     [("dkms_built_file_missing", "nvidia/550.107.02@" + KERNEL, "error", "broken")]),
    ("installed (Differences between built and installed modules)",
     [("installed_module_differs_from_dkms", "nvidia@" + KERNEL, "error", "broken")]),
    ("installed-weak from 6.8.0-41-generic", [("dkms_weak_only", "nvidia@" + KERNEL, "warn", "drift")])])
def test_states_and_remarks(state, codes):
    assert found(dkms_status="nvidia/550.107.02, %s, x86_64: %s\n" % (KERNEL, state)) == codes


def test_a_missing_built_file_weighs_less_where_the_kernel_has_a_module():
    status = "nvidia/550.107.02, %s, x86_64: installed (WARNING! Missing some built modules!)\n" % KERNEL
    assert of("dkms_built_file_missing", dkms_status=status, modinfo=MODULE % (KERNEL, "550.107.02", KERNEL)) == [
        ("nvidia/550.107.02@" + KERNEL, "warn", "drift")]


@pytest.mark.parametrize("have,code,weight", [
    ("550.107.02", "dkms_registered_not_built_but_module_on_disk", ("warn", "drift")),
    ("550.78", "dkms_registered_not_built_but_module_on_disk", ("error", "broken"))])
def test_a_module_that_something_else_brought(have, code, weight):
    recorded = {"dkms_status": "nvidia/550.107.02: added\n", "modinfo": MODULE % (KERNEL, have, KERNEL)}
    assert of(code, **recorded) == [("nvidia/550.107.02@" + KERNEL, *weight)]
    assert of("dkms_not_built_for_kernel", **recorded) == []
    assert of("dkms_not_built_for_kernel", dkms_status="nvidia/550.107.02: added\n", modinfo=MODULE % (OTHER, have, OTHER)) != []


def test_old_versions_that_a_new_kernel_would_get_too():
    status = "nvidia/535.104.05: added\nnvidia-srv/470.57.02, %s, x86_64: installed\ngdrdrv/2.3: added\n" % OTHER + OWN
    assert of("stale_dkms_registration", dkms_status=status) == [
        ("nvidia-srv/470.57.02", "warn", "drift"), ("nvidia/535.104.05", "warn", "drift")]
    assert ("dkms_remove", "nvidia/535.104.05", None) in plan(dkms_status=status)
    # The only one is not stale, whatever the lock says.
    assert of("stale_dkms_registration", dkms_status="nvidia/535.104.05, %s, x86_64: installed\n" % KERNEL) == []


@pytest.mark.parametrize("status,context", [
    ("iser/24.10: broken\n" + OWN, [("iser/24.10", "warn", "drift")]), ("nvidia/550.107.02: broken\n", [("nvidia/550.107.02", "error", "broken")]),
    (Observation(0, OWN, CONF), [("nvidia/465.19.01", "warn", "drift")]), (Observation(0, CONF + OWN), [("nvidia/465.19.01", "warn", "drift")]),
    (Observation(0, OWN, "Error! nvidia/465.19.01: Missing the module source directory or the symbolic link pointing to it.\n"),
     [("nvidia/465.19.01", "warn", "drift")]), (OWN, [])])
def test_a_source_that_is_gone(status, context):
    assert of("dkms_broken_source", dkms_status=status) == context


@pytest.mark.parametrize("status,weight", [
    (Observation(4, "", CONF), ("error", "unknown")),
    (Observation(0, "", "Error! Could not locate dkms.conf file.\nFile:  does not exist.\n"), ("error", "unknown")),
    (Observation(1, "", "/usr/sbin/dkms: line 32: cd: /var/lib/dkms: Permission denied\n"), ("error", "unknown")),
    (Observation(0, "Traceback (most recent call last):\n"), ("error", "unknown")), (Observation(4, OWN, CONF), ("warn", "unknown"))])
def test_a_list_that_cannot_be_relied_on(status, weight):
    assert of("dkms_status_unusable", dkms_status=status) == [("dkms status", *weight)]
    assert record(dkms_status=status)["verdict"] == "unknown"


@pytest.mark.parametrize("status", [OWN, Observation(0, OWN, CONF), Observation(0, OWN, "Deprecated feature: REMAKE_INITRD\n"),
                                    Observation(127, "", "dkms: command not found\n")])
def test_a_list_that_is_usable_or_not_needed(status):
    assert of("dkms_status_unusable", dkms_status=status) == []


@pytest.mark.parametrize("status", ["", "\n", "Deprecated feature: REMAKE_INITRD (/var/lib/dkms/nvidia/1/source/dkms.conf)\n",
                                    Observation(0, "", "Deprecated feature: REMAKE_INITRD\n")])
def test_an_empty_list_shows_no_driver(status):
    assert of("dkms_status_unusable", dkms_status=status) == [("dkms status", "error", "unknown")]
    # Something else shows it, or nobody claims that it is built here.
    assert of("dkms_status_unusable", dkms_status=status, modinfo=MODULE % (KERNEL, "550.107.02", KERNEL)) == []
    assert of("dkms_status_unusable", dkms_status=status, lock={"driver": {"version": "550.107.02", "module": "prebuilt"}}) == []
    assert of("dkms_status_unusable", dkms_status=status, lock={"kernel": KERNEL}) == []


@pytest.mark.parametrize("package,module", [
    ("nvidia-dkms-550", "nvidia"), ("nvidia-dkms-550-open", "nvidia"), ("nvidia-dkms-550-server", "nvidia-srv"), ("nvidia-dkms-550-server-open", "nvidia-srv"),
    ("nvidia-kernel-dkms", "nvidia-current"), ("nvidia-open-kernel-dkms", "nvidia-current-open"), ("nvidia-tesla-550-kernel-dkms", "nvidia-tesla-550"),
    ("kmod-nvidia-open-dkms", "nvidia")])
def test_a_package_whose_module_dkms_does_not_list(package, module):
    recorded = {"dkms_status": "zfs/2.2.2: added\n", "dpkg_list": "%s\t550.107.02-0ubuntu1\tii \n" % package}
    assert of("dkms_not_built_for_kernel", **recorded) == [("%s/550.107.02@%s" % (module, KERNEL), "error", "broken")]
    assert of("dkms_not_built_for_kernel", **dict(recorded, modinfo=MODULE % (KERNEL, "550.107.02", KERNEL))) == []
    assert dkms_modules.carried_by(package.replace("dkms", "utils")) is None


def test_another_version_than_the_claimed_one():
    status = "nvidia/550.90.07, %s, x86_64: installed\n" % KERNEL
    assert of("dkms_not_built_for_kernel", dkms_status=status) == [("nvidia/550.107.02@" + KERNEL, "error", "drift")]
    assert of("dkms_not_built_for_kernel", dkms_status=status, lock={"driver": "550", "kernel": KERNEL}) == []
    # Packages say it better.
    assert of("dkms_not_built_for_kernel", dkms_status=status, dpkg_list="nvidia-dkms-550\t550.90.07-0ubuntu1\tii \n") == []


def test_dkms_is_missing_where_it_has_to_build():
    gone = Observation(127, "", "dkms: command not found\n")
    assert of("dkms_status_unusable", dkms_status=gone, dpkg_list="nvidia-dkms-550\t550.107.02-0ubuntu1\tii\n") == [("dkms status", "error", "unknown")]
    assert ("install_exact", "dkms", None) in plan(dkms_status=gone, dpkg_list="nvidia-dkms-550\t550.107.02-0ubuntu1\tii\n")


TREE = "/var/lib/dkms/%s\n/var/lib/dkms/%s/%s\n/var/lib/dkms/%s/%s/build\n"


@pytest.mark.parametrize("module,version,weight", [("nvidia", "525.60.13", ("warn", "drift")), ("nvidia", "550.107.02", ("error", "broken")),
                                                   ("vboxhost", "6.1.38", ("info", "in_sync"))])
def test_a_folder_that_dkms_does_not_know(module, version, weight):
    tree = TREE % (module, module, version, module, version)
    assert of("dkms_tree_orphan", dkms_status="gdrdrv/2.4.1: added\n", dkms_tree=tree) == [("/var/lib/dkms/%s/%s" % (module, version), *weight)]
    assert of("dkms_tree_orphan", dkms_status="%s/%s: added\n" % (module, version), dkms_tree=tree) == []


def test_a_folder_that_keeps_dkms_from_adding():
    run = Observation(3, "", "\nError! DKMS tree already contains: nvidia-550.107.02\nYou cannot add the same module/version combo more than once.\n")
    assert of("dkms_tree_orphan", dkms_status="", dkms_run=run) == [("/var/lib/dkms/nvidia/550.107.02", "error", "broken")]
    assert of("dkms_tree_orphan", dkms_status=OWN, dkms_run=run) == []
    assert of("dkms_tree_orphan", dkms_run=run) == []


@pytest.mark.parametrize("recorded", [{"dkms_run": Observation(10, FAILED)}, {"apt_run": Observation(100, FAILED)}, {"dnf_run": Observation(1, FAILED)},
                                      {"dkms_make_log": MAKE_LOG}, {"dkms_make_log": MAKE_LOG, "dkms_run": Observation(10, FAILED)}])
def test_a_build_that_failed(recorded):
    (row,) = [row for row in record(dkms_status=OWN, **recorded)["findings"] if row["code"] == "dkms_build_failed"]
    assert (row["subject"], row["severity"], row["verdict"]) == ("nvidia/550.107.02@6.11.0-9-generic", "error", "broken")
    if "dkms_make_log" in recorded:
        assert "nvidia-drm/nvidia-drm-drv.c:74:5: error: too few arguments" in row["message"] and "interface changed" in row["message"]


def test_a_build_that_failed_and_succeeded_since():
    assert of("dkms_build_failed", dkms_status=OWN + OWN.replace(KERNEL, "6.11.0-9-generic"), dkms_run=Observation(10, FAILED)) == []


def test_a_foreign_build_that_failed():
    run = FAILED.replace("nvidia/550.107.02", "vboxhost/7.0.16")
    assert of("dkms_build_failed", dkms_status=OWN, dkms_run=Observation(10, run)) == [("vboxhost/7.0.16@6.11.0-9-generic", "warn", "drift")]


def test_missing_headers_are_no_failed_build():
    run = Observation(1, "", "Error! Your kernel headers for kernel %s cannot be found at /lib/modules/%s/build or /lib/modules/%s/source.\n" % (3 * (KERNEL,)))
    assert of("dkms_build_failed", dkms_run=run) == []


@given(st.text(alphabet="0123456789.-+~abc", max_size=12), st.text(alphabet="0123456789.-+~abc", max_size=12))
def test_a_version_belongs_to_itself_and_its_branch(version, more):
    if version:
        assert dkms_modules.fits(version, version) and dkms_modules.fits(version + "." + more, version)
        assert dkms_modules.fits(None, version) is False
    assert dkms_modules.fits(version, None)
