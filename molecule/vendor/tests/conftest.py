# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node of a vendor platform, and what its own tools say of it."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import expected
import pytest
from xdist.scheduler import LoadScopeScheduling

ROOT = pathlib.Path(os.environ["MOLECULE_PROJECT_DIRECTORY"])
FOREIGN = {
    "deb": ("/etc/apt/sources.list.d/foreign.sources", "Types: deb\nURIs: file:/srv/repos/foreign\nSuites: ./\nSigned-By: /srv/repos/key.gpg\n"),
    "rpm": ("/etc/yum.repos.d/foreign.repo", "[foreign]\nname=foreign\nbaseurl=file:///srv/repos/foreign\ngpgcheck=1\ngpgkey=file:///srv/repos/key.asc\n"),
}
IN_CI = ("ubuntu2404", "el9")
REPORTS = ROOT / ".lockstep" / "molecule"


def pytest_configure(config):
    config.addinivalue_line("markers", "platforms(*names): the platforms that a test is for")
    config.addinivalue_line("markers", "many: too many or too long for CI; run by make test-all")
    config.addinivalue_line("markers", "everywhere: on every platform also in CI; others run there on one with apt and one with dnf")


class OneTestANode(LoadScopeScheduling):
    """Several nodes at a time, but one test at a time on each: tests change what their node is."""

    def _split_scope(self, nodeid):
        return next((name for name in expected.PLATFORMS if "lockstep-" + name.replace("_", "-") in nodeid), "")


def pytest_xdist_make_scheduler(config, log):
    return OneTestANode(config, log)


def pytest_collection_modifyitems(items):
    # What the run left is looked at before anything is changed.
    items.sort(key=lambda item: item.path.name != "test_exact.py")
    for item in items:
        here = item.get_closest_marker("everywhere") or any("lockstep-" + name in item.nodeid for name in IN_CI) or "lockstep-" not in item.nodeid
        if (item.get_closest_marker("many") or not here) and not os.environ.get("LOCKSTEP_ALL"):
            item.add_marker(pytest.mark.skip(reason="make test-all"))


