# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about kernels, their headers and compilers, and the boot loader: each where it speaks, and where it is silent."""
from __future__ import annotations

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils.bundle import BundleProbe
from ansible_collections.lockstep.gpu.plugins.module_utils.facts import replay
from ansible_collections.lockstep.gpu.plugins.plugin_utils import audit, knowledge

LOCKED, NEWER, OLDER = "5.15.0-91-generic", "5.15.0-101-generic", "5.15.0-78-generic"
EL, EL_NEWER, EL_64K = "5.14.0-362.8.1.el9_3.x86_64", "5.14.0-427.13.1.el9_4.x86_64", "5.14.0-570.12.1.el9_6.aarch64"
OWN, OTHER = "cd3361a338fe47348de9937e51a7a4aa", "104a42359fae41b687caac066397aec2"
DEB_KERNELS = "linux-image-%s\t1\thi \n" % LOCKED
BOTH_KERNELS = DEB_KERNELS + "linux-image-%s\t1\tii \n" % NEWER
EL_KERNEL = "kernel-core-%s\nkernel-headers-%s\n" % (EL, EL)
TITLE = "Advanced options for Ubuntu>Ubuntu, with Linux "
MENU = "set default=\"0\"\nmenuentry 'a' {\n\tlinux /boot/vmlinuz-%s\n}\nsubmenu 'b' {\n\tmenuentry 'c' {\n\tlinux /boot/vmlinuz-%s\n}\n}\n"
GCC_12 = "Linux version %s (b@h) (x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1) 12.3.0, GNU ld 2.38) #1\n" % LOCKED


def ids(*names):
    return "".join("/boot/loader/entries/%s.conf\n" % name for name in names)


@pytest.fixture
def judged(tmp_path):
    """What an audit says of a node that runs the locked kernel and of which only some probes were recorded."""
    def judge(kernel=LOCKED, given=None, lock=None, **texts):
        inputs = []
        for name, text in texts.items():
            rc, text = text if isinstance(text, tuple) else (0, text)
            (tmp_path / name).write_text(text, encoding="utf-8")
            inputs.append({"probe": name, "file": name, "rc": rc})
        system = "rocky-9.3" if ".el9" in kernel else "ubuntu-22.04"
        told = {"os": system, "running_kernel": kernel, "lock": dict({"kernel": kernel}, **(lock or {}))}
        manifest = {"given": dict(told, **(given or {})), "inputs": inputs}
        (tmp_path / "bundle.yml").write_text("x", encoding="utf-8")
        probe = BundleProbe(str(tmp_path), lambda text: manifest)
        return audit.judge(replay(probe)["ansible_facts"]["lockstep"], given=probe.given)
    return judge


def rows(record, code):
    return [row for row in record["findings"] if row["code"] == code]


def steps(record):
    return [(step["action"], step.get("target")) for step in record["plan"]]


TRIAL = ('{"schema": 1, "token": "0123456789abcdef", "kernel": "%s", "from": "' + OLDER + '", "attempts": 2, "digest": "d", "boot_id": "b", '
         '"confirm_within": 600, "armed": true, "outcome": "%s", "reason": "did not reach user space"}\n')
