# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a claim, which names versions and no packages, says about each package on a node.

A served stack has a plan with exact packages; here names (families.yml) and versions have to do.
"""
from __future__ import annotations

import re
import typing as t
from collections import Counter

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from .context import Context, Row, once_a_node

# Products whose packages have the product's own version.
VERSIONED = ("driver", "fabric", "container_toolkit", "dcgm", "nccl")
_DRIVER_VERSION = re.compile(r"(?:\d+:)?(\d{3}\.\d{2,3}(?:\.\d{1,2})?)(?![\d.])")
_SIDE_BY_SIDE = re.compile(r"(?:^|-)(?:lib)?nvidia-(tesla(?:-\d+)?|legacy-\d+xx)(?=-|$)")
_PLAIN_VERSION = re.compile(r"(?:\d+:)?(\d+(?:\.\d+)+)")
_BRANCH = re.compile(r"-(\d{3})(?:xx)?(?=-|$)")
_RELEASE = re.compile(r"-\d+\.\d+\.\d+-\d+.*")
# What comes from no distribution has a revision of NVIDIA's own: 580.126.09-1ubuntu1, 535.183.01-0ubuntu1, 535.183.01-1.
_VENDOR_REVISION = re.compile(r"-(?:1|[01]ubuntu1)$")


def judging(ctx: Context) -> bool:
    """Whether packages are judged by names and versions: looking at a node without a plan of exact packages."""
    return ctx.purpose == "audit" and not ctx.plan


def manager(ctx: Context) -> Row:
    """The state's part about the package manager."""
    return ctx.state.get("package_manager") or {}


def plain(name: str) -> str:
    """A package's name without its architecture."""
    return name.partition(":")[0]


def shown(name: str) -> str:
    """A package as people write it: without the node's own architecture, with a foreign one."""
    return name if name.endswith((":i386", ":armhf")) else plain(name)


def product(ctx: Context, name: str) -> t.Optional[str]:
    """The product that a package belongs to."""
    found: t.Optional[str] = ctx.family(name).get("product")
    return found


def kernel_meta(ctx: Context, name: str) -> bool:
    """Whether a package brings the next kernel; a package of one kernel has its version in the name."""
    return product(ctx, name) == "kernel" and bool(knowledge.kernel_metapackage(ctx.facts, plain(name)))


def one_version(ctx: Context, name: str) -> bool:
    """Whether a package has its product's own version."""
    return bool(ctx.family(name).get("one_version"))


def version_of(ctx: Context, name: str, version: t.Optional[str]) -> t.Optional[str]:
    """The product's version in a package's version: 1:535.183.01-0ubuntu1 -> 535.183.01; None where there is none in it."""
    pattern = _DRIVER_VERSION if product(ctx, name) in ("driver", "fabric") else _PLAIN_VERSION
    found = pattern.match(version or "")
    return found.group(1) if found else None


def branch_in(ctx: Context, name: str) -> t.Optional[str]:
    """The driver branch in a package's name: nvidia-dkms-535-server -> 535; a kernel's release behind it has numbers of its own."""
    found = _BRANCH.search(_RELEASE.sub("", plain(name))) if product(ctx, name) in ("driver", "fabric") else None
    return found.group(1) if found else None


def locked(ctx: Context, of: t.Optional[str]) -> t.Optional[str]:
    """The version that the claim has for a product; fabric manager and its kind follow the driver unless they are named."""
    stack = ctx.stack
    if of == "fabric":
        named = (stack.get("fabric") or {}).get("manager") or "auto"
        return named if named[0].isdigit() else (stack.get("driver") or {}).get("version")
    version = (stack.get(of) or {}).get("version") if of in VERSIONED else None
    # People copy a package's version; its epoch and its revision are not the product's.
    return re.sub(r"^\d+:|-\d[\w.+~]*$", "", version) if version else None


def fits(version: t.Optional[str], claimed: str) -> t.Optional[bool]:
    """Whether a version is the claimed one, at the claim's precision; None where a version is not known."""
    if not version:
        return None
    want = knowledge.numbers(claimed)
    return knowledge.numbers(version)[:len(want)] == want


def is_exact(of: str, version: str) -> bool:
    """Whether a claimed version names one release."""
    return bool(_DRIVER_VERSION.fullmatch(version)) if of in ("driver", "fabric") else version.count(".") >= 2


