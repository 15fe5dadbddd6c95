# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The apt backend of pinned_packages: resolve -> simulate -> compare -> apply -> read back.

It asks apt (apt.py), lets closure.py judge, and acts. A backend is a module that has the following; the words slice,
packages, row are closure.py's, Refused and PackageError are acting.py's, run is a Runner.

Constants
- ``SOURCES_FILE``: path of the collection's own repositories file. ``PINS_FILE``: path of the file that our pins are in.
- ``PIN_ACTION``: what a report calls a pin (plugin_utils/actions.py). ``KEY_FORM``: "binary" or "armoured", how a
  repository's key lies on the node.
- ``compare(left, right)``: the order of versions, -1, 0, 1.

Functions
- ``prepare(module)``: before anything else; a place to start over under another interpreter, or to fail.
- ``wait_for_lock()``: wait, with a limit, while somebody else installs.
- ``state(run) -> (packages, theirs)``: the installed packages as in node_facts' table, with ``hold``; and
  ``{name: remedy}`` of names that somebody else holds, locks or excludes, also of names that are not installed; the
  remedy says what to do, with file and line where there are.
- ``pins_now() -> {name: version}`` of our own pins; ``pin_text_now() -> text`` of our part of PINS_FILE, "" without one.
- ``pin_text(slices, pins) -> text``: what that part has to be for these exact pins, and the slices' guard and away.
- ``settings_due(run, slices) -> [{action, target, before, after}]``: what else has to be set on the node (module streams).
- ``resolve_aside(run, slices, settings, packages, own_pins, theirs) -> {closure, removed, targets}``: the joint closure,
  from the archives, with nothing changed on the node. settings: ``{sources: text of SOURCES_FILE, keys: rows of
  repository_keys.load()}``. closure: rows as closure.close() and closure.place() make them. Raises
  Refused with every problem found.
- ``finish(run, packages, slices)``: what an interrupted run left; must not raise for the package manager's failures.
- ``install(run, slices, settings, wanted, pins)``: write settings and pins, then make wanted true. wanted: ``{ask: {name:
  version} to name, all: {name: version} that may come, removed: [names to remove], removable: [names that may go]}``.
  Anything else in the transaction raises Refused, and the pins are put back.
- ``settle(run, slices, settings, pins)``: the same where no package changes.
- ``hold(run, names)``: hold installed packages; nothing to do where pins are holds.
- ``fetch(run, store, wanted) -> [{name, version, reason}]``: put the files of packages {name: version} into a store of keeping.py, from the node's
  caches or its archives; what nobody has is returned.
"""
from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import time

from ansible_collections.lockstep.gpu.plugins.module_utils import apt, apt_pins, closure, keeping_apt, repository_keys, resolving, versions
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import Refused, read_text, set_file, write_atomically
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt import OWN_PREFERENCES, OWN_SOURCES, parse_own_pins
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_dpkg import (
    DPKG_FORMAT, holds, native_arch, parse_dpkg_list, parse_rows)

SOURCES_FILE, PINS_FILE = OWN_SOURCES, OWN_PREFERENCES
PIN_ACTION = "add_apt_pin"
KEY_FORM = "binary"
DPKG_LOCK = "/var/lib/dpkg/lock-frontend"
compare = versions.compare


def prepare(_module):
    """apt needs nothing but its commands."""


def state(run):
    """({name: package} of everything that is there, {name: remedy} of what somebody else holds, there or not)."""
    text = run(["dpkg-query", "-W", "-f", DPKG_FORMAT, "*"]).out
    rows = parse_rows(text).value
    # dpkg does not say who set a hold; what our pins name is ours.
    own = pins_now()
    theirs = {name: "run 'apt-mark unhold %s'" % name for name in holds(rows, native_arch(rows)) or [] if name not in own}
    return parse_dpkg_list(text), theirs


def pins_now():
    """{name: version} of our own pin file."""
    return parse_own_pins(pin_text_now())


def pin_text_now():
    """Our pin file's text, "" when there is none."""
    return read_text(PINS_FILE) or ""


def pin_text(slices, pins):
    """What our pin file has to be."""
    return apt_pins.render(slices, pins, pin_text_now())


