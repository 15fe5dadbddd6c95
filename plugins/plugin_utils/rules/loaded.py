# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rules about the driver as it is loaded, beside its files, its user space, and what is asked for."""
from __future__ import annotations

import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.plugin_utils import knowledge
from ansible_collections.lockstep.gpu.plugins.plugin_utils.actions import step

from . import dkms, kernel, other_drivers, secure_boot
from . import driver_found as found
from .context import Context, Hit, Row, listed
from .libraries import loader_mismatches

Steps = t.Tuple[Row, ...]
# What keeps the driver's module from being there: that nvidia-smi does not reach it is then no finding of its own.
CAUSES = (other_drivers.nouveau_in_use, other_drivers.other_gpu_driver_in_use, secure_boot.mok_not_enrolled, secure_boot.module_unsigned,
          kernel.kernel_module_missing, dkms.dkms_not_built_for_kernel, dkms.dkms_build_failed)


def driver_library_mismatch(ctx: Context) -> t.Iterator[Hit]:
    """The user space is the loaded kernel module's version."""
    hits = loader_mismatches(ctx)
    if hits:
        yield from hits
        return
    module, user = found.running(ctx), found.user_space(ctx)
    exact = found.user_is_exact(ctx)
    logged = found.events(ctx, "api_mismatch")[-1:]
    told = found.failure(ctx) == "version_mismatch"
    if logged and not (module and user):
        module, user, exact = module or logged[0]["loaded"], user or logged[0]["client"], True
    # The container runtime asks the host's NVML, before a container's own libraries count.
    told_by = "nvidia-smi" if told else "the start of a container" if not (module and user) and _hook_failed(ctx) else None
    differ = bool(module and user) and not found.agree(module, user, exact)
    if found.foreign_platform(ctx) or not (told_by or differ):
        return
    yield Hit("loaded %s / user %s" % (module or "unknown", user or "unknown"),
              "The loaded kernel module is %s, the driver's user space is %s%s." % (
                  module or "of an unknown version", user or "of another version", ": %s fails with it" % told_by if told_by else ""),
              do=mend(ctx, module, user))


def _hook_failed(ctx: Context) -> bool:
    """Whether a container did not start because NVML found another driver in memory, and no CDI specification explains that."""
    containers = ctx.state.get("containers") or {}
    return bool((containers.get("run") or {}).get("mismatch")) and not containers.get("cdi")


def mend(ctx: Context, module: t.Optional[str], user: t.Optional[str]) -> Steps:
    """The steps that bring module and user space together, at the version that is asked for, else at the user space's."""
    packages = found.user_packages(ctx)
    package = next(iter(packages.values()), None)
    want = _whole(found.claimed(ctx), [package, user, module, *found.package_versions(ctx)]) or package or user
    if not want or leftover(ctx):
        return ()
    steps: t.List[Row] = []
    behind = {name: version for name, version in found.kernel_packages(ctx).items() if version != want}
    users = {name: version for name, version in found.all_user_packages(ctx).items() if version != want}
    for name, version in [*sorted(behind.items()), *(sorted(users.items()) if package != want else [])]:
        steps += _move(ctx, name, version, want)
    rows = found.dkms_rows(ctx)
    kernel = found.running_kernel(ctx)
    ready = [row for row in rows if row.get("version") == want and row.get("state") == "installed" and kernel in (None, row.get("kernel"))]
    if any("dkms" in name for name in behind) or rows and not ready:
        name = rows[0]["module"] if rows else "nvidia"
        steps.append(step("dkms_build_install", "%s/%s" % (name, want), **({"kernel": kernel} if kernel else {})))
    if module != want:
        steps.append(step("reboot_once"))
    return tuple(steps)


def _whole(wanted: t.Optional[str], known: t.Iterable[t.Optional[str]]) -> t.Optional[str]:
    """A whole version for what is asked for, which may be a branch: one of the known ones that belongs to it."""
    if wanted and wanted.count(".") >= 1:
        return wanted
    return next((version for version in known if version and wanted and found.fits(version, wanted)), None)


def _move(ctx: Context, name: str, have: str, want: str) -> Steps:
    """The steps that bring one package to a version; a name that has the branch in it changes with it."""
    named = re.sub(r"(?<=-)%s(?=-|$)" % knowledge.branch_of(have), knowledge.branch_of(want), name)
    target = "%s=%s" % (named, _revision(ctx, want))
    if named != name:
        return (step("remove", name), step("install_exact", target))
    return (step("downgrade_exact" if knowledge.numbers(have) > knowledge.numbers(want) else "install_exact", target),)


def _revision(ctx: Context, want: str) -> str:
    """The package version of a driver version as other packages of the driver have it; the version itself where none does."""
    versions = {str(row["version"]) for row in ctx.members("driver").values() if found.driver_version(row.get("version")) == want}
    return versions.pop() if len(versions) == 1 else want


