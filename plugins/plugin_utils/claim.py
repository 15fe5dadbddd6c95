# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Claims as people write them down, to the keys of a stack: a bundle's `given`, a row of somebody's release notes."""
from __future__ import annotations

import re
import typing as t

Row = t.Dict[str, t.Any]

# Short words for keys of a stack, beside the components themselves. docs/stacks.md lists them.
SHORT = {
    "flavour": ("driver", "flavour"), "flavor": ("driver", "flavour"), "kmod": ("driver", "module"),
    "driver_branch": ("driver", "version"), "module_stream": ("driver", "stream"), "stream": ("driver", "stream"),
    "origin": ("driver", "source"),
    "fabric_manager": ("fabric", "manager"), "fabricmanager": ("fabric", "manager"), "imex": ("fabric", "imex"), "nscq": ("fabric", "nscq"),
    "gdrdrv": ("modules", "gdrdrv"), "nvidia_fs": ("modules", "nvidia_fs"), "mft": ("modules", "mft"),
    "gpu_count": ("expect", "gpus"), "gpus": ("expect", "gpus"), "nvswitches": ("expect", "nvswitches"), "hcas": ("expect", "hcas"),
    "secure_boot": ("expect", "secure_boot"), "hold": ("expect", "hold"), "arch": ("os", "arch"),
}
COMPONENTS = ("os", "kernel", "driver", "cuda", "ofed", "nccl", "fabric", "container_toolkit", "dcgm", "modules", "expect")
ORIGINS = {"ubuntu": "distribution", "debian": "distribution", "distribution": "distribution", "nvidia": "nvidia", "cuda": "nvidia"}


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
    for key, value in words.items():
        if value is None:
            continue
        if key == "branch":
            _put(claim, "driver", "version", re.match(r"\d*", str(value)).group() or None)
        elif key == "doca":
            claim["ofed"] = dict(_mapping(claim.get("ofed"), "version"), provider="doca", doca=str(value))
        elif key in SHORT:
            component, field = SHORT[key]
            _put(claim, component, field, _value(key, value))
        elif key in COMPONENTS:
            known = claim.get(key)
            claim[key] = {**_mapping(value, _main(key)), **known} if known else value
        else:
            unread.append(str(key)[:80])
    return _shortened(claim), unread


def _main(component: str) -> str:
    return {"kernel": "release", "cuda": "versions", "fabric": "manager", "os": "name"}.get(component, "version")


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
