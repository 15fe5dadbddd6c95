# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The facts of compat/, read once and looked up by small functions.

Every function takes the loaded facts as its first argument, so that tests and users can bring their own. The loaded
facts are shared between callers and must not be changed.
"""
from __future__ import annotations

import functools
import itertools
import pathlib
import re
import typing as t

import yaml

from . import package_sets

COMPAT_DIR = pathlib.Path(__file__).parent / "compat"
STACKS_DIR = pathlib.Path(__file__).parent / "stacks"

Facts = t.Dict[str, t.Any]
Row = t.Dict[str, t.Any]
same_release = package_sets.same_release
package_set = package_sets.find

# From this branch on NVIDIA's installers choose the open module where a GPU can have either.
FIRST_OPEN_BY_DEFAULT = 560


# Words of a product name that name no board: the maker, a number of GPUs, the system around them.
_SAYS_NOTHING = re.compile(r"nvidia|hgx|dgx|gpus?|edition|\d+x|x\d+|nvl\d+|class|geforce|tesla|family|based|systems?")
_MODEL = re.compile(r"[a-z]{1,2}\d{2,4}[a-z]?")
_MEMORY = re.compile(r"\d+gi?b|hbm\d\w*")


def read_yaml(path: pathlib.Path) -> t.Any:
    """The content of a YAML file of the collection; libyaml, where PyYAML has it, is ten times as fast."""
    # Both loaders are safe ones.
    return yaml.load(path.read_text(encoding="utf-8"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506


@functools.lru_cache(maxsize=4)
def load(directory: t.Optional[str] = None) -> Facts:
    """Return every compat file as {file stem: content}, with the short names of sources replaced by their addresses.

    Raises OSError or yaml.YAMLError where a file of the collection itself is unreadable: that is a broken installation.
    """
    folder = pathlib.Path(directory) if directory else COMPAT_DIR
    facts = {}
    for path in sorted(folder.glob("*.yml")):
        content = read_yaml(path)
        facts[path.stem] = _with_addresses(content, content.get("sources") or {})
    facts["gpus"]["gpus"] = [*facts["gpus"]["gpus"], *_each_board(facts["gpus"].pop("boards", []))]
    package_sets.merge(facts)
    return facts


def _each_board(groups: t.Iterable[Row]) -> t.Iterator[Row]:
    """A row for each board of the groups of gpus.yml."""
    for group in groups:
        for pci_id, name in group["names"].items():
            yield {"id": pci_id, "name": name, **{key: value for key, value in group.items() if key != "names"}}


def _with_addresses(node: t.Any, addresses: t.Mapping[str, str]) -> t.Any:
    if isinstance(node, dict):
        result = {}
        for key, value in node.items():
            # "sources" also names the regular expressions of a product: only single names are addresses.
            if isinstance(key, str) and (key == "source" or key.endswith("_source")) and isinstance(value, str):
                result[key] = addresses.get(value, value)
            else:
                result[key] = _with_addresses(value, addresses)
        if result.get("source") == "measured" and result.get("as_of"):
            result["source"] = "measured " + result["as_of"]
        return result
    if isinstance(node, list):
        return [_with_addresses(item, addresses) for item in node]
    return node


def numbers(version: str) -> t.Tuple[int, ...]:
    """The numeric parts of an NVIDIA version: "550.163.01" -> (550, 163, 1). Text without digits gives ()."""
    return tuple(int(part) for part in re.findall(r"\d+", str(version)))


def at_least(version: str, floor: str) -> t.Optional[bool]:
    """Whether version >= floor, judged at the precision that version has; None where that precision cannot tell.

    "450" against "450.80.02" is None: some drivers of the branch are new enough, some are not.
    """
    have, need = numbers(version), numbers(floor)
    if have[:len(need)] == need[:len(have)]:
        return True if len(have) >= len(need) else None
    return have >= need


def branch_of(version: str) -> str:
    """The branch of a driver version: "550.163.01" -> "550"."""
    return str(version).split(".", 1)[0]


def branch(facts: Facts, version: str) -> t.Optional[Row]:
    """The row of the driver branch that a version (or a branch) belongs to."""
    return _first(facts["drivers"]["branches"], branch=branch_of(version))


def distribution(facts: Facts, system: t.Mapping[str, t.Any]) -> t.Optional[Row]:
    """The row of a distribution release, else that of the major release it belongs to: 9.4 is a 9, 12.5 a 12."""
    parts = str(system.get("release")).split(".")
    for length in range(len(parts), 0, -1):
        row = _first(facts["distributions"]["distributions"], id=system.get("id"), release=".".join(parts[:length]))
        if row:
            return row
    coarse = [row for row in facts["distributions"]["distributions"]
              if row["id"] == system.get("id") and (row["release"] == "*" or same_release(row["release"], ".".join(parts)))]
    return coarse[0] if coarse else None


def served(facts: Facts, system: t.Mapping[str, t.Any]) -> bool:
    """Whether site can install on this distribution release; others can only be judged."""
    return bool((distribution(facts, system) or {}).get("served"))


def newest_below(facts: Facts, version: str) -> t.Optional[str]:
    """The newest known driver that is older than a version."""
    known = [name for row in facts["drivers"]["branches"] for name in row["versions"] if numbers(name) < numbers(version)]
    return max(known, key=numbers, default=None)


def kernel(facts: Facts, release: str) -> t.Optional[Row]:
    """The row of a kernel by its release (uname -r)."""
    return _first(facts["kernels"]["kernels"], release=release)


def kernel_numbers(release: str) -> t.Tuple[int, ...]:
    """The upstream numbers of a kernel's release: "6.8.0-1032-aws" -> (6, 8, 0)."""
    return numbers((re.match(r"\d+(\.\d+)*", release) or [""])[0])


