#!/usr/bin/python
# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: boot_kernel
short_description: Choose the kernel that a node boots, by default or once on trial
description:
  - Sets the default kernel of GRUB, or the kernel of the next start only, by the id of its menu entry and never by its position,
    and reads it back.
  - A kernel that is booted once is on trial. It starts through a menu entry of its own (C(lockstep-gpu-trial)), a copy of the kernel's entry, which
    makes a panic a restart and carries a token. The default is the way back, on any reset. C(/var/lib/lockstep-gpu/trial.json) records the trial,
    and systemd units note whether user space was reached and, with O(confirm_within), return to the default when nobody confirms the kernel in time.
  - O(state=settled) then says what became of it, and O(state=default) for the kernel that runs confirms it. Whatever was made for the trial goes with
    it, but the record of one that failed.
  - Each step is done in an order in which a run that is killed, or a node that loses power, is left with the old kernel as the way back. The next run
    finishes or clears up.
  - The default is made to stick with a drop-in of its own (C(/etc/default/grub.d/zz-lockstep-gpu.cfg), C(GRUB_DEFAULT=saved)).
    Otherwise the installation of a kernel moves it.
  - Where GRUB's menu is made of boot loader specification entries (RHEL and its kin), an entry is chosen by the id of its file, of this machine
    where a clone has left others. There C(UPDATEDEFAULT=no) in C(/etc/sysconfig/kernel) keeps the installation of a kernel from moving the default.
  - Refuses a kernel that has no menu entry, no image or no initramfs.
  - In a container, which boots nothing, the result is C(status=not_applicable) and no failure.
  - Of systemd-boot, the default and the one-time entry are EFI variables that C(bootctl) sets; the menu needs entries of the boot loader
    specification, not unified kernel images.
  - With any other boot loader O(state=query) returns C(status=unsupported), and the other states fail.
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
      - V(default) makes the kernel the one that boots from now on. For a kernel that runs on trial this confirms the trial.
        A trial that still waits for its boot is taken back, and one that failed is put on record.
      - V(once) boots it at the next start only, so that a power cycle returns to the default. GRUB clears the one-time entry
        itself, so this is refused with C(grubenv_not_writable) where GRUB cannot write its environment block (LVM, md, btrfs, zfs, or no
        such file), with C(grub_default_not_saved) where the default is not the saved entry, and with C(trial_boot_failed) where as many trials as
        O(trials) of the same image and initramfs have failed. Another trial that waits for its boot is replaced.
      - V(settled) judges the trial on record. One that failed is cleared away and stays on record; one that waits for its boot, or that runs and waits
        to be confirmed, is left alone. Without a trial, what a killed run left of one is removed.
      - V(withdrawn) ends a trial that waits for its boot, so that the next start is the default. One that runs is left alone, one that failed is judged.
      - V(query) changes nothing.
    type: str
    choices: [default, once, settled, withdrawn, query]
    default: default
  confirm_within:
    description:
      - Seconds from where the kernel on trial starts systemd, with O(state=once), until the node reboots by itself into its default unless O(state=default)
        has confirmed the kernel. V(0) for no limit; then a kernel that starts without its network stays until somebody resets the node.
    type: int
    default: 0
  watch:
    description:
      - What O(state=settled) does with the timer of O(confirm_within) while the kernel runs on trial. It is there for a node that nobody can reach.
      - V(renew) has it count anew from now on, so that a proof that takes long is not cut off. V(stop) stops it, as before packages change,
        until it is renewed; the default is still the way back.
      - What runs changes by this, nothing that lasts does, so it is no change of the task.
    type: str
    choices: [keep, renew, stop]
    default: keep
  panic:
    description:
      - Seconds after which the kernel on trial restarts when it panics, with O(state=once). V(0) adds nothing to its command line.
    type: int
    default: 30
  trials:
    description:
      - How many trials of the same image and initramfs may fail, with O(state=once), before another one is refused with C(trial_boot_failed).
    type: int
    default: 2
"""

EXAMPLES = r"""
- name: Stay on the running kernel while packages are installed
  lockstep.gpu.boot_kernel:
    kernel: "{{ ansible_facts.lockstep.kernel.running }}"

