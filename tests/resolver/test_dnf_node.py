# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""On dnf, beside the scenarios: what the user keeps away, our own repositories, killed transactions, and all the rest moving on."""
from __future__ import annotations

import json
import pathlib
import shutil
import signal
import subprocess

import ansible
import ansible_collections
import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import acting
from collection import PYTHON, need_of
from stubs.dnf_root import PLUGINS

EL9 = ("rhel9-cuda", "el9-baseos", "container-toolkit-rpm")
V580, V570 = "3:580.126.20-1.el9", "3:570.133.20-1.el9"
KERNEL = {"release": "5.14.0-570.18.1.el9_6.x86_64", "package_version": "5.14.0-570.18.1.el9_6"}
PLUGIN = "python3-dnf-plugin-versionlock"


def driver(version="580.126.20", **more):
    return need_of(dict({"os": "rocky-9", "driver": {"version": version, "flavour": "open", "source": "nvidia"}}, **more))


def refused(ours, need, **more):
    """{code: message} of a refusal; several of a code in one text."""
    with pytest.raises(acting.Refused) as error:
        ours.resolve(need, **more)
    found = {}
    for problem in error.value.problems:
        found[problem["code"]] = found.get(problem["code"], "") + problem["message"] + "\n"
    return found


def nvidia(node):
    """{version} of the driver's installed packages."""
    return {version for name, versions in node.installed().items() for version in versions if name.startswith(("nvidia-", "libnvidia-", "kmod-"))}


class TestWhatTheUserKeepsAway:
    def test_a_lock_on_a_dependency(self, dnf_node, on):
        node = dnf_node(*EL9)
        node.lock("# mine", "egl-gbm-2:1.0.0-1.el9.*", "dkms-0:3.0.0-1.el9.*")
        found = refused(on(node), driver())
        assert set(found) == {"package_held_by_user"} and "dkms" in found["package_held_by_user"]
        assert "versionlock.list line 3 (dkms-0:3.0.0-1.el9.*)" in found["package_held_by_user"]

    def test_a_lock_and_an_exclude_on_what_the_stack_names(self, dnf_node, on):
        node = dnf_node(*EL9)
        node.lock("nvidia-driver-cuda-%s.*" % V570, "", "!nvidia-modprobe-3:580.126.20*")
        message = refused(on(node), driver())["package_held_by_user"]
        assert "nvidia-driver-cuda %s is kept from dnf by" % V580 in message and "line 1 (nvidia-driver-cuda-%s.*)" % V570 in message
        assert "nvidia-modprobe" in message and "line 3 (!nvidia-modprobe-3:580.126.20*)" in message

    @pytest.mark.parametrize("line", ["exclude=kernel* kmod-nvidia*", "excludepkgs=kmod-nvidia-open-dkms", "exclude=htop\n  kmod-nvidia*"])
    def test_excludes_of_dnf_conf(self, dnf_node, on, line):
        node = dnf_node(*EL9)
        node.configure(line)
        message = refused(on(node), driver())["package_held_by_user"]
        number = node.root.conf.read_text().splitlines().index(line.splitlines()[-1]) + 1
        assert "kmod-nvidia-open-dkms" in message and "dnf.conf line %d (" % number in message

    def test_excludes_of_a_repository(self, dnf_node, on):
        node = dnf_node(*EL9)
        path = node.root.root / "etc/yum.repos.d/stubs.repo"
        path.write_text(path.read_text().replace("[cuda-rhel9-x86_64]", "[cuda-rhel9-x86_64]\nexcludepkgs=libnvidia-ml"))
        message = refused(on(node), driver())["package_held_by_user"]
        assert "libnvidia-ml" in message and "stubs.repo line 2 (excludepkgs=libnvidia-ml)" in message

    def test_locks_that_let_the_stack_through_stay(self, dnf_node, on):
        node = dnf_node(*EL9)
        theirs = ["nvidia-driver-cuda-%s.*" % V580, "htop-0:3.3.0-1.el9.*"]
        node.lock(*theirs)
        ours, need = on(node), driver()
        ours.apply(need)
        assert node.locks()[:2] == theirs and nvidia(node) == {V580} and ours.due(need) == []

    def test_a_locked_package_is_not_removed(self, dnf_node, on):
        node = dnf_node(*EL9)
        ours = on(node)
        ours.apply(driver(driver={"version": "580.126.20", "flavour": "proprietary", "source": "nvidia"}))
        node.lock("kmod-nvidia-latest-dkms-%s.*" % V580)
        message = refused(ours, driver())["package_held_by_user"]
        assert "kmod-nvidia-latest-dkms" in message and "remove line 1 of" in message


