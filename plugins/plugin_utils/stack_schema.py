# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The schema of a stack, and the readers of single values.

A reader takes (key, value, exact, facts) and returns the value in its long form or raises StackError. With exact=False
(a claim) a version may be as coarse as a branch.
"""
from __future__ import annotations

import difflib
import re
import typing as t

from . import knowledge

SHOWN_CANDIDATES = 8
LONGEST_TEXT = 500
# No version, release or count comes near it, and Python refuses to print numbers of thousands of digits.
HIGHEST_NUMBER = 10 ** 9


class StackError(ValueError):
    """A stack that cannot be used. The message names the key, the value and what could stand there instead."""

    def __init__(self, key: str, problem: str, candidates: t.Sequence[str] = (), code: str = "version_not_exact") -> None:
        self.key = key
        self.candidates = list(candidates)
        self.code = code
        shown = ", ".join(self.candidates[:SHOWN_CANDIDATES])
        if len(self.candidates) > SHOWN_CANDIDATES:
            shown += ", and %d more" % (len(self.candidates) - SHOWN_CANDIDATES)
        where = key if key == "lockstep_stack" else "stack key '%s'" % key
        message = "%s: %s%s" % (where, problem, "; candidates: " + shown if shown else "")
        # One line, whatever the user's keys and values hold.
        super().__init__("".join(char if char.isprintable() else "?" for char in message))


Reader = t.Callable[[str, t.Any, bool, knowledge.Facts], t.Any]


class Field(t.NamedTuple):
    """One key of a component: how to read it, and what an exact stack has when the key is missing."""

    read: Reader
    default: t.Any = None
    required: bool = False


def kind_of(value: t.Any) -> str:
    """The name of a value's type as a YAML author knows it."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, (int, float)):
        return "a number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, t.Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    return "a value of an unknown kind"


def close(value: str, known: t.Iterable[str]) -> t.List[str]:
    """The known words nearest to value, nearest first; all of them when none is near."""
    known = list(known)
    return difflib.get_close_matches(value, known, n=SHOWN_CANDIDATES, cutoff=0.5) or known