SPEAKS = [
    # code, part of the subject, verdict class, step, the world
    ("trial_boot_failed", LOCKED + ", failed 2 times", "broken", None, {"given": {"running_kernel": OLDER}, "trial_record": TRIAL % (LOCKED, "failed")}),
    ("running_kernel_not_locked", NEWER, "drift", None, {"given": {"running_kernel": NEWER}}),
    ("next_boot_kernel_not_locked", NEWER, "drift", ("set_default_kernel", LOCKED), {"given": {"next_boot_kernel": NEWER}}),
    ("next_boot_kernel_not_locked", EL_NEWER, "drift", ("set_default_kernel", EL), {"kernel": EL, "grubby_default": "/boot/vmlinuz-%s\n" % EL_NEWER}),
    ("unlocked_kernel_installed", NEWER, "drift", None, {"dpkg_list": BOTH_KERNELS}),
    ("unlocked_kernel_installed", EL_NEWER, "drift", None, {"kernel": EL, "rpm_list": EL_KERNEL + "kernel-core-%s\n" % EL_NEWER}),
    ("meta_package_not_held", "linux-image-generic", "drift", ("hold", "linux-image-generic"),
     {"dpkg_list": DEB_KERNELS + "linux-image-generic\t5.15.0.91.88\tii \n"}),
    ("meta_package_not_held", "linux-image-generic-hwe-22.04", "drift", ("remove_or_hold", "linux-image-generic-hwe-22.04"),
     {"dpkg_list": DEB_KERNELS + "linux-image-generic-hwe-22.04\t6.8.0-40.40~22.04.3\tii \n"}),
    ("meta_package_not_held", "linux-image-generic", "drift", ("hold", "linux-image-generic"),
     {"dpkg_list": DEB_KERNELS + "linux-image-generic\t5.15.0.91.88\n", "apt_holds": "linux-image-%s\n" % LOCKED}),
    ("headers_missing", LOCKED, "drift", ("install_exact", "linux-headers-" + LOCKED),
     {"lock": {"driver": "535.129.03"}, "kernel_files": "/boot/vmlinuz-%s\n/lib/modules/%s/build/Makefile\n" % (LOCKED, OLDER)}),
    ("headers_missing", LOCKED, "broken", ("install_exact", "linux-headers-" + LOCKED),
     {"dkms_run": (1, "Error! Your kernel headers for kernel %s cannot be found at /lib/modules/%s/build or x.\n" % (LOCKED, LOCKED))}),
    ("headers_mismatch", "kernel-devel-5.14.0-427", "broken", ("install_exact", "kernel-devel-" + EL),
     {"kernel": EL, "rpm_list": EL_KERNEL + "kernel-devel-%s\n" % EL_NEWER}),
    ("headers_mismatch", "kernel-devel-5.14.0-427", "broken", ("install_exact", "kernel-devel-" + EL),
     {"kernel": EL, "rpm_list": "kernel-devel-%s\n" % EL_NEWER}),
    ("headers_mismatch", "kernel-devel-5.14.0-570", "broken", ("install_exact", "kernel-64k-devel-" + EL_64K),
     {"kernel": EL_64K + "+64k", "rpm_list": "kernel-64k-core-%s\nkernel-devel-%s\n" % (EL_64K, EL_64K)}),
    ("headers_mismatch", "linux-headers-" + NEWER, "broken", ("install_exact", "linux-headers-" + LOCKED),
     {"dpkg_list": DEB_KERNELS + "linux-headers-%s\t1\tii \n" % NEWER}),
    ("headers_unavailable", "linux-headers-" + LOCKED, "blocked", None, {"apt_run": (100, "E: Unable to locate package linux-headers-%s\n" % LOCKED)}),
    ("headers_unavailable", "kernel-devel-" + EL, "blocked", None, {"kernel": EL, "dnf_run": (1, "Error: Unable to find a match: kernel-devel-%s\n" % EL)}),
    ("compiler_mismatch", "gcc-12", "broken", ("install_exact", "gcc-12"), {"proc_version": GCC_12, "compiler_link": "/usr/bin/gcc -> gcc-11\n"}),
    ("compiler_mismatch", "gcc-12", "drift", ("dkms_build_install", "nvidia/535.129.03"),
     {"proc_version": GCC_12, "compiler_version": "gcc (Ubuntu 11.4.0-1) 11.4.0\n", "lock": {"driver": "535.129.03"},
      "dkms_status": "nvidia/535.129.03, %s, x86_64: installed\n" % LOCKED}),
    ("module_makefile_calls_plain_gcc", "gcc", "broken", ("install_exact", "gcc"), {"dkms_make_log": "/bin/sh: 1: gcc: not found\n"}),
    ("module_makefile_calls_plain_gcc", "gcc", "broken", None,
     {"dkms_make_log": "make CC=x86_64-linux-gnu-gcc-12 modules\ngcc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'\n"}),
    ("compiler_mismatch", "gcc-12", "broken", ("install_exact", "gcc-12"), {"dkms_make_log": "/bin/sh: 1: x86_64-linux-gnu-gcc-12: not found\n"}),
    ("headers_missing", LOCKED, "broken", ("install_exact", "linux-headers-5.15.0-91-common"),
     {"dkms_make_log": "x", "apt_run": (1, "make[1]: *** /usr/src/linux-headers-5.15.0-91-common: No such file or directory.  Stop.\n")}),
    ("module_makefile_calls_plain_gcc", "/usr/src/x-1/Makefile", "broken", None,
     {"proc_version": GCC_12, "compiler_link": "gcc-11\n", "module_makefile": "==> /usr/src/x-1/Makefile <==\nall:\n\tgcc -c x.c\n"}),
    ("grub_default_not_saved", "GRUB_DEFAULT=0", "drift", ("set_default_kernel", LOCKED),
     {"grub_default": "GRUB_DEFAULT=0\n", "grubenv": "saved_entry=%s%s\n" % (TITLE, LOCKED), "dpkg_list": BOTH_KERNELS}),
    ("grub_default_not_saved", "saved_entry=1>0", "drift", ("set_default_kernel", LOCKED),
     {"grub_default": "GRUB_DEFAULT=saved\n", "grubenv": "saved_entry=1>0\n",
      "grub_cfg": MENU % (NEWER, LOCKED)}),
    ("foreign_boot_entries", OTHER + "-" + EL_NEWER, "drift", ("set_default_kernel", EL),
     {"kernel": EL, "machine_id": OWN + "\n", "bls_entries": ids(OTHER + "-" + EL_NEWER, OWN + "-" + EL)}),
    ("foreign_boot_entries", OTHER + "-0-rescue", "in_sync", None, {"kernel": EL, "machine_id": OWN, "bls_entries": ids(OTHER + "-0-rescue", OWN + "-" + EL)}),
    ("boot_entry_without_package", EL_NEWER, "broken", ("set_default_kernel", EL),
     {"kernel": EL, "rpm_list": EL_KERNEL, "bls_entries": ids(OWN + "-" + EL_NEWER, OWN + "-" + EL), "grubenv": "saved_entry=%s-%s\n" % (OWN, EL)}),
    ("boot_entry_without_package", "5.14.0-70.el9.x86_64", "drift", None,
     {"kernel": EL, "rpm_list": EL_KERNEL, "bls_entries": ids(OWN + "-5.14.0-70.el9.x86_64", OWN + "-" + EL)}),
    ("initramfs_missing", LOCKED, "broken", ("rebuild_initramfs", LOCKED),
     {"kernel_files": "/boot/vmlinuz-%s\n/boot/vmlinuz-%s\n/boot/initrd.img-%s\n" % (LOCKED, OLDER, OLDER)}),
    ("initramfs_stale", "nouveau", "drift", ("rebuild_initramfs", LOCKED),
     {"initramfs_files": "usr/lib/modules/%s/kernel/drivers/gpu/drm/nouveau/nouveau.ko\n" % LOCKED,
      "modprobe_config": "/etc/modprobe.d/off.conf:blacklist nouveau\n"}),
    ("initramfs_stale", "nvidia", "drift", ("rebuild_initramfs", LOCKED),
     {"initramfs_files": "usr/lib/modules/%s/extra/nvidia.ko.xz\n" % LOCKED,
      "modinfo": "filename: /lib/modules/%s/updates/dkms/nvidia.ko\nversion: 535.129.03\n" % LOCKED}),
    ("reboot_required", "%s -> %s" % (OLDER, LOCKED), "drift", ("reboot_once", None), {"given": {"running_kernel": OLDER}, "dpkg_list": DEB_KERNELS}),
    ("reboot_required", "/run/reboot-required", "drift", None,
     {"kernel": EL, "reboot_marks": (1, "Core libraries or services have been updated since boot-up:\n  * kernel\n\nReboot is required\n")}),
    ("reboot_required", "/run/reboot-required", "drift", None, {"reboot_marks": "linux-image-%s\nlinux-base\n" % LOCKED}),
    ("installonly_limit_too_low", "installonly_limit=2", "drift", ("rewrite_file", "/etc/dnf/dnf.conf"),
     {"kernel": EL, "dnf_config": "[main]\ninstallonly_limit=2\n"}),
    ("installonly_limit_too_low", "installonly_limit=3", "drift", None,
     {"kernel": EL, "given": {"running_kernel": EL_NEWER}, "dnf_config": "[main]\ngpgcheck=1\n",
      "rpm_list": "kernel-core-%s\nkernel-core-%s\nkernel-core-5.14.0-503.11.1.el9_5.x86_64\n" % (EL, EL_NEWER)}),
    ("no_kmod_for_next_kernel", NEWER, "broken", ("set_default_kernel", LOCKED),
     {"dpkg_list": BOTH_KERNELS + "linux-modules-nvidia-535-server-%s\t1\tii \n" % LOCKED}),
    ("no_kmod_for_next_kernel", EL_NEWER, "broken", ("set_default_kernel", EL),
     {"kernel": EL, "rpm_list": EL_KERNEL + "kernel-core-%s\nkmod-nvidia-535.183.06-5.14.0-362.8.1-535.183.06-3.el9_3.x86_64\n" % EL_NEWER}),
    ("kernel_module_missing", "nvidia@" + LOCKED, "broken", None,
     {"modprobe_run": (1, "modprobe: FATAL: Module nvidia not found in directory /lib/modules/%s\n" % LOCKED)}),
    ("kernel_module_missing", "nvidia@" + LOCKED, "broken", None, {"modinfo": (1, "modinfo: ERROR: Module nvidia not found.\n")}),
    ("grubenv_not_writable", "/boot/grub/grubenv", "drift", None, {"grub_run": "error: diskfilter writes are not supported.\n"}),
    ("grubenv_not_writable", "/boot/grub/grubenv", "drift", None,
     {"given": {"running_kernel": OLDER}, "grubenv": "saved_entry=0\n", "proc_mounts": "/dev/mapper/vg-root / ext4 rw 0 0\n"}),
]


