# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The same stack on nodes with other boards: the flavour and the fabric's packages follow the hardware."""

from __future__ import annotations

import expected
import pytest

# kind: (the module's licence by modinfo, parts of the fabric that it must have)
KINDS = {
    "none": ("Dual MIT/GPL", set()),
    "v100": ("NVIDIA", set()),
    "a100": ("Dual MIT/GPL", {"manager", "nscq"}),
    "h100": ("Dual MIT/GPL", {"manager", "nscq"}),
    "b200": ("Dual MIT/GPL", {"manager", "nscq", "nvlsm"}),
}
FABRIC = {"manager": "nvidia-fabricmanager", "nscq": "libnvidia-nscq", "nvlsm": "nvlsm"}


@pytest.mark.many
@pytest.mark.parametrize("kind", KINDS)
def test_a_node_gets_what_its_boards_need(changed, want, kind):
    node, (licence, parts) = changed, KINDS[kind]
    node.gpus(kind)
    version = "580.126.20"
    stack = expected.stack(want["stack"], version, only=expected.BASE, flavour="auto")
    if kind == "v100" and any(name.startswith("cuda-toolkit-13") for name in want["parts"]):
        # The toolkit that lies on the node has dropped these boards: the driver comes, and the run says so.
        status, output = node.site(stack)
        assert status != 0 and node.report()["verdict"] == "broken" and "cuda_dropped_gpu" in node.codes(), output
    else:
        node.converge(stack)
    assert node.module(node.kernel(), "license") == licence
    there = node.packages()
    # What other boards needed before may stay, at the driver's version.
    assert parts <= {part for part, name in FABRIC.items() if name in there}
    assert node.driver_versions() == {version}


def test_an_unknown_board_is_refused(changed):
    """Before any change, and with the line to add."""
    changed.gpus("unknown")
    before = changed.packages()
    status, output = changed.site()
    assert status != 0 and changed.report()["verdict"] == "blocked", output
    assert "gpu_unknown" in changed.codes() and "10de:fffe" in output
    assert changed.packages() == before
