# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The disks of the virtual machines (tools/vm.py): Debian with two kernels and a driver whose modules are built for both.

A container of the platform's node image is brought to two stacks, one after the other, by the main job itself, so that everything is
compiled natively. Its file system becomes an ext4 partition behind GRUB, with no loop device and no mount; the first boot lets GRUB's own
tools write what a Debian has. The result lies in the cache folder, under a hash of what it was made of: disk.qcow2 with the snapshot of
the booted machine, an ssh key, vm.json.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import time
import uuid

import vm

TOOLS = pathlib.Path(__file__).resolve().parent
CACHE = pathlib.Path(os.environ.get("LOCKSTEP_CACHE") or pathlib.Path.home() / ".cache/lockstep-gpu") / "vm"
GRUB = pathlib.Path("/usr/lib/grub/i386-pc")
SIZE = 6 * 2**30
START = 2**20           # of the partition, in bytes: the room before it is GRUB's
CORE = ["biosdisk", "part_msdos", "ext2", "linux", "normal", "loadenv", "serial", "terminal", "test", "echo", "configfile", "search",
        "search_fs_uuid"]
# The kernels that are wanted, old and new. Where the archive has one of them no longer: the two newest with headers.
# The new one of Debian 12 is a generic kernel, which has nouveau; the others are for virtual machines and start faster.
RECIPES = {
    "debian12": {"os": {"id": "debian", "release": "12", "arch": "x86_64"}, "meta": "amd64",
                 "kernels": ["6.1.0-47-cloud-amd64", "6.1.0-50-amd64"], "among": r"6\.1\.0-\d+-(cloud-)?amd64",
                 "driver": {"version": "535.261.03", "flavour": "proprietary", "source": "distribution", "module": "dkms"}},
    "debian13": {"os": {"id": "debian", "release": "13", "arch": "x86_64"}, "meta": "cloud-amd64",
                 "kernels": ["6.12.107+deb13-cloud-amd64", "6.12.117+deb13-cloud-amd64"], "among": r"6\.12\.\d+\+deb13(\.\d+)?-cloud-amd64",
                 "driver": {"version": "550.163.01", "flavour": "proprietary", "source": "distribution", "module": "dkms"}},
}


def say(text):
    """What takes long is said."""
    sys.stderr.write("lockstep: %s\n" % text)


def run(*words, text=None, log=None, **options):
    """Standard output of a command. log: a file that gets all of its output instead. Raises VmError when it fails."""
    stream = log.open("a", encoding="utf-8") if log else subprocess.PIPE
    done = subprocess.run([str(word) for word in words], check=False, text=True, input=text or "",
                          stdout=stream, stderr=subprocess.STDOUT if log else subprocess.PIPE, **options)
    if done.returncode:
        tail = log.read_text(encoding="utf-8", errors="replace")[-3000:] if log else done.stderr
        raise vm.VmError("exit status %d: %s\n%s" % (done.returncode, " ".join(map(str, words))[:300], tail))
    return "" if log else done.stdout


def recipe_hash(platform, base):
    """What a disk depends on: these scripts, the node image, the emulator (for the snapshot)."""
    parts = [base, json.dumps([RECIPES[platform], vm.HARDWARE, vm.ACCELERATORS]), run("qemu-system-x86_64", "--version"),
             *((TOOLS / name).read_text(encoding="utf-8") for name in ("vm_image.py", "vm_content.sh"))]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def image(platform):
    """The folder of a platform's disk, which is made when it is not there.

    Raises:
        VmError: for an unknown platform, and when a step fails.
    """
    if platform not in RECIPES:
        raise vm.VmError("no disk is known for %r: %s" % (platform, ", ".join(RECIPES)))
    base = run(TOOLS / "image.sh", platform).strip()
    folder = CACHE / ("%s-%s" % (platform, recipe_hash(platform, base)))
    if not folder.is_dir():
        machine = vm.Machine(vm.PREFIX + "image-" + platform)
        machine.remove()    # what a killed run left
        began = time.monotonic()
        say("making the disk of a %s machine: two kernels, a driver built for each (about ten minutes)" % platform)
        build(RECIPES[platform], platform, machine)
        partial = folder.with_name(folder.name + ".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for part in ("disk.qcow2", "key", "vm.json"):
            shutil.move(machine.folder / part, partial / part)
        partial.rename(folder)
        machine.remove()
        for old in CACHE.glob(platform + "-*"):
            if old != folder:
                shutil.rmtree(old)
        say("the disk is made (%d s)" % (time.monotonic() - began))
    return folder


def offered(text):
    """{package: [versions, newest first]} of `apt-cache madison`."""
    found = {}
    for line in text.splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) > 1 and words[1] not in found.setdefault(words[0], []):
            found[words[0]].append(words[1])
    return found


