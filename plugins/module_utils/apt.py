# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt and dpkg as a resolver to ask and a hand to act. No judgement here: closure.py decides.

Formats: apt-get(8) -s prints ``Inst name [old] (new origin [arch])`` and ``Remv name [old]``;
``apt-cache policy`` prints a table of versions with their priorities; ``apt-cache show`` prints deb822 stanzas.
"""
from __future__ import annotations

import os
import re
import shutil
import time

from ansible_collections.lockstep.gpu.plugins.module_utils.acting import PackageError, read_text
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt import OWN_PREFERENCES, OWN_SOURCES, deb822, parse_preferences
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt_archive import parse_policy

LISTS = "/var/lib/apt/lists"
PREFERENCES = "/etc/apt/preferences"
SOURCE_PARTS, PREFERENCE_PARTS = "/etc/apt/sources.list.d", "/etc/apt/preferences.d"

# The same answer on every node: a named solver, no phased updates (Ubuntu decides those by machine-id),
# no recommended packages, and patience where another apt runs.
COMMON = [
    "-o", "APT::Solver=internal",
    "-o", "APT::Get::Always-Include-Phased-Updates=true",
    "-o", "APT::Install-Recommends=false",
    "-o", "APT::Get::AutomaticRemove=false",
    "-o", "DPkg::Lock::Timeout=600",
    "-o", "Acquire::Retries=3",
]
LOCK_TRIES, LOCK_PAUSE = 60, 10     # ten minutes, as for dpkg's lock
CHANGE = ["-y", "-f", "--allow-downgrades", "--allow-change-held-packages"]
# Services must not be restarted in mid-run; the roles say when.
ACT_ENV = {"NEEDRESTART_SUSPEND": "1", "APT_LISTCHANGES_FRONTEND": "none", "UCF_FORCE_CONFFOLD": "1"}
CONFFILES = ["-o", "Dpkg::Options::=--force-confdef", "-o", "Dpkg::Options::=--force-confold"]

_INST = re.compile(r"^Inst (?P<name>\S+) (?:\[(?P<old>[^\]]+)\] )?\((?P<new>\S+) (?P<origin>[^\[)]*?)\s*\[(?P<arch>[^\]]+)\]")
_REMV = re.compile(r"^(?:Remv|Purg) (?P<name>\S+)")


class AptError(PackageError):
    """apt refused or failed; the text is its own words."""


def parse_simulation(text):
    """({name: {version, old, origin}}, [removed names]) of ``apt-get -s``."""
    installs, removes = {}, []
    for line in text.splitlines():
        match = _INST.match(line)
        if match:
            installs[match["name"]] = {"version": match["new"], "old": match["old"], "origin": match["origin"].strip()}
            continue
        match = _REMV.match(line)
        if match:
            removes.append(match["name"])
    return installs, removes


def parse_show(text):
    """{name: metadata} of ``apt-cache show``; source falls back to the package's own name and version."""
    found = {}
    for stanza in deb822(text).value:
        name = stanza.get("package")
        if not name or name in found:
            continue
        match = re.match(r"(\S+)(?:\s+\(([^)]+)\))?$", stanza.get("source", name))
        found[name] = {
            "version": stanza.get("version"), "arch": stanza.get("architecture"),
            "source": match.group(1) if match else name,
            "source_version": (match.group(2) if match else None) or stanza.get("version"),
            "sha256": stanza.get("sha256"), "size": int(stanza.get("size") or 0),
            "installed_kib": int(stanza.get("installed-size") or 0),
            # Where a package only leads to another one: which.
            "leads_to": _first_word(stanza.get("depends")) if _is_transitional(stanza) else None,
        }
    return found


def _is_transitional(stanza):
    words = " ".join(value for field, value in stanza.items() if field.startswith("description"))
    return bool(re.search(r"transitional|dummy package", words, re.IGNORECASE)) or (stanza.get("section") or "").endswith("oldlibs")


def _first_word(depends):
    found = re.match(r"\s*([a-z0-9][a-z0-9.+-]*)", depends or "")
    return found.group(1) if found else "nothing"


def existing(policies):
    """{name: [versions]} of parse_policy() packages: what an archive has and no pin keeps away, the newest first."""
    return {name: found for name, found in (
        (name, [row["version"] for row in policy["table"] if _comes_from_archive(row) and row["priority"] >= 0])
        for name, policy in policies.items()) if found}


def kept_away(policies):
    """The same of versions that an archive has, and that a pin keeps away."""
    return {name: found for name, found in (
        (name, [row["version"] for row in policy["table"] if _comes_from_archive(row) and row["priority"] < 0])
        for name, policy in policies.items()) if found}


def _comes_from_archive(row):
    # What is only installed has dpkg's status file for an origin, which parse_policy() leaves out.
    return bool(row["origins"]) and row["priority"] is not None


def missing_words(text):
    """apt's own explanation out of stderr and stdout, without its progress lines."""
    keep = [line.strip() for line in text.splitlines()
            if re.match(r"\s*(E:|W:|N:|Err:|.* : |The following packages have unmet|dpkg: error)", line)]
    return "\n".join(keep[-25:]) or "\n".join(text.strip().splitlines()[-10:])


