# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Secure boot's keys and the signatures of modules.

mokutil prints a certificate as OpenSSL does, or in one line (https://github.com/lcp/mokutil); modinfo prints a signature as
kmod does (https://github.com/kmod-project/kmod); a refusal has the words of the kernel's error number.
"""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood, shown
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_modules import KERNEL_FOLDER, MODULE_SUFFIX
from ansible_collections.lockstep.gpu.plugins.module_utils.x509 import hexadecimal

_SHA1 = re.compile(r"SHA1 Fingerprint: *(?P<sha1>[0-9A-Fa-f:]{59})")
_NAME = re.compile(r"(?P<key>Subject|Issuer): *(?P<name>.+)")
# mokutil --list-enrolled --short; the default of newer versions.
_SHORT = re.compile(r"(?P<sha1>[0-9a-f]{10}) +(?P<subject>\S.*)")
# In each of openssl's forms: "CN = a", "CN=a", "/CN=a/O=b". A name may hold the marks that separate names.
_COMMON_NAME = re.compile(r"(?:^|[/,+ ])CN ?= ?(.{1,300}?)(?=[,/+] ?[A-Za-z][\w.]{0,30} ?=|$)")
_NO_LIST = re.compile(r"(?:MokListRT|MokList|MokNew|db|KEK) is empty|EFI variables are not supported|doesn't support Secure Boot")
_TESTED = re.compile(r"(?P<path>/\S+?) is (?P<state>not enrolled|already enrolled|already in the enrollment request|already in \w+"
                     r"|already in the built-in trusted keyring|already in the .{1,30} keyring|blocked in \w+)")
_FIELD = re.compile(r"(?P<field>filename|sig_id|signer|sig_key|vermagic|version):(?P<value>.*)")
_INSERTED = re.compile(r"(?:ERROR|FATAL|Error|error): (?:could not (?:insert|load)(?: module)?|Error inserting|inserting) "
                       r"'?(?P<module>[^':\s]{1,200})'?(?: \([^)]{0,200}\))?: (?P<why>.{1,200})")
_NOT_FOUND = re.compile(r"(?:FATAL|ERROR): Module (?P<module>\S{1,100}) not found(?: in directory (?P<folder>/\S{1,200}))?")
# The kernel's error numbers as the tools print them.
_WHY = (("key_rejected", "Key was rejected by service"), ("key_missing", "Required key not available"), ("not_permitted", "Operation not permitted"),
        ("unknown_symbol", "Unknown symbol in module"), ("no_device", "No such device"), ("exec_format", "Exec format error"),
        ("exec_format", "Invalid module format"), ("invalid", "Invalid argument"), ("busy", "Device or resource busy"),
        ("exists", "File exists"), ("not_found", "No such file or directory"), ("no_memory", "Cannot allocate memory"))


def parse_mok_list(text, rc=0):
    """`mokutil --list-enrolled` (or --list-new), long or short, to [{sha1, subject, issuer}]; [] where no key is in it."""
    keys, problems = [], []
    for number, line in enumerate(text.splitlines(), 1):
        short = _SHORT.fullmatch(line.strip()[:1000])
        sha1 = _SHA1.search(line[:1000])
        named = _NAME.match(line.strip()[:1000])
        if re.match(r"\[key \d+\]", line.strip()):
            keys.append(dict.fromkeys(("sha1", "subject", "issuer")))
        elif sha1:
            if not keys or keys[-1]["sha1"]:
                keys.append(dict.fromkeys(("sha1", "subject", "issuer")))
            keys[-1]["sha1"] = sha1.group("sha1").lower()
        elif short:
            keys.append({"sha1": short.group("sha1"), "subject": short.group("subject"), "issuer": None})
        elif named and keys:
            key = named.group("key").lower()
            keys[-1][key] = keys[-1][key] or shown(named.group("name"), 300)
        elif rc and not _NO_LIST.search(line) and line.strip():
            problems.append(not_understood(number, line))
    found = [key for key in keys if any(key.values())]
    return Parsed(None if problems and not found else found, problems)


def parse_key_test(text, rc=0):
    """`mokutil --test-key FILE` of one or more files to [{path, state}]: enrolled, missing, pending or blocked."""
    rows = []
    for found in filter(None, (_TESTED.search(line[:500]) for line in text.splitlines())):
        words = found.group("state")
        state = ("missing" if words == "not enrolled" else "pending" if "request" in words else
                 "blocked" if words.startswith("blocked") else "enrolled")
        rows.append({"path": found.group("path"), "state": state})
    del rc
    return Parsed(rows or None, [] if rows or not text.strip() else ["no answer in it: %s" % shown(text)])


def parse_certificate(text):
    """`openssl x509 -noout -subject -issuer -serial -fingerprint` to {path, subject, issuer, serial, sha1}; names are the common names.

    A first line that is a path names the file.
    """
    value = dict.fromkeys(("path", "subject", "issuer", "serial", "sha1"))
    for line in text.splitlines():
        key, equals, content = line.strip()[:1000].partition("=")
        if line.startswith("/") and not equals:
            value["path"] = line.strip()[:1000]
        elif key in ("subject", "issuer"):
            name = _COMMON_NAME.search(content)
            value[key] = name.group(1).strip() if name else None
        elif key == "serial" and re.fullmatch(r"[0-9A-Fa-f]{1,100}", content):
            value["serial"] = hexadecimal(content)
        elif key.lower() == "sha1 fingerprint":
            value["sha1"] = content.strip().lower()
    return Parsed(value, []) if value["serial"] else Parsed(None, ["no serial number in it"])


def parse_signatures(text):
    """`modinfo` to [{path, kernel, name, version, signed, signer, key}] a module; signed is None where the output is only a part.

    kmod prints no signature field for a module without one, so only an output that has vermagic and no sig_id tells that.
    """
    rows = []
    for line in text.splitlines():
        found = _FIELD.match(line[:2000])
        if not found:
            continue
        field, value = found.group("field"), found.group("value").strip() or None
        if field == "filename" or not rows:
            rows.append(dict.fromkeys(("path", "kernel", "name", "version", "vermagic", "sig_id", "signer", "sig_key", "filename")))
        rows[-1][field] = rows[-1][field] or value
    return Parsed([_signature(row) for row in rows], [])


def _signature(row):
    path = row["filename"] if (row["filename"] or "").startswith("/") else None
    kernel = KERNEL_FOLDER.match(path or "")
    signed = True if row["sig_id"] or row["signer"] else False if row["vermagic"] else None
    return {"path": path, "kernel": kernel.group(1) if kernel else (row["vermagic"] or "").split(" ")[0] or None,
            "name": MODULE_SUFFIX.sub("", path.rsplit("/", 1)[-1]) if path else None, "version": row["version"],
            "signed": signed, "signer": row["signer"], "key": row["sig_key"]}


def parse_module_load(text, rc=0):
    """`modprobe` or `insmod` to [{module, why, kernel, text}] for each module that was refused; why: a word of _WHY, or None."""
    rows = []
    for line in text.splitlines():
        line = line[:1000]
        refused, missing = _INSERTED.search(line), _NOT_FOUND.search(line)
        if refused:
            why = next((word for word, said in _WHY if said in refused.group("why")), None)
            rows.append({"module": _module(refused.group("module")), "why": why, "kernel": None, "text": shown(line, 200)})
        elif missing:
            kernel = KERNEL_FOLDER.match((missing.group("folder") or "") + "/")
            rows.append({"module": _module(missing.group("module")), "why": "not_found", "kernel": kernel.group(1) if kernel else None,
                         "text": shown(line, 200)})
    del rc
    return Parsed(rows, [])


def _module(name):
    """nvidia_uvm for nvidia-uvm, ./nvidia-uvm.ko and /lib/modules/.../nvidia-uvm.ko.zst."""
    return MODULE_SUFFIX.sub("", name.rsplit("/", 1)[-1]).replace("-", "_")