def fails_to_build(facts: Facts, driver: str, kernel_release: str, module_flavour: t.Optional[str], arch: t.Optional[str]) -> t.Optional[Row]:
    """The published row by which a driver, unpatched, does not build for a kernel; a branch counts when its newest version fails.

    Where no row speaks of the driver's branch, one whose fix was taken from a version of that branch counts, and is only reported:
    what is older there lacks the fix, but it need not have the fault.
    """
    known, have = branch(facts, driver), kernel_numbers(kernel_release)
    version = driver if "." in driver else max((known or {}).get("versions") or ["0"], key=numbers)
    rows = [row for row in facts["kernels"]["build_failures"]
            if row.get("flavour") in (None, module_flavour) and row.get("arch") in (None, arch)
            and any(_reaches(have, numbers(point)) for point in row["kernel"])]
    own = (row for row in rows if branch_of(row["driver"]) == branch_of(version) and numbers(version) <= numbers(row["driver"]))
    lacking = (dict(row, driver=newest, certainty="reported") for row in rows
               for newest in [_newest_without_fix(known, row)] if newest and numbers(version) <= numbers(newest))
    return next(itertools.chain(own, lacking), None)


def _newest_without_fix(known: t.Optional[Row], row: Row) -> t.Optional[str]:
    """The newest driver of a branch that is older than the version of that branch which a row's fix was taken from."""
    mended = min((name for name in row["fixed"] if known and branch_of(name) == known["branch"]), key=numbers, default=None)
    older = [name for name in (known or {}).get("versions") or [] if mended and numbers(name) < numbers(mended)]
    return max(older, key=numbers, default=None)


def _reaches(kernel: t.Tuple[int, ...], point: t.Tuple[int, ...]) -> bool:
    """Whether a kernel is at or behind a point; a point with three numbers speaks of its stable series only."""
    if len(point) > 2:
        return len(kernel) > 2 and kernel[:2] == point[:2] and kernel[2] >= point[2]
    return len(kernel) > 1 and kernel[:2] >= point


def cuda_of_driver(facts: Facts, version: str) -> t.Optional[t.Tuple[int, ...]]:
    """(major, minor) of the newest CUDA release that was released with a driver of this branch or an older one; None for newer branches."""
    own = int(branch_of(version)) if branch_of(version).isdigit() else 0
    known = {numbers(row["version"])[:2]: int(branch_of(row["driver"])) for row in facts["cuda"]["toolkits"] if row["driver"]}
    return max((release for release, with_it in known.items() if with_it <= own), default=None) if own <= max(known.values()) else None


def cuda_floor(facts: Facts, version: str) -> t.Optional[Row]:
    """The oldest driver that runs toolkits of this version's major release; before CUDA 11 each release has its own."""
    major = _first(facts["cuda"]["floors"], major=str(version).split(".", 1)[0])
    own = [row for row in facts["cuda"]["release_floors"] if same_release(row["release"], version)]
    return major or min(own, key=lambda row: numbers(row["driver"]), default=None)


def released_with(facts: Facts, version: str) -> t.List[str]:
    """The drivers that the known releases of a CUDA version were released with."""
    names = toolkits(facts, version)
    return [row["driver"] for row in facts["cuda"]["toolkits"] if row["driver"] and row["version"] in names]


def toolkits(facts: Facts, version: str = "") -> t.List[str]:
    """Every known CUDA release that is, or belongs to, a version: "12.4" -> ["12.4.1", "12.4.0"]."""
    wanted = str(version).split(".") if version else []
    return [row["version"] for row in facts["cuda"]["toolkits"] if row["version"].split(".")[:len(wanted)] == wanted]


