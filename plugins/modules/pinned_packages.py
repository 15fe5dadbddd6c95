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
    by their source package or their name. Packages that the products merely need (a C library, a compiler) are left free to move.
  - Holds, pins and apt settings of the user are not touched. A package that the user holds at another version stops
    the run.
  - Speaks apt and dnf.
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
          optional:
            description: Asked for where the archives have a version that fits, and no problem where they have none.
            type: bool
            default: false
      sources:
        description: Regular expressions for the source packages of the product.
        type: list
        elements: str
        required: true
      names:
        description: Regular expressions for package names of the product, whatever their source package.
        type: list
        elements: str
        default: []
      pattern:
        description: Regular expression for the package version of what works at one version only.
        type: str
        default: .*
      one_version:
        description: Regular expressions for source packages whose packages work at O(slices[].pattern) only.
        type: list
        elements: str
        default: []
      one_names:
        description: Regular expressions for the names of packages that work at O(slices[].pattern) only.
        type: list
        elements: str
        default: []
      globs:
        description: The versions of O(slices[].pattern) as apt_preferences(5) patterns.
        type: list
        elements: str
        default: []
      guard:
        description:
          - Globs of package names that have to come at O(slices[].pattern) whenever somebody installs them.
          - Written into the pin file or the list of version locks, for packages that are not there, too.
        type: list
        elements: str
        default: []
      away:
        description: What must not come from an origin, since its packages of the same names belong to another set.
        type: list
        elements: dict
        default: []
        suboptions:
          packages:
            description: Globs of package names.
            type: list
            elements: str
            required: true
          release:
            description: The origin for apt, as after C(release) in apt_preferences(5).
            type: str
          repo:
            description: The origin for dnf, a glob of repository ids.
            type: str
      stream:
        description: Module stream that dnf needs enabled, C(name:stream); another enabled stream of the module is reset.
        type: str
        default: ''
      installonly:
        description: Versions of these packages lie side by side (kernels of EL), so that none is upgraded or removed.
        type: bool
        default: false
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
      instead_of:
        description: Components that are not for this node and whose packages this slice takes along; what was guarded for them is dropped.
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
  manager:
    description: The package manager; V(auto) takes the one that the node has.
    type: str
    choices: [auto, apt, dnf]
    default: auto
  repositories:
    description:
      - Content of the collection's own sources file, in deb822 format for apt, as in C(yum.repos.d) for dnf. Empty means that
        the node's own sources suffice and the file is removed. Not given means that the file is left as it is.
    type: str
  keys:
    description:
      - Keys that the repositories are signed with. One with another fingerprint than listed is refused before any change.
    type: list
    elements: dict
    default: []
    suboptions:
      path:
        description: Where the key has to lie on the node, as O(repositories) names it.
        type: path
        required: true
      key:
        description:
          - The key itself in ASCII armour, an absolute path on the node, or an address, which the node fetches it from.
          - It is not fetched while the right key lies at O(keys[].path).
        type: str
        required: true
      fingerprints:
        description: Fingerprints of the primary keys that may be in it.
        type: list
        elements: str
        required: true
  alternatives:
    description: Alternatives to select by hand, name to path, as in update-alternatives(1).
    type: dict
    default: {}
  keep_mib:
    description:
      - How many MiB of packages that a transaction replaces or removes are kept in C(/var/lib/lockstep-gpu/packages), for M(lockstep.gpu.restored_packages).
      - They come from the package manager's cache or from the repositories. What cannot be kept is no failure. V(0) keeps none.
    type: int
    default: 4096
seealso:
  - module: ansible.builtin.apt
  - module: lockstep.gpu.node_facts
  - module: lockstep.gpu.restored_packages
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

import http.client
import os

from ansible.module_utils.basic import AnsibleModule
from ansible.module_utils.urls import fetch_url

from ansible_collections.lockstep.gpu.plugins.module_utils import acting, closure, pinned_node, repository_keys
from ansible_collections.lockstep.gpu.plugins.module_utils.run import CommandError, Runner


def fetcher(module):
    """A function of an address: what is there, as bytes, through the proxies of the environment. It raises OSError."""

    def fetch(address):
        answer, info = fetch_url(module, address, timeout=30)
        if info["status"] != 200 or answer is None:
            raise OSError("%s" % info["msg"])
        try:
            return answer.read(repository_keys.LIMIT)
        except http.client.HTTPException as error:
            raise OSError("it ends too early: %r" % error) from error
    return fetch


def main():
    names = {"type": "list", "elements": "str", "default": []}
    request = {"name": {"type": "str", "required": True}, "version": {"type": "str", "required": True},
               "optional": {"type": "bool", "default": False}}
    away = {"packages": {"type": "list", "elements": "str", "required": True}, "release": {"type": "str"}, "repo": {"type": "str"}}
    key = {"path": {"type": "path", "required": True}, "key": {"type": "str", "required": True, "no_log": False},
           "fingerprints": {"type": "list", "elements": "str", "required": True}}
    part = {
        "name": {"type": "str", "required": True},
        "version": {"type": "str"},
        "requests": {"type": "list", "elements": "dict", "required": True, "options": request},
        "sources": {"type": "list", "elements": "str", "required": True},
        "names": names,
        "pattern": {"type": "str", "default": ".*"},
        "one_version": names,
        "one_names": names,
        "globs": names,
        "guard": names,
        "away": {"type": "list", "elements": "dict", "default": [], "options": away},
        "stream": {"type": "str", "default": ""},
        "installonly": {"type": "bool", "default": False},
        "family": names,
        "others": names,
        "rivals": names,
        "instead_of": names,
    }
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["resolved", "present"], "default": "present"},
            "slices": {"type": "list", "elements": "dict", "required": True, "options": part},
            "only": {"type": "list", "elements": "str"},
            "closure": {"type": "list", "elements": "dict"},
            "removed": {"type": "list", "elements": "str", "default": []},
            "manager": {"type": "str", "choices": ["auto", "apt", "dnf"], "default": "auto"},
            "repositories": {"type": "str"},
            "keys": {"type": "list", "elements": "dict", "default": [], "options": key, "no_log": False},
            "alternatives": {"type": "dict", "default": {}},
            "keep_mib": {"type": "int", "default": 4096},
        },
        supports_check_mode=True,
    )
    node = None
    if os.geteuid() != 0:
        module.fail_json(msg="Packages are root's business; run with become.")
    try:
        backend = pinned_node.backend_for(module.params["manager"])
        backend.prepare(module)
        node = pinned_node.Node(Runner(module), module.params, backend, fetcher(module))
        module.exit_json(**pinned_node.run_state(module, node))
    except acting.Refused as error:
        module.fail_json(msg="Nothing was installed. %s" % error, problems=error.problems)
    except (acting.PackageError, CommandError) as error:
        broken = []
        if node:
            node.refresh()
            broken = sorted(name for name, package in node.packages.items() if not closure.is_installed(package))
        module.fail_json(broken=broken, msg="The package manager failed; the next run goes on from here. %s%s" % (
            error, " Not completely installed: %s." % ", ".join(broken) if broken else ""))


if __name__ == "__main__":
    main()
