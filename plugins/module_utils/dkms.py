# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""DKMS on one node: what it says and what is really there, the steps to a wanted state, and doing them.

`observe` looks, `plan` (pure) decides, `Tree.do` acts. Written against the scripts of DKMS 3.0.10 (Debian 12) and
3.2.2 (Debian 13). DKMS takes no lock, so the work of another process is waited for and never disturbed.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import signal
import time
from collections import namedtuple

from ansible_collections.lockstep.gpu.plugins.module_utils import module_files
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_dkms import parse_dkms_status

ACTING_VERBS = {"add", "build", "install", "uninstall", "unbuild", "remove", "autoinstall", "kernel_postinst", "kernel_prerm"}
POLL_SECONDS = 2.0
# Below /lib/modules/<release>: where DKMS puts every module, by the distribution (its override_dest_module_location).
DESTINATION, DESTINATION_EL, DESTINATION_SUSE = "updates/dkms", "extra", "updates"

# What a build of a kernel module starts, with the prefixes and suffixes of cross compilers and versions.
_BUILD_TOOL = re.compile(
    r"(?:[\w.]+-)*(?:gcc|g\+\+|cc|c\+\+|clang(?:\+\+)?|cpp|ld(?:\.\w+)?|as|ar|nm|strip|objcopy|objdump|ranlib|readelf)(?:-[\d.]+)?"
    r"|cc1(?:plus)?|collect2|lto1|objtool|modpost|fixdep|genksyms|resolve_btfids|pahole|sign-file|xz|zstd|gzip|cp|mv|depmod")
_NOT_SIGNED = re.compile(r"modules won't be signed|Failed to sign module")
_SHELL_OPTION = re.compile(r"-[a-z]*c[a-z]*")

# certificate: an x509.Certificate whose key must have signed the files, None where that is nobody's business.
Wanted = namedtuple("Wanted", ["module", "version", "kernel", "arch", "state", "files", "certificate"], defaults=[None])
# state: absent, added, built, installed or broken. faults: why it is not what `state` claims.
# bad_build: the built copy itself is unusable. others: versions of this module installed for the kernel.
# leftovers: module files on disk that neither DKMS nor a package accounts for; owned: those that a package owns.
# files: descriptions (module_files.describe) of the files on disk. tree: something is registered in the DKMS tree.
Observed = namedtuple("Observed", ["state", "faults", "bad_build", "others", "leftovers", "owned", "files", "tree"])


class DkmsError(Exception):
    """The wanted state cannot be reached. step: the step that failed; output: what DKMS printed."""

    def __init__(self, message, step=None, output="", rc=None):
        self.step = step
        self.output = output
        self.rc = rc
        super().__init__(message)


def plan(wanted, seen):
    """The steps from an Observed to a Wanted, as words in order; [] when nothing is to do. Pure.

    forget: delete a broken registration; add: register; unbuild: drop a bad build; build; uninstall: take damaged files
    out; replace: uninstall the other version for this kernel; clean: delete unaccounted files; install; remove.
    """
    if wanted.state == "absent":
        if seen.state == "broken":
            return ["forget"] + (["clean"] if seen.leftovers else [])
        steps = ["remove"] if seen.tree and (seen.state != "added" or wanted.kernel is None) else []
        return steps + (["clean"] if seen.leftovers else [])
    steps = []
    state, built_is_bad = seen.state, seen.bad_build
    if state == "broken":
        steps, state, built_is_bad = ["forget"], "absent", False
    if state == "absent":
        steps, state = steps + ["add"], "added"
    if built_is_bad:
        steps, state = steps + ["unbuild"], "added"
    if state == "added":
        steps, state = steps + ["build"], "built"
    if wanted.state == "built":
        return steps
    if state == "installed":
        return steps + (["uninstall", "install"] if seen.faults else [])
    # Only after a good build is anything taken out of the kernel's folder.
    return steps + (["replace"] if seen.others else []) + (["clean"] if seen.leftovers else []) + ["install"]


def describe_state(seen):
    """One phrase for diff and results: "absent", "built", "installed", "installed, damaged"."""
    return seen.state + (", damaged" if seen.faults and seen.state in ("built", "installed") else "")


