# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dnf 4 as a resolver to ask and a hand to act, through its Python library. No judgement here: closure.py decides.

Packages go by the keys of the state's table: the name, with ":i686" behind it for 32-bit ones; versions are "epoch:version-release",
without an epoch of 0. dnf's own settings count, but for: no weak dependencies, not "best", no limit for kernels, no removal of what
nothing needs any more, and the version locks, which dnf_user.py reads itself, so that it can say what is in the way.
"""
from __future__ import annotations

import logging
import os
import re
import shutil
import sys

from ansible_collections.lockstep.gpu.plugins.module_utils import versions_rpm
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import PackageError, read_text, write_atomically

try:
    import dnf
    import dnf.conf
    import dnf.exceptions
    import dnf.goal
    import dnf.module.module_base as modules
    import dnf.rpm
    import dnf.selector
    import dnf.util
    import hawkey
    import rpm
    from dnf.yum import rpmtrans
    _Display = rpmtrans.TransactionDisplay
except ImportError:
    # dnf_python.ensure() has said so before anything here is called.
    _Display = object

NARROW = ("i386", "i486", "i586", "i686")
# Plugins that are left out: locks we apply ourselves, and NVIDIA's (dnf-plugin-nvidia) excludes kernels by its own rule, and once a
# transaction is resolved adds removals to it.
OWN_BUSINESS = ("versionlock", "nvidia")


class System:
    """Where a system lies: "/", or a folder with one (tests)."""

    def __init__(self, root="/"):
        self.root = root if root == "/" else root.rstrip("/")

    def path(self, name):
        """A path of the system as seen from here."""
        return name if self.root == "/" or name.startswith(self.root + "/") else self.root + name


class Words(logging.Handler):
    """dnf's and libdnf's warnings and errors of one call, for messages."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.lines = []

    def emit(self, record):
        # Some plugins fail where there is no command line; dnf logs that and goes on.
        if "Traceback (most recent" not in record.getMessage():
            self.lines.append(record.getMessage())

    def listen(self):
        """Take what dnf's loggers say, and keep it off the terminal."""
        for name in ("dnf", "libdnf", "librepo", "dnf.plugin", "dnf.rpm"):
            logger = logging.getLogger(name)
            logger.propagate = False
            logger.handlers = [self]
        return self


class Display(_Display):
    """What scriptlets and rpm say during a transaction."""

    def __init__(self):
        super().__init__()
        self.errors = []

    def error(self, message):
        self.errors.append(str(message))

    def scriptout(self, msgs):
        if msgs:
            self.errors.append(str(msgs).strip())


# -- one dnf ---------------------------------------------------------------------------------------


def settings(system):
    """dnf's configuration for a system, before its repositories are read. Raises PackageError."""
    conf = dnf.conf.Conf()
    conf.config_file_path = system.path("/etc/dnf/dnf.conf")
    try:
        if os.path.exists(conf.config_file_path):
            conf.read()
    except dnf.exceptions.Error as error:
        raise PackageError("%s cannot be read: %s" % (conf.config_file_path, error)) from error
    if system.root != "/" and conf.installroot != system.root:
        # Settings that name their root have paths as seen from here. The plugins are those of this Python, their settings the system's.
        conf.installroot = system.root
        for option in ("cachedir", "logdir", "persistdir"):
            conf.prepend_installroot(option)
        conf.reposdir = [system.path(path) for path in conf.reposdir]
        conf.pluginconfpath = [system.path(path) for path in conf.pluginconfpath]
    conf.substitutions["releasever"] = dnf.rpm.detect_releasever(system.root) or release_of(system)
    conf.substitutions.update_from_etc(system.root, varsdir=conf.varsdir)
    conf.best = False
    conf.install_weak_deps = False
    conf.clean_requirements_on_remove = False
    conf.installonly_limit = 0
    conf.module_stream_switch = True
    conf.assumeyes = True
    conf.debuglevel = 0
    conf.errorlevel = 0
    return conf