def usable_gpus(state: t.Mapping[str, t.Any]) -> t.List[Row]:
    """The GPUs that a node can use. A container sees all PCI devices of its host, but has the device nodes of its own only."""
    if state.get("container") and not state.get("gpu_devices"):
        return []
    return state.get("gpus") or []


def gpu(facts: Facts, name: str) -> t.Optional[Row]:
    """The row of a GPU by PCI id ("10de:2330") or product ("H100", "NVIDIA A100-SXM4-80GB"), joined with its architecture's.

    A product that fits boards of several architectures gives None: nothing is guessed. Where it fits several boards, the
    row has what they agree on, and the product as its name.
    """
    wanted = str(name).strip().lower()
    rows = [row for row in facts["gpus"]["gpus"] if row["id"] == wanted] or _gpus_named(facts, wanted)
    if not rows:
        families = {family.split()[0] for family in facts["gpus"]["architectures"]} & {word.capitalize() for word in re.findall(r"[a-z]+", wanted)}
        return _agreed(facts, [name for name in facts["gpus"]["architectures"] if name.split()[0] in families], str(name).strip())
    # A name that another board's begins with: GTX 750 Ti, and GTX 750 Ti OEM of an older architecture.
    same = [row for row in rows if _product(row["name"]) == _product(wanted)] or rows
    rows = same if len({row["architecture"] for row in rows}) != 1 else rows
    if len({row["architecture"] for row in rows}) != 1:
        return _agreed(facts, sorted({row["architecture"] for row in rows}), str(name).strip())
    agreed = {key: value for key, value in rows[0].items() if all(key in row and row[key] == value for row in rows)}
    if all("listed_in" in row for row in same):
        agreed["listed_in"] = min((row["listed_in"] for row in rows if "listed_in" in row), key=numbers)
    return dict(facts["gpus"]["architectures"][rows[0]["architecture"]], **dict({"name": str(name).strip()}, **agreed))


def _gpus_named(facts: Facts, product: str) -> t.List[Row]:
    """The rows that have every word of a product; the memory's size counts only where a row knows that size."""
    families = {family.split()[0].lower() for family in facts["gpus"]["architectures"]}
    # A lone digit is a revision or a machine's: DGX-2 (V100).
    words = {word for word in re.findall(r"[a-z0-9]+", product) if not _SAYS_NOTHING.fullmatch(word) and not re.fullmatch(r"\d", word)}
    # What stands in parentheses, and the name of an architecture, is said of a board and no part of its name.
    plain = {word for word in re.findall(r"[a-z0-9]+", re.sub(r"\([^()]*\)", " ", product))
             if not _SAYS_NOTHING.fullmatch(word) and word not in families}
    for wanted in (words, {word for word in words if not _MEMORY.fullmatch(word)}, plain, {word for word in plain if not _MEMORY.fullmatch(word)}):
        rows = [row for row in facts["gpus"]["gpus"] if wanted and wanted <= _words(row["name"])]
        if rows:
            return rows
    # A model without the letter of its form: K40 (K40m, K40c).
    rows = [row for row in facts["gpus"]["gpus"] if words and all(
        any(re.fullmatch(re.escape(word) + "[a-z]{0,2}", own) for own in _words(row["name"])) for word in words)]
    if rows and any(_MODEL.fullmatch(word) for word in words):
        return rows
    # Names of systems and of clouds' machines: p5.48xlarge (8xH100).
    models = {word for row in facts["gpus"]["gpus"] for word in _words(row["name"]) if _MODEL.fullmatch(word)}
    wanted = {re.sub(r"^\d+x(?=[a-z])", "", word) for word in words} & models
    return [row for row in facts["gpus"]["gpus"] if wanted and wanted <= _words(row["name"])]


def _product(name: str) -> t.Set[str]:
    """The words of a name that tell boards apart."""
    return {word for word in re.findall(r"[a-z0-9]+", name.lower()) if not _SAYS_NOTHING.fullmatch(word)}


def _agreed(facts: Facts, architectures: t.Sequence[str], product: str) -> t.Optional[Row]:
    """What architectures of one family agree on, for a board that only says to which it belongs ("T550 (Turing)"), or was made with several."""
    families = {name.split()[0] for name in architectures}
    rows = [facts["gpus"]["architectures"][name] for name in architectures]
    if len(families) != 1 or len({row["flavour"] for row in rows}) != 1:
        return None
    agreed = {key: value for key, value in rows[0].items() if all(row.get(key) == value for row in rows)}
    last = [row["cuda"]["last"] for row in rows]
    window = {"first": min((row["cuda"]["first"] for row in rows), key=numbers), "last": None if None in last else max(last, key=numbers)}
    return {"last_branch": None, **agreed, "cuda": window, "name": product, "architecture": families.pop()}


