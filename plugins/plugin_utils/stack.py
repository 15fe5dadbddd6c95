# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Stacks: from a name or a mapping, as users write them, to the one long form that everything else reads."""
from __future__ import annotations

import copy
import pathlib
import re
import typing as t

import yaml

from . import claim, claim_schema, knowledge
from .stack_schema import ALIASES, COMPONENTS, CUDA, SHORT_KEY, Field, StackError, close, flag, kind_of, text, words

__all__ = ["StackError", "claims", "expand", "names"]

CLAIMS = "claims"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
# For people; missing: what keeps a claim from being exact.
NOTES = {"description": text, "remarks": words, "name": text, "source": text, "as_of": text, "claim": flag, "missing": words}

Folders = t.Union[None, str, t.Sequence[str]]


def expand(value: t.Any, stacks_dir: Folders = None, exact: bool = True,
           facts: t.Optional[knowledge.Facts] = None) -> t.Dict[str, t.Any]:
    """Return the long form of a stack (exact) or a claim (exact=False).

    value: the name of a file in stacks_dir (one folder or several, searched first) or in the shipped stacks; or a mapping.
    A component that is missing or empty is left alone and does not occur in the result. In a claim only what is said
    occurs. Raises StackError for everything else than a usable stack: one message, with the key and the candidates.
    """
    facts = facts or knowledge.load()
    if isinstance(value, str):
        name = value.strip()
        if not name:
            raise StackError("lockstep_stack", "is not set", names(stacks_dir), code="stack_invalid")
        content = _read_named(name, stacks_dir, exact)
        if exact and isinstance(content, dict) and content.get("claim") is True:
            raise _only_a_claim(name, content, stacks_dir)
        result = _expand_mapping(content, exact, facts)
        result["name"] = name
        return result
    return _expand_mapping(value, exact, facts)


def names(stacks_dir: Folders = None) -> t.List[str]:
    """The names of every stack that can be asked for; claims, which can only be judged, are not among them."""
    return sorted({path.stem for folder in _folders(stacks_dir) for path in folder.glob("*.y*ml")})


def claims(stacks_dir: Folders = None) -> t.List[str]:
    """The names of the claims of the catalogue: files in a folder `claims` beside the stacks."""
    return sorted({path.stem for folder in _folders(stacks_dir) for path in (folder / CLAIMS).glob("*.yml")})


def _folders(stacks_dir: Folders) -> t.List[pathlib.Path]:
    own = [stacks_dir] if isinstance(stacks_dir, str) else list(stacks_dir or [])
    return [pathlib.Path(folder) for folder in own if folder] + [knowledge.STACKS_DIR]


def _read_named(name: str, stacks_dir: Folders, exact: bool) -> t.Any:
    if NAME.fullmatch(name):
        for folder in _folders(stacks_dir):
            for path in (folder / (name + ".yml"), folder / (name + ".yaml"), folder / CLAIMS / (name + ".yml")):
                if path.is_file():
                    content = _read_file(path)
                    # What lies among the claims is one, whatever it says of itself.
                    return dict(content, claim=True) if path.parent.name == CLAIMS and isinstance(content, dict) else content
    known = names(stacks_dir) if exact else [*names(stacks_dir), *claims(stacks_dir)]
    raise StackError("lockstep_stack", "there is no stack named '%s'" % name[:80], close(name, known), code="stack_unknown")


def _only_a_claim(name: str, content: t.Mapping[str, t.Any], stacks_dir: Folders) -> StackError:
    """The refusal of a claim where something would be installed: what it lacks, and the exact stacks there are."""
    missing = content.get("missing") if isinstance(content.get("missing"), list) else []
    system = (content.get("os") or {}).get("id") if isinstance(content.get("os"), dict) else None
    exact = names(stacks_dir)
    near = [one for one in exact if system and one.startswith(str(system))] or exact
    return StackError("lockstep_stack", "'%s' is only a claim: it can be judged, but not installed%s" % (
        name[:80], "; missing: " + ", ".join(str(word) for word in missing) if missing else ""), near)


def _read_file(path: pathlib.Path) -> t.Any:
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise StackError("lockstep_stack", "%s cannot be read: %s" % (path, error), code="stack_invalid") from error
    except yaml.YAMLError as error:
        line = getattr(getattr(error, "problem_mark", None), "line", None)
        where = " at line %d" % (line + 1) if line is not None else ""
        raise StackError("lockstep_stack", "%s is not valid YAML%s" % (path, where), code="stack_invalid") from error


def _expand_mapping(value: t.Any, exact: bool, facts: knowledge.Facts) -> t.Dict[str, t.Any]:
    if not isinstance(value, t.Mapping):
        raise StackError("lockstep_stack", "expected a name or a mapping, got %s" % kind_of(value), names(), code="stack_invalid")
    given = _renamed("", value if exact or not all(isinstance(key, str) for key in value) else claim.normal(value, facts))
    if exact and (given.get("claim") is True or given.get("missing")):
        raise _only_a_claim("this mapping", given, None)
    manager = given.pop("fabric_manager", None)
    if manager is not None:
        if given.get("fabric") is not None:
            raise StackError("fabric_manager", "say it once: here or under 'fabric'", code="stack_invalid")
        # Without fabric manager there may be other parts; without a fabric there are none.
        given["fabric"] = {"manager": manager} if manager == "none" else manager
    result: t.Dict[str, t.Any] = {}
    known = COMPONENTS if exact else {**COMPONENTS, **claim_schema.FIELDS}
    for key, component in given.items():
        if key in NOTES:
            if component is not None:
                result[key] = NOTES[key](key, component, exact, facts)
        elif key not in known:
            raise _unknown_key(key, [*known, *NOTES, *([] if exact else claim.SHORT)])
        elif component is not None:
            result[key] = _component(key, component, exact, facts)
    if exact and "os" not in result:
        raise StackError("os", "is missing: packages cannot be named without it", _systems(facts), code="stack_invalid")
    if exact and "driver" in result and not (isinstance(given["driver"], t.Mapping) and given["driver"].get("source")):
        result["driver"]["source"] = _driver_source(result["os"], facts)
    return result


