#!/usr/bin/env bash
# A disposable node: tools/node.sh up NAME PLATFORM | fresh NAME PLATFORM | down NAME | gpus NAME KIND.
# `up` leaves one that is there as it is, `fresh` replaces it, `gpus` gives it the PCI devices of a kind (tools/gpus.py).
# shellcheck source=tools/lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
verb=${1:?up, fresh, down or gpus} name=${2:?the name of the node} platform=${3:-}
case $name in lockstep-*) ;; *) die "the names of disposable nodes start with lockstep-, '$name' does not" ;; esac
DOCKER_HOST=$(tools/engine.sh start)
export DOCKER_HOST

# Packages that any node of a platform downloaded are there for the next one. Each node has a folder of its own
# (apt locks it), filled with hard links. Only a cache: what cannot be linked is downloaded.
share_debs() {
  local debs=$cache/debs/${platform%_*}
  local pool=$debs/pool
  mkdir -p "$pool" "$debs/$name" && chmod a+rX "$cache"
  find "$debs" -mindepth 2 -maxdepth 2 -name '*.deb' -not -path "$pool/*" -exec ln -f -t "$pool" {} + 2>/dev/null || true
  find "$pool" -name '*.deb' -exec ln -f -t "$debs/$name" {} + 2>/dev/null || true
}

has_stubs() { [ "$platform" != debian12 ] && [ "$platform" != debian13 ]; }

# What only some platforms get: downloads to share, the stub repositories.
volumes() {
  case $platform in
    debian*) share_debs; volume+=(-v "$cache/debs/${platform%_*}/$name:/var/cache/apt/archives") ;;
  esac
  ! has_stubs || { tools/stubs.sh >/dev/null; volume+=(-v "$state/stubs:/srv/stubs:ro"); }
}

# Every systemd wants several inotify instances of the kernel's one pool; with the usual 128 the tenth node hangs or dies.
inotify_room() {
  local file=/proc/sys/fs/inotify/max_user_instances least=1024
  [ "$(cat "$file" 2>/dev/null || echo "$least")" -lt "$least" ] || return 0
  if echo "$least" 2>/dev/null >"$file"; then say "raised fs.inotify.max_user_instances to $least until this machine restarts: every node needs some";
  else say "nodes may hang: fs.inotify.max_user_instances is $(cat "$file") on this machine, $least would do"; fi
}

create() {
  local image volume=()
  inotify_room
  image=$(tools/image.sh "$platform")
  volumes
  # What systemd needs inside, without --privileged. /sys/fs/cgroup as on the host: it may be version 1 or 2.
  with_log "node-$name" docker run -d --label lockstep.gpu.node --name "$name" --hostname "$name" --cgroupns=host \
    --cap-add SYS_ADMIN --cap-add NET_ADMIN --security-opt seccomp=unconfined --security-opt apparmor=unconfined \
    --tmpfs /run --tmpfs /run/lock --tmpfs /tmp:exec -v /sys/fs/cgroup:/sys/fs/cgroup:rw \
    "${volume[@]}" "$image"
}

# Some units cannot start in a container, so `degraded` is as good as `running`. Right after the start there is
# no bus to ask yet, hence the loop.
wait_for_boot() {
  local answer
  for _ in $(seq 60); do
    answer=$(docker exec "$name" timeout 60 systemctl is-system-running --wait 2>&1 || true)
    case $answer in running | degraded) return ;; esac
    sleep 0.5
  done
  die "systemd did not come up in $name: $answer"
}

up() {
  [ -n "$platform" ] || die "tools/node.sh up NAME PLATFORM"
  case $(docker inspect -f '{{.State.Running}}' "$name" 2>/dev/null) in
    true) ;;
    false) with_log "node-$name" docker start "$name" ;;
    *) say "creating the node $name ($platform)"; create ;;
  esac
  wait_for_boot
  case $platform in
    # Images made for containers throw downloads away.
    debian*) docker exec "$name" sh -c 'rm -f /etc/apt/apt.conf.d/docker-clean
      echo "Binary::apt::APT::Keep-Downloaded-Packages \"true\";" >/etc/apt/apt.conf.d/90lockstep-test-cache' ;;
  esac
  ! has_stubs || with_log "ground-$name" docker exec -i "$name" sh -s <tools/ground.sh
}

gpus() { docker exec -i "$name" python3 - "${platform:?the kind of node}" <tools/gpus.py; }

down() {
  ! docker inspect "$name" >/dev/null 2>&1 || with_log "node-$name" docker rm -f -v "$name"
}

fresh() { down; up; }

case $verb in
  up | fresh | down | gpus) "$verb" ;;
  *) die "tools/node.sh up|fresh|down|gpus, not '$verb'" ;;
esac
