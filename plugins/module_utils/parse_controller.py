# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible itself said: its version, the Python of a node, and why a first module failed.

Sentences: lib/ansible/module_utils/basic.py, modules/apt.py, modules/dnf.py, modules/dnf5.py and plugins/action/reboot.py of
github.com/ansible/ansible, in the releases from 2.9 on.
"""

from __future__ import annotations

import json
import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, shown

_LONGEST = 100000
_SHORT = 5000
_CORE = tuple(re.compile(pattern % r"(\d+\.\d+(?:\.\w+)*)") for pattern in (
    r"ansible(?:-[a-z]+)? \[(?:core|base) %s\]", r"ansible(?:-core|-base)?[ =]+v?%s", r"Version: %s", r"v?%s$"))


def parse_ansible_version(text):
    """`ansible --version` ("ansible [core 2.17.5]", "ansible 2.9.27"), `pip show ansible-core`, or the bare number, to the version."""
    for line in text[:_LONGEST].splitlines():
        line = line.strip()
        found = next((match for match in (pattern.match(line) for pattern in _CORE) if match), None)
        if found:
            return Parsed(found.group(1), [])
    return Parsed(None, ["no version of ansible-core in it"])


_PYTHON = re.compile(r"(?<![\w.])([23]\.\d{1,2}\.\d{1,2})(?![\d.])")
_PATH = re.compile(r"(?<![\w./+-])(/[\w./+-]{0,200}python[\w.-]{0,20})")
_NO_PYTHON = re.compile(r"not found|No such file or directory|cannot execute|No python interpreters found", re.IGNORECASE)


def parse_target_python(text, rc=0):
    """The Python of a node to {path, version}: "/usr/bin/python3 3.6.8", "Python 3.6.8", a shell's "not found" (version None)."""
    text = text[:_SHORT]
    version, path = _PYTHON.search(text), _PATH.search(text)
    if version is None and rc != 127 and not _NO_PYTHON.search(text):
        return Parsed(None, ["no version of Python in it"])
    return Parsed({"path": path.group(1) if path else None, "version": version.group(1) if version else None}, [])


# basic.py: 2.17 to 2.20, 2.21 on, and 2.16 with its two minimums (the last number is Python 3's).
_MINIMUM = (re.compile(r"requires a minimum of Python2 version 2\.\d+ or Python3 version (3\.\d+)\. Current version: (\d+\.\d+\.\d+)"),
            re.compile(r"requires a minimum of Python version (3\.\d+)\. Current version: (\d+\.\d+\.\d+)"),
            re.compile(r"requires Python (3\.\d+) or newer on the target\. Current version: (\d+\.\d+\.\d+)"))
_ABSENT = (re.compile(r"(?:/bin/sh: (?:\d+: |line \d+: )?|bash: |zsh:\d*: ?)((?:/[\w./+-]*)?python[\w.]*): "
                      r"(?:not found|No such file or directory|command not found)"),
           re.compile(r"module interpreter '([^'\s]+)' was not found"),
           re.compile(r"bad interpreter: ([^\s:]*python[\w.]*)"),
           re.compile(r"No python interpreters found for host ()"))
