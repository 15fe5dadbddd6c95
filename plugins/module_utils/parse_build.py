# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What modules are built with: the kernel's compiler, the node's, and the log of a build that failed."""

from __future__ import annotations

import os
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import dkms_log, parse_kernel
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, split_files

# A word of /proc/version or of a compiler's own line: x86_64-linux-gnu-gcc-12, gcc, clang-18.
_PROGRAM = re.compile(r"(?<![\w.-])(?:[\w.]+-)*(?P<program>(?:gcc|clang|cc)(?:-(?P<suffix>\d[\d.]*))?)(?![\w-])")
_LOG_HEAD = re.compile(r"DKMS (?:\(dkms-[\w.-]+\) )?make\.log for (?P<module>\S+?)[-/](?P<version>\d[\w.+~-]*?) for kernel (?P<kernel>\S+)")
_LOG_PATH = re.compile(r"/var/lib/dkms/(?P<module>[^/\s]+)/(?P<version>[^/\s]+)/build")
_BUILT_BY = re.compile(r"The kernel was built by: *(.*)")
_USING = re.compile(r"You are using: *(.*)")
_OPTION = re.compile(r"unrecognized command[- ]line option:? ?['\"\u2018\u201c]?(-[^\s'\"\u2019\u201d]+)|unknown argument: ?'(-[^']+)'")
# A compiler that the shell or make did not find: gcc by its plain name, or the kernel's own (x86_64-linux-gnu-gcc-12).
_MISSING = re.compile(r"(?:^|[\s:/])(?:[\w.]+-)*(?P<program>(?:gcc|cc|clang)(?:-\d+)?): (?:(?:[Cc]ommand )?not found|No such file or directory)", re.MULTILINE)
# The compiler that was asked for, and the plain one that complains all the same.
_ASKED = re.compile(r"(?:^|\s)(?:KERNEL_|HOST)?CC=['\"]?(?:\S*/)?(?:[\w.]+-)*(?P<program>(?:gcc|clang)-\d+)", re.MULTILINE)
_PLAIN_COMPLAINS = re.compile(r"^gcc: (?:fatal )?error: unrecognized command", re.MULTILINE)
_OLD_CHECK = re.compile(r"used to\s+compile the kernel:\s+(?P<kernel>[^\n]+)\s+does not match the compiler used here:\s+(?P<host>[^\n]+)")
# A command line of a makefile that starts gcc itself, or a variable that is set to it.
_MAKEFILE_CALL = re.compile(r"^(?:\t[@-]*|[^#\n]*\$\(shell )(?:/usr/bin/)?gcc\s"
                            r"|^[ \t]*(?:override[ \t]+|export[ \t]+)?K?CC[ \t]*:?=[ \t]*(?:/usr/bin/)?gcc[ \t]*$",
                            re.MULTILINE)
_NO_HEADERS = re.compile(
    r"kernel headers for kernel (?P<dkms>\S+) (?:at \S+ )?(?:cannot|could not) be found"
    r"|[Pp]lease install the (?:linux-headers-|kernel-devel-)(?P<please>\d\S*?) package"
    r"|[Mm]odule build for kernel (?P<skipped>\S+) was skipped since the\s+kernel headers for this\s+kernel do(?:es)? not seem to be installed"
    r"|/lib/modules/(?P<path>[^/\s]+)/build/?(?:Makefile)?['\u2019]?:? (?:does not exist|No such file|is missing)"
    r"|cannot access ['\u2018]?/usr/src/(?:linux-headers-|kernels/)(?P<folder>\d[^/'\u2019:\s]*)/?['\u2019]?: No such file"
    r"|/lib/modules/(?P<make>[^/\s]+)/build: No such file or directory"
    r"|\*\*\* /usr/src/(?:linux-headers-|kernels/)(?P<source>\d[^/\s:]*)/?: No such file or directory"
    r"|linux-headers-(?P<list>\d\S*) does not appear to be installed")
# How apt, dnf, yum, zypper and Ansible's modules say that there is no such package.
_NO_PACKAGE = re.compile(
    r"(?:Unable to locate package|Couldn't find any package by (?:glob|regex)|No package matching|No match for argument:|No Match for argument:"
    r"|Unable to find a match:|Failed to find a match:|No package|No provider of|no installation candidate for|Package|Version '[^'\s]+' for)"
    r" ['\"\u2018]?(?P<name>(?:linux-headers|kernel(?:-[\w.]+?)?-devel|kernel[\d.]*-devel)[-= ]*[^\s'\",:\u2019]*)['\"\u2019]?(?P<rest>[^\n]*)")
_CANDIDATE_WORDS = re.compile(r"has no installation candidate|is not available|was not found|is available|available\.?$|found matching|not found")


def compiler(text):
    """{program, version} of a line that names a compiler: "x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1) 12.3.0"; None without one.

    program is gcc-12, gcc, clang-18 or cc; version may be None.
    """
    program = _PROGRAM.search(text)
    if not program:
        return None
    known = parse_kernel.compiler_of(text.replace("cc", "gcc", 1) if program.group("program") == "cc" else text)
    version = known.split(" ", 1)[1] if known else program.group("suffix")
    return {"program": program.group("program"), "version": version}


