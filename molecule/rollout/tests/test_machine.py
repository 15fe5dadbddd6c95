# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulation itself, without the collection: what a machine says of itself, and what its restarts do."""

from __future__ import annotations

import time

import machines
import pytest
from machines import restart

ONE = machines.NODES[-1]
SAVED = "uuid=$(grub-probe --target=fs_uuid /); grub-set-default \"gnulinux-advanced-$uuid>gnulinux-%s-advanced-$uuid\""
TRIAL = """cat >/boot/grub/custom.cfg <<'END'
menuentry 'A trial' --id trial {
    linux /boot/vmlinuz-%s root=/dev/vda1 ro %s
    initrd /boot/initrd.img-%s
}
END
grub-reboot trial
"""


@pytest.fixture
def machine():
    """A machine with both kernels' files, of which A is the saved default."""
    machines.fresh(nodes=[ONE])
    machines.on(ONE, "for file in vmlinuz initrd.img; do cp /boot/$file-%s /boot/$file-%s; done" % (machines.A, machines.B))
    machines.on(ONE, "mkdir -p /etc/default/grub.d; echo GRUB_DEFAULT=saved >/etc/default/grub.d/test.cfg; update-grub 2>&1; %s"
                % (SAVED % machines.A))
    return ONE


def test_nothing_tells_a_container(machine):
    assert machines.on(machine, "ls /.dockerenv /run/systemd/container /run/.containerenv 2>/dev/null || true") == ""
    assert "container" not in machines.on(machine, "tr '\\0' '\\n' </proc/1/environ")
    assert not {"docker", "lxc", "kubepods"} & set(machines.on(machine, "cat /proc/1/cgroup").replace("/", " ").split())


def test_every_program_sees_the_same_kernel(machine):
    said = machines.on(machine, "uname -r; python3 -c 'import platform; print(platform.release())'; cut -d' ' -f3 /proc/version;"
                       " grep -o 'vmlinuz-[^ ]*' /proc/cmdline")
    assert said.split() == [machines.A] * 3 + ["vmlinuz-" + machines.A]


def test_a_restart_keeps_the_disk_and_nothing_else(machine):
    machines.on(machine, "echo kept >/root/kept; echo gone >/run/gone; nohup sleep 1000 >/dev/null 2>&1 &")
    restart(machine)
    assert machines.on(machine, "cat /root/kept; cd /run; echo gon*; grep -sl ^sleep /proc/[0-9]*/comm || true") == "kept\ngon*\n"
    assert machines.words(machine) == ["boot " + machines.A, "reboot", "boot " + machines.A]


def test_a_trial_boots_once(machine):
    machines.on(machine, TRIAL % (machines.B, "panic=30 a.token=1", machines.B))
    restart(machine)
    assert machines.kernel(machine) == (machines.B, machines.A, "")
    assert machines.on(machine, "cat /proc/cmdline").split()[-2:] == ["panic=30", "a.token=1"]
    restart(machine, "systemctl --force reboot")
    assert machines.kernel(machine) == (machines.A, machines.A, "")


def test_a_kernel_that_panics_returns_where_it_was_told_to(machine):
    machines.fault(machine, **{machines.B: "panic"})
    machines.on(machine, TRIAL % (machines.B, "panic=30", machines.B))
    restart(machine)
    assert machines.words(machine)[-4:] == ["reboot", "boot " + machines.B, "panic " + machines.B, "boot " + machines.A]
    machines.on(machine, TRIAL % (machines.B, "", machines.B) + "shutdown -r now")
    time.sleep(2)
    assert machines.run("docker", "exec", machine, "true", check=False)[0] != 0
    machines.power_cycle(machine)
    assert machines.words(machine)[-3:] == ["boot " + machines.B, "stands still", "boot " + machines.A]


def test_a_watch_of_the_trials_own_returns_from_it(machine):
    unit = "[Unit]\nConditionKernelCommandLine=a.token=1\n[%s]\n%s\n"
    machines.on(machine, "cd /etc/systemd/system && mkdir -p sysinit.target.wants && printf '%s' >watch.timer && printf '%s' >watch.service"
                " && ln -s ../watch.timer sysinit.target.wants/"
                % (unit % ("Timer", "OnBootSec=2"), unit % ("Service", "ExecStart=/bin/systemctl --force reboot")))
    restart(machine)    # not without the token
    time.sleep(3)
    assert machines.words(machine)[-1] == "boot " + machines.A
    machines.on(machine, TRIAL % (machines.B, "a.token=1", machines.B))
    restart(machine)
    time.sleep(4)
    assert machines.words(machine)[-5:] == ["reboot", "boot " + machines.B, "timer", "reboot", "boot " + machines.A]


def test_a_module_is_loaded_as_without_a_gpu(machine):
    for kernel, answer in ((machines.A, "No such device"), ("1.2.3-4-other", "Exec format error")):
        made = machines.on(machine, "printf 'ELF\\000name=nvidia\\000vermagic=%s SMP mod_unload \\000' >/tmp/nvidia.ko; python3 -c '%s'" % (
            kernel, "import ctypes, os; c = ctypes.CDLL(None, use_errno=True); c.syscall(313, os.open(\"/tmp/nvidia.ko\", 0), b\"\", 0);"
                    " print(os.strerror(ctypes.get_errno()))"))
        assert made.strip() == answer
