# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims as people write them down, to the keys of a stack: a bundle's `given`, a row of somebody's release notes."""
from __future__ import annotations

import itertools
import re
import typing as t

from . import claim_text, knowledge

Row = t.Dict[str, t.Any]
# (the component's keys, facts, remarks to add to) -> {component: keys}, perhaps of several components.
Reader = t.Callable[[Row, knowledge.Facts, t.List[str]], t.Dict[str, Row]]
LONGEST_REMARK = 300

# Short words for keys of a stack, beside the components themselves. docs/stacks.md lists them.
SHORT = {
    "flavour": ("driver", "flavour"), "flavor": ("driver", "flavour"), "kmod": ("driver", "module"),
    "driver_branch": ("driver", "version"), "module_stream": ("driver", "stream"), "stream": ("driver", "stream"),
    "origin": ("driver", "source"), "libraries": ("driver", "libraries"), "user_space": ("driver", "libraries"),
    "fabric_manager": ("fabric", "manager"), "fabricmanager": ("fabric", "manager"), "imex": ("fabric", "imex"), "nscq": ("fabric", "nscq"),
    "gdrdrv": ("modules", "gdrdrv"), "gdrcopy": ("modules", "gdrdrv"), "nvidia_fs": ("modules", "nvidia_fs"), "mft": ("modules", "mft"),
    "gpu_count": ("expect", "gpus"), "gpus": ("expect", "gpus"), "nvswitches": ("expect", "nvswitches"), "hcas": ("expect", "hcas"),
    "gpu": ("expect", "products"), "nic": ("expect", "nics"), "nics": ("expect", "nics"),
    "secure_boot": ("expect", "secure_boot"), "hold": ("expect", "hold"), "arch": ("os", "arch"),
    "os_version": ("os", "release"), "os_release": ("os", "release"),
    "gcc": ("compiler", "gcc"), "kernel_args": ("kernel", "cmdline"), "kernel_compiler": ("kernel", "compiler"),
    "nccl_conf": ("nccl", "conf"), "cuda_compat": ("cuda", "compat"), "headers": ("kernel", "headers"),
}
COMPONENTS = ("os", "kernel", "driver", "cuda", "ofed", "nccl", "fabric", "container_toolkit", "dcgm", "modules", "expect", "compiler", "glibc",
              "packages")
# What else a component is called; also with "_version" behind it.
CALLED = {"distribution": "os", "distro": "os", "nvidia_driver": "driver", "cuda_toolkit": "cuda", "nvidia_container_toolkit": "container_toolkit",
          "gpu_model": "gpu", "gpu_type": "gpu"}
ORIGINS = {"ubuntu": "distribution", "debian": "distribution", "distribution": "distribution", "nvidia": "nvidia", "cuda": "nvidia"}
# What rows of release notes say beside the versions; nothing is judged by it. docs/stacks.md lists them.
ASIDE = ("id", "date", "note", "notes", "comment", "url", "title", "completeness", "evidence", "uncertain", "kind", "stage", "why", "fix", "verdict",
         "cloud", "instance", "image", "network", "hpcx", "ucx", "mpi", "openmpi", "efa", "aws_ofi_nccl", "cudnn", "tensorrt", "framework", "pytorch", "python",
         "gpu_operator", "network_operator", "doca_host_url", "kubernetes", "k8s", "containerd", "docker", "slurm", "cpu", "memory")


def from_given(given: t.Any) -> t.Tuple[Row, t.List[str]]:
    """(claim, keys that nothing is known about) of a bundle's `given`: {os, running_kernel, lock: {...}}.

    The claim is what stack.expand(..., exact=False) reads. Never raises for what a stranger wrote.
    """
    words = given if isinstance(given, t.Mapping) else {}
    claim, unread = read(words.get("lock") if isinstance(words.get("lock"), t.Mapping) else {})
    system = words.get("os")
    if isinstance(system, (str, t.Mapping)) and system and "os" not in claim:
        claim["os"] = system
    return claim, unread


