# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One way to run a command on the node: fixed locale, checked exit status, typed errors.

Every parser of this collection reads English output, so the locale is fixed here and nowhere else.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections import namedtuple

# LANGUAGE beats LC_ALL in gettext when it is set, hence the empty value. LC_CTYPE and LC_MESSAGES too, because the
# kernel's makefile drops LC_ALL, and the compiler would then quote in UTF-8 (Python exports LC_CTYPE=C.UTF-8).
ENVIRONMENT = {"LANG": "C", "LC_ALL": "C", "LC_CTYPE": "C", "LC_MESSAGES": "C", "LANGUAGE": "",
               "DEBIAN_FRONTEND": "noninteractive"}
# Where distributions keep administration tools; a non-login PATH may lack the sbin folders.
TOOL_DIRS = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
TIMED_OUT_RC = 124
MAX_OUTPUT = 1 << 20    # bytes of each stream that run_limited keeps
REAP_SECONDS = 1.0      # how long a killed process is waited for

Result = namedtuple("Result", ["rc", "out", "err"])


class CommandError(Exception):
    """A command ended with an exit status that the caller did not allow.

    Attributes: argv (list of str), rc (int), out and err (str, complete).
    """

    def __init__(self, argv, rc, out="", err=""):
        self.argv = list(argv)
        self.rc = rc
        self.out = out
        self.err = err
        super().__init__(self._message())

    def _message(self):
        said = last_lines(self.err) or last_lines(self.out) or ["it printed nothing"]
        return "%s: exit status %d: %s" % (" ".join(self.argv), self.rc, " | ".join(said))


def last_lines(text, count=5):
    """The last `count` lines of `text` that are not blank, without surrounding blanks."""
    return [line.strip() for line in text.splitlines() if line.strip()][-count:]


def find_tool(name):
    """Absolute path of an executable, also where PATH lacks the sbin folders; None when absent."""
    return shutil.which(name, path=os.pathsep.join([os.environ.get("PATH", ""), *TOOL_DIRS]))


class Runner:
    """Runs commands through AnsibleModule.run_command. Calling it returns a Result.

    module: an AnsibleModule, or in tests anything with the same run_command.
    """

    def __init__(self, module):
        self._module = module

    def __call__(self, argv, ok=(0,), env=None, stdin=None):
        """Run `argv` (a list, no shell). ok: allowed exit statuses, or None for any.

        Raises CommandError for another exit status; 127 stands for a command that is not there.
        """
        argv = [str(word) for word in argv]
        tool = find_tool(argv[0])
        if tool is None:
            rc, out, err = 127, "", "%s is not installed" % argv[0]
        else:
            rc, out, err = self._module.run_command(
                [tool, *argv[1:]], environ_update=dict(ENVIRONMENT, **(env or {})), data=stdin)
        if ok is not None and rc not in ok:
            raise CommandError(argv, rc, out, err)
        return Result(rc, out, err)


def run_limited(argv, seconds, env=None, cwd=None):
    """Run `argv` in a process group of its own and kill the whole group after `seconds`.

    For probes of foreign code that may hang or crash, which AnsibleModule.run_command cannot stop.
    Returns a Result and never raises: rc is negative for a death by signal, 124 when the time was up, 127 when the
    command could not be started. Of each stream the first MAX_OUTPUT bytes are kept.
    """
    deadline = time.monotonic() + seconds
    try:
        # run_command has no time limit.
        child = subprocess.Popen(  # pylint: disable=ansible-bad-function
            argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=cwd,
            env=dict(os.environ, **dict(ENVIRONMENT, **(env or {}))), start_new_session=True)
    except OSError as error:
        return Result(127, "", str(error))
    kept = {child.stdout: bytearray(), child.stderr: bytearray()}
    rc = _ended(child, deadline - time.monotonic()) if _collect(kept, deadline) else None
    if rc is None:
        _kill_group(child)
        # A process that sleeps in the kernel does not die: it is left behind, as are its pipes' other ends.
        _ended(child, REAP_SECONDS)
        result = Result(TIMED_OUT_RC, "", "no answer within %g s" % seconds)
    else:
        result = Result(rc, *(bytes(kept[pipe]).decode("utf-8", "replace") for pipe in (child.stdout, child.stderr)))
    child.stdout.close()
    child.stderr.close()
    return result


def _collect(kept, deadline):
    """Fill {pipe: bytearray} up to the limit, and drop the rest, so that no writer waits. False when the time was up."""
    with selectors.DefaultSelector() as selector:
        for pipe in kept:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            for key, _events in selector.select(left):
                chunk = os.read(key.fd, 1 << 16)
                if not chunk:
                    selector.unregister(key.fileobj)
                kept[key.fileobj] += chunk[:max(0, MAX_OUTPUT - len(kept[key.fileobj]))]
    return True


def _ended(child, seconds):
    """The exit status of a child, None when it has not ended within `seconds`."""
    try:
        return child.wait(timeout=max(0, seconds))
    except subprocess.TimeoutExpired:
        return None


def _kill_group(child):
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        child.kill()
