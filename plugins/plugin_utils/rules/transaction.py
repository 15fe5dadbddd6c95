# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about what a package manager would do: facts_apt.section() says what a transaction holds, for apt and dnf alike."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from . import claimed
from .context import Context, Hit, Row, listed

COMING = ("install", "upgrade", "downgrade")
# A kernel's own package: Debian's and Ubuntu's have the release in the name, RPM systems in the version.
_DEB_KERNEL = re.compile(r"linux-(?:image|modules)-(?:unsigned-)?(\d+\.\d+\.\d+[\w.+-]*?)(?:-unsigned)?")
_RPM_KERNEL = re.compile(r"kernel(?:6\.\d+)?(?:-(?:core|default|uek|uek-core|rt|rt-core|64k|64k-core|modules|modules-core|lt|ml))?")
# Older kernel packages of one release, told once.
_ORDER = ("linux-image-", "kernel-core", "kernel-uek-core", "kernel-default", "kernel", "linux-modules-", "kernel-modules")


def plan_of(ctx: Context) -> Row:
    """The recorded transaction; empty where there is none."""
    return claimed.manager(ctx).get("transaction") or {}


def _rows(ctx: Context, *kinds: str) -> t.List[t.Tuple[str, Row]]:
    """(kind, row) of the parts of the transaction."""
    return [(kind, row) for kind in kinds for row in plan_of(ctx).get(kind) or []]


def _refuse(what: str) -> Row:
    return step("refuse_transaction", what)


def transaction_leaves_lock(ctx: Context) -> t.Iterator[Hit]:
    """What a package manager would do leads to the claim, or leaves what is there as claimed."""
    coming = claimed.planned(ctx)
    strays = [(kind, row) for kind, row in _rows(ctx, *COMING) if _strays(ctx, row)]
    gone = [row for _kind, row in _rows(ctx, "remove") if _lost(ctx, row, coming)]
    moves = _repair(ctx, strays)
    for kind, row in strays:
        lock = str(claimed.locked(ctx, claimed.product(ctx, row["name"])))
        version = claimed.version_of(ctx, row["name"], row["version"]) or row["version"]
        word = "install" if kind == "install" else "bring %s" % row["old"] if row["old"] else kind
        yield Hit("%s %s" % (row["name"], version or "of another branch"), "The transaction would %s %s%s%s; the claim has %s." % (
            word if word == "install" else kind, row["name"], " %s" % row["old"] if row["old"] else "",
            " to %s" % row["version"] if row["old"] and row["version"] else " %s" % row["version"] if row["version"] else "", lock),
            context=_weight(ctx, kind, row), do=moves)
    for row in gone:
        yield Hit("%s %s" % (row["name"], row["old"] or "removed"), "The transaction would remove %s%s, which the claim needs." % (
            row["name"], " %s" % row["old"] if row["old"] else ""), do=(_refuse("it removes %s" % row["name"]), claimed.keep(ctx, row["name"])))


def _strays(ctx: Context, row: Row) -> bool:
    """Whether a package would come at another version, or of another branch, than the claim's."""
    name, version = row["name"], row["version"]
    lock = claimed.locked(ctx, claimed.product(ctx, name))
    if not lock or claimed.counts_for_itself(ctx, name, version) or claimed.product(ctx, name) == "nccl" and version is None:
        return False
    found = claimed.version_of(ctx, name, version)
    # A transitional package has no content; what it brings is in the transaction, too.
    if found and claimed.leads_elsewhere(ctx, name, version) and claimed.branch_in(ctx, name) == knowledge.branch_of(lock):
        return False
    return claimed.fits(found, lock) is False if found else claimed.other_branch(ctx, name) and version is None


def _lost(ctx: Context, row: Row, coming: t.Mapping[str, Row]) -> bool:
    """Whether a package that is as claimed would go without a successor."""
    name, lock = row["name"], claimed.locked(ctx, claimed.product(ctx, row["name"]))
    have = claimed.version_of(ctx, name, row["old"] or (ctx.packages.get(name) or {}).get("version"))
    if not lock or name in coming or not claimed.one_version(ctx, name) or claimed.other_branch(ctx, name) or claimed.leads_elsewhere(ctx, name, row["old"]):
        return False
    return bool(claimed.fits(have, lock)) if have else claimed.branch_in(ctx, name) == knowledge.branch_of(lock)


def _weight(ctx: Context, kind: str, row: Row) -> str:
    """A node that is as claimed and would be moved only has to be kept there; what is still to come is refused."""
    of = claimed.product(ctx, row["name"]) or ""
    lock = claimed.locked(ctx, of) or ""
    have = row["old"] or (ctx.packages.get(row["name"]) or {}).get("version")
    # A list may lack the package; then the rest of its product says how the node stands.
    around = [have] if have else [other.get("version") for other in claimed.members(ctx, of).values()]
    right = [claimed.fits(claimed.version_of(ctx, row["name"], version), lock) for version in around]
    return "upgrade" if kind != "install" and right and all(right) else "default"


