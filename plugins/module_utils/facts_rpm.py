# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RPM systems: packages, module streams, version locks, transactions, failed runs."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils import capture_rpm, parse_dnf, parse_dnf_plan, parse_dnf_run, parse_kernel
from ansible_collections.lockstep.gpu.plugins.module_utils import parse_apt_run, parse_module_result, parse_rpm, parse_rpm_kernels, versionlocks
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, shown, split_files
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Function, Recorded, Special

_ASKED = ("kmod-nvidia*", "nvidia-driver", "kernel", "kernel-core", "kernel-devel")
# name: (level, how to take it live); docs/probes.md describes each.
PROBES = {
    "rpm_list": ("local", Special(capture_rpm.rpm_list, "rpm -qa --qf '%s'" % parse_rpm.RPM_FORMAT)),
    "dnf_module_states": ("local", Function(capture_rpm.reading("/etc/dnf/modules.d/*.module"), "tail -v -n +1 /etc/dnf/modules.d/*.module")),
    "dnf_versionlock": ("local", Function(capture_rpm.reading(*capture_rpm.LOCKS), "tail -v -n +1 %s" % " ".join(capture_rpm.LOCKS))),
    "dnf_config": ("local", Function(capture_rpm.reading(*capture_rpm.CONFIGS), "tail -v -n +1 %s" % " ".join(capture_rpm.CONFIGS))),
    "dnf_repos": ("local", Function(capture_rpm.reading("/etc/yum.repos.d/*.repo"), "tail -v -n +1 /etc/yum.repos.d/*.repo")),
    "dnf_own_transaction": ("local", Function(capture_rpm.reading(versionlocks.JOURNAL), "tail -v -n +1 " + versionlocks.JOURNAL)),
    "dnf_modules": ("archive", Special(capture_rpm.asking("module", "list", "nvidia-driver"), "dnf module list nvidia-driver")),
    "dnf_repoquery": ("archive", Special(capture_rpm.asking("repoquery", "--available", *_ASKED), "dnf repoquery " + " ".join(_ASKED))),
    "dnf_transaction": ("archive", Special(capture_rpm.asking("--assumeno", "upgrade"), "dnf --assumeno upgrade")),
    "dnf_run": ("bundle", Recorded("what a run of dnf or yum printed")),
}
# `dnf check-update` ends with it where there are updates.
UPDATES_RC = 100
_MOVED = ("upgrade", "downgrade", "remove")