class TestModules:
    def test_a_disabled_module_is_named(self, dnf_node, on):
        node = dnf_node(*EL9)
        node.settle("module", "disable", "nvidia-driver")
        assert "/etc/dnf/modules.d/nvidia-driver.module" in refused(on(node), driver())["module_stream_not_enabled"]

    def test_without_a_stream_the_one_that_has_all_is_named(self, dnf_node, on):
        need = driver()
        for part in need["slices"]:
            part["stream"] = ""
        message = refused(on(dnf_node(*EL9)), need)["module_stream_not_enabled"]
        assert message.count("\n") == 1 and message.endswith("streams that have it: nvidia-driver:580-open\n")

    def test_resolving_enables_nothing(self, dnf_node, on):
        node = dnf_node(*EL9)
        on(node).resolve(driver())
        assert list((node.root.root / "etc/dnf/modules.d").iterdir()) == [] and node.locks() == [] and set(node.installed()) == {"bash"}

    def test_another_stream_makes_way(self, dnf_node, on):
        node = dnf_node(*EL9)
        ours = on(node)
        for version, release in (("570.133.20", V570), ("580.126.20", V580), ("570.133.20", V570)):
            need = driver(version)
            ours.apply(need)
            assert nvidia(node) == {release} and ours.due(need) == []
            state = (node.root.root / "etc/dnf/modules.d/nvidia-driver.module").read_text()
            assert "stream=%s-open" % version.split(".", maxsplit=1)[0] in state and "state=enabled" in state

    def test_from_a_stream_that_floats(self, dnf_node, on):
        node = dnf_node(*EL9)
        node.settle("module", "enable", "nvidia-driver:open-dkms")
        node.settle("install", "nvidia-open", "nvidia-imex")
        on(node).apply(driver())
        got = {name: versions for name, versions in node.installed().items() if "nvidia" in name and name != "nvidia-imex"}
        assert {version for versions in got.values() for version in versions} == {V580}


class TestTheLockPlugin:
    def test_switched_off(self, dnf_node, on):
        node = dnf_node(*EL9)
        (node.root.root / "etc/dnf/plugins/versionlock.conf").write_text("[main]\nenabled = 0\n")
        assert "versionlock.conf" in refused(on(node), driver())["versionlock_plugin_missing"]
        node.configure("plugins=0")
        assert "plugins=0" in refused(on(node), driver())["versionlock_plugin_missing"]

    def test_not_there_and_nowhere_to_be_had(self, dnf_node, on):
        node = dnf_node(*EL9)
        node.configure("pluginpath=/nonexistent")
        assert PLUGIN in refused(on(node), driver())["versionlock_plugin_missing"]

    def test_it_comes_with_the_stack(self, dnf_node, on, tmp_path):
        node = dnf_node(*EL9)
        node.configure("pluginpath=/nonexistent")
        spec = tmp_path / "plugin.spec"
        spec.write_text("Name: %s\nVersion: 4.3.0\nRelease: 20.el9\nSummary: stub\nLicense: MIT\nBuildArch: noarch\nAutoReqProv: no\n"
                        "%%description\nstub\n%%files\n" % PLUGIN)
        made = subprocess.run(["rpmbuild", "-bb", "--quiet", "--define", "_topdir %s" % tmp_path, "--define", "_rpmdir %s/plugin" % tmp_path, str(spec)],
                              capture_output=True, text=True, check=False)
        assert made.returncode == 0, made.stderr
        subprocess.run(["createrepo_c", "-q", str(tmp_path / "plugin")], check=True)
        (node.root.root / "etc/yum.repos.d/appstream.repo").write_text(
            "[appstream]\nname=appstream\nbaseurl=file://%s/plugin\ngpgcheck=0\nrepo_gpgcheck=0\n" % tmp_path)
        made = on(node).apply(driver())
        assert made.others()[PLUGIN] == "4.3.0-20.el9" and node.installed()[PLUGIN] == ["4.3.0-20.el9"]
        assert next(row for row in made.rows if row["name"] == PLUGIN)["step"] == "driver"