def settings_due(_run, _slices):
    """Nothing beside files."""
    return []


def resolve_aside(run, slices, settings, packages, own_pins, theirs):
    """resolve() in a private copy of apt's lists and settings: reads the archives, changes nothing on the node."""
    folder = tempfile.mkdtemp(prefix="lockstep-apt-")
    try:
        sources = repository_keys.aside(settings["sources"], settings["keys"], os.path.join(folder, "keys"))
        ask = apt.Apt(run, apt.overlay(folder, sources), os.path.join(folder, "preferences.d"))
        ask.update()
        return resolving.resolve(ask, slices, packages, own_pins, theirs)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def finish(run, packages, slices):
    """What an interrupted dpkg left: configure what is unpacked, unpack again what is torn. Never raises for dpkg."""
    apt.patiently(run, ["dpkg", "--configure", "-a", "--force-confdef", "--force-confold"])
    torn = ["%s=%s" % (name, package["version"]) for name, package in sorted(packages.items())
            if package.get("status") in ("half-installed", "reinstall-required")
            and closure.owner(slices, name, package.get("source"))]
    if torn:
        apt.Apt(run).act(["--reinstall", *torn])


def wait_for_lock(path=DPKG_LOCK, seconds=600):
    """Wait while another process installs: what is read in the meantime would be half a truth. Gives up silently."""
    deadline = time.monotonic() + seconds
    while os.path.exists(path) and time.monotonic() < deadline:
        with open(path, "r+b") as handle:
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                time.sleep(2)


def settle(_run, slices, settings, pins):
    """Write the files of a stack whose packages are all there."""
    repository_keys.place(settings["keys"])
    set_file(SOURCES_FILE, settings["sources"])
    set_file(PINS_FILE, pin_text(slices, pins))


def install(run, slices, settings, wanted, pins):
    """Bring wanted onto the node (see above); nothing outside it may change.

    Raises Refused (before a change of packages) or apt.AptError.
    """
    ask = apt.Apt(run)
    repository_keys.place(settings["keys"])
    sources_changed = set_file(SOURCES_FILE, settings["sources"])
    before = read_text(PINS_FILE)
    write_atomically(PINS_FILE, pin_text(slices, pins))
    arguments = ["%s=%s" % item for item in sorted(wanted["ask"].items())] + ["%s-" % name for name in wanted["removed"]]
    try:
        if sources_changed:
            ask.update()
        problems = transgressions(ask, arguments, wanted)
        if problems and not sources_changed:
            # The node's lists may be older than what the closure was resolved from.
            ask.update()
            problems = transgressions(ask, arguments, wanted)
        if problems:
            raise Refused(problems)
    except Exception:
        # Nothing was installed: the pins go back to what they said.
        set_file(PINS_FILE, before)
        raise
    ask.act(arguments)


def transgressions(ask, arguments, wanted):
    """What a transaction would do beside the closure, by simulating it: [{code, name, message}]."""
    try:
        installs, leaving = ask.simulate(arguments)
    except apt.AptError as error:
        return [{"code": "transaction_leaves_lock", "name": "apt", "message": str(error)}]
    found = [{"code": "transaction_leaves_lock", "name": name,
              "message": "%s=%s is not part of the resolved closure (%s); did the archive move? run again"
              % (name, row["version"], wanted["all"].get(name))}
             for name, row in sorted(installs.items()) if wanted["all"].get(name) != row["version"]]
    return found + [{"code": "transaction_leaves_lock", "name": name, "message": "%s would be removed" % name}
                    for name in sorted(set(leaving) - set(wanted["removable"]))]


def fetch(run, store, wanted):
    """Put the files of packages into a store."""
    return keeping_apt.fetch(run, store, wanted)


def hold(run, names):
    """Hold packages through dpkg's own selections (what apt-mark showhold reads)."""
    if names:
        result = apt.patiently(run, ["dpkg", "--set-selections"], stdin="".join("%s hold\n" % name for name in sorted(names)))
        if result.rc != 0:
            raise apt.AptError("holds cannot be set: " + apt.missing_words(result.err + result.out))