def choose(wanted, among, packages):
    """[{release, package_version}] of two kernels: the wanted ones, else the newest two that are offered with headers of the same version.

    Raises:
        VmError: when there are not two.
    """
    both = {}
    for name, versions in packages.items():
        release = name.removeprefix("linux-image-")
        if name != release and re.fullmatch(among, release):
            same = [version for version in versions if version in packages.get("linux-headers-" + release, [])]
            if same:
                both[release] = same[0]
    chosen = wanted if all(release in both for release in wanted) else sorted(both, key=lambda name: [int(n) for n in re.findall(r"\d+", name)])[-2:]
    if len(chosen) != 2:
        raise vm.VmError("the archive offers no two kernels with headers, only %s" % (", ".join(both) or "none"))
    return [{"release": release, "package_version": both[release]} for release in chosen]


def build(recipe, platform, machine):
    """Make a machine's folder."""
    name, work, log = machine.name, machine.folder, vm.STATE / "logs" / ("vm-image-%s.log" % platform)
    log.unlink(missing_ok=True)
    work.mkdir(parents=True)
    run(TOOLS / "node.sh", "fresh", name, platform, log=log)
    content = (TOOLS / "vm_content.sh").read_text(encoding="utf-8")
    try:
        run("docker", "exec", "-i", name, "sh", "-s", "ground", text=content, log=log)
        listed = run("docker", "exec", name, "sh", "-c", "apt-cache pkgnames linux- | grep -E '^linux-(image|headers)-' | xargs apt-cache madison")
        packages = offered(listed)
        kernels = choose(recipe["kernels"], recipe["among"], packages)
        # The metapackages of the newer kernel, as an installer leaves them: they would bring the next one.
        metas = ["linux-%s-%s" % (kind, recipe["meta"]) for kind in ("image", "headers")]
        metas = ["%s=%s" % (meta, kernels[1]["package_version"]) for meta in metas if kernels[1]["package_version"] in packages.get(meta, [])]
        run("docker", "exec", "-i", name, "sh", "-s", "ground", *metas, text=content, log=log)
        for kernel in reversed(kernels):
            say("%s: the driver for %s" % (platform, kernel["release"]))
            site(name, work, {"os": recipe["os"], "kernel": kernel, "driver": recipe["driver"]}, log)
        run("docker", "exec", "-i", name, "sh", "-s", "loader", text=content, log=log)
        run("docker", "stop", "-t", "2", name, log=log)
        root = work / "root"
        root.mkdir()
        with subprocess.Popen(["docker", "export", name], stdout=subprocess.PIPE) as export:
            subprocess.run(["tar", "-x", "-C", root, "--exclude=dev/*", "--exclude=.dockerenv"], stdin=export.stdout, check=True)
        if export.returncode:
            raise vm.VmError("docker export: exit status %d" % export.returncode)
    finally:
        run(TOOLS / "node.sh", "down", name, log=log)
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "lockstep.gpu test machine", "-f", machine.key)
    identity = str(uuid.uuid4())
    settle(root, platform, kernels[0]["release"], identity, machine.key.with_suffix(".pub").read_text(encoding="ascii"))
    disk(root, work, identity, machine.disk)
    machine.write_meta(platform=platform, kernels=kernels, os=recipe["os"], driver=recipe["driver"], metapackages=metas,
                       accelerator=accelerator(work, root / "boot" / ("vmlinuz-" + kernels[0]["release"])))
    shutil.rmtree(root)
    first_boot(machine)