class TestPluginsOfOthers:
    def folder(self, node, tmp_path, name, text):
        folder = tmp_path / "plugins"
        folder.mkdir()
        shutil.copy(PLUGINS + "/versionlock.py", folder)
        (folder / (name + ".py")).write_text("import dnf\n\n\nclass Plugin(dnf.Plugin):\n    name = %r\n\n%s" % (name, text))
        node.configure("pluginpath=%s" % folder)

    def test_nvidia_s_does_not_filter_what_the_stack_names(self, dnf_node, on, tmp_path):
        """dnf-plugin-nvidia keeps kernels away that have no precompiled module for the driver."""
        node = dnf_node(*EL9)
        self.folder(node, tmp_path, "nvidia", "    def sack(self):\n        kernels = self.base.sack.query().available().filter(name='kernel-core')\n"
                                              "        self.base.sack.add_excludes(kernels)\n        print('NVIDIA driver: filtering kernel')\n")
        assert "filtering kernel" in node.would("install", "dkms").text
        assert on(node).resolve(driver(kernel=KERNEL)).managed("kernel")["kernel-core"] == KERNEL["package_version"]

    def test_what_one_adds_to_a_resolved_transaction_is_not_done(self, dnf_node, on, tmp_path):
        node = dnf_node(*EL9)
        node.settle("install", "make")
        self.folder(node, tmp_path, "meddler", "    def resolved(self):\n        for package in self.base.sack.query().installed().filter(name='make'):\n"
                                               "            self.base.transaction.add_erase(package)\n")
        with pytest.raises(AssertionError, match="a plugin of dnf changed the transaction: make"):
            on(node).apply(driver())
        assert "make" in node.installed() and nvidia(node) == set()


class TestOurRepositories:
    def text(self, node, path):
        return node.root.source("rhel9-cuda").replace(str(node.root.key), str(path))

    def node(self, dnf_node, repositories):
        node = dnf_node("el9-baseos")
        node.root.repos.update(repositories("rhel9-cuda"))
        return node

    def test_they_are_resolved_aside_with_their_keys_and_then_written(self, dnf_node, repositories, on):
        node = self.node(dnf_node, repositories)
        path = node.root.root / "etc/pki/rpm-gpg/RPM-GPG-KEY-lockstep-cuda"
        more = {"sources": self.text(node, path), "keys": [{"path": str(path), "key": node.root.key.read_text(), "fingerprints": [fingerprint(node)]}]}
        ours, need = on(node), driver()
        assert ours.resolve(need, **more).managed()["nvidia-driver-cuda"] == V580
        assert not path.exists() and not (node.root.root / "etc/yum.repos.d/lockstep-gpu.repo").exists()
        ours.apply(need, **more)
        assert path.read_text() == node.root.key.read_text() and nvidia(node) == {V580}
        assert (node.root.root / "etc/yum.repos.d/lockstep-gpu.repo").read_text() == more["sources"]
        # Its packages' signatures were checked by a key that nobody had imported before.
        assert node.would("update").ok

    def test_metadata_that_another_key_signed_is_refused(self, dnf_node, repositories, on, tmp_path):
        node = self.node(dnf_node, repositories)
        for name in ("repomd.xml.asc", "repomd.xml"):
            assert (node.root.repos["rhel9-cuda"] / "repodata" / name).exists()
        copy = tmp_path / "mirror"
        subprocess.run(["cp", "-rl", str(node.root.repos["rhel9-cuda"]), str(copy)], check=True)
        index = copy / "repodata/repomd.xml"
        text = index.read_text()
        index.unlink()
        index.write_text(text + "\n")
        path = node.root.root / "etc/pki/rpm-gpg/RPM-GPG-KEY-lockstep-cuda"
        with pytest.raises(AssertionError, match="cannot be read"):
            on(node).resolve(driver(), sources=self.text(node, path).replace(str(node.root.repos["rhel9-cuda"]), str(copy)), keys=[
                {"path": str(path), "key": node.root.key.read_text(), "fingerprints": [fingerprint(node)]}])