class Node:
    """One node: the main job on it, the repositories that it is offered, and what dpkg, rpm, apt and dnf say."""

    def __init__(self, host, folder):
        self.host, self.name, self.path = host, host.backend.host, folder / "report.json"
        self.platform = self.name[len("lockstep-"):].replace("-", "_")
        self.rpm = self.platform.startswith("el")

    # -- doing ------------------------------------------------------------------------------------------

    def output(self, command):
        """Standard output of a command that must succeed."""
        done = self.host.run(command)
        assert done.rc == 0, (command, done.rc, done.stdout, done.stderr)
        return done.stdout

    def play(self, playbook, *arguments, **variables):
        """Run a playbook of the collection on this node: (exit status, all output)."""
        variables = dict({"lockstep_report": str(self.path), "lockstep_hosts": self.name}, **variables)
        done = subprocess.run(
            ["ansible-playbook", "-i", str(ROOT / "molecule/inventory.yml"), "--limit", self.name + ",localhost", str(ROOT / "playbooks" / playbook),
             "-e", json.dumps(variables), *arguments], cwd=ROOT, text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        return done.returncode, done.stdout

    def site(self, stack=None, *arguments, **variables):
        """Run the main job, with the inventory's stack or another one (a name or a mapping)."""
        if stack is not None:
            variables["lockstep_stack"] = stack
        return self.play("site.yml", *arguments, **variables)

    def converge(self, stack=None, **variables):
        """The main job, which must end well; a second run then changes nothing."""
        status, output = self.site(stack, **variables)
        assert status == 0, output
        status, output = self.site(stack, **variables)
        assert status == 0 and set(re.findall(r"changed=(\d+)", output)) == {"0"}, output

    def offer(self, day, *options, repositories):
        """The node's repositories become those of another day: options are those of tests/stubs/make.py."""
        subprocess.run(["tools/stubs.sh", day, "--only", *repositories, *options], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        self.links(day, repositories)

    def links(self, day, repositories):
        """Point the node's repositories to the folders of a day; what it knew of them is forgotten."""
        self.output("sh -c '%s'" % "; ".join("ln -sfn /srv/stubs/%s/%s /srv/repos/%s" % (day, name, name) for name in repositories))
        self.refresh()

    def refresh(self):
        """Read the repositories anew, as a timer of the system would."""
        self.output("sh -c 'rm -rf /var/cache/dnf && dnf -qy makecache'" if self.rpm else "sh -c 'rm -rf /var/lib/apt/lists && apt-get -q update'")

    def foreign(self, **packages):
        """Somebody's own repository, which the node knows from now on, offers these packages at these versions and no others."""
        kind = "rpm" if self.rpm else "deb"
        named = ["%s=%s" % (name.replace("_", "-"), version) for name, version in sorted(packages.items())]
        day = "foreign-%s-%s" % (self.platform, hashlib.sha256(repr(named).encode()).hexdigest()[:8])
        subprocess.run([sys.executable, "molecule/vendor/files/bystander.py", kind, ".lockstep/stubs/%s/foreign" % day, *named], cwd=ROOT, check=True)
        path, text = FOREIGN[kind]
        self.output("sh -c 'printf \"%s\" > %s'" % (text.replace("\n", "\\n"), path))
        self.links(day, ["foreign"])

    def no_foreign(self):
        """That repository is gone again."""
        self.output("rm -f " + FOREIGN["rpm" if self.rpm else "deb"][0])
        self.refresh()

    def install(self, *words):
        """Install packages by hand, as an owner would."""
        self.output("dnf -y install %s" % " ".join(words) if self.rpm else
                    "apt-get install -y -q --allow-downgrades --allow-change-held-packages %s" % " ".join(words))

    def gpus(self, kind):
        """Put other boards into the node."""
        subprocess.run(["tools/node.sh", "gpus", self.name, kind], cwd=ROOT, check=True)

    def upgrade(self):
        """Upgrade the whole system, as its owner would."""
        if self.rpm:
            return self.output("dnf -y upgrade --refresh")
        return self.output("sh -c 'apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get -y -q dist-upgrade'")

    # -- seeing -----------------------------------------------------------------------------------------

    def report(self):
        """What the last run wrote about the node."""
        return json.loads(self.path.read_text(encoding="utf-8"))["nodes"][self.name]

    def codes(self):
        """Codes of the last run's findings."""
        return {row["code"] for row in self.report()["findings"]}

    def packages(self):
        """{name: version} of what is installed, by dpkg-query or rpm; of several kernels all versions, joined by a space."""
        if self.rpm:
            rows = [line.split() for line in self.output("rpm -qa --qf '%{NAME} %{EVR}\\n'").splitlines()]
        else:
            text = self.output("dpkg-query -W -f '${Package} ${Version} ${db:Status-Status}\\n'")
            rows = [line.split()[:2] for line in text.splitlines() if line.endswith(" installed")]
        found = {}
        for name, version in sorted(rows):
            found[name] = "%s %s" % (found[name], version) if name in found else version
        return found

    def candidate(self, name):
        """The version at which a package would be installed now; None where it would not."""
        if not self.rpm:
            return re.search(r"Candidate: (\S+)", self.output("apt-cache policy " + name)).group(1)
        text = self.host.run("dnf --assumeno install " + name).stdout
        found = re.search(r"^ %s +\S+ +(\S+) +\S+ " % re.escape(name), text, re.MULTILINE)
        return found.group(1) if found else None

    def locked(self):
        """What cannot move by the package manager's own word: holds of apt, version locks of dnf (names)."""
        if self.rpm:
            text = self.output("dnf -qy versionlock list")
            return {re.sub(r"-\d+:[^-]+-[^-]+$", "", line) for line in text.splitlines()}
        return set(self.output("apt-mark showhold").split())

    def kernel(self):
        """The kernel that the stack is for."""
        return expected.PLATFORMS[self.platform]["kernel"]

    def module(self, kernel, field="version", name="nvidia"):
        """A field of the module that modprobe would load into a kernel; Debian's configuration leads from nvidia to another name."""
        shown = self.output("modprobe -S %s -n --show-depends %s" % (kernel, name))
        other = re.search(r"install .*modprobe .*-i (\S+)", shown)
        if other:
            return self.module(kernel, field, other.group(1))
        path = re.findall(r"insmod (\S+)", shown)[-1]
        return self.output("modinfo -F %s %s" % (field, path)).strip()

    def asked(self, soname, function):
        """What a library that the loader chose says of itself."""
        script = "import ctypes; v = ctypes.c_int(); ctypes.CDLL('%s').%s(ctypes.byref(v)); print(v.value)" % (soname, function)
        return int(self.output("python3 -c \"%s\"" % script))

    def library_file(self, soname):
        """The file behind a library that the loader takes."""
        found = re.search(r"^\s*%s \(.*x86-64.*\) => (\S+)$" % re.escape(soname), self.output("ldconfig -p"), re.MULTILINE)
        return self.output("readlink -f " + found.group(1)).strip()

    def loaded_library(self):
        """The version of the libcuda that programs get."""
        return self.library_file("libcuda.so.1").rsplit(".so.", 1)[1]

    def driver_versions(self):
        """The upstream versions of everything that is there of the driver and its fabric."""
        names = re.compile(r"(lib)?nvidia-(?!container|settings).+|libnvsdm(-\d+)?|kmod-nvidia-.+|xserver-xorg-video-nvidia.*|libcuda1?|cuda-drivers.*")
        versions = (version.split(":")[-1].split("-")[0] for name, version in self.packages().items() if names.fullmatch(name))
        return {version for version in versions if re.fullmatch(r"\d{3}(\.\d+)+", version)}

    def logged_installs(self):
        """["name=version"] of all that was installed, by dpkg's log or dnf's history; but for the test's own package."""
        if self.rpm:
            text = self.output("sh -c 'for id in $(dnf -q history list | grep -oE \"^ +[0-9]+\"); do dnf -q history info $id; done'")
            rows = [re.sub(r"^\s+(Install|Upgrade|Downgrade)\s+(\S+)\s.*", r"\2", line) for line in text.splitlines()
                    if re.match(r"\s+(Install|Upgrade|Downgrade) ", line)]
            return [re.sub(r"^(.+)-((?:\d+:)?[^-]+-[^-]+)\.\w+$", r"\1=\2", row) for row in rows if "bystander" not in row]
        log = self.output("grep -hE ' (install|upgrade) ' /var/log/dpkg.log")
        rows = [line.split() for line in log.splitlines()]
        return ["%s=%s" % (row[3].split(":")[0], row[5]) for row in rows if "bystander" not in row[3]]


@pytest.fixture
def node(host, tmp_path, request):
    """The node as it is; tests that leave it changed use `changed`."""
    found = Node(host, tmp_path)
    marker = request.node.get_closest_marker("platforms")
    if marker and found.platform not in marker.args:
        pytest.skip("not for %s" % found.platform)
    return found


@pytest.fixture
def changed(node):
    """The node, to be changed: afterwards it gets its boards, its repositories and its stack back, which must be possible."""
    yield node
    want = expected.PLATFORMS[node.platform]
    node.links("today", want["vendor"])
    node.gpus(want["kind"])
    status, output = node.site()
    assert status == 0, output


@pytest.fixture
def want(node):
    """What the node must be, written by hand."""
    return expected.PLATFORMS[node.platform]


@pytest.fixture
def plan(node):
    """What the check on the fresh node reported."""
    return json.loads((REPORTS / "vendor-plan.json").read_text(encoding="utf-8"))["nodes"][node.name]


@pytest.fixture
def first(node):
    """What the first run reported about the node."""
    return json.loads((REPORTS / "vendor-report.json").read_text(encoding="utf-8"))["nodes"][node.name]
