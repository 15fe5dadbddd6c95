# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Promises about the repository's files that no other tool keeps."""

from __future__ import annotations

import pathlib
import re

import pytest
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[3]
LOCKS = [ROOT / name for name in ("requirements-dev.txt", "requirements-dev-py311.txt", "tools/uv.txt", "tools/collections.txt")]
ROLES = sorted(path for path in ROOT.glob("roles/*") if path.is_dir())
# Where a source may lie. Package registries are not among them: machines name their own mirrors, so none is written here.
KNOWN_HOST = re.compile(r"(.+\.)?(example|example\.(?:com|net|org)|invalid|redhat\.com|gnu\.org|fsf\.org|github\.com|nvidia\.com|linux\.mellanox\.com"
                        r"|json-schema\.org|ucw\.cz)"
                        r"|(www|tracker|bugs|manpages|wiki)\.debian\.org|((www|help|wiki|documentation|manpages)\.)?ubuntu\.com|nvidia\.github\.io"
                        r"|kernel-team\.pages\.debian\.net|uapi-group\.org|systemd\.io")
# A password may have an @ in it: what stands before the last one is no host.
ADDRESS = re.compile(r"\b(?:https?|ftp)://(?:[^/\s]+@)?([A-Za-z0-9][A-Za-z0-9.-]*)")
SKIPPED = {".git", ".lockstep", ".venv", ".hypothesis", ".pytest_cache", ".ansible", "__pycache__", "output"}


def text_files():
    """Yield every text file of the checkout but what tools write into it."""
    for path in ROOT.rglob("*"):
        parts = path.relative_to(ROOT).parts
        if path.is_file() and not path.is_symlink() and not SKIPPED.intersection(parts):
            try:
                yield path, path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue


def strangers(text):
    """The hosts of addresses in a text that are not known places of sources."""
    return [host for host in ADDRESS.findall(text) if not KNOWN_HOST.fullmatch(host.rstrip("."))]


def test_a_registry_would_be_found():
    """The test below can fail: an address of any other place is found."""
    assert strangers("see https://packages.somewhere.org/simple and https://docs.nvidia.com/x") == ["packages.somewhere.org"]


def test_no_registry_is_named():
    """Package indexes and archives come from the machine's own settings."""
    tests = pathlib.Path(__file__)
    named = ["%s: %s" % (path.relative_to(ROOT), host) for path, text in text_files() if path != tests for host in strangers(text)]
    assert named == []


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_locks_have_hashes_and_no_address(lock):
    """Every requirement is exact and hashed, and none says where it comes from."""
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text and "index-url" not in text and "find-links" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    assert entries and all(re.match(r"[\w.-]+(\[[\w,-]+\])?==\S+", entry) and "--hash=sha256:" in entry for entry in entries)


def test_both_locks_know_the_same_tools():
    """The lock for Python 3.11 may differ in versions, not in the tools asked for."""
    asked = re.findall(r"^[\w-]+", (ROOT / "requirements-dev.in").read_text(encoding="utf-8"), re.MULTILINE)
    for lock in LOCKS[:2]:
        locked = set(re.findall(r"^([\w.-]+)==", lock.read_text(encoding="utf-8"), re.MULTILINE))
        assert set(asked) <= locked


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_role_is_documented(role):
    """Each role has what a reader and Galaxy look for."""
    assert (role / "README.md").is_file() and (role / "meta/main.yml").is_file() and (role / "meta/argument_specs.yml").is_file()


@pytest.mark.parametrize("role", ROLES, ids=lambda path: path.name)
def test_role_defaults_are_its_arguments(role):
    """Every default is a documented argument; an argument without a default is required or says that none is set."""
    options = yaml.safe_load((role / "meta/argument_specs.yml").read_text(encoding="utf-8"))["argument_specs"]["main"].get("options", {})
    path = role / "defaults/main.yml"
    defaults = (yaml.safe_load(path.read_text(encoding="utf-8")) or {}) if path.is_file() else {}
    optional = {name for name, option in options.items() if not option.get("required")}
    assert set(defaults) == {name for name in optional if not name.startswith("lockstep_")}
    assert all(name.startswith((role.name + "_", "lockstep_")) for name in defaults)
