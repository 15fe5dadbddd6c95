# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about secure boot and signatures."""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import actions, dkms_modules, knowledge, signing

from .context import Context, Hit, Row

MOKUTIL = "https://github.com/lcp/mokutil"
# Where DKMS keeps its certificate when it was told of no other (its own default).
DEFAULT_CERTIFICATE = "/var/lib/dkms/mok.pub"


def _on(ctx: Context) -> bool:
    return not ctx.container and ctx.state.get("secure_boot") is True


def _keys(ctx: Context) -> Row:
    return ctx.state.get("signing") or {}


def _site_key(ctx: Context) -> t.Optional[bool]:
    return signing.site_key_enrolled(_keys(ctx), ctx.state.get("dkms_settings"))


def _certificate(ctx: Context) -> str:
    """The certificate that DKMS signs with, as far as something names it."""
    tested = [row["path"] for row in _keys(ctx).get("tests") or []]
    return (tested + [(ctx.state.get("dkms_settings") or {}).get("mok_certificate") or DEFAULT_CERTIFICATE])[0]


def _refused(ctx: Context, *reasons: str) -> t.List[Row]:
    """The driver's modules that modprobe could not load for one of the reasons."""
    rows = (ctx.state.get("modules") or {}).get("refused") or []
    return [row for row in rows if row["why"] in reasons and row["module"].startswith("nvidia")]


def _logged(ctx: Context, *kinds: str) -> t.List[Row]:
    """Events of the kernel's log that are about the driver's modules, or name none."""
    return [row for row in ctx.state.get("kernel_log") or [] if row["kind"] in kinds and str(row.get("module") or "nvidia").startswith("nvidia")]


def _enrol(ctx: Context) -> Row:
    if any(row["state"] == "pending" for row in _keys(ctx).get("tests") or []) or signing.lists(_keys(ctx).get("pending"), _signer(ctx)):
        return actions.step("manual", "confirm the pending key at the console on the next boot")
    return actions.step("manual", "mokutil --import %s, then confirm at the console on the next boot" % _certificate(ctx))


def _signer(ctx: Context) -> t.Optional[str]:
    """Who signed the driver's modules; None when they are not signed, or nobody knows."""
    return next((row["signer"] for row in signing.of_driver(_keys(ctx), ctx.kernel) if row["signer"]), None)


def mok_not_enrolled(ctx: Context) -> t.Iterator[Hit]:
    """The key that signed the driver's modules is one that the firmware trusts."""
    signer = _signer(ctx)
    refused = _refused(ctx, "key_rejected", "key_missing") + _logged(ctx, "key_rejected")
    tests = _keys(ctx).get("tests") or []
    untested = [row for row in tests if row["state"] in ("missing", "pending")]
    signed = [row for row in signing.of_driver(_keys(ctx), ctx.kernel) if row["signed"]]
    if not (_on(ctx) or refused) or _unsigned(ctx):
        return
    if any(row["state"] == "enrolled" for row in tests) and not refused or signing.is_vendors(signer) and not refused:
        return
    listed = signing.lists(_keys(ctx).get("enrolled"), signer)
    if not (untested and (signed or refused) or listed is False or refused and listed is None and (signer or not _keys(ctx).get("modules"))):
        return
    subject = untested[0]["path"] if untested else signer or _certificate(ctx)
    by = "is signed by %s" % signer if signer else "is not signed by a key that this machine trusts"
    state = " (the request is pending)" if any(row["state"] == "pending" for row in untested) else ""
    said = " The kernel says: %s." % refused[0]["text"].rstrip(".") if refused else ""
    yield Hit(subject, "Secure boot is on, and the driver's module %s; the key %s is not enrolled%s.%s" % (by, subject, state, said), MOKUTIL,
              do=(_enrol(ctx),))


