# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""OpenPGP public keys of repositories: which ones a file has, both of its forms, and whether they may be trusted.

Format: RFC 4880, packets (4.2), ASCII armour (6.2), key fingerprints (12.2); version 6 keys as in RFC 9580. No signature is
checked: a key is trusted because its fingerprint, which covers all of its primary key, is the one that is expected.
"""
from __future__ import annotations

import base64
import hashlib
import os
import re

from ansible_collections.lockstep.gpu.plugins.module_utils.acting import Refused, write_atomically

BINARY, ARMOURED = "binary", "armoured"
PUBLIC_KEY, MARKER, LIMIT = 6, 10, 1 << 20
# What may lie in a file of public keys: signatures, keys, user ids and attributes, subkeys, trust, marker.
_PACKETS = (2, PUBLIC_KEY, MARKER, 12, 13, 14, 17, 21)
_BEGIN, _END = "-----BEGIN PGP PUBLIC KEY BLOCK-----", "-----END PGP PUBLIC KEY BLOCK-----"
_BOM = b"\xef\xbb\xbf"


class NoKey(ValueError):
    """This is no file of OpenPGP public keys; the text says why."""


def dearmor(content):
    """The binary form of keys in either form, bytes to bytes. Raises NoKey."""
    if content.startswith(_BOM):
        content = content[len(_BOM):]
    if content[:1] and content[0] & 0x80:
        return content
    # Text before the last beginning is not of this block; a search by expression would try every one of them.
    parts = content.decode("utf-8", "replace").replace("\r\n", "\n").split(_END)[:-1]
    blocks = [part.rpartition(_BEGIN)[2] for part in parts if _BEGIN in part]
    if not blocks:
        raise NoKey("there is no block of a public key in it")
    return b"".join(_decoded(block) for block in blocks)


def _decoded(body):
    # Headers ("Version: ...") end with an empty line, which may be missing where there are none.
    lines = body.split("\n")
    while lines and (not lines[0].strip() or re.match(r"[\w-]+:", lines[0])):
        lines.pop(0)
    words = [line.strip() for line in lines if line.strip()]
    check = words.pop()[1:] if words and words[-1].startswith("=") and len(words[-1]) == 5 else None
    try:
        data = base64.b64decode("".join(words), validate=True)
        said = None if check is None else int.from_bytes(base64.b64decode(check, validate=True), "big")
    except ValueError as error:
        # Also binascii.Error; for letters beyond ASCII it is the plain one.
        raise NoKey("its text is damaged: %s" % error) from error
    if said is not None and said != crc24(data):
        raise NoKey("its checksum is wrong")
    return data


def enarmor(data):
    """Binary keys as ASCII armour, bytes to bytes: the same text for the same keys."""
    text = base64.b64encode(data).decode("ascii")
    lines = [text[start:start + 64] for start in range(0, len(text), 64)]
    check = base64.b64encode(crc24(data).to_bytes(3, "big")).decode("ascii")
    return "\n".join(["-----BEGIN PGP PUBLIC KEY BLOCK-----", "", *lines, "=" + check, "-----END PGP PUBLIC KEY BLOCK-----", ""]).encode("ascii")


def crc24(data):
    """The checksum of ASCII armour (RFC 4880, 6.1)."""
    value = 0xB704CE
    for octet in data:
        value ^= octet << 16
        for _bit in range(8):
            value <<= 1
            if value & 0x1000000:
                value ^= 0x1864CFB
    return value & 0xFFFFFF


def packets(data):
    """[(tag, body)] of binary OpenPGP data. Raises NoKey for what does not end where it should."""
    found, at = [], 0
    while at < len(data):
        tag, start, length = _header(data, at)
        if start + length > len(data):
            raise NoKey("it ends in the middle")
        found.append((tag, data[start:start + length]))
        at = start + length
    return found


def _header(data, at):
    """(tag, start of the body, its length) of the packet at an offset."""
    first = data[at]
    if not first & 0x80:
        raise NoKey("it is no OpenPGP data")
    try:
        if not first & 0x40:
            size = {0: 1, 1: 2, 2: 4}.get(first & 3)
            if size is None:
                raise NoKey("a packet has no length")
            return (first >> 2) & 15, at + 1 + size, int.from_bytes(_exactly(data, at + 1, size), "big")
        octet = data[at + 1]
        if octet < 192:
            return first & 63, at + 2, octet
        if octet < 224:
            return first & 63, at + 3, ((octet - 192) << 8) + data[at + 2] + 192
        if octet == 255:
            return first & 63, at + 6, int.from_bytes(_exactly(data, at + 2, 4), "big")
    except IndexError as error:
        raise NoKey("it ends in the middle") from error
    raise NoKey("a packet comes in parts, which keys never do")


def _exactly(data, start, size):
    if start + size > len(data):
        raise NoKey("it ends in the middle")
    return data[start:start + size]


def fingerprints(content):
    """Fingerprints of the primary keys, upper-case hexadecimal, of keys in either form. Raises NoKey."""
    found = []
    for tag, body in packets(dearmor(content)):
        if tag not in _PACKETS:
            raise NoKey("a packet of type %d has no place among public keys" % tag)
        if tag == PUBLIC_KEY:
            found.append(_fingerprint(body))
    if not found:
        raise NoKey("there is no key in it")
    return found


def _fingerprint(body):
    version = body[0] if body else None
    if version == 4 and len(body) < 1 << 16:
        # SHA-1 is what the format says, not a choice; it stands for a key, and is compared with a known one.
        return hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body, usedforsecurity=False).hexdigest().upper()
    if version == 6:
        return hashlib.sha256(b"\x9b" + len(body).to_bytes(4, "big") + body).hexdigest().upper()
    raise NoKey("a key of version %s is not supported" % version)


def plain(fingerprint):
    """A fingerprint as people write it, with blanks, colons or 0x, in the form of fingerprints()."""
    return re.sub(r"^0X|[\s:]", "", fingerprint.upper())


def strangers(content, expected):
    """Fingerprints of primary keys that nobody expects. Raises NoKey."""
    return [found for found in fingerprints(content) if found not in {plain(one) for one in expected}]


def read_bytes(path):
    """A file's bytes, None when it is not there."""
    try:
        with open(path, "rb") as handle:
            return handle.read(LIMIT)
    except FileNotFoundError:
        return None


