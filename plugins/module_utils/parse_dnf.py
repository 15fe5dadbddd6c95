# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dnf's and yum's settings: module streams, version locks, main configuration, repositories.

Sources of the formats: dnf(8) module list and module info, modularity(7), dnf-versionlock(8), dnf5-versionlock(8), dnf.conf(5).
"""

from __future__ import annotations

import fnmatch
import re

from ansible_collections.lockstep.gpu.plugins.module_utils import parse_rpm, versions_rpm
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, shown, split_files

_MODULE_ROW = re.compile(r"(?P<name>[A-Za-z0-9][\w.+-]*)\s+(?P<stream>[\w.+-]+)(?P<flags>(?:\s*\[[deaix]\])*)(?:\s+(?P<rest>\S.*))?")
_PROFILE = re.compile(r"(?P<name>[\w.+-]+)(?P<flags>(?:\s*\[[dia]\])*)\s*(?P<comma>,?)\s*")
_MODULE_NOISE = re.compile(r"(Name +Stream|Hint: |Last metadata|Updating |Repositories loaded|Error: No matching Modules|No matching modules"
                           r"|Unable to resolve argument|Error: Problems in request|missing groups or modules|Loaded plugins|Not root"
                           r"|Subscription Management|Added \S+ repo from).*", re.IGNORECASE)
_FIELD = re.compile(r"(?P<key>[A-Z][A-Za-z ]*?)\s*:\s*(?P<value>.*)")
_TRUE, _FALSE = ("1", "yes", "true", "on"), ("0", "no", "false", "off")
_LOCK_NOISE = re.compile(r"(-+(\+-+)+$|Last metadata|Loaded plugins|Loading mirror|Updating |Repositories loaded|versionlock (list )?done|Not root|\s*\* "
                         r"|Adding |Deleting |Subscription Management|Unable to read consumer|Failed to set locale).*")
# The plugin that reads locks is a package of its own.
_NO_PLUGIN = re.compile(r"No such command:? '?versionlock|Unknown argument \"versionlock\"")


def parse_dnf_modules(text):
    """`dnf module list [NAME]` or `dnf module info NAME` to {module: {enabled, default, disabled, streams, profiles}}.

    enabled, default: a stream or None; profiles: the installed ones of the enabled stream (of any, where none is enabled).
    Rows need no alignment; a row may go on in the next line.
    """
    if re.search(r"^Stream\s*:", text, re.MULTILINE):
        return _module_info(text)
    value, problems, last, known = {}, [], None, not text.strip()
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or _MODULE_NOISE.fullmatch(line):
            known = known or bool(line.strip())
            continue
        if line[0].isspace():
            # The rest of a cell.
            if last:
                _add_profiles(last, line.strip())
            continue
        found = _MODULE_ROW.fullmatch(line.rstrip())
        # A line of one word or a sentence is a repository's name.
        if found and (found.group("flags") or re.search(r"\s{2,}|,|\[", line.strip())):
            last = _stream(value, found.group("name"), found.group("stream"), found.group("flags"))
            _add_profiles(last, found.group("rest") or "")
        elif re.search(r"\[[dexi]\]", line):
            problems.append(not_understood(number, line))
    if not value and not known:
        return Parsed(None, problems or [not_understood(1, text.strip()[:200])])
    return Parsed(_chosen_profiles(value), problems)


def _stream(value, name, stream, flags):
    """Note one stream of a module; returns where its profiles go."""
    module = value.setdefault(name, {"enabled": None, "default": None, "disabled": False, "streams": [], "profiles": []})
    if stream not in module["streams"]:
        module["streams"].append(stream)
    if "[e]" in flags:
        module["enabled"] = stream
    if "[d]" in flags:
        module["default"] = stream
    if "[x]" in flags:
        module["disabled"] = True
    cell = {"stream": stream, "installed": [], "last": None}
    module["profiles"].append(cell)
    return cell


def _add_profiles(cell, text):
    """Read "default [d] [i], fm, ks Summary": only a comma leads to one more profile."""
    place = 0
    while True:
        found = _PROFILE.match(text, place)
        if not found:
            break
        place, cell["last"] = found.end(), found.group("name")
        if "[i]" in found.group("flags"):
            cell["installed"].append(found.group("name"))
        if not found.group("comma"):
            break
    # A flag that a narrow table pushed into the next line.
    if text.startswith("[") and "[i]" in text and cell["last"]:
        cell["installed"].append(cell["last"])


def _chosen_profiles(value):
    for module in value.values():
        cells = [cell for cell in module["profiles"] if module["enabled"] in (None, cell["stream"])]
        module["profiles"] = sorted({name for cell in cells for name in cell["installed"]})
    return value


def _module_info(text):
    """The paragraphs of `dnf module info`."""
    value, name, cell, key = {}, None, None, None
    for line in text.splitlines():
        found = _FIELD.fullmatch(line.strip())
        if not found:
            continue
        # A value that goes on in the next line has no key.
        key = found.group("key") or key
        if key == "Name":
            name = found.group("value").strip()
        elif key == "Stream" and name:
            stream, _blank, flags = found.group("value").partition(" ")
            cell = _stream(value, name, stream, flags)
        elif key == "Profiles" and cell:
            _add_profiles(cell, found.group("value"))
    return Parsed(_chosen_profiles(value), [])


def parse_dnf_module_states(text):
    """Files of /etc/dnf/modules.d (`tail -v -n +1 *.module`) to the same as parse_dnf_modules(), without what nobody chose."""
    value, problems = {}, []
    for name, section, _path in _sections(text, problems):
        stream, state = section.get("stream") or None, section.get("state", "")
        value[name] = {"enabled": stream if state == "enabled" else None, "default": None, "disabled": state == "disabled",
                       "streams": [stream] if stream else [],
                       "profiles": sorted(word.strip() for word in section.get("profiles", "").split(",") if word.strip())}
    return Parsed(value, problems)


def _sections(text, problems):
    """The sections of INI files, one or several: [(name, {key: value}, path or None)]. Before a section stands "main"."""
    files, _before = split_files(text) if text.lstrip().startswith("==> ") else ([(None, text)], [])
    found = []
    for path, content in files:
        name, section, key = "main", {}, None
        found.append((name, section, path))
        for number, line in enumerate(content.splitlines(), 1):
            header = re.fullmatch(r"\s*(?:\[([^\]]+)\]|=+ (\S.*?) =+)\s*", line)
            # grep -H writes the path before each line, -n its number.
            grepped = re.match(r"(/[^\s:=]+)\.(conf|repo):(?:\d{1,6}:)?", line) or re.match(r"()()\d{1,6}:(?=[a-z_]+ *=)", line)
            if grepped and grepped.group(2) == "repo" and name != grepped.group(1):
                name, section, path = grepped.group(1), {}, grepped.group()[:-1]
                found.append((name, section, path))
            setting = re.fullmatch(r"\s*([A-Za-z_][\w.-]*)\s*[=:]\s*(.*?)\s*", line[grepped.end():] if grepped else line)
            if header:
                name, section, key = (header.group(1) or header.group(2)).strip(), {}, None
                found.append((name, section, path))
            elif line[:1].isspace() and key and line.strip():
                section[key] = (section[key] + " " + line.strip()).strip()
            elif setting:
                key = setting.group(1).lower()
                section[key] = setting.group(2)
            elif line.strip() and line.lstrip()[0] not in "#;":
                problems.append(not_understood(number, line))
    return [(name, section, path) for name, section, path in found if section]


def _flag(value):
    """A setting that is true or false; None for anything else."""
    word = str(value).lower()
    return True if word in _TRUE else False if word in _FALSE else None


def _words(value):
    return [word for word in re.split(r"[\s,]+", value or "") if word]


def parse_dnf_config(text):
    """dnf.conf, yum.conf or `dnf config-manager --dump` to {installonly_limit, exclude, gpgcheck, module_stream_switch, plugins}.

    What is not set is None, exclude then []. Later files win.
    """
    problems, main = [], {}
    for name, section, _path in _sections(text, problems):
        if name == "main":
            main.update(section)
    limit = main.get("installonly_limit", "")
    if limit and not re.fullmatch(r"\d{1,6}|<off>|unlimited", limit):
        problems.append("installonly_limit is no number: %s" % shown(limit, 40))
    if problems and not main:
        return Parsed(None, problems)
    number = int(limit) if re.fullmatch(r"\d{1,6}", limit, re.ASCII) else 0 if limit in ("<off>", "unlimited") else None
    return Parsed({"installonly_limit": number, "exclude": _words(main.get("excludepkgs") or main.get("exclude")),
                   "gpgcheck": _flag(main.get("gpgcheck", main.get("pkg_gpgcheck"))),
                   "module_stream_switch": _flag(main.get("module_stream_switch")), "plugins": _flag(main.get("plugins"))}, problems)


def parse_dnf_repos(text):
    """.repo files (`tail -v -n +1 /etc/yum.repos.d/*.repo`, or the text of one) to [{id, file, uris, enabled, gpgcheck, exclude}].

    gpgcheck: None where the repository does not say. repo_gpgcheck is about metadata and vouches for no package.
    """
    problems, repos = [], []
    for name, section, path in _sections(text, problems):
        if name != "main":
            uris = [section[key] for key in ("baseurl", "mirrorlist", "metalink") if section.get(key)]
            repos.append({"id": name, "file": path, "uris": uris, "enabled": _flag(section.get("enabled", "1")) is not False,
                          "gpgcheck": _flag(section.get("gpgcheck", section.get("pkg_gpgcheck"))),
                          "exclude": _words(section.get("excludepkgs") or section.get("exclude"))})
    return Parsed(repos, problems)


def parse_dnf_versionlock(text):
    """Version locks to [{spec, exclude, conditions}].

    Of dnf 4 and yum: `versionlock list`, versionlock.list: a pattern a line, a leading "!" excludes. Of dnf 5: `versionlock list`,
    versionlock.toml: a name with conditions [[key, comparator, value]]. Of zypper: `zypper locks`, a name at whatever version.
    """
    if re.search(r"^[ \t]*\[\[packages\]\]|^version[ \t]*=[ \t]*\"", text, re.MULTILINE) or re.search(r"^Package name: ", text, re.MULTILINE):
        return _locks_of_dnf5(text)
    locks, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        columns = [column.strip() for column in line.split("|")]
        if len(columns) > 2 and (columns[0] == "#" or columns[0].isdigit()):
            locks += [{"spec": columns[1], "exclude": False, "conditions": []}] if columns[0] != "#" else []
            continue
        word = line.split(" #")[0].strip()
        if not word or word.startswith(("#", "==> ")) or _LOCK_NOISE.match(line) or _NO_PLUGIN.search(line):
            continue
        if re.search(r"\s", word) or not re.fullmatch(r"[!A-Za-z0-9*?\[][\w.+:~^*?\[\]!-]*", word):
            problems.append(not_understood(number, line))
        else:
            locks.append({"spec": word.lstrip("!"), "exclude": word.startswith("!"), "conditions": []})
    return Parsed(locks, problems)


def _locks_of_dnf5(text):
    locks, problems, condition = [], [], {}
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.strip()
        name = re.fullmatch(r"Package name: (\S+)|name\s*=\s*[\"']([^\"']+)[\"']", stripped)
        setting = re.fullmatch(r"(key|comparator|value)\s*=\s*[\"']([^\"']*)[\"']", stripped)
        shown = re.fullmatch(r"(epoch|version|release|evr|arch)\s*(=|!=|<=?|>=?)\s*(\S+)", stripped)
        if name:
            locks.append({"spec": name.group(1) or name.group(2), "exclude": False, "conditions": []})
        elif shown and locks:
            locks[-1]["conditions"].append([*shown.groups()])
        elif setting:
            condition[setting.group(1)] = setting.group(2)
            if len(condition) == 3 and locks:
                locks[-1]["conditions"].append([condition["key"], condition["comparator"], condition["value"]])
                condition = {}
        elif stripped and not re.match(r"#|\[\[packages|version\s*=|comment\s*=|==> ", stripped) and not _LOCK_NOISE.match(line):
            problems.append(not_understood(number, line))
    return Parsed(locks, problems)


def no_versionlock_plugin(text):
    """Whether `dnf versionlock` says that its plugin is not there, so that nothing is locked."""
    return bool(_NO_PLUGIN.search(text))


def locked(lock, name, version, arch=None):
    """Whether a row of parse_dnf_versionlock() keeps an installed package at its version (as the state has it)."""
    if lock["exclude"]:
        return False
    if lock["conditions"]:
        return lock["spec"] == name and all(_holds(condition, version, arch) for condition in lock["conditions"])
    # Plain `rpm -qa` shows no epoch; a lock's own one says nothing against it then.
    spec = lock["spec"] if ":" in version else re.sub(r"(^|-)\d+:(?=[^:]+$)", r"\1", lock["spec"])
    return any(fnmatch.fnmatchcase(written, pattern) for written in _ways_to_write(name, version, arch) for pattern in (lock["spec"], spec))


def names(lock, name):
    """Whether a lock is about a package, at whatever version."""
    if fnmatch.fnmatchcase(name, lock["spec"]):
        return True
    row = re.fullmatch(r"(?:\d+:)?(.+?)-(?:\d+:)?[\d*][^-]*(?:-[^-]+)?", lock["spec"])
    return bool(row and fnmatch.fnmatchcase(name, row.group(1)))


def _holds(condition, version, arch):
    key, comparator, value = condition
    if ":" not in version:
        # Plain `rpm -qa` shows no epoch.
        if key == "epoch":
            return True
        value = value.partition(":")[2] or value if key == "evr" else value
    try:
        have = versions_rpm.parse(version)
        if key == "evr":
            order = versions_rpm.compare(version, value)
        elif key == "epoch":
            order = have.epoch - int(value)
        elif key in ("version", "release"):
            order = versions_rpm.vercmp(getattr(have, key), value)
        else:
            return key == "arch" and (arch == value) == (comparator == "=")
    except ValueError:
        return False
    return {"=": order == 0, "!=": order != 0, "<": order < 0, "<=": order <= 0, ">": order > 0, ">=": order >= 0}.get(comparator, False)


def _ways_to_write(name, version, arch):
    """Every form of a package's name that dnf accepts in a lock."""
    try:
        have = versions_rpm.parse(version)
    except ValueError:
        return [name]
    with_release = "%s-%s" % (have.version, have.release) if have.release else have.version
    forms = [name, "%s-%s" % (name, have.version), "%s-%s" % (name, with_release), "%s-%d:%s" % (name, have.epoch, have.version),
             "%s-%d:%s" % (name, have.epoch, with_release), "%d:%s-%s" % (have.epoch, name, with_release)]
    # A lock of any architecture ends in ".*".
    return forms + ["%s.%s" % (form, arch or "noarch") for form in forms]


def parse_dnf_repoquery(text):
    """What repositories have, and perhaps what is installed: [{name, epoch, version, release, arch, repo, installed}].

    `dnf repoquery`, `dnf list [--showduplicates]`, `dnf list available`, `yum list`; a list without headings is what is there to
    be had.
    """
    return parse_rpm.read_table(text, installed=False)
