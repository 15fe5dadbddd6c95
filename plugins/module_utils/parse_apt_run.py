# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What apt and dpkg said while somebody ran them: why they did not do it, and who was in the way.

Nothing here is a problem of a parser: a transcript is prose, and only sentences that mean something are taken. The sentences:
apt-pkg/deb/debsystem.cc (locks), apt-private/private-output.cc (unmet dependencies, lists), dpkg's src/main/errors.c.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_apt_actions
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed

_NAME = r"[a-z0-9][a-z0-9.+-]*(?::[a-z0-9-]+)?"
# What stands above an indented block, by apt 1 and 2 and by apt 3's shorter headings.
_BLOCKS = (
    ("unmet", re.compile(r"(?:The following packages have unmet dependencies|Unsatisfied dependencies)[:.]\s*")),
    ("remove", re.compile(r"The following packages will be REMOVED:|REMOVING:")),
    ("install", re.compile(r"The following NEW packages will be installed:|Installing(?: dependencies)?:")),
    ("upgrade", re.compile(r"The following packages will be upgraded:|Upgrading:")),
    ("downgrade", re.compile(r"The following packages will be DOWNGRADED:|DOWNGRADING:")),
    ("held", re.compile(r"The following held packages will be changed:|Changing held packages:")),
    ("kept", re.compile(r"The following packages have been kept back:|Not upgrading(?: yet due to phasing)?:")),
    ("failed", re.compile(r"(?:E: )?Errors were encountered while processing:")),
    # dpkg --audit: a heading of several lines, then names with their descriptions.
    ("audited", re.compile(r"The following packages (?:have been unpacked but not yet configured|are only half (?:configured|installed)|are in a mess)\b.*")),
    ("replaced", re.compile(r"However,? the following packages replace it:|Package \S+ is a virtual package provided by:")),
    ("unsigned", re.compile(r"WARNING: The following packages cannot be authenticated!")),
)
_UNMET = re.compile(r"\s*(?P<package>%s) : (?P<rest>\S[^:]*: .+)" % _NAME)
_RELATION = re.compile(r"\s*(?P<kind>[A-Z][^:()]*): (?P<on>[^\s(]+)(?: \((?P<relation>[<>=!]+) (?P<need>[^)\s]+)\))?(?: but (?P<why>.*))?.*")
_HAVE = re.compile(r"(\S+) is (?:to be )?installed.*")
_ITEM = re.compile(r"(\S+)(?: \(([^()]*)\))?")
_LOCKS = (
    re.compile(r"Could not get lock (?P<path>/[^\s;]+?)\.?"
               r"(?:;? (?:It|it) is held by process (?P<pid>\d+)(?: \((?P<process>[^)]*)\))?| - open \(11\b|\s*$)"),
    re.compile(r"Unable to (?:acquire|lock) the [a-z ]+ \((?P<path>/[^)\s]+?)/?\), is another process using it"),
    # The same in other languages, by what stays: the lock's path and its holder.
    re.compile(r"^E: [^/]*(?P<path>/var/(?:lib/dpkg|lib/apt|cache/apt)/[\w/-]*lock[\w-]*)\b[^(]*?\b(?P<pid>\d+) \((?P<process>[^)]*)\)"),
    re.compile(r"^E: [^/]*(?P<path>/var/(?:lib/dpkg|lib/apt|cache/apt)/[\w/-]*lock[\w-]*) - open \(11\b"),
    re.compile(r"dpkg (?:frontend|database|frontend/database|status database)?(?: area)?(?: lock)? ?(?:was|is) locked by another process"
               r"(?: with pid (?P<pid>\d+))?"),
    re.compile(r"Failed to lock apt for exclusive operation"),
    re.compile(r"(?:Unable|Failed) to lock (?:directory|the list directory) (?P<path>/\S+?)/?\s*$"),
)
_MISSING_VERSION = re.compile(r"Version '([^']+)' for '([^']+)' was not found")
# Ansible's own words; the name may have a version.
_NOT_OFFERED = re.compile(r"no available installation candidate for (%s)(?:=([^\s'\",]+))?" % _NAME)
_MISSING = re.compile(r"Unable to locate package (\S+)"
                      r"|[Nn]o package matching '([^']+)' is available"
                      r"|Can't select [a-z ]*version from package '?([^\s']+)'? as it|Couldn't find any package by (?:glob|regex) '([^']+)'")
