# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a rule sees, and what it says."""
from __future__ import annotations

import functools
import re
import typing as t

from ansible_collections.lockstep.gpu.plugins.module_utils import closure, versions, versions_rpm
from ansible_collections.lockstep.gpu.plugins.plugin_utils import claim_text, installed_kernels, knowledge, next_boot

Row = t.Dict[str, t.Any]
Answer = t.TypeVar("Answer")


def once_a_node(function: t.Callable[..., Answer]) -> t.Callable[..., Answer]:
    """A function of a Context, and of what can be hashed, that several rules ask: answered once for each node."""
    @functools.wraps(function)
    def answer(ctx: "Context", *arguments: t.Any) -> Answer:
        key = (function, arguments)
        if key not in ctx.answers:
            ctx.answers[key] = function(ctx, *arguments)
        return t.cast(Answer, ctx.answers[key])
    return answer


# What waits for a trigger is unpacked and configured; dpkg runs the trigger in its next call.
INSTALLED = ("installed", "triggers-awaited", "triggers-pending")


class TargetError(ValueError):
    """A description of a target that cannot be read; one sentence that names the key."""


class Hit(t.NamedTuple):
    """What a rule found, and the steps that mend it (actions.step). The engine adds the code, the severity and the remedy."""

    subject: str
    message: str
    source: t.Optional[str] = None
    context: str = "default"
    do: t.Tuple[Row, ...] = ()


