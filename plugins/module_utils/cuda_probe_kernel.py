# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs about a kernel: what its initramfs holds, and whether the running one really takes the driver's module.

Rows are those of cuda_probe_lib.row.
"""

from __future__ import annotations

import glob
import os
import platform

from ansible_collections.lockstep.gpu.plugins.module_utils import modprobe_policy, module_files
from ansible_collections.lockstep.gpu.plugins.module_utils.cuda_probe_lib import row
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_module_config import parse_initramfs
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_signing import parse_module_load
from ansible_collections.lockstep.gpu.plugins.module_utils.run import TIMED_OUT_RC, find_tool, run_limited

NO_DEVICE = "No such device"
# What a kernel says who refuses a module for what it is, not for the machine that it is on; of parse_signing.parse_module_load.
REFUSALS = ("key_rejected", "key_missing", "not_permitted", "unknown_symbol", "exec_format", "not_found", "no_memory")
AS_WITHOUT_GPU = "answers as on a machine without a GPU"


def content_faults(text, modules, disk, made, path):
    """What is wrong with an initramfs, by its list of files: a list of sentences.

    text: of lsinitramfs or lsinitrd. modules: {file's stem: time} of the driver's modules on the disk as `disk`; made: the image's time.
    """
    found = parse_initramfs(text).value
    faults = []
    if modprobe_policy.FILE not in found["configs"]:
        held = sorted({item["name"] for item in found["modules"]} & set(modprobe_policy.BLACKLIST))
        faults.append("%s lacks %s, which keeps other drivers off the GPUs%s" % (path, modprobe_policy.FILE, ", and holds " + ", ".join(held) if held else ""))
    newer = {name.replace("-", "_") for name, changed in modules.items() if changed > made}
    stale = sorted({item["name"] for item in found["modules"]} & newer)
    if stale:
        faults.append("%s holds %s, and is older than what %s has" % (path, ", ".join(stale), disk))
    return faults


def content_row(kernel, names, seconds, root="/"):
    """The row initramfs_content: the initramfs of a kernel holds the blacklist, and no older copy of the driver's modules."""
    path = modprobe_policy.image_of(kernel, root)
    if path is None:
        return row("initramfs_content", None, "kernel %s has no initramfs" % kernel, False)
    lister = next((tool for tool in map(find_tool, ("lsinitramfs", "lsinitrd")) if tool), None)
    if lister is None:
        return row("initramfs_content", None, "neither lsinitramfs nor lsinitrd is installed", False)
    image = os.path.join(root, path.lstrip("/"))
    listing = run_limited([lister, image], seconds)
    if listing.rc:
        return row("initramfs_content", None, "%s %s ended with exit status %d" % (lister, path, listing.rc), False)
    folder = os.path.join(root, "lib/modules", kernel)
    files = module_files.find(folder, names)
    faults = content_faults(listing.out, {name: os.stat(file).st_mtime for name, file in files.items()}, folder, os.stat(image).st_mtime, path)
    if faults:
        return row("initramfs_content", "wrong", "; ".join(faults), True, "right")
    return row("initramfs_content", "right", "%s holds %s" % (path, modprobe_policy.FILE), True, "right")


def gpus(root="/"):
    """How many of NVIDIA's display controllers are on the PCI bus (vendor 10de, class 03)."""
    count = 0
    for folder in glob.glob(os.path.join(root, "sys/bus/pci/devices/*")):
        if _text(os.path.join(folder, "vendor")) == "0x10de" and _text(os.path.join(folder, "class")).startswith("0x03"):
            count += 1
    return count


def _text(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return ""


def load_row(name, kernel, may_act, seconds, expected, root="/", running=None):
    """The row load: the running kernel takes the driver's module, tried with a real `modprobe NAME`.

    On a machine without a GPU the module is linked, asked to start, and says that there is no such device: then it is as proven as it can
    be there. A module for another kernel, with a wrong signature or an unknown symbol is refused before that.
    """
    subject = "load"
    if (running or platform.release()) != kernel:
        return row(subject, None, "kernel %s does not run" % kernel, False, expected)
    there = _text(os.path.join(root, "sys/module/nvidia/version"))
    if there:
        return row(subject, there, "the module is loaded", True, expected)
    if not may_act:
        return row(subject, None, "not tried in check mode", False, expected)
    tool = find_tool("modprobe")
    if tool is None:
        return row(subject, None, "modprobe is not installed", False, expected)
    return loaded(run_limited([tool, name], seconds), name, kernel, gpus(root), lambda: _text(os.path.join(root, "sys/module/nvidia/version")), expected)


def loaded(result, name, kernel, devices, version, expected):
    """The row for what modprobe answered (a run.Result); devices: GPUs of the machine; version: asks the loaded module."""
    said = " ".join((result.err or result.out).split())[:300]
    if result.rc == 0:
        return row("load", version() or None, "modprobe %s loaded it into kernel %s" % (name, kernel), True, expected)
    whys = {item["why"] for item in parse_module_load(result.err + "\n" + result.out).value}
    if result.rc != TIMED_OUT_RC and "no_device" in whys and not whys & set(REFUSALS) and not devices:
        return row("load", NO_DEVICE, "modprobe %s on kernel %s %s: %s" % (name, kernel, AS_WITHOUT_GPU, said), True, words=AS_WITHOUT_GPU)
    detail = "modprobe %s on kernel %s failed%s: %s" % (name, kernel, ", with %d GPUs there" % devices if devices else "", said or "it printed nothing")
    return row("load", "refused", detail, True, expected or "loaded")
