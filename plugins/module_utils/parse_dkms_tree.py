# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DKMS's own folders and settings: what lies in /var/lib/dkms beyond what `dkms status` lists, and /etc/dkms.

The layout is that of upstream's dkms script (https://github.com/dkms-project/dkms): a registered version is a folder
<module>/<version> with a link `source`; without that link DKMS does not know it, but refuses to add it again.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed

TREE = "/var/lib/dkms/"
# `ls -l`: mode, links, owner, group, size, three words of a date, then the name.
_LONG = re.compile(r"(?P<kind>[-dlbcps])[rwxsStT-]{9}[.+@]?\s+\d+\s+\S+\s+\S+\s+\d+\s+\S+\s+\S+\s+\S+\s+(?P<name>\S.*)")
_NOT_A_VERSION = ("original_module", "build", "source")
# What `tree` draws before a name: four columns a level.
_DRAWN = re.compile(r"(?P<before>(?:[\u2502|] {3}|[\u2502|][\u00a0 ]{2,3}| {4})*)(?:[\u251c\u2514]\u2500\u2500|[|`]--) (?P<name>\S.*)")
_SETTING = re.compile(r"(?P<key>[a-z_]{1,40})\s*=\s*(?P<quote>[\"']?)(?P<value>[^\"'#]*)(?P=quote)\s*(?:#.*)?")
_SETTINGS = ("mok_signing_key", "mok_certificate", "sign_file", "dkms_tree", "source_tree", "install_tree")


def parse_dkms_tree(text):
    """A list of /var/lib/dkms to the folders that have no `source`: [{module, version, path, listed}].

    text: `find /var/lib/dkms` (the live probe adds " -> TARGET"), `ls -R`, `ls -lR`, `ls /var/lib/dkms/MODULE` with its heading, or
    `tree`. listed: whether the version's own entries are in the list; else only DKMS's list tells whether it knows the folder.
    """
    children = {}
    for path in _paths(text):
        parts = path[len(TREE):].split("/")
        if len(parts) >= 2 and parts[1] not in _NOT_A_VERSION and not parts[1].startswith(("kernel-", ".")) and parts[1]:
            names = children.setdefault((parts[0], parts[1]), set())
            if len(parts) > 2 and parts[2]:
                names.add(parts[2])
    return Parsed([{"module": module, "version": version, "path": TREE + "%s/%s" % (module, version), "listed": bool(names)}
                   for (module, version), names in sorted(children.items()) if "source" not in names], [])


def _paths(text):
    """Absolute paths below the tree, from each kind of list."""
    folder, found, drawn = None, [], []
    for raw in text.splitlines():
        line = raw.strip()
        branch = _DRAWN.match(raw[:1000])
        if branch and drawn:
            drawn[1 + (len(branch.group("before")) + 3) // 4:] = [branch.group("name").split(" -> ")[0].rstrip("/")]
            found.append("/".join(drawn))
            continue
        if re.fullmatch(r"/var/lib/dkms[^:]*:", line):
            folder = line[:-1].rstrip("/")
            found.append(folder)
        elif line.startswith("/var/lib/dkms"):
            found += [path.split(" -> ")[0].rstrip("/") for path in re.split(r" {2,}(?=/)", line)]
            drawn = [found[-1]]
        elif folder and line:
            long = _LONG.fullmatch(line[:1000])
            name = long.group("name").split(" -> ")[0] if long else line
            if not line.startswith("total ") and "/" not in name and name not in (".", ".."):
                found.append("%s/%s" % (folder, name))
    return [path for path in found if path.startswith(TREE)]


def parse_dkms_conf(text):
    """/etc/dkms/framework.conf (one file, or several with their names) to {key: value}; an empty value is None.

    Only what decides about signatures and folders: mok_signing_key, mok_certificate, sign_file and the trees.
    """
    settings = {}
    for line in text.splitlines():
        found = _SETTING.fullmatch(line.strip()[:1000])
        if found and found.group("key") in _SETTINGS:
            settings[found.group("key")] = found.group("value").strip() or None
    return Parsed(settings, [])
