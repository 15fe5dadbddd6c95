# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the user of a node keeps away from dnf: version locks, excludes, module streams; respected, and named where it is in the way."""
from __future__ import annotations

import fnmatch
import os
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_dnf, versionlocks
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import read_text

try:
    import dnf.subject
    import hawkey
except ImportError:
    # dnf_python.ensure() has said so before anything here is called.
    pass

_KEYS = ("exclude", "excludepkgs", "includepkgs")


class Limits:
    """The limits of one base. Made before anything else is excluded.

    hidden: {(key, version)} that a lock or exclude of the user hides; filtered: the same for modules.
    """

    def __init__(self, ask, system, locks):
        self._ask, self._system, self._locks = ask, system, locks
        self._apply(locks)
        visible = ask.query()
        self.hidden = ask.query(flags=hawkey.IGNORE_REGULAR_EXCLUDES).difference(visible).apply()
        self.filtered = ask.query(flags=hawkey.IGNORE_MODULAR_EXCLUDES).difference(visible).apply()

    def _apply(self, locks):
        """Exclude what dnf's version lock plugin would, for the locks of others: the other versions, and what obsoletes the locked ones."""
        sack = self._ask.base.sack
        locked, excluded, names = sack.query().filterm(empty=True), sack.query().filterm(empty=True), set()
        forms = [hawkey.FORM_NEVRA, hawkey.FORM_NEVR, hawkey.FORM_NEV, hawkey.FORM_NA, hawkey.FORM_NAME]
        for dummy, spec, excludes in locks:
            for form in dnf.subject.Subject(spec).get_nevra_possibilities(forms=forms):
                fitting = form.to_query(sack)
                if excludes:
                    excluded = excluded.union(fitting)
                else:
                    names.add(form.name)
                    locked = locked.union(fitting)
                if fitting:
                    break
        if names:
            excluded = excluded.union(sack.query().filterm(name__glob=sorted(names)).difference(locked))
            if locked:
                excluded = excluded.union(sack.query().filterm(obsoletes=locked).difference(locked))
        excluded = excluded.available()
        if excluded:
            sack.add_excludes(excluded)

    def why(self, key, version):
        """Where the user says that dnf must not see a package: "FILE line N (text)", None where nobody does."""
        name = key.partition(":")[0]
        for number, spec, excludes in self._locks:
            row = {"spec": spec, "exclude": False, "conditions": []}
            here = parse_dnf.locked(row, name, version)
            if here if excludes else not here and (parse_dnf.names(row, name) or fnmatch.fnmatchcase(name, spec)):
                return "%s line %d (%s%s)" % (self._system.path(versionlocks.LOCKS_FILE), number, "!" if excludes else "", spec)
        repos = {package.reponame for package in self._ask.exact(key, version, self.hidden)}
        for path, section, number, option, words in self._settings():
            if section == "main" or section in repos:
                for word in words:
                    fits = parse_dnf.locked({"spec": word, "exclude": False, "conditions": []}, name, version)
                    if fits == (option != "includepkgs") and (fits or option == "includepkgs"):
                        return "%s line %d (%s=%s)" % (path, number, option, word)
        for number, spec, excludes in self._locks:
            if not excludes:
                # What would obsolete a locked package.
                return "%s (version locks of others)" % self._system.path(versionlocks.LOCKS_FILE)
        return None

    def _settings(self):
        """[(file, section, line number, option, words)] of excludes in dnf.conf and the .repo files."""
        conf, found = self._ask.base.conf, []
        files = [conf.config_file_path]
        for folder in conf.reposdir:
            files += [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(".repo")] if os.path.isdir(folder) else []
        for path in files:
            section, option = "main", None
            for number, line in enumerate((read_text(path) or "").splitlines(), 1):
                header, setting = re.match(r"\s*\[([^\]]+)\]", line), re.match(r"(\w+)\s*[=:]\s*(.*)", line)
                if header:
                    section, option = header.group(1), None
                elif setting:
                    option = setting.group(1).lower()
                    words = setting.group(2)
                elif option and line[:1].isspace():
                    words = line
                else:
                    continue
                if not header and option in _KEYS:
                    # A private copy of a file has the name that it has on the node.
                    shown = path if path == conf.config_file_path else os.path.join("/etc/yum.repos.d", os.path.basename(path))
                    found.append((shown, section, number, option, [word for word in re.split(r"[\s,]+", words) if word]))
        return found

    def problems(self, wanted):
        """Why none of these versions can be had though repositories have them: ([problems], [keys that nothing hides]).

        wanted: {key: versions that repositories have, hidden or not}. What the user hides is told for each package, what modules hide once.
        """
        found, hidden, free = [], {}, []
        for key, versions in wanted.items():
            version = next((version for version in versions if self._ask.exact(key, version, self.hidden)), None)
            filtered = next((version for version in versions if self._ask.exact(key, version, self.filtered)), None)
            if version:
                found.append({"code": "package_held_by_user", "name": key, "message": "%s %s is kept from dnf by %s; take that out, or name another "
                              "version in the stack" % (key, version, self.why(key, version) or "an exclude of the user")})
            elif filtered:
                hidden[key] = filtered
            else:
                free.append(key)
        return found + (self._filtered(hidden) if hidden else []), free

    def _filtered(self, hidden):
        """The problems of packages {key: version} that modular filtering hides: one for each module and way out."""
        groups = {}
        for key, version in hidden.items():
            groups.setdefault(self._streams_of(key, version), []).append("%s %s" % (key, version))
        # Where one stream has all of them, that is the answer.
        common = {module: set.intersection(*[set(streams) for one, streams in groups if one == module and streams] or [set()]) for module, dummy in groups}
        problems = {}
        for (module, streams), names in groups.items():
            streams = tuple(stream for stream in streams if stream in common[module]) or streams
            problems.setdefault((module, streams), []).extend(names)
        return [self._about_module(module, streams, names) for (module, streams), names in problems.items()]

    def _about_module(self, module, streams, names):
        state, stream = self._ask.stream_of(module) if module else ("unknown", "")
        now = {"enabled": "its stream %s is enabled" % stream, "disabled": "the module is disabled"}.get(state, "none of its streams is enabled")
        name = names[0].split()[0]
        if streams:
            return {"code": "module_stream_not_enabled", "name": name, "message": "filtered out by the module %s (%s): %s; streams that have it: %s" % (
                module, now, ", ".join(names), ", ".join(streams))}
        return {"code": "locked_version_gone_from_archive", "name": name, "message": (
            "in the repository, but filtered out, as no stream of the module %s lists it (%s): %s; module_hotfixes=1 in the repository's file "
            "would show it" % (module, now, ", ".join(names)))}

    def _streams_of(self, key, version):
        """(module, streams that list this package); the module is that of another version where none lists this one, "" without any."""
        name, streams, module = key.partition(":")[0], set(), ""
        epoch, colon, rest = version.rpartition(":")
        exact = "%s-%s:%s." % (name, epoch if colon else "0", rest)
        for row in self._ask.base._moduleContainer.getModulePackages():
            artifacts = [str(artifact) for artifact in row.getArtifacts()]
            if any(artifact.startswith(exact) for artifact in artifacts):
                streams.add("%s:%s" % (row.getName(), row.getStream()))
            if not module and any(re.match(r"%s-\d+:" % re.escape(name), artifact) for artifact in artifacts):
                module = str(row.getName())
        return module, tuple(sorted(streams))