def _driver_source(system: t.Mapping[str, t.Any], facts: knowledge.Facts) -> str:
    """Where the driver comes from when the stack does not say: Enterprise Linux has none of its own."""
    row = knowledge.distribution(facts, system) or {}
    return "nvidia" if row.get("package_manager") == "dnf" else "distribution"


def _component(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> t.Dict[str, t.Any]:
    given = _long_form(key, value, exact, facts)
    fields = COMPONENTS.get(key, {}) if exact else {**COMPONENTS.get(key, {}), **claim_schema.FIELDS.get(key, {})}
    for name in given:
        if name not in fields:
            raise _unknown_key("%s.%s" % (key, name), fields)
    result = {}
    for name, field in fields.items():
        path = "%s.%s" % (key, name)
        if given.get(name) is not None:
            result[name] = field.read(path, given[name], exact, facts)
        elif field.required and exact:
            raise _missing(path, name, field, given, facts)
        elif exact and (field.default is not None):
            result[name] = copy.copy(list(field.default) if isinstance(field.default, tuple) else field.default)
    return _finish_cuda(result, exact) if key == "cuda" else result


def _long_form(key: str, value: t.Any, exact: bool, facts: knowledge.Facts) -> t.Dict[str, t.Any]:
    if isinstance(value, t.Mapping):
        given = _renamed(key + ".", value)
        if key == "cuda" and "version" in given:
            if given.get("versions") is not None:
                raise StackError("cuda.version", "say it once: here or under 'cuda.versions'", code="stack_invalid")
            given["versions"] = given.pop("version")
        if key == "cuda" and given.get("versions") is not None and not isinstance(given["versions"], (list, tuple, t.Mapping)):
            given["versions"] = [given["versions"]]
        return given
    if isinstance(value, (list, tuple)) and key == "cuda":
        return {"versions": value}
    if isinstance(value, (list, tuple, bool)) or key not in {*SHORT_KEY, "cuda", "os"}:
        raise StackError(key, "expected a mapping, got %s" % kind_of(value), COMPONENTS.get(key, ()), code="stack_invalid")
    if key == "cuda":
        return {"versions": [value]}
    if key == "os":
        match = re.fullmatch(r"([a-z]+)[-_ ]?(\d[\d.]*)", text(key, value, exact, facts))
        if not match:
            raise StackError(key, "'%s' is not a distribution with its release" % value, _systems(facts), code="stack_invalid")
        return {"id": match.group(1), "release": match.group(2)}
    if key == "fabric" and value == "none":
        # Said of the whole of it, not of fabric manager alone.
        return dict.fromkeys(COMPONENTS["fabric"], value)
    return {SHORT_KEY[key]: value}


def _finish_cuda(result: t.Dict[str, t.Any], exact: bool) -> t.Dict[str, t.Any]:
    """Choose the active toolkit where there is only one, and check the choice where there are several."""
    installed = result.get("versions", [])
    if "active" not in result:
        if len(installed) > 1 and exact:
            raise StackError("cuda.active", "is missing: which of the versions is the default?", installed, code="stack_invalid")
        if installed:
            result["active"] = installed[0]
    elif installed and result["active"] not in installed:
        raise StackError("cuda.active", "'%s' is not one of cuda.versions" % result["active"], installed, code="stack_invalid")
    return result


def _renamed(prefix: str, value: t.Mapping[t.Any, t.Any]) -> t.Dict[str, t.Any]:
    """The mapping with the one spelling of every key; two spellings of one key contradict each other."""
    result: t.Dict[str, t.Any] = {}
    for key, item in value.items():
        if not isinstance(key, str):
            raise StackError(prefix + "?", "keys are text, this is %s" % kind_of(key), code="stack_invalid")
        name = ALIASES.get(key, str(key))
        if name in result:
            raise StackError(prefix + key, "say it once: '%s' and '%s' are the same key" % (key, name), code="stack_invalid")
        result[name] = item
    return result


def _unknown_key(path: str, known: t.Iterable[str]) -> StackError:
    prefix, dot, name = path.rpartition(".")
    return StackError(path[:80], "is not a key of a stack", [prefix + dot + word for word in close(name, known)],
                      code="stack_invalid")


def _missing(path: str, name: str, field: Field, given: t.Mapping[str, t.Any], facts: knowledge.Facts) -> StackError:
    """The error for a component without its version, with the versions that could stand there."""
    if path == "kernel.package_version":
        row = knowledge.kernel(facts, str(given.get("release")))
        return StackError(path, "is missing: the release alone names several builds",
                          [row["package_version"]] if row else [])
    if path.startswith("os."):
        return StackError(path, "is missing", _systems(facts), code="stack_invalid")
    reader = CUDA if path == "cuda.versions" else field.read
    try:
        # A word that is no version makes the reader list the candidates.
        reader(path, "?", True, facts)
    except StackError as error:
        return StackError(path, "is missing", error.candidates)
    return StackError(path, "is missing")


def _systems(facts: knowledge.Facts) -> t.List[str]:
    return ["%(id)s-%(release)s" % row for row in facts["distributions"]["distributions"] if row.get("served")]
