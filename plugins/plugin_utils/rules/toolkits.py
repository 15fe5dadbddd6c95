# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the CUDA toolkits that a node has: which one programs get, and which there are beside the stack's."""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from .context import Context, Hit, Row

ACTIVE_LINK = "/usr/local/cuda"


def _same(one: t.Optional[str], other: t.Optional[str]) -> bool:
    """Whether two releases agree as far as both tell: 12.4 and 12.4.1."""
    left, right = knowledge.numbers(one or ""), knowledge.numbers(other or "")
    shared = min(len(left), len(right))
    return shared > 0 and left[:shared] == right[:shared]


def toolkits(ctx: Context) -> t.List[Row]:
    """The toolkits whose release is known."""
    return [row for row in (ctx.state.get("cuda") or {}).get("toolkits") or [] if row.get("release")]


def active_release(ctx: Context) -> t.Optional[str]:
    """The release of the toolkit that programs get."""
    return (ctx.state.get("cuda") or {}).get("active_release")


def active_cuda_differs(ctx: Context) -> t.Iterator[Hit]:
    """The toolkit that /usr/local/cuda leads to is the stack's; what nvidia-smi says of CUDA is the driver's limit, and no toolkit."""
    wanted, active = (ctx.stack.get("cuda") or {}).get("active"), active_release(ctx)
    # A stack of libraries alone has no compiler whose release could differ.
    if not wanted or not active or _same(wanted, active) or (ctx.stack.get("cuda") or {}).get("profile") in ("runtime", "libraries"):
        return
    folder = (ctx.state.get("cuda") or {}).get("active")
    where = folder if folder and not folder.startswith(ACTIVE_LINK) else ACTIVE_LINK
    there = next((row["path"] for row in toolkits(ctx) if _same(wanted, row["release"])), None)
    steps = [step("set_alternative", "cuda", path=there or "%s-%s" % (ACTIVE_LINK, wanted))]
    if there is None and (ctx.state.get("cuda") or {}).get("toolkits") is not None:
        steps.insert(0, step("install_exact", "cuda-toolkit-%s" % "-".join(wanted.split(".")[:2])))
    yield Hit("lock %s, %s is %s" % (wanted, where, active), "Programs get CUDA %s from %s; the stack's is %s%s." % (
        active, folder or where, wanted, ", which lies in %s" % there if there else ""), context="found", do=tuple(steps))


def extra_cuda_toolkit(ctx: Context) -> t.Iterator[Hit]:
    """No toolkit is there that the stack does not name."""
    wanted = (ctx.stack.get("cuda") or {}).get("versions") or []
    for row in toolkits(ctx) if wanted else ():
        if not any(_same(version, row["release"]) for version in wanted):
            yield Hit(str(row["release"]), "CUDA %s in %s is not of the stack, which names %s." % (row["release"], row["path"], ", ".join(wanted)))


RULES = (active_cuda_differs, extra_cuda_toolkit)
