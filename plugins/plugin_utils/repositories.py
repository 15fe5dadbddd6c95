# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The text of our own file of package sources, and the keys it needs.

For apt deb822 (sources.list(5)), for dnf an ini file (dnf.conf(5), repository options). A source that the node has already, in
whatever file, is used as it is and never doubled: apt refuses one source under two keys.
"""
from __future__ import annotations

import itertools
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import repository_keys
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_apt import OWN_SOURCES
from ansible_collections.lockstep.gpu.plugins.plugin_utils import package_sets
from ansible_collections.lockstep.gpu.plugins.plugin_utils.slices import PlanError, fill

OWN_REPO = "/etc/yum.repos.d/lockstep-gpu.repo"
OWN = {"apt": OWN_SOURCES, "dnf": OWN_REPO}
KEYRING = {"apt": "/usr/share/keyrings/lockstep-gpu-%s.gpg", "dnf": "/etc/pki/rpm-gpg/RPM-GPG-KEY-lockstep-gpu-%s"}
# sources.list(5): options of the one-line form whose deb822 field has another name. apt wants them equal for equal sources.
LONG_OPTIONS = {"arch": "Architectures", "lang": "Languages", "target": "Targets"}
SETTINGS = ("url", "suite", "components", "key", "fingerprint", "fingerprints", "options")
FINGERPRINT = re.compile(r"[0-9A-F]{40}")
NO_OPTION = re.compile(r"trusted|allow[-_].*|.*gpgcheck|signed[-_]by|gpgkey|types|uris|suites|components|enabled|name|baseurl|mirrorlist|metalink",
                       re.IGNORECASE)
# In the order of our file.
IDS = ("doca", "mlnx", "cuda", "container_toolkit")
OURS = re.compile(r"lockstep-gpu-(%s)\b" % "|".join(IDS))
HEAD = "# Written by lockstep.gpu: vendors' repositories that this node's stack needs.\n"


# -- vendors' repositories ---------------------------------------------------------------------------


def chosen(needs, system, facts, overrides):
    """[{id, type, url, suite, components, key, fingerprints, options}] of the repositories that a stack needs, each once.

    needs: (id, values for the placeholders of its address) by component; overrides: lockstep_repositories. Raises PlanError.
    """
    given = checked(overrides)
    found = {}
    for name, values in needs:
        own = given.get(name, {})
        row = next((row for row in facts["repositories"]["repositories"] if row["id"] == name and package_sets.same_system(row["when"], system)), None)
        if row is None:
            raise PlanError("compat/repositories.yml: has no repository '%s' for %s %s" % (name, system.get("id"), system.get("release")))
        words = dict(values, arch=row["arch"].get(system.get("arch") or "x86_64", ""), release=".".join(str(system.get("release")).split(".")[:2]))
        url = own.get("url") or fill(row["url"], words)
        # A mirror of the same repository has the same maker, and so the same key.
        found[name] = {
            "id": name, "type": row["type"], "url": url.rstrip("/") + "/", "suite": own.get("suite") or row.get("suite") or "/",
            "components": own.get("components") or [], "key": own.get("key") or fill(row["key"], dict(words, url=url.rstrip("/"))),
            "fingerprints": prints(own) or row.get("fingerprints") or [], "options": own.get("options") or {},
        }
        if row["type"] == "apt" and found[name]["suite"].endswith("/") == bool(found[name]["components"]):
            raise PlanError("lockstep_repositories.%s.suite: a path, that is '/' at its end, has no components, and any other suite has some; here are"
                            " '%s' and %s" % (name, found[name]["suite"], ", ".join(found[name]["components"]) or "none"))
    return list(found.values())


def checked(overrides):
    """The user's repositories by id; a slip of a key must not pass for nothing said. Raises PlanError."""
    given = overrides or {}
    if not isinstance(given, dict):
        raise PlanError("lockstep_repositories: expected repositories by id")
    for name, row in given.items():
        if name not in IDS or not isinstance(row, dict):
            raise PlanError("lockstep_repositories.%s: is not known; candidates: %s, each a mapping" % (name, ", ".join(IDS)))
        for key, value in row.items():
            if key not in SETTINGS:
                raise PlanError("lockstep_repositories.%s.%s: is not known; candidates: %s" % (name, key, ", ".join(SETTINGS)))
            if key in PLAIN and not PLAIN[key][0](value):
                raise PlanError("lockstep_repositories.%s.%s: expected %s" % (name, key, PLAIN[key][1]))
        if row.get("fingerprint") and row.get("fingerprints"):
            raise PlanError("lockstep_repositories.%s.fingerprint: say it once, here or under fingerprints" % name)
        bad = [one for one in prints(row) if not FINGERPRINT.fullmatch(one)]
        if bad:
            raise PlanError("lockstep_repositories.%s.fingerprint: '%s' is not the 40 digits of a key's fingerprint" % (name, bad[0][:60]))
    return given


