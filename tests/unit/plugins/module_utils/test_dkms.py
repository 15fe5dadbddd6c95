# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is seen in a DKMS tree, which steps follow, and that they lead to the wanted state."""

from __future__ import annotations

import itertools
import pathlib

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import dkms
from ansible_collections.lockstep.gpu.plugins.module_utils.run import Result

KERNEL = "6.12.117+deb13-amd64"
WANTED = dkms.Wanted("nvidia-current", "550.163.01", KERNEL, "x86_64", "installed", [])
BUILD = "/var/lib/dkms/nvidia-current/550.163.01/build"
STATUS = "nvidia-current/550.163.01, %s, x86_64: %s\n"


def seen(state, **changes):
    known = {"faults": [], "bad_build": False, "others": [], "leftovers": [], "owned": [], "files": [], "tree": state != "absent"}
    return dkms.Observed(state=state, **dict(known, **changes))


@pytest.mark.parametrize("observed, steps", [
    (seen("absent"), ["add", "build", "install"]),
    (seen("added"), ["build", "install"]),
    (seen("built"), ["install"]),
    (seen("installed"), []),
    (seen("broken"), ["forget", "add", "build", "install"]),
    (seen("installed", faults=["differ"]), ["uninstall", "install"]),
    (seen("installed", faults=["other kernel"], bad_build=True), ["unbuild", "build", "install"]),
    (seen("built", faults=["lacks"], bad_build=True), ["unbuild", "build", "install"]),
    (seen("added", bad_build=True), ["unbuild", "build", "install"]),
    (seen("added", others=["535.261.03"]), ["build", "replace", "install"]),
    (seen("built", leftovers=["/lib/modules/x.ko"]), ["clean", "install"]),
])
def test_plan_to_installed(observed, steps):
    assert dkms.plan(WANTED, observed) == steps


@pytest.mark.parametrize("observed, kernel, steps", [
    (seen("absent"), KERNEL, []),
    (seen("added"), KERNEL, []),
    (seen("added"), None, ["remove"]),
    (seen("installed"), KERNEL, ["remove"]),
    (seen("installed"), None, ["remove"]),
    (seen("broken"), KERNEL, ["forget"]),
    (seen("absent", leftovers=["x"]), KERNEL, ["clean"]),
])
def test_plan_to_absent(observed, kernel, steps):
    assert dkms.plan(WANTED._replace(state="absent", kernel=kernel), observed) == steps


def test_plan_to_built_leaves_an_installed_module_alone():
    built = WANTED._replace(state="built")
    assert dkms.plan(built, seen("added")) == ["build"]
    assert dkms.plan(built, seen("built")) == []
    assert dkms.plan(built, seen("installed", faults=["differ"])) == []


def test_plan_builds_at_most_once_and_before_anything_is_taken_away():
    for state, bad, others, leftovers in itertools.product(
            ["absent", "added", "built", "installed", "broken"], [True, False], [[], ["1"]], [[], ["f"]]):
        steps = dkms.plan(WANTED, seen(state, bad_build=bad, faults=["x"] if bad else [], others=others, leftovers=leftovers))
        assert steps.count("build") <= 1
        for taking in {"replace", "clean"} & set(steps):
            assert "build" not in steps[steps.index(taking):]


@pytest.mark.parametrize("argv, cwd, role", [
    (["/bin/bash", "/usr/sbin/dkms", "build", "-m", "x"], "/", "dkms"),
    (["/usr/sbin/dkms", "autoinstall", "-k", KERNEL], "/", "dkms"),
    (["/bin/bash", "/usr/sbin/dkms", "build", "-m", "nvidia-current"], BUILD, "dkms"),
    (["/bin/bash", "/usr/sbin/dkms", "status"], "/", None),
    (["make", "-j2", "modules"], BUILD, "make"),
    (["cc1", "-o", BUILD + "/nvidia/nv.o"], "/usr/src", "compiler"),
    (["make", "obj=" + BUILD], "/usr/src", "make"),
    (["cp", "-a", "/x/", BUILD], "/", "compiler"),
    (["make"], BUILD + "s", None),
    (["/bin/sh", "-c", "gcc -c nv.c"], BUILD, "compiler"),
    (["/bin/sh", BUILD + "/nvidia/conftest.sh", "cc"], BUILD, "compiler"),
    (["x86_64-linux-gnu-gcc-14", "-c", "nv.c"], BUILD, "compiler"),
    (["/usr/bin/ld.bfd", "-r"], BUILD, "compiler"),
    (["./scripts/mod/modpost", BUILD + "/Module.symvers"], "/usr/src", "compiler"),
    (["xz", "nvidia.ko"], BUILD, "compiler"),
    (["tmux", "new"], BUILD, None),
    (["-bash"], BUILD, None),
    (["bash", "-l"], BUILD, None),
    (["less", BUILD + "/make.log"], "/root", None),
    (["python3", "lsof.py"], BUILD, None),
    (["vi", "/etc/dkms"], "/", None),
    ([""], "", None),
])
def test_role_of_processes(argv, cwd, role):
    assert dkms.role_of(argv, cwd, BUILD) == role


