# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take out of recorded outputs what tells who the owner is; what decides about compatibility stays.

Each thing always gets the same stand-in, so that what belongs together still does: a machine id in two boot entries, one
address in two files. Stand-ins have the form of what they replace, so that the parsers read them alike: addresses of
documentation (RFC 5737, RFC 3849), names below .example (RFC 2606), locally administered hardware addresses.
"""
from __future__ import annotations

import re
import typing as t

# Whose repositories are public; the host of any other one is the owner's business.
PUBLIC = re.compile(r"ppa\..+|(?:.+\.)?(?:debian\.org|ubuntu\.com|nvidia\.com|mellanox\.com|redhat\.com|rockylinux\.org|almalinux\.org"
                    r"|fedoraproject\.org|centos\.org|oracle\.com|microsoft\.com|suse\.com|opensuse\.org|docker\.com|github\.com|gnu\.org|kernel\.org"
                    r"|nvidia\.github\.io|example|example\.(?:com|net|org))", re.IGNORECASE)
# Probes in which four numbers with dots are addresses; elsewhere they may be a version (OFED 5.4-3.1.0.0).
NETWORK = ("ip_addresses", "apt_sources", "dnf_repos", "proc_cmdline", "nccl_conf", "nccl_env", "nccl_log", "proc_mounts")
# Lists of packages: a machine may be called like one of them.
PACKAGES = ("dpkg_list", "rpm_list", "apt_extended_states", "apt_policy", "dnf_modules", "dnf_versionlock", "dnf_repoquery")

_BEFORE, _AFTER = r"(?<![\w.:+~-])", r"(?![\w:+~-]|\.\d)"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
_ANY_V4 = re.compile(r"(?<![\w.+~-])(?!(?:127|0|255)\.)%s(?:\.%s){3}(?![\w+~-]|\.\d)" % (_OCTET, _OCTET))
_PRIVATE_V4 = re.compile(r"(?<![\w.+~-])(?:10\.%s|192\.168|172\.(?:1[6-9]|2\d|3[01]))(?:\.%s){2}(?![\w+~-]|\.\d)" % (_OCTET, _OCTET))
_V6 = re.compile(r"(?<![\w.:])(?:fe80|f[cd][0-9a-f]{2}|2[0-9a-f]{3})(?::[0-9a-f]{0,4}){2,7}(?![\w.:])", re.IGNORECASE)
_UUID = re.compile(r"(?<![0-9A-Fa-f])[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}(?![0-9A-Fa-f])")
_MACHINE_ID = re.compile(r"(?<![0-9A-Za-z])[0-9a-f]{32}(?![0-9A-Za-z])")
_GUID = re.compile(_BEFORE + r"[0-9a-f]{4}(?::[0-9a-f]{4}){3}" + _AFTER, re.IGNORECASE)
_MAC = re.compile(_BEFORE + r"[0-9a-f]{2}(?::[0-9a-f]{2}){5}" + _AFTER, re.IGNORECASE)
_SERIAL = re.compile(r"(?i)(?P<keep>\b(?:serial[ _]?(?:number)?|s/n)\s*[:=]\s*)(?P<secret>(?!n/a)[0-9a-f]{2}(?::[0-9a-f]{2}){4,}"
                     r"|(?!n/a)[\w-]{4,})")
# Passwords and tokens, in settings and in addresses.
_SECRET = re.compile(r"(?i)(?P<keep>\b(?:proxy_)?(?:password|passwd|username|token|access_token|secret|credentials|api_?key|user)\s*[=:]\s*)"
                     r"(?P<secret>[^\s&;,]+)")
_DIGEST = re.compile(r"(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])")
# Who built a kernel or a module: builder@host.
_MADE_BY = re.compile(r"(?<=\()[\w.+-]+@[\w.-]+(?=\))")
_SHARE = re.compile(r"(?m)(?P<keep>^|\s)(?P<secret>(?:[A-Za-z][\w.-]*|\[[0-9a-fA-F:]+\]):/[^\s,]*|//[\w.-]+/[^\s,]*)(?=\s)")
_REQUESTED = re.compile(r"(?P<keep>Requested-By: )(?P<secret>[^\n]+)")
_INFINIBAND = re.compile(_BEFORE + r"[0-9a-f]{2}(?::[0-9a-f]{2}){19}" + _AFTER, re.IGNORECASE)
_HEX_GUID = re.compile(r"\b0x[0-9a-f]{16}\b", re.IGNORECASE)
# Names that many have, and DKMS's own.
_COMMON = r"(?!\s|Canonical|Debian|Red Hat|Rocky|AlmaLinux|Microsoft|SUSE|Fedora|CentOS|Oracle|NVIDIA|Amazon|Secure Boot|DKMS module signing key)"
_SUBJECT = re.compile(r"(?P<keep>\b(?:CN|O|OU|emailAddress)\s?=\s?)(?P<secret>%s[^,/\n]+)" % _COMMON)
# modinfo's, of the same certificate.
_SIGNER = re.compile(r"(?m)(?P<keep>^signer:[ \t]+)(?P<secret>%s[^\n]+)" % _COMMON)
# NVIDIA prints the serial numbers of its boards with thirteen digits.
_BOARD_SERIAL = re.compile(r"(?<![\w.-])[01]\d{12}(?![\w.-])")
# A password may have an @ of its own.
_LOGIN = re.compile(r"(?P<keep>\w+://)(?P<secret>[^/\s]+)@")
_HOST = re.compile(r"(?P<keep>\w+://)(?P<secret>[\w.-]+)")
_MAIL = re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")
_HOME = re.compile(r"(?P<keep>/home/)(?P<secret>[\w.-]+)")
# syslog's and NCCL's lines begin with the machine's name.
_LOGGED = (re.compile(r"(?m)(?P<keep>^[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d )(?P<secret>[\w.-]+)(?= )"),
           re.compile(r"(?m)(?P<keep>^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d)? )(?P<secret>[\w.-]+)(?= )"),
           re.compile(r"(?m)^(?P<secret>[A-Za-z][\w.-]*)(?=:\d+:\d+ )"))


class _StandIns:
    """The same stand-in for the same secret."""

    def __init__(self) -> None:
        self._given: t.Dict[t.Tuple[str, str], str] = {}

    def of(self, kind: str, secret: str, form: t.Callable[[int], str]) -> str:
        """The stand-in of a secret; form makes the one with a number."""
        key = (kind, secret.lower())
        if key not in self._given:
            self._given[key] = form(1 + sum(1 for other, dummy in self._given if other == kind))
        return self._given[key]


def redacted(observations: t.Mapping[str, t.Any], names: t.Iterable[t.Optional[str]]) -> t.Dict[str, t.Any]:
    """The same observations ({probe: Observation}) with stand-ins. names: names and addresses of the machine that are known."""
    stand_ins = _StandIns()
    own = _names(names)
    return {probe: seen._replace(out=_text(probe, seen.out, own, stand_ins), err=_text(probe, seen.err, own, stand_ins))
            for probe, seen in observations.items()}


def _names(names: t.Iterable[t.Optional[str]]) -> t.List[str]:
    """The names to look for, longest first: also the short form, but no word that could be anything."""
    found = set()
    for name in names:
        for form in (str(name or ""), str(name or "").partition(".")[0]):
            if len(form) > 2 and not re.fullmatch(r"[\d.]+|localhost.*|linux|debian|ubuntu|nvidia|cuda|gpu|node", form, re.IGNORECASE):
                found.add(form)
    return sorted(found, key=lambda form: (-len(form), form))


def _text(probe: str, text: str, names: t.Sequence[str], stand_ins: _StandIns) -> str:
    if not text:
        return text

    def put(pattern: t.Pattern[str], kind: str, form: t.Callable[[int], str], spare: t.Optional[t.Pattern[str]] = None) -> None:
        nonlocal text

        def instead(found: t.Match[str]) -> str:
            parts = found.groupdict()
            secret = parts.get("secret") or found.group()
            if spare is not None and spare.fullmatch(secret):
                return found.group()
            return (parts.get("keep") or "") + stand_ins.of(kind, secret, form)
        text = pattern.sub(instead, text)

    def host(number: int) -> str:
        return "host%d.example" % number

    text = _LOGIN.sub(lambda found: found.group("keep"), text)
    # An address of a private repository may carry a token anywhere behind the host.
    put(_SECRET, "secret", "REDACTED{:d}".format)
    if probe == "proc_mounts":
        put(_SHARE, "share", "server%d.example:/share".__mod__)
    put(_REQUESTED, "user", "user%d".__mod__)
    put(_MADE_BY, "mail", "user%d@host.example".__mod__)
    for pattern in (_SUBJECT, _SIGNER):
        put(pattern, "name", "Somebody {:d}".format)
    put(_DIGEST, "digest", "{:064x}".format)
    put(_MAIL, "mail", "user%d@host.example".__mod__)
    put(_HOST, "host", host, spare=PUBLIC)
    for pattern in _LOGGED:
        put(pattern, "host", host, spare=PUBLIC)
    for name in () if probe in PACKAGES else names:
        put(re.compile(r"(?<![\w.-])%s(?![\w-])" % re.escape(name), re.IGNORECASE), "host", host)
    put(_HOME, "user", "user%d".__mod__)
    put(_UUID, "uuid", "00000000-0000-4000-8000-{:012x}".format)
    put(_MACHINE_ID, "id", "{:032x}".format)
    # A certificate's is in every module that it signed, and tells nothing of its owner.
    if probe != "mok_certificate":
        put(_SERIAL, "serial", "REDACTED{:04d}".format)
    put(_BOARD_SERIAL, "board", "1{:012d}".format)
    # A fingerprint of a key has twenty bytes, too.
    if probe in NETWORK:
        put(_INFINIBAND, "infiniband", lambda number: ":".join(["02", *["00"] * 18, "%02x" % (number % 256)]))
    put(_HEX_GUID, "guid64", "0x02{:014x}".format)
    put(_GUID, "guid", lambda number: "0200:0000:0000:%04x" % number)
    put(_MAC, "mac", lambda number: "02:00:00:00:%02x:%02x" % divmod(number, 256))
    put(_V6, "v6", "2001:db8::{:x}".format)
    put(_ANY_V4 if probe in NETWORK else _PRIVATE_V4, "v4", lambda number: "198.51.%d.%d" % (100 + number // 250, 1 + number % 250))
    return text