@pytest.mark.parametrize("code,subject,verdict,step,world", SPEAKS, ids=["%s-%d" % (row[0], number) for number, row in enumerate(SPEAKS)])
def test_a_rule_speaks(judged, code, subject, verdict, step, world):
    record = judged(**world)
    found = [row for row in rows(record, code) if subject in row["subject"]]
    assert [row["verdict"] for row in found] == [verdict], [(row["code"], row["subject"], row["verdict"]) for row in record["findings"]]
    assert step is None or step in steps(record)


IN_ORDER = [
    {"dpkg_list": DEB_KERNELS + "linux-image-%s\t1\tii \nlinux-image-generic\t5.15.0.91.88\thi \nlinux-headers-%s\t1\thi \n" % (OLDER, LOCKED),
     "grub_default": "GRUB_DEFAULT=0\n"},
    # A newer kernel, but the saved entry is the locked one and counts.
    {"dpkg_list": BOTH_KERNELS, "grub_default": "GRUB_DEFAULT=saved\n", "grubenv": "saved_entry=%s%s\n" % (TITLE, LOCKED)},
    # What is saved is what boots anyway.
    {"dpkg_list": DEB_KERNELS, "grub_default": "GRUB_DEFAULT=0\n", "grubenv": "saved_entry=0\n"},
    # Tools are no kernel, and neither is a kernel's own package.
    {"dpkg_list": DEB_KERNELS + "linux-tools-generic\t5.15.0.91.88\tii \nlinux-image-extra-virtual\t1\thi \nlinux-base\t4.5\tii \n"},
    {"dpkg_list": DEB_KERNELS + "linux-image-generic\t5.15.0.91.88\tii \n", "lock": {"hold": False}},
    {"dpkg_list": DEB_KERNELS + "linux-image-generic\t5.15.0.91.88\n"},
    {"kernel": EL, "rpm_list": EL_KERNEL + "kernel-devel-%s\nkernel-devel-%s\n" % (EL, EL_NEWER), "lock": {"driver": "550.54.15"}},
    {"kernel": EL, "rpm_list": EL_KERNEL + "kernel-debug-devel-%s\n" % EL},
    {"kernel": EL_64K + "+64k", "lock": {"driver": "570.86.15"},
     "rpm_list": "kernel-64k-core-%s\nkernel-64k-devel-%s\nkernel-headers-%s\n" % (EL_64K, EL_64K, EL_64K)},
    {"kernel": EL, "machine_id": OWN, "bls_entries": ids(OWN + "-" + EL, OWN + "-0-rescue"), "rpm_list": EL_KERNEL,
     "grubenv": "saved_entry=%s-%s\n" % (OWN, EL)},
    {"kernel": EL, "bls_entries": ids(OTHER + "-" + EL, OWN + "-0-rescue")},
    {"kernel": EL, "dnf_config": "[main]\ninstallonly_limit=0\n"}, {"kernel": EL, "dnf_config": "[main]\ngpgcheck=1\n"},
    {"proc_version": GCC_12, "compiler_link": "/usr/bin/gcc -> gcc-12\n"},
    # Debian's headers name their own compiler.
    {"proc_version": GCC_12, "compiler_link": "gcc-11\n", "given": {"os": "debian-12"}},
    # Another kernel runs than the one that the modules are for.
    {"proc_version": GCC_12.replace(LOCKED, OLDER), "compiler_link": "gcc-11\n"},
    {"initramfs_files": "etc/modprobe.d/off.conf\nusr/lib/modules/%s/kernel/drivers/gpu/drm/nouveau/nouveau.ko\n" % LOCKED,
     "modprobe_config": "/etc/modprobe.d/off.conf:blacklist nouveau\n"},
    {"initramfs_files": "usr/lib/modules/%s/updates/dkms/nvidia.ko.zst\n" % LOCKED,
     "modinfo": "filename: /lib/modules/%s/updates/dkms/nvidia.ko\nversion: 535.129.03\n" % LOCKED},
    {"kernel_files": "/boot/vmlinuz-%s\n" % LOCKED},
    # It runs after all; another kernel failed; a trial that goes on is no fault.
    {"trial_record": TRIAL % (LOCKED, "failed")}, {"trial_record": TRIAL % (NEWER, "failed")}, {"trial_record": TRIAL % (LOCKED, "pending")},
    {"reboot_marks": "No core libraries or services have been updated since boot-up.\n"},
    {"reboot_marks": "libc6\ndbus\n"},
    {"dpkg_list": DEB_KERNELS + "linux-modules-nvidia-535-server-%s\t1\tii \n" % LOCKED},
]


