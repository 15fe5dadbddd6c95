# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The few fields of an X.509 certificate that tell whose signature is on a kernel module.

Format: RFC 5280 in DER (X.690), or PEM (RFC 7468). A node need not have openssl; nothing is verified here, the kernel does that.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections import namedtuple

# issuer, subject: the first common name of each, None without one; serial: hexadecimal, capitals, whole bytes; sha1: of the DER form, as
# mokutil prints it (aa:bb:...); der: the DER form itself.
Certificate = namedtuple("Certificate", ["issuer", "subject", "serial", "sha1", "der"])

_PEM = re.compile(rb"-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----(.+?)-----END", re.DOTALL)
_COMMON_NAME = b"\x55\x04\x03"
_INTEGER, _OID, _SEQUENCE, _SET, _VERSION = 0x02, 0x06, 0x30, 0x31, 0xa0
_ENCODINGS = {0x1e: "utf-16-be", 0x1c: "utf-32-be", 0x14: "latin-1"}


def read(content):
    """A Certificate from the bytes of a file, DER or PEM. Raises ValueError for anything else."""
    pem = _PEM.search(content)
    try:
        der = base64.b64decode(pem.group(1)) if pem else content
        outer = _elements(der)[0]
        fields = _elements(_elements(outer[1])[0][1])
        # tbsCertificate: [0] version (left out for version 1), serialNumber, signature, issuer, validity, subject.
        fields = fields[1:] if fields[0][0] == _VERSION else fields
        serial, issuer, subject = fields[0], fields[2], fields[4]
        if (outer[0], serial[0], issuer[0], subject[0]) != (_SEQUENCE, _INTEGER, _SEQUENCE, _SEQUENCE):
            raise ValueError("other elements than a certificate has")
        digest = hashlib.sha1(der[:outer[2]]).hexdigest()
        return Certificate(_common_name(issuer[1]), _common_name(subject[1]), hexadecimal(serial[1].hex()),
                           ":".join(digest[at:at + 2] for at in range(0, 40, 2)), der[:outer[2]])
    except (ValueError, IndexError, binascii.Error) as error:
        raise ValueError("no X.509 certificate: %s" % error) from error


def hexadecimal(text):
    """A serial number as tools print it (2a:f3:..., 2AF3...) in one form: capitals, no colons, no leading zero bytes."""
    digits = re.sub(r"[^0-9A-F]", "", text.upper())
    return re.sub(r"^(?:00)+(?=..)", "", "0" * (len(digits) % 2) + digits)


def _elements(content):
    """[(tag, content, end)] of the DER elements in a row; raises ValueError where one is cut off."""
    found, at = [], 0
    while at < len(content):
        tag, length = content[at], content[at + 1] if at + 1 < len(content) else None
        at += 2
        if length is None or length == 0x80 or length > 0x84:
            raise ValueError("an element of no definite length")
        if length > 0x80:
            count = length - 0x80
            length = int.from_bytes(content[at:at + count], "big")
            at += count
        if at + length > len(content):
            raise ValueError("it is cut off")
        found.append((tag, content[at:at + length], at + length))
        at += length
        if len(found) > 1000:
            raise ValueError("too many elements")
    return found


def _common_name(name):
    """The first common name of a Name, as kmod prints a signer; None without one."""
    for tag, relative, _end in _elements(name):
        for _tag, pair, _end in _elements(relative) if tag == _SET else []:
            kind, value = _elements(pair)[:2]
            if (kind[0], kind[1]) == (_OID, _COMMON_NAME):
                return value[1].decode(_ENCODINGS.get(value[0], "utf-8"), "replace")
    return None
