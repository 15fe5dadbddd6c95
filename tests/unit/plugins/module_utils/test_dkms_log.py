# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""First errors and diagnoses of failed builds; the NVIDIA log is recorded from a real DKMS 3.2.2 build on Debian 13."""

from __future__ import annotations

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ansible_collections.lockstep.gpu.plugins.module_utils import dkms_log

FIXTURES = pathlib.Path(__file__).parents[3] / "fixtures/dkms"
BUILD_DIR = "/var/lib/dkms/nvidia-current-open/550.163.01/build"

COMPILE_LINE = "   x86_64-linux-gnu-gcc-14 -Wp,-MMD,x -Werror=date-time -Werror: error: -c -o a.o a.c"
DIFFERS = "warning: the compiler differs from the one used to build the kernel\n"


def test_real_open_module_on_6_12_117():
    log = (FIXTURES / "make-open-550-on-6.12.117.log").read_text()
    error = dkms_log.first_error(log, BUILD_DIR)
    assert error == "nvidia/nv-pci.c:237:9: error: too few arguments to function 'pci_resize_resource'"
    assert dkms_log.diagnose(log, error)["code"] == "kernel_api_changed"
    assert all(len(line) <= dkms_log.MAX_LINE + 3 for line in dkms_log.tail(log))


@pytest.mark.parametrize("log, first, code", [
    (DIFFERS + "cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'\nmake[3]: *** [x.o] Error 1",
     "cc: error: unrecognized command-line option '-ftrivial-auto-var-init=zero'", "compiler_mismatch"),
    ("x.c:1:2: warning: unused\nx.c:5:9: error: 'struct drm_driver' has no member named 'date'\n",
     "x.c:5:9: error: 'struct drm_driver' has no member named 'date'", "kernel_api_changed"),
    ("x.c:5:9: error: unused variable 'a' [-Werror=unused-variable]\ncc1: all warnings being treated as errors\n",
     "x.c:5:9: error: unused variable 'a' [-Werror=unused-variable]", None),
    ("cc1: error: all warnings being treated as errors\n", "cc1: error: all warnings being treated as errors", None),
    ("ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_unlock_strict'\n",
     "ERROR: modpost: GPL-incompatible module nvidia.ko uses GPL-only symbol 'rcu_read_unlock_strict'", "gpl_only_symbol"),
    ('ERROR: modpost: "drm_open" [/b/nvidia-drm.ko] undefined!\n', 'ERROR: modpost: "drm_open" [/b/nvidia-drm.ko] undefined!',
     "missing_symbol"),
    ("/b/x.c:9:1: fatal error: error writing to /tmp/cc.s: No space left on device\n",
     "/b/x.c:9:1: fatal error: error writing to /tmp/cc.s: No space left on device", "disk_full"),
    ("x86_64-linux-gnu-gcc-14: fatal error: Killed signal terminated program cc1\ncompilation terminated.\n",
     "x86_64-linux-gnu-gcc-14: fatal error: Killed signal terminated program cc1", "out_of_memory"),
    ("make: gcc: No such file or directory\nmake: *** [Makefile:9: all] Error 127\n", "make: gcc: No such file or directory",
     "plain_gcc_missing"),
    ("/bin/sh: 1: gcc: not found\nmake: *** [all] Error 127\n", "/bin/sh: 1: gcc: not found", "plain_gcc_missing"),
    ("*** Unable to find the kernel source tree for the currently running kernel.\n",
     "*** Unable to find the kernel source tree for the currently running kernel.", "headers_missing"),
    ("x.c:3:10: fatal error: drm/drmP.h: No such file or directory\n", "x.c:3:10: fatal error: drm/drmP.h: No such file or directory",
     "missing_include"),
    (DIFFERS + "make[1]: *** [a] Error 2\n", "make[1]: *** [a] Error 2", "compiler_mismatch"),
    ("make: *** Waiting for unfinished jobs....\nmake: *** [a.o] Error 1\n", "make: *** [a.o] Error 1", None),
    ("ld: x.o: in function `init_module':\n", "ld: x.o: in function `init_module':", None),
])
def test_known_logs(log, first, code):
    error = dkms_log.first_error(log)
    assert error == first
    assert (dkms_log.diagnose(log, error) or {}).get("code") == code


def test_a_build_without_errors_has_none():
    log = "# CC [M]  a.o\n%s\na.c:1:1: warning: too few arguments to function 'x'\n# exit code: 0\n" % COMPILE_LINE
    assert dkms_log.first_error(log) is None


def test_the_first_error_decides_over_the_rest_of_the_log():
    log = "a.c:1:1: error: too many arguments to function 'f'\nb.c:1:1: fatal error: x: No space left on device\n"
    assert dkms_log.diagnose(log, dkms_log.first_error(log))["code"] == "kernel_api_changed"


@given(st.lists(st.sampled_from([COMPILE_LINE, " CONFTEST: set_error", "a.c:1:2: warning: w", "In file included from x.h:27,", ""])))
def test_noise_alone_never_makes_an_error(lines):
    assert dkms_log.first_error("\n".join(lines)) is None


@given(st.text())
def test_any_text_is_survived(text):
    error = dkms_log.first_error(text)
    assert error is None or len(error) <= dkms_log.MAX_LINE + 3
    dkms_log.diagnose(text, error)
    assert len(dkms_log.tail(text)) <= dkms_log.TAIL_LINES
