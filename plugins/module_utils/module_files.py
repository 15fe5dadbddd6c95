# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel module files: where they lie for a kernel, and what modinfo says of them."""

from __future__ import annotations

import hashlib
import os
import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_modules import parse_modinfo
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_signing import parse_signatures
from ansible_collections.lockstep.gpu.plugins.module_utils.x509 import hexadecimal

SUFFIXES = (".ko", ".ko.xz", ".ko.zst", ".ko.gz")
# In the order in which depmod's default configuration prefers them.
_PREFERRED_DIRS = ("updates/dkms", "updates", "extra", "weak-updates")


def stem(path):
    """nvidia-current for .../nvidia-current.ko.xz; None when the name is not a module's."""
    name = os.path.basename(path)
    for suffix in SUFFIXES:
        if name.endswith(suffix):
            return name[:-len(suffix)]
    return None


def find(kernel_dir, names):
    """The files of the modules `names` (stems) below /lib/modules/<release>: {stem: path}; absent ones are left out.

    The usual places of external modules are looked at first, so that a hit costs no walk over thousands of files.
    """
    found = {}
    for place in _PREFERRED_DIRS:
        for name in names:
            for suffix in SUFFIXES:
                path = os.path.join(kernel_dir, place, name + suffix)
                if name not in found and os.path.isfile(path):
                    found[name] = path
    missing = set(names) - set(found)
    if missing:
        for folder, dummy, files in os.walk(kernel_dir):
            for file_name in files:
                if stem(file_name) in missing:
                    found.setdefault(stem(file_name), os.path.join(folder, file_name))
    return found


def sha256(path):
    """The hex digest of a file's content."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for block in iter(lambda: handle.read(1 << 20), b""):
            digest.update(block)
    return digest.hexdigest()


def describe(run, paths, hashed=True):
    """What module files are: [{name, path, version, vermagic, license, signer, signed, key, sha256}], None for what one does not say.

    run: a run.Runner. A file that modinfo cannot read (cut off, not a module) has None in all its fields. One command
    serves all files: each call unpacks a file of tens of megabytes.
    """
    known, signatures = {}, {}
    if paths:
        said = run(["modinfo", *paths], ok=None).out
        known = {row["path"]: row for row in parse_modinfo(said).value}
        signatures = {row["path"]: row for row in parse_signatures(said).value}
    rows = []
    for path in paths:
        row = {"name": stem(path), "path": path}
        row.update((key, known.get(path, {}).get(key)) for key in ("version", "vermagic", "license", "signer"))
        row.update((key, signatures.get(path, {}).get(key)) for key in ("signed", "key"))
        row["sha256"] = sha256(path) if hashed else None
        rows.append(row)
    return rows


def faults(row, kernel, version, certificate=None):
    """Why a described module file does not serve `kernel` at `version`: a list of sentences, empty when it does.

    certificate: an x509.Certificate whose key must have signed it.
    """
    if row["vermagic"] is None:
        return ["%s cannot be read by modinfo" % row["path"]]
    found = []
    if row["vermagic"].split(" ")[0] != kernel:
        found.append("%s was built for %s" % (row["path"], row["vermagic"].split(" ")[0]))
    # Some modules carry no version at all; only a different one is a fault.
    if row["version"] is not None and row["version"] != version:
        found.append("%s is version %s" % (row["path"], row["version"]))
    return found + (signature_faults(row, certificate) if certificate else [])


def signature_faults(row, certificate):
    """Why a described module file is not signed with a certificate's key: at most one sentence.

    modinfo names the issuer and the serial number of the certificate, where kmod was built with libcrypto; else it only tells that
    there is a signature, and that has to do.
    """
    if row["signed"] is False:
        return ["%s is not signed" % row["path"]]
    same = row["signer"] in (None, certificate.issuer) and (not row["key"] or hexadecimal(row["key"]) == certificate.serial)
    return [] if same else ["%s is signed by %s (%s), not by %s (%s)" % (
        row["path"], row["signer"], hexadecimal(row["key"] or "") or "no serial number", certificate.issuer, certificate.serial)]


def is_about_a_signature(fault):
    """Whether a sentence of faults() is one of signature_faults()."""
    return re.search(r" is (?:not signed$|signed by )", fault) is not None
