# Copyright: (c) 2026, lockstep.gpu contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernels: files in /boot and /lib/modules, and header trees in which modules really build.

A header tree is a copy of the one that the node has of its own kernel (Debian's flavour folder, EL's kernel-devel) with
another release written into it, so that what is built there has that release in its vermagic.
"""
from __future__ import annotations

# What tests look for in a kernel of its own, and the folder of each below kernel/.
IN_TREE = {"ib_core": "drivers/infiniband/core", "ib_uverbs": "drivers/infiniband/core", "mlx5_ib": "drivers/infiniband/hw/mlx5",
           "mlx5_core": "drivers/net/ethernet/mellanox/mlx5/core", "nouveau": "drivers/gpu/drm/nouveau"}
# mkinitramfs looks for the formats that the kernel can unpack.
CONFIG = "CONFIG_X86_64=y\nCONFIG_SMP=y\nCONFIG_MODULES=y\nCONFIG_MODULE_UNLOAD=y\nCONFIG_MODVERSIONS=y\nCONFIG_MODULE_SIG=y\n" \
    "CONFIG_BLK_DEV_INITRD=y\nCONFIG_RD_GZIP=y\nCONFIG_RD_ZSTD=y\nCONFIG_RD_XZ=y\n"
TREE = """\
base=
for tree in /usr/src/linux-headers-*-amd64 /usr/src/linux-headers-*-generic /usr/src/kernels/*; do
  if [ -e "$tree/include/generated/utsrelease.h" ] && [ ! -e "$tree/.stub" ]; then base=$tree; fi
done
if [ -n "$base" ]; then
  mkdir -p {folder}
  cp -a "$base/." {folder}/
  touch {folder}/.stub
  for link in "$base"/*; do
    if [ -L "$link" ]; then ln -sfn "$(readlink -f "$link")" "{folder}/${{link##*/}}"; fi
  done
  echo {release} >{folder}/include/config/kernel.release
  echo '#define UTS_RELEASE "{release}"' >{folder}/include/generated/utsrelease.h
  if [ -e {folder}/.kernelvariables ]; then
    sed -i 's/^\\(override KERNELRELEASE\\) *=.*/\\1 = {release}/' {folder}/.kernelvariables
  fi
else
  echo "stub: this node has no kernel headers to make {folder} of" >&2
fi
"""
# EL's kernel-install and the hooks that it calls.
_EL_POSTTRANS = """\
install -m 755 /lib/modules/{release}/vmlinuz /boot/vmlinuz-{release}
install -m 600 /lib/modules/{release}/System.map /boot/System.map-{release}
install -m 644 /lib/modules/{release}/config /boot/config-{release}
depmod -a {release} || :
if [ -x /usr/bin/dracut ]; then dracut -f /boot/initramfs-{release}.img {release} || :; else echo stub >/boot/initramfs-{release}.img; fi
id=$(cat /etc/machine-id 2>/dev/null || :)
mkdir -p /boot/loader/entries
cat >"/boot/loader/entries/${{id:-stub}}-{release}.conf" <<END
title stub Linux ({release})
version {release}
linux /boot/vmlinuz-{release}
initrd /boot/initramfs-{release}.img
options root=/dev/vda1 ro
grub_users \\$grub_users
grub_arg --unrestricted
grub_class stub
END
"""
_EL_DKMS = """\
if [ -x /usr/sbin/dkms ] && [ -d /lib/modules/{release}/build/include ] && [ ! -e /etc/dkms/no-autoinstall ]; then
  dkms autoinstall -k {release} || :
