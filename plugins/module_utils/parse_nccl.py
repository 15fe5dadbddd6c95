# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL is told: its configuration files, variables of the environment, graph and topology files.

The grammar of a configuration file is that of setEnvFile() in NCCL's src/misc/param.cc (2.19 to 2.30): a line is split at its
first "=", nothing is trimmed or unquoted, a line without "=" is passed over, "#" begins a comment in the first column only
(from 2.26.2 on), and of two writers of one variable the first wins.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, split_files

SYSTEM_FILE = "/etc/nccl.conf"
ENVIRONMENT = "environment"
_HEADER = re.compile(r"^==> /[^\n]* <==$", re.MULTILINE)
# `grep -H`, `grep -n`, `cat -n`.
_SEARCHED = re.compile(r"(?:(/[^\s:=]+):)?(?:(\d{1,6})[:\t])?([^\n]*)")
_NUMBERED = re.compile(r" *\d{1,6}\t[^\n]*")
_EXPORT = re.compile(r"\s*(?:export|setenv|declare\s+-x|set)\s+")
# What somebody meant by "NCCL_DEBUG INFO" or "NCCL_DEBUG: INFO".
_NO_EQUALS = re.compile(r"\s*(NCCL_[A-Z0-9_]+)(?:(?:\s*:\s*|\s+)(\S+))?\s*")
# Shells, /etc/environment and `env` alike.
_ASSIGNMENT = re.compile(r"\s*(?:export\s+|declare\s+-x\s+|setenv\s+)?([A-Za-z_][A-Za-z0-9_]*)(?:=|\s+)(.*)")
_GPU = re.compile(r"<gpu\b[^<>]*>")
_ATTRIBUTE = re.compile(r"\b([a-z]+)=\"([^\"<>]*)\"")


def _files(text, path):
    """[(path, content)] of a recording with or without headers, and its problems; also as cat -A, cat -n and grep -H show files."""
    lines = text.split("\n")
    filled = [line for line in lines if line.strip()]
    if filled and all(line.endswith("$") for line in filled):
        return _files("\n".join(line[:-1].replace("^I", "\t").replace("^M", "\r") for line in lines), path)
    if filled and all(_NUMBERED.fullmatch(line) for line in filled):
        return _files("\n".join(line.partition("\t")[2] for line in lines), path)
    if _HEADER.search(text):
        return split_files(text)
    if not filled or not all(re.match(r"/[^\s:=]+:", line) for line in filled):
        return Parsed([(path, text)], [])
    files = {}
    for found in map(_SEARCHED.fullmatch, filled):
        rows = files.setdefault(found.group(1), [])
        number = int(found.group(2) or len(rows) + 1)
        rows += [""] * (min(number, 100000) - len(rows) - 1) + [found.group(3)]
    return Parsed([(name, "\n".join(rows)) for name, rows in files.items()], [])


# Whoever writes a remark without a # writes a line of it.
_LONGEST_PROSE = 1000


def parse_nccl_conf(text):
    """Configuration files of NCCL to [{path, lines: [{number, name, value, faults, meant}]}].

    name, value: what NCCL takes, exactly; None in a line without "=". faults: what of no_equals, export_prefix, leading_blank,
    blank_in_name, quotes_kept, inline_comment, carriage_return the line has. meant: [name, value] without the faults, None
    where nobody can tell; value is None where a line has nothing but a name. Text without headers is /etc/nccl.conf.
    """
    files, problems = _files(text, SYSTEM_FILE)
    if "=" not in text and max(map(len, text.split("\n"))) > _LONGEST_PROSE:
        return Parsed(None, ["it has no setting, and is no prose"])
    return Parsed([{"path": path, "lines": _conf_lines(content)} for path, content in files], problems)


def _conf_lines(content):
    rows = []
    for number, line in enumerate(content.split("\n"), 1):
        plain = line[:-1] if line.endswith("\r") else line
        # Also an indented comment: the variable that it may set is nobody's.
        if not plain.strip() or plain.lstrip().startswith("#"):
            continue
        rows.append(_conf_line(number, plain, line != plain))
    return rows


