# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Give a container the PCI devices of a GPU node: gpus.py KIND, run inside it by tools/node.sh gpus.

The tree of /sys/bus/pci/devices is written below /run and mounted over the real one, so that whatever reads sysfs (lspci,
our own facts) finds these devices. A container that GPUs were passed into also has their device nodes in /dev; they are made,
and with no driver behind them opening one fails, as with a driver that is not loaded.
"""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys

TREE = pathlib.Path("/run/lockstep-gpus")
SYSFS = "/sys/bus/pci/devices"
NVIDIA_MAJOR = 195

GPU, SWITCH, INFINIBAND = "030200", "068000", "020700"
# kind: (vendor:device, class, how many), in the order of the bus. Ids: https://pci-ids.ucw.cz/read/PC/10de and .../15b3
KINDS = {
    "none": (),
    "v100": (("10de:1db6", GPU, 4),),
    "v100_sxm3": (("10de:1db8", GPU, 16),),
    "a100": (("10de:20b2", GPU, 8), ("10de:1af1", SWITCH, 6)),
    "h100": (("10de:2330", GPU, 8), ("10de:22a3", SWITCH, 4)),
    # NVLink 5: the switches are managed through ConnectX-7 functions, and are no PCI devices of NVIDIA's.
    "b200": (("10de:2901", GPU, 8), ("15b3:1021", INFINIBAND, 4)),
    # An id that nobody knows.
    "unknown": (("10de:fffe", GPU, 1),),
}


def devices(kind: str) -> list[tuple[str, str, str]]:
    """(address, vendor:device, class) of every function; a bus each, as behind PCIe switches. Raises KeyError."""
    functions = [(name, code) for name, code, count in KINDS[kind] for _number in range(count)]
    return [("0000:%02x:00.0" % (0x10 + 8 * place), name, code) for place, (name, code) in enumerate(functions)]


def write(tree: pathlib.Path, kind: str) -> None:
    """The files of sysfs that tell what a device is."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for address, name, code in devices(kind):
        vendor, device = name.split(":")
        folder = tree / address
        folder.mkdir()
        texts = {"vendor": "0x" + vendor, "device": "0x" + device, "class": "0x" + code, "subsystem_vendor": "0x" + vendor,
                 "subsystem_device": "0x0000", "revision": "0xa1", "enable": "0", "numa_node": "-1"}
        for file, text in texts.items():
            (folder / file).write_text(text + "\n", encoding="ascii")


def mount(tree: pathlib.Path) -> None:
    """Lay the tree over the devices of this machine, once: later ones are what a second call wrote."""
    while subprocess.run(["umount", SYSFS], check=False, capture_output=True).returncode == 0:
        pass
    subprocess.run(["mount", "--bind", str(tree), SYSFS], check=True)


def make_nodes(kind: str) -> None:
    """/dev/nvidiactl and one node a GPU."""
    for path in pathlib.Path("/dev").glob("nvidia*"):
        if path.name == "nvidiactl" or path.name[6:].isdigit():
            path.unlink()
    os.umask(0)
    count = sum(code == GPU for _address, _name, code in devices(kind))
    for name, minor in [("nvidia%d" % number, number) for number in range(count)] + [("nvidiactl", 255)] * bool(count):
        os.mknod("/dev/" + name, 0o20666, os.makedev(NVIDIA_MAJOR, minor))


if __name__ == "__main__":
    if sys.argv[1:] and sys.argv[1] not in KINDS:
        sys.exit("no such node: %s; known are %s" % (sys.argv[1], ", ".join(KINDS)))
    write(TREE, sys.argv[1])
    mount(TREE)
    make_nodes(sys.argv[1])