def section(reader):
    """The part of the state that these probes fill; nothing where none of them has anything to say.

    packages: as parse_rpm.packages() says; kernel.installed: rows as on other systems; compilers. package_manager:
    kind: "dnf"; packages_complete: whether the list shows a whole system, so that what is not in it is not there;
    absent: what rpm says is not installed;
    broken: packages that are there in two versions, or of which a transaction of ours did not come to its end;
    modules: {name: {enabled, default, disabled, streams, profiles}}; versionlocks: rows of parse_dnf.parse_dnf_versionlock();
    config: parse_dnf.parse_dnf_config(); sources: repositories, options.gpgcheck "0" where signatures are not checked;
    available: {name: [versions, newest first]} of what repositories have, None for a list of updates only; kmods: precompiled modules, as
    parse_rpm_kernels.kmods() says, with `installed`; problems: of runs, rows of parse_dnf_run.parse_dnf_run();
    transaction: parse_dnf_plan.parse_dnf_plan(); own_pins, own_pin_text, own_sources: as _own() says.
    A package's hold is True where a version lock keeps it, False where none does, None where nobody looked.
    """
    listing = reader.told("rpm_list", _listing)
    found = _answers(reader)
    if listing is None and not any(value is not None for value in found.values()):
        dpkg = reader.seen("dpkg_list")
        if dpkg and dpkg.absent("dpkg_list"):
            reader.note("dpkg_list", dpkg.why() + ", and no list of RPM packages is known either")
        return {}
    part = {} if listing is None else _installed(reader, listing)
    rows = (listing or {"rows": []})["rows"] + [row for row in found["offered"] or [] if row["installed"]]
    offered = None if found["offered"] is None else [row for row in found["offered"] if not row["installed"]]
    kmods = parse_rpm_kernels.kmods(rows, True) + parse_rpm_kernels.kmods(offered or [], False)
    manager = dict(part.pop("package_manager", {}), kind="dnf", config=found["config"], modules=_modules(found), versionlocks=found["locks"],
                   problems=found["problems"],
                   available=None if offered is None or found["updates_only"] else _available(offered),
                   kmods=None if listing is None and offered is None else kmods)
    manager.update(_own(reader))
    if part.get("packages") and manager.get("broken") is not None:
        manager["broken"] = sorted({*manager["broken"], *_interrupted(reader, part["packages"])})
    if part.get("packages") and found["locks"] is not None:
        held = versionlocks.held(part["packages"], found["locks"])
        for name, package in part["packages"].items():
            package["hold"] = name in held
    if found["repos"] is not None:
        manager["sources"] = _sources(found["repos"], found["config"])
    if found["problems"]:
        manager.update(_as_apt_says(found["problems"]))
    if found["done"] or found["present"]:
        manager["run"] = dict(manager.get("run") or parse_apt_run.nothing(), done=bool(found["done"]), current=found["present"] or {})
    if found["plan"] is not None:
        manager["transaction"] = _with_old(found["plan"], part.get("packages") or {})
    return dict(part, package_manager=manager)


def _own(reader):
    """What we wrote ourselves, by the node's files: own_pins {name: version}, own_pin_text and own_sources, None without such a file.

    Nothing where nobody looked.
    """
    part, locks, repos = {}, reader.seen("dnf_versionlock"), reader.seen("dnf_repos")
    if locks and (locks.rc == 0 or _no_file(reader, "dnf_versionlock")):
        text = _file(locks, versionlocks.LOCKS_FILE) or ""
        part = {"own_pins": versionlocks.own_pins(text), "own_pin_text": versionlocks.own_block(text)}
    if repos and repos.rc == 0:
        part["own_sources"] = _file(repos, versionlocks.OWN_REPOSITORIES)
    return part


def _interrupted(reader, packages):
    """Packages that a transaction of ours installed and did not come to its end with."""
    begun = reader.parsed("dnf_own_transaction", lambda text: Parsed(versionlocks.parse_journal(text), []), absent=None) or {}
    return [name for name, version in begun.items() if version in [packages.get(name, {}).get("version"), *packages.get(name, {}).get("others", [])]]


def _file(seen, path):
    """The content of one file of a probe that prints several with their paths; None when it is not among them."""
    return dict(split_files(seen.out).value or []).get(path)


def _answers(reader):
    """What dnf's files and outputs say; None for what is not known, or not there."""
    # Ansible's dnf module quotes dnf.
    results = [_quoted(reader.seen(name)) for name in ("ansible_result", "ansible_error", "apt_run")]
    run, plan = (reader.told(name, _transcript) for name in ("dnf_run", "dnf_transaction"))
    both = [one for one in (plan, run, *results) if one]
    return {
        "states": _module_states(reader),
        "modules": reader.told("dnf_modules", _or_failure(_streams)),
        "locks": _locks(reader),
        "config": reader.parsed("dnf_config", parse_dnf.parse_dnf_config, absent=None),
        "repos": reader.parsed("dnf_repos", parse_dnf.parse_dnf_repos, absent=None),
        "offered": reader.told("dnf_repoquery", _or_failure(parse_dnf.parse_dnf_repoquery)),
        "updates_only": (getattr(reader.seen("dnf_repoquery"), "rc", None) == UPDATES_RC) or None,
        "problems": [row for one in both for row in one["problems"]] if both else None,
        "plan": next((one["plan"] for one in both if one["plan"]), None),
        "done": any(one["done"] for one in both) or None,
        "present": {name: version for one in both for name, version in one["present"].items()} or None,
    }