def loaded_differs_from_disk(ctx: Context) -> t.Iterator[Hit]:
    """The loaded module is the one that the running kernel would load again."""
    module, file = found.running(ctx), found.on_disk(ctx, found.running_kernel(ctx))
    if module and file and file["version"] != module and not found.foreign_platform(ctx):
        yield Hit("loaded %s / on disk %s" % (module, file["version"]), "Module %s is loaded, the file%s of the running kernel is %s." % (
            module, " " + str(file["path"]) if file.get("path") else "", file["version"]))


def leftover(ctx: Context) -> t.Optional[str]:
    """The version of a loaded module that no package and no DKMS tree has, while a file of it is still where modules lie."""
    module, kernel = found.running(ctx), found.running_kernel(ctx)
    known = found.package_versions(ctx) | {str(row.get("version")) for row in found.dkms_rows(ctx)}
    if not module or not known or module in known:
        return None
    file = found.on_disk(ctx, kernel)
    other_file = any("diff" in (row.get("flags") or []) and row.get("kernel") in (kernel, None) for row in found.dkms_rows(ctx))
    # A module that was simply not unloaded since an upgrade lies on no disk; the reboot alone mends that.
    return module if other_file or file and file["version"] == module or ctx.state.get("runfile") else None


def loaded_module_not_from_packages(ctx: Context) -> t.Iterator[Hit]:
    """The loaded module comes from what is installed."""
    version = leftover(ctx)
    if not version:
        return
    kernel = found.running_kernel(ctx)
    known = found.package_versions(ctx) | {str(row.get("version")) for row in found.dkms_rows(ctx)}
    steps = [step("manual", "remove .run leftovers (%s) from /lib/modules/%s" % (version, kernel or "the running kernel"))]
    rows = [row for row in found.dkms_rows(ctx, kernel) if row.get("state") in ("installed", "built")]
    for row in rows[:1]:
        steps.append(step("dkms_install", "%s/%s" % (row["module"], row["version"]), kernel=row["kernel"], force=True))
    yield Hit(version, "Module %s is loaded, but no installed package has that version (they have %s): a file of NVIDIA's own installer is left." % (
        version, listed(known)), do=(*steps, step("reboot_once")))


def _pending(ctx: Context) -> t.Optional[str]:
    """The version of the module that is installed and right, while another one is loaded; None else."""
    module, ready = found.running(ctx), found.installed_module(ctx, found.next_kernel(ctx))
    user = found.user_space(ctx)
    if not module or not ready or module == ready or leftover(ctx):
        return None
    if user and not found.agree(ready, user, found.user_is_exact(ctx)):
        return None
    return ready if not found.claimed(ctx) or found.fits(ready, found.claimed(ctx)) else None


def reboot_or_reload_needed(ctx: Context) -> t.Iterator[Hit]:
    """The installed module is the loaded one."""
    ready = _pending(ctx)
    if ready and not found.foreign_platform(ctx):
        yield Hit("%s -> %s" % (found.running(ctx), ready), "Driver %s is installed, but module %s is still loaded." % (ready, found.running(ctx)),
                  do=(step("reboot_once"),))


def driver_branch_differs(ctx: Context) -> t.Iterator[Hit]:
    """What runs, or is installed, belongs to the branch that is asked for."""
    claimed = found.claimed(ctx)
    version = _effective(ctx)
    if claimed and version and knowledge.branch_of(version) != knowledge.branch_of(claimed):
        yield Hit("lock %s, running %s" % (claimed, version), "The stack asks for driver %s, the node has %s." % (claimed, version),
                  do=_elsewhere(ctx, claimed))


def driver_version_differs(ctx: Context) -> t.Iterator[Hit]:
    """The driver that runs is the one that is asked for, where no package tells it."""
    claimed, version = found.claimed(ctx), _effective(ctx)
    told = found.kernel_packages(ctx) or found.user_packages(ctx)
    if claimed and version and not told and knowledge.branch_of(version) == knowledge.branch_of(claimed) and not found.fits(version, claimed):
        yield Hit("lock %s, running %s" % (claimed, version), "The stack asks for driver %s, driver %s runs." % (claimed, version),
                  do=_elsewhere(ctx, claimed))


def _effective(ctx: Context) -> t.Optional[str]:
    """The driver that a node really has; None where the right one is installed, and only another module is loaded."""
    if _pending(ctx) and found.claimed(ctx) or found.fits(found.user_space(ctx), found.claimed(ctx)) or found.foreign_platform(ctx):
        return None
    installed = found.installed_module(ctx, found.next_kernel(ctx))
    rows = {str(row["version"]) for row in found.dkms_rows(ctx) if row.get("state") == "installed"}
    return found.running(ctx) or installed or (max(rows, key=knowledge.numbers) if rows else None)


def _elsewhere(ctx: Context, claimed: str) -> Steps:
    """The steps where no package is known; where packages are, their rules have them."""
    return () if ctx.packages_known or ctx.state.get("runfile") else (step("install_exact", "the driver's packages, each =%s" % claimed), step("reboot_once"))


