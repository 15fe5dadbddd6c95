# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the files of installed .debs are: in apt's cache, or still in an archive (apt-get(8) download)."""
from __future__ import annotations

import glob
import os
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import apt


def fetch(run, store, wanted):
    """Put packages {name: version} into a store (keeping.py). Returns [{name, version, reason}] of those that nobody has."""
    found = cached(run, wanted)
    rest = {name: version for name, version in wanted.items() if name not in found}
    offered = in_archives(apt.Apt(run), rest)
    reason = download(run, store.partial, {name: version for name, version in rest.items() if name in offered})
    found.update(in_folder(run, store.partial, rest))
    lost = store.add([(name, wanted[name], path) for name, path in sorted(found.items())])
    return lost + [{"name": name, "version": version, "reason": reason if name in offered else "neither the node's cache nor an archive has it"}
                   for name, version in sorted(rest.items()) if name not in found]


def in_archives(ask, wanted):
    """Names of packages {name: version} that an archive has at exactly this version, whatever the pins say."""
    policies = ask.policies(wanted)
    return {name for name, version in wanted.items() if any(
        version in versions.get(name, ()) for versions in (apt.existing(policies), apt.kept_away(policies)))}


def cached(run, wanted):
    """{name: path} of packages in apt's own cache."""
    shown = re.search(r"'(.*)'", run(["apt-config", "shell", "WHERE", "Dir::Cache::archives/d"], ok=None).out)
    return in_folder(run, shown.group(1), wanted) if shown and os.path.isdir(shown.group(1)) else {}


def in_folder(run, folder, wanted):
    """{name: path} of packages {name: version} whose complete files lie in a folder, under the names that apt gives them."""
    found = {}
    for key, version in wanted.items():
        name = key.partition(":")[0]
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "%s_%s_*.deb" % (name, glob.escape(version.replace(":", "%3a")))))):
            shown = run(["dpkg-deb", "--show", "--showformat", "${Package}\\t${Version}", path], ok=None)
            if shown.out.strip() == "%s\t%s" % (name, version) and is_whole(path):
                found[key] = path
    return found


def is_whole(path):
    """Whether a .deb ends where its last member does; ar(5): members with a header of 60 bytes, the size in bytes 48 to 57."""
    size = os.path.getsize(path)
    with open(path, "rb") as handle:
        if handle.read(8) != b"!<arch>\n":
            return False
        place = 8
        while place < size:
            handle.seek(place)
            header = handle.read(60)
            if len(header) < 60 or not header[48:58].strip().isdigit():
                return False
            length = int(header[48:58])
            # Members begin at even places.
            place += 60 + length + length % 2
    return place - size in (0, 1)


def download(run, folder, wanted):
    """Download packages into a folder; returns why some may be missing, in apt's words."""
    if not wanted:
        return ""
    result = apt.patiently(run, ["env", "--chdir=" + folder, "apt-get", "download", "-q", *apt.COMMON, "-o", "APT::Sandbox::User=root",
                                 *["%s=%s" % item for item in sorted(wanted.items())]])
    return "it cannot be downloaded: " + apt.missing_words(result.err + result.out) if result.rc else "apt says it has it, and left no file"
