# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The section of containers and monitoring: container toolkit, CDI, DCGM."""

from __future__ import annotations

import os

from ansible_collections.lockstep.gpu.plugins.module_utils import capture, parse_containers
from ansible_collections.lockstep.gpu.plugins.module_utils.probe_kinds import Command, Function, Recorded

_CDI = ("/etc/cdi/*.yaml", "/etc/cdi/*.json", "/var/run/cdi/*.yaml", "/var/run/cdi/*.json")


def _cdi_spec(root):
    return capture.files(root, *_CDI)


def _cdi_missing(root):
    """Every path of the host that a CDI specification names and that is not there."""
    rows = parse_containers.parse_cdi_spec(_cdi_spec(root)).value
    return capture.lines(path for path in sorted({path for row in rows for path in row["paths"]})
                         if not os.path.lexists(capture.inside(root, path)))


def _container_config(root):
    return capture.files(root, "/etc/docker/daemon.json", "/etc/nvidia-container-runtime/config.toml")


PROBES = {
    "cdi_spec": ("local", Function(_cdi_spec, "tail -v -n +1 /etc/cdi/*.yaml /var/run/cdi/*.yaml (also *.json)")),
    "cdi_missing": ("gpu", Function(_cdi_missing, "the paths that those name and that are not there")),
    "cdi_list": ("gpu", Command(("nvidia-ctk", "cdi", "list"))),
    "container_toolkit_version": ("gpu", Command(("nvidia-ctk", "--version"))),
    "container_config": ("gpu", Function(_container_config, "tail -v -n +1 /etc/docker/daemon.json /etc/nvidia-container-runtime/config.toml")),
    "container_run": ("bundle", Recorded("what docker, podman or nvidia-container-cli said when a container did not start")),
    "dcgm_version": ("gpu", Command(("dcgmi", "-v"))),
    "dcgm_exporter_log": ("gpu", Command(("journalctl", "-b", "-u", "dcgm-exporter", "-n", "200", "--no-pager", "-o", "cat"))),
    "dcgm_exporter_tag": ("bundle", Recorded("the tag or the name of dcgm-exporter's image")),
}


def section(reader):
    """The part of the state that these probes tell: `containers` and `dcgm`.

    containers: {cdi: rows {path, kind, versions, devices, paths}, [] without a specification; cdi_missing: paths of the host that they name
    and that are not there; cdi_devices: what nvidia-ctk finds; toolkit: the version of nvidia-ctk; config; run: {missing, unresolved, cdi_missing, mismatch}
    of a start that failed}. dcgm: {version, host_engine, log: {mismatch, library, dcgm, exporter}, exporter: {dcgm, exporter} of its image}.
    """
    specs = reader.parsed("cdi_spec", parse_containers.parse_cdi_spec, absent=[])
    dcgm = reader.parsed("dcgm_version", parse_containers.parse_dcgm_version, absent=None) or {}
    return {
        "containers": {
            "cdi": specs,
            "cdi_missing": reader.parsed("cdi_missing", parse_containers.parse_paths, absent=[]),
            "cdi_devices": reader.told("cdi_list", parse_containers.parse_cdi_list),
            "toolkit": reader.parsed("container_toolkit_version", parse_containers.parse_toolkit_version, absent=None),
            "config": reader.parsed("container_config", parse_containers.parse_container_config, absent=None),
            "run": reader.told("container_run", parse_containers.parse_container_run),
        },
        "dcgm": {
            "version": dcgm.get("version"), "host_engine": dcgm.get("host_engine"),
            "log": reader.told("dcgm_exporter_log", parse_containers.parse_dcgm_exporter_log),
            "exporter": reader.parsed("dcgm_exporter_tag", parse_containers.parse_dcgm_exporter_tag),
        },
    }
