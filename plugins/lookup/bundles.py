# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
name: bundles
author: lockstep.gpu contributors (@lockstep-gpu)
version_added: 0.1.0
short_description: The bundles that a folder holds
description:
  - A bundle is a folder with a C(bundle.yml). A folder of such folders stands for all of them.
  - Nothing of a bundle is read here; M(lockstep.gpu.node_facts) does that.
options:
  _terms:
    description: Folders on the controller; a relative one lies below the current directory, where the user typed it.
    required: true
"""

EXAMPLES = r"""
- name: Which nodes have sent something
  ansible.builtin.debug:
    msg: "{{ query('lockstep.gpu.bundles', 'support/') | map(attribute='name') }}"
"""

RETURN = r"""
_list:
  description: The bundles in the order of their names, each with C(name) and C(path). Names that occur twice carry their folder.
  type: list
  elements: dict
"""

import pathlib

from ansible.errors import AnsibleLookupError
from ansible.plugins.lookup import LookupBase
from ansible_collections.lockstep.gpu.plugins.module_utils.bundle import MANIFEST


def folders(term):
    """The bundle folders that a path stands for. Raises AnsibleLookupError when there is none."""
    path = pathlib.Path(str(term)).expanduser().absolute()
    if (path / MANIFEST).exists():
        return [path]
    if not str(term).strip() or not path.exists():
        raise AnsibleLookupError("%s does not exist" % (path if str(term).strip() else "a bundle without a name"))
    if path.is_file():
        raise AnsibleLookupError("%s is a file; name its folder" % path)
    found = sorted(manifest.parent for manifest in path.glob("*/" + MANIFEST))
    if not found:
        raise AnsibleLookupError("%s is no bundle and holds none: there is no %s in it or one level below" % (path, MANIFEST))
    return found


class LookupModule(LookupBase):
    """lockstep.gpu.bundles"""

    def run(self, terms, variables=None, **kwargs):
        """The bundles of all terms. Raises AnsibleLookupError for a term that holds none."""
        paths = list(dict.fromkeys(path for term in terms for path in folders(term)))
        names = [path.name for path in paths]
        return [{"name": path.name if names.count(path.name) == 1 else "%s-%s" % (path.parent.name, path.name), "path": str(path)}
                for path in paths]