def patiently(run, argv, **options):
    """Run what needs the locks of apt or dpkg, and wait while another one has them: a timer's, or that of a run whose
    controller was killed. DPkg::Lock::Timeout covers neither the lists nor dpkg itself. Returns a Result, any status.
    """
    for dummy in range(LOCK_TRIES):
        result = run(argv, ok=None, **options)
        if result.rc == 0 or not re.search(r"Could not get lock|was locked by another process", result.err + result.out):
            break
        time.sleep(LOCK_PAUSE)
    return result


class Apt:
    """apt through a runner; options put before each call let it work on a private set of lists."""

    def __init__(self, run, options=(), preferences=None):
        self._run = run
        self._options = COMMON + list(options)
        self._preferences = preferences

    def prefer(self, text):
        """Put apt_preferences(5) text into the private settings that the options point to."""
        with open(os.path.join(self._preferences, "lockstep-gpu.pref"), "w", encoding="utf-8") as out:
            out.write(text)

    def update(self):
        """Read the package lists; any source that fails is an error, since a stale list would lie."""
        result = patiently(self._run, ["apt-get", "update", "-q", *self._options, "-o", "APT::Update::Error-Mode=any"])
        if result.rc != 0:
            raise AptError("the package lists cannot be read:\n" + missing_words(result.out + result.err))

    def policies(self, names):
        """{name: policy} as parse_apt_archive.parse_policy() reads it."""
        if not names:
            return {}
        text = self._run(["apt-cache", *self._options, "policy", *sorted(names)], ok=(0, 100)).out
        return (parse_policy(text).value or {"packages": {}})["packages"]

    def versions(self, names):
        """{name: [versions the archives have and no pin keeps away]}; a name without any is left out."""
        return existing(self.policies(names))

    def pins(self):
        """The user's pins: rows of parse_apt.parse_preferences(), with the names that the files have on the node."""
        paths = [PREFERENCES]
        for name in sorted(os.listdir(self._preferences)) if self._preferences else []:
            if name != os.path.basename(OWN_PREFERENCES):
                paths.append(os.path.join(self._preferences, name))
        texts = ["==> %s <==\n%s\n" % (os.path.join(PREFERENCES + ".d", os.path.basename(path)) if path != PREFERENCES else path,
                                       read_text(path) or "") for path in paths]
        return parse_preferences("".join(texts)).value or []

    def names_like(self, prefix):
        """Names of known packages that start with prefix."""
        return sorted(self._run(["apt-cache", *self._options, "pkgnames", prefix], ok=(0, 100)).out.split())

    def show(self, targets):
        """Metadata of exact packages, targets = {name: version}."""
        if not targets:
            return {}
        wanted = ["%s=%s" % item for item in sorted(targets.items())]
        return parse_show(self._run(["apt-cache", *self._options, "show", *wanted], ok=(0, 100)).out)

    def simulate(self, arguments, verb="install"):
        """What apt-get would do: ({name: {version, old, origin}}, [removed]). Raises AptError when it cannot."""
        result = self._run(["apt-get", "-s", verb, "--no-install-recommends", *CHANGE, *self._options, *arguments], ok=None)
        if result.rc != 0:
            raise AptError(missing_words(result.out + "\n" + result.err))
        return parse_simulation(result.out)

    def act(self, arguments):
        """Do it. Raises AptError with what apt and dpkg said."""
        result = patiently(self._run, ["apt-get", "install", "-q", "--no-install-recommends", *CHANGE, *CONFFILES,
                                       *self._options, *arguments], env=ACT_ENV)
        if result.rc != 0:
            raise AptError(missing_words(result.out + "\n" + result.err))


def overlay(folder, own_sources):
    """Options for a private apt below folder: same sources and user settings, our planned source instead of ours.

    The node's own lists, pins and caches are not touched; its lists are linked in, so that a fresh one is not
    downloaded again. Our own pins are left out: they say what was, not what is wanted.
    """
    for name in ("lists/partial", "cache/archives/partial", "sources.list.d", "preferences.d", "log"):
        os.makedirs(os.path.join(folder, name))
    for source, target, own in ((SOURCE_PARTS, "sources.list.d", OWN_SOURCES), (PREFERENCE_PARTS, "preferences.d", OWN_PREFERENCES)):
        for name in sorted(os.listdir(source)) if os.path.isdir(source) else []:
            path = os.path.join(source, name)
            if path != own and os.path.isfile(path):
                shutil.copy(path, os.path.join(folder, target, name))
    if own_sources:
        with open(os.path.join(folder, "sources.list.d", os.path.basename(OWN_SOURCES)), "w", encoding="utf-8") as out:
            out.write(own_sources)
    for name in os.listdir(LISTS) if os.path.isdir(LISTS) else []:
        path = os.path.join(LISTS, name)
        if os.path.isfile(path) and name != "lock":
            copy_cheaply(path, os.path.join(folder, "lists", name))
    return [
        "-o", "Dir::State::lists=%s/lists" % folder,
        "-o", "Dir::Cache=%s/cache" % folder,
        "-o", "Dir::Etc::sourceparts=%s/sources.list.d" % folder,
        "-o", "Dir::Etc::preferencesparts=%s/preferences.d" % folder,
        # A simulation, too, leaves its problem in a log (eipp.log).
        "-o", "Dir::Log=%s/log" % folder,
        "-o", "Acquire::Languages=none",
        "-o", "APT::Sandbox::User=root",
    ]


def copy_cheaply(source, target):
    """Hard link where the file system allows it (apt replaces lists by rename, never in place), else copy."""
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)
