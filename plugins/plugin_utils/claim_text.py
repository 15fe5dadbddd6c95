# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What people write where a version belongs: "570 branch, open", "Ubuntu 22.04.5", "DOCA-Host 3.2.1-044413".

Each reader takes one text and returns the keys of a component that it found, perhaps none. A text that looks like a pattern
or a slip of the pen is returned as it is, so that the schema refuses it with the candidates. Pure, and never raises.
"""
from __future__ import annotations

import re
import typing as t

Row = t.Dict[str, t.Any]

# The words of distributions, to the ID of their os-release.
SYSTEMS = (
    (r"rhcos|(?:red\s?hat\s)?coreos|openshift", "rhcos"), (r"sle[-\s]?micro", "sle-micro"), (r"container[-\s]optimi[sz]ed os|cos(?=[-\s]?\d)", "cos"),
    (r"ubuntu", "ubuntu"), (r"debian", "debian"), (r"rocky", "rocky"), (r"alma", "almalinux"), (r"centos", "centos"), (r"fedora", "fedora"),
    (r"oracle\s?linux|ol(?=[\d\W]|$)", "ol"), (r"amazon|amzn|al\s?(?=2(?:023)?\b)", "amzn"), (r"azure\s?linux|azl(?=\d)", "azurelinux"),
    (r"mariner", "mariner"),
    (r"opensuse[-\s]?leap", "opensuse-leap"), (r"(?:opensuse[-\s]?)?tumbleweed", "opensuse-tumbleweed"),
    (r"sles|sle(?=[\d\s-])|suse linux enterprise", "sles"), (r"rhel|red\s?hat|enterprise linux|el(?=[\d\s-]+)", "rhel"),
    (r"(?:linux\s?)?mint(?=[\d\s]|$)", "linuxmint"), (r"pop!?[_\s-]?os|pop(?=[\s-]?\d)", "pop"), (r"arch(?:\s?linux)(?!\w)|arch$", "arch"),
    (r"alinux|ali(?:baba|yun)(?: cloud)? linux", "alinux"), (r"tencent\s?os", "tencentos"),
    *((name, name) for name in ("talos", "bottlerocket", "flatcar", "nixos", "openeuler", "kylin", "anolis", "photon", "manjaro", "endeavouros", "cachyos",
                                "gentoo", "kali", "deepin", "uos", "void")),
)
# DGX OS by its major release: the Ubuntu that it is made of (docs.nvidia.com/dgx/dgx-os-7-user-guide and its predecessors).
DGX_OS = {"4": "18.04", "5": "20.04", "6": "22.04", "7": "24.04"}
CODENAMES = {"focal": "20.04", "jammy": "22.04", "noble": "24.04", "bullseye": "11", "bookworm": "12", "trixie": "13"}
ARCHITECTURES = {"amd64": "x86_64", "x86-64": "x86_64", "arm64": "aarch64", "sbsa": "aarch64"}
GLOB = re.compile(r"[*?\[\]^~!|]")
DRIVER = r"\d{3}\.\d{2,3}(?:\.\d{2})?"
# What may stand behind a version without being a part of it.
END = r"(?=$|[\s;)=+/_:-]|,\s)"
# A release of Ubuntu, which people write beside its kernels; no kernel has such numbers.
_UBUNTU = re.compile(r"\d\d\.(?:04|10)(?:\.\d)?(?![\w.])")
_BELOW = re.compile(r"(?:^|\s)(?:<(?!=)|pre-|before\s|older than\s)")
_NOTHING = re.compile(r"\s*(?:any|none|null|n/a|-|latest)?\s*", re.IGNORECASE)
_META = re.compile(r"(?<![\w-])(cuda(?:-drivers|-toolkit)?)(?:\s+meta(?:[ -]?package)?s?\b|\s*$)")


def _parts(text: str) -> t.List[str]:
    """The alternatives of a text: "610.57.04 / 595.91.07 (default)"."""
    return [part for part in re.split(r"\s+/\s+|\s+or\s+", text.strip()) if part]


def _outside(text: str) -> str:
    """The text without what stands in parentheses."""
    return re.sub(r"\([^()]*\)", " ", text)


def driver_version(text: str) -> t.Optional[str]:
    """The first driver version in a text, else the first branch."""
    text = re.sub(r"\b[vVrR](?=\d{3})", "", text)
    for pattern in (r"(?<![\w.])%s%s" % (DRIVER, END), r"(?<![\w.])\d{3}(?=\.x\b|[a-z]?$|[\s;)=+/_:-]|,\s)"):
        for place in (_outside(text), text):
            found = re.search(pattern, place)
            if found:
                return found.group()
    return None


def flavour(text: str) -> t.Optional[str]:
    """The flavour of the kernel module that a text names."""
    words = re.findall(r"[a-z]+", _outside(text).lower())
    found = [word for word in words if word in ("open", "proprietary", "closed", "auto")]
    return {"closed": "proprietary"}.get(found[0], found[0]) if found else None


def driver(text: str) -> Row:
    """version, alternatives, flavour, below (older than that version), libraries ("other" than the module), packages asked for."""
    if re.fullmatch(r"\d{3}(\.\d+)*", text) or GLOB.search(text.replace("~deb", "").replace("!=", "")):
        return {"version": text}
    parts = [part for words in _parts(text) for part in re.split(r"/(?=\d{3}\.\d)|,\s*(?=\d{3}\.\d)", words)]
    found = list(dict.fromkeys(version for version in map(driver_version, parts) if version))
    result: Row = {}
    if found:
        result["version"] = found[0]
    if found[1:]:
        result["alternatives"] = found[1:]
    if found and _BELOW.search(text):
        result["below"] = True
    # A revision of the distribution's own archive, whose packages carry patches.
    if re.search(r"-\d+ubuntu0\.\d\d|~deb\d+u|\d-\d+\+b\d", text):
        result["source"] = "distribution"
    if flavour(text):
        result["flavour"] = flavour(text)
    module = _of_module(text)
    if module:
        others = [version for version in re.findall(r"(?<![\w.])%s%s" % (DRIVER, END), text) if version != module]
        result.update({"version": module, **({"libraries": others[0]} if others else {})})
        result.pop("alternatives", None)
    elif re.search(r"lib\w*\s*!=\s*module|module\s*!=\s*lib", text):
        result["libraries"] = "other"
    kind = re.search(r"(?<![a-z])(dkms|precompiled|prebuilt)(?![a-z])|linux-(?:modules|objects)-nvidia", text.lower())
    if kind:
        result["module"] = "dkms" if kind.group(1) == "dkms" else "prebuilt"
    if metapackages(text):
        result["packages"] = metapackages(text)
    return result or ({} if _wordy(text) else {"version": text})


def _of_module(text: str) -> t.Optional[str]:
    """The version of the module where a text tells it from the user space's: "libs 550.54.15 != module 535.161.08"."""
    found = (re.search(r"(?i)(?<![a-z-])(?:module|kmod|kernel)(?: version)?\W{1,3}(%s)" % DRIVER, text)
             or re.search(r"(?i)(%s) (?:kernel )?module\b" % DRIVER, text))
    other = re.search(r"(?i)(?<![a-z-])(?:libs?|libraries|library|user[- ]?space|nvml|libcuda)\b", text)
    return found.group(1) if found and other else None


