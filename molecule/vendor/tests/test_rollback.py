# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the stack to another patch level and back by the node's receipts: dpkg, rpm, DKMS and modinfo say that it is what it was."""

from __future__ import annotations

import json
import re

import expected
import pytest


def seen(node):
    """What the node's own tools say: packages, holds or locks, our files, modules."""
    files = "/etc/dnf/plugins/versionlock.list" if node.rpm else "/etc/apt/preferences.d/lockstep-gpu.pref"
    sources = "/etc/yum.repos.d/lockstep-gpu.repo" if node.rpm else "/etc/apt/sources.list.d/lockstep-gpu.sources"
    return {"packages": node.packages(), "locked": sorted(node.locked()), "dkms": sorted(node.output("dkms status").splitlines()),
            "module": node.module(node.kernel()), "library": node.loaded_library(), "pins": node.output("cat " + files),
            "sources": node.output("cat " + sources), "policy": node.output("cat /etc/modprobe.d/lockstep-gpu.conf")}


def receipts(node):
    """The node's receipts, the oldest first."""
    names = sorted(node.output("ls /var/lib/lockstep-gpu/receipts").split())
    return sorted((json.loads(node.output("cat /var/lib/lockstep-gpu/receipts/" + name)) for name in names), key=lambda row: row["id"])


def back(node, *arguments, **variables):
    status, output = node.play("rollback.yml", *arguments, **variables)
    assert status == 0, output
    return output


def test_back_and_forth_without_the_repository(changed, want):
    node = changed
    status, output = node.site()
    assert status == 0, output
    first = seen(node)
    status, output = node.site(expected.stack(want["stack"], want["patch_level"]))
    assert status == 0, output
    second, written = seen(node), receipts(node)
    assert second["module"] == want["patch_level"] and written[-1]["status"] == "done" and written[-1]["not_kept"] == []
    # A check changes nothing, and says what would be done.
    output = back(node, "--check", "--diff")
    assert seen(node) == second and "=%s" % want["driver"] in re.sub(r"=\d+:", "=", output) and receipts(node) == written
    # The repository gives the old version up; what was replaced lies on the node.
    node.offer("rollback", *["--without=%s=.*=.*%s.*" % (name, want["driver"]) for name in want["vendor"]], repositories=want["vendor"])
    back(node)
    assert seen(node) == first and node.report()["verdict"] == "in_sync"
    node.links("today", want["vendor"])
    back(node)
    assert seen(node) == second
    assert [row["kind"] for row in receipts(node)][-3:] == ["site", "rollback", "rollback"]


# What it shows beside this, tests/resolver/test_rollback.py shows in CI with the package managers alone.
@pytest.mark.many
def test_a_killed_run_is_named_and_a_rollback_that_cannot_be_is_refused(changed, want):
    node = changed
    first = seen(node)
    status, output = node.site(expected.stack(want["stack"], want["patch_level"]))
    assert status == 0, output
    # As if the run had been killed before its end: its receipt is open.
    name = receipts(node)[-1]["id"]
    path = "/var/lib/lockstep-gpu/receipts/%s.json" % name
    node.output("sed -i 's/\"status\": \"done\"/\"status\": \"open\"/' " + path)
    second = seen(node)
    node.output("mv /var/lib/lockstep-gpu/packages /var/lib/lockstep-gpu/elsewhere")
    node.offer("rollback", *["--without=%s=.*=.*%s.*" % (vendor, want["driver"]) for vendor in want["vendor"]], repositories=want["vendor"])
    status, output = node.play("rollback.yml")
    assert status != 0 and "rollback_not_possible" in node.codes(), output
    assert seen(node) == second and receipts(node)[-1]["status"] == "open"
    node.output("mv /var/lib/lockstep-gpu/elsewhere /var/lib/lockstep-gpu/packages")
    back(node)
    assert seen(node) == first
    assert [row["status"] for row in receipts(node) if row["id"] == name] == ["interrupted"]