def read(words: t.Mapping[t.Any, t.Any]) -> t.Tuple[Row, t.List[str]]:
    """(claim, unread keys) of a flat mapping of short words, each optional."""
    claim: Row = {}
    unread: t.List[str] = []
    for given, value in words.items():
        if value is None:
            continue
        key = _called(given)
        if key == "branch":
            _put(claim, "driver", "version", re.match(r"\d*", str(value)).group() or None)
        elif key == "doca":
            claim["ofed"] = dict(_mapping(claim.get("ofed"), "version"), provider="doca", doca=str(value))
        elif isinstance(key, str) and key in SHORT:
            component, field = SHORT[key]
            if key == "gpus" and isinstance(value, (str, list, tuple)):
                field = "products"
            _put(claim, component, field, _value(key, value))
        elif isinstance(key, str) and key in COMPONENTS:
            known = claim.get(key)
            claim[key] = {**_mapping(value, _main(key)), **_mapping(known, _main(key))} if known else value
        else:
            unread.append(str(key)[:80])
    return _shortened(claim), unread


def _called(key: t.Any) -> t.Any:
    """The word of a claim that a key stands for; the key itself where there is none."""
    if not isinstance(key, str) or key in SHORT or key in COMPONENTS:
        return key
    plain = re.sub(r"_version$", "", key.lower().replace("-", "_"))
    plain = CALLED.get(plain, plain)
    return plain if plain in SHORT or plain in COMPONENTS else key


def _main(component: str) -> str:
    return {"kernel": "release", "cuda": "versions", "fabric": "manager", "os": "name", "compiler": "gcc",
            "packages": "names"}.get(component, "version")


def _mapping(value: t.Any, field: str) -> Row:
    return dict(value) if isinstance(value, t.Mapping) else {field: value} if value is not None else {}


def _put(claim: Row, component: str, field: str, value: t.Any) -> None:
    """Set one key of a component, which may be in its short form; what is said of it directly wins."""
    if value is not None:
        claim[component] = {field: value, **_mapping(claim.get(component), _main(component))}


def _value(key: str, value: t.Any) -> t.Any:
    if key == "origin":
        return ORIGINS.get(str(value).lower())
    if key == "kmod" and value not in ("dkms", "prebuilt", "precompiled"):
        return None
    if key == "secure_boot" and isinstance(value, str):
        return value.lower() in ("on", "enabled", "enforced", "yes", "true")
    if key == "kernel_args" and isinstance(value, str):
        return value.split()
    return value


def _shortened(claim: Row) -> Row:
    """The same with versions as packages write them cut to the product's: 535.183.01-0ubuntu1, 2.28.3-1+cuda13.0."""
    nccl = claim.get("nccl")
    text = nccl.get("version") if isinstance(nccl, dict) else nccl
    found = re.fullmatch(r"(\d[\d.]*)(?:-\d+)?(?:\+cuda(\d+\.\d+))?", str(text)) if text is not None else None
    if found:
        claim["nccl"] = {**_mapping(nccl, "version"), "version": found.group(1)}
        if found.group(2):
            claim["nccl"].setdefault("cuda", found.group(2))
    return claim


def normal(value: t.Mapping[str, t.Any], facts: knowledge.Facts) -> Row:
    """A claim with its short words in their components and its free text read; what is no word of a claim stays as it is.

    What a text says beside its versions becomes a remark. The normal form of a normal form is itself.
    """
    claim, unread = read({key: item for key, item in value.items() if key not in ASIDE})
    result: Row = {key: item for key, item in value.items() if key not in ASIDE and str(key)[:80] in unread}
    notes: t.List[str] = []
    for component, given in claim.items():
        reader = READERS.get(component)
        if reader is None or not given or not isinstance(given, (str, t.Mapping, list)) or isinstance(given, list) and component not in ("cuda", "packages"):
            result.setdefault(component, given)
            continue
        for name, fields in reader(_mapping(given, _main(component)), facts, notes).items():
            result[name] = {**_mapping(result.get(name), _main(name)), **fields}
    remarks = value.get("remarks") or []
    if notes and isinstance(remarks, (list, tuple)):
        result["remarks"] = [*remarks, *(note for note in notes if note not in remarks)]
    return result


def _text(fields: Row, key: str) -> t.Optional[str]:
    """Take a text out of a component; None, and nothing taken, where it is no line of text."""
    text = fields.get(key)
    if not isinstance(text, str) or not text.strip() or not text.isprintable() or len(text) > LONGEST_REMARK:
        return None
    return str(fields.pop(key)).strip()


