# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Let DKMS sign with the site's key, and say whether the firmware trusts that key.

DKMS reads mok_signing_key and mok_certificate since 3.0.4, also from files in framework.conf.d (https://github.com/dkms-project/dkms,
commits 3323033 and 1c79926). Before that, since 2.8.2, it calls a program named sign_tool for each module; Ubuntu's build of it signs
once more after that, with the machine's own key, wherever shim-signed is installed.
"""

from __future__ import annotations

import os
import re
import stat
import tempfile

from ansible_collections.lockstep.gpu.plugins.module_utils import module_files, parse_signing, x509

DROP_IN = "/etc/dkms/framework.conf.d/lockstep-gpu.conf"
OLD_CONF = "/etc/dkms/framework.conf"
SIGN_TOOL = "/etc/dkms/lockstep-gpu-sign"
DROP_INS_SINCE = (3, 0, 4)
DKMS_CERTIFICATE = "/var/lib/dkms/mok.pub"
# The machine's own key on Ubuntu and Debian; Ubuntu's DKMS of before 3.0 signs with nothing else.
MACHINE_KEY, MACHINE_CERTIFICATE = "/var/lib/shim-signed/mok/MOK.priv", "/var/lib/shim-signed/mok/MOK.der"
BEGIN, END = "# BEGIN lockstep.gpu", "# END lockstep.gpu"
_PATH = re.compile(r"(?:/[\w.@+,:-]+)+|pkcs11:[\w.@+,:;=%?&/-]+")
_BLOCK = re.compile(r"^%s\n.*?^%s\n?" % (BEGIN, END), re.MULTILINE | re.DOTALL)


class SigningError(Exception):
    """Modules cannot be signed so that this node's kernel takes them; code: a word of the collection's vocabulary, or None."""

    def __init__(self, message, code=None):
        self.code = code
        super().__init__(message)


def settings(key, certificate):
    """The lines that DKMS reads."""
    return 'mok_signing_key="%s"\nmok_certificate="%s"\n' % (key, certificate)


def drop_in(key, certificate):
    """The text of our file in framework.conf.d."""
    return "# Written by lockstep.gpu: modules are signed with the site's key.\n" + settings(key, certificate)


def old_conf(text, key, certificate):
    """framework.conf with our block at its end, where an old DKMS looks for a program that signs."""
    rest = _BLOCK.sub("", text)
    return "%s%s%s\n%ssign_tool=\"%s\"\n%s\n" % (rest, "" if rest.endswith("\n") or not rest else "\n", BEGIN, settings(key, certificate), SIGN_TOOL, END)


def sign_tool(key, certificate):
    """The program that an old DKMS calls with a kernel's release and a module's file."""
    return "\n".join((
        "#!/bin/sh", "# Written by lockstep.gpu: signs the module $2 for the kernel $1 with the site's key.",
        "hash=$(sed -n 's/^CONFIG_MODULE_SIG_HASH=\"\\(.*\\)\"$/\\1/p' \"/boot/config-$1\" 2>/dev/null)",
        'exec "/lib/modules/$1/build/scripts/sign-file" "${hash:-sha512}" "%s" "%s" "$2"' % (key, certificate), ""))


class Signing:
    """The site's key on one node. run: a run.Runner; find: a run.find_tool; root: "/" outside tests."""

    def __init__(self, run, find, key, certificate, root="/"):
        self._run, self._find, self._root = run, find, root
        self.key, self.path = key, certificate

    def _below(self, path):
        return path if self._root == "/" else os.path.join(self._root, path.lstrip("/"))

    def certificate(self):
        """The site's certificate. Raises SigningError for a key or a certificate that cannot be used."""
        for path in (self.key, self.path):
            if not _PATH.fullmatch(path):
                raise SigningError("%s is no absolute path that DKMS could read" % path)
        if not self.key.startswith("pkcs11:") and not os.path.isfile(self._below(self.key)):
            raise SigningError("the signing key %s does not exist on this node; nothing copies it there" % self.key)
        try:
            with open(self._below(self.path), "rb") as handle:
                return x509.read(handle.read(1 << 20))
        except OSError as error:
            raise SigningError("the certificate %s cannot be read: %s" % (self.path, error.strerror)) from error
        except ValueError as error:
            raise SigningError("%s is %s" % (self.path, error)) from error

    def exposed(self):
        """Whether others than its owner may read the key."""
        try:
            return bool(stat.S_IMODE(os.stat(self._below(self.key)).st_mode) & 0o077)
        except OSError:
            return False

    def version(self):
        """DKMS's version as numbers; () when DKMS is not there."""
        said = self._run(["dkms", "--version"], ok=None)
        found = re.search(r"(\d+(?:\.\d+)+)", said.out) if said.rc == 0 else None
        return tuple(int(number) for number in found.group(1).split(".")) if found else ()

    def files(self):
        """{path: (text, mode)} that DKMS's version needs; {} where it signs with this key anyway. Raises SigningError."""
        version = self.version()
        if version and version < DROP_INS_SINCE:
            if self.path == MACHINE_CERTIFICATE:
                return {}
            if self._find("kmodsign") and os.path.isdir(self._below(os.path.dirname(MACHINE_CERTIFICATE))):
                raise SigningError("DKMS %s signs with %s on this node, whatever it is told; put the site's key and certificate there and name them"
                                   % (".".join(map(str, version)), MACHINE_KEY))
            return {SIGN_TOOL: (sign_tool(self.key, self.path), 0o755),
                    OLD_CONF: (old_conf(self._text(OLD_CONF), self.key, self.path), 0o644)}
        return {DROP_IN: (drop_in(self.key, self.path), 0o644)}

    def _text(self, path):
        try:
            with open(self._below(path), encoding="utf-8", errors="surrogateescape") as handle:
                return handle.read()
        except FileNotFoundError:
            return ""

    def unwritten(self):
        """{path: (text before, text after)} of files() that are not as they should be."""
        return {path: (self._text(path), text) for path, (text, _mode) in self.files().items() if self._text(path) != text}

    def configure(self):
        """Write what is unwritten, each file as a whole or not at all."""
        for path, (text, mode) in self.files().items():
            if self._text(path) == text:
                continue
            target = self._below(path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            with open(target + ".new", "w", encoding="utf-8", errors="surrogateescape") as handle:
                handle.write(text)
                handle.flush()
                os.fsync(handle.fileno())
                os.fchmod(handle.fileno(), mode)
            os.rename(target + ".new", target)


def enrolment(run, certificate):
    """What the firmware's list says of a certificate: enrolled, missing, pending, blocked; None where mokutil cannot tell."""
    with tempfile.NamedTemporaryFile(suffix=".der") as handle:
        # mokutil reads DER only.
        handle.write(certificate.der)
        handle.flush()
        rows = parse_signing.parse_key_test(run(["mokutil", "--test-key", handle.name], ok=None).out).value
    return rows[0]["state"] if rows else None


def require_enrolled(run, certificate, path):
    """Raises SigningError (mok_not_enrolled) where secure boot is on and the certificate is known not to be trusted."""
    state = enrolment(run, certificate)
    if state not in ("enrolled", None):
        remedy = ("confirm the pending request at the console during the next boot" if state == "pending"
                  else "import it with mokutil --import %s, and confirm that at the console during the next boot" % path)
        raise SigningError("Secure boot is on, and the certificate %s (%s) is %s: the kernel would refuse every module it signs; %s"
                           % (path, certificate.subject or "without a name", "not enrolled" if state == "missing" else state, remedy),
                           "mok_not_enrolled")


def require_loadable(run, files, remarks, root="/"):
    """Raises SigningError where secure boot is on and one of the described module files is known to be one that the kernel refuses.

    That is a file without a signature, or with one of a certificate of this machine that is not enrolled; a certificate that lies
    nowhere is not judged. remarks: what DKMS said.
    """
    unsigned = [row["path"] for row in files if row["signed"] is False]
    if unsigned:
        raise SigningError("Secure boot is on, and %s is not signed, so the kernel refuses it.%s" % (
            unsigned[0], " DKMS said: %s" % remarks[0] if remarks else ""), "module_unsigned")
    for path in (DKMS_CERTIFICATE, MACHINE_CERTIFICATE):
        try:
            with open(path if root == "/" else os.path.join(root, path.lstrip("/")), "rb") as handle:
                certificate = x509.read(handle.read(1 << 20))
        except (OSError, ValueError):
            continue
        if any(row["signed"] and row["signer"] and not module_files.signature_faults(row, certificate) for row in files):
            require_enrolled(run, certificate, path)
