# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a node has to boot, and every reason against booting the kernel that is meant.

The gate is closed until everything is known to be right: what could not be read is a reason like any other.
"""
from __future__ import annotations

import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils import trial as trials

from . import engine, knowledge, next_boot
from .boot_proof import OFED_MODULES, vendors_ofed
from .rules import ofed_found
from .rules.context import Context

Row = t.Dict[str, t.Any]

# Findings that speak against the kernel that is to be booted, however they weigh.
AGAINST = ("initramfs_missing", "initramfs_stale", "kernel_module_missing", "dkms_not_built_for_kernel", "dkms_not_installed", "dkms_weak_only",
           "dkms_broken_source", "dkms_status_unusable", "dkms_built_file_missing", "installed_module_differs_from_dkms", "dkms_build_failed",
           "dkms_registered_not_built_but_module_on_disk", "mok_not_enrolled", "module_unsigned", "ofed_not_built_for_kernel", "package_half_configured",
           "no_kmod_for_next_kernel", "grubenv_not_writable")
# Broken things about what runs now: a boot into the right kernel mends them, or does not make them worse.
MENDED = ("trial_boot_failed", "driver_library_mismatch", "driver_does_not_answer", "libcuda_not_usable", "loaded_module_not_from_packages", "flavour_mismatch",
          "gpu_needs_proprietary", "branch_dropped_gpu", "nouveau_in_use", "other_gpu_driver_in_use", "inbox_module_in_use", "peermem_symbol_missing",
          "peermem_built_against_other_ofed", "peermem_built_against_other_driver", "fabric_manager_version_differs", "fabric_not_completed", "gpu_lost",
          "gpu_query_error", "platform_not_supported", "cdi_spec_stale", "boot_entry_without_package")


def boot(stack: Row, plan: Row, state: Row) -> Row:
    """What a node's boot is about: {kernel, running, locked, due, pending, kept, drained}.

    kernel: the one that has to run. locked: whether the stack names it. due: why the node has to boot, a list of texts. pending: a trial on
    record waits for its boot, its judgement or its confirmation.
    kept: the running kernel is the default that nothing moves by itself. drained: hooks of an earlier run wait for their other half.
    """
    running = (state.get("kernel") or {}).get("running")
    target = (plan.get("proof") or {}).get("kernel") or (stack.get("kernel") or {}).get("release") or running
    trial = state.get("trial") or {}
    loaded = (state.get("modules") or {}).get("loaded") or {}
    version = (stack.get("driver") or {}).get("version")
    due = []
    if running != target:
        due.append("kernel %s runs, the stack's is %s" % (running, target))
    if version and loaded.get("version") not in (None, version):
        due.append("module %s is loaded, the stack's is %s" % (loaded["version"], version))
    if plan.get("flavour") and loaded.get("flavour") not in (None, plan["flavour"]):
        due.append("the %s module is loaded, the stack's is %s" % (loaded["flavour"], plan["flavour"]))
    return {"kernel": target, "running": running, "locked": bool((stack.get("kernel") or {}).get("release")), "due": due,
            "pending": trial.get("outcome") == "pending" or bool(trial) and trial.get("kernel") == running,
            "kept": _kept(state, running), "drained": bool(state.get("drained"))}


def _kept(state: Row, running: t.Optional[str]) -> bool:
    """Whether the running kernel is saved as the default, for good; an entry for the next start only does not matter."""
    told = state.get("boot") or {}
    if not running or state.get("new_kernel_default") is True:
        return False
    if told.get("loader") != "grub":
        return told.get("default_kernel") == running
    saved = told.get("menu_default") or told.get("grub_default") or ""
    return "saved" in saved and told.get("grub_default") in ("saved", None) and next_boot.named(state, told.get("saved_entry")) == running


def reasons(stack: Row, plan: Row, state: t.Optional[Row], probe: t.Optional[Row], accept: t.Sequence[str] = ()) -> t.List[str]:
    """Every reason against booting the plan's kernel, each a sentence; [] opens the gate.

    plan: made of this very state. probe: what cuda_probe returned for subjects(), None where it gave nothing.
    """
    target = (plan.get("proof") or {}).get("kernel")
    if not target:
        return ["It is not known which kernel is to be booted."]
    if not state:
        return ["The node's state could not be read."]
    rows = (probe or {}).get("proof") or {}
    found = [*_kernel(stack, state, target), *_once(state, target), *_todo(plan), *_proof(plan, rows), *_dkms(plan, state, target),
             *_ofed(stack, state, target, rows), *_signatures(plan, state, rows), *_findings(stack, plan, state, target, accept)]
    return list(dict.fromkeys(found))


def _kernel(stack: Row, state: Row, target: str) -> t.Iterator[str]:
    installed = (state.get("kernel") or {}).get("installed")
    if installed is None:
        yield "It is not known which kernels are installed."
        return
    row = next((row for row in installed if row["release"] == target), {})
    if not row.get("image"):
        yield "Kernel %s has no image." % target if row.get("image") is False or not row else "It is not known whether kernel %s has an image." % target
    if row and not row.get("initramfs"):
        yield "Kernel %s has no initramfs." % target if row.get("initramfs") is False else "It is not known whether kernel %s has an initramfs." % target
    wanted = stack.get("kernel") or {}
    version = wanted.get("package_version")
    if row and version and wanted.get("release") == target and str(row.get("package_version")) != str(version):
        yield "Kernel %s is installed as %s, the stack names %s." % (target, row.get("package_version"), version)
    if stack.get("driver"):
        modprobe = state.get("modprobe")
        stale = (modprobe or {}).get("stale")
        if stale is None:
            yield "It is not known whether the initramfs of %s has the blacklist of other drivers." % target
        elif target in stale:
            yield "The initramfs of %s is older than the blacklist of other drivers." % target


def _once(state: Row, target: str) -> t.Iterator[str]:
    """A boot without a trial takes what somebody else has set for the next start; a trial replaces it."""
    told = (state.get("boot") or {}).get("next_entry")
    if told and not trials.is_entry(told) and (state.get("kernel") or {}).get("running") == target:
        meant = next_boot.named(state, told)
        if meant != target:
            yield "Somebody has set '%s' for the next start only, which is %s." % (told, "kernel " + meant if meant else "no kernel that is known")


def _todo(plan: Row) -> t.Iterator[str]:
    actions = plan.get("actions") or []
    if actions or not plan.get("converged"):
        yield "%d steps to the stack are still to be done%s." % (len(actions), ": %s" % actions[0]["action"] if actions else "")


def _proof(plan: Row, rows: t.Mapping[str, Row]) -> t.Iterator[str]:
    wanted = (plan.get("proof") or {}).get("gate") or {"subjects": ["initramfs"], "modules": []}
    names = [name for name in wanted["subjects"] if name != "modules"]
    for name in [*names, *("module:" + module for module in wanted["modules"] if module not in OFED_MODULES)]:
        row = rows.get(name)
        if row is None:
            yield "%s could not be looked at." % name
        elif not row.get("proven"):
            yield "%s: %s." % (name, str(row.get("detail")).rstrip("."))


def _dkms(plan: Row, state: Row, target: str) -> t.Iterator[str]:
    dkms = plan.get("dkms")
    if not dkms:
        return
    if state.get("dkms") is None:
        yield "It is not known what DKMS has built."
    elif not any(row["module"] == dkms["module"] and row["version"] == dkms["version"] and row.get("kernel") == target
                 and row["state"] == "installed" and not row.get("flags") for row in state["dkms"]):
        yield "DKMS has not installed %s/%s for kernel %s." % (dkms["module"], dkms["version"], target)


def _ofed(stack: Row, state: Row, target: str, rows: t.Mapping[str, Row]) -> t.Iterator[str]:
    if not vendors_ofed(stack):
        return
    ctx = Context(stack, state, facts=knowledge.load())
    built = ofed_found.built_kernels(ctx)
    if built is None:
        yield "It is not known for which kernels OFED's modules are built."
    elif not ofed_found.has_kernel(ctx, built):
        yield "OFED's modules are not built for kernel %s." % target
    for name in OFED_MODULES:
        row = rows.get("module:" + name) or {}
        path, vermagic = str(row.get("path") or ""), str(row.get("vermagic") or "")
        if "/kernel/" in path.split(target, 1)[-1] or not path:
            yield "Kernel %s would load no %s of OFED's: %s." % (target, name, path or "there is no such file, or it could not be read")
        elif vermagic.split(" ", maxsplit=1)[0] != target:
            yield "%s was built for %s." % (path, vermagic.split(" ", maxsplit=1)[0] or "an unknown kernel")


def _signatures(plan: Row, state: Row, rows: t.Mapping[str, Row]) -> t.Iterator[str]:
    modules = {name: row for name, row in rows.items() if name.startswith("module:") and row.get("path")}
    secured = state.get("secure_boot")
    if not modules or secured is False:
        return
    if secured is None:
        yield "It is not known whether secure boot is on."
    for name, row in sorted(modules.items()):
        if row.get("signed") is not True:
            yield "Secure boot %s, and %s %s." % ("is on" if secured else "may be on", row["path"],
                                                  "is not signed" if row.get("signed") is False else "may not be signed")


def booted(state: Row, target: str) -> Row:
    """The state as it would be behind the boot: the target runs and comes next, and no module of before is loaded."""
    boot_loader = dict(state.get("boot") or {}, default_kernel=target, next_entry=None)
    return dict(state, kernel=dict(state.get("kernel") or {}, running=target), boot=boot_loader, trial=None, reboot_marks=None,
                modules=dict(state.get("modules") or {}, loaded=None))


def kept(state: Row) -> Row:
    """The state as it would be if the running kernel were the default: what is judged before a kernel becomes that."""
    running = (state.get("kernel") or {}).get("running")
    return dict(state, boot=dict(state.get("boot") or {}, default_kernel=running, next_entry=None), trial=None) if running else state


def _findings(stack: Row, plan: Row, state: Row, target: str, accept: t.Sequence[str]) -> t.Iterator[str]:
    for row in engine.findings(stack, booted(state, target), plan=plan, accept=accept):
        if not row.get("accepted") and (row["code"] in AGAINST or row["verdict"] in ("blocked", "broken", "unknown") and row["code"] not in MENDED):
            yield "%s@%s: %s" % (row["code"], row["subject"], row["message"])


def problems(found: t.Sequence[str], target: t.Optional[str]) -> t.List[Row]:
    """Reasons in the form that a record's failure takes."""
    return [{"code": "boot_gate_closed", "name": target or "kernel", "message": text} for text in found]