- name: Try the new kernel once
  lockstep.gpu.boot_kernel:
    kernel: 6.12.117+deb13-amd64
    state: once

- name: Try it, and return after ten minutes unless it is confirmed
  lockstep.gpu.boot_kernel:
    kernel: 6.12.117+deb13-amd64
    state: once
    confirm_within: 600

- name: After the reboot, what became of the trial
  lockstep.gpu.boot_kernel:
    state: settled
  register: boot
  failed_when: boot.trial is not none and boot.trial.outcome != 'running'

- name: Confirm the kernel that runs
  lockstep.gpu.boot_kernel:
    kernel: "{{ boot.trial.kernel }}"
    state: default
  when: boot.trial is not none
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
  returned: with O(state=default) and O(state=once)
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
trial:
  description:
    - The trial on record, after the task; null when there is none, as after the confirmation. In check mode what it would be.
    - "C(outcome): V(pending) waits for its boot; V(running) runs and waits to be confirmed; V(failed) is over, the node is back on another kernel, and
      C(reason) says why; V(not_booted) was not prepared to its end."
    - "After a reboot, V(pending) has a C(reason): the boot loader has not taken the one-time entry."
  returned: always
  type: dict
  contains:
    kernel:
      description: Kernel on trial.
      type: str
    from:
      description: Kernel that is the way back.
      type: str
    attempts:
      description: How many trials of it, with the same image and initramfs, have failed.
      type: int
    confirm_within:
      description: Seconds within which it has to be confirmed; 0 for no limit.
      type: int
    outcome:
      description: What has become of it.
      type: str
    reason:
      description: Why, in words; null where the outcome says all.
      type: str
  sample:
    kernel: 6.12.117+deb13-amd64
    from: 6.12.107+deb13-amd64
    attempts: 1
    confirm_within: 600
    outcome: failed
    reason: "did not reach user space: it panicked, hung, or the power was cut"
env_writable:
  description: Whether GRUB can write its environment block at boot; null when that is unknown.
  returned: always
  type: bool
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.lockstep.gpu.plugins.module_utils import grub, grub_bls, systemd_boot, trial, trial_boot
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


def as_text(words, default_setting, on_trial):
    """The diff's text for a state."""
    text = "default: %s (GRUB_DEFAULT=%s)\nnext start only: %s\n" % (words["default"], default_setting, words["next"])
    return text + ("on trial: %(kernel)s, %(outcome)s, failed before: %(attempts)d\n" % on_trial if on_trial else "")


def refuse_once(loader, state):
    """Raises GrubError where a one-time boot would not return to the default by itself."""
    if state.env_writable is not True:
        reason = "cannot write" if state.env_writable is False else "may not be able to write"
        raise grub.GrubError("%s, so a trial boot would repeat for ever" % (loader.refused % reason), "grubenv_not_writable")
    saved = (state.env or {}).get("saved_entry")
    if not grub.is_saved(state) or trial.is_entry(saved) or grub.kernel_named(state, saved) is None:
        raise grub.GrubError("the default is not a saved entry, so after the trial another kernel could boot; set the default first",
                             "grub_default_not_saved")


def boot_once(loader, trials, before, params):
    """What O(state=once) does: whether anything was to be done, and the words of the state then. Raises as apply()."""
    loader.entry(before, params["kernel"])
    refuse_once(loader, before)
    if grub.default_kernel(before) == params["kernel"] != trials.seen.running:
        raise grub.GrubError("kernel %s is the default already, so a trial of it would have no way back; make the running kernel the default first"
                             % params["kernel"], "grub_default_not_saved")
    changed = trials.arm(params["kernel"], before, params["confirm_within"], params["panic"], params["trials"])
    return changed, dict(shown(before), next=params["kernel"] if changed else shown(before)["next"])


