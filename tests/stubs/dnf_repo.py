# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A dnf repository: signed rpms, repodata by createrepo_c, modules.yaml, repomd.xml.asc."""
from __future__ import annotations

import os
import pathlib
import shutil
import subprocess

import yaml

from . import keys, rpm


def module_documents(module, rows):
    """The modulemd documents of a table's module, with the artifacts that `rows` have; streams without any are left out.

    One of version 2 per stream, then one of modulemd-defaults; as NVIDIA's genmodules.py writes them.
    """
    there = {(row.name, row.version): row.nevra for row in rows}
    documents = []
    for stream in module["streams"]:
        listed = [there[name, version] for version, names in stream["artifacts"].items() for name in names if (name, version) in there]
        if listed:
            documents.append({"document": "modulemd", "version": 2, "data": {
                "name": module["name"], "stream": stream["stream"], "version": int(stream["version"]), "context": stream["context"],
                "arch": "x86_64", "summary": stream["summary"], "description": stream["summary"], "license": {"module": ["MIT"]},
                "profiles": {name: {"rpms": list(rpms)} for name, rpms in stream["profiles"].items()}, "artifacts": {"rpms": listed}}})
    streams = [document["data"]["stream"] for document in documents]
    defaults = {"module": module["name"], "profiles": {stream: ["default"] for stream in streams}}
    if module["default_stream"] in streams:
        defaults["stream"] = module["default_stream"]
    return [*documents, {"document": "modulemd-defaults", "version": 1, "data": defaults}]


def write(folder, rows, module, payload_of, home, cache):
    """Write the repository of `rows` into an existing folder; rpms come from the cache, by hard link where that works."""
    folder = pathlib.Path(folder)
    for row, path in zip(rows, rpm.build(rows, payload_of, home, cache)):
        target = folder / rpm.file_name(row)
        try:
            os.link(path, target)
        except OSError:
            shutil.copyfile(path, target)
    _run("createrepo_c", "-q", "--workers", str(os.cpu_count()), "--no-database", "--general-compress-type=gz", str(folder))
    if module:
        modules = folder / "modules.yaml"
        with open(modules, "w", encoding="utf-8") as handle:
            yaml.dump_all(module_documents(module, rows), handle, Dumper=getattr(yaml, "CSafeDumper", yaml.SafeDumper),
                          sort_keys=False, explicit_start=True, explicit_end=True)
        _run("modifyrepo_c", "--mdtype=modules", str(modules), str(folder / "repodata"))
    keys.detach_sign(home, folder / "repodata/repomd.xml", folder / "repodata/repomd.xml.asc")


def _run(*words):
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError("%s: %s" % (words[0], done.stderr[-2000:]))
