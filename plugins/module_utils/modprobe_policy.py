# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Our file of modprobe.d(5): which modules may not take the GPUs, the driver's options; and whether an initramfs has it.

The initramfs carries a copy of modprobe's configuration. One that is older than the file cannot have it, whoever wrote the file
and whenever a run died, so nothing else has to be remembered. initramfs-tools(7) and dracut(8) make it.
"""

from __future__ import annotations

import glob
import os
import re

FILE = "/etc/modprobe.d/lockstep-gpu.conf"
# dracut takes the files of /etc/modprobe.d only into an initramfs for this very host, and a cloud image may ask for another kind.
DRACUT_FILE = "/etc/dracut.conf.d/lockstep-gpu.conf"
# The kernel's own drivers for the GPUs: nouveau, and those in Rust that follow it (Linux 6.15 and later).
BLACKLIST = ("nouveau", "nova_core", "nova_drm")
DRACUT_TEXT = ("# Written by lockstep.gpu: the GPUs belong to NVIDIA's driver.\n"
               'install_items+=" %s "\nomit_drivers+=" %s "\n' % (FILE, " ".join(BLACKLIST)))
_PARAMETER = re.compile(r"(?:(?P<module>[A-Za-z_][\w-]{0,60})\.)?(?P<name>[A-Za-z_]\w{0,100})")
# Where a kernel's initramfs lies: Debian and Ubuntu; EL and Fedora; SUSE.
_IMAGES = ("/boot/initrd.img-%s", "/boot/initramfs-%s.img", "/boot/initrd-%s")
# Kernels that are no release: rescue entries, and the images of kdump.
_RELEASE = re.compile(r"\d+\.\d[^/]*?(?<!kdump)")


class PolicyError(Exception):
    """The policy cannot be written down, or an initramfs cannot be made; the message says which, and why."""


def options_of(options):
    """Options of a stack, {parameter or module.parameter: value}, to {module: {parameter: text}}. Raises PolicyError.

    A parameter alone is the module nvidia's. Truth is 1 or 0, as a kernel module reads it.
    """
    found = {}
    for key, value in sorted((options or {}).items()):
        match = _PARAMETER.fullmatch(str(key))
        text = str(int(value)) if isinstance(value, bool) else str(value)
        if not match:
            raise PolicyError("driver.options: '%s' is neither a parameter nor module.parameter" % str(key)[:100])
        if not text or not text.isprintable() or set(text) & set("\"'\\#") or len(text) > 1000:
            raise PolicyError("driver.options: the value of %s cannot stand in a line of modprobe.d" % key)
        found.setdefault((match.group("module") or "nvidia").replace("-", "_"), {})[match.group("name")] = text
    return found


def render(options=None, aliases=None):
    """The text of our file. options: of options_of(); aliases: {module: [names of its files]}, where a distribution renamed them.

    modprobe goes by the name of a file, so options stand under each name.
    """
    lines = ["# Written by lockstep.gpu: the GPUs belong to NVIDIA's driver."]
    lines += ["blacklist " + module for module in BLACKLIST]
    lines.append("options nouveau modeset=0")
    for module, values in sorted((options or {}).items()):
        words = " ".join("%s=%s" % (name, '"%s"' % text if re.search(r"\s", text) else text) for name, text in sorted(values.items()))
        names = dict.fromkeys([module, *(aliases or {}).get(module, [])])
        lines += ["options %s %s" % (name, words) for name in names]
    return "\n".join(lines) + "\n"


def aliases_of(files):
    """{module: [file]} of the driver's module files whose names differ from the modules' (Debian: nvidia-current-drm is nvidia_drm)."""
    found = {}
    for name in files or []:
        match = re.fullmatch(r"nvidia(?:-current(?:-open)?|-tesla-\d+|-legacy-\w+)?(?P<part>-(?:uvm|drm|modeset|peermem))?", name)
        module = ("nvidia" + (match.group("part") or "")).replace("-", "_") if match else None
        if module and name.replace("-", "_") != module:
            found.setdefault(module, []).append(name)
    return found


def _below(root, path):
    return path if root == "/" else os.path.join(root, path.lstrip("/"))


def image_of(kernel, root="/"):
    """The path of a kernel's initramfs, seen from the root; None when it has none."""
    return next((pattern % kernel for pattern in _IMAGES if os.path.isfile(_below(root, pattern % kernel))), None)


