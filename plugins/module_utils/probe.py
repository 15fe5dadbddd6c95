# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Observations of a node: taken live, or replayed from a bundle.

A probe has a name and yields text. probes.py says how the live back end captures it; a bundle has the same text in a file.
So one parser serves a live node, a support bundle and a test.
"""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections import namedtuple

from ansible_collections.lockstep.gpu.plugins.module_utils import capture
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import NOT_FOUND_RC, Command, Recorded
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import PROBES
from ansible_collections.lockstep.gpu.plugins.module_utils.run import TOOL_DIRS

DEFAULT_TIMEOUT = 15.0
_NO_SUCH_FILE = "No such file or directory"


class Observation(namedtuple("Observation", ["rc", "out", "err", "reason"])):
    """What a probe saw. rc: exit status, 1 with cat's message for a missing file, 127 for a missing command, None when
    there is no result at all; reason then says why (time-out, too long, not in the bundle)."""

    __slots__ = ()

    def __new__(cls, rc, out="", err="", reason=None):
        return super().__new__(cls, rc, out, err, reason)

    def absent(self, name):
        """Whether what the probe `name` reads is known not to be there; that is knowledge, not a failure.

        A command may complain about any missing file, so only its own absence counts.
        """
        # A recording may have both outputs in one file; then there is nothing but the complaint.
        said = self.err.strip() or self.out.strip()
        if isinstance(PROBES.get(name), Recorded):
            # A transcript's exit status is the program's own: podman ends with 127 for what is not in a container.
            return self.rc == NOT_FOUND_RC and (not said or said.endswith(("command not found", ": not found")))
        lines = said.splitlines() if not (self.err.strip() and self.out.strip()) else []
        # grep and ls end with 2 where nothing of what they were asked for is there.
        none_there = self.rc == 2 and bool(lines) and all(line.endswith(_NO_SUCH_FILE) for line in lines)
        missing_file = none_there or self.rc == 1 and said.endswith(_NO_SUCH_FILE) and (bool(self.err.strip()) or "\n" not in said)
        return self.rc == NOT_FOUND_RC or missing_file and not isinstance(PROBES.get(name), Command)

    def why(self):
        """One sentence for an observation that is no success."""
        if self.rc is None:
            return self.reason or "no result"
        said = " ".join(self.err.split())
        return "exit status %d: %s" % (self.rc, said[:200] or "it printed nothing")


class _Child:
    """One probe in a process group of its own; both of its pipes are collected here."""

    def __init__(self, work, timeout):
        self.deadline = time.monotonic() + timeout
        self.timeout = timeout
        self.buffers = {}
        out, out_end = os.pipe()
        err, err_end = os.pipe()
        self.out, self.err = out, err
        self.pid = os.fork()
        if self.pid == 0:
            _child_main(work, out_end, err_end)
        os.close(out_end)
        os.close(err_end)
        self.open = {out, err}
        self.buffers = {out: bytearray(), err: bytearray()}

    def drain(self, descriptor):
        """Take what is there. False at the end of the pipe."""
        chunk = os.read(descriptor, 1 << 16)
        self.buffers[descriptor] += chunk
        return bool(chunk)

    def size(self):
        return max(len(buffer) for buffer in self.buffers.values())

    def reap(self):
        """Exit status once the pipes are closed: negative for a signal; None when it does not end in time."""
        while True:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            if time.monotonic() >= self.deadline:
                return None
            time.sleep(0.002)

    def kill(self):
        """End the whole group. A process that sleeps in the kernel cannot be reaped and is left behind."""
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            os.kill(self.pid, signal.SIGKILL)
        self.deadline = time.monotonic() + 0.2
        self.reap()

    def text(self, descriptor):
        return bytes(self.buffers[descriptor]).decode("utf-8", "replace")


def _child_main(work, out, err):
    """The child's side: never returns."""
    rc = 1
    try:
        os.setsid()
        null = os.open(os.devnull, os.O_RDONLY)
        for source, target in ((null, 0), (out, 1), (err, 2)):
            os.dup2(source, target)
        _write_all(1, (work() or "").encode("utf-8", "surrogateescape"))
        rc = 0
    except capture.Absent as error:
        _write_all(2, ("%s: %s\n" % (error.filename, _NO_SUCH_FILE)).encode("utf-8", "surrogateescape"))
    except BaseException as error:  # pylint: disable=broad-except
        # Whatever it is, the child must not run on in the parent's code.
        _write_all(2, ("%s: %s\n" % (type(error).__name__, error)).encode("utf-8", "replace"))
    finally:
        os._exit(rc)


def _write_all(descriptor, content):
    while content:
        content = content[os.write(descriptor, content):]


class LiveProbe:
    """The node itself. Every probe runs in a child of its own, and all that were started run side by side."""

    def __init__(self, root="/", timeout=DEFAULT_TIMEOUT, max_bytes=capture.MAX_BYTES, tools=None, probes=None):
        """root: a folder instead of "/" (tests); timeout: seconds for each probe; tools: search path for commands."""
        self._root, self._timeout, self._max_bytes = root, timeout, max_bytes
        self._tools = tools or os.pathsep.join([os.environ.get("PATH", ""), *TOOL_DIRS])
        self._probes = PROBES if probes is None else probes
        self._running, self._seen = {}, {}
        self._selector = selectors.DefaultSelector()

    def start(self, names):
        """Begin probes that read() will ask for, so that they run at the same time."""
        for name in names:
            if name not in self._running and name not in self._seen:
                how = self._probes[name]
                child = _Child(lambda how=how: how(self._root, self._tools), self._timeout)
                self._running[name] = child
                for descriptor in child.open:
                    self._selector.register(descriptor, selectors.EVENT_READ, child)

    def read(self, name):
        """The Observation of a probe; each is taken once. Raises KeyError for a name that is no probe."""
        if name not in self._seen:
            self.start([name])
            self._seen[name] = self._finish(self._running.pop(name))
        return self._seen[name]

    def _finish(self, child):
        while child.open and child.size() <= self._max_bytes:
            left = child.deadline - time.monotonic()
            if left <= 0:
                break
            self._pump(left)
        reason = None
        if child.size() > self._max_bytes:
            reason = "more than %d bytes" % self._max_bytes
        rc = child.reap() if reason is None and not child.open else None
        if rc is None:
            reason = reason or "no answer within %g s" % child.timeout
            child.kill()
        for descriptor in list(child.open):
            self._close(child, descriptor)
        if reason:
            return Observation(None, reason=reason)
        return Observation(rc, child.text(child.out), child.text(child.err))

    def _pump(self, seconds):
        """Wait for output of any child and take it, so that none of them blocks on a full pipe."""
        for key, _events in self._selector.select(seconds):
            child = key.data
            # A child over the limit loses its reader; _finish() kills it.
            if child.size() > self._max_bytes or not child.drain(key.fd):
                self._close(child, key.fd)

    def _close(self, child, descriptor):
        self._selector.unregister(descriptor)
        os.close(descriptor)
        child.open.discard(descriptor)
