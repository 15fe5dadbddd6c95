# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What failed builds of DKMS leave behind: the output of a run (also inside one of apt or dnf), and make.log.

The sentences are those of upstream's dkms script, 2.2 to 3.4 (https://github.com/dkms-project/dkms).
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils import dkms_log
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, shown, split_files

_NAME = r"(?P<module>[\w.+-]{1,100}?)"
_VERSION = r"(?P<version>[\w.+:~-]{1,100}?)"
_KERNEL = r"(?P<kernel>\d[\w.+~-]{1,150})"
_BUILD_FOLDER = re.compile(r"/var/lib/dkms/([\w.+-]{1,100})/([\w.+:~-]{1,100})/(?:build|\d[\w.+~-]{1,150}/\w{1,20})/")
_LINE = 1000

# What a line says about the module, version and kernel that the next failure is about.
_CONTEXT = tuple(re.compile(pattern) for pattern in (
    r"Loading new " + _NAME + r"[-/]" + r"(?P<version>\d[\w.+:~-]{0,100}) DKMS files",
    r"Building (?:initial |new )?modules? for (?:" + _KERNEL + r")\s*$",
    r"Building for (?:" + _KERNEL + r")(?:,.*| and .*)?\s*$",
    r"Autoinstall of module " + _NAME + r"/" + _VERSION + r" for kernel " + _KERNEL + r" \(\S+\)",
    r"Building module " + _NAME + r"/" + _VERSION + r" for kernel " + _KERNEL,
    r"(?:Module build|Sign command|Autoinstall|dkms autoinstall on|Running autoinstall) (?:for kernel |for )?" + _KERNEL + r"(?:[/ :(].*)?$",
    r"DKMS (?:\(dkms-[\w.+~-]{1,40}\) )?make\.log for " + _NAME + r"[-/]" + r"(?P<version>\d[\w.+:~-]{0,100}) for kernel " + _KERNEL
    + r" \((?P<arch>\w+)\)",
    r"(?:Module|Package) " + _NAME + r"[-/]" + r"(?P<version>\d[\w.+:~-]{0,100}) for kernel " + _KERNEL + r" \((?P<arch>\w+)\)",
    r"(?:^|[\s/])dkms (?:build|install|add|autoinstall)\b.*",
))
# (reason, pattern): a line that reports a failure.
_FAILURES = tuple((reason, re.compile(pattern)) for reason, pattern in (
    ("headers_missing", r"Your kernel headers for kernel " + _KERNEL + r" cannot be found"),
    ("build_failed", r"Bad return status for module build on kernel: " + _KERNEL + r" \((?P<arch>\w+)\)"),
    ("build_exclusive", r"(?:dkms\.conf for module " + _NAME + r"(?:/" + _VERSION + r")? )?includes a BUILD_EXCLUSIVE directive"),
    ("depends", r"Aborting build of module " + _NAME + r"/" + _VERSION + r" for kernel " + _KERNEL + r" \((?P<arch>\w+)\) due to missing BUILD_DEPENDS"),
    ("tree_has_it", r"DKMS tree already contains: " + _NAME + r"[-/]" + r"(?P<version>\d[\w.+:~-]{0,100})\s*$"),
    ("conf_missing", r"File: +(?:/var/lib/dkms/" + _NAME + r"/" + _VERSION + r"/(?:source/)?dkms\.conf)? +does not exist"),
    ("source_missing", r"Could not find module source directory"),
    ("broken", r"(?:Error! )?" + _NAME + r"/" + _VERSION + r"(?: is broken!|: Missing the module source directory)"),
    ("not_newer", r"Module version \S+ for (?P<file>\S+?)\.ko(?:\.\w+)? ?$|is not newer than what is already found in kernel"),
    ("autoinstall_failed", _NAME + r"/" + _VERSION + r" autoinstall failed due to the following error"),
))
# One line for several modules: "dkms autoinstall on 6.5.0-14-generic/x86_64 failed for nvidia(10) gdrdrv(10)".
_SUMMARY = re.compile(r"[Aa]utoinstall on " + _KERNEL + r"(?:/(?P<arch>\w+))? failed for (?:module\(s\) )?(?P<names>.{1,500})")
_LOG_PATH = re.compile(r"(?:Consult|See|consult)(?: the make\.log in the build directory)?\s*(?P<log>/\S+make\.log)?")