def _words(name: str) -> t.Set[str]:
    """The words of a row's name; an SXM board of any generation is also called just SXM."""
    words = set(re.findall(r"[a-z0-9]+", name.lower()))
    return words | {"sxm" for word in words if word.startswith("sxm")}


def flavour(facts: Facts, driver: t.Mapping[str, t.Any], gpus: t.Iterable[str]) -> t.Optional[str]:
    """The flavour of the kernel module: what the stack says or, for auto, what the GPUs need.

    A GPU that cannot have the open module decides for all (one module drives every GPU of a node). Returns None where
    the stack says nothing, and for auto where neither a GPU nor a version decides.
    """
    wanted = driver.get("flavour")
    if wanted != "auto":
        return wanted
    needs = {row["flavour"] for row in (gpu(facts, name) for name in gpus) if row}
    if "proprietary" in needs:
        return "proprietary"
    if "open" in needs:
        return "open"
    if not driver.get("version"):
        return None
    return "open" if int(branch_of(driver["version"])) >= FIRST_OPEN_BY_DEFAULT else "proprietary"


# By the identity of the rows, which are shared and never changed (and kept here, so that no other rows get their identity).
_NAMED: t.Dict[int, t.Tuple[t.List[Row], t.Dict[str, t.Optional[Row]]]] = {}


def _named(rows: t.List[Row], package: str) -> t.Optional[Row]:
    """The first row whose `name` fits a package's name (without ":arch"). A fleet has the same few names on every node."""
    if id(rows) not in _NAMED:
        if len(_NAMED) > 16:
            _NAMED.clear()
        _NAMED[id(rows)] = (rows, {})
    seen = _NAMED[id(rows)][1]
    if package not in seen:
        if len(seen) > 1 << 14:
            seen.clear()
        name = package.partition(":")[0]
        seen[package] = next((row for row in rows if re.fullmatch(row["name"], name)), None)
    return seen[package]


def family(facts: Facts, package: str) -> t.Optional[Row]:
    """The row of families.yml that a package's name (without ":arch") belongs to."""
    return _named(facts["families"]["families"], package)


# By the identity of the facts, which are kept beside, as in _NAMED.
_MEMBERS: t.Dict[t.Any, t.Tuple[Facts, Row]] = {}


def member(facts: Facts, package: str, row: t.Mapping[str, t.Any]) -> Row:
    """{product, one_version} of a package; empty for one of no product. row: its row in the list of packages, perhaps with its source.

    A source decides, as one source's packages move together whatever their names; the kernel's has packages of no kernel, too.
    """
    # A package with a version of its own does not have its source's: libcublas12 12.4.5.8~12.4.1-2 of nvidia-cuda-toolkit 12.4.1-2.
    same = (row.get("version") or "").startswith(row.get("source_version") or "")
    key = (id(facts), package, row.get("source"), same)
    if key not in _MEMBERS:
        if len(_MEMBERS) > 1 << 14:
            _MEMBERS.clear()
        _MEMBERS[key] = (facts, _member(facts, package, row.get("source"), same))
    return _MEMBERS[key][1]


def _member(facts: Facts, package: str, source: t.Optional[str], same: bool) -> Row:
    named = family(facts, package) or {}
    products = facts["packages"]["products"]
    if not source or named and not (products.get(named["product"]) or {}).get("sources") or named.get("product") == "kernel":
        return named
    for product, entry in products.items():
        patterns = [pattern for pattern in entry["sources"] if product != "kernel" and re.fullmatch(pattern, source)]
        if patterns:
            moved = {one for packages in entry["sets"] for one in packages.get("one_version") or []}
            by_name = bool(named.get("one_version")) and any(re.fullmatch(pattern, one) for pattern in patterns for one in moved)
            return {"product": product, "one_version": same and (source in moved or by_name)}
    return named


def kernel_metapackage(facts: Facts, package: str) -> t.Optional[Row]:
    """The row of kernel_packages.yml that a package's name belongs to; None for a package that brings no newer kernel."""
    return _named(facts["kernel_packages"]["metapackages"], package)


def builds(facts: Facts, system: t.Mapping[str, t.Any], kernel_release: str, driver_version: str,
           module_flavour: str) -> t.List[Row]:
    """The measured builds of a driver for a kernel of a distribution."""
    return [
        row for row in facts["proven"]["builds"]
        if row["os"]["id"] == system.get("id") and row["os"]["release"] == system.get("release")
        and row["kernel"]["release"] == kernel_release
        and row["driver"]["version"] == driver_version and row["driver"]["flavour"] == module_flavour
    ]


def _first(rows: t.Iterable[Row], **wanted: t.Any) -> t.Optional[Row]:
    for row in rows:
        if all(row.get(key) == value for key, value in wanted.items()):
            return row
    return None
