# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The dnf backend of pinned_packages; pinning.py says what a backend has. A version lock is hold and pin in one.

Locks are written before the transaction, so that a killed run leaves nothing free to move.
"""
from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time

from ansible_collections.lockstep.gpu.plugins.module_utils import closure, dnf_python, keeping_dnf, parse_dnf, parse_rpm, versionlocks, versions_rpm
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import PackageError, Refused, read_text, set_file, write_atomically
from ansible_collections.lockstep.gpu.plugins.module_utils.dnf import System, Words, version_of
from ansible_collections.lockstep.gpu.plugins.module_utils.resolving_dnf import PLUGIN, doubles, open_dnf, resolve, restrict, wanted_streams

SYSTEM = System()
SOURCES_FILE, PINS_FILE = versionlocks.OWN_REPOSITORIES, versionlocks.LOCKS_FILE
PIN_ACTION = "dnf_versionlock"
KEY_FORM = "armoured"
JOURNAL = versionlocks.JOURNAL
RPM_LOCKS = ("/usr/lib/sysimage/rpm/.rpm.lock", "/var/lib/rpm/.rpm.lock")
compare = versions_rpm.compare
prepare = dnf_python.ensure


# -- what is there ---------------------------------------------------------------------------------


def wait_for_lock(seconds=600):
    """Wait while another process installs: what is read in the meantime would be half a truth. Gives up silently."""
    deadline = time.monotonic() + seconds
    for path in map(SYSTEM.path, RPM_LOCKS):
        while os.path.exists(path) and time.monotonic() < deadline:
            with open(path, "r+b") as handle:
                try:
                    fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    time.sleep(2)


def lock_text():
    """The text of the version lock file, "" without one."""
    return read_text(SYSTEM.path(PINS_FILE)) or ""


def state(run):
    """({key: package} of everything that is there, {key: remedy} of installed packages that others lock or exclude).

    A package that is there in two versions though only one can be, or that a killed transaction of ours had begun with, has a
    status of its own, and is not installed.
    """
    rooted = [] if SYSTEM.root == "/" else ["--root", SYSTEM.root]
    text = run(["rpm", *rooted, "-qa", "--qf", parse_rpm.RPM_FORMAT]).out
    packages = parse_rpm.packages(parse_rpm.parse_rpm_list(text).value["rows"], chosen=lambda name: True)
    begun = journal()
    for name in parse_rpm.duplicates(packages):
        packages[name]["status"] = "duplicate"
    for key, version in begun.items():
        if key in packages and version in closure.versions_of(packages[key]):
            packages[key]["status"] = "interrupted"
    for name in versionlocks.held(packages, parse_dnf.parse_dnf_versionlock(lock_text()).value or []):
        packages[name]["hold"] = True
    theirs = versionlocks.remedies(packages, versionlocks.foreign(lock_text()), PINS_FILE)
    return packages, theirs


def pins_now():
    """{key: version} of our own exact locks."""
    return versionlocks.own_pins(lock_text())


def pin_text_now():
    """Our block of the version lock file, "" without one."""
    return versionlocks.own_block(lock_text())


def pin_text(slices, pins):
    """What our block has to be."""
    return versionlocks.render(slices, pins, lock_text())


def streams_now():
    """{module: stream} of what is enabled by the node's own files."""
    folder = SYSTEM.path("/etc/dnf/modules.d")
    texts = [read_text(os.path.join(folder, name)) or "" for name in sorted(os.listdir(folder)) if name.endswith(".module")] if os.path.isdir(folder) else []
    found = parse_dnf.parse_dnf_module_states("\n".join(texts)).value or {}
    return {name: row["enabled"] for name, row in found.items() if row["enabled"]}


def settings_due(_run, slices):
    """The module streams that are not enabled yet: [{action, target, before, after}]."""
    now, rows = streams_now(), []
    for spec in wanted_streams(slices):
        name, _colon, stream = spec.partition(":")
        old = now.get(name)
        if old and old != stream:
            rows.append({"action": "module_reset", "target": "%s:%s" % (name, old), "before": "enabled\n", "after": ""})
        if old != stream:
            rows.append({"action": "module_enable", "target": spec, "before": "", "after": "enabled\n"})
    return rows


def journal():
    """{key: version} that a failed or killed transaction of ours was about to install."""
    return versionlocks.parse_journal(read_text(SYSTEM.path(JOURNAL)) or "")


# -- resolve ---------------------------------------------------------------------------------------


