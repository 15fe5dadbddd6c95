# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each run leaves on a node about itself: a receipt, and what several of them say about the way back.

Format: one JSON file a run, /var/lib/lockstep-gpu/receipts/<UTC>-<token>.json, the newest KEEP of them:
{schema, id, kind: site | rollback, status: open | done | failed | interrupted, opened, closed (UTC), who: {user, host, ansible}, stack, from: {name,
digest, mapping} or None, what the run leads to and what the node had; planned: {packages: {name: version}, removed: [name]}, before, after:
states of node_snapshot.py, changes: [{what, before, after}], kept: [name=version], not_kept: [{name, version, reason}], continues: id of the
interrupted or failed receipt before it or None, undoes: id or None, message}.
Packages are {name: version}; where versions lie side by side (kernels of EL) they are joined by a space, the newest first. Secrets are redacted.
"""
from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import time

from ansible_collections.lockstep.gpu.plugins.module_utils.acting import write_atomically

FOLDER = "/var/lib/lockstep-gpu/receipts"
SCHEMA, KEEP = 1, 20
REDACTED = "REDACTED"
_LOGIN = re.compile(r"(?P<head>[A-Za-z][\w+.-]*://)(?P<secret>[^/\s]+)@(?P<host>[^/@\s]+)")
_SETTING = re.compile(r"(?im)^(?P<head>[ \t]*(?:proxy_)?(?:username|password|passwd|token|secret)[ \t]*[=:][ \t]*)(?P<secret>\S.*?)[ \t]*$")
_ARGUMENT = re.compile(r"(?i)(?P<head>[?&](?:token|access_token|password|secret|api_?key|sig|signature)=)(?P<secret>[^\s&;,]+)")
_SECRET_KEY = re.compile(r"(?i)(.*_)?(password|passwd|token|secret|passphrase|api_?key|private_?key|credentials)")
_PRIVATE = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)", re.DOTALL)


class ReceiptError(Exception):
    """A receipt that is asked for is not there or cannot be written."""


# -- secrets -----------------------------------------------------------------------------------------


def redacted(value):
    """The same value with passwords, tokens and private keys replaced, wherever they stand in it."""
    if isinstance(value, dict):
        return {key: REDACTED if item and _SECRET_KEY.fullmatch(str(key)) and not isinstance(item, (dict, list)) else redacted(item)
                for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [redacted(item) for item in value]
    if not isinstance(value, str):
        return value
    text = _PRIVATE.sub(REDACTED, value)
    text = _LOGIN.sub(lambda found: found["head"] + REDACTED + "@" + found["host"], text)
    text = _SETTING.sub(lambda found: found["head"] + REDACTED, text)
    return _ARGUMENT.sub(lambda found: found["head"] + REDACTED, text)


def filled(text, now):
    """(text with the secrets that `now`, a text as it is on the node, has in the same places, [what it does not have]).

    A login goes by its address, a setting by its name and, where several have one, by their order.
    """
    missing = []
    logins = {(found["head"], found["host"]): found["secret"] for found in _LOGIN.finditer(now or "")}

    def login(found):
        if found["secret"] != REDACTED:
            return found.group()
        known = logins.get((found["head"], found["host"]))
        if known is None:
            missing.append("the login of %s%s" % (found["head"], found["host"]))
        return "%s%s@%s" % (found["head"], known or REDACTED, found["host"])

    def setting(found):
        if found["secret"] != REDACTED:
            return found.group()
        values = known.get(found["head"].strip().lower()) or []
        if not values:
            missing.append("what stood behind '%s'" % found["head"].strip())
            return found.group()
        return found["head"] + (values.pop(0) if len(values) > 1 else values[0])

    text, known = _LOGIN.sub(login, text or ""), {}
    for pattern in (_SETTING, _ARGUMENT):
        for found in pattern.finditer(now or ""):
            known.setdefault(found["head"].strip().lower(), []).append(found["secret"])
        text = pattern.sub(setting, text)
    return text, missing


# -- files -------------------------------------------------------------------------------------------


def now_utc():
    """The time as a receipt has it."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def stack_of(mapping):
    """{name, digest, mapping} of a stack; None without one. The digest is of what the stack says, without secrets."""
    if not mapping:
        return None
    clean = redacted(mapping)
    text = json.dumps(clean, sort_keys=True, default=str)
    return {"name": clean.get("name") if isinstance(clean, dict) else None, "digest": hashlib.sha256(text.encode("utf-8")).hexdigest(), "mapping": clean}