def release_of(system):
    """The major release of a system without a release package in rpm's database, by its os-release; "" if that does not say."""
    found = re.search(r"^VERSION_ID=\"?(\d+)", read_text(system.path("/etc/os-release")) or "", re.MULTILINE)
    return found.group(1) if found else ""


def open_base(system, installonly=(), aside=None):
    """A dnf.Base with all packages of the system and its repositories. Raises PackageError.

    installonly: names beyond dnf's own ones that lie side by side. aside: {folder, sources: text of our repositories, own: path of the file
    they are in, keys: [{path, content}]}: a private copy of the settings with these repositories in place of ours, and a private cache
    that starts with what the system's has.
    """
    conf = settings(system)
    conf.installonlypkgs = [*conf.installonlypkgs, *installonly]
    cache = conf.cachedir
    if aside:
        conf.reposdir = [private_repositories(conf.reposdir, **aside)]
        conf.cachedir = os.path.join(aside["folder"], "cache")
    base = dnf.Base(conf)
    try:
        base.init_plugins(disabled_glob=OWN_BUSINESS)
        base.pre_configure_plugins()
        base.read_all_repos()
        base.configure_plugins()
        for repo in base.repos.iter_enabled():
            if aside:
                copy_cache(cache, conf.cachedir, os.path.basename(repo._repo.getCachedir()), repo.id)
            # Ask whether the cache is still what the repository says; it is read only where it is not.
            repo._repo.expire()
        base.fill_sack(load_system_repo="auto")
    except (dnf.exceptions.Error, RuntimeError, hawkey.Exception) as error:
        close(base)
        raise PackageError("the repositories cannot be read: %s" % error) from error
    return base


def close(base):
    """Let go of a base; dnf loads plugins only once, unless they are let go of first."""
    if "dnf.plugin.dynamic" in sys.modules:
        base.unload_plugins()
    base.close()


def private_repositories(folders, folder, sources, own, keys):
    """A folder with copies of the .repo files, and our planned text with its keys in place of our file; returns its path."""
    target = os.path.join(folder, "repos")
    os.makedirs(target)
    for source in folders:
        for name in sorted(os.listdir(source)) if os.path.isdir(source) else []:
            if name.endswith(".repo") and name != os.path.basename(own):
                shutil.copy(os.path.join(source, name), os.path.join(target, name))
    for number, key in enumerate(keys):
        path = os.path.join(folder, "key-%d" % number)
        with open(path, "wb") as out:
            out.write(key["content"])
        sources = re.sub(r"file://%s(?=[\s,]|$)" % re.escape(key["path"]), "file://" + path, sources)
    if sources:
        write_atomically(os.path.join(target, os.path.basename(own)), sources)
    return target