fi
"""
_EL_POSTUN = """\
rm -f /boot/vmlinuz-{release} /boot/System.map-{release} /boot/config-{release} /boot/initramfs-{release}.img \
  /boot/loader/entries/*-{release}.conf
"""
# The hooks get the maintainer script's own words, as those of a real kernel package.
_HOOKS = """\
if [ -d /etc/kernel/{folder} ]; then
  DEB_MAINT_PARAMS="$*" run-parts --report --exit-on-error --arg={release}{image} /etc/kernel/{folder}
fi
"""


def _modules(maker, made, release):
    made.text("/lib/modules/%s/modules.builtin" % release, "kernel/fs/ext4/ext4.ko\nkernel/drivers/block/loop.ko\n")
    made.text("/lib/modules/%s/modules.builtin.modinfo" % release, "")
    made.text("/lib/modules/%s/modules.order" % release, "".join("kernel/%s/%s.ko\n" % (IN_TREE[name], name) for name in sorted(IN_TREE)))
    for name, folder in IN_TREE.items():
        made.data("/lib/modules/%s/kernel/%s/%s.ko" % (release, folder, name), maker.compiled.module(
            name, "", release + " SMP preempt mod_unload modversions ", "Dual BSD/GPL" if name != "nouveau" else "GPL"))


def ubuntu_image(_maker, _row, made, match):
    release = match.group(1)
    made.text("/boot/vmlinuz-" + release, "stub of the kernel %s\n" % release, 0o600)
    image = " --arg=/boot/vmlinuz-" + release
    made.run("postinst", "depmod %s" % release)
    made.run("postinst", _HOOKS.format(folder="postinst.d", release=release, image=image))
    made.run("prerm", _HOOKS.format(folder="prerm.d", release=release, image=image))
    made.run("postrm", _HOOKS.format(folder="postrm.d", release=release, image=image))


def ubuntu_modules(maker, _row, made, match):
    release = match.group(1)
    made.text("/boot/config-" + release, "# Linux/x86 %s Kernel Configuration\n%s" % (release, CONFIG))
    made.text("/boot/System.map-" + release, "ffffffff81000000 T _text\n", 0o600)
    _modules(maker, made, release)
    made.run("postrm", "rm -f /lib/modules/%s/modules.*" % release)


def ubuntu_headers(_maker, _row, made, match):
    release = match.group(1)
    folder = "/usr/src/linux-headers-" + release
    made.link("/lib/modules/%s/build" % release, folder)
    made.run("postinst", TREE.format(folder=folder, release=release))
    made.run("postinst", _HOOKS.format(folder="header_postinst.d", release=release, image=""))
    made.run("postrm", "rm -rf " + folder)


def el_core(_maker, row, made, _match):
    release = row.version + ".x86_64"
    made.text("/lib/modules/%s/vmlinuz" % release, "stub of the kernel %s\n" % release, 0o755)
    made.text("/lib/modules/%s/config" % release, "# Linux/x86_64 %s Kernel Configuration\n%s" % (release, CONFIG))
    made.text("/lib/modules/%s/System.map" % release, "ffffffff81000000 T _text\n", 0o600)
    made.run("posttrans", (_EL_POSTTRANS + _EL_DKMS).format(release=release))
    made.run("postrm", _EL_POSTUN.format(release=release))


def el_modules(maker, row, made, _match):
    release = row.version + ".x86_64"
    _modules(maker, made, release)
    made.run("postrm", "rm -f /lib/modules/%s/modules.*" % release)


def el_devel(_maker, row, made, _match):
    release = row.version + ".x86_64"
    folder = "/usr/src/kernels/" + release
    made.link("/lib/modules/%s/build" % release, folder)
    made.run("postinst", TREE.format(folder=folder, release=release))
    made.run("posttrans", _EL_DKMS.format(release=release))
    made.run("postrm", "rm -rf " + folder)


_RELEASE = r"(\d+\.\d+\.\d+-\d+-[a-z][\w-]*)"
RULES = (
    (".*-archive", "linux-image-" + _RELEASE, ubuntu_image),
    (".*-archive", "linux-modules-" + _RELEASE, ubuntu_modules),
    (".*-archive", "linux-headers-" + _RELEASE, ubuntu_headers),
    ("el9-baseos", "kernel-core", el_core),
    ("el9-baseos", "kernel-modules-core", el_modules),
    ("el9-baseos", "kernel-devel", el_devel),
)
