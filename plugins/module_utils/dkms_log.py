# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Reads the log of a failed module build: the first real error, and what it means.

Pure functions over text. A build log is large (megabytes with the compiler's command lines), runs in parallel, and
ends with make's own noise; the first error line of the compiler, linker or modpost is what a person needs.
"""

from __future__ import annotations

import re
from collections import namedtuple

Cause = namedtuple("Cause", ["code", "pattern", "meaning"])

MAX_LINE = 300          # characters kept of a line: compiler command lines are thousands long
TAIL_LINES = 30

# Lines that state an error by themselves. Never a warning, never a compiler's echoed command line.
_ERROR_LINE = re.compile(
    r"^(?:"
    r"\S+:\d+:(?:\d+:)? (?:fatal )?error: "                                          # source:line:column
    r"|(?:\S+/)?(?:[\w.]+-)*(?:cc|gcc|g\+\+|cc1|clang|ld|ld\.\w+|collect2|as)(?:-[\d.]+)?: (?:fatal )?error: "
    r"|(?:\S+/)?(?:[\w.]+-)*ld(?:\.\w+)?: (?!warning)"                               # the linker says no "error:"
    r"|\S+: internal compiler error: "
    r"|(?:ERROR|FATAL): modpost: "
    r"|.*: undefined reference to "
    r"|.*No space left on device"
    r"|.*: Cannot allocate memory"
    r"|.*: (?:[Cc]ommand )?not found$"
    r"|make(?:\[\d+\])?: \S+: No such file or directory"
    r"|ERROR: Kernel configuration is invalid"
    r"|\s*\*\*\* (?:Unable|Failed|The kernel) .*"                                     # NVIDIA's own checks
    r"|/bin/(?:ba)?sh: .*(?:Killed|Cannot fork).*"
    r"|Killed$)")
_WERROR_SUMMARY = re.compile(r"all warnings being treated as errors")
_MAKE_ERROR = re.compile(r"^make(?:\[\d+\])?: \*\*\* (?!Waiting)")

# Known causes, most specific first. `pattern` is searched in the first error, then in the lines of the whole log.
CAUSES = (
    Cause("disk_full", r"No space left on device",
          "the disk is full; make room below /var/lib/dkms and /tmp"),
    Cause("out_of_memory",
          r"Killed signal terminated program|internal compiler error: Killed|Cannot allocate memory"
          r"|virtual memory exhausted|(?:^|: )Killed\b|Cannot fork",
          "the compiler was killed or ran out of memory; see the kernel's log for the out-of-memory killer"),
    Cause("headers_missing",
          r"[Kk]ernel headers for .*(?:cannot be found|not found)|Unable to find the kernel source tree"
          r"|The kernel source path .* is invalid|Kernel configuration is invalid",
          "the kernel's headers are missing or incomplete; install the headers package of exactly this kernel"),
    Cause("plain_gcc_missing",
          r"(?:^|[\s:/])(?:gcc|cc): (?:[Cc]ommand )?not found|(?:^|[\s:/])(?:gcc|cc): No such file or directory",
          "the module's makefile calls plain gcc, which is not installed (the kernel's own compiler has another name)"),
    Cause("compiler_mismatch",
          r"unrecognized command[- ]line option|Failed CC version check|unknown argument: '-f",
          "the compiler is not the one that built this kernel; install the kernel's compiler"),
    Cause("gpl_only_symbol",
          r"GPL-incompatible module .* uses GPL-only symbol",
          "this kernel exports a symbol that the driver uses to GPL modules only: no build of this driver fits this kernel"),
    Cause("missing_symbol",
          r"modpost: .* undefined!",
          "the kernel was built without something that the driver needs (a cloud kernel without DRM, for example)"),
    Cause("kernel_api_changed",
          r"too (?:many|few) arguments to function|has no member named|implicit declaration of function"
          r"|incompatible (?:pointer|integer)|unknown type name|conflicting types for|undeclared"
          r"|redefinition of|invalid use of undefined type|passing argument \d+ of|void value not ignored",
          "the driver's source doesn't fit this kernel: the kernel's interface changed; another driver version, flavour "
          "or kernel is needed"),
    Cause("missing_include",
          r"fatal error: .*: No such file or directory",
          "the driver's source includes a file that this kernel's headers don't have"),
)
# Said beside other errors, so asked only when nothing else explains the failure.
_LAST_RESORT = Cause("compiler_mismatch", r"the compiler differs from the one used to build the kernel", CAUSES[4].meaning)


def first_error(log, build_dir=""):
    """The first error line of a build log, or None.

    build_dir is taken off the front of paths, so that the message names the driver's own file. The summaries
    "all warnings being treated as errors" and "make: *** ... Error 2" are used only when there is nothing better.
    """
    fallback = None
    for line in log.splitlines():
        line = line.rstrip()
        if _ERROR_LINE.match(line):
            if not _WERROR_SUMMARY.search(line):
                return _shorten(line, build_dir)
            fallback = fallback or line
        elif fallback is None and _MAKE_ERROR.match(line):
            fallback = line
    return None if fallback is None else _shorten(fallback, build_dir)


def diagnose(log, error=None):
    """The known cause of a failure: {"code", "meaning"}, or None when the log matches none.

    error: the first error, which decides when it matches a cause; else the first line of the log that does.
    """
    for text in filter(None, (error, _without_commands(log))):
        for cause in CAUSES:
            if re.search(cause.pattern, text, re.MULTILINE):
                return {"code": cause.code, "meaning": cause.meaning}
    if re.search(_LAST_RESORT.pattern, log):
        return {"code": _LAST_RESORT.code, "meaning": _LAST_RESORT.meaning}
    return None


def tail(log, lines=TAIL_LINES):
    """The last lines of a log, each cut to a readable length."""
    return [_shorten(line.rstrip(), "") for line in log.splitlines() if line.strip()][-lines:]


def _without_commands(log):
    # Echoed command lines and CONFTEST results hold every word there is; only lines that can be messages are searched.
    return "\n".join(line for line in log.splitlines()
                     if len(line) < 2 * MAX_LINE and not line.startswith((" CONFTEST", "#", "+ ", "if ")))


def _shorten(line, build_dir):
    if build_dir:
        line = line.replace(build_dir.rstrip("/") + "/", "")
    return line if len(line) <= MAX_LINE else line[:MAX_LINE] + "..."
