# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi in words: its table, --version, -L, -q, and what it says when it fails.

Sources of the formats: nvidia-smi(1), the messages of nvmlErrorString() (NVML API reference), and recorded outputs of the
drivers 352 to 617. Exit statuses are documented, but a pipe or a wrapper loses them: only the words count.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, shown

_VERSION = r"\d{2,4}\.\d{1,4}(?:\.\d{1,4})?(?![\d.])"
_BUS_ID = r"(?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"

# One set for the table's heading, --version and -q. From 610 on the driver's and CUDA's versions have new labels, and
# --version prints the old ones with "Deprecated, see ...".
_VERSIONS = (
    ("smi", re.compile(r"NVIDIA-SMI(?:\s+version\s*:)?\s+(%s)" % _VERSION, re.ASCII)),
    ("driver", re.compile(r"(?:DRIVER|KMD)\s+version\s*:\s*(%s)" % _VERSION, re.ASCII | re.IGNORECASE)),
    ("nvml", re.compile(r"NVML\s+(?:library\s+)?version\s*:\s*(%s)" % _VERSION, re.ASCII | re.IGNORECASE)),
    ("cuda_max", re.compile(r"CUDA\s+(?:UMD\s+)?version\s*:\s*(\d{1,2}\.\d{1,2}|N/A|ERR!|Not Found)", re.ASCII | re.IGNORECASE)),
)
# In the order in which they decide.
_FAILURES = (
    ("version_mismatch", re.compile(r"Driver/library version mismatch")),
    ("smi_mismatch", re.compile(r"Mismatch in versions between nvidia-smi and NVML")),
    ("blocked_by_os", re.compile(r"GPU access blocked by the operating system")),
    ("no_permission", re.compile(r"Failed to initialize NVML: Insufficient Permissions")),
    ("no_library", re.compile(r"couldn't find (?:the )?(?:libnvidia-ml\.so|nvml\.dll)", re.IGNORECASE)),
    ("no_driver", re.compile(r"couldn't communicate with the NVIDIA driver|Failed to initialize NVML: (?:Driver Not Loaded|Not Found)")),
    ("nvml_error", re.compile(r"Failed to initialize NVML")),
    ("no_devices", re.compile(r"No devices were found", re.IGNORECASE)),
)
_UNREACHABLE = re.compile(
    r"Unable to (?:determine the device handle for|retrieve the handle for|query) GPU\s*(?P<index>\d{1,3}(?=:|$|\s))?:?\s*(?P<bus_id>%s)?\s*:\s*(?P<why>.*)"
    % _BUS_ID, re.IGNORECASE)
_INVALID_FIELD = re.compile(r"Field \"?([\w.\-]{1,100})\"? is not a valid field to query")
_REASONS = (("gpu_lost", re.compile(r"GPU is lost|fallen off the bus", re.IGNORECASE)), ("requires_reset", re.compile(r"requires? reset", re.IGNORECASE)),
            ("unknown_error", re.compile(r"Unknown Error", re.IGNORECASE)), ("not_found", re.compile(r"Not Found", re.IGNORECASE)))

_ADVICE = re.compile(r"(?:Failed to |NVIDIA-SMI |Please |Make sure|NVML |Are you sure|Treating as|Nvidia-smi|Invalid combination of input)")
_NOT_THERE = re.compile(r"(?:\S{1,40}: |line \d+: )*nvidia-smi: (?:command )?not found|Command 'nvidia-smi' not found|zsh: command not found: nvidia-smi"
                        r"|sudo apt install nvidia-(?:utils|\d)")
# A row of the table: the first cell is the index and the name (cut), perhaps with the persistence mode at its end.
_TABLE_ROW = re.compile(
    r"\|\s*(?P<index>\d{1,3})\s+(?P<name>\S.*?)\s*\|\s*(?P<bus_id>%s)\s+(?:On|Off|N/A|ERR!)\s*\|(?P<rest>.*)" % _BUS_ID)
