# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Disposable virtual machines: start, reset, cut the power, go back to a snapshot. Start it through tools/vm.sh.

    vm.sh image PLATFORM           make the disk of a platform (debian12, debian13), once, and print its path
    vm.sh up NAME PLATFORM         a fresh machine, started and reached by ssh
    vm.sh down NAME...             end it and remove what it left; without a name all of this checkout
    vm.sh cut NAME                 the power goes: nothing is written back
    vm.sh on NAME [LIMIT]          start it again and wait for ssh, LIMIT seconds at most
    vm.sh cycle NAME [LIMIT]       cut, on
    vm.sh save NAME TAG            keep disk and memory as they are now; load NAME TAG goes back to them, running or not
    vm.sh ssh NAME [COMMAND]       a shell or a command
    vm.sh serial NAME              what the serial console said
    vm.sh show NAME                port, key, kernels and so on, as JSON

Everything about a machine lies in .lockstep/vm/NAME. Its memory and disk are one qcow2 file with snapshots inside.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import time

STATE = pathlib.Path(os.environ.get("LOCKSTEP_STATE") or pathlib.Path(__file__).resolve().parent.parent / ".lockstep")
PREFIX = "lockstep-vm-"
FIRST = "booted"        # the snapshot that comes with an image
# Snapshots can be loaded on the same machine only, so every disk remembers what it was made on. cache=unsafe: the guest's flushes
# are not passed on to this machine's disk, whose own power does not fail; what the guest had not written is lost in a cut all the same.
HARDWARE = ["-machine", "pc", "-m", "1024", "-smp", "2", "-display", "none", "-vga", "none", "-nodefaults",
            "-device", "virtio-rng-pci", "-device", "virtio-net-pci,netdev=n0,romfile="]
# Without cx16: in the emulator's cmpxchg16b with several processors (7.2) an interrupt can leave nonsense in the flags,
# and the kernel dies of it.
ACCELERATORS = {"kvm": ["-accel", "kvm", "-cpu", "host"], "tcg": ["-accel", "tcg,thread=multi", "-cpu", "max,-cx16"]}
SSH = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR", "-o", "ConnectTimeout=10",
       "-o", "ServerAliveInterval=10", "-o", "ServerAliveCountMax=3", "-o", "IdentitiesOnly=yes", "-o", "BatchMode=yes"]


class VmError(Exception):
    """A machine cannot be made, reached or told what to do."""


def free_port():
    """A TCP port of the loopback address that nobody listens on, and that no outgoing connection gets while the machine is off."""
    for port in random.sample(range(20000, 30000), 100):
        with contextlib.closing(socket.socket()) as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise VmError("no free port on 127.0.0.1")


