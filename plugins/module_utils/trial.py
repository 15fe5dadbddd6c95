# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The record of a kernel on trial, what the node left beside it, and what became of the trial.

A trial boots one kernel once, through a menu entry of its own whose command line carries a token. The record is written before the boot loader
is told, so that a node that comes back by itself can say what it came back from:
/var/lib/lockstep-gpu/trial.json      the record, see new()
/var/lib/lockstep-gpu/trial.reached   the token, once user space ran (written by the units of trial_units.py)
/var/lib/lockstep-gpu/trial.expired   the token, then the network's state, when nobody confirmed the kernel in time
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import tempfile
import time
from collections import namedtuple

SCHEMA = 1
FOLDER = "var/lib/lockstep-gpu"
RECORD, REACHED, EXPIRED = "trial.json", "trial.reached", "trial.expired"
# The id of the trial's menu entry.
ENTRY = "lockstep-gpu-trial"
# The word of the kernel command line that carries the token.
WORD = "lockstep.gpu.trial"
_TOKEN = re.compile(r"[0-9a-f]{16}")
_MOST_WORDS = 2000      # characters of what the network said that a reason repeats

# What judge() says beside "failed" and None; a record itself is pending or failed.
PENDING, RUNNING, FAILED, NOT_BOOTED = "pending", "running", "failed", "not_booted"

NEVER_UP = "did not reach user space: it panicked, hung, or the power was cut"
RESET = "reached user space and was reset before it was confirmed"
NOT_TAKEN = "the boot loader did not take the one-time entry (kexec, or an entry that somebody chose by hand), which is still set"
NOT_ARMED = "the run that prepared it was cut short before the boot loader was told"

# record: of this module or None. running: uname -r. boot_id: of the kernel. cmdline: /proc/cmdline's words.
# reached, expired: the texts of those files, None without one.
Seen = namedtuple("Seen", ["record", "running", "boot_id", "cmdline", "reached", "expired"])


def is_entry(ident):
    """Whether an id of a menu entry is that of a trial, of any boot loader."""
    return (ident or "").lstrip("~").rpartition(">")[2] in (ENTRY, ENTRY + ".conf")


def new(kernel, origin, digest, boot_id, confirm_within, attempts):
    """The record of a trial that is about to be prepared.

    {schema: 1, token, kernel, from, attempts (boots of it that failed so far), digest, armed_at (UTC), boot_id, confirm_within (s, 0: no limit),
    armed (whether the boot loader was told), outcome: pending or failed, reason}
    """
    return {"schema": SCHEMA, "token": secrets.token_hex(8), "kernel": kernel, "from": origin, "attempts": attempts, "digest": digest,
            "armed_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "boot_id": boot_id, "confirm_within": confirm_within,
            "armed": False, "outcome": PENDING, "reason": None}


def parse(text):
    """A record from its text; None for anything else, so that a damaged file counts as none."""
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    fits = isinstance(record, dict) and record.get("schema") == SCHEMA and record.get("outcome") in (PENDING, FAILED) \
        and all(isinstance(record.get(key), str) for key in ("token", "kernel", "digest", "boot_id")) \
        and all(isinstance(record.get(key), int) for key in ("attempts", "confirm_within"))
    return record if fits and _TOKEN.fullmatch(record["token"]) else None


def dumps(record):
    """The text of a record."""
    return json.dumps(record, indent=1, sort_keys=True) + "\n"


def digest(paths):
    """sha256 over the sha256 of each file: of the image and the initramfs that a trial boots. Raises OSError."""
    whole = hashlib.sha256()
    for path in paths:
        part = hashlib.sha256()
        with open(path, "rb") as handle:
            for chunk in iter(lambda: handle.read(1 << 20), b""):
                part.update(chunk)
        whole.update(part.hexdigest().encode() + b"\n")
    return whole.hexdigest()


def _first(text):
    return (text or "").partition("\n")[0].strip()


def network(text):
    """What trial.expired says of the network, on one line; "nothing" where it says nothing."""
    lines = [" ".join(line.split()) for line in text.splitlines()[1:] if line.strip()]
    return "; ".join(lines)[:_MOST_WORDS] or "nothing"


def judge(seen, armed_now):
    """(outcome, reason): what became of the trial on record. armed_now: whether the boot loader still has the one-time entry.

    None: there is no trial. pending: the node has not rebooted, or not into the trial (then with a reason). running: it runs the kernel, which
    nobody has confirmed. failed: it is back on another kernel. not_booted: the trial was not prepared to its end.
    """
    record = seen.record
    if record is None:
        return None, None
    token = "%s=%s" % (WORD, record["token"])
    runs = seen.running == record["kernel"] and (token in seen.cmdline or record["kernel"] != record.get("from"))
    if record["outcome"] == FAILED:
        return (RUNNING, None) if runs else (FAILED, record.get("reason"))
    if seen.boot_id == record["boot_id"]:
        return PENDING, None
    if runs:
        return RUNNING, None
    if armed_now:
        return PENDING, NOT_TAKEN
    if _first(seen.expired) == record["token"]:
        return FAILED, "came up, but nobody confirmed it within %d s; its network then: %s" % (record["confirm_within"], network(seen.expired))
    if _first(seen.reached) == record["token"]:
        return FAILED, RESET
    return (FAILED, NEVER_UP) if record.get("armed") else (NOT_BOOTED, NOT_ARMED)


def shown(record, outcome, reason):
    """The record in the words of boot_kernel's results; None without one."""
    if record is None:
        return None
    return dict({key: record.get(key) for key in ("kernel", "from", "attempts", "confirm_within")}, outcome=outcome, reason=reason)


def write(path, text):
    """Replace a file in one step, so that neither a killed run nor a power cut leaves a part of it, or loses it afterwards."""
    path = os.path.realpath(path)
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".lockstep-")
    with os.fdopen(handle, "w", encoding="utf-8", errors="surrogateescape", newline="") as out:
        out.write(text)
        out.flush()
        os.fchmod(out.fileno(), os.stat(path).st_mode & 0o777 if os.path.exists(path) else 0o644)
        os.fsync(out.fileno())
    os.rename(temporary, path)
    sync_folder(folder)


def remove(path):
    """Remove a file; True when there was one."""
    try:
        os.unlink(path)
    except FileNotFoundError:
        return False
    sync_folder(os.path.dirname(path))
    return True


def sync_folder(folder):
    """Make renames and removals in a folder last."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
