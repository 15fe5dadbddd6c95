# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dkms_module: how a failed step is told."""

from __future__ import annotations

import os

from ansible_collections.lockstep.gpu.plugins.module_utils import dkms
from ansible_collections.lockstep.gpu.plugins.modules import dkms_module

LOG = "/b/nv.c:1:2: error: too few arguments to function 'f'\n"


def test_log_of_an_earlier_build_is_not_read(tmp_path):
    path = tmp_path / "make.log"
    path.write_text("old")
    os.utime(path, (1000, 1000))
    assert dkms_module.read_text(str(path), 2000) == ""
    assert dkms_module.read_text(str(path)) == "old"
    assert dkms_module.read_text(str(tmp_path / "none")) == ""


def test_compiler_error_comes_first():
    told = dkms_module.explain(dkms.DkmsError("x", "build", "Error! Bad return status for module build\n", 10), LOG, "/b")
    assert told["first_error"] == "nv.c:1:2: error: too few arguments to function 'f'"
    assert told["diagnosis"]["code"] == "kernel_api_changed"
    assert told["log_tail"] == [LOG.strip()]


def test_without_a_log_dkms_itself_is_quoted():
    output = "Creating symlink\nError! Your kernel headers for kernel 6.1 cannot be found at /lib/modules/6.1/build.\n"
    told = dkms_module.explain(dkms.DkmsError("x", "build", output, 21), "", "/b")
    assert told["first_error"].startswith("Error! Your kernel headers for kernel 6.1 cannot be found")
    assert told["diagnosis"]["code"] == "headers_missing"


def test_excluded_kernel():
    told = dkms_module.explain(dkms.DkmsError("x", "build", "Error! BUILD_EXCLUSIVE\n", 77), "", "/b")
    assert told["diagnosis"]["code"] == "build_exclusive"


def test_a_silent_failure_is_still_told():
    told = dkms_module.explain(dkms.DkmsError("dkms install failed with exit status 6", "install", "", 6), "", "/b")
    assert told == {"first_error": "dkms install failed with exit status 6", "diagnosis": None, "log_tail": []}