def _repair(ctx: Context, strays: t.Sequence[t.Tuple[str, Row]]) -> t.Tuple[Row, ...]:
    """Keep what is as claimed; for what is to come, name the whole set with versions, since a metapackage's pins nothing."""
    keep = [claimed.keep(ctx, row["name"]) for kind, row in strays if _weight(ctx, kind, row) == "upgrade"]
    wrong = [row["name"] for kind, row in strays if _weight(ctx, kind, row) != "upgrade"]
    if not wrong:
        return tuple(keep)
    products = {claimed.product(ctx, name) for name in wrong} | {"fabric"}
    every = [name for name in claimed.planned(ctx) if claimed.product(ctx, name) in products and claimed.locked(ctx, claimed.product(ctx, name))
             and not claimed.other_branch(ctx, name) and claimed.one_version(ctx, name)
             and not claimed.leads_elsewhere(ctx, name, claimed.planned(ctx)[name].get("version"))]
    whole = sorted(claimed.target(ctx, name, str(claimed.locked(ctx, claimed.product(ctx, name)))) for name in every)
    if not whole:
        return (_refuse("it brings %s" % listed(set(wrong))), *keep)
    return (step("install_exact", " ".join(whole)), *keep)


def release_of(row: Row) -> t.Optional[str]:
    """The kernel's release of a package of a transaction; None for other packages, and for metapackages."""
    found = _DEB_KERNEL.fullmatch(row["name"])
    if found:
        return found.group(1)
    if _RPM_KERNEL.fullmatch(row["name"]) and (row["version"] or row["old"]):
        version = str(row["version"] or row["old"]).rpartition(":")[2]
        return "%s.%s" % (version, row["arch"]) if row["arch"] in ("x86_64", "aarch64") else version
    return None


def _same_release(one: str, other: str) -> bool:
    """RPM's version has no architecture at its end where nobody recorded it."""
    return one == other or other.startswith(one + ".") and other[len(one) + 1:] in ("x86_64", "aarch64") or other == one + ".x86_64"


def _kernels(ctx: Context, *kinds: str) -> t.Dict[str, t.List[str]]:
    """{release: package names} of the kernels in parts of the transaction, the kernel's own package first."""
    table: t.Dict[str, t.List[str]] = {}
    for _kind, row in _rows(ctx, *kinds):
        release = release_of(row)
        if release:
            table.setdefault(release, []).append(row["name"])
    return {release: sorted(names, key=lambda name: next((place for place, stem in enumerate(_ORDER) if name.startswith(stem)), 99))
            for release, names in table.items()}


def transaction_installs_unlocked_kernel(ctx: Context) -> t.Iterator[Hit]:
    """No transaction brings a kernel that is not the claimed one."""
    lock = (ctx.stack.get("kernel") or {}).get("release")
    for release, names in sorted(_kernels(ctx, *COMING).items()) if lock and not ctx.container else ():
        if not _same_release(release, lock) and not _branch_fits(release, lock):
            shown = re.sub(r"\.(x86_64|aarch64)$", "", release) if names[0].startswith("kernel") else release
            yield Hit(shown, "The transaction would install kernel %s (%s); the claim has kernel %s." % (release, ", ".join(names), lock),
                      do=(_refuse("it installs kernel %s" % shown), *_keep_kernel(ctx, names)))


def _branch_fits(release: str, lock: str) -> bool:
    """A claim may name a series only: 6.8, or 6.8.0."""
    return bool(re.fullmatch(r"\d+(\.\d+){0,2}", lock)) and knowledge.numbers(release)[:len(knowledge.numbers(lock))] == knowledge.numbers(lock)


def _keep_kernel(ctx: Context, names: t.List[str]) -> t.List[Row]:
    """What keeps kernels from coming: on RPM systems a lock of all of them, with apt a hold of the metapackages."""
    if plan_of(ctx).get("tool") == "dnf" or claimed.manager(ctx).get("kind") == "dnf":
        return [step("dnf_versionlock", "kernel*")]
    known = {claimed.plain(name) for name in (*ctx.packages, *claimed.planned(ctx))}
    metas = sorted(name for name in known if claimed.kernel_meta(ctx, name))
    return [step("hold", name) for name in metas]


def transaction_removes_locked_kernel(ctx: Context) -> t.Iterator[Hit]:
    """No transaction takes the claimed kernel away."""
    lock = (ctx.stack.get("kernel") or {}).get("release")
    for release, names in sorted(_kernels(ctx, "remove").items()) if lock and not ctx.container else ():
        if _same_release(release, lock):
            yield Hit(lock, "The transaction would remove %s of the claimed kernel %s." % (", ".join(names), lock),
                      do=(_refuse("it removes kernel %s" % lock), *(claimed.keep(ctx, name) for name in names)))


RULES = (transaction_leaves_lock, transaction_installs_unlocked_kernel, transaction_removes_locked_kernel)
