# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The entry of a kernel on trial as a boot loader specification file, a copy of the kernel's own with more words in its options.

GRUB boots the first entry where what is saved cannot be found. It sorts by names, and by versions where all entries have one, as rpm does; a tilde
comes before everything there, so that the entry is the last of the menu.
https://uapi-group.org/specifications/specs/boot_loader_specification/
"""

from __future__ import annotations

from ansible_collections.lockstep.gpu.plugins.module_utils import trial
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import read_text
from ansible_collections.lockstep.gpu.plugins.module_utils.grub import GrubError

ENTRY = "~" + trial.ENTRY


def copy_of(text, kernel, words, lowest="~"):
    """The text of a trial's entry from that of the kernel's. lowest: what goes before its version. Raises GrubError.

    Without `options` (EL 8 takes $kernelopts then) or without `linux` there is nothing to extend. Of several `options` lines, which
    systemd-boot joins and of which GRUB takes the first, the first one is extended; systemd-boot then has our words inside, not at the end.
    """
    lines = [line.rstrip() for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    keys = [line.split(None, 1) for line in lines]
    options = [number for number, pair in enumerate(keys) if pair[0] == "options" and len(pair) == 2]
    if not any(pair[0] in ("linux", "efi") for pair in keys) or not options:
        raise GrubError("the boot entry of kernel %s has no line 'linux' or 'options' to make the entry of a trial of" % kernel)
    for number, pair in enumerate(keys):
        if number == options[0]:
            lines[number] = "options %s %s" % (pair[1], " ".join(words))
        elif pair[0] == "title" and len(pair) == 2:
            lines[number] = "title %s, once on trial (lockstep.gpu)" % pair[1]
        elif pair[0] == "version" and len(pair) == 2:
            lines[number] = "version %s%s" % (lowest, pair[1])
    return "\n".join(lines) + "\n"


def put(path, text):
    """Write the entry, None to remove it."""
    if text is None:
        trial.remove(path)
    elif read_text(path) != text:
        trial.write(path, text)
