#!/usr/bin/python
# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: cuda_probe
short_description: Prove at run time which driver, CUDA, NCCL and RDMA parts a node really uses
description:
  - Loads the libraries as a program would and asks them for their own version, compiles and runs a CUDA program, and asks C(modprobe)
    and C(modinfo) what the kernel that is wanted would load. One call returns all rows.
  - What cannot be shown, because there is no GPU for example, is reported as not proven with the reason, and is no failure.
    A row whose C(value) differs from its C(expected) is a contradiction.
  - Each foreign library and program runs in a process of its own with a time limit.
version_added: 0.1.0
author: lockstep.gpu contributors (@lockstep-gpu)
extends_documentation_fragment:
  - lockstep.gpu.attributes
  - lockstep.gpu.attributes.info_module
attributes:
  check_mode:
    details:
      - NVML, C(nvidia-smi), the CUDA runtime and the compiled program are not run in check mode. As root they create device nodes.
        No module is loaded either.
options:
  subjects:
    description:
      - What to prove.
      - V(load) really runs C(modprobe) for O(alias) where O(kernel) is the running one. On a machine without a GPU the driver answers
        C(No such device), which proves that the module fits the kernel.
      - V(initramfs_content) looks into the initramfs of O(kernel) for the blacklist of M(lockstep.gpu.modprobe_policy) and for old copies of O(modules).
    type: list
    elements: str
    choices: [libcuda, libnvidia-ml, nvidia-smi, libcudart, nvcc, compile, libnccl, ibv_devinfo, modprobe, modules, initramfs, initramfs_content, load]
    default: [libcuda, libnvidia-ml, nvidia-smi, libcudart, nvcc, libnccl, ibv_devinfo, modprobe, modules, initramfs]
  kernel:
    description:
      - Release of the kernel that V(modprobe), V(modules), V(initramfs) and V(initramfs_content) are about. It need not be the running one.
      - These subjects are left out without it.
    type: str
  modules:
    description: Names of module files to describe, without C(.ko).
    type: list
    elements: str
    default: []
  alias:
    description: The name that a loader of the driver gives to C(modprobe).
    type: str
    default: nvidia
  compile:
    description: Compile a small CUDA program with C(nvcc) in a temporary folder and run it. The same as naming V(compile) in O(subjects).
    type: bool
    default: false
  expected:
    description:
      - Expected value by subject of a row, for example C(libcuda) or C(module:nvidia-current).
      - An expectation with fewer parts is met by its first parts, so that V(12.4) fits 12.4.131.
    type: dict
    default: {}
  limit:
    description: Seconds that each library or command may take. The compiler may take six times as long.
    type: int
    default: 20
"""

EXAMPLES = r"""
- name: What this node really uses
  lockstep.gpu.cuda_probe:
    kernel: 6.12.117+deb13-amd64
    modules: [nvidia-current, nvidia-current-uvm]
    compile: true
    expected:
      libcuda: 550.163.01
      libnvidia-ml: 550.163.01
      nvcc: "12.4"
      libnccl: 2.22.3
      modprobe: nvidia-current
      module:nvidia-current: 550.163.01
  register: probe
"""

RETURN = r"""
proof:
  description: One row for each subject.
  returned: always
  type: dict
  contains:
    subject:
      description: Name of the row, the key again.
      type: str
      returned: always
    value:
      description: What was found; null when nothing was.
      type: raw
      returned: always
    expected:
      description: What O(expected) names for it; null when it names nothing.
      type: raw
      returned: always
    proven:
      description: Whether the value was obtained from the thing itself and agrees with what is expected.
      type: bool
      returned: always
    detail:
      description: One sentence with the file, the answer or the reason why nothing is proven.
      type: str
      returned: always
  sample:
    libnccl: {subject: libnccl, value: 2.22.3, expected: 2.22.3, proven: true, detail: libnccl.so.2 is /usr/lib/x86_64-linux-gnu/libnccl.so.2.22.3}
not_proven:
  description: Subjects without a value that could be obtained here.
  returned: always
  type: list
  elements: str
contradicted:
  description: Subjects whose value was obtained and differs from what is expected, or which fail the kernel.
  returned: always
  type: list
  elements: str
