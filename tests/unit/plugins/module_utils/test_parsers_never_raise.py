# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whatever a recording holds, a parser answers with a value and reasons."""

from __future__ import annotations

import pathlib
import time

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_alternatives, parse_apt, parse_boot, parse_common
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_dkms, parse_dpkg, parse_kernel, parse_libraries
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_cuda, parse_gpu_marks, parse_modules, parse_nvidia_query, parse_nvidia_smi
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_os, parse_pci
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_bls, parse_build
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_dnf, parse_dnf_plan, parse_dnf_run, parse_rpm
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_copies, parse_interfaces, parse_nccl, parse_nccl_log, parse_ofed
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_containers, parse_controller, parse_fabric, parse_host
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_dkms_log, parse_dkms_tree, parse_dmesg, parse_module_config, parse_signing
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_apt_actions, parse_apt_archive, parse_apt_run, parse_module_result, parse_trial
from hypothesis import given, settings
from hypothesis import strategies as st

MODULES = (parse_apt_actions, parse_apt_archive, parse_apt_run, parse_module_result, parse_trial,
           parse_dkms_log, parse_dkms_tree, parse_dmesg, parse_module_config, parse_signing,
           parse_containers, parse_controller, parse_fabric, parse_host,
           parse_dnf, parse_dnf_plan, parse_dnf_run, parse_rpm,
           parse_alternatives, parse_bls, parse_build, parse_apt, parse_boot, parse_common, parse_dkms, parse_dpkg, parse_kernel, parse_libraries,
           parse_cuda, parse_gpu_marks, parse_modules, parse_nvidia_query, parse_nvidia_smi, parse_os, parse_pci, parse_copies, parse_interfaces,
           parse_nccl, parse_nccl_log, parse_ofed)
# Those that unpack a Parsed for a caller of their own return plain values.
PLAIN = ("parse_alternatives", "parse_dpkg_list", "parse_own_pins")
PARSERS = sorted(((module, name) for module in MODULES for name in vars(module)
                  if name.startswith("parse_") and getattr(vars(module)[name], "__module__", "") == module.__name__),
                 key=lambda pair: pair[1])
RECORDINGS = [path.read_bytes() for path in sorted((pathlib.Path(__file__).parents[3] / "fixtures" / "bundles").glob("*/*.txt"))]
FRAGMENTS = ["Inst a [1] (2 x:y [amd64]) []", "Remv a [1]", "Start-Date: 1", "Upgrade: a:amd64 (1, 2), b (1", "a:", "  Installed: (none)", " *** 1 500",
             "        500 http://x.example y/z amd64 Packages", "ii  a 1 amd64 b", "The following packages have unmet dependencies:",
             " a : Depends: b (= 1) but 2 is",
             "E: Could not get lock /x. It is held by process 1 (a)", "dpkg: error processing package a (--configure):", "a | 1 | x y z", "A::B { \"c\"; };",
             "    Fabric", "State : Completed", "0, [N/A], [N/A]", "Active: active (running)", "driver interface version 535.1", "kind: nvidia.com/gpu",
             "  - hostPath: /usr/lib/libcuda.so.535.161.08", "version : 1.2.3", "Hostengine build info:", "ansible [core 2.17.5]", "python3: not found",
             "Could not import the dnf python module using /a (3.6.8", "{\"msg\": \"a\"}", "Id=a.service", "a: enabled", "GPU 0: a", "  MIG 1g Device 0: b",
             "Installing:", " kernel x86_64 1-1 baseos 1 M", "   replacing kernel.x86_64 1-0", "a-1:1-1.x86_64", "a.x86_64", "Installed Packages",
             "[[packages]]", "name = \"a\"", "key = \"evr\"", "[main]", "exclude=a", "nvidia-driver 570 [d][e] default [d] [i], b c",
             " Problem: cannot install both a-1-1.x86_64 and b-1-2.x86_64", "No match for argument: a", "Name : a", "Stream : b [e]",
             "==> /a <==", "==> /trial.json <==", "{\"schema\": 1, \"outcome\": \"failed\"}", "==> /x.sources <==", "nvidia/1, k, x86_64: installed",
             "menuentry 'a' --id b {", "submenu 'c' {", "}",
             "\tlinux /boot/vmlinuz-6", "# GRUB Environment Block", "a=b", "auto", "/a", "", "5", "Name: x", "Status: auto",
             "Alternative: /a", " b c", "Package: a", "Pin: version 1", "Pin-Priority: x", "Types: deb", "URIs: u", "Suites: s",
             "deb [a] u s c", "filename: /x", "NVRM version: NVIDIA UNIX x86_64 Kernel Module 1", "\ufffd\0", "9" * 5000, "{" * 3000,
             "Error! Bad return status for module build on kernel: 6.8.0-1-aws (x86_64)", "Consult /var/lib/dkms/nvidia/1/build/make.log for",
             "NVRM: The NVIDIA GPU 0000:02:00.0 (PCI ID: 10de:2c31)", "[key 1]", "SHA1 Fingerprint: 76:a0", "/x is not enrolled", "blacklist nouveau",
             "nova_core 180224 0", "modprobe: ERROR: could not insert 'nvidia': Key was", "usr/lib/modules/6/kernel/nova_core.ko.xz", "/var/lib/dkms/a/1:",
             "0, a, b, c, 00000000:17:00.0", "|   0  A  Off  | 0000:01:00.0 Off |", "| Processes: |", "[GPU is lost], 1", "9999999999 /", "[" * 3000,
             "ID=\"\\", "GRUB_DEFAULT='", "/boot/config-1:CONFIG_DRM="]


