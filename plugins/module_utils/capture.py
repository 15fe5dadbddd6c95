# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the live back end turns a node into text: one function a probe, each run in a child of its own.

A function gets the root folder ("/" on a node, a folder in tests) and returns text in the format that the probe's
parser reads: where a tool exists whose output could be recorded by hand, it is that tool's. It may raise OSError, and
Absent where a missing file is an answer. It only reads.
"""

from __future__ import annotations

import errno
import fcntl
import filecmp
import glob
import os
import platform
import re
import stat
import struct

from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import join_files

MAX_BYTES = 8 * 1024 * 1024
# Kernel modules of the kernel's own source whose names begin with nvidia.
_IN_TREE = ("nvidia-wmi-ec-backlight", "nvidiafb")
_MODULE = re.compile(r"(?P<stem>nvidia[\w-]*)\.ko(?:\.(?:xz|zst|gz|bz2))?")
ALTERNATIVES = ("nvidia", "glx", "cuda", "nvcc")
LOCKS = ("/var/lib/dpkg/lock-frontend", "/var/lib/dpkg/lock", "/var/lib/apt/lists/lock", "/var/cache/apt/archives/lock")
SPACE = ("/", "/boot", "/boot/efi", "/usr", "/var", "/var/cache", "/tmp")
_SECURE_BOOT = "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"


class Absent(FileNotFoundError):
    """What the probe reads is not there. Another FileNotFoundError is a failure: a file that vanished meanwhile."""


def inside(root, path):
    """The path `path` of the node below `root`."""
    return path if root == "/" else os.path.join(root, path.lstrip("/"))


def seen(root, path):
    """The inverse of inside()."""
    return path if root == "/" else "/" + os.path.relpath(path, root)


def find(root, *patterns):
    """Existing paths of the node that match shell patterns, sorted within each pattern."""
    return [seen(root, path) for pattern in patterns for path in sorted(glob.glob(inside(root, pattern)))]


def read(root, path, limit=MAX_BYTES):
    """Text of a regular file (also of /proc and /sys). Raises OSError, also for another kind of file or a longer one."""
    # O_NONBLOCK: opening a named pipe must not wait for a writer.
    descriptor = os.open(inside(root, path), os.O_RDONLY | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as handle:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        content = handle.read(limit + 1)
    if len(content) > limit:
        raise OSError(errno.EFBIG, "longer than %d bytes" % limit, path)
    return content.decode("utf-8", "replace")


def optional(root, path):
    """read(), for a file whose absence means something. Raises Absent."""
    try:
        return read(root, path)
    except FileNotFoundError as error:
        raise Absent(error.errno, error.strerror, path) from error


def files(root, *patterns):
    """The text form of all files that match; raises Absent when none does."""
    paths = [path for path in find(root, *patterns) if os.path.isfile(inside(root, path))]
    if not paths:
        raise Absent(errno.ENOENT, os.strerror(errno.ENOENT), patterns[0])
    return join_files([(path, read(root, path)) for path in paths])


def lines(items):
    """One line an item."""
    return "".join(item + "\n" for item in items)


def uname_release(_root):
    return platform.release() + "\n"


def uname_machine(_root):
    return platform.machine() + "\n"


def container_marks(root):
    """Every sign that this is a container; systemd and docker leave different ones (systemd's container interface)."""
    marks = ["file " + path for path in find(root, "/run/systemd/container", "/.dockerenv", "/run/.containerenv")]
    try:
        environ = read(root, "/proc/1/environ").split("\0")
        marks += ["environ " + word for word in environ if word.startswith("container=") and word != "container="]
        marks += ["cgroup " + line for line in read(root, "/proc/1/cgroup").splitlines()
                  if re.search(r"/(docker|lxc|kubepods|libpod|machine\.slice/libpod)[-/.]", line)]
    except OSError as error:
        # Only root may read /proc/1/environ; without any other mark the answer is then unknown.
        if not marks:
            raise error
    return lines(marks)


def kernel_files(root):
    return lines(find(root, "/boot/vmlinu[zx]-*", "/lib/modules/*/vmlinuz", "/boot/initrd.img-*", "/boot/initramfs-*.img",
                      "/boot/initrd-*", "/lib/modules/*/build/Makefile"))


def kernel_configs(root):
    wanted = re.compile(r"^CONFIG_(?:CC_VERSION_TEXT|DRM)=.*$", re.MULTILINE)
    return lines("%s:%s" % (path, option) for path in find(root, "/boot/config-*")
                 for option in wanted.findall(read(root, path)) or [""])


def module_files(root):
    """Paths of the NVIDIA driver's modules of every kernel, sorted; links of weak-updates are among them."""
    found = []
    for release in find(root, "/lib/modules/*"):
        for folder, _folders, names in os.walk(inside(root, release)):
            for name in names:
                match = _MODULE.fullmatch(name)
                if match and match.group("stem") not in _IN_TREE:
                    found.append(seen(root, os.path.join(folder, name)))
    return sorted(found)


def apt_sources(root):
    return files(root, "/etc/apt/sources.list", "/etc/apt/sources.list.d/*.list", "/etc/apt/sources.list.d/*.sources")


def apt_preferences(root):
    # apt reads names without an extension too, and ignores all other extensions.
    parts = [path for path in find(root, "/etc/apt/preferences.d/*")
             if path.endswith(".pref") or "." not in os.path.basename(path)]
    return files(root, "/etc/apt/preferences", *map(glob.escape, parts))


def apt_locks(root):
    """Who holds apt's and dpkg's locks. F_GETLK only asks: nothing is locked, not even for a moment."""
    ask = struct.pack("hhqqi", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
    report = []
    for path in LOCKS:
        try:
            with open(inside(root, path), "rb") as handle:
                kind, _whence, _start, _length, pid = struct.unpack("hhqqi", fcntl.fcntl(handle, fcntl.F_GETLK, ask))
        except FileNotFoundError:
            report.append(path + ": absent")
        else:
            report.append("%s: %s" % (path, "free" if kind == fcntl.F_UNLCK else "held by %d" % max(pid, 0)))
    return lines(report)


def pci_devices(root):
    """NVIDIA's devices as `lspci -Dnk` prints them. From sysfs: it answers from memory, also for a GPU that hangs."""
    rows = []
    for folder in find(root, "/sys/bus/pci/devices/*"):
        vendor = read(root, folder + "/vendor").strip()
        if vendor == "0x10de":
            rows.append("%s %s: %s:%s" % (folder.rsplit("/", 1)[-1], read(root, folder + "/class").strip()[2:6],
                                          vendor[2:], read(root, folder + "/device").strip()[2:]))
            if os.path.islink(inside(root, folder + "/driver")):
                rows.append("\tKernel driver in use: " + os.path.basename(os.readlink(inside(root, folder + "/driver"))))
    return lines(rows)


def gpu_devices(root):
    return lines(find(root, "/dev/nvidiactl", "/dev/nvidia[0-9]*"))


def alternatives_admin(root):
    return files(root, *("/var/lib/dpkg/alternatives/" + name for name in ALTERNATIVES))


def alternatives_links(root):
    paths = ["/etc/alternatives/" + name for name in ALTERNATIVES]
    return lines("%s -> %s" % (path, os.readlink(inside(root, path))) for path in paths if os.path.islink(inside(root, path)))


def cuda_versions(root):
    return files(root, "/usr/local/cuda-*/version.json", "/usr/local/cuda-*/version.txt")


def cuda_paths(root):
    """Folders of CUDA toolkits, and where the links that select one lead to in the end."""
    plain = find(root, "/usr/local/cuda-*/bin/nvcc", "/usr/lib/nvidia-cuda-toolkit/bin/nvcc", "/usr/bin/nvcc")
    links = [path for path in ("/usr/local/cuda",) if os.path.islink(inside(root, path))]
    return lines(plain + ["%s -> %s" % (path, seen(root, os.path.realpath(inside(root, path)))) for path in links])


def space(root):
    mounts = (path for path in SPACE if os.path.isdir(inside(root, path)))
    free = ((os.statvfs(inside(root, path)), path) for path in mounts)
    return lines("%d %s" % (info.f_bavail * info.f_frsize, path) for info, path in free)


def secure_boot(root):
    """mokutil's sentences, from the EFI variable: four bytes of attributes, then the value."""
    if not os.path.isdir(inside(root, "/sys/firmware/efi")):
        return "EFI variables are not supported on this system\n"
    with open(inside(root, _SECURE_BOOT), "rb") as handle:
        content = handle.read(16)
    if len(content) != 5 or content[4] > 1:
        raise OSError(errno.EINVAL, "not five bytes that end in 0 or 1", _SECURE_BOOT)
    return "SecureBoot %s\n" % ("enabled" if content[4] else "disabled")


def boot_loader_files(root):
    """What tells the boot loader; a path that is there, one a line."""
    return lines(find(root, "/boot/grub/grub.cfg", "/boot/grub2/grub.cfg", "/boot/grub/grubenv", "/boot/grub2/grubenv",
                      "/boot/loader/loader.conf", "/boot/efi/loader/loader.conf", "/efi/loader/loader.conf"))


def first_of(*paths):
    """A capture function that reads the first of several files that is there."""
    def capture(root):
        there = [path for path in paths if os.path.exists(inside(root, path))]
        return optional(root, (there or paths)[0])
    return capture


def default_grub(root):
    return files(root, "/etc/default/grub", "/etc/default/grub.d/*.cfg")


def dkms_is_relocated(root):
    """Whether DKMS is configured to keep its tree or its modules elsewhere."""
    configured = find(root, "/etc/dkms/framework.conf", "/etc/dkms/framework.conf.d/*.conf")
    return any(re.search(r"^[ \t]*(dkms_tree|install_tree)=", read(root, path), re.MULTILINE) for path in configured)


def dkms_tree(root):
    """What `dkms status` says, read from DKMS's own tree by its own rules, in its own words.

    The command needs a second for one module of one kernel (3.2 decompresses every module to compare versions). The
    rules, unchanged from 2.8 to 3.2 but for "broken", which is 3.1's: <module>/<version>/source must lead to a folder,
    else the module is broken; built is a folder <kernel>/<arch>/module; installed is a link
    <module>/kernel-<kernel>-<arch> to that folder's parent.
    """
    base, rows, installed = "/var/lib/dkms", [], []
    for version_dir in find(root, base + "/*/[!.]*"):
        if os.path.islink(inside(root, version_dir)) or version_dir.endswith(("/original_module", "/build")):
            continue
        if not os.path.isdir(inside(root, version_dir)):
            continue
        module, version = version_dir.split("/")[-2:]
        source = inside(root, version_dir + "/source")
        if not os.path.isdir(source):
            # Without a link and without sources it is a leftover folder, which DKMS does not list.
            if os.path.islink(source) or os.path.isdir(inside(root, "/usr/src/%s-%s" % (module, version))):
                rows.append("%s/%s: broken" % (module, version))
            continue
        built = find(root, version_dir + "/[0-9]*/*/module")
        if not built:
            rows.append("%s/%s: added" % (module, version))
        for folder in built:
            kernel, arch = folder.split("/")[-3:-1]
            link = inside(root, "%s/%s/kernel-%s-%s" % (base, module, kernel, arch))
            state = "installed" if os.path.islink(link) and os.path.realpath(link) == os.path.realpath(
                inside(root, os.path.dirname(folder))) else "built"
            remarks = _dkms_remarks(root, module, kernel, arch, folder, state)
            rows.append("%s/%s, %s, %s: %s%s" % (module, version, kernel, arch, state, remarks))
            if state == "installed":
                installed.append((module, version, kernel, arch, folder))
    return lines(rows + _dkms_weak(root, installed))


def _dkms_remarks(root, module, kernel, arch, built, state):
    """The suffixes of one line of `dkms status`."""
    remarks = ""
    if os.path.isdir(inside(root, "/var/lib/dkms/%s/original_module/%s/%s" % (module, kernel, arch))):
        remarks += " (Original modules exist)"
    names = _built_names(root, built)
    if not names:
        return remarks + " (Built modules are missing in the kernel modules folder)"
    if state == "installed" and not all(_is_on_disk(root, kernel, built, name) for name in names):
        remarks += " (Differences between built and installed modules)"
    return remarks


def _built_names(root, built):
    return [name for name in sorted(os.listdir(inside(root, built))) if re.search(r"\.ko(\.\w+)?$", name)]


def _is_on_disk(root, kernel, built, name):
    """Whether the kernel's copy of a built module has the same bytes. Distributions override DEST_MODULE_LOCATION."""
    copies = find(root, "/lib/modules/%s/updates/dkms/%s" % (kernel, name), "/lib/modules/%s/extra/%s" % (kernel, name),
                  "/lib/modules/%s/updates/%s" % (kernel, name))
    if not copies:
        copies = [seen(root, os.path.join(folder, name)) for folder, _folders, found
                  in os.walk(inside(root, "/lib/modules/" + kernel)) if name in found]
    return bool(copies) and filecmp.cmp(inside(root, built + "/" + name), inside(root, copies[0]), shallow=False)


def _dkms_weak(root, installed):
    """Modules that weak-modules linked into another kernel: every built file must have its link."""
    links = {}
    for path in find(root, "/lib/modules/*/weak-updates/*"):
        real = seen(root, os.path.realpath(inside(root, path)))
        found = re.match(r"(?:/usr)?/lib/modules/([^/]+)/", real)
        if os.path.islink(inside(root, path)) and found:
            links.setdefault((path.split("/")[3], found.group(1)), set()).add(os.path.basename(real))
    return ["%s, %s, %s, %s: installed-weak from %s" % (module, version, kernel, arch, origin)
            for (kernel, origin), names in sorted(links.items())
            for module, version, built_for, arch, folder in installed
            if built_for == origin and names and names.issuperset(_built_names(root, folder))
            and _built_names(root, folder)]


def with_targets(listing, root):
    """`ldconfig -p` with the real file behind each library that matters, " -> " between."""
    rows = []
    for line in listing.splitlines():
        found = re.match(r"\s*(libcuda|libnvidia-ml|libnccl)\.so\.\d+ .* => (/\S+)$", line)
        if found:
            path = found.group(2)
            real = seen(root, os.path.realpath(inside(root, path)))
            # The cache names /lib on merged-/usr systems, where packages own /usr/lib.
            folder = seen(root, os.path.realpath(inside(root, os.path.dirname(path))))
            shown = line.replace(" => " + path, " => %s/%s" % (folder, os.path.basename(path)))
            rows.append(shown + " -> " + real if os.path.isfile(inside(root, real)) else shown)
    return lines(rows)
