# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Repositories of another day: functions of (repository id, Row) for build(keep=...), and their words on the command line."""
from __future__ import annotations

import re

# A driver's version: 535.54.03, 580.142. Toolkits, kernels, DCGM and NCCL have other forms.
_DRIVER = re.compile(r"(\d{3})\.(\d{2,3})(?:\.(\d{2}))?$")


def driver(row):
    """The driver version of a row as numbers, None for rows of other kinds. Pinning packages of a branch count as its .0."""
    match = _DRIVER.match(row.upstream) or re.match(r"(\d{3})$", row.upstream if "pinning" in row.name else "")
    return tuple(int(number or 0) for number in match.groups()) if match else None


def until(version):
    """Keep the rows of drivers up to this version (580.126.20), and all rows of other things."""
    newest = tuple(int(number) for number in version.split("."))

    def keep(row):
        number = driver(row)
        return number is None or number <= newest

    return keep


def without(name, version=".*"):
    """Drop the rows whose whole name and whole version fit these regular expressions."""
    def keep(row):
        return not (re.fullmatch(name, row.name) and re.fullmatch(version, row.version))

    return keep


def only(name, version):
    """Of the names that fit, keep only the versions that fit; all other names stay."""
    def keep(row):
        return not re.fullmatch(name, row.name) or bool(re.fullmatch(version, row.version))

    return keep


def newest_kmod_only(module):
    """The module as NVIDIA's generator of 2024 wrote it: all packages of a stream, but of the kernel modules only the newest."""
    def numbers(version):
        return [int(number) for number in re.findall(r"\d+", version)]

    def cut(artifacts):
        newest = {}
        for version, names in artifacts.items():
            newest.update({name: version for name in names if numbers(version) > numbers(newest.get(name, ""))})
        return {version: [name for name in names if not re.fullmatch(r"kmod-nvidia-(open|latest)-dkms", name) or newest[name] == version]
                for version, names in artifacts.items()}

    return dict(module, streams=[dict(stream, artifacts=cut(stream["artifacts"])) for stream in module["streams"]])


def combine(by_repository):
    """The `keep` of build(): by_repository is {repository id, or "*" for all: [function of Row]}."""
    def keep(identifier, row):
        return all(rule(row) for rule in by_repository.get(identifier, []) + by_repository.get("*", []))

    return keep


def parse(until_words, without_words):
    """The `keep` of the options --until REPOSITORY=VERSION and --without REPOSITORY=NAME[=VERSION]. Raises ValueError."""
    rules = {}
    for word in until_words:
        repository, version = word.split("=", 1)
        rules.setdefault(repository, []).append(until(version))
    for word in without_words:
        repository, *rest = word.split("=", 2)
        rules.setdefault(repository, []).append(without(*rest))
    return combine(rules)
