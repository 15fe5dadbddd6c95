#!/usr/bin/python
# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

DOCUMENTATION = r"""
module: node_facts
short_description: Everything that decides about a GPU node, in one call
description:
  - Reads what decides about a GPU node, from the kernel and the boot loader over DKMS, modules and packages to NCCL's configuration, and returns it
    as C(ansible_facts.lockstep).
  - The level V(local) only reads files and asks dpkg or rpm. Nothing is loaded, locked or written on any level.
  - What cannot be read is V(none) and has an entry in C(unknown). It is never guessed, and never taken for absent.
  - With O(bundle), recorded outputs are read on the controller instead of the node, by the same parsers.
version_added: 0.1.0
author: lockstep.gpu contributors (@lockstep-gpu)
extends_documentation_fragment:
  - lockstep.gpu.attributes
  - lockstep.gpu.attributes.info_module
options:
  gather:
    description:
      - Levels to read.
      - V(local) reads files and the package database, in well under a second.
      - V(gpu) asks C(nvidia-smi). It is left out in check mode, because C(nvidia-smi) creates device nodes as root.
      - V(archive) asks apt or dnf what they would install.
      - V(deep) searches for every copy of the libraries and looks into the initramfs.
      - From a bundle everything is read that it has, unless levels are named.
    type: list
    elements: str
    choices: [local, gpu, archive, deep]
    default: [local]
  bundle:
    description:
      - Folder on the controller with recorded outputs and a C(bundle.yml); a relative one lies beside the playbook.
      - The node is then not touched.
    type: path
  certificate:
    description:
      - The site's certificate for modules on the node, where it has one of its own; whether it is enrolled is then asked, rather than of DKMS's.
    type: path
  probe_timeout:
    description: Seconds that each single probe may take; one that needs longer is killed, and its value is unknown.
    type: float
    default: 15.0
"""

EXAMPLES = r"""
- name: Read the node
  lockstep.gpu.node_facts:

- name: Ask the GPUs, too
  lockstep.gpu.node_facts:
    gather: [local, gpu]

- name: Judge a support bundle
  lockstep.gpu.node_facts:
    bundle: bundles/node17
  delegate_to: localhost
"""

RETURN = r"""
ansible_facts:
  description: The state of the node.
  returned: always
  type: dict
  contains:
    lockstep:
      description:
        - The state. A value that is V(none) was not asked for, not recorded, or is unknown; C(unknown) then has the reason.
        - 'About the reading: C(schema), C(gathered), C(unknown), C(unreadable) (probes that gave nothing), C(not_recorded), C(heard), C(believed).'
        - 'Machine: C(os), C(container), C(virtualization), C(host), C(services), C(space), C(nics), C(interfaces), C(rdma_ports), C(controller).'
        - 'Kernel and boot: C(kernel), C(compilers), C(build), C(boot), C(initramfs), C(new_kernel_default), C(reboot_marks), C(drained), C(trial),
          C(secure_boot), C(signing), C(modprobe), C(kernel_log).'
        - 'Modules: C(modules), C(dkms), C(dkms_status), C(dkms_settings), C(dkms_orphans), C(dkms_failures), C(dkms_logs).'
        - 'GPUs: C(gpus), C(gpu_devices), C(gpu_drivers), C(gpu_query), C(gpu_list), C(gpu_modes), C(gpu_processes), C(nvswitches), C(fabric), C(smi),
          C(delivery), C(runfile).'
        - 'Software: C(packages), C(package_manager), C(alternatives), C(libraries), C(library_files), C(loader_cache), C(cuda), C(cuda_run), C(nccl), C(ofed),
          C(rdma), C(containers), C(dcgm), C(lock_file).'
      type: dict
      sample:
        container: false
        dkms:
          - {module: nvidia-current, version: 550.163.01, kernel: 6.12.117+deb13-amd64, arch: x86_64, state: installed, flags: []}
        gathered: [local]
        os: {id: debian, release: "13", codename: trixie, arch: x86_64, name: Debian GNU/Linux 13 (trixie)}
        schema: 1
        unknown: []
given:
  description: What a bundle says about its node by other means.
  returned: when O(bundle) is named
  type: dict
  sample: {os: ubuntu-22.04, lock: {driver: 535.183.01}}
unknown:
  description: How many values could not be read; the reasons are in C(ansible_facts.lockstep.unknown).
  returned: always
  type: int
  sample: 0
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.lockstep.gpu.plugins.module_utils import capture_security
from ansible_collections.lockstep.gpu.plugins.module_utils.facts import result
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import DEFAULT_TIMEOUT, LiveProbe


def main():
    module = AnsibleModule(
        argument_spec={
            "gather": {"type": "list", "elements": "str", "choices": ["local", "gpu", "archive", "deep"], "default": ["local"]},
            "bundle": {"type": "path"},
            "certificate": {"type": "path"},
            "probe_timeout": {"type": "float", "default": DEFAULT_TIMEOUT},
        },
        supports_check_mode=True,
    )
    if module.params["bundle"]:
        module.fail_json(msg="a bundle is replayed on the controller by the action plugin of the same name: call"
                             " lockstep.gpu.node_facts from a play")
    capture_security.PREFERRED[:] = [module.params["certificate"]] if module.params["certificate"] else []
    probe = LiveProbe(timeout=module.params["probe_timeout"])
    module.exit_json(**result(probe, module.params["gather"], ask_gpu=not module.check_mode))


if __name__ == "__main__":
    main()
