#!/usr/bin/env bash
# Print the image of a fresh node: tools/image.sh debian12|debian13. Made once, from the first of these that works:
# the one named in MOLECULE_IMAGE_<PLATFORM>, a pull, this machine's own Debian archive.
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
platform=${1:?debian12 or debian13}
case $platform in
  debian12) suite=bookworm ;;
  debian13) suite=trixie ;;
  *) die "no node image is known for '$platform': debian12 or debian13" ;;
esac
named=MOLECULE_IMAGE_${platform^^}
if [ -n "${!named:-}" ]; then echo "${!named}"; exit; fi
DOCKER_HOST=$(tools/engine.sh start)
export DOCKER_HOST

include=systemd,systemd-sysv,python3,dbus,sudo,ca-certificates
recipe=$(sha256sum tools/image.sh tools/apt_archive.py | sha256sum | cut -c 1-12)
image=lockstep-node/$platform:$recipe
docker image inspect "$image" >/dev/null 2>&1 && { echo "$image"; exit; }

# The distribution's own image, made bootable. Nothing is said when no registry answers: that is the usual case.
pull() {
  local base=debian:$suite name=lockstep-image-$platform
  timeout 30 docker pull -q "$base" >"$state/logs/pull-$platform.log" 2>&1 || return 1
  say "making the image of a fresh $platform node from $base"
  docker rm -f "$name" >/dev/null 2>&1 || true
  docker run -i --label lockstep.gpu.node --name "$name" --entrypoint /bin/sh "$base" -ec "
    if sources=\$(cat) && [ -n \"\$sources\" ]; then
      rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
      echo \"\$sources\" >/etc/apt/sources.list.d/debian.sources
    fi
    apt-get -q update && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends ${include//,/ }
    rm -rf /var/lib/apt/lists/* && : >/etc/machine-id" >"$state/logs/image-$platform.log" 2>&1 \
    < <(python3 tools/apt_archive.py "$suite" 2>/dev/null || true) || return 1
  docker commit -c 'ENTRYPOINT []' -c 'CMD ["/lib/systemd/systemd"]' "$name" "$image" >/dev/null
  docker rm -f "$name" >/dev/null
}

# shellcheck disable=SC2016  # mmdebstrap's shell expands $1
build() {
  local work=$state/image-$platform options=(--variant=minbase "--include=$include")
  apt_install mmdebstrap debian-archive-keyring
  mkdir -p "$work"
  python3 tools/apt_archive.py "$suite" >"$work/debian.sources" || die "the node image cannot be built: name one in $named"
  say "building the image of a fresh $platform node from this machine's archive (half a minute)"
  # The fresh node has component main only, as Debian's installer leaves it, and empty package lists.
  with_log "image-$platform" mmdebstrap "${options[@]}" \
    --customize-hook='rm -f "$1/etc/apt/sources.list" "$1"/etc/apt/sources.list.d/*' \
    --customize-hook="copy-in $work/debian.sources /etc/apt/sources.list.d/" \
    --customize-hook='rm -f "$1/etc/machine-id" && : > "$1/etc/machine-id"' \
    "$suite" "$work/root.tar" "$work/debian.sources"
  with_log "import-$platform" docker import -c 'CMD ["/lib/systemd/systemd"]' "$work/root.tar" "$image"
  rm -rf "$work"
}

pull || build
echo "$image"
