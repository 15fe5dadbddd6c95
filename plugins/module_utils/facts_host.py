# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of the host, for reading only: ECC, MIG, persistence, IOMMU, limits, huge pages, NUMA, NICs."""

from __future__ import annotations

# name: (level, how to take it live); docs/probes.md describes each.
PROBES = {}


def section(reader):
    """The part of the state that these probes fill: {key: value}."""
    del reader
    return {}
