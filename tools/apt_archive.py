# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Print deb822 sources of another Debian suite on the archive that this machine's own apt uses.

Usage: apt_archive.py SUITE [ROOT]. Exit status 1 with one sentence when the machine names no Debian archive.
"""

from __future__ import annotations

import pathlib
import re
import sys

KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
STANZA = "Types: deb\nURIs: {uri}\nSuites: {suites}\nComponents: main\nSigned-By: " + KEYRING + "\n"


def uris_of(text: str, deb822: bool) -> list[str]:
    """Return every URI of enabled `deb` entries in *text*, in order."""
    text = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    if not deb822:
        return re.findall(r"^\s*deb\s+(?:\[[^\]]*\]\s+)?(\S+)", text, re.MULTILINE)
    found: list[str] = []
    for stanza in re.split(r"\n\s*\n", text):
        fields = {m[1].lower(): m[2] for m in re.finditer(r"^([\w-]+):((?:.*)(?:\n[ \t].*)*)", stanza, re.MULTILINE)}
        if "deb" in fields.get("types", "").split() and fields.get("enabled", "yes").strip().lower() not in ("no", "false"):
            found += fields.get("uris", "").split()
    return found


def machine_uris(root: pathlib.Path) -> list[str]:
    """Return the URIs of all apt sources below *root*/etc/apt; `mirror+file:` lists are read through."""
    apt = root / "etc/apt"
    files = [apt / "sources.list", *sorted((apt / "sources.list.d").glob("*"))]
    uris: list[str] = []
    for path in files:
        if path.is_file() and path.suffix in (".list", ".sources"):
            uris += uris_of(path.read_text(encoding="utf-8"), path.suffix == ".sources")
    return [line.split()[0] for uri in uris for line in _mirrors(uri, root)]


def _mirrors(uri: str, root: pathlib.Path) -> list[str]:
    """Return what *uri* stands for: the lines of its file for `mirror+file:`, else itself."""
    match = re.fullmatch(r"mirror\+file:(?://)?(/.+)", uri)
    if not match:
        return [uri]
    text = (root / match[1].lstrip("/")).read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def sources(suite: str, uris: list[str]) -> str:
    """Return deb822 text of *suite* with its updates and, where a security archive is named, its security fixes.

    Raises:
        SystemExit: when none of *uris* is a Debian archive.
    """
    def ending(name: str) -> str | None:
        return next((uri for uri in uris if uri.rstrip("/").endswith(name)), None)

    main_uri, security = ending("/debian"), ending("/debian-security")
    if main_uri is None:
        raise SystemExit("no Debian archive is named in /etc/apt/sources.list or /etc/apt/sources.list.d")
    stanzas = [STANZA.format(uri=main_uri, suites="%s %s-updates" % (suite, suite))]
    if security:
        stanzas.append(STANZA.format(uri=security, suites=suite + "-security"))
    return "\n".join(stanzas)


if __name__ == "__main__":
    sys.stdout.write(sources(sys.argv[1], machine_uris(pathlib.Path(sys.argv[2] if len(sys.argv) > 2 else "/"))))
