# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What is told everywhere and is not so: whoever does it hears of it, wherever it is written. CUDA 11.8's: test_known_good.py."""
from __future__ import annotations

import pathlib
import re

import pytest
from ansible_collections.lockstep.gpu.plugins.filter import lockstep
from ansible_collections.lockstep.gpu.tests.unit.cases.recorded import judged

ROOT = pathlib.Path(__file__).resolve().parents[3]
CUDA = "https://developer.download.nvidia.com/compute/cuda/repos/"
SETTINGS = [
    ({"NCCL_TIMEOUT": "120"}, "nccl_variable_unknown"), ({"NCCL_IB_DISABLE": "1", "NCCL_SOCKET_IFNAME": "ib0"}, "nccl_settings_contradict"),
    ({"NCCL_NTHREADS": "4"}, "nccl_value_reset"), ({"NCCL_MAX_RINGS": "4"}, "nccl_variable_unknown"),
    ({"NCCL_BUFFERSIZE": "8388608"}, "nccl_variable_unknown"), ({"NCCL_ASYNC_ERROR_HANDLING": "1"}, "nccl_variable_unknown")]
LINES = ["\n".join("%s=%s" % pair for pair in settings.items()) for settings, _code in SETTINGS]


def codes(rows):
    return [row["code"] for row in rows]


@pytest.mark.parametrize(("settings", "code"), SETTINGS, ids=LINES)
def test_settings_of_nccl(settings, code):
    lines = "\n".join("%s=%s" % pair for pair in settings.items())
    for conf in (settings, {name: int(value) if value.isdigit() else value for name, value in settings.items()}, lines):
        assert codes(lockstep.findings({"nccl": {"version": "2.27.7", "conf": conf}}, {})) == [code]
        assert codes(lockstep.findings({"nccl_conf": conf}, {})) == [code]
    for probe in ("nccl_conf", "nccl_env"):
        assert codes(judged({}, **{probe: lines + "\n"})["findings"]) == [code]


@pytest.mark.parametrize("text", [
    "ERROR! couldn't resolve module/action 'community.general.nvidia_driver'. This often indicates a misspelling, missing collection, or incorrect path.",
    'fatal: [n1]: FAILED! => {"msg": "The module community.general.nvidia_driver was not found in configured module paths"}'])
def test_a_module_that_never_was(text):
    record = judged({}, ansible_error=text)
    assert record["verdict"] == "blocked"
    (row,) = [row for row in record["findings"] if row["code"] == "ansible_module_unknown"]
    assert "never was" in row["message"] and row["source"] and "lockstep.gpu.nvidia_driver" in row["do"][0]["target"]


@pytest.mark.parametrize("recorded", [
    {"apt_sources": "/etc/apt/sources.list.d/cuda.list:deb [trusted=yes] %subuntu2204/x86_64 /\n" % CUDA},
    {"apt_sources": "/etc/apt/sources.list.d/cuda.list:deb [allow-insecure=yes] %subuntu2204/x86_64 /\n" % CUDA},
    {"dnf_repos": "[cuda-rhel9-x86_64]\nname=cuda\nbaseurl=%srhel9/x86_64\nenabled=1\ngpgcheck=0\n" % CUDA},
    {"ansible_result": '{"changed": true, "invocation": {"module_args": {"name": "cuda-drivers", "allow_unauthenticated": true}}}'}], ids=str)
def test_an_unsigned_repository_of_cuda(recorded):
    record = judged({}, **recorded)
    assert record["verdict"] == "blocked" and "repository_unauthenticated" in codes(record["findings"])


def test_the_collection_repeats_none_of_it():
    told = re.compile(r"allow_unauthenticated:\s*(?:yes|true)|trusted=yes|gpgcheck[:=]\s*(?:0|no|false)|community\.general\.nvidia_driver:")
    files = [path for folder in ("roles", "playbooks") for path in (ROOT / folder).rglob("*") if path.suffix in (".yml", ".j2", ".md")]
    assert files and [str(path) for path in files if told.search(path.read_text(encoding="utf-8"))] == []
