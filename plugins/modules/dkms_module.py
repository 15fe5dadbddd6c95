#!/usr/bin/python
# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: dkms_module
short_description: Build and install one DKMS module for one kernel, and prove the result
description:
  - Brings one version of a DKMS module to a state for one kernel, which need not be the running one.
  - C(installed) means more than DKMS's own word. The module files must lie below C(/lib/modules/<kernel>), equal the built ones,
    and C(modinfo) must show this kernel and this version. Anything else is repaired, with a new build where the built copy is bad.
  - A build that was killed half-way, a registration whose source is gone, and files that a killed installation left are healed.
    A DKMS process that is still at work is waited for, never disturbed. Compilers whose DKMS was killed are ended.
  - A different version of the same module that is installed for this kernel is uninstalled for this kernel, after the new one was built.
  - A failed build leaves the module registered but not built, and nothing of it below C(/lib/modules).
version_added: 0.1.0
author: lockstep.gpu contributors (@lockstep-gpu)
extends_documentation_fragment: lockstep.gpu.attributes
attributes:
  check_mode:
    support: full
    details: Nothing is built. What a later step would still have to bring (source, headers) is listed, and is no failure.
  diff_mode:
    support: full
  idempotent:
    support: full
options:
  module:
    description: Name of the module as DKMS has it, for example V(nvidia-current).
    type: str
    required: true
  version:
    description: Exact version of the module's source.
    type: str
    required: true
  kernel:
    description:
      - Release of the kernel to build for, as C(uname -r) would print it.
      - Required except for O(state=absent), where leaving it out means every kernel and the registration itself.
    type: str
  state:
    description:
      - V(installed) and V(built) for the given kernel.
      - V(absent) takes the module from the given kernel. DKMS drops the registration with the last kernel.
    type: str
    choices: [installed, built, absent]
    default: installed
  files:
    description: Names of the module files that must exist, without C(.ko). Default is what the build produced.
    type: list
    elements: str
    default: []
  arch:
    description: Architecture as DKMS names it. Default is the node's own.
    type: str
  signing_key:
    description:
      - Path of the private key on the node with which DKMS signs, or a C(pkcs11:) address. It is never copied or read by this module.
      - DKMS is told in C(/etc/dkms/framework.conf.d/lockstep-gpu.conf); one older than 3.0.4 in its C(framework.conf), and by a program that signs.
      - A module that is signed with another key, or not at all, is built again. Left out, DKMS's settings stay as they are.
    type: str
  signing_cert:
    description: Path of the certificate on the node that belongs to O(signing_key), best in DER form, as C(mokutil) wants it.
    type: path
  secure_boot:
    description:
      - Whether the kernel that will load the module takes only modules that are signed with an enrolled key.
      - Then a certificate that is known not to be enrolled is a failure before anything is done (V(mok_not_enrolled)), and so is a result that is
        not signed (V(module_unsigned)).
    type: bool
    default: false
  wait:
    description: Seconds to wait for a DKMS process that is already at work before giving up.
    type: int
    default: 900
"""

EXAMPLES = r"""
- name: The NVIDIA module for the kernel that the node will boot next
  lockstep.gpu.dkms_module:
    module: nvidia-current
    version: 550.163.01
    kernel: 6.12.117+deb13-amd64
    files: [nvidia-current, nvidia-current-modeset, nvidia-current-drm, nvidia-current-uvm, nvidia-current-peermem]

- name: The module, signed with the site's own key
  lockstep.gpu.dkms_module:
    module: nvidia
    version: 580.126.20
    kernel: 6.8.0-90-generic
    signing_key: /etc/keys/modules.priv
    signing_cert: /etc/keys/modules.der
    secure_boot: true

- name: Nothing of an older version, for any kernel
  lockstep.gpu.dkms_module:
    module: nvidia-current
    version: 535.261.03
    state: absent
"""

RETURN = r"""
state_before:
  description: What was found - V(absent), V(added), V(built), V(installed), V(broken), with V(, damaged) where files were not what DKMS says.
  returned: always
  type: str
  sample: added
state_after:
  description: The state at the end, read back. In check mode the state that would be reached.
  returned: always
  type: str
  sample: installed
steps:
  description: What was done, or in check mode would be done, in order.
  returned: always
  type: list
  elements: str
  sample: [add, build, install]
reasons:
  description: Why the state that was found did not count as the wanted one, one sentence each.
  returned: always
  type: list
  elements: str
missing:
  description: What a build needs and the node lacks. Outside check mode that is a failure.
  returned: always
  type: list
  elements: str
built:
  description: Whether a build ran to its end.
  returned: always
  type: bool
seconds:
  description: Wall time of all steps.
  returned: always
  type: float
  sample: 163.2
