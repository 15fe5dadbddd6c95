# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Containers and monitoring: CDI specifications, the container toolkit, DCGM and its exporter.

Formats: github.com/cncf-tags/container-device-interface (SPEC.md), dcgmi/Version.cpp and DcgmBuildInfo of github.com/NVIDIA/DCGM,
the tags of github.com/NVIDIA/dcgm-exporter.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, shown, split_files

_LONGEST = 4000
_DRIVER_LIBRARY = re.compile(r"lib(?:cuda|nvidia-[\w-]+|nvcuvid|cudadebugger|nvoptix|EGL_nvidia|GLX_nvidia)\.so\.(\d{3}\.\d{2,3}(?:\.\d{2})?)\b")
# YAML and JSON spell a host's path alike; quotes are optional in the one.
_HOST_PATH = re.compile(r"""^[\s-]*["']?hostPath["']?\s*:\s*["']?(/[^"',\s]+)""")
_NAME = re.compile(r"""^[\s-]*["']?name["']?\s*:\s*["']?([\w.:-]+)["']?,?\s*$""")
_KIND = re.compile(r"""["']?kind["']?\s*:\s*["']?([\w.-]+/[\w.-]+)""")


def parse_cdi_spec(text):
    """CDI specifications, YAML or JSON, of one file or of several with tail's headings, to rows {path, kind, versions, devices, paths}.

    Only those of NVIDIA's devices. versions: of the driver's libraries that it names. paths: every path of the host that it names.
    A file of another vendor is none of the rows. One without a kind is a problem, unless it is a part that names the driver's files: its kind is
    None then. Lines of `grep -H` are parts of the files that they name.
    """
    files, _before = split_files(text) if "==> /" in text[:_LONGEST] else (_grepped(text) if text.strip() else [], [])
    rows, problems = [], []
    for path, content in files:
        kind, row = _KIND.search(content), dict(_spec(content), path=path)
        if not kind and not row["versions"]:
            problems.append("%s has no kind" % shown(path))
        elif not kind or kind.group(1).startswith("nvidia.com/"):
            rows.append(dict(row, kind=kind.group(1) if kind else None))
    return Parsed(rows, problems)


def _grepped(text):
    """[(path, content)] of a text without headings: one file, or lines of several behind their paths."""
    lines = [re.match(r"(/[^\s:]+\.(?:yaml|yml|json)):(?:\d+:)?(.*)", line) for line in text.splitlines() if line.strip()]
    if not all(lines):
        return [("CDI specification", text)]
    files = {}
    for found in lines:
        files.setdefault(found.group(1), []).append(found.group(2))
    return [(path, "\n".join(content)) for path, content in files.items()]


def _spec(content):
    paths, devices = [], []
    # One line of a compact JSON file holds everything; its commas and braces end a value as a line does.
    for line in re.split(r"[\n{}\[\]]|,(?=\s*[\"'])", content):
        if len(line) <= _LONGEST:
            path, name = _HOST_PATH.match(line), _NAME.match(line)
            paths += [path.group(1)] if path else []
            devices += [name.group(1)] if name else []
    versions = sorted({found.group(1) for found in map(_DRIVER_LIBRARY.search, paths) if found})
    return {"versions": versions, "devices": sorted(set(devices)), "paths": sorted(set(paths))}


def parse_cdi_list(text, rc=0):
    """`nvidia-ctk cdi list` to the names of the devices; what it logs beside them is none."""
    return Parsed(re.findall(r"^[ \t]*([\w.-]{1,80}/[\w.-]{1,80}=[\w.:-]{1,80})[ \t\r]*$", text, re.MULTILINE), [])


def parse_paths(text, rc=0):
    """Paths, one a line."""
    rows = [line.strip() for line in text.splitlines() if line.strip()]
    return Parsed([row for row in rows if row.startswith("/")],
                  [not_understood(number, row) for number, row in enumerate(rows, 1) if not row.startswith("/")])


def parse_toolkit_version(text):
    """`nvidia-ctk --version` (NVIDIA Container Toolkit CLI version 1.17.8) or `nvidia-container-cli --version` (cli-version: 1.17.8)."""
    found = re.search(r"(?:CLI version|Runtime Hook version|cli-version:|^version:)\s*v?(\d+\.\d+\.\d+)", text[:_LONGEST], re.MULTILINE)
    return Parsed(found.group(1), []) if found else Parsed(None, ["no container toolkit version in it"])


_MISSING_FILE = re.compile(r"(/[^\s:\"'`\\]{1,200}\.so\.\d[\d.]{0,20})\b[^\n]{0,80}?(?:no such file or directory|not found)"
                           r"|(?:stat|open|mount) (/[^\s:\"'`\\]{1,200})\b[^\n]{0,60}?no such file or directory", re.IGNORECASE)
_CDI_DEVICE = re.compile(r"failed to stat CDI host device \\{0,4}[\"'](/[^\s:\"'`\\]{1,200})")
_UNRESOLVED = re.compile(r"unresolvable CDI devices? ((?:[\w.-]{1,80}/[\w.-]{1,80}=[\w.:-]{0,80}\w(?:, ?)?){1,100})")
_DIFFERS = re.compile(r"driver/library version mismatch", re.IGNORECASE)


