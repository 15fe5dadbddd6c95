# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""apt_preferences(5) texts: the exact pins of a node, and what keeps apt on the stack's versions while it resolves.

Of several stanzas that fit a version of a package the first one counts, by the names of the files and by the order within
one, whether it names the package or only a glob fits; so what is exact stands first. A stanza for ``*`` alone is weaker
than all of them.
"""
from __future__ import annotations

import fnmatch
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import closure
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt import OWN_PREFERENCES, OWN_PRIORITY, parse_preferences

HEAD = "# Written by lockstep.gpu: the exact versions of this node's stack. Changes are undone by the next run.\n"
NEVER = -1
# apt_preferences(5): for people; it tells us whose stanza it is.
EXPLAINS = "Explanation: the stack's "


def stanza(packages, pin, priority, component=None):
    """One stanza; packages: names, globs or src: words; component: the slice that it is for."""
    head = EXPLAINS + component + "\n" if component else ""
    return head + "Package: %s\nPin: %s\nPin-Priority: %d\n" % (" ".join(packages), pin, priority)


def exact(pins, priority=OWN_PRIORITY):
    """Stanzas for {name: version}. Above 1000 a pin also brings an older version."""
    return [stanza([name], "version " + pins[name], priority) for name in sorted(pins)]


def away(slices):
    """Stanzas that take names from an origin which is not the stack's."""
    return [stanza(row["packages"], "release " + row["release"], NEVER, part["name"])
            for part in slices for row in part.get("away") or [] if row.get("release")]


def guard(slices):
    """Stanzas for what may be installed later: at the slice's versions, or not at all."""
    found = []
    for part in slices:
        if part.get("guard") and part.get("globs"):
            found += [stanza(part["guard"], "version " + glob, OWN_PRIORITY, part["name"]) for glob in part["globs"]]
            found.append(stanza(part["guard"], "version *", NEVER, part["name"]))
    return found


def unguarded(slices, pins):
    """Package fields of guard and away that our own preferences file lacks; pins: rows of parse_apt.parse_preferences()."""
    there = {(pin["package"], pin["pin"], pin["priority"]) for pin in pins if pin["file"] == OWN_PREFERENCES}
    wanted = parse_preferences("==> %s <==\n%s" % (OWN_PREFERENCES, "\n".join(away(slices) + guard(slices)))).value
    return list(dict.fromkeys(pin["package"] for pin in wanted if (pin["package"], pin["pin"], pin["priority"]) not in there))


def is_away(slices, name):
    """Whether a slice keeps this name away from some origin."""
    return any(fnmatch.fnmatchcase(name, glob) for part in slices for row in part.get("away") or []
               if row.get("release") for glob in row["packages"])


def kept(slices, now):
    """Stanzas of our file, as it is now, that are for components which the slices neither name nor take over."""
    names, found = {part["name"] for part in slices}, {}
    for part in now.split("\n\n"):
        for line in part.splitlines():
            if line.startswith(EXPLAINS) and line[len(EXPLAINS):] not in names:
                found.setdefault(line[len(EXPLAINS):], []).append(part.strip("\n") + "\n")
    return [text for component, texts in found.items() if not closure.taken_over(slices, component) for text in texts]


def render(slices, pins, now=""):
    """Text of the collection's own preferences file: every package at its version, then what keeps others away.

    now: the file's text so far; what it has of components that the slices do not name stays, as their pins do.
    """
    # What is kept away stands before what is guarded; the rest of the order makes the file the same whoever wrote it last.
    body = exact(pins) + sorted(away(slices) + guard(slices) + kept(slices, now), key=lambda text: ("\nPin: version " in text, text.partition("\n")[0]))
    return HEAD + "\n" + "\n".join(body) if body else HEAD


def while_resolving(slices, targets):
    """Text that keeps whole products at the stack's version while apt resolves; targets: {name: version} that is known.

    Without it apt takes the newest version for what is not asked for by name, and then finds no solution where the
    parts of a driver depend on each other by exact version, or takes the newest part where they do not. Of a source
    package's other binaries the chosen revision comes first, any other one that fits second.
    """
    stanzas = exact(targets, OWN_PRIORITY + 1) + away(slices)
    for part in slices:
        chosen = targets.get(part["requests"][0]["name"]) if part["requests"] else None
        if not chosen or not part.get("globs"):
            continue
        versions = [chosen]
        if part["globs"][0].startswith("*~") and "~" in chosen:
            # CUDA's parts count by themselves; what they share follows the first tilde.
            tail = chosen.split("~", 1)[1]
            versions = ["*~" + tail, tail]
        for priority, globs in ((OWN_PRIORITY + 1, versions), (OWN_PRIORITY, part["globs"])):
            stanzas += [stanza(["src:" + source], "version " + version, priority)
                        for source in part.get("one_version") or [] for version in globs]
    return "\n".join(stanzas + guard(slices))


def covers(words, name):
    """Whether a Package field (names, globs, /expressions/ or *) speaks of a package."""
    for word in words.split():
        if len(word) > 1 and word.startswith("/") and word.endswith("/"):
            try:
                if re.search(word[1:-1], name, re.IGNORECASE):
                    return True
            except re.error:
                continue
        elif fnmatch.fnmatchcase(name, word.partition(":")[0] or word):
            return True
    return False


def forbidding(pins, name):
    """Files of the user's pins (rows of parse_apt.parse_preferences) that keep versions of a package away."""
    return sorted({pin["file"] for pin in pins if pin["priority"] < 0 and covers(pin["package"], name)})
