# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs at run time: what the loader, the compiler and modprobe really give, not what packages say.

Every foreign library is loaded in a child process of its own with a time limit (run.run_limited), so that a crash or a
hang in it costs one row. Decoders are pure; each probe returns rows made by `row`.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile

from ansible_collections.lockstep.gpu.plugins.module_utils import module_files
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_libraries import library_version
from ansible_collections.lockstep.gpu.plugins.module_utils.run import TIMED_OUT_RC, find_tool, run_limited

# Runs in the child: argv is soname, function. Prints one JSON object.
_LOADER = r"""
import ctypes, json, os, sys
soname, function = sys.argv[1:3]
out = {}
def mapped():
    base = soname.split(".so")[0] + ".so"
    with open("/proc/self/maps") as maps:
        for line in maps:
            path = line.split(None, 5)[5].strip() if len(line.split(None, 5)) == 6 else ""
            if os.path.basename(path).startswith(base):
                return path
try:
    lib = ctypes.CDLL(soname)
    out["path"] = mapped()
    if function == "nvml":
        lib.nvmlErrorString.restype = ctypes.c_char_p
        out["rc"] = lib.nvmlInit_v2()
        out["text"] = lib.nvmlErrorString(out["rc"]).decode()
        if out["rc"] == 0:
            text = ctypes.create_string_buffer(96)
            out["rc"] = lib.nvmlSystemGetDriverVersion(text, 96)
            out["value"] = text.value.decode()
            lib.nvmlShutdown()
    elif function:
        number = ctypes.c_int(0)
        out["rc"] = getattr(lib, function)(ctypes.byref(number))
        out["value"] = number.value
except (OSError, AttributeError) as error:
    out["error"] = str(error)
print(json.dumps(out))
"""

# Adds on the device and checks the sum on the host. Its exit status: 0 right, 3 no usable device, 4 wrong.
PROGRAM = r"""
#include <cstdio>
__global__ void add(const int *a, const int *b, int *c) { int i = threadIdx.x; c[i] = a[i] + b[i]; }
#define TRY(call) do { cudaError_t e = (call); if (e != cudaSuccess) { \
    printf("error %d %s\n", (int)e, cudaGetErrorString(e)); return 3; } } while (0)
int main() {
    const int n = 256;
    int devices = 0, a[n], b[n], c[n], *da, *db, *dc;
    TRY(cudaGetDeviceCount(&devices));
    for (int i = 0; i < n; i++) { a[i] = i; b[i] = 7 * i; c[i] = -1; }
    TRY(cudaMalloc((void **)&da, sizeof a)); TRY(cudaMalloc((void **)&db, sizeof b)); TRY(cudaMalloc((void **)&dc, sizeof c));
    TRY(cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice)); TRY(cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice));
    add<<<1, n>>>(da, db, dc);
    TRY(cudaGetLastError());
    TRY(cudaMemcpy(c, dc, sizeof c, cudaMemcpyDeviceToHost));
    for (int i = 0; i < n; i++) if (c[i] != 8 * i) { printf("wrong at %d: %d\n", i, c[i]); return 4; }
    printf("right on %d device(s)\n", devices);
    return 0;
}
"""


