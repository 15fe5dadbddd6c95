# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What NCCL makes of a setting: names, values, and the choice of network interfaces. Pure, like NCCL's own code that it follows."""
from __future__ import annotations

import difflib
import re
import typing as t

from . import knowledge

Row = t.Dict[str, t.Any]
SYSTEM_FILE = "/etc/nccl.conf"
ENVIRONMENT = "environment"
LOG = "the log"
STACK = "the stack"
NAME = re.compile(r"NCCL_[A-Z0-9_]+")


class Setting(t.NamedTuple):
    """One variable with the value that NCCL gets, and where that comes from: a file's path, ENVIRONMENT, LOG or STACK."""

    name: str
    value: str
    where: str

    @property
    def file(self) -> t.Optional[str]:
        """The file that can be rewritten; None elsewhere."""
        return self.where if self.where.startswith("/") else None


def given(state: t.Mapping[str, t.Any], stack: t.Mapping[str, t.Any]) -> t.List[Setting]:
    """Every setting that somebody gave, the first writer of a variable first: the environment, a user's file, /etc/nccl.conf.

    A later one of the same variable never counts (setenv without overwriting). What a log says comes last: it is no writer.
    """
    nccl = state.get("nccl") or {}
    rows = [Setting(row["name"], row["value"], row["path"]) for row in nccl.get("env") or []]
    # Of two lines of a shell's or of pam's file the last wins, of NCCL's own file the first.
    rows = list({(row.name, row.where): row for row in rows}.values())
    rows.sort(key=lambda row: row.where != ENVIRONMENT)
    files = sorted(nccl.get("conf") or [], key=lambda file: file["path"] == SYSTEM_FILE)
    for file in files:
        rows += [Setting(line["name"], line["value"], file["path"]) for line in file["lines"] if line["name"] is not None]
    rows += [Setting(name, value, LOG) for name, value in ((nccl.get("log") or {}).get("settings") or {}).items()]
    rows += [Setting(name, plain(value), STACK) for name, value in ((stack.get("nccl") or {}).get("conf") or {}).items()]
    return rows


def plain(value: t.Any) -> str:
    """A value of a stack as NCCL would get it: YAML's true is 1."""
    return str(int(value)) if isinstance(value, bool) else str(value)


def effective(settings: t.Iterable[Setting]) -> t.Dict[str, Setting]:
    """{name: the setting that counts}; where nothing else names a variable, what the log says."""
    found: t.Dict[str, Setting] = {}
    for setting in settings:
        found.setdefault(setting.name, setting)
    return found


def same(one: str, other: str) -> bool:
    """Whether two values mean the same to NCCL, which reads numbers in any base."""
    return one == other or (number(one) is not None and number(one) == number(other))


def number(text: str) -> t.Optional[int]:
    """A whole number as strtoll(text, NULL, 0) reads it; None where something else stands before, behind or instead of it."""
    words = text.strip()
    if not re.fullmatch(r"[+-]?(0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})", words, re.ASCII):
        return None
    sign = -1 if words.startswith("-") else 1
    digits = words.lstrip("+-")
    if digits.lower().startswith("0x"):
        return sign * int(digits, 16)
    if digits.startswith("0") and len(digits) > 1:
        return sign * int(digits, 8) if re.fullmatch(r"[0-7]+", digits) else None
    return sign * int(digits)


def read_as(text: str) -> int:
    """What strtoll makes of a text that is no number: the number at its beginning, else 0."""
    found = re.match(r"\s*([+-]?[0-9]{1,18})", text, re.ASCII)
    return int(found.group(1)) if found else 0


def variable(facts: knowledge.Facts, name: str) -> t.Optional[Row]:
    """The row of a variable that some NCCL reads."""
    return next((row for row in facts["nccl_variables"]["variables"] if row["name"] == name), None)


def stranger(facts: knowledge.Facts, name: str) -> t.Optional[Row]:
    """The row of a name that people take for NCCL's."""
    return next((row for row in facts["nccl_variables"]["not_nccl"] if row["name"] == name), None)


