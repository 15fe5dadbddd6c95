# shellcheck shell=sh
# Runs in the container that becomes a machine's disk (tools/vm_image.py): sh -s STAGE [PACKAGE=VERSION...]
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
stage=$1
shift
install() { apt-get install -y -q --no-install-recommends "$@"; }

case $stage in
  # What a machine has before it gets a driver; the packages named are the kernel's metapackages, as an installer leaves them.
  ground)
    apt-get -q update
    install openssh-server sudo iproute2 iputils-ping kmod initramfs-tools zstd ca-certificates btrfs-progs "$@" ;;
  # After the driver: what boots it. GRUB's own tools run in the machine itself, since there is no disk here.
  loader)
    echo 'grub-pc grub-pc/install_devices_empty boolean true' | debconf-set-selections
    install grub-pc
    cat >/etc/default/grub.d/serial.cfg <<'END'
GRUB_TIMEOUT=1
GRUB_CMDLINE_LINUX_DEFAULT=""
GRUB_CMDLINE_LINUX="console=ttyS0 net.ifnames=0"
GRUB_TERMINAL=serial
GRUB_DISABLE_OS_PROBER=true
END
    cat >/etc/systemd/network/10-vm.network <<'END'
[Match]
Type=ether
[Network]
Address=10.0.2.15/24
Gateway=10.0.2.2
DNS=10.0.2.3
IPv6AcceptRA=no
END
    systemctl enable -q systemd-networkd ssh
    systemctl disable -q apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer fstrim.timer
    systemctl mask -q e2scrub_reap.service systemd-networkd-wait-online.service
    rm -f /etc/apt/apt.conf.d/90lockstep-test-cache /etc/apt/apt.conf.d/docker-clean
    # The same on every machine that is made of this disk; an empty one would set back all units at the first boot.
    tr -d - </proc/sys/kernel/random/uuid >/etc/machine-id
    rm -rf /var/log/journal /var/cache/man /tmp/* /root/.ansible ;;
esac
