# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What Ansible itself said: versions, interpreters, results of modules."""

from __future__ import annotations

# name: (level, how to take it live); docs/probes.md describes each.
PROBES = {}


def section(reader):
    """The part of the state that these probes fill: {key: value}."""
    del reader
    return {}