"""

from concurrent.futures import ThreadPoolExecutor

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.lockstep.gpu.plugins.module_utils import cuda_probe_kernel, cuda_probe_lib as lib
from ansible_collections.lockstep.gpu.plugins.module_utils.run import Runner, find_tool, run_limited

SUBJECTS = ["libcuda", "libnvidia-ml", "nvidia-smi", "libcudart", "nvcc", "compile", "libnccl", "ibv_devinfo", "modprobe", "modules",
            "initramfs", "initramfs_content", "load"]
# Asked for by name only: they take time, or act.
SPECIAL = ("compile", "initramfs_content", "load")
WORKERS = 4     # probes wait on other processes; more would only slow a busy node


def cudart_row(may_act, limit, expected):
    """The row of libcudart as the loader's cache has it. Before CUDA 12 its version call starts the driver."""
    soname = lib.cudart_soname(run_limited([find_tool("ldconfig") or "ldconfig", "-p"], limit).out, expected)
    if soname is None:
        return lib.row("libcudart", None, "the loader's cache has no libcudart", False, expected)
    return lib.library_row("libcudart", soname, "cudaRuntimeGetVersion" if may_act else "", lib.decode_cuda, limit, expected)


def probes(params, run, may_act):
    """{subject: function that returns its rows}, for the subjects that are asked for."""
    limit, kernel, expected = params["limit"], params["kernel"], params["expected"]
    table = {
        "libcuda": lambda: [lib.library_row("libcuda", "libcuda.so.1", "cuDriverGetVersion", lib.decode_cuda, limit, expected.get("libcuda"))],
        "libnvidia-ml": lambda: lib.nvml_rows("libnvidia-ml.so.1", may_act, limit, expected),
        "nvidia-smi": lambda: [lib.smi_row(may_act, limit, expected.get("nvidia-smi"))],
        "libcudart": lambda: [cudart_row(may_act, limit, expected.get("libcudart"))],
        "nvcc": lambda: [lib.nvcc_row(limit, expected.get("nvcc"))],
        "compile": lambda: lib.compile_rows(may_act, 6 * limit, expected),
        "libnccl": lambda: [lib.library_row("libnccl", "libnccl.so.2", "ncclGetVersion", lib.decode_nccl, limit, expected.get("libnccl"))],
        "ibv_devinfo": lambda: [lib.ibv_row(limit, expected.get("ibv_devinfo"))],
    }
    if kernel:
        table.update({
            "modprobe": lambda: [lib.modprobe_row(params["alias"], kernel, limit, expected.get("modprobe"))],
            "modules": lambda: lib.module_rows(run, kernel, params["modules"], expected),
            "initramfs": lambda: [lib.initramfs_row(kernel, expected.get("initramfs"))],
            "initramfs_content": lambda: [cuda_probe_kernel.content_row(kernel, params["modules"], 6 * limit)],
            "load": lambda: [cuda_probe_kernel.load_row(params["alias"], kernel, may_act, 6 * limit, expected.get("load"))],
        })
    wanted = params["subjects"] + (["compile"] if params["compile"] else [])
    return {name: table[name] for name in SUBJECTS if name in wanted and name in table}


def main():
    module = AnsibleModule(
        argument_spec={
            "subjects": {"type": "list", "elements": "str", "choices": SUBJECTS,
                         "default": [name for name in SUBJECTS if name not in SPECIAL]},
            "kernel": {"type": "str"},
            "modules": {"type": "list", "elements": "str", "default": []},
            "alias": {"type": "str", "default": "nvidia"},
            "compile": {"type": "bool", "default": False},
            "expected": {"type": "dict", "default": {}},
            "limit": {"type": "int", "default": 20},
        },
        supports_check_mode=True)
    table = probes(module.params, Runner(module), not module.check_mode)
    with ThreadPoolExecutor(WORKERS) as pool:
        rows = [row for rows in pool.map(lambda probe: probe(), table.values()) for row in rows]
    unknown = sorted(set(module.params["expected"]) - {row["subject"] for row in rows})
    if unknown:
        module.fail_json(msg="expected names %s, which nothing here proves; there are rows for %s" % (
            ", ".join(unknown), ", ".join(row["subject"] for row in rows)))
    module.exit_json(
        changed=False, proof={row["subject"]: row for row in rows},
        not_proven=[row["subject"] for row in rows if not row["proven"] and row["value"] is None],
        contradicted=[row["subject"] for row in rows if not row["proven"] and row["value"] is not None])


if __name__ == "__main__":
    main()