def check(module, name, text):
    result = getattr(module, name)(text)
    if name not in PLAIN:
        assert isinstance(result, parse_common.Parsed)
        assert all(isinstance(problem, str) and problem.isprintable() and len(problem) < 400 for problem in result.problems)


@pytest.mark.parametrize("module,name", PARSERS, ids=[name for _module, name in PARSERS])
class TestNeverRaises:
    @settings(max_examples=60, deadline=None)
    @given(text=st.one_of(st.text(), st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("\n".join)))
    def test_arbitrary_text(self, module, name, text):
        check(module, name, text)

    @settings(max_examples=60, deadline=None)
    @given(data=st.data())
    def test_damaged_recordings(self, module, name, data):
        content = data.draw(st.sampled_from(RECORDINGS))
        start = data.draw(st.integers(0, max(0, len(content) - 1)))
        piece = content[start:start + data.draw(st.integers(0, 3000))]
        junk = data.draw(st.binary(max_size=20))
        middle = len(piece) // 2
        for codec in ("utf-8", "utf-16"):
            check(module, name, (piece[:middle] + junk + piece[middle:]).decode(codec, "replace"))


PIECES = {"long line": ("x", 60000), "empty lines": ("\n", 20000), "continuations": (" y\n", 10000), "brackets": ("(", 20000), "braces": ("{", 20000),
          "fields": ("a: b\n", 10000), "blanks": (" ", 60000), "assignments": ("a=", 20000)}


@pytest.mark.parametrize("module,name", PARSERS, ids=[name for _module, name in PARSERS])
@pytest.mark.parametrize("kind", sorted(PIECES))
def test_long_input_takes_linear_time(module, name, kind):
    """Five times the text may take twelve times as long; a square would take twenty-five times."""
    piece, count = PIECES[kind]

    def seconds(times):
        began = time.process_time()
        check(module, name, piece * times)
        return time.process_time() - began
    # The best of three: the machine does other things, too.
    assert any(seconds(count) <= 12 * max(seconds(count // 5), 0.01) for dummy in range(3))


@given(st.lists(st.tuples(st.from_regex(r"/[a-z]{1,5}", fullmatch=True), st.from_regex(r"([a-z]{0,5}\n){0,3}", fullmatch=True)), max_size=4))
def test_files_round_trip(files):
    assert parse_common.split_files(parse_common.join_files(files)) == (files, [])