def test_only_what_init_inherited_is_abandoned():
    others = [(1, 0, None), (7, 1, None), (20, 7, None)]
    family = [(11, 10, None), (12, 11, "compiler")]
    assert dkms.abandoned(others + family + [(10, 1, "make")]) == [10, 11, 12]
    assert dkms.abandoned(others + family + [(10, 7, "make")]) == []             # a person's shell has it
    assert dkms.abandoned(others + family + [(10, 1, "compiler")]) == []         # so has somebody's tmux, by its shells
    assert dkms.abandoned(others + family + [(10, 9, "make"), (9, 1, "dkms")]) == []
    assert dkms.abandoned(others + family + [(10, 1, "make"), (30, 7, "dkms")]) == []
    assert dkms.abandoned(others) == []


class Node:
    """A node's file system below tmp_path and what its commands print."""

    def __init__(self, root):
        self.root, self.status, self.versions, self.owners, self.calls = root, "", {}, {}, []
        self.rpms = {}
        self.tree = dkms.Tree(self, str(root))

    def __call__(self, argv, ok=(0,), env=None, stdin=None):
        self.calls.append(argv)
        if argv[:2] == ["dkms", "status"]:
            return Result(0, self.status, "")
        if argv[0] == "modinfo":
            return Result(0, "".join(self.modinfo(path) for path in argv[1:]), "")
        if argv[0] == "dpkg-query":
            owner = self.owners.get(argv[2])
            return Result(0, "%s: %s\n" % (owner, argv[2]), "") if owner else Result(1, "", "no path found")
        if argv[0] == "rpm":
            owner = self.rpms.get(argv[2])
            return Result(0, owner + "\n", "") if owner else Result(1, "file %s is not owned by any package\n" % argv[2], "")
        return Result(0, "", "")

    def modinfo(self, path):
        version, kernel = self.versions.get(path, ("550.163.01", KERNEL))
        return "filename: %s\nversion: %s\nlicense: NVIDIA\nvermagic: %s SMP preempt\n" % (path, version, kernel) if version else ""

    def put(self, *parts):
        path = self.root.joinpath(*parts)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("content")
        return str(path)

    def register(self, version="550.163.01"):
        self.put("usr/src/nvidia-current-%s/dkms.conf" % version)
        folder = self.root / "var/lib/dkms/nvidia-current" / version
        folder.mkdir(parents=True)
        (folder / "source").symlink_to(self.root / ("usr/src/nvidia-current-" + version))

    def build(self, names=("nvidia-current", "nvidia-current-uvm")):
        return [self.put("var/lib/dkms/nvidia-current/550.163.01", KERNEL, "x86_64/module", name + ".ko.xz") for name in names]

    def install(self, names=("nvidia-current", "nvidia-current-uvm")):
        return [self.put("lib/modules", KERNEL, "updates/dkms", name + ".ko.xz") for name in names]


@pytest.fixture(name="node")
def fixture_node(tmp_path):
    return Node(tmp_path)


def test_nothing_there(node):
    assert node.tree.observe(WANTED).state == "absent"
    assert [line.split(":")[0] for line in node.tree.missing(WANTED, False)] == [
        "kernel %s is not installed" % KERNEL, "the headers of kernel %s are missing" % KERNEL,
        "%s/usr/src/nvidia-current-550.163.01/dkms.conf does not exist" % node.root]


def test_nothing_missing(node):
    node.register()
    node.put("lib/modules", KERNEL, "build/include/x.h")
    assert node.tree.missing(WANTED, False) == []


def test_installed_and_whole(node):
    node.register()
    node.build()
    paths = node.install()
    node.status = STATUS % (KERNEL, "installed")
    found = node.tree.observe(WANTED)
    assert (found.state, found.faults) == ("installed", [])
    assert [row["path"] for row in found.files] == paths
    assert len({row["sha256"] for row in found.files}) == 1
    assert dkms.plan(WANTED, found) == []