class Machine:
    """One machine. meta (vm.json): {platform, accelerator, kernels, driver, port, ...}."""

    def __init__(self, name, folder=None):
        if not name.startswith(PREFIX):
            raise VmError("the names of disposable machines start with %s, %r does not" % (PREFIX, name))
        self.name, self.folder = name, pathlib.Path(folder or STATE / "vm" / name)
        self.disk, self.key, self.serial = (self.folder / part for part in ("disk.qcow2", "key", "serial.log"))

    @property
    def meta(self):
        try:
            return json.loads((self.folder / "vm.json").read_text(encoding="utf-8"))
        except OSError:
            raise VmError("there is no machine %s; tools/vm.sh up makes one" % self.name) from None

    def write_meta(self, **values):
        """Change vm.json."""
        path = self.folder / "vm.json"
        old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        path.write_text(json.dumps({**old, **values}, indent=1) + "\n", encoding="utf-8")

    def pid(self):
        """The process of this machine and no other, None when it is off: numbers are given to new processes."""
        try:
            number = int((self.folder / "qemu.pid").read_text(encoding="ascii"))
            words = pathlib.Path("/proc/%d/cmdline" % number).read_bytes().split(b"\0")
        except (OSError, ValueError):
            return None
        return number if str(self.folder / "qemu.pid").encode() in words else None

    def start(self, snapshot=None, extra=()):
        """Switch it on. snapshot: go on from there instead of booting.

        Raises:
            VmError: when the emulator does not start.
        """
        if self.pid():
            raise VmError("%s is running" % self.name)
        (self.folder / "qmp.sock").unlink(missing_ok=True)
        meta = self.meta
        port = meta.get("port") or free_port()
        self.write_meta(port=port)
        # The socket's path may not be longer than 108 bytes, hence the name without a folder.
        command = ["qemu-system-x86_64", *HARDWARE, *ACCELERATORS[meta["accelerator"]], "-name", self.name, "-daemonize",
                   "-pidfile", str(self.folder / "qemu.pid"), "-qmp", "unix:qmp.sock,server=on,wait=off",
                   "-chardev", "file,id=serial,append=on,path=%s" % self.serial, "-serial", "chardev:serial",
                   "-netdev", "user,id=n0,hostfwd=tcp:127.0.0.1:%d-:22" % port,
                   "-drive", "file=%s,if=virtio,format=qcow2,cache=unsafe,discard=unmap" % self.disk,
                   *(["-loadvm", snapshot] if snapshot else []), *extra]
        done = subprocess.run(command, cwd=self.folder, check=False, text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode:
            raise VmError("%s does not start: %s" % (self.name, done.stdout.strip()))
        self.set_clock(snapshot)

    def qmp(self, command, **arguments):
        """What the emulator answers to a command of its machine protocol.

        Raises:
            VmError: when it is off, or refuses.
        """
        # A relative path, as above; the working folder belongs to the process, so nothing else may run here meanwhile.
        before = os.getcwd()
        with contextlib.closing(socket.socket(socket.AF_UNIX)) as channel:
            channel.settimeout(120)
            try:
                os.chdir(self.folder)
                channel.connect("qmp.sock")
            except OSError as error:
                raise VmError("%s is off: %s" % (self.name, error)) from None
            finally:
                os.chdir(before)
            stream = channel.makefile("rwb")
            stream.readline()
            for number, request in enumerate(({"execute": "qmp_capabilities"}, {"execute": command, "arguments": arguments})):
                stream.write(json.dumps({**request, "id": number}).encode() + b"\n")
                stream.flush()
                answer = {}
                while answer.get("id") != number:
                    line = stream.readline()
                    if not line:
                        return None     # it quit
                    answer = json.loads(line)
        if "error" in answer:
            raise VmError("%s: %s" % (command, answer["error"].get("desc")))
        return answer["return"]

    def monitor(self, line):
        """A command of the monitor that has no other door. Raises VmError when it says anything."""
        said = self.qmp("human-monitor-command", **{"command-line": line})
        if said and said.strip():
            raise VmError("%s: %s" % (line, said.strip()))

    def cut(self):
        """The power goes. What the guest had not sent to its disk is lost; the disk image itself stays whole."""
        number = self.pid()
        if not number:
            return
        with contextlib.suppress(VmError, OSError):
            self.qmp("quit")
        for signum in (None, signal.SIGTERM, signal.SIGKILL):
            if signum and self.pid():
                os.kill(number, signum)
            for _attempt in range(100):
                if not self.pid() or _ended(number):
                    (self.folder / "qemu.pid").unlink(missing_ok=True)
                    return
                time.sleep(0.1)
        raise VmError("process %d does not end" % number)

    def save(self, tag):
        """Keep disk and memory under a name."""
        self.monitor("savevm %s" % tag)

    def load(self, tag):
        """Go back to a snapshot, also when it is off, hangs or died."""
        if self.pid():
            self.monitor("loadvm %s" % tag)
            self.qmp("cont")
            self.set_clock(tag)
        else:
            self.start(snapshot=tag)

    def set_clock(self, snapshot):
        """After a snapshot the guest's clock stands at the day it was made."""
        if snapshot:
            self.wait(60)
            self.ssh("date -s @%d" % time.time())

    def ssh_command(self, *arguments):
        """The words of an ssh call."""
        return ["ssh", *SSH, "-i", str(self.key), "-p", str(self.meta["port"]), "root@127.0.0.1", *arguments]

    def ssh(self, command, check=True, limit=300, text=None):
        """Run a shell command inside: the finished process, with all output as text. text: its standard input.

        Raises:
            VmError: when it fails or takes more than limit seconds, and check is set.
        """
        try:
            done = subprocess.run(self.ssh_command(command), check=False, text=True, errors="replace", timeout=limit, input=text or "",
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        except subprocess.TimeoutExpired:
            if check:
                raise VmError("%s: no answer in %d s: %s" % (self.name, limit, command)) from None
            return subprocess.CompletedProcess(command, 255, "no answer in %d s" % limit)
        if check and done.returncode:
            raise VmError("%s: exit status %d: %s\n%s" % (self.name, done.returncode, command, done.stdout))
        return done

    def boot_id(self):
        """The id of the running boot, None when ssh does not answer."""
        done = self.ssh("cat /proc/sys/kernel/random/boot_id", check=False, limit=30)
        return done.stdout.strip() if done.returncode == 0 else None

    def wait(self, limit=300, after=None):
        """Wait for ssh, with after for another boot than that one.

        Raises:
            VmError: after limit seconds; the end of the console is in the message.
        """
        end = time.monotonic() + limit
        while time.monotonic() < end:
            found = self.boot_id()
            if found and found != after:
                return found
            if not self.pid():
                break
            time.sleep(0.5)
        raise VmError("%s cannot be reached by ssh; the end of its console:\n%s" % (self.name, self.console()[-1500:]))

    def console(self):
        """What the serial console said so far."""
        return self.serial.read_text(encoding="utf-8", errors="replace") if self.serial.exists() else ""

    def remove(self):
        """End it and remove all of it."""
        self.cut()
        shutil.rmtree(self.folder, ignore_errors=True)


def _ended(number):
    """Whether a process is gone, or is a zombie that nobody has collected yet."""
    try:
        return pathlib.Path("/proc/%d/stat" % number).read_text(encoding="ascii").rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


def up(name, platform):
    """A fresh machine in place of one that is there."""
    import vm_image  # pylint: disable=import-outside-toplevel  # it needs this module

    image = vm_image.image(platform)
    machine = Machine(name)
    machine.remove()
    machine.folder.mkdir(parents=True)
    for part in ("disk.qcow2", "key", "vm.json"):
        subprocess.run(["cp", "--reflink=auto", "--sparse=always", "--preserve=mode", image / part, machine.folder / part], check=True)
    machine.start(snapshot=FIRST)
    return machine


def machines():
    """The names of all machines of this checkout."""
    folder = STATE / "vm"
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(PREFIX)) if folder.is_dir() else []


def main(words):
    """Carry out one command line. Returns the exit status."""
    verb, arguments = words[0] if words else "", words[1:]
    if verb == "image" and len(arguments) == 1:
        import vm_image  # pylint: disable=import-outside-toplevel

        print(vm_image.image(arguments[0]))
    elif verb == "up" and len(arguments) == 2:
        up(*arguments)
    elif verb == "down":
        for name in arguments or machines():
            Machine(name).remove()
    elif verb == "cut" and len(arguments) == 1:
        Machine(arguments[0]).cut()
    elif verb in ("on", "cycle") and len(arguments) in (1, 2):
        machine = Machine(arguments[0])
        if verb == "cycle":
            machine.cut()
        machine.start()
        machine.wait(int(arguments[1]) if len(arguments) == 2 else 300)
    elif verb in ("save", "load") and len(arguments) == 2:
        getattr(Machine(arguments[0]), verb)(arguments[1])
    elif verb == "serial" and len(arguments) == 1:
        sys.stdout.write(Machine(arguments[0]).console())
    elif verb == "ssh" and arguments:
        command = Machine(arguments[0]).ssh_command(*arguments[1:])
        os.execvp(command[0], command)
    elif verb == "show" and len(arguments) == 1:
        machine = Machine(arguments[0])
        print(json.dumps({**machine.meta, "key": str(machine.key), "running": machine.pid() is not None}, indent=1))
    else:
        sys.stderr.write(__doc__)
        return 2
    return 0


if __name__ == "__main__":
    try:
        sys.modules["vm"] = sys.modules["__main__"]     # vm_image imports it by its name
        sys.exit(main(sys.argv[1:]))
    except (VmError, subprocess.CalledProcessError, OSError) as problem:
        sys.stderr.write("lockstep: %s\n" % problem)
        sys.exit(1)
