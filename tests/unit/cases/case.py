# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Public reports as tests: tests/fixtures/cases/<id>/<bundle>/ and what each is expected to give."""
from __future__ import annotations

import functools
import pathlib
import re

import yaml
from ansible_collections.lockstep.gpu.plugins.module_utils.bundle import BundleProbe
from ansible_collections.lockstep.gpu.plugins.module_utils.facts import replay
from ansible_collections.lockstep.gpu.plugins.plugin_utils import audit

CASES = pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "cases"
NAMES = sorted(path.name for path in CASES.iterdir() if path.is_dir())


@functools.lru_cache(maxsize=None)
def expected(name):
    """The `expect` of a case."""
    return yaml.safe_load((CASES / name / "expected.yml").read_text(encoding="utf-8"))["expect"]


def bundles(name):
    """The bundles of a case, `main` first."""
    return sorted((path.parent.name for path in (CASES / name).glob("*/bundle.yml")), key=lambda one: (one != "main", one))


@functools.lru_cache(maxsize=None)
def state(name, bundle=None):
    """What node_facts says of a bundle, the first one unless another is named."""
    bundle = bundle or bundles(name)[0]
    return replay(BundleProbe(str(CASES / name / bundle), yaml.safe_load))["ansible_facts"]["lockstep"]


@functools.lru_cache(maxsize=None)
def record(name, bundle=None):
    """What audit says of a bundle, the first one unless another is named."""
    bundle = bundle or bundles(name)[0]
    probe = BundleProbe(str(CASES / name / bundle), yaml.safe_load)
    return audit.judge(state(name, bundle), given=probe.given)


def tokens(text):
    """The versions, packages, paths and ids in a text: words with a digit in them, a path, or a name with a dash."""
    words = re.split(r"[\s,;()=]+|(?<!\w)/(?=\s)|(?<=\d)/(?=\d)|@", str(text))
    return [word.strip(".:'\"") for word in words if re.search(r"\d|^/\w|\w-\w", word)]


def said(row):
    """Everything that a finding says."""
    return "%s %s" % (row["subject"], row["message"])


def missing_findings(want, found):
    """Which expected findings are not there, each as a text."""
    wrong = []
    for row in want:
        severity = row.get("severity", "error")
        same = [one for one in found if one["code"] == row["code"]]
        fitting = [one for one in same if one["severity"] == severity]
        lacking = [token for token in tokens(row["subject"]) if not any(token in said(one) for one in fitting)]
        if not fitting or lacking:
            wrong.append("%s %s lacks %s; there: %s" % (severity, row["code"], lacking, [(one["severity"], said(one)) for one in same]))
    return wrong


def missing_steps(want, plan):
    """Which expected steps are not there, or not in their order."""
    wrong, place = [], 0
    for row in want:
        for number in range(place, len(plan)):
            if plan[number]["action"] == row["action"]:
                group = [step for step in plan if step["action"] == row["action"]]
                text = " ".join(str(value) for step in group for value in step.values())
                lacking = [token for key, value in row.items() if key not in ("action", "only_if", "after") for token in tokens(value) if token not in text]
                if lacking:
                    wrong.append("%s lacks %s in: %s" % (row["action"], lacking, text))
                place = number
                break
        else:
            wrong.append("no %s (in this order): %s" % (row["action"], [(step["action"], step.get("target")) for step in plan]))
    return wrong