_PROCESS = re.compile(r"\|\s*(?P<gpu>\d{1,3})\s+(?:(?:N/A|\d+)\s+(?:N/A|\d+)\s+)?"
                      r"(?P<pid>\d{1,8})\s+(?P<kind>[A-Z][A-Z+]*)\s+(?P<name>\S.*?)(?:\s+(?:\S+MiB|N/A))?\s*\|")
_LIST_ROW = re.compile(r"GPU (?P<index>\d{1,3}): (?P<name>.*?)(?: \(UUID: (?P<uuid>[^()\s]+)\)| \(S/N: [^()]*\))*\s*")
_QUERY_GPU = re.compile(r"GPU (?P<bus_id>%s)" % _BUS_ID)
_TAGS = {"driver_version": "Driver Version", "kmd_version": "KMD Version", "cuda_version": "CUDA Version", "cuda_umd_version": "CUDA UMD Version",
         "product_name": "    Product Name", "fabric": "    Fabric", "state": "        State", "status": "        Status"}
EMPTY = {"smi": None, "driver": None, "nvml": None, "cuda_max": None, "cuda_word": None, "failure": None, "unreachable": [],
         "invalid_fields": [], "gpus": [], "processes": [], "inforom": []}


def parse_nvidia_smi(text, rc=0):
    """Any output of nvidia-smi that is no CSV to what EMPTY lists; rc only counts where nothing was said.

    smi, driver, nvml (two components: it is a prefix), cuda_max: versions; cuda_word: what stands there instead of CUDA's
    ("N/A": no libcuda, "ERR!": one that does not work). failure: {kind, text}. unreachable: [{index, bus_id, reason}].
    gpus: [{index, name, uuid, bus_id, fault}], fault being "ERR!" where the table has it. processes: [{gpu, pid, name}].
    """
    if not text.strip():
        return Parsed(None, ["it printed nothing and ended with exit status %d" % rc])
    text = in_words(text)
    value, problems = dict(EMPTY, **complaints(text)), []
    value.update(gpus=[], processes=[])
    for name, pattern in _VERSIONS:
        found = next((found for found in pattern.finditer(text)), None)
        if found and name == "cuda_max" and not found.group(1)[0].isdigit():
            value["cuda_word"] = found.group(1)
        elif found:
            value[name] = found.group(1)
    section = "gpus"
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw[:2000].strip()
        if line.startswith("|"):
            section = {"Processes:": "processes", "MIG devices:": "mig"}.get(line.strip("| ").partition("  ")[0], section)
            _table_line(line, section, value)
        elif not _read_elsewhere(line) and not is_remark(line):
            listed = _LIST_ROW.fullmatch(line) or _QUERY_GPU.fullmatch(line)
            if listed:
                value["gpus"].append(_gpu(listed.groupdict()))
            elif not _is_plain(line):
                problems.append(not_understood(number, raw))
    return Parsed(value if value != EMPTY or not problems else None, problems)


def in_words(text):
    """`nvidia-smi -q -x` as `nvidia-smi -q` would say it, as far as it is read here; another text as it is."""
    if "<nvidia_smi_log" not in text:
        return text
    lines = []
    for raw in text.splitlines():
        line = raw[:2000].strip()
        gpu, tag = re.match(r'<gpu id="([0-9A-Fa-f:.]{7,16})">', line), re.fullmatch(r"<(\w{1,60})>([^<]{0,200})(?:</\1>)?", line)
        if gpu:
            lines.append("GPU " + gpu.group(1))
        elif tag and tag.group(1) in _TAGS:
            lines.append("%s%s" % (_TAGS[tag.group(1)], " : " + tag.group(2) if tag.group(2) else ""))
    return "\n".join(lines) + "\n"


