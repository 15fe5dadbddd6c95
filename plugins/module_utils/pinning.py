# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""resolve -> simulate -> compare -> apply -> read back, for apt.

The engine of the pinned_packages module: it asks apt (apt.py), lets closure.py judge, and acts.
"""
from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
import time

from ansible_collections.lockstep.gpu.plugins.module_utils import apt, closure
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_alternatives import parse_alternatives
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt import OWN_PREFERENCES, OWN_SOURCES, parse_own_pins
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_dpkg import (
    DPKG_FORMAT, holds, native_arch, parse_dpkg_list, parse_rows)

DKMS_GUARD = "/etc/dkms/no-autoinstall"
GUARD_TEXT = ("# Written by lockstep.gpu for the length of a package transaction: modules are built explicitly,\n"
              "# for the stack's kernel. If no run is going on, the next run removes this file.\n")
DPKG_LOCK = "/var/lib/dpkg/lock-frontend"
MIB = 1 << 20


class Refused(Exception):
    """The transaction must not run. problems: [{code, name, message, available?}]."""

    def __init__(self, problems):
        super().__init__("; ".join(problem["message"] for problem in problems))
        self.problems = problems


def read_text(path):
    """A file's text, None when it is not there."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except FileNotFoundError:
        return None


def write_atomically(path, text):
    """Replace a file's content in one step, so that a killed run leaves the old or the new one."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".lockstep-")
    with os.fdopen(handle, "w", encoding="utf-8") as out:
        out.write(text)
        out.flush()
        os.fsync(out.fileno())
    os.chmod(temporary, 0o644)
    os.rename(temporary, path)


def dpkg_now(run):
    """({name: package} of everything that is there, {names that are held}, also of packages that are not)."""
    text = run(["dpkg-query", "-W", "-f", DPKG_FORMAT, "*"]).out
    rows = parse_rows(text).value
    return parse_dpkg_list(text), set(holds(rows, native_arch(rows)) or [])


def alternatives_now(run, names):
    """{name: {mode, value, choices}} of the alternatives that exist."""
    found = {}
    for name in names:
        result = run(["update-alternatives", "--query", name], ok=(0, 2))
        if result.rc == 0:
            found[name] = parse_alternatives(result.out) or {}
    return found


# -- resolve ---------------------------------------------------------------------------------------


def targets_of(slices, packages, available, own_pins):
    """({name: version} to ask for by name, [problems]); nothing is guessed: what does not exist is a problem.

    One problem for each component: a version that is not there is mostly missing for all its packages.
    """
    targets, problems = {}, []
    for part in slices:
        missing = []
        for request in part["requests"]:
            package = packages.get(request["name"])
            # A build from elsewhere is not what the stack means, whatever its version says.
            ours = package is None or closure.owner(slices, package.get("source")) == part["name"]
            version = closure.wanted_version(
                request, available.get(request["name"], []), closure.version_of(package) if ours else None,
                own_pins.get(request["name"]))
            if version:
                targets[request["name"]] = version
            else:
                missing.append(request["name"])
        if missing:
            problems.append({
                "code": "locked_version_gone_from_archive", "component": part["name"], "name": missing[0],
                "available": ["%s=%s" % (name, version) for name in missing for version in available.get(name, [])],
                "message": "stack key '%s': this node's archives do not have %s as %s" % (
                    part["name"], part.get("version"), ", ".join(missing))})
    return targets, problems


def companions_of(slices, packages, available, own_pins):
    """({name: version}, [names to remove]) for installed managed packages that nobody asked for by name.

    They follow the stack's version; what was agreed on before (the own pin) is restored; and what exists at no
    fitting version has to go.
    """
    targets, gone = {}, []
    asked = {request["name"] for part in slices for request in part["requests"]}
    for part in slices:
        moving = set(closure.followers(part, packages))
        for name, package in packages.items():
            if name in asked or not closure.is_installed(package):
                continue
            if closure.owner(slices, package.get("source")) != part["name"]:
                continue
            pin, known = own_pins.get(name), available.get(name, [])
            versioned = closure.matches_any(part.get("one_version"), package.get("source"))
            pattern = part["pattern"] if versioned else ".*"
            if name in moving or (pin and pin != package["version"] and re.fullmatch(pattern, pin)):
                version = closure.wanted_version({"version": pattern}, known, None, pin if pin in known else None)
                if version:
                    targets[name] = version
                elif name in moving:
                    gone.append(name)
    return targets, gone


def removable(ask, candidates):
    """Those candidates that can go without taking anything else along; apt is asked, not guessed."""
    if not candidates:
        return []
    limit = set(candidates)

    def goes_alone(names):
        try:
            installs, removed = ask.simulate(sorted(names), verb="remove")
        except apt.AptError:
            return False
        return not installs and set(removed) <= limit

    if goes_alone(candidates):
        return sorted(candidates)
    # What another candidate needs can go once that one goes, so go round until nothing more is found.
    chosen, growing = [], True
    while growing:
        growing = False
        for name in candidates:
            if name not in chosen and goes_alone([*chosen, name]):
                chosen.append(name)
                growing = True
    return sorted(chosen)


def similar(ask, name):
    """What the archives have instead of a name they do not know: the same name with other digits."""
    match = re.match(r"(\D+)\d.*?(-[a-z][\w-]*)?$", name)
    if not match:
        return []
    tail = match.group(2) or ""
    names = [other for other in ask.names_like(match.group(1))
             if other.endswith(tail) and re.fullmatch(re.escape(match.group(1)) + r"[\d.+~a-z-]*?\d[^-]*" + re.escape(tail), other)]
    found = ask.versions(names)
    return ["%s=%s" % (other, version) for other in sorted(found) for version in found[other]][:12]


def check_space(rows, metadata):
    """A problem when the transaction would not fit: archives below /var, unpacked files below /usr."""
    changing = [row for row in rows if row["change"] != "keep"]
    archives = sum(row["size"] or 0 for row in changing)
    unpacked = 1024 * sum(metadata.get(row["name"], {}).get("installed_kib", 0) for row in changing)
    needs = {}
    for path, size in (("/var/cache/apt/archives", archives), ("/usr", unpacked)):
        existing = path if os.path.isdir(path) else "/"
        status = os.statvfs(existing)
        key = os.stat(existing).st_dev
        need, free, names = needs.get(key, (0, status.f_bavail * status.f_frsize, []))
        needs[key] = (need + size, free, names + [path])
    return [{"code": "space_low", "name": " and ".join(names),
             "message": "%s: %d MiB needed, %d MiB free" % (" and ".join(names), need // MIB, free // MIB)}
            for need, free, names in needs.values() if need > free]


def stages(ask, slices, packages, targets, leaving):
    """Simulate the whole stack, and each slice with those before it: (installs, removed, [(slice, {name: row})])."""
    owners = {request["name"]: part["name"] for part in slices for request in part["requests"]}
    arrivals, done = [], set()
    for part in slices:
        done.add(part["name"])
        whole = part is slices[-1]

        def mine(name):
            return whole or (owners.get(name) or closure.owner(slices, packages[name].get("source"))) in done

        try:
            installs, removed = ask.simulate(
                ["%s=%s" % item for item in sorted(targets.items()) if mine(item[0])]
                + ["%s-" % name for name in leaving if mine(name)])
        except apt.AptError as error:
            raise Refused([{"code": "transaction_leaves_lock", "name": part["name"],
                            "message": "apt finds no way to install exactly this stack's %s:\n%s" % (part["name"], error),
                            }]) from error
        arrivals.append((part["name"], installs))
    return installs, removed, arrivals


def resolve(ask, slices, packages, own_pins, held=()):
    """The joint closure of all slices: {closure, removed, targets}. Raises Refused with every problem found."""
    managed = [name for name, package in packages.items() if closure.owner(slices, package.get("source"))]
    asked = [request["name"] for part in slices for request in part["requests"]]
    available = ask.versions(set(managed) | set(asked))
    targets, problems = targets_of(slices, packages, available, own_pins)
    for problem in problems:
        if not problem["available"]:
            problem["available"] = similar(ask, problem["name"])
        problem["message"] += "; they have: %s" % (", ".join(problem["available"]) or "no such package")
    if problems:
        raise Refused(problems)
    ask.prefer(closure.source_pins(slices, targets))
    follow, gone = companions_of(slices, packages, available, own_pins)
    candidates = set(gone)
    for part in slices:
        candidates |= set(closure.leftovers(part, packages))
    candidates -= set(targets)
    leaving = removable(ask, sorted(candidates))
    targets.update({name: version for name, version in follow.items() if name not in leaving})
    installs, removed, arrivals = stages(ask, slices, packages, targets, leaving)
    metadata = ask.show({name: row["version"] for name, row in installs.items()})
    for name, row in installs.items():
        metadata.setdefault(name, {})["origin"] = row["origin"]
    after = {name: package for name, package in packages.items() if name not in removed}
    rows = closure.close(slices, after, {name: row["version"] for name, row in installs.items()}, metadata)
    rows = closure.place(rows, slices, arrivals)
    problems = closure.objections(slices, packages, rows, removed, candidates, own_pins, held) + check_space(rows, metadata)
    if problems:
        raise Refused(problems)
    return {"closure": rows, "removed": sorted(removed), "targets": targets}


def resolve_aside(run, slices, own_sources, packages, own_pins, held):
    """resolve() in a private copy of apt's lists and settings: reads the archives, changes nothing on the node."""
    folder = tempfile.mkdtemp(prefix="lockstep-apt-")
    try:
        ask = apt.Apt(run, apt.overlay(folder, own_sources), os.path.join(folder, "preferences.d"))
        ask.update()
        return resolve(ask, slices, packages, own_pins, held)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# -- act -------------------------------------------------------------------------------------------