@pytest.mark.parametrize("flag", ["Differences between built and installed modules", "WARNING! Diff between built and installed module!"])
def test_installed_files_that_differ(node, flag):
    node.register()
    node.build()
    node.install()
    node.status = STATUS % (KERNEL, "installed (%s)" % flag)
    assert dkms.plan(WANTED, node.tree.observe(WANTED)) == ["uninstall", "install"]


def test_installed_file_gone(node):
    node.register()
    node.build()
    node.install(["nvidia-current"])
    node.status = STATUS % (KERNEL, "installed (Differences between built and installed modules)")
    found = node.tree.observe(WANTED)
    assert found.faults == ["nvidia-current-uvm is not below %s/lib/modules/%s" % (node.root, KERNEL)]
    assert dkms.describe_state(found) == "installed, damaged"


def test_expected_file_that_the_build_lacks(node):
    node.register()
    node.build()
    node.install()
    node.status = STATUS % (KERNEL, "installed")
    found = node.tree.observe(WANTED._replace(files=["nvidia-current-drm"]))
    assert "the build lacks nvidia-current-drm" in found.faults
    assert found.bad_build


@pytest.mark.parametrize("content, fault", [
    (("550.163.01", "6.12.107+deb13-amd64"), "was built for 6.12.107+deb13-amd64"),
    (("535.261.03", KERNEL), "is version 535.261.03"),
    ((None, None), "cannot be read by modinfo")])
def test_installed_for_something_else_is_built_again(node, content, fault):
    node.register()
    node.build()
    node.versions[node.install()[0]] = content
    node.status = STATUS % (KERNEL, "installed")
    found = node.tree.observe(WANTED)
    assert fault in found.faults[0]
    assert dkms.plan(WANTED, found) == ["unbuild", "build", "install"]


def test_cut_off_built_file(node):
    node.register()
    node.versions[node.build()[1]] = (None, None)
    node.status = STATUS % (KERNEL, "built")
    assert dkms.plan(WANTED, node.tree.observe(WANTED)) == ["unbuild", "build", "install"]


def test_remains_of_a_killed_build(node):
    node.register()
    (node.root / "var/lib/dkms/nvidia-current/550.163.01" / KERNEL / "x86_64").mkdir(parents=True)
    node.status = "nvidia-current/550.163.01: added\n"
    found = node.tree.observe(WANTED)
    assert (found.state, found.bad_build) == ("added", True)
    node.tree.do("unbuild", WANTED, found)
    assert not node.tree.observe(WANTED).bad_build


def test_remains_of_a_killed_installation_are_deleted(node):
    node.register()
    node.build()
    paths = node.install(["nvidia-current"])
    node.status = STATUS % (KERNEL, "built")
    found = node.tree.observe(WANTED)
    assert found.leftovers == paths
    assert dkms.plan(WANTED, found) == ["clean", "install"]
    node.tree.do("clean", WANTED, found)
    assert node.tree.observe(WANTED).leftovers == []


def test_the_kernels_own_module_of_that_name_is_no_leftover(node):
    node.register()
    node.build()
    node.put("lib/modules", KERNEL, "kernel/drivers/nvidia-current.ko.xz")
    node.status = STATUS % (KERNEL, "built")
    found = node.tree.observe(WANTED)
    assert (found.leftovers, found.owned) == ([], [])


def test_damaged_files_that_dkms_does_not_take_out_are_deleted(node):
    node.register()
    node.build()
    path = node.install(["nvidia-current"])[0]
    node.tree.do("uninstall", WANTED, seen("installed"))
    assert node.calls[0][:2] == ["dkms", "uninstall"]
    assert not pathlib.Path(path).exists()


def test_files_of_a_package_are_not_leftovers(node):
    node.register()
    node.build()
    path = node.install(["nvidia-current"])[0]
    node.owners[path] = "nvidia-modules-prebuilt"
    node.status = STATUS % (KERNEL, "built")
    found = node.tree.observe(WANTED)
    assert found.leftovers == []
    assert found.owned == [path + " belongs to the package nvidia-modules-prebuilt"]


