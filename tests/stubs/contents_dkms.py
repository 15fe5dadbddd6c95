# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel modules: sources that DKMS builds with the kernel's own kbuild, and modules that are built already."""
from __future__ import annotations

import re

from . import contents_driver

NVIDIA = ("nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-drm", "nvidia-peermem")
OFED = ("mlx_compat", "ib_core", "ib_uverbs", "mlx5_core", "mlx5_ib")
OPEN, PROPRIETARY = "Dual MIT/GPL", "NVIDIA"
MAKEFILE = """\
KERNEL_SOURCES ?= $(or $(SYSSRC),/lib/modules/$(or $(KERNEL_UNAME),$(shell uname -r))/build)
modules clean:
\t$(MAKE) -C $(KERNEL_SOURCES) M=$(CURDIR) $@
"""
# dh_dkms's and rpm's own scripts do the same.
_POSTINST = {"deb": """\
for tool in /usr/lib/dkms/common.postinst; do
  if [ -f $tool ]; then $tool {name} {version} /usr/share/{package} "" "$2"; else dkms add -m {name} -v {version}; fi
done
""", "rpm": """\
dkms add -m {name} -v {version} -q || :
if [ ! -e /etc/dkms/no-autoinstall ]; then
  dkms build -m {name} -v {version} -q || :
  dkms install -m {name} -v {version} -q --force || :
fi
"""}
_PRERM = {"deb": 'if [ "$(dkms status -m {name} -v {version})" ]; then dkms remove -m {name} -v {version} --all >/dev/null; fi',
          "rpm": "dkms remove -m {name} -v {version} -q --all || :"}


def newer(version, than):
    """Whether a driver's version is at least another."""
    return [int(number) for number in version.split(".")] >= [int(number) for number in than.split(".")]


def sources(made, folder, modules, version, module_license):
    """A folder with a Kbuild and one C file per module; each says its version and licence, and does nothing."""
    made.text(folder + "/Makefile", MAKEFILE)
    made.text(folder + "/Kbuild", "obj-m := %s\n" % " ".join(name + ".o" for name in modules))
    for name in modules:
        made.text("%s/%s.c" % (folder, name), "#include <linux/module.h>\n"
                  'MODULE_LICENSE("%s");\nMODULE_VERSION("%s");\nMODULE_DESCRIPTION("stub of %s");\n' % (module_license, version, name))


def conf(made, folder, name, version, modules, location, names=None):
    """dkms.conf. names: what the modules are called when they are installed, where that differs."""
    lines = ['PACKAGE_NAME="%s"' % name, 'PACKAGE_VERSION="%s"' % version, 'AUTOINSTALL="yes"', 'CLEAN="make clean KERNEL_UNAME=${kernelver}"',
             'MAKE[0]="make modules KERNEL_UNAME=${kernelver} SYSSRC=${kernel_source_dir}"']
    for index, module in enumerate(modules):
        lines += ['BUILT_MODULE_NAME[%d]="%s"' % (index, module), 'DEST_MODULE_LOCATION[%d]="%s"' % (index, location)]
        lines += ['DEST_MODULE_NAME[%d]="%s"' % (index, names[index])] if names else []
    made.text(folder + "/dkms.conf", "\n".join(lines) + "\n")


def scripts(maker, row, made, name, version):
    """What registers the sources with DKMS, builds them unless /etc/dkms/no-autoinstall forbids it, and takes them out."""
    words = {"name": name, "version": version, "package": row.name}
    made.run("postinst", _POSTINST[maker.kind].format(**words))
    made.run("prerm", _PRERM[maker.kind].format(**words))


def _license(row):
    return OPEN if "-open" in row.name else PROPRIETARY


def _ubuntu_name(row):
    return "nvidia-srv" if "-server" in row.name else "nvidia"


def ubuntu_source(_maker, row, made, _match):
    sources(made, "/usr/src/%s-%s" % (_ubuntu_name(row), row.upstream), NVIDIA, row.upstream, _license(row))


def ubuntu_dkms(maker, row, made, _match):
    name = _ubuntu_name(row)
    conf(made, "/usr/src/%s-%s" % (name, row.upstream), name, row.upstream, NVIDIA, "/kernel/drivers/char/drm")
    scripts(maker, row, made, name, row.upstream)


