# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bundles: a folder of recorded observations, replayed or written.

A bundle comes from a stranger (a support case): nothing in it is run, and no file outside of its folder is read.
"""

from __future__ import annotations

import os
import stat

from ansible_collections.lockstep.gpu.plugins.module_utils import capture
from ansible_collections.lockstep.gpu.plugins.module_utils.parse_common import shown
from ansible_collections.lockstep.gpu.plugins.module_utils.facts_reader import NOT_RECORDED
from ansible_collections.lockstep.gpu.plugins.module_utils.probe import Observation
from ansible_collections.lockstep.gpu.plugins.module_utils.probes import PROBES

MANIFEST = "bundle.yml"
MAX_INPUTS = 500
_KEYS = {"probe", "file", "rc", "stderr", "reason", "host", "cmd"}


def _word(key):
    """A foreign key as a short word; Python refuses to print numbers of thousands of digits."""
    return shown(key) if isinstance(key, str) else "what is no text"


class BundleError(Exception):
    """The bundle is not usable; the message says which file or entry is wrong."""


class BundleProbe:
    """The same interface as LiveProbe, from a folder."""

    def __init__(self, folder, load, max_bytes=capture.MAX_BYTES):
        """folder: path; load: a function that turns the manifest's text into data (a safe YAML loader).

        Raises BundleError for a manifest that is not as documented, and for a file name that leaves the folder.
        """
        self._folder = os.path.realpath(folder)
        self._max_bytes = max_bytes
        try:
            manifest = load(self._read(MANIFEST))
        except BundleError:
            raise
        except Exception as error:  # whatever the loader raises for foreign text
            raise BundleError("%s is not valid YAML: %s" % (MANIFEST, error)) from error
        if not isinstance(manifest, dict) or not isinstance(manifest.get("inputs"), list):
            raise BundleError("%s needs a list `inputs`" % MANIFEST)
        if len(manifest["inputs"]) > MAX_INPUTS:
            raise BundleError("%s has more than %d inputs" % (MANIFEST, MAX_INPUTS))
        self.given = manifest.get("given") or {}
        self._inputs = {}
        for number, entry in enumerate(manifest["inputs"], 1):
            self._add(number, entry)
        hosts = {entry.get("host") for entry in self._inputs.values()} - {None}
        if len(hosts) > 1:
            raise BundleError("the bundle mixes the hosts %s: split it into one bundle a host" % ", ".join(sorted(hosts)))
        # Names that this version has no parser for: evidence that nobody looked at.
        self.unread = sorted(set(self._inputs) - set(PROBES))

    def _add(self, number, entry):
        where = "inputs[%d]" % number
        if not isinstance(entry, dict) or not isinstance(entry.get("probe"), str):
            raise BundleError("%s needs a `probe` name" % where)
        if set(entry) - _KEYS:
            raise BundleError("%s has unknown keys: %s" % (where, ", ".join(sorted(_word(key) for key in set(entry) - _KEYS))))
        if entry["probe"] in self._inputs:
            raise BundleError("%s repeats the probe %s" % (where, entry["probe"]))
        rc = entry.get("rc")
        if rc is not None and (not isinstance(rc, int) or isinstance(rc, bool) or not -255 <= rc <= 255):
            raise BundleError("%s: rc must be a whole number from -255 to 255, or null" % where)
        for key in ("file", "stderr", "reason", "host", "cmd"):
            if not isinstance(entry.get(key, ""), (str, type(None))):
                raise BundleError("%s: %s must be text" % (where, key))
        for key in ("file", "stderr"):
            if entry.get(key):
                self._path(entry[key])
        self._inputs[entry["probe"]] = entry

    def _path(self, name):
        """The path of a file of the bundle. Raises BundleError when it is elsewhere, also through a link."""
        path = os.path.join(self._folder, name)
        if "\0" in name or os.path.isabs(name) or os.path.commonpath([self._folder, os.path.realpath(path)]) != self._folder:
            raise BundleError("%r leaves the bundle's folder" % name)
        return path

    def _read(self, name):
        """Text of a file of the bundle, undecodable bytes replaced. Raises BundleError."""
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_NONBLOCK)
            with os.fdopen(descriptor, "rb") as handle:
                if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                    raise BundleError("%s is not a regular file" % name)
                content = handle.read(self._max_bytes + 1)
        except OSError as error:
            raise BundleError("cannot read %s: %s" % (name, error.strerror)) from error
        if len(content) > self._max_bytes:
            raise BundleError("%s is longer than %d bytes" % (name, self._max_bytes))
        return content.decode("utf-8", "replace")

    def start(self, names):
        """Nothing to prepare; LiveProbe's interface."""

    def read(self, name):
        """The recorded Observation; a file that cannot be read is one without a result, not an error."""
        entry = self._inputs.get(name)
        if entry is None:
            return Observation(None, reason=NOT_RECORDED)
        if entry.get("rc") is None:
            return Observation(None, reason=entry.get("reason") or "recorded without an exit status")
        try:
            out, err = [self._read(entry[key]) if entry.get(key) else "" for key in ("file", "stderr")]
        except BundleError as error:
            return Observation(None, reason=str(error))
        return Observation(entry["rc"], out, err)


def to_bundle(observations, given=None):
    """({name: observation}) to (manifest, {file name: text}): what a bundle's folder has to hold."""
    inputs, texts = [], {}
    for name, seen in sorted(observations.items()):
        entry = {"probe": name, "rc": seen.rc, "cmd": PROBES[name].describe()}
        for key, text, suffix in (("file", seen.out, ".txt"), ("stderr", seen.err, ".stderr")):
            if text:
                entry[key] = name + suffix
                texts[name + suffix] = text
        if seen.reason:
            entry["reason"] = seen.reason
        inputs.append(entry)
    return {"given": given or {}, "inputs": inputs}, texts