def packages(ctx: Context) -> t.Dict[str, Row]:
    """What is installed: the package list; without one the part of it that apt's history, its runs and its policy tell."""
    if ctx.packages_known:
        return ctx.packages
    table: t.Dict[str, Row] = {}
    for run in manager(ctx).get("history") or []:
        for row in (*(run.get("install") or []), *(run.get("upgrade") or []), *(run.get("downgrade") or [])):
            table[row["name"]] = dict(row, status="installed", by=run.get("by"))
        for row in run.get("remove") or []:
            table.pop(row["name"], None)
    for name, version in ((manager(ctx).get("run") or {}).get("current") or {}).items():
        table[name] = {"name": name, "version": version, "status": "installed"}
    for name, policy in (manager(ctx).get("policy") or {}).items():
        if policy["installed"]:
            table[name] = dict(table.get(name) or {}, name=name, version=policy["installed"], status="installed")
    return table


def members(ctx: Context, of: str, same_version: bool = True) -> t.Dict[str, Row]:
    """The installed packages of a product that count: none that only leads to another, with same_version none with its own."""
    aside = beside(ctx) if of == "driver" else {}
    return {name: row for name, row in packages(ctx).items()
            if product(ctx, name) == of and (one_version(ctx, name) or not same_version) and name not in aside
            and not leads_elsewhere(ctx, name, row.get("version"))}


@once_a_node
def beside(ctx: Context) -> t.Dict[str, Row]:
    """Debian's packages of another driver that may lie beside the claimed one; an alternative selects one of them.

    Debian has its drivers in sets that do not exclude each other: the plain one, nvidia-tesla-535, nvidia-legacy-390xx. Where
    one of several installed sets is all of the claimed version, the others are no part of it.
    """
    lock = locked(ctx, "driver")
    sets: t.Dict[str, t.Dict[str, Row]] = {}
    for name, row in packages(ctx).items():
        if product(ctx, name) == "driver" and one_version(ctx, name):
            named = _SIDE_BY_SIDE.search(plain(name))
            sets.setdefault(named.group(1) if named else "", {})[name] = row
    right = [key for key, rows in sets.items() if lock and all(fits(version_of(ctx, name, row.get("version")), lock) for name, row in rows.items())]
    if len(sets) < 2 or len(right) != 1:
        return {}
    return {name: row for key, rows in sets.items() if key not in right for name, row in rows.items()}


def leads_elsewhere(ctx: Context, name: str, version: t.Optional[str]) -> t.Optional[str]:
    """The branch (or the word "another package") that a transitional package leads to; None for a package with content.

    By what the package says of itself, by another branch in its version than in its name, by a row of renames.yml; and by
    the packages beside it, since two branches of a set exclude each other.
    """
    name, own = plain(name), branch_in(ctx, name)
    for row in (manager(ctx).get("show") or {}).get(name) or []:
        if row["version"] == version and row["transitional"]:
            other = next((branch_in(ctx, need) for need in row["depends"] if branch_in(ctx, need)), None)
            return other or "another package"
    has = knowledge.branch_of(version_of(ctx, name, version) or "")
    if not own or not has:
        return None
    if has != own:
        return has if knowledge.numbers(has) > knowledge.numbers(own) else None
    for row in ctx.facts["renames"]["transitional"]:
        if re.fullmatch(row["name"], name) and knowledge.numbers(version_of(ctx, name, version) or "") >= knowledge.numbers(row["from"]) \
                and ctx.os.get("id") in (None, "ubuntu") and not _VENDOR_REVISION.search(version or ""):
            return str(row["to"])
    return _beside_newer(ctx, name, own)


def _beside_newer(ctx: Context, name: str, own: str) -> t.Optional[str]:
    """The newer branch that has the same package installed, or about to be, where nothing else of this branch is."""
    # Fabric manager's package is the content itself.
    there = {plain(other) for other in packages(ctx)} | set(planned(ctx)) if product(ctx, name) == "driver" else set()
    branches = {other: branch_in(ctx, other) for other in there if branch_in(ctx, other)}
    same = [branch for other, branch in branches.items() if branch and other == name.replace("-" + own, "-" + branch, 1)]
    newer = [branch for branch in same if knowledge.numbers(branch) > knowledge.numbers(own)]
    content = [other for other, branch in branches.items() if branch == own and re.search(r"dkms|compute-\d|kernel-|libnvidia-(?!common)", other)]
    return max(newer, key=knowledge.numbers) if newer and not content else None


def other_branch(ctx: Context, name: str) -> bool:
    """Whether a package carries another branch in its name than the claim's."""
    branch, claimed = branch_in(ctx, name), locked(ctx, product(ctx, name))
    return bool(branch and claimed and branch != knowledge.branch_of(claimed))