class DkmsGuard:
    """While it is held, neither maintainer scripts nor kernel hooks build modules (DKMS reads the file).

    A guard that a killed run left behind is taken over and removed; somebody else's file is left alone.
    """

    def __init__(self, path=DKMS_GUARD):
        self._path = path

    def ours(self):
        """True when the file is there and was written by this collection."""
        return "lockstep.gpu" in (read_text(self._path) or "")

    def __enter__(self):
        if read_text(self._path) is None:
            write_atomically(self._path, GUARD_TEXT)
        return self

    def __exit__(self, *_details):
        if self.ours():
            os.unlink(self._path)
            if not os.listdir(os.path.dirname(self._path)):
                os.rmdir(os.path.dirname(self._path))
        return False


def finish(run, packages, slices):
    """What an interrupted dpkg left: configure what is unpacked, unpack again what is torn. Never raises for dpkg."""
    apt.patiently(run, ["dpkg", "--configure", "-a", "--force-confdef", "--force-confold"])
    torn = ["%s=%s" % (name, package["version"]) for name, package in sorted(packages.items())
            if package.get("status") in ("half-installed", "reinstall-required")
            and closure.owner(slices, package.get("source"))]
    if torn:
        apt.Apt(run).act(["--reinstall", *torn])


def wait_for_dpkg(path=DPKG_LOCK, seconds=600):
    """Wait while another process installs: what is read in the meantime would be half a truth. Gives up silently."""
    deadline = time.monotonic() + seconds
    while os.path.exists(path) and time.monotonic() < deadline:
        with open(path, "r+b") as handle:
            try:
                fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError:
                time.sleep(2)


