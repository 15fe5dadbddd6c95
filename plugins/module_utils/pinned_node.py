# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What pinned_packages does, step by step, whatever the package manager: a backend asks it and acts (see pinning.py)."""
from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils import acting, closure, keeping, pinning, pinning_dnf, repository_keys
from ansible_collections.lockstep.gpu.plugins.module_utils.run import find_tool

# Each has what pinning.py lists at its top.
BACKENDS = {"apt": pinning, "dnf": pinning_dnf}


def backend_for(manager):
    """The backend for a package manager, or with "auto" for the one that the node has."""
    if manager == "auto":
        manager = "apt" if find_tool("apt-get") else "dnf"
    return BACKENDS[manager]


class Node:
    """What one call knows and wants; every method is one step. fetch(address) gets a repository's key, as bytes."""

    def __init__(self, run, params, backend, fetch=None):
        self.run = run
        self.backend = backend
        self.slices = params["slices"]
        self.by_name = {part["name"]: part for part in self.slices}
        self.only = params["only"] or [part["name"] for part in self.slices]
        sources = params["repositories"]
        if sources is None:
            sources = acting.read_text(backend.SOURCES_FILE) or ""
        # Before anything else: a repository that somebody else signs is no repository.
        self.settings = {"sources": sources, "keys": repository_keys.load(params.get("keys") or [], fetch, backend.KEY_FORM)}
        self.alternatives = params["alternatives"]
        self.rows, self.removed = params["closure"], params["removed"]
        self.keep_mib = params.get("keep_mib", 0)
        backend.wait_for_lock()
        self.refresh()

    def refresh(self):
        """Read the packages, our pins, the alternatives."""
        self.packages, self.theirs = self.backend.state(self.run)
        self.pins = self.backend.pins_now()
        # What other stacks of this node agreed on is not this one's to move.
        self.theirs = dict(self.theirs, **{
            name: "name its component in this stack, too" for name in self.pins
            if closure.is_installed(self.packages.get(name)) and not closure.owner(self.slices, name, self.packages[name].get("source"))})
        self.selected = acting.alternatives_now(self.run, self.alternatives)

    def resolve(self):
        """Fill rows and removed from the archives; nothing changes on the node."""
        found = self.backend.resolve_aside(self.run, self.slices, self.settings, self.packages, self.pins, self.theirs)
        self.rows, self.removed = found["closure"], found["removed"]

    def due(self):
        """This call's rows, judged against what is installed now."""
        rows = []
        for row in self.rows:
            if row["step"] in self.only:
                old = closure.version_for(self.by_name.get(row["component"]), self.packages.get(row["name"]), re.escape(row["version"]))
                rows.append(dict(row, old=old, change=closure.change_of(old, row["version"], self.backend.compare)))
        return rows

    def pins_due(self):
        """The pins as they have to be: this stack's, and those of products that nobody asks for now."""
        return closure.pins_after(self.slices, self.rows, self.pins, self.packages)

    def leaving(self):
        """Packages of this call's slices, whole or half-configured, that the closure leaves behind."""
        return [name for name in self.removed if closure.version_of(self.packages.get(name)) is not None
                and (closure.owner(self.slices, name, self.packages[name].get("source")) or self.only[0]) in self.only]

    def broken(self):
        """Managed packages that dpkg has neither completely installed nor completely removed."""
        return sorted(name for name, package in self.packages.items() if not closure.is_installed(package)
                      and closure.owner(self.slices, name, package.get("source")))

    def unheld(self):
        """Managed packages that are, or by now will be, installed without a hold."""
        rows = [row for row in self.rows if row["managed"]]
        coming = {row["name"] for row in rows if row["step"] in self.only}
        return sorted(row["name"] for row in rows if not (self.packages.get(row["name"]) or {}).get("hold")
                      and (row["name"] in coming or closure.is_installed(self.packages.get(row["name"]))))

    def unselected(self):
        """{name: (now, wanted)} of alternatives that point elsewhere or would move by themselves."""
        found = {}
        for name, path in sorted(self.alternatives.items()):
            now = self.selected.get(name) or {}
            if now.get("value") != path or now.get("mode") != "manual":
                found[name] = ("%s (%s)" % (now["value"], now["mode"]) if now else "absent", path)
        return found

    def unpinned(self):
        """This call's managed rows that our pin file does not keep at their version."""
        return sorted(row["name"] for row in self.rows if row["managed"] and row["step"] in self.only
                      and self.pins.get(row["name"]) != row["version"])

    def unguarded(self):
        """The pin file, when it says anything else than it has to: what keeps away what is not installed."""
        right = self.backend.pin_text(self.slices, self.pins_due())
        return [] if self.backend.pin_text_now() == right else [self.backend.PINS_FILE]

    def actions(self):
        """What has to be done, in the report's words."""
        todo = [{"action": "configure_packages", "target": name} for name in self.broken()]
        if acting.DkmsGuard().ours():
            todo.append({"action": "remove_guard", "target": acting.DKMS_GUARD})
        todo += [{"action": "configure_repository", "target": row["path"]} for row in repository_keys.due(self.settings["keys"])]
        if (acting.read_text(self.backend.SOURCES_FILE) or "") != self.settings["sources"]:
            todo.append({"action": "configure_repository", "target": self.backend.SOURCES_FILE})
        todo += [{"action": row["action"], "target": row["target"]} for row in self.backend.settings_due(self.run, self.slices)]
        todo += [{"action": "remove", "target": "%s=%s" % (name, self.packages[name]["version"])} for name in self.leaving()]
        todo += [{"action": closure.ACTIONS[row["change"]], "target": "%s=%s" % (row["name"], row["version"])}
                 for row in self.due() if row["change"] != "keep"]
        todo += [{"action": self.backend.PIN_ACTION, "target": name} for name in self.unpinned() or self.unguarded()]
        todo += [{"action": "hold", "target": name} for name in self.unheld()]
        todo += [{"action": "set_alternative", "target": "%s=%s" % (name, path)}
                 for name, (dummy, path) in self.unselected().items()]
        return todo

    def diff(self):
        """Ansible's diff: package lines, then holds, then alternatives, then settings."""
        what = ", ".join(self.only)
        before, after = closure.diff_lines(self.due(), self.leaving(), self.packages)
        parts = [(what + " packages", before, after), ("holds", "", "".join("hold %s\n" % name for name in self.unheld()))]
        parts += [("alternative " + name, now + "\n", path + " (manual)\n") for name, (now, path) in self.unselected().items()]
        parts += [(row["target"], row["before"], row["after"]) for row in self.backend.settings_due(self.run, self.slices)]
        parts += [(row["path"], repository_keys.shown(row["now"]) if row["now"] != row["fingerprints"] else "key in another form or state\n",
                   repository_keys.shown(row["fingerprints"])) for row in repository_keys.due(self.settings["keys"])]
        parts.append((self.backend.SOURCES_FILE, acting.read_text(self.backend.SOURCES_FILE) or "", self.settings["sources"]))
        return [{"before_header": header, "after_header": header, "before": before, "after": after}
                for header, before, after in parts if before != after]

    def apply(self):
        """Act, then compare what is there with what was wanted. Raises Refused or PackageError."""
        acting.wait_for_first_boot(self.run)
        with acting.DkmsGuard():
            if any(not closure.is_installed(package) for package in self.packages.values()):
                self.backend.finish(self.run, self.packages, self.slices)
                self.refresh()
            due = [row for row in self.due() if row["change"] != "keep"]
            asked = {request["name"] for part in self.slices for request in part["requests"]}
            wanted = {
                "ask": {row["name"]: row["version"] for row in due if row["managed"] and (row["name"] in asked or row["old"])},
                "all": {row["name"]: row["version"] for row in self.rows},
                "removed": self.leaving(), "removable": self.removed,
            }
            if due or wanted["removed"]:
                # Before the settings change: what is about to leave, the archives that it came from may still have.
                replaced = {row["name"]: row["old"] for row in due if row["old"] and not (self.by_name.get(row["component"]) or {}).get("installonly")}
                keeping.keep(self.run, self.backend, dict(replaced, **{name: self.packages[name]["version"] for name in wanted["removed"]}), self.keep_mib)
            if due or wanted["removed"] or self.broken():
                self.backend.install(self.run, self.slices, self.settings, wanted, self.pins_due())
            else:
                self.backend.settle(self.run, self.slices, self.settings, self.pins_due())
        self.refresh()
        wrong = ["%s is %s, wanted %s" % (row["name"], row["old"], row["version"])
                 for row in self.due() if row["change"] != "keep"]
        wrong += ["%s is %s" % (name, self.packages[name]["status"]) for name in self.broken()]
        if wrong:
            raise acting.PackageError("after the transaction: " + "; ".join(wrong))
        self.backend.hold(self.run, [name for name in self.unheld() if closure.is_installed(self.packages.get(name))])
        for name, (dummy, path) in self.unselected().items():
            self.run(["update-alternatives", "--set", name, path])
            self.run(["ldconfig"])


def run_state(module, node):
    """Wire one call: what is to be done, and unless in check mode, doing it."""
    if node.rows is None:
        node.resolve()
    result = {"changed": False, "closure": node.rows, "removed": node.removed, "slices": node.slices, "actions": []}
    if module.params["state"] == "resolved":
        return result
    result["actions"] = node.actions()
    result["changed"] = bool(result["actions"])
    result["diff"] = node.diff()
    if result["changed"] and not module.check_mode:
        node.apply()
    return result