# An index that is older than its archive: the file of a version that is not there any more.
_FETCHED = re.compile(r"Failed to fetch \S+/(%s)_([^_/\s]+)_[a-z0-9]+\.u?deb\s.*\b404\b" % _NAME)
_NO_CANDIDATE = re.compile(r"Package '?([^\s']+)'? has no installation candidate")
_UNAVAILABLE = re.compile(r"Package (\S+) is (?:not available, but is referred to by another package|a virtual package provided by)")
_INSTEAD = re.compile(r"Note, selecting '([^']+)' instead of '([^']+)'")
_DPKG = re.compile(r"dpkg: error processing (?:package|archive) (\S+) \(--(?P<phase>[a-z-]+)\):?(?P<reason>.*)")
_OVERWRITE = re.compile(r"trying to overwrite (?:shared )?'([^']+)', which is (?:also in package|different from other instances of package) (\S+)(?: (\S+))?")
_KEY = re.compile(r"(?:NO_PUBKEY|EXPKEYSIG|BADSIG|REVKEYSIG) [0-9A-F]{8,}")
_UNTRUSTED = re.compile(
    r"The repository '[^']*' is (?:not signed|no longer signed)|is not signed\."
    r"|Conflicting values set for option Signed-By"
    r"|There were unauthenticated packages|packages cannot be authenticated|Some packages could not be authenticated|couldn't be verified because")
_ADDRESS = re.compile(r"(?:https?|file|ftp|mirror\+file|copy|cdrom):/?/?[^\s']+")
_ASKED = re.compile(r"(?<![\w.+-])(%s)=((?:\d+:)?\d[A-Za-z0-9.+~:*-]*)" % _NAME)
_HELD_CHANGED = re.compile(r"Held packages were changed and -y was used without --allow-change-held-packages")
_DOWNGRADED = re.compile(r"Packages were downgraded and -y was used without --allow-downgrades")
_INTERRUPTED = re.compile(r"dpkg was interrupted, you must manually run")
_LATER = re.compile(r"A later version is already installed"
                    r"|will not downgrade (?P<name>%s) from (?:version )?(?P<have>\S+?) to (?:version )?(?P<want>[^\s,]+)" % _NAME)
_CURRENT = re.compile(r"^(%s) is already the newest version \(((?:\d+:)?\d[^\s()]*)\)" % _NAME)
_UPGRADABLE = re.compile(r"^(%s)/\S+ \S+ \S+ \[upgradable from: ((?:\d+:)?\d[^\s\]]*)\]" % _NAME)
_SUMMARY = re.compile(r"^\s*\d+ upgraded, \d+ newly installed, |^\s*Upgrading: \d+, Installing: \d+, |^Summary:$")
_ERROR = re.compile(r"(?:^|[\s'])(?:E|Error|Err):\s?(.+)")


def nothing():
    """A run of which nothing is known; parse_apt_run() says what the keys hold."""
    return {"unmet": [], "held_changed": False, "held": [], "kept": [], "downgrade_refused": False, "locks": [], "missing": [], "replaced": {},
            "dpkg": {}, "failed": [], "overwrite": [], "interrupted": False, "untrusted": [], "later": [], "asked": {}, "errors": [],
            "transaction": None, "current": {}, "done": False}


