# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about NVSwitch systems: fabric manager and the state of the fabric."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import actions, knowledge

from . import claimed
from . import fabric_facts as facts
from .context import Context, Hit, Row, listed, upstream

SERVICE = "nvidia-fabricmanager"
_GUIDE = "https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html"
_START = actions.step("start_service", SERVICE)


def _wanted(ctx: Context) -> t.Optional[str]:
    """The version that the stack has for fabric manager: its own, else the driver's."""
    return facts.exact((ctx.stack.get("driver") or {}).get("version")) or facts.exact((ctx.stack.get("fabric") or {}).get("manager"))


def _align(ctx: Context, manager: str, driver: str) -> t.Tuple[Row, ...]:
    """The steps that make fabric manager equal to the driver: the stack's, where it has one, which the driver's own rules bring."""
    wanted = _wanted(ctx)
    # Where the packages agree, only the module in memory is the old one, and the rules about the driver say so.
    if manager in (wanted, None if wanted else facts.driver_packages(ctx)):
        return (_START,)
    # Where no package is known, the program's own version tells which way it has to move.
    names = facts.manager_packages(ctx) or {facts.package_name(ctx, wanted or driver): manager}
    return (*(claimed.move(ctx, name, names[name], wanted or driver) for name in sorted(names)), _START)


def fabric_manager_version_differs(ctx: Context) -> t.Iterator[Hit]:
    """Fabric manager has exactly the driver's version; it refuses to start with any other, also of the same branch."""
    manager, driver, wanted = facts.manager_version(ctx), facts.driver_version(ctx), _wanted(ctx)
    contradictions = list(_claimed(ctx))
    if contradictions or facts.needed(ctx) is False:
        yield from contradictions
    elif manager and driver and manager != driver:
        yield Hit("%s / %s" % (manager, driver), "Fabric manager %s does not start with driver %s: the two must be exactly equal." % (manager, driver),
                  _GUIDE, do=_align(ctx, manager, driver))
    elif manager and wanted and manager != wanted:
        yield Hit("%s / %s" % (manager, wanted), "Fabric manager is %s, the stack's driver and fabric manager are %s: the two must be exactly equal." % (
            manager, wanted), _GUIDE, "installed", _align(ctx, manager, wanted))


def _claimed(ctx: Context) -> t.Iterator[Hit]:
    """A stack that names two versions which can be told apart cannot work, wherever it is installed."""
    driver = (ctx.stack.get("driver") or {}).get("version") or ""
    for part, name in (("manager", "fabric manager"), ("imex", "IMEX"), ("nscq", "NSCQ")):
        version = (ctx.stack.get("fabric") or {}).get(part) or "auto"
        have, need = knowledge.numbers(version), knowledge.numbers(driver)
        if have and need and have[:len(need)] != need[:len(have)]:
            yield Hit("%s / %s" % (version, driver), "The stack names %s %s beside driver %s: the two must be exactly equal." % (name, version, driver),
                      _GUIDE, "claim", (actions.step("fail_preflight", "%s %s beside driver %s" % (name, version, driver)),))


def fabric_manager_version_would_differ(ctx: Context) -> t.Iterator[Hit]:
    """No simulated transaction leaves fabric manager and driver at different versions."""
    after = _after(ctx)
    manager = facts.newest(upstream(version) or "" for name, version in after.items() if re.fullmatch(r"nvidia-fabric-?manager(-\d+)?", name))
    # A driver that no package brought stays as it is.
    driver = facts.driver_of(after) or (facts.driver_version(ctx) if after else None)
    if manager and driver and manager != driver:
        yield Hit("%s / %s" % (manager, driver), "The transaction would leave fabric manager %s beside driver %s: the two must be exactly equal." % (
            manager, driver), _GUIDE, do=(actions.step("refuse_transaction", "fabric manager %s / driver %s" % (manager, driver)),))
    # What a stack does not name is left alone, and the fabric of another driver with it.
    wanted = (ctx.stack.get("driver") or {}).get("version")
    there = {"fabric manager": facts.manager_version(ctx), **{
        name: upstream(row.get("version")) for name, row in sorted(ctx.packages.items()) if facts.COUPLED.fullmatch(name.partition(":")[0])}}
    staying = [(name, version) for name, version in there.items() if version and version != wanted]
    if ctx.purpose == "install" and wanted and not ctx.stack.get("fabric") and staying:
        name, version = staying[0]
        yield Hit("%s / %s" % (version, wanted), "The stack brings driver %s and names no fabric, so %s would stay: they must be exactly"
                  " equal. Name it: fabric: {manager: auto}." % (wanted, listed(["%s %s" % row for row in staying])), _GUIDE,
                  do=(actions.step("fail_preflight", "%s %s / driver %s" % (name, version, wanted)),))