def there(path, expected):
    """The content of a key's file, None when there is none or it has another key than expected."""
    content = read_bytes(path)
    try:
        return None if content is None or strangers(content, expected) else content
    except NoKey:
        return None


def obtain(wanted, fetch):
    """The key of one row of pinned_packages' keys, as bytes in either form.

    fetch(url) returns bytes. What lies on the node under an address already is not fetched again while it has the
    expected key. Raises OSError.
    """
    key = wanted["key"].strip()
    if key.startswith("-----BEGIN"):
        return key.encode("utf-8")
    if key.startswith("/"):
        content = read_bytes(key)
        if content is None:
            raise OSError("%s is not there" % key)
        return content
    if not re.match(r"https?://", key):
        raise OSError("%r is neither a key in ASCII armour nor an absolute path nor an address" % key[:60])
    return there(wanted["path"], wanted["fingerprints"]) or fetch(key)


def formed(content, path, form):
    """Keys in the form that a file has to have: apt takes a name in .asc for ASCII."""
    data = dearmor(content)
    return enarmor(data) if form == ARMOURED or path.endswith(".asc") else data


def load(keys, fetch, form):
    """[{path, content, fingerprints, now}] of the keys that an invocation names; content: as it has to lie at path, now: fingerprints
    of what lies there, None for nothing, [] for what is no key. Raises Refused with every key that must not be used.
    """
    rows, problems = [], []
    for wanted in keys:
        try:
            content = obtain(wanted, fetch)
            unknown = strangers(content, wanted["fingerprints"])
            if unknown:
                raise NoKey("it has the fingerprint %s, expected is %s" % (
                    ", ".join(unknown), " or ".join(plain(one) for one in wanted["fingerprints"])))
            old = read_bytes(wanted["path"])
            rows.append({"path": wanted["path"], "content": formed(content, wanted["path"], form), "fingerprints": fingerprints(content),
                         "now": None if old is None else _known(old), "same": old == formed(content, wanted["path"], form)})
        except (OSError, NoKey) as error:
            source = wanted["key"].strip()
            problems.append({"code": "repository_key_unknown", "name": wanted["path"], "message": "the key of %s%s cannot be trusted: %s" % (
                wanted["path"], "" if source.startswith("-----") else " (%s)" % source, error)})
    if problems:
        raise Refused(problems)
    return rows


def _known(content):
    try:
        return fingerprints(content)
    except NoKey:
        return []


def due(keys):
    """Rows of load() whose file is missing or differs."""
    return [row for row in keys if not row["same"]]


def place(keys):
    """Write the files of load() rows that differ, each in one step."""
    for row in due(keys):
        write_atomically(row["path"], row["content"])


def aside(text, keys, folder):
    """Put the keys below folder, and return a repositories file's text that names them there instead."""
    os.makedirs(folder, exist_ok=True)
    for number, row in enumerate(keys):
        private = os.path.join(folder, "%d-%s" % (number, os.path.basename(row["path"])))
        write_atomically(private, row["content"])
        text = re.sub(r"(?<![\w.-])%s(?![\w./-])" % re.escape(row["path"]), lambda _match, to=private: to, text)
    return text


def shown(found):
    """Fingerprints in lines, for a diff."""
    return "".join("key %s\n" % one for one in found or [])
