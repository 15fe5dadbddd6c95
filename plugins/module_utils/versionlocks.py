# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our block in dnf's version lock file, what others wrote around it, and our note of a transaction. On dnf a lock is hold and pin in one.

Format, of dnf-versionlock(8): a pattern a line, ``name-epoch:version-release.arch`` with globs; a leading "!" excludes; lines that
start with "#" are comments. A package that is not installed is locked by it too. A whole pattern that does not split into the parts of
a name is taken for a name, and then locks nothing.
"""
from __future__ import annotations

import fnmatch
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import closure, parse_dnf, versions_rpm

LOCKS_FILE = "/etc/dnf/plugins/versionlock.list"
OWN_REPOSITORIES = "/etc/yum.repos.d/lockstep-gpu.repo"
# What a transaction of ours was about to install; it lies there while one runs, and after one that failed or was killed.
JOURNAL = "/var/lib/lockstep-gpu/transaction"
BEGIN, END = "# BEGIN lockstep.gpu", "# END lockstep.gpu"
_GUARDS = "# What must not come at another version whenever it is installed: "
_BLOCK = re.compile(r"^%s\n(.*?)^%s(?:\n|\Z)" % (re.escape(BEGIN), re.escape(END)), re.MULTILINE | re.DOTALL)
_EXACT = re.compile(r"(?P<name>[^\s*?\[\]!]+)-(?P<epoch>\d+):(?P<version>[^\s*?\[\]-]+)-(?P<release>[^\s*?\[\]-]+)\.(?P<arch>\*|i686)")
# NEVRA, NEVR, NEV of dnf; yum's have the epoch in front.
_FORMS = [re.compile(form) for form in (
    r"(?:(?P<first>\d+):)?(?P<name>[^:]+)-(?:(?P<epoch>\d+):)?(?P<version>[^:-]+)-(?P<release>[^:-]+)\.(?P<arch>[^:.-]+)",
    r"(?:(?P<first>\d+):)?(?P<name>[^:]+)-(?:(?P<epoch>\d+):)?(?P<version>[^:-]+)-(?P<release>[^:-]+)",
    r"(?P<name>[^:]+)-(?:(?P<epoch>\d+):)?(?P<version>[^:-]+)")]
_GLOB = re.compile(r"[*?\[]")


def lock_of(key, version):
    """The line that keeps a package of the state's table ("name" or "name:i686") at its version, whatever its architecture."""
    name, _colon, arch = key.partition(":")
    have = versions_rpm.parse(version)
    return "%s-%d:%s-%s.%s" % (name, have.epoch, have.version, have.release, arch or "*")


def version_globs(pattern):
    """A slice's pattern, a regular expression for "epoch:version-release", as globs: [(epoch, version, release)].

    An optional epoch gives two of them; whatever repeats becomes a star; the version must be written out.
    """
    optional = re.match(r"\((\d+:)\)\?", pattern)
    found = []
    for text in [optional.group(1) + pattern[optional.end():], pattern[optional.end():]] if optional else [pattern]:
        text = re.sub(r"(?:\\[dw]|\[[^\]]*\]|\([^()]*\)|\.)[+*?]|\\[dw]", "*", text)
        text = re.sub(r"\\(.)", r"\1", text)
        epoch, colon, rest = text.rpartition(":")
        version, _dash, release = rest.partition("-")
        found.append((epoch if colon else "0", version, release or "*"))
    return found


def guard_locks(part, pins):
    """The lines for a slice's `guard`: names at the slice's version, whatever their release, also those that nobody has installed."""
    return ["%s-%s:%s-%s.*" % (name, *glob) for name in part.get("guard") or [] if name not in pins for glob in version_globs(part["pattern"])]


def guards(text):
    """{component: [lines]} of the guards in our block."""
    found = {}
    for section in own_block(text).split(_GUARDS)[1:]:
        lines = section.splitlines()
        found[lines[0]] = [line for line in lines[1:] if line != END]
    return found


def render(slices, pins, now=""):
    """Our whole block; "" where nothing is locked. pins: {name: version}, every exact lock.

    now: the file's text so far, whose guards of components that the slices do not name stay, as their pins do.
    """
    exact = [lock_of(name, pins[name]) for name in sorted(pins)]
    found = {name: lines for name, lines in guards(now).items() if not closure.taken_over(slices, name)}
    found.update((part["name"], sorted(set(guard_locks(part, pins)) - set(exact))) for part in slices)
    if not exact and not any(found.values()):
        return ""
    lines = [BEGIN, "# The exact versions of this node's stack. Changes are undone by the next run.", *exact]
    for name in sorted(found):
        lines += [_GUARDS + name, *found[name]] if found[name] else []
    return "\n".join([*lines, END]) + "\n"