def other_flavour(ctx: Context, row: Row) -> bool:
    """Whether a conflict is between the two flavours of one branch: nvidia-open-580 and cuda-drivers-580."""
    one, other = plain(str(row["package"])), plain(str(row["on"]))
    opens = ["open" in name.split("-") for name in (one, other)]
    modules = all(name.startswith("kmod-nvidia") for name in (one, other)) and all(name.endswith("-dkms") for name in (one, other))
    return branch_in(ctx, one) == branch_in(ctx, other) and product(ctx, one) == product(ctx, other) == "driver" and opens[0] != opens[1] and (
        branch_in(ctx, one) is not None or modules or {one, other} <= {"nvidia-open", "cuda-drivers", "nvidia-driver", "nvidia-driver-open"})


def other_module(ctx: Context, name: str) -> bool:
    """Whether a package brings the module in the flavour that the claim's driver does not have: kmod-nvidia-open-dkms for a V100."""
    flavour = ctx.driver.get("flavour") or "auto"
    return bool(re.fullmatch(r"(kmod-nvidia|nvidia-(kernel|dkms))-.*", name)) and flavour != "auto" and (
        bool(re.search(r"-open(-|$)", name)) != (flavour == "open")) and not re.search(r"-(common|support|source)(-|$)", name)


def other_maker(*names: str) -> bool:
    """Whether some of several RPM packages are RPM Fusion's and some NVIDIA's own: the names tell."""
    return len({bool(re.match(r"(xorg-x11-drv|akmod)-nvidia", name)) for name in names}) > 1


def excluding(ctx: Context) -> t.List[Row]:
    """Driver packages of which dnf, yum or rpm says that they exclude each other: {package, on}, on being the one that is installed."""
    found = []
    problems = manager(ctx).get("problems") or []
    there = {row.get("package") for row in problems if row.get("reason") == "installed_problem"} | set(ctx.packages)
    for row in problems:
        pair = [(row.get("package"), row.get("version")), ((row.get("other") or {}).get("name"), (row.get("other") or {}).get("version"))]
        if row.get("reason") != "conflicts" or not all(name and product(ctx, name) in ("driver", "fabric") for name, _version in pair):
            continue
        if other_maker(*(str(name) for name, _version in pair)):
            continue
        if row.get("repo") == "@System" or pair[0][0] in there and pair[1][0] not in there:
            pair.reverse()
        if pair[0][0] != pair[1][0]:
            found.append({"package": pair[0][0], "on": pair[1][0], "need": pair[0][1], "have": pair[1][1]})
    return [row for place, row in enumerate(found) if row not in found[:place]]


def counts_for_itself(ctx: Context, name: str, version: t.Optional[str]) -> bool:
    """Whether a tool's version says nothing about the driver's: only NVIDIA's own archives have one for each driver.

    Ubuntu's own nvidia-settings 510.47.03-0ubuntu1 has a revision like NVIDIA's; the driver beside it tells whose archive the node uses.
    """
    if one_version(ctx, name) or not name.startswith("nvidia-"):
        return not one_version(ctx, name)
    if not _VENDOR_REVISION.search(version or "") or ctx.os.get("id") == "debian" or not re.match(r"nvidia-(modprobe|settings|xconfig|persistenced)", name):
        return True
    around = [row.get("version") or "" for of in ("driver", "fabric") for row in members(ctx, of).values()]
    return bool(around) and not any(_VENDOR_REVISION.search(other) for other in around)


def offered(ctx: Context, name: str) -> t.Optional[t.List[str]]:
    """The versions that archives have of a package, the preferred first; None where nobody asked."""
    policy, madison = (manager(ctx).get("policy") or {}).get(name), (manager(ctx).get("madison") or {}).get(name)
    listed = (manager(ctx).get("available") or {}).get(name)
    if policy is None and madison is None and listed is None or policy is not None and not policy["table"] and not madison:
        return None
    rows = sorted((row for row in (policy or {}).get("table") or [] if row["origins"]), key=lambda row: -(row["priority"] or 0))
    found = [row["version"] for row in rows] + [row["version"] for row in madison or []] + list(listed or [])
    return list(dict.fromkeys(found))