files:
  description: The module files for this kernel, as found at the end.
  returned: always
  type: list
  elements: dict
  sample:
    - name: nvidia-current
      path: /lib/modules/6.12.117+deb13-amd64/updates/dkms/nvidia-current.ko.xz
      version: 550.163.01
      vermagic: 6.12.117+deb13-amd64 SMP preempt mod_unload modversions
      license: NVIDIA
      signer: DKMS module signing key
      signed: true
      key: 2A:F3:01
      sha256: 0f343b0931126a20f133d67c2b018a3b5f2ba2a1b2c1d6d1b0f9d3f3a1f0c0de
code:
  description: Why signatures made the run fail, in a word of the collection's findings; null for another reason.
  returned: when the signature is what failed
  type: str
  sample: mok_not_enrolled
log_path:
  description: The build's log, when there is one.
  returned: always
  type: str
  sample: /var/lib/dkms/nvidia-current/550.163.01/6.12.117+deb13-amd64/x86_64/log/make.log
first_error:
  description: The first error of the compiler, linker or modpost, below the build folder.
  returned: when a step failed
  type: str
  sample: "nvidia/nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'"
diagnosis:
  description: A known cause, with a stable C(code) and its C(meaning); null when the log matches none.
  returned: when a step failed
  type: dict
  sample: {code: kernel_api_changed, meaning: the driver's source doesn't fit this kernel}
log_tail:
  description: The last lines of the log.
  returned: when a step failed
  type: list
  elements: str
"""

import os
import platform
import time

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.lockstep.gpu.plugins.module_utils import dkms, dkms_log, dkms_signing, module_files
from ansible_collections.lockstep.gpu.plugins.module_utils.run import CommandError, Runner, find_tool

BUILD_EXCLUSIVE_RC = 77


def read_text(path, not_before=0.0):
    """A file's text, or "" when it is absent or older than `not_before` (a log of an earlier build)."""
    try:
        if os.stat(path).st_mtime < not_before:
            return ""
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read()
    except OSError:
        return ""


def explain(error, log, build_dir):
    """first_error, diagnosis and log_tail of a DkmsError: from the build's log, else from what DKMS printed."""
    text = log or error.output
    said = [line for line in error.output.splitlines() if line.startswith("Error!")]
    first = dkms_log.first_error(log, build_dir) or (said[0] if said else str(error))
    diagnosis = dkms_log.diagnose(text, first)
    if error.rc == BUILD_EXCLUSIVE_RC:
        diagnosis = {"code": "build_exclusive",
                     "meaning": "the module's dkms.conf excludes this kernel (BUILD_EXCLUSIVE), a real-time kernel for example"}
    return {"first_error": first, "diagnosis": diagnosis, "log_tail": dkms_log.tail(text)}


def prepare_signing(module, run, params):
    """(Signing or None, its certificate or None), refused before anything is done. Raises SigningError."""
    if not params["signing_key"] or params["state"] == "absent":
        return None, None
    signing = dkms_signing.Signing(run, find_tool, params["signing_key"], params["signing_cert"])
    certificate = signing.certificate()
    if signing.exposed():
        module.warn("others than its owner may read the signing key %s" % params["signing_key"])
    if params["secure_boot"]:
        dkms_signing.require_enrolled(run, certificate, params["signing_cert"])
    return signing, certificate


def carry_out(module, tree, wanted, seen, signing, result):
    """Do the planned steps and read the state back into `result`. Raises DkmsError, SigningError."""
    for step in result["steps"]:
        module.debug("dkms step: %s" % step)
        if step == "configure":
            signing.configure()
        else:
            tree.do(step, wanted, seen)
        result["changed"] = True
        result["built"] = result["built"] or step == "build"
    after = tree.observe(wanted)
    result["state_after"] = dkms.describe_state(after)
    result["files"] = after.files
    if after.faults and all(map(module_files.is_about_a_signature, after.faults)):
        code = "module_unsigned" if "is not signed" in after.faults[0] else "mok_not_enrolled"
        raise dkms_signing.SigningError("%s.%s" % (after.faults[0], " DKMS said: %s" % tree.remarks[0] if tree.remarks else ""),
                                        code if module.params["secure_boot"] else None)
    reached = {"installed": ("installed",), "built": ("built", "installed"), "absent": ("absent", "added")}[wanted.state]
    if after.state not in reached or (wanted.state != "absent" and (after.faults if wanted.state == "installed" else after.bad_build)):
        raise dkms.DkmsError("after %s the module is still %s: %s" % (
            ", ".join(result["steps"]), result["state_after"], "; ".join(after.faults) or "nothing more is known"), "verify")