def complaints(text):
    """What any nvidia-smi says of failures: {failure, unreachable, invalid_fields, inforom}."""
    unreachable, fields, inforom = [], [], []
    for raw in text.splitlines():
        found = _unreachable(raw)
        if found and found not in unreachable:
            unreachable.append(found)
        invalid = _INVALID_FIELD.search(raw[:1000])
        if invalid:
            fields.append(invalid.group(1))
        corrupted = re.search(r"infoROM is corrupted at gpu (%s)" % _BUS_ID, raw[:1000])
        if corrupted:
            inforom.append(corrupted.group(1))
    return {"failure": _failure(text), "unreachable": unreachable, "invalid_fields": fields, "inforom": inforom}


def is_complaint(line):
    """Whether complaints() reads this line."""
    line = line[:1000]
    return bool(_unreachable(line) or _INVALID_FIELD.search(line) or "infoROM is corrupted" in line or _failure(line))


def is_remark(line):
    """Whether this line is none of an answer: a complaint, or the advice that follows one."""
    return is_complaint(line) or bool(_ADVICE.match(line.strip()) or _NOT_THERE.match(line.strip()[:1000]))


def answered(text):
    """Whether nvidia-smi reached the driver, as far as its output tells; that it found no GPU is an answer."""
    failure = _failure(text)
    return failure is None or failure["kind"] == "no_devices"


def _unreachable(raw):
    line = raw[:1000]
    found = _UNREACHABLE.search(line)
    if not found or not (found.group("bus_id") or found.group("index")):
        return None
    reason = next((name for name, pattern in _REASONS if pattern.search(found.group("why"))), shown(found.group("why"), 40) or "unknown_error")
    index = found.group("index")
    return {"index": None if index is None else int(index), "bus_id": found.group("bus_id"), "reason": reason}


def _failure(text):
    for kind, pattern in _FAILURES:
        found = pattern.search(text)
        if found:
            start = text.rfind("\n", 0, found.start()) + 1
            return {"kind": kind, "text": shown(text[start:start + 300].partition("\n")[0], 200)}
    return None


def _table_line(line, section, value):
    row = _TABLE_ROW.fullmatch(line) if section == "gpus" else None
    if row:
        gpu = _gpu(row.groupdict())
        gpu["name"] = re.sub(r"\s+(On|Off|N/A|ERR!)$", "", gpu["name"])
        value["gpus"].append(gpu)
    # The lines below a row belong to its GPU: fan, temperature, power, use.
    elif section == "gpus" and value["gpus"] and ("ERR!" in line or "Unknown Error" in line or "GPU is lost" in line):
        value["gpus"][-1]["fault"] = "GPU is lost" if "GPU is lost" in line else value["gpus"][-1]["fault"] or "ERR!"
    process = _PROCESS.fullmatch(line) if section == "processes" else None
    if process:
        value["processes"].append({"gpu": int(process.group("gpu")), "pid": int(process.group("pid")), "name": process.group("name")})


def _gpu(found):
    index = found.get("index")
    fault = "GPU is lost" if "GPU is lost" in (found.get("rest") or "") + (found.get("name") or "") else \
        "ERR!" if "ERR!" in (found.get("rest") or "") + (found.get("name") or "") else None
    return {"index": None if index is None else int(index), "name": found.get("name"), "uuid": found.get("uuid"),
            "bus_id": found.get("bus_id"), "fault": fault}


def _read_elsewhere(line):
    return not line or line[0] in "+=" or is_complaint(line) or any(pattern.search(line) for name, pattern in _VERSIONS)


def _is_plain(line):
    """What nvidia-smi prints beside: dates, advice, fields of -q, "MIG" rows of -L, old labels."""
    return bool(re.match(r"(?:[A-Z][a-z]{2} [A-Z][a-z]{2} +\d|\w[^:]{0,60}\s+:(?:\s|$)|[A-Z][\w ./()-]{0,60}$|MIG \S|Timestamp|WARNING|Warning"
                         r"|NVML |NVIDIA-SMI |Make sure|Please|Are you sure|Treating as|Nvidia-smi|Failed to properly shut down)", line)
                or re.match(r"(?:DRIVER|CUDA) version +: Deprecated", line))
