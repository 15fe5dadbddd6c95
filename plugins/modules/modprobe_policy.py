#!/usr/bin/python
# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: modprobe_policy
short_description: Keep other drivers away from the GPUs, also in the initramfs
description:
  - Writes C(/etc/modprobe.d/lockstep-gpu.conf) as a whole. It blacklists nouveau and nova, and holds the driver's options.
  - Makes the initramfs of one kernel anew when it is older than that file, or does not hold it, with C(update-initramfs) or C(dracut).
    That is judged from what is there, so a run that was killed in between is finished by the next one.
  - Files of anybody else are not touched. A kernel without an initramfs, and a node without a tool that makes one (a container image), get
    the file alone, and RV(initramfs) says so.
version_added: 0.1.0
author: lockstep.gpu contributors (@lockstep-gpu)
extends_documentation_fragment: lockstep.gpu.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  content:
    description: The whole text of the file, as P(lockstep.gpu.plan#filter) has it in C(modprobe.text).
    type: str
    required: true
  kernel:
    description: Release of the kernel whose initramfs must hold the file. Without one only the file is written.
    type: str
"""

EXAMPLES = r"""
- name: The GPUs belong to NVIDIA's driver
  lockstep.gpu.modprobe_policy:
    content: "{{ plan.modprobe.text }}"
    kernel: 6.12.117+deb13-amd64
"""

RETURN = r"""
path:
  description: The file.
  returned: always
  type: str
  sample: /etc/modprobe.d/lockstep-gpu.conf
initramfs:
  description:
    - V(rebuilt) (in check mode it would be), V(current), V(absent) when this kernel has none, V(no_tool) when nothing here makes one,
      or V(not_asked) without O(kernel).
  returned: always
  type: str
  sample: rebuilt
reason:
  description: Why the initramfs was made anew.
  returned: when it was, or would be
  type: str
  sample: /boot/initrd.img-6.12.117+deb13-amd64 is older than /etc/modprobe.d/lockstep-gpu.conf
"""

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.lockstep.gpu.plugins.module_utils import modprobe_policy as policy
from ansible_collections.lockstep.gpu.plugins.module_utils.run import CommandError, Runner, find_tool


def apply(node, content, kernel, check_mode):
    """Bring file and initramfs to what is wanted. Returns the module's result. Raises PolicyError, CommandError, OSError."""
    before = node.text()
    image = policy.image_of(kernel, node.path("/")) if kernel else None
    reason = node.why_rebuild(kernel, content)
    result = {"changed": before != content, "path": policy.FILE, "initramfs": "current" if kernel else "not_asked"}
    if kernel and image is None:
        result["initramfs"] = "absent"
    elif reason and node.tool(image) is None:
        result["initramfs"] = "no_tool"
    elif reason:
        result.update(changed=True, initramfs="rebuilt", reason=reason)
    if before != content and not check_mode:
        node.write(content)
    if result["initramfs"] == "rebuilt" and not check_mode:
        node.rebuild(kernel)
    result["diff"] = [{"before_header": policy.FILE, "after_header": policy.FILE, "before": before, "after": content}]
    if result["initramfs"] == "rebuilt":
        what = "initramfs of " + kernel
        result["diff"].append({"before_header": what, "after_header": what, "before": reason + "\n", "after": "made anew\n"})
    return result


def main():
    module = AnsibleModule(
        argument_spec={"content": {"type": "str", "required": True}, "kernel": {"type": "str"}},
        supports_check_mode=True)
    node = policy.Node(Runner(module), find_tool)
    try:
        module.exit_json(**apply(node, module.params["content"], module.params["kernel"] or None, module.check_mode))
    except (policy.PolicyError, CommandError, OSError) as error:
        module.fail_json(msg=str(error), path=policy.FILE)


if __name__ == "__main__":
    main()