@pytest.mark.parametrize("world", IN_ORDER, ids=str)
def test_nothing_is_said_of_a_node_in_order(judged, world):
    assert [(row["code"], row["subject"]) for row in judged(**world)["findings"] if row["code"] in {row[0] for row in SPEAKS}] == []


def test_a_log_of_another_cause_does_not_blame_the_compiler(judged):
    log = ("DKMS make.log for nvidia-535.54.03 for kernel %s (x86_64)\n  The kernel was built by: gcc-12 (Ubuntu 12.3.0-1) 12.3.0\n"
           "  You are using:           cc (Ubuntu 11.4.0-1) 11.4.0\na.c:1:2: error: 'struct drm_driver' has no member named 'x'\n" % LOCKED)
    assert rows(judged(dkms_make_log=log), "compiler_mismatch") == []
    other = log.replace(LOCKED, OLDER).replace("'struct", "x").replace("error", "warning")
    assert rows(judged(dkms_make_log=other), "compiler_mismatch") == []


def test_headers_that_are_gone_are_not_to_be_installed(judged):
    record = judged(lock={"driver": "535.129.03"}, dkms_run=(1, "Your kernel headers for kernel %s cannot be found at x\n" % LOCKED),
                    apt_run=(100, "E: Unable to locate package linux-headers-%s\n" % LOCKED))
    assert record["verdict"] == "blocked" and ("install_exact", "linux-headers-" + LOCKED) not in steps(record)


