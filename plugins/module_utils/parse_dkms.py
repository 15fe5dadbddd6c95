# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`dkms status` of DKMS 2.8 to 3.4 to rows.

The formats are those of upstream's do_status() and do_status_weak() (https://github.com/dkms-project/dkms): a comma
before the version up to 2.8.5 and a slash after, commas still for installed-weak, suffixes in three wordings.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, shown

_LINE = re.compile(
    r"(?P<head>[^\s,:][^:]*): (?P<state>added|built|installed-weak from (?P<built_for>\S+)|installed|broken)"
    r"(?P<suffix>(?: \([^()]*\))*)\s*")
_FLAGS = (
    ("diff", re.compile(r"Diff between built and installed module|Differences between built and installed modules")),
    ("original_exists", re.compile(r"original_module exists|Original modules exist")),
    ("missing_built", re.compile(r"Missing some built modules|Built modules are missing in the kernel modules folder")),
)
# What DKMS and its shell print around the list, where both outputs lie in one recording. It is no row, and what it says
# about modules is read by parse_dkms_log.failures().
_ADVICE = re.compile(
    r"Deprecated feature: .*|Manual intervention is required!|Error! \S+/\S+: Missing the module source directory or .*"
    r"|Error! Could not locate dkms\.conf file\.|File: +(?:/\S+dkms\.conf)? *does not exist\.|Warning: .*"
    r"|\S*(?:bash|dkms|sh): (?:line \d+: )?warning: setlocale: .*|dkms\.conf: (?:Error|Warning)! .*|Error! Bad conf file\.")
# Terminals' colours, from dkms behind a wrapper that paints.
_COLOUR = re.compile("\x1b\\[[0-9;]{0,20}m")
# A line by which DKMS, its shell or python says that it cannot do its work.
_COMPLAINT = re.compile(r"Error!|[Ee]rror:|Traceback|[Pp]ermission denied|must be root|command not found|No such file or directory"
                        r"|cannot |Unable to|not supported|[Uu]sage:")


def parse_dkms_status(text):
    """Rows {module, version, kernel, arch, state, flags}, and built_for where the state is installed_weak.

    state: added, built, installed, installed_weak or broken; kernel and arch are None for added and broken.
    flags: diff, original_exists, missing_built, each once (older versions repeat a warning for each file).
    """
    rows, problems = [], []
    for number, line in enumerate(_COLOUR.sub("", text).splitlines(), 1):
        if not line.strip() or _ADVICE.fullmatch(line.strip()):
            continue
        row, problem = _row(line.strip())
        if row:
            rows.append(row)
        if problem:
            problems.append("line %d: %s" % (number, problem) if row else not_understood(number, line))
    return Parsed(rows, problems)


def complaints(text):
    """The lines in which a command says that it could not do its work."""
    return [shown(line, 200) for line in text.splitlines() if _COMPLAINT.search(line[:1000])][:20]


def _row(line):
    """(row or None, problem or None) of one line."""
    found = _LINE.fullmatch(line)
    if not found:
        return None, "no DKMS line"
    words = [word.strip() for word in found.group("head").split(",")]
    if "/" in words[0]:
        words[:1] = words[0].split("/", 1)
    if len(words) not in (2, 4) or not all(words) or any(" " in word for word in words):
        return None, "no DKMS line"
    module, version, kernel, arch = (words + [None, None])[:4]
    suffix = found.group("suffix")
    row = {"module": module, "version": version, "kernel": kernel, "arch": arch,
           "state": "installed_weak" if found.group("built_for") else found.group("state"),
           "flags": [flag for flag, pattern in _FLAGS if pattern.search(suffix)]}
    if found.group("built_for"):
        row["built_for"] = found.group("built_for")
    strange = [part for part in re.findall(r"\(([^()]*)\)", suffix)
               if not any(pattern.search(part) for _flag, pattern in _FLAGS)]
    return row, "unknown remark: " + shown(strange[0]) if strange else None