def _after(ctx: Context) -> t.Dict[str, str]:
    """{package: version} of fabric manager and driver after the simulated transaction; empty without one that touches either."""
    changes = _simulated(ctx)
    if not any(_family(ctx, name) in ("driver", "fabric") for name in changes):
        return {}
    kept = {name.partition(":")[0]: row.get("version") for name, row in ctx.packages.items()}
    return {name: version for name, version in {**kept, **changes}.items() if version}


def _simulated(ctx: Context) -> t.Dict[str, t.Optional[str]]:
    """{package: version, None when it goes} of the transaction that apt or dnf announced."""
    transaction = (ctx.state.get("package_manager") or {}).get("transaction") or {}
    changes = {row["name"]: row.get("version") for kind in ("install", "upgrade", "downgrade") for row in transaction.get(kind) or []}
    return {**changes, **{row["name"]: None for row in transaction.get("remove") or [] if row["name"] not in changes}}


def _family(ctx: Context, name: str) -> t.Optional[str]:
    product: t.Optional[str] = ctx.family(name).get("product")
    return product


def fabric_manager_missing(ctx: Context) -> t.Iterator[Hit]:
    """A node with NVSwitches has a fabric manager."""
    absent = facts.unit(ctx).get("load") == "not-found" or (ctx.packages_known and not facts.manager_packages(ctx))
    present = facts.fabric(ctx).get("manager") or facts.log(ctx).get("reason") or facts.unit(ctx).get("active") == "active"
    driver = facts.driver_version(ctx) or facts.exact((ctx.stack.get("driver") or {}).get("version"))
    if ctx.container or not absent or present or not driver or not facts.needed(ctx):
        return
    row = facts.board(ctx) or {}
    switches = ctx.state.get("nvswitches") or facts.fabric(ctx).get("switches") or []
    seen = "%d NVSwitches" % len(switches) if switches else "%d GPUs on an NVSwitch baseboard" % facts.gpu_count(ctx)
    context = "reported" if not switches and row.get("certainty") == "reported" else "default"
    yield Hit("%s, driver %s" % (seen, driver), "The node has %s and no fabric manager: CUDA does not start with driver %s until one of exactly this version "
              "runs." % (seen, driver), row.get("source") or _GUIDE, context,
              (actions.step("install_exact", "%s=%s" % (facts.package_name(ctx, driver), driver)), _START))


def _tried(ctx: Context) -> bool:
    """Whether somebody tried to run a fabric manager here."""
    unit = facts.unit(ctx)
    return bool(facts.log(ctx).get("reason") or facts.manager_packages(ctx) or facts.fabric(ctx).get("manager")
                or unit.get("active") in ("active", "failed", "activating") or unit.get("enabled") == "enabled")


def _incomplete(ctx: Context) -> t.List[Row]:
    """The GPUs whose registration with the fabric has not come to a good end. What is not supported, or not said, is no failure."""
    shared = facts.fabric(ctx).get("mode") == 1 and not facts.guest(ctx)
    bad = []
    for row in facts.fabric(ctx).get("gpus") or []:
        waiting = row["state"] in ("In Progress", "Not Started") and not shared
        failed = row["state"] == "Completed" and row["status"] not in (None, "Success", "N/A")
        if waiting or failed or row["state"] == "Unknown Error":
            bad.append(row)
    return bad


def _on_host(ctx: Context) -> bool:
    """Whether the fabric of this virtual machine is run by its host: GPUs of an NVSwitch baseboard, and no switch among its devices."""
    row = facts.board(ctx)
    return bool(facts.guest(ctx) and facts.no_switch(ctx) and row and row["runs_on"] == "node")


