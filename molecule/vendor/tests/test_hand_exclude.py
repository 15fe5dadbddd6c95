# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An owner's `exclude=` or version lock that forbids what the stack needs stops the run, with its file and line; it is not touched."""

from __future__ import annotations

import expected
import pytest

EL = ("el9", "el10")
CONF, LOCKS = "/etc/dnf/dnf.conf", "/etc/dnf/plugins/versionlock.list"


@pytest.mark.platforms(*EL)
@pytest.mark.parametrize("path, line", [(CONF, "excludepkgs=nvidia-driver-cuda*"), (LOCKS, "!nvidia-driver-cuda-*")], ids=["exclude", "lock"])
def test_it_is_named_and_stays(changed, want, path, line):
    node, text = changed, changed.host.file(path).content_string
    node.output("sed -i '1a %s' %s" % (line, path))
    excluded = node.host.file(path).content_string
    before = node.packages()
    try:
        status, output = node.site(expected.stack(want["stack"], want["patch_level"]))
        assert status != 0 and node.report()["verdict"] == "blocked", output
        finding = next(row for row in node.report()["findings"] if row["code"] == "package_held_by_user")
        assert path in finding["message"] and line in finding["message"], finding
        assert node.packages() == before and node.host.file(path).content_string == excluded
    finally:
        node.host.run("cat > %s <<'END'\n%sEND" % (path, text))