def _conf_line(number, line, carriage_return):
    name, equals, value = line.partition("=")
    if not equals:
        found = _NO_EQUALS.fullmatch(line)
        # Other words are passed over, as whoever wrote them expects.
        faults = ["no_equals"] if "NCCL_" in line.upper() and not line.lstrip().startswith(("//", ";")) else []
        return {"number": number, "name": None, "value": None, "faults": faults, "meant": list(found.groups()) if found else None}
    faults = []
    meant = name
    exported = _EXPORT.match(meant)
    if exported:
        faults.append("export_prefix")
        meant = meant[exported.end():]
    elif meant != meant.lstrip():
        faults.append("leading_blank")
        meant = meant.lstrip()
    if re.search(r"\s", meant):
        faults.append("blank_in_name")
        meant = meant.strip()
    clean = value.strip() if faults else value
    comment = re.search(r"\s+#", clean)
    if comment:
        faults.append("inline_comment")
        clean = clean[:comment.start()].strip()
    if len(clean) > 1 and clean[0] == clean[-1] and clean[0] in "\"'":
        faults.append("quotes_kept")
        clean = clean[1:-1]
    if carriage_return:
        faults.append("carriage_return")
    usable = meant and not re.search(r"\s", meant)
    return {"number": number, "name": name, "value": value, "faults": faults, "meant": [meant, clean] if usable else None}


def parse_nccl_env(text):
    """`env`, /etc/environment or shell files to [{path, number, name, value}], of NCCL's variables only.

    Everything else in such a file is somebody else's. Text without headers is the environment of a process.
    """
    files, problems = _files(text, ENVIRONMENT)
    rows = []
    for path, content in files:
        for number, line in enumerate(content.splitlines(), 1):
            found = _ASSIGNMENT.match(line) if "NCCL" in line.upper() and not line.lstrip().startswith("#") else None
            if found and "NCCL" in found.group(1).upper():
                rows.append({"path": path, "number": number, "name": found.group(1), "value": _shell_value(found.group(2), path)})
    return Parsed(rows, problems)


def _shell_value(text, path):
    """The value that a shell, or pam_env, makes of the right side; `env` prints values as they are."""
    if path == ENVIRONMENT and text[:1] not in ("\"", "'"):
        return text
    found = re.match(r"\"([^\"]*)\"|'([^']*)'|([^\s;#]*)", text.strip())
    return next((part for part in found.groups() if part is not None), "") if found else text.strip()


def parse_nccl_graph_file(text):
    """The file that NCCL_GRAPH_FILE names, XML, to {gpus, graphs}: how many GPUs it tells apart, by their `dev`.

    src/graph/xml.cc writes <graphs><graph id= ...><channel><gpu dev="0"/>...; a file without GPUs gives None.
    """
    devices = set()
    for tag in _GPU.findall(text):
        devices.add(dict(_ATTRIBUTE.findall(tag)).get("dev"))
    devices.discard(None)
    if not devices:
        return Parsed(None, [not_understood(1, text) if text.strip() else "the graph file is empty"])
    return Parsed({"gpus": len(devices), "graphs": text.count("<graph ")}, [])


def parse_nccl_topo_file(text):
    """The file that NCCL_TOPO_FILE names, XML, to {gpus}: PCI devices of the class of GPUs, and <gpu> elements.

    A vendor's file describes the PCI tree of a machine size: <pci busid= class="0x030200" .../> for each GPU.
    """
    if "<system" not in text:
        return Parsed(None, [not_understood(1, text) if text.strip() else "the topology file is empty"])
    classes = [dict(_ATTRIBUTE.findall(tag)).get("class", "") for tag in re.findall(r"<pci\b[^<>]*>", text)]
    gpus = sum(1 for code in classes if code.startswith(("0x0302", "0x0300")))
    return Parsed({"gpus": gpus or len(_GPU.findall(text))}, [])
