# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ELF files of any version from one compilation each: gcc makes c/<kind>.c once, then only bytes are replaced."""
from __future__ import annotations

import hashlib
import os
import pathlib
import re
import struct
import subprocess
import tempfile

SOURCES = pathlib.Path(__file__).parent / "c"
NUMBER = struct.pack("<I", 0x5AFEC0DE)      # stub.h
SONAME = "@SONAME@" + "@" * 56
_SHARED = ("-shared", "-fPIC", "-Wl,-soname," + SONAME)
# Kind of file: what gcc is told besides.
KINDS = {"libcuda": (*_SHARED, "-nostdlib"), "libnvidia-ml": _SHARED, "libcudart": (*_SHARED, "-nostdlib"), "libnccl": (*_SHARED, "-nostdlib"),
         "library": (*_SHARED, "-nostdlib"), "nvidia-smi": (), "module": ("-c", "-fno-asynchronous-unwind-tables")}


class Compiled:
    """The compiled kinds, kept in a folder of the cache; each is compiled when it is first wanted."""

    def __init__(self, cache):
        text = b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir())) + repr(sorted(KINDS.items())).encode()
        self.folder = pathlib.Path(cache) / ("elf-" + hashlib.sha256(text).hexdigest()[:16])
        self._read = {}

    def library(self, kind, soname, version="", number=0):
        """A shared library: its soname, the version that it carries, the number that it answers."""
        data = _text(self._get(kind), SONAME, soname)
        data = _text(data, "@VERSION@", version, 64) if b"@VERSION@" in data else data
        return data.replace(NUMBER, struct.pack("<I", number))

    def program(self, kind, version):
        """A program that carries its version as a text of its own."""
        return _text(self._get(kind), "@VERSION@", version, 64)

    def module(self, name, version, vermagic, module_license):
        """A kernel module for modinfo and depmod. name: as the kernel writes it, nvidia_uvm; version: "" for none."""
        data = self._get("module")
        data = _text(data, "version=@VERSION@", "version=" + version if version else "", 80)
        for mark, value, size in (("@LICENSE@", module_license, 60), ("@NAME@", name, 60), ("@VERMAGIC@", vermagic, 120)):
            data = _text(data, mark, value, size)
        return data

    def _get(self, kind):
        if kind not in self._read:
            path = self.folder / kind
            if not path.exists():
                _compile(kind, path)
            self._read[kind] = path.read_bytes()
        return self._read[kind]


def _text(data, mark, value, size=None):
    """Replace the text that begins with `mark` by `value` and NULs; size: of its field, the mark's own by default."""
    mark, value = mark.encode(), value.encode()
    size = size or len(mark)
    if len(value) >= size or data.count(mark) != 1:
        raise ValueError("%r does not fit the field %r, which is there %d times" % (value, mark, data.count(mark)))
    at = data.index(mark)
    return data[:at] + value + b"\0" * (size - len(value)) + data[at + size:]


def _compile(kind, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent) as work:
        made = os.path.join(work, kind)
        strip = () if "-c" in KINDS[kind] else ("-s", "-Wl,--build-id=none", "-Wl,-z,noseparate-code", "-Wl,-z,norelro")
        done = subprocess.run(["gcc", "-Os", *strip, *KINDS[kind], "-o", made, str(SOURCES / (kind + ".c"))], capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError("gcc: " + re.sub(r"\s+", " ", done.stderr)[-2000:])
        os.rename(made, path)