def metapackages(text: str) -> t.List[str]:
    """The metapackages without a version that a text asks for."""
    return sorted(set(_META.findall(text)))


def _wordy(text: str) -> bool:
    """Whether a text is prose or says nothing, not a version with a slip in it."""
    return bool(_NOTHING.fullmatch(text)) or not re.search(r"\d", text) or bool(re.search(r"[a-z]{3,}", text, re.IGNORECASE))


def cuda(text: str) -> Row:
    """versions (both ends of a range, every alternative), compat, packages asked for."""
    if re.fullmatch(r"\d+(\.\d+)*", text) or GLOB.search(text):
        return {"versions": [_release(text)]}
    result: Row = {"compat": True} if re.search(r"\bcompat", text) else {}
    plain = _outside(text) if re.search(r"\d", _outside(text)) else text
    versions = re.findall(r"(?:cuda-(?:toolkit-)?|^)(\d{1,2}-\d{1,2})\b(?![.\d])|\bcu(\d{2}\d)\b", plain)
    versions = [dashed.replace("-", ".") or short[:2] + "." + short[2:] for dashed, short in versions] or re.findall(
        r"(?<![\w.])(\d{1,2}\.\d{1,2}(?:\.\d{1,3})?)(?![\w.]*\w)|(?<![\w.-])(\d{1,2})(?:\.x)(?!\w)", plain)
    found = [_release("".join(version)) for version in versions]
    choice = len(_parts(plain)) > 1 or re.search(r"\d\s*(?:-|\.\.+|to|,)\s*\d{1,2}\.\d", plain)
    if found:
        result["versions"] = list(dict.fromkeys(found)) if choice else found[:1]
    if metapackages(text) and not found:
        result["packages"] = metapackages(text)
    return result or ({} if _wordy(text) else {"versions": [text]})