def parse_apt_run(text, rc=0):
    """A transcript of apt, apt-get, aptitude or dpkg, also as an Ansible module quotes it, to what it says.

    unmet: [{package, kind, on, relation, need, have, why}], need and have being versions or None. locks: [{path, pid, process}],
    each holder once. missing: [{name, version}], version None where the name is not known at all. replaced: {name: [names]}
    that apt offers for a name without a package. dpkg: {package: {phase, reason, version}}; failed: names that dpkg lists at its end.
    overwrite: [{path, package, version, owner, owner_version}]. untrusted: [{reason, uri}]. later: [{name, have, want}], None where not
    told. current: {name: version} of what is said to be there; done: whether the run went well to its end. asked: {name:
    version} as the command line had them. held, kept: names. transaction: what apt announced, names mostly
    without versions, in the form of parse_apt_actions.
    """
    reader = _Run(rc)
    for line in text.splitlines():
        reader.take(line)
    return Parsed(reader.finish(), [])


class _Run:
    """What the lines of a transcript told so far."""

    def __init__(self, rc):
        self.rc, self.value, self.plan = rc, nothing(), parse_apt_actions.empty()
        self.block = self.package = self.subject = self.processing = None
        self.announced = self.heading = False

    def take(self, line):
        block = next((name for name, heading in _BLOCKS if heading.match(line.strip())), None)
        unavailable = _UNAVAILABLE.search(line)
        if unavailable:
            self.subject = unavailable.group(1)
            self.value["replaced"].setdefault(self.subject, [])
        if block:
            self.block, self.package, self.heading = block, None, block == "audited"
            return
        if self.block == "audited" and self.heading and line.strip() and not line[:1].isspace():
            return
        if self.block and (line[:1].isspace() or self.block == "unmet" and _UNMET.fullmatch(line)) and self._inside(line):
            return
        if line.strip():
            self.block = None
            self._sentence(line)

    def _inside(self, line):
        """Whether the line belongs to the block."""
        if self.block == "unmet":
            named = _UNMET.fullmatch(line)
            self.package = named.group("package") if named else self.package
            relation = _RELATION.fullmatch(named.group("rest") if named else line)
            if relation and self.package:
                self.value["unmet"].append(_unmet(self.package, relation))
            # "b but it is not installable", the second half of an alternative, belongs here too.
            return bool(relation) or self.package is not None
        if self.block == "audited":
            self.heading = False
            self.value["failed"] += re.findall(r"^ +(%s)(?=\s|$)" % _NAME, line)
            return True
        for name, words in _ITEM.findall(line):
            # dpkg names an archive's file, which begins with the package's name.
            name = _archive_words(name.rstrip("*"))[0]
            if re.fullmatch(_NAME, name):
                self._listed(name, words)
        return True

    def _listed(self, name, words):
        """One name of a list, perhaps with its versions: "(OLD => NEW)" or "(NEW)"."""
        old, arrow, new = words.partition(" => ")
        if self.block in parse_apt_actions.KINDS:
            self.announced = True
            gone = self.block == "remove"
            self.plan[self.block].append(parse_apt_actions.entry(name, None if gone else new if arrow else old, old if arrow or gone else None))
        elif self.block == "replaced":
            # The block of a virtual package has versions behind the names.
            self.value["replaced"].setdefault(self.subject, [])
            if not name[0].isdigit() and self.subject:
                self.value["replaced"][self.subject].append(name)
        elif self.block in ("held", "kept", "failed"):
            self.value[self.block].append(name)

    def _sentence(self, line):
        value = self.value
        for pattern in _LOCKS:
            found = pattern.search(line)
            if found:
                named = found.groupdict()
                value["locks"].append({"path": named.get("path"), "pid": int(named["pid"]) if named.get("pid") else None,
                                       "process": named.get("process")})
                break
        value["missing"] += [{"name": name, "version": version} for version, name in _MISSING_VERSION.findall(line)]
        value["missing"] += [{"name": name, "version": version or None} for name, version in _NOT_OFFERED.findall(line)]
        value["missing"] += [{"name": name, "version": unquote(version)} for name, version in _FETCHED.findall(line)]
        value["missing"] += [{"name": "".join(names).rstrip("'\"\\"), "version": None} for names in _MISSING.findall(line)]
        value["missing"] += [{"name": name, "version": None} for name in _NO_CANDIDATE.findall(line)]
        for new, old in _INSTEAD.findall(line):
            value["replaced"].setdefault(old, []).append(new)
        self._dpkg(line)
        untrusted = _KEY.search(line) or _UNTRUSTED.search(line)
        if untrusted:
            address = _ADDRESS.search(line)
            value["untrusted"].append({"reason": untrusted.group(), "uri": address.group().rstrip(".,'") if address else None})
        later = _LATER.search(line)
        if later:
            value["later"].append({key: later.group(key) for key in ("name", "have", "want")})
        value["asked"].update(_ASKED.findall(line))
        value["current"].update(_CURRENT.findall(line.strip()) + _UPGRADABLE.findall(line))
        value["done"] = value["done"] or self.rc == 0 and bool(_SUMMARY.match(line))
        for key, pattern in (("held_changed", _HELD_CHANGED), ("downgrade_refused", _DOWNGRADED), ("interrupted", _INTERRUPTED)):
            value[key] = value[key] or bool(pattern.search(line))
        error = _ERROR.search(line)
        if error:
            value["errors"].append(error.group(1).strip()[:500])

    def _dpkg(self, line):
        """dpkg's errors: the reason follows on the next, indented line."""
        overwrite = _OVERWRITE.search(line)
        if overwrite:
            version = (self.value["dpkg"].get(self.processing) or {}).get("version")
            self.value["overwrite"].append({"path": overwrite.group(1), "package": self.processing, "version": version,
                                            "owner": overwrite.group(2), "owner_version": overwrite.group(3)})
        found = _DPKG.search(line)
        if found:
            # An archive's file name begins with the package's: /var/cache/apt/archives/NAME_VERSION_ARCH.deb.
            words = _archive_words(found.group(1))
            self.processing = words[0]
            self.value["dpkg"][self.processing] = {"phase": found.group("phase"), "reason": found.group("reason").strip() or None,
                                                   "version": words[1].replace("%3a", ":") if len(words) > 2 else None}
        elif self.processing and line[:1].isspace() and self.value["dpkg"][self.processing]["reason"] is None:
            self.value["dpkg"][self.processing]["reason"] = line.strip()[:300]

    def finish(self):
        self.value["locks"] = holders(self.value["locks"])
        if self.announced:
            self.plan["error"] = (self.value["errors"] or [None])[-1]
            self.value["transaction"] = self.plan
        return self.value


