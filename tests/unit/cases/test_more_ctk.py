# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More recordings of containers and monitoring, in the tools' own words."""
from __future__ import annotations

import pytest

from .recorded import failed, judged
from .told import wrong

CASES = [
    pytest.param(
        {"os": "ubuntu-24.04", "lock": {"container_toolkit": "1.17.8"}}, {
            "dpkg_list": ("hi  libnvidia-container-tools      1.18.0-1  amd64  NVIDIA container runtime library (command-line tools)\n"
                          "hi  libnvidia-container1:amd64     1.18.0-1 amd64 NVIDIA container runtime library\n"
                          "hi  nvidia-container-toolkit       1.18.0-1  amd64 NVIDIA Container toolkit\n"
                          "hi  nvidia-container-toolkit-base  1.18.0-1 amd64 NVIDIA Container Toolkit Base\n"),
        }, "drift",
        [("package_version_differs", "error", "nvidia-container-toolkit 1.18.0"), ("package_version_differs", "error", "libnvidia-container1 1.18.0")],
        [("downgrade_exact", "libnvidia-container1=1.17.8-1")], id="pvd-ctk-apt"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "550.54.15"}}, {
            "cdi_spec": ("---\ncdiVersion: 0.5.0\ncontainerEdits:\n  deviceNodes:\n  - path: /dev/nvidiactl\n  - path: /dev/nvidia-uvm\n  hooks:\n"
                         "  - args: [nvidia-cdi-hook, create-symlinks]\n    hookName: createContainer\n    path: /usr/bin/nvidia-cdi-hook\n"
                         "  mounts:\n  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08\n"
                         "    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08\n    options: [ro, nosuid, nodev, bind]\n"
                         "  - containerPath: /usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.0\n"
                         "    hostPath: /usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.0\ndevices:\n- containerEdits:\n    deviceNodes:\n"
                         '    - path: /dev/nvidia0\n  name: "0"\n- name: all\nkind: nvidia.com/gpu\n'),
            "proc_driver_version": ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Thu Mar 28 20:00:00 UTC 2024\n"
                                    "GCC version:  gcc version 12.3.0\n"),
        }, "drift",
        [("cdi_spec_stale", "error", "/etc/cdi/nvidia.yaml 535.161.08 550.54.15")],
        [("rewrite_file", "/etc/cdi/nvidia.yaml")], id="cdi-stale"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "550.54.15"}}, {
            "cdi_spec": ("---\ncdiVersion: 0.5.0\ncontainerEdits:\n  deviceNodes:\n  - path: /dev/nvidiactl\n  - path: /dev/nvidia-uvm\n  hooks:\n"
                         "  - args: [nvidia-cdi-hook, create-symlinks]\n    hookName: createContainer\n    path: /usr/bin/nvidia-cdi-hook\n"
                         "  mounts:\n  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15\n"
                         "    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15\n    options: [ro, nosuid, nodev, bind]\n"
                         "  - containerPath: /usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.0\n"
                         "    hostPath: /usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.0\ndevices:\n- containerEdits:\n    deviceNodes:\n"
                         '    - path: /dev/nvidia0\n  name: "0"\n- name: all\nkind: nvidia.com/gpu\n'),
            "proc_driver_version": ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Thu Mar 28 20:00:00 UTC 2024\n"
                                    "GCC version:  gcc version 12.3.0\n"),
        }, "in_sync", [], [], id="cdi-twin"),
    pytest.param(
        {"os": "fedora-40"}, {
            "container_run": failed(("Error: unable to start container \"ecdb2132becb\": crun: error stat'ing file "
                                     "`/lib/x86_64-linux-gnu/libEGL_nvidia.so.535.161.07`: No such file or directory: OCI runtime "
                                     "attempted to invoke a command that was not found\n"), 127),
            "proc_driver_version": ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.171.04  Thu Mar 28 20:00:00 UTC 2024\n"
                                    "GCC version:  gcc version 12.3.0\n"),
        }, "broken", [("cdi_spec_stale", "error", "/etc/cdi/nvidia.yaml 535.161.07")], [("rewrite_file", "/etc/cdi/nvidia.yaml")], id="cdi-run"),
    pytest.param(
        {"os": "ubuntu-24.04"}, {
            "container_run": failed(("docker: Error response from daemon: failed to create task for container: failed to create shim "
                                     "task: OCI runtime create failed: could not apply required modification to OCI specification: error "
                                     "modifying OCI spec: failed to inject CDI devices: unresolvable CDI devices nvidia.com/gpu=all: unknown\n"), 125),
        }, "broken", [("cdi_spec_stale", "error", "/etc/cdi/nvidia.yaml nvidia.com/gpu=all")], [("rewrite_file", "")], id="cdi-inject"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "container_run": failed(("Error: setting up CDI devices: failed to inject devices: failed to stat CDI host device "
                                     '"/dev/dri/renderD129": no such file or directory\n'), 126),
        }, "broken", [("cdi_spec_stale", "error", "/dev/dri/renderD129")], [("rewrite_file", "")], id="cdi-stat-dev"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "cdi_spec": ("==> /var/run/cdi/nvidia.yaml <==\n---\ncdiVersion: 0.5.0\ncontainerEdits:\n  deviceNodes:\n  - path: /dev/nvidiactl\n"
                         "  - path: /dev/nvidia-uvm\n  hooks:\n  - args: [nvidia-cdi-hook, create-symlinks]\n    hookName: createContainer\n"
                         "    path: /usr/bin/nvidia-cdi-hook\n  mounts:\n  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08\n"
                         "    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08\n    options: [ro, nosuid, nodev, bind]\n"
                         "  - containerPath: /usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.0\n"
                         "    hostPath: /usr/lib/x86_64-linux-gnu/libnvidia-egl-gbm.so.1.1.0\ndevices:\n- containerEdits:\n    deviceNodes:\n"
                         '    - path: /dev/nvidia0\n  name: "0"\n- name: all\nkind: nvidia.com/gpu\n'),
            "cdi_missing": "/usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08\n",
        }, "drift",
        [("cdi_spec_stale", "error", "/var/run/cdi/nvidia.yaml 535.161.08")],
        [("rewrite_file", "/var/run/cdi/nvidia.yaml")], id="cdi-missing"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "cdi_spec": ("    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08\n"
                         "    hostPath: /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.161.08\n"),
            "nvidia_smi_query": "0, NVIDIA A100-SXM4-40GB, GPU-1, 550.90.07, 00000000:07:00.0\n",
        }, "drift", [("cdi_spec_stale", "error", "535.161.08 550.90.07")], [("rewrite_file", "/etc/cdi/nvidia.yaml")], id="cdi-grep"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "cdi_spec": ('==> /etc/cdi/nvidia.json <==\n{\n "cdiVersion": "0.5.0",\n "kind": "nvidia.com/gpu",\n "devices": [\n  {\n   "name": "0",\n'
                         '   "containerEdits": {}\n  }\n ],\n "containerEdits": {\n  "mounts": [\n   {\n'
                         '    "hostPath": "/usr/lib64/libcuda.so.535.161.08",\n    "containerPath": "/usr/lib64/libcuda.so.535.161.08"\n   }\n  ]\n'
                         " }\n}\n"),
            "sys_module_version": "550.90.07\n",
        }, "drift", [("cdi_spec_stale", "error", "/etc/cdi/nvidia.json 535.161.08 550.90.07")], [("rewrite_file", "/etc/cdi/nvidia.json")], id="cdi-json"),
    pytest.param(
        {}, {
            "dcgm_version": "dcgmi  version: 3.3.9\n",
            "dcgm_exporter_tag": "registry.example/nvidia/k8s/dcgm-exporter:4.1.1-4.0.4-ubuntu22.04\n",
        }, "drift", [("dcgm_exporter_mismatch", "error", "3.3.9")], [("install_exact", "datacenter-gpu-manager-4-core")], id="dcgm-4"),
    pytest.param(
        {}, {
            "dcgm_exporter_log": failed(('time="2025-02-11T10:00:00Z" level=info msg="Starting dcgm-exporter"\n'
                                         'time="2025-02-11T10:00:00Z" level=fatal msg="libdcgm.so.4 not found: the specific library '
                                         'version was not found"\n')),
        }, "drift", [("dcgm_exporter_mismatch", "error", "")], [("install_exact", "datacenter-gpu-manager")], id="dcgm-lib"),
    pytest.param(
        {}, {
            "dcgm_exporter_log": failed(('time="2024-01-23T07:06:10Z" level=info msg="Attemping to connect to remote hostengine at localhost:5555"\n'
                                         'time="2024-01-23T07:06:10Z" level=fatal msg="API version mismatch"\n')),
        }, "drift", [("dcgm_exporter_mismatch", "error", "")], [("install_exact", "datacenter-gpu-manager")], id="dcgm-log"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "dpkg_list": "datacenter-gpu-manager\t1:3.1.8\tii \n",
            "dcgm_exporter_tag": "dcgm-exporter:2.4.6-2.6.10-ubuntu20.04\n",
        }, "drift", [("dcgm_exporter_mismatch", "error", "3.1.8")], [("install_exact", "datacenter-gpu-manager=2.4.6")], id="dcgm-pkg"),
    pytest.param(
        {"os": "amazon-2", "lock": {"container_toolkit": "1.13.5"}}, {
            "dnf_run": failed(("Error: Package: nvidia-container-toolkit-1.13.5-1.x86_64 (nvidia-container-toolkit)\n"
                               "           Requires: libnvidia-container-tools >= 1.13.5-1\n"
                               "           Installing: libnvidia-container-tools-1.4.0-1.amzn2.x86_64 (amzn2-nvidia)\n"
                               "               libnvidia-container-tools = 1.4.0-1.amzn2\n You could try using --skip-broken to work around the problem\n")),
        }, "drift", [("exact_set_needed", "info", "libnvidia-container1-1.13.5-1")],
        [("install_exact", "nvidia-container-toolkit-1.13.5-1 libnvidia-container-tools-1.13.5-1"), ("dnf_versionlock", "libnvidia-container1")],
        id="set-yum"),
    pytest.param(
        {"os": "ubuntu-20.04"}, {
            "container_run": failed("nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown.\n", 125),
        }, "broken", [("driver_library_mismatch", "error", "")], [], id="hook-mismatch"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "550.54.15"}}, {
            "sys_module_version": "550.54.15\n", "dpkg_list": "libnvidia-compute-550\t550.54.15-0ubuntu1\tii \n",
            "container_run": "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90\n",
        }, "in_sync", [], [], id="mismatch-inside-a-container"),
]


@pytest.mark.parametrize("given,texts,verdict,findings,steps", CASES)
def test_what_is_said(given, texts, verdict, findings, steps):
    assert not wrong(judged(given, **texts), verdict, findings, steps)
