# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CDI specifications, DCGM's versions in their spellings, and what container engines and the exporter say."""

from __future__ import annotations

import json

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import facts_containers
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_containers as containers
from hypothesis import given
from hypothesis import strategies as st

SPEC = """---
cdiVersion: 0.5.0
containerEdits:
  deviceNodes:
  - path: /dev/nvidiactl
  mounts:
  - containerPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08
    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08
    options: [ro, nosuid]
  - containerPath: /usr/bin/nvidia-smi
    hostPath: "/usr/bin/nvidia-smi"
devices:
- containerEdits: {}
  name: "0"
- name: all
kind: nvidia.com/gpu
"""
PATHS = ["/usr/bin/nvidia-smi", "/usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08"]


def test_a_specification():
    (row,), problems = containers.parse_cdi_spec(SPEC)
    assert problems == [] and row == {"path": "CDI specification", "kind": "nvidia.com/gpu", "versions": ["535.161.08"], "devices": ["0", "all"],
                                      "paths": PATHS}
    text = "==> /etc/cdi/nvidia.yaml <==\n" + SPEC + "\n==> /etc/cdi/other.yaml <==\nkind: intel.com/gpu\n"
    assert [one["path"] for one in containers.parse_cdi_spec(text).value] == ["/etc/cdi/nvidia.yaml"]
    assert containers.parse_cdi_spec("") == ([], []) and containers.parse_cdi_spec("hello\n").problems


@pytest.mark.parametrize("indent", [None, 2])
def test_the_same_in_json(indent):
    data = {"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "all", "containerEdits": {}}],
            "containerEdits": {"mounts": [{"hostPath": path, "containerPath": path} for path in PATHS]}}
    (row,), problems = containers.parse_cdi_spec(json.dumps(data, indent=indent))
    assert problems == [] and row["paths"] == PATHS and row["versions"] == ["535.161.08"] and row["devices"] == ["all"]


@given(st.lists(st.from_regex(r"/[a-z]{1,6}(/[a-z0-9.]{1,8}){0,3}", fullmatch=True), unique=True, max_size=6))
def test_every_path_is_found(paths):
    yaml = "kind: nvidia.com/gpu\nmounts:\n" + "".join("  - hostPath: %s\n    containerPath: /x\n" % path for path in paths)
    assert containers.parse_cdi_spec(yaml).value[0]["paths"] == sorted(paths)


def test_live_capture_finds_what_is_gone(tmp_path):
    (tmp_path / "etc/cdi").mkdir(parents=True)
    (tmp_path / "etc/cdi/nvidia.yaml").write_text(SPEC, encoding="utf-8")
    (tmp_path / "usr/bin").mkdir(parents=True)
    (tmp_path / "usr/bin/nvidia-smi").write_text("", encoding="utf-8")
    assert facts_containers._cdi_missing(str(tmp_path)) == "/usr/lib/x86_64-linux-gnu/libcuda.so.535.161.08\n"
    assert containers.parse_cdi_spec(facts_containers._cdi_spec(str(tmp_path))).value[0]["path"] == "/etc/cdi/nvidia.yaml"


def test_lists():
    assert containers.parse_cdi_list('time="x" level=info msg="Found 2 CDI devices"\nnvidia.com/gpu=0\nnvidia.com/gpu=all\n').value == ["nvidia.com/gpu=0",
                                                                                                                                        "nvidia.com/gpu=all"]
    assert containers.parse_cdi_list("INFO[0000] Found 0 CDI devices\n").value == []
    assert containers.parse_paths("/a\nb\n") == (["/a"], ["line 2 is not understood: b"])


@pytest.mark.parametrize("text,version", [
    ("NVIDIA Container Toolkit CLI version 1.17.8\ncommit: abc\n", "1.17.8"), ("cli-version: 1.14.3\nlib-version: 1.14.2\n", "1.14.3"),
    ("NVIDIA Container Runtime Hook version 1.13.5\n", "1.13.5"), ("nothing", None)])
def test_toolkit_version(text, version):
    assert containers.parse_toolkit_version(text).value == version