def failures(text):
    """What DKMS says it could not do: [{module, version, kernel, arch, reason, log}], each once; None for what is not said.

    reason: build_failed, headers_missing, build_exclusive, depends (another module first), tree_has_it (already in DKMS's
    tree), conf_missing, source_missing, broken, not_newer or autoinstall_failed. text: the output of dkms, or of a package
    manager that ran it.
    """
    found, about = [], {"module": None, "version": None, "kernel": None, "arch": None}
    for raw in text.splitlines():
        line = raw[:_LINE].rstrip()
        if not line:
            continue
        summary = _SUMMARY.search(line)
        if summary:
            found += [dict(_row("build_failed", {"kernel": summary.group("kernel"), "arch": summary.group("arch")}), module=name)
                      for name in re.findall(r"([\w.+-]{1,100})\(\d+\)", summary.group("names"))]
            continue
        reason, match = next(((reason, match) for reason, match in ((reason, pattern.search(line)) for reason, pattern in _FAILURES)
                              if match), (None, None))
        if match:
            said = {key: value for key, value in match.groupdict().items() if value}
            if reason == "conf_missing" and "module" not in said:
                said.update(module=None, version=None)
            found.append(_row(reason, dict(about, **said)))
            continue
        _log(line, found)
        about = _about(line, about)
    return _once(found)


def _row(reason, said):
    row = {key: said.get(key) for key in ("module", "version", "kernel", "arch")}
    return dict(row, reason=reason, log=None)


def _about(line, about):
    """What is known of the next failure after a line; the version of another module is not kept."""
    for pattern in _CONTEXT:
        match = pattern.search(line)
        if match:
            said = {key: value for key, value in match.groupdict().items() if value}
            words = _command(line) if not said else said
            return dict(about, **(dict({"version": None}, **words) if "module" in words else words))
    return about


def _command(line):
    """Module, version and kernel of an echoed command: dkms build nvidia/560.35.05 -k 6.8.0-1029-aws, or with -m and -v."""
    said = {}
    for key, option in (("module", r"-m"), ("version", r"-v"), ("kernel", r"-k")):
        match = re.search(r"\s" + option + r"[ =]?(?P<word>[\w.+:~-]{1,150}?)(?:/(?P<more>[\w.+:~-]{1,150}))?(?:\s|$)", line)
        if match:
            said[key] = match.group("word")
            if match.group("more") and key == "module":
                said["version"] = match.group("more")
    match = re.search(r"dkms \w+ (?:--force )?([a-zA-Z][\w.+-]{0,100})/(\d[\w.+:~-]{0,100})(?:\s|$)", line)
    if match:
        said.update(module=match.group(1), version=match.group(2))
    return said


def _log(line, found):
    """Give the last failure the log that a line names, and what the log's path says."""
    folder = _BUILD_FOLDER.search(line)
    if not found or not folder or found[-1]["reason"] != "build_failed" or not _LOG_PATH.search(line):
        return
    path = _LOG_PATH.search(line).group("log")
    found[-1].update(module=folder.group(1), version=folder.group(2), log=found[-1]["log"] or path)


def _once(found):
    """The failures, each once: a summary at the end repeats what was told before, with less."""
    rows = []
    for row in found:
        same = [one for one in rows if one["module"] == row["module"] and row["kernel"] in (one["kernel"], None)
                and row["reason"] in (one["reason"], "autoinstall_failed", "build_failed")]
        if row["reason"] == "autoinstall_failed":
            row = dict(row, reason="build_failed")
        if not same:
            rows.append(row)
    return rows


def parse_make_logs(text):
    """make.log, its end, or several of them (tail -v) to [{module, version, kernel, error, code, meaning}].

    A log without a failure has no row. error: the first error; code and meaning: the known cause (dkms_log.CAUSES), None
    where there is none.
    """
    files = split_files(text).value or [("", text)]
    return Parsed([row for row in (_make_log(path, content) for path, content in files) if row], [])


def _make_log(path, text):
    error = dkms_log.first_error(text)
    if error is None:
        return None
    about = {"module": None, "version": None, "kernel": None, "arch": None}
    for line in text.splitlines()[:20]:
        about = _about(line[:_LINE], about)
    folder = _BUILD_FOLDER.search(path) or _BUILD_FOLDER.search(text)
    if folder and about["module"] is None:
        about.update(module=folder.group(1), version=folder.group(2))
    cause = dkms_log.diagnose(text, error) or {}
    own = "/var/lib/dkms/%(module)s/%(version)s/build/" % about
    return {"module": about["module"], "version": about["version"], "kernel": about["kernel"],
            "error": shown(error.replace(own, ""), 300), "code": cause.get("code"), "meaning": cause.get("meaning")}
