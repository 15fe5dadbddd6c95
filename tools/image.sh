#!/usr/bin/env bash
# Print the image of a fresh node: tools/image.sh PLATFORM. Made once, from the first of these that works: the one named
# in MOLECULE_IMAGE_<PLATFORM>, a pull (Debian only), this machine's own Debian archive.
# Ubuntu and EL cannot be built from a Debian archive: without a named image they are imitations, and called so
# (docs/testing.md says what is true about them).
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
platform=${1:?a platform: debian12, debian13, ubuntu2204, ubuntu2404, debian12_nvidia, el9, el10}
vendor=yes suite=bookworm script=''
case $platform in
  debian12) vendor='' ;;
  debian13) vendor='' suite=trixie ;;
  ubuntu2204 | ubuntu2404 | debian12_nvidia) script=tools/imitate_apt.sh ;;
  el9 | el10) script=tools/imitate_el.sh ;;
  *) die "no node image is known for '$platform': debian12, debian13, ubuntu2204, ubuntu2404, debian12_nvidia, el9 or el10" ;;
esac
named=MOLECULE_IMAGE_${platform^^}
if [ -n "${!named:-}" ] && [ -z "$vendor" ]; then echo "${!named}"; exit; fi
DOCKER_HOST=$(tools/engine.sh start)
export DOCKER_HOST

include=systemd,systemd-sysv,python3,dbus,sudo,ca-certificates
# What a node with a driver has anyway, and what Ansible needs there. Of both package managers one is taken away again. No mokutil, as on cloud images.
ground=$include,python3-apt,gcc,make,libc6-dev,dkms,linux-headers-amd64,initramfs-tools,kmod,openssl,gpg,dnf,python3-dnf,dnf-plugins-core,rpm
recipe_of() { { echo "${!named:-}" && sha256sum tools/image.sh tools/apt_archive.py "$@"; } | sha256sum | cut -c 1-12; }
is_made() { docker image inspect "$1" >/dev/null 2>&1; }

# in_container NAME FROM TO LABEL COMMAND...: run a command in a container with standard input; what it leaves is the image.
in_container() {
  local name=$1 from=$2 to=$3 label=$4 log=$state/logs/$1.log
  shift 4
  docker rm -f "$name" >/dev/null 2>&1 || true
  docker run -i --label lockstep.gpu.node --name "$name" --entrypoint "" "$from" "$@" >"$log" 2>&1 || { tail -n 30 "$log" >&2; return 1; }
  docker commit -c 'ENTRYPOINT []' -c 'CMD ["/lib/systemd/systemd"]' -c "LABEL lockstep.gpu.image=\"$label\"" "$name" "$to" >/dev/null
  docker rm -f "$name" >/dev/null
}

# The distribution's own image, made bootable. Nothing is said when no registry answers: that is the usual case.
pull() {
  local base=debian:$suite
  timeout 30 docker pull -q "$base" >"$state/logs/pull-$platform.log" 2>&1 || return 1
  say "making the image of a fresh $platform node from $base"
  in_container "lockstep-image-$platform" "$base" "$1" "$base" /bin/sh -ec "
    if sources=\$(cat) && [ -n \"\$sources\" ]; then
      rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
      echo \"\$sources\" >/etc/apt/sources.list.d/debian.sources
    fi
    apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends ${2//,/ }
    rm -rf /var/lib/apt/lists/* && : >/etc/machine-id" \
    < <(python3 tools/apt_archive.py "$suite" 2>/dev/null || true)
}

# shellcheck disable=SC2016  # mmdebstrap's shell expands $1
build() {
  local work=$state/image-$platform options=(--variant=minbase "--include=$2")
  apt_install mmdebstrap debian-archive-keyring
  mkdir -p "$work"
  python3 tools/apt_archive.py "$suite" >"$work/debian.sources" || die "the node image cannot be built: name one in $named"
  say "building the image $1 from this machine's archive (half a minute)"
  # The fresh node has component main only, as Debian's installer leaves it, and empty package lists.
  with_log "image-$platform" mmdebstrap "${options[@]}" \
    --customize-hook='rm -f "$1/etc/apt/sources.list" "$1"/etc/apt/sources.list.d/*' \
    --customize-hook="copy-in $work/debian.sources /etc/apt/sources.list.d/" \
    --customize-hook='rm -f "$1/etc/machine-id" && : > "$1/etc/machine-id"' \
    "$suite" "$work/root.tar" "$work/debian.sources"
  with_log "import-$platform" docker import -c 'CMD ["/lib/systemd/systemd"]' "$work/root.tar" "$1"
  rm -rf "$work"
}

# made IMAGE PACKAGES: a Debian of the suite, from a registry or from the archive, unless it is there.
made() { is_made "$1" || pull "$1" "$2" || build "$1" "$2"; }

debian() {
  image=lockstep-node/$platform:$(recipe_of)
  made "$image" "$include"
}

# A true image gets what a node with a driver has, and the stub repositories as its only ones; all else is as it came.
true_image() {
  image=lockstep-node/$platform:$(recipe_of "$script")
  is_made "$image" && return
  say "preparing ${!named} as $platform"
  in_container "lockstep-image-$platform" "${!named}" "$image" "${!named}" /bin/sh -es true "$platform" <"$script"
}

imitation() {
  local base kind=imitation label="imitation of $platform on Debian 12"
  # This one is what it is called.
  [ "$platform" != debian12_nvidia ] || kind=node label="Debian 12"
  base=lockstep-node/base:$(recipe_of)
  image=lockstep-$kind/$platform:$(recipe_of "$script")
  is_made "$image" && return
  made "$base" "$ground"
  say "making the $kind $platform"
  in_container "lockstep-image-$platform" "$base" "$image" "$label" /bin/sh -es imitation "$platform" <"$script"
}

if [ -z "$vendor" ]; then debian; elif [ -n "${!named:-}" ]; then true_image; else imitation; fi
echo "$image"