class Context:
    """A stack beside what is known of a node. Everything may be missing; what is missing is None or empty."""

    def __init__(self, stack: Row, state: t.Optional[Row] = None, target: t.Optional[Row] = None,
                 plan: t.Optional[Row] = None, facts: t.Optional[knowledge.Facts] = None, purpose: str = "install") -> None:
        """purpose: "install" where a change is at hand and what is unknown must stop it; "audit" to judge what is there."""
        self.answers: t.Dict[t.Any, t.Any] = {}
        self.stack = stack
        self.purpose = purpose
        self.state = state or {}
        self.target = read_target(target or {})
        self.plan = plan or {}
        self.facts = facts or knowledge.load()

    @functools.cached_property
    def node_os(self) -> Row:
        """What is known of the node's own distribution; empty when only the stack is known."""
        own = {key: value for key, value in (self.state.get("os") or {}).items() if value is not None}
        return own if own.get("id") else dict(self.target.get("os") or {}, **own)

    @functools.cached_property
    def os(self) -> Row:
        """The distribution that facts are looked up for: the stack's, else the node's (os_differs tells where they differ)."""
        own = self.stack.get("os") or {}
        return own if own.get("id") else dict(self.node_os, **own)

    @functools.cached_property
    def driver(self) -> Row:
        """The stack's driver, with `flavour` resolved and the usual way to its module; empty when the stack has none."""
        driver = self.stack.get("driver") or {}
        if not driver:
            return {}
        return dict(driver, flavour=knowledge.flavour(self.facts, driver, self.gpu_names), module=driver.get("module", "dkms"))

    @functools.cached_property
    def gpu_names(self) -> t.List[str]:
        """PCI ids (or products) of the NVIDIA GPUs that the node can use, each once, in order."""
        named = ([gpu.get("id") or self._known(gpu.get("product")) for gpu in knowledge.usable_gpus(self.state)] or self.target.get("gpus")
                 or (self.stack.get("expect") or {}).get("products") or [])
        nvidia = [str(name) for name in named if name and (":" not in str(name) or str(name).lower().startswith("10de:"))]
        return list(dict.fromkeys(nvidia))

    def _known(self, product: t.Optional[str]) -> t.Optional[str]:
        """A product as lspci names it, where it fits a board."""
        return product if product and knowledge.gpu(self.facts, product) else None

    @functools.cached_property
    def gpus(self) -> t.List[t.Tuple[str, Row]]:
        """(name, row) of the GPUs that are known."""
        found = [(name, knowledge.gpu(self.facts, name)) for name in self.gpu_names]
        return [(name, row) for name, row in found if row]

    @functools.cached_property
    def nics(self) -> t.List[str]:
        """PCI ids or products of the network adapters, as the target or the stack names them."""
        named = self.target.get("nics") or (self.stack.get("expect") or {}).get("nics") or []
        return list(dict.fromkeys(str(name) for name in named if name))

    @property
    def secure_boot(self) -> t.Optional[bool]:
        """Whether secure boot is on: as the node tells, else as the target or the stack says; None where nobody does."""
        for known in (self.state.get("secure_boot"), self.target.get("secure_boot"), (self.stack.get("expect") or {}).get("secure_boot")):
            if isinstance(known, bool):
                return known
        return None

    @property
    def data_centre(self) -> bool:
        """Whether the GPUs are all known to be data-centre boards; forward compatibility is there for those only."""
        return bool(self.gpus) and len(self.gpus) == len(self.gpu_names) and all(row.get("data_centre") for name, row in self.gpus)

    @functools.cached_property
    def kernel(self) -> t.Optional[str]:
        """The release of the kernel that has to work: the stack's, else the target's, else the running one."""
        claimed = self.claimed_kernel.get("release")
        return ((installed_kernels.resolve(claimed, self.state) if claimed else None) or self.target.get("kernel") or self._hwe_series
                or ((self.state.get("kernel") or {}).get("running") if not self.container else None))

    @functools.cached_property
    def claimed_kernel(self) -> Row:
        """What the stack says of its kernel, else what the target does: release, and in a claim compiler, headers, kaslr, hwe."""
        return self.stack.get("kernel") or self.target.get("claimed_kernel") or {}

    @property
    def _hwe_series(self) -> t.Optional[str]:
        """The newest hardware-enablement series of the distribution, where that is what the kernel is called."""
        return (knowledge.distribution(self.facts, self.os) or {}).get("hwe_kernel") if self.claimed_kernel.get("hwe") else None

    @functools.cached_property
    def installed_kernel(self) -> t.Optional[Row]:
        """The state's row of that kernel, when it is installed."""
        return next((row for row in self.kernels if row.get("release") == self.kernel and row.get("image")), None)

    @functools.cached_property
    def kernels(self) -> t.List[Row]:
        """The installed kernels, from their files or, where nobody recorded those, from their packages."""
        return installed_kernels.listed(self.state)

    @functools.cached_property
    def next_kernel(self) -> t.Optional[str]:
        """The release that the next boot takes, as the boot loader says or as GRUB would choose; None when nothing tells."""
        return next_boot.next_kernel(self.state)

    @property
    def container(self) -> bool:
        """Whether the node is a container, which has no kernel of its own."""
        return bool(self.state.get("container"))

    @functools.cached_property
    def package_set(self) -> Row:
        """The package set of the driver; empty when none fits."""
        return self.set_of("driver") or {}

    def set_of(self, product: str) -> t.Optional[Row]:
        """The package set of a product of the stack; None where none fits."""
        flavour = self.driver.get("flavour") if product == "driver" else None
        return knowledge.package_set(self.facts, product, dict(self.stack, os=self.os), flavour)

    @functools.cached_property
    def packages(self) -> t.Dict[str, Row]:
        """The installed packages of the state."""
        return {name: row for name, row in (self.state.get("packages") or {}).items()
                if row.get("status") not in (None, "config-files", "not-installed")}

    @property
    def packages_known(self) -> bool:
        """Whether it could be read what is installed; else nothing may be called missing."""
        return self.state.get("packages") is not None

    @functools.cached_property
    def product_sources(self) -> t.List[str]:
        """The regular expressions of the source packages of the stack's products."""
        products = self.facts["packages"]["products"]
        return [pattern for name, product in products.items() if self.stack.get(name) for pattern in product["sources"]]

    def packages_from(self, patterns: t.Iterable[str]) -> t.Dict[str, Row]:
        """The installed packages whose source package fits one of the regular expressions."""
        patterns = list(patterns)
        return {name: row for name, row in self.packages.items() if closure.matches_any(patterns, row.get("source") or name)}

    @once_a_node
    def family(self, name: str) -> Row:
        """{product, one_version} of a package: by its source where the package list has it and packages.yml knows it, else by its name; or empty."""
        plain = name.partition(":")[0]
        row = self.packages.get(name) or self.packages.get(plain) or {}
        found = knowledge.member(self.facts, plain, row)
        # An exact stack's packages are known by their source: libraries of another driver may lie beside (inactive_userland).
        moved = self._moved(found["product"]) if found.get("one_version") and row.get("source") else None
        return dict(found, one_version=False) if moved and row["source"] not in moved else found

    @once_a_node
    def _moved(self, product: str) -> t.List[str]:
        """The source packages whose packages have the version of a product of the stack; empty where no set of packages is known."""
        return (self.set_of(product) or {}).get("one_version") or [] if self.stack.get(product) else []

    @once_a_node
    def members(self, product: str, one_version: bool = False) -> t.Dict[str, Row]:
        """The installed packages of a product by their names (families.yml); one_version: only those that share its version."""
        found = {}
        for name, row in self.packages.items():
            family = self.family(name)
            if family and family["product"] == product and (family["one_version"] or not one_version):
                found[name] = row
        return found

    def planned(self, key: str) -> t.List[t.Tuple[str, t.Any]]:
        """(component, entry) of every entry that the plan's components list under a key."""
        return [(name, entry) for name, component in (self.plan.get("components") or {}).items()
                for entry in component.get(key) or []]

    def revision_of(self, package: str) -> t.Optional[str]:
        """The version that a package will have (by the plan) or has; None when neither is known."""
        for _component, row in self.planned("changes"):
            if row.get("name") == package:
                return row.get("version")
        return (self.packages.get(package) or {}).get("version")

    @property
    def loaded_module(self) -> Row:
        """The loaded driver module {version, flavour}; empty without one, and in a container, which sees its host's."""
        return {} if self.container else (self.state.get("modules") or {}).get("loaded") or {}

    @functools.cached_property
    def module_version(self) -> t.Optional[str]:
        """The version of the driver's kernel module: as loaded, else as on disk for the target kernel."""
        modules = self.state.get("modules") or {}
        if self.loaded_module:
            return self.loaded_module.get("version")
        wanted = (self.package_set.get("dkms") or {}).get("module")
        for row in modules.get("files") or []:
            if row.get("kernel") == self.kernel and row.get("name") in (wanted, "nvidia"):
                return row.get("version")
        return None


