# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What only a claim may say: circumstances that nobody installs, but that decide whether a combination works."""
from __future__ import annotations

import typing as t

from . import knowledge
from .stack_schema import DRIVER, KERNEL, Field, Reader, StackError, flag, kind_of, nothing_known, text, version, words

NUMBERS = version(r"\d+(\.\d+)*", r"\d+(\.\d+)*", nothing_known)


def several(reader: Reader) -> Reader:
    """A reader for a list of values that reader reads."""
    def read(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> t.List[t.Any]:
        if not isinstance(value, (list, tuple)):
            raise StackError(key, "expected a list, got %s" % kind_of(value), code="stack_invalid")
        return [reader("%s[%d]" % (key, position), item, exact, facts) for position, item in enumerate(value)]
    return read


FIELDS: t.Dict[str, t.Dict[str, Field]] = {
    # point: the point release whose medium was installed (22.04.3)
    "os": {"point": Field(text)},
    # compiler: what built the kernel; headers: false where they are known to be missing; kaslr: the kernel randomises addresses in a
    # way that CUDA is known to fail with; hwe: the newest hardware-enablement series of the release; mainline: not a distribution's;
    # meta: a package without a release
    "kernel": {"compiler": Field(text), "headers": Field(flag), "kaslr": Field(flag), "hwe": Field(flag), "mainline": Field(flag),
               "meta": Field(text), "alternatives": Field(several(KERNEL))},
    # libraries: the version of the driver's user space ("other": not the module's); older: this version, or any older one;
    # alternatives: versions that are each judged
    "driver": {"libraries": Field(text), "older": Field(flag), "alternatives": Field(several(DRIVER))},
    # compat: a cuda-compat package comes first on the loader's path
    "cuda": {"compat": Field(flag)},
    # products and nics: what is in the machine, where no target says so
    "expect": {"products": Field(words), "nics": Field(words)},
    "compiler": {"gcc": Field(NUMBERS), "clang": Field(NUMBERS)},
    "glibc": {"version": Field(NUMBERS)},
    # names: packages that are asked for without a version
    "packages": {"names": Field(words)},
}
