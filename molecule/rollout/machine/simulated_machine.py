# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The first process of a simulated machine: firmware, GRUB, kernel, and what of init a trial of a kernel needs.

Its end is the machine's reset: every process dies, /run is empty, and the engine starts the container again (restart policy
on-failure) unless the exit status is 0, which is a machine that is off or hangs until its power is cycled (docker start).
What happens is written to NAME.log in SHARED, one JSON object a line; NAME.faults makes kernels fail: {release: "panic" or "hang"}.
`simulated_machine.py note WORD`, on a running machine, adds a word to that log.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time
import uuid

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from simulated_grub import GrubError, Menu  # noqa: E402

SHARED = pathlib.Path("/var/lib/simulated-machine")
RUN = pathlib.Path("/run/machine")
# After the mounts of a plain disk: GRUB can write its environment there.
MOUNTS = "/dev/vda1 / ext4 rw,relatime,errors=remount-ro 0 0\ntmpfs /run tmpfs rw,nosuid,nodev,size=800000k,mode=755 0 0\nproc /proc proc rw 0 0\n"
VERSION = "Linux version %s (simulated@machine) (x86_64-linux-gnu-gcc-12 (Debian 12.2.0-14) 12.2.0, GNU ld 2.40) #1 SMP PREEMPT_DYNAMIC\n"
UNITS = "/etc/systemd/system"
DOWN, RESET = 0, 1      # exit statuses
TOLD = {signal.SIGINT, signal.SIGTERM, signal.SIGCHLD}
GRACE = 0.3     # seconds between the word and the reset: the one who asked gets an answer


def log(event, **more):
    """Append an event to the machine's log."""
    row = dict(time=round(time.time(), 3), node=socket.gethostname(), event=event, **more)
    with open(SHARED / (socket.gethostname() + ".log"), "a", encoding="utf-8") as handle:
        handle.write(json.dumps(row) + "\n")


def faults():
    """{kernel release: "panic" or "hang"} of this machine, read anew at every boot."""
    try:
        return json.loads((SHARED / (socket.gethostname() + ".faults")).read_text(encoding="utf-8"))
    except OSError:
        return {}


def power_on():
    """Boot until a kernel reaches user space: what GRUB started. None when the machine stands still before."""
    for _try in range(20):
        try:
            started = Menu().boot()
        except GrubError as error:
            log("grub stops", reason=str(error))
            return None
        log("boot", **started)
        fault = faults().get(started["kernel"])
        if fault is None:
            return started
        # A kernel that panics stands still unless it was told to restart.
        if fault != "panic" or not re.search(r"(^| )panic=[1-9]", started["options"]):
            log("stands still", kernel=started["kernel"])
            return None
        log("panic", kernel=started["kernel"])
    log("reset loop")
    return None


def kernel_is_up(started):
    """What the kernel tells programs, in the files that machine.so reads."""
    files = {"proc/cmdline": started["options"] + "\n", "proc/sys/kernel/random/boot_id": "%s\n" % uuid.uuid4(), "proc/modules": "",
             "proc/version": VERSION % started["kernel"], "proc/self/mounts": MOUNTS, "proc/mounts": MOUNTS}
    for name, text in files.items():
        path = RUN / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (RUN / "release").write_text(started["kernel"] + "\n", encoding="utf-8")


def units(options):
    """{name: text} of the units that sysinit.target starts and whose ConditionKernelCommandLine is met: systemd's way, for these alone."""
    found = {}
    for link in sorted(pathlib.Path(UNITS, "sysinit.target.wants").glob("*")):
        text = link.read_text(encoding="utf-8") if link.exists() else ""
        condition = re.search(r"^ConditionKernelCommandLine=(\S+)", text, re.MULTILINE)
        if condition and condition.group(1) in options.split():
            found[link.name] = text
    return found


def start(text):
    """Run a service's command, which nobody waits for."""
    command = re.search(r"^ExecStart=(.+)", text, re.MULTILINE)
    process = subprocess.Popen(["/bin/sh", "-c", "exec " + command.group(1)], stdin=subprocess.DEVNULL,
                               preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, TOLD))
    process.returncode = 0      # reap() buries it


def timers(options):
    """Start the services; [(when, service)] of the timers, by the machine's own clock."""
    waiting = []
    for name, text in units(options).items():
        delay = re.search(r"^On(?:Boot|Active)Sec=(\d+)", text, re.MULTILINE)
        if delay:
            waiting.append((time.monotonic() + int(delay.group(1)), re.sub(r"\.timer$", ".service", name)))
        elif name.endswith(".service"):
            start(text)
    return sorted(waiting)


def next_word(waiting):
    """The next signal; timers that elapse meanwhile start their services, where they still are."""
    while waiting:
        word = signal.sigtimedwait(TOLD, max(0, waiting[0][0] - time.monotonic()))
        if word is not None:
            return word.si_signo
        path = pathlib.Path(UNITS, waiting.pop(0)[1])
        if path.exists():
            log("timer", unit=path.name)
            start(path.read_text(encoding="utf-8"))
    return signal.sigwait(TOLD)


def reap():
    """Bury the dead."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def main():
    # The engine's mark; what else tells a container is left out when it is started (tools/machine.sh).
    pathlib.Path("/.dockerenv").unlink(missing_ok=True)
    signal.pthread_sigmask(signal.SIG_BLOCK, TOLD)
    RUN.mkdir(exist_ok=True)
    started = power_on()
    if started is None:
        return DOWN
    kernel_is_up(started)
    up = RUN / "up"
    up.touch()      # from now on processes from outside may run, see machine.c
    waiting = timers(started["options"])
    word = signal.SIGCHLD
    while word == signal.SIGCHLD:
        reap()
        word = next_word(waiting)
    up.unlink()
    log("reboot" if word == signal.SIGINT else "power off", kernel=started["kernel"])
    if word == signal.SIGINT:
        time.sleep(GRACE)
    return RESET if word == signal.SIGINT else DOWN


if __name__ == "__main__":
    sys.exit(log(sys.argv[2]) if sys.argv[1:2] == ["note"] else main())