def unguarded(slices, pins, now):
    """Components whose guards our block, as it is now, does not have."""
    have = guards(now)
    return [part["name"] for part in slices if have.get(part["name"], []) != sorted(set(guard_locks(part, pins)) - {lock_of(*pin) for pin in pins.items()})]


def own_block(text):
    """Our block in the text of a lock file, with its marks; "" without one."""
    found = _BLOCK.search(text)
    return found.group() if found else ""


def own_pins(text):
    """{name: version} of the exact locks of our block, as render() takes them; guards are none."""
    pins = {}
    # A guard may be as exact.
    for line in own_block(text).partition(_GUARDS)[0].splitlines():
        found = _EXACT.fullmatch(line.strip())
        if found:
            key = found.group("name") if found.group("arch") == "*" else "%s:%s" % (found.group("name"), found.group("arch"))
            pins[key] = versions_rpm.joined(found.group("epoch"), found.group("version"), found.group("release"))
    return pins


def parse_journal(text):
    """{key: version} of JOURNAL, a "name=version" a line; other lines are passed over."""
    return {key: version for key, equals, version in (line.partition("=") for line in text.splitlines()) if key and equals}


def foreign(text):
    """[(line number, spec, whether it excludes)] of what others wrote."""
    own = own_block(text)
    if own:
        # Lines keep their numbers.
        text = text.replace(own, "\n" * own.count("\n"), 1)
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.split(" #")[0].strip()
        if word and not word.startswith("#"):
            found.append((number, word.lstrip("!"), word.startswith("!")))
    return found


def put_block(text, block):
    """The text of a lock file with our block replaced, added, or for "" taken out."""
    old = own_block(text)
    if old:
        return text.replace(old, block, 1)
    mine, lines = {line for line in block.splitlines() if not line.startswith("#")}, text.splitlines()
    # `dnf versionlock delete` drops all comments, our marks with them: what was our block is not somebody else's.
    if sum(line.strip() in mine for line in lines) * 2 > len(mine):
        lines = [line for line in lines if line.strip() not in mine]
    kept = "".join(line + "\n" for line in lines)
    return kept + block


def keeps(lock, name, version, arch=None):
    """Whether a row of parse_dnf_versionlock() keeps a package at this version, as dnf's plugin reads it.

    parse_dnf.locked() is about any tool's locks and is less strict: for dnf a name alone locks no version, and a glob does not reach from the
    name into the version.
    """
    if lock["conditions"] or lock["exclude"]:
        return parse_dnf.locked(lock, name, version, arch)
    try:
        have = versions_rpm.parse(version)
    except ValueError:
        return False
    for form in _FORMS:
        found = form.fullmatch(lock["spec"])
        if found and fnmatch.fnmatchcase(name, found.group("name")):
            wanted = dict({"first": None, "release": None, "arch": None}, **found.groupdict())
            epoch = wanted["epoch"] or wanted["first"]
            if (epoch in (None, str(have.epoch)) and fnmatch.fnmatchcase(have.version, wanted["version"])
                    and all(want is None or fnmatch.fnmatchcase(value, want) for value, want in (
                        (have.release, wanted["release"]), (arch or "noarch", wanted["arch"])))):
                return True
    return False


def held(packages, locks):
    """Names of packages {key: {version, others, arch}} that a lock keeps at an installed version. locks: parse_dnf_versionlock()."""
    found = set()
    for lock in locks:
        literal = _GLOB.split(lock["spec"], maxsplit=1)[0]
        for key, package in packages.items():
            name = key.partition(":")[0]
            # Hardly any lock is about this package.
            if key not in found and package.get("version") and (name.startswith(literal) or literal.startswith(name) or literal[:1].isdigit()):
                if any(keeps(lock, name, version, package.get("arch")) for version in [package["version"], *package.get("others", [])]):
                    found.add(key)
    return found


def remedies(packages, locks, path=LOCKS_FILE):
    """{name: what to do about it} of packages that others lock or exclude. locks: foreign()."""
    found = {}
    for number, spec, excludes in locks:
        row = {"spec": spec, "exclude": False, "conditions": []}
        for key, package in packages.items():
            name = key.partition(":")[0]
            if fnmatch.fnmatchcase(name, spec) or parse_dnf.names(row, name) or parse_dnf.locked(row, name, package["version"], package.get("arch")):
                found.setdefault(key, "remove line %d of %s (%s%s)" % (number, path, "!" if excludes else "", spec))
    return found
