# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the package of a row brings: the files that its table lists, and what tests look at on a node."""
from __future__ import annotations

import re

from . import contents_dkms, contents_driver, contents_kernel, contents_services, contents_toolkit, elf
from .payload import Payload

RULES = (*contents_driver.RULES, *contents_dkms.RULES, *contents_kernel.RULES, *contents_services.RULES, *contents_toolkit.RULES)


class Maker:
    """Makes the payloads of one repository's rows.

    A rule is (table, name, function): regular expressions of the whole table's and the whole package's name; the function
    gets (maker, row, payload, match of the name) and adds to the payload. All rules that fit a row apply.
    """

    def __init__(self, repo, compiled):
        """repo: a Repository. compiled: elf.Compiled."""
        self.kind, self.table, self.compiled = repo.kind, repo.table, compiled
        self.library_folder = {"deb": "/usr/lib/x86_64-linux-gnu", "rpm": "/usr/lib64"}[repo.kind]
        self.unit_folder = {"deb": "/lib/systemd/system", "rpm": "/usr/lib/systemd/system"}[repo.kind]
        self.rows = repo.rows
        self._there = {(row.name, row.upstream) for row in repo.rows}

    def has(self, name, upstream):
        """Whether the repository has a package at this upstream version."""
        return (name, upstream) in self._there

    def __call__(self, row):
        made = Payload()
        for path in row.files:
            self._listed(row, made, path)
        for table, name, rule in RULES:
            match = re.fullmatch(name, row.name)
            if match and re.fullmatch(table, self.table):
                rule(self, row, made, match)
        if self.kind == "deb":
            made.text("/usr/share/doc/%s/stub" % row.name, "stub\n")
        return made

    def _listed(self, row, made, path):
        """A file that the table lists. Its content names the package, so that two packages with one path really collide."""
        library = re.search(r"/(lib[^/]+)\.so\.[\d.]+$", path)
        if library:
            made.data(path, self.compiled.library("library", library.group(1) + ".so.1", row.name[-30:] + " " + row.upstream))
        else:
            made.text(path, row.content.get(path, "%s %s\n" % (row.name, row.version)))

    def add_library(self, made, folder, data, name, full, soname, development=False):
        """A shared library with the links that its package has: name.so.<full>, name.so.<soname>, perhaps name.so."""
        made.data("%s/%s.so.%s" % (folder, name, full), data)
        if soname != full:
            made.link("%s/%s.so.%s" % (folder, name, soname), "%s.so.%s" % (name, full))
        if development:
            made.link("%s/%s.so" % (folder, name), "%s.so.%s" % (name, soname))
        for script in ("postinst", "postrm"):
            if "ldconfig\n" not in made.scripts.get(script, ""):
                made.run(script, "ldconfig")


def maker(repo, cache):
    """A Maker that compiles into this cache."""
    return Maker(repo, elf.Compiled(cache))