def fabric_manager_not_needed(ctx: Context) -> t.Iterator[Hit]:
    """Without an NVSwitch there is nothing for a fabric manager to do, and its failure to start is right."""
    if ctx.container or not _tried(ctx) or _incomplete(ctx) or not facts.no_switch(ctx):
        return
    if facts.needed(ctx) is False or (_on_host(ctx) and not _wrong_side(ctx)):
        yield Hit("no NVSwitch", "This node has no NVSwitch, so fabric manager has nothing to do here; that it does not start is no fault.", _GUIDE,
                  do=(actions.step("stop_disable_service", SERVICE, only_if="asked to"),))


def _wrong_side(ctx: Context) -> bool:
    """Whether a fabric manager was tried where it cannot reach the switches, and the fabric is not known to be complete."""
    rows = facts.fabric(ctx).get("gpus") or []
    complete = rows and all(row["state"] == "Completed" and row["status"] == "Success" for row in rows)
    return _tried(ctx) and not complete and (_on_host(ctx) or bool(_incomplete(ctx)) and _on_tray(ctx))


def _on_tray(ctx: Context) -> bool:
    return (facts.board(ctx) or {}).get("runs_on") == "switch tray"


def fabric_manager_on_wrong_side(ctx: Context) -> t.Iterator[Hit]:
    """Fabric manager runs where the NVSwitches are: on the host of a virtual machine, or in the switch trays of a rack."""
    if ctx.container or not _wrong_side(ctx):
        return
    if _on_tray(ctx):
        yield Hit("no NVSwitch on this node, they are in switch trays", "The fabric of these GPUs is managed in the rack's switch trays; fabric manager "
                  "on the node cannot do it. The node needs IMEX only.", (facts.board(ctx) or {}).get("source"),
                  do=(actions.step("manual", "look at the fabric manager of the switch trays"),))
    else:
        yield Hit("no NVSwitch visible in the guest", "This virtual machine has GPUs of an NVSwitch baseboard and no NVSwitch: fabric manager belongs on the "
                  "host, which activates the partition of these GPUs.", _GUIDE,
                  do=(actions.step("manual", "activate the partition with fabric manager on the host"),))


def fabric_not_completed(ctx: Context) -> t.Iterator[Hit]:
    """Every GPU of an NVSwitch system has registered with the fabric, with success."""
    bad, rows = _incomplete(ctx), facts.fabric(ctx).get("gpus") or []
    if bad:
        words = listed({"GPU %d: %s%s" % (row["index"], row["state"], ", %s" % row["status"] if row["status"] not in (None, "N/A") else "") for row in bad})
        waiting = all(row["state"] != "Completed" for row in bad)
        yield Hit("%d of %d" % (len(bad), len(rows)), "%d of %d GPUs have not joined the NVLink fabric (%s), so CUDA or peer access between them does not "
                  "work." % (len(bad), len(rows), words), _GUIDE, do=_bring_up(ctx, waiting))
    elif _not_running(ctx):
        unit = facts.unit(ctx)
        word = unit.get("active") or facts.log(ctx).get("reason")
        yield Hit("%s is %s" % (SERVICE, word), "The node has NVSwitches, but fabric manager is %s, so the GPUs cannot join the NVLink fabric." % word,
                  _GUIDE, do=(_START,))
    elif _unsaid(ctx):
        yield Hit("%d of %d not told" % (len(rows), len(rows)), "These GPUs sit on an NVSwitch baseboard and do not report their fabric state to nvidia-smi; "
                  "only fabric manager's service can tell whether the fabric is up.", (facts.board(ctx) or {}).get("source"), "unsaid")
    for row in _known_failures(ctx):
        yield Hit("%s %s, %s-ofed, NVLink %d" % (row["os"], row["release"], row["ofed"], row["nvlink"]),
                  "On %s %s with %s-ofed the fabric of NVLink %d GPUs does not come up: %s." % (
                      row["os"], row["release"], row["ofed"], row["nvlink"], row["why"]), row["source"], "claim")


def _bring_up(ctx: Context, waiting: bool) -> t.Tuple[Row, ...]:
    if facts.guest(ctx) and facts.no_switch(ctx):
        return (actions.step("manual", "activate the partition with fabric manager on the host"),)
    if _on_tray(ctx):
        return (actions.step("manual", "look at the fabric manager of the switch trays"),)
    if waiting:
        return (_START,)
    return (actions.step("manual", "read fabric manager's log for the GPUs that registered without success"),)


