# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Installed kernels: which files are there, and which compiler built them."""

from __future__ import annotations

import re

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import Parsed, not_understood
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_os import parse_word

_RELEASE = r"(?P<release>[0-9][^/\s]*)"
# What a path says about a kernel release. initrd.img-X is Debian's and Ubuntu's, initramfs-X.img dracut's, initrd-X
# SUSE's. A "build" link counts only where it leads to a Makefile, which the recording lists then.
_KINDS = (
    ("image", re.compile(r"/boot/vmlinu[zx]-" + _RELEASE)),
    ("image", re.compile(r"(?:/usr)?/lib/modules/" + _RELEASE + r"/vmlinuz")),
    ("initramfs", re.compile(r"/boot/initrd\.img-" + _RELEASE)),
    ("initramfs", re.compile(r"/boot/initramfs-" + _RELEASE + r"\.img")),
    ("initramfs", re.compile(r"/boot/initrd-" + _RELEASE)),
    ("headers", re.compile(r"(?:/usr)?/lib/modules/" + _RELEASE + r"/build/Makefile")),
)
# What else lies in /boot beside kernels.
_BOOT_NAME = re.compile(r"vmlinu[xz]|initrd|initramfs|config-|System\.map|symvers|symtypes|sysctl|memtest|grub|efi|EFI|loader|lost\+found|extlinux|dtb|\.")
# What ls says of a pattern or a link that leads nowhere; facts_build.py reads it for the headers.
_NOT_THERE = re.compile(r"ls: cannot access .{1,300}: No such file or directory")
_LONG = re.compile(r"[-dlcbps][rwxsStT-]{9}[.+@]?\s")
# Left behind by package managers and dracut; no kernel boots with them.
_NOT_A_KERNEL = re.compile(r".*(\.old(-dkms)?|\.bak|\.dpkg-(new|old|bak|tmp)|kdump\.img|\.rpmnew|\.rpmsave)")


def parse_kernel_files(text):
    """A list of paths, one a line, to {release: {image, initramfs, headers: bool}}; also `ls /boot`, `ls -l /boot/vmlinuz-*`.

    initramfs and headers are None where the list has none of any kernel, and so may be of images alone.
    """
    value, problems, told = {}, [], set()
    for number, line in enumerate(text.splitlines(), 1):
        path = "" if _NOT_THERE.fullmatch(line.strip()) else _path(line.strip())
        if path is None:
            problems.append(not_understood(number, line))
            continue
        for kind, pattern in _KINDS:
            found = pattern.fullmatch(path)
            if found and not _NOT_A_KERNEL.fullmatch(path):
                row = value.setdefault(found.group("release"), dict.fromkeys(("image", "initramfs", "headers"), False))
                row[kind] = True
                told.add(kind)
                break
    for row in value.values():
        row.update((kind, None) for kind in ("initramfs", "headers") if kind not in told)
    return Parsed(value, problems)


def _path(line):
    """The path that a line names: the last word of `ls -l`, a bare name of `ls /boot`; "" for what is no path, None for what is unknown."""
    if line.startswith("/") and " " not in line:
        return "" if line.endswith(":") else line
    if not line or re.fullmatch(r"total \d+|\S*:", line) or line[0] == "d" and _LONG.match(line):
        return ""
    words = line.split(" -> ")[0].split()
    if len(words) > 1 and not (_LONG.match(line) and len(words) > 8):
        return None
    if words[-1].startswith("/"):
        return words[-1]
    return "/boot/" + words[-1] if _BOOT_NAME.match(words[-1]) else None


def parse_uname(text):
    """`uname -r`, or the release in `uname -a` ("Linux NODE RELEASE #101-Ubuntu SMP ...")."""
    words = text.split()
    if len(words) > 3 and words[0] == "Linux" and re.fullmatch(r"\d+\.\d[\w.+~:@-]{0,100}", words[2]):
        return Parsed(words[2], [])
    return parse_word(text)


def compiler_of(text):
    """CONFIG_CC_VERSION_TEXT to "gcc 14.2.0" or "clang 18.1.8"; None when it names neither.

    Distributions put their own version in brackets before the real one, and may call the program
    x86_64-linux-gnu-gcc-14.
    """
    plain = re.sub(r"\([^()]*\)", " ", text)
    name = "clang" if "clang" in plain else "gcc" if "gcc" in plain else None
    version = re.search(r"(?<![\w.-])\d+\.\d+(?:\.\d+)?(?![\w.])", plain)
    return "%s %s" % (name, version.group(0)) if name and version else None


def parse_kernel_configs(text):
    """`grep -H '^CONFIG_CC_VERSION_TEXT=\\|^CONFIG_DRM=' /boot/config-*` to {release: {compiler, drm}}.

    drm is False where a configuration is there and has no CONFIG_DRM line.
    """
    value, problems = {}, []
    for number, line in enumerate(text.splitlines(), 1):
        found = re.fullmatch(r"/boot/config-([^:\s]+):(?:(CONFIG_[A-Z0-9_]+)=(.*))?", line.strip())
        if not found:
            if line.strip():
                problems.append(not_understood(number, line))
            continue
        release, option, setting = found.groups()
        row = value.setdefault(release, {"compiler": None, "drm": False})
        if option == "CONFIG_CC_VERSION_TEXT":
            row["compiler"] = compiler_of(setting)
            if row["compiler"] is None:
                problems.append(not_understood(number, line))
        elif option == "CONFIG_DRM":
            row["drm"] = setting in ("y", "m")
    return Parsed(value, problems)
