#!/usr/bin/python
# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: pinned_packages
short_description: Install exact package versions with their whole closure, held and pinned
version_added: 0.1.0
author: lockstep.gpu contributors (@lockstep-gpu)
description:
  - Resolves what a stack's components need into one joint closure, compares what the package manager would do with
    what is wanted, and only then acts, holds, pins and reads back.
  - Every installed package of the named products is managed, also those that came as dependencies; they are told apart
    by their source package. Packages that the products merely need (a C library, a compiler) are left free to move.
  - Holds, pins and apt settings of the user are not touched. A package that the user holds at another version stops
    the run.
  - Speaks apt (Debian and its derivatives).
extends_documentation_fragment:
  - lockstep.gpu.attributes
attributes:
  check_mode:
    support: full
    details:
      - With O(state=resolved) nothing is changed in any mode. The archives are read into a private folder, also where the
        node's own lists are empty and its repositories not configured yet.
  diff_mode:
    support: full
    details:
      - Shows C(name=version) lines, before and after.
  idempotent:
    support: full
options:
  state:
    description:
      - V(resolved) computes the closure and changes nothing.
      - V(present) brings the slices named in O(only) to it.
    type: str
    choices: [resolved, present]
    default: present
  slices:
    description:
      - What each component asks for, in the order of installation. All components of a stack belong in here, also those
        that this call does not act on, since they are resolved together.
    type: list
    elements: dict
    required: true
    suboptions:
      name:
        description: Name of the component.
        type: str
        required: true
      version:
        description: The version as the stack says it, for messages.
        type: str
      requests:
        description: Packages asked for by name.
        type: list
        elements: dict
        required: true
        suboptions:
          name:
            description: Package name.
            type: str
            required: true
          version:
            description: Regular expression for the whole package version.
            type: str
            required: true
      sources:
        description: Regular expressions for the source packages of the product.
        type: list
        elements: str
        required: true
      pattern:
        description: Regular expression for the package version of everything in O(slices[].one_version).
        type: str
        default: .*
      one_version:
        description: Source packages whose binaries only work at one version.
        type: list
        elements: str
        default: []
      globs:
        description: The versions of O(slices[].one_version) as apt_preferences(5) patterns.
        type: list
        elements: str
        default: []
      family:
        description: Source packages of all sets of the product, for finding what an earlier set left behind.
        type: list
        elements: str
        default: []
      others:
        description: Packages that other sets of the product ask for; removed where nothing needs them.
        type: list
        elements: str
        default: []
      rivals:
        description: Packages of other sets of the product that must not come along (another flavour's module).
        type: list
        elements: str
        default: []
  only:
    description: Names of the slices to act on; all of them when not given.
    type: list
    elements: str
  closure:
    description: The RV(closure) of an earlier call with O(state=resolved). Without it the module resolves by itself.
    type: list
    elements: dict
  removed:
    description: The RV(removed) that belongs to O(closure).
    type: list
    elements: str
    default: []
  repositories:
    description:
      - Content of the collection's own sources file in deb822 format. Empty means that the node's own sources suffice and
        the file is removed. Not given means that the file is left as it is.
    type: str
  alternatives:
    description: Alternatives to select by hand, name to path, as in update-alternatives(1).
    type: dict
    default: {}
seealso:
  - module: ansible.builtin.apt
  - module: lockstep.gpu.node_facts
"""

EXAMPLES = r"""
- name: See what an exact NCCL would bring
  lockstep.gpu.pinned_packages:
    state: resolved
    slices:
      - name: nccl
        version: 2.22.3
        requests:
          - {name: libnccl2, version: '2\.22\.3-.+'}
        sources: [nvidia-nccl]
  register: plan

- name: Install it, hold it, pin it
  lockstep.gpu.pinned_packages:
    slices: "{{ plan.slices }}"
    closure: "{{ plan.closure }}"
"""

RETURN = r"""
closure:
  description: Every managed package as it will be, and every other package that changes.
  type: list
  elements: dict
  returned: success
  sample:
    - {name: libnccl2, version: 2.22.3-1-1, old: null, change: install, component: nccl, step: nccl, managed: true, source: nvidia-nccl,
       arch: amd64, sha256: 9f3c, size: 61234567, origin: 'Debian:13.8/stable'}
removed:
  description: Packages that leave.
  type: list
  elements: str
  returned: success
slices:
  description: The slices as given.
  type: list
  elements: dict
  returned: success
actions:
  description: What was done, or in check mode would be done.
  type: list
  elements: dict
  returned: success
  sample:
    - {action: install, target: libnccl2=2.22.3-1-1}
    - {action: hold, target: libnccl2}
problems:
  description: Why nothing was changed.
  type: list
  elements: dict
  returned: when the transaction was refused
  sample:
    - {code: locked_version_gone_from_archive, name: libnccl2, available: [2.22.3-1-1], message: 'nccl: no libnccl2 ...'}
broken:
  description: Packages that are not completely installed after a failure.
  type: list
  elements: str
  returned: when the package manager failed
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.lockstep.gpu.plugins.module_utils import apt, closure, pinning
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt import OWN_PREFERENCES, OWN_SOURCES
from ansible_collections.lockstep.gpu.plugins.module_utils.run import CommandError, Runner


class Node:
    """What one call knows and wants; every method is one step."""

    def __init__(self, run, params):
        self.run = run
        self.slices = params["slices"]
        self.only = params["only"] or [part["name"] for part in self.slices]
        self.sources = params["repositories"]
        if self.sources is None:
            self.sources = pinning.read_text(OWN_SOURCES) or ""
        self.alternatives = params["alternatives"]
        self.rows, self.removed = params["closure"], params["removed"]
        pinning.wait_for_dpkg()
        self.refresh()

    def refresh(self):
        """Read dpkg's state, our pins, the alternatives."""
        self.packages, self.held = pinning.dpkg_now(self.run)
        self.pins = pinning.read_pins()
        self.selected = pinning.alternatives_now(self.run, self.alternatives)

    def resolve(self):
        """Fill rows and removed from the archives; nothing changes on the node."""
        found = pinning.resolve_aside(self.run, self.slices, self.sources, self.packages, self.pins, self.held)
        self.rows, self.removed = found["closure"], found["removed"]

    def due(self):
        """This call's rows, judged against what is installed now."""
        rows = []
        for row in self.rows:
            if row["step"] in self.only:
                old = closure.version_of(self.packages.get(row["name"]))
                rows.append(dict(row, old=old, change=closure.change_of(old, row["version"])))
        return rows

    def leaving(self):
        """Installed packages of this call's slices that the closure leaves behind."""
        return [name for name in self.removed if closure.is_installed(self.packages.get(name))
                and (closure.owner(self.slices, self.packages[name].get("source")) or self.only[0]) in self.only]

    def broken(self):
        """Managed packages that dpkg has neither completely installed nor completely removed."""
        return sorted(name for name, package in self.packages.items() if not closure.is_installed(package)
                      and closure.owner(self.slices, package.get("source")))

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

    def actions(self):
        """What has to be done, in the report's words."""
        todo = [{"action": "configure_packages", "target": name} for name in self.broken()]
        if pinning.DkmsGuard().ours():
            todo.append({"action": "remove_guard", "target": pinning.DKMS_GUARD})
        if (pinning.read_text(OWN_SOURCES) or "") != self.sources:
            todo.append({"action": "configure_repository", "target": OWN_SOURCES})
        todo += [{"action": "remove", "target": "%s=%s" % (name, self.packages[name]["version"])} for name in self.leaving()]
        todo += [{"action": closure.ACTIONS[row["change"]], "target": "%s=%s" % (row["name"], row["version"])}
                 for row in self.due() if row["change"] != "keep"]
        todo += [{"action": "add_apt_pin", "target": name} for name in self.unpinned()]
        todo += [{"action": "hold", "target": name} for name in self.unheld()]
        todo += [{"action": "set_alternative", "target": "%s=%s" % (name, path)}
                 for name, (dummy, path) in self.unselected().items()]
        return todo

    def diff(self):
        """Ansible's diff: package lines, then holds, then alternatives."""
        what = ", ".join(self.only)
        before, after = closure.diff_lines(self.due(), self.leaving(), self.packages)
        parts = [{"before_header": what + " packages", "after_header": what + " packages", "before": before, "after": after}]
        parts.append({"before_header": "holds", "after_header": "holds", "before": "",
                      "after": "".join("hold %s\n" % name for name in self.unheld())})
        for name, (now, path) in self.unselected().items():
            parts.append({"before_header": "alternative " + name, "after_header": "alternative " + name,
                          "before": now + "\n", "after": path + " (manual)\n"})
        parts.append({"before_header": OWN_SOURCES, "after_header": OWN_SOURCES,
                      "before": pinning.read_text(OWN_SOURCES) or "", "after": self.sources})
        return [part for part in parts if part["before"] != part["after"]]

    def apply(self):
        """Act, then compare what is there with what was wanted. Raises Refused or AptError."""
        pinning.wait_for_first_boot(self.run)
        with pinning.DkmsGuard():
            if any(not closure.is_installed(package) for package in self.packages.values()):
                pinning.finish(self.run, self.packages, self.slices)
                self.refresh()
            due = [row for row in self.due() if row["change"] != "keep"]
            asked = {request["name"] for part in self.slices for request in part["requests"]}
            wanted = {
                "ask": {row["name"]: row["version"] for row in due if row["managed"] and (row["name"] in asked or row["old"])},
                "all": {row["name"]: row["version"] for row in self.rows},
                "removable": self.removed,
            }
            pins = closure.pins_after(self.slices, self.rows, self.pins, self.packages)
            if due or self.leaving() or self.broken():
                pinning.install(self.run, wanted, self.leaving(), self.sources, pins)
            else:
                pinning.set_file(OWN_SOURCES, self.sources)
                pinning.set_file(OWN_PREFERENCES, closure.render_pins(pins))
        self.refresh()
        wrong = ["%s is %s, wanted %s" % (row["name"], row["old"], row["version"])
                 for row in self.due() if row["change"] != "keep"]
        wrong += ["%s is %s" % (name, self.packages[name]["status"]) for name in self.broken()]
        if wrong:
            raise apt.AptError("after the transaction: " + "; ".join(wrong))
        pinning.hold(self.run, [name for name in self.unheld() if closure.is_installed(self.packages.get(name))])
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


def main():
    request = {"name": {"type": "str", "required": True}, "version": {"type": "str", "required": True}}
    part = {
        "name": {"type": "str", "required": True},
        "version": {"type": "str"},
        "requests": {"type": "list", "elements": "dict", "required": True, "options": request},
        "sources": {"type": "list", "elements": "str", "required": True},
        "pattern": {"type": "str", "default": ".*"},
        "one_version": {"type": "list", "elements": "str", "default": []},
        "globs": {"type": "list", "elements": "str", "default": []},
        "family": {"type": "list", "elements": "str", "default": []},
        "others": {"type": "list", "elements": "str", "default": []},
        "rivals": {"type": "list", "elements": "str", "default": []},
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["resolved", "present"], "default": "present"},
            "slices": {"type": "list", "elements": "dict", "required": True, "options": part},
            "only": {"type": "list", "elements": "str"},
            "closure": {"type": "list", "elements": "dict"},
            "removed": {"type": "list", "elements": "str", "default": []},
            "repositories": {"type": "str"},
            "alternatives": {"type": "dict", "default": {}},
        },
        supports_check_mode=True,
    )
    node = None
    if os.geteuid() != 0:
        module.fail_json(msg="Packages are root's business; run with become.")
    try:
        node = Node(Runner(module), module.params)
        module.exit_json(**run_state(module, node))
    except pinning.Refused as error:
        module.fail_json(msg="Nothing was installed. %s" % error, problems=error.problems)
    except (apt.AptError, CommandError) as error:
        broken = []
        if node:
            node.refresh()
            broken = sorted(name for name, package in node.packages.items() if not closure.is_installed(package))
        module.fail_json(broken=broken, msg="The package manager failed; the next run goes on from here. %s%s" % (
            error, " Not completely installed: %s." % ", ".join(broken) if broken else ""))


if __name__ == "__main__":
    main()