def _unmet(package, relation):
    why = relation.group("why")
    have = _HAVE.fullmatch(why or "")
    return {"package": package, "kind": relation.group("kind"), "on": relation.group("on"), "relation": relation.group("relation"),
            "need": relation.group("need"), "have": have.group(1) if have and have.group(1)[0].isdigit() else None, "why": why}


def holders(locks):
    """Each holder of a lock once; a sentence that names no holder counts only where none does."""
    known = [row for row in locks if row["pid"]]
    named = [row for row in locks if row["path"]]
    return [row for place, row in enumerate(known) if row not in known[:place]] or named[:1] or locks[:1]


def merged(runs):
    """Several transcripts as one."""
    total = nothing()
    for run in runs:
        for key, value in run.items():
            if isinstance(value, list):
                total[key] += [item for item in value if item not in total[key]]
            elif isinstance(value, dict) and key != "transaction":
                total[key].update(value)
            else:
                total[key] = total[key] or value
    return dict(total, locks=holders(total["locks"]))


def _archive_words(path):
    """[name, version, ...] in the name of an archive's file; apt numbers those that it hands to dpkg: 03-rdma-core_56.0_amd64.deb."""
    return re.sub(r"(?<=/)\d{2,4}-(?=[^/]*_[^/]*\.deb$)", "", path).rsplit("/", 1)[-1].split("_")
