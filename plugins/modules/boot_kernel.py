#!/usr/bin/python
# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: boot_kernel
short_description: Choose the kernel that a node boots, by default or once
description:
  - Sets the default kernel of GRUB, or the kernel of the next start only, by the id of its menu entry and never by its position,
    and reads it back.
  - The default is made to stick with a drop-in of its own (C(/etc/default/grub.d/zz-lockstep-gpu.cfg), C(GRUB_DEFAULT=saved)).
    Otherwise the installation of a kernel moves it.
  - Where GRUB's menu is made of boot loader specification entries (RHEL and its kin), an entry is chosen by the id of its file, of this machine
    where a clone has left others. There C(UPDATEDEFAULT=no) in C(/etc/sysconfig/kernel) keeps the installation of a kernel from moving the default.
  - Refuses a kernel that has no menu entry, no image or no initramfs.
  - In a container, which boots nothing, the result is C(status=not_applicable) and no failure.
  - systemd-boot is not supported yet. Then O(state=query) returns C(status=unsupported), and
    the other states fail.
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
  kernel:
    description:
      - Release of the kernel, as C(uname -r) would print it.
      - Required unless O(state=query).
    type: str
  state:
    description:
      - V(default) makes the kernel the one that boots from now on.
      - V(once) boots it at the next start only, so that a power cycle returns to the default. GRUB clears the one-time entry
        itself, so this is refused with C(grubenv_not_writable) where GRUB cannot write its environment block (LVM, md, btrfs, zfs, or no
        such file), and with C(grub_default_not_saved) where the default is not the saved entry.
      - V(query) changes nothing.
    type: str
    choices: [default, once, query]
    default: default
"""

EXAMPLES = r"""
- name: Stay on the running kernel while packages are installed
  lockstep.gpu.boot_kernel:
    kernel: "{{ ansible_facts.lockstep.kernel.running }}"

- name: Try the new kernel once
  lockstep.gpu.boot_kernel:
    kernel: 6.12.117+deb13-amd64
    state: once
"""

RETURN = r"""
status:
  description: V(ok), V(not_applicable) in a container without a boot loader, or V(unsupported).
  returned: always
  type: str
  sample: ok
loader:
  description: The boot loader that was found.
  returned: always
  type: str
  sample: grub
entry:
  description: Path of ids of the kernel's menu entry.
  returned: when a kernel was given and O(state) is not V(query)
  type: str
  sample: gnulinux-advanced-6f2b>gnulinux-6.12.117+deb13-amd64-advanced-6f2b
default_before:
  description: Kernel that booted by default before; null when GRUB's default is no known kernel.
  returned: always
  type: str
default_after:
  description: Kernel that boots by default now, read back. In check mode what it would be.
  returned: always
  type: str
next_before:
  description: Kernel that was set for the next start only; null when none was.
  returned: always
  type: str
next_after:
  description: Kernel that is set for the next start only, read back. In check mode what it would be.
  returned: always
  type: str
env_writable:
  description: Whether GRUB can write its environment block at boot; null when that is unknown.
  returned: always
  type: bool
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.lockstep.gpu.plugins.module_utils import grub, grub_bls
from ansible_collections.lockstep.gpu.plugins.module_utils.run import CommandError, Runner

CONTAINER_MARKS = ("/run/systemd/container", "/.dockerenv", "/run/.containerenv")


def in_container():
    """Whether this is a container: marks of engines, or the variable that they give to its first process."""
    if any(os.path.exists(mark) for mark in CONTAINER_MARKS):
        return True
    try:
        with open("/proc/1/environ", "rb") as handle:
            return any(word.startswith(b"container=") and word != b"container=" for word in handle.read().split(b"\0"))
    except OSError:
        return False


def shown(state):
    """A State in the words of the results: {default, next}, each a kernel release or None."""
    return {"default": grub.default_kernel(state),
            "next": grub.kernel_named(state, (state.env or {}).get("next_entry"))}


def as_text(words, default_setting):
    """The diff's text for a state."""
    return "default: %s (GRUB_DEFAULT=%s)\nnext start only: %s\n" % (words["default"], default_setting, words["next"])


def refuse_once(state):
    """Raises GrubError where a one-time boot would not return to the default by itself."""
    if state.env_writable is not True:
        reason = "cannot write" if state.env_writable is False else "may not be able to write"
        raise grub.GrubError("GRUB %s its environment block /boot/grub/grubenv, so a trial boot would repeat for ever" % reason,
                             "grubenv_not_writable")
    if not grub.is_saved(state) or not state.env.get("saved_entry"):
        raise grub.GrubError("the default is not a saved entry, so after the trial another kernel could boot; set the default first",
                             "grub_default_not_saved")


def apply(loader, params, check_mode):
    """Bring GRUB to the wanted state. Returns the module's results. Raises GrubError, CommandError, OSError."""
    before = loader.read()
    words = shown(before)
    result = {"status": "ok", "loader": "grub", "changed": False, "env_writable": before.env_writable}
    result.update({"%s_%s" % (name, when): words[name] for name in words for when in ("before", "after")})
    if params["state"] == "query":
        return result
    spec = grub.spec_of(loader.entry(before, params["kernel"]))
    wanted, setting = dict(words), before.setting
    if params["state"] == "once":
        refuse_once(before)
        result["changed"] = before.env.get("next_entry") != spec
        wanted["next"] = params["kernel"]
    else:
        result["changed"] = not grub.is_saved(before) or (before.env or {}).get("saved_entry") != spec
        # grub-set-default drops a pending one-time entry.
        if result["changed"]:
            wanted = {"default": params["kernel"], "next": None}
        setting = "saved"
    if result["changed"] and not check_mode:
        if params["state"] == "once":
            loader.set_once(spec)
        else:
            # The entry first: a run that dies in between then leaves no saved default without an entry.
            loader.set_default(spec)
            if not grub.is_saved(before):
                loader.make_saved()
        after = loader.read()
        wanted, setting = shown(after), after.setting
        result["env_writable"] = after.env_writable
    result.update(entry=spec, default_after=wanted["default"], next_after=wanted["next"],
                  diff={"before": as_text(words, before.setting), "after": as_text(wanted, setting)})
    return result


def main():
    module = AnsibleModule(
        argument_spec={
            "kernel": {"type": "str"},
            "state": {"type": "str", "choices": ["default", "once", "query"], "default": "default"},
        },
        required_if=[("state", "default", ["kernel"]), ("state", "once", ["kernel"])],
        supports_check_mode=True)
    run = Runner(module)
    loader = next((loader for loader in (grub.Grub(run), grub_bls.Bls(run)) if loader.configured), grub.Grub(run))
    nothing = dict.fromkeys(("default_before", "default_after", "next_before", "next_after", "env_writable"))
    try:
        if loader.configured:
            module.exit_json(**apply(loader, module.params, module.check_mode))
        other = loader.other_loader()
        if in_container() and other is None:
            module.exit_json(status="not_applicable", loader="none", changed=False, msg="a container boots no kernel of its own", **nothing)
        message = "the default kernel can be set with GRUB as Debian, Ubuntu and RHEL set it up only; found %s" % (other or "no boot loader")
        if module.params["state"] == "query":
            module.exit_json(status="unsupported", loader=other or "none", changed=False, msg=message, **nothing)
        module.fail_json(status="unsupported", loader=other or "none", msg=message, **nothing)
    except grub.GrubError as error:
        module.fail_json(msg=str(error), code=error.code)
    except (CommandError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