# (what it says, the package that is missing). The interpreter, where it is named, is group "path", its version group "version".
_USING = r"(?: using (?P<path>\S+) \((?P<version>\d+\.\d+\.\d+))?"
_BINDINGS = (
    (re.compile(r"Could not import the (?P<module>dnf|libdnf5|rpm|yum|apt_pkg|python3-apt|python-apt|apt) (?:python )?module" + _USING), None),
    (re.compile(r"Could not import python modules: (?P<module>apt)\b[^.\n]{0,40}\. Please install (?P<package>python3?-apt)"), None),
    (re.compile(r"(?P<package>python3?-apt|python3-libdnf5|python3?-dnf) must be installed(?: and visible from (?P<path>[^\s\"]*[^\s\".]))?"), None),
    (re.compile(r"python bindings \((?P<package>[\w-]*selinux[\w-]*)\) aren't installed|(?P<package2>libselinux-python|python3-libselinux) (?:is )?required"
                r"|Failed to import the required Python library \((?P<package3>libselinux-python|python3-libselinux|python3?-apt|python3?-dnf)\)"), None),
    (re.compile(r"The Python 2 yum module is needed for this module|(?P<module>yum) module is not (?:supported|available)"), "yum"),
    (re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '?(?P<module>apt_pkg|apt|dnf|libdnf5|hawkey|rpm|selinux)\b"), None),
)
_PACKAGE_OF = {"dnf": "python3-dnf", "libdnf5": "python3-libdnf5", "rpm": "python3-rpm", "hawkey": "python3-hawkey", "yum": "yum", "apt_pkg": "python3-apt",
               "apt": "python3-apt", "selinux": "python3-libselinux", "libselinux-python": "python3-libselinux"}
_ATTEMPTED = re.compile(r"\(attempted \[([^\]\n]{0,400})\]\)")


def parse_ansible_error(text, rc=0):
    """What a failed module or play printed, to {kind, minimum, python, interpreter, bindings, local_reboot, no_module}.

    kind: python_too_old or python_missing, else None. minimum: the Python that Ansible named. python: the node's version, where it is
    told. bindings: rows {package, interpreter, version, attempted} that are missing. local_reboot: a reboot of the controller was refused.
    no_module: the module that Ansible does not find.
    """
    text = text[:_LONGEST].replace('\\"', '"').replace("\\n", "\n")
    unknown = re.search(r"couldn't resolve module/action '([\w.]+)'|[Tt]he module ([\w.]+) was not found in configured module paths", text)
    found = {"kind": None, "minimum": None, "python": None, "interpreter": None, "bindings": _bindings(text),
             "no_module": unknown and (unknown.group(1) or unknown.group(2)),
             "local_reboot": "with local connection would reboot the control node" in text}
    named = next((match for match in (pattern.search(text) for pattern in _MINIMUM) if match), None)
    absent = next((match for match in (pattern.search(text) for pattern in _ABSENT) if match), None)
    if named:
        found.update(kind="python_too_old", minimum=named.group(1), python=named.group(2))
    elif "future feature annotations is not defined" in text:
        # That future came with Python 3.7 (PEP 563).
        found.update(kind="python_too_old", minimum="3.7")
    elif re.search(r"SyntaxError: invalid syntax", text) and re.search(r"AnsiballZ|ansible[\w./]*payload|ansible/module_utils", text):
        found.update(kind="python_too_old")
    elif absent:
        found.update(kind="python_missing", interpreter=absent.group(1) or None)
    if found["kind"] == "python_too_old" and not found["interpreter"]:
        path = re.search(r"discovered_interpreter_python\W{1,6}(/[\w./+-]+)", text)
        found["interpreter"] = path.group(1) if path else None
    return Parsed(found, [])


def _bindings(text):
    rows = []
    for pattern, fixed in _BINDINGS:
        for match in pattern.finditer(text):
            groups = match.groupdict()
            name = next((groups[key] for key in ("package", "package2", "package3", "module") if groups.get(key)), fixed)
            attempted = _ATTEMPTED.search(text[match.end():match.end() + 800])
            row = {"package": _PACKAGE_OF.get(name, name), "interpreter": groups.get("path"), "version": groups.get("version"),
                   "attempted": re.findall(r"'([^']+)'", attempted.group(1)) if attempted else []}
            same = next((one for one in rows if one["package"] == row["package"]), None)
            if same is None:
                rows.append(row)
            elif row["interpreter"] and not same["interpreter"]:
                same.update(row)
    return rows


def parse_ansible_result(text, rc=0):
    """A task's result as JSON, or Ansible's "fatal: [host]: FAILED! => {...}", to what parse_ansible_error says of its sentences."""
    words = []
    body = text[text.find("{"):text.rfind("}") + 1]
    try:
        result = json.loads(body) if body else None
    except (ValueError, RecursionError):
        result = None
    if isinstance(result, dict):
        words = [result[key] for key in ("msg", "module_stderr", "module_stdout", "stderr", "exception") if isinstance(result.get(key), str)]
    return parse_ansible_error("\n".join(words) if words else text, rc)


def parse_inventory(text, rc=0):
    """An inventory in INI or YAML to {local: whether a host of it has the local connection}."""
    local = re.search(r"ansible_connection\W{1,4}(?:ansible\.builtin\.)?local\b", text[:_LONGEST])
    return Parsed({"local": bool(local)}, [])


def parse_facts(text, rc=0):
    """Facts that a play had, as JSON, to {name: value} of the plain ones; prefixes and the key ansible_facts are taken off."""
    try:
        facts = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        return Parsed(None, ["no JSON: %s" % shown(str(error))])
    if isinstance(facts, dict) and isinstance(facts.get("ansible_facts"), dict):
        facts = facts["ansible_facts"]
    if not isinstance(facts, dict):
        return Parsed(None, ["no mapping of facts"])
    return Parsed({re.sub(r"^ansible_", "", key): value for key, value in facts.items() if isinstance(value, (str, bool, type(None)))}, [])
