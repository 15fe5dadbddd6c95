# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modules are built with, as a part of the boot section: compilers, headers, logs of failed builds."""

from __future__ import annotations

import os
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import capture, parse_build, parse_os
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Command, File, Function

_NAMES = ("/usr/bin/cc", "/usr/bin/gcc")
_MOST_LINKS = 8
_NO_MODULE = re.compile(r"modinfo: ERROR: (?:Module|could not find module) nvidia(?: not found| using)[^\n]*?(?:/lib/modules/([^/\s]+))?\.?$", re.MULTILINE)
# Whose output tells which headers are not there: of DKMS itself, and of what runs it or looks for packages.
_RUNS = ("dkms_run", "apt_run", "dnf_run", "apt_term_log", "ansible_error", "ansible_result", "apt_policy", "kernel_files", "grub_run")


def _compiler_links(root):
    """The links that cc and gcc lead through, one a line; raises Absent where neither is there."""
    rows = []
    for path in _NAMES:
        for _step in range(_MOST_LINKS):
            if not os.path.islink(capture.inside(root, path)):
                break
            target = os.readlink(capture.inside(root, path))
            rows.append("%s -> %s" % (path, target))
            path = os.path.normpath(os.path.join(os.path.dirname(path), target))
        if not rows and os.path.exists(capture.inside(root, path)):
            rows.append(path)
    if not rows:
        raise capture.Absent(2, "No such file or directory", _NAMES[-1])
    return capture.lines(rows)


PROBES = {
    "proc_version": ("local", File("/proc/version")),
    "compiler_link": ("local", Function(_compiler_links, "readlink /usr/bin/cc and /usr/bin/gcc, to the end")),
    "compiler_version": ("deep", Command(("cc", "--version"))),
    "module_makefile": ("deep", Function(lambda root: capture.files(root, "/usr/src/*-[0-9]*/Makefile"), "tail -v -n +1 /usr/src/*/Makefile")),
}


def section(reader):
    """build: {kernel: what /proc/version says ({release, compiler: {program, version}}), link: the program that gcc leads to,
    compiler: {program, version} of cc, log: parse_build.parse_build_log() of the last failed build, plain_gcc: makefiles that start
    gcc by its plain name, module_not_found: the kernels (None: the running one) that modinfo finds no driver's module for,
    headers_not_found: releases of kernels, headers_unavailable: packages that no archive has, no_space: parse_os.parse_no_space()}.

    Each is None where nobody asked, and for compilers also where there is none.
    """
    told = [_said(reader, name) for name in _RUNS]
    text = "\n".join(part for part in told if part is not None)
    said = any(part is not None for part in told)
    return {"build": {
        "kernel": reader.parsed("proc_version", parse_build.parse_proc_version),
        "link": reader.parsed("compiler_link", parse_build.parse_compiler_link, absent=None),
        "compiler": reader.parsed("compiler_version", parse_build.parse_compiler_version, absent=None),
        "log": reader.parsed("dkms_make_log", lambda log: Parsed(parse_build.parse_build_log(log).value, []), absent=None),
        "plain_gcc": reader.parsed("module_makefile", parse_build.parse_module_makefile, absent=None),
        "module_not_found": _module_not_found(reader),
        "headers_not_found": parse_build.headers_not_found(text) if said else None,
        "headers_unavailable": parse_build.headers_unavailable(text) if said else None,
        "no_space": parse_os.parse_no_space(text).value if said else None,
    }}


def _module_not_found(reader):
    seen = reader.seen("modinfo")
    if seen is None or seen.rc is None:
        return None
    return [found or None for found in _NO_MODULE.findall(seen.out + "\n" + seen.err)]


def _said(reader, name):
    """Everything that a recorded run printed; None where nobody recorded it."""
    seen = reader.seen(name)
    return None if seen is None or seen.rc is None else "%s\n%s" % (seen.out, seen.err)
