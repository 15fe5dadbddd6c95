# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RPM packages: one spec file, for rpmbuild, of all rows with one EVR and one source package."""
from __future__ import annotations

import concurrent.futures
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from . import deb

# Tag of a spec file for each kind of relation.
TAGS = {"depends": "Requires", "recommends": "Recommends", "supplements": "Supplements", "provides": "Provides",
        "conflicts": "Conflicts", "obsoletes": "Obsoletes"}
SCRIPTS = {"postinst": "post", "prerm": "preun", "postrm": "postun", "posttrans": "posttrans"}
# Nothing of what rpmbuild adds of its own: no debug packages, no stripping, no dependencies from contents, no byte-compiling.
HEADER = """\
%global debug_package %{nil}
%global _build_id_links none
%global __os_install_post %{nil}
%global _binary_payload w1.gzdio
%global source_date_epoch_from_changelog 0
%global use_source_date_epoch_as_buildtime 1
%global clamp_mtime_to_source_date_epoch 1
%global _buildhost stubs.example.invalid
"""


def split_evr(version):
    """"3:580.126.20-1.el9" as ("3", "580.126.20", "1.el9"); no epoch: "". """
    epoch, _colon, rest = version.rpartition(":")
    upstream, _dash, release = rest.rpartition("-")
    return epoch, upstream, release


def file_name(row):
    """name-version-release.arch.rpm: no epoch."""
    return "%s-%s.%s.rpm" % (row.name, row.version.rpartition(":")[2], row.arch)


def spec(source, version, members, tree):
    """The text of the spec file. members: [(Row, Payload)]; tree: folder that has each row's files below its name."""
    epoch, upstream, release = split_evr(version)
    lines = ["Name: " + source, "Version: " + upstream, "Release: " + release, *(["Epoch: " + epoch] if epoch else []),
             "Summary: stub", "License: MIT", "AutoReqProv: no", "%description", "stub", "%install"]
    lines += ["cp -a %s/%s/. %%{buildroot}/" % (tree, row.name) for row, made in members if made.files]
    for row, made in members:
        # A subpackage may not bear the name of its source: then it is the main package itself.
        own = row.name == source
        lines += [] if own else ["%package -n " + row.name, "Summary: stub", "AutoReqProv: no"]
        tags = ["BuildArch: noarch"] if row.arch == "noarch" else []
        tags += ["%s: %s" % (tag, text) for key, tag in TAGS.items() for text in row.relations.get(key, ())]
        if own:
            # Before the description, which the whole of the main package's head precedes.
            lines[lines.index("%description"):lines.index("%description")] = tags
        else:
            lines += [*tags, "%description -n " + row.name, "stub"]
        lines += [line for script, section in SCRIPTS.items() if script in made.scripts
                  for line in ("%%%s -n %s" % (section, row.name), made.scripts[script].replace("%", "%%") + "true")]
        lines.append("%files -n " + row.name)
        lines += ["%s%s" % ("%config(noreplace) " if path in made.conffiles else "", path) for path in sorted(made.files)]
    return HEADER + "\n".join(lines) + "\n"


def groups(rows, payload_of):
    """[(source, version, [(Row, Payload)])]: rows that one spec makes; those whose files collide are in different ones."""
    made = []
    open_groups = {}
    for row in rows:
        content = payload_of(row)
        source = row.source or "stubs"
        found = None
        # BuildArch of a main package is that of all its subpackages: one spec per architecture where there is one.
        alike = open_groups.setdefault((source, row.version, row.arch if row.source else ""), [])
        for group in alike:
            if not any(path in group[3] for path in content.files) and not any(row.name == other.name for other, _made in group[2]):
                found = group
                break
        if found is None:
            found = (source, row.version, [], set())
            alike.append(found)
            made.append(found)
        found[2].append((row, content))
        found[3].update(content.files)
    return [group[:3] for group in made]


def build(rows, payload_of, home, cache):
    """Paths of signed rpms of the rows, in their order; each group is built once per cache. home: GnuPG's, with the key."""
    cache = pathlib.Path(cache)
    cache.mkdir(parents=True, exist_ok=True)
    paths, due = {}, []
    for source, version, members in groups(rows, payload_of):
        folder = cache / _digest(source, version, members)
        paths.update({(row.name, row.version, row.arch): folder / file_name(row) for row, _made in members})
        if not folder.is_dir():
            due.append((source, version, members, folder))
    if due:
        with tempfile.TemporaryDirectory(dir=cache) as work:
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                tops = list(pool.map(lambda job: _rpmbuild(*job[1][:3], pathlib.Path(work) / str(job[0])), enumerate(due)))
            _sign([path for top in tops for path in sorted(top.glob("*.rpm"))], home)
            for top, (_source, _version, members, folder) in zip(tops, due):
                missing = [file_name(row) for row, _made in members if not (top / file_name(row)).exists()]
                if missing:
                    raise RuntimeError("rpmbuild made no " + ", ".join(missing))
                os.rename(top, folder)
    return [paths[row.name, row.version, row.arch] for row in rows]


def _digest(source, version, members):
    text = repr((source, version, [(row.name, row.arch, sorted(row.relations.items()), sorted(made.files.items()), sorted(made.scripts.items()),
                                    made.conffiles) for row, made in members])) + pathlib.Path(__file__).read_text(encoding="utf-8")
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _rpmbuild(source, version, members, top):
    """Build one group in the folder `top`, which holds the rpms afterwards and nothing else."""
    work = pathlib.Path(str(top) + ".work")
    top.mkdir()
    work.mkdir()
    for row, made in members:
        _lay_out(work / "tree" / row.name, made)
    (work / "stub.spec").write_text(spec(source, version, members, work / "tree"), encoding="utf-8")
    done = subprocess.run(
        ["rpmbuild", "-bb", "--quiet", "--nodeps", "--target", "x86_64", "--define", "_topdir %s" % work, "--define", "_rpmdir %s" % top,
         "--define", "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm", str(work / "stub.spec")],
        capture_output=True, text=True, check=False, env=dict(os.environ, SOURCE_DATE_EPOCH=str(deb.TIME), LC_ALL="C"))
    if done.returncode:
        raise RuntimeError("rpmbuild of %s %s: %s" % (source, version, done.stderr[-2000:]))
    for other in set(top.glob("*.rpm")) - {top / file_name(row) for row, _made in members}:
        other.unlink()
    shutil.rmtree(work)
    return top


def _lay_out(folder, made):
    for path, file in made.files.items():
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if file.link:
            target.symlink_to(file.link)
        else:
            target.write_bytes(file.data)
            target.chmod(file.mode)


def _sign(paths, home):
    """Sign rpms in place with the only key of the GnuPG home."""
    command = ["rpmsign", "--addsign", "--define", "_gpg_name stubs@example.invalid", "--define", "_gpg_path " + home,
               "--define", "__gpg %s" % shutil.which("gpg"), "--define", "_gpg_sign_cmd_extra_args --pinentry-mode loopback"]
    chunks = [paths[start::os.cpu_count()] for start in range(os.cpu_count())]
    running = [subprocess.Popen([*command, *map(str, chunk)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for chunk in chunks if chunk]
    for process in running:
        error = process.communicate()[1]
        if process.returncode:
            raise RuntimeError("rpmsign: " + re.sub(r"\s+", " ", error)[-2000:])