def one_word(value):
    """Whether a value is a word on one line: what stands in a file of sources must not end there and begin anew."""
    return isinstance(value, str) and bool(value) and value.isprintable() and " " not in value


def plain_url(value):
    """Whether a value is an address with its scheme: https://..., file:/srv/..."""
    return one_word(value) and bool(re.match(r"[a-z][a-z0-9+.-]*:/", value))


def plain_components(value):
    """Whether a value is a list of words, or nothing."""
    return value is None or isinstance(value, list) and all(one_word(one) for one in value)


def plain_key(value):
    """Whether a value is a key in ASCII armour, an absolute path, an address, or nothing."""
    if value is None or value == "":
        return True
    return isinstance(value, str) and (value.strip().startswith("-----BEGIN") or one_word(value.strip()) and bool(re.match(r"/|https?://", value.strip())))


def plain_options(options):
    """Whether options of a source are names with values on one line. What would switch the checks off is none, nor is what we write ourselves:
    of a name that stands twice, the last one counts.
    """
    return isinstance(options, dict) and all(
        isinstance(name, str) and re.fullmatch(r"[A-Za-z][\w-]*", name) and not NO_OPTION.fullmatch(name) and isinstance(value, (str, int))
        and str(value).strip() and str(value).isprintable() for name, value in options.items())


# How each setting is checked, and what to say of another value.
PLAIN = {
    "url": (plain_url, "an address on one line, with its scheme"), "suite": (one_word, "an address on one line"),
    "components": (plain_components, "a list of words"),
    "key": (plain_key, "a key in ASCII armour, an absolute path on the node, or an address"),
    "options": (plain_options, "names with values on one line each"),
}


def prints(row):
    """The fingerprints of a row of the user's, without the spaces and colons that people copy along."""
    said = row.get("fingerprints") or row.get("fingerprint") or []
    return [repository_keys.plain(str(one)) for one in (said if isinstance(said, list) else [said])]


def same_address(one, other):
    """Whether two addresses of repositories are one, however they end."""
    return str(one).rstrip("/").lower() == str(other).rstrip("/").lower()


def there_already(row, state):
    """Whether the node has this repository, and not only its sources, enabled in a file that is not ours."""
    own = OWN[row["type"]]
    return any(entry.get("enabled", True) and entry.get("file") != own and entry.get("types") != ["deb-src"]
               and any(same_address(uri, row["url"]) for uri in entry.get("uris") or [])
               for entry in (state.get("package_manager") or {}).get("sources") or [])


def vendors(rows, state):
    """(text of our file, [{path, key, fingerprints}]) for those repositories that the node does not have itself. Raises PlanError.

    What our file has of repositories that this stack does not name stays: a role alone asks for its own product only.
    """
    found = kept(rows, state)
    rows = [row for row in rows if not there_already(row, state)]
    for row in rows:
        if not row["fingerprints"]:
            raise PlanError("no fingerprint is known of the key that signs %s; read it from a source that you trust and add it to your variables:"
                            " lockstep_repositories: {%s: {fingerprint: <40 digits of the key behind %s>}}" % (row["url"], row["id"], row["key"]))
    found.update((row["id"], ini(row) if row["type"] == "dnf" else deb822(row)) for row in rows)
    text = "\n".join(found[name] for name in IDS if name in found)
    return HEAD + text if text else "", [{"path": KEYRING[row["type"]] % row["id"], "key": row["key"], "fingerprints": row["fingerprints"]} for row in rows]