def _listing(text, rc):
    """Parser of rpm_list; rpm -q ends with the number of packages that are not installed."""
    listing, problems = parse_rpm.parse_rpm_list(text)
    if (rc or problems) and not (listing["rows"] or listing["absent"]):
        return Parsed(None, problems or ["exit status %d without a list" % rc])
    return Parsed(listing, problems)


def _or_failure(parser):
    """A parser of (text, rc) that takes a failure without any value for a failure, and "no match" for an answer."""
    def parse(text, rc):
        value, problems = parser(text)
        if rc and not value and "o match" not in text:
            return Parsed(None, problems or ["exit status %d: %s" % (rc, shown(" ".join(text[:200].split())))])
        return Parsed(value, problems)
    return parse


# Words of dnf, yum, zypper and Ansible in a run that went well.
_QUIET = re.compile(r"Complete!|Nothing to do|Last metadata|Dependencies resolved|Transaction|already installed|Loaded plugins|Running|Repositories loaded"
                    r"|metadata cache created|Installed:|\d+ files removed|No packages marked for", re.IGNORECASE)


def _transcript(text, rc):
    """Parser of dnf_run and dnf_transaction: {problems, plan}. dnf ends with 1 also where it was told to assume no."""
    result = parse_module_result.parse_module_result(text).value
    quoted = result is not None and "failed" in result
    # What the result of a module says beside dnf's words, the other sections read.
    text = result["text"] if quoted else text
    problems = parse_dnf_run.parse_dnf_run(text).value
    plan, strange = parse_dnf_plan.parse_dnf_plan(text)
    if not quoted and not problems and plan is None and (text.strip() or rc) and not _QUIET.search(text):
        return Parsed(None, ["nothing in it is known (exit status %d): %s" % (rc, shown(" ".join(text[-200:].split())))])
    done = rc == 0 and not problems and bool(re.search(r"^(Complete!|Nothing to do)", text, re.MULTILINE))
    present = parse_dnf_run.parse_present(text).value
    return Parsed({"problems": problems, "plan": plan, "done": done, "present": present}, strange)


def _quoted(seen):
    """What the result of an Ansible module quotes of dnf, None without any; facts_apt.py reads the rest, and tells what is wrong with it."""
    if not seen:
        return None
    # The results of Ansible's dnf module are a list of sentences.
    text = (parse_module_result.parse_module_result("%s\n%s" % (seen.out, seen.err)).value or {}).get("text") or ""
    problems, present = parse_dnf_run.parse_dnf_run("%s\n%s" % (seen.out, seen.err)).value, parse_dnf_run.parse_present(text).value
    return {"problems": problems, "plan": None, "done": False, "present": present} if problems or present else None


def _no_file(reader, name):
    """Whether it is known that an RPM system does not have the files of a probe."""
    seen, rpm = reader.seen(name), reader.seen("rpm_list")
    return bool(seen and seen.absent(name) and rpm and rpm.rc == 0)


def _module_states(reader):
    """The streams that the node's files name; {} on an RPM system where nobody has chosen any."""
    if _no_file(reader, "dnf_module_states"):
        return {}
    return reader.parsed("dnf_module_states", _streams, absent=None)


def _streams(text):
    """The streams of modules, by dnf's files or by its table, whichever it is."""
    files = re.search(r"^(==> /|(state|stream|profiles)[ \t]*=)", text, re.MULTILINE)
    return parse_dnf.parse_dnf_module_states(text) if files or not text.strip() else parse_dnf.parse_dnf_modules(text)


def _locks(reader):
    """The version locks; [] on an RPM system without any, also where the plugin is not installed."""
    return [] if _no_file(reader, "dnf_versionlock") else reader.told("dnf_versionlock", _locks_or_failure)


def _locks_or_failure(text, rc):
    if rc and parse_dnf.no_versionlock_plugin(text):
        return Parsed([], [])
    return _or_failure(parse_dnf.parse_dnf_versionlock)(text, rc)


