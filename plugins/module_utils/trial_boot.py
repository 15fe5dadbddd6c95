# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepare, judge and end the trial of a kernel: record, units, menu entry and one-time entry together.

On the way out: record, units, menu entry, one-time entry. On the way back the reverse. So whatever a killed run leaves, the boot loader is told of
a trial only while the rest of it is there, and the record goes last. Each step is done only where it is due, so a run that is repeated finishes.
"""

from __future__ import annotations

import os

from ansible_collections.lockstep.gpu.plugins.module_utils import grub, trial, trial_units
from ansible_collections.lockstep.gpu.plugins.module_utils.acting import read_text


class Trials:
    """The trials of a node. run: a run.Runner; loader: a grub.Grub or one of its kin, whose root is taken; check: only say what would be done."""

    def __init__(self, run, loader, check=False):
        self._run, self._loader, self._check, self._path = run, loader, check, loader.path
        self.seen = self._look()

    def _file(self, name):
        return self._path(trial.FOLDER, name)

    def _look(self):
        text = {name: read_text(self._file(name)) for name in (trial.RECORD, trial.REACHED, trial.EXPIRED)}
        return trial.Seen(trial.parse(text[trial.RECORD] or ""), self._run(["uname", "-r"]).out.strip(),
                          (read_text(self._path("proc/sys/kernel/random/boot_id")) or "").strip(),
                          (read_text(self._path("proc/cmdline")) or "").split(), text[trial.REACHED], text[trial.EXPIRED])

    def armed(self, state):
        """Whether the boot loader has the trial as its one-time entry."""
        return trial.is_entry((state.env or {}).get("next_entry"))

    def judged(self, state):
        """(outcome, reason) of the trial on record, see trial.judge()."""
        return trial.judge(self.seen, self.armed(state))

    def shown(self, state):
        """The trial as the results tell it; None without one."""
        return trial.shown(self.seen.record, *self.judged(state))

    def _remember(self, record):
        if not self._check:
            if record is None:
                trial.remove(self._file(trial.RECORD))
            else:
                trial.write(self._file(trial.RECORD), trial.dumps(record))
        self.seen = self.seen._replace(record=record)

    def _forget_marks(self):
        """What the node noted goes before the record, and never alone: True when there was something."""
        there = [name for name in (trial.REACHED, trial.EXPIRED) if os.path.exists(self._file(name))]
        for name in there if not self._check else ():
            trial.remove(self._file(name))
        self.seen = self.seen._replace(reached=None, expired=None)
        return bool(there)

    def _take_down(self, state):
        """One-time entry, watch over the running trial, menu entry, units: True when any was there."""
        armed, entry = self.armed(state), self._loader.trial_now() is not None
        units = trial_units.bring(self._path, {}, check=True)
        if not self._check:
            if armed:
                self._loader.clear_once()
            if units:
                self._systemctl("stop", trial_units.TIMER, trial_units.RETURN, trial_units.MARK)
            if armed or entry:
                self._loader.put_trial(None)
            if units:
                trial_units.bring(self._path, {})
                self._systemctl("daemon-reload")
        return armed or entry or units

    def _systemctl(self, *words):
        """Tell systemd, where it runs."""
        if os.path.isdir(self._path("run/systemd/system")):
            # 5: no such unit is loaded.
            self._run(["systemctl", *words], ok=(0, 5) if words[0] == "stop" else (0,))

    def drop(self, state):
        """End a trial without a verdict, or clear up where there is none: True when anything was there. Raises GrubError, CommandError, OSError."""
        changed = self._take_down(state)
        changed = self._forget_marks() or changed
        changed = os.path.exists(self._file(trial.RECORD)) or changed
        self._remember(None)
        return changed

    def settle(self, state):
        """End a trial that failed, on record; True when anything was to be done. A trial that still goes on is left alone."""
        outcome, reason = self.judged(state)
        if outcome in (trial.PENDING, trial.RUNNING):
            return False
        if outcome != trial.FAILED:
            return self.drop(state)
        changed = self._take_down(state)
        record = self.seen.record
        if record["outcome"] != trial.FAILED:
            self._remember(dict(record, outcome=trial.FAILED, reason=reason, attempts=record["attempts"] + 1))
            changed = True
        return self._forget_marks() or changed

    def watch(self, state, how):
        """Renew or stop the watch over a kernel that runs on trial, since somebody has reached the node: True where there is one.

        Renewed it counts from now on, also where it was stopped. how: renew | stop.
        """
        if self.judged(state)[0] != trial.RUNNING or not os.path.exists(self._path(trial_units.FOLDER, trial_units.TIMER)):
            return False
        if not self._check:
            self._systemctl("restart" if how == "renew" else "stop", trial_units.TIMER)
        return True

    def give_way(self, state):
        """Before a default is set, which counts from the next start on: end a trial that waits for it, judge one that is over; True when one was there.

        A kernel that runs on trial goes on: on the way back there is just another default.
        """
        outcome = self.judged(state)[0]
        if outcome == trial.RUNNING:
            return False
        return self.settle(state) if outcome == trial.FAILED else self.drop(state)

    def commits(self, kernel, state):
        """Whether making this kernel the default ends its trial, or the record of one that failed: it runs."""
        return self.judged(state)[0] == trial.RUNNING and self.seen.record["kernel"] == kernel

    def _wanted(self, kernel, origin, confirm_within, state):
        """The record that there has to be: the one that is there, where it is of the same trial."""
        now, digest = self.seen.record, trial.digest(self._loader.boot_files(kernel))
        same = now is not None and (now["kernel"], now["digest"]) == (kernel, digest)
        if same and self.judged(state)[0] in (trial.PENDING, trial.NOT_BOOTED):
            return dict(now, boot_id=self.seen.boot_id, confirm_within=confirm_within, **{"from": origin})
        return trial.new(kernel, origin, digest, self.seen.boot_id, confirm_within, now["attempts"] if same else 0)

    def arm(self, kernel, state, confirm_within, panic, most):
        """Have the next start boot a kernel on trial; True when anything was to be done. most: boots of the same files that may fail.

        Raises GrubError (trial_boot_failed when there were as many), CommandError, OSError.
        """
        outcome = self.judged(state)[0]
        if outcome == trial.RUNNING and self.seen.record["kernel"] == kernel:
            return False
        # What cannot be tried ends no other trial.
        self._loader.trial_entry(state, kernel, [])
        changed = False
        if outcome in (trial.FAILED, trial.RUNNING):
            changed = self.settle(state) if outcome == trial.FAILED else self.drop(state)
        record = self._wanted(kernel, grub.default_kernel(state), confirm_within, state)
        if record["attempts"] >= most:
            raise grub.GrubError("kernel %s was booted on trial %d times with these files and %s; mend it, or allow one more with trials=%d"
                                 % (kernel, record["attempts"], self.seen.record["reason"], record["attempts"] + 1), "trial_boot_failed")
        words = (["panic=%d" % panic] if panic else []) + ["%s=%s" % (trial.WORD, record["token"])]
        return self._prepare(record, trial_units.files(record), self._loader.trial_entry(state, kernel, words), state) or changed

    def _prepare(self, record, units, entry, state):
        """The steps of arm(), each where it is due."""
        told = self.seen.record is not None and dict(self.seen.record, armed=False) == dict(record, armed=False)
        same_entry, armed = self._loader.trial_now() == entry, self.armed(state)
        due = not told or not self.seen.record["armed"] or not same_entry or not armed or trial_units.bring(self._path, units, check=True)
        if self._check or not due:
            self.seen = self.seen._replace(record=dict(record, armed=True))
            return due
        if armed and not (told and same_entry):
            # Nothing that the boot loader was told may change under it.
            self._loader.clear_once()
            armed = False
        if not told:
            self._remember(dict(record, armed=False))
            self._forget_marks()
        trial_units.bring(self._path, units)
        if not same_entry:
            self._loader.put_trial(entry)
        if not armed:
            self._loader.settle_disk()
            self._loader.set_once(self._loader.trial_spec())
            self._loader.settle_disk()
        self._remember(dict(record, armed=True))
        return True