def load(folder=FOLDER):
    """Every receipt that can be read, the oldest first; what is torn or somebody else's is left out."""
    found = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        if not name.endswith(".json") or name.startswith("."):
            continue
        try:
            with open(os.path.join(folder, name), encoding="utf-8") as handle:
                row = json.load(handle)
        except (OSError, ValueError):
            continue
        if isinstance(row, dict) and row.get("schema") == SCHEMA and row.get("id") == name[:-len(".json")]:
            found.append(row)
    return sorted(found, key=lambda row: row["id"])


def save(receipt, folder=FOLDER):
    """Write a receipt as a whole, for root alone."""
    os.makedirs(folder, exist_ok=True)
    os.chmod(folder, 0o700)
    write_atomically(os.path.join(folder, receipt["id"] + ".json"), json.dumps(redacted(receipt), indent=1, sort_keys=True) + "\n", mode=0o600)


def drop(ident, folder=FOLDER):
    """A receipt that says nothing leaves."""
    try:
        os.unlink(os.path.join(folder, ident + ".json"))
    except FileNotFoundError:
        pass


def prune(folder=FOLDER, keep=KEEP):
    """Only the newest receipts stay; returns the ids that left."""
    gone = [row["id"] for row in load(folder)[:-keep]] if keep > 0 else []
    for ident in gone:
        drop(ident, folder)
    return gone


def still_open(known):
    """The newest receipt that is open, None without one."""
    return next((row for row in reversed(known) if row["status"] == "open"), None)


def opened(known, before, kind="site", undoes=None, stack=None, planned=None, who=None):
    """A new receipt. known: load(), with no open one in it (see interrupted()); before: the node's state."""
    last, continues = known[-1] if known else None, None
    # What a run left that did not get to its end is no state to go back to.
    if last and last["status"] in ("interrupted", "failed") and last["kind"] == kind:
        continues = last["id"]
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    ident = "%s-%s" % (stamp, secrets.token_hex(4))
    if last and ident <= last["id"]:
        # The clock went back, or the same second: the order of the names is the order of the runs.
        ident = "%s-%s" % (last["id"], secrets.token_hex(2))
    return {"schema": SCHEMA, "id": ident, "kind": kind, "status": "open", "opened": now_utc(), "closed": None, "who": who or {},
            "stack": stack, "from": stack_now(known), "planned": planned or {"packages": {}, "removed": []}, "before": before, "after": None,
            "changes": [], "kept": [], "not_kept": [], "continues": continues, "undoes": undoes, "message": None}


def stack_now(known):
    """The stack that the node has by its receipts; None where the last run did not get there."""
    last = known[-1] if known else None
    return last["stack"] if last and last["status"] == "done" else None


def closed(receipt, after, status, message=None):
    """The receipt with its end: what it is about, and what became of that. Without changes it has nothing to say."""
    scope = scope_of(receipt, after)
    before, after = within(receipt["before"], scope), within(after, scope)
    return dict(receipt, status=status, closed=now_utc(), message=message, before=before, after=after, changes=changes(before, after))


def scope_of(receipt, after):
    """Names of the packages that a receipt is about: what was planned, and what our pins name before or after."""
    names = {*receipt["planned"]["packages"], *receipt["planned"]["removed"], *receipt["before"]["pins"], *after["pins"]}
    return {name for name in names if name in receipt["before"]["packages"] or name in after["packages"]}


def within(state, names):
    """A state with the packages of these names only."""
    return dict(state, packages={name: version for name, version in state["packages"].items() if name in names},
                **{key: [name for name in state[key] if name in names] for key in ("holds", "auto")})


