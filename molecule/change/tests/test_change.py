# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Changed stacks take effect in both directions; what fails or is killed is healed by the next run."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time

import pytest

KERNEL = {"lockstep-debian12": "6.1.0-50-amd64", "lockstep-debian13": "6.12.117+deb13-amd64"}
FIRST = {"lockstep-debian12": "debian12-535", "lockstep-debian13": "debian13-550"}
NEWER = {
    "os": {"id": "debian", "release": "12", "arch": "x86_64"},
    "kernel": {"release": "6.1.0-50-amd64", "package_version": "6.1.176-1"},
    "driver": {"version": "535.309.01", "flavour": "proprietary"},
    "cuda": {"versions": ["11.8.0"], "profile": "toolkit"}, "ofed": {"provider": "inbox", "version": "44.0"},
}


def driver_of(host):
    """(version of the module for the stack's kernel, version that the loader gives, driver API) by other tools."""
    kernel = KERNEL[host.backend.host]
    loads = host.run("modprobe -n -S %s --show-depends nvidia" % kernel).stdout
    name = re.search(r"modprobe -i (\S+)", loads).group(1)
    module = host.run("modinfo -k %s -F version %s" % (kernel, name)).stdout.strip()
    library = host.run("readlink -f /usr/lib/x86_64-linux-gnu/libcuda.so.1").stdout.strip().rsplit(".so.", 1)[1]
    management = host.run("readlink -f /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.1").stdout.strip().rsplit(".so.", 1)[1]
    api = host.run("python3 -c 'import ctypes; v = ctypes.c_int(); ctypes.CDLL(\"libcuda.so.1\").cuDriverGetVersion(ctypes.byref(v));"
                   " print(v.value)'").stdout.strip()
    return module, library, management, api


def steps(host):
    """(stack, what other tools must see) of a way there and back."""
    if host.backend.host == "lockstep-debian12":
        there = (NEWER, ("535.309.01", "535.309.01", "535.309.01", "12020"))
        return there, ("debian12-535", ("535.261.03", "535.261.03", "535.261.03", "12020"))
    there = ("debian13-535", ("535.274.02", "535.274.02", "535.274.02", "12020"))
    return there, ("debian13-550", ("550.163.01", "550.163.01", "550.163.01", "12040"))


@pytest.mark.parametrize("step", [0, 1], ids=["there", "back"])
def test_a_changed_version_takes_effect(host, site, step):
    stack, seen = steps(host)[step]
    status, output = site(stack=stack)
    assert status == 0, output
    assert driver_of(host) == seen
    assert host.run("dpkg --audit").stdout == ""
    holds = set(host.run("apt-mark showhold").stdout.split())
    managed = host.run("dpkg-query -W -f '${source:Package} ${Package} ${db:Status-Status}\\n'").stdout
    drivers = {line.split()[1] for line in managed.splitlines()
               if line.startswith("nvidia-graphics-drivers") and line.endswith(" installed")}
    assert drivers <= holds
    modules = host.run("dkms status -k %s" % KERNEL[host.backend.host]).stdout.splitlines()
    assert len(modules) == 1 and modules[0].endswith(": installed"), modules
    idle = [row for row in site.report()["findings"] if row["code"] == "inactive_userland"]
    assert [row["severity"] for row in idle] == (["info"] if stack == "debian13-535" else [])
    status, output = site(stack=stack)
    assert status == 0 and set(re.findall(r"changed=(\d+)", output)) == {"0"}, output


def test_an_accepted_refusal_fails_with_the_first_error_and_the_next_stack_heals(host, site):
    if host.backend.host == "lockstep-debian12":
        # Both flavours build there: the other one replaces the first.
        stack = dict(NEWER, driver={"version": "535.261.03", "flavour": "open"})
        status, output = site(stack=stack)
        assert status == 0, output
        assert "Dual MIT/GPL" in host.run("modinfo -k 6.1.0-50-amd64 -F license nvidia-current-open").stdout
        assert host.run("dpkg-query -W -f '${db:Status-Status}' nvidia-kernel-dkms").stdout != "installed"
    else:
        status, output = site("-e", '{"lockstep_accept": ["driver_fails_to_build_on_kernel@*"]}', stack="debian13-550-open")
        assert status != 0
        finding = next(row for row in site.report()["findings"] if row["code"] == "dkms_build_failed")
        assert "pci_resize_resource" in finding["message"] and "error:" in finding["message"], output
        assert host.run("dpkg --audit").stdout == "" and host.run("apt-get check -q").rc == 0
        assert host.run("find /lib/modules -name 'nvidia-current-open*.ko*'").stdout == ""
    status, output = site(stack=FIRST[host.backend.host])
    assert status == 0, output
    assert len(host.run("dkms status").stdout.splitlines()) == 1


@pytest.mark.parametrize("moment", ["dpkg-deb", "cc1"], ids=["unpacking", "compiling"])
def test_a_killed_run_is_finished_by_the_next(host, site, moment):
    """The controller and everything that it started on the node die at once."""
    stack = steps(host)[0][0]
    command = site.command(stack)
    run = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    deadline = time.monotonic() + 900
    while host.run("grep -qsx %s /proc/[0-9]*/comm" % moment).rc != 0 and time.monotonic() < deadline and run.poll() is None:
        time.sleep(0.2)
    assert run.poll() is None, "it ended before it could be killed"
    os.killpg(run.pid, signal.SIGKILL)
    # The node image has no pkill.
    host.run("for name in python3 apt-get dpkg dpkg-deb dkms make cc1; do grep -lsx $name /proc/[0-9]*/comm; done"
             " | cut -d/ -f3 | xargs -r kill -KILL")
    status, output = site(stack=stack)
    assert status == 0, output
    assert driver_of(host) == steps(host)[0][1]
    assert host.run("dpkg --audit").stdout == "" and not host.file("/etc/dkms/no-autoinstall").exists
    assert site(stack=FIRST[host.backend.host])[0] == 0
