# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The way back to the state before a receipt: plan, refuse, do, read back. Pure but for Restore; a session asks and acts.

A session (restoring_apt.py, restoring_dnf.py) has
- ``side_by_side() -> {names}`` of packages whose versions lie side by side.
- ``files(asks) -> ({name: path}, [names])``: the kept files, and those names that neither the store nor an archive has.
- ``simulate(change) -> ({name: version}, [removed])``; raises PackageError. change: of differences().
- ``act(change)``: do it, with settings and pins of the goal; raises Refused before a change of packages, or PackageError.
- ``finish()``: what has to follow a transaction: holds and marks.
- ``close()``.
"""
from __future__ import annotations

import os

from ansible_collections.lockstep.gpu.plugins.module_utils import acting, closure, keeping, modprobe_policy, node_snapshot, receipts
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import PackageError, Refused

CODE = "rollback_not_possible"


def problem(name, message):
    """A reason against a rollback."""
    return {"code": CODE, "name": name, "message": message}


def stem_of(kernel):
    """What a kernel's packages have of its release: without the flavour (Debian, in names), without the architecture (EL, in versions)."""
    if kernel.endswith((".x86_64", ".aarch64")):
        return kernel.rpartition(".")[0]
    return kernel.rpartition("-")[0] if kernel.count("-") > 1 else kernel


def of_running(name, version, running):
    """Whether a package is a part of the running kernel: its release is in the name (Debian), or is the version (EL)."""
    return stem_of(running) in name or (name.startswith("kernel") and running.startswith(version.rpartition(":")[2] + "."))


def differences(goal, now, running, side_by_side=()):
    """What leads from the packages that are there to those of a goal: {ask: {name: version}, remove: [names], soft: [names], surplus: {name: [versions]},
    left: [{name, reason}]}.

    goal: receipts.goal(); now: {name: versions}. What a product needed and brought goes where nothing else needs it (soft), and stays where it
    moved forward. The running kernel is never removed.
    """
    found = {"ask": {}, "remove": [], "soft": [], "surplus": {}, "left": []}
    managed = set(goal["managed"])

    def leave(name, reason):
        found["left"].append({"name": name, "reason": reason})

    for name in sorted(goal["packages"]):
        want, have = (goal["packages"][name] or "").split(), (now.get(name) or "").split()
        if set(want) == set(have):
            continue
        if running and any(of_running(name, version, running) for version in set(have) - set(want)):
            leave(name, "it belongs to the running kernel %s" % running)
            have = [version for version in have if not of_running(name, version, running)]
            if not want:
                continue
        if not want:
            found["remove" if name in managed else "soft"].append(name)
        elif not have:
            found["ask"][name] = want[0]
        elif name in side_by_side or len(want) > 1 or len(have) > 1:
            missing = [version for version in want if version not in have]
            found["ask"].update({name: version for version in missing[:1]})
            surplus = [version for version in have if version not in want]
            found["surplus"].update({name: surplus} if surplus else {})
        elif name in managed:
            found["ask"][name] = want[0]
        else:
            leave(name, "%s stays at %s: what the products merely need is not held" % (name, have[0]))
    return found


def settled(session, change):
    """The change with those of its soft names that can go without taking others along; the rest is left. Raises PackageError."""

    def works(soft):
        trial = dict(change, soft=soft)
        try:
            dummy, removed = session.simulate(trial)
        except PackageError:
            return False
        return set(removed) <= {*change["remove"], *soft}

    if not change["soft"] or works(change["soft"]):
        return change
    kept = []
    # One may be needed by another one that goes, so go round until nothing more is found.
    growing = True
    while growing:
        fitting = next((name for name in change["soft"] if name not in kept and works([*kept, name])), None)
        growing = fitting is not None
        kept += [fitting] if growing else []
    return dict(change, soft=kept, left=change["left"] + [
        {"name": name, "reason": "something else needs it by now"} for name in change["soft"] if name not in kept])


def transgressions(installs, removed, change):
    """What a simulated transaction would do beside the change: problems."""
    found = [problem(name, "%s=%s would come, which is no part of the state before (%s)" % (name, version, change["ask"].get(name) or "not named"))
             for name, version in sorted(installs.items()) if change["ask"].get(name) != version]
    found += [problem(name, "%s=%s would not come" % item) for item in sorted(change["ask"].items()) for name in item[:1] if name not in installs]
    return found + [problem(name, "%s would be removed, which was there before" % name)
                    for name in sorted(set(removed) - {*change["remove"], *change["soft"]})]