def test_source_gone(node):
    (node.root / "var/lib/dkms/nvidia-current/550.163.01").mkdir(parents=True)
    (node.root / "var/lib/dkms/nvidia-current/550.163.01/source").symlink_to("/no/such")
    found = node.tree.observe(WANTED)
    assert found.state == "broken"
    node.tree.do("forget", WANTED, found)
    assert node.tree.observe(WANTED).state == "absent"


def test_source_gone_with_files_still_installed(node):
    node.build()
    paths = node.install()
    link = node.root / "var/lib/dkms/nvidia-current" / ("kernel-%s-x86_64" % KERNEL)
    link.symlink_to("550.163.01/%s/x86_64" % KERNEL)
    node.status = "nvidia-current/550.163.01: broken\n"
    for kernel in (KERNEL, None):
        gone = WANTED._replace(state="absent", kernel=kernel)
        found = node.tree.observe(gone)
        assert (found.state, found.leftovers) == ("broken", paths)
        assert dkms.plan(gone, found) == ["forget", "clean"]
    for step in dkms.plan(gone, found):
        node.tree.do(step, gone, found)
    assert node.calls[-1] == ["depmod", KERNEL]
    assert not link.is_symlink()
    assert not any(pathlib.Path(path).exists() for path in paths)


def test_other_version_is_replaced_after_the_build(node):
    node.register()
    node.register("535.261.03")
    node.install()
    node.status = "nvidia-current/535.261.03, %s, x86_64: installed\nnvidia-current/550.163.01: added\n" % KERNEL
    found = node.tree.observe(WANTED)
    assert (found.state, found.others, found.leftovers) == ("added", ["535.261.03"], [])
    node.tree.do("replace", WANTED, found)
    assert node.calls[-1] == ["dkms", "uninstall", "-m", "nvidia-current", "-v", "535.261.03", "-k", KERNEL, "-a", "x86_64"]


def test_other_kernel_and_architecture_do_not_count(node):
    node.register()
    node.status = STATUS % ("6.12.107+deb13-amd64", "installed") + "nvidia-current/550.163.01, %s, aarch64: installed\n" % KERNEL
    assert node.tree.observe(WANTED).state == "added"
    assert node.tree.observe(WANTED._replace(kernel=None)).state == "installed"


def test_failed_step_carries_its_output(node):
    node.tree = dkms.Tree(lambda argv, ok=(0,): Result(10, "out\n", "Error! Bad return status\n"), str(node.root))
    with pytest.raises(dkms.DkmsError) as caught:
        node.tree.do("build", WANTED, seen("added"))
    assert (caught.value.step, caught.value.rc) == ("build", 10)
    assert "Error! Bad return status" in caught.value.output


def test_waiting_ends_when_nobody_is_at_work(node):
    assert node.tree.wait_until_idle(WANTED, 0) == []


@pytest.mark.parametrize("release, place", [
    ('NAME="Rocky Linux"\nID="rocky"\nID_LIKE="rhel centos fedora"\n', "extra"), ("ID=fedora\n", "extra"), ('ID="sles"\nID_LIKE="suse"\n', "updates"),
    ('ID=ubuntu\nID_LIKE=debian\nVARIANT="rhel"\n', "updates/dkms"), (None, "updates/dkms")])
def test_leftovers_lie_where_the_distribution_puts_modules(node, release, place):
    if release:
        node.put("etc/os-release")
        (node.root / "etc/os-release").write_text(release)
    node.register()
    paths = {folder: node.put("lib/modules", KERNEL, folder, "nvidia-current.ko.xz") for folder in ("extra", "updates", "updates/dkms")}
    assert node.tree.observe(WANTED._replace(files=["nvidia-current"])).leftovers == [paths[place]]
    node.rpms = {paths[place]: "kmod-nvidia-550.163.01-1.el9.x86_64"}
    found = node.tree.observe(WANTED._replace(files=["nvidia-current"]))
    assert found.leftovers == [] and found.owned == ["%s belongs to the package kmod-nvidia-550.163.01-1.el9.x86_64" % paths[place]]


def test_what_is_missing_is_named_as_the_distribution_does(node):
    assert [text.rsplit(" ", 1)[-1] for text in node.tree.missing(WANTED, True)] == ["linux-image-" + KERNEL, "linux-headers-" + KERNEL]
    node.put("etc/os-release")
    (node.root / "etc/os-release").write_text('ID="almalinux"\nID_LIKE="rhel centos fedora"\n')
    assert [text.rsplit(" ", 1)[-1] for text in node.tree.missing(WANTED, True)] == ["kernel-core-" + KERNEL, "kernel-devel-" + KERNEL]
