# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OFED: its version in the spellings of every tool, its kernel modules, and the peer memory interface of ib_core.

One release has one version and many spellings: MLNX_OFED_LINUX-5.4-3.1.0.0 (ofed_info of MLNX_OFED), OFED-internal-24.10-3.2.5
(of DOCA), 24.10.OFED.24.10.3.2.5.1 (DKMS, deb; the last number is the package's own), 5.4-OFED.5.4.3.1.0.1.rhel7u9 (rpm),
4.9 (old DKMS), 24.10-3.2.5 (modinfo).
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood

_RELEASE = r"(?P<release>\d{1,2}\.\d{1,2})"
_BUILD = r"(?P<build>\d+(?:\.\d+){1,5})"
_TOOL = re.compile(r"(?P<provider>MLNX_OFED_LINUX|MLNX_OFED|MLNX_EN|OFED-internal|DOCA-OFED|OFED)[-_ ]" + _RELEASE + "(?:-" + _BUILD + r")?(?:-\d+)?(?![\w.])")
_PACKAGE = re.compile(r"(?:(?P<before>\d{1,2}\.\d{1,2})[-.])?OFED\.(?P<numbers>\d+(?:\.\d+){2,7})(?P<rest>[-.+~].*)?")
_PLAIN = re.compile(_RELEASE + "(?:-" + _BUILD + r")?(?:-\d+)?")
_PROVIDERS = {"MLNX_OFED_LINUX": "mlnx", "MLNX_OFED": "mlnx", "MLNX_EN": "mlnx", "OFED-internal": "doca", "DOCA-OFED": "doca", "OFED": None}
# A package's build has a number of its own behind those three; ofed_info of MLNX_OFED has a fourth one that counts.
_SHARED = 3
RDMA_MODULES = ("mlx5_core", "mlx5_ib", "mlx4_core", "mlx4_ib", "ib_core", "ib_uverbs", "mlx_compat", "ib_ipoib", "rdma_cm")
_KERNEL = re.compile(r"(?:/usr)?/lib/modules/([^/]+)/(.*)")
_MODULE = re.compile(r"([\w-]+)\.ko(?:\.(?:xz|zst|gz|bz2))?")
_NOT_FOUND = re.compile(r"(?:modinfo|find|ls|grep|cat): .*|.*(?:Permission denied|No such file or directory)")
_SYMBOL = re.compile(r"(?:[0-9a-fA-F]+|\(null\)) +\S +(\S+?)(?:\s+\[(\w+)\])?\s*")
# A narrow terminal has its [FAILED] over the end of the line.
_FOREIGN = re.compile(r"Module (\w+) belongs? to (?:a )?kernel which is not a part of MLN")
_ABSENT = re.compile(r"Module (\w+) does not exist, skipping")
_DEPMOD = re.compile(r"depmod: WARNING: (?P<path>/\S{1,300}) (?P<kind>needs unknown symbol|disagrees about version of symbol) (?P<symbol>\w{1,200})")


def ofed_version(text):
    """{provider, release, build, package} of any spelling of an OFED version; None for a text that has none.

    provider: "mlnx", "doca", or None where the spelling does not tell. build: None where there is only a release. package:
    whether the build's last number is the package's own.
    """
    words = str(text).strip()[:300]
    found = _TOOL.match(words)
    if found:
        return _version(_PROVIDERS[found.group("provider")], found.group("release"), found.group("build"), False)
    found = _PACKAGE.fullmatch(words)
    if found:
        numbers = found.group("numbers").split(".")
        release = found.group("before") or ".".join(numbers[:2])
        if found.group("before") and ".".join(numbers[:2]) != release:
            return None
        return _version(None, release, ".".join(numbers[2:]), True)
    found = _PLAIN.fullmatch(words)
    return _version(None, found.group("release"), found.group("build"), False) if found else None


def _version(provider, release, build, package):
    return {"provider": provider, "release": release, "build": build, "package": package}


def agree(one, other):
    """Whether two OFED versions are the same at the precision that both have; None where one is unknown."""
    if not one or not other:
        return None
    if _numbers(one["release"]) != _numbers(other["release"]):
        return False
    if one["build"] is None or other["build"] is None:
        return True
    left, right = _numbers(one["build"]), _numbers(other["build"])
    length = min(len(left), len(right), _SHARED if one["package"] or other["package"] else 9)
    return left[:length] == right[:length]


def _numbers(text):
    return [int(part) for part in text.split(".")]


def parse_ofed_info(text):
    """`ofed_info -s`, `-n`, or the first lines of `ofed_info` to {kind, version, release, build}.

    kind: mlnx, doca, or None for `-n`, which prints the number alone. version: release and build as one text.
    """
    for number, line in enumerate(text.splitlines(), 1):
        words = line.strip().rstrip(":")
        if not words:
            continue
        found = ofed_version(words)
        if found is None or found["build"] is None:
            return Parsed(None, [not_understood(number, line)])
        return Parsed({"kind": found["provider"], "version": "%s-%s" % (found["release"], found["build"]), "release": found["release"],
                       "build": found["build"]}, [])
    return Parsed(None, ["ofed_info printed nothing"])


def module_kind(path):
    """Whose a module file is by its folder: "inbox", "ofed" (also DKMS's), or None elsewhere, with its kernel: (kernel, kind)."""
    found = _KERNEL.match(path or "")
    if not found:
        return None, None
    folder = found.group(2)
    kind = "inbox" if folder.startswith("kernel/") else "ofed" if folder.startswith(("updates/", "extra/", "weak-updates/")) else None
    return found.group(1), kind


def parse_modinfo_rdma(text):
    """`modinfo mlx5_core mlx5_ib ...` to [{module, path, kernel, version, intree, vermagic, depends, kind}].

    kind: "inbox" for the kernel's own module, "ofed" for one beside it, None where nothing tells. A module that modinfo does not
    find is a row whose path is None. Fields: modinfo(8); `intree: Y` is set by the kernel's own build (scripts/mod/modpost.c).
    """
    rows, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        missing = re.match(r"modinfo: ERROR: Module (\S+) not found", line)
        field, colon, content = line.partition(":")
        if missing:
            rows.append(_module_row(None, missing.group(1)))
        elif field == "filename" and colon:
            rows.append(_module_row(content.strip(), None))
        elif re.fullmatch(r"/\S+\.ko(?:\.\w+)?", line.strip()):
            # modinfo -n
            rows.append(_module_row(line.strip(), None))
        elif line[:1] in ("", " ", "\t") or not colon:
            if line.strip() and not line[0].isspace() and not _NOT_FOUND.fullmatch(line[:500]):
                problems.append(not_understood(number, line))
        elif rows and field in ("version", "vermagic", "depends") and rows[-1][field] is None:
            rows[-1][field] = content.strip()
        elif rows and field == "intree":
            rows[-1]["intree"] = content.strip() == "Y"
            rows[-1]["kind"] = "inbox" if rows[-1]["intree"] else rows[-1]["kind"]
        elif rows and field == "name":
            rows[-1]["module"] = rows[-1]["module"] or content.strip()
    return Parsed(rows, problems)


def is_peer_module(name):
    """Whether a module is the driver's peer memory module, by any of its names (Debian's are called nvidia-current-peermem)."""
    return bool(re.fullmatch(r"nvidia(_\w+)?_peermem", str(name)))


def _module_row(path, name):
    kernel, kind = module_kind(path)
    found = _MODULE.fullmatch((path or "").rsplit("/", 1)[-1])
    builtin = path == "(builtin)"
    return {"module": name or (found.group(1).replace("-", "_") if found else None), "path": path, "kernel": kernel, "version": None,
            "intree": True if builtin else None, "vermagic": None, "depends": None, "kind": "inbox" if builtin else kind}


def parse_module_files(text):
    """`find /lib/modules -name 'mlx5_ib.ko*'` to [{path, kernel, module, kind}]."""
    rows, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        path = line.strip().split(" -> ")[0]
        if not path or _NOT_FOUND.fullmatch(path[:500]):
            continue
        kernel, kind = module_kind(path)
        found = _MODULE.fullmatch(path.rsplit("/", 1)[-1])
        if kernel and found:
            rows.append({"path": path, "kernel": kernel, "module": found.group(1).replace("-", "_"), "kind": kind})
        elif not path.startswith("/"):
            problems.append(not_understood(number, line))
    return Parsed(rows, problems)


def parse_kallsyms(text):
    """`grep ib_register_peer_memory_client /proc/kallsyms` to {symbol: module}, module "kernel" for the kernel's own.

    Lines: address, type, name, [module] (kernel/kallsyms.c). Helpers that the linker adds (__kstrtab_...) count for their symbol.
    """
    value, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        found = _SYMBOL.fullmatch(line)
        if not found:
            problems.append(not_understood(number, line))
            continue
        name = re.sub(r"^__(?:kstrtab|ksymtab|crc|kstrtabns|kcrctab)_", "", found.group(1))
        value.setdefault(name, found.group(2) or "kernel")
    return Parsed(value, problems)


def parse_openibd(text):
    """What openibd says when it starts, to {passed_over, absent}: modules that are the kernel's own, and those that it does not find."""
    return Parsed({word: [found.group(1) for found in map(pattern.search, text.splitlines()) if found]
                   for word, pattern in (("passed_over", _FOREIGN), ("absent", _ABSENT))}, [])


def parse_depmod(text):
    """Warnings of depmod in any transcript, to [{kind, module, symbol, err, kernel, text}] in the form of the kernel log's events."""
    events = []
    for found in filter(None, (_DEPMOD.search(line[:1000]) for line in text.splitlines())):
        name = _MODULE.fullmatch(found.group("path").rsplit("/", 1)[-1])
        if name:
            missing = found.group("kind") == "needs unknown symbol"
            events.append({"kind": "unknown_symbol" if missing else "symbol_version", "module": name.group(1).replace("-", "_"),
                           "symbol": found.group("symbol"), "err": None, "kernel": module_kind(found.group("path"))[0], "text": found.group(0)[:200]})
    return Parsed(events, [])