def kernel_problems(goal, change, root="/"):
    """Why the kernel that was the boot default could not be booted again; [] in a container."""
    kernel, found = goal["default"], []
    if not kernel:
        return found
    stem, coming = stem_of(kernel), " ".join(["%s-%s" % item for item in change["ask"].items()])
    if not any(os.path.exists(os.path.join(root, "boot", name + kernel)) for name in ("vmlinuz-", "vmlinux-")) and stem not in coming:
        found.append(problem(kernel, "the kernel %s, which was the boot default, is gone, and no package of it would come back" % kernel))
    builds = [row for row in goal["dkms"] if row["kernel"] == kernel]
    if builds and not os.path.exists(os.path.join(root, "lib/modules", kernel, "build")) and stem not in coming:
        found.append(problem(kernel, "%s cannot be built for %s: its headers are gone, and no package of them would come back" % (
            ", ".join("%(module)s/%(version)s" % row for row in builds), kernel)))
    return found


class Restore:
    """One way back. params: {receipt, moved, keep_mib}; open_session(run, goal, sources, store, aside) of the package manager."""

    def __init__(self, run, backend, params, open_session):
        self.run, self.backend, self.params, self._open = run, backend, params, open_session
        backend.wait_for_lock()
        self.known = receipts.load()
        # The rollback's own receipt, if it is open by now, is no part of what it undoes.
        own = receipts.still_open(self.known)
        if own and own["kind"] == "rollback" and own["undoes"] == params["receipt"]:
            self.known = [row for row in self.known if row is not own]
        self.undone = receipts.chosen(self.known, params["receipt"])
        self.goal = receipts.goal(self.undone)
        self.now = node_snapshot.take(run, backend)
        self.store = keeping.Store(limit=max(params["keep_mib"], 0) * acting.MIB)
        now = acting.read_text(backend.SOURCES_FILE) or ""
        self.sources, self.missing = receipts.filled(self.goal["files"].get(backend.SOURCES_FILE, ""), now)
        self.change = None

    def plan(self):
        """Find out what has to be done. Raises Refused with every reason, before anything changes."""
        problems = [problem(backwards, "the receipt is redacted, and the node no longer has %s: write it into %s" % (backwards, self.backend.SOURCES_FILE))
                    for backwards in self.missing]
        if self.goal["manager"] != self.now["manager"]:
            raise Refused([problem(self.undone[-1]["id"], "the receipt is of a node with %(manager)s" % self.goal)])
        if not self.params["moved"]:
            problems += [problem(row["name"], "%(name)s is %(found)s, the last receipt says %(expected)s: the node has moved on since" % dict(
                row, found=row["found"] or "absent", expected=row["expected"] or "absent")) for row in receipts.moved(
                    self.known[-1], self.now["packages"], self.goal["managed"])]
        try:
            session = self._open(self.run, self.goal, self.sources, self.store, True)
        except PackageError as error:
            raise Refused([*problems, problem(self.now["manager"], str(error))]) from error
        try:
            self.change = differences(self.goal, self.now["packages"], self.now["running"], session.side_by_side())
            dummy, lost = session.files(self.change["ask"])
            problems += [problem(name, "%s=%s is neither kept on this node nor in an archive" % (name, self.change["ask"][name])) for name in lost]
            problems += kernel_problems(self.goal, self.change)
            if problems:
                raise Refused(problems)
            self.change = settled(session, self.change)
            if any(self.change[key] for key in ("ask", "remove", "soft", "surplus")):
                try:
                    problems = transgressions(*session.simulate(self.change), self.change)
                except PackageError as error:
                    problems = [problem(self.now["manager"], "no transaction leads there:\n%s" % error)]
            if problems:
                raise Refused(problems)
        finally:
            session.close()

    # -- what is due

    def texts(self):
        """[(path, now, then)] of our files that differ."""
        then = dict(self.goal["files"], **{self.backend.SOURCES_FILE: self.sources})
        now = dict(self.now["files"])
        return [(path, now.get(path, ""), then.get(path, "")) for path in (self.backend.SOURCES_FILE, self.backend.PINS_FILE, modprobe_policy.FILE)
                if now.get(path, "") != then.get(path, "")]

    def holds(self):
        """{name: whether to hold it} of packages that are not held as they were."""
        right, names = set(self.goal["holds"]), {name for name, want in self.goal["packages"].items() if want}
        there = set(self.now["holds"])
        return {name: name in right for name in sorted(names) if (name in right) != (name in there) or name in self.change["ask"] and name in right}

    def alternatives(self):
        """{name: {mode, value}} of alternatives that are not as they were."""
        now = self.now["alternatives"]
        return {name: row for name, row in sorted(self.goal["alternatives"].items()) if now.get(name) != row}

    def builds(self):
        """The modules that DKMS has to build again."""
        moving = {row["module"] for row in self.goal["dkms"]} if self.change and (self.change["ask"] or self.change["remove"]) else set()
        return [row for row in self.goal["dkms"] if row not in self.now["dkms"] or row["module"] in moving]

    def actions(self):
        """What has to be done, in the report's words."""
        todo = [{"action": "configure_repository" if path == self.backend.SOURCES_FILE else "restore_file", "target": path}
                for path, _now, _then in self.texts()]
        todo += [{"action": "remove", "target": "%s=%s" % (name, self.now["packages"][name])} for name in [*self.change["remove"], *self.change["soft"]]]
        todo += [{"action": "remove", "target": "%s=%s" % (name, version)} for name, gone in self.change["surplus"].items() for version in gone]
        for name, version in self.change["ask"].items():
            old = None if name in self.change["surplus"] else self.now["packages"].get(name)
            word = closure.change_of(old and old.split()[0], version, self.backend.compare)
            todo.append({"action": closure.ACTIONS.get(word, "install_exact"), "target": "%s=%s" % (name, version)})
        todo += [{"action": "hold" if held else "unhold", "target": name} for name, held in self.holds().items()
                 if held != (name in self.now["holds"])]
        todo += [{"action": "set_alternative", "target": "%s=%s" % (name, row["value"])} for name, row in self.alternatives().items()]
        return todo + [{"action": "dkms_build_install", "target": "%(module)s/%(version)s@%(kernel)s" % row} for row in self.builds()
                       if row not in self.now["dkms"]]

    def diff(self):
        """Ansible's diff: packages, holds, files without secrets, modules."""
        names = {*self.change["ask"], *self.change["remove"], *self.change["soft"], *self.change["surplus"]}
        then = {name: (self.goal["packages"].get(name) or "") for name in names}
        holds = {name: held for name, held in self.holds().items() if held != (name in self.now["holds"])}
        parts = [("packages", _lines({name: self.now["packages"].get(name, "") for name in names}), _lines(then)),
                 ("holds", "".join("hold %s\n" % name for name, held in holds.items() if not held),
                  "".join("hold %s\n" % name for name, held in holds.items() if held))]
        parts += [(path, receipts.redacted(now), receipts.redacted(text)) for path, now, text in self.texts()]
        return [{"before_header": head, "after_header": head, "before": before, "after": after} for head, before, after in parts if before != after]

    # -- doing

    def apply(self):
        """Do it and read it back. Raises Refused before a change of packages, or PackageError."""
        moving = any(self.change[key] for key in ("ask", "remove", "soft", "surplus"))
        leaving = {name: self.now["packages"][name] for name in {*self.change["ask"], *self.change["remove"], *self.change["soft"]}
                   if name in self.now["packages"] and " " not in self.now["packages"][name] and name not in self.change["surplus"]}
        leaving.update({name: gone[0] for name, gone in self.change["surplus"].items()})
        with acting.DkmsGuard():
            if moving:
                # What comes back out of the store must not leave it for what goes.
                keeping.keep(self.run, self.backend, leaving, self.params["keep_mib"], first=sorted(self.change["ask"].items()))
            session = self._open(self.run, self.goal, self.sources, self.store, False)
            try:
                session.act(self.change)
                session.finish(self.holds())
            finally:
                session.close()
        for name, row in self.alternatives().items():
            if row["mode"] == "auto":
                self.run(["update-alternatives", "--auto", name], ok=None)
            elif os.path.exists(row["value"] or ""):
                self.run(["update-alternatives", "--set", name, row["value"]])
        if self.alternatives():
            self.run(["ldconfig"])
        if not self.goal["files"].get(modprobe_policy.FILE):
            acting.set_file(modprobe_policy.FILE, None)
        after = node_snapshot.versions_of(self.backend.state(self.run)[0])
        wrong = ["%s is %s, it was %s" % (name, after.get(name) or "absent", version) for name, version in sorted(self.change["ask"].items())
                 if version not in (after.get(name) or "").split()]
        wrong += ["%s is still there" % name for name in [*self.change["remove"], *self.change["soft"]] if name in after]
        if wrong:
            raise PackageError("after the transaction: " + "; ".join(wrong))


def _lines(packages):
    return "".join("%s=%s\n" % (name, version) for name, versions in sorted(packages.items()) for version in versions.split())
