# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A converged node against upgrades, hands and bad input."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess

import pytest

ROOT = pathlib.Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
MANAGED = {"lockstep-debian12": ("rdma-core", "44.0-2"), "lockstep-debian13": ("rdma-core", "56.1-1")}
STACKS = {"lockstep-debian12": "debian12-535", "lockstep-debian13": "debian13-550"}


def version(host, package):
    return host.run("dpkg-query -W -f '${Version}' %s" % package).stdout


def versions(host):
    return host.run("dpkg-query -W -f '${Package} ${Version} ${db:Status-Abbrev}\\n'").stdout


def changed(output):
    return re.findall(r"changed=(\d+)", output)


def run(*command, **environment):
    return subprocess.run(command, cwd=ROOT, env={**os.environ, **environment}, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.fixture
def managed(host):
    return MANAGED[host.backend.host]


def test_a_converged_run_costs_few_remote_calls(host, site, tmp_path):
    """Counted at the connection: commands executed and files put."""
    counts = tmp_path / "calls.json"
    status, output = site(LOCKSTEP_REMOTE_CALLS=str(counts), ANSIBLE_CALLBACKS_ENABLED="remote_calls",
                          ANSIBLE_CALLBACK_PLUGINS=str(ROOT / "tests/bench/plugins/callback"))
    assert status == 0 and set(changed(output)) == {"0"}, output
    calls = sum(json.loads(counts.read_text())[host.backend.host].values())
    assert 0 < calls <= 12
    assert len(re.findall(r"^TASK ", output, re.MULTILINE)) <= 60


def test_an_upgrade_of_everything_moves_only_the_bystander(host, managed):
    before = versions(host)
    held = set(host.run("apt-mark showhold").stdout.split())
    assert "Candidate: 99.0-1" not in host.run("apt-cache policy %s" % managed[0]).stdout
    done = host.run("DEBIAN_FRONTEND=noninteractive apt-get dist-upgrade -y -q")
    assert done.rc == 0, done.stderr
    moved = {line.split()[0] for line in set(versions(host).splitlines()) ^ set(before.splitlines())}
    # Other packages may have updates in the archive of the day; they are free to move too.
    assert "lockstep-bystander" in moved and not moved & held
    assert version(host, "lockstep-bystander") == "2.0-1" and version(host, managed[0]) == managed[1]


def test_a_forced_upgrade_is_drift_and_is_undone(host, site, managed):
    name, wanted = managed
    assert host.run("apt-get install -y -q --allow-change-held-packages --allow-downgrades %s=99.0-1" % name).rc == 0
    status, output = site("--check")
    assert status == 0 and site.report()["verdict"] == "drift", output
    assert {"action": "downgrade_exact", "target": "%s=%s" % (name, wanted)} in site.report()["plan"]
    assert version(host, name) == "99.0-1"
    status, output = site()
    assert status == 0, output
    assert version(host, name) == wanted
    assert name in host.run("apt-mark showhold").stdout.split()


def test_a_lost_hold_and_a_lost_pin_come_back(host, site, managed):
    name = managed[0]
    host.run("apt-mark unhold %s" % name)
    host.run("rm /etc/apt/preferences.d/lockstep-gpu.pref")
    status, output = site()
    assert status == 0, output
    assert name in host.run("apt-mark showhold").stdout.split()
    assert managed[1] in host.file("/etc/apt/preferences.d/lockstep-gpu.pref").content_string
    status, output = site()
    assert status == 0 and set(changed(output)) == {"0"}, output


def test_a_role_works_alone(host, tmp_path, managed):
    """Without a stack, with the role's own variables; on a node that has it already nothing changes."""
    role = {"role": "lockstep.gpu.ofed", "ofed_version": managed[1].split("-")[0]}
    play = tmp_path / "alone.yml"
    play.write_text(json.dumps([{"hosts": host.backend.host, "gather_facts": False, "roles": [role]}]))
    done = run("ansible-playbook", "-i", str(ROOT / "molecule/inventory.yml"), "-e", '{"lockstep_stack": null}', str(play))
    assert done.returncode == 0 and set(changed(done.stdout)) == {"0"}, done.stdout


def test_the_stripped_artifact_does_the_same(host):
    """The built collection with nothing but meta/, plugins/, roles/ and playbooks/, by its full name."""
    done = run(str(ROOT / "tools/artifact.sh"), NODE=host.backend.host, STACK=STACKS[host.backend.host])
    assert done.returncode == 0 and set(changed(done.stdout)) == {"0"}, done.stdout


def test_a_changed_alternative_is_drift_and_is_undone(host, site):
    host.run("update-alternatives --auto nvidia")
    assert site()[0] == 0
    assert "Status: manual" in host.run("update-alternatives --query nvidia").stdout


@pytest.mark.parametrize("state", ["ok unpacked", "ok half-configured", "reinstreq half-installed", "reinstreq installed"])
def test_what_dpkg_left_half_way_is_finished(host, site, state):
    """As after a power cut, by dpkg's own record."""
    host.run("sed -i '/^Package: ibverbs-utils$/,/^$/ s/^Status: .*/Status: hold %s/' /var/lib/dpkg/status" % state)
    assert host.run("dpkg --audit").stdout != ""
    status, output = site()
    assert status == 0, output
    assert host.run("dpkg --audit").stdout == ""
    status, output = site()
    assert status == 0 and set(changed(output)) == {"0"}, output


def test_lost_pins_alone_come_back(host, site, managed):
    host.run("sed -i 's/1001/1/' /etc/apt/preferences.d/lockstep-gpu.pref")
    status, output = site()
    assert status == 0, output
    assert "Pin-Priority: 1001" in host.file("/etc/apt/preferences.d/lockstep-gpu.pref").content_string


def test_a_guard_that_a_killed_run_left_is_removed(host, site):
    host.run("echo '# Written by lockstep.gpu' > /etc/dkms/no-autoinstall")
    assert site()[0] == 0
    assert not host.file("/etc/dkms/no-autoinstall").exists


def test_a_library_that_is_gone_is_broken_not_unproven(host, site):
    host.run("mv /usr/lib/x86_64-linux-gnu/libcuda.so.1 /root/")
    host.run("ldconfig")
    status, output = site()
    host.run("mv /root/libcuda.so.1 /usr/lib/x86_64-linux-gnu/")
    host.run("ldconfig")
    assert status != 0 and site.report()["verdict"] == "broken", output
    assert "driver_library_mismatch" in {row["code"] for row in site.report()["findings"]}
    assert site()[0] == 0


def test_the_hold_of_somebody_else_is_respected(host, site, managed):
    """A package that is held and not pinned by us, at another version: named, not touched."""
    name = managed[0]
    host.run("apt-get install -y -q --allow-change-held-packages --allow-downgrades %s=99.0-1" % name)
    host.run("apt-mark hold %s" % name)
    host.run("rm /etc/apt/preferences.d/lockstep-gpu.pref")
    status, output = site()
    assert status != 0 and site.report()["verdict"] == "blocked"
    assert "package_held_by_user" in {row["code"] for row in site.report()["findings"]}
    assert version(host, name) == "99.0-1"
    host.run("apt-mark unhold %s" % name)
    status, output = site()
    assert status == 0 and version(host, name) == managed[1], output


BAD = [
    ({"driver": {"version": "550.*"}}, "driver.version", "550.163.01"),
    ({"driver": {"version": "535"}}, "driver.version", "535"),
    ({"driver": {"version": "latest"}}, "driver.version", "550.163.01"),
    ({"cuda": {"versions": ["12.4"]}}, "cuda.versions", "12.4.1"),
    ({"kernel": {"release": "6.12.117+deb13-amd64"}}, "kernel.package_version", ""),
    ({"nccl": {}}, "nccl.version", ""),
    ({"nccl": ["2.22.3"]}, "nccl", ""),
    ({"modules": {"gdrdrv": "2.5"}}, "modules", "served are os"),
    ({"drivr": {"version": "550.163.01"}}, "drivr", "driver"),
]


@pytest.mark.parametrize("change, key, candidate", BAD, ids=[row[1] + "-" + str(place) for place, row in enumerate(BAD)])
def test_bad_input_is_one_error_before_any_change(host, site, change, key, candidate):
    before = versions(host)
    release = {"lockstep-debian12": "12", "lockstep-debian13": "13"}[host.backend.host]
    status, output = site(stack=dict({"os": {"id": "debian", "release": release, "arch": "x86_64"}}, **change))
    assert status != 0
    errors = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    assert len(errors) == 1 and "'%s" % key in errors[0] and candidate in errors[0], output
    assert versions(host) == before


def test_an_unknown_stack_names_those_that_exist(host, site):
    status, output = site(stack=STACKS[host.backend.host] + "x")
    assert status != 0
    errors = [line for line in output.splitlines() if line.startswith("[ERROR]")]
    assert len(errors) == 1 and "candidates: %s" % STACKS[host.backend.host] in errors[0], output


def test_a_typo_in_a_version_names_what_the_archive_has(host, site):
    before = versions(host)
    wanted = {"lockstep-debian12": ("12", "535.261.30", "535.261.03-1"), "lockstep-debian13": ("13", "550.163.10", "550.163.01-2")}
    release, typo, there = wanted[host.backend.host]
    status, output = site(stack={"os": {"id": "debian", "release": release, "arch": "x86_64"},
                                 "driver": {"version": typo, "flavour": "proprietary"}})
    assert status != 0 and site.report()["verdict"] == "blocked"
    finding = next(row for row in site.report()["findings"] if row["code"] == "locked_version_gone_from_archive")
    assert "'driver'" in finding["message"] and there in finding["message"], output
    assert versions(host) == before


def test_a_stack_of_another_release_is_refused(host, site):
    other = next(stack for node, stack in STACKS.items() if node != host.backend.host)
    status, dummy = site(stack=other)
    assert status != 0
    assert "os_differs" in {row["code"] for row in site.report()["findings"]}


def test_a_build_that_was_measured_decides(host, site):
    """550 open does not build on Debian 13's kernel: refused, with the evidence. 535 open builds on Debian 12's: it is not."""
    before = versions(host)
    if host.backend.host == "lockstep-debian13":
        status, dummy = site(stack="debian13-550-open")
        assert status != 0
        finding = next(row for row in site.report()["findings"] if row["code"] == "driver_fails_to_build_on_kernel")
        assert finding["severity"] == "error" and "pci_resize_resource" in finding["message"] and "measured" in finding["source"]
    else:
        status, output = site("--check", stack={
            "os": {"id": "debian", "release": "12", "arch": "x86_64"}, "driver": {"version": "535.261.03", "flavour": "open"},
            "kernel": {"release": "6.1.0-50-amd64", "package_version": "6.1.176-1"}})
        assert status == 0, output
        assert not {row["code"] for row in site.report()["findings"]} & {"driver_fails_to_build_on_kernel", "unproven"}
        steps = {(step["action"], step["target"]) for step in site.report()["plan"]}
        assert ("install_exact", "nvidia-open-kernel-dkms=535.261.03-1") in steps
        assert ("remove", "nvidia-kernel-dkms") in steps
    assert versions(host) == before
