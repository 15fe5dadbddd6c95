#!/bin/sh
# Runs inside a container, see tools/image.sh: sh -s imitation|true PLATFORM. Makes the node of a platform with apt. Ubuntu's
# only repositories are the stub ones below /srv/repos (tools/ground.sh puts them there); Debian keeps its own archive.
# imitation: of Debian 12 with both package managers. true: of the distribution's own image.
set -eu
export DEBIAN_FRONTEND=noninteractive LC_ALL=C
kind=$1 platform=$2

write() { mkdir -p "$(dirname "$1")" && cat >"$1"; }

# ubuntu RELEASE POINT CODENAME NAME DEBIAN: what Ubuntu says of itself.
ubuntu() {
  write /usr/lib/os-release <<END
PRETTY_NAME="Ubuntu $2 LTS"
NAME="Ubuntu"
VERSION_ID="$1"
VERSION="$2 LTS ($4)"
VERSION_CODENAME=$3
ID=ubuntu
ID_LIKE=debian
UBUNTU_CODENAME=$3
END
  write /etc/lsb-release <<END
DISTRIB_ID=Ubuntu
DISTRIB_RELEASE=$1
DISTRIB_CODENAME=$3
DISTRIB_DESCRIPTION="Ubuntu $2 LTS"
END
  echo "$5" >/etc/debian_version
}

# The kernel's header tree stays for the stub kernels, which copy it; that it was a package of Debian's is forgotten.
forget_headers() {
  packages=$(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' 'linux-headers-*' 'linux-kbuild-*' 'linux-compiler-*' | sed -n 's/^ii *//p')
  cd /
  tar -cf /tmp/headers.tar usr/src usr/lib/linux-kbuild-*
  # shellcheck disable=SC2086  # a list of words
  dpkg --purge --force-depends $packages
  rm -rf /lib/modules && mkdir /lib/modules
  tar -xf /tmp/headers.tar && rm /tmp/headers.tar
}

imitate() {
  apt-get purge -y -q --auto-remove dnf python3-dnf dnf-plugins-core rpm
  case $platform in
    debian*) return ;;
    ubuntu2204) ubuntu 22.04 22.04.5 jammy 'Jammy Jellyfish' bookworm/sid ;;
    ubuntu2404) ubuntu 24.04 24.04.3 noble 'Noble Numbat' trixie/sid ;;
  esac
  forget_headers
  write /etc/machine-info <<END
PRETTY_HOSTNAME="An imitation of $platform for tests: Debian 12 underneath"
END
  cp /etc/machine-info /etc/motd
}

install_ground() {
  apt-get -q update
  case $platform in debian*) headers=linux-headers-amd64 ;; *) headers=linux-headers-generic ;; esac
  apt-get install -y -q --no-install-recommends systemd systemd-sysv python3 dbus sudo ca-certificates gcc make libc6-dev dkms \
    initramfs-tools kmod openssl gpg "$headers"
}

# Ubuntu 24.04 keeps its sources in deb822, 22.04 in one-line form.
sources() {
  rm -rf /etc/apt/sources.list /etc/apt/sources.list.d/* /var/lib/apt/lists/* /var/cache/apt/*.bin
  case $platform in
    ubuntu2204) write /etc/apt/sources.list <<END
deb [signed-by=/srv/repos/key.gpg] file:/srv/repos/ubuntu2204-archive ./
END
      ;;
    ubuntu2404) write /etc/apt/sources.list.d/ubuntu.sources <<END
Types: deb
URIs: file:/srv/repos/ubuntu2404-archive
Suites: ./
Signed-By: /srv/repos/key.gpg
END
      ;;
  esac
  # What the archive's packages need of the rest of the distribution.
  write /etc/apt/sources.list.d/externals.sources <<END
Types: deb
URIs: file:/srv/repos/externals-deb
Suites: ./
Signed-By: /srv/repos/key.gpg
END
}

if [ "$kind" = imitation ]; then imitate; else install_ground; fi
case $platform in ubuntu*) sources ;; esac
: >/etc/machine-id