def role_of(argv, cwd, build_dir):
    """What a process (its words and working directory) is to a build: "dkms", "make", "compiler" or None. Pure.

    Only the tools of a build: a person's shell, pager or editor may stand in its folder, too.
    """
    for number, word in enumerate(argv[:2]):
        if os.path.basename(word) == "dkms":
            return "dkms" if argv[number + 1:number + 2] and argv[number + 1] in ACTING_VERBS else None
    inside = (cwd + "/").startswith(build_dir + "/") or any(build_dir + "/" in word + "/" for word in argv)
    name = os.path.basename(argv[0]) if argv else ""
    if not inside:
        return None
    if name in ("make", "gmake"):
        return "make"
    script = argv[1] if name in ("sh", "dash", "bash") and len(argv) > 1 else ""
    is_script = bool(_SHELL_OPTION.fullmatch(script)) or script.endswith(".sh") or script.startswith(build_dir + "/")
    return "compiler" if is_script or _BUILD_TOOL.fullmatch(name) else None


def abandoned(processes):
    """The ids of compiler processes whose DKMS was killed, so that nobody will take their result. Pure.

    processes: [(pid, parent, role)] of the whole node. Only when no DKMS is at work at all, and only the families whose
    head is a make that init has inherited (it starts children that show no sign of the build folder).
    """
    parents = {pid: parent for pid, parent, dummy in processes}
    roles = {pid: role for pid, dummy, role in processes}

    def head(pid):
        while parents[pid] != 1 and parents[pid] in parents:
            pid = parents[pid]
        return pid

    if "dkms" in roles.values():
        return []
    return sorted(pid for pid in parents if roles[head(pid)] == "make" and parents[head(pid)] == 1)