def will_break_on_reboot(ctx: Context) -> t.Iterator[Hit]:
    """What works now works after the next boot."""
    module, kernel = found.running(ctx), found.next_kernel(ctx)
    user, exact = found.user_space(ctx), found.user_is_exact(ctx)
    if not module or not kernel or found.failure(ctx) or leftover(ctx) or user and not found.agree(module, user, exact):
        return
    file = found.on_disk(ctx, kernel)
    files = (ctx.state.get("modules") or {}).get("files") or []
    if file is None:
        # What DKMS itself calls unfinished is told by its rules.
        if files and ctx.state.get("dkms") is None and not any(row.get("kernel") in (kernel, None) for row in files):
            yield Hit("%s@%s" % (module, kernel), "Driver %s works now, but kernel %s, which the next boot starts, has no module of it." % (module, kernel),
                      do=(step("dkms_build_install", "nvidia/%s" % module, kernel=kernel),))
        return
    version = str(file["version"])
    fits_user = found.agree(version, user, exact) if user else None
    off_claim = not found.fits(version, found.claimed(ctx)) and found.fits(module, found.claimed(ctx)) if found.claimed(ctx) else False
    if version != module and (fits_user is False or fits_user is None and off_claim):
        yield Hit("%s -> %s@%s" % (module, version, kernel), "Driver %s works now; the next boot of kernel %s loads %s from %s, beside a user space of %s." % (
            module, kernel, version, file.get("path") or "the disk", user or found.claimed(ctx)), do=_put_back(ctx, user if exact else module, kernel))


def _put_back(ctx: Context, version: t.Optional[str], kernel: str) -> Steps:
    rows = [row for row in found.dkms_rows(ctx) if row.get("version") == version]
    if rows:
        return (step("dkms_build_install", "%s/%s" % (rows[0]["module"], version), kernel=kernel),)
    moved = [_move(ctx, name, have, version) for name, have in sorted(found.kernel_packages(ctx).items()) if version and have != version]
    return tuple(one for steps in moved for one in steps)


def module_in_use(ctx: Context) -> t.Iterator[Hit]:
    """Modules could be unloaded when somebody tried."""
    for module, users in sorted(((ctx.state.get("modules") or {}).get("in_use") or {}).items()):
        # A peer memory module keeps the RDMA stack from being exchanged.
        if any(name.startswith(("nvidia", "nv_peer_mem")) for name in (module, *users)):
            who = "modules %s" % ", ".join(users) if users else "a process"
            yield Hit("%s (%s)" % (module, ", ".join(users) or "processes"), "Module %s cannot be unloaded: it is in use by %s." % (module, who),
                      do=(step("reboot_once"),))


def gpu_in_use(ctx: Context) -> t.Iterator[Hit]:
    """No process uses a GPU while its driver has to be exchanged."""
    rows = (ctx.state.get("gpu_processes") or []) + (found.smi(ctx).get("processes") or [])
    busy = {int(row["pid"]): str(row["name"]) for row in rows}
    blocked = (ctx.state.get("modules") or {}).get("in_use") or _pending(ctx)
    if busy and blocked:
        names = ", ".join("%s (%d)" % (busy[pid], pid) for pid in sorted(busy)[:8])
        yield Hit(names, "%d processes use the GPUs and keep the driver from being exchanged: %s." % (len(busy), names))


def driver_does_not_answer(ctx: Context) -> t.Iterator[Hit]:
    """nvidia-smi reaches the driver."""
    said = found.smi(ctx).get("failure") or {}
    known = found.foreign_platform(ctx) or said.get("kind") == "no_driver" and _explained(ctx)
    if said.get("kind") in ("no_driver", "no_library", "nvml_error") and not known and not _nothing_to_reach(ctx, said["kind"]):
        yield Hit("nvidia-smi", "nvidia-smi does not reach the driver: %s" % (str(said["text"]).rstrip(".") + "."), context=str(said["kind"]))


def _explained(ctx: Context) -> bool:
    """Whether another finding says why the running kernel has no driver of NVIDIA's."""
    running = (ctx.state.get("kernel") or {}).get("running")
    subjects = [hit.subject for cause in CAUSES for hit in cause(ctx) if hit.context in ("default", "no_key")]
    return any("@" not in subject or running in (None, subject.rpartition("@")[2]) for subject in subjects)


def _nothing_to_reach(ctx: Context, kind: str) -> bool:
    """Whether no driver can answer: a machine without a GPU, which may have the packages, or a container that got no GPU."""
    expected = (ctx.stack.get("expect") or {}).get("gpus")
    without = ctx.state.get("gpus") == [] and not expected and not found.running(ctx) and kind != "no_library"
    return without or ctx.container and ctx.state.get("gpu_devices") is False


RULES = (driver_library_mismatch, loaded_differs_from_disk, loaded_module_not_from_packages, reboot_or_reload_needed, driver_branch_differs,
         driver_version_differs, will_break_on_reboot, module_in_use, gpu_in_use, driver_does_not_answer)