def fingerprint(node):
    return (node.root.key.parent / "key.fingerprint").read_text().strip()


class TestKilled:
    def killed(self, node, need, step):
        where = [str(pathlib.Path(module.__path__[0]).parent) for module in (ansible, ansible_collections)]
        asked = {"root": str(node.root.root), "packages": where, "do": "apply", "slices": need["slices"], "sources": "", "keys": []}
        done = subprocess.run([PYTHON, "-B", str(pathlib.Path(__file__).parent / "dnf_killed.py"), str(step)], input=json.dumps(asked),
                              capture_output=True, text=True, check=False)
        assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr

    @pytest.mark.parametrize("step", [3, 14])
    @pytest.mark.parametrize("first, second", [("570.133.20", "580.126.20"), ("580.126.20", "570.133.20")])
    def test_the_next_run_finishes_it(self, dnf_node, on, first, second, step):
        node = dnf_node(*EL9)
        ours, need = on(node), driver(second)
        ours.apply(driver(first))
        self.killed(node, need, step)
        twice = [name for name, versions in node.installed().items() if len(versions) > 1]
        assert twice, "the power cut came too early, or too late"
        actions = ours.due(need)
        assert {"configure_packages"} <= {row["action"] for row in actions}
        ours.apply(need)
        assert nvidia(node) == {"3:%s-1.el9" % second} and ours.due(need) == []
        assert [name for name, versions in node.installed().items() if len(versions) > 1] == []
        assert not (node.root.root / "var/lib/lockstep-gpu/transaction").exists()

    def test_meanwhile_an_update_moves_nothing_of_the_stack_elsewhere(self, dnf_node, on):
        """The locks are there before the first package is."""
        node = dnf_node(*EL9)
        self.killed(node, driver(), 6)
        got = node.would("install", "nvidia-open")
        assert got.ok and got["nvidia-open"] == got["nvidia-driver-cuda"] == V580


class TestPrecompiledModules:
    def test_the_module_of_another_driver_leaves_with_it(self, dnf_node, on):
        node = dnf_node(*EL9)
        ours = on(node)
        for version, module in (("570.211.01", "kmod-nvidia-570.211.01-5.14.0-570.18.1"), ("580.126.20", "kmod-nvidia-580.126.20-5.14.0-570.18.1")):
            need = driver(kernel=KERNEL, driver={"version": version, "flavour": "proprietary", "source": "nvidia", "module": "precompiled"})
            ours.apply(need)
            assert [name for name in node.installed() if name.startswith("kmod-nvidia")] == [module] and ours.due(need) == []
            assert node.would("update").installs == {}


class TestAllTheRest:
    def test_moves_on(self, dnf_node, on):
        node = dnf_node(*EL9)
        node.settle("install", *["%s-1.17.8-1" % name for name in (
            "nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1")])
        for release in ("5.14.0-611.41.1.el9_7", "5.14.0-687.25.1.el9_8"):
            node.settle("install", "kernel-core-" + release)
        need = driver(kernel=KERNEL)
        ours = on(node)
        made = ours.apply(need)
        assert sorted(node.installed()["kernel-core"]) == ["5.14.0-570.18.1.el9_6", "5.14.0-611.41.1.el9_7", "5.14.0-687.25.1.el9_8"]
        assert made.removed == [] and ours.due(need) == []
        before = node.installed()
        got = node.would("update")
        assert got.ok and set(got.installs) == {
            "nvidia-container-toolkit", "nvidia-container-toolkit-base", "libnvidia-container-tools", "libnvidia-container1"}
        node.settle("update")
        assert {name: versions for name, versions in node.installed().items() if "container" not in name} == {
            name: versions for name, versions in before.items() if "container" not in name}
        assert ours.due(need) == []

    def test_the_cache_of_the_node_is_used_and_left_as_it_is(self, dnf_node, on):
        node = dnf_node(*EL9)
        node.settle("makecache")
        cache = node.root.folder / "cache"

        def seen():
            return {path: (path.stat().st_mtime_ns, path.stat().st_size) for path in cache.rglob("*") if path.is_file()}
        before = seen()
        on(node).resolve(driver())
        assert seen() == before
