# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run of dnf or yum said: why it failed.

Sources of the sentences: libdnf's and libdnf5's problem rules (goal.cpp, logs.cpp), dnf's cli.py, yum's cli.py, NVIDIA's dnf plugin.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_rpm
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed

_PACKAGE = r"(?P<package>\S+)"
_FROM = r"(?: from (?P<repo>\S+))?"
_OTHER = r"(?P<other>\S+)(?: from \S+)?"
# reason: the sentence, wherever it stands in a line. package, other: names as written, perhaps with version and architecture.
SENTENCES = (
    ("modular_filtering", r"filtered out by modular filtering for argument: " + _PACKAGE),
    ("modular_filtering", r"package %s%s is filtered out by modular filtering" % (_PACKAGE, _FROM)),
    ("exclude_filtering", r"filtered out by exclude filtering for argument: " + _PACKAGE),
    ("exclude_filtering", r"package %s%s is filtered out by exclude filtering" % (_PACKAGE, _FROM)),
    ("exclude_filtering", r"Argument '(?P<package>[^' ]+)' matches only excluded packages"),
    ("stream_switch", r"would result in switching of module '(?P<package>[^']+)' stream '(?P<old>[^']+)' to stream '(?P<new>[^']+)'"),
    ("stream_switch", r"[Mm]odule '?(?P<package>[\w.+-]+?)'?:? .*[Cc]annot be switched from '?(?P<old>[\w.+-]+?)'? to '?(?P<new>[\w.+-]+)'?"),
    ("cannot_install_both", r"cannot install both %s%s and %s" % (_PACKAGE, _FROM, _OTHER)),
    ("nothing_provides", r"nothing provides (?:requested )?(?P<what>\S+(?: [<>=]+ \S+)?)(?: needed by %s%s)?" % (_PACKAGE, _FROM)),
    ("requires", r"package %s%s requires (?P<what>\S+(?: [<>=]+ \S+?)?), but none of the providers can be installed" % (_PACKAGE, _FROM)),
    ("conflicts", r"package %s%s conflicts with (?P<what>\S+(?: [<>=]+ \S+)?) provided by %s" % (_PACKAGE, _FROM, _OTHER)),
    # yum's and rpm's own.
    ("conflicts", r"(?:^Error: |^\s+)%s conflicts with (?:\(installed\) |installed )?(?P<other>[^\s,]+)\s*$" % _PACKAGE),
    ("installed_problem", r"problem with installed package " + _PACKAGE),
    ("obsoletes", r"package %s%s (?:implicitly )?obsoletes (?P<what>\S+(?: [<>=]+ \S+)?) provided by %s" % (_PACKAGE, _FROM, _OTHER)),
    ("obsoleted", r"Package (?P<package>\S+) is obsoleted by (?P<other>[^\s,]+)"),
    ("file_conflict", r"file (?P<what>\S+) from install of %s conflicts with file from package %s" % (_PACKAGE, _OTHER)),
    ("file_conflict", r"file (?P<what>\S+) conflicts between attempted installs of %s and %s" % (_PACKAGE, _OTHER)),
    ("no_match", r"No match for argument: " + _PACKAGE),
    ("no_match", r"No package (?P<package>\S+) available"),
    ("no_match", r"No candidates? (?:found )?for (?:argument )?'?(?P<package>[^\s']+)"),
    ("skipped_kernel", (r"Skipping kernel installation since no .*?kernel module package (?P<package>\S+) for kernel(?: version)? ?(?P<what>\S+)"
                        r" and (?:NVIDIA )?driver (?P<other>\S+) could be found")),
    ("bad_signature", r"(?:GPG|OpenPGP) check (?:for package \"(?P<package>[^\"]+)\".* )?(?:has )?(?:FAILED|failed)"),
    ("bad_signature", r"Public key for (?P<package>\S+) is not installed"),
    ("bad_signature", r"Package (?P<package>\S+) is not signed"),
    ("bad_signature", r"The GPG keys listed for the \"(?P<repo>[^\"]+)\" repository are already installed but they are not correct"),
    ("locked", r"Waiting for process with pid (?P<what>\d+) to finish"),
    ("locked", r"Existing lock (?P<package>\S+): another copy is running as pid (?P<what>\d+)"),
    ("locked", r"Another app is currently holding the (?:yum|dnf) lock"),
    ("locked", r"Failed to obtain the transaction lock"),
    # Ansible's own words for it.
    ("locked", r"(?:yum|dnf) lockfile is held by another process"),
    ("no_metadata", r"Failed to download metadata(?: for repo '(?P<repo>[^']+)'| \(.*\) for repository \"(?P<package>[^\"]+)\")?"),
    ("no_space", r"At least (?P<what>\S+) more space needed on the (?P<package>\S+) filesystem"),
    ("no_space", r"installing package (?P<package>\S+) needs (?P<what>\S+) (?:more space )?on the (?P<other>\S+) filesystem"),
)
_COMPILED = tuple((reason, re.compile(sentence)) for reason, sentence in SENTENCES)
# One line may name several.
_NOT_FOUND = re.compile(r"Unable to find a match: (?P<packages>.*)")
_ONE_KERNEL = re.compile(r"kmod-nvidia-(open-)?\d")
_SHORT = re.compile(r"(?P<name>[A-Za-z0-9][\w.+-]*?)-(?P<version>(?:\d+:)?\d[\w+~^]*\.[\w.+~^]*(?:-[\w.+~^]+)?\*?)")
# A sentence of libdnf is short; nothing longer is searched.
_LONGEST = 2000