class Tree:
    """DKMS's tree, kernels and sources below `root` ("/" outside tests). run: a run.Runner."""

    def __init__(self, run, root="/"):
        self._run = run
        self._root = root
        # What DKMS said about signatures that it did not make.
        self.remarks = []

    def path(self, *parts):
        """A path below the root."""
        return os.path.join(self._root, *parts)

    def module_dir(self, wanted, *parts):
        """/var/lib/dkms/<module>/<version>/..."""
        return self.path("var/lib/dkms", wanted.module, wanted.version, *parts)

    def build_dir(self, wanted):
        """Where DKMS compiles; one per module and version, not per kernel."""
        return self.module_dir(wanted, "build")

    def built_dir(self, wanted):
        """Where DKMS keeps the built files for one kernel."""
        return self.module_dir(wanted, wanted.kernel, wanted.arch)

    def kernel_dir(self, kernel):
        """/lib/modules/<release>."""
        return self.path("lib/modules", kernel)

    def missing(self, wanted, registered):
        """What a build needs and the node lacks: a list of sentences that name the remedy. Nothing is run."""
        found = []
        image, headers = ("kernel-core", "kernel-devel") if self._destination() == DESTINATION_EL else ("linux-image", "linux-headers")
        if not os.path.isdir(self.kernel_dir(wanted.kernel)):
            found.append("kernel %s is not installed: install %s-%s" % (wanted.kernel, image, wanted.kernel))
        # The test that DKMS itself makes (prepare_kernel).
        if not any(os.path.exists(os.path.join(self.kernel_dir(wanted.kernel), name, "include")) for name in ("build", "source")):
            found.append("the headers of kernel %s are missing: install %s-%s" % (wanted.kernel, headers, wanted.kernel))
        source = self.path("usr/src", "%s-%s" % (wanted.module, wanted.version))
        if not registered and not os.path.exists(os.path.join(source, "dkms.conf")):
            found.append("%s/dkms.conf does not exist: install the package that ships the source of %s %s"
                         % (source, wanted.module, wanted.version))
        return found

    def wait_until_idle(self, wanted, seconds):
        """Wait for other processes' DKMS work to end; end the compilers of a DKMS that was killed.

        Returns the ids of the processes that are still at it after `seconds`.
        """
        deadline = time.monotonic() + seconds
        while True:
            processes = self._processes(self.build_dir(wanted))
            for pid in abandoned(processes):
                _kill(pid)
            busy = sorted(pid for pid, dummy, role in processes if role)
            if not busy or time.monotonic() >= deadline:
                return busy
            time.sleep(POLL_SECONDS)

    def _processes(self, build_dir):
        own_namespace = _link("/proc/self/ns/mnt")
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            # A container's processes are visible from its host with the same paths, and are none of its business.
            if int(pid) == os.getpid() or _link("/proc/%s/ns/mnt" % pid) not in ("", own_namespace):
                continue
            try:
                with open("/proc/%s/cmdline" % pid, "rb") as handle:
                    argv = [word.decode("utf-8", "replace") for word in handle.read().split(b"\0")]
                with open("/proc/%s/stat" % pid, encoding="utf-8", errors="replace") as handle:
                    parent = int(handle.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            found.append((int(pid), parent, role_of(argv, _link("/proc/%s/cwd" % pid), build_dir)))
        return found

    def observe(self, wanted, hashed=True):
        """What is there for a Wanted with a kernel (or, kernel None, for all kernels together): an Observed."""
        tree = os.path.isdir(self.module_dir(wanted))
        rows = [row for row in self._status(wanted) if row["module"] == wanted.module and row["kernel"] is not None
                and wanted.kernel in (None, row["kernel"]) and row["arch"] in (None, wanted.arch)]
        if tree and not os.path.exists(self.module_dir(wanted, "source", "dkms.conf")):
            return self._observe_broken(wanted, rows)
        own = [row for row in rows if row["version"] == wanted.version and row["state"] in ("built", "installed")]
        if wanted.kernel is None:
            state = own[0]["state"] if own else "added" if tree else "absent"
            return Observed(state, [], False, [], [], [], [], tree)
        others = _others(rows, wanted, wanted.kernel)
        if own:
            return self._observe_built(wanted, own[0], others, hashed)
        leftovers, owned, on_disk = self._unaccounted(wanted, others, hashed)
        # A folder of built files that DKMS does not report is what a killed build leaves (3.0.10).
        remains = os.path.isdir(self.built_dir(wanted))
        return Observed("added" if tree else "absent", [], remains, others, leftovers, owned, on_disk, tree)

    def _observe_broken(self, wanted, rows):
        known = [name for name in os.listdir(self.module_dir(wanted)) if os.path.isdir(self.kernel_dir(name))]
        leftovers = []
        for kernel in [wanted.kernel] if wanted.kernel else sorted(known):
            leftovers += self._unaccounted(wanted._replace(kernel=kernel), _others(rows, wanted, kernel), False)[0]
        return Observed("broken", ["the registered source of %s/%s is gone" % wanted[:2]], False,
                        _others(rows, wanted, wanted.kernel), leftovers, [], [], True)

    def _observe_built(self, wanted, row, others, hashed):
        built = self._built_files(wanted)
        build_faults = ["the build lacks %s" % name
                        for name in sorted(set(wanted.files) - {module_files.stem(path) for path in built})]
        if "missing_built" in row["flags"] or not built:
            build_faults.append("DKMS reports that built files are missing")
        on_disk = self._files_on_disk(wanted, hashed)
        disk_faults = [fault for item in on_disk for fault in module_files.faults(item, wanted.kernel, wanted.version, wanted.certificate)]
        if row["state"] == "installed" and "diff" not in row["flags"]:
            build_faults += disk_faults      # the same bytes, and reading them through modinfo unpacks 60 MB
        else:
            build_faults += [fault for item in module_files.describe(self._run, built, False)
                             for fault in module_files.faults(item, wanted.kernel, wanted.version, wanted.certificate)]
        if row["state"] == "built":
            leftovers, owned, on_disk = self._unaccounted(wanted, others, hashed)
            return Observed("built", build_faults, bool(build_faults), others, leftovers, owned, on_disk, True)
        absent = sorted(set(self._stems(wanted)) - {item["name"] for item in on_disk})
        faults = build_faults + [fault for fault in disk_faults if fault not in build_faults]
        faults += ["%s is not below %s" % (name, self.kernel_dir(wanted.kernel)) for name in absent]
        if "diff" in row["flags"] and not absent:
            faults.append("the installed files differ from the built ones")
        return Observed("installed", faults, bool(build_faults), others, [], [], on_disk, True)

    def _status(self, wanted):
        result = self._run(["dkms", "status", "-m", wanted.module, *(["-k", wanted.kernel] if wanted.kernel else [])], ok=None)
        if result.rc not in (0, 127) and not result.out.strip():
            raise DkmsError("dkms status failed with exit status %d" % result.rc, "status", result.err, result.rc)
        return parse_dkms_status(result.out).value

    def _unaccounted(self, wanted, others, hashed):
        """Module files in DKMS's place though it has nothing installed: (paths nobody owns, what packages own, descriptions)."""
        place = os.path.join(self.kernel_dir(wanted.kernel), self._destination())
        found = {} if others else module_files.find(place, self._stems(wanted))
        on_disk = module_files.describe(self._run, [found[name] for name in sorted(found)], hashed)
        leftovers, owned = [], []
        for item in on_disk:
            package = self._owner(item["path"])
            if package:
                owned.append("%s belongs to the package %s" % (item["path"], package))
            else:
                leftovers.append(item["path"])
        return leftovers, owned, on_disk

    def _destination(self):
        """Where this distribution's DKMS installs modules."""
        try:
            with open(self.path("etc/os-release"), encoding="utf-8", errors="replace") as handle:
                words = " ".join(re.findall(r"^ID(?:_LIKE)?=(.*)$", handle.read(), re.MULTILINE))
        except OSError:
            words = ""
        return DESTINATION_EL if re.search("rhel|fedora", words) else DESTINATION_SUSE if "suse" in words else DESTINATION

    def _owner(self, path):
        """The package that a file belongs to; None where none has it."""
        for argv in (["dpkg-query", "-S", path], ["rpm", "-qf", path]):
            said = self._run(argv, ok=None)
            if said.rc == 0:
                return said.out.split(":")[0].strip()
        return None

    def _built_files(self, wanted):
        folder = os.path.join(self.built_dir(wanted), "module")
        names = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
        return [os.path.join(folder, name) for name in names if module_files.stem(name)]

    def _stems(self, wanted):
        return wanted.files or [module_files.stem(path) for path in self._built_files(wanted)]

    def _files_on_disk(self, wanted, hashed):
        found = module_files.find(self.kernel_dir(wanted.kernel), self._stems(wanted))
        return module_files.describe(self._run, [found[name] for name in sorted(found)], hashed)

    def do(self, step, wanted, seen):
        """Do one step of a plan. Raises DkmsError with DKMS's own output when it fails."""
        own = ["-m", wanted.module, "-v", wanted.version]
        where = ["-k", wanted.kernel, "-a", wanted.arch]
        if step == "forget":
            shutil.rmtree(self.module_dir(wanted))
            for link in glob.glob(self.path("var/lib/dkms", glob.escape(wanted.module), "kernel-*")):
                if os.path.islink(link) and not os.path.exists(link):
                    os.remove(link)
        elif step == "add":
            self._dkms(step, ["add", *own])
        elif step == "unbuild":
            self._dkms(step, ["unbuild", *own, *where])
            # DKMS skips a half-made folder here ("not built") and refuses it later ("already built").
            shutil.rmtree(self.built_dir(wanted), ignore_errors=True)
        elif step == "uninstall":
            self._dkms(step, ["uninstall", *own, *where])
            # DKMS leaves a file that it doesn't recognize, and its next install would archive that as the kernel's own.
            self._delete(self._unaccounted(wanted, [], False)[0])
        elif step == "replace":
            for version in seen.others:
                if os.path.exists(self.path("var/lib/dkms", wanted.module, version, "source", "dkms.conf")):
                    self._dkms(step, ["uninstall", "-m", wanted.module, "-v", version, *where])
        elif step == "clean":
            self._delete(seen.leftovers)
            for kernel in sorted({os.path.relpath(path, self.path("lib/modules")).split("/", 1)[0] for path in seen.leftovers}):
                self._run(["depmod", kernel])
        elif step == "install":
            # --force: the exact version is wanted even where the kernel carries a newer one of the same name.
            self._dkms(step, ["install", "--force", *own, *where])
        elif step == "remove":
            self._dkms(step, ["remove", *own, *(where if wanted.kernel else ["--all"])])
        else:
            self._dkms(step, [step, *own, *where])

    def _delete(self, paths):
        for path in paths:
            os.remove(path)

    def _dkms(self, step, words):
        result = self._run(["dkms", *words], ok=None)
        self.remarks += [line.strip()[:200] for line in result.out.splitlines() if _NOT_SIGNED.search(line[:1000])]
        if result.rc != 0:
            raise DkmsError("dkms %s failed with exit status %d" % (" ".join(words), result.rc), step,
                            result.out + result.err, result.rc)

    def drop_partial_build(self, wanted):
        """After a failed build: no half-made files of it stay for this kernel (the log in build/ does)."""
        shutil.rmtree(self.built_dir(wanted), ignore_errors=True)


def _others(rows, wanted, kernel):
    """Other versions of the module that DKMS has installed for a kernel."""
    return [row["version"] for row in rows
            if row["version"] != wanted.version and row["state"] == "installed" and row["kernel"] == kernel]


def _link(path):
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