def _release(version: str) -> str:
    """13.2.78 is a component's version (of 13.2): a toolkit's third number stays small."""
    parts = version.split(".")
    return ".".join(parts[:2]) if len(parts) == 3 and len(parts[2]) > 1 else version


def kernel(text: str) -> Row:
    """release, alternatives, compiler that built it, headers, kaslr, hwe, mainline, held, meta (a package that names no release)."""
    result: Row = {}
    if re.search(r"without (?:\S+ )?(?:kernel-devel|\S*headers)|no (?:kernel )?(?:headers|kernel-devel)", text):
        result["headers"] = False
    built = re.search(r"gcc[- ]?(\d+(?:\.\d+)*)[- ]built|built (?:with|by) gcc[- ]?(\d+(?:\.\d+)*)", text)
    if built:
        result["compiler"] = "gcc " + (built.group(1) or built.group(2))
    # The release notes of CUDA 13.2 name them so: certain Linux kernels with KASLR enabled.
    if re.search(r"\bkaslr\b|certain (?:linux )?kernels", text, re.IGNORECASE) and "nokaslr" not in text:
        result["kaslr"] = True
    if re.search(r"\bhwe\b", text, re.IGNORECASE):
        result["hwe"] = True
    if re.search(r"\b(?:mainline|vanilla|kernel\.org)\b", text, re.IGNORECASE):
        result["mainline"] = True
    if re.search(r"\b(?:unheld|not held)\b", text):
        result["held"] = False
    releases = [release for release in (_kernel_release(part) for part in _parts(text)) if release]
    meta = re.match(r"(?:linux|kernel)-[a-z][\w.-]*", text)
    if releases:
        result["release"] = releases[0]
        if releases[1:]:
            result["alternatives"] = releases[1:]
    elif meta:
        result["meta"] = meta.group()
    return result or ({} if _wordy(text) or _UBUNTU.match(text) else {"release": text})


def _kernel_release(text: str) -> t.Optional[str]:
    """A release in a text that begins with one, or with the package that carries it."""
    if GLOB.search(text.replace("~", "")):
        return text
    plain = re.sub(r"^\s*(?:any\s+)?(?:kernel\s+)?(?:[<>]=?|==?|v|pre-)?\s*", "", text.strip())
    plain = re.sub(r"\.x\b|~\S*", "", plain)
    plain = re.sub(r"^(?:linux-(?:image|headers|modules)-(?:unsigned-)?|kernel-(?:core-|devel-)?|vmlinuz-)(?=\d)", "", plain)
    found = re.match(r"(\d{1,2}\.\d{1,3}(?:\.\d{1,3})?(?:[-+_][\w.+~-]*\w)?)\+?(?=$|[\s,;)/])", plain)
    return found.group(1) if found and not _UBUNTU.match(plain) else None


def system(text: str) -> Row:
    """id and release; only the id where several releases are named, nothing where several distributions are."""
    inside = " ".join(re.findall(r"\(([^()]*)\)", text))
    for place in (inside if re.match(r"\s*dgx", text, re.IGNORECASE) else "", _outside(text)):
        found = _system(place.lower())
        if found:
            return found
    dgx = re.match(r"\s*dgx[-_ ]?(?:os)?[-_ v]*(\d)\b", text.lower())
    if dgx and dgx.group(1) in DGX_OS:
        return {"id": "ubuntu", "release": DGX_OS[dgx.group(1)]}
    plain = re.fullmatch(r"([a-z]+)[-_ ]?(\d[\d.]*)", text.strip().lower())
    return {"id": plain.group(1), "release": plain.group(2)} if plain else {}


def system_fields(fields: t.Mapping[str, t.Any]) -> Row:
    """A mapping of id and release with the ID of os-release; a release that is none ("8/9") is left out."""
    fields = dict(fields)
    if isinstance(fields.get("arch"), str):
        fields["arch"] = ARCHITECTURES.get(fields["arch"].lower(), fields["arch"])
    if not isinstance(fields.get("id"), str) or not isinstance(fields.get("release", ""), str):
        return fields
    found = system("%s %s" % (fields["id"], fields.get("release", "")))
    return {**{key: value for key, value in fields.items() if key != "release" or not found}, **found}


