# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""More of Ansible's own side: Pythons, bindings, and the results of modules."""
from __future__ import annotations

import pytest

from .recorded import failed, judged
from .told import wrong

CASES = [
    pytest.param(
        {"os": "ubuntu-20.04"}, {
            "ansible_version": ("ansible [core 2.19.2]\n  config file = /etc/ansible/ansible.cfg\n"
                                "  configured module search path = ['/root/.ansible/plugins/modules']\n"
                                "  ansible python module location = /usr/lib/python3.12/site-packages/ansible\n"
                                "  executable location = /usr/bin/ansible\n"
                                "  python version = 3.12.3 (main, Nov  6 2024, 18:32:19) [GCC 13.2.0] (/usr/bin/python3)\n  jinja version = 3.1.2\n"
                                "  libyaml = True\n"),
            "target_python": "Python 3.8.10\n",
        }, "in_sync", [], [], id="py-219-u2004"),
    pytest.param(
        {"os": "ubuntu-20.04"}, {
            "ansible_version": ("ansible [core 2.20.0]\n  config file = /etc/ansible/ansible.cfg\n"
                                "  configured module search path = ['/root/.ansible/plugins/modules']\n"
                                "  ansible python module location = /usr/lib/python3.12/site-packages/ansible\n"
                                "  executable location = /usr/bin/ansible\n"
                                "  python version = 3.12.3 (main, Nov  6 2024, 18:32:19) [GCC 13.2.0] (/usr/bin/python3)\n  jinja version = 3.1.2\n"
                                "  libyaml = True\n"),
            "target_python": "Python 3.8.10\n",
        }, "blocked", [("target_python_too_old", "error", "3.8.10 3.9 2.20")], [("fail_preflight", "2.19")], id="py-220-u2004"),
    pytest.param(
        {"os": "amazon-2"}, {
            "ansible_version": ("ansible [core 2.17.0]\n  config file = /etc/ansible/ansible.cfg\n"
                                "  configured module search path = ['/root/.ansible/plugins/modules']\n"
                                "  ansible python module location = /usr/lib/python3.12/site-packages/ansible\n"
                                "  executable location = /usr/bin/ansible\n"
                                "  python version = 3.12.3 (main, Nov  6 2024, 18:32:19) [GCC 13.2.0] (/usr/bin/python3)\n  jinja version = 3.1.2\n"
                                "  libyaml = True\n"),
            "target_python": "Python 2.7.18\n",
        }, "blocked", [("target_python_too_old", "error", "2.7.18")], [("fail_preflight", "2.16")], id="py-amazon2"),
    pytest.param(
        {"os": "rhel-8.10"}, {
            "ansible_error": failed(('fatal: [node]: FAILED! => {"changed": false, "module_stderr": "", "module_stdout": "\\r\\n", "msg": '
                                     '"ansible-core requires a minimum of Python version 3.7. Current version: 3.6.8 (default, Jan 14 '
                                     '2022, 11:04:20) [GCC 8.5.0 20210514 (Red Hat 8.5.0-7)]", "rc": 1}\n'), 2),
        }, "blocked", [("target_python_too_old", "error", "3.7")], [("fail_preflight", "")], id="py-minver"),
    pytest.param(
        {"os": "ubuntu-24.04"}, {
            "ansible_error": failed(('fatal: [node]: FAILED! => {"changed": false, "module_stderr": "Shared connection to 10.0.0.5 '
                                     'closed.\\r\\n", "module_stdout": "/bin/sh: 1: /usr/bin/python3: not found\\r\\n", "msg": "The module '
                                     "failed to execute correctly, you probably need to set the interpreter.\\nSee stdout/stderr for the "
                                     'exact error", "rc": 127}\n'), 2),
        }, "blocked", [("target_python_too_old", "error", "")], [("fail_preflight", "")], id="py-none"),
    pytest.param(
        {"os": "rhel-8.10"}, {
            "ansible_error": failed(('fatal: [gpu01]: FAILED! => {"ansible_facts": {"discovered_interpreter_python": '
                                     '"/usr/bin/python3.6"}, "changed": false, "module_stderr": "  File '
                                     '\\"/root/.ansible/tmp/ansible-tmp-1/AnsiballZ_setup.py\\", line 4\\r\\nSyntaxError: future feature '
                                     'annotations is not defined\\r\\n", "module_stdout": "", "msg": "MODULE FAILURE", "rc": 1}\n'), 2),
        }, "blocked", [("target_python_too_old", "error", "")], [("fail_preflight", "")], id="py-future-only"),
    pytest.param(
        {"os": "fedora-41"}, {
            "ansible_error": failed(('fatal: [192.168.122.196]: FAILED! => {"changed": false, "failures": [], "msg": "Could not import '
                                     "the libdnf5 python module using /usr/bin/python3 (3.13.0 (main, Oct  8 2024, 00:00:00) [GCC 14.2.1 "
                                     "20240912 (Red Hat 14.2.1-3)]). Please install python3-libdnf5 package or ensure you have specified "
                                     "the correct ansible_python_interpreter. (attempted ['/usr/libexec/platform-python', "
                                     "'/usr/bin/python3', '/usr/bin/python2', '/usr/bin/python'])\"}\n"), 2),
        }, "blocked",
        [("package_bindings_missing", "error", "python3-libdnf5 /usr/bin/python3 3.13.0")],
        [("fail_preflight", ""), ("install_exact", "python3-libdnf5")], id="bi-libdnf5"),
    pytest.param(
        {"os": "fedora-42"}, {
            "ansible_error": failed(("TASK [Update dnf cache.] *****\nfatal: [node-4.local]: FAILED! => \n    changed: false\n    failures: []\n"
                                     "    msg: Could not import the libdnf5 python module using /usr/bin/python3 (3.13.5 (main,\n"
                                     "        Jun 12 2025, 00:00:00) [GCC 15.1.1 20250521 (Red Hat 15.1.1-2)]). Please install\n"
                                     "        python3-libdnf5 package or ensure you have specified the correct ansible_python_interpreter.\n"
                                     "        (attempted ['/usr/libexec/platform-python', '/usr/bin/python3', '/usr/bin/python'])\n"), 2),
        }, "blocked",
        [("package_bindings_missing", "error", "python3-libdnf5 3.13.5")],
        [("fail_preflight", ""), ("install_exact", "python3-libdnf5")], id="bi-yaml-cb"),
    pytest.param(
        {"os": "centos-8"}, {
            "ansible_result": failed(('{"changed": false, "msg": "Could not import the dnf python module using /usr/bin/python3.8 (3.8.0 '
                                      "(default, May  7 2020, 02:49:39) [GCC 8.3.1 20191121 (Red Hat 8.3.1-5)]). Please install "
                                      "`python3-dnf` or `python2-dnf` package or ensure you have specified the correct "
                                      "ansible_python_interpreter. (attempted ['/usr/libexec/platform-python', '/usr/bin/python3', "
                                      "'/usr/bin/python2', '/usr/bin/python'])\", \"results\": []}"), 2),
        }, "blocked", [("package_bindings_missing", "error", "python3-dnf /usr/bin/python3.8")], [("fail_preflight", ""), ("manual", "")], id="bi-dnf38"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "ansible_result": failed('{"changed": false, "msg": "python3-apt must be installed and visible from /opt/venv/bin/python3."}', 2),
        }, "blocked",
        [("package_bindings_missing", "error", "python3-apt /opt/venv/bin/python3")],
        [("fail_preflight", ""), ("manual", "")], id="bi-apt-must"),
    pytest.param(
        {"os": "ubuntu-20.04"}, {
            "ansible_error": failed(('localhost | FAILED! => {\n    "ansible_facts": {\n'
                                     '        "discovered_interpreter_python": "/home/static/.pyenv/shims/python3.7"\n    },\n    "changed": false,\n'
                                     '    "msg": "Could not import python modules: apt, apt_pkg. Please install python3-apt package."\n}\n'), 2),
        }, "blocked", [("package_bindings_missing", "error", "python3-apt")], [("fail_preflight", "")], id="bi-apt-import"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "ansible_result": '{"changed": false, "cache_update_time": 1700000000, "cache_updated": false}',
        }, "in_sync", [], [], id="bi-twin"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "ansible_result": failed(('{"changed": false, "msg": "A later version is already installed", "invocation": {"module_args": '
                                      '{"deb": "https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64'
                                      '/cuda-keyring_1.0-1_all.deb"}}}'), 2),
            "dpkg_list": "cuda-keyring\t1.1-1\tii \n",
        }, "in_sync", [("keyring_newer", "warn", "cuda-keyring 1.0-1 1.1-1")], [], id="key-args"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "ansible_result": failed(('{"msg": "Failed to lock apt for exclusive operation: Failed to lock directory '
                                      "/var/lib/apt/lists/: E:Could not get lock /var/lib/apt/lists/lock. It is held by process 3012 "
                                      '(apt-get)", "changed": false}'), 2),
        }, "unknown", [("apt_locked", "warn", "")], [("wait_for_lock", ""), ("retry", "")], id="lock-ansible-upd"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "ansible_result": failed(('{"changed": false, "msg": "Failed to update apt cache: W:GPG error: '
                                      "https://nvidia.github.io/libnvidia-container/stable/deb/amd64  InRelease: The following "
                                      "signatures were invalid: EXPKEYSIG DDCAE044F796ECB0 NVIDIA CORPORATION (Open Source Projects) "
                                      "<cudatools@nvidia.com>, E:The repository 'https://nvidia.github.io/libnvidia-contai"
                                      "ner/stable/deb/amd64  InRelease' is not signed.\"}"), 2),
        }, "blocked", [("repository_unauthenticated", "error", "nvidia.github.io")], [("configure_repository", "")], id="un-expkey"),
    pytest.param(
        {"os": "rocky-9"}, {
            "ansible_result": failed(('{"changed": false, "msg": "Failed to validate GPG signature for '
                                      "nvidia-container-toolkit-1.17.8-1.x86_64: Public key for "
                                      'nvidia-container-toolkit-1.17.8-1.x86_64.rpm is not installed", "rc": 1, "results": []}'), 2),
        }, "blocked", [("repository_unauthenticated", "error", "nvidia-container-toolkit")], [], id="un-ansible-dnf"),
    pytest.param(
        {"os": "rhel-8.10", "lock": {"module_stream": "535-dkms"}}, {
            "ansible_result": failed(('{"changed": false, "failures": ["All matches were filtered out by modular filtering for argument: '
                                      'nvidia-driver-NVML"], "msg": "Failed to install some of the specified packages", "rc": 1, "results": []}'), 2),
        }, "blocked", [("module_stream_not_enabled", "error", "nvidia-driver")], [("module_enable", "nvidia-driver:535-dkms")], id="msne-ansible"),
    pytest.param(
        {"os": "rocky-9", "lock": {"module_stream": "570-open"}}, {
            "ansible_result": failed(('{"changed": false, "failures": [], "msg": "It is not possible to switch enabled streams of a '
                                      "module unless explicitly enabled via configuration option module_stream_switch.\\nIt is "
                                      "recommended to rather remove all installed content from the module, and reset the module using "
                                      "'dnf module reset <module_name>' command. After you reset the module, you can install the other "
                                      'stream.", "rc": 1, "results": []}'), 2),
            "dnf_module_states": "[nvidia-driver]\nname=nvidia-driver\nstream=560-open\nprofiles=\nstate=enabled\n",
        }, "drift",
        [("module_stream_differs", "error", "560-open 570-open")],
        [("module_reset", ""), ("module_enable", "nvidia-driver:570-open"), ("install_exact", "")], id="msd-ansible"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "550.90.07"}}, {
            "ansible_result": failed(('{"cache_update_time": 1700000000, "cache_updated": false, "changed": false, "msg": '
                                      "\"'/usr/bin/apt-get -y -o \\\"Dpkg::Options::=--force-confdef\\\" -o "
                                      "\\\"Dpkg::Options::=--force-confold\\\"      install 'nvidia-driver-550=550.90.07-0ubuntu1'' failed: "
                                      'E: Held packages were changed and -y was used without --allow-change-held-packages.\\n", "rc": '
                                      '100, "stderr": "E: Held packages were changed and -y was used without '
                                      '--allow-change-held-packages.\\n", "stdout": "Reading package lists...\\nBuilding dependency '
                                      "tree...\\nReading state information...\\nThe following held packages will be changed:\\n  "
                                      "nvidia-driver-550\\nThe following packages will be upgraded:\\n  nvidia-driver-550\\n1 upgraded, 0 "
                                      'newly installed, 0 to remove and 12 not upgraded.\\n"}'), 2),
        }, "drift",
        [("package_held_by_user", "warn", "")],
        [("install_exact", "nvidia-driver-550=550.90.07-0ubuntu1"), ("hold", "nvidia-driver-550")], id="res-held"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "ansible_result": failed(('{"cache_update_time": 1700000000, "cache_updated": false, "changed": false, "msg": '
                                      "\"'/usr/bin/apt-get -y install 'nvidia-driver-535=535.183.01-0ubuntu1'' failed: E: Packages were "
                                      'downgraded and -y was used without --allow-downgrades.\\n", "rc": 100, "stderr": "E: Packages were '
                                      'downgraded and -y was used without --allow-downgrades.\\n", "stdout": "The following packages will '
                                      "be DOWNGRADED:\\n  nvidia-driver-535\\n0 upgraded, 0 newly installed, 1 downgraded, 0 to remove and "
                                      '12 not upgraded.\\n"}'), 2),
        }, "drift",
        [("downgrade_refused", "warn", "nvidia-driver-535")],
        [("downgrade_exact", "nvidia-driver-535=535.183.01-0ubuntu1")], id="res-downgrade"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.161.07"}}, {
            "ansible_result": failed(('{"cache_update_time": 1700000000, "cache_updated": false, "changed": false, "msg": "no available '
                                      'installation candidate for nvidia-driver-535=535.161.07-0ubuntu0.22.04.1"}'), 2),
        }, "blocked",
        [("locked_version_gone_from_archive", "error", "nvidia-driver-535 535.161.07-0ubuntu0.22.04.1")],
        [("fail_preflight", "")], id="res-noversion"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.161.07"}}, {
            "ansible_result": '{"cache_update_time": 1700000000, "cache_updated": false, "changed": false}',
        }, "in_sync", [], [], id="res-ok"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "ansible_result": ('{"cache_update_time": 1700000000, "cache_updated": false, "changed": true, "stdout": "Reading package '
                               "lists...\\nInst nvidia-driver-535 [535.183.01-0ubuntu0.22.04.1] (535.230.02-0ubuntu0.22.04.1 "
                               "Ubuntu:22.04/jammy-updates [amd64])\\nConf nvidia-driver-535 (535.230.02-0ubuntu0.22.04.1 "
                               'Ubuntu:22.04/jammy-updates [amd64])\\n", "stderr": ""}'),
        }, "drift", [("transaction_leaves_lock", "error", "nvidia-driver-535 535.230.02")], [("hold", "nvidia-driver-535")], id="res-check-latest"),
    pytest.param(
        {"os": "rocky-9", "lock": {"driver": "550.54.15"}}, {
            "ansible_result": ('{"changed": true, "msg": "", "rc": 0, "results": ["Installed: nvidia-driver-3:560.35.03-1.el9.x86_64", '
                               '"Installed: kmod-nvidia-latest-dkms-3:560.35.03-1.el9.x86_64", "Removed: nvidia-driver-3:550.54.15-1.el9.x86_64"]}'),
        }, "drift", [("package_version_differs", "error", "nvidia-driver 560.35.03")], [("downgrade_exact", "nvidia-driver")], id="res-dnf-changed"),
    pytest.param(
        {}, {
            "ansible_result": failed(('{"changed": false, "elapsed": 0, "msg": "Running ansible.builtin.reboot with local connection '
                                      'would reboot the control node.", "rebooted": false}'), 2),
        }, "drift", [("reboot_required", "warn", "local")], [("manual", "")], id="reboot-local"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "ansible_result": failed('{"changed": false, "msg": "Some strange failure", "rc": 1}', 2),
        }, "unknown", [("probe_failed", None, "")], [], id="unk-res"),
    pytest.param(
        {"os": "ubuntu-22.04", "lock": {"driver": "535.183.01"}}, {
            "ansible_result": failed(('fatal: [gpu7]: UNREACHABLE! => {"changed": false, "msg": "Failed to connect to the host via ssh: '
                                      'ssh: connect to host gpu7 port 22: Connection timed out", "unreachable": true}\n'), 4),
        }, "unknown", [("probe_failed", None, "")], [], id="unk-unreach"),
    pytest.param(
        {"os": "ubuntu-18.04", "lock": {"driver": "440.33.01"}}, {
            "ansible_error": failed(("TASK [nvidia.nvidia_driver : install driver packages] ****************\n"
                                     "fatal: [virtual-gpu01]: FAILED! => changed=false\n  cache_update_time: 1578441095\n  cache_updated: false\n"
                                     "  msg: |-\n    '/usr/bin/apt-get -y -o \"Dpkg::Options::=--force-confdef\" -o \"Dpkg::Options::=--force-confold\" "
                                     "    install 'cuda-drivers=440.33.01-1'' failed: E: Unable to correct problems, you have held broken packages.\n"
                                     "  rc: 100\n  stderr: |-\n    E: Unable to correct problems, you have held broken packages.\n  stderr_lines:\n"
                                     "  - 'E: Unable to correct problems, you have held broken packages.'\n  stdout: |-\n"
                                     "    Reading package lists...\n    Building dependency tree...\n    Reading state information...\n"
                                     "    Some packages could not be installed. This may mean that you have\n"
                                     "    requested an impossible situation or if you are using the unstable\n"
                                     "    distribution that some required packages have not yet been created\n    or been moved out of Incoming.\n"
                                     "    The following information may help to resolve the situation:\n\n"
                                     "    The following packages have unmet dependencies:\n"
                                     "     cuda-drivers : Depends: nvidia-driver-440 (>= 440.33.01) but 440.100-0ubuntu0.18.04.1 is to be installed\n"
                                     "  stdout_lines: <omitted>\n"), 2),
        }, "drift", [("exact_set_needed", "info", "440.33.01")], [("install_exact", "")], id="yaml-role11"),
    pytest.param(
        {"os": "ubuntu-20.04", "lock": {"driver": "460.32.03", "branch": "460-server"}}, {
            "ansible_error": failed(("failed: [gpu01] (item=['nvidia-headless-460-server', 'nvidia-utils-460-server']) => changed=false\n"
                                     "  ansible_loop_var: item\n  item:\n  - nvidia-headless-460-server\n  - nvidia-utils-460-server\n  msg: |-\n"
                                     "    '/usr/bin/apt-get -y install 'nvidia-headless-460-server' 'nvidia-utils-460-server'' failed: "
                                     "E: Unable to correct problems, you have held broken packages.\n  rc: 100\n  stdout: |-\n"
                                     "    The following packages have unmet dependencies:\n"
                                     "     nvidia-headless-460-server : Depends: nvidia-headless-no-dkms-460-server but it is not going "
                                     "to be installed\n     nvidia-utils-460-server : Conflicts: nvidia-utils\n"
                                     "    E: Unable to correct problems, you have held broken packages.\n"), 2),
            "dpkg_list": "nvidia-headless-450-server 450.102.04-0ubuntu0.20.04.1 ii \nnvidia-utils-450-server 450.102.04-0ubuntu0.20.04.1 ii \n",
        }, "drift", [("branch_switch_needs_removal", "error", "450-server")], [("remove", ""), ("install_exact", "")], id="yaml-role33"),
    pytest.param(
        {"os": "centos-7"}, {
            "ansible_error": failed('fatal: [gpu-03]: FAILED! => {"changed": false, "msg": "yum lockfile is held by another process"}', 2),
        }, "unknown", [("apt_locked", "warn", "")], [("wait_for_lock", ""), ("retry", "")], id="yum-locked"),
    pytest.param(
        {"os": "ubuntu-22.04"}, {
            "ansible_result": failed(('{"changed": false, "failed": true, "rc": 100, "msg": "\'/usr/bin/apt-get -y install '
                                      '\'/tmp/cuda-keyring_1.0-1_all.deb\'\' failed: E: Packages were downgraded and -y was used '
                                      'without --allow-downgrades.\\n", '
                                      '"stdout": "The following packages will be DOWNGRADED:\\n  cuda-keyring\\n"}'), 100),
            "dpkg_list": "cuda-keyring\t1.1-1\tii \n",
        }, "in_sync", [("keyring_newer", "warn", "cuda-keyring 1.1-1 1.0-1")], [], id="keyring-downgraded"),
]


@pytest.mark.parametrize("given,texts,verdict,findings,steps", CASES)
def test_what_is_said(given, texts, verdict, findings, steps):
    assert not wrong(judged(given, **texts), verdict, findings, steps)
