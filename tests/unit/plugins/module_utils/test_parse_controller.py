# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible says of itself and of a node's Python, from several of its releases."""

from __future__ import annotations

import json

import pytest
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_controller as controller


@pytest.mark.parametrize("text,version", [
    ("ansible [core 2.17.5]\n  config file = None\n  python version = 3.12.3 (main)\n", "2.17.5"), ("ansible 2.9.27\n  python version = 2.7.5\n", "2.9.27"),
    ("ansible-playbook [core 2.18.0rc1]\n", "2.18.0rc1"), ("ansible-core 2.16.3\n", "2.16.3"), ("ansible-core==2.19.1\n", "2.19.1"),
    ("Name: ansible-core\nVersion: 2.20.0\n", "2.20.0"), ("2.17.5\n", "2.17.5"), ("zsh: command not found: ansible\n", None)])
def test_the_controllers_version(text, version):
    assert controller.parse_ansible_version(text).value == version


@pytest.mark.parametrize("text,rc,path,version", [
    ("/usr/libexec/platform-python 3.6.8\n", 0, "/usr/libexec/platform-python", "3.6.8"), ("Python 3.6.8\n", 0, None, "3.6.8"),
    ("3.12.3 (main, Apr 10 2024, 05:33:47) [GCC 13.2.0]\n", 0, None, "3.12.3"), ("Python 2.7.5\n", 0, None, "2.7.5"),
    ("/bin/sh: 1: /usr/bin/python3: not found\n", 127, "/usr/bin/python3", None), ("", 127, None, None),
    ("bash: python3: command not found\n", 127, None, None)])
def test_the_nodes_python(text, rc, path, version):
    assert controller.parse_target_python(text, rc) == ({"path": path, "version": version}, [])


def test_no_python_in_it():
    assert controller.parse_target_python("hello\n", 0).problems


@pytest.mark.parametrize("text,kind,minimum,python", [
    ("SyntaxError: future feature annotations is not defined", "python_too_old", "3.7", None),
    ("ansible-core requires a minimum of Python2 version 2.7 or Python3 version 3.5. Current version: 3.4.10 (default, x)", "python_too_old", "3.5", "3.4.10"),
    ("ansible-core requires a minimum of Python version 3.8. Current version: 3.7.17 (default)", "python_too_old", "3.8", "3.7.17"),
    ("Ansible requires Python 3.9 or newer on the target. Current version: 3.8.20 (default)", "python_too_old", "3.9", "3.8.20"),
    ('  File "/tmp/ansible_setup_payload_x/ansible_setup_payload.zip/ansible/module_utils/basic.py", line 5\nSyntaxError: invalid syntax', "python_too_old",
     None, None),
    ("SyntaxError: invalid syntax in my own script", None, None, None),
    ("/bin/sh: 1: /usr/bin/python: not found", "python_missing", None, None),
    ("/bin/sh: line 1: /usr/bin/python3: No such file or directory", "python_missing", None, None),
    ("The module interpreter '/usr/bin/python3.11' was not found.", "python_missing", None, None),
    ("[WARNING]: No python interpreters found for host node1 (tried ['python3.12'])", "python_missing", None, None), ("ok", None, None, None)])
def test_why_a_first_module_failed(text, kind, minimum, python):
    value = controller.parse_ansible_error(text, 2).value
    assert (value["kind"], value["minimum"], value["python"]) == (kind, minimum, python) and value["bindings"] == []


@pytest.mark.parametrize("text,package,interpreter,version", [
    ("Could not import the dnf python module using /usr/bin/python3 (3.8.10 (default, Jun 22 2022, 20:18:18) [GCC 9.4.0]). Please install `python3-dnf` or "
     "`python2-dnf` package or ensure you have specified the correct ansible_python_interpreter. (attempted ['/usr/libexec/platform-python', "
     "'/usr/bin/python3'])",
     "python3-dnf", "/usr/bin/python3", "3.8.10"),
    ("Could not import the libdnf5 python module using /usr/bin/python3 (3.13.0 (main, Oct  8 2024)). Please install python3-libdnf5 package",
     "python3-libdnf5",
     "/usr/bin/python3", "3.13.0"),
    ("Could not import the dnf python module. Please install `python3-dnf` package. (attempted ['/usr/bin/python3'])", "python3-dnf", None, None),
    ("python3-apt must be installed and visible from /opt/venv/bin/python.", "python3-apt", "/opt/venv/bin/python", None),
    ("python3-apt must be installed to use check mode. If run normally this module can auto-install it.", "python3-apt", None, None),
    ("Could not import python modules: apt, apt_pkg. Please install python3-apt package.", "python3-apt", None, None),
    ("Could not import the python3-apt module using /usr/local/bin/python3.12 (3.12.1 (main)). Ensure `python3-apt` package is installed", "python3-apt",
     "/usr/local/bin/python3.12", "3.12.1"),
    ("python3-libdnf5 must be installed to use check mode. If run normally this module can auto-install it.", "python3-libdnf5", None, None),
    ("Aborting, target uses selinux but python bindings (libselinux-python) aren't installed!", "python3-libselinux", None, None),
    ("ModuleNotFoundError: No module named 'apt'", "python3-apt", None, None)])
def test_bindings(text, package, interpreter, version):
    (row,) = controller.parse_ansible_error(text).value["bindings"]
    assert (row["package"], row["interpreter"], row["version"]) == (package, interpreter, version)
    fatal = "fatal: [node1]: FAILED! => " + json.dumps({"changed": False, "msg": text})
    assert controller.parse_ansible_result(fatal).value["bindings"] == [row]


def test_attempted_interpreters_are_kept():
    text = "Could not import the dnf python module. Please install `python3-dnf` package. (attempted ['/usr/libexec/platform-python', '/usr/bin/python3'])"
    assert controller.parse_ansible_error(text).value["bindings"][0]["attempted"] == ["/usr/libexec/platform-python", "/usr/bin/python3"]


def test_reboot_of_the_controller():
    text = json.dumps({"failed": True, "msg": "Running ansible.builtin.reboot with local connection would reboot the control node."})
    assert controller.parse_ansible_result(text).value["local_reboot"] is True
    assert controller.parse_ansible_result('{"failed": true, "msg": "unreachable"}').value["local_reboot"] is False


def test_inventory_and_facts():
    assert controller.parse_inventory("localhost ansible_connection=local\n").value == {"local": True}
    assert controller.parse_inventory("all:\n  hosts:\n    n1: {ansible_connection: ansible.builtin.local}\n").value == {"local": True}
    assert controller.parse_inventory("n1 ansible_connection=ssh\n").value == {"local": False}
    assert controller.parse_facts('{"ansible_facts": {"ansible_distribution": "Ubuntu", "mounts": []}}').value == {"distribution": "Ubuntu"}
    assert controller.parse_facts("").value == {} and controller.parse_facts("[").problems and controller.parse_facts("[]").problems