def copy_cache(source, target, folder, repo):
    """Take over what a cache has of a repository. dnf touches the small index files in place, so those are copied; the rest is linked."""
    os.makedirs(target, exist_ok=True)
    names = [name for name in ("%s.solv" % repo, "%s-filenames.solvx" % repo, "%s-updateinfo.solvx" % repo) if os.path.isfile(os.path.join(source, name))]
    for below, dummy, files in os.walk(os.path.join(source, folder)):
        names += [os.path.relpath(os.path.join(below, name), source) for name in files if not name.endswith((".rpm", ".lock"))]
    for name in names:
        path = os.path.join(target, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        try:
            if re.search(r"(repomd|primary|pubring)", name):
                shutil.copy2(os.path.join(source, name), path)
            else:
                os.link(os.path.join(source, name), path)
        except OSError:
            shutil.copy2(os.path.join(source, name), path)


# -- what is in it ---------------------------------------------------------------------------------


def key_of(package):
    """The key of a package in the state's table."""
    return "%s:%s" % (package.name, package.arch) if package.arch in NARROW and os.uname().machine != package.arch else package.name


def version_of(package):
    """The version of a package in the state's words."""
    return versions_rpm.joined(str(package.epoch), package.version, package.release)


def metadata(package):
    """What a row of a closure says about an available package."""
    kind, digest = package.returnIdSum() if not package._from_system else (None, None)
    return {"source": package.source_name, "arch": package.arch, "origin": package.reponame, "size": int(package.downloadsize or 0),
            "installed_kib": int(package.installsize or 0) // 1024, "sha256": digest if kind == "sha256" else None}


class Outcome:
    """What a solved goal does: installs {key: package}, removed [keys] of what is gone then."""

    def __init__(self, goal, installed):
        coming = [*goal.list_installs(), *goal.list_upgrades(), *goal.list_downgrades(), *goal.list_reinstalls()]
        self.installs = {key_of(package): package for package in coming}
        leaving = {}
        for package in [*goal.list_erasures(), *goal.list_obsoleted()]:
            leaving.setdefault(key_of(package), set()).add(version_of(package))
        self.removed = sorted(key for key, versions in leaving.items()
                              if key not in self.installs and not {version_of(one) for one in installed.get(key, [])} - versions)


class Dnf:
    """Questions to one open base. All excludes lie in its sack; restrict() adds ours, and every goal is made anew."""

    def __init__(self, base):
        self.base = base
        self._own = None

    def close(self):
        close(self.base)

    def query(self, **flags):
        """What repositories have and is not excluded, sources left out."""
        return self.base.sack.query(**flags).available().filterm(arch__neq=["src", "nosrc"])

    def installed(self):
        """{key: [packages]}, the newest first."""
        found = {}
        for package in sorted(self.base.sack.query().installed(), reverse=True):
            found.setdefault(key_of(package), []).append(package)
        return found

    def versions(self, names, query=None):
        """{key: [versions that repositories have, the newest first]}; a name that is nowhere is left out."""
        wanted = {name.partition(":")[0] for name in names}
        found = {}
        for package in sorted((self.query() if query is None else query).filter(name=sorted(wanted)), reverse=True):
            versions = found.setdefault(key_of(package), [])
            if version_of(package) not in versions:
                versions.append(version_of(package))
        return {key: versions for key, versions in found.items() if key in names}

    def names_like(self, prefix):
        """Names of available packages that start with prefix."""
        return sorted({package.name for package in self.query().filter(name__glob=prefix + "*")})

    def exact(self, key, version, query=None):
        """The packages, of whatever repository or installed, that are exactly this."""
        name, _colon, arch = key.partition(":")
        have = versions_rpm.parse(version)
        chosen = (self.base.sack.query() if query is None else query).filter(name=name, epoch=have.epoch, version=have.version, release=have.release)
        return [package for package in chosen if key_of(package) == key and package.arch not in ("src", "nosrc")]

    def exclude(self, packages):
        """Keep these available packages out of every later goal."""
        query = self.base.sack.query().filter(pkg=list(packages)).available() if packages else None
        if query:
            self._own = query if self._own is None else self._own.union(query)
            self.base.sack.add_excludes(query)

    def obsoleters(self, packages):
        """Available packages that would replace any of these under another name."""
        chosen = list(packages)
        query = self.base.sack.query().filter(pkg=chosen) if chosen else None
        return list(self.query().filter(obsoletes=query)) if query else []

    def only_own_excludes(self):
        """Forget all excludes but ours and those of modules: to see whether the user's are in the way."""
        self.base.sack.reset_excludes()
        self.base.sack.reset_includes()
        for repo in ("", *[repo.id for repo in self.base.repos.iter_enabled()]):
            self.base.sack.set_use_includes(False, repo or None) if repo else self.base.sack.set_use_includes(False)
        if self._own is not None:
            self.base.sack.add_excludes(self._own)

    # -- streams

    def stream_of(self, name):
        """(state, stream) of a module: "enabled", "disabled", "default" or "unknown", None where no repository has it."""
        container = self.base._moduleContainer
        if not list(container.query(name, "", "", "", "")):
            return None
        state = {modules.STATE_ENABLED: "enabled", modules.STATE_DISABLED: "disabled", modules.STATE_DEFAULT: "default"}.get(
            container.getModuleState(name), "unknown")
        return state, container.getEnabledStream(name) or ""

    def streams(self, name):
        """The streams of a module that repositories have."""
        return sorted({str(row.getStream()) for row in self.base._moduleContainer.query(name, "", "", "", "")})

    def enable(self, spec):
        """Enable a stream ("name:stream") for this base only, in place of another one (module_stream_switch). Raises PackageError."""
        try:
            modules.ModuleBase(self.base).enable([spec])
        except (dnf.exceptions.Error, RuntimeError) as error:
            raise PackageError("module stream %s: %s" % (spec, error)) from error

    def save_streams(self):
        """Write the streams that are enabled here onto the node."""
        self.base._moduleContainer.save()
        self.base._moduleContainer.updateFailSafeData()

    # -- goals

    def goal(self, asks, erase=(), again=(), double=None):
        """A goal: asks {key: version} to have, erase [keys], again [(key, version)] to install once more, double {key: [packages]} to end."""
        goal = dnf.goal.Goal(self.base.sack)
        goal.protect_running_kernel = self.base.conf.protect_running_kernel
        goal.add_protected(self.base.sack.query().filterm(name=self.base.conf.protected_packages))
        for key, version in sorted(asks.items()):
            chosen = self.exact(key, version)
            if not chosen:
                raise PackageError("no repository has %s-%s" % (key, version))
            selector = dnf.selector.Selector(self.base.sack)
            selector.set(pkg=[package for package in chosen if package._from_system] or chosen)
            goal.install(select=selector, optional=False)
        for key, version in again:
            for package in self.exact(key, version, self.query())[:1]:
                goal.install(package)
        there = self.installed()
        for key in erase:
            for package in there.get(key, []):
                goal.erase(package)
        for packages in (double or {}).values():
            for package in packages:
                goal.erase(package)
        return goal

    def solve(self, goal):
        """Solve it: Outcome. Raises PackageError with the solver's words."""
        if not goal.run(allow_uninstall=True, force_best=False, ignore_weak_deps=True):
            raise PackageError(dnf.util._format_resolve_problems(goal.problem_rules()).strip())
        return Outcome(goal, self.installed())

    def simulate(self, asks, erase=(), **more):
        """What dnf would do."""
        return self.solve(self.goal(asks, erase, **more))

    def act(self, goal, outcome, ending, before):
        """Download, check signatures, call before(), run the transaction. Raises PackageError with dnf's and rpm's words.

        outcome: what the goal was solved to; ending: keys that end beside it. Plugins may change a transaction after that: it is compared again.
        """
        words, display = Words().listen(), Display()
        base = self.base
        base._goal = goal
        # What a killed transaction left twice may be installed once more while the other one ends: for rpm it is already there.
        base._rpm_probfilter.add(rpm.RPMPROB_FILTER_REPLACEPKG)
        try:
            base.resolve(allow_erasing=True)
            coming = list(base.transaction.install_set)
            changed = {str(package) for package in coming} ^ {str(package) for package in outcome.installs.values()}
            changed |= {str(package) for package in base.transaction.remove_set
                        if key_of(package) not in outcome.installs and key_of(package) not in (*outcome.removed, *ending)}
            if changed:
                raise PackageError("a plugin of dnf changed the transaction: %s" % ", ".join(sorted(changed)))
            base.download_packages(coming)
            for package in coming:
                self._check_signature(package)
            before()
            base.do_transaction(display)
        except (dnf.exceptions.Error, RuntimeError, OSError) as error:
            raise PackageError("\n".join([str(error), *words.lines[-10:], *display.errors[-10:]])) from error
        failed = [str(item) for item in base.transaction or () if item.state == 2]
        if failed:
            raise PackageError("failed: %s\n%s" % (", ".join(failed), "\n".join(display.errors[-10:])))

    def _check_signature(self, package):
        """Import the repository's key where that is all that is missing. Raises dnf.exceptions.Error."""
        result, words = self.base.package_signature_check(package)
        if result == 1:
            self.base.package_import_key(package)
        elif result:
            raise dnf.exceptions.Error("%s: %s" % (package, words))
