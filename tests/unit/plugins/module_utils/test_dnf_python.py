# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A module starts over under the Python that has dnf, once, or says what is missing."""
from __future__ import annotations

import importlib

import pytest

from ansible_collections.lockstep.gpu.plugins.module_utils import dnf_python


class Failed(Exception):
    pass


class Module:
    def fail_json(self, msg):
        raise Failed(msg)


@pytest.fixture
def without_dnf(monkeypatch):
    """Respawns that were asked for, where nothing can be imported."""
    asked = []

    def refuse(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", refuse)
    monkeypatch.setattr(dnf_python, "has_respawned", lambda: False)
    monkeypatch.setattr(dnf_python, "probe_interpreters_for_module", lambda paths, name: paths[1])
    monkeypatch.setattr(dnf_python, "respawn_module", asked.append)
    return asked


def test_where_dnf_is_nothing_happens(monkeypatch):
    monkeypatch.setattr(importlib, "import_module", lambda name: None)
    assert dnf_python.ensure(Module()) is None


def test_elsewhere_it_starts_over(without_dnf):
    with pytest.raises(Failed):
        # The stand-in comes back, the real one does not.
        dnf_python.ensure(Module())
    assert without_dnf == ["/usr/bin/python3"]


@pytest.mark.parametrize("respawned, found", [(True, "/usr/bin/python3"), (False, None)])
def test_it_does_so_once_and_says_what_is_missing(without_dnf, monkeypatch, respawned, found):
    monkeypatch.setattr(dnf_python, "has_respawned", lambda: respawned)
    monkeypatch.setattr(dnf_python, "probe_interpreters_for_module", lambda paths, name: found)
    with pytest.raises(Failed, match="python3-dnf"):
        dnf_python.ensure(Module())
    assert without_dnf == []