def make_default(loader, trials, before, kernel, check_mode):
    """What O(state=default) does: whether anything was to be done, and the words of the state then. Raises as apply()."""
    spec = grub.spec_of(loader.entry(before, kernel))
    moved = not grub.is_saved(before) or (before.env or {}).get("saved_entry") != spec
    commits = trials.commits(kernel, before)
    changed = not commits and trials.give_way(before)
    if moved and not check_mode:
        # The entry first: a run that dies in between then leaves no saved default without an entry.
        loader.set_default(spec)
        if not grub.is_saved(before):
            loader.make_saved()
        loader.settle_disk()
    if commits:
        changed = trials.drop(before)
    words = shown(before)
    if moved or changed and trials.armed(before):
        # grub-set-default drops a pending one-time entry.
        words["next"] = None
    return moved or changed, dict(words, default=kernel)


def apply(loader, run, params, check_mode):
    """Bring GRUB to the wanted state. Returns the module's results. Raises GrubError, CommandError, OSError."""
    before, trials = loader.read(), trial_boot.Trials(run, loader, check_mode)
    words, on_trial = shown(before), trials.shown(before)
    result = {"status": "ok", "loader": loader.name, "changed": False, "env_writable": before.env_writable, "trial": on_trial}
    result.update({"%s_%s" % (name, when): words[name] for name in words for when in ("before", "after")})
    if params["state"] == "query":
        return result
    if params["state"] in ("settled", "withdrawn"):
        if params["state"] == "settled" and params["watch"] != "keep":
            trials.watch(before, params["watch"])
        changed = trials.settle(before) if params["state"] == "settled" else trials.give_way(before)
        wanted = dict(words, next=None) if changed and trials.armed(before) else words
    elif params["state"] == "once":
        changed, wanted = boot_once(loader, trials, before, params)
    else:
        changed, wanted = make_default(loader, trials, before, params["kernel"], check_mode)
    after = before
    if changed and not check_mode:
        after = loader.read()
        wanted, result["env_writable"] = shown(after), after.env_writable
    setting = "saved" if params["state"] == "default" else after.setting
    result.update(changed=changed, default_after=wanted["default"], next_after=wanted["next"], trial=trials.shown(after))
    result["diff"] = {"before": as_text(words, before.setting, on_trial), "after": as_text(wanted, setting, result["trial"])}
    if params["state"] not in ("settled", "withdrawn"):
        result["entry"] = grub.spec_of(loader.entry(before, params["kernel"]))
    return result


def main():
    module = AnsibleModule(
        argument_spec={
            "kernel": {"type": "str"},
            "state": {"type": "str", "choices": ["default", "once", "settled", "withdrawn", "query"], "default": "default"},
            "confirm_within": {"type": "int", "default": 0},
            "watch": {"type": "str", "choices": ["keep", "renew", "stop"], "default": "keep"},
            "panic": {"type": "int", "default": 30},
            "trials": {"type": "int", "default": 2},
        },
        required_if=[("state", "default", ["kernel"]), ("state", "once", ["kernel"])],
        supports_check_mode=True)
    run = Runner(module)
    loader = next((loader for loader in (systemd_boot.SystemdBoot(run), grub.Grub(run), grub_bls.Bls(run)) if loader.configured), grub.Grub(run))
    nothing = dict.fromkeys(("default_before", "default_after", "next_before", "next_after", "env_writable", "trial"))
    negative = [name for name in ("confirm_within", "panic", "trials") if module.params[name] < 0]
    if negative:
        module.fail_json(msg="%s: a number below 0 means nothing" % ", ".join(negative))
    try:
        if loader.configured:
            module.exit_json(**apply(loader, run, module.params, module.check_mode))
        other = loader.other_loader()
        if in_container() and other is None:
            module.exit_json(status="not_applicable", loader="none", changed=False, msg="a container boots no kernel of its own", **nothing)
        message = ("the default kernel can be set with GRUB as Debian, Ubuntu and RHEL set it up, and with systemd-boot where that started the "
                   "node; found %s" % (other or "no boot loader"))
        if module.params["state"] == "query":
            module.exit_json(status="unsupported", loader=other or "none", changed=False, msg=message, **nothing)
        module.fail_json(status="unsupported", loader=other or "none", msg=message, **nothing)
    except grub.GrubError as error:
        module.fail_json(msg=str(error), code=error.code)
    except (CommandError, OSError) as error:
        module.fail_json(msg=str(error))


if __name__ == "__main__":
    main()
