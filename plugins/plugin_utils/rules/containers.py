# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about containers and monitoring: CDI specifications, DCGM and its exporter."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import actions

from .context import Context, Hit, Row, listed, upstream
from .fabric_facts import driver_packages

_CDI = "https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/cdi-support.html"
_TAGS = "https://github.com/NVIDIA/dcgm-exporter/issues/319"
DEFAULT_SPEC = "/etc/cdi/nvidia.yaml"
_LIBRARY_VERSION = re.compile(r"\.so\.(\d{3}\.\d{2,3}(?:\.\d{2})?)$")


def _installed_driver(ctx: Context) -> t.Set[str]:
    """The versions that the driver's files may have: what is on disk, else what is loaded."""
    libraries = {row.get("version") for row in ctx.state.get("libraries") or [] if row.get("soname") in ("libcuda.so.1", "libnvidia-ml.so.1")}
    on_disk = {version for version in libraries | {driver_packages(ctx)} if version}
    loaded = {ctx.loaded_module.get("version"), *(row.get("driver_version") for row in ctx.state.get("gpu_query") or [] if isinstance(row, dict)),
              (ctx.state.get("smi") or {}).get("driver")}
    return on_disk or {version for version in loaded if version} or {version for version in (_wanted(ctx),) if version}


def _wanted(ctx: Context) -> t.Optional[str]:
    """The stack's driver, where nothing else tells which driver is there."""
    version = (ctx.stack.get("driver") or {}).get("version") or ""
    return version if not ctx.loaded_module and version.count(".") else None


def cdi_spec_stale(ctx: Context) -> t.Iterator[Hit]:
    """What the CDI specification gives to containers is there, and is the installed driver's."""
    containers = ctx.state.get("containers") or {}
    installed = _installed_driver(ctx)
    run = containers.get("run") or {}
    gone = {path for names in (containers.get("cdi_missing"), run.get("missing"), run.get("cdi_missing")) for path in names or []}
    told = False
    for row in containers.get("cdi") or []:
        old = sorted(set(row["versions"]) - installed) if installed else []
        missing = sorted(gone & set(row["paths"]))
        if old or missing:
            told = True
            yield _stale(row["path"] if row["path"].startswith("/") else DEFAULT_SPEC, old, installed, missing, run)
    if not told and run.get("missing"):
        versions = {found.group(1) for found in map(_LIBRARY_VERSION.search, run["missing"]) if found}
        if versions - installed:
            yield _stale(DEFAULT_SPEC, sorted(versions - installed), installed, sorted(run["missing"]), run)
    if not told and run.get("cdi_missing"):
        yield _stale(DEFAULT_SPEC, [], installed, run["cdi_missing"], run)
    unresolved = [name for name in run.get("unresolved") or [] if name.startswith("nvidia.com/")]
    if unresolved:
        yield Hit("%s, %s" % (DEFAULT_SPEC, listed(unresolved)), "No CDI specification that the container engine reads describes %s." % listed(unresolved),
                  _CDI, "running", (actions.step("rewrite_file", DEFAULT_SPEC, command="nvidia-ctk cdi generate --output=%s" % DEFAULT_SPEC),))


def _stale(path: str, old: t.List[str], installed: t.Set[str], missing: t.List[str], run: Row) -> Hit:
    words = []
    if old:
        words.append("names driver %s%s" % (", ".join(old), "; installed is %s" % listed(installed) if installed else ""))
    if missing:
        words.append("names files that are not there: %s%s" % (", ".join(missing[:3]), " and %d more" % (len(missing) - 3) if len(missing) > 3 else ""))
    subject = "%s: %s" % (path, " / ".join([", ".join(old), listed(installed)]) if old and installed else ", ".join(old) or missing[0])
    context = "running" if run.get("missing") or run.get("unresolved") or run.get("cdi_missing") else "default"
    return Hit(subject, "The CDI specification %s %s." % (path, ", and ".join(words)), _CDI, context,
               (actions.step("rewrite_file", path, command="nvidia-ctk cdi generate --output=%s" % path),))


def dcgm_exporter_mismatch(ctx: Context) -> t.Iterator[Hit]:
    """The exporter and the host engine that it talks to are of one DCGM version."""
    dcgm = ctx.state.get("dcgm") or {}
    log = dcgm.get("log") or {}
    engine = dcgm.get("host_engine") or dcgm.get("version") or _package(ctx)
    wants = (dcgm.get("exporter") or {}).get("dcgm") or log.get("dcgm")
    refused = log.get("mismatch") or (log.get("library") is not None and "libdcgm%s was not found" % (
        ".so.%s" % log["library"] if log["library"] else ""))
    other_major = bool(engine and wants and engine.split(".")[0] != wants.split(".")[0])
    if not refused and not other_major:
        return
    subject = "host engine %s" % (engine or "of an unknown version")
    message = "dcgm-exporter%s does not fit the host engine%s%s." % (
        " for DCGM %s" % wants if wants else "", " %s" % engine if engine else "", ": %s" % refused if refused else "")
    yield Hit(subject + (" / exporter for %s" % wants if wants else ""), message, _TAGS, do=(actions.step("install_exact", _target(wants)),))


def _package(ctx: Context) -> t.Optional[str]:
    """The version of the installed DCGM."""
    return next((version for version in (upstream(row.get("version")) for _name, row in sorted(ctx.members("dcgm").items())) if version), None)


def _target(wants: t.Optional[str]) -> str:
    """The package of the DCGM version that an exporter was built for; from 4 on its name has the major version."""
    if not wants:
        return "datacenter-gpu-manager of the exporter's DCGM version"
    major = wants.split(".")[0]
    return "datacenter-gpu-manager%s=%s" % ("-%s-core" % major if int(major) >= 4 else "", wants)


RULES = (cdi_spec_stale, dcgm_exporter_mismatch)