def foreign(facts: knowledge.Facts, name: str) -> bool:
    """Whether a name belongs to a plugin or to an image, about which nothing is known."""
    return any(re.fullmatch(row["name"], name) for row in facts["nccl_variables"]["foreign"])


def near(facts: knowledge.Facts, name: str) -> t.Optional[str]:
    """The variable that somebody meant by a name: the nearest known one; None where none is near."""
    names = [row["name"] for row in facts["nccl_variables"]["variables"] if not row.get("gone")]
    folded = name.upper().replace("-", "_")
    if folded in names:
        return folded
    found = difflib.get_close_matches(folded, names, n=1, cutoff=0.87)
    return found[0] if found else None


def illegal(row: Row, value: str) -> t.Optional[str]:
    """What NCCL makes of a value that a variable cannot have, as a clause; None for a legal one."""
    if value == "" or row["type"] == "text":
        return None
    if row["type"] in ("path", "interfaces", "hcas"):
        return None if value == value.strip() else "the blank belongs to the name"
    if row["type"] in ("integer", "flag"):
        return _illegal_number(row, value)
    legal = [re.compile(pattern, 0 if row.get("case") else re.IGNORECASE) for pattern in row["values"]]
    for word in _words(row, value):
        if not any(pattern.fullmatch(word) for pattern in legal):
            return _otherwise(row, "'%s' is not one of %s" % (word[:40], ", ".join(row["values"])))
    return None


def _words(row: Row, value: str) -> t.List[str]:
    if row["type"] == "word":
        return [value]
    if row["type"] == "words":
        return [word for word in value.lstrip("^").split(row.get("separator", ",")) if word]
    # NCCL_ALGO and NCCL_PROTO: list;function:list, each list perhaps with "^" before it.
    lists = [part.rpartition(":")[2].lstrip("^") for part in value.split(";")]
    return [word for part in lists for word in part.split(",") if word]


def _illegal_number(row: Row, value: str) -> t.Optional[str]:
    have = number(value)
    if have is None:
        return "it is no whole number, and NCCL reads %d" % read_as(value)
    if row["type"] == "flag":
        return None if have in (0, 1) else _otherwise(row, "legal are 0 and 1")
    if row.get("values"):
        return None if str(have) in row["values"] else _otherwise(row, "legal are %s" % ", ".join(row["values"]))
    low, high = row.get("min"), row.get("max")
    if (low is None or have >= low) and (high is None or have <= high):
        return None
    legal = "%d to %d" % (low, high) if low is not None and high is not None else "%d and more" % low if low is not None else "at most %d" % high
    return _otherwise(row, "legal is %s" % legal)


def _otherwise(row: Row, problem: str) -> str:
    return "%s; NCCL's answer to another value: %s" % (problem, row["otherwise"]) if row.get("otherwise") else problem


class Interfaces(t.NamedTuple):
    """NCCL_SOCKET_IFNAME read as ncclOsFindInterfaces() reads it: one "^" and one "=" at the very beginning, for the whole list."""

    exclude: bool
    exact: bool
    names: t.List[str]

    def takes(self, interface: str) -> bool:
        """Whether an interface of this name may be used."""
        if not self.names:
            return not self.exclude
        hit = any(interface == name if self.exact else interface.startswith(name) for name in self.names)
        return hit != self.exclude


def interfaces(value: str) -> t.Optional[Interfaces]:
    """NCCL_SOCKET_IFNAME's value; None for one that NCCL takes for none (shorter than two characters)."""
    if len(value) < 2:
        return None
    exclude = value.startswith("^")
    rest = value[1:] if exclude else value
    exact = rest.startswith("=")
    rest = rest[1:] if exact else rest
    # A ":" ends a name, as in the lists of adapters that the same function reads.
    names = [word.partition(":")[0] for word in rest.split(",")]
    return Interfaces(exclude, exact, [name for name in names if name])


def candidates(chosen: Interfaces, have: t.Iterable[t.Mapping[str, t.Any]]) -> t.List[str]:
    """The names of the interfaces that NCCL would use: running, with an address, and allowed."""
    return [row["name"] for row in have if row.get("running") is not False and row.get("addresses") != [] and chosen.takes(row["name"])]