def _system(text: str) -> Row:
    ids = [name for pattern, name in SYSTEMS if re.search(r"(?<![a-z])(?:%s)" % pattern, text)]
    # "el9" is said of Red Hat's relatives too.
    ids = [name for name in ids if name != "rhel"] if len(ids) == 2 and "/" not in text else ids
    named = [release for word, release in CODENAMES.items() if re.search(r"\b%s\b" % word, text)]
    if len(ids) != 1:
        return {}
    plain = re.sub(r"x86_64|aarch64|arm64|amd64", " ", text)
    pack = re.search(r"(\d+)[-\s]*sp(\d+)", plain)
    releases = [".".join(pack.groups())] if pack else re.findall(r"\d+(?:\.\d+)*", plain) or named
    if len(releases) != 1:
        return {"id": ids[0]}
    release = _point(ids[0], releases[0])
    # What is said of one medium only is looked up by its point release.
    return {"id": ids[0], "release": release, **({"point": releases[0]} if releases[0].startswith(release + ".") else {})}


def _point(name: str, release: str) -> str:
    """22.04.5 is a medium of 22.04; Enterprise Linux's minor releases are told apart. Also without a dot: ubuntu2204, rhel810."""
    if name == "ubuntu":
        release = release[:2] + "." + release[2:] if re.fullmatch(r"\d{4}", release) else release
        return ".".join(release.split(".")[:2])
    return release[0] + "." + release[1:] if name in ("rhel", "rocky", "almalinux", "ol", "centos") and re.fullmatch(r"[7-9]\d{1,2}", release) else release


def ofed(text: str) -> Row:
    """provider, version (MLNX_OFED and inbox) or doca."""
    words = text.lower()
    provider = "doca" if "doca" in words else "mlnx" if re.search(r"mlnx|mofed|mellanox", words) else "inbox" if re.search(
        r"inbox|rdma-core", words) else None
    # A month is no version.
    plain = re.sub(r"\(?\b20\d\d-\d\d\b\)?", " ", _outside(text) if re.search(r"\d", _outside(text)) else text)
    if provider == "inbox":
        plain = " ".join(re.findall(r"rdma-core[-\s=]*v?\d[\d.]*", plain))
    if not provider and GLOB.search(text):
        return {"version": text}
    found = re.search(r"(?<![\w.])(\d+\.\d+(?:\.\d+)*)(-\d[\d.]*\d)?(?:\.x)?(?![\w.]*\w)|(?<![\w.])(\d+\.\d+)(?=\.x)", plain)
    result: Row = {"provider": provider} if provider else {}
    # DOCA-OFED has the numbers of the year, as MLNX_OFED had: 24.10.
    if found and provider == "doca" and len(found.group().split(".", maxsplit=1)[0]) == 1:
        result["doca"] = found.group(1) or found.group(3)
    elif found:
        result["version"] = (found.group(1) or found.group(3)) + (found.group(2) or "")
    return result or ({} if _wordy(text) else {"version": text})


def settings(text: str) -> t.Optional[t.Dict[str, str]]:
    """Lines of NAME=value, as NCCL's file and `env` have them; None where a line is something else."""
    lines = [line.strip() for line in text.replace(",", "\n").splitlines() if line.strip() and not line.strip().startswith("#")]
    pairs = [re.fullmatch(r"(?:export\s+)?([A-Z][A-Z0-9_]*)=(.*)", line) for line in lines]
    return {pair.group(1): pair.group(2) for pair in pairs if pair} if lines and all(pairs) else None


def plain_version(text: str) -> t.Optional[str]:
    """The first version in a text about another product: "1:4.4.2-1", "datacenter-gpu-manager 4.4.2"."""
    found = re.search(r"(?<![\w.])(?:\d+:)?\d+\.\d+(?:\.\d+)*(?:[-+][\w.+]+)?(?=$|[\s,;)])", text)
    return found.group() if found else None


def gpus(text: str) -> t.List[str]:
    """The products of a text, each by itself; a PCI id says more than the words around it."""
    ids = re.findall(r"\b[0-9a-f]{4}:[0-9a-f]{4}\b", text.lower())
    if ids:
        return ids
    parts = [part.strip() for part in re.split(r"\s+/\s+|(?<=\d)/(?=[A-Za-z])|,\s+|\s+and\s+|\s+or\s+|;\s*", text) if part.strip()]
    models = [re.search(r"(?<![a-z0-9])(?!\d+gi?b)(?=[a-z0-9-]*\d)[a-z0-9-]+", part.lower()) for part in parts]
    return parts if len(parts) > 1 and all(models) else [text.strip()]