def parse_container_run(text, rc=0):
    """What docker, podman or a kubelet said when a container did not start: {missing, unresolved, cdi_missing, mismatch}.

    missing: files of the host that were not there; cdi_missing: devices of the host that a CDI specification names and that were not there;
    unresolved: CDI devices that nothing describes; mismatch: whether NVML found another driver in memory than its own version.
    """
    missing, unresolved, of_cdi = [], [], []
    for line in text.splitlines():
        for piece in (line[start:start + _LONGEST] for start in range(0, min(len(line), 20 * _LONGEST), _LONGEST)):
            missing += [one or other for one, other in _MISSING_FILE.findall(piece)]
            of_cdi += _CDI_DEVICE.findall(piece)
            unresolved += [name.strip() for found in _UNRESOLVED.findall(piece) for name in found.split(",") if name.strip()]
    return Parsed({"missing": sorted(set(missing)), "unresolved": sorted(set(unresolved)), "cdi_missing": sorted(set(of_cdi)),
                   "mismatch": bool(_DIFFERS.search(text))}, [])


def parse_dcgm_version(text):
    """`dcgmi --version`, `dcgmi -v` or `nv-hostengine --version` to {version, host_engine}; the second, where dcgmi asked a running one.

    "dcgmi  version: 2.0.13", or "Version : 2.1.4" among build details, whose dates and kernels are no versions.
    """
    before, _heading, after = text.partition("Hostengine build info:")
    versions = [re.search(r"^[ \t]*(?:(?:dcgmi|nv-hostengine)[ \t]+)?version[ \t]*:[ \t]*(\d+\.\d+\.\d+)[ \t\r]*$", part, re.IGNORECASE | re.MULTILINE)
                for part in (before, after)]
    found = [one.group(1) if one else None for one in versions]
    return Parsed({"version": found[0] or found[1], "host_engine": found[1]}, []) if any(found) else Parsed(None, ["no DCGM version in it"])


_TAG = re.compile(r"(?<![\d.])(\d+\.\d+\.\d+)-(\d+\.\d+\.\d+)(?![\d.])")


def parse_dcgm_exporter_tag(text):
    """The tag of an exporter's image, alone or in an image's name: 3.3.5-3.4.0-ubuntu22.04 to {dcgm: 3.3.5, exporter: 3.4.0}."""
    for line in text.splitlines():
        found = _TAG.search(line[:_LONGEST])
        if found and ("dcgm" in line or re.match(r"\s*v?\d", line)):
            return Parsed({"dcgm": found.group(1), "exporter": found.group(2)}, [])
    return Parsed(None, ["no tag of a dcgm-exporter image in it"])


# dcgmErrorString() of DCGM_ST_VER_MISMATCH and DCGM_ST_LIBRARY_NOT_FOUND's neighbours, and go-dcgm's own words.
_MISMATCH = re.compile(r"API version mismatch|version mismatch between (?:the )?(?:client|libdcgm)|incompatible (?:dcgm|host ?engine) version"
                       r"|dcgm-exporter: symbol lookup error: .{1,200}", re.IGNORECASE)
_LIBRARY = re.compile(r"libdcgm\.so(?:\.(\d+))?[^\n]{0,60}(?:not found|cannot open|No such file)", re.IGNORECASE)


def parse_dcgm_exporter_log(text, rc=0):
    """The exporter's log to {mismatch, library, dcgm, exporter}.

    mismatch: the message with which it refused the host engine; library: the major version of libdcgm that it did not find
    ("" where it names none); dcgm and exporter: the versions that a newer one logs when it starts.
    """
    found = {"mismatch": None, "library": None, "dcgm": None, "exporter": None}
    for line in text.splitlines():
        line = line[:_LONGEST]
        mismatch, library, tag = _MISMATCH.search(line), _LIBRARY.search(line), _TAG.search(line)
        if mismatch:
            message = re.search(r'msg="([^"]*)"', line)
            found["mismatch"] = shown(message.group(1) if message else line, 200)
        if library:
            found["library"] = library.group(1) or ""
        if tag and "dcgm-exporter" in line:
            found["dcgm"], found["exporter"] = tag.groups()
    return Parsed(found, [])


def parse_container_config(text):
    """Settings of docker and of NVIDIA's runtime, files with tail's headings, to {default_runtime, nvidia_runtime, cdi, mode}; None where not set."""
    files, problems = split_files(text)
    value = {"default_runtime": None, "nvidia_runtime": None, "cdi": None, "mode": None}
    for path, content in files:
        if path.endswith("daemon.json"):
            runtime = re.search(r'"default-runtime"\s*:\s*"([\w.-]+)"', content)
            cdi = re.search(r'"cdi"\s*:\s*(true|false)', content)
            value.update(default_runtime=runtime.group(1) if runtime else None, nvidia_runtime="nvidia-container-runtime" in content,
                         cdi=cdi.group(1) == "true" if cdi else None)
        elif path.endswith("nvidia-container-runtime/config.toml"):
            mode = re.search(r'^[ \t]*mode[ \t]*=[ \t]*"(\w+)"', content, re.MULTILINE)
            value["mode"] = mode.group(1) if mode else None
    return Parsed(value, problems)
