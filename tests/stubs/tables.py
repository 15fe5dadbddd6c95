# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tables of data/: which packages a repository has, at which versions, with which relations.

A file has `meta` (kind deb or rpm; origin, label and suite of the Release file), for rpm perhaps `module`, and `packages`.
An entry of `packages` stands for one row per name and version: `name` or `names`, then the versions, in lists by how well
they are known: seen (read in an index, a transcript, a list), spec (a packaging file), inferred (a pattern) and derived
(made here, for tests only). `relations` says the same about the relations, where it differs from the versions.

In every text of an entry, of a version like 3:580.126.20-1.el9:
  $v  the version            3:580.126.20-1.el9     $b  the driver branch: 580 (three digits, then a dot)
  $w  without the epoch      580.126.20-1.el9       $c  a toolkit's release: 12-8 of 12.8.57-1 (two digits, a dot)
  $u  upstream's part of it  580.126.20             $a  a kernel's ABI: 6.8.0-31 of 6.8.0-31.31
"""
from __future__ import annotations

import dataclasses
import functools
import pathlib
import re

import yaml

DATA = pathlib.Path(__file__).parent / "data"
CERTAINTIES = ("seen", "spec", "inferred", "derived")
RELATIONS = ("pre_depends", "depends", "recommends", "supplements", "provides", "conflicts", "breaks", "replaces", "obsoletes")
DEFAULT_ARCH = {"deb": "amd64", "rpm": "x86_64"}


@dataclasses.dataclass(frozen=True)
class Row:
    """One package at one version. version: as dpkg or rpm write it, with epoch. relations: {field of RELATIONS: [text]}.

    content: {path: text} of the files that tests read. certainty and relation_certainty: one of CERTAINTIES.
    source: name of the source package, "" where it is not known (for dpkg it is then the package's own name).
    """

    name: str
    version: str
    arch: str
    relations: dict
    release: str = ""
    section: str = ""
    files: tuple = ()
    content: dict = dataclasses.field(default_factory=dict)
    certainty: str = "inferred"
    relation_certainty: str = "inferred"
    source: str = ""

    @property
    def upstream(self):
        """The version without epoch and revision: 580.126.20."""
        return parts(self.version)["u"]

    @property
    def nevra(self):
        """As modulemd and `dnf list` write it: name-epoch:version-release.arch."""
        return "%s-%s.%s" % (self.name, self.version if ":" in self.version else "0:" + self.version, self.arch)


@dataclasses.dataclass(frozen=True)
class Table:
    """One repository, or for a table with releases all of them. modules: what `module` says, artifacts as {evr: [names]}."""

    id: str
    kind: str
    meta: dict
    rows: tuple
    module: dict | None = None


def parts(version):
    """The parts of a version that entries may name (see above): {"v": ..., "w": ..., "u": ...} and b, c, a where it has them."""
    without_epoch = version.split(":", 1)[-1]
    upstream = without_epoch.rsplit("-", 1)[0]
    found = {"v": version, "w": without_epoch, "u": upstream}
    for key, pattern, template in (("b", r"(\d{3})\.", r"\1"), ("c", r"(\d{2})\.(\d+)\.", r"\1-\2"), ("a", r"(\d+\.\d+\.\d+-\d+)\.\d", r"\1")):
        match = re.match(pattern, without_epoch)
        if match:
            found[key] = match.expand(template)
    return found


def fill(value, known):
    """`value` (text, list or mapping of them) with its $-letters replaced. Raises KeyError for a part the version lacks."""
    if isinstance(value, dict):
        return {fill(key, known): fill(item, known) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [fill(item, known) for item in value]
    return re.sub(r"\$([a-z])", lambda match: known[match.group(1)], value)


def source_of(name, sources):
    """The source package of a name by the table's [[regex of the whole name, source with \\1], ...], "" when no row fits."""
    for pattern, source in sources:
        match = re.fullmatch(pattern, name)
        if match:
            return match.expand(source)
    return ""


def expand(entry, kind, sources=()):
    """The rows of one entry. Raises ValueError where YAML made a number out of a version."""
    for certainty in CERTAINTIES:
        for version in entry.get(certainty, ()):
            if not isinstance(version, str):
                raise ValueError("quote this version: %r of %s" % (version, entry.get("name") or entry["names"]))
            known = parts(version)
            for template in entry.get("names") or [entry["name"]]:
                name = fill(template, known)
                yield Row(
                    name=name, version=version, arch=entry.get("arch", DEFAULT_ARCH[kind]),
                    relations={field: fill(entry[field], known) for field in RELATIONS if field in entry},
                    release=entry.get("release", ""), section=entry.get("section", ""),
                    files=tuple(fill(entry.get("files", ()), known)), content=fill(entry.get("content", {}), known),
                    certainty=certainty, relation_certainty=entry.get("relations", certainty), source=source_of(name, sources))


def profiles(module):
    """The module with its profiles written out: [+default, -x, y] is default's names without x, then y."""
    def names(words, default):
        listed = [word for word in words if word[0] not in "+-"]
        dropped = {word[1:] for word in words if word[0] == "-"}
        return [name for name in (default if "+default" in words else []) if name not in dropped] + listed

    streams = [dict(stream, profiles={key: names(words, stream["profiles"].get("default", ()))
                                      for key, words in stream["profiles"].items()}) for stream in module["streams"]]
    return dict(module, streams=streams)


@functools.lru_cache(maxsize=None)
def load(table):
    """The Table of data/<table>.yml. Raises FileNotFoundError, ValueError (a version that is a number, a row twice)."""
    with open(DATA / (table + ".yml"), encoding="utf-8") as handle:
        document = yaml.load(handle, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    meta = document["meta"]
    rows = tuple(row for entry in document["packages"] for row in expand(entry, meta["kind"], meta.get("sources", ())))
    keys = [(row.name, row.version, row.arch, row.release) for row in rows]
    if len(set(keys)) != len(keys):
        raise ValueError("%s: rows that occur twice: %s" % (table, sorted({key for key in keys if keys.count(key) > 1})[:5]))
    return Table(table, meta["kind"], meta, rows, profiles(document["module"]) if "module" in document else None)
