# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report: the document and the text."""
from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.plugin_utils import engine, report
from hypothesis import given
from hypothesis import strategies as st

FINDINGS = [
    engine.finding("inactive_userland", "550.163.01 (libcuda1)", "Told for information."),
    engine.finding("driver_fails_to_build_on_kernel", "a=1@b", "The open module does not build. " * 6, "measured 2026-11-30"),
    dict(engine.finding("unproven", "x", "An accepted one."), accepted=True),
    *[engine.finding("package_missing", "package%d" % number, "package%d is missing." % number) for number in range(5)],
]
NODE = {
    "verdict": "blocked", "findings": FINDINGS,
    "components": [{"name": "kernel", "wanted": "6.12.117+deb13-amd64 (6.12.117-1)", "have": "6.12.117-1", "state": "held"},
                   {"name": "driver", "wanted": "550.163.01 proprietary", "have": None, "state": "missing"}],
    "proof": [{"subject": "nvcc", "value": "12.4", "expected": "12.4", "proven": True, "detail": None},
              {"subject": "libcuda", "value": "12020", "expected": "12040", "proven": False, "detail": "another library is selected"},
              {"subject": "context", "value": None, "expected": "works", "proven": None, "detail": "no GPU " * 20}],
    "not_proven": [{"subject": "running kernel", "reason": "a container has none of its own"}],
    "plan": [{"action": "install", "target": "p%d=1" % number} for number in range(30)] + [{"action": "reboot_once", "target": "node"}],
    "changed": ["wrote a file", {"action": "hold", "target": "libcuda1"}],
}


def test_nothing_of_a_node_reaches_the_terminal_raw():
    row = dict(engine.finding("dkms_broken_source", "iser/1", ""), message="DKMS lists i\x1b]0;x\x07ser\u202e 1.")
    text = report.table({"n\x1b[1m": dict(NODE, findings=[row], remarks=["\x9b2J"], plan=["\x1b[2J"])})
    assert all(char.isprintable() or char == "\n" for char in text) and "i?]0;x?ser? 1." in text
    assert "\u2500" in text


def test_the_document_has_the_agreed_keys():
    document = report.document({"a": {"verdict": "in_sync"}, "b": NODE}, "sha256:1")
    assert document["schema"] == 1 and document["lock_digest"] == "sha256:1"
    assert set(document["nodes"]["a"]) == {"verdict", "findings", "plan", "state", "not_proven"}
    assert document["nodes"]["b"]["findings"] == FINDINGS
    assert report.document({})["nodes"] == {}


def test_the_table_tells_everything_a_person_needs():
    text = report.table({"good": {"verdict": "in_sync"}, "node1": NODE})
    lines = text.splitlines()
    assert max(map(len, lines)) <= report.WIDTH
    assert lines[0] == "lockstep report: 2 nodes, 1 blocked, 1 in_sync"
    assert text.index("node1 BLOCKED") < text.index("good IN_SYNC")
    assert text.index("driver_fails_to_build_on_kernel") < text.index("inactive_userland") < text.index("(accepted) unproven")
    for part in ("do: Take another flavour", "source: measured 2026-11-30", "5 times: package0, package1", "not proven (1)",
                 "running kernel: a container has none of its own", "FAILED, another library is selected", "install 30: p0=1",
                 "and 22 more", "reboot_once node", "hold libcuda1", "6.12.117+deb13-amd64 (6.12.117-1)"):
        assert part in text, part
    assert "package4 is missing" not in text


def test_no_node_is_told_as_such():
    assert report.table({}) == "lockstep report: 0 nodes, none matched\n"


WORDS = st.text(max_size=150) | st.none() | st.integers()


@given(st.dictionaries(st.text(st.characters(blacklist_categories=["C", "Z"]), min_size=1, max_size=40), st.fixed_dictionaries({
    "verdict": st.sampled_from(engine.VERDICTS),
    "components": st.lists(st.fixed_dictionaries({"name": WORDS, "wanted": WORDS, "have": WORDS, "state": WORDS}), max_size=3),
    "not_proven": st.lists(st.text(max_size=20), max_size=2),
}), max_size=3))
def test_no_line_is_too_long_whatever_the_words(nodes):
    for line in report.table(nodes).split("\n"):
        assert len(line) <= report.WIDTH