def kept(rows, state):
    """{id: stanza} of our file for repositories that are not among the rows, and that the node has nowhere else."""
    manager = state.get("package_manager") or {}
    found = {}
    for stanza in (manager.get("own_sources") or "").split("\n\n"):
        name, url = OURS.search(stanza), re.search(r"^(?:URIs: |baseurl=)(\S+)$", stanza, re.MULTILINE)
        if name and url and name[1] not in {row["id"] for row in rows}:
            row = {"type": "dnf" if "baseurl=" in stanza else "apt", "url": url[1]}
            if not there_already(row, state):
                found[name[1]] = "".join(line + "\n" for line in stanza.splitlines() if line and not line.startswith("#"))
    return found


def deb822(row):
    """A stanza of sources.list(5); a flat repository has a path for a suite, and no components."""
    lines = ["Types: deb", "URIs: " + row["url"], "Suites: " + row["suite"]]
    if row["components"]:
        lines.append("Components: " + " ".join(row["components"]))
    lines += ["%s: %s" % (LONG_OPTIONS.get(key, key.title()), value) for key, value in sorted(row["options"].items())]
    return "\n".join([*lines, "Signed-By: " + KEYRING["apt"] % row["id"]]) + "\n"


def ini(row):
    """A section of a .repo file: the packages and the metadata are checked."""
    name = "lockstep-gpu-" + row["id"]
    lines = ["[%s]" % name, "name=" + name, "baseurl=" + row["url"], "enabled=1", "gpgcheck=1", "repo_gpgcheck=1",
             "gpgkey=file://" + KEYRING["dnf"] % row["id"]]
    return "\n".join([*lines, *("%s=%s" % item for item in sorted(row["options"].items()))]) + "\n"


# -- the distribution's own archive ------------------------------------------------------------------


def is_distributions_own(entry, uri):
    """True for the distribution's own archive: other vendors, too, call a suite by its code name and a component main."""
    last = uri.rstrip("/").rsplit("/", 1)[-1]
    return bool(re.search(r"(debian|ubuntu)-archive-keyring", entry.get("signed_by") or "")) or last.startswith(("debian", "ubuntu"))


def archive_of(state):
    """{(uri, suite): {components, signed_by, options}} of the distribution's own archive, as the node's sources have it."""
    codename = (state.get("os") or {}).get("codename") or ""
    suites = {codename, codename + "-updates", codename + "-security"}
    found, own = {}, {}
    for entry in (state.get("package_manager") or {}).get("sources") or []:
        if not entry.get("enabled", True) or entry["file"] == OWN_SOURCES or "deb" not in entry["types"]:
            continue
        for uri, suite in itertools.product(entry["uris"], entry["suites"]):
            if suite in suites:
                row = found.setdefault((uri.rstrip("/"), suite), {
                    "components": set(), "signed_by": entry.get("signed_by"), "options": entry.get("options") or {}})
                row["components"] |= set(entry["components"])
                if is_distributions_own(entry, uri):
                    own[(uri.rstrip("/"), suite)] = row
    # A mirror by any other name: the only one that has this release.
    return own or (found if len({uri for uri, dummy in found}) == 1 else {})


def repositories(need, state):
    """deb822 text that adds the archive components the stack needs to the distribution's own sources of this node.

    The node keeps using the mirror it has. Empty when nothing is missing.
    """
    stanzas = []
    for (uri, suite), row in archive_of(state).items():
        missing = [name for name in need if name not in row["components"]]
        if "main" not in row["components"] or not missing:
            continue
        lines = ["Types: deb", "URIs: " + uri, "Suites: " + suite, "Components: " + " ".join(missing)]
        lines += ["%s: %s" % (LONG_OPTIONS.get(key, key.title()), value.replace(",", " ")) for key, value in sorted(row["options"].items())]
        if row["signed_by"]:
            # An embedded key has several lines, each a continuation in deb822.
            lines.append("Signed-By: " + row["signed_by"].replace("\n", "\n "))
        stanzas.append("\n".join(lines) + "\n")
    if not stanzas:
        return ""
    return ("# Written by lockstep.gpu: archive components that this node's stack needs, from the node's own mirror.\n"
            + "\n".join(stanzas))
