#!/bin/sh
# A signed apt archive in /srv/archive with empty packages: make_archive.sh NAME=VERSION...
# lockstep-bystander 1.0 is installed first, so that there is something to upgrade.
set -eu
export LC_ALL=C DEBIAN_FRONTEND=noninteractive
make_deb() {
  folder=$(mktemp -d)
  mkdir -p "$folder/DEBIAN"
  printf 'Package: %s\nVersion: %s\nArchitecture: amd64\nMaintainer: nobody <nobody@example.invalid>\nDescription: empty\n' \
    "$1" "$2" >"$folder/DEBIAN/control"
  dpkg-deb -b "$folder" "$3/$1_$2.deb" >/dev/null
}
mkdir -p /srv/archive /srv/first
make_deb lockstep-bystander 1.0-1 /srv/first
dpkg -i /srv/first/lockstep-bystander_1.0-1.deb
for pair; do make_deb "${pair%=*}" "${pair#*=}" /srv/archive; done
cd /srv/archive
GNUPGHOME=$(mktemp -d)
export GNUPGHOME
gpg --batch --quiet --passphrase '' --quick-generate-key 'test archive <test@example.invalid>' rsa2048 sign never
gpg --batch --export >/srv/archive.gpg
apt-ftparchive packages . >Packages
apt-ftparchive -o APT::FTPArchive::Release::Origin=Test -o APT::FTPArchive::Release::Suite=stable release . >Release
gpg --batch --quiet --clearsign -o InRelease Release
printf 'Types: deb\nURIs: file:/srv/archive\nSuites: ./\nSigned-By: /srv/archive.gpg\n' >/etc/apt/sources.list.d/test.sources
apt-get -q update