def parse_proc_version(text):
    """/proc/version to {release, compiler: {program, version}}: the running kernel and what it was built by.

    "Linux version 6.8.0-1029-aws (buildd@host) (x86_64-linux-gnu-gcc-12 (Ubuntu 12.3.0-1) 12.3.0, GNU ld ...) #31 SMP"; before
    Linux 5.8 "(gcc version 4.8.5 20150623 (Red Hat 4.8.5-36) (GCC) )".
    """
    found = re.match(r"Linux version (\S+) (.*)", text.strip().split("\n")[0])
    if not found:
        return Parsed(None, [not_understood(1, text.split("\n")[0])])
    release, rest = found.groups()
    rest = re.sub(r"^\([^()]*@[^()]*\) ", "", rest).split(", GNU ld")[0].split(", LLD")[0].split("#")[0]
    old = re.search(r"gcc version (\d[\d.]*)", rest)
    built = {"program": "gcc", "version": old.group(1)} if old else compiler(rest)
    return Parsed({"release": release, "compiler": built}, [] if built else ["no compiler is named"])


def parse_compiler_link(text):
    """What the names cc and gcc lead to, to the last name: "gcc-11".

    `readlink /usr/bin/gcc` or `readlink -f` (one path or name), `ls -l` and "path -> target" lines; of several, gcc's counts, in
    the order in which the links follow each other.
    """
    links, last = {}, None
    for line in text.splitlines():
        words = line.split()
        if "->" in words[1:-1]:
            place = words.index("->")
            links[os.path.basename(words[place - 1])] = last = words[place + 1]
        elif words:
            last = words[-1]
    name = "gcc" if "gcc" in links else "cc" if "cc" in links else None
    for _step in range(8):
        if name is None or name not in links:
            break
        last = links[name]
        name = os.path.basename(last)
    found = _PROGRAM.fullmatch(os.path.basename(last)) if last else None
    return Parsed(found.group("program"), []) if found else Parsed(None, ["no compiler is named"] if text.strip() else [])


def parse_compiler_version(text):
    """The first line of `gcc --version` or `cc --version` to {program, version}; of `gcc -dumpversion` the version alone."""
    line = next((line for line in text.splitlines() if line.strip()), "")
    bare = re.fullmatch(r"\d+(?:\.\d+)*", line.strip())
    found = {"program": "cc", "version": line.strip()} if bare else compiler(line)
    return Parsed(found, [] if found else ["no compiler is named"] if line else [])


def parse_build_log(text):
    """make.log of a module build to {module, version, kernel, kernel_compiler, compiler, option, plain_compiler, missing_compiler, error,
    cause}.

    option: what the compiler does not know; plain_compiler: the name that a makefile calls, which is missing or not the compiler that
    was asked for; missing_compiler: the name that was not found, the kernel's own (gcc-12) or the plain one;
    cause: a code of dkms_log.diagnose(). Values that the log does not have are None. A header per file (tail -v) is allowed;
    the last file counts.
    """
    files = split_files(text).value
    log = files[-1][1] if files else text
    head = _LOG_HEAD.search(log) or _LOG_PATH.search(log)
    names = head.groupdict() if head else {}
    built, used, option, missing = (pattern.search(log) for pattern in (_BUILT_BY, _USING, _OPTION, _MISSING))
    absent = missing.group("program") if missing else None
    plain = absent if absent in ("gcc", "cc") else "gcc" if _ASKED.search(log) and _PLAIN_COMPLAINS.search(log) else None
    old = _OLD_CHECK.search(log)
    error = dkms_log.first_error(log)
    cause = dkms_log.diagnose(log, error) if error or used else None
    return Parsed({
        "module": names.get("module"), "version": names.get("version"), "kernel": names.get("kernel"),
        "kernel_compiler": compiler(built.group(1) if built else old.group("kernel") if old else ""),
        "compiler": compiler(used.group(1) if used else old.group("host") if old else ""),
        "option": (option.group(1) or option.group(2)) if option else None,
        "plain_compiler": plain, "missing_compiler": absent,
        "error": error, "cause": cause["code"] if cause else None}, [])


def parse_module_makefile(text):
    """Makefiles of modules (`tail -v`, `cat`, or lines of grep) to the paths of those that start gcc by its plain name."""
    files = split_files(text).value or [("Makefile", re.sub(r"^(?:[\w./-]+:)?\d+:", "", text, flags=re.MULTILINE))]
    return Parsed([path for path, content in files if _MAKEFILE_CALL.search(content)], [])


def headers_not_found(text):
    """Releases of kernels that a tool found no headers for."""
    found = (next(filter(None, match.groups()), None) for match in _NO_HEADERS.finditer(text))
    return sorted({release.rstrip(".,:") for release in found if release})


def headers_unavailable(text):
    """Headers packages that no archive of the node has, as the package manager says."""
    names = set()
    for match in _NO_PACKAGE.finditer(text):
        said = match.group(0)
        if said.startswith(("Package", "No package")) and not _CANDIDATE_WORDS.search(match.group("rest")):
            continue
        name = match.group("name").strip(" =-")
        if re.search(r"\d+\.\d+", name):
            names.add(name)
    return sorted(names)
