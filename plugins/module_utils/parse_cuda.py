# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CUDA toolkits: what nvcc says, which folders there are, and where /usr/local/cuda leads to."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, shown

_FOLDER = re.compile(r"(?P<folder>/(?:[\w.+-]+/)*cuda-(?P<release>\d{1,2}(?:\.\d{1,2})?(?:\.\d{1,2})?))(?:/\S*)?", re.ASCII)
# What cudaGetErrorString() and cuGetErrorString() say, by the number of the error (CUDA runtime API, "Data types").
_ERRORS = ((35, re.compile(r"driver version is insufficient for CUDA runtime version|NVIDIA driver on your system is too old", re.IGNORECASE)),
           (100, re.compile(r"no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE", re.IGNORECASE)),
           (209, re.compile(r"no kernel image is available for execution|is not compatible with the current PyTorch installation", re.IGNORECASE)),
           (222, re.compile(r"PTX was compiled with an unsupported toolchain", re.IGNORECASE)),
           (802, re.compile(r"system not yet initialized", re.IGNORECASE)),
           (803, re.compile(r"system has unsupported display driver / cuda driver combination", re.IGNORECASE)),
           (804, re.compile(r"forward compatibility was attempted on non supported HW", re.IGNORECASE)))
# The longest chain of links that the kernel follows.
_MOST_LINKS = 40
_BESIDE_FOLDERS = re.compile(r"\bcuda:?(?:\s|/|$)|^total \d|No such file|cannot access|^(?:\S*(?:bin|etc|games|include|lib|man|sbin|share|src)\s*)+$", re.ASCII)
_BESIDE_LINKS = re.compile(
    r"total \d|There (?:is|are) |Selection |-{9}|Press |cuda - |"
    r"Name: |Link: |Status: |Best: |Alternative: |Priority: |Slaves:|link |slave |f: |[ dl] [\w/]")
_CHOICE = re.compile(r"(/\S+) - priority \d+|[ *] +\d+ +(/\S+) +-?\d+ +(?:auto|manual) mode")


def parse_nvcc_version(text):
    """`nvcc --version` to {release, version}: "Cuda compilation tools, release 12.0, V12.0.76" gives 12.0 and 12.0.76."""
    found = re.search(r"release (\d{1,2}\.\d{1,2})(?:, V(\d{1,2}(?:\.\d{1,4}){1,2}))?", text, re.ASCII)
    if not found:
        return Parsed(None, [not_understood(1, text)])
    return Parsed({"release": found.group(1), "version": found.group(2)}, [])


def parse_cuda_dirs(text, rc=0):
    """`ls -d /usr/local/cuda-*` (also with -l, in columns, or the folders' nvcc) to {folder: release}; a folder of a major release has that.

    A link to another folder (`ls -l`: cuda-12 -> cuda-12.4) is none of its own. Names without a path are of /usr/local.
    """
    del rc
    value, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        before, arrow, _target = line[:4000].partition(" -> ")
        words = before.split()
        if re.match(r"[dl-][rwxsStT-]{9}", line):
            words = words[-1:]
        found = [match for match in (_FOLDER.fullmatch(word.rstrip("/:")) for word in map(_of_usr_local, words)) if match]
        if not arrow:
            value.update((match.group("folder"), match.group("release")) for match in found)
        if words and not found and not _BESIDE_FOLDERS.search(line):
            problems.append(not_understood(number, line))
    return Parsed(value, problems)


def _of_usr_local(word):
    """The path of a name in a list of /usr/local."""
    return "/usr/local/" + word if re.match(r"cuda(?:-|$)", word) else word


def parse_links(text):
    """Links and paths in the forms that people record to {path: target or None}, each on a line of its own.

    "PATH -> TARGET" (the live form), `ls -l` (whose line ends like that), `namei` and `readlink -f` (a lone path), `file`
    ("PATH: symbolic link to TARGET"), and update-alternatives ("link currently points to TARGET", which is the link cuda's).
    """
    value, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        line = line[:4000].strip()
        pointed = re.search(r"(?:link currently points to|^Value:) +(/\S+)$", line)
        named = re.fullmatch(r"(/\S+): symbolic link to (\S+)", line)
        choice = _CHOICE.fullmatch(line) or _CHOICE.fullmatch("  " + line)
        path, arrow, target = line.partition(" -> ")
        if choice:
            value.setdefault("%s/bin/nvcc" % (choice.group(1) or choice.group(2)), None)
            # The table of --config marks the one that is selected.
            if line.startswith("*"):
                value["/usr/local/cuda"] = choice.group(2)
        elif pointed:
            value["/usr/local/cuda"] = pointed.group(1)
        elif named:
            value[named.group(1)] = named.group(2)
        elif arrow and target.strip() and re.search(r"(?:^|\s)(/\S+|cuda(?:-[\d.]+)?)$", path):
            value[_of_usr_local(path.rsplit(None, 1)[-1])] = target.strip()
        elif not arrow and re.fullmatch(r"/\S+", line):
            value[line] = None
        elif line and not _BESIDE_LINKS.match(line):
            problems.append(not_understood(number, line))
    return Parsed(value, problems)


def resolve(links, path):
    """Where a path leads to in the end, by the links of parse_links(); None when the path is no link in it."""
    target = path
    for _step in range(_MOST_LINKS):
        following = links.get(target)
        if following is None:
            break
        # A relative target lies in the link's folder.
        target = following.rstrip("/") if following.startswith("/") else "%s/%s" % (target.rsplit("/", 1)[0], following.rstrip("/"))
    else:
        return None
    return None if target == path else target


def release_of(folder):
    """The release that the name of a folder tells: /usr/local/cuda-12.4 gives "12.4"; None for another name."""
    found = _FOLDER.fullmatch(folder or "")
    return found.group("release") if found else None


def parse_cuda_run(text, rc=0):
    """What a CUDA program printed (deviceQuery, a framework) to {error, text, driver_cuda, runtime_cuda, refused}, None where it says none.

    deviceQuery: "CUDA Driver Version / Runtime Version   12.2 / 12.4". refused: the compute capability that nvcc does not
    know. Other lines are the program's own.
    """
    value = {"error": None, "text": None, "driver_cuda": None, "runtime_cuda": None, "refused": None}
    for number, pattern in _ERRORS:
        found = pattern.search(text)
        if found and value["error"] is None:
            value.update(error=number, text=shown(found.group(), 120))
    pair = re.search(r"CUDA Driver (?:Version / Runtime Version|= CUDART, CUDA Driver Version)\s+=?\s*(\d{1,2}\.\d) / (\d{1,2}\.\d)", text, re.ASCII)
    if pair:
        value.update(driver_cuda=pair.group(1), runtime_cuda=pair.group(2))
    # PyTorch says what the driver offers as CUDA writes it: 12020 is 12.2.
    offered = re.search(r"\(found version (\d{4,5})\)", text, re.ASCII)
    if offered:
        value["driver_cuda"] = "%d.%d" % (int(offered.group(1)) // 1000, int(offered.group(1)) % 1000 // 10)
    refused = re.search(r"nvcc fatal\s*: Unsupported gpu architecture '(?:compute|sm)_(\d{2,3})a?'", text, re.ASCII)
    if refused:
        value.update(refused="%s.%s" % (refused.group(1)[:-1], refused.group(1)[-1]), text=value["text"] or shown(refused.group(), 120))
    nothing = value["error"] is None and pair is None and not refused
    return Parsed(None if nothing and rc else value, ["it failed, and nothing in it is understood"] if nothing and rc else [])