def _not_running(ctx: Context) -> bool:
    """Whether fabric manager is known not to run where it has to, for another reason than its version."""
    reason = facts.log(ctx).get("reason")
    stopped = facts.unit(ctx).get("active") in ("inactive", "failed") or (not facts.unit(ctx).get("active") and reason in (
        "failed", "stopped", "no_devices", "nothing_to_do"))
    manager, driver = facts.manager_version(ctx), facts.driver_version(ctx)
    complete = any(row["state"] == "Completed" for row in facts.fabric(ctx).get("gpus") or [])
    absent = facts.unit(ctx).get("load") == "not-found"
    return bool(stopped and not complete and not absent and not ctx.container and facts.needed(ctx) and not (manager and driver and manager != driver)
                and reason != "version_differs")


def _unsaid(ctx: Context) -> bool:
    """Whether the fabric's state was asked for, no GPU of an NVSwitch baseboard told it, and nothing else does."""
    rows = facts.fabric(ctx).get("gpus") or []
    started = facts.log(ctx).get("reason") == "started" or facts.unit(ctx).get("active") == "active"
    return bool(rows and not started and not ctx.container and facts.needed(ctx) and all(row["state"] == "N/A" for row in rows))


def _known_failures(ctx: Context) -> t.List[Row]:
    ofed = ctx.stack.get("ofed") or {}
    named = next((int(found.group(1)) for found in (re.search(r"nvlink[ -]?(\d)", name.lower()) for name in ctx.gpu_names) if found), None)
    generation = (facts.board(ctx) or {}).get("nvlink") or named
    return [row for row in ctx.facts["fabric"]["known_failures"]
            if row["os"] == ctx.os.get("id") and row["ofed"] == ofed.get("provider") and row["nvlink"] == generation
            and str(ctx.os.get("release") or "").partition(".")[0] == row["release"]]


def revision_coupling(ctx: Context) -> t.Iterator[Hit]:
    """What follows the driver to the last digit does, and nobody builds one package's version from another's."""
    driver = facts.driver_version(ctx) or facts.manager_version(ctx)
    for name, row in sorted(ctx.packages.items()):
        version = upstream(row.get("version"))
        if driver and version and facts.COUPLED.fullmatch(name.partition(":")[0]) and version != driver:
            yield Hit("%s %s / %s" % (name, version, driver), "%s %s is installed beside driver %s: it must be exactly the driver's version." % (
                name, row["version"], driver), _GUIDE, do=(claimed.move(ctx, name, version, driver),))
    refused = facts.fabric(ctx).get("mismatch")
    if refused and refused["user"] != refused["kernel"]:
        yield Hit("NVSwitch library %(user)s / %(kernel)s" % refused, "The NVSwitch driver %(kernel)s refused a program of version %(user)s; libnvidia-nscq "
                  "and fabric manager must be exactly the driver's version." % refused, _GUIDE)
    for name, asked, there in _guessed_revisions(ctx):
        yield Hit("%s=%s, archive: %s" % (name, asked, there), "The archive has %s %s, not %s: the same version of the driver's packages and of fabric "
                  "manager's has different revisions, so one cannot be made from the other." % (name, there, asked), None,
                  do=(actions.step("install_exact", "%s=%s" % (name, there)),))


def _guessed_revisions(ctx: Context) -> t.List[t.Tuple[str, str, str]]:
    """(package, version that apt did not find, the archive's version of the same upstream version) of the driver's and fabric manager's packages."""
    manager = ctx.state.get("package_manager") or {}
    found = []
    for row in (manager.get("run") or {}).get("missing") or []:
        name, asked = row["name"].partition(":")[0], row.get("version") or ""
        rows = (((manager.get("policy") or {}).get(name) or {}).get("table") or []) + ((manager.get("madison") or {}).get(name) or [])
        archive = [one["version"] for one in rows]
        there = next((version for version in archive if upstream(version) == upstream(asked) and version != asked), None)
        if there and upstream(asked) and _family(ctx, name) in ("driver", "fabric"):
            found.append((name, asked, there))
    return found


RULES = (fabric_manager_version_differs, fabric_manager_version_would_differ, fabric_manager_missing, fabric_manager_not_needed,
         fabric_manager_on_wrong_side, fabric_not_completed, revision_coupling)
