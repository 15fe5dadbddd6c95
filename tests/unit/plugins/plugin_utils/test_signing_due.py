# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""When the facts say that the site's signature is missing."""
from __future__ import annotations

import pytest

from ansible_collections.lockstep.gpu.plugins.plugin_utils import dkms_signing

KERNEL, KEY, PATH = "6.8.0-90-generic", "/etc/keys/m.priv", "/etc/keys/m.der"
MOK = ("/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der")
SITE = {"kernel": KERNEL, "name": "nvidia", "path": "/lib/modules/x/nvidia.ko", "signed": True, "signer": "Site", "key": "0A:01"}
TOLD = {"mok_signing_key": KEY, "mok_certificate": PATH}


def state(*modules, settings=None, path=PATH):
    return {"dkms_settings": settings, "signing": {
        "certificate": {"path": path, "issuer": "Site", "subject": "Site", "serial": "0A01", "sha1": None} if path else None, "modules": list(modules)}}


@pytest.mark.parametrize("facts, words", [
    (state(SITE, settings=TOLD), None),
    (state(SITE, settings={"mok_signing_key": '"%s"' % KEY, "mok_certificate": '"%s"' % PATH}), None),
    (state(settings=TOLD), None),                                                       # nothing is built yet: that is another reason
    (state(SITE), None),                                                                # an old DKMS that signs with it anyway
    (state(SITE, settings=dict(TOLD, mok_signing_key="/x")), "is not told to sign"),
    (state(SITE, path="/var/lib/dkms/mok.pub"), "is not told to sign"),
    (state(dict(SITE, signed=False, signer=None, key=None), settings=TOLD), "is not signed"),
    (state(dict(SITE, key="0A:02"), settings=TOLD), "not by Site (0A01)"),
    (state(dict(SITE, signer="DKMS module signing key"), settings=TOLD), "is signed by DKMS module signing key"),
    (state(dict(SITE, signed=False, kernel="6.8.0-44-generic"), settings=TOLD), None),  # not the stack's kernel
    (state(dict(SITE, signed=False, name="nvidia-fs"), settings=TOLD), None),           # not the driver's
    (state(SITE, settings=TOLD, path=None), "could not be read"),
])
def test_when_a_module_has_to_be_signed(facts, words):
    why = dkms_signing.due(["nvidia"], KERNEL, KEY, PATH, facts)
    assert why is None if words is None else words in why


def test_without_a_key_nothing_is_due():
    assert dkms_signing.due(["nvidia"], KERNEL, "", "", state(dict(SITE, signed=False))) is None
    assert dkms_signing.due(["nvidia"], None, KEY, PATH, {}) is None


def test_the_machines_own_key_needs_no_setting():
    facts = {"dkms_settings": {}, "signing": {"certificate": {"path": MOK[1], "issuer": "host", "subject": "host", "serial": "01", "sha1": None},
                                              "modules": [dict(SITE, signer="host", key="01")]}}
    assert dkms_signing.due(["nvidia"], KERNEL, *MOK, facts) is None


def test_the_plan_says_so():
    dkms = {"module": "nvidia", "version": "580.1", "kernel": KERNEL, "files": ["nvidia"], "due": None}
    plan = {"dkms": dkms, "actions": []}
    found = dkms_signing.planned(plan, {"key": KEY, "certificate": PATH}, state(dict(SITE, signed=False), settings=TOLD))
    assert found["dkms"]["due"].endswith("is not signed") and dkms["due"] is None
    assert found["actions"] == [{"action": "dkms_build_install", "target": "nvidia/580.1@" + KERNEL}]
    assert dkms_signing.planned(plan, {"key": "", "certificate": ""}, state()) == plan == dkms_signing.planned(plan, None, state())
    assert dkms_signing.planned({"dkms": None}, {"key": KEY, "certificate": PATH}, {}) == {"dkms": None}