def is_older(path, root="/"):
    """Whether an initramfs is older than our file; False without one."""
    own = _below(root, FILE)
    return os.path.isfile(own) and os.stat(_below(root, path)).st_mtime_ns < os.stat(own).st_mtime_ns


def ages(root="/"):
    """{release: whether its initramfs is older than our file} of every initramfs there."""
    found = {}
    for pattern in _IMAGES:
        before, after = pattern.split("%s")
        for path in sorted(glob.glob(_below(root, before) + "*" + after)):
            seen = path if root == "/" else "/" + os.path.relpath(path, root)
            release = seen[len(before):len(seen) - len(after)]
            if _RELEASE.fullmatch(release) and os.path.isfile(path):
                found.setdefault(release, is_older(seen, root))
    return found


class Node:
    """Modprobe's configuration and the initramfs below `root` ("/" outside tests). run: a run.Runner; find: a run.find_tool."""

    def __init__(self, run, find, root="/"):
        self._run, self._find, self._root = run, find, root

    def path(self, path):
        """A path of the node below the root."""
        return _below(self._root, path)

    def text(self):
        """What our file says; "" where there is none."""
        try:
            with open(self.path(FILE), encoding="utf-8", errors="replace") as handle:
                return handle.read()
        except FileNotFoundError:
            return ""

    def write(self, text):
        """Replace our file; dracut's comes first, so that it is there wherever ours is."""
        if self._find("dracut"):
            self._replace(DRACUT_FILE, DRACUT_TEXT)
        self._replace(FILE, text)

    def _replace(self, path, text):
        """Replace a file as a whole, or not at all: a run that dies leaves the old one or the new one."""
        path = self.path(path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Both programs read only names that end in .conf, so the half-written one counts for nobody.
        with open(path + ".new", "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
            os.fchmod(handle.fileno(), 0o644)
        os.rename(path + ".new", path)

    def tool(self, image):
        """What makes this initramfs: update-initramfs (for its own names only), dracut, or None in an image that boots nothing."""
        tools = ("update-initramfs", "dracut") if image.startswith("/boot/initrd.img-") else ("dracut",)
        return next((name for name in tools if self._find(name)), None)

    def lacks(self, image):
        """Whether an initramfs is known not to hold our file; False where no tool can list it."""
        lister = next((name for name in ("lsinitramfs", "lsinitrd") if self._find(name)), None)
        listing = self._run([lister, self.path(image)], ok=None) if lister else None
        return listing is not None and listing.rc == 0 and FILE.lstrip("/") not in listing.out

    def why_rebuild(self, kernel, text):
        """Why a kernel's initramfs has to be made anew once our file says `text`; None when it has not, or there is none."""
        image = image_of(kernel, self._root) if kernel else None
        if image is None:
            return None
        if self.text() != text:
            return "%s is about to change" % FILE
        if is_older(image, self._root):
            return "%s is older than %s" % (image, FILE)
        return "%s does not hold %s" % (image, FILE) if self.tool(image) and self.lacks(image) else None

    def rebuild(self, kernel):
        """Make a kernel's initramfs anew and look at the result. Raises PolicyError, run.CommandError."""
        image = image_of(kernel, self._root)
        before, tool = os.stat(self.path(image)), self.tool(image)
        if tool == "update-initramfs":
            # It writes a file beside the old one, and renames it.
            self._run(["update-initramfs", "-u", "-k", kernel])
        else:
            # dracut copies over its target, and a copy that is cut off would pass for a new one.
            made = self.path(os.path.join(os.path.dirname(image), ".lockstep-gpu-" + os.path.basename(image)))
            self._run(["dracut", "--force", "--kver", kernel, made])
            os.rename(made, self.path(image))
        after = os.stat(self.path(image))
        if (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns):
            raise PolicyError("%s left %s as it was; is it configured to change nothing (update_initramfs=no)?" % (tool, image))
        if self.lacks(image):
            raise PolicyError("%s was made anew and does not hold %s" % (image, FILE))
        if is_older(image, self._root):
            # The clock went back in between; what was just made is newer, whatever the clock says.
            os.utime(self.path(FILE), ns=(after.st_mtime_ns, after.st_mtime_ns))