def fail_with_log(module, tree, wanted, error, began, result):
    """Leave the node consistent after a failed step and end with what the log says."""
    name = "%s/%s" % (wanted.module, wanted.version)
    log_path = os.path.join(tree.build_dir(wanted), "make.log")
    log = read_text(log_path, began) if error.step == "build" else ""
    if error.step == "build":
        tree.drop_partial_build(wanted)
    result.update(explain(error, log, tree.build_dir(wanted)), log_path=log_path if log else None)
    result["state_after"] = dkms.describe_state(tree.observe(wanted, hashed=False))
    meaning = " (%s)" % result["diagnosis"]["meaning"] if result["diagnosis"] else ""
    where = " for kernel %s" % wanted.kernel if wanted.kernel else ""
    module.fail_json(msg="%s: step %s failed%s: %s%s" % (name, error.step, where, result["first_error"], meaning), **result)


def main():
    module = AnsibleModule(
        argument_spec={
            "module": {"type": "str", "required": True},
            "version": {"type": "str", "required": True},
            "kernel": {"type": "str"},
            "state": {"type": "str", "choices": ["installed", "built", "absent"], "default": "installed"},
            "files": {"type": "list", "elements": "str", "default": []},
            "arch": {"type": "str"},
            "signing_key": {"type": "str", "no_log": False},
            "signing_cert": {"type": "path"},
            "secure_boot": {"type": "bool", "default": False},
            "wait": {"type": "int", "default": 900},
        },
        required_together=[("signing_key", "signing_cert")],
        required_if=[("state", "installed", ["kernel"]), ("state", "built", ["kernel"])],
        supports_check_mode=True)
    params = module.params
    wanted = dkms.Wanted(params["module"], params["version"], params["kernel"], params["arch"] or platform.machine(),
                         params["state"], params["files"])
    run = Runner(module)
    tree = dkms.Tree(run)
    began = time.time()
    result = {"changed": False, "built": False, "log_path": None, "seconds": 0.0, "files": [], "steps": [], "reasons": [], "missing": [],
              "state_before": None, "state_after": None}
    try:
        signing, certificate = prepare_signing(module, run, params)
        wanted = wanted._replace(certificate=certificate)
        pids = [] if module.check_mode else tree.wait_until_idle(wanted, params["wait"])
        if pids:
            module.fail_json(msg="DKMS is still at work after %d seconds (processes %s); nothing was changed"
                             % (params["wait"], ", ".join(map(str, pids))), **result)
        seen = tree.observe(wanted)
        result.update(state_before=dkms.describe_state(seen), state_after=dkms.describe_state(seen), files=seen.files,
                      reasons=seen.faults, steps=dkms.plan(wanted, seen))
        unwritten = signing.unwritten() if signing else {}
        if unwritten:
            result["steps"].insert(0, "configure")
        log_path = os.path.join(tree.built_dir(wanted), "log", "make.log") if wanted.kernel else ""
        where = "%s/%s on %s" % (wanted.module, wanted.version, wanted.kernel or "all kernels")
        if "build" in result["steps"]:
            result["missing"] = tree.missing(wanted, seen.state not in ("absent", "broken"))
        if result["steps"] and wanted.state != "absent":
            result["missing"] += [] if find_tool("dkms") else ["dkms is not installed: install the package dkms"]
            result["missing"] += seen.owned if wanted.state == "installed" else []
        if result["missing"] and not module.check_mode:
            module.fail_json(msg="%s cannot be %s: %s" % (where, wanted.state, "; ".join(result["missing"])), **result)
        if result["steps"] and module.check_mode:
            result.update(changed=True, state_after=wanted.state)
        elif result["steps"]:
            carry_out(module, tree, wanted, seen, signing, result)
        if params["secure_boot"] and wanted.state != "absent" and not module.check_mode:
            dkms_signing.require_loadable(run, result["files"], tree.remarks)
        result.update(seconds=round(time.time() - began, 1), log_path=log_path if os.path.exists(log_path) else None)
        result["diff"] = [{"before": "%s: %s\n" % (where, result["state_before"]), "after": "%s: %s\n" % (where, result["state_after"])}]
        result["diff"] += [{"before_header": path, "after_header": path, "before": before, "after": after}
                           for path, (before, after) in sorted(unwritten.items())]
        module.exit_json(**result)
    except dkms.DkmsError as error:
        result["seconds"] = round(time.time() - began, 1)
        fail_with_log(module, tree, wanted, error, began, result)
    except dkms_signing.SigningError as error:
        result["seconds"] = round(time.time() - began, 1)
        module.fail_json(msg="%s/%s: %s" % (wanted.module, wanted.version, error), code=error.code, **result)
    except (CommandError, OSError) as error:
        module.fail_json(msg=str(error), **result)


if __name__ == "__main__":
    main()
