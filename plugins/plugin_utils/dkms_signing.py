# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node's modules are signed with the site's key, as far as its facts tell."""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils.module_files import signature_faults
from ansible_collections.lockstep.gpu.plugins.module_utils.x509 import Certificate

Row = t.Dict[str, t.Any]


def due(files: t.Sequence[str], kernel: t.Optional[str], key: t.Optional[str], path: t.Optional[str], state: Row) -> t.Optional[str]:
    """Why dkms_module has to see to the signatures of a kernel's modules; None when it has not, or no key is named.

    files: names of the driver's modules; key, path: the site's key and certificate on the node. DKMS of Ubuntu 22.04 has no setting
    for a key; where the site's is the machine's own, it needs none.
    """
    if not key or not path or not kernel:
        return None
    settings, signing = state.get("dkms_settings") or {}, state.get("signing") or {}
    told = {name: (settings.get(name) or "").strip("\"'") for name in ("mok_signing_key", "mok_certificate")}
    known = signing.get("certificate") or {}
    if told != {"mok_signing_key": key, "mok_certificate": path} and not (known.get("path") == path and not any(told.values())):
        return "DKMS is not told to sign with %s" % key
    if known.get("path") != path:
        return "the certificate %s could not be read" % path
    certificate = Certificate(known["issuer"], known["subject"], known["serial"], known["sha1"], None)
    rows = [row for row in signing.get("modules") or [] if row["kernel"] == kernel and row["name"] in files]
    return next((fault for row in rows for fault in signature_faults(row, certificate)), None)


def planned(plan: Row, signing: t.Optional[Row], state: Row) -> Row:
    """A plan whose module is built again where it lacks the site's signature. signing: {key, certificate} or None."""
    dkms = plan["dkms"]
    if not dkms or dkms["due"] or not signing:
        return plan
    reason = due(dkms["files"], dkms["kernel"], signing.get("key"), signing.get("certificate"), state)
    if reason is None:
        return plan
    step = {"action": "dkms_build_install", "target": "%(module)s/%(version)s@%(kernel)s" % dkms}
    return dict(plan, dkms=dict(dkms, due=reason), actions=[*plan["actions"], step])