def resolve_aside(_run, slices, settings, packages, own_pins, theirs):
    """The joint closure, from a private copy of dnf's settings and caches: reads the repositories, changes nothing on the node."""
    Words().listen()
    folder = tempfile.mkdtemp(prefix="lockstep-dnf-")
    try:
        ask, limits = open_dnf(SYSTEM, slices, versionlocks.foreign(lock_text()),
                               {"folder": folder, "sources": settings["sources"], "own": SOURCES_FILE, "keys": settings["keys"]})
        try:
            return resolve(ask, limits, SYSTEM, slices, packages, own_pins, theirs, journal())
        finally:
            ask.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -- act -------------------------------------------------------------------------------------------


def finish(_run, _packages, _slices):
    """What an interrupted run left is mended by install(), in the same transaction: alone it may have no solution."""


def write_settings(settings):
    """Our repositories' keys and file."""
    for key in settings["keys"]:
        # Armoured keys are ASCII.
        set_file(SYSTEM.path(key["path"]), key["content"].decode("ascii", "replace"))
    set_file(SYSTEM.path(SOURCES_FILE), settings["sources"])


def write_locks(text):
    """The whole version lock file. It is never removed: dnf's plugin fails without it."""
    if text != read_text(SYSTEM.path(PINS_FILE)):
        write_atomically(SYSTEM.path(PINS_FILE), text)


def install(_run, slices, settings, wanted, pins):
    """Bring wanted onto the node (see pinning.py) with streams and locks; nothing outside it may change.

    What a killed transaction left is mended by the way: packages that are there twice lose the wrong one, and those whose scripts
    may not have run are installed once more. Raises Refused (before a change of packages) or PackageError.
    """
    Words().listen()
    write_settings(settings)
    ask, dummy = open_dnf(SYSTEM, slices, versionlocks.foreign(lock_text()))
    try:
        begun = journal()
        restrict(ask, slices, wanted["all"], wanted["removable"])
        asks = dict(wanted["ask"], **{name: version for name, version in wanted["all"].items() if name == PLUGIN and name not in ask.installed()})
        there = {key: {version_of(package) for package in found} for key, found in ask.installed().items()}
        again = {key: version for key, version in begun.items() if version in there.get(key, ()) and wanted["all"].get(key, version) == version}
        asks = {key: version for key, version in asks.items() if key not in again}
        more = {"again": sorted(again.items()), "double": doubles(ask, slices, wanted["all"], begun)}
        try:
            outcome = ask.simulate(asks, wanted["removed"], **more)
        except PackageError as error:
            raise Refused([{"code": "transaction_leaves_lock", "name": "dnf", "message": str(error)}]) from error
        problems = transgressions(outcome, wanted, again)
        if problems:
            raise Refused(problems)

        def before():
            # A killed run leaves locks that say what is wanted, and a list of what may be half there.
            write_locks(versionlocks.put_block(lock_text(), pin_text(slices, pins)))
            coming = {key: version_of(package) for key, package in outcome.installs.items()}
            write_atomically(SYSTEM.path(JOURNAL), "".join("%s=%s\n" % item for item in sorted(dict(begun, **coming).items())))

        ask.act(ask.goal(asks, wanted["removed"], **more), outcome, list(more["double"]), before)
        os.unlink(SYSTEM.path(JOURNAL))
    finally:
        ask.close()


def transgressions(outcome, wanted, again):
    """What a transaction would do beside the closure: [{code, name, message}]."""
    found = [{"code": "transaction_leaves_lock", "name": key, "message": "%s=%s is not part of the resolved closure (%s); did a repository move? run again"
              % (key, version_of(package), wanted["all"].get(key))}
             for key, package in sorted(outcome.installs.items()) if version_of(package) != wanted["all"].get(key, again.get(key))]
    return found + [{"code": "transaction_leaves_lock", "name": key, "message": "%s would be removed" % key}
                    for key in sorted(set(outcome.removed) - set(wanted["removable"]))]


def settle(_run, slices, settings, pins):
    """Write files, streams and locks of a stack whose packages are all there; mend what a killed run left of others."""
    if journal():
        install(_run, slices, settings, {"ask": {}, "all": {}, "removed": [], "removable": []}, pins)
        return
    write_settings(settings)
    if settings_due(_run, slices):
        ask, dummy = open_dnf(SYSTEM, slices, [])
        ask.save_streams()
        ask.close()
    write_locks(versionlocks.put_block(lock_text(), pin_text(slices, pins)))


def fetch(_run, store, wanted):
    """Put the files of packages into a store."""
    return keeping_dnf.fetch(SYSTEM, store, wanted)


def hold(_run, _names):
    """A version lock is the hold."""