def changes(before, after):
    """[{what, before, after}] of two states; None for what is not there."""
    rows = []

    def compare(kind, old, new):
        for name in sorted({*old, *new}):
            if old.get(name) != new.get(name):
                rows.append({"what": "%s %s" % (kind, name), "before": old.get(name), "after": new.get(name)})

    compare("package", before["packages"], after["packages"])
    compare("hold", dict.fromkeys(before["holds"], True), dict.fromkeys(after["holds"], True))
    compare("file", before["files"], after["files"])
    compare("alternative", {name: "%(value)s (%(mode)s)" % row for name, row in before["alternatives"].items()},
            {name: "%(value)s (%(mode)s)" % row for name, row in after["alternatives"].items()})
    compare("stream", before["streams"], after["streams"])
    compare("dkms", {"%(module)s/%(version)s@%(kernel)s" % row: row["state"] for row in before["dkms"]},
            {"%(module)s/%(version)s@%(kernel)s" % row: row["state"] for row in after["dkms"]})
    for key in ("running", "default"):
        if before[key] != after[key]:
            rows.append({"what": "kernel " + key, "before": before[key], "after": after[key]})
    return rows


# -- the way back ------------------------------------------------------------------------------------


def chosen(known, ident=None):
    """The receipts to undo, the newest first, down to the one that is asked for. Raises ReceiptError.

    Without an id: the last one that changed something. A run that finishes what a killed or failed one began goes together with it, and a rollback that did
    not get to its end is taken up again, not undone.
    """
    changing = [row for row in known if row["changes"] or row["status"] in ("open", "interrupted")]
    if ident:
        last = next((row for row in known if row["id"] == ident), None)
        if last is None:
            raise ReceiptError("this node has no receipt %s; it has: %s" % (ident, ", ".join(row["id"] for row in known) or "none"))
    elif not changing:
        raise ReceiptError("this node has no receipt of a run that changed something")
    else:
        last = changing[-1]
        by_id = {row["id"]: row for row in known}
        if last["kind"] == "rollback" and last["status"] != "done" and last["undoes"] in by_id:
            last = by_id[last["undoes"]]
    position = known.index(last)
    while known[position].get("continues") and position and known[position - 1]["id"] == known[position]["continues"]:
        position -= 1
    return list(reversed(known[position:]))


def goal(undone):
    """The state that undoing these receipts (newest first) leads to: like `before`, for every package that any of them is about; None: absent."""
    packages = {}
    for row in undone:
        after = row["after"] or {"packages": {}}
        for name in {*row["before"]["packages"], *after["packages"], *row["planned"]["packages"], *row["planned"]["removed"]}:
            # An open receipt has the whole node's packages in it; what it is about is what it planned, and our pins.
            if row["after"] or name in row["planned"]["packages"] or name in row["planned"]["removed"] or name in row["before"]["pins"]:
                packages[name] = row["before"]["packages"].get(name)
    oldest = undone[-1]
    managed = {name for row in undone for state in (row["before"], row["after"] or {"pins": {}}) for name in state["pins"]}
    return dict(oldest["before"], packages=packages, stack=oldest["from"], managed=sorted(managed | set(oldest["before"]["pins"])))


def moved(last, now, managed):
    """[{name, expected, found}] of managed packages that are not as the last receipt left them. now: {name: version}.

    Where the run did not get to its end, both what it found and what it was about to bring are right.
    """
    rows, told = [], {name for state in (last["before"], last["after"] or last["before"]) for name in state["packages"]}
    # What the last run was not about, such as a toolkit that an earlier stack left, it cannot tell.
    for name in sorted(set(managed) & told.union(last["planned"]["packages"])):
        right = [(last["after"] or last["before"])["packages"].get(name)]
        if last["status"] != "done":
            right += [last["before"]["packages"].get(name), last["planned"]["packages"].get(name)]
            right += [None] if name in last["planned"]["removed"] else []
        have = now.get(name)
        if have not in right and not (have and any(one and set(have.split()) >= set(one.split()) for one in right)):
            rows.append({"name": name, "expected": right[0], "found": have})
    return rows


def needs(known):
    """[(name, version)] of the packages that the receipts lead back or forward to, what the newest needs first."""
    wanted = {}
    for row in reversed(known):
        for state, other in ((row["before"], row["after"] or {"packages": {}}), (row["after"] or {"packages": {}}, row["before"])):
            for name, versions in sorted(state["packages"].items()):
                if other["packages"].get(name) != versions:
                    wanted.update(dict.fromkeys((name, version) for version in versions.split()))
    return list(wanted)