def _modules(found):
    """The module streams: what `dnf module list` says, completed by what is enabled by the node's own files."""
    if found["modules"] is None and found["states"] is None:
        return None
    return {name: row for name, row in {**(found["states"] or {}), **(found["modules"] or {})}.items()
            if row["enabled"] or row["disabled"] or parse_rpm.INTERESTING.fullmatch(name)}


def _installed(reader, listing):
    """The parts of the state that the list of packages fills."""
    rows, absent = listing["rows"], listing["absent"]
    whole = parse_rpm.complete(rows)
    packages = parse_rpm.packages(rows)
    part = {"packages": packages,
            "package_manager": {"packages_complete": whole, "broken": parse_rpm.duplicates(packages) if rows else None,
                                "absent": sorted(name for name in absent if parse_rpm.INTERESTING.fullmatch(name))}}
    installed = _kernels(reader, parse_rpm_kernels.kernels(rows, absent))
    if installed or whole:
        part["kernel"] = {"installed": installed}
    found = parse_rpm.compilers(rows)
    if found or whole:
        part["compilers"] = found
    return part


def _available(rows):
    """{name: [versions]} of rows of a repository, for what is interesting."""
    table = parse_rpm.packages(rows)
    return {name: [row["version"], *row.get("others", [])] for name, row in table.items()}


def _with_old(plan, packages):
    """The transaction with the versions that are installed now, where the table does not have them."""
    for row in [row for name in _MOVED for row in (plan or {}).get(name, [])]:
        if row["old"] is None:
            row["old"] = (packages.get(row["name"]) or {}).get("version")
    return plan


def _as_apt_says(problems):
    """What the rules about failed runs of apt also need of dnf: packages that no repository has, and who holds the locks."""
    missing = [{"name": row["package"], "version": row["version"]} for row in problems if row["reason"] == "no_match" and row["package"]]
    held = [{"path": row["package"], "pid": int(row["what"]) if row["what"] else None, "process": None} for row in problems if row["reason"] == "locked"]
    return {"run": dict(parse_apt_run.nothing(), missing=missing), "locks": held}


def _sources(repos, config):
    """Repositories in the form of apt's sources; dnf's own setting counts where a repository has none."""
    general = (config or {}).get("gpgcheck")
    return [{"file": repo["file"] or "/etc/yum.repos.d", "id": repo["id"], "types": ["rpm"], "uris": repo["uris"], "enabled": repo["enabled"],
             "options": {} if checked is None else {"gpgcheck": "1" if checked else "0"}}
            for repo in repos for checked in [general if repo["gpgcheck"] is None else repo["gpgcheck"]]]


def _kernels(reader, owned):
    """The installed kernels: those with an image package, and those with an image that no package of the list has."""
    seen, configs = reader.seen("kernel_files"), reader.seen("kernel_configs")
    files = parse_kernel.parse_kernel_files(seen.out).value if seen and seen.rc == 0 else None
    compiled = parse_kernel.parse_kernel_configs(configs.out).value if configs and configs.rc == 0 else {}
    rows = {row["release"]: row for row in owned}
    for release, row in (files or {}).items():
        if row["image"] and release not in rows:
            rows[release] = {"release": release, "package": None, "package_version": None, "headers": row["headers"]}
    return [_kernel(rows[release], files, compiled.get(release, {})) for release in sorted(rows)]


def _kernel(row, files, compiled):
    """A row of kernel.installed; what only files could tell is None where nobody looked at them."""
    there = {"image": True, "initramfs": None} if files is None else files.get(row["release"], {"image": False, "initramfs": False})
    # A list of files may say nothing about headers.
    headers = row["headers"] if there.get("headers") is None else there["headers"]
    return dict(row, image=there["image"], initramfs=there["initramfs"], headers=headers, compiler=compiled.get("compiler"), drm=compiled.get("drm"))
