#!/bin/sh
# Runs inside a container, see tools/machine.sh: sh build.sh SOURCES KERNEL. Makes a simulated machine of a node's image: GRUB's
# real tools, a kernel of the stub repositories as its installer leaves it, and what pretends to be hardware.
# SOURCES: apt's sources of the Debian that is underneath, for GRUB; they are gone afterwards.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
sources=$1 kernel=$2 here=/usr/local/lib/simulated-machine

write() { mkdir -p "$(dirname "$1")" && cat >"$1"; }

mkdir /tmp/sources && mv /etc/apt/sources.list.d/* /tmp/sources/
echo "$sources" >/etc/apt/sources.list.d/debian.sources
apt-get -q update
(cd /tmp && apt-get -q download grub-common grub2-common)
rm -rf /etc/apt/sources.list.d/* /var/lib/apt/lists/*
mv /tmp/sources/* /etc/apt/sources.list.d/ && rmdir /tmp/sources
# Their libraries are for other platforms' firmware, and the stub repositories have no such packages.
dpkg -i --force-depends /tmp/grub*.deb >/dev/null 2>&1 || dpkg --configure -a --force-depends
sed -i '/^Package: grub\(2\)\?-common$/,/^$/{/^\(Depends\|Recommends\|Suggests\):/d}' /var/lib/dpkg/status
rm /tmp/grub*.deb

# There is no disk: grub-probe says what a plain one is.
dpkg-divert --quiet --rename --divert /usr/sbin/grub-probe.real /usr/sbin/grub-probe
install -m 755 "$here/grub-probe" /usr/sbin/grub-probe
chmod -x /etc/grub.d/30_os-prober /etc/grub.d/30_uefi-firmware /etc/grub.d/20_linux_xen 2>/dev/null || true
write /etc/default/grub <<'GRUB'
GRUB_DEFAULT=0
GRUB_TIMEOUT_STYLE=hidden
GRUB_TIMEOUT=0
GRUB_DISTRIBUTOR=Ubuntu
GRUB_CMDLINE_LINUX_DEFAULT="quiet"
GRUB_CMDLINE_LINUX=""
GRUB
# As grub-pc has them.
for hook in postinst.d postrm.d; do
  write "/etc/kernel/$hook/zz-update-grub" <<'HOOK'
#!/bin/sh
set -e
exec update-grub
HOOK
  chmod 755 "/etc/kernel/$hook/zz-update-grub"
done
mkdir -p /boot/grub && grub-editenv /boot/grub/grubenv create

# What restarts a machine.
for name in shutdown reboot poweroff halt; do
  rm -f "/sbin/$name"
  install -m 755 "$here/shutdown" "/sbin/$name"
done

# Of systemd, which does not run here, only what a unit of the node's own calls to restart it.
dpkg-divert --quiet --rename --divert /usr/bin/systemctl.real /usr/bin/systemctl
write /usr/bin/systemctl <<'SYSTEMCTL'
#!/bin/sh
case " $* " in
  *" reboot "*) exec /sbin/reboot ;;
  *) exec /usr/bin/systemctl.real "$@" ;;
esac
SYSTEMCTL
chmod 755 /usr/bin/systemctl

gcc -O2 -Wall -Wextra -Werror -shared -fPIC -o "$here/machine.so" "$here/machine.c" -ldl

apt-get -q update
apt-get install -y -q --no-install-recommends "linux-image-$kernel" initramfs-tools
write /etc/machine-info <<'END_OF_INFO'
PRETTY_HOSTNAME="A simulated machine for tests: a container of an imitation of Ubuntu 24.04, Debian 12 underneath"
END_OF_INFO
cp /etc/machine-info /etc/motd
rm -rf /var/lib/apt/lists/*
# The last thing: from now on programs see the machine's kernel.
echo "$here/machine.so" >/etc/ld.so.preload