def site(name, work, stack, log):
    """Bring the container to a stack by the main job."""
    inventory = work / "inventory.json"
    inventory.write_text(json.dumps({"gpu_nodes": {"hosts": {name: {}}, "vars": {
        "ansible_connection": "community.docker.docker", "ansible_python_interpreter": "/usr/bin/python3"}}}), encoding="utf-8")
    run("ansible-playbook", "-i", inventory, TOOLS.parent / "site.yml", "-e",
        json.dumps({"lockstep_stack": stack, "lockstep_report": str(work / "report.json")}), log=log, cwd=TOOLS.parent)


def settle(root, platform, kernel, identity, key):
    """What the file system of a machine has and that of a container has not."""
    files = {
        "etc/hostname": platform + "\n", "etc/hosts": "127.0.0.1 localhost\n127.0.1.1 %s\n" % platform, "etc/resolv.conf": "nameserver 10.0.2.3\n",
        "etc/fstab": "UUID=%s / ext4 errors=remount-ro 0 1\n" % identity, "root/.ssh/authorized_keys": key,
        # Only for the first boot; update-grub then writes the real one.
        "boot/grub/grub.cfg": "search --no-floppy --fs-uuid --set=root {0}\nlinux /boot/vmlinuz-{1} root=UUID={0} ro console=ttyS0 net.ifnames=0\n"
                              "initrd /boot/initrd.img-{1}\nboot\n".format(identity, kernel),
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).unlink(missing_ok=True)
        (root / path).write_text(text, encoding="utf-8")
    (root / "root/.ssh").chmod(0o700)


def disk(root, work, identity, target):
    """One ext4 partition with a folder's files, behind GRUB: boot.img in the first sector, the core image from the second."""
    raw, core = work / "disk.raw", work / "core.img"
    raw.write_bytes(b"")
    os.truncate(raw, SIZE)
    # What GRUB 2.06 cannot read is left out.
    run("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^metadata_csum_seed,^orphan_file", "-L", "root", "-U", identity, "-d", root,
        "-E", "offset=%d" % START, raw, "%dk" % ((SIZE - START) // 1024))
    run("grub-mkimage", "-O", "i386-pc", "-p", "(hd0,msdos1)/boot/grub", "-o", core, *CORE)
    if core.stat().st_size > START - 512:
        raise vm.VmError("GRUB's core image is too large: %d bytes" % core.stat().st_size)
    # One entry: active, no CHS addresses, type 83, first sector, number of sectors.
    entry = struct.pack("<B3sB3sII", 0x80, b"\xfe\xff\xff", 0x83, b"\xfe\xff\xff", START // 512, (SIZE - START) // 512)
    with raw.open("r+b") as handle:
        handle.write((GRUB / "boot.img").read_bytes()[:440].ljust(446, b"\0") + entry + bytes(48) + b"\x55\xaa")
        handle.write(core.read_bytes())
    run("qemu-img", "convert", "-O", "qcow2", raw, target)
    raw.unlink()


def accelerator(work, kernel):
    """`kvm` where a kernel really starts with it, else `tcg`: a /dev/kvm that opens is not always one that works."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    console = work / "probe.log"
    console.write_text("", encoding="ascii")
    # Without a root file system it panics as soon as it is up, and the emulator ends.
    with subprocess.Popen(["qemu-system-x86_64", *vm.HARDWARE, *vm.ACCELERATORS["kvm"], "-netdev", "user,id=n0", "-no-reboot", "-kernel", kernel,
                           "-append", "console=ttyS0 panic=-1", "-serial", "file:%s" % console],
                          stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as probe:
        try:
            probe.wait(20)
        except subprocess.TimeoutExpired:
            probe.kill()
    works = "Unable to mount root fs" in console.read_text(encoding="utf-8", errors="replace")
    say("/dev/kvm works" if works else "/dev/kvm does not start a kernel here; machines are emulated")
    return "kvm" if works else "tcg"


def first_boot(machine):
    """GRUB's own installer and menu, and the snapshot from which machines start."""
    try:
        machine.start()
        machine.wait(600)
        machine.ssh("grub-install /dev/vda && update-grub && sync && python3 -c 'import json, apt_pkg' 2>/dev/null; sync", limit=900)
        machine.save(vm.FIRST)
    finally:
        machine.cut()
    machine.write_meta(port=None)
