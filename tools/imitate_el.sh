#!/bin/sh
# Runs inside a container, see tools/image.sh: sh -s imitation|true PLATFORM. Makes the node of an EL platform whose only
# repositories are the stub ones below /srv/repos (tools/ground.sh puts them there).
# imitation: of Debian 12 with both package managers: apt and dpkg are taken away, and rpm's database knows the base system by
# name only. true: of the distribution's own image.
set -eu
export LC_ALL=C
kind=$1 release=${2#el}

write() { mkdir -p "$(dirname "$1")" && cat >"$1"; }

# rocky VERSION NAME: what Rocky Linux says of itself.
rocky() {
  write /usr/lib/os-release <<END
NAME="Rocky Linux"
VERSION="$1 ($2)"
ID="rocky"
ID_LIKE="rhel centos fedora"
VERSION_ID="$1"
PLATFORM_ID="platform:el$release"
PRETTY_NAME="Rocky Linux $1 ($2)"
ANSI_COLOR="0;32"
LOGO="fedora-logo-icon"
CPE_NAME="cpe:/o:rocky:rocky:$release::baseos"
ROCKY_SUPPORT_PRODUCT="Rocky-Linux-$release"
ROCKY_SUPPORT_PRODUCT_VERSION="$1"
END
  echo "Rocky Linux release $1 ($2)" >/etc/rocky-release
  ln -sf rocky-release /etc/redhat-release
  ln -sf rocky-release /etc/system-release
  rm -f /etc/debian_version
}

# Where EL keeps rpm's database; what Debian's rpm has as its default is the user's home.
empty_database() {
  case $release in 9) database=/var/lib/rpm ;; *) database=/usr/lib/sysimage/rpm ;; esac
  write /etc/rpm/macros.lockstep <<END
%_dbpath $database
%dist .el$release
%rhel $release
END
  mkdir -p "$database" && rpm --initdb
}

# What is in this userland is no rpm package: those that make a system, by rpm's rules and by ours, are entered by name.
base_packages() {
  work=$(mktemp -d)
  {
    printf 'Name: base\nVersion: 1\nRelease: 1\nSummary: imitation\nLicense: MIT\nBuildArch: x86_64\n%%description\n-\n'
    while read -r name version revision provides; do
      printf '%%package -n %s\nSummary: imitation\nVersion: %s\nRelease: %s.el%s\n' "$name" "$version" "$revision" "$release"
      for word in $provides; do printf 'Provides: %s\n' "$word" | tr '~' ' '; done
      printf '%%description -n %s\n-\n%%files -n %s\n' "$name" "$name"
    done
  } >"$work/base.spec" <<END
rocky-release $1 1 system-release~=~$1 system-release(releasever)~=~$release redhat-release~=~$1
setup 2.13.7 10
filesystem 3.16 5
glibc 2.34 168 /sbin/ldconfig /usr/sbin/ldconfig
bash 5.1.8 9 /bin/sh /usr/bin/sh /bin/bash
coreutils 8.32 39
systemd 252 51
systemd-udev 252 51
kmod 28 10 /usr/sbin/depmod /sbin/depmod
dracut 057 87
rpm 4.16.1.3 37
dnf 4.14.0 25
python3 3.9.21 2
openssl 3.2.2 6
END
  rpmbuild --quiet --define "_topdir $work" -bb "$work/base.spec"
  rpm -i --justdb --nodeps --noscripts --notriggers "$work"/RPMS/*/*.rpm
  rm -rf "$work"
}

# EL's alternatives are a tool of their own; Debian's knows the same options, with other folders.
alternatives() {
  mv /usr/bin/update-alternatives /usr/lib/lockstep-alternatives
  mkdir -p /var/lib/alternatives
  write /usr/sbin/alternatives <<'END'
#!/bin/sh
exec /usr/lib/lockstep-alternatives --altdir /etc/alternatives --admindir /var/lib/alternatives "$@"
END
  chmod 0755 /usr/sbin/alternatives
  ln -s alternatives /usr/sbin/update-alternatives
}

no_dpkg() {
  rm -rf /var/lib/dpkg /var/lib/apt /var/cache/apt /etc/apt /usr/lib/apt /usr/lib/dpkg /usr/share/dpkg /etc/dpkg \
    /usr/bin/apt /usr/bin/apt-* /usr/bin/dpkg* /usr/sbin/dpkg* /lib/systemd/system/apt-daily* /lib/systemd/system/dpkg-db-backup* \
    /etc/systemd/system/timers.target.wants/apt-daily* /etc/systemd/system/timers.target.wants/dpkg-db-backup* /var/log/dpkg.log /var/log/apt
}

imitate() {
  case $release in
    9) point=9.6 name='Blue Onyx' ;;
    10) point=10.1 name='Red Quartz' ;;
  esac
  rocky "$point" "$name"
  # The header tree stays for the stub kernels, which copy it.
  rm -rf /lib/modules && mkdir /lib/modules
  empty_database
  base_packages "$point"
  alternatives
  no_dpkg
  # EL's folder of libraries, which Debian's loader does not look into.
  echo /usr/lib64 >/etc/ld.so.conf.d/lib64.conf
  # As EL ships them.
  printf '[main]\nenabled=false\n' | write /etc/dnf/plugins/local.conf
  write /etc/dnf/dnf.conf <<END
[main]
gpgcheck=1
installonly_limit=3
clean_requirements_on_remove=True
best=True
skip_if_unavailable=False
END
  write /etc/machine-info <<END
PRETTY_HOSTNAME="An imitation of el$release for tests: Debian 12 underneath"
END
  cp /etc/machine-info /etc/motd
}

install_ground() {
  dnf install -y systemd python3 dbus sudo ca-certificates gcc make glibc-devel kernel-devel kmod openssl dnf-plugins-core \
    'dnf-command(versionlock)' dracut
  dnf install -y epel-release && dnf install -y dkms
}

repository() {
  printf '[%s]\nname=%s (stub)\nbaseurl=file:///srv/repos/%s\nenabled=1\ngpgcheck=1\ngpgkey=file:///srv/repos/key.asc\n' "$1" "$1" "$2"
}

if [ "$kind" = imitation ]; then imitate; else install_ground; fi
rm -rf /etc/yum.repos.d /var/cache/dnf /var/lib/dnf/repos
repository baseos "el$release-baseos" | write "/etc/yum.repos.d/rocky.repo"
repository externals externals-rpm | write /etc/yum.repos.d/externals.repo
: >/etc/machine-id