def _note(notes: t.List[str], component: str, text: str, found: t.Any) -> None:
    """Keep a text that says more than what was found in it."""
    if not found or re.search(r"[(,;]|\s/\s|\S\s+\S+\s+\S", text):
        notes.append("%s: %s" % (component, text))


def _os(fields: Row, facts: knowledge.Facts, notes: t.List[str]) -> Row:
    text = _text(fields, "name")
    if text is not None:
        found = claim_text.system(text)
        _note(notes, "os", text, found)
        fields = {**found, **fields}
    fields = claim_text.system_fields(fields)
    return {"os": fields} if fields else {}


def _driver(fields: Row, facts: knowledge.Facts, notes: t.List[str]) -> Row:
    text = _text(fields, "version")
    result: Row = {}
    if text is not None:
        found = claim_text.driver(text)
        _note(notes, "driver", text, found)
        if found.pop("below", False):
            found.update(version=knowledge.newest_below(facts, found["version"]) or found["version"], older=True)
        if "packages" in found:
            result["packages"] = {"names": found.pop("packages")}
        fields = {**found, **fields}
    said = fields.get("flavour")
    if isinstance(said, str) and said not in ("open", "proprietary", "auto") and claim_text.flavour(said):
        fields["flavour"] = claim_text.flavour(_text(fields, "flavour") or said)
        _note(notes, "flavour", said, True)
    return {**result, "driver": fields} if fields else result


def _cuda(fields: Row, facts: knowledge.Facts, notes: t.List[str]) -> Row:
    if "version" in fields and "versions" not in fields:
        fields["versions"] = fields.pop("version")
    texts = fields.get("versions")
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, str) and text.strip() and text.isprintable() for text in texts):
        return {"cuda": fields}
    result: Row = {}
    versions: t.List[str] = []
    for text in (text.strip() for text in texts):
        found = claim_text.cuda(text) if len(text) <= LONGEST_REMARK else {"versions": [text]}
        _note(notes, "cuda", text, found)
        versions += [version for version in found.pop("versions", []) if version not in versions]
        if "packages" in found:
            result["packages"] = {"names": found.pop("packages")}
        fields = {**found, **fields}
    fields.pop("versions")
    if versions:
        fields["versions"] = versions
    active = claim_text.cuda(fields["active"]).get("versions") if isinstance(fields.get("active"), str) else None
    if active:
        fields["active"] = active[0]
    return {**result, "cuda": fields} if fields else result


def _kernel(fields: Row, facts: knowledge.Facts, notes: t.List[str]) -> Row:
    text = _text(fields, "release")
    result: Row = {}
    if text is not None:
        found = claim_text.kernel(text)
        _note(notes, "kernel", text, "release" in found)
        if found.pop("held", True) is False:
            result["expect"] = {"hold": False}
        fields = {**found, **fields}
    if isinstance(fields.get("cmdline"), str):
        fields["cmdline"] = fields["cmdline"].split()
    return {**result, "kernel": fields} if fields else result


def _ofed(fields: Row, facts: knowledge.Facts, notes: t.List[str]) -> Row:
    text = _text(fields, "version")
    if text is not None:
        # A bare number is a release of whichever product is named beside it.
        found = claim_text.ofed("doca " + text if fields.get("provider") == "doca" and re.match(r"\d", text) else text)
        _note(notes, "ofed", text, found)
        fields = {**found, **fields}
    said = fields.get("provider")
    if isinstance(said, str) and said not in ("inbox", "mlnx", "doca") and claim_text.ofed(said).get("provider"):
        fields["provider"] = claim_text.ofed(said)["provider"]
    told = _text(fields, "doca")
    if told is not None:
        found = claim_text.ofed("doca " + told)
        _note(notes, "doca", told, "doca" in found)
        fields = {**({"doca": found["doca"]} if "doca" in found else {}), **fields}
    return {"ofed": fields} if fields else {}