def wait_for_first_boot(run):
    """cloud-init installs packages too; wait until it is done (its own failures are not ours to judge)."""
    if os.path.isdir("/run/cloud-init") and shutil.which("cloud-init"):
        run(["cloud-init", "status", "--wait"], ok=None)


def install(run, wanted, removed, own_sources, pins):
    """Bring wanted ({name: version}) onto the node and remove what must go; nothing outside wanted may change.

    Raises Refused (before a change of packages) or apt.AptError. wanted maps every row of the joint closure.
    """
    ask = apt.Apt(run)
    sources_changed = set_file(OWN_SOURCES, own_sources)
    before = read_text(OWN_PREFERENCES)
    write_atomically(OWN_PREFERENCES, closure.render_pins(pins))
    arguments = ["%s=%s" % item for item in sorted(wanted["ask"].items())] + ["%s-" % name for name in removed]
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
        set_file(OWN_PREFERENCES, before)
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


def set_file(path, text):
    """Write text (None or empty: remove the file) when it differs; True when it did."""
    now = read_text(path)
    if not text:
        if now is not None:
            os.unlink(path)
        return now is not None
    if now != text:
        write_atomically(path, text)
    return now != text


def hold(run, names):
    """Hold packages through dpkg's own selections (what apt-mark showhold reads)."""
    if names:
        result = apt.patiently(run, ["dpkg", "--set-selections"], stdin="".join("%s hold\n" % name for name in sorted(names)))
        if result.rc != 0:
            raise apt.AptError("holds cannot be set: " + apt.missing_words(result.err + result.out))


def read_pins():
    """{name: version} of our own pin file."""
    return parse_own_pins(read_text(OWN_PREFERENCES) or "")
