#!/bin/sh
# Runs inside a container, see tools/image.sh: sh -s imitation|true PLATFORM. Makes the node of an EL platform whose only
# repositories are the stub ones below /srv/repos (tools/ground.sh puts them there).
# imitation: of Debian 12 with both package managers: apt and dpkg are taken away, rpm's database begins empty
# (tools/ground.sh enters the base packages). true: of the distribution's own image.
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
    9) rocky 9.6 'Blue Onyx' ;;
    10) rocky 10.1 'Red Quartz' ;;
  esac
  # The header tree stays for the stub kernels, which copy it.
  rm -rf /lib/modules && mkdir /lib/modules
  empty_database
  alternatives
  no_dpkg
  # As EL ships it.
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
  printf '[%s]\nname=%s (stub)\nbaseurl=file:///srv/repos/%s\nenabled=1\ngpgcheck=1\nrepo_gpgcheck=1\ngpgkey=file:///srv/repos/key.asc\n' "$1" "$1" "$2"
}

if [ "$kind" = imitation ]; then imitate; else install_ground; fi
rm -rf /etc/yum.repos.d /var/cache/dnf /var/lib/dnf/repos
repository baseos "el$release-baseos" | write "/etc/yum.repos.d/rocky.repo"
repository externals externals-rpm | write /etc/yum.repos.d/externals.repo
: >/etc/machine-id