@pytest.mark.parametrize("text,missing,unresolved,mismatch", [
    ("docker: Error response from daemon: failed to create task: OCI runtime create failed: nvidia-container-cli: mount error: "
     "stat failed: /usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.161.08: no such file or directory: unknown.",
     ["/usr/lib/x86_64-linux-gnu/libnvidia-ml.so.535.161.08"], [], False),
    ("Error: crun: cannot stat `/usr/lib64/libEGL_nvidia.so.550.54.14`: No such file or directory: OCI runtime attempted to invoke a command that "
     "was not found",
     ["/usr/lib64/libEGL_nvidia.so.550.54.14"], [], False),
    ("Error: setting up CDI devices: unresolvable CDI devices nvidia.com/gpu=all", [], ["nvidia.com/gpu=all"], False),
    ("could not apply required modification to OCI specification: error injecting CDI devices: unresolvable CDI devices nvidia.com/gpu=0, "
     "nvidia.com/gpu=1: unknown",
     [], ["nvidia.com/gpu=0", "nvidia.com/gpu=1"], False),
    ("nvidia-container-cli: initialization error: nvml error: driver/library version mismatch: unknown", [], [], True)])
def test_a_container_that_did_not_start(text, missing, unresolved, mismatch):
    assert containers.parse_container_run(text) == ({"missing": missing, "unresolved": unresolved, "cdi_missing": [], "mismatch": mismatch}, [])


BUILD = ("Version : 3.3.5\nBuild ID : 14\nBuild Date : 2024-02-24\n"
         "Build Platform : Linux 4.15.0-180-generic #189-Ubuntu SMP Wed May 18 14:13:57 UTC 2022 x86_64\n")


@pytest.mark.parametrize("text,version,engine", [
    ("dcgmi  version: 4.2.3\n", "4.2.3", None), (BUILD, "3.3.5", None),
    (BUILD + "\nHostengine build info:\n" + BUILD.replace("3.3.5", "3.1.8"), "3.3.5", "3.1.8"), ("Build ID : 1\n", None, None)])
def test_dcgm_version(text, version, engine):
    value = containers.parse_dcgm_version(text).value
    assert value == ({"version": version, "host_engine": engine} if version else None)


@pytest.mark.parametrize("text,expected", [
    ("3.3.5-3.4.0-ubuntu22.04\n", ("3.3.5", "3.4.0")), ("4.2.3-4.1.3\n", ("4.2.3", "4.1.3")),
    ("registry.example/nvidia/k8s/dcgm-exporter:2.3.1-2.6.0-ubi8\n", ("2.3.1", "2.6.0")),
    ("IMAGE\nregistry2.example/pause:3.9\nregistry.example/nvidia/k8s/dcgm-exporter:4.4.1-4.6.0-distroless\n", ("4.4.1", "4.6.0")), ("latest\n", None)])
def test_exporter_tag(text, expected):
    assert containers.parse_dcgm_exporter_tag(text).value == (expected and {"dcgm": expected[0], "exporter": expected[1]})


@pytest.mark.parametrize("text,mismatch,library", [
    ('time="2022-07-19T14:22:41Z" level=fatal msg="Error getting device busid: API version mismatch"', "Error getting device busid: API version mismatch",
     None),
    ("FATA[0001] Error retrieving DCGM MIG hierarchy: API version mismatch ", "FATA[0001] Error retrieving DCGM MIG hierarchy: API version mismatch", None),
    ("dcgm-exporter: error while loading shared libraries: libdcgm.so.4: cannot open shared object file: No such file or directory", None, "4"),
    ("level=fatal msg=\"Error starting: libdcgm.so not found\"", None, ""), ("level=info msg=\"Starting dcgm-exporter\"", None, None)])
def test_exporter_log(text, mismatch, library):
    value = containers.parse_dcgm_exporter_log(text).value
    assert (value["mismatch"], value["library"]) == (mismatch, library)


def test_exporter_names_itself():
    value = containers.parse_dcgm_exporter_log('msg="Starting dcgm-exporter" Version=4.2.3-4.1.3\n').value
    assert (value["dcgm"], value["exporter"]) == ("4.2.3", "4.1.3")


def test_settings():
    text = ('==> /etc/docker/daemon.json <==\n{"default-runtime": "nvidia", "features": {"cdi": true}, "runtimes": {"nvidia": {"path": '
            '"nvidia-container-runtime"}}}\n'
            '\n==> /etc/nvidia-container-runtime/config.toml <==\n[nvidia-container-runtime]\nmode = "cdi"\n')
    assert containers.parse_container_config(text) == ({"default_runtime": "nvidia", "nvidia_runtime": True, "cdi": True, "mode": "cdi"}, [])