def parse_dnf_run(text):
    """The output of a run to the problems it names, each once: [{reason, package, version, arch, other, what, repo, old, new}].

    package: a name; version and arch where they were written with it; other: a row {name, version, arch} of the second package.
    What is not said is None. Lines that name no problem are what a run prints anyway.
    """
    found = []
    # Ansible shows a failed run as one line of JSON.
    lines = [line[:_LONGEST] for line in text.replace("\\n", "\n").splitlines()]
    for rows in (*map(_problems, lines), _yum_needs(lines)):
        found += [row for row in rows if row not in found]
    # dnf also says "no match" for what it filters out: such a package is there.
    filtered = {row["package"] for row in found if row["reason"] in ("modular_filtering", "exclude_filtering")}
    return Parsed([row for row in found if row["reason"] != "no_match" or row["package"] not in filtered], [])


_DONE = re.compile(r"\s*(?P<word>Installed|Upgraded|Downgraded|Reinstalled|Removed|Erased):(?P<words>.*)")
_ALREADY = re.compile(r"Package (\S+) is already installed|Package (\S+) already installed and latest version")


def parse_present(text):
    """What a run of dnf or yum, or Ansible's dnf module, says is installed now: {name: version}; what it removed is not."""
    found, word = {}, None
    for line in text.replace("\\n", "\n").splitlines():
        line = line[:_LONGEST].strip("\"', ") if ":" in line[:40] else line[:_LONGEST]
        done, already = _DONE.fullmatch(line), _ALREADY.search(line)
        word = done.group("word") if done else word if line[:1].isspace() else None
        names = (done.group("words") if done else line if word else already.group(1) or already.group(2) if already else "").split()
        for row in filter(None, map(parse_rpm.nevra, names)):
            if word in ("Removed", "Erased"):
                found.pop(row["name"], None) if found.get(row["name"]) == parse_rpm.evr(row) else None
            else:
                found[row["name"]] = parse_rpm.evr(row)
    return Parsed(found, [])


def _problems(line):
    missing = _NOT_FOUND.search(line)
    if missing:
        return [_problem("no_match", {"package": word}) for word in missing.group("packages").split()]
    for reason, sentence in _COMPILED:
        match = sentence.search(line)
        if match:
            return [_problem(reason, match.groupdict())]
    return []


_YUM = re.compile(r"\s*(?:Error: )?(?P<key>Package|Requires|Installed|Available|Updated By|Removing): (?P<words>\S.*)")


def _yum_needs(lines):
    """yum's blocks about one package that cannot have what it needs, over several lines: what it needs, and what there is instead.

    Of two packages of one name, one installed and one offered, a row of the reason "instead" tells.
    """
    found, package, what, there = [], None, None, {}
    for line in lines:
        said = _YUM.fullmatch(line)
        key, word = (said.group("key"), said.group("words")) if said else (None, "")
        if key == "Package":
            package, what, there = word.split()[0], None, {}
        elif key == "Requires" and package:
            what, there = word.strip(), {}
            found.append(_problem("requires", {"package": package, "what": what}))
        elif key in ("Installed", "Available") and what and parse_rpm.nevra(word.split()[0]):
            name = _named(word.split()[0])[0]
            for other in there.get((name, "Installed" if key == "Available" else "Available"), []):
                pair = (word.split()[0], other) if key == "Available" else (other, word.split()[0])
                found.append(_problem("instead", {"package": pair[0], "other": pair[1], "what": what}))
            there.setdefault((name, key), []).append(word.split()[0])
    return found


def _problem(reason, said):
    row = dict({"reason": reason}, **dict.fromkeys(("package", "version", "arch", "other", "what", "repo", "old", "new")))
    row.update((key, said.get(key)) for key in ("what", "repo", "old", "new"))
    row.update(zip(("package", "version", "arch"), _named(said.get("package"))))
    if said.get("other"):
        row["other"] = dict(zip(("name", "version", "arch"), _named(said["other"])))
    return row


def _named(word):
    """(name, version, arch) of a package as a sentence writes it."""
    if not word:
        return None, None, None
    row = parse_rpm.nevra(word.rstrip(",;")) or parse_rpm.nevra(word.rstrip(",.;"))
    if row:
        return row["name"], parse_rpm.evr(row), row["arch"]
    # What people ask for has no architecture, and perhaps no release; a version has a dot, a branch in a name has none.
    short = None if _ONE_KERNEL.match(word) else _SHORT.fullmatch(word.rstrip(",;"))
    return (short.group("name"), short.group("version"), None) if short else (word.rstrip(",;"), None, None)