def read_target(target: t.Mapping[str, t.Any]) -> Row:
    """A target in its long form: os a mapping of texts (also from "debian-13"), gpus a list, kernel a text.

    nics is a list of PCI ids or products, too, secure_boot true or false (None where nothing is said). Raises TargetError for
    anything else.
    """
    strange = sorted(str(key)[:80] for key in set(target) - {"os", "gpus", "kernel", "nics", "secure_boot"})
    if strange:
        raise TargetError("target.%s: is not a key of a target; known: os, gpus, kernel, nics, secure_boot" % strange[0])
    system = target.get("os")
    if isinstance(system, str):
        words, system = system.strip(), claim_text.system(system)
        # Prose about several distributions names none.
        if not system and re.fullmatch(r"[\w.-]*", words):
            raise TargetError("target.os: expected a mapping or text like debian-13")
    if not isinstance(system, (t.Mapping, type(None))):
        raise TargetError("target.os: expected a mapping or text like debian-13")
    gpus = target.get("gpus")
    if not isinstance(gpus, (str, list, tuple, type(None))):
        raise TargetError("target.gpus: expected a list of PCI ids or products")
    kernel = target.get("kernel")
    if not isinstance(kernel, (str, type(None))):
        raise TargetError("target.kernel: expected the release of a kernel as text")
    nics = target.get("nics")
    if not isinstance(nics, (str, list, tuple, type(None))):
        raise TargetError("target.nics: expected a list of PCI ids or products")
    secure_boot = target.get("secure_boot")
    if not isinstance(secure_boot, (bool, type(None))):
        raise TargetError("target.secure_boot: expected true or false")
    names = [gpus] if isinstance(gpus, str) else gpus or []
    said = claim_text.kernel(kernel) if kernel else {}
    os = {str(key): _plain("target.os.%s" % key, value) for key, value in (system or {}).items() if value is not None}
    return {"os": claim_text.system_fields(os), "kernel": said.get("release"), "claimed_kernel": said,
            "gpus": [product for name in names if name is not None for product in claim_text.gpus(_plain("target.gpus", name))],
            "nics": [adapter for name in ([nics] if isinstance(nics, str) else nics or []) if name is not None
                     for adapter in claim_text.gpus(_plain("target.nics", name))],
            "secure_boot": secure_boot}


def _plain(key: str, value: t.Any) -> str:
    """A short value as text: 13 and 22.04 may stand without quotes."""
    if isinstance(value, float) or isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10 ** 9:
        return repr(value)
    if not isinstance(value, str):
        raise TargetError("%s: expected text" % key[:80])
    return value.strip()


# The packages of a fleet have few versions between them.
@functools.lru_cache(maxsize=1 << 14)
def upstream(version: t.Optional[str]) -> t.Optional[str]:
    """A package version without epoch and revision or release; None when it is no version."""
    # RPM's releases may have characters that Debian's revisions cannot: 3:535.183.06-3.el8_10.
    for kind in (versions, versions_rpm):
        try:
            return kind.upstream(version or "")
        except ValueError:
            continue
    return None


def weight(row: t.Mapping[str, t.Any], context: str = "default") -> str:
    """The context that a fact's certainty allows: what is only reported may warn."""
    return "reported" if row.get("certainty") == "reported" else context


def listed(names: t.Iterable[str]) -> str:
    """Names as one text, sorted."""
    return ", ".join(sorted(names))