def debian_dkms(maker, row, made, _match):
    """Up to 580 the modules bear Debian's names (nvidia-current.ko), and a modprobe.d file leads to them."""
    name, names = "nvidia", None
    if contents_driver.by_alternative(maker, row):
        name = "nvidia-current-open" if "-open" in row.name else "nvidia-current"
        names = [module.replace("nvidia", name, 1) for module in NVIDIA]
        made.text("/etc/nvidia/current/nvidia-modprobe.conf", "".join(
            "install %s modprobe -i %s $CMDLINE_OPTS\n" % (module, own) for module, own in zip(NVIDIA, names)))
        made.run("postinst", "if [ -x {0} ]; then {0}; fi".format(contents_driver.ALTERNATIVE))
    folder = "/usr/src/%s-%s" % (name, row.upstream)
    sources(made, folder, NVIDIA, row.upstream, _license(row))
    conf(made, folder, name, row.upstream, NVIDIA, "/updates/dkms", names)
    scripts(maker, row, made, name, row.upstream)


def el_dkms(maker, row, made, match):
    """The open one was called nvidia-open until 570.148.08 (github.com/awslabs/amazon-eks-ami/pull/2284)."""
    name = "nvidia-open" if match.group(1) == "open" and not newer(row.upstream, "570.148.08") else "nvidia"
    folder = "/usr/src/%s-%s" % (name, row.upstream)
    sources(made, folder, NVIDIA, row.upstream, _license(row))
    conf(made, folder, name, row.upstream, NVIDIA, "/extra")
    scripts(maker, row, made, name, row.upstream)


def ofed_dkms(maker, row, made, _match):
    """24.10.OFED.24.10.1.1.4.1-1: DKMS has the whole of it, the modules say 24.10-1.1.4."""
    version = row.upstream
    release, numbers = version.split(".OFED.", 1)
    own = "%s-%s" % (release, ".".join(numbers.split(".")[2:5]))
    folder = "/usr/src/mlnx-ofed-kernel-" + version
    sources(made, folder, OFED, own, "Dual BSD/GPL")
    conf(made, folder, "mlnx-ofed-kernel", version, OFED, "/updates/dkms")
    scripts(maker, row, made, "mlnx-ofed-kernel", version)


def gdrdrv(maker, row, made, _match):
    folder = "/usr/src/gdrdrv-" + row.upstream
    sources(made, folder, ["gdrdrv"], row.upstream, "Dual MIT/GPL")
    conf(made, folder, "gdrdrv", row.upstream, ["gdrdrv"], "/updates/dkms")
    scripts(maker, row, made, "gdrdrv", row.upstream)


def _prebuilt(maker, made, kernel, folder, version, module_license):
    for module in NVIDIA:
        made.data("/lib/modules/%s/%s/%s.ko" % (kernel, folder, module), maker.compiled.module(
            module.replace("-", "_"), version, kernel + " SMP preempt mod_unload modversions ", module_license))
    for script in ("postinst", "postrm"):
        made.run(script, "if [ -e /lib/modules/%s/modules.order ]; then depmod -a %s; fi" % (kernel, kernel))


def ubuntu_prebuilt(maker, row, made, match):
    """linux-modules-nvidia-580-open-6.8.0-138-generic; the driver's version is in what it provides."""
    version = next(re.search(r"= ([\d.]+)-", text).group(1) for text in row.relations["provides"] if "nvidia-dkms" in text)
    _prebuilt(maker, made, match.group("kernel"), "kernel/nvidia-" + match.group("branch"), version, _license(row))


def el_prebuilt(maker, row, made, _match):
    """kmod-nvidia-580.126.20-5.14.0-570.18.1; the kernel's release is in what it requires."""
    kernel = next(re.search(r"kernel = (\S+) if", text).group(1) for text in row.relations["depends"] if "if kernel" in text) + ".x86_64"
    _prebuilt(maker, made, kernel, "extra/drivers/video/nvidia", row.upstream, _license(row))


RULES = (
    ("ubuntu.*", r"nvidia-kernel-source(-\d+(-server)?)?(-open)?", ubuntu_source),
    ("ubuntu.*", r"nvidia-dkms(-\d+(-server)?)?(-open)?", ubuntu_dkms),
    ("debian12-cuda", r"nvidia-kernel-(open-)?dkms", debian_dkms),
    ("rhel9-cuda", r"kmod-nvidia-(open|latest)-dkms", el_dkms),
    (".*", "mlnx-ofed-kernel-dkms", ofed_dkms),
    (".*-cuda", "gdrdrv-dkms", gdrdrv),
    (".*-archive", r"linux-modules-nvidia-(?P<branch>\d+(-server)?(-open)?)-(?P<kernel>\d+\.\d+\.\d+-.+)", ubuntu_prebuilt),
    ("rhel9-cuda", r"kmod-nvidia-(open-)?\d.*", el_prebuilt),
)