def text(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> str:
    """A plain line of text; whole numbers are taken as text, since nothing is lost."""
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < HIGHEST_NUMBER:
        return str(value)
    if not isinstance(value, str):
        raise StackError(key, "expected text, got %s" % kind_of(value), code="stack_invalid")
    if not value.strip() or not value.isprintable() or len(value) > LONGEST_TEXT:
        raise StackError(key, "is empty" if value == "" else "expected text, got an unprintable or endless line", code="stack_invalid")
    return str(value.strip())


def choice(*words: str) -> Reader:
    """A reader for one of a few words."""
    def read(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> str:
        given = text(key, value, exact, facts)
        if given not in words:
            raise StackError(key, "'%s' is not known" % given, words, code="stack_invalid")
        return given
    return read


def release(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> str:
    """A distribution's release; 13 and 22.04 may stand without quotes."""
    return repr(value) if isinstance(value, float) else text(key, value, exact, facts)


def count(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> int:
    """A number of things, zero or more."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < HIGHEST_NUMBER:
        raise StackError(key, "expected a whole number of things, got %s" % kind_of(value), code="stack_invalid")
    return value


def flag(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> bool:
    """true or false."""
    if not isinstance(value, bool):
        raise StackError(key, "expected true or false, got %s" % kind_of(value), code="stack_invalid")
    return value


def words(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> t.List[str]:
    """A list of lines of text."""
    if not isinstance(value, (list, tuple)):
        raise StackError(key, "expected a list, got %s" % kind_of(value), code="stack_invalid")
    return [text("%s[%d]" % (key, position), item, exact, facts) for position, item in enumerate(value)]


def options(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> t.Dict[str, t.Any]:
    """A mapping of options of a kernel module; their values are passed on as they are."""
    if not isinstance(value, t.Mapping):
        raise StackError(key, "expected a mapping, got %s" % kind_of(value), code="stack_invalid")
    for name, item in value.items():
        if not isinstance(name, str) or not isinstance(item, (str, int, float, bool)):
            raise StackError(key, "expected names with plain values, got %s" % kind_of(item), code="stack_invalid")
    return dict(value)


def settings(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> t.Dict[str, t.Any]:
    """Variables of NCCL with their values; whether NCCL reads and takes them, rules judge."""
    for name, item in options(key, value, exact, facts).items():
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,99}", name) or len(str(item)) > LONGEST_TEXT or not str(item).isprintable():
            raise StackError(key, "'%s' is not a variable with a value on one line" % name[:80], code="stack_invalid")
    return dict(value)


def version(pattern: str, coarse: str, known: t.Callable[[knowledge.Facts, str], t.Sequence[str]]) -> Reader:
    """A reader for versions: pattern is an exact one, coarse what a claim may say; known lists the exact candidates."""
    def read(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> str:
        if isinstance(value, float):
            raise StackError(key, "%r is a number; write it in quotes, since YAML reads 12.10 as 12.1" % value,
                             known(facts, repr(value)))
        given = text(key, value, exact, facts)
        candidates = known(facts, given)
        # A tilde belongs to Ubuntu's kernels: 6.8.0-84.84~22.04.1.
        if re.search(r"[*?\[\]^<>=~!,|\s]", given) and not re.fullmatch(pattern, given):
            raise StackError(key, "'%s' is a pattern or a range, not an exact version" % given, candidates)
        if re.fullmatch(pattern, given) and not _is_prefix(given, candidates):
            return given
        if re.fullmatch(coarse, given):
            if not exact:
                return given
            raise StackError(key, "'%s' names a branch or a series, not an exact version" % given, candidates)
        raise StackError(key, "'%s' is not a version" % given, candidates)
    return read


def _is_prefix(given: str, candidates: t.Sequence[str]) -> bool:
    """535.274 is no version of its own where 535.274.02 exists (while 550.120 is one)."""
    return given not in candidates and any(name.startswith(given + ".") for name in candidates)


def known_drivers(facts: knowledge.Facts, given: str) -> t.List[str]:
    """Exact driver versions near what was given: those of its branch, else the nearest; measured ones first."""
    every = [name for row in reversed(facts["drivers"]["branches"]) for name in reversed(row["versions"])]
    proven = {row["driver"]["version"] for row in facts["proven"]["builds"]}
    branch = re.match(r"\d+", given)
    of_branch = [name for name in every if branch and knowledge.branch_of(name) == branch.group()]
    if of_branch:
        # A glob or a prefix keeps what it could mean; a slip of a digit shows its neighbours first.
        stem = re.split(r"[*?\[\s]", given)[0].rstrip(".")
        narrowed = [name for name in of_branch if name.startswith(stem)] or of_branch
        near = difflib.get_close_matches(given, narrowed, n=3, cutoff=0.8)
        return sorted(narrowed, key=lambda name: (name not in near, name not in proven))
    measured = sorted(proven, key=knowledge.numbers, reverse=True)
    return difflib.get_close_matches(given, every, n=SHOWN_CANDIDATES, cutoff=0.6) or measured


def known_cuda(facts: knowledge.Facts, given: str) -> t.List[str]:
    """Exact CUDA releases near what was given."""
    stem = re.match(r"[\d.]*", given).group().rstrip(".")
    parts = stem.split(".")[:2] if stem else []
    for length in (2, 1):
        found = knowledge.toolkits(facts, ".".join(parts[:length])) if len(parts) >= length else []
        if found:
            return found
    return knowledge.toolkits(facts)


def known_nccl(facts: knowledge.Facts, given: str) -> t.List[str]:
    """Exact NCCL versions of known builds."""
    here = {row["version"] for row in facts["nccl"]["builds"]}
    return sorted({row["version"] for row in facts["nccl"]["releases"]} | here, key=lambda name: (name in here, knowledge.numbers(name)), reverse=True)


def known_ofed(facts: knowledge.Facts, given: str) -> t.List[str]:
    """Versions of the RDMA user space that distributions carry."""
    return sorted({row["version"] for row in facts["ofed"]["builds"]}, key=knowledge.numbers, reverse=True)


def known_kernels(facts: knowledge.Facts, given: str) -> t.List[str]:
    """Releases of known kernels, nearest first."""
    return close(given, [row["release"] for row in facts["kernels"]["kernels"]])


def known_kernel_packages(facts: knowledge.Facts, given: str) -> t.List[str]:
    """Package versions of known kernels, nearest first."""
    return close(given, sorted({row["package_version"] for row in facts["kernels"]["kernels"]}, reverse=True))


def nothing_known(facts: knowledge.Facts, given: str) -> t.List[str]:
    """No list of versions is kept for this component."""
    return []


DRIVER = version(r"\d{3}\.\d{2,3}(\.\d{2})?", r"\d{3}(\.\d{1,3})?", known_drivers)
CUDA = version(r"\d{1,2}\.\d{1,2}\.\d{1,2}", r"\d{1,2}(\.\d{1,2})?", known_cuda)
CUDA_SERIES = version(r"\d{1,2}\.\d{1,2}", r"\d{1,2}(\.\d{1,2}){0,2}", nothing_known)
NCCL = version(r"\d+\.\d+\.\d+", r"\d+(\.\d+)?", known_nccl)
KERNEL = version(r"\d+\.\d+\.\d+[-+_][\w.+-]*[a-z][\w.+-]*", r"\d+(\.\d+){0,2}([-+_][\w.+-]+)?", known_kernels)
KERNEL_PACKAGE = version(r"(\d+:)?\d[\w.+]*(-[\w.+]+(~[\w.+]+)*)+", r"(\d+:)?\d[\w.+]*", known_kernel_packages)
PLAIN = version(r"(\d+:)?\d+\.\d+(\.\d+)*([-+][\w.+-]+)?", r"\d+", nothing_known)
OFED = version(r"\d+\.\d+(\.\d+)*(-[\w.]+)?", r"\d+", known_ofed)
MANAGED = version(r"auto|none|\d{3}\.\d{2,3}(\.\d{2})?", r"\d{3}(\.\d{1,3})?", known_drivers)
# NVLSM counts by the calendar, and its version says nothing about the driver's.
CALENDAR = version(r"auto|none|20\d\d\.\d{1,2}\.\d{1,3}", r"20\d\d(\.\d{1,2})?|\d{3}(\.\d{2,3}(\.\d{2})?)?", nothing_known)


def cuda_versions(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> t.List[str]:
    """A list of CUDA releases, at least one."""
    if not isinstance(value, (list, tuple)):
        raise StackError(key, "expected a list of versions, got %s" % kind_of(value), code="stack_invalid")
    if not value:
        raise StackError(key, "the list is empty", knowledge.toolkits(facts))
    return [CUDA("%s[%d]" % (key, position), item, exact, facts) for position, item in enumerate(value)]


def ofed_version(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> str:
    """rdma-core and OFED versions; 56.1 may stand without quotes, since no release ends in a zero after a digit."""
    return OFED(key, repr(value) if isinstance(value, float) else value, exact, facts)


COMPONENTS: t.Dict[str, t.Dict[str, Field]] = {
    "os": {
        "id": Field(text, required=True),
        "release": Field(release, required=True),
        "arch": Field(choice("x86_64", "aarch64"), default="x86_64"),
    },
    "kernel": {
        "release": Field(KERNEL, required=True),
        "package_version": Field(KERNEL_PACKAGE, required=True),
        "cmdline": Field(words, default=()),
    },
    "driver": {
        "version": Field(DRIVER, required=True),
        "flavour": Field(choice("proprietary", "open", "auto"), default="auto"),
        "source": Field(choice("distribution", "nvidia"), default="distribution"),
        "module": Field(choice("dkms", "prebuilt", "precompiled"), default="dkms"),
        "options": Field(options, default={}),
        "stream": Field(text),
    },
    "cuda": {
        "versions": Field(cuda_versions, required=True),
        "active": Field(CUDA),
        "profile": Field(choice("runtime", "libraries", "toolkit"), default="toolkit"),
        "source": Field(choice("distribution", "nvidia")),
    },
    "ofed": {
        "provider": Field(choice("inbox", "mlnx", "doca"), default="inbox"),
        "version": Field(ofed_version, required=True),
        "doca": Field(PLAIN),
    },
    "nccl": {"version": Field(NCCL, required=True), "cuda": Field(CUDA_SERIES), "source": Field(choice("distribution", "nvidia")), "conf": Field(settings)},
    "fabric": {name: Field(CALENDAR if name == "nvlsm" else MANAGED, default="auto") for name in ("manager", "imex", "nscq", "nvlsm")},
    "container_toolkit": {"version": Field(PLAIN, required=True)},
    "dcgm": {"version": Field(PLAIN, required=True), "cuda": Field(choice("11", "12", "13")), "exporter": Field(PLAIN)},
    "modules": {"gdrdrv": Field(PLAIN), "nvidia_fs": Field(PLAIN), "mft": Field(PLAIN)},
    "expect": {
        "gpus": Field(count),
        "nvswitches": Field(count),
        "hcas": Field(count),
        "secure_boot": Field(flag),
        "hold": Field(flag),
    },
}

# What a plain text stands for, where a component is not written as a mapping.
SHORT_KEY = {
    "kernel": "release", "driver": "version", "ofed": "version", "nccl": "version", "fabric": "manager",
    "container_toolkit": "version", "dcgm": "version",
}
ALIASES = {"flavor": "flavour", "fabricmanager": "fabric_manager", "cmd_line": "cmdline"}
