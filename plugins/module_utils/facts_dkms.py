# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DKMS beyond its list: configuration, logs, failed runs."""

from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils import capture_dkms, parse_dkms_log, parse_dkms_tree
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import shown
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_dkms import complaints, parse_dkms_status
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Function, Recorded

# name: (level, how to take it live); docs/probes.md describes each.
PROBES = {
    "dkms_conf": ("local", Function(capture_dkms.dkms_settings, "tail -v -n +1 /etc/dkms/framework.conf /etc/dkms/framework.conf.d/*.conf")),
    "dkms_tree": ("local", Function(capture_dkms.dkms_folders, "find /var/lib/dkms -maxdepth 3")),
    "dkms_make_log": ("deep", Function(capture_dkms.dkms_logs, "tail -v -n +1 /var/lib/dkms/*/*/build/make.log")),
    "dkms_run": ("bundle", Recorded("dkms build, dkms install, dkms autoinstall")),
}
# Package managers run DKMS, so that their output holds its sentences.
_RUNS = ("dkms_run", "apt_run", "dnf_run", "apt_term_log")


def section(reader):
    """dkms_status: {rc, unusable: why the list cannot be relied on or None, failures: what it complains about modules}; None
    where nobody asked.

    dkms_settings: {mok_signing_key, mok_certificate ...}. dkms_orphans: folders that DKMS does not know.
    dkms_failures: what runs say that failed (parse_dkms_log.failures). dkms_logs: failures of make.log.
    """
    failures = [_rows(reader, name) for name in _RUNS]
    return {
        "dkms_status": _status(reader),
        "dkms_settings": reader.parsed("dkms_conf", parse_dkms_tree.parse_dkms_conf, absent={}),
        "dkms_orphans": _orphans(reader),
        "dkms_failures": [row for rows in failures for row in rows or []] if any(rows is not None for rows in failures) else None,
        "dkms_logs": reader.parsed("dkms_make_log", parse_dkms_log.parse_make_logs, absent=[]),
    }


def _orphans(reader):
    """Folders without a source; where only their names were recorded, those that a good list does not have."""
    folders = reader.parsed("dkms_tree", parse_dkms_tree.parse_dkms_tree, absent=[])
    seen = reader.seen("dkms_status")
    good = seen is not None and seen.rc == 0 and not _unusable(seen)
    known = {(row["module"], row["version"]) for row in parse_dkms_status(seen.out).value} if good else set()
    return None if folders is None else [
        {key: row[key] for key in ("module", "version", "path")} for row in folders
        if row["listed"] or good and (row["module"], row["version"]) not in known]


def _rows(reader, name):
    seen = reader.seen(name)
    return None if seen is None or seen.rc is None else parse_dkms_log.failures(seen.out + "\n" + seen.err)


def _status(reader):
    seen = reader.seen("dkms_status")
    if seen is None or seen.rc is None:
        return None
    text = seen.out + "\n" + seen.err
    return {"rc": seen.rc, "unusable": _unusable(seen), "failures": parse_dkms_log.failures(text)}


def _unusable(seen):
    """Why the list cannot be relied on: dkms is missing, failed, or printed nothing that is a module."""
    if seen.absent("dkms_status"):
        return "dkms is not installed"
    rows, problems = parse_dkms_status(seen.out)
    told = complaints(seen.err) + complaints(seen.out)
    said = told[0] if told else shown(next((line for line in (seen.err + seen.out).splitlines() if line.strip()), ""), 200)
    if seen.rc:
        return "exit status %d: %s" % (seen.rc, said or "it printed nothing")
    return "no module in it: %s" % said if not rows and (told or problems) else None