def _nccl(fields: Row, facts: knowledge.Facts, notes: t.List[str]) -> Row:
    text = fields.get("version")
    found = re.search(r"(?<![\d.])(\d+\.\d+(?:\.\d+)?)(?:\.x)?(?:-\d+)?(?:\+cuda(\d+\.\d+))?(?=$|[\s,;)])", text) if isinstance(text, str) else None
    if found:
        _note(notes, "nccl", text.strip(), True)
        fields = {**({"cuda": found.group(2)} if found.group(2) else {}), **fields, "version": found.group(1)}
    elif isinstance(text, str) and text.isprintable() and re.search(r"[a-z]{3}", text) and not re.search(r"\d", text):
        _note(notes, "nccl", str(fields.pop("version"))[:LONGEST_REMARK], False)
    conf = claim_text.settings(fields["conf"]) if isinstance(fields.get("conf"), str) else None
    if conf:
        fields["conf"] = conf
    return {"nccl": fields} if fields else {}


def _fabric(fields: Row, facts: knowledge.Facts, notes: t.List[str]) -> Row:
    result = {}
    for name, value in fields.items():
        version = claim_text.driver_version(value) if isinstance(value, str) else None
        if version or not isinstance(value, str) or value in ("auto", "none") or re.search(r"\d", value) or not value.isprintable():
            result[name] = version or value
        else:
            notes.append("%s: %s" % (name, value.strip()[:LONGEST_REMARK]))
    return {"fabric": result} if result else {}


def _loose(component: str) -> Reader:
    """A reader for products whose versions are only kept: what has none is a remark."""
    def read_loose(fields: Row, facts: knowledge.Facts, notes: t.List[str]) -> Row:
        result = {}
        for name, value in fields.items():
            version = claim_text.plain_version(value) if isinstance(value, str) else None
            if version or not isinstance(value, str) or value.strip().isdigit() or not value.strip() or not value.isprintable():
                result[name] = version or value
            if isinstance(value, str) and version != value.strip() and value.isprintable() and not value.strip().isdigit():
                notes.append("%s: %s" % (component, value.strip()[:LONGEST_REMARK]))
        return {component: result} if result else {}
    return read_loose


def _expect(fields: Row, facts: knowledge.Facts, notes: t.List[str]) -> Row:
    for name in ("products", "nics"):
        names = [fields[name]] if isinstance(fields.get(name), str) else fields.get(name)
        if isinstance(names, (list, tuple)) and all(isinstance(one, str) for one in names):
            fields[name] = [part for one in names for part in claim_text.gpus(one)]
    return {"expect": fields}


def _numbered(component: str) -> Reader:
    """A reader for compilers and libraries, of which the numbers count: "gcc-12", ">= 2.42"."""
    def read_numbered(fields: Row, facts: knowledge.Facts, notes: t.List[str]) -> Row:
        found = {name: re.search(r"\d+(?:\.\d+)*", value) if isinstance(value, str) else None for name, value in fields.items()}
        return {component: {name: found[name].group() if found[name] else value for name, value in fields.items()}}
    return read_numbered


def _packages(fields: Row, facts: knowledge.Facts, notes: t.List[str]) -> Row:
    names = fields.get("names")
    return {"packages": {**fields, "names": [names] if isinstance(names, str) else names}}


READERS: t.Dict[str, Reader] = {
    "os": _os, "driver": _driver, "cuda": _cuda, "kernel": _kernel, "ofed": _ofed, "nccl": _nccl, "fabric": _fabric, "expect": _expect,
    "container_toolkit": _loose("container_toolkit"), "dcgm": _loose("dcgm"), "modules": _loose("modules"),
    "compiler": _numbered("compiler"), "glibc": _numbered("glibc"), "packages": _packages,
}


def variants(stack: Row) -> t.List[Row]:
    """The claim once for each of its alternatives; a stack is its only variant."""
    choices = []
    for component, field in (("driver", "version"), ("kernel", "release")):
        part = stack.get(component) or {}
        if part.get("alternatives"):
            rest = {key: value for key, value in part.items() if key != "alternatives"}
            choices.append([{component: dict(rest, **{field: value})} for value in [part.get(field), *part["alternatives"]] if value])
    return [dict(stack, **{key: value for part in chosen for key, value in part.items()}) for chosen in itertools.product(*choices)]