def _unsigned(ctx: Context) -> t.List[Row]:
    """What shows that the driver's modules have no signature."""
    rows = signing.of_driver(_keys(ctx), ctx.kernel)
    return _logged(ctx, "unsigned_rejected") or [row for row in rows if row["signed"] is False] if not any(row["signed"] for row in rows) else []


def module_unsigned(ctx: Context) -> t.Iterator[Hit]:
    """Where secure boot is on, the driver's modules are signed."""
    shown = _unsigned(ctx)
    refused = _refused(ctx, "key_rejected", "key_missing", "not_permitted") + _logged(ctx, "unsigned_rejected")
    if not shown or not (_on(ctx) or refused):
        return
    row = shown[0]
    where = row.get("kernel") or ctx.kernel or (ctx.state.get("kernel") or {}).get("running")
    said = " The kernel says: %s." % refused[0]["text"].rstrip(".") if refused else ""
    remarks = _keys(ctx).get("remarks") or []
    said += " DKMS said: %s." % remarks[0].rstrip(".") if remarks else ""
    yield Hit("nvidia@%s" % where if where else "nvidia", "Secure boot is on, but the driver's module %s is not signed, so the kernel refuses it.%s" % (
        row.get("path") or "nvidia", said), MOKUTIL, "no_key" if _site_key(ctx) is False else "default", _sign(ctx, where))


def _sign(ctx: Context, kernel: t.Optional[str]) -> t.Tuple[Row, ...]:
    """The steps that sign: DKMS does it when it builds, once there is a key that the machine trusts."""
    enrol = (_enrol(ctx),) if _site_key(ctx) is not True else ()
    rows = [row for row in ctx.state.get("dkms") or [] if dkms_modules.is_driver(row["module"]) and row["kernel"] in (kernel, None)]
    if rows and kernel and not ctx.plan:
        return (*enrol, actions.step("dkms_build_install", "%(module)s/%(version)s" % rows[0], kernel=kernel, force=True))
    return enrol or (actions.step("manual", "sign the driver's modules with the enrolled key"),)


def unsigned_modules_on_secure_boot(ctx: Context) -> t.Iterator[Hit]:
    """Where secure boot is on, modules that would be built on the node can be signed with a key that is enrolled."""
    key = _site_key(ctx)
    # Without a node, what is said of it counts.
    if not (_on(ctx) or not ctx.state and ctx.secure_boot) or key is True:
        return
    for what, advice, source in _built_here(ctx):
        tail = "no site key enrolled" if key is False else "whether a site key is enrolled is not known"
        yield Hit("%s modules are built by DKMS, %s" % (what, tail), "Secure boot is on, and %s brings its modules as source only: "
                  "the kernel would refuse them after the installation (%s)." % (what, tail), source,
                  "default" if key is False else "unknown_key", (actions.step("fail_preflight", advice),) if key is False else ())


def _built_here(ctx: Context) -> t.Iterator[t.Tuple[str, str, t.Optional[str]]]:
    """(product, advice, source) of what the stack would build on this node and has not built yet."""
    version = (ctx.stack.get("ofed") or {}).get("doca")
    for row in ctx.facts["signing"]["source_only"]:
        if row["product"] == "doca" and version and knowledge.numbers(version)[:2] >= knowledge.numbers(row["from"])[:2]:
            yield "DOCA %s" % version, "enrol a key first, or lock a DOCA below %s" % ".".join(row["from"].split(".")[:2]), row["source"]
    driver = ctx.stack.get("driver") or {}
    there = signing.of_driver(_keys(ctx), ctx.kernel) or ctx.loaded_module
    registered = [row for row in ctx.state.get("dkms") or [] if dkms_modules.is_driver(row["module"])]
    if driver.get("version") and not there and (driver.get("module") == "dkms" or driver.get("module") is None and registered):
        yield "driver %s" % driver["version"], "enrol a key first, or lock a driver with signed modules (module: prebuilt)", None


RULES = (mok_not_enrolled, module_unsigned, unsigned_modules_on_secure_boot)