def decode_cuda(number):
    """12040 of cuDriverGetVersion and cudaRuntimeGetVersion is 12.4: 1000 * major + 10 * minor."""
    return "%d.%d" % (number // 1000, number % 1000 // 10)


def decode_nccl(number):
    """22203 of ncclGetVersion is 2.22.3 (10000, 100, 1); up to 2.8 the major counted 1000: 2703 is 2.7.3 (nccl.h)."""
    base = 1000 if number < 10000 else 10000
    return "%d.%d.%d" % (number // base, number % base // 100, number % 100)


def row(subject, value, detail, measured=True, expected=None, **more):
    """One row of the proof.

    measured: the value was really obtained from the thing itself. proven: it was, and it is what is expected (an
    expectation of fewer parts, "12.4" for 12.4.131, is met by its first parts).
    """
    proven = bool(measured) and value is not None and (expected is None or agrees(value, expected))
    if measured and value is not None and not proven:
        detail = "is %s, expected %s; %s" % (value, expected, detail)
    return dict(more, subject=subject, value=value, expected=expected, proven=proven, detail=detail)


def agrees(value, expected):
    """Whether a value is the expected one, or a longer version that begins with it."""
    return str(value) == str(expected) or str(value).startswith(str(expected) + ".")


def load(soname, function, seconds):
    """What the loader gives for `soname`: {path, rc, value, text} or {error}. function "nvml" asks NVML, "" only loads."""
    result = run_limited([sys.executable, "-I", "-c", _LOADER, soname, function], seconds)
    try:
        return json.loads(result.out)
    except ValueError:
        if result.rc == TIMED_OUT_RC:
            return {"error": "%s did not answer within %g s" % (function or soname, seconds)}
        how = "killed by signal %d" % -result.rc if result.rc < 0 else "exit status %d" % result.rc
        return {"error": "%s ended with %s %s" % (function or soname, how, result.err.strip()[-200:])}


def library_row(subject, soname, function, decode, seconds, expected):
    """A row for a library that tells a version, with `api` for what it says ("" as function: it is only loaded).

    The value is the suffix of the file that the loader took (libcuda.so.550.163.01), or what the library says where the
    file has none. A library that fails to answer has its file proven, and nothing more.
    """
    found = load(soname, function, seconds)
    if "error" in found:
        return row(subject, None, found["error"], False, expected, path=None, api=None)
    said = decode(found["value"]) if function and found["rc"] == 0 else None
    answer = "says %s" % said if said else "not asked for more" if not function else "%s returns %d" % (function, found["rc"])
    value = library_version(soname, found["path"]) or said
    return row(subject, value, "%s is %s; %s" % (soname, found["path"], answer), True, expected, path=found["path"], api=said)


def nvml_rows(soname, ask, seconds, expected):
    """Rows libnvidia-ml (the file that the loader takes) and nvml (the driver it talks to, only when `ask`)."""
    found = load(soname, "nvml" if ask else "", seconds)
    if "error" in found:
        return [row("libnvidia-ml", None, found["error"], False, expected.get("libnvidia-ml"), path=None)]
    rows = [row("libnvidia-ml", library_version(soname, found["path"]), "%s is %s" % (soname, found["path"]), True,
                expected.get("libnvidia-ml"), path=found["path"])]
    if ask:
        text = "the loaded driver answers" if found["rc"] == 0 else "nvmlInit: %s (%d)" % (found["text"], found["rc"])
        rows.append(row("nvml", found.get("value"), text, found["rc"] == 0, expected.get("nvml")))
    else:
        rows.append(row("nvml", None, "not asked in check mode: as root it creates device nodes", False, expected.get("nvml")))
    return rows


def cudart_sonames(cache):
    """The sonames of libcudart in `ldconfig -p`, newest first."""
    found = set(re.findall(r"^[ \t]*(libcudart\.so\.[\d.]+) \(", cache, re.MULTILINE))
    return sorted(found, key=lambda name: [int(part) for part in name.split(".so.")[1].split(".")], reverse=True)


def cudart_soname(cache, expected):
    """The soname to prove: the newest of the expected CUDA major release, else the newest; None when there is none.

    Several releases lie side by side by design: a program names the one it wants.
    """
    sonames = cudart_sonames(cache)
    major = str(expected).split(".", maxsplit=1)[0]
    fitting = [name for name in sonames if name.split(".so.")[1].split(".")[0] == major]
    return next(iter(fitting or sonames), None)


def embedded_version(content):
    """The driver version that an nvidia-smi binary carries as a string of its own (bytes), or None if not exactly one."""
    found = set(re.findall(rb"(?<![^\0])(\d{3}\.\d{2,3}(?:\.\d{2})?)(?=\0)", content))
    return found.pop().decode() if len(found) == 1 else None


def smi_row(ask, seconds, expected):
    """nvidia-smi: its version from the binary that the alternatives lead to, and whether it reaches a driver."""
    tool = find_tool("nvidia-smi")
    if tool is None:
        return row("nvidia-smi", None, "nvidia-smi is not installed", False, expected)
    path = os.path.realpath(tool)
    with open(path, "rb") as handle:
        version = embedded_version(handle.read())
    reached = "not run in check mode: as root it creates device nodes"
    if ask:
        result = run_limited([tool, "--query-gpu=driver_version", "--format=csv,noheader"], seconds)
        reached = "it reaches the driver" if result.rc == 0 else "it reaches no driver: " + _first_line(result)
    return row("nvidia-smi", version, "%s is %s; %s" % (tool, path, reached), version is not None, expected, path=path)


def parse_nvcc(text):
    """`nvcc --version` to {release: "12.4", version: "12.4.131"}, or None."""
    found = re.search(r"release (\d+\.\d+), V(\d+(?:\.\d+)+)", text)
    return {"release": found.group(1), "version": found.group(2)} if found else None


def find_nvcc():
    """Path of nvcc, also where only the toolkit's own folder has it; None when there is none."""
    private = "/usr/local/cuda/bin/nvcc"
    return find_tool("nvcc") or (private if os.access(private, os.X_OK) else None)


def nvcc_row(seconds, expected):
    """nvcc's own version."""
    tool = find_nvcc()
    if tool is None:
        return row("nvcc", None, "nvcc is not installed", False, expected)
    result = run_limited([tool, "--version"], seconds)
    parsed = parse_nvcc(result.out)
    if result.rc or parsed is None:
        return row("nvcc", None, "nvcc --version: " + _first_line(result), False, expected)
    return row("nvcc", parsed["version"], "%s, release %s" % (os.path.realpath(tool), parsed["release"]), True, expected)


def host_compilers(folder="/usr/bin"):
    """Values of nvcc's -ccbin to try, in order: nvcc's own choice (None), then the versioned g++ here, newest first."""
    names = [name for name in os.listdir(folder) if re.match(r"g\+\+-\d+$", name)] if os.path.isdir(folder) else []
    return [None, *sorted(names, key=lambda name: int(name.rsplit("-", 1)[1]), reverse=True)]


def compile_rows(may_run, seconds, expected):
    """Rows compile (nvcc makes a program) and program (it computes the right result on a GPU)."""
    tool = find_nvcc()
    failed = "nvcc is not installed"
    with tempfile.TemporaryDirectory(prefix="lockstep-") as folder:
        program = os.path.join(folder, "add")
        with open(program + ".cu", "w", encoding="utf-8") as handle:
            handle.write(PROGRAM)
        # Debian 12's nvcc looks for a plain gcc that its package does not bring; it brings g++-11.
        for compiler in host_compilers() if tool else []:
            result = run_limited([tool, *(["-ccbin", compiler] if compiler else []), "-o", program, program + ".cu"], seconds, cwd=folder)
            if result.rc == 0 and os.path.exists(program):
                with_what = "with %s" % (compiler or "its own host compiler")
                rows = [row("compile", "ok", "nvcc compiled and linked a program " + with_what, True, expected.get("compile"))]
                return rows + [_program_row(program, may_run, seconds, expected.get("program") or "right")]
            failed = failed if compiler else "nvcc failed: " + _first_line(result)
    return [row("compile", None, failed, False, expected.get("compile")),
            row("program", None, "there is no program to run", False, expected.get("program"))]


def _program_row(program, may_run, seconds, expected):
    if not may_run:
        return row("program", None, "not run in check mode: as root it creates device nodes", False, expected)
    ran = run_limited([program], seconds)
    # A wrong sum is a value that contradicts; no device at all is merely no proof.
    value = {0: "right", 4: "wrong"}.get(ran.rc)
    return row("program", value, _first_line(ran), value is not None, expected)


def ibv_row(seconds, expected):
    """RDMA devices that the verbs library opens."""
    tool = find_tool("ibv_devinfo")
    if tool is None:
        return row("ibv_devinfo", None, "ibv_devinfo is not installed", False, expected)
    result = run_limited([tool, "-l"], seconds)
    names = re.findall(r"^\t(\S+)$", result.out, re.MULTILINE)
    detail = "devices: " + ", ".join(names) if names else "no device (exit status %d): %s" % (result.rc, _first_line(result))
    return row("ibv_devinfo", len(names) if names else None, detail, bool(names) and result.rc == 0, expected)


def alias_target(text):
    """The module that Debian's install line hands over to ("install modprobe -i nvidia-current ..."), or None."""
    lines = [line for line in text.splitlines() if line.strip()]
    found = re.search(r"\bmodprobe\b.*?\s(?:-i|--ignore-install)\s+([\w-]+)", lines[-1]) if lines else None
    return found.group(1) if found and lines[-1].startswith("install ") else None


def insmod_path(text):
    """The file of the last insmod line of `modprobe --show-depends`, or None."""
    found = re.findall(r"^insmod (\S+)", text, re.MULTILINE)
    return found[-1] if found else None


def modprobe_row(name, kernel, seconds, expected):
    """Which module file `modprobe NAME` loads under a kernel that need not be running. The value is the file's stem."""
    subject = "modprobe"
    base = ["modprobe", "--set-version=" + kernel, "--show-depends"]
    if find_tool("modprobe") is None:
        return row(subject, None, "modprobe is not installed", False, expected)
    base[0] = find_tool("modprobe")
    result = run_limited([*base, name], seconds)
    target = alias_target(result.out)
    if result.rc == 0 and target:
        result = run_limited([*base, "--ignore-install", target], seconds)
    path = insmod_path(result.out)
    if result.rc or path is None:
        return row(subject, None, "modprobe %s finds nothing for kernel %s: %s" % (name, kernel, _first_line(result)), False, expected)
    return row(subject, module_files.stem(path), "modprobe %s loads %s" % (name, path), True, expected, path=path)


def module_rows(run, kernel, names, expected):
    """One row module:NAME for each module file: its version, proven only when it was built for this kernel."""
    found = module_files.find(os.path.join("/lib/modules", kernel), names)
    known = {item["name"]: item for item in module_files.describe(run, [found[name] for name in names if name in found], False)}
    rows = []
    for name in names:
        subject, item = "module:" + name, known.get(name)
        if item is None:
            rows.append(row(subject, None, "no file below /lib/modules/%s" % kernel, False, expected.get(subject)))
            continue
        fits = (item["vermagic"] or "").split(" ")[0] == kernel
        detail = "%s, vermagic %s, license %s, signer %s" % (item["path"], item["vermagic"], item["license"], item["signer"])
        rows.append(row(subject, item["version"], detail, fits, expected.get(subject), **{
            key: item[key] for key in ("path", "vermagic", "license", "signer", "signed")}))
    return rows


def initramfs_row(kernel, expected, boot="/boot"):
    """The initramfs of a kernel, under the names that Debian and Red Hat give it."""
    for name in ("initrd.img-" + kernel, "initramfs-%s.img" % kernel):
        path = os.path.join(boot, name)
        if os.path.isfile(path) and os.path.getsize(path) > 0:
            return row("initramfs", path, "%d bytes" % os.path.getsize(path), True, expected)
    return row("initramfs", None, "%s has no initramfs for kernel %s" % (boot, kernel), False, expected)


def _first_line(result):
    lines = [line.strip() for line in (result.out + "\n" + result.err).splitlines() if line.strip()]
    return lines[0][:200] if lines else "exit status %d, nothing printed" % result.rc
