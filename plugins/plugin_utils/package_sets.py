# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which set of packages a component of a stack is made of: the files packages*.yml of compat/, as one.

A set's ``when`` says what it is for. A key that is missing there is not asked for, but for ``module`` and ``stream``: a set
that does not name them is for modules that are built on the node, and for stacks without a stream.
"""
from __future__ import annotations

import re
import typing as t

Facts = t.Dict[str, t.Any]
Row = t.Dict[str, t.Any]

# The value of the stack that a set without the key is for; another value needs a set that names it.
UNSAID = {"module": ("dkms", "prebuilt", None), "stream": (None,)}


def merge(facts: Facts) -> None:
    """Move the sets of every packages_*.yml behind those of packages.yml, product by product."""
    whole = facts["packages"]
    for name in sorted(name for name in facts if name.startswith("packages_")):
        more = facts.pop(name)
        whole["archive"] = [*whole["archive"], *more.get("archive", [])]
        for product, entry in more["products"].items():
            known = whole["products"].setdefault(product, {"sources": [], "sets": []})
            known["sources"] = [*known["sources"], *(one for one in entry.get("sources", []) if one not in known["sources"])]
            known["sets"] = [*known["sets"], *entry["sets"]]


def same_release(one: str, other: str) -> bool:
    """Whether two releases are the same at the precision that both have: 9 and 9.4 are, 9.2 and 9.4 are not."""
    have, want = str(one).split("."), str(other).split(".")
    length = min(len(have), len(want))
    return have[:length] == want[:length]


def same_system(when: t.Mapping[str, t.Any], system: t.Mapping[str, t.Any]) -> bool:
    """Whether a row is for this distribution release, whatever else it asks for."""
    names = when["os"] if isinstance(when["os"], list) else [when["os"]]
    parts = str(system.get("release")).split(".")
    return system.get("id") in names and any(str(release).split(".") == parts[:len(str(release).split("."))] for release in when["release"])


def source_of(product: str, stack: t.Mapping[str, t.Any]) -> t.Optional[str]:
    """Where a component comes from: as the stack says, else with its driver; CUDA and NCCL of Ubuntu and EL are NVIDIA's own."""
    said = (stack.get(product) or {}).get("source")
    if said or product not in ("cuda", "nccl", "fabric"):
        return said
    driver = (stack.get("driver") or {}).get("source")
    if product == "fabric":
        return driver or "distribution"
    return "distribution" if (stack.get("os") or {}).get("id") == "debian" and driver != "nvidia" else "nvidia"


def major_of(version: t.Optional[str]) -> str:
    """The first number of a version without its epoch: "1:4.4.2-1" -> "4"."""
    return (re.match(r"(?:\d+:)?(\d+)", version or "") or ["", ""])[1]


def _has(product: str, stack: t.Mapping[str, t.Any], flavour: t.Optional[str]) -> t.Dict[str, t.Any]:
    """What the stack says of a product, by the words of `when`."""
    component = stack.get(product) or {}
    # Fabric manager is of the driver's branch; it may come without a version of its own.
    version = component.get("version") or ((stack.get("driver") or {}).get("version") if product == "fabric" else None) or ""
    return {
        "source": source_of(product, stack), "branch": version.split(".", 1)[0], "major": major_of(version),
        "flavour": flavour or component.get("flavour"), "profile": component.get("profile"), "provider": component.get("provider"),
        "module": component.get("module"), "stream": component.get("stream"),
    }


def fits(row: Row, have: t.Mapping[str, t.Any]) -> bool:
    """Whether a set, of the right distribution, is for what the stack says."""
    when = row["when"]
    for key in have.keys() & when.keys():
        wanted = when[key] if isinstance(when[key], list) else [when[key]]
        if have[key] not in wanted:
            return False
    if "branches" in when and not in_range(have["branch"], when["branches"]):
        return False
    # A set that enables a stream is for stacks that name it; which one, whoever makes the packages checks.
    return all(key in when or have[key] in unsaid or (key == "stream" and "stream" in row) for key, unsaid in UNSAID.items())


def in_range(branch: str, limits: t.Sequence[t.Optional[str]]) -> bool:
    """Whether a branch lies from the first to the last of limits, both included; None is no limit."""
    if not branch.isdigit():
        return False
    first, last = limits
    return (first is None or int(branch) >= int(first)) and (last is None or int(branch) <= int(last))


def find(facts: Facts, product: str, stack: t.Mapping[str, t.Any], flavour: t.Optional[str] = None) -> t.Optional[Row]:
    """The first set of a product whose `when` fits the stack; None where the product or a fitting set does not exist."""
    have = _has(product, stack, flavour)
    for row in (facts["packages"]["products"].get(product) or {}).get("sets", []):
        if same_system(row["when"], stack.get("os") or {}) and fits(row, have):
            return row
    return None


def siblings(facts: Facts, product: str, system: t.Mapping[str, t.Any]) -> t.List[Row]:
    """Every set of a product for a distribution release."""
    return [row for row in facts["packages"]["products"][product]["sets"] if same_system(row["when"], system)]


def names_of(facts: Facts, product: str) -> t.List[str]:
    """Regular expressions for the names of a product's packages, by families.yml, whose first fitting row decides.

    The rows before, of other products, are kept out by a look ahead: libnvidia-container1 is not the driver's.
    """
    found, before = [], []  # type: t.Tuple[t.List[str], t.List[str]]
    for row in facts["families"]["families"]:
        if row["product"] == product:
            found.append("(?!(?:%s)$)(?:%s)" % ("|".join(before), row["name"]) if before else row["name"])
        else:
            before.append(row["name"])
    return found