@pytest.mark.parametrize("name,brings", [
    ("linux-generic", True), ("linux-image-generic-hwe-22.04", True), ("linux-headers-generic-hwe-24.04-edge", True), ("linux-aws", True),
    ("linux-image-azure-lts-22.04", True), ("linux-azure-6.8", True), ("linux-nvidia-64k-hwe-24.04", True), ("linux-image-nvidia-hwe-24.04", True),
    ("linux-oem-22.04d", True), ("linux-modules-nvidia-535-server-generic-hwe-22.04", True), ("linux-modules-extra-gcp", True), ("linux-virtual", True),
    ("linux-image-amd64", True), ("linux-headers-cloud-amd64", True), ("linux-image-rt-amd64", True), ("linux-headers-arm64", True),
    ("linux-image-amd64-dbg", False), ("linux-image-5.15.0-91-generic", False), ("linux-headers-6.1.0-18-common", False), ("linux-base", False),
    ("linux-tools-generic", False), ("linux-libc-dev", False), ("linux-modules-nvidia-535-5.15.0-91-generic", False), ("linux-firmware", False),
    ("linux-doc", False), ("linux-compiler-gcc-12-x86", False), ("linux-cpupower", False), ("kernel", False)])
def test_metapackages(name, brings):
    assert bool(knowledge.kernel_metapackage(knowledge.load(), name)) is brings