def exact(ctx: Context, name: str, claimed: str) -> t.Optional[str]:
    """The package version that a claimed version means for a package; None where nothing tells.

    By what archives offer, what somebody asked for or what another package needs, the revision of its neighbours, else its own.
    """
    name, of = plain(name), product(ctx, name)
    run = manager(ctx).get("run") or {}
    asked = dict(run.get("asked") or {})
    needed = {row["on"]: row["need"] for row in run.get("unmet") or [] if row["relation"] == "="}
    for version in (*(offered(ctx, name) or []), needed.get(name), asked.get(name), (ctx.packages.get(name) or {}).get("version")):
        if version and "*" not in version and fits(version_of(ctx, name, version), claimed):
            return str(version)
    around = Counter(_revised(row.get("version")) for other, row in packages(ctx).items()
                     if product(ctx, other) == of and one_version(ctx, other) and fits(version_of(ctx, other, row.get("version")), claimed))
    # Metapackages count their own revisions.
    for other, version in (*asked.items(), *needed.items(), *((one, row.get("version")) for one, row in planned(ctx).items())):
        if product(ctx, other) == of and not around and not re.match(r"cuda-drivers", other) and fits(version_of(ctx, other, version), claimed):
            around[_revised(version)] += 1
    own = (packages(ctx).get(name) or planned(ctx).get(name) or {}).get("version")
    if of and is_exact(of, claimed):
        if around:
            epoch = re.match(r"\d+:", own or "")
            return (epoch.group() if epoch else "") + claimed + around.most_common(1)[0][0]
        have = version_of(ctx, name, own)
        return own.replace(have, claimed, 1) if own and have else None
    return None


def _revised(version: t.Optional[str]) -> str:
    """What follows the upstream version: 1.17.8-1 -> -1."""
    found = (_DRIVER_VERSION.match(version or "") or _PLAIN_VERSION.match(version or ""))
    return (version or "")[found.end():] if found else ""


def planned(ctx: Context) -> t.Dict[str, Row]:
    """{name: row} of what a recorded transaction would bring."""
    transaction = manager(ctx).get("transaction") or {}
    return {row["name"]: row for kind in ("install", "upgrade", "downgrade") for row in transaction.get(kind) or []}


def target(ctx: Context, name: str, claimed: str) -> str:
    """A package with its version, as package managers take it; with the claim's version where the package's is not known."""
    name = shown(name)
    version = exact(ctx, name, claimed)
    if version and manager(ctx).get("kind") == "dnf":
        return "%s-%s" % (name, version)
    return "%s%s%s" % (name, "-" if manager(ctx).get("kind") == "dnf" else "=", version or (claimed + ("" if claimed.count(".") else ".") + "*"))


def move(ctx: Context, name: str, have: t.Optional[str], claimed: str, **more: t.Any) -> Row:
    """The step that brings a package to the claimed version."""
    lower = have and knowledge.numbers(have) > knowledge.numbers(claimed)
    return step("downgrade_exact" if lower else "install_exact", target(ctx, name, claimed), **more)


def keep(ctx: Context, name: str) -> Row:
    """The step that keeps a package where it is."""
    return step("dnf_versionlock" if manager(ctx).get("kind") == "dnf" else "hold", shown(name))


def of_one_kernel(name: str) -> bool:
    """Whether a package has a driver's version and a kernel's in its name, so that each version is a package of its own."""
    return bool(re.match(r"kmod-nvidia-(open-)?\d", name))


def exclusions(ctx: Context) -> t.List[str]:
    """The patterns that dnf's configuration excludes."""
    return list((manager(ctx).get("config") or {}).get("exclude") or [])


def excluded(ctx: Context) -> t.List[str]:
    """Packages that a run of dnf left out because its configuration excludes them."""
    return sorted({str(row["package"]) for row in manager(ctx).get("problems") or [] if row.get("reason") == "exclude_filtering" and row.get("package")})


def pattern_of(names: t.Iterable[str]) -> str:
    """Several names by what they share, up to dashes: libnvidia-common-460, libnvidia-compute-460 -> libnvidia-*-460."""
    words = [plain(name).split("-") for name in sorted(set(names))]
    if len(words) < 2:
        return "-".join(words[0]) if words else ""
    shortest = min(map(len, words))
    head = next((place for place in range(shortest) if len({word[place] for word in words}) > 1), shortest)
    tail = next((place for place in range(shortest - head) if len({word[-1 - place] for word in words}) > 1), shortest - head)
    if not head and not tail:
        return ", ".join("-".join(word) for word in words)
    return "-".join([*words[0][:head], "*", *(words[0][len(words[0]) - tail:] if tail else [])])
